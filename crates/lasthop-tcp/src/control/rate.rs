//! Delivery rate samples (draft-ietf-ccwg-bbr, section 4.1; Linux: `tcp_rate.c`): how fast the path delivered
//! the flight between the transmission of a segment and its arrival.

use std::collections::VecDeque;

/// The state of the connection when a segment was sent.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sent_us: u64,
    /// Start of the flight that the segment belongs to.
    first_sent_us: u64,
    delivered: u64,
    delivered_us: u64,
    app_limited: bool,
    /// Segments in flight including it, and segments that had been lost.
    in_flight: u32,
    lost: u64,
    /// True if it has not been sampled yet, and its loss has not been reported.
    is_fresh: bool,
    is_lost: bool,
}

/// The state of a connection when it sends a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Segments that have arrived, that were lost, and that are in flight with this one.
    pub delivered: u64,
    pub lost: u64,
    pub in_flight: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LostSegment {
    pub at_us: u64,
    pub seq: u64,
    pub end: u64,
    /// Segments in flight when it left, and segments lost since; both include it.
    pub tx_in_flight: u32,
    pub lost: u64,
    pub is_app_limited: bool,
    /// Segments that have arrived so far.
    pub total_delivered: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryRate {
    /// Segments that arrived in this time.
    pub delivered: u64,
    pub interval_us: u64,
    /// Segments that had arrived when the newest of these segments was sent.
    pub prior_delivered: u64,
    /// Segments in flight when the newest of these segments was sent, and segments lost since.
    pub tx_in_flight: u32,
    pub lost: u64,
    /// True if the sender had too little to send, so that the path may be faster.
    pub is_app_limited: bool,
}

/// Takes the samples. It keeps no data unless samples are needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateSampler {
    wanted: bool,
    /// One entry for every outstanding segment, in sequence order.
    marks: VecDeque<Mark>,
    delivered_us: u64,
    first_sent_us: u64,
    /// The sender counts as having too little to send until this number of segments have arrived; 0 if it has
    /// enough.
    app_limited_until: u64,
    /// The newest of the segments that the current ACK reports.
    newest: Option<Mark>,
    /// True if the application is writing, and less than a segment of its earlier data was unsent.
    writes: bool,
    /// Number of segments that were reported as lost.
    told_lost: u64,
    /// True if the next new segment begins a write.
    begins_write: bool,
}

impl RateSampler {
    pub fn new(wanted: bool) -> Self {
        Self { wanted, begins_write: true, ..Self::default() }
    }

    /// True if samples are taken.
    pub fn is_on(&self) -> bool {
        self.wanted
    }

    /// A segment leaves for the first time; `idle` if nothing was in flight.
    pub fn on_sent(&mut self, now_us: u64, progress: Progress, idle: bool) {
        let mark = self.mark(now_us, progress, idle);
        self.marks.push_back(mark);
    }

    /// The application starts or finishes writing.
    pub fn set_writing(&mut self, writes: bool) {
        self.writes = writes;
    }

    /// Notes whether the segment before the next new one was the last of a write.
    pub fn set_write_end(&mut self, end: bool) {
        self.begins_write = end;
    }

    /// A write begins: checks whether the sender has too little to send.
    pub fn begins_write(&self) -> bool {
        self.writes && self.begins_write
    }

    /// Outstanding segment number `index` leaves again.
    pub fn on_sent_again(&mut self, index: usize, now_us: u64, progress: Progress) {
        if self.wanted {
            self.marks[index] = self.mark(now_us, progress, false);
        }
    }

    fn mark(&mut self, now_us: u64, progress: Progress, idle: bool) -> Mark {
        if idle {
            self.first_sent_us = now_us;
            self.delivered_us = now_us;
        }
        Mark {
            sent_us: now_us,
            first_sent_us: self.first_sent_us,
            delivered: progress.delivered,
            delivered_us: self.delivered_us,
            app_limited: self.app_limited_until > 0,
            in_flight: progress.in_flight,
            lost: progress.lost,
            is_fresh: true,
            is_lost: false,
        }
    }

    /// Outstanding segment number `index` is lost. Returns none if that was reported already.
    pub fn take_lost(&mut self, index: usize, now: Progress, (seq, end): (u64, u64)) -> Option<LostSegment> {
        let mark = &mut self.marks[index];
        if std::mem::replace(&mut mark.is_lost, true) {
            return None;
        }
        self.told_lost += 1;
        Some(LostSegment {
            at_us: self.delivered_us,
            seq,
            end,
            tx_in_flight: mark.in_flight,
            lost: self.told_lost.saturating_sub(mark.lost).max(1),
            is_app_limited: mark.app_limited,
            total_delivered: now.delivered,
        })
    }

    /// SACK reports outstanding segment number `index`.
    pub fn on_sacked(&mut self, index: usize) {
        if self.wanted {
            self.take(index);
        }
    }

    /// The first outstanding segment is acknowledged.
    pub fn on_acknowledged(&mut self) {
        if self.wanted {
            self.take(0);
            self.marks.pop_front();
        }
    }

    fn take(&mut self, index: usize) {
        let mark = &mut self.marks[index];
        if !std::mem::take(&mut mark.is_fresh) {
            return;
        }
        let key = |mark: &Mark| (mark.delivered, mark.sent_us);
        if self.newest.is_none_or(|newest| key(mark) >= key(&newest)) {
            self.newest = Some(*mark);
            // The next flight begins here.
            self.first_sent_us = mark.sent_us;
        }
    }

    /// Segments that had arrived when the newest segment in the current ACK was sent.
    pub fn prior_delivered(&self) -> Option<u64> {
        self.newest.map(|newest| newest.delivered)
    }

    pub fn delivered_us(&self) -> u64 {
        self.delivered_us
    }

    /// True if the sender had too little to send, and not all data that it sent then has arrived.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Notes that there is room in the window and no data to fill it.
    pub fn on_app_limited(&mut self, delivered: u64, in_flight: u32) {
        self.app_limited_until = (delivered + u64::from(in_flight)).max(1);
    }

    /// The sample of an ACK that reports `new` segments, with the totals of arrived and lost segments after
    /// it. None if it reports no segment, or a delivery faster than any round trip.
    pub fn sample(
        &mut self,
        now_us: u64,
        new: u64,
        (delivered, lost): (u64, u64),
        least_rtt_us: u64,
    ) -> Option<DeliveryRate> {
        if self.app_limited_until > 0 && delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        if new > 0 {
            self.delivered_us = now_us;
        }
        let newest = self.newest.take()?;
        let send_us = newest.sent_us - newest.first_sent_us;
        let ack_us = now_us.saturating_sub(newest.delivered_us);
        let interval_us = send_us.max(ack_us);
        (interval_us >= least_rtt_us).then_some(DeliveryRate {
            delivered: delivered - newest.delivered,
            interval_us,
            prior_delivered: newest.delivered,
            tx_in_flight: newest.in_flight,
            lost: lost.saturating_sub(newest.lost),
            is_app_limited: newest.app_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(delivered: u64) -> Progress {
        Progress { delivered, ..Progress::default() }
    }

    /// Four segments leave at 0, 1, 2 and 3 ms.
    fn four_sent() -> RateSampler {
        let mut rates = RateSampler::new(true);
        for number in 0..4 {
            rates.on_sent(number * 1_000, after(0), number == 0);
        }
        rates
    }

    #[test]
    fn what_arrives_in_a_round_trip_is_the_rate() {
        let mut rates = four_sent();
        rates.on_acknowledged();
        let first = rates.sample(100_000, 1, (1, 0), 90_000).expect("a sample");
        assert_eq!((first.delivered, first.interval_us), (1, 100_000));
        // The next segment leaves when the first has arrived, and the bottleneck spaces the others by 10 ms.
        rates.on_sent(100_000, after(1), false);
        for (number, at) in [(2, 110_000), (3, 120_000), (4, 130_000)] {
            rates.on_acknowledged();
            rates.sample(at, 1, (number, 0), 90_000);
        }
        rates.on_acknowledged();
        let fifth = rates.sample(200_000, 1, (5, 0), 90_000).expect("a sample");
        assert_eq!((fifth.delivered, fifth.prior_delivered, fifth.interval_us), (4, 1, 100_000));
    }

    #[test]
    fn the_slower_of_sending_and_arriving_counts() {
        let mut rates = RateSampler::new(true);
        rates.on_sent(0, after(0), true);
        rates.on_sent(80_000, after(0), false);
        rates.on_acknowledged();
        rates.sample(100_000, 1, (1, 0), 90_000);
        rates.on_acknowledged();
        // Both ACKs come at once, but the segments left 80 ms apart, so the rate is not that of two segments
        // in a moment.
        let sample = rates.sample(100_000, 1, (2, 0), 50_000).expect("a sample");
        assert_eq!(sample.interval_us, 100_000);
    }

    #[test]
    fn a_segment_is_sampled_once() {
        let mut rates = four_sent();
        rates.on_sacked(2);
        assert!(rates.sample(100_000, 1, (1, 0), 90_000).is_some());
        (0..3).for_each(|_| rates.on_acknowledged());
        let sample = rates.sample(101_000, 1, (3, 0), 90_000).expect("the first two");
        assert_eq!(sample.prior_delivered, 0);
        rates.on_acknowledged();
        assert!(rates.newest.is_some() && rates.marks.is_empty());
    }

    #[test]
    fn samples_of_a_sender_with_too_little_to_send_say_so() {
        let mut rates = four_sent();
        rates.on_app_limited(0, 4);
        rates.on_sent(4_000, after(0), false);
        (0..5).for_each(|_| rates.on_acknowledged());
        assert!(rates.sample(100_000, 1, (5, 0), 90_000).expect("a sample").is_app_limited);
        rates.on_sent(100_000, after(5), true);
        rates.on_acknowledged();
        assert!(!rates.sample(200_000, 1, (6, 0), 90_000).expect("a sample").is_app_limited);
    }

    #[test]
    fn nothing_is_kept_for_an_algorithm_without_rates() {
        let mut rates = RateSampler::new(false);
        rates.on_acknowledged();
        assert!(rates.marks.is_empty() && rates.sample(1, 1, (1, 0), 0).is_none());
    }
}
