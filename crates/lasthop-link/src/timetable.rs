//! A link whose rate, and optionally delay and loss, follow a table over time.

use std::fmt;
use std::sync::Arc;

use lasthop_core::{Duration, Probability, Rate};

use crate::opportunities::ScheduleError;

#[cfg(test)]
mod tests;

/// The columns that a table may have: the first two, the first three or all; the last one may be replaced by
/// `bit_error_rate`.
const COLUMNS: [&str; 4] = ["time_s", "rate_bps", "delay_s", "loss"];
const BIT_ERRORS: &str = "bit_error_rate";

/// The states of a link, in order of time. The first row is for time 0, and the last row applies to the rest of
/// the run. A complete scenario contains the text of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Timetable {
    rows: Arc<[Row]>,
}

/// The state of the link from one time to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    /// Time since the start of the run.
    pub(crate) at: Duration,
    /// `None` during an outage.
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Option<Duration>,
    pub(crate) loss: Option<Probability>,
    pub(crate) bit_error_rate: Option<Probability>,
}

impl Timetable {
    /// Reads a table: a header `time_s,rate_bps`, optionally followed by `,delay_s` and then `,loss` or
    /// `,bit_error_rate`, and a line for each change.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let mut lines = (1..).zip(text.trim_start_matches('\u{feff}').lines());
        let header: Vec<_> = lines.next().map_or("", |(_, line)| line).split(',').map(str::trim).collect();
        let per_bit = header.get(3) == Some(&BIT_ERRORS);
        let leading = if per_bit { &header[..3] } else { &header[..] };
        if header.len() < 2 || header.len() > COLUMNS.len() || !COLUMNS.starts_with(leading) {
            let message = format!(
                "the header is {:?}; write \"time_s,rate_bps[,delay_s[,loss]]\", optionally with \
                 bit_error_rate instead of loss",
                header.join(",")
            );
            return Err(ScheduleError { line: 1, message });
        }
        let mut rows: Vec<Row> = Vec::new();
        let mut last_line = 1;
        for (line, text) in lines {
            last_line = line;
            let error = |message| ScheduleError { line, message };
            let row = Row::parse(text, header.len(), per_bit).map_err(error)?;
            check_order(rows.last(), &row).map_err(error)?;
            rows.push(row);
        }
        if rows.last().is_none_or(|row| row.rate.is_none()) {
            let message = "the link stays down at the end; add a last line with a rate above 0".into();
            return Err(ScheduleError { line: last_line, message });
        }
        Ok(Self { rows: rows.into() })
    }

    /// The table with these rows, which are in order and end with a rate.
    pub(crate) fn new(rows: Vec<Row>) -> Self {
        debug_assert!(rows.is_sorted_by(|row, next| row.at < next.at) && rows[0].at.is_zero());
        debug_assert!(rows.last().is_some_and(|row| row.rate.is_some()));
        Self { rows: rows.into() }
    }

    /// The mean rate from the first to the last row; if there is only one row, its rate.
    pub fn mean_rate(&self) -> Rate {
        let bits_per_second = |row: &Row| row.rate.map_or(0, Rate::bits_per_second) as f64;
        let last = self.last();
        let sent = self.rows.windows(2).map(|pair| {
            let [row, next] = [pair[0], pair[1]];
            bits_per_second(&row) * (next.at.as_secs_f64() - row.at.as_secs_f64())
        });
        let sent: f64 = sent.sum();
        let mean = if sent > 0.0 { sent / last.at.as_secs_f64() } else { bits_per_second(&last) };
        Rate::from_bits_per_second((mean.round() as u64).max(1))
    }

    /// The delay at the start, if the table has delays.
    pub fn first_delay(&self) -> Option<Duration> {
        self.rows[0].delay
    }

    /// The start time of the last row.
    pub fn end(&self) -> Duration {
        self.last().at
    }

    pub(crate) fn has_loss(&self) -> bool {
        let first = self.rows[0];
        first.loss.or(first.bit_error_rate).is_some()
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn last(&self) -> Row {
        self.rows[self.rows.len() - 1]
    }
}

fn check_order(before: Option<&Row>, row: &Row) -> Result<(), String> {
    match before {
        None if !row.at.is_zero() => Err("the first line describes the start; write time_s = 0 there".into()),
        Some(before) if before.at >= row.at => {
            let [at, before] = [row.at, before.at].map(|at| Decimal(at.as_nanos()));
            Err(format!("{at} s is not after {before} s; sort the lines by time, with one line per time"))
        }
        _ => Ok(()),
    }
}

impl Row {
    fn parse(text: &str, columns: usize, per_bit: bool) -> Result<Self, String> {
        let words: Vec<_> = text.split(',').map(str::trim).collect();
        if words.len() != columns {
            return Err(format!(
                "{:?} has {} values; write {columns}, as in the header",
                text.trim(),
                words.len()
            ));
        }
        let seconds = |column: usize| -> Result<Duration, String> {
            let error = |reason: &dyn fmt::Display| format!("{}: {reason}", COLUMNS[column]);
            number(words[column]).map_err(|reason| error(&reason))?;
            format!("{} s", words[column]).parse().map_err(|reason| error(&reason))
        };
        let has = |column: usize| column < columns;
        let chance = |column| {
            let read = |name| chance(words[3]).map_err(|reason| format!("{name}: {reason}"));
            (has(3) && per_bit == (column == BIT_ERRORS)).then(|| read(column)).transpose()
        };
        Ok(Self {
            at: seconds(0)?,
            rate: rate(words[1]).map_err(|reason| format!("rate_bps: {reason}"))?,
            delay: has(2).then(|| seconds(2)).transpose()?,
            loss: chance(COLUMNS[3])?,
            bit_error_rate: chance(BIT_ERRORS)?,
        })
    }
}

/// A number in the format of the table: digits, optionally followed by a point and more digits.
fn number(word: &str) -> Result<f64, String> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = word.parse().ok().filter(|_| is_plain);
    value.ok_or_else(|| format!("{word:?} is not a number; write digits without a unit, such as 0.25"))
}

fn rate(word: &str) -> Result<Option<Rate>, String> {
    if number(word)? == 0.0 {
        return Ok(None);
    }
    format!("{word} bit/s").parse().map(Some).map_err(|error| format!("{error}"))
}

fn chance(word: &str) -> Result<Probability, String> {
    Probability::new(number(word)?).map_err(|error| error.to_string())
}

/// Nanoseconds as a decimal number of seconds.
struct Decimal(u64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        write!(f, "{whole}")?;
        if nanos == 0 { Ok(()) } else { f.write_str(format!(".{nanos:09}").trim_end_matches('0')) }
    }
}

impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.rows[0];
        let columns = 2 + usize::from(first.delay.is_some()) + usize::from(first.loss.is_some());
        write!(f, "{}", COLUMNS[..columns].join(","))?;
        writeln!(f, "{}", if first.bit_error_rate.is_some() { ",bit_error_rate" } else { "" })?;
        for row in self.rows() {
            write!(f, "{},{}", Decimal(row.at.as_nanos()), row.rate.map_or(0, Rate::bits_per_second))?;
            if let Some(delay) = row.delay {
                write!(f, ",{}", Decimal(delay.as_nanos()))?;
            }
            if let Some(chance) = row.loss.or(row.bit_error_rate) {
                write!(f, ",{chance}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

lasthop_core::file_serde!(
    Timetable,
    "Course",
    "A CSV file in the scenario's folder, with the columns time_s, rate_bps and optionally delay_s and loss \
     or bit_error_rate."
);
