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
            "`hop.air.down`: belongs to a link, but the hop has a medium",
        ),
        (air("medium = { kind = \"wifi\", standard = \"a\" }", ""), "`hop.air.down`: is missing"),
        (air("kind = \"wifi\"", "kind = \"wify\""), "unknown value \"wify\""),
        (air("standard = \"a\"", "standard = \"ad\""), "unknown value \"ad\""),
        (air("standard = \"a\"", "standard = \"a\", max_mpdus = 2"), "belongs to n, ac and ax"),
        (air("standard = \"a\"", "standard = \"ax\", max_mpdus = 65"), "write from 1 to 64"),
        (air("standard = \"a\"", "standart = \"a\""), "did you mean `standard`"),
        (
            air(
                "[host.tv]\nbehind = \"air\"",
                "[hop.far]\nbehind = \"air\"\nmedium.kind = \"wifi\"\n[host.tv]",
            ),
            "`hop.far.behind`: leads to a hop with a medium",
        ),
        (
            air("[host.laptop]\nbehind = \"air\"", "[host.laptop]"),
            "`host.laptop.wifi`: the host hangs behind no hop",
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
