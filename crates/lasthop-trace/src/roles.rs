//! The roles of flows in their replication.
//!
//! Studies compare "the faster" with "the slower" of two equal transfers, not "flow 1" with "flow 2", because
//! chance decides which of the two is faster. Roles are therefore assigned afterwards, within each
//! replication.
//!
//! Connections of a page load fall into classes: `main`, and the in-line objects by throughput, from
//! `inline-1`, the fastest, to the slowest. A connection that carries several objects keeps its name. If the
//! scenario has several page loads, these roles are preceded by the name of the page load's entry and a slash. The
//! many clients of one entry of the scenario are all equal, and their role is the name of the entry. That of
//! a connection that carries a part of a flow is the name of the flow's entry, with the part behind a slash.

use crate::records::{FlowRecord, Outcome};
use lasthop_core::Protocol;
use lasthop_scenario::{Roles, Scenario};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Flows that start within this time of the first of them start together.
const TOGETHER_S: f64 = 1.0;

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub roles: Roles,
    /// The page loads by name, each with the name of its entry.
    pub pages: BTreeMap<String, String>,
    /// Whether the flows are connections of a real program, which are not comparable with each other.
    pub of_program: bool,
}

impl Rule {
    pub fn of(scenario: &Scenario) -> Self {
        let instances = scenario.applications();
        let pages = instances.into_iter().filter(|instance| instance.config.page().is_some());
        Self {
            roles: scenario.roles,
            pages: pages.map(|instance| (instance.name, instance.group)).collect(),
            of_program: scenario.real_program().is_some(),
        }
    }

    /// The role of each flow of a replication; `flows` are in the order of the scenario.
    pub fn assign(&self, flows: &[FlowRecord]) -> Vec<String> {
        let mut pages: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let (mut transfers, mut streams) = (Vec::new(), Vec::new());
        let mut roles: Vec<String> = flows.iter().map(|flow| flow.flow.clone()).collect();
        for (row, flow) in flows.iter().enumerate() {
            if let Some(part) = flow.flow.strip_prefix(&flow.part_of).filter(|_| !flow.part_of.is_empty()) {
                let whole = flow.application.strip_suffix(part).unwrap_or(&flow.application);
                roles[row] = format!("{whole}{part}");
            } else if connection(flow).is_some() {
                pages.entry(&flow.application).or_default().push(row);
            } else if flow.flow != flow.application && !self.of_program {
                roles[row].clone_from(&flow.application);
            } else {
                match flow.protocol {
                    Protocol::Tcp => transfers.push(row),
                    Protocol::Udp => streams.push(row),
                    // The names of roles contain TCP or UDP, so flows over QUIC keep their own names.
                    Protocol::Quic | Protocol::QuicDatagrams => {}
                }
            }
        }
        for (page, rows) in pages {
            let prefix = if self.pages.len() > 1 { format!("{}/", self.page(page)) } else { String::new() };
            for (row, class) in page_classes(flows, &rows) {
                roles[row] = format!("{prefix}{class}");
            }
        }
        for (row, role) in self.transfer_roles(flows, &transfers) {
            roles[row] = role;
        }
        if self.roles != Roles::ByName {
            for (place, &row) in (1..).zip(&streams) {
                roles[row] = if streams.len() == 1 { "udp".to_owned() } else { format!("udp-{place}") };
            }
        }
        roles
    }

    /// The role of a page load: the name of its entry.
    pub fn page<'a>(&'a self, name: &'a str) -> &'a str {
        self.pages.get(name).map_or(name, String::as_str)
    }

    fn transfer_roles(&self, flows: &[FlowRecord], rows: &[usize]) -> Vec<(usize, String)> {
        match self.roles {
            Roles::ByName => Vec::new(),
            Roles::ByElapsed => ranked_by_elapsed(flows, rows.to_vec()),
            Roles::ByStart => (0..).zip(rows).map(|(place, &row)| (row, name_by_start(place))).collect(),
            Roles::ByStartThenElapsed => ranked_by_start_then_elapsed(flows, rows),
        }
    }
}

/// The name of a page load's connection; `None` for other flows.
fn connection(flow: &FlowRecord) -> Option<&str> {
    flow.flow.strip_prefix(&flow.application)?.strip_prefix('/')
}

fn page_classes(flows: &[FlowRecord], rows: &[usize]) -> Vec<(usize, String)> {
    let name = |row: usize| connection(&flows[row]).unwrap_or_default();
    let (mut inline, others): (Vec<usize>, Vec<usize>) =
        rows.iter().partition(|&&row| name(row).starts_with("inline-"));
    inline.sort_by(|&a, &b| throughput(&flows[b]).total_cmp(&throughput(&flows[a])));
    let ranked = (1..).zip(inline).map(|(rank, row)| (row, format!("inline-{rank}")));
    others.into_iter().map(|row| (row, name(row).to_owned())).chain(ranked).collect()
}

fn throughput(flow: &FlowRecord) -> f64 {
    flow.throughput_Bps.unwrap_or(0.0)
}

fn start(flow: &FlowRecord) -> f64 {
    flow.start_s.unwrap_or(f64::INFINITY)
}

/// The order of elapsed times. A flow that was aborted early must not count as faster for its short time.
fn by_elapsed(a: &FlowRecord, b: &FlowRecord) -> Ordering {
    let unfinished = |flow: &FlowRecord| flow.outcome != Outcome::Closed || flow.elapsed_s.is_none();
    let elapsed = |flow: &FlowRecord| flow.elapsed_s.unwrap_or(f64::INFINITY);
    unfinished(a).cmp(&unfinished(b)).then(elapsed(a).total_cmp(&elapsed(b)))
}

fn ranked_by_elapsed(flows: &[FlowRecord], mut rows: Vec<usize>) -> Vec<(usize, String)> {
    rows.sort_by(|&a, &b| by_elapsed(&flows[a], &flows[b]));
    let count = rows.len();
    (0..).zip(rows).map(|(rank, row)| (row, name_by_elapsed(rank, count))).collect()
}

/// Ranks flows that start together among themselves; names flows that start alone by their place.
fn ranked_by_start_then_elapsed(flows: &[FlowRecord], rows: &[usize]) -> Vec<(usize, String)> {
    let mut started = rows.to_vec();
    started.sort_by(|&a, &b| start(&flows[a]).total_cmp(&start(&flows[b])));
    let mut roles = Vec::with_capacity(rows.len());
    let mut left = started.as_slice();
    while let Some(&first) = left.first() {
        let together = |row: usize| start(&flows[row]) - start(&flows[first]) <= TOGETHER_S;
        let count = 1 + left[1..].iter().take_while(|&&row| together(row)).count();
        let (group, later) = left.split_at(count);
        if count == 1 {
            roles.push((first, name_by_start(roles.len())));
        } else {
            let mut group = group.to_vec();
            group.sort_unstable();
            roles.extend(ranked_by_elapsed(flows, group));
        }
        left = later;
    }
    roles
}

fn name_by_elapsed(rank: usize, count: usize) -> String {
    const NAMES: [&[&str]; 3] =
        [&["tcp"], &["tcp-faster", "tcp-slower"], &["tcp-fastest", "tcp-medium", "tcp-slowest"]];
    NAMES.get(count - 1).map_or_else(|| format!("tcp-rank-{}", rank + 1), |names| names[rank].to_owned())
}

fn name_by_start(place: usize) -> String {
    let names = ["tcp-first", "tcp-second", "tcp-third"];
    names.get(place).map_or_else(|| format!("tcp-{}", place + 1), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests;
