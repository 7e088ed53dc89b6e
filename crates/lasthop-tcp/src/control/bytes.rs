//! A window in bytes, as in BSD and in the simulators of the 1990s.

use super::{Prior, RateSample, Window};
use crate::config::{SizeLimit, TcpConfig};

/// Window and threshold in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    mss: u64,
    cwnd: f64,
    ssthresh: u64,
}

impl Bytes {
    /// The initial window.
    pub fn new(config: &TcpConfig, mss: u64) -> Self {
        let ssthresh = match config.initial_ssthresh {
            SizeLimit::Infinite => u64::MAX,
            SizeLimit::Bytes(bytes) => bytes.0.max(2 * mss),
        };
        Self { mss, cwnd: (u64::from(config.initial_window) * mss) as f64, ssthresh }
    }

    /// The window falls to the threshold at once.
    pub fn fall(&mut self) {
        self.cwnd = self.ssthresh as f64;
    }

    /// Reduces the window by `bytes`, down to one segment (RFC 2582, section 3, step 5).
    pub fn deflate(&mut self, bytes: u64) {
        self.cwnd = (self.cwnd - bytes as f64).max(self.mss as f64);
    }
}

impl Window for Bytes {
    type Amount = u64;

    fn window(&self) -> u64 {
        self.cwnd as u64
    }

    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Every ACK counts as one segment (RFC 5681, equation 3).
    fn grow(&mut self, _: &RateSample) {
        let mss = self.mss as f64;
        self.cwnd += if self.cwnd < self.ssthresh as f64 { mss } else { mss * mss / self.cwnd };
    }

    /// The window in whole segments.
    fn halve(&mut self, flight: u64) {
        self.ssthresh = (flight / 2 / self.mss).max(2) * self.mss;
    }

    fn restore(&mut self, prior: Prior<u64>) {
        self.cwnd = self.cwnd.max(prior.window as f64);
        self.ssthresh = self.ssthresh.max(prior.ssthresh);
    }

    fn restart(&mut self, window: u64) {
        self.cwnd = window as f64;
    }
}
