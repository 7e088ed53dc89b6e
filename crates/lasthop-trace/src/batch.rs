//! Records of several replications, as tables.

use crate::roles::Rule;
use crate::{
    Column, Columnar, FlowRecord, HopRecord, Meaning, PageRecord, Records, RunRecord, ShortRecord,
    StationRecord,
};
use lasthop_scenario::Scenario;
use std::borrow::Cow;

/// Rows of consecutive replications, with the replication of each.
#[derive(Clone, Debug)]
struct Table<R> {
    rows: Vec<R>,
    replications: Vec<u64>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { rows: Vec::new(), replications: Vec::new() }
    }
}

impl<R: Columnar> Table<R> {
    fn extend(&mut self, replication: u64, rows: Vec<R>) {
        self.replications.extend(rows.iter().map(|_| replication));
        self.rows.extend(rows);
    }

    /// A column named `replication`, followed by one column per field.
    fn columns(&self) -> Vec<(&'static str, Column)> {
        let replications = Column::Int(self.replications.iter().copied().map(Some).collect());
        std::iter::once(("replication", replications)).chain(R::columns(&self.rows)).collect()
    }
}

#[derive(Clone, Debug)]
pub struct Batch {
    rule: Rule,
    flows: Table<FlowRecord>,
    roles: Vec<Cow<'static, str>>,
    pages: Table<PageRecord>,
    page_roles: Vec<Cow<'static, str>>,
    shorts: Table<ShortRecord>,
    hops: Table<HopRecord>,
    stations: Table<StationRecord>,
    runs: Table<RunRecord>,
}

impl Batch {
    pub fn of(scenario: &Scenario) -> Self {
        Self {
            rule: Rule::of(scenario),
            flows: Table::default(),
            roles: Vec::new(),
            pages: Table::default(),
            page_roles: Vec::new(),
            shorts: Table::default(),
            hops: Table::default(),
            stations: Table::default(),
            runs: Table::default(),
        }
    }

    pub fn add(&mut self, replication: u64, records: Records) {
        self.roles.extend(self.rule.assign(&records.flows).into_iter().map(Cow::Owned));
        let page_roles = records.pages.iter().map(|page| self.rule.page(&page.page).to_owned().into());
        self.page_roles.extend(page_roles);
        self.flows.extend(replication, records.flows);
        self.pages.extend(replication, records.pages);
        self.shorts.extend(replication, records.shorts);
        self.hops.extend(replication, records.hops);
        self.stations.extend(replication, records.stations);
        self.runs.extend(replication, vec![records.run]);
    }

    pub const MEANINGS: [(&'static str, &'static [Meaning]); 6] = [
        ("flows", FlowRecord::MEANINGS),
        ("pages", PageRecord::MEANINGS),
        ("shorts", ShortRecord::MEANINGS),
        ("hops", HopRecord::MEANINGS),
        ("stations", StationRecord::MEANINGS),
        ("runs", RunRecord::MEANINGS),
    ];

    /// One row per flow and replication, with its `role` at the end.
    pub fn flows(&self) -> Vec<(&'static str, Column)> {
        with_roles(self.flows.columns(), &self.roles)
    }

    /// The tables and their names: flows, page loads, kinds of short flows, hops, stations, replications.
    pub fn tables(&self) -> [(&'static str, Vec<(&'static str, Column)>); 6] {
        [
            ("flows", self.flows()),
            ("pages", with_roles(self.pages.columns(), &self.page_roles)),
            ("shorts", self.shorts.columns()),
            ("hops", self.hops.columns()),
            ("stations", self.stations.columns()),
            ("runs", self.runs.columns()),
        ]
    }
}

fn with_roles(
    mut columns: Vec<(&'static str, Column)>,
    roles: &[Cow<'static, str>],
) -> Vec<(&'static str, Column)> {
    columns.push(("role", Column::Text(roles.to_vec())));
    columns
}
