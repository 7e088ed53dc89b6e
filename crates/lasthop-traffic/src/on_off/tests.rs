use lasthop_core::Seed;
use proptest::prelude::*;

use super::*;

fn config(keys: &str) -> OnOffConfig {
    let text = format!("name = \"source\"\nstart = \"0 s\"\nrate = \"80 kbit/s\"\n{keys}");
    toml::from_str(&text).expect("a configuration")
}

/// The departure times of a source's datagrams, in ms, and whether the source reports its end.
fn departures(config: &OnOffConfig, study: u64) -> (Vec<u64>, bool) {
    let stream = Seed { study, replication: 1 }.stream("on-off.source");
    let start = Instant::ZERO + Duration::from_millis(10);
    let mut source = OnOff::new(config, start, Host::Server, stream);
    let (mut departures, mut complete) = (Vec::new(), false);
    while let Some(due) = source.next_wakeup() {
        source.handle_wakeup(due);
        while let Some(action) = source.poll_action() {
            assert!(!complete, "nothing comes behind the end");
            match action {
                Action::Write { flow: 0, host: Host::Server, bytes, write_bytes, .. } => {
                    assert_eq!((bytes, write_bytes), (config.payload.0, config.payload.0));
                    departures.push(due.as_nanos() / 1_000_000);
                }
                Action::Complete { flow: 0 } => complete = true,
                other => panic!("not a datagram: {other:?}"),
            }
        }
    }
    (departures, complete)
}

/// 1000 bytes at 80 kbit/s are a datagram every 100 ms.
#[test]
fn it_sends_at_its_rate_and_is_silent_between() {
    let source = config("on = \"250 ms\"\noff = \"1 s\"\nduration = \"3 s\"");
    let (times, complete) = departures(&source, 1);
    assert_eq!(times, [10, 110, 210, 1260, 1360, 1460, 2510, 2610, 2710]);
    assert!(complete);
}

#[test]
fn the_end_cuts_a_burst_short_and_a_datagram_due_then_is_not_sent() {
    let source = config("on = \"10 s\"\noff = \"1 s\"\nduration = \"300 ms\"");
    assert_eq!(departures(&source, 1), (vec![10, 110, 210], true));
}

#[test]
fn a_burst_shorter_than_the_interval_is_one_datagram_and_one_of_no_length_none() {
    let lengths = "on = { distribution = \"sequence\", values = [\"1 ms\", \"0 s\"] }\noff = \"500 ms\"";
    let source = config(&format!("{lengths}\nduration = \"2500 ms\""));
    assert_eq!(departures(&source, 1), (vec![10, 1011, 2012], true));
}

#[test]
fn what_cannot_be_is_said_with_its_key() {
    let faults = |keys: &str| {
        let source = config(keys);
        let faults = Faults::collect(|faults| source.check(Bytes(576), faults));
        faults.into_iter().map(|fault| fault.key).collect::<Vec<_>>()
    };
    assert_eq!(faults("on = \"0 s\"\noff = \"1 s\"\npayload = \"500 B\""), ["on"]);
    assert_eq!(faults("on = \"1 s\"\noff = \"1 s\""), ["payload"], "1000 bytes do not fit 576");
}

proptest! {
    /// For random periods, the source keeps within its duration and reports its end, and the same seed gives
    /// the same draws.
    #[test]
    fn it_comes_to_an_end(
        study in any::<u64>(), on in 1..2_000_u64, off in 0..2_000_u64, seconds in 1..60_u64,
    ) {
        let source = config(&format!(
            "on = {{ distribution = \"exponential\", mean = \"{on} ms\" }}\n\
             off = {{ distribution = \"uniform\", min = \"0 s\", max = \"{off} ms\" }}\n\
             duration = \"{seconds} s\""
        ));
        let (times, complete) = departures(&source, study);
        prop_assert!(complete && times.iter().all(|at| *at < 10 + 1000 * seconds));
        prop_assert_eq!(departures(&source, study).0, times);
    }

    /// Without silence, bursts of whole intervals are a constant stream.
    #[test]
    fn without_silence_it_is_constant(burst in 1..20_u64, seconds in 1..30_u64) {
        let text = format!("on = \"{} ms\"\noff = \"0 s\"\nduration = \"{seconds} s\"", 100 * burst);
        let source = config(&text);
        let constant: Vec<u64> = (0..10 * seconds).map(|number| 10 + 100 * number).collect();
        prop_assert_eq!(departures(&source, 1).0, constant);
    }
}
