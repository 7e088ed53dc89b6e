use proptest::prelude::*;

use super::*;
use crate::Seed;

fn stream(replication: u64) -> RandomStream {
    Seed { study: 1, replication }.stream("test")
}

fn read(json: &str) -> Result<Distribution<Duration>, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[track_caller]
fn sampled_mean_secs(json: &str, draws: u32) -> f64 {
    let mut sampler = read(json).unwrap().sampler();
    let mut stream = stream(1);
    (0..draws).map(|_| sampler.sample(&mut stream).as_secs_f64()).sum::<f64>() / f64::from(draws)
}

#[test]
fn cut_exponential_of_the_study_has_a_mean_of_8_5_s_redrawn() {
    let json = r#"{"distribution": "exponential", "mean": "15 s", "min": "1 s", "max": "20 s"}"#;
    let mean = sampled_mean_secs(json, 200_000);
    // E = mean + (min exp(-min/mean) - max exp(-max/mean)) / (exp(-min/mean) - exp(-max/mean)) = 8.54 s
    assert!((mean - 8.54).abs() < 0.05, "{mean}");
}

#[test]
fn cut_exponential_of_the_study_has_a_mean_of_11_1_s_clamped() {
    let json =
        r#"{"distribution": "exponential", "mean": "15 s", "min": "1 s", "max": "20 s", "cut": "clamp"}"#;
    let mean = sampled_mean_secs(json, 200_000);
    // E = min + mean (exp(-min/mean) - exp(-max/mean)) = 11.08 s
    assert!((mean - 11.08).abs() < 0.07, "{mean}");
}

#[test]
fn uniform_reaches_both_limits_and_its_mean() {
    let mut sampler = Distribution::Uniform { min: Bytes(3), max: Bytes(5) }.sampler();
    let mut stream = stream(1);
    let mut counts = [0; 3];
    for _ in 0..3000 {
        counts[sampler.sample(&mut stream).0 as usize - 3] += 1;
    }
    assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
}

#[test]
fn a_sequence_cycles_and_a_new_sampler_rewinds_it() {
    let distribution = read(r#"{"distribution": "sequence", "values": ["3 s", "4 s"]}"#).unwrap();
    for _variant in 0..2 {
        let mut sampler = distribution.sampler();
        let mut stream = stream(1);
        let drawn: Vec<_> = (0..5).map(|_| sampler.sample(&mut stream).to_string()).collect();
        assert_eq!(drawn, ["3 s", "4 s", "3 s", "4 s", "3 s"]);
    }
}

#[test]
fn static_values_and_sequences_draw_nothing() {
    let mut used = stream(1);
    Distribution::Static(Bytes(7)).sampler().sample(&mut used);
    Distribution::Sequence(vec![Bytes(7)]).sampler().sample(&mut used);
    assert_eq!(used.unit().to_bits(), stream(1).unit().to_bits());
}

#[test]
fn impossible_distributions_are_refused_in_words() {
    for (json, reason) in [
        (r#"{"distribution": "uniform", "min": "2 s", "max": "1 s"}"#, r#"min = "2 s" is above max = "1 s""#),
        (r#"{"distribution": "exponential", "mean": "0 s"}"#, "must be above zero"),
        (r#"{"distribution": "exponential", "mean": "1 s", "min": "3 s", "max": "2 s"}"#, "is above max"),
        (r#"{"distribution": "exponential", "mean": "1 s", "min": "2 s", "max": "2 s"}"#, "widen the limits"),
        (r#"{"distribution": "exponential", "mean": "1 ms", "min": "2 s"}"#, "hardly ever"),
        (r#"{"distribution": "sequence", "values": []}"#, "at least one value"),
        (r#"{"distribution": "gauss", "mean": "1 s"}"#, "unknown variant `gauss`"),
        (r#"{"distribution": "uniform", "min": "1 s"}"#, "missing field `max`"),
        (r#"{"distribution": "uniform", "min": "1 s", "max": "2 s", "mean": "1 s"}"#, "unknown field `mean`"),
        (r#""5""#, "missing unit"),
        ("5", "missing unit"),
        ("true", "a quantity as a string, or a table"),
    ] {
        let error = read(json).unwrap_err();
        assert!(error.contains(reason), "{json}: {error}");
    }
}

fn any_distribution() -> impl Strategy<Value = Distribution<Duration>> {
    let nanos = || (0_u64..100_000_000_000).prop_map(Duration::from_nanos);
    let cut = prop_oneof![Just(Cut::Redraw), Just(Cut::Clamp)];
    let exponential = (nanos(), proptest::option::of(nanos()), proptest::option::of(nanos()), cut)
        .prop_map(|(mean, min, max, cut)| Distribution::Exponential { mean, min, max, cut });
    prop_oneof![
        nanos().prop_map(Distribution::Static),
        (nanos(), nanos()).prop_map(|(min, max)| Distribution::Uniform { min, max }),
        exponential,
        proptest::collection::vec(nanos(), 0..5).prop_map(Distribution::Sequence),
    ]
}

proptest! {
    #[test]
    fn a_valid_distribution_survives_its_text_and_stays_inside_its_limits(
        distribution in any_distribution(),
        replication in any::<u64>(),
    ) {
        prop_assume!(distribution.validate().is_ok());
        let json = serde_json::to_string(&distribution).unwrap();
        prop_assert_eq!(read(&json), Ok(distribution.clone()));
        let mut stream = stream(replication);
        let mut sampler = distribution.sampler();
        for _ in 0..20 {
            let value = sampler.sample(&mut stream);
            let inside = match &distribution {
                Distribution::Static(only) => value == *only,
                Distribution::Uniform { min, max } => (min..=max).contains(&&value),
                Distribution::Exponential { min, max, .. } => {
                    min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)
                }
                Distribution::Sequence(values) => values.contains(&value),
            };
            prop_assert!(inside, "{value}");
        }
    }

    #[test]
    fn an_invalid_distribution_is_refused_when_read(distribution in any_distribution()) {
        let json = serde_json::to_string(&distribution).unwrap();
        prop_assert_eq!(read(&json).is_ok(), distribution.validate().is_ok());
    }
}
