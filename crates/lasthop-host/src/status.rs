//! The status display of a running emulator.

use crate::counters::{Counters, DirectionCounters};
use crate::lateness::LatenessSummary;
use lasthop_core::{Duration, Instant};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Deserialize;
use std::io::Write;
use std::os::fd::AsFd;

const INTERVAL: Duration = Duration::from_secs(1);

/// How the status is displayed on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    None,
    /// A new line each time.
    Lines,
    /// One line, overwritten each time.
    Overwrite,
    /// The terminal's title, which leaves the screen to an interactive program.
    Title,
}

/// Shows packet counters once a second.
#[derive(Debug)]
pub struct Status {
    style: Style,
    next: Instant,
    shown_at: Instant,
    last: Counters,
}

impl Status {
    pub fn new(style: Style) -> Self {
        Self { style, next: Instant::ZERO + INTERVAL, shown_at: Instant::ZERO, last: Counters::default() }
    }

    /// When [`Status::show`] must be called.
    pub fn next_wakeup(&self) -> Option<Instant> {
        (self.style != Style::None).then_some(self.next)
    }

    /// Shows the status, if it is due. `queues` are the packets in the router queues, down and up.
    pub fn show(
        &mut self,
        now: Instant,
        counters: &Counters,
        queues: [u32; 2],
        lateness: impl FnOnce() -> LatenessSummary,
    ) {
        if self.style == Style::None || now < self.next {
            return;
        }
        let seconds = now.saturating_since(self.shown_at).as_secs_f64();
        let rate = |now: &DirectionCounters, then: &DirectionCounters| {
            8.0 * (now.delivered_bytes - then.delivered_bytes) as f64 / seconds
        };
        let down = direction(&counters.down, rate(&counters.down, &self.last.down), queues[0]);
        let up = direction(&counters.up, rate(&counters.up, &self.last.up), queues[1]);
        let late = lateness().p999_us / 1e3;
        let text = format!("down {down} | up {up} | late {late:.3} ms");
        write_if_ready(&match self.style {
            Style::None | Style::Lines => format!("{text}\n"),
            Style::Overwrite => format!("\r{text}\x1b[K"),
            Style::Title => format!("\x1b]0;{text}\x07"),
        });
        self.last = *counters;
        self.shown_at = now;
        self.next = now + INTERVAL;
    }

    /// Restores the terminal.
    pub fn clear(&self) {
        match self.style {
            Style::None | Style::Lines => {}
            Style::Overwrite => write_if_ready("\r\x1b[K"),
            Style::Title => write_if_ready("\x1b]0;\x07"),
        }
    }
}

fn direction(counters: &DirectionCounters, bits_per_second: f64, queue: u32) -> String {
    let (value, unit) = match bits_per_second {
        rate if rate >= 1e9 => (rate / 1e9, "Gbit/s"),
        rate if rate >= 1e6 => (rate / 1e6, "Mbit/s"),
        rate => (rate / 1e3, "kbit/s"),
    };
    let DirectionCounters { drops_queue, drops_red, drops_error, .. } = counters;
    format!("{value:.1} {unit}, queue {queue}, drops {drops_queue} full {drops_red} red {drops_error} error")
}

/// A terminal that is stopped, or a pipe that nobody reads, must not stop the emulator.
fn write_if_ready(text: &str) {
    let stderr = std::io::stderr();
    let mut files = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut files, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
        let _ = stderr.lock().write_all(text.as_bytes());
    }
}
