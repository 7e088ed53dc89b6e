//! TCP endpoint, sans-IO, with era-accurate profiles.
//!
//! | file | mechanism |
//! | --- | --- |
//! | `connection` | handshake, close, segments in and out |
//! | `sender` | windows, what may be sent, timer |
//! | `scoreboard` | retransmission queue, SACK, in-flight accounting |
//! | `recovery` | fast recovery, loss recovery, ECN reduction |
//! | `undo` | Eifel detection by timestamps, D-SACK |
//! | `frto` | F-RTO |
//! | `rto` | round-trip estimation and timeout |
//! | `receiver` | reassembly, delayed ACKs, SACK and D-SACK generation |
//! | `metrics` | cached metrics per destination (CBI) |
//! | `config` | every switch; profiles are data in `profiles/` |
//!
//! # Where this differs from Linux 2.4
//!
//! - A repeated SYN is not answered; the SYN-ACK is repeated by its own timer only.
//! - The MSS option is sent but not read: both ends have the MTU of the path. What counts as a full-sized
//!   segment when ACKs are delayed is the own MSS; Linux estimates it from what arrives.
//! - The delayed-ACK time is fixed; Linux adapts it.
//! - The window is kept over idle times (Linux: RFC 2861).
//! - Reordering is learnt from undone fast retransmits only, not from late segments.
//! - Giving up sends no RST.

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
mod undo;

pub use clock::TickClock;
pub use config::{CachedInitialWindow, FRtoMode, Profile, RecoveryRules, TcpConfig};
pub use connection::{Endpoint, Phase};
pub use metrics::CachedMetrics;
