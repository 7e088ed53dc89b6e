//! Switches of Linux that packetdrill scripts can set; scenarios use the defaults.

/// System-wide switches (`net.ipv4.*`) of the stack `linux-6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// The window shrinks over idle times and where it is not in use (RFC 2861;
    /// `tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Minimum number of segments of a paced burst, if the algorithm does not set more (`tcp_min_tso_segs`).
    pub burst_min: u32,
    /// A burst of at least this part of the window does not wait for a larger one (`tcp_tso_win_divisor`).
    pub burst_share: u32,
}

impl Default for Knobs {
    fn default() -> Self {
        Self { slow_start_after_idle: true, burst_min: 1, burst_share: 3 }
    }
}
