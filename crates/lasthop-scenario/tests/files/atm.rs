//! The ATM switch in place of a last hop, and levels that depend on levels of other factors.

use lasthop_scenario::Study;

const SWITCH: &str = r#"name = "cells"
title = "Cells"
seed = 1
replications = 1
time_limit = "1 s"
tcp.profile = "ns-1998"

[atm]
access_rate = "150 Mbit/s"
access_delay = "5 us"
rate = "45 Mbit/s"
threshold = 0.8
overhead = "16 B"
discard = { policy = "early-packet" }

[[flow]]
kind = "bulk-tcp"
name = "tcp"
bytes = "100 kB"
start = "0 s"

[factor.path.near]
mtu = "1064 B"
atm.delay = "5 ms"

[factor.path.far]
mtu = "9220 B"
atm.delay = "275 ms"

[factor.buffer.small.when.path]
near.atm.buffer_cells = 531
far.atm.buffer_cells = 29190

[factor.buffer.large]
atm.buffer_cells = 2300

[factor.buffer.large.when.path.far]
atm.buffer_cells = 116760
"#;

fn error(text: &str) -> String {
    Study::from_str(text, "cells.toml").expect_err("accepted").to_string()
}

#[test]
fn a_level_may_say_more_beside_a_level_of_another_factor() {
    let study = Study::from_str(SWITCH, "cells.toml").unwrap_or_else(|error| panic!("{error}"));
    let buffers: Vec<_> = study
        .cells
        .iter()
        .map(|cell| {
            let atm = cell.scenario.atm.as_ref().expect("a switch");
            (cell.key(), atm.buffer_cells)
        })
        .collect();
    let expected = [
        ("path=near,buffer=small", 531),
        ("path=near,buffer=large", 2300),
        ("path=far,buffer=small", 29_190),
        ("path=far,buffer=large", 116_760),
    ];
    assert_eq!(buffers, expected.map(|(key, cells)| (key.to_owned(), cells)));
}

#[test]
fn when_names_levels_of_other_factors() {
    for (written, parts) in [
        ("small.when.paths]", ["cells.toml:30", "no other factor `paths`; did you mean `path`?"]),
        ("small.when.buffer]", ["cells.toml:30", "no other factor `buffer`"]),
    ] {
        let error = error(&SWITCH.replace("small.when.path]", written));
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let error = error(&SWITCH.replace("near.atm.buffer_cells = 531", "nearby.atm.buffer_cells = 531"));
    assert!(error.contains("cells.toml:31") && error.contains("did you mean `near`?"), "{error}");
}

#[test]
fn what_a_level_adds_is_held_against_the_other_levels() {
    let error = error(&SWITCH.replace("near.atm.buffer_cells = 531", "near.mtu = \"576 B\""));
    assert!(error.contains("cells.toml:31") && error.contains("set it in one factor only"), "{error}");
}

#[test]
fn a_scenario_has_a_last_hop_or_a_switch() {
    let lan = "[lan]\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n\n[atm]";
    let both = error(&SWITCH.replace("[atm]", lan));
    assert!(both.contains("cells.toml:8") && both.contains("leave out [lan] or [atm]"), "{both}");
    let (head, rest) = SWITCH.split_once("[atm]").unwrap();
    let (_, tail) = rest.split_once("[[flow]]").unwrap();
    let tail = tail.replace("atm.delay", "#").replace("atm.buffer_cells", "#");
    let tail = tail.replace("near.#", "#").replace("far.#", "#");
    let neither = error(&format!("{head}[[flow]]{tail}"));
    assert!(neither.contains("`down`: is missing") && neither.contains("[down.link]"), "{neither}");
}

#[test]
fn a_switch_that_no_packet_fits() {
    let small = error(&SWITCH.replace("far.atm.buffer_cells = 29190", "far.atm.buffer_cells = 192"));
    assert!(small.contains("cells.toml:32") && small.contains("`atm.buffer_cells`"), "{small}");
    assert!(small.contains("which has 193"), "{small}");
}

#[test]
fn short_flows_have_no_access_link() {
    let short = "[[flow]]\nkind = \"short-flows\"\nname = \"short\"\npackets = 9\nrequest = \"200 B\"\n\
        start = \"0 s\"\narrivals = { model = \"poisson\", load = 0.5 }\n\
        hosts = [{ name = \"iw3\", initial_window = 3, receive_window_initial = 4 }]\n";
    let error = error(&format!("{SWITCH}{short}"));
    assert!(error.contains("`flow[1].kind`") && error.contains("leave out [atm]"), "{error}");
}
