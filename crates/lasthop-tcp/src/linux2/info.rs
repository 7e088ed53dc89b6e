//! The fields of `tcp_info` for the sender (`tcp_get_info`).

use super::Linux2Sender;
use crate::common::SSTHRESH_INFINITE;
use crate::control::Controller;

impl Linux2Sender {
    pub fn info(&self, fields: &mut Vec<(&'static str, u64)>) {
        let rtt = &self.timer.rtt;
        let micros = |ticks| self.clock.length(ticks).as_nanos() / 1000;
        fields.extend(self.board.queue.info());
        fields.extend([
            ("tcpi_ca_state", self.recovery.state.number()),
            ("tcpi_snd_cwnd", self.control.window().into()),
            ("tcpi_snd_ssthresh", self.control.ssthresh().min(SSTHRESH_INFINITE).into()),
            ("tcpi_reordering", self.recovery.reordering.into()),
            ("tcpi_rto", micros(rtt.rto())),
            ("tcpi_rtt", micros((rtt.srtt_8() >> 3).cast_unsigned())),
        ]);
    }
}
