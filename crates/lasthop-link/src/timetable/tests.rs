use lasthop_core::{Direction, Ecn, Faults};
use proptest::prelude::*;

use super::*;
use crate::config::{BufferRelease, CourseConfig, Framing, LinkChange, PathConfig};
use crate::testing::{Lab, SEED, at_us, drop_tail, ms, studied_path};

fn table(text: &str) -> Timetable {
    Timetable::parse(text).unwrap()
}

/// A path that follows a table, for packets of up to 1500 bytes.
fn path(text: &str) -> PathConfig {
    let mut path = PathConfig { queue: drop_tail(100), ..studied_path() };
    path.link.course = Some(CourseConfig::Table(table(text)));
    path.link.delay = Duration::from_millis(10);
    path.link.overhead = lasthop_core::Distribution::Static(Duration::ZERO);
    path.link.release = BufferRelease::Serialised;
    path
}

/// This number of packets of 1000 bytes arrive at the start. Returns the times of their delivery, in ms.
fn run(path: &PathConfig, packets: u32) -> Vec<u64> {
    let mut lab = Lab::with(path, None, Direction::Down, SEED);
    (0..packets).for_each(|_| lab.send(ms(0), 1_000, Ecn::NotEct));
    lab.run();
    lab.delivered().into_iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect()
}

#[test]
fn each_line_holds_from_its_time_on() {
    // A packet takes 10 ms, then 20 ms: half of the third packet is left when the rate halves.
    let path = path("time_s,rate_bps\n0,800000\n0.025,400000\n");
    assert_eq!(run(&path, 4), [20, 30, 45, 65]);
}

#[test]
fn a_rate_of_zero_is_an_outage() {
    // Half of the second packet waits for the link to come back.
    let stopped = path("time_s,rate_bps\n0,800000\n0.015,0\n1,800000\n");
    assert_eq!(run(&stopped, 3), [20, 1_015, 1_025]);
    assert_eq!(stopped.ip_rates(1_000).iter().map(|each| each.1).collect::<Vec<_>>(), [8e5, 0.0, 8e5]);
    let late = path("time_s,rate_bps\n0,0\n0.1,0\n0.2,800000\n");
    assert_eq!(run(&late, 2), [220, 230]);
}

#[test]
fn the_delay_is_that_of_the_line_and_lets_none_overtake() {
    let path = path("time_s,rate_bps,delay_s\n0,800000,0.1\n0.015,800000,0.02\n0.035,800000,0.2\n");
    assert_eq!(run(&path, 4), [110, 110, 110, 240]);
}

#[test]
fn each_line_has_its_own_loss() {
    let path = path("time_s,rate_bps,delay_s,loss\n0,800000,0,0\n0.095,800000,0,1\n0.195,800000,0,0\n");
    // Ten packets are lost, those whose transmission ends from 100 ms to 190 ms.
    let arrived: Vec<u64> = (1..10).chain(20..=30).map(|packet| packet * 10).collect();
    assert_eq!(run(&path, 30), arrived);
    let always = path_with_loss("0.25");
    let lost = 20_000 - run(&always, 20_000).len();
    assert!((4_750..5_250).contains(&lost), "{lost} of 20000 is not a quarter");
}

/// 0.05 % of the bits make 1 - 0.9995^8000 = 98 % of the packets of 1000 bytes.
#[test]
fn each_line_may_say_how_many_bits_are_wrong() {
    let path = path(
        "time_s,rate_bps,delay_s,bit_error_rate\n0,800000,0,0\n0.095,800000,0,0.0005\n0.195,800000,0,0\n",
    );
    let arrived = run(&path, 30);
    assert_eq!(arrived.iter().filter(|at| **at < 95 || **at > 195).count(), 9 + 11);
    assert!(arrived.len() < 23, "{arrived:?}");
}

fn path_with_loss(loss: &str) -> PathConfig {
    let mut path = path(&format!("time_s,rate_bps,delay_s,loss\n0,800000,0,{loss}\n"));
    path.queue = drop_tail(20_000);
    path
}

#[test]
fn changes_say_the_same_as_a_table() {
    let by_table = path("time_s,rate_bps,delay_s\n0,800000,0.1\n0.033,100000,0.02\n0.2,300000,0.3\n");
    let mut by_changes = by_table.clone();
    let course = by_changes.link.course.take().unwrap();
    let rows = course.table().unwrap();
    by_changes.link.rate = rows.rows()[0].rate.unwrap();
    by_changes.link.delay = rows.rows()[0].delay.unwrap();
    let change = |row: &Row| LinkChange { at: row.at, rate: row.rate, delay: row.delay };
    by_changes.link.change = rows.rows()[1..].iter().map(change).collect();
    assert_eq!(run(&by_table, 40), run(&by_changes, 40));
}

#[test]
fn framing_takes_its_share_of_the_rate() {
    let time = |framing| {
        let mut path = path("time_s,rate_bps\n0,800000\n");
        path.link.framing = framing;
        let mut lab = Lab::with(&path, None, Direction::Down, SEED);
        lab.send(ms(0), 1_000, Ecn::NotEct);
        lab.run();
        (lab.delivered()[0].0, path.ip_rates(1_000)[0].1)
    };
    assert_eq!(time(None), (at_us(20_000), 800_000.0));
    let framing: Framing = "40 B".parse().unwrap();
    assert_eq!(time(Some(framing)), (at_us(20_400), 800_000.0 * 1_000.0 / 1_040.0));
    // 1016 bytes are 21 cells and 8 bytes: 22 cells of 53 bytes.
    assert_eq!(time(Some(Framing::Atm)), (at_us(21_660), 800_000.0 * 1_000.0 / 1_166.0));
}

#[test]
fn a_packet_fills_whole_cells() {
    // As `tc qdisc add ... stab overhead 16 linklayer atm`: an ACK of 40 bytes takes two cells, one of 32
    // bytes one.
    let cells = |ip_bytes| Framing::Atm.bytes(ip_bytes) / 53;
    assert_eq!([32, 33, 40, 80, 81, 1_500].map(cells), [1, 2, 2, 2, 3, 32]);
}

#[test]
fn the_mean_rate_is_that_of_the_time_up_to_the_last_line() {
    assert_eq!(table("time_s,rate_bps\n0,7").mean_rate().bits_per_second(), 7);
    assert_eq!(table("time_s,rate_bps\n0,100\n1,400\n3,7").mean_rate().bits_per_second(), 300);
    assert_eq!(table("time_s,rate_bps\n0,0\n3,7").mean_rate().bits_per_second(), 7);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let error = |text: &str| Timetable::parse(text).unwrap_err().to_string();
    for (text, line, words) in [
        ("", 1, "the header is \"\"; write \"time_s,rate_bps[,delay_s[,loss]]\""),
        ("0,1000\n1,2000", 1, "the header is \"0,1000\""),
        ("time,rate_bps\n0,1", 1, "the header is"),
        ("time_s,rate_bps,loss\n0,1,0", 1, "the header is"),
        ("time_s,rate_bps,delay_s,bit_error_rate,loss\n0,1,0,0,0", 1, "the header is"),
        ("time_s,rate_bps,delay_s,bit_error_rate\n0,1,0,2", 2, "bit_error_rate: 2 is not a probability"),
        ("time_s,rate_bps", 1, "stays down at the end"),
        ("time_s,rate_bps\n0,1\n1", 3, "\"1\" has 1 values; write 2"),
        ("time_s,rate_bps\n0,1\n\n1,2", 3, "\"\" has 1 values"),
        ("time_s,rate_bps\n1,1", 2, "write time_s = 0"),
        ("time_s,rate_bps\n0,1\n2,1\n1.5,1", 4, "1.5 s is not after 2 s"),
        ("time_s,rate_bps\n0,1\n0,1", 3, "0 s is not after 0 s"),
        ("time_s,rate_bps\n0,1 Mbit/s", 2, "rate_bps: \"1 Mbit/s\" is not a number"),
        ("time_s,rate_bps\n0,-1", 2, "rate_bps: \"-1\" is not a number"),
        ("time_s,rate_bps\n0,nan", 2, "rate_bps: \"nan\" is not a number"),
        ("time_s,rate_bps\n0,1.5", 2, "the smallest unit is a bit per second"),
        ("time_s,rate_bps\n0,99999999999999", 2, "is more than \"1000 Gbit/s\""),
        ("time_s,rate_bps\n0 s,1", 2, "time_s: \"0 s\" is not a number"),
        ("time_s,rate_bps\n0,1\n9999999999,1", 3, "time_s: \"9999999999 s\" is too large"),
        ("time_s,rate_bps,delay_s\n0,1,10ms", 2, "delay_s: \"10ms\" is not a number"),
        ("time_s,rate_bps,delay_s,loss\n0,1,0,1.1", 2, "loss: 1.1 is not a probability"),
        ("time_s,rate_bps\n0,1\n1,0", 3, "stays down at the end"),
    ] {
        let message = error(text);
        assert!(
            message.starts_with(&format!("line {line}: ")) && message.contains(words),
            "{text:?}: {message}"
        );
    }
}

#[test]
fn what_excludes_a_table_is_refused() {
    let key = |change: fn(&mut PathConfig)| {
        let mut path = path("time_s,rate_bps,delay_s,loss\n0,800000,0,0\n");
        change(&mut path);
        let faults = Faults::collect(|faults| path.check(lasthop_core::Bytes(1_000), faults));
        faults.into_iter().map(|fault| fault.key).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(key(|_| {}), "");
    assert_eq!(key(|path| path.link.trace = Some(crate::Schedule::parse("1").unwrap())), "link.course");
    assert_eq!(key(|path| path.link.loss = Some(Probability::ONE)), "link.course");
    assert_eq!(key(|path| path.link.bit_error_rate = Some(Probability::ONE)), "link.course");
    let change = LinkChange { at: Duration::ZERO, rate: None, delay: Some(Duration::ZERO) };
    let mut both = path("time_s,rate_bps\n0,1\n");
    both.link.change = vec![change];
    let faults = Faults::collect(|faults| both.check(lasthop_core::Bytes(1_000), faults));
    assert_eq!(faults[0].key, "link.change");
    assert_eq!(key(|path| path.link.framing = Some("2 kB".parse().unwrap())), "link.framing");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_line_that_it_has(
        text in "\\PC*|(time_s,rate_bps(,delay_s(,loss|,bit_error_rate)?)?\n)?([0-9.,e-]{0,12}\n)*",
    ) {
        match Timetable::parse(&text) {
            Ok(table) => prop_assert_eq!(Timetable::parse(&table.to_string()), Ok(table)),
            Err(error) => prop_assert!((1..=text.lines().count().max(1)).contains(&error.line)),
        }
    }

    #[test]
    fn a_table_is_read_as_it_was_written(
        steps in prop::collection::vec(
            (1..10_000_000_000_u64, 0..1_000_000_000_u64, 0..2_000_000_000_u64, 0.0..=1.0), 1..30
        ),
        columns in 2..=5_usize,
    ) {
        let mut at = 0;
        let mut rows: Vec<Row> = steps.into_iter().map(|(nanos, rate, delay, loss)| {
            at += nanos;
            Row {
                at: Duration::from_nanos(at),
                rate: (rate > 0).then(|| Rate::from_bits_per_second(rate)),
                delay: (columns > 2).then_some(Duration::from_nanos(delay)),
                loss: (columns == 4).then(|| Probability::new(loss).unwrap()),
                bit_error_rate: (columns > 4).then(|| Probability::new(loss).unwrap()),
            }
        }).collect();
        rows[0].at = Duration::ZERO;
        rows.last_mut().unwrap().rate = Some(Rate::from_bits_per_second(1));
        let table = Timetable { rows: rows.into() };
        prop_assert_eq!(Timetable::parse(&table.to_string()), Ok(table));
    }
}
