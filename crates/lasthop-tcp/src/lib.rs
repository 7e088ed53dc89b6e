//! TCP endpoint, sans-IO, with era-accurate profiles.

pub mod config;

pub use config::{FRtoMode, Profile, RecoveryRules, TcpConfig};
