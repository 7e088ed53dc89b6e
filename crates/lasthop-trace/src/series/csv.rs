//! Steps as lines of a file, written during the run.

use super::{Known, Series, SeriesRow, SeriesSink, Step};
use crate::columns::{Column, Columnar};
use lasthop_core::{Duration, Instant};
use std::io::{self, Write};

const ROWS: usize = 4096;

/// Writes the rows of [`SeriesRow`] as CSV, with a header; missing values are empty.
#[derive(Debug)]
pub struct SeriesFile<W> {
    out: W,
    waiting: Vec<SeriesRow>,
    /// The first failure; nothing is written after it.
    failed: Option<io::Error>,
}

impl<W: Write> SeriesFile<W> {
    /// Writes the header.
    pub fn new(mut out: W) -> io::Result<Self> {
        let names: Vec<_> = SeriesRow::columns(&[]).iter().map(|(name, _)| *name).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Self { out, waiting: Vec::new(), failed: None })
    }

    fn write(&mut self) {
        let columns = SeriesRow::columns(&self.waiting);
        let mut text = String::new();
        for row in 0..self.waiting.len() {
            for (place, (_, column)) in columns.iter().enumerate() {
                text.push_str(if place == 0 { "" } else { "," });
                text.push_str(&cell(column, row));
            }
            text.push('\n');
        }
        self.waiting.clear();
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }
}

impl<W: Write> SeriesSink for SeriesFile<W> {
    fn step(&mut self, known: &Known, steps: &[Step], length: Duration) -> u64 {
        self.waiting.extend(known.rows(steps, length));
        if self.waiting.len() >= ROWS {
            self.write();
        }
        1
    }
}

impl<W: Write> Series<SeriesFile<W>> {
    /// Writes the rest of a run that ended at `end`. Returns the first failure, now or before.
    pub fn close(self, end: Instant) -> io::Result<()> {
        let (mut file, ..) = self.finish(end);
        file.write();
        match file.failed {
            Some(failure) => Err(failure),
            None => file.out.flush(),
        }
    }
}

fn cell(column: &Column, row: usize) -> String {
    let number = |cell: Option<String>| cell.unwrap_or_default();
    match column {
        Column::Int(cells) => number(cells[row].map(|cell| cell.to_string())),
        Column::Float(cells) => number(cells[row].map(|cell| cell.to_string())),
        Column::Text(cells) if cells[row].contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", cells[row].replace('"', "\"\""))
        }
        Column::Text(cells) => cells[row].to_string(),
    }
}
