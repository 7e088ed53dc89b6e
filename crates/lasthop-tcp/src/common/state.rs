//! The congestion states of Linux.

use lasthop_core::RetransmissionKind;

/// The threshold before the first sign of congestion, in Linux' notation (`TCP_INFINITE_SSTHRESH`).
pub(crate) const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

/// Congestion state of the sender, as Linux names it. The order matters: states before `Cwr` have not
/// reduced the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// No sign of loss.
    Open,
    /// SACKs or duplicate ACKs were seen, or recovery has just ended.
    Disorder,
    /// The window was reduced because of an ECN echo.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Recovery after a timeout.
    Loss,
}

impl State {
    /// Its number in Linux (`enum tcp_ca_state`).
    pub fn number(self) -> u64 {
        self as u64
    }

    /// The window is on its way down to ssthresh.
    pub fn is_reducing(self) -> bool {
        matches!(self, Self::Cwr | Self::Recovery)
    }

    /// Why lost segments are sent again.
    pub fn retransmission_kind(self) -> RetransmissionKind {
        if self == Self::Loss { RetransmissionKind::Timeout } else { RetransmissionKind::Fast }
    }
}
