//! The switches of a TCP endpoint. A profile is a set of values for all of them, kept as data in
//! `profiles/`; a scenario names a profile and changes single switches.

use lasthop_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every switch of a TCP endpoint. In a scenario only `profile` is needed; the profile supplies the
/// rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct TcpConfig {
    /// The era whose values all other switches take unless stated.
    pub profile: Profile,
    /// Initial congestion window in segments, while nothing is cached for the destination.
    pub initial_window: u32,
    /// Duplicate ACKs, or segments SACKed, that start fast recovery.
    pub dupack_threshold: u32,
    /// With fewer than four segments outstanding and no new data to send, fast recovery starts when all but
    /// one of them are reported (RFC 5827, section 3.2).
    pub early_retransmit: bool,
    /// Send new data on the first duplicate ACKs when the window in flight allows (RFC 3042).
    pub limited_transmit: bool,
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// The receiver reports duplicates (RFC 2883), and the sender undoes a reduction once every
    /// retransmission of the episode is reported as a duplicate.
    pub dsack: bool,
    /// Timestamps (RFC 7323): every ACK of new data gives a round-trip sample.
    pub timestamps: bool,
    /// Undo of reductions that an echoed timestamp proves unnecessary (Eifel detection, RFC 3522). Needs
    /// timestamps.
    pub eifel: bool,
    /// Spurious-timeout detection by F-RTO.
    pub frto: FRtoMode,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Control block interdependence: ssthresh, cwnd, RTT, RTT variance and reordering are kept per
    /// destination when a connection closes, and read when the next one opens.
    pub cached_metrics: bool,
    /// Initial window of a connection that finds cached metrics.
    pub cached_initial_window: CachedInitialWindow,
    /// How the window and the scoreboard move in fast recovery.
    pub recovery: RecoveryRules,
    /// A segment that has waited longer than the retransmission timeout counts as lost as soon as an ACK
    /// raises doubts, without waiting for the timer.
    pub lost_by_age: bool,
    /// Segments sent at most in response to one dubious ACK: cwnd is held at in-flight plus this.
    pub max_burst: u32,
    /// Resolution of the host's timers and of its timestamp clock.
    pub tick: Duration,
    /// Lower bound of the retransmission timeout's variance term.
    pub rto_min: Duration,
    /// Retransmission timeout before the first RTT sample.
    pub rto_initial: Duration,
    /// Upper bound of the retransmission timeout, backoff included.
    pub rto_max: Duration,
    /// Retransmissions of a segment before the connection is aborted.
    pub retries: u32,
    /// Retransmissions of a SYN before the connection is aborted.
    pub syn_retries: u32,
    /// After its own FIN is acknowledged an end waits this long for the peer's, counted from the last segment
    /// that arrived; then it gives up. Linux: `tcp_fin_timeout`.
    pub fin_timeout: Duration,
    /// Time after which a held ACK is sent, counted in ticks from the one in progress.
    pub delayed_ack: Duration,
    /// Acknowledge the very first data segment at once.
    pub first_segment_acked_at_once: bool,
    /// Acknowledge as many of the first data segments at once as half of the advertised window holds, at
    /// least 2 and at most 16, as Linux does.
    pub quick_acks: bool,
    /// Advertised window at first, in segments.
    pub receive_window_initial: u32,
    /// Growth of the advertised window for each in-order segment, in segments.
    pub receive_window_growth: u32,
    /// Largest advertised window, in segments; never more than the header can say: 65 535 bytes without window
    /// scaling.
    pub receive_window_max: u32,
    /// Window scaling (RFC 7323, section 2), by the smallest shift that can express the largest window.
    pub window_scaling: bool,
}

/// The era a set of switches comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Profile {
    /// Linux 2.4.20 as the Helsinki studies configured it.
    #[serde(rename = "linux-2.4")]
    Linux24,
}

impl Profile {
    /// The values of all switches, as a TOML table.
    pub const fn toml(self) -> &'static str {
        match self {
            Self::Linux24 => include_str!("../profiles/linux-2.4.toml"),
        }
    }
}

/// Initial window of a connection that finds cached metrics; never above the cached ssthresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CachedInitialWindow {
    /// By the segment size, as Linux and RFC 2414: 4 segments up to 1095 bytes, 3 up to 1460, else 2.
    BySegmentSize,
    /// `initial_window`, as for any other connection.
    Configured,
}

/// Spurious-timeout detection by F-RTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FRtoMode {
    /// Conventional recovery after every timeout.
    Off,
    /// The version of 2002 (draft-sarolahti-tsvwg-tcp-frto-00): after a spurious timeout the window is
    /// half of what was outstanding.
    #[serde(rename = "2002")]
    Draft2002,
    /// RFC 4138, basic algorithm: after a spurious timeout ssthresh is restored and the window kept
    /// (Eifel response, RFC 4015).
    #[serde(rename = "rfc4138")]
    Rfc4138,
    /// RFC 5682, SACK-enhanced algorithm, with the same response. Needs SACK.
    #[serde(rename = "rfc5682-sack")]
    Rfc5682Sack,
}

/// How the window and the scoreboard move in fast recovery. In both, ssthresh is half of what is in flight,
/// the window drops to it at once and ends there, and in between it is at most what is in flight plus one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryRules {
    /// Linux 2.4 without rate halving: the window stays at ssthresh, and the head alone is marked lost on
    /// each further sign of loss.
    LinuxInFlight,
    /// RFC 3517: every segment with enough SACKed ones above it is lost; and the window falls on by one every
    /// second ACK down to half of ssthresh, as rate halving does it in Linux 2.4.
    Rfc3517RateHalving,
}
