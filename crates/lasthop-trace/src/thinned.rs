//! Rows of a run in bounded memory: beyond a budget, an interval keeps its first, last and extreme rows.

/// Intervals are initially `1 << 19` nanoseconds long; their length doubles whenever there are too many rows.
const FIRST_WIDTH: u32 = 19;
/// Maximum length of intervals: a row of each series and kind stays, even beyond the budget.
const LAST_WIDTH: u32 = 62;

/// The data that decide whether a row of a time series stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub time_ns: u64,
    /// The line of the picture that it belongs to; each line is thinned separately. The numbers are small,
    /// because they are indices into a table.
    pub series: usize,
    /// The values that the picture shows, NaN for none: the least and the greatest of each are kept.
    pub values: [f64; 2],
    /// Its contribution to a sum over time; that of a removed row goes to the next one that stays.
    pub sum: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeptRow<R> {
    pub point: Point,
    pub row: R,
}

/// Rows of several series, each in the order of time, thinned so that they stay within a budget.
#[derive(Debug)]
pub(crate) struct Thinned<R> {
    rows: Vec<KeptRow<R>>,
    /// Empty; its memory takes the rows that stay when they are thinned.
    spare: Vec<KeptRow<R>>,
    /// For each series, the interval that may still get rows; none before the budget is first exceeded.
    open: Vec<Stretch<R>>,
    /// The index of each series in `open`, from 1; 0 if it has no row yet.
    places: Vec<u32>,
    /// Number of rows in `open`.
    pending: usize,
    is_whole: bool,
    budget: usize,
    /// The period needed in detail; all time before it, and all time after it, is one interval.
    span_ns: (u64, u64),
    /// Binary logarithm of the length of an interval in nanoseconds.
    width: u32,
    left_out: u64,
}

/// The rows of one series that stay within one interval: the first, the last and the extreme ones, in order.
#[derive(Debug)]
struct Stretch<R> {
    number: u64,
    rows: Vec<KeptRow<R>>,
    /// Least and greatest of each value.
    bounds: [[f64; 2]; 2],
    /// Places of the rows with these values, from 1; 0 while there is no such value.
    places: [[u32; 2]; 2],
}

impl<R> Thinned<R> {
    /// Without rows. There will be at most `budget` rows, unless there are too many series.
    pub(crate) fn new(budget: usize, span_ns: (u64, u64)) -> Self {
        Self {
            rows: Vec::new(),
            spare: Vec::new(),
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

    /// Adds the next row. It is built in place, because rows are long and most are removed with the next one.
    #[inline]
    pub(crate) fn push(&mut self, point: Point, row: impl FnOnce() -> R) {
        if self.is_whole {
            self.rows.push(KeptRow { point, row: row() });
        } else {
            self.admit(point, row);
        }
        if self.len() > self.budget {
            self.shrink();
        }
    }

    /// The rows that stayed, each series in order, and the number of removed rows.
    pub(crate) fn finish(mut self) -> (Vec<KeptRow<R>>, u64) {
        self.close();
        (self.rows, self.left_out)
    }

    /// Down to half of the budget, so that it need not be repeated soon.
    #[inline(never)]
    fn shrink(&mut self) {
        self.close();
        // From the second time on, all rows are thinned with the present width already.
        let least = self.width + u32::from(!std::mem::replace(&mut self.is_whole, false));
        self.width = self.promising_width(least, self.budget / 2);
        self.thin();
        while self.len() > self.budget / 2 && self.width < LAST_WIDTH {
            self.width += 1;
            self.thin();
        }
        self.budget = self.budget.max(2 * self.len());
    }

    /// The first width from `least` on with which no more than `most` rows may stay. With lesser widths more
    /// rows stay, because an interval that has two rows keeps two at least.
    fn promising_width(&mut self, least: u32, most: usize) -> u32 {
        // For each series, its latest time, and the least width that puts it into one interval with the time
        // before.
        let mut latest: Vec<Option<(u64, u32)>> = Vec::new();
        // How many rows are the first or second of their interval with every width below this one.
        let mut rows = [0; u64::BITS as usize + 1];
        for index in 0..self.rows.len() {
            let Point { time_ns, series, .. } = self.rows[index].point;
            let (place, time) = (self.place_of(series), self.within_span(time_ns));
            if place >= latest.len() {
                latest.resize(self.open.len(), None);
            }
            let (time_before, width_before) = latest[place].unwrap_or((!time, u64::BITS));
            let width = u64::BITS - (time ^ time_before).leading_zeros();
            rows[width.max(width_before) as usize] += 1;
            latest[place] = Some((time, width));
        }
        let mut staying: usize = rows[LAST_WIDTH as usize + 1..].iter().sum();
        let too_small = (least..LAST_WIDTH).rev().find(|width| {
            staying += rows[*width as usize + 1];
            staying > most
        });
        too_small.map_or(least.min(LAST_WIDTH), |width| width + 1)
    }

    fn len(&self) -> usize {
        self.rows.len() + self.pending
    }

    /// The time since the start of the span. All times before it are one, and so are all times after it;
    /// these two share no interval with any other, however wide.
    fn within_span(&self, time_ns: u64) -> u64 {
        let (from, to) = self.span_ns;
        match time_ns {
            before if before < from => 1 << 63,
            after if after > to => 3 << 62,
            within => within - from,
        }
    }

    /// Keeps the first, last and extreme rows of every interval. Thinning before does not change the result.
    fn thin(&mut self) {
        self.close();
        let mut rows = std::mem::replace(&mut self.rows, std::mem::take(&mut self.spare));
        for KeptRow { point, row } in rows.drain(..) {
            self.admit(point, || row);
        }
        self.spare = rows;
    }

    fn close(&mut self) {
        for stretch in &mut self.open {
            self.rows.append(&mut stretch.rows);
        }
        self.pending = 0;
    }

    #[inline]
    fn place_of(&mut self, series: usize) -> usize {
        if series >= self.places.len() {
            self.places.resize(series + 1, 0);
        }
        let place = &mut self.places[series];
        if *place == 0 {
            self.open.push(Stretch::new());
            *place = self.open.len() as u32;
        }
        *place as usize - 1
    }

    #[inline]
    fn admit(&mut self, point: Point, row: impl FnOnce() -> R) {
        let (number, place) = (self.within_span(point.time_ns) >> self.width, self.place_of(point.series));
        let stretch = &mut self.open[place];
        let before = stretch.rows.len();
        if stretch.number != number || before == 0 {
            self.rows.append(&mut stretch.rows);
            stretch.begin(number);
        }
        self.left_out += stretch.add(point, row);
        self.pending = self.pending + stretch.rows.len() - before;
    }
}

impl<R> Stretch<R> {
    fn new() -> Self {
        Self { number: 0, rows: Vec::new(), bounds: [[0.0; 2]; 2], places: [[0; 2]; 2] }
    }

    /// Begins the next interval of the series, without rows.
    fn begin(&mut self, number: u64) {
        (self.number, self.places) = (number, [[0; 2]; 2]);
    }

    /// Adds the next row; returns how many rows may be removed.
    #[inline]
    fn add(&mut self, mut point: Point, row: impl FnOnce() -> R) -> u64 {
        let next = self.rows.len();
        let changed = self.note(next, point.values);
        let replaces = next > 1 && !self.is_extreme(next - 1);
        if replaces {
            // The usual case: the previous last row may be removed.
            let last = &mut self.rows[next - 1];
            point.sum += last.point.sum;
            (last.point, last.row) = (point, row());
            self.move_up(next - 1);
        } else {
            self.rows.push(KeptRow { point, row: row() });
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
        let (place, mut changed) = (index as u32 + 1, false);
        for (which, value) in values.into_iter().enumerate() {
            if value.is_nan() {
                continue;
            }
            let (bounds, places) = (&mut self.bounds[which], &mut self.places[which]);
            if places[0] == 0 {
                (*bounds, *places) = ([value; 2], [place; 2]);
            } else if value < bounds[0] {
                (bounds[0], places[0], changed) = (value, place, true);
            } else if value > bounds[1] {
                (bounds[1], places[1], changed) = (value, place, true);
            }
        }
        changed
    }

    #[inline]
    fn is_extreme(&self, index: usize) -> bool {
        // Without branches, the compiler compares all four at once.
        self.places.as_flattened().iter().map(|place| u32::from(*place == index as u32 + 1)).sum::<u32>() > 0
    }

    /// Removes a row. The next row takes over its contribution to the sum.
    fn leave_out(&mut self, index: usize) {
        let sum = self.rows[index].point.sum;
        self.rows[index + 1].point.sum += sum;
        self.rows.remove(index);
        self.move_up(index);
    }

    /// Adjusts the places after the removal of a row: those behind it have moved up by one.
    #[inline]
    fn move_up(&mut self, removed: usize) {
        for place in self.places.as_flattened_mut() {
            *place -= u32::from(*place > removed as u32 + 1);
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
        let sample = |KeptRow { point: Point { time_ns, series, sum, .. }, row: value }| Sample {
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
