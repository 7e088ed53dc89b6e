//! Steps of a run of unknown length, in bounded memory: the steps get longer with the run.

use super::{Bottlenecks, Known, Series, SeriesRow, SeriesSink, Step};
use crate::columns::{Column, Columnar};
use lasthop_core::{Duration, Instant};
use serde::Deserialize;

const FIRST_LENGTH: Duration = Duration::from_micros(100);
/// Maximum number of steps, and approximate maximum number of rows, that are kept.
const MOST_STEPS: u64 = 1000;
const MOST_ROWS: usize = 100_000;
const SHOWN_STEPS: u64 = 160;

/// A period that is needed in detail; both ends are included.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// In nanoseconds since the start of the run.
    pub start_ns: u64,
    pub stop_ns: u64,
}

/// Keeps the steps of a run. Their length is 1 or 2 times a power of ten.
#[derive(Debug, Default)]
pub struct FoldedSeries {
    steps: Vec<Step>,
}

impl SeriesSink for FoldedSeries {
    fn step(&mut self, _: &Known, steps: &[Step], length: Duration) -> u64 {
        self.steps.extend_from_slice(steps);
        let count = steps[0].number + 1;
        let factor = longer(length.as_nanos());
        if count.is_multiple_of(factor) && (count >= MOST_STEPS || self.steps.len() >= MOST_ROWS) {
            self.fold(factor);
            factor
        } else {
            1
        }
    }
}

impl FoldedSeries {
    /// Merges each group of `factor` steps into one.
    fn fold(&mut self, factor: u64) {
        let up = |step: &Step| step.direction == lasthop_core::Direction::Up;
        let key = |step: &Step| (step.number, step.flow.is_none(), step.flow, up(step));
        for step in &mut self.steps {
            step.number /= factor;
        }
        // The rows of each step are in order already, and a stable sort keeps the steps of a row in order.
        for group in self.steps.chunk_by_mut(|a, b| a.number == b.number) {
            group.sort_by_key(key);
        }
        self.steps.dedup_by(|step, before| {
            let is_same = key(step) == key(before);
            if is_same {
                before.add(step);
            }
            is_same
        });
    }
}

impl Series<FoldedSeries> {
    pub(crate) fn folded(bottlenecks: Bottlenecks) -> Self {
        Self::new(FIRST_LENGTH, bottlenecks, FoldedSeries::default())
    }

    /// The rows of a run that ended at `end`, in steps of equal length, few enough for a picture of `span`;
    /// the length of a step is in `step_s`.
    pub(crate) fn table(self, end: Instant, span: Span) -> Vec<(&'static str, Column)> {
        let (mut series, known, length) = self.finish(end);
        let shown = span.stop_ns.min(end.as_nanos()).saturating_sub(span.start_ns);
        let mut width = length.as_nanos();
        while shown / width > SHOWN_STEPS {
            width *= longer(width);
        }
        series.fold(width / length.as_nanos());
        let length = Duration::from_nanos(width);
        let of_steps = series.steps.chunk_by(|a, b| a.number == b.number);
        let rows: Vec<SeriesRow> = of_steps.flat_map(|steps| known.rows(steps, length)).collect();
        let mut columns = SeriesRow::columns(&rows);
        columns.push(("step_s", Column::Float(vec![Some(length.as_secs_f64()); rows.len()])));
        columns
    }
}

impl Step {
    fn add(&mut self, next: &Self) {
        self.is_sending |= next.is_sending;
        self.fresh_bytes += next.fresh_bytes;
        self.lost_packets += next.lost_packets;
        self.marks_ecn += next.marks_ecn;
        self.queue_area += next.queue_area;
        self.queue_max = self.queue_max.max(next.queue_max);
        self.cwnd = next.cwnd.or(self.cwnd);
        self.srtt_ns = next.srtt_ns.or(self.srtt_ns);
    }
}

/// The factor from a length of 1 or 2 times a power of ten to the next such length.
fn longer(length_ns: u64) -> u64 {
    let mut digit = length_ns;
    while digit >= 10 {
        digit /= 10;
    }
    if digit == 1 { 2 } else { 5 }
}
