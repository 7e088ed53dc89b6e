//! The handshake of accurate ECN (RFC 9768): the flags for request, agreement and feedback. SYN and SYN-ACK
//! are not ECN-capable.

use lasthop_core::{Ecn, Flags};

use crate::config::{CongestionControl, TcpConfig};

/// The method of feedback of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feedback {
    None,
    /// RFC 3168.
    Echo,
    /// RFC 9768.
    Counters,
}

/// The negotiated method, from the flags of the peer's SYN (`is_server`) or SYN-ACK: table 2 and section
/// 3.1.3.
pub(super) fn agreed(config: &TcpConfig, is_server: bool, flags: Flags) -> Feedback {
    if !config.ecn {
        return Feedback::None;
    }
    let echo = |is_offered: bool| if is_offered { Feedback::Echo } else { Feedback::None };
    // Without counters, Prague has no use for ECN.
    let is_prague = config.congestion_control == CongestionControl::Prague;
    match (config.accurate_ecn, is_server, flags.ace()) {
        (false, ..) => echo(flags.contains(Flags::ECE)),
        (true, true, 0b011) | (true, false, 0b001) => echo(!is_prague),
        // The second pattern reflects the flags that the client has sent.
        (true, _, 0b000) | (true, false, 0b111) => Feedback::None,
        (true, ..) => Feedback::Counters,
    }
}

/// The flags that feed back the ECN field of a SYN, and those of a SYN-ACK: tables 2 and 3.
pub(super) fn handshake_flags(ecn: Ecn) -> Flags {
    Flags::from_ace(match ecn {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    })
}
