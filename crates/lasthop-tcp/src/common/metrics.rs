//! Cached metrics, which connections to one destination pass on to the next one (control block
//! interdependence, RFC 2140, as in Linux 2.4 and its successors).

use serde::{Deserialize, Serialize};

/// The cached metrics of one destination. Zero means that there is no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedMetrics {
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Congestion window in segments. New connections do not read it; Linux uses it only as an upper bound if
    /// the administrator has locked it.
    pub cwnd: u32,
    /// Smoothed round-trip time in eighths of a tick; of a microsecond in the stack `linux-6`.
    pub srtt_8: i64,
    /// Round-trip variance in quarters of a tick, or of a microsecond.
    pub rttvar_4: i64,
    /// Number of duplicate ACKs that reordering has caused.
    pub reordering: u32,
}

/// The metrics of a sender at the end of its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knowledge {
    /// Smoothed round-trip time and mean deviation, scaled as in the cache, if the path was measured.
    pub rtt: Option<(i64, i64)>,
    pub cwnd: u32,
    pub ssthresh: u32,
    /// True if it is in undisturbed congestion avoidance.
    pub is_steady: bool,
    /// The duplicate threshold, raised by reordering.
    pub reordering: Option<u32>,
}

impl CachedMetrics {
    /// Stores the metrics of a sender at the end of its connection.
    pub(crate) fn store(&mut self, knowledge: &Knowledge) {
        let Some((srtt_8, mdev_4)) = knowledge.rtt else {
            // The connection could not measure the path: forget the round-trip time.
            self.srtt_8 = 0;
            return;
        };
        self.store_rtt(srtt_8, mdev_4);
        self.store_window(knowledge);
        self.reordering = self.reordering.max(knowledge.reordering.unwrap_or(0));
    }

    /// A larger value is taken at once, a smaller one moves the stored value by 1/8 (SRTT) or 1/4.
    fn store_rtt(&mut self, srtt_8: i64, mdev_4: i64) {
        let difference = self.srtt_8 - srtt_8;
        if difference <= 0 {
            self.srtt_8 = srtt_8;
        } else {
            self.srtt_8 -= difference >> 3;
        }
        let deviation = (difference.abs() >> 1).max(mdev_4);
        if deviation >= self.rttvar_4 {
            self.rttvar_4 = deviation;
        } else {
            self.rttvar_4 -= (self.rttvar_4 - deviation) >> 2;
        }
    }

    fn store_window(&mut self, knowledge: &Knowledge) {
        let &Knowledge { cwnd, ssthresh, .. } = knowledge;
        if ssthresh == u32::MAX {
            // Slow start never ended.
            if self.ssthresh != 0 {
                self.ssthresh = self.ssthresh.max(cwnd / 2);
            }
            self.cwnd = self.cwnd.max(cwnd);
        } else if knowledge.is_steady {
            // Cwnd is reliable.
            self.ssthresh = ssthresh.max(cwnd / 2);
            self.cwnd = u32::midpoint(self.cwnd, cwnd);
        } else {
            // cwnd is meaningless, and ssthresh may be wrong, too.
            self.cwnd = u32::midpoint(self.cwnd, ssthresh);
            if self.ssthresh != 0 {
                self.ssthresh = self.ssthresh.max(ssthresh);
            }
        }
    }
}
