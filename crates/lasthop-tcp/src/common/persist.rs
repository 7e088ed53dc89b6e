//! The persist timer of Linux: what a sender does whose peer's window has no room (RFC 9293, section
//! 3.8.6.1).

use crate::clock::Tick;

/// Most doublings of the wait (`sysctl_tcp_retries2`).
const DOUBLINGS_MAX: u32 = 15;

/// Probes of a window that has no room for the data from `nxt` on. Once the window opens, data leave, and the
/// next wait starts again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Persist {
    nxt: u64,
    doublings: u32,
    /// Probes since the last answer.
    pub unanswered: u32,
}

impl Persist {
    /// Data from `nxt` on wait for the window.
    pub fn begin(&mut self, nxt: u64) {
        if self.nxt != nxt {
            *self = Self { nxt, ..Self::default() };
        }
    }

    /// The wait for the next probe: the timeout, doubled with each probe (`tcp_probe0_when`).
    pub fn wait(&self, timeout: Tick, most: Tick) -> Tick {
        let doubled = u128::from(timeout) << self.doublings;
        doubled.min(u128::from(most)) as Tick
    }

    pub fn probed(&mut self) {
        self.unanswered += 1;
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_begin_anew_after_data() {
        let mut persist = Persist::default();
        persist.begin(1_001);
        let mut waits = Vec::new();
        for _ in 0..6 {
            waits.push(persist.wait(200, 2_000));
            persist.probed();
            persist.begin(1_001);
        }
        assert_eq!(waits, [200, 400, 800, 1_600, 2_000, 2_000]);
        persist.begin(2_001);
        assert_eq!((persist.wait(200, 2_000), persist.unanswered), (200, 0));
    }
}
