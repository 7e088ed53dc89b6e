//! Rows of a run in bounded memory: beyond a budget, each stretch of time keeps its first, last and extreme ones.

/// Stretches of time are `1 << 19` nanoseconds long at first; they double whenever the rows are too many.
const FIRST_WIDTH: u32 = 19;
/// Stretches are never longer: a row of each series and kind stays, whatever the budget.
const LAST_WIDTH: u32 = 62;

/// What decides whether a row of a series over time stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub time_ns: u64,
    /// Which line of the picture it belongs to; each is thinned by itself. The numbers are small: they are places in a
    /// table.
    pub series: usize,
    /// What the picture shows of it, NaN for nothing: the least and the greatest of each are kept.
    pub values: [f64; 2],
    /// What it adds to a sum over time; rows that stay take over what those before them had.
    pub sum: u64,
}

/// A row and its point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept<R> {
    pub point: Point,
    pub row: R,
}

/// Rows of several series, each in the order of time, thinned so that they stay within a budget.
#[derive(Debug)]
pub(crate) struct Thinned<R> {
    rows: Vec<Kept<R>>,
    /// Of each series, the stretch that may still get rows; none before the budget was exceeded first.
    open: Vec<Stretch<R>>,
    /// Where in `open` each series is, from 1; 0 if it has no row yet.
    places: Vec<u32>,
    /// Rows in `open`.
    pending: usize,
    is_whole: bool,
    budget: usize,
    /// What is wanted in detail, from and to; all before and all after is one stretch each.
    span_ns: (u64, u64),
    /// Binary logarithm of the length of a stretch in nanoseconds.
    width: u32,
    left_out: u64,
}

/// What stays of the rows of one series within one stretch: the first, the last and the extreme ones, in order.
#[derive(Debug)]
struct Stretch<R> {
    number: u64,
    rows: Vec<Kept<R>>,
    /// Least and greatest of each value.
    bounds: [[f64; 2]; 2],
    /// Where the rows are that have them; [`NOWHERE`] while there is no such value.
    places: [[usize; 2]; 2],
}

const NOWHERE: usize = usize::MAX;

impl<R> Thinned<R> {
    /// No rows yet, and never more than `budget` unless there are too many series.
    pub(crate) fn new(budget: usize, span_ns: (u64, u64)) -> Self {
        Self {
            rows: Vec::new(),
            open: Vec::new(),
            places: Vec::new(),
            pending: 0,
            is_whole: true,
            budget,
            span_ns,
            width: FIRST_WIDTH,
            left_out: 0,
        }
    }

    /// Takes the next row in. It is made where it stays: rows are long, and most go with the next one.
    #[inline]
    pub(crate) fn push(&mut self, point: Point, row: impl FnOnce() -> R) {
        if self.is_whole {
            self.rows.push(Kept { point, row: row() });
        } else {
            self.admit(point, row);
        }
        if self.len() > self.budget {
            self.shrink();
        }
    }

    /// The rows that stayed, each series in order, and how many did not.
    pub(crate) fn finish(mut self) -> (Vec<Kept<R>>, u64) {
        self.close();
        (self.rows, self.left_out)
    }

    #[inline(never)]
    fn shrink(&mut self) {
        self.is_whole = false;
        self.thin();
        // To a half, so that it need not be done again soon.
        while self.len() > self.budget / 2 && self.width < LAST_WIDTH {
            self.width += 1;
            self.thin();
        }
        self.budget = self.budget.max(2 * self.len());
    }

    fn len(&self) -> usize {
        self.rows.len() + self.pending
    }

    fn stretch_of(&self, time_ns: u64) -> u64 {
        let (from, to) = self.span_ns;
        match time_ns {
            before if before < from => 0,
            after if after > to => u64::MAX,
            within => 1 + ((within - from) >> self.width),
        }
    }

    /// Keeps the first, the last and the extreme rows of every stretch. What has been thinned to narrower stretches
    /// comes out as if it had never been.
    fn thin(&mut self) {
        self.close();
        for Kept { point, row } in std::mem::take(&mut self.rows) {
            self.admit(point, || row);
        }
    }

    fn close(&mut self) {
        for stretch in &mut self.open {
            self.rows.append(&mut stretch.rows);
        }
        self.pending = 0;
    }

    /// Takes a row into the stretch that it falls into.
    #[inline]
    fn admit(&mut self, point: Point, row: impl FnOnce() -> R) {
        let (number, series) = (self.stretch_of(point.time_ns), point.series);
        if series >= self.places.len() {
            self.places.resize(series + 1, 0);
        }
        let place = &mut self.places[series];
        if *place == 0 {
            self.open.push(Stretch::new());
            *place = self.open.len() as u32;
        }
        let stretch = &mut self.open[*place as usize - 1];
        let before = stretch.rows.len();
        if stretch.number == number && before > 0 {
            self.left_out += stretch.add(point, row);
        } else {
            self.rows.append(&mut stretch.rows);
            stretch.begin(number);
            stretch.add(point, row);
        }
        self.pending = self.pending + stretch.rows.len() - before;
    }
}

impl<R> Stretch<R> {
    fn new() -> Self {
        Self { number: 0, rows: Vec::new(), bounds: [[0.0; 2]; 2], places: [[NOWHERE; 2]; 2] }
    }

    /// Begins the next stretch of the series, which has no row yet.
    fn begin(&mut self, number: u64) {
        (self.number, self.places) = (number, [[NOWHERE; 2]; 2]);
    }

    /// Adds the next row; how many need not stay any more.
    #[inline]
    fn add(&mut self, mut point: Point, row: impl FnOnce() -> R) -> u64 {
        let next = self.rows.len();
        let changed = self.note(next, point.values);
        let replaces = next > 1 && !self.is_extreme(next - 1);
        if replaces {
            // As most do: what was the last row until now need not stay.
            let last = &mut self.rows[next - 1];
            point.sum += last.point.sum;
            (last.point, last.row) = (point, row());
            self.move_up(next);
        } else {
            self.rows.push(Kept { point, row: row() });
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
    #[inline]
    fn note(&mut self, index: usize, values: [f64; 2]) -> bool {
        let mut changed = false;
        for (which, value) in values.into_iter().enumerate() {
            if value.is_nan() {
                continue;
            }
            let (bounds, places) = (&mut self.bounds[which], &mut self.places[which]);
            if places[0] == NOWHERE {
                (*bounds, *places) = ([value; 2], [index; 2]);
            } else if value < bounds[0] {
                (bounds[0], places[0], changed) = (value, index, true);
            } else if value > bounds[1] {
                (bounds[1], places[1], changed) = (value, index, true);
            }
        }
        changed
    }

    #[inline]
    fn is_extreme(&self, index: usize) -> bool {
        let [[a, b], [c, d]] = self.places;
        a == index || b == index || c == index || d == index
    }

    /// Takes a row out. The next one takes over what it added to the sum.
    fn leave_out(&mut self, index: usize) {
        let sum = self.rows[index].point.sum;
        self.rows[index + 1].point.sum += sum;
        self.rows.remove(index);
        self.move_up(index + 1);
    }

    /// The rows from `from` on are one place further up than they were.
    #[inline]
    fn move_up(&mut self, from: usize) {
        for place in self.places.as_flattened_mut() {
            *place -= usize::from(*place >= from && *place != NOWHERE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Its row is its value.
    #[derive(Clone, Debug, PartialEq)]
    struct Sample {
        time_ns: u64,
        series: usize,
        value: f64,
        sum: u64,
    }

    const ALL: (u64, u64) = (0, u64::MAX);
    const MILLI: u64 = 1_000_000;

    fn thinned(rows: &[Sample], budget: usize, span_ns: (u64, u64)) -> (Vec<Sample>, u64) {
        let mut thinned = Thinned::new(budget, span_ns);
        for &Sample { time_ns, series, value, sum } in rows {
            thinned.push(Point { time_ns, series, values: [value, f64::NAN], sum }, || value);
        }
        let (kept, left_out) = thinned.finish();
        let sample = |Kept { point: Point { time_ns, series, sum, .. }, row: value }| Sample {
            time_ns,
            series,
            value,
            sum,
        };
        (kept.into_iter().map(sample).collect(), left_out)
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
        let rows: Vec<_> = (0..10_000)
            .map(|k| Sample { time_ns: k * MILLI, series: k as usize % 500, value: 0.0, sum: 0 })
            .collect();
        let (kept, _) = thinned(&rows, 100, ALL);
        assert!((500..=3000).contains(&kept.len()), "{}", kept.len());
    }

    proptest! {
        #[test]
        fn sums_extremes_and_ends_of_every_series_stay(
            values in prop::collection::vec((0..4usize, 0..50u64, -100.0..100.0_f64), 1..2000),
            budget in 40..200usize,
        ) {
            let mut now = 0;
            let rows: Vec<_> = values.into_iter().map(|(series, gap, value)| {
                now += gap * MILLI / 7;
                Sample { time_ns: now, series, value, sum: series as u64 + gap }
            }).collect();
            let (kept, _) = thinned(&rows, budget, ALL);
            let facts = |rows: &[Sample], series: usize| {
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
