//! Recordings of links and of traffic, in files beside the scenario.

use lasthop_core::{Direction, Duration, QueueSize, Rate};
use lasthop_link::{CourseConfig, Schedule, Timetable};
use lasthop_scenario::{Scenario, Study};

use crate::extends::Folder;
use crate::support::SHORT;

/// A scenario of a link with a trace in place of a rate.
fn traced(trace: &str) -> String {
    SHORT.replace("rate = \"1 Mbit/s\"", &format!("trace = \"{trace}\""))
}

#[test]
fn a_trace_is_read_from_the_folder_of_the_file_that_names_it() {
    let over = "extends = \"base/link.toml\"\n[up.link]\ntrace = \"up.trace\"\n";
    let files = [
        ("over.toml", over),
        ("up.trace", "20\n"),
        ("base/link.toml", &traced("traces/down.trace")),
        ("base/traces/down.trace", "5\n10\n"),
    ];
    let folder = Folder::with("traces", &files);
    let study = folder.read("over.toml");
    let scenario = &study.cells[0].scenario;
    let (down, up) = (&scenario.down.as_ref().unwrap().link, &scenario.up.as_ref().unwrap().link);
    assert_eq!(down.trace, Some(Schedule::parse("5\n10").unwrap()));
    assert_eq!(up.trace, Some(Schedule::parse("20").unwrap()));
    assert_eq!([down.rate, up.rate], [2_400_000, 600_000].map(Rate::from_bits_per_second));
    let assumed = &study.cells[0].assumed;
    assert!(assumed.iter().any(|each| each.key == "down.link.rate" && each.why == "the mean of the trace"));
    // The complete scenario contains the trace itself.
    let json = serde_json::to_string(scenario).unwrap();
    assert_eq!(&serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
}

#[test]
fn a_level_may_lay_a_trace_over_a_rate_which_then_only_names_the_link() {
    let text = format!("{SHORT}[factor.link]\nsteady = {{}}\nmobile.down.link.trace = \"a.trace\"\n");
    let folder = Folder::with("trace-levels", &[("a.toml", &text), ("a.trace", "7\n")]);
    let study = folder.read("a.toml");
    let links = study.cells.iter().map(|cell| &cell.scenario.down.as_ref().unwrap().link);
    let told: Vec<_> = links.map(|link| (link.trace.is_some(), link.rate.bits_per_second())).collect();
    assert_eq!(told, [(false, 1_000_000), (true, 1_000_000)]);
}

#[test]
fn what_is_wrong_with_a_trace_is_told_once_with_the_place_in_the_scenario() {
    let files = [("a.toml", &*traced("a.trace")), ("b.toml", &traced("b.trace")), ("a.trace", "5\n4\n")];
    let folder = Folder::with("bad-traces", &files);
    let error = folder.error("a.toml");
    assert!(error.line.is_some() && error.message.contains("a.trace: line 2: 4 comes after 5"), "{error}");
    let error = folder.error("b.toml");
    assert!(
        error.message.contains("no such file; did you mean") && error.message.contains("a.trace"),
        "{error}"
    );
    let changing =
        traced("a.trace").replace("delay", "change = [{ at = \"1 s\", rate = \"1 Mbit/s\" }]\ndelay");
    let folder = Folder::with("changing-trace", &[("a.toml", &changing), ("a.trace", "5\n")]);
    assert!(folder.error("a.toml").message.contains("the link follows its trace"));
    assert!(Study::from_str(&traced("nowhere.trace"), "text").is_err());
}

/// A scenario of a link with a course in place of rate and delay.
fn with_course(name: &str) -> String {
    let short = SHORT.replace("rate = \"1 Mbit/s\"", &format!("course = \"{name}\""));
    short.lines().filter(|line| !line.starts_with("delay")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_course_gives_what_the_link_does_not_state() {
    let csv = "time_s,rate_bps,delay_s\n0,4000000,0.030\n1,0,0.03\n2,8000000,0.05\n";
    let folder = Folder::with("course", &[("a.toml", &with_course("a.csv")), ("a.csv", csv)]);
    let study = folder.read("a.toml");
    let scenario = &study.cells[0].scenario;
    let link = &scenario.down.as_ref().unwrap().link;
    assert_eq!(link.course, Some(CourseConfig::Table(Timetable::parse(csv).unwrap())));
    assert_eq!((link.rate.bits_per_second(), link.delay), (2_000_000, Duration::from_millis(30)));
    let assumed = |key: &str| study.cells[0].assumed.iter().find(|each| each.key == key).unwrap();
    assert_eq!(assumed("down.link.rate").why, "the mean of the course");
    assert_eq!(assumed("down.link.delay").why, "the first delay of the course");
    // 2 Mbit/s in 60 ms are 10 packets of 1500 bytes.
    assert_eq!(assumed("down.queue.limit").value, "10 packets");
    let rates: Vec<f64> = scenario.rates(Direction::Down).into_iter().map(|(_, rate)| rate).collect();
    assert_eq!(rates, [4e6, 0.0, 8e6]);
    let json = serde_json::to_string(scenario).unwrap();
    assert_eq!(&serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
}

#[test]
fn a_level_may_lay_a_course_over_a_link() {
    let text = format!("{SHORT}[factor.link]\nsteady = {{}}\nmobile.down.link.course = \"a.csv\"\n");
    let folder = Folder::with("course-levels", &[("a.toml", &text), ("a.csv", "time_s,rate_bps\n0,7000\n")]);
    let study = folder.read("a.toml");
    let links = study.cells.iter().map(|cell| &cell.scenario.down.as_ref().unwrap().link);
    assert_eq!(links.map(|link| link.course.is_some()).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn what_is_wrong_with_a_course_is_told_with_file_and_line() {
    let files = [("a.toml", &*with_course("a.csv")), ("a.csv", "time_s,rate_bps\n0,1000\n1,2 Mbit/s\n")];
    let error = Folder::with("bad-course", &files).error("a.toml");
    assert!(
        error.line.is_some()
            && error.message.contains("a.csv: line 3: rate_bps: \"2 Mbit/s\" is not a number")
    );
    let both = with_course("a.csv").replace("course", "trace = \"a.trace\"\ncourse");
    let files = [("a.toml", &*both), ("a.csv", "time_s,rate_bps,delay_s\n0,1000,0\n"), ("a.trace", "5\n")];
    let error = Folder::with("course-and-trace", &files).error("a.toml");
    assert!(error.message.contains("the link follows its trace; leave out one of the two"), "{error}");
}

#[test]
fn framing_makes_the_default_queue_hold_fewer_packets() {
    let limit = |framing: &str| {
        let text = SHORT.replace("rate = \"1 Mbit/s\"", &format!("rate = \"10 Mbit/s\"\n{framing}"));
        let study = Study::from_str(&text, "text").unwrap();
        study.cells[0].scenario.down.as_ref().unwrap().queue.limit
    };
    let round_trip_packets = |bytes: u32| {
        let study = Study::from_str(&SHORT.replace("1 Mbit/s", "10 Mbit/s"), "text").unwrap();
        let delay = study.cells[0].scenario.down.as_ref().unwrap().link.delay;
        QueueSize::Packets((2.0 * delay.as_secs_f64() * 10e6 / f64::from(8 * bytes)).ceil() as u32)
    };
    assert_eq!(limit(""), round_trip_packets(1_500));
    assert_eq!(limit("framing = \"40 B\""), round_trip_packets(1_540));
    // 1516 bytes fill 32 cells.
    assert_eq!(limit("framing = \"atm\""), round_trip_packets(32 * 53));
    let error =
        Study::from_str(&SHORT.replace("delay =", "framing = \"atm-48\"\ndelay ="), "text").unwrap_err();
    assert!(error.to_string().contains("or write \"atm\""), "{error}");
}

/// A scenario with a flow that replays a file.
fn replaying(name: &str) -> String {
    let (link, _) = SHORT.split_once("[[flow]]").unwrap();
    format!("{link}[[flow]]\nkind = \"replay\"\nfile = \"{name}\"\n")
}

#[test]
fn a_recording_becomes_part_of_the_scenario() {
    let csv = "time_s,bytes\n0.01,172\n0.03,60\n";
    let folder = Folder::with("replay", &[("a.toml", &replaying("a.csv")), ("a.csv", csv)]);
    let study = folder.read("a.toml");
    let scenario = &study.cells[0].scenario;
    let traffic = scenario.flow[0].traffic();
    assert_eq!((traffic.stream_bytes(), traffic.latest_begin()), (Some(232), Duration::from_millis(30)));
    let json = serde_json::to_string(scenario).unwrap();
    assert_eq!(&serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
}

#[test]
fn what_is_wrong_with_a_recording_is_told_with_the_place_in_the_scenario() {
    let error = |csv: &str| {
        let folder = Folder::with("bad-replay", &[("a.toml", &replaying("a.csv")), ("a.csv", csv)]);
        folder.error("a.toml")
    };
    let unsorted = error("time_s,bytes\n1,172\n0,172\n");
    assert!(
        unsorted.line.is_some() && unsorted.message.contains("a.csv: line 3: the time is before"),
        "{unsorted}"
    );
    // A truncated capture, and an empty one.
    let cut = error("\n\r\r\n1234");
    assert!(cut.message.contains("`file`") && cut.message.contains("a.csv: "), "{cut}");
    let large = error("time_s,bytes\n0,2000\n");
    assert!(large.message.contains("packet 1 has 2000 bytes of payload"), "{large}");
}
