//! The fields of Linux' `tcp_info` for a connection.

use super::{Endpoint, Phase};

/// States as Linux numbers them (`include/net/tcp_states.h`).
const ESTABLISHED: u64 = 1;
const SYN_SENT: u64 = 2;
const SYN_RECEIVED: u64 = 3;
const FIN_WAIT_1: u64 = 4;
const FIN_WAIT_2: u64 = 5;
const CLOSE: u64 = 7;
const CLOSE_WAIT: u64 = 8;
const LISTEN: u64 = 10;

impl Endpoint {
    /// The fields of Linux' `tcp_info` that this stack knows, by name. Times are in microseconds.
    pub fn info(&self) -> Vec<(&'static str, u64)> {
        let mut fields = vec![("tcpi_snd_mss", u64::from(self.mss))];
        fields.extend(self.state().map(|state| ("tcpi_state", state)));
        self.sender.info(&mut fields);
        fields
    }

    /// The state, unless the phases of this model leave it open.
    fn state(&self) -> Option<u64> {
        Some(match self.phase {
            Phase::Listen => LISTEN,
            Phase::SynSent => SYN_SENT,
            Phase::SynReceived => SYN_RECEIVED,
            Phase::Closed | Phase::Aborted => CLOSE,
            Phase::Established => match (self.sender.fin_sent(), self.peer_closed()) {
                (false, false) => ESTABLISHED,
                (false, true) => CLOSE_WAIT,
                (true, false) if self.sender.fin_acknowledged() => FIN_WAIT_2,
                (true, false) => FIN_WAIT_1,
                // CLOSING or LAST-ACK: which FIN came first is not kept.
                (true, true) => return None,
            },
        })
    }
}
