//! Pacing by Linux' queue discipline `fq`: TCP passes on a burst with its departure time (`skb->tstamp`), at
//! which `fq` sends it. TCP continues until its small queue is full (`tcp_small_queue_check`).

use std::collections::VecDeque;

use lasthop_core::{Instant, Rate};

use super::pacer::BURST_SHIFT;
use crate::common::Transmission;

/// Overhead of a buffer in the kernel's accounting (`SKB_TRUESIZE` of `MAX_TCP_HEADER`, with wireless
/// drivers).
const BUFFER_BYTES: u64 = 896;

/// A segment that `fq` holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    departs: Instant,
    segment: Transmission,
    /// Its size in the kernel's accounting; the first segment of a burst carries the size of the buffer.
    counted_bytes: u64,
}

/// The segments of a connection that `fq` holds, in the order of departure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fq {
    held: VecDeque<Held>,
    counted_bytes: u64,
    /// True if TCP has more data and waits for a departure.
    is_full: bool,
}

impl Fq {
    /// True if TCP may pass on a burst of `bytes`. The limit is the greater of two such bursts and the data
    /// of about a millisecond at the pacing rate; for retransmissions it is doubled. A connection with at
    /// most one buffer unacknowledged never waits.
    pub fn may_take(&mut self, bytes: u32, rate: Option<Rate>, again: bool, outstanding: u32) -> bool {
        let bursts = 2 * counted_bytes(bytes);
        let limit = bursts.max(rate.map_or(u64::MAX / 2, |rate| (rate.bits_per_second() / 8) >> BURST_SHIFT));
        // Linux' counter begins at 1, so two bursts of the limit's size fill the queue.
        self.is_full =
            self.counted_bytes > 0 && self.counted_bytes >= limit << u32::from(again) && outstanding > 1;
        !self.is_full
    }

    /// Takes the last `segments` of `out` as a burst that departs at `departs`.
    pub fn take(&mut self, now: Instant, departs: Instant, out: &mut VecDeque<Transmission>, segments: u32) {
        if departs <= now && self.held.is_empty() {
            return;
        }
        let mut buffer_bytes = BUFFER_BYTES;
        for segment in out.drain(out.len().saturating_sub(segments as usize)..) {
            let counted_bytes = std::mem::take(&mut buffer_bytes) + u64::from(segment.payload_bytes);
            self.counted_bytes += counted_bytes;
            self.held.push_back(Held { departs, segment, counted_bytes });
        }
    }

    /// Puts due segments into `out`. Returns true if TCP waits for that.
    pub fn release(&mut self, now: Instant, out: &mut VecDeque<Transmission>) -> bool {
        let before = self.held.len();
        while let Some(&Held { segment, counted_bytes, .. }) =
            self.held.front().filter(|held| held.departs <= now)
        {
            self.held.pop_front();
            self.counted_bytes -= counted_bytes;
            out.push_back(segment);
        }
        self.held.len() < before && std::mem::take(&mut self.is_full)
    }

    /// When the next segment departs.
    pub fn wakeup(&self) -> Option<Instant> {
        self.held.front().map(|held| held.departs)
    }
}

/// `skb->truesize` for this number of bytes of data.
fn counted_bytes(bytes: u32) -> u64 {
    BUFFER_BYTES + u64::from(bytes)
}

#[cfg(test)]
mod tests {
    use lasthop_core::{Duration, Ecn};

    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn out(bytes: &[u32]) -> VecDeque<Transmission> {
        let segment = |&payload_bytes: &u32| Transmission {
            seq: 1,
            payload_bytes,
            syn: false,
            fin: false,
            ecn: Ecn::NotEct,
            cwr: false,
            push: false,
        };
        bytes.iter().map(segment).collect()
    }

    const SLOW: Option<Rate> = Some(Rate::from_bits_per_second(1_000_000));
    const FAST: Option<Rate> = Some(Rate::from_bits_per_second(100_000_000));

    #[test]
    fn a_small_queue_takes_a_millisecond_of_segments() {
        let mut fq = Fq::default();
        // 12.5 MB/s / 1024 = 12 207 bytes; a segment counts 2344.
        for number in 0..6 {
            assert!(fq.may_take(1_448, FAST, false, 20), "{number}");
            fq.take(NOW, NOW + Duration::from_millis(1), &mut out(&[1_448]), 1);
        }
        assert!(!fq.may_take(1_448, FAST, false, 20));
        assert!(fq.may_take(1_448, FAST, true, 20), "twice as much, if sent before");
        assert!(!fq.may_take(1_448, SLOW, true, 20), "twice two segments are 9376 bytes");
    }

    #[test]
    fn a_burst_counts_one_buffer_and_departs_at_once() {
        let mut fq = Fq::default();
        let departs = NOW + Duration::from_millis(1);
        fq.take(NOW, departs, &mut out(&[1_000, 1_000]), 2);
        assert_eq!(fq.counted_bytes, 2_896);
        // The queue is full for a burst of half that size, unless nothing else is unacknowledged.
        assert!(!fq.may_take(552, SLOW, false, 2) && fq.may_take(552, SLOW, false, 1));
        assert!(fq.may_take(553, SLOW, false, 2));
        assert!(!fq.may_take(552, SLOW, false, 2));
        let mut left = VecDeque::new();
        assert!(!fq.release(NOW, &mut left));
        assert!(fq.release(departs, &mut left), "TCP has waited");
        assert_eq!((left.len(), fq.counted_bytes, fq.wakeup()), (2, 0, None));
    }

    #[test]
    fn what_need_not_wait_passes_unless_something_is_before_it() {
        let mut fq = Fq::default();
        let mut first = out(&[1_000]);
        fq.take(NOW, NOW, &mut first, 1);
        assert_eq!((first.len(), fq.wakeup()), (1, None));
        fq.take(NOW, NOW + Duration::from_millis(1), &mut first, 1);
        let (later, mut second) = (NOW + Duration::from_millis(2), out(&[500]));
        fq.take(later, later, &mut second, 1);
        assert!(second.is_empty(), "it would overtake");
        fq.release(later, &mut second);
        assert_eq!(second.iter().map(|left| left.payload_bytes).collect::<Vec<_>>(), [1_000, 500]);
    }
}
