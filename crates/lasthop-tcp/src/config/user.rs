//! A congestion control of a user's own, as a scenario names it.

use lasthop_core::UserCode;

use crate::algorithm::{CongestionAlgorithm, ControlSetup};

/// The code.
pub type UserControl = UserCode<ControlSetup, dyn CongestionAlgorithm>;
