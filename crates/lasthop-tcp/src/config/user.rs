//! A user's own congestion control, as named in a scenario.

use lasthop_core::UserCode;

use crate::algorithm::{CongestionAlgorithm, ControlSetup};

/// The code.
pub type UserControl = UserCode<ControlSetup, dyn CongestionAlgorithm>;
