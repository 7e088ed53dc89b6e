//! The tree of classes: which classes may send, whose rate they use, and which one is next.
//!
//! A class is in one of three modes (`htb_class_mode`). It *sends* while neither its rate nor its ceiling is
//! in debt, *borrows* while only its rate is in debt, and otherwise *waits*. Sending classes with packets
//! (their own or those of borrowers) are members of a row for each level and priority. Borrowers are members
//! of a feed of the class that contains them, for each priority (`htb_activate_prios`). The first non-empty
//! row, from the leaves up, determines the next packet: the turn of the row leads to a leaf, or into a feed,
//! whose turn leads on (`htb_lookup_leaf`).

use lasthop_core::Instant;

use super::bucket::{Bucket, pause};
use crate::config::htb::{ClassConfig, HtbConfig, LEVELS, PRIORITIES};

/// Leaves are at level 0. An inner class is one level below the class that contains it, and the topmost class
/// is at the highest level (`htb_change_class`). The lower the level of the class whose rate a packet uses,
/// the sooner the packet is sent.
pub(super) type Level = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Waits,
    Borrows,
    Sends,
}

/// A leaf or an inner class; the root is an inner class.
#[derive(Debug)]
struct Class {
    parent: Option<usize>,
    level: Level,
    priority: usize,
    rate: Bucket,
    ceil: Bucket,
    charged: Instant,
    /// When neither its rate nor its ceiling is in debt, and when its ceiling is not.
    own_from: Instant,
    ceil_from: Instant,
    mode: Mode,
    /// Priorities of the packets that it or its borrowers have.
    active: u8,
    quantum: i64,
    /// Rest of its turn, per level.
    deficit: [i64; LEVELS],
}

impl Class {
    fn new(config: &ClassConfig, parent: Option<usize>) -> Self {
        let rate = Bucket::full(config.rate, config.burst.0);
        let ceil = Bucket::full(config.ceil.unwrap_or(config.rate), config.cburst.0);
        Self {
            priority: usize::from(config.priority),
            quantum: config.quantum_bytes().cast_signed(),
            ..Self::of(rate, ceil, parent)
        }
    }

    fn of(rate: Bucket, ceil: Bucket, parent: Option<usize>) -> Self {
        Self {
            parent,
            level: 0,
            priority: 0,
            rate,
            ceil,
            charged: Instant::ZERO,
            own_from: Instant::ZERO,
            ceil_from: Instant::ZERO,
            mode: Mode::Sends,
            active: 0,
            quantum: 0,
            deficit: [0; LEVELS],
        }
    }

    fn mode_at(&self, now: Instant) -> Mode {
        if self.ceil_from > now {
            Mode::Waits
        } else if self.own_from > now {
            Mode::Borrows
        } else {
            Mode::Sends
        }
    }

    /// Charges it for a packet; its rate is charged only if the class is at `level` or above.
    fn charge(&mut self, now: Instant, level: Level, length: u32) {
        let pause = pause(self.charged, now);
        if self.level >= level {
            self.rate.charge(pause, length);
        } else {
            self.rate.lend(pause);
        }
        self.ceil.charge(pause, length);
        self.charged = now;
        self.ceil_from = self.ceil.ready(now);
        self.own_from = self.rate.ready(now).max(self.ceil_from);
    }
}

/// A set of classes, one bit for each number.
type Set = u64;

const fn only(class: usize) -> Set {
    1 << class
}

const fn first(set: Set) -> Set {
    set & set.wrapping_neg()
}

/// Classes that take turns, in the order of their numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    members: Set,
    /// The class whose turn it is; none at the end of a round.
    turn: Set,
    /// The class whose turn it was when it left a feed; none while another class has the turn.
    left: Set,
}

impl Turns {
    /// The first member that is not before this class; none if there is no class.
    const fn from(&self, class: Set) -> Set {
        first(self.members & class.wrapping_neg())
    }

    /// Continues a round in which no class has the turn, or starts the next round and returns false. A class
    /// that left gets its turn back if it has returned; otherwise the next class gets it.
    const fn resume(&mut self) -> bool {
        self.turn = self.from(self.left);
        self.left = 0;
        let goes_on = self.turn != 0;
        if !goes_on {
            self.turn = first(self.members);
        }
        goes_on
    }

    /// Passes the turn to the next class.
    const fn pass_on(&mut self) {
        self.turn = self.from(self.turn << 1);
    }

    const fn insert(&mut self, class: usize) {
        self.members |= only(class);
    }

    /// A class that leaves its row passes its turn on (`htb_remove_class_from_row`).
    const fn remove_from_row(&mut self, class: usize) {
        if self.turn == only(class) {
            self.pass_on();
        }
        self.members &= !only(class);
    }

    /// A feed keeps the place of a borrower (`htb_deactivate_prios`).
    const fn remove_from_feed(&mut self, class: usize) {
        if self.turn == only(class) {
            (self.turn, self.left) = (0, only(class));
        }
        self.members &= !only(class);
    }

    const fn is_empty(&self) -> bool {
        self.members == 0
    }
}

/// A class's right to send its next packet now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) class: usize,
    level: Level,
}

/// The classes by their numbers, followed by the root, if there is one.
#[derive(Debug)]
pub(super) struct Tree {
    classes: Vec<Class>,
    /// The rows, then the feeds.
    turns: Vec<Turns>,
    /// Priorities whose rows are not empty, per level.
    rows: [u8; LEVELS],
    /// Levels that have classes, a bit for each.
    levels: u8,
    /// Leaves that have packets.
    busy: Set,
    /// Classes that borrow or wait, per level.
    in_debt: [Set; LEVELS],
    /// The turns that the last choice has moved, with their values before.
    moved: Vec<(usize, Turns)>,
}

impl Tree {
    pub(super) fn new(htb: &HtbConfig) -> Self {
        let count = htb.class.len();
        let root = htb.rate.map(|rate| Bucket::full(rate, htb.burst.0));
        let parent = |index| htb.parent_of(index).or(root.as_ref().map(|_| count));
        let mut classes: Vec<Class> =
            htb.class.iter().enumerate().map(|(index, class)| Class::new(class, parent(index))).collect();
        classes.extend(root.map(|rate| Class::of(rate.clone(), rate, None)));
        // Parents come first, except for the root.
        for index in (count..classes.len()).chain(0..count) {
            if index == count || !htb.is_leaf(index) {
                classes[index].level =
                    classes[index].parent.map_or(LEVELS, |parent| classes[parent].level) - 1;
            }
        }
        let turns = vec![Turns::default(); (LEVELS + classes.len()) * PRIORITIES];
        let levels = classes.iter().fold(0, |levels, class| levels | 1 << class.level);
        Self { classes, turns, rows: [0; LEVELS], levels, busy: 0, in_debt: [0; LEVELS], moved: Vec::new() }
    }

    /// Notes whether a leaf has packets now.
    pub(super) fn set_active(&mut self, leaf: usize, has_packets: bool) {
        let class = &mut self.classes[leaf];
        if (class.active != 0) == has_packets {
            return;
        }
        self.busy ^= only(leaf);
        if has_packets {
            class.active = 1 << class.priority;
            self.connect(leaf);
        } else {
            self.disconnect(leaf);
            self.classes[leaf].active = 0;
        }
    }

    /// The class that sends next, if one may send at `now`; otherwise the time at which one may.
    #[inline]
    pub(super) fn next(&mut self, now: Instant) -> Result<Turn, Instant> {
        if self.busy == 0 { Err(Instant::MAX) } else { self.choose(now) }
    }

    fn choose(&mut self, now: Instant) -> Result<Turn, Instant> {
        self.moved.clear();
        for level in ones(self.levels) {
            self.catch_up(now, level);
            if self.rows[level] != 0 {
                let priority = self.rows[level].trailing_zeros() as usize;
                let row = row(level, priority);
                // The classes at level 0 are leaves.
                let leaf = if level == 0 { self.member(row) } else { self.leaf(row, priority) };
                if let Some(class) = leaf {
                    return Ok(Turn { class, level });
                }
            }
        }
        Err(ones(self.busy).map(|leaf| self.may_send_from(leaf)).min().unwrap_or(Instant::MAX))
    }

    pub(super) fn undo(&mut self) {
        while let Some((place, turns)) = self.moved.pop() {
            self.turns[place] = turns;
        }
    }

    /// Charges a class, whose turn it was, and the classes that contain it for a packet that has left its
    /// queue.
    pub(super) fn charge(
        &mut self,
        now: Instant,
        Turn { class: leaf, level }: Turn,
        length: u32,
        has_more: bool,
    ) {
        let class = &mut self.classes[leaf];
        let deficit = &mut class.deficit[level];
        *deficit -= i64::from(length);
        if *deficit < 0 {
            *deficit += class.quantum;
            let place = match class.parent {
                Some(parent) if level > 0 => feed(parent, class.priority),
                _ => row(0, class.priority),
            };
            self.turns[place].pass_on();
        }
        self.set_active(leaf, has_more);
        let mut next = Some(leaf);
        while let Some(index) = next {
            let class = &mut self.classes[index];
            class.charge(now, level, length);
            let (mode, parent) = (class.mode_at(now), class.parent);
            self.change_mode(index, mode);
            next = parent;
        }
    }

    /// When a class may send or can borrow; no packet leaves before that.
    fn may_send_from(&self, class: usize) -> Instant {
        let Class { parent, own_from, ceil_from, .. } = self.classes[class];
        own_from.min(parent.map_or(Instant::MAX, |parent| ceil_from.max(self.may_send_from(parent))))
    }

    /// Changes the modes of the classes of a level whose debts have been paid by now (`htb_do_events`).
    fn catch_up(&mut self, now: Instant, level: Level) {
        for index in ones(self.in_debt[level]) {
            self.change_mode(index, self.classes[index].mode_at(now));
        }
    }

    fn change_mode(&mut self, index: usize, mode: Mode) {
        let class = &self.classes[index];
        if class.mode == mode {
            return;
        }
        if class.active != 0 {
            self.disconnect(index);
        }
        let class = &mut self.classes[index];
        class.mode = mode;
        let in_debt = &mut self.in_debt[class.level];
        if mode == Mode::Sends {
            *in_debt &= !only(index);
        } else {
            *in_debt |= only(index);
        }
        if class.active != 0 {
            self.connect(index);
        }
    }

    /// The class whose turn it is in a non-empty row or feed; none at the end of the round of a feed, when
    /// the place above passes its turn on.
    fn member(&mut self, place: usize) -> Option<usize> {
        let turns = &mut self.turns[place];
        if turns.turn == 0 {
            self.moved.push((place, *turns));
            if !turns.resume() && place >= feed(0, 0) {
                return None;
            }
        }
        Some(turns.turn.trailing_zeros() as usize)
    }

    /// The leaf to which the turn of a row or feed leads; none at the end of the round of a feed
    /// (`htb_lookup_leaf`).
    fn leaf(&mut self, place: usize, priority: usize) -> Option<usize> {
        loop {
            let class = self.member(place)?;
            if self.classes[class].level == 0 {
                return Some(class);
            }
            if let Some(leaf) = self.leaf(feed(class, priority), priority) {
                return Some(leaf);
            }
            let turns = &mut self.turns[place];
            self.moved.push((place, *turns));
            turns.pass_on();
        }
    }

    /// Inserts a class with packets according to its mode, and the classes that it borrows from
    /// (`htb_activate_prios`).
    #[inline]
    fn connect(&mut self, index: usize) {
        let Class { mode, active, level, .. } = self.classes[index];
        match mode {
            Mode::Waits => {}
            Mode::Sends => self.enter_rows(index, level, active),
            Mode::Borrows => self.borrow_from(index, active),
        }
    }

    fn borrow_from(&mut self, mut index: usize, mut new: u8) {
        while let Class { mode: Mode::Borrows, parent: Some(parent), .. } = self.classes[index] {
            for priority in ones(new) {
                let feed = &mut self.turns[feed(parent, priority)];
                if !feed.is_empty() {
                    // The parent is already in the right place.
                    new &= !(1 << priority);
                }
                feed.insert(index);
            }
            self.classes[parent].active |= new;
            index = parent;
        }
        let Class { mode, level, .. } = self.classes[index];
        if mode == Mode::Sends {
            self.enter_rows(index, level, new);
        }
    }

    fn enter_rows(&mut self, index: usize, level: Level, priorities: u8) {
        for priority in ones(priorities) {
            self.turns[row(level, priority)].insert(index);
        }
        self.rows[level] |= priorities;
    }

    /// Removes a class with packets from its places, and from the classes that it borrowed from
    /// (`htb_deactivate_prios`).
    #[inline]
    fn disconnect(&mut self, index: usize) {
        let Class { mode, active, level, .. } = self.classes[index];
        match mode {
            Mode::Waits => {}
            Mode::Sends => self.leave_rows(index, level, active),
            Mode::Borrows => self.return_to(index, active),
        }
    }

    fn return_to(&mut self, mut index: usize, mut gone: u8) {
        while let Class { mode: Mode::Borrows, parent: Some(parent), .. } = self.classes[index] {
            for priority in ones(gone) {
                let feed = &mut self.turns[feed(parent, priority)];
                feed.remove_from_feed(index);
                if !feed.is_empty() {
                    gone &= !(1 << priority);
                }
            }
            self.classes[parent].active &= !gone;
            index = parent;
        }
        let Class { mode, level, .. } = self.classes[index];
        if mode == Mode::Sends {
            self.leave_rows(index, level, gone);
        }
    }

    fn leave_rows(&mut self, index: usize, level: Level, priorities: u8) {
        for priority in ones(priorities) {
            let row = &mut self.turns[row(level, priority)];
            row.remove_from_row(index);
            if row.is_empty() {
                self.rows[level] &= !(1 << priority);
            }
        }
    }
}

const fn row(level: Level, priority: usize) -> usize {
    level * PRIORITIES + priority
}

const fn feed(class: usize, priority: usize) -> usize {
    (LEVELS + class) * PRIORITIES + priority
}

/// The numbers of a mask's set bits.
fn ones(mask: impl Into<u64>) -> impl Iterator<Item = usize> {
    let mut rest = mask.into();
    std::iter::from_fn(move || {
        let number = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (number < 64).then_some(number)
    })
}
