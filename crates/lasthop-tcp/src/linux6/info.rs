//! The fields of `tcp_info` for the sender (`tcp_get_info`).

use super::Linux6Sender;
use crate::common::SSTHRESH_INFINITE;
use crate::control::Controller;

impl Linux6Sender {
    pub fn info(&self, fields: &mut Vec<(&'static str, u64)>) {
        fields.extend(self.board.queue.info());
        fields.extend([
            ("tcpi_ca_state", self.recovery.state.number()),
            ("tcpi_snd_cwnd", self.control.window().into()),
            ("tcpi_snd_ssthresh", self.control.ssthresh().min(SSTHRESH_INFINITE).into()),
            ("tcpi_total_retrans", self.counts.retransmissions),
            ("tcpi_reordering", self.recovery.reordering.into()),
            ("tcpi_backoff", self.expiries.into()),
            ("tcpi_rto", self.rtt.micros(self.rtt.rto())),
            ("tcpi_rtt", self.rtt.srtt_us()),
            ("tcpi_rttvar", self.rtt.deviation_us()),
            ("tcpi_min_rtt", self.rtt.least_us()),
            ("tcpi_delivered", self.counts.delivered),
            ("tcpi_delivered_ce", self.counts.delivered_ce),
        ]);
    }
}
