//! Cached metrics: what connections to one destination leave for the next (control block
//! interdependence, RFC 2140, as Linux 2.4 does it).

use crate::sender::{Sender, State};

/// What is remembered of one destination. Zero means nothing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedMetrics {
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Congestion window in segments. New connections do not read it; Linux does only as an upper bound
    /// that the administrator has locked.
    pub cwnd: u32,
    /// Smoothed round-trip time in eighths of a tick.
    pub srtt_8: i64,
    /// Round-trip variance in quarters of a tick.
    pub rttvar_4: i64,
    /// Duplicate ACKs that reordering was seen to cause.
    pub reordering: u32,
}

impl CachedMetrics {
    /// Stores what `sender` knows at the end of its connection.
    pub(crate) fn store(&mut self, sender: &Sender) {
        if sender.backed_off() || !sender.rtt.has_sample() {
            // The connection did not manage to measure the path: forget the round-trip time.
            self.srtt_8 = 0;
            return;
        }
        self.store_rtt(sender);
        self.store_window(sender);
        if sender.reordering > self.reordering && sender.reordering != sender.config.dupack_threshold {
            self.reordering = sender.reordering;
        }
    }

    /// A larger value is taken at once, a smaller one moves the stored value by 1/8 (SRTT) or 1/4.
    fn store_rtt(&mut self, sender: &Sender) {
        let difference = self.srtt_8 - sender.rtt.srtt_8();
        if difference <= 0 {
            self.srtt_8 = sender.rtt.srtt_8();
        } else {
            self.srtt_8 -= difference >> 3;
        }
        let deviation = (difference.abs() >> 1).max(sender.rtt.mdev_4());
        if deviation >= self.rttvar_4 {
            self.rttvar_4 = deviation;
        } else {
            self.rttvar_4 -= (self.rttvar_4 - deviation) >> 2;
        }
    }

    fn store_window(&mut self, sender: &Sender) {
        let (cwnd, ssthresh) = (sender.cwnd, sender.ssthresh);
        if ssthresh == u32::MAX {
            // Slow start never ended.
            if self.ssthresh != 0 {
                self.ssthresh = self.ssthresh.max(cwnd / 2);
            }
            self.cwnd = self.cwnd.max(cwnd);
        } else if cwnd > ssthresh && sender.state == State::Open {
            // Congestion avoidance, undisturbed: cwnd is reliable.
            self.ssthresh = ssthresh.max(cwnd / 2);
            self.cwnd = u32::midpoint(self.cwnd, cwnd);
        } else {
            // cwnd means nothing, and ssthresh may be wrong too.
            self.cwnd = u32::midpoint(self.cwnd, ssthresh);
            if self.ssthresh != 0 {
                self.ssthresh = self.ssthresh.max(ssthresh);
            }
        }
    }
}
