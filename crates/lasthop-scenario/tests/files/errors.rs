//! Every wrong file gets one paragraph with file, line, reason and suggestion.

use crate::support::{BASE, FACTORS, base_with, error, errors, read};
use lasthop_scenario::{Sampler, Study};

/// The text to replace in the base, its replacement, the line that the error must name, and texts that the
/// message must contain.
type Case = (&'static str, &'static str, usize, &'static [&'static str]);

#[track_caller]
fn assert_each(cases: &[Case]) {
    for (from, to, line, parts) in cases {
        let error = error(&base_with(from, to));
        let shown = error.to_string();
        assert_eq!(error.line, Some(*line), "{to}\n{shown}");
        assert!(shown.starts_with(&format!("f.toml:{line}: ")), "{shown}");
        for part in *parts {
            assert!(shown.contains(part), "{to}\nwanted: {part}\nshown:  {shown}");
        }
        assert!(!shown.contains('\n'), "one paragraph: {shown}");
    }
}

#[test]
fn a_guess_has_no_faults_of_its_own() {
    for (from, to, meant) in [
        ("seed = 7", "comand = 7", "`command`"),
        (
            "queue.limit = \"20 packets\"",
            "queue = { cake = {}, limit = \"20 packets\" }",
            "`discipline = \"cake\"`",
        ),
        ("queue.limit = \"20 packets\"", "queue.limits = {}", "`limit`"),
        ("rate = \"32 kbit/s\"", "rates = []", "`rate`"),
    ] {
        let error = error(&base_with(from, to));
        assert!(error.message.contains(&format!("did you mean {meant}?")), "{error}");
    }
}

#[test]
fn a_missing_key_is_suggested_with_a_usual_value() {
    for (flow, suggested) in [
        ("kind = \"short-flows\"", "add for example request = \"300 B\""),
        ("kind = \"request-response\"", "add for example response = \"10 kB\""),
        ("kind = \"coap\"", "add for example interval = \"60 s\""),
        ("kind = \"on-off\"\nrate = \"1 Mbit/s\"", "add for example on = \"1 s\""),
        ("kind = \"constant-udp\"", "add for example payload = \"160 B\""),
    ] {
        let text = format!("[down.link]\nrate = \"1 Mbit/s\"\ndelay = \"5 ms\"\n[[flow]]\n{flow}\n");
        let errors = errors(&text);
        assert!(errors.iter().any(|error| error.message.contains(suggested)), "{errors:#?}");
    }
}

#[test]
fn unknown_keys_at_every_depth() {
    assert_each(&[
        ("seed = 7", "seeds = 7", 3, &["unknown key `seeds`", "did you mean `seed`?", "replications"]),
        (
            "sack = true",
            "timestamp = true",
            26,
            &["unknown key `tcp.timestamp`", "did you mean `timestamps`?"],
        ),
        ("queue.limit = \"20", "queue.limits = \"20", 11, &["`down.queue.limits`", "did you mean `limit`?"]),
        ("delay = \"0.15 ms\"", "latency = \"0.15 ms\"", 9, &["`lan.latency`", "(accepted: rate, delay)"]),
        (
            "payload = \"512 B\"",
            "payloads = \"512 B\"",
            36,
            &["`flow[1].payloads`", "did you mean `payload`?"],
        ),
        (
            "max = \"100 ms\" }",
            "maximum = \"100 ms\" }",
            38,
            &["`flow[1].start.maximum`", "did you mean `max`?"],
        ),
    ]);
}

#[test]
fn quantities_without_unit_with_a_wrong_one_or_negative() {
    assert_each(&[
        (
            "rate = \"64 kbit/s\"",
            "rate = \"64\"",
            13,
            &["`down.link.rate`: missing unit in \"64\"", "\"64 kbit/s\"", "Mbit/s"],
        ),
        ("rate = \"64 kbit/s\"", "rate = 64", 13, &["missing unit in \"64\"", "\"64 kbit/s\""]),
        ("rate = \"64 kbit/s\"", "rate = \"-64 kbit/s\"", 13, &["is negative", "\"64 kbit/s\""]),
        ("rate = \"64 kbit/s\"", "rate = -64", 13, &["is negative", "\"64 kbit/s\""]),
        ("rate = \"64 kbit/s\"", "rate = \"0 bit/s\"", 13, &["must be above zero"]),
        ("rate = \"64 kbit/s\"", "rate = \"64 kbps\"", 13, &["did you mean \"64 kbit/s\"?"]),
        (
            "delay = \"300 ms\"",
            "delay = \"300 msec\"",
            14,
            &["did you mean \"300 ms\"?", "ns, us, ms, s, min, h"],
        ),
        ("delay = \"300 ms\"", "delay = nan", 14, &["`down.link.delay`", "for example \"300 ms\""]),
        ("delay = \"300 ms\"", "delay = true", 14, &["`down.link.delay`", "a number and a unit"]),
        (
            "delay = \"300 ms\"",
            "delay = { distribution = \"uniform\" }",
            14,
            &[
                "`down.link.delay`: found a table; write a string with a number and a unit, such as \"300 ms\"",
            ],
        ),
        (
            "start = \"0 s\"",
            "start = [1]",
            31,
            &["`flow[0].start`: found a list; write a string", "a table with a distribution"],
        ),
        ("start = \"0 s\"", "start = \"0\"", 31, &["`flow[0].start`", "missing unit", "\"0 ms\""]),
        ("bytes = \"188640 B\"", "bytes = \"188640 Byte\"", 30, &["`flow[0].bytes`", "did you mean"]),
        ("min = \"0 s\"", "min = \"1 s\"", 38, &["`flow[1].start`", "above max", "exchange them"]),
        ("min = \"0 s\"", "min = 0", 38, &["`flow[1].start.min`", "missing unit"]),
    ]);
}

/// Without a limit the datagrams would wait in the host's memory, millions of them.
#[test]
fn streams_that_the_lan_cannot_carry() {
    assert_each(&[(
        "rate = \"32 kbit/s\"",
        "rate = \"999999 kbit/s\"",
        35,
        &[
            "`flow[1].rate`",
            "would take 1055 % of lan.rate = \"100 Mbit/s\", and",
            "lower it, or raise lan.rate",
        ],
    )]);
}

#[test]
fn streams_that_fit_the_lan_one_after_the_other_but_not_at_once() {
    let second = |start: &str| {
        let stream = format!(
            "kind = \"constant-udp\"\nname = \"late\"\nrate = \"60 Mbit/s\"\npayload = \"512 B\"\n\
             duration = \"9 s\"\nstart = \"{start}\"\n"
        );
        format!("{}[[flow]]\n{stream}", base_with("rate = \"32 kbit/s\"", "rate = \"60 Mbit/s\""))
    };
    read(&second("181 s"));
    let shown = error(&second("180 s")).to_string();
    assert!(shown.contains("`flow[2].rate`"), "{shown}");
    assert!(shown.contains("together with streams that may send at the same time"), "{shown}");
}

#[test]
fn unknown_values_and_wrong_types() {
    assert_each(&[
        (
            "linux-2.4",
            "linux-2.5",
            25,
            &["`tcp.profile`", "unknown value \"linux-2.5\"", "did you mean `linux-2.4`?"],
        ),
        (
            "\"acknowledged\"",
            "\"acked\"",
            16,
            &["`down.link.release`", "(accepted: serialised, acknowledged)"],
        ),
        ("bulk-tcp", "bulk", 28, &["`flow[0].kind`", "did you mean `bulk-tcp`?"]),
        ("kind = \"bulk-tcp\"", "", 27, &["missing key `kind`", "bulk-tcp, constant-udp"]),
        ("\"uniform\"", "\"unifrom\"", 38, &["`flow[1].start.distribution`", "did you mean `uniform`?"]),
        (
            "distribution = \"uniform\", ",
            "",
            38,
            &["missing key `distribution`", "uniform, exponential, sequence"],
        ),
        (
            "sack = true",
            "pacing = \"fx\"",
            26,
            &["`tcp.pacing`", "found the string \"fx\"", "true, false or \"fq\""],
        ),
        ("sack = true", "sack = \"yes\"", 26, &["`tcp.sack`", "found the string \"yes\"", "true or false"]),
        ("sack = true", "frto = 2002", 26, &["`tcp.frto`", "\"2002\""]),
        ("sack = true", "frto = false", 26, &["`tcp.frto`", "found false", "\"off\""]),
        (
            "name = \"udp\"",
            "name = \"udp\"\ndscp = \"AF44\"",
            35,
            &["`flow[1].dscp`", "did you mean \"AF41\"?", "EF"],
        ),
        ("name = \"udp\"", "name = \"udp\"\ndscp = 64", 35, &["`flow[1].dscp`", "the nearest is 63"]),
        (
            "name = \"udp\"",
            "name = \"udp\"\ndscp = true",
            35,
            &["`flow[1].dscp`", "a name or a number, such as \"EF\""],
        ),
        ("name = \"udp\"", "name = \"udp\"\nport = 0", 35, &["`flow[1].port`", "the nearest is 1"]),
        ("name = \"udp\"", "name = \"udp\"\nport = 65536", 35, &["`flow[1].port`", "the nearest is 65535"]),
        ("name = \"udp\"", "name = \"udp\"\nport = \"http\"", 35, &["`flow[1].port`", "a whole number"]),
        ("sack = true", "retries = -1", 26, &["`tcp.retries`", "the nearest is 0"]),
        ("sack = true", "retries = 1.5", 26, &["found the number 1.5", "a whole number"]),
        ("sack = true", "retries = 2024-01-01", 26, &["found the date", "a whole number"]),
        ("seed = 7", "seed = 99999999999999999999", 3, &["too large"]),
        ("seed = 7", "seed = -7", 3, &["`seed`", "from 0"]),
        ("name = \"small\"", "name = \"a/b\"", 1, &["`name`", "cannot name a folder"]),
        ("title = \"Small\"", "title = 1", 2, &["`title`", "a string in quotation marks"]),
        ("replications = 3", "replications = 0", 4, &["`replications`", "the nearest is 1"]),
        ("[lan]\n", "[[lan]]\n", 7, &["`lan`", "found a list", "a table"]),
    ]);
}

#[test]
fn missing_parts_of_a_scenario() {
    assert_each(&[
        ("rate = \"64 kbit/s\"", "", 12, &["missing key `down.link.rate`", "rate = \"1 Mbit/s\""]),
        ("bytes = \"188640 B\"", "", 27, &["`flow[0].bytes`: is missing", "duration"]),
    ]);
    let (without_flows, _) = BASE.split_once("[[flow]]").unwrap();
    assert!(error(without_flows).to_string().contains("add for example [[flow]]"));
    let without_hop = error("[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 MB\"\n");
    assert!(without_hop.to_string().contains("add for example [down.link] with rate"), "{without_hop}");
    let error = error(&without_flows.replace("[lan]", "flow = []\n[lan]"));
    assert_eq!(error.line, Some(7));
    assert!(error.to_string().contains("add for example [[flow]]"), "{error}");
}

#[test]
fn impossible_queues_and_buffers() {
    const RED: &str = "queue.limit = \"20 packets\"\nqueue.red = { max_probability = 0.1, weight = 0.002, \
                       idle_packet_time = \"72 ms\", ";
    let red = |thresholds: &str| {
        error(&base_with("queue.limit = \"20 packets\"", &format!("{RED}{thresholds} }}")))
    };
    for (thresholds, part) in [
        ("min = \"7 packets\", max = \"7 packets\"", "must be above min"),
        ("min = \"1000 B\", max = \"7 packets\"", "same unit"),
    ] {
        let error = red(thresholds);
        assert_eq!(error.line, Some(12), "{error}");
        assert!(
            error.to_string().contains("`down.queue.red.max`") && error.to_string().contains(part),
            "{error}"
        );
    }
    let above_limit = format!("{RED}min = \"2 packets\", max = \"40 packets\" }}");
    read(&base_with("queue.limit = \"20 packets\"", &above_limit));
    assert_each(&[
        ("20 packets", "0 packets", 11, &["`down.queue.limit`", "0 packets", "at least one packet"]),
        ("20 packets", "575 B", 11, &["`down.queue.limit`", "575 B", "576 B"]),
        ("20 packets", "20", 11, &["missing unit", "\"20 packets\""]),
        ("send_buffer = \"9600 B\"", "send_buffer = \"500 B\"", 15, &["`down.link.send_buffer`", "576 B"]),
    ]);
}

#[test]
fn changes_of_a_link_that_change_nothing_or_come_too_late() {
    let base = |changes: &str| {
        base_with("send_buffer = \"9600 B\"", &format!("send_buffer = \"9600 B\"\nchange = [{changes}]"))
    };
    read(&base("{ at = \"0 s\", rate = \"9600 bit/s\" }, { at = \"5 s\", delay = \"1 s\" }"));
    for (changes, parts) in [
        ("{ at = \"5 s\" }", ["`down.link.change[0]`", "a rate, a delay or both"]),
        (
            "{ at = \"5 s\", delay = \"1 s\" }, { at = \"5 s\", delay = \"2 s\" }",
            ["`down.link.change[1].at`", "sort the changes by time"],
        ),
        ("{ at = \"5 s\", rate = \"0 bit/s\" }", ["`down.link.change[0].rate`", "above zero"]),
        ("{ at = \"5 s\", queue = \"1 s\" }", ["`down.link.change[0].queue`", "unknown key"]),
    ] {
        let error = error(&base(changes));
        assert_eq!(error.line, Some(16), "{error}");
        assert!(parts.iter().all(|part| error.to_string().contains(part)), "{error}");
    }
}

/// Two classes in place of the one queue; they begin at line 12.
const CLASSES: &str = r#"queue.limit = "20 packets"
[[down.htb.class]]
name = "udp"
rate = "500 kbit/s"
match = [{ dscp = "EF" }]
[[down.htb.class]]
name = "tcp"
rate = "500 kbit/s"
priority = 1
default = true
"#;

#[test]
fn classes_that_contradict_each_other() {
    let base = base_with("queue.limit = \"20 packets\"\n", CLASSES);
    read(&base);
    for (from, to, line, parts) in [
        ("name = \"tcp\"", "name = \"udp\"", 17, ["`down.htb.class[1].name`", "two classes", "\"udp-2\""]),
        ("name = \"tcp\"", "name = \"\"", 17, ["`down.htb.class[1].name`", "empty", "\"tcp\""]),
        ("default = true\n", "", 12, ["`down.htb.class`", "default = true", "\"tcp\""]),
        ("match =", "default = true\nmatch =", 21, ["`down.htb.class[1].default`", "another", "one"]),
        ("priority = 1", "priority = 8", 19, ["`down.htb.class[1].priority`", "from 0 to 7", "nearest is 7"]),
        ("priority = 1", "priorty = 1", 19, ["`down.htb.class[1].priorty`", "unknown key", "`priority`?"]),
        (
            "priority = 1",
            "ceil = \"1 kbit/s\"",
            19,
            ["`down.htb.class[1].ceil`", "below rate", "\"500 kbit/s\""],
        ),
        (
            "priority = 1",
            "quantum = \"575 B\"",
            19,
            ["`down.htb.class[1].quantum`", "largest packet", "\"576 B\""],
        ),
        ("priority = 1", "burst = \"2000 MB\"", 19, ["`down.htb.class[1].burst`", "at most", "1000000000 B"]),
        (
            "priority = 1",
            "queue.limit = \"500 B\"",
            19,
            ["`down.htb.class[1].queue.limit`", "500 B", "576 B"],
        ),
        ("priority = 1", "rate = \"1 bit/s\"", 19, ["not valid TOML", "duplicate key", ""]),
        (
            "\"500 kbit/s\"\nmatch",
            "\"76 bit/s\"\nmatch",
            14,
            ["`down.htb.class[0].rate`", "60 s", "76 bit/s"],
        ),
        ("rate = \"500 kbit/s\"\nmatch", "match", 12, ["missing key `down.htb.class[0].rate`", "rate =", ""]),
        (
            "dscp = \"EF\"",
            "dscp = \"ef\"",
            15,
            ["`down.htb.class[0].match[0].dscp`", "did you mean \"EF\"?", ""],
        ),
        (
            "dscp = \"EF\"",
            "protocol = \"icmp\"",
            15,
            ["`down.htb.class[0].match[0].protocol`", "tcp, udp", ""],
        ),
        ("dscp = \"EF\"", "", 15, ["`down.htb.class[0].match[0]`", "every packet", "dscp, port or protocol"]),
        ("[{ dscp = \"EF\" }]", "\"EF\"", 15, ["`down.htb.class[0].match`", "write a list", ""]),
    ] {
        assert!(base.contains(from), "{from}");
        let error = error(&base.replacen(from, to, 1));
        assert_eq!(error.line, Some(line), "{to}\n{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{to}\nwanted: {part}\nshown: {error}");
        }
    }
    let error =
        error(&base_with("queue.limit = \"20 packets\"", "queue.limit = \"20 packets\"\nhtb.class = []"));
    assert!(error.to_string().contains("`down.htb.class`: 0 classes; write from 1 to 63"), "{error}");
}

#[test]
fn classes_in_each_other_that_cannot_be() {
    let with = |classes: &[&str]| {
        let list = format!("queue.limit = \"20 packets\"\nhtb.class = [{}]", classes.join(", "));
        base_with("queue.limit = \"20 packets\"", &list)
    };
    let outer = r#"{ name = "outer", rate = "8 kbit/s" }"#;
    let leaf = r#"{ name = "leaf", parent = "outer", rate = "8 kbit/s", default = true }"#;
    read(&with(&[outer, leaf]));
    for (wrong, key, reason) in [
        ("default = true", "default", "has no queue itself"),
        ("priority = 1", "priority", "write this key in one of them"),
        ("quantum = \"1500 B\"", "quantum", "has no queue itself"),
        ("match = [{ port = 80 }]", "match", "has no queue itself"),
        ("queue.limit = \"20 packets\"", "queue", "has no queue itself"),
    ] {
        let outer = outer.replace(" }", &format!(", {wrong} }}"));
        let leaf = if key == "default" { leaf.replace(", default = true", "") } else { leaf.to_owned() };
        let error = error(&with(&[&outer, &leaf])).to_string();
        assert!(error.contains(&format!("`down.htb.class[0].{key}`")) && error.contains(reason), "{error}");
    }
    let error = error(&with(&[leaf, outer])).to_string();
    assert!(
        error.contains("`down.htb.class[0].parent`") && error.contains("move this class after its parent"),
        "{error}"
    );
    let error = self::error(&with(&[outer, &leaf.replace("\"outer\"", "\"otter\"")])).to_string();
    assert!(
        error.contains("no class \"otter\" before this one; write an earlier class such as \"outer\""),
        "{error}"
    );
    let chain = |number: usize| {
        let name = |level: usize| format!(r#"name = "c{level}", rate = "8 kbit/s""#);
        let inner = |level: usize| format!(r#"{{ parent = "c{}", {} }}"#, level - 1, name(level));
        let first = std::iter::once(format!("{{ {} }}", name(0)));
        let mut classes: Vec<String> = first.chain((1..number).map(inner)).collect();
        let last = classes.pop().unwrap().replace(" }", ", default = true }");
        classes.push(last);
        with(&classes.iter().map(String::as_str).collect::<Vec<_>>())
    };
    read(&chain(8));
    let error = self::error(&chain(9)).to_string();
    assert!(error.contains("`down.htb.class[8].parent`: 9 levels of classes"), "{error}");
}

/// [`BASE`] with a page load instead of the bulk transfer, from line 27, and the way to load it, from
/// line 41.
fn page_base() -> String {
    let page =
        "kind = \"http-page\"\nname = \"page\"\nmain = \"10 kB\"\ninline = \"2 kB\"\ninline_count = 3\n";
    let bulk = "kind = \"bulk-tcp\"\nname = \"tcp-1\"\nbytes = \"188640 B\"\n";
    let http =
        "[http]\nprotocol = \"http1.0\"\nconnections = 4\nrequest = \"300 B\"\nresponse_header = \"0 B\"\n";
    base_with(bulk, page) + http
}

#[test]
fn page_loads_that_nobody_can_run() {
    let base = page_base();
    read(&base);
    read(&base.replace("http1.0", "http1.1").replace("300 B", "100 B").replace("\"0 B\"", "\"100 B\""));
    for (from, to, line, parts) in [
        ("main = \"10 kB\"", "main = \"0 B\"", 30, ["`flow[0].main`", "from \"1 B\""]),
        ("inline = \"2 kB\"", "inline = \"2000 MB\"", 31, ["`flow[0].inline`", "\"1000000000 B\""]),
        ("inline = \"2 kB\"", "inlines = \"2 kB\"", 31, ["`flow[0].inlines`", "did you mean `inline`?"]),
        ("inline_count = 3", "inline_count = 1001", 32, ["`flow[0].inline_count`", "from 0 to 1000"]),
        ("inline_count = 3", "inline_count = 3\nport = 0", 33, ["`flow[0].port`", "1"]),
        ("\"http1.0\"", "\"http/1.0\"", 42, ["`http.protocol`", "did you mean `http1.0`?"]),
        ("\"http1.0\"", "\"http1.1-piplined\"", 42, ["`http.protocol`", "did you mean `http1.1-pipelined`?"]),
        ("connections = 4", "connections = 0", 43, ["`http.connections`", "from 1 to"]),
        ("request = \"300 B\"", "request = \"99 B\"", 44, ["`http.request`", "from \"100 B\""]),
        ("\"0 B\"\n", "\"50 B\"\n", 45, ["`http.response_header`", "from \"100 B\""]),
        (
            "connections = 4",
            "connections = 4\nclose_after = \"1 s\"",
            44,
            ["`http.close_after`", "the server closes"],
        ),
        (
            "connections = 4",
            "connections = 4\nheader_write = \"separate\"",
            44,
            ["`http.header_write`", "set response_header"],
        ),
        (
            "connections = 4",
            "connections = 4\nheader_write = \"seperate\"",
            44,
            ["`http.header_write`", "`separate`"],
        ),
        (
            "connections = 4",
            "connections = 4\nserver_closes = true",
            44,
            ["`http.server_closes`", "http1.1-pipelined"],
        ),
        ("connections = 4", "connections = 4\ninline_after = 1", 44, ["`http.inline_after`", "missing unit"]),
        ("request = \"300 B\"\n", "", 41, ["missing key `http.request`", "request ="]),
    ] {
        assert!(base.contains(from), "{from}");
        let error = error(&base.replacen(from, to, 1));
        assert_eq!(error.line, Some(line), "{to}\n{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{to}\nwanted: {part}\nshown: {error}");
        }
    }
    let nobody_says_how = error(base.split("[http]").next().unwrap());
    assert_eq!(nobody_says_how.line, Some(28));
    let wanted = "`flow[0].kind`: the flow loads a web page, but there is no [http]; add for example [http] with protocol";
    assert!(nobody_says_how.to_string().contains(wanted), "{nobody_says_how}");
}

#[test]
fn the_idle_time_of_red_is_given_once() {
    let red = |keys: &str| {
        let red = format!(
            "queue.limit = \"20 packets\"\nqueue.red = {{ min = \"2000 B\", max = \"6000 B\", \
             max_probability = 0.1, weight = 0.002{keys} }}"
        );
        base_with("queue.limit = \"20 packets\"", &red)
    };
    read(&red(", avpkt = \"500 B\""));
    let neither = error(&red("")).to_string();
    assert!(neither.contains("`down.queue.red`") && neither.contains("avpkt = \"500 B\""), "{neither}");
    let both = error(&red(", avpkt = \"500 B\", idle_packet_time = \"72 ms\"")).to_string();
    assert!(both.contains("`down.queue.red.avpkt`") && both.contains("leave out one"), "{both}");
}

#[test]
fn values_that_nothing_can_run() {
    assert_each(&[
        ("name = \"udp\"", "name = \"tcp-1\"", 34, &["`flow[1].name`", "two flows", "\"tcp-1-2\""]),
        ("name = \"udp\"", "name = \"\"", 34, &["`flow[1].name`", "empty"]),
        ("512 B", "549 B", 36, &["`flow[1].payload`", "does not fit mtu", "\"548 B\""]),
        ("512 B", "0 B", 36, &["`flow[1].payload`", "from \"1 B\""]),
        ("180 s", "0 s", 37, &["`flow[1].duration`", "must not be zero"]),
        (
            "\"32 kbit/s\"\npayload = \"512 B\"",
            "\"1000 Gbit/s\"\npayload = \"1 B\"",
            35,
            &["`flow[1].rate`", "less than a nanosecond apart"],
        ),
        (
            "\"32 kbit/s\"",
            "\"1000001 Mbit/s\"",
            35,
            &["`flow[1].rate`", "more than \"1000 Gbit/s\"", "12 ns"],
        ),
        (
            "delay = \"300 ms\"",
            "delay = \"86401 s\"",
            14,
            &["`down.link.delay`", "write at most \"86400 s\", about the time that light"],
        ),
        ("delay = \"0.15 ms\"", "delay = \"1000000 s\"", 9, &["`lan.delay`", "\"86400 s\""]),
        (
            "\"32 kbit/s\"\npayload = \"512 B\"\nduration = \"180 s\"",
            "\"1 Gbit/s\"\npayload = \"512 B\"\nduration = \"1000000000 s\"",
            37,
            &["`flow[1].duration`", "shorten it, or lower the rate"],
        ),
        ("\"20 packets\"", "\"8000000 packets\"", 11, &["`down.queue.limit`", "write at most 7456540"]),
        ("188640 B", "0 B", 30, &["`flow[0].bytes`", "must not be zero"]),
        ("sack = true", "delayed_ack = \"0 s\"", 26, &["`tcp.delayed_ack`", "must not be zero", "200 ms"]),
        ("sack = true", "initial_window = 0", 26, &["`tcp.initial_window`", "the nearest is 1"]),
        ("sack = true", "retries = 256", 26, &["`tcp.retries`", "the nearest is 255"]),
        (
            "188640 B",
            "18446744073709551615 B",
            30,
            &["`flow[0].bytes`", "write at most \"1000000000000000 B\""],
        ),
        ("180 s", "1000000001 s", 37, &["`flow[1].duration`", "write at most \"1000000000 s\""]),
        ("sack = true", "rto_min = \"121 s\"", 26, &["`tcp.rto_min`", "above rto_max = \"120 s\""]),
        ("sack = true", "receive_window_max = 3", 24, &["`tcp.receive_window_initial`", "raise"]),
        ("mtu = \"576 B\"", "mtu = \"40 B\"", 5, &["`mtu`", "\"68 B\""]),
        ("time_limit = \"300 s\"", "time_limit = \"0 s\"", 6, &["`time_limit`", "must not be zero"]),
    ]);
    for (probability, line) in [("1.2", 42), ("-0.1", 42), ("nan", 42)] {
        let error = error(&(BASE.to_owned() + &errors_table(probability, "5 s")));
        assert_eq!(error.line, Some(line));
        assert!(error.to_string().contains("`errors.packet_error_probability`"), "{error}");
        assert!(error.to_string().contains("from 0 to 1"), "{error}");
    }
    read(&(BASE.to_owned() + &errors_table("\"50 %\"", "5 s")));
    let half = error(&(BASE.to_owned() + &errors_table("\"half\"", "5 s"))).to_string();
    assert!(half.contains("write a number from 0 to 1, for example 0.63, or \"63 %\""), "{half}");
    let error = error(&(BASE.to_owned() + &errors_table("0.5", "0 s")));
    assert_eq!(error.line, Some(40));
    assert!(error.to_string().contains("`errors.good`"), "{error}");
}

#[test]
fn an_error_process_hits_packets_or_bits() {
    let errors = |keys: &str| BASE.to_owned() + "[errors]\ngood = \"5 s\"\nbad = \"1 s\"\n" + keys;
    read(&errors("bit_error_rate = 1e-4"));
    let neither = error(&errors("")).to_string();
    assert!(neither.contains("`errors.packet_error_probability`: is missing"), "{neither}");
    let both = error(&errors("packet_error_probability = 0.5\nbit_error_rate = 1e-4"));
    assert_eq!(both.line, Some(43));
    assert!(both.to_string().contains("`errors.bit_error_rate`"), "{both}");
    let link = |keys: &str| BASE.replacen("[down.link]", &format!("[down.link]\n{keys}"), 1);
    read(&link("bit_error_rate = \"0.001 %\""));
    let both = error(&link("loss = 0.1\nbit_error_rate = 1e-4")).to_string();
    assert!(both.contains("`down.link.bit_error_rate`: loss sets the loss probability"), "{both}");
    let both = error(&link("gilbert_elliott = { p = 0.1, r = 0.1 }\nbit_error_rate = 1e-4")).to_string();
    assert!(both.contains("`down.link.bit_error_rate`: this loses packets independently, but"), "{both}");
}

#[test]
fn tcp_switches_that_contradict_each_other() {
    assert_each(&[
        (
            "sack = true",
            "timestamps = true\ntick = \"50 ns\"",
            27,
            &["`tcp.tick`", "wrap before time_limit = \"300 s\"", "\"10 ms\""],
        ),
        ("sack = true", "eifel = true", 26, &["`tcp.eifel`", "needs timestamps = true"]),
        ("sack = true", "sack = false\ndsack = true", 27, &["`tcp.dsack`", "needs sack = true"]),
        (
            "sack = true",
            "sack = false\nfrto = \"rfc5682-sack\"",
            27,
            &["`tcp.frto`", "needs sack = true", "\"off\""],
        ),
        (
            "sack = true",
            "stack = \"classic\"\nlost_by_age = true",
            27,
            &["`tcp.lost_by_age`", "stack = \"classic\" does not support it", "lost_by_age = false"],
        ),
        (
            "sack = true",
            "silly_window_avoidance = false",
            26,
            &["`tcp.silly_window_avoidance`", "only stack = \"classic\"", "silly_window_avoidance = true"],
        ),
        (
            "sack = true",
            "stack = \"classic\"\nrecovery = \"sack-pipe\"\nsack = false",
            27,
            &["`tcp.recovery`", "needs sack = true"],
        ),
        ("sack = true", "rack = true", 26, &["`tcp.rack`", "only stack = \"linux-6\"", "rack = false"]),
        (
            "sack = true",
            "stack = \"classic\"\nlost_by_age = false\ncongestion_control = \"bbr\"",
            28,
            &["`tcp.congestion_control`", "does not support it", "write congestion_control = \"reno\""],
        ),
        (
            "sack = true",
            "stack = \"linux-6\"\nlost_by_age = true",
            27,
            &["`tcp.lost_by_age`", "does not support it", "lost_by_age = false"],
        ),
    ]);
}

#[test]
fn windows_and_acknowledgments_that_no_end_can_have() {
    assert_each(&[
        (
            "sack = true",
            "delayed_ack_adapts = true\ndelayed_ack = \"40 ms\"\nack_every = 1",
            28,
            &["`tcp.ack_every`", "no effect with delayed_ack_adapts = true; write ack_every = 2, or"],
        ),
        (
            "sack = true",
            "delayed_ack_adapts = true\ndelayed_ack = \"210 ms\"",
            27,
            &["`tcp.delayed_ack`", "above 200 ms, the maximum of the adaptive delay; write \"40 ms\""],
        ),
        ("sack = true", "ack_every = 0", 26, &["`tcp.ack_every`", "the nearest is 1"]),
        ("sack = true", "initial_ssthresh = 56250", 26, &["`tcp.initial_ssthresh`", "missing unit"]),
        ("sack = true", "initial_ssthresh = \"64 kb\"", 26, &["`tcp.initial_ssthresh`", "\"64 kB\"?"]),
        (
            "sack = true",
            "initial_ssthresh = \"unlimited\"",
            26,
            &["`tcp.initial_ssthresh`", "\"infinite\" or a size"],
        ),
        (
            "sack = true",
            "receive_window_initial = 1",
            26,
            &["`tcp.receive_window_initial`", "the nearest is 2"],
        ),
    ]);
}

#[test]
fn a_rule_of_recovery_does_not_choose_the_stack() {
    assert_each(&[
        (
            "sack = true",
            "recovery = \"newreno\"",
            26,
            &["`tcp.recovery`", "the stack is \"linux-2\"", "write stack = \"classic\", too"],
        ),
        (
            "sack = true",
            "recovery = \"proportional-rate\"",
            26,
            &["`tcp.recovery`", "write stack = \"linux-6\", too, or recovery = \"linux-in-flight\""],
        ),
    ]);
}

fn errors_table(probability: &str, length: &str) -> String {
    format!("[errors]\ngood = {length:?}\nbad = {length:?}\npacket_error_probability = {probability}\n")
}

#[test]
fn factors_levels_and_matrix() {
    for (matrix, line, part) in [
        ("[[matrix]]\nlinks = [\"e0\"]", 53, "unknown factor `links`; did you mean `link`?"),
        (
            "[[matrix]]\nlink = [\"e0\",\n \"r2\"]",
            54,
            "unknown level \"r2\" of factor `link`; did you mean `r1`?",
        ),
        (
            "[[matrix]]\nvariant = [\"eifel\"]",
            53,
            "did you mean `eifel+red`? (accepted: baseline, eifel+red)",
        ),
        ("[[matrix]]\nlink = []", 53, "`matrix[0].link`: the list is empty"),
        ("[[matrix]]\nlink = \"e0\"", 53, "found the string \"e0\"; write a list"),
        ("[matrix]\nlink = [\"e0\"]", 52, "`matrix`: found a table; write a list"),
        ("[factor.empty]", 52, "`factor.empty`: the table is empty"),
        ("[factor.empty]\nlevel = 3", 53, "`factor.empty.level`: found the number 3; write a table"),
        ("[factor.\"a b\".c]", 52, "leave out blanks"),
        ("[factor.\"a\\u0007\".c]", 52, "leave out blanks, control characters"),
        ("[factor.a.\"c=d\"]", 52, "leave out blanks"),
        ("[factor.a.unused]\ntcp.sak = true\n[[matrix]]\nlink = [\"e0\"]", 53, "did you mean `sack`?"),
        ("[factor.a.unused]\ndown.link.rate = \"1\"\n", 53, "`factor.a.unused.down.link.rate`: missing unit"),
    ] {
        let error = error(&format!("{BASE}{FACTORS}{matrix}\n"));
        assert_eq!(error.line, Some(line), "{matrix}\n{error}");
        assert!(error.to_string().contains(part), "{matrix}\n{error}");
    }
    let error = error(&base_with("[lan]", "matrix = []\n[lan]"));
    assert_eq!(error.line, Some(7));
    assert!(error.to_string().contains("`matrix`: the list is empty"), "{error}");
}

#[test]
fn a_bad_value_of_a_level_is_blamed_on_its_line_and_cell() {
    let text = format!("{BASE}{FACTORS}").replace("7 packets", "1 packet");
    let error = error(&text);
    assert_eq!(error.line, Some(51));
    let shown = error.to_string();
    assert!(shown.contains("`down.queue.red.max`"), "{shown}");
    assert!(
        shown.ends_with("(in 4 of 8 cells, the first is link=e0,workload=both,variant=eifel+red)"),
        "{shown}"
    );
}

#[test]
fn two_factors_that_disagree_about_a_key() {
    let text = format!("{BASE}[factor.a.x]\ntcp.sack = false\n[factor.b.y]\ntcp.sack = true\n");
    let error = error(&text);
    assert_eq!(error.line, Some(42));
    let shown = error.to_string();
    assert!(
        shown.contains("`tcp.sack` is set here by b=y and, to another value, on line 40 by a=x"),
        "{shown}"
    );
    read(&text.replace("sack = false", "sack = true"));
}

#[test]
fn too_many_cells() {
    let factors: Vec<_> = (0..14).map(|n| format!("[factor.f{n}.a]\n[factor.f{n}.b]\n")).collect();
    let text = BASE.to_owned() + &factors.concat();
    assert!(error(&text).to_string().contains("more than 10000 cells; list fewer levels"));
}

#[test]
fn syntax_and_encoding() {
    assert_each(&[
        ("\"64 kbit/s\"", "64 kbit/s", 13, &["not valid TOML", "quotation marks"]),
        ("seed = 7", "name = \"again\"", 3, &["not valid TOML", "duplicate key"]),
        ("[lan]", "[lan", 7, &["not valid TOML"]),
    ]);
    for little_endian in [true, false] {
        let units = std::iter::once('\u{feff}' as u16).chain(BASE.encode_utf16());
        let bytes: Vec<u8> =
            units.flat_map(|u| if little_endian { u.to_le_bytes() } else { u.to_be_bytes() }).collect();
        let error = Study::from_bytes(&bytes, "f.toml", &Sampler::NONE).unwrap_err().to_string();
        assert!(error.starts_with("f.toml:1: the file is UTF-16") && error.contains("UTF-8"), "{error}");
    }
    let latin = Study::from_bytes(b"name = \"a\"\ntitle = \"\xe9\"\n", "f.toml", &Sampler::NONE)
        .unwrap_err()
        .to_string();
    assert!(latin.starts_with("f.toml:2: the file is not UTF-8"), "{latin}");
    assert!(Study::from_bytes(format!("\u{feff}{BASE}").as_bytes(), "f.toml", &Sampler::NONE).is_ok());
    let windows_lines = base_with("seed = 7", "seeds = 7").replace('\n', "\r\n");
    assert_eq!(error(&windows_lines).line, Some(3));
    assert!(errors("").iter().any(|error| error.message.contains("add for example [[flow]]")));
}

#[test]
fn files_that_cannot_be_read() {
    let folder = std::env::temp_dir().join(format!("lasthop-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("study.toml");
    std::fs::write(&path, BASE).unwrap();
    assert_eq!(Study::from_path(&path).unwrap().name, "small");
    let shown = |path: &std::path::Path| Study::from_path(path).unwrap_err().to_string();
    assert!(shown(&folder).contains("this is a directory"));
    let missing = shown(&folder.join("studie.toml"));
    assert!(missing.contains("no such file; did you mean") && missing.contains("study.toml?"), "{missing}");
    std::fs::write(folder.join("big.toml"), vec![b'#'; 5 << 20]).unwrap();
    assert!(shown(&folder.join("big.toml")).contains("larger than"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("lasthop-scenario-{}.toml", std::process::id()));
    std::fs::write(&path, BASE).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    match Study::from_path(&path) {
        Ok(study) => assert_eq!(study.name, "small", "the superuser may read everything"),
        Err(error) => assert!(error.to_string().contains("no permission"), "{error}"),
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn impossible_short_flows_and_web_clients() {
    const SHORT: &str = "[[flow]]\nkind = \"short-flows\"\nname = \"short\"\npackets = 9\n\
        request = \"200 B\"\nstart = \"0 s\"\narrivals = { model = \"poisson\", load = 0.5 }\n\
        hosts = [{ name = \"iw3\", initial_window = 3, receive_window_initial = 4 }]\n";
    const WEB: &str = "[[flow]]\nkind = \"web-clients\"\nname = \"web\"\nclients = 5\nstart = \"0 s\"\n\
        batches = 2\ninterval = \"10 s\"\nrequests = { mean = 5, min = 1, max = 9 }\ngap = \"1 s\"\n\
        multiple = { mean = 5, min = 1, max = 9 }\nfirst_unit = \"100 B\"\n\
        others = [{ unit = \"1 kB\", share = 0.5 }]\n";
    let accepted = format!("{BASE}{SHORT}{WEB}");
    assert!(Study::from_str(&accepted, "x.toml").is_ok());
    for (from, to, parts) in [
        ("packets = 9", "packets = 0", ["`flow[2].packets`", "from 1 to 1000"]),
        ("\"200 B\"", "\"0 B\"", ["`flow[2].request`", "from \"1 B\""]),
        ("load = 0.5", "load = 0.0", ["`flow[2].arrivals.load`", "write for example 0.5"]),
        ("model = \"poisson\"", "model = \"random\"", ["random", "sequential, poisson"]),
        ("initial_window = 3", "initial_window = 0", ["`flow[2].hosts[0].initial_window`", "from 1"]),
        ("hosts = [{ name = \"iw3\"", "hosts = [{ name = \"\"", ["`flow[2].hosts[0].name`", "\"iw3\""]),
        ("clients = 5", "clients = 0", ["`flow[3].clients`", "from 1 to 1000"]),
        ("requests = { mean = 5", "requests = { mean = 0", ["`flow[3].requests`", "1 <= min <= mean"]),
        ("share = 0.5", "share = 0.0", ["`flow[3].others`", "no class has a share"]),
        ("interval = \"10 s\"", "interval = \"0 s\"", ["`flow[3].interval`", "must not be zero"]),
    ] {
        let wrong = accepted.replace(from, to);
        assert_ne!(wrong, accepted, "{from}");
        let error = error(&wrong).to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}
