//! TCP endpoint, sans-IO, with era-accurate profiles.
//!
//! - `endpoint`: one end of a connection: handshake, options, close, abort; `receiver`, `delayed_ack`
//! - `transport`: the connection's end as an engine drives it
//! - `sender`: the choice among the three stacks
//! - `common`: the parts that the stacks share: data to send, sent and unacknowledged data, episodes that may
//!   be undone, the states and the filter of Linux, cached metrics
//! - `linux2`: Linux up to 2.6: windows in segments, time in ticks. It sends; `ack` takes ACKs in;
//!   `scoreboard`, `recovery`, `frto`, `rto` have separate state
//! - `linux6`: Linux 6: windows in segments, time in microseconds. It sends; `ack`, `sack` and `loss` take
//!   ACKs in; `scoreboard`, `recovery`, `prr`, `rack`, `probe`, `frto`, `usage`, `rtt`, `timer` have state of
//!   their own
//! - `classic`: the textbooks, BSD and the simulators of the 1990s: windows in bytes, go-back-N; `recovery`,
//!   `scoreboard`, `rto`
//! - `control`: congestion control: the seam, Reno in segments and in bytes, one file per algorithm; pacing
//!   and delivery rates
//! - `algorithm`: users' own congestion controls
//! - `clock`: ticks and the timer wheel
//! - `config`: every switch; profiles are data in `profiles/`
//!
//! # Where this differs from Linux 2.4
//!
//! The rules for reordering (the threshold, what raises it and by how much) were read in `tcp_input.c` of
//! 2.4.20: `tcp_sacktag_write_queue`, `tcp_update_reordering`, `tcp_try_undo_partial`, `tcp_enter_loss`.
//!
//! - The MSS option is sent but not read: both ends have the MTU of the path. For delayed ACKs, the size of a
//!   full segment is this end's own MSS; Linux estimates it from arriving segments.
//! - The delayed-ACK time is fixed unless `delayed_ack_adapts` is on; Linux adapts it.
//! - The round-trip time of the handshake counts for the timeout without timestamps, too, unless
//!   `handshake_rtt` is off or metrics are cached. Linux forgets it, and the passive end takes no sample.
//! - The window is kept over idle times (Linux: RFC 2861).
//! - An ECN echo halves the window at once under both sets of recovery rules; Linux with rate halving spreads
//!   it.
//! - Without SACK, more duplicate ACKs than outstanding segments are not interpreted as reordering.
//! - Without SACK, the window after recovery is ssthresh at once; Linux holds it at the flight size plus
//!   three until data sent later is acknowledged.
//! - The quick ACKs are those of the start of a connection; Linux grants new ones after long pauses and
//!   duplicates.
//! - The wait for the peer's FIN restarts with every segment that arrives; Linux counts it once, for
//!   connections without an application.
//! - A reset is accepted if it lies in the window, as in Linux 2.4, without the challenge ACKs of RFC 5961.
//!
//! # The classic sender, and where it differs from ns-2
//!
//! Stack `classic`, profile `ns-1998`; `recovery` names the flavour. 134 runs of ns-2.35 are reproduced
//! (`tests/all/ns2.rs`, which names every run that differs): 133 in every retransmission and timeout, 103 in
//! every transmission. What differs:
//!
//! - The Impatient variant of `NewReno` does not exist: each partial ACK restarts the timer.
//! - Half of a window is rounded down to whole segments, at least two (RFC 5681, equation 4). ns-2 keeps the
//!   fraction, down to one segment: after an early loss, with a window of 3, it sends less in recovery, and
//!   more sooner after it.
//! - `newreno` sends a new segment for every second duplicate that opens no window (Hoe 1995); ns-2 without
//!   deflation does not.
//! - A D-SACK block does not count as new information and makes no duplicate ACK (`spike_sack1_dsackrcv`).
//! - There is no F-RTO; in ns-2's runs it makes no difference.
//! - All timers, including that of delayed ACKs, fire on boundaries of the clock, as in the BSDs; those of
//!   ns-2 fire when they are due.
//! - A segment that the receiver already has is acknowledged at once; ns-2 delays that ACK if the segment is
//!   the last one in sequence.
//!
//! Segments may span writes, window events report windows rounded down to whole segments, and after a timeout
//! or Tahoe's fast retransmit the stream is segmented again. The first retransmission of SACK recovery does
//! not count in the pipe; segments sent by limited transmit do.

mod algorithm;
mod classic;
pub mod clock;
mod common;
pub mod config;
mod control;
mod endpoint;
mod linux2;
mod linux6;
mod sender;
mod transport;

pub use algorithm::{Ack, CongestionAlgorithm, CongestionWindow, ControlSetup, Delivery, Sign, UserControl};
pub use clock::{TickClock, WHEEL_TURN};
pub use common::metrics::CachedMetrics;
pub use config::{
    CachedInitialWindow, CongestionControl, FRtoMode, Knobs, Pacing, PragueVersion, Profile, RULES,
    RecoveryRules, Rule, SizeLimit, Stack, TcpConfig,
};
pub use endpoint::{Endpoint, Phase, reset_for};
pub use transport::Tcp;
