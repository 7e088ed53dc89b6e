//! The same rules, computed slowly: each query replays a bucket from the first packet of the run, the members
//! of rows and feeds are recomputed from that at each step, and a search finds the time at which a class may
//! send.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lasthop_core::{Duration, Instant, Rate};

use super::{Arrival, Departure, absolute};
use crate::config::htb::{HtbConfig, LEVELS};
use crate::link::pop_if;

/// A row, of a level, or the feed of a class, for a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Row(usize, u8),
    Feed(usize, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Waits,
    Borrows,
    Sends,
}

/// The class whose turn it is in a place; or the class that had the turn when it left, and gets it again when
/// it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Over,
    Of(usize),
    Left(usize),
}

struct Sent {
    at: Instant,
    class: usize,
    level: usize,
    bytes: u32,
    /// It used up the quantum of its class's turn.
    used_up: bool,
}

struct Reference<'a> {
    config: &'a HtbConfig,
    queues: Vec<VecDeque<u32>>,
    sent: Vec<Sent>,
    standing: BTreeMap<Place, BTreeSet<usize>>,
    turns: BTreeMap<Place, Turn>,
}

const MINUTE: i64 = 60_000_000_000;

fn nanos(duration: Duration) -> i64 {
    duration.as_nanos().cast_signed()
}

impl Reference<'_> {
    /// The root is behind the last class.
    fn parent(&self, class: usize) -> Option<usize> {
        let root = self.config.class.len();
        if class == root {
            return None;
        }
        self.config.parent_of(class).or(self.config.rate.map(|_| root))
    }

    fn level(&self, class: usize) -> usize {
        if class < self.config.class.len() && self.config.is_leaf(class) {
            return 0;
        }
        self.parent(class).map_or(LEVELS, |parent| self.level(parent)) - 1
    }

    fn priority(&self, leaf: usize) -> u8 {
        self.config.class[leaf].priority
    }

    fn is_within(&self, class: usize, outer: usize) -> bool {
        class == outer || self.parent(class).is_some_and(|parent| self.is_within(parent, outer))
    }

    /// Tokens at `now` of a bucket of a class, which is charged for the packets that `pays` selects.
    fn tokens(
        &self,
        class: usize,
        (rate, burst): (Rate, u64),
        now: Instant,
        pays: impl Fn(&Sent) -> bool,
    ) -> i64 {
        let depth = nanos(rate.transmission_time(burst as u32));
        let (mut tokens, mut last) = (depth, Instant::ZERO);
        for sent in self.sent.iter().filter(|sent| self.is_within(sent.class, class)) {
            tokens += nanos(sent.at - last).min(MINUTE);
            if pays(sent) {
                tokens = (tokens.min(depth) - nanos(rate.transmission_time(sent.bytes))).max(1 - MINUTE);
            }
            last = sent.at;
        }
        tokens + nanos(now - last).min(MINUTE)
    }

    fn mode(&self, class: usize, now: Instant) -> Mode {
        let root = || {
            (
                (self.config.rate.unwrap(), self.config.burst.0),
                (self.config.rate.unwrap(), self.config.burst.0),
            )
        };
        let (rate, ceil) = self.config.class.get(class).map_or_else(root, |class| {
            ((class.rate, class.burst.0), (class.ceil.unwrap_or(class.rate), class.cburst.0))
        });
        let level = self.level(class);
        if self.tokens(class, ceil, now, |_| true) < 0 {
            Mode::Waits
        } else if self.tokens(class, rate, now, |sent| level >= sent.level) < 0 {
            Mode::Borrows
        } else {
            Mode::Sends
        }
    }

    fn backlogged(&self) -> impl Iterator<Item = usize> {
        (0..self.queues.len()).filter(|class| !self.queues[*class].is_empty())
    }

    /// The members of all places at `now`.
    fn found(&self, now: Instant) -> BTreeMap<Place, BTreeSet<usize>> {
        let mut standing: BTreeMap<Place, BTreeSet<usize>> = BTreeMap::new();
        for leaf in self.backlogged() {
            let priority = self.priority(leaf);
            let mut class = leaf;
            loop {
                let place = match (self.mode(class, now), self.parent(class)) {
                    (Mode::Sends, _) => Place::Row(self.level(class), priority),
                    (Mode::Borrows, Some(parent)) => Place::Feed(parent, priority),
                    _ => break,
                };
                standing.entry(place).or_default().insert(class);
                let Place::Feed(parent, _) = place else { break };
                class = parent;
            }
        }
        standing
    }

    /// Classes that have left a row pass their turns on; a feed remembers them.
    fn update(&mut self, now: Instant) {
        let standing = self.found(now);
        for (place, turn) in &mut self.turns {
            let Turn::Of(class) = *turn else { continue };
            let members = standing.get(place);
            if members.is_some_and(|members| members.contains(&class)) {
                continue;
            }
            let next = members.and_then(|members| members.range(class..).next());
            *turn = match place {
                Place::Feed(..) => Turn::Left(class),
                Place::Row(..) => next.map_or(Turn::Over, |next| Turn::Of(*next)),
            };
        }
        self.standing = standing;
    }

    fn from(&self, place: Place, class: usize) -> Turn {
        self.standing[&place].range(class..).next().map_or(Turn::Over, |class| Turn::Of(*class))
    }

    fn pass_on(&mut self, place: Place) {
        if let Some(Turn::Of(class)) = self.turns.get(&place) {
            self.turns.insert(place, self.from(place, class + 1));
        }
    }

    /// The leaf whose turn it is in a place; none if a round has ended there.
    fn walk(&mut self, place: Place, priority: u8) -> Option<usize> {
        let turn = match self.turns.get(&place) {
            Some(Turn::Left(class)) => self.from(place, *class),
            turn => turn.copied().unwrap_or(Turn::Over),
        };
        self.turns.insert(place, turn);
        let Turn::Of(class) = turn else {
            self.turns.insert(place, self.from(place, 0));
            return None;
        };
        if self.level(class) == 0 {
            return Some(class);
        }
        self.walk(Place::Feed(class, priority), priority).or_else(|| {
            self.pass_on(place);
            self.walk(place, priority)
        })
    }

    /// The leaf that goes at `now`, and the level at which.
    fn choose(&mut self, now: Instant) -> Option<(usize, usize)> {
        self.update(now);
        let (&row, _) = self.standing.first_key_value()?;
        let Place::Row(level, priority) = row else { return None };
        loop {
            if let Some(leaf) = self.walk(row, priority) {
                return Some((leaf, level));
            }
        }
    }

    fn quantum_used_up(&self, class: usize, level: usize, bytes: u32) -> bool {
        let quantum = self.config.class[class].quantum_bytes().cast_signed();
        let mut deficit = 0;
        for sent in self.sent.iter().filter(|sent| sent.class == class && sent.level == level) {
            deficit -= i64::from(sent.bytes);
            if sent.used_up {
                deficit += quantum;
            }
        }
        deficit - i64::from(bytes) < 0
    }

    fn send(&mut self, at: Instant, class: usize, level: usize) -> u32 {
        let bytes = self.queues[class].pop_front().unwrap();
        let used_up = self.quantum_used_up(class, level, bytes);
        if used_up {
            let priority = self.priority(class);
            let feed = self.parent(class).map(|parent| Place::Feed(parent, priority));
            self.pass_on(if level == 0 { Place::Row(0, priority) } else { feed.unwrap() });
        }
        self.sent.push(Sent { at, class, level, bytes, used_up });
        self.update(at);
        bytes
    }

    /// The first instant after `now` at which a backlogged class may send; it must exist.
    fn search(&self, now: Instant) -> Instant {
        let may = |nanos| {
            matches!(self.found(Instant::from_nanos(nanos)).first_key_value(), Some((Place::Row(..), _)))
        };
        let (mut no, mut yes) = (now.as_nanos(), now.as_nanos() + 2 * MINUTE as u64);
        assert!(may(yes));
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            if may(middle) { yes = middle } else { no = middle }
        }
        Instant::from_nanos(yes)
    }
}

pub(super) fn departures(config: &HtbConfig, arrivals: &[Arrival], link: Rate) -> Vec<Departure> {
    let mut reference = Reference {
        config,
        queues: vec![VecDeque::new(); config.class.len()],
        sent: Vec::new(),
        standing: BTreeMap::new(),
        turns: BTreeMap::new(),
    };
    let mut due: VecDeque<_> = absolute(arrivals).into();
    let mut now = Instant::ZERO;
    loop {
        while let Some((_, class, bytes)) = pop_if(&mut due, |arrival| arrival.0 <= now) {
            reference.queues[class].push_back(bytes);
        }
        let next_arrival = due.front().map(|arrival| arrival.0);
        if let Some((class, level)) = reference.choose(now) {
            now += link.transmission_time(reference.send(now, class, level));
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
