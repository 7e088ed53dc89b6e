//! Switches of Linux that scenarios leave at its defaults; scripts of packetdrill set them.

/// System-wide switches (`net.ipv4.*`) of the stack `linux-6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// The window shrinks over idle times and where it is not in use (RFC 2861;
    /// `tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Least number of segments that leave together when paced, if the algorithm does not ask for more
    /// (`tcp_min_tso_segs`).
    pub burst_min: u32,
    /// A burst that takes at least this part of the window does not wait for a larger one
    /// (`tcp_tso_win_divisor`).
    pub burst_share: u32,
}

impl Default for Knobs {
    fn default() -> Self {
        Self { slow_start_after_idle: true, burst_min: 1, burst_share: 3 }
    }
}
