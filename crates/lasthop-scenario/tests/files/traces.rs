//! Links that follow a recorded trace, which is a file beside the scenario.

use lasthop_core::Rate;
use lasthop_link::Schedule;
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
    // The whole scenario carries the trace itself.
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
