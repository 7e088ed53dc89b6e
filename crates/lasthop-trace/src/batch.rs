//! Records of several replications, as tables.

use crate::{Column, Columnar, FlowRecord, Meaning, PageRecord, Records, RunRecord, ShortRecord};

/// Rows of consecutive replications, with the replication of each.
#[derive(Clone, Debug)]
pub struct Table<R> {
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

    /// One column per field, behind one called `replication`.
    pub fn columns(&self) -> Vec<(&'static str, Column)> {
        let replications = Column::Int(self.replications.iter().copied().map(Some).collect());
        std::iter::once(("replication", replications)).chain(R::columns(&self.rows)).collect()
    }
}

/// Records of consecutive replications.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// One row per flow and replication.
    pub flows: Table<FlowRecord>,
    /// One row per page load and replication.
    pub pages: Table<PageRecord>,
    /// One row per kind of short flows and replication.
    pub shorts: Table<ShortRecord>,
    /// One row per replication.
    pub runs: Table<RunRecord>,
}

impl Batch {
    /// Adds the records of a replication.
    pub fn add(&mut self, replication: u64, records: Records) {
        self.flows.extend(replication, records.flows);
        self.pages.extend(replication, records.pages);
        self.shorts.extend(replication, records.shorts);
        self.runs.extend(replication, vec![records.run]);
    }

    /// What the columns of the tables mean, by the table's name.
    pub const MEANINGS: [(&'static str, &'static [Meaning]); 4] = [
        ("flows", FlowRecord::MEANINGS),
        ("pages", PageRecord::MEANINGS),
        ("shorts", ShortRecord::MEANINGS),
        ("runs", RunRecord::MEANINGS),
    ];

    /// The tables and what they are called.
    pub fn tables(&self) -> [(&'static str, Vec<(&'static str, Column)>); 4] {
        [
            ("flows", self.flows.columns()),
            ("pages", self.pages.columns()),
            ("shorts", self.shorts.columns()),
            ("runs", self.runs.columns()),
        ]
    }
}
