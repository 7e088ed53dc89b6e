//! What all kinds of flows have in common.

use crate::support::{error, read};

const LINK: &str = "[down.link]\nrate = \"1 Mbit/s\"\ndelay = \"50 ms\"\n";
const BULK: &str = "[[flow]]\nkind = \"bulk-tcp\"\nname = \"x\"\nbytes = \"1 kB\"\n";
const PAGE: &str = "[[flow]]\nkind = \"http-page\"\nmain = \"1 kB\"\ninline = \"1 kB\"\ninline_count = 1\n";
const HTTP: &str = "[http]\nprotocol = \"http1.0\"\nconnections = 2\nrequest = \"100 B\"\n\
                    response_header = \"100 B\"\nclose_after = \"0 s\"\n";

/// What is wrong with a file of these parts.
fn shown(parts: &[&str]) -> String {
    error(&format!("{LINK}{}", parts.concat())).to_string()
}

#[test]
fn a_flow_goes_down_unless_it_says_otherwise() {
    let study = read(&format!("{LINK}{BULK}"));
    assert!(!format!("{:?}", study.cells[0].scenario.flow).contains("Up"));
    let text = format!("{LINK}{BULK}direction = \"up\"\n");
    assert!(format!("{:?}", read(&text).cells[0].scenario.flow).contains("Up"));
}

#[test]
fn flows_that_cannot_go_up_say_why() {
    let wrong = shown(&[PAGE, "direction = \"up\"\n", HTTP]);
    assert!(wrong.contains("`flow[0].direction`: \"up\": the browser is on the mobile host"), "{wrong}");
    let wrong = shown(&[BULK, "direction = \"ups\"\n"]);
    assert!(wrong.contains("`flow[0].direction`: unknown value \"ups\"; did you mean `up`?"), "{wrong}");
}
