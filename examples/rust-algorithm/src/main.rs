//! A congestion control of one's own as a Rust crate: a type, a library that finds it by the name that a
//! scenario gives it, and a program that runs the scenario. `cargo run -p rust-algorithm` compares it with
//! Reno.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use lasthop_core::Seed;
use lasthop_scenario::{Found, Library, Study};
use lasthop_sim::HostMemory;
use lasthop_tcp::{Ack, CongestionAlgorithm, CongestionWindow, ControlSetup, Sign};
use lasthop_trace::Analysis;

/// Additive increase as Reno, but losses cost a fifth of the window, not half of it.
#[derive(Debug, Default)]
struct Gentle {
    /// Segments that count towards the next one of the window.
    counted: u32,
}

impl CongestionAlgorithm for Gentle {
    fn on_ack(&mut self, ack: &Ack, own: &mut CongestionWindow) {
        if !ack.is_window_limited {
            return;
        }
        if own.window < own.ssthresh {
            own.window = own.window.saturating_add(ack.acked).min(own.ssthresh);
        } else {
            self.counted += ack.acked;
            own.window += self.counted / own.window;
            self.counted %= own.window;
        }
    }

    fn on_congestion(&mut self, _sign: Sign, in_use: u32, own: &mut CongestionWindow) {
        own.ssthresh = (in_use * 4 / 5).max(2);
        self.counted = 0;
    }
}

/// What this program has for scenarios.
struct Own;

impl Library for Own {
    fn congestion_control(&self, name: &str) -> Found<ControlSetup, dyn CongestionAlgorithm> {
        match name {
            "rust:gentle" => Ok(Arc::new(|_| Box::new(Gentle::default()))),
            _ => Err(format!("there is no {name:?} here; write \"rust:gentle\"")),
        }
    }
}

/// Mean time of the transfers of each cell in seconds, by the cell's name.
fn elapsed(file: &Path) -> Result<Vec<(String, f64)>, String> {
    let study = Study::from_path(file).map_err(|errors| errors.to_string())?;
    let mut means = Vec::new();
    for cell in &study.cells {
        let mut scenario = cell.scenario.clone();
        scenario.bind(&Own).map_err(|fault| format!("`{}`: {}", fault.key, fault.message))?;
        let mut times = Vec::new();
        for replication in 1..=u64::from(study.replications) {
            let seed = Seed { study: study.seed, replication };
            let mut analysis = Analysis::of(&scenario);
            let mut memory = HostMemory::default();
            let end = lasthop_sim::try_run(&scenario, seed, &mut memory, &mut analysis, &mut || ()).map_err(
                |failed| format!("replication {replication}, at {}: {}", failed.at, failed.failure.message),
            )?;
            times.extend(analysis.finish(end.time).flows.iter().filter_map(|flow| flow.elapsed_s));
        }
        means.push((cell.key(), times.iter().sum::<f64>() / times.len() as f64));
    }
    Ok(means)
}

fn main() -> ExitCode {
    let file = std::env::args_os().nth(1).map(PathBuf::from);
    let file = file.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("own.toml"));
    match elapsed(&file) {
        Ok(means) => {
            for (cell, mean) in means {
                println!("{cell}: {mean:.3} s");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_cost_less_than_under_reno() {
        let means = elapsed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("own.toml")).expect("it runs");
        let [(reno, slow), (gentle, fast)] = &means[..] else { panic!("two cells: {means:?}") };
        assert_eq!((reno.as_str(), gentle.as_str()), ("control=reno", "control=gentle"));
        assert!(fast < slow, "{means:?}");
    }
}
