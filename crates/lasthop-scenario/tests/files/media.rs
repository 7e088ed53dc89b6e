//! Hops with a medium: what they need, and what cannot be.

use crate::support::{errors, read};

const AIR: &str = r#"
[hop.air]
medium = { kind = "wifi", standard = "a" }

[host.laptop]
behind = "air"
wifi = { rate = "6 Mbit/s" }

[host.tv]
behind = "air"

[[flow]]
kind = "bulk-tcp"
name = "photos"
host = "tv"
bytes = "1 MB"
"#;

#[test]
fn the_stations_of_a_medium_are_the_hosts_behind_it_and_its_rate_is_that_of_the_fastest() {
    let scenario = read(AIR).cells.remove(0).scenario;
    assert_eq!(scenario.stations("air").collect::<Vec<_>>(), ["laptop", "tv"]);
    let tree = scenario.tree();
    let rates = tree.places().map(|place| scenario.side(&tree, place).ip_rates(1500)[0].1);
    assert_eq!(rates.collect::<Vec<_>>(), [54e6, 54e6]);
    // 60 s, and ten times 1 MB at 6 Mbit/s.
    assert_eq!(scenario.time_limit.to_string(), "74 s");
}

#[test]
fn a_medium_takes_the_place_of_links_and_has_hosts_as_stations() {
    let air = |from: &str, to: &str| AIR.replace(from, to);
    for (text, wanted) in [
        (
            air("[hop.air]", "[hop.air]\ndown.link = { rate = \"1 Mbit/s\", delay = \"1 ms\" }"),
            "`hop.air.down`: applies to a link, but the hop has a medium",
        ),
        (air("medium = { kind = \"wifi\", standard = \"a\" }", ""), "`hop.air.down`: is missing"),
        (air("kind = \"wifi\"", "kind = \"wify\""), "unknown value \"wify\""),
        (air("standard = \"a\"", "standard = \"ad\""), "unknown value \"ad\""),
        (air("standard = \"a\"", "standard = \"a\", max_mpdus = 2"), "applies to n, ac and ax"),
        (air("standard = \"a\"", "standard = \"ax\", max_mpdus = 65"), "write from 1 to 64"),
        (air("standard = \"a\"", "standart = \"a\""), "did you mean `standard`"),
        (
            air(
                "[host.tv]\nbehind = \"air\"",
                "[hop.far]\nbehind = \"air\"\nmedium.kind = \"wifi\"\n[host.tv]",
            ),
            "`hop.far.behind`: is a hop with a medium",
        ),
        (
            air("[host.laptop]\nbehind = \"air\"", "[host.laptop]"),
            "`host.laptop.wifi`: the host is not behind a hop",
        ),
        (air("rate = \"6 Mbit/s\"", "error = \"99 %\""), "`host.laptop.wifi.error`"),
        (
            air("host = \"tv\"", "host = \"tv\"\npeer = \"laptop\""),
            "`flow[0].peer`: both hosts are stations of \"air\"",
        ),
    ] {
        let errors: Vec<String> = errors(&text).iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error.contains(wanted)), "wanted {wanted:?}, got {errors:#?}");
    }
}

const CELL: &str = r#"
[hop.mast.medium]
kind = "cell"
scheduler = "round-robin"
delay = "20 ms"
harq.error = "10 %"
drx = { on = "4 ms", inactivity = "10 ms", cycle = "40 ms" }

[host.phone]
behind = "mast"
cell = { rate = "6 Mbit/s", up.rate = "2 Mbit/s" }

[host.tablet]
behind = "mast"
cell.rate = "10 Mbit/s"

[[flow]]
kind = "bulk-tcp"
name = "photos"
host = "tablet"
bytes = "1 MB"
"#;

#[test]
fn a_cell_has_a_rate_in_each_direction_and_a_delay() {
    let scenario = read(CELL).cells.remove(0).scenario;
    let tree = scenario.tree();
    let rates = tree.places().map(|place| scenario.side(&tree, place).ip_rates(1500)[0].1);
    // The tablet's way up is as fast as its way down.
    assert_eq!(rates.collect::<Vec<_>>(), [10e6, 10e6]);
    assert!(tree.places().all(|place| scenario.side(&tree, place).delay().to_string() == "20 ms"));
    // 60 s, and ten times 1 MB at 2 Mbit/s.
    assert_eq!(scenario.time_limit.to_string(), "100 s");
}

#[test]
fn a_cell_needs_users_with_rates_and_whole_slots() {
    let cell = |from: &str, to: &str| {
        assert!(CELL.contains(from));
        CELL.replace(from, to)
    };
    for (text, wanted) in [
        (cell("cell.rate = \"10 Mbit/s\"", ""), "`host.tablet.cell`: is missing; add for example cell.rate"),
        (cell("cell = { rate = \"6 Mbit/s\", ", "cell = { "), "`host.phone.cell.rate`: is missing"),
        (cell("up.rate = \"2 Mbit/s\"", "up = {}"), "`host.phone.cell.up.rate`: is missing"),
        (
            cell("cell.rate = \"10 Mbit/s\"", "cell.rate = \"1 bit/s\""),
            "write from \"1 kbit/s\" to \"20 Gbit/s\"",
        ),
        (cell("cell.rate = \"10", "wifi.rate = \"10"), "`host.tablet.wifi`: the host is not behind a hop"),
        (
            cell("kind = \"cell\"", "kind = \"cell\"\nwindow = \"1 s\""),
            "applies to scheduler = \"proportional-fair\"",
        ),
        (cell("scheduler = \"round-robin\"", "scheduler = \"round\""), "unknown value \"round\""),
        (cell("kind = \"cell\"", "kind = \"cell\"\ntti = \"1 s\""), "`hop.mast.medium.tti`"),
        (
            cell("on = \"4 ms\"", "on = \"4.5 ms\""),
            "`hop.mast.medium.drx.on`: is not a multiple of the tti, 1 ms",
        ),
        (cell("on = \"4 ms\"", "on = \"41 ms\""), "write from \"1 ms\" to \"40 ms\""),
        (
            cell("harq.error = \"10 %\"", "harq = { error = 0.1, tries = 0 }"),
            "write a whole number from 1 to 16",
        ),
        (cell("harq.error = \"10 %\"", "harq.error = \"99 %\""), "would lose nearly every block"),
    ] {
        let errors: Vec<String> = errors(&text).iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error.contains(wanted)), "wanted {wanted:?}, got {errors:#?}");
    }
}
