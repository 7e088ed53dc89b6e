//! Factors between two ends: their points, their cells, and the errors of faulty ranges.

use crate::study::at_least;
use crate::support::SHORT;
use lasthop_core::Rate;
use lasthop_scenario::{Cell, Flow, Method, Sample, Sampler, ScenarioError, Study};
use lasthop_traffic::FlowConfig;
use proptest::prelude::*;

/// Two ranges and a factor on top of [`SHORT`]; they begin at line 7.
const SPACE: &str = r#"[factor.rate]
from = "100 kbit/s"
to = "10 Mbit/s"
scale = "log"
sets = ["down.link.rate", "up.link.rate"]
[factor.variant.cubic]
[factor.variant.reno]
tcp.congestion_control = "reno"
[factor.bytes]
from = "100 kB"
to = "1.1 MB"
sets = "flow.bulk-tcp.bytes"
[sample]
points = 4
"#;

/// Even steps in every dimension, from the lower ends on.
fn steps(sample: Sample) -> Vec<Vec<f64>> {
    let row = |number| vec![f64::from(number) / f64::from(sample.points); sample.dimensions];
    (0..sample.points).map(row).collect()
}

fn sampled(text: &str, points: Option<u32>) -> Result<Study, Vec<ScenarioError>> {
    let sampler = Sampler { points, draw: &|sample| Ok(steps(sample)) };
    Study::from_bytes(text.as_bytes(), "f.toml", &sampler).map_err(|errors| errors.as_slice().to_vec())
}

#[track_caller]
fn read(text: &str) -> Study {
    sampled(text, None).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

#[track_caller]
fn error(from: &str, to: &str) -> ScenarioError {
    let text = format!("{SHORT}{SPACE}");
    assert!(text.contains(from), "{from}");
    let errors = sampled(&text.replacen(from, to, 1), None).unwrap_err();
    let [error] = &errors[..] else { panic!("{to}: {errors:#?}") };
    error.clone()
}

#[test]
fn every_point_is_crossed_with_the_named_levels() {
    let study = read(&format!("{SHORT}{SPACE}"));
    let keys: Vec<_> = study.cells.iter().map(Cell::key).collect();
    assert_eq!(
        keys[..4],
        [
            "rate=100kbit/s,variant=cubic,bytes=100kB",
            "rate=100kbit/s,variant=reno,bytes=100kB",
            "rate=316.23kbit/s,variant=cubic,bytes=350kB",
            "rate=316.23kbit/s,variant=reno,bytes=350kB",
        ]
    );
    assert_eq!(keys.len(), 8);
    let scenario = &study.cells[2].scenario;
    let rate = Rate::from_bits_per_second(316_230);
    assert_eq!([&scenario.down, &scenario.up].map(|path| path.as_ref().unwrap().link.rate), [rate, rate]);
    let [Flow { kind: FlowConfig::BulkTcp(flow), .. }] = &scenario.flow[..] else { panic!() };
    assert_eq!(flow.bytes.unwrap().0, 350_000);
    assert_eq!(study.factors, [("variant".to_owned(), vec!["cubic".to_owned(), "reno".to_owned()])]);
    let space = study.space.unwrap();
    assert_eq!((space.method, space.points), (Method::Sobol, 4));
    assert_eq!(space.ranges[0].sets, ["down.link.rate", "up.link.rate"]);
    assert_eq!(space.ranges[1].ends.map(|end| end.to_string()), ["100kB", "1.1MB"]);
}

#[test]
fn a_file_may_leave_the_sample_out_and_a_caller_may_ask_for_another_number() {
    let text = format!("{SHORT}{SPACE}");
    assert_eq!(sampled(&text, Some(2)).unwrap().cells.len(), 4);
    let study = read(text.split("[sample]").next().unwrap());
    assert_eq!(study.cells.len(), 128);
    let assumed: Vec<_> = study.assumed.iter().map(|each| (each.key.as_str(), each.value.as_str())).collect();
    assert!(assumed.contains(&("sample.points", "64")) && assumed.contains(&("sample.method", "sobol")));
}

#[test]
fn whole_numbers_are_levels_and_points_that_coincide_are_one() {
    let study = read(&format!(
        "{SHORT}[factor.iw]\nfrom = 3\nto = 4\nsets = \"tcp.initial_window\"\n[sample]\npoints = 8"
    ));
    let keys: Vec<_> = study.cells.iter().map(Cell::key).collect();
    assert_eq!(keys, ["iw=3", "iw=4"]);
    let [note] = &study.notes[..] else { panic!("{:?}", study.notes) };
    assert!(note.to_string().contains("only 2 of 8 points differ"), "{note}");
    assert_eq!(note.line, Some(12));
}

#[test]
fn a_sobol_sequence_wants_a_power_of_two() {
    let study = sampled(&format!("{SHORT}{SPACE}"), Some(100)).unwrap();
    let [note] = &study.notes[..] else { panic!("{:?}", study.notes) };
    assert!(note.to_string().contains("with 64 or 128 points"), "{note}");
    let hypercube = format!("{SHORT}{SPACE}method = \"latin-hypercube\"");
    assert!(sampled(&hypercube, Some(100)).unwrap().notes.is_empty());
}

#[test]
fn wrong_ranges_name_line_reason_and_remedy() {
    let rate = "from = \"100 kbit/s\"";
    for (from, to, line, parts) in [
        (rate, "form = \"1 kbit/s\"", 8, &["unknown key `factor.rate.form`", "did you mean `from`?"][..]),
        (rate, "from = \"100 kbits\"", 8, &["`factor.rate.from`", "did you mean \"100 kbit/s\"?"]),
        (rate, "from = \"20 Mbit/s\"", 8, &["is not below `to` = \"10 Mbit/s\"; swap them"]),
        (rate, "from = \"10 Mbit/s\"", 8, &["write two different ends"]),
        (rate, "from = \"10 ms\"", 9, &["is a rate, but `from` = \"10 ms\" is a duration"]),
        (rate, "from = true", 8, &["`factor.rate.from`: found true", "a number, or a string with a unit"]),
        (rate, "from = 64", 9, &["is a rate, but `from` = \"64\" is a number"]),
        (rate, "from = inf", 8, &["is not the end of a range"]),
        (rate, "", 7, &["missing key `factor.rate.from`; add for example from = \"64 kbit/s\""]),
        (
            "scale = \"log\"",
            "scale = \"logarithmic\"",
            10,
            &["unknown value \"logarithmic\"", "did you mean `log`?"],
        ),
        (
            "[\"down.link.rate\", \"up",
            "[\"down.link.rat\", \"up",
            11,
            &["`down.link.rat`", "did you mean `rate`?"],
        ),
        ("\"down.link.rate\"", "\"lan.delay\"", 8, &["`lan.delay`", "unknown unit \"kbit/s\""]),
        ("\"down.link.rate\"", "\"down link\"", 11, &["\"down link\" is not a key of the scenario"]),
        ("\"flow.bulk-tcp.bytes\"", "\"flow[0].bytes\"", 18, &["is not a key", "flow.NAME.bytes"]),
        ("\"flow.bulk-tcp.bytes\"", "\"down.link.rate\"", 18, &["factor `rate` sets `down.link.rate`, too"]),
        (
            "sets = \"flow.bulk-tcp.bytes\"\n",
            "",
            15,
            &["missing key `factor.bytes.sets`", "sets = \"down.link.rate\""],
        ),
        (
            "[factor.bytes]",
            "[factor.bytes.few]\n[factor.bytes]",
            15,
            &["unknown key `factor.bytes.few` (accepted: from, to, scale, sets)"],
        ),
        ("points = 4", "points = 0", 20, &["0 is out of range", "from 1 to 10000"]),
        ("points = 4", "points = 6000", 20, &["more than 10000 cells", "or sample fewer points"]),
        ("points = 4", "method = \"sobel\"", 20, &["did you mean `sobol`?", "latin-hypercube"]),
        (
            "[sample]",
            "[[matrix]]\nrate = [\"100kbit/s\"]\n[sample]",
            20,
            &["factor `rate` is a range and has no levels"],
        ),
        (
            "tcp.congestion_control = \"reno\"",
            "down.link.rate = \"1 Mbit/s\"",
            14,
            &["on line 8 by rate=100kbit/s"],
        ),
    ] {
        let error = error(from, to);
        assert_eq!(error.line, Some(line), "{to}\n{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{to}\nwanted: {part}\nshown:  {error}");
        }
    }
}

#[test]
fn a_logarithmic_range_starts_above_zero() {
    let text = format!(
        "{SHORT}[factor.x]\nfrom = \"0 s\"\nto = \"1 s\"\nscale = \"log\"\nsets = \"down.link.delay\""
    );
    let errors = sampled(&text, None).unwrap_err();
    assert_eq!((errors.len(), errors[0].line), (1, Some(10)));
    assert!(errors[0].to_string().contains("cannot include `from` = \"0 s\""), "{}", errors[0]);
}

#[test]
fn a_sample_without_a_range_is_an_error() {
    let errors = sampled(&format!("{SHORT}[sample]\npoints = 4"), None).unwrap_err();
    assert!(errors[0].to_string().contains("no factor is a range"), "{}", errors[0]);
}

fn values() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("\"64 kbit/s\""),
        Just("\"10 Mbit/s\""),
        Just("\"1 ms\""),
        Just("\"3 packets\""),
        Just("0"),
        Just("7"),
        Just("1e300"),
        Just("-1"),
        Just("0.5"),
        Just("nan"),
        Just("[]"),
        Just("{}"),
        Just("\"\""),
        Just("\"log\""),
        Just("\"down.link.rate\""),
        Just("[\"down.link.rate\", \"mtu\"]"),
        Just("\"flow.x\""),
        Just("\"a = 1\\nb\""),
        Just("\"factor.rate.from\""),
        Just("{ mtu = \"576 B\" }"),
        Just("9223372036854775807"),
    ];
    value.prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(at_least(1000))]
    #[test]
    fn no_range_makes_the_reader_panic(
        lines in proptest::collection::vec((0_usize..8, values()), 0..7),
        points in proptest::option::of(0_u32..70_000),
    ) {
        let keys = ["from", "to", "scale", "sets", "level", "x.from", "x.sets", "method"];
        let lines: std::collections::BTreeMap<_, _> =
            lines.into_iter().map(|(key, value)| (keys[key], value)).collect();
        let lines: Vec<_> = lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        let text = format!("{SHORT}[factor.rate]\n{}", lines.concat());
        if let Ok(study) = sampled(&text, points) {
            prop_assert!(!study.cells.is_empty());
        }
    }
}
