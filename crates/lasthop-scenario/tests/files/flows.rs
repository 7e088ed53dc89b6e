//! The keys that all kinds of flows have in common.

use lasthop_core::{Direction, Duration, Instant, QueueSize, Seed};
use lasthop_scenario::Cell;
use lasthop_traffic::Application;

use crate::support::{error, read};

const LINK: &str = "[down.link]\nrate = \"1 Mbit/s\"\ndelay = \"50 ms\"\n";
const BULK: &str = "[[flow]]\nkind = \"bulk-tcp\"\nname = \"x\"\nbytes = \"1 kB\"\n";
const PAGE: &str = "[[flow]]\nkind = \"http-page\"\nmain = \"1 kB\"\ninline = \"1 kB\"\ninline_count = 1\n";
const HTTP: &str = "[http]\nprotocol = \"http1.0\"\nconnections = 2\nrequest = \"100 B\"\n\
                    response_header = \"100 B\"\nclose_after = \"0 s\"\n";

/// The errors of a file that consists of these parts.
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
    assert!(wrong.contains("`flow[0].direction`: \"up\": the browser is on the client"), "{wrong}");
    let wrong = shown(&[BULK, "direction = \"ups\"\n"]);
    assert!(wrong.contains("`flow[0].direction`: unknown value \"ups\"; did you mean `up`?"), "{wrong}");
}

#[test]
fn a_count_makes_flows_with_numbers_whose_starts_disturb_no_other() {
    let drawn = "start = { distribution = \"uniform\", min = \"0 s\", max = \"1 s\" }\n";
    let last = "[[flow]]\nkind = \"bulk-tcp\"\nname = \"last\"\nbytes = \"1 kB\"\n";
    let streams = |count: &str| -> Vec<(String, String)> {
        let study = read(&format!("{LINK}{BULK}{drawn}{count}{last}{drawn}"));
        let applications = study.cells[0].scenario.applications();
        applications.iter().map(|one| (one.name.clone(), one.start_stream.clone())).collect()
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|&(name, stream)| (name.to_owned(), stream.to_owned())).collect()
    };
    assert_eq!(streams(""), pairs(&[("x", "start.flow0"), ("last", "start.flow1")]));
    assert_eq!(
        streams("count = 2\n"),
        pairs(&[("x-1", "start.flow0.1"), ("x-2", "start.flow0.2"), ("last", "start.flow1")])
    );
}

#[test]
fn the_tcp_of_a_flow_is_laid_over_that_of_all_and_its_switches_follow() {
    let study =
        read(&format!("[tcp]\necn = true\n{LINK}{BULK}tcp = {{ sack = false, initial_window = 2 }}\n"));
    let scenario = &study.cells[0].scenario;
    let own = scenario.flow[0].tcp.as_deref().expect("a TCP of its own");
    assert!(own.ecn && !own.sack && !own.dsack && !own.tail_loss_probe && own.initial_window == 2, "{own:?}");
    assert!(scenario.tcp.ecn && scenario.tcp.sack && scenario.tcp.initial_window == 10);
    let followed: Vec<_> =
        study.cells[0].assumed.iter().filter(|one| one.key.starts_with("flow[0].tcp")).collect();
    assert!(followed.iter().any(|one| one.key == "flow[0].tcp.dsack" && one.why == "follows sack = false"));
    let old = read(&format!("{LINK}{BULK}tcp.profile = \"linux-2.4\"\n"));
    assert_eq!(
        old.cells[0].scenario.flow[0].tcp.as_ref().unwrap().tick,
        lasthop_core::Duration::from_millis(10)
    );
}

#[test]
fn an_access_link_without_a_rate_is_as_fast_as_a_lan_that_is_never_felt() {
    let study = read(&format!("{LINK}{BULK}access.delay = \"20 ms\"\n"));
    let rate = study.cells[0].scenario.flow[0].access.as_ref().unwrap().rate;
    assert_eq!(rate, study.cells[0].scenario.lan.as_ref().unwrap().rate);
    assert!(study.cells[0].assumed.iter().any(|one| one.key == "flow[0].access.rate"));
}

#[test]
fn the_bytes_of_a_flow_with_some_keys_of_tcp_count_towards_the_time_limit() {
    let limit = |own: &str| read(&format!("{LINK}{BULK}{own}")).cells[0].scenario.time_limit;
    assert_eq!(limit("tcp.congestion_control = \"reno\"\n"), limit(""));
}

/// A flow named "far", 200 ms from the router. Without this delay it is as near as any other flow.
const FAR: [&str; 2] =
    ["[[flow]]\nkind = \"bulk-tcp\"\nname = \"far\"\nbytes = \"1 kB\"\n", "access.delay = \"200 ms\"\n"];

#[test]
fn the_longest_round_trip_decides_what_is_assumed_of_queues_and_of_the_time_limit() {
    let assumed = |text: &str| {
        let Cell { scenario, assumed, .. } = read(text).cells.remove(0);
        let why = |key: &str| assumed.iter().find(|one| one.key == key).unwrap().why.clone();
        let limits = (scenario.down.unwrap().queue.limit, scenario.time_limit.as_secs_f64());
        (limits, why("down.queue.limit"), why("time_limit"))
    };
    let (limits, queue, time) = assumed(&format!("{LINK}{BULK}{}", FAR[0]));
    // 20 round trips of 100 ms, and ten times 2 kB at 1 Mbit/s.
    assert_eq!(limits, (QueueSize::Packets(10), 63.0));
    assert!(
        queue.contains("1 Mbit/s x 100 ms, is") && time.contains("20 round trips and"),
        "{queue}; {time}"
    );
    // Twice the access delay is added: 500 ms are 41.7 packets.
    let (limits, queue, time) = assumed(&format!("{LINK}{BULK}{}{}", FAR[0], FAR[1]));
    assert_eq!(limits, (QueueSize::Packets(42), 71.0));
    assert!(queue.contains("x 500 ms of far (the longest), is 42 packets"), "{queue}");
    assert!(time.contains("20 round trips of far (the longest) and"), "{time}");
}

#[test]
fn a_flow_whose_own_round_trip_lasts_longer_than_the_run_is_noted() {
    let notes_with =
        |access: &str| read(&format!("time_limit = \"400 ms\"\n{LINK}{BULK}{}{access}", FAR[0])).notes;
    assert_eq!(notes_with(""), []);
    let notes = notes_with(FAR[1]);
    assert!(notes.len() == 1 && notes[0].message.contains("far transfers nothing"), "{notes:?}");
    assert!(notes[0].message.contains("round trip of \"500 ms\""), "{notes:?}");
}

#[test]
fn a_request_of_web_clients_takes_the_access_link_too() {
    let web = "[[flow]]\nkind = \"web-clients\"\nname = \"web\"\nclients = 1\nbatches = 1\n\
               interval = \"10 s\"\nrequests = { mean = 1, min = 1, max = 1 }\ngap = \"0 s\"\n\
               multiple = { mean = 1, min = 1, max = 1 }\nfirst_unit = \"1 kB\"\n\
               others = [{ unit = \"1 kB\", share = 1 }]\n";
    let arrives = |access: &str| {
        let study = read(&format!("lan.delay = \"3 ms\"\n{LINK}{web}{access}"));
        study.cells[0].scenario.programs(Seed { study: 1, replication: 1 })[0].next_wakeup()
    };
    assert_eq!(arrives(""), Some(Instant::ZERO + Duration::from_millis(53)));
    assert_eq!(arrives("access.delay = \"200 ms\"\n"), Some(Instant::ZERO + Duration::from_millis(253)));
}

#[test]
fn what_no_flow_can_have_is_said_with_the_reason() {
    let udp =
        "[[flow]]\nkind = \"constant-udp\"\nrate = \"1 kbit/s\"\npayload = \"9 B\"\nduration = \"1 s\"\n";
    let bulk = BULK.replace("bytes = \"1 kB\"\n", "");
    for (parts, wanted) in [
        (&[BULK, "duration = \"1 s\"\n"][..], "`flow[0].duration`: the transfer ends after its bytes"),
        (&[&bulk], "`flow[0].bytes`: is missing; add for example bytes = \"1 MB\" or duration = \"30 s\""),
        (&[&bulk, "duration = \"0 s\"\n"], "`flow[0].duration`"),
        (&[BULK, "count = 0\n"], "`flow[0].count`"),
        (&[BULK, "count = 1001\n"], "`flow[0].count`"),
        (&[BULK, "count = 2\n", &BULK.replace('x', "x-2")], "`flow[1].name`: two flows are named \"x-2\""),
        (&[udp, "tcp = { sack = false }\n"], "`flow[0].tcp`: a stream of datagrams has no TCP"),
        (&[BULK, "tcp = { sak = false }\n"], "unknown key `flow[0].tcp.sak`; did you mean `sack`?"),
        (&[BULK, "tcp = { initial_window = 0 }\n"], "`flow[0].tcp.initial_window`"),
        (
            &[BULK, "access = { dely = \"1 s\" }\n"],
            "unknown key `flow[0].access.dely`; did you mean `delay`?",
        ),
        (
            &[BULK, "access = { delay = \"1 s\" }\n", "[router]\nimplementation = \"linux\"\n"],
            "`flow[0].access`",
        ),
    ] {
        let wrong = shown(parts);
        assert!(wrong.contains(wanted), "wanted: {wanted}\nshown:  {wrong}");
    }
    let slow = "access = { rate = \"900 bit/s\" }\n";
    let wrong = shown(&[udp, slow]);
    assert!(wrong.contains("of its access.rate = \"900 bit/s\", and datagrams would pile up"), "{wrong}");
    read(&format!("{LINK}{udp}{slow}direction = \"up\"\n"));
    // A fault of all flows is reported once.
    shown(&["[tcp]\ninitial_window = 0\n", BULK, "tcp = { sack = false }\n"]);
}

#[test]
fn a_call_that_goes_both_ways_is_two_flows_that_start_together() {
    let start = "start = { distribution = \"uniform\", min = \"0 s\", max = \"9 s\" }\n";
    let call = "[[flow]]\nkind = \"voip\"\nname = \"call\"\ndirection = \"both\"\n";
    let study = read(&format!("{LINK}{call}count = 2\n{start}"));
    let scenario = &study.cells[0].scenario;
    let applications = scenario.applications();
    let told: Vec<_> =
        applications.iter().map(|one| (one.name.as_str(), one.application(), one.sender)).collect();
    let (down, up) = (Direction::Down.sender(), Direction::Up.sender());
    assert_eq!(
        told,
        [
            ("call-1-down", "call-down", down),
            ("call-1-up", "call-up", up),
            ("call-2-down", "call-down", down),
            ("call-2-up", "call-up", up),
        ]
    );
    let streams: Vec<_> = applications.iter().map(|one| one.start_stream.as_str()).collect();
    assert_eq!(streams, ["start.flow0.1", "start.flow0.1", "start.flow0.2", "start.flow0.2"]);
    let wrong = shown(&[BULK, "direction = \"both\"\n"]);
    assert!(wrong.contains("`flow[0].direction`: \"both\": only a call"), "{wrong}");
}
