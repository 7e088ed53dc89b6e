//! The same rules once more, without state: every bucket is replayed from the first packet of the run whenever
//! it is asked, and the time at which a class may go is searched for.

use std::collections::VecDeque;

use lasthop_core::{Duration, Instant, Rate};

use super::{Arrival, Departure, absolute};
use crate::config::htb::{ClassConfig, HtbConfig};
use crate::link::pop_if;

struct Sent {
    at: Instant,
    class: usize,
    bytes: u32,
    borrowed: bool,
    /// The quantum of its class's turn was used up by it.
    used_up: bool,
    /// Afterwards its class had nothing to send, or no own right to.
    stopped: bool,
}

struct Reference<'a> {
    config: &'a HtbConfig,
    queues: Vec<VecDeque<u32>>,
    sent: Vec<Sent>,
}

const MINUTE: i64 = 60_000_000_000;

fn nanos(duration: Duration) -> i64 {
    duration.as_nanos().cast_signed()
}

impl Reference<'_> {
    /// Tokens at `now` of a bucket that pays for the packets that `paid` says; none of others that only `touch` it.
    fn tokens(
        &self,
        (rate, burst): (Rate, u64),
        now: Instant,
        touches: impl Fn(&Sent) -> bool,
        paid: impl Fn(&Sent) -> bool,
    ) -> i64 {
        let depth = nanos(rate.transmission_time(burst as u32));
        let (mut tokens, mut last) = (depth, Instant::ZERO);
        for sent in self.sent.iter().filter(|sent| touches(sent)) {
            tokens += nanos(sent.at - last).min(MINUTE);
            if paid(sent) {
                tokens = (tokens.min(depth) - nanos(rate.transmission_time(sent.bytes))).max(1 - MINUTE);
            }
            last = sent.at;
        }
        tokens + nanos(now - last).min(MINUTE)
    }

    fn own(&self, class: usize, now: Instant) -> bool {
        let ClassConfig { rate, burst, .. } = &self.config.class[class];
        let of_class = |sent: &Sent| sent.class == class;
        self.tokens((*rate, burst.0), now, of_class, |sent| !sent.borrowed) >= 0
            && self.below_ceiling(class, now)
    }

    fn below_ceiling(&self, class: usize, now: Instant) -> bool {
        let ClassConfig { rate, ceil, cburst, .. } = &self.config.class[class];
        self.tokens((ceil.unwrap_or(*rate), cburst.0), now, |sent| sent.class == class, |_| true) >= 0
    }

    fn borrows(&self, class: usize, now: Instant) -> bool {
        let lends = |rate| self.tokens((rate, self.config.burst.0), now, |_| true, |_| true) >= 0;
        self.config.rate.is_some_and(lends) && !self.own(class, now) && self.below_ceiling(class, now)
    }

    fn backlogged(&self) -> impl Iterator<Item = usize> {
        (0..self.queues.len()).filter(|class| !self.queues[*class].is_empty())
    }

    /// The class and whether it borrows.
    fn choose(&self, now: Instant) -> Option<(usize, bool)> {
        for borrowed in [false, true] {
            let may =
                |class: &usize| if borrowed { self.borrows(*class, now) } else { self.own(*class, now) };
            let ready: Vec<usize> = self.backlogged().filter(may).collect();
            let priority = |class: usize| self.config.class[class].priority;
            let Some(first) = ready.iter().map(|class| priority(*class)).min() else { continue };
            let ready: Vec<usize> = ready.into_iter().filter(|class| priority(*class) == first).collect();
            let of_row = |sent: &&Sent| sent.borrowed == borrowed && priority(sent.class) == first;
            let last = self.sent.iter().rev().find(of_row);
            let Some(last) = last else { return Some((ready[0], borrowed)) };
            let goes_on = !last.used_up && (borrowed || !last.stopped) && ready.contains(&last.class);
            let after = ready.iter().find(|class| **class > last.class);
            let chosen = if goes_on { last.class } else { *after.unwrap_or(&ready[0]) };
            return Some((chosen, borrowed));
        }
        None
    }

    fn quantum_used_up(&self, class: usize, borrowed: bool, bytes: u32) -> bool {
        let quantum = self.config.class[class].quantum.unwrap().0.cast_signed();
        let mut deficit = 0;
        for sent in self.sent.iter().filter(|sent| sent.class == class && sent.borrowed == borrowed) {
            deficit -= i64::from(sent.bytes);
            if sent.used_up {
                deficit += quantum;
            }
        }
        deficit - i64::from(bytes) < 0
    }

    /// The first instant after `now` at which a backlogged class may go; it must exist.
    fn search(&self, now: Instant) -> Instant {
        let (mut no, mut yes) = (now.as_nanos(), now.as_nanos() + 2 * MINUTE as u64);
        assert!(self.choose(Instant::from_nanos(yes)).is_some());
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            if self.choose(Instant::from_nanos(middle)).is_some() { yes = middle } else { no = middle }
        }
        Instant::from_nanos(yes)
    }
}

pub(super) fn departures(config: &HtbConfig, arrivals: &[Arrival], link: Rate) -> Vec<Departure> {
    let mut reference =
        Reference { config, queues: vec![VecDeque::new(); config.class.len()], sent: Vec::new() };
    let mut due: VecDeque<_> = absolute(arrivals).into();
    let mut now = Instant::ZERO;
    loop {
        while let Some((_, class, bytes)) = pop_if(&mut due, |arrival| arrival.0 <= now) {
            reference.queues[class].push_back(bytes);
        }
        let next_arrival = due.front().map(|arrival| arrival.0);
        if let Some((class, borrowed)) = reference.choose(now) {
            let bytes = reference.queues[class].pop_front().unwrap();
            let used_up = reference.quantum_used_up(class, borrowed, bytes);
            reference.sent.push(Sent { at: now, class, bytes, borrowed, used_up, stopped: false });
            let stopped = reference.queues[class].is_empty() || !reference.own(class, now);
            reference.sent.last_mut().unwrap().stopped = stopped;
            now += link.transmission_time(bytes);
        } else if reference.backlogged().next().is_some() {
            let ready = reference.search(now);
            now = next_arrival.map_or(ready, |arrival| arrival.min(ready));
        } else if let Some(arrival) = next_arrival {
            now = arrival;
        } else {
            return reference.sent.iter().map(|sent| (sent.at, sent.class, sent.bytes)).collect();
        }
    }
}
