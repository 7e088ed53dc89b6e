//! Scenarios for the benchmarks.

use lasthop_scenario::{Scenario, Study};

/// The scenario that these lines are.
pub fn scenario(text: &str) -> Scenario {
    let mut study = Study::from_str(text, "bench.toml").unwrap_or_else(|error| panic!("{error}"));
    study.cells.remove(0).scenario
}
