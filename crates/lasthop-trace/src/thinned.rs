//! Rows of a run in bounded memory: beyond a budget, each stretch of time keeps its first, last and extreme ones.

use std::collections::BTreeMap;

/// Stretches of time at first, in nanoseconds; they double whenever the rows are too many.
const FIRST_WIDTH_NS: u64 = 1 << 19;
/// Stretches are never longer: a row of each series and kind stays, whatever the budget.
const LAST_WIDTH_NS: u64 = 1 << 62;

/// A row of a series over time.
pub(crate) trait Point {
    fn time_ns(&self) -> u64;

    /// Which line of the picture it belongs to; each is thinned by itself.
    fn series(&self) -> u64;

    /// What the picture shows of it: the least and the greatest of each are kept.
    fn values(&self) -> [Option<f64>; 2];

    /// What it adds to a sum over time; rows that stay take over what those before them had.
    fn sum_mut(&mut self) -> &mut u64;
}

/// Rows of several series, each in the order of time, thinned so that they stay within a budget.
#[derive(Debug)]
pub(crate) struct Thinned<P> {
    rows: Vec<P>,
    /// Of each series, the stretch that may still get rows; none before the budget was exceeded first.
    open: BTreeMap<u64, Stretch<P>>,
    /// Rows in `open`.
    pending: usize,
    is_whole: bool,
    budget: usize,
    /// What is wanted in detail, from and to; all before and all after is one stretch each.
    span_ns: (u64, u64),
    width_ns: u64,
    left_out: u64,
}

/// What stays of the rows of one series within one stretch: the first, the last and the extreme ones, in order.
#[derive(Debug)]
struct Stretch<P> {
    number: u64,
    rows: Vec<P>,
    extremes: [Option<Extremes>; 2],
}

/// Least and greatest value, and where their rows are.
#[derive(Clone, Copy, Debug)]
struct Extremes {
    least: (f64, usize),
    greatest: (f64, usize),
}

impl<P: Point> Thinned<P> {
    /// No rows yet, and never more than `budget` unless there are too many series.
    pub(crate) fn new(budget: usize, span_ns: (u64, u64)) -> Self {
        Self {
            rows: Vec::new(),
            open: BTreeMap::new(),
            pending: 0,
            is_whole: true,
            budget,
            span_ns,
            width_ns: FIRST_WIDTH_NS,
            left_out: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, row: P) {
        if self.is_whole {
            self.rows.push(row);
        } else {
            self.admit(row);
        }
        if self.len() > self.budget {
            self.is_whole = false;
            self.thin();
            // To a half, so that it need not be done again soon.
            while self.len() > self.budget / 2 && self.width_ns < LAST_WIDTH_NS {
                self.width_ns *= 2;
                self.thin();
            }
            self.budget = self.budget.max(2 * self.len());
        }
    }

    /// The rows that stayed, each series in order, and how many did not.
    pub(crate) fn finish(mut self) -> (Vec<P>, u64) {
        self.close();
        (self.rows, self.left_out)
    }

    fn len(&self) -> usize {
        self.rows.len() + self.pending
    }

    fn stretch_of(&self, time_ns: u64) -> u64 {
        let (from, to) = self.span_ns;
        match time_ns {
            before if before < from => 0,
            after if after > to => u64::MAX,
            within => 1 + (within - from) / self.width_ns,
        }
    }

    /// Keeps the first, the last and the extreme rows of every stretch. What has been thinned to narrower stretches
    /// comes out as if it had never been.
    fn thin(&mut self) {
        self.close();
        for row in std::mem::take(&mut self.rows) {
            self.admit(row);
        }
    }

    fn close(&mut self) {
        for stretch in std::mem::take(&mut self.open).into_values() {
            self.rows.extend(stretch.rows);
        }
        self.pending = 0;
    }

    /// Takes a row into the stretch that it falls into.
    #[inline]
    fn admit(&mut self, row: P) {
        let number = self.stretch_of(row.time_ns());
        let stretch = self.open.entry(row.series()).or_insert_with(|| Stretch::new(number));
        let before = stretch.rows.len();
        if stretch.number == number {
            self.left_out += stretch.add(row);
        } else {
            self.rows.append(&mut stretch.rows);
            (stretch.number, stretch.extremes) = (number, [None; 2]);
            stretch.add(row);
        }
        self.pending = self.pending + stretch.rows.len() - before;
    }
}

impl<P: Point> Stretch<P> {
    fn new(number: u64) -> Self {
        Self { number, rows: Vec::new(), extremes: [None; 2] }
    }

    /// Adds the next row; how many need not stay any more.
    #[inline]
    fn add(&mut self, mut row: P) -> u64 {
        let next = self.rows.len();
        let changed = self.note(next, row.values());
        let replaces = next > 1 && !self.is_extreme(next - 1);
        if replaces {
            // As most do: what was the last row until now need not stay.
            *row.sum_mut() += *self.rows[next - 1].sum_mut();
            self.rows[next - 1] = row;
            self.places().filter(|place| **place == next).for_each(|place| *place -= 1);
        } else {
            self.rows.push(row);
        }
        let mut left_out = u64::from(replaces);
        if changed {
            for index in (1..self.rows.len() - 1).rev() {
                if !self.is_extreme(index) {
                    self.leave_out(index);
                    left_out += 1;
                }
            }
        }
        left_out
    }

    /// Notes the values of row number `index`; true if one is extreme.
    fn note(&mut self, index: usize, values: [Option<f64>; 2]) -> bool {
        let mut changed = false;
        for (extremes, value) in self.extremes.iter_mut().zip(values) {
            let Some(value) = value else { continue };
            let both = extremes.get_or_insert(Extremes { least: (value, index), greatest: (value, index) });
            if value < both.least.0 {
                (both.least, changed) = ((value, index), true);
            }
            if value > both.greatest.0 {
                (both.greatest, changed) = ((value, index), true);
            }
        }
        changed
    }

    fn places(&mut self) -> impl Iterator<Item = &mut usize> {
        self.extremes.iter_mut().flatten().flat_map(|both| [&mut both.least.1, &mut both.greatest.1])
    }

    fn is_extreme(&mut self, index: usize) -> bool {
        self.places().any(|place| *place == index)
    }

    /// Takes a row out. The next one takes over what it added to the sum.
    fn leave_out(&mut self, index: usize) {
        let sum = std::mem::take(self.rows[index].sum_mut());
        *self.rows[index + 1].sum_mut() += sum;
        self.rows.remove(index);
        self.places().filter(|place| **place > index).for_each(|place| *place -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Sample {
        time_ns: u64,
        series: u64,
        value: f64,
        sum: u64,
    }

    impl Point for Sample {
        fn time_ns(&self) -> u64 {
            self.time_ns
        }

        fn series(&self) -> u64 {
            self.series
        }

        fn values(&self) -> [Option<f64>; 2] {
            [Some(self.value), None]
        }

        fn sum_mut(&mut self) -> &mut u64 {
            &mut self.sum
        }
    }

    const ALL: (u64, u64) = (0, u64::MAX);
    const MILLI: u64 = 1_000_000;

    fn thinned(rows: &[Sample], budget: usize, span_ns: (u64, u64)) -> (Vec<Sample>, u64) {
        let mut thinned = Thinned::new(budget, span_ns);
        for row in rows {
            thinned.push(row.clone());
        }
        thinned.finish()
    }

    /// A sawtooth of one series, a row a millisecond.
    fn sawtooth(rows: u64) -> Vec<Sample> {
        let row = |k| Sample { time_ns: k * MILLI, series: 0, value: (k % 1000) as f64, sum: 1 };
        (0..rows).map(row).collect()
    }

    #[test]
    fn within_the_budget_every_row_stays_as_it_is() {
        let rows = sawtooth(1000);
        assert_eq!(thinned(&rows, 1000, ALL), (rows, 0));
    }

    #[test]
    fn rows_are_bounded_however_long_the_run() {
        for rows in [2_000, 20_000, 200_000] {
            let (kept, left_out) = thinned(&sawtooth(rows), 1000, ALL);
            assert!((250..=1000).contains(&kept.len()), "{} of {rows}", kept.len());
            assert_eq!(kept.len() as u64 + left_out, rows);
        }
    }

    #[test]
    fn every_peak_stays() {
        let mut rows = sawtooth(50_000);
        rows[31_234].value = 5000.0;
        rows[31_235].value = -5000.0;
        let (kept, _) = thinned(&rows, 1000, ALL);
        for peak in [0, 31_234, 31_235, 49_999] {
            let peak = &rows[peak];
            let stays =
                |row: &Sample| row.time_ns == peak.time_ns && row.value.to_bits() == peak.value.to_bits();
            assert!(kept.iter().any(stays), "{peak:?}");
        }
    }

    #[test]
    fn a_span_wanted_in_detail_keeps_all_of_its_rows() {
        let (kept, _) = thinned(&sawtooth(50_000), 1000, (20_000 * MILLI, 20_200 * MILLI));
        let inside = kept.iter().filter(|row| (20_000 * MILLI..=20_200 * MILLI).contains(&row.time_ns));
        assert_eq!(inside.count(), 201);
        assert!(kept.len() < 1000);
    }

    #[test]
    fn more_series_than_the_budget_keep_a_row_or_two_each() {
        let rows: Vec<_> =
            (0..10_000).map(|k| Sample { time_ns: k * MILLI, series: k % 500, value: 0.0, sum: 0 }).collect();
        let (kept, _) = thinned(&rows, 100, ALL);
        assert!((500..=3000).contains(&kept.len()), "{}", kept.len());
    }

    proptest! {
        #[test]
        fn sums_extremes_and_ends_of_every_series_stay(
            values in prop::collection::vec((0..4u64, 0..50u64, -100.0..100.0_f64), 1..2000),
            budget in 40..200usize,
        ) {
            let mut now = 0;
            let rows: Vec<_> = values.into_iter().map(|(series, gap, value)| {
                now += gap * MILLI / 7;
                Sample { time_ns: now, series, value, sum: series + gap }
            }).collect();
            let (kept, _) = thinned(&rows, budget, ALL);
            let facts = |rows: &[Sample], series: u64| {
                let own: Vec<_> = rows.iter().filter(|row| row.series == series).collect();
                (
                    own.iter().map(|row| row.sum).sum::<u64>(),
                    own.iter().map(|row| row.value).fold(f64::MIN, f64::max),
                    own.iter().map(|row| row.value).fold(f64::MAX, f64::min),
                    own.first().map(|row| row.time_ns),
                    own.last().map(|row| row.time_ns),
                )
            };
            for series in 0..4 {
                prop_assert_eq!(facts(&rows, series), facts(&kept, series));
            }
        }
    }
}
