//! Short files: the keys that they may leave out, and the defaults that follow stated keys.

use lasthop_core::{Bytes, Duration, QueueSize, Rate};
use lasthop_link::BufferRelease;
use lasthop_scenario::{Cell, Study};
use lasthop_tcp::{CongestionControl, FRtoMode, Profile, RecoveryRules};

use crate::support::{BASE, SHORT, base_with, errors, read};

fn assumed(cell: &Cell) -> Vec<(&str, &str)> {
    cell.assumed.iter().map(|each| (each.key.as_str(), each.value.as_str())).collect()
}

#[test]
fn six_lines_are_a_whole_scenario_and_what_they_leave_out_is_told() {
    let study = Study::from_str(SHORT, "my first.toml").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((study.name.as_str(), study.title.as_str()), ("my-first", "my-first"));
    assert_eq!((study.seed, study.replications, study.cells.len()), (1, 1, 1));
    let told: Vec<_> = study.assumed.iter().map(|each| each.key.as_str()).collect();
    assert_eq!(told, ["name", "seed", "replications"]);
    let cell = &study.cells[0];
    let scenario = &cell.scenario;
    let down = scenario.down.as_ref().unwrap();
    assert_eq!(scenario.up.as_ref(), Some(down));
    assert_eq!(down.queue.limit, QueueSize::Packets(10), "8.3 packets of a product, but at least 10");
    assert_eq!((down.link.send_buffer, down.link.release), (Bytes(1500), BufferRelease::Serialised));
    assert_eq!(scenario.lan.as_ref().unwrap().rate, Rate::from_bits_per_second(100_000_000_000));
    assert_eq!(scenario.tcp.profile, Profile::Linux6);
    assert_eq!(scenario.tcp.congestion_control, CongestionControl::Cubic);
    assert_eq!(scenario.time_limit, Duration::from_secs(60 + 2 + 80));
    assert_eq!(
        assumed(cell),
        [
            ("mtu", "1500 B"),
            ("tcp.profile", "linux-6"),
            ("flow[0].name", "bulk-tcp"),
            ("flow[0].start", "0 s"),
            ("lan.rate", "100 Gbit/s"),
            ("lan.delay", "0 s"),
            ("down.link.release", "serialised"),
            ("down.link.send_buffer", "1500 B"),
            ("down.queue.limit", "10 packets"),
            ("up", "as down"),
            ("time_limit", "142 s"),
        ]
    );
}

#[test]
fn a_file_that_says_everything_leaves_nothing_to_assume() {
    let study = read(BASE);
    assert_eq!((study.assumed.len(), assumed(&study.cells[0])), (0, Vec::new()));
}

#[test]
fn a_queue_that_is_not_stated_holds_the_product_of_its_own_direction() {
    let stated = format!("{SHORT}[up.link]\nrate = \"10 Mbit/s\"\n").replace("50 ms", "100 ms");
    let scenario = &read(&stated).cells[0].scenario;
    let (down, up) = (scenario.down.as_ref().unwrap(), scenario.up.as_ref().unwrap());
    assert_eq!(down.queue.limit, QueueSize::Packets(17), "1 Mbit/s x 200 ms = 25 kB");
    assert_eq!(up.queue.limit, QueueSize::Packets(167), "10 Mbit/s x 200 ms = 250 kB");
    assert_eq!((up.link.delay, up.link.send_buffer), (down.link.delay, down.link.send_buffer));
}

#[test]
fn an_up_that_is_stated_in_part_takes_what_it_must_have_and_no_more() {
    let red = "[down.queue]\nlimit = \"30 packets\"\nred = { min = \"2 packets\", max = \"7 packets\", \
               max_probability = 0.1, weight = 0.1, avpkt = \"500 B\" }\n";
    let like = read(&format!("{SHORT}{red}"));
    let scenario = &like.cells[0].scenario;
    assert_eq!(scenario.up, scenario.down, "RED in both");
    let stated = read(&format!("{SHORT}{red}[up.link]\ndelay = \"1 ms\"\n"));
    let up = stated.cells[0].scenario.up.as_ref().unwrap();
    assert_eq!((up.queue.limit, up.queue.red().is_some()), (QueueSize::Packets(30), false));
    assert_eq!(
        (up.link.rate, up.link.delay),
        (Rate::from_bits_per_second(1_000_000), Duration::from_millis(1))
    );
}

#[test]
fn a_copied_way_up_says_what_it_copies_beside_rate_delay_and_queue() {
    let why = |down: &str, link: &str| {
        let text = format!("[down]\n{down}\n{}", SHORT.replace("delay", &format!("{link}\ndelay")));
        let cell = read(&text).cells.remove(0);
        cell.assumed.iter().find(|one| one.key == "up").unwrap().why.clone()
    };
    assert_eq!(why("queue = { limit = \"20 packets\", discipline = \"pie\" }", ""), "a copy of [down]");
    let lossy = why("blackhole = { at = \"1 s\", for = \"1 s\" }", "loss = \"1 %\"\njitter = \"1 ms\"");
    assert!(lossy.starts_with("a copy of [down], including blackhole, link.loss, link.jitter; "), "{lossy}");
}

#[test]
fn cake_that_does_not_know_a_slow_rate_is_noted() {
    let notes = |queue: &str, rate: &str| {
        let text = format!("[down]\nqueue = {{ discipline = \"cake\", limit = \"1 MB\"{queue} }}\n{SHORT}");
        let study = read(&text.replace("1 Mbit/s", rate));
        study.notes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let slow = notes("", "1 Mbit/s");
    let [note] = &slow[..] else { panic!("one for both directions, as one is a copy: {slow:?}") };
    assert!(note.starts_with("f.toml:2: `down.queue.discipline`: without a rate"), "{note}");
    assert!(note.contains("a packet takes 12.0 ms") && note.contains("rate = \"950 kbit/s\""), "{note}");
    assert_eq!(notes(", rate = \"950 kbit/s\"", "1 Mbit/s"), [""; 0]);
    assert_eq!(notes(", rtt = \"360 ms\"", "1 Mbit/s"), [""; 0]);
    assert_eq!(notes("", "3600 kbit/s"), [""; 0]);
}

/// Two packets of 1500 bytes take 1.2 ms at 20 Mbit/s, and 960 us at 25 Mbit/s.
#[test]
fn a_threshold_of_dualpi2_below_the_time_of_two_packets_is_noted() {
    let notes = |queue: &str, rate: &str| {
        let text = format!("[down]\nqueue = {{ discipline = \"dualpi2\"{queue} }}\n{SHORT}");
        let study = read(&text.replace("1 Mbit/s", rate));
        study.notes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let slow = notes("", "20 Mbit/s");
    let [note] = &slow[..] else { panic!("one for both directions, as one is a copy: {slow:?}") };
    assert!(note.starts_with("f.toml:2: `down.queue.discipline`: step_threshold = \"1 ms\""), "{note}");
    assert!(note.contains("two take 1.2 ms here; add min_qlen_step = 2"), "{note}");
    assert_eq!(notes(", min_qlen_step = 1", "20 Mbit/s").len(), 1);
    assert_eq!(notes(", min_qlen_step = 2", "20 Mbit/s"), [""; 0]);
    assert_eq!(notes(", step_threshold = \"1.2 ms\"", "20 Mbit/s"), [""; 0]);
    assert_eq!(notes("", "25 Mbit/s"), [""; 0]);
}

#[test]
fn flows_without_names_are_called_after_their_kind_and_levels_find_them() {
    let two = format!(
        "{SHORT}[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"2 MB\"\n[[flow]]\nkind = \"bulk-tcp\"\n\
                       name = \"bulk-tcp-2\"\nbytes = \"1 B\"\n"
    );
    let names = |study: &Study| -> Vec<String> {
        study.cells[0].scenario.flow.iter().map(|flow| flow.traffic().name().to_owned()).collect()
    };
    assert_eq!(
        names(&read(&two)),
        ["bulk-tcp-1", "bulk-tcp-3", "bulk-tcp-2"],
        "a stated name is left to its flow"
    );
    let level = read(&format!("{SHORT}[factor.size.small]\nflow.bulk-tcp.bytes = \"10 kB\"\n"));
    assert_eq!(level.cells[0].scenario.flow[0].traffic().offered_bytes(), 10_000);
    assert_eq!(level.cells[0].scenario.flow.len(), 1);
}

#[test]
fn switches_of_the_profile_follow_one_that_is_turned_off() {
    let with = |tcp: &str| format!("{SHORT}[tcp]\n{tcp}\n");
    let study = read(&with("sack = false"));
    let tcp = &study.cells[0].scenario.tcp;
    assert_eq!((tcp.sack, tcp.dsack, tcp.frto, tcp.tail_loss_probe), (false, false, FRtoMode::Off, false));
    let followed = study.cells[0].assumed.iter().filter(|each| each.why == "follows sack = false");
    let followed: Vec<_> = followed.map(|each| (each.key.as_str(), each.value.as_str())).collect();
    assert_eq!(followed, [("tcp.dsack", "false"), ("tcp.frto", "off"), ("tcp.tail_loss_probe", "false")]);
    assert!(!read(&with("timestamps = false")).cells[0].scenario.tcp.eifel);
    let classic = read(&with("stack = \"classic\""));
    let tcp = &classic.cells[0].scenario.tcp;
    assert_eq!(tcp.recovery, RecoveryRules::Reno);
    assert_eq!(tcp.congestion_control, CongestionControl::Reno);
    assert!(!tcp.timestamps && !tcp.eifel && !tcp.rack && !tcp.tail_loss_probe);
    for both in [
        "sack = false\ndsack = true",
        "timestamps = false\neifel = true",
        "sack = false\ntail_loss_probe = true",
    ] {
        let [error] = &errors(&with(both))[..] else { panic!("{both}") };
        assert!(error.line == Some(9) && error.message.contains("it needs "), "{error}");
    }
    read(&base_with("sack = true", "sack = false"));
}

#[test]
fn every_profile_goes_together() {
    for profile in ["linux-2.4", "linux-2.6", "linux-4.11", "linux-6", "ns-1998"] {
        let study = read(&format!("{SHORT}[tcp]\nprofile = \"{profile}\"\n"));
        let followed = study.cells[0].assumed.iter().filter(|each| each.why.starts_with("follows"));
        assert_eq!(followed.count(), 0, "{profile}");
    }
}

#[test]
fn a_flow_that_never_starts_is_noted() {
    let late = format!("{SHORT}start = \"10 min\"\n[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 kB\"\n");
    let study = read(&format!("time_limit = \"5 min\"\n{late}"));
    let [note] = &study.notes[..] else { panic!("{:?}", study.notes) };
    assert_eq!(note.line, Some(8));
    assert!(
        note.message.contains("bulk-tcp-1 sends nothing") && note.message.contains("\"300 s\""),
        "{note}"
    );
    let short = read(&format!("time_limit = \"1 ms\"\n{SHORT}"));
    assert!(short.notes[0].message.contains("before the first round trip"), "{}", short.notes[0]);
    assert!(read(&late).notes.is_empty(), "a limit that is assumed lies behind every start");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let text = base_with("rate = \"64 kbit/s\"", "rate = \"64\"")
        .replacen("seed = 7", "sed = 7", 1)
        .replacen("sack = true", "sack = false\ndsack = true", 1)
        .replacen("payload = \"512 B\"", "payload = \"5120 B\"", 1)
        .replacen("bytes = \"188640 B\"", "byts = \"0 B\"", 1)
        + "[factor.a.x]\ntcp.tick = \"0 ms\"\n[factor.a.y]\ntcp.retries = 256\ntcp.rto_mn = \"1 s\"\n";
    let shown: Vec<_> = errors(&text).iter().map(ToString::to_string).collect();
    let expected = [
        "f.toml:3: unknown key `sed`; did you mean `seed`?",
        "f.toml:13: `down.link.rate`: missing unit in \"64\"",
        "f.toml:27: `tcp.dsack`: it needs sack = true",
        "f.toml:31: unknown key `flow[0].byts`; did you mean `bytes`?",
        "f.toml:31: `flow[0].bytes`: must not be zero",
        "f.toml:37: `flow[1].payload`: a datagram of 5120 bytes",
        "f.toml:41: `tcp.tick`: must not be zero",
        "f.toml:43: `tcp.retries`: 256 is out of range",
        "f.toml:44: unknown key `factor.a.y.tcp.rto_mn`; did you mean `rto_min`?",
    ];
    assert_eq!(shown.len(), expected.len(), "{shown:#?}");
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.starts_with(expected), "{shown}\n{expected}");
    }
    assert!(shown[2].ends_with("(in all 2 cells)"), "{}", shown[2]);
    assert!(shown[6].ends_with("(in cell a=x)"), "{}", shown[6]);
}

#[test]
fn what_only_comes_of_another_error_is_not_told() {
    for (from, to, line) in [
        // With the assumed MTU of 1500 bytes, neither a buffer of 9600 bytes nor a queue would be faulty;
        // with an example value they would be.
        ("mtu = \"576 B\"", "mtu = \"576\"", 5),
        ("sack = true", "timestamp = true\neifel = true", 26),
        ("kind = \"bulk-tcp\"", "kind = \"bulk\"", 28),
        ("[lan]\n", "[[lan]]\n", 7),
    ] {
        let found = errors(&base_with(from, to));
        assert_eq!(
            found.iter().map(|error| error.line).collect::<Vec<_>>(),
            [Some(line)],
            "{to}: {found:#?}"
        );
    }
}

#[test]
fn every_syntax_error_is_told() {
    let text = base_with("rate = \"64 kbit/s\"", "rate = 64 kbit/s").replacen("\"300 ms\"", "300 ms", 1);
    let lines: Vec<_> = errors(&text).iter().map(|error| error.line).collect();
    assert!(lines.contains(&Some(13)) && lines.contains(&Some(14)), "{:#?}", errors(&text));
}
