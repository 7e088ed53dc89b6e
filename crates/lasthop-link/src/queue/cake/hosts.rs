//! The hosts of a tin, and how many busy flows each has.

/// Number of places for hosts, and for queues (`CAKE_QUEUES`).
pub(super) const QUEUES: usize = 1_024;
/// A flow has a host that sends, and one that receives.
pub(super) const SIDES: usize = 2;
/// Places that a hash may take: a set-associative hash (`CAKE_SET_WAYS`).
const WAYS: usize = 8;

const _: () = assert!(QUEUES.is_multiple_of(WAYS));

/// The places of the set of a hash, its own first.
pub(super) fn places(home: usize) -> impl Iterator<Item = usize> {
    let (way, set) = (home % WAYS, home - home % WAYS);
    (0..WAYS).map(move |step| set + (way + step) % WAYS)
}

#[derive(Clone, Copy, Debug, Default)]
struct Host {
    /// Its hash.
    tag: u32,
    busy: u32,
}

/// The hosts of one side.
#[derive(Clone, Debug)]
pub(super) struct Hosts(Vec<Host>);

impl Hosts {
    pub(super) fn new() -> Self {
        Self(vec![Host::default(); QUEUES])
    }

    /// The place of a host: its own, that of a host without busy flows, or else that of another.
    pub(super) fn place_of(&mut self, hash: u32) -> usize {
        let home = hash as usize % QUEUES;
        let own = places(home).find(|&place| self.0[place].tag == hash);
        let free = || places(home).find(|&place| self.0[place].busy == 0);
        let place = own.or_else(free).unwrap_or(home);
        self.0[place].tag = hash;
        place
    }

    /// Number of busy flows of the host at this place.
    pub(super) fn busy(&self, place: usize) -> u32 {
        self.0[place].busy
    }

    pub(super) fn join(&mut self, place: usize) {
        self.0[place].busy = (self.0[place].busy + 1).min(QUEUES as u32);
    }

    pub(super) fn leave(&mut self, place: usize) {
        self.0[place].busy = self.0[place].busy.saturating_sub(1);
    }
}
