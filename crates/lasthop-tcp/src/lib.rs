//! TCP endpoint, sans-IO, with era-accurate profiles.
//!
//! | file | mechanism |
//! | --- | --- |
//! | `connection` | handshake, close, abort, segments in and out |
//! | `sender` | windows, what may be sent, timer |
//! | `scoreboard` | retransmission queue, SACK, in-flight accounting |
//! | `recovery` | fast recovery, loss recovery, ECN reduction |
//! | `undo` | Eifel detection, D-SACK |
//! | `frto` | F-RTO, basic and with SACK |
//! | `rto` | round-trip estimation and timeout |
//! | `receiver` | reassembly, delayed ACKs, SACK and D-SACK generation |
//! | `metrics` | cached metrics per destination (CBI) |
//! | `config` | every switch; profiles are data in `profiles/` |
//!
//! # Where this differs from Linux 2.4
//!
//! - The MSS option is sent but not read: both ends have the MTU of the path. What counts as a full-sized
//!   segment when ACKs are delayed is the own MSS; Linux estimates it from what arrives.
//! - The delayed-ACK time is fixed; Linux adapts it.
//! - The window is kept over idle times (Linux: RFC 2861).
//! - Reordering is learnt from undone fast retransmits only, not from late segments.
//! - An ECN echo halves the window at once under both sets of recovery rules; Linux with rate halving spreads it.
//! - Without SACK, more duplicate ACKs than segments outstanding are not taken for reordering.
//! - Without SACK, the window after recovery is ssthresh at once; Linux holds it at what is in flight and three
//!   more until something sent later is acknowledged.
//! - The quick ACKs are those of the start of a connection; Linux grants new ones after long pauses and
//!   duplicates.
//! - The wait for the peer's FIN begins anew with every segment that arrives; Linux counts it once, for
//!   connections that no application holds any more.
//! - A reset is taken if it lies in the window, as in Linux 2.4, without the challenge ACKs of RFC 5961.

mod classic;
pub mod clock;
pub mod config;
mod connection;
mod frto;
mod metrics;
mod receiver;
mod recovery;
mod rto;
mod scoreboard;
mod sender;
mod sending;
mod undo;

pub use clock::TickClock;
pub use config::{CachedInitialWindow, FRtoMode, InitialSsthresh, Profile, RecoveryRules, TcpConfig};
pub use connection::{Endpoint, Phase};
pub use metrics::CachedMetrics;
