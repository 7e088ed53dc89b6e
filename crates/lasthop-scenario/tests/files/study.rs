//! Merging, the matrix, the example and the schema; and random files, none of which may make the reader
//! panic.

use crate::support::{BASE, FACTORS, base_with, read};
use lasthop_core::{Distribution, Duration, QueueSize, Seed};
use lasthop_link::{Periods, Start};
use lasthop_scenario::{Flow, Roles, Sampler, Study, json_schema};
use lasthop_traffic::FlowConfig;
use proptest::prelude::*;

fn keys(study: &Study) -> Vec<String> {
    study.cells.iter().map(lasthop_scenario::Cell::key).collect()
}

#[test]
fn a_file_without_factors_is_one_cell() {
    let study = read(BASE);
    assert_eq!((study.name.as_str(), study.seed, study.replications), ("small", 7, 3));
    assert_eq!(keys(&study), [""]);
    let scenario = &study.cells[0].scenario;
    assert_eq!(scenario.down.as_ref().unwrap().queue.limit, QueueSize::Packets(20));
    assert_eq!(scenario.tcp.rto_min, Duration::from_millis(200), "from the profile");
    assert_eq!(scenario.roles, Roles::ByName);
    assert!(scenario.errors.is_none() && !scenario.sequential());
}

#[test]
fn without_matrix_the_last_factor_varies_fastest() {
    let study = read(&format!("{BASE}{FACTORS}"));
    let levels: Vec<_> =
        study.factors.iter().map(|(name, levels)| (name.as_str(), levels.join(" "))).collect();
    assert_eq!(
        levels,
        [
            ("link", "e0 r1".into()),
            ("workload", "both tcp".into()),
            ("variant", "baseline eifel+red".to_owned())
        ]
    );
    assert_eq!(
        keys(&study)[..3],
        [
            "link=e0,workload=both,variant=baseline",
            "link=e0,workload=both,variant=eifel+red",
            "link=e0,workload=tcp,variant=baseline"
        ]
    );
    assert_eq!(study.cells.len(), 8);
}

#[test]
fn a_matrix_is_the_union_of_its_blocks_each_cell_once() {
    let matrix = "[[matrix]]\nvariant = [\"eifel+red\"]\nworkload = [\"tcp\", \"tcp\"]\n\
                  [[matrix]]\nlink = [\"r1\"]\nworkload = [\"tcp\"]\n";
    let study = read(&format!("{BASE}{FACTORS}{matrix}"));
    assert_eq!(
        keys(&study),
        [
            "link=e0,workload=tcp,variant=eifel+red",
            "link=r1,workload=tcp,variant=eifel+red",
            "link=r1,workload=tcp,variant=baseline"
        ]
    );
    let whole = read(&format!("{BASE}{FACTORS}[[matrix]]\n"));
    assert_eq!(keys(&whole), keys(&read(&format!("{BASE}{FACTORS}"))));
}

#[test]
fn levels_merge_tables_and_replace_lists_and_distributions() {
    let study = read(&format!("{BASE}{FACTORS}"));
    let cell = |key: &str| &study.cells.iter().find(|cell| cell.key() == key).unwrap().scenario;
    let plain = cell("link=e0,workload=both,variant=baseline");
    let rich = cell("link=r1,workload=tcp,variant=eifel+red");
    assert_eq!(plain, &read(BASE).cells[0].scenario);
    assert!(rich.tcp.timestamps && rich.tcp.sack, "tables merge");
    assert_eq!(rich.down.as_ref().unwrap().queue.limit, QueueSize::Packets(20));
    assert_eq!(rich.down.as_ref().unwrap().queue.red().unwrap().min, QueueSize::Packets(2));
    assert_eq!(rich.errors.as_ref().unwrap().arq.as_ref().unwrap().retransmissions, 1);
    let [Flow { kind: FlowConfig::BulkTcp(only), .. }] = &rich.flow[..] else {
        panic!("lists are replaced: {:?}", rich.flow)
    };
    assert_eq!(only.name, "only");

    let lengths = "[errors]\ngood = { distribution = \"exponential\", mean = \"15 s\", max = \"20 s\" }\n\
                   bad = \"1 s\"\npacket_error_probability = 1\n\
                   [factor.good.short.errors.good]\ndistribution = \"sequence\"\nvalues = [\"1 s\"]\n";
    let errors = read(&format!("{BASE}{lengths}")).cells[0].scenario.errors.clone().unwrap();
    assert_eq!(errors.good, Distribution::Sequence(vec![Duration::from_secs(1)]));
}

#[test]
fn factors_stand_in_the_order_of_the_file_even_if_opened_piecemeal() {
    let study = read(&format!(
        "{BASE}[factor.z.one]\n[factor.a.one]\n[factor.z.two]\n[factor.m]\nx.tcp.ecn = true\n"
    ));
    let names: Vec<_> =
        study.factors.iter().map(|(name, levels)| format!("{name}:{}", levels.join("+"))).collect();
    assert_eq!(names, ["z:one+two", "a:one", "m:x"]);
}

#[test]
fn cached_metrics_make_replications_a_sequence() {
    let study = read(&format!("{BASE}[factor.v.plain]\n[factor.v.cbi]\ntcp.cached_metrics = true\n"));
    assert_eq!(study.cells.iter().map(|cell| cell.scenario.sequential()).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_scenario_survives_its_own_text() {
    let study = read(&format!("{BASE}{FACTORS}"));
    for cell in &study.cells {
        let body = toml::to_string(&cell.scenario).unwrap();
        let text = format!("name = \"x\"\ntitle = \"x\"\nseed = 1\nreplications = 1\n{body}");
        assert_eq!(read(&text).cells[0].scenario, cell.scenario);
    }
}

#[test]
fn the_example_reads_as_two_cells() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/two-flows.toml");
    let study = Study::from_path(path.as_ref()).unwrap();
    assert_eq!(keys(&study), ["memory=none", "memory=cbi"]);
    assert_eq!(study.replications, 5);
    assert_eq!(study.cells.iter().map(|cell| cell.scenario.sequential()).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_level_can_lay_classes_over_the_queue_and_another_change_the_queue_of_all() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/diffserv.toml");
    let study = Study::from_path(path.as_ref()).unwrap();
    let last = study.cells.last().unwrap();
    assert_eq!(last.key(), "router=classes,queue=red");
    let down = last.scenario.down.as_ref().unwrap();
    assert!(down.queue.red().is_some());
    let classes = &down.htb.as_ref().unwrap().class;
    assert_eq!(classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>(), ["stream", "download"]);
    assert!(classes.iter().all(|class| class.queue.is_none()), "they take the router's");
}

#[test]
fn states_can_follow_a_list_of_lengths_from_a_random_phase() {
    let errors = "[errors]\nstart = \"random-phase\"\npacket_error_probability = 0.83\n\
                  good = { distribution = \"sequence\", values = [\"2.8 s\", \"3500 ms\"] }\n\
                  bad = { distribution = \"sequence\", values = [\"1.4 s\", \"3 s\", \"2 s\"] }\n";
    let study = read(&format!("{BASE}{errors}"));
    let mut config = study.cells[0].scenario.errors.clone().unwrap();
    assert_eq!(config.start, Start::RandomPhase);
    config.start = Start::Good;
    let seed = Seed { study: 1, replication: 1 };
    let ends: Vec<_> =
        Periods::new(&config, None, seed).take(7).map(|stay| stay.end.as_nanos() / 1_000_000).collect();
    assert_eq!(ends, [2_800, 4_200, 7_700, 10_700, 13_500, 15_500, 19_000]);
}

#[test]
fn the_schema_covers_every_key_of_a_scenario() {
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).unwrap();
    let text = format!("{BASE}{FACTORS}");
    let scenario = serde_json::to_value(&read(&text).cells[7].scenario).unwrap();
    for (key, value) in scenario.as_object().unwrap() {
        let property = &schema["properties"][key];
        assert!(property.is_object(), "{key}");
        let reference = property["anyOf"][0]["$ref"].as_str();
        let definition = reference.and_then(|name| name.strip_prefix("#/$defs/Partial"));
        for inner in value.as_object().into_iter().flatten().map(|(inner, _)| inner) {
            let definition = format!("Partial{}", definition.unwrap());
            assert!(schema["$defs"][&definition]["properties"][inner].is_object(), "{key}.{inner}");
        }
    }
    assert!(schema["$defs"]["Level"]["properties"]["tcp"].is_object());
    assert!(schema["$defs"]["Level"].get("required").is_none());
    assert!(schema["$defs"]["PartialTcpConfig"].get("required").is_none());
}

/// A valid file with a stretch of bytes cut out, doubled or overwritten.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let text = format!("{BASE}{FACTORS}[[matrix]]\nlink = [\"e0\", \"r1\"]\n").into_bytes();
    let length = text.len();
    let junk = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..8),
        "[-+0-9a-z.\"'=\\[\\]{}, \n#]{0,12}".prop_map(String::into_bytes),
        proptest::sample::select(vec![
            "-", "9", "0", "nan", "1e999", "[]", "{}", "\"\"", "true", "\u{feff}", "\u{0}"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    proptest::collection::vec((0..length, 0_usize..40, junk, any::<bool>()), 1..4).prop_map(move |edits| {
        let mut bytes = text.clone();
        for (at, cut, junk, keep) in edits {
            let at = at.min(bytes.len());
            let end = if keep { at } else { (at + cut).min(bytes.len()) };
            bytes.splice(at..end, junk);
        }
        bytes
    })
}

fn assert_one_paragraph(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Err(errors) = Study::from_bytes(bytes, "f.toml", &Sampler::NONE) else { return Ok(()) };
    prop_assert!(!errors.as_slice().is_empty());
    for error in errors.as_slice() {
        prop_assert!(!error.message.contains('\n') && !error.message.is_empty());
        prop_assert!(error.line.is_some(), "{error}");
        prop_assert!(error.to_string().starts_with("f.toml:"));
    }
    Ok(())
}

/// This number of cases, or the number in `PROPTEST_CASES` if that is greater.
pub fn at_least(cases: u32) -> ProptestConfig {
    let stated = ProptestConfig::default();
    ProptestConfig { cases: stated.cases.max(cases), ..stated }
}

proptest! {
    #![proptest_config(at_least(4000))]

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        assert_one_paragraph(&bytes)?;
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z.\"=\\[\\]{}\n ,#0-9\u{e9}\u{1f600}-]{0,200}") {
        assert_one_paragraph(text.as_bytes())?;
    }

    #[test]
    fn no_mutation_of_a_valid_file_makes_the_reader_panic(bytes in mutated()) {
        assert_one_paragraph(&bytes)?;
    }
}

#[test]
fn a_table_over_a_list_of_named_things_changes_these_by_name() {
    let factors = "[factor.load.half]\nflow.udp.rate = \"16 kbit/s\"\n[factor.load.none]\n\
                   [factor.size.small]\nflow.tcp-1 = { bytes = \"10 kB\" }\n\
                   [factor.size.more]\nflow.tcp-2 = { kind = \"bulk-tcp\", bytes = \"1 kB\", \
                   start = \"0 s\" }\n";
    let study = read(&format!("{BASE}{factors}"));
    let flows = |key: &str| {
        let cell = study.cells.iter().find(|cell| cell.key() == key).unwrap();
        cell.scenario.flow.iter().map(|flow| format!("{flow:?}")).collect::<Vec<_>>()
    };
    let changed = flows("load=half,size=small");
    let plain = flows("load=none,size=more");
    assert_eq!((changed.len(), plain.len()), (2, 3));
    assert!(changed[0].contains("10000") && plain[0].contains("188640"));
    assert!(changed[1].contains("16000") && plain[1].contains("32000"));
    assert!(plain[2].contains("tcp-2"));
}

#[test]
fn a_list_must_not_hide_what_an_earlier_factor_changed_in_it() {
    let factors = "[factor.load.half]\nflow.udp.rate = \"16 kbit/s\"\n\
                   [factor.flows.tcp]\nflow = [{ kind = \"bulk-tcp\", name = \"t\", bytes = \"1 kB\", \
                   start = \"0 s\" }]\n";
    let error = Study::from_str(&format!("{BASE}{factors}"), "x.toml").expect_err("accepted").to_string();
    assert!(
        error.contains("`flow` is set here by flows=tcp") && error.contains("set it in one factor only"),
        "{error}"
    );
    let error = Study::from_str(&format!("{BASE}[factor.a.b]\nflow.udp = 3\n"), "x.toml");
    let error = error.expect_err("accepted").to_string();
    assert!(error.contains("found the number 3; write a table"), "{error}");
}

#[test]
fn what_only_real_tcp_has_is_refused_where_the_model_starts() {
    let with = |algorithm: &str| {
        read(&base_with(
            "profile = \"linux-2.4\"",
            &format!("profile = \"linux-2.4\"\ncongestion_control = \"{algorithm}\""),
        ))
    };
    for modelled in ["reno", "cubic"] {
        assert!(with(modelled).cells[0].needs_model().is_ok());
    }
    let vegas = with("vegas").cells[0].needs_model().unwrap_err();
    assert!(vegas.message.contains("\"linux-6\""), "{vegas}");
    let modern =
        base_with("profile = \"linux-2.4\"", "profile = \"linux-6\"\ncongestion_control = \"cubic\"");
    assert!(read(&modern).cells[0].needs_model().is_ok());
    let refused = with("bbr").cells[0].needs_model().unwrap_err();
    assert!(refused.message.contains("`tcp.congestion_control`"), "{refused}");
    assert!(refused.message.contains("--engine live"), "{refused}");
    let stated =
        base_with("profile = \"linux-2.4\"", "profile = \"linux-2.4\"\ncongestion_control = \"bbr\"");
    assert_eq!(
        refused.line.and_then(|line| stated.lines().nth(line - 1)),
        Some("congestion_control = \"bbr\"")
    );
}

/// A scenario for Linux' queue disciplines, and one level that says `extra`.
fn linux_router(extra: &str) -> String {
    format!(
        r#"
name = "router"
title = "A router of Linux"
seed = 1
replications = 1
mtu = "576 B"
time_limit = "1 min"
router.implementation = "linux"
lan = {{ rate = "100 Mbit/s", delay = "0 s" }}
down.queue.limit = "20 packets"
down.link = {{ rate = "64 kbit/s", delay = "300 ms", send_buffer = "576 B", release = "serialised" }}
up.queue.limit = "20 packets"
up.link = {{ rate = "64 kbit/s", delay = "300 ms", send_buffer = "576 B", release = "serialised" }}
tcp.profile = "linux-6"
flow = [{{ kind = "bulk-tcp", name = "tcp", bytes = "1 kB", start = "0 s" }}]
factor.what.it = {{ {extra} }}
"#
    )
}

#[test]
fn a_router_of_linux_says_which_key_its_queue_disciplines_cannot_be() {
    for fits in [
        "",
        r#"errors = { good = "0 s", bad = "1 s", packet_error_probability = 0.1 }"#,
        r#"down.htb = { overhead = "14 B", class = [{ name = "all", rate = "32 kbit/s", default = true }] }"#,
    ] {
        let refused = read(&linux_router(fits)).cells[0].needs_model().unwrap_err().to_string();
        let is_told = refused.contains("`router.implementation`") && refused.contains("--engine kernel");
        assert!(is_told, "{refused}");
    }
    for (extra, key, remedy) in [
        (r#"up.queue.limit = "5760 B""#, "up.queue.limit", "\"10 packets\""),
        (
            concat!(
                r#"down.queue.red = { min = "2 packets", max = "7 packets", max_probability = 0.1, "#,
                r#"weight = 0.1, avpkt = "500 B" }"#,
            ),
            "down.queue.red.min",
            "\"1000 B\"",
        ),
        (r#"down.link.release = "acknowledged""#, "down.link.release", "\"serialised\""),
        (r#"down.link.change = [{ at = "1 s", delay = "1 s" }]"#, "down.link.change", "leave it out"),
        (r#"down.link.overhead = "1 ms""#, "down.link.overhead", "leave it out"),
        (r#"down.link.rate = "64001 bit/s""#, "down.link.rate", "\"64000 bit/s\""),
        (
            r#"down.htb.class = [{ name = "all", rate = "1 Mbit/s", default = true }]"#,
            "down.link.rate",
            "at least",
        ),
        (
            r#"down.htb.class = [{ name = "a", rate = "8 kbit/s", ceil = "64001 bit/s", default = true }]"#,
            "down.htb.class[0].ceil",
            "\"64000 bit/s\"",
        ),
        (
            r#"down.htb = { rate = "7 bit/s", class = [{ name = "a", rate = "8 kbit/s", default = true }] }"#,
            "down.htb.rate",
            "\"8 bit/s\"",
        ),
        (
            concat!(
                r#"errors = { good = "0 s", bad = "1 s", packet_error_probability = 0.1 }, "#,
                r#"down.htb.class = [{ name = "a", rate = "8 kbit/s", default = true }, "#,
                r#"{ name = "b", rate = "8 kbit/s" }]"#,
            ),
            "down.queue",
            "leave out the table errors",
        ),
        (
            r#"errors = { good = "1 s", bad = "1 s", packet_error_probability = 0.1 }"#,
            "errors.good",
            "\"0 s\"",
        ),
        (
            r#"errors = { good = "0 s", bad = "1 s", bit_error_rate = 0.1 }"#,
            "errors.bit_error_rate",
            "write packet_error_probability",
        ),
        (
            concat!(
                r#"errors = { good = "0 s", bad = "1 s", packet_error_probability = 0.1, "#,
                r#"arq = { retransmissions = 1, delay = "1 s" } }"#,
            ),
            "errors.arq",
            "leave it out",
        ),
    ] {
        let error = Study::from_str(&linux_router(extra), "x.toml").expect_err(extra).to_string();
        assert!(error.contains(&format!("`{key}`")) && error.contains(remedy), "{extra}: {error}");
    }
}
