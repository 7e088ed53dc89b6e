//! The packets under way from a node to a receiver, with retries and the order of release: block
//! acknowledgement (IEEE 802.11-2020, clause 10.25). One packet at a time with a separate acknowledgement
//! is the same with a window of one.

use std::collections::VecDeque;

use lasthop_core::PacketId;

use crate::config::WINDOW;

/// The state of a packet that has left its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MpduState {
    /// It is to be sent, perhaps again.
    Waits,
    /// It is in the frame on the air.
    Sent,
    /// It has arrived, but waits for an earlier packet.
    Arrived,
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Mpdu {
    id: PacketId,
    ip_bytes: u32,
    /// Failed attempts.
    failures: u32,
    state: MpduState,
}

/// The outcome of a packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MpduOutcome {
    Arrived,
    Again,
    GivenUp,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    mpdus: VecDeque<Mpdu>,
    /// Packets that are to be sent again.
    again: usize,
}

impl Window {
    /// True if a packet is to be sent again.
    pub(super) const fn has_again(&self) -> bool {
        self.again > 0
    }

    pub(super) fn packets(&self) -> usize {
        self.mpdus.len()
    }

    /// True if a further packet may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.mpdus.len() < WINDOW as usize
    }

    /// Marks packets as sent again, in order, as long as the next one of this length `fits`.
    pub(super) fn send_again(&mut self, mut fits: impl FnMut(u32) -> bool) {
        for mpdu in &mut self.mpdus {
            if mpdu.state == MpduState::Waits {
                if !fits(mpdu.ip_bytes) {
                    return;
                }
                mpdu.state = MpduState::Sent;
                self.again -= 1;
            }
        }
    }

    /// A packet out of the queue is sent.
    pub(super) fn send(&mut self, id: PacketId, ip_bytes: u32) {
        self.mpdus.push_back(Mpdu { id, ip_bytes, failures: 0, state: MpduState::Sent });
    }

    /// The frame has ended. `fails` determines for each of its packets whether it was lost; `tell` receives the
    /// outcome.
    pub(super) fn end(
        &mut self,
        retries: u32,
        mut fails: impl FnMut() -> bool,
        mut tell: impl FnMut(PacketId, MpduOutcome),
    ) {
        for mpdu in self.mpdus.iter_mut().filter(|mpdu| mpdu.state == MpduState::Sent) {
            let outcome = if !fails() {
                mpdu.state = MpduState::Arrived;
                MpduOutcome::Arrived
            } else if mpdu.failures >= retries {
                mpdu.state = MpduState::GivenUp;
                MpduOutcome::GivenUp
            } else {
                (mpdu.failures, mpdu.state) = (mpdu.failures + 1, MpduState::Waits);
                self.again += 1;
                MpduOutcome::Again
            };
            tell(mpdu.id, outcome);
        }
    }

    /// The next packet that the receiver can release in order. A dropped packet does not block others: the request
    /// that informs the receiver (clause 10.25.6.6) takes no time here.
    pub(super) fn release(&mut self) -> Option<PacketId> {
        loop {
            let Mpdu { id, state, .. } = *self.mpdus.front()?;
            if !matches!(state, MpduState::Arrived | MpduState::GivenUp) {
                return None;
            }
            self.mpdus.pop_front();
            if state == MpduState::Arrived {
                return Some(id);
            }
        }
    }
}
