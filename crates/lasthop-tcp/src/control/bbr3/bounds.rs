//! Bounds that losses set ("Updating the Model Upon Packet Loss"): long-term bounds on the flight size, which
//! only probes raise, and short-term bounds until the next probe.

use super::{Bbr3Mode, INFINITE, WINDOW_MIN};
use crate::control::DeliveryRate;
use crate::control::bandwidth::Round;

/// Loss rate of a round trip from which on too much was in flight: 2 %.
const LOSS_PERCENT: u64 = 2;
/// Factor by which a bound falls, in per cent.
pub(super) const BETA: u64 = 70;
/// Headroom for other flows, in per cent.
const HEADROOM: u64 = 15;
const UP_ROUNDS_MAX: u32 = 30;

/// `IsInflightTooHigh`.
pub(super) fn is_too_high(lost: u64, tx_in_flight: u32) -> bool {
    100 * lost > LOSS_PERCENT * u64::from(tx_in_flight)
}

/// The flight size, including the lost segment, at which the losses became too many (`InflightAtLoss`).
pub(super) fn inflight_at_loss(lost: u64, tx_in_flight: u32) -> u64 {
    let (before, lost) = (u64::from(tx_in_flight).saturating_sub(1), lost - 1);
    before + (LOSS_PERCENT * before).saturating_sub(100 * lost) / (100 - LOSS_PERCENT)
}

#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// In segments.
    pub inflight_long: u64,
    pub inflight_short: u64,
    pub bandwidth_short: u64,
    /// The maxima of this round trip.
    pub inflight_latest: u64,
    pub bandwidth_latest: u64,
    pub is_loss_in_round: bool,
    /// The round trip for the counting of losses.
    pub round: Round,
    /// While it probes: number of acknowledged segments per segment of growth of the long-term bound.
    pub probe_up_per_segment: u64,
    pub probe_up_acked: u64,
    pub probe_up_rounds: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            inflight_long: INFINITE,
            inflight_short: INFINITE,
            bandwidth_short: INFINITE,
            inflight_latest: 0,
            bandwidth_latest: 0,
            is_loss_in_round: false,
            round: Round::default(),
            probe_up_per_segment: INFINITE,
            probe_up_acked: 0,
            probe_up_rounds: 0,
        }
    }
}

/// The values before losses changed them, to be restored if the losses were spurious.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    pub mode: Option<Bbr3Mode>,
    inflight_long: u64,
    inflight_short: u64,
    bandwidth_short: u64,
}

impl Bounds {
    /// `UpdateLatestDeliverySignals`.
    pub fn update_latest(&mut self, rate: &DeliveryRate, delivered: u64) {
        self.bandwidth_latest = self.bandwidth_latest.max(rate.bandwidth());
        self.inflight_latest = self.inflight_latest.max(rate.delivered);
        self.round.take(rate, delivered);
    }

    /// `AdvanceLatestDeliverySignals`.
    pub fn advance_latest(&mut self, sample: Option<&DeliveryRate>) {
        if let Some(rate) = sample.filter(|_| self.round.is_start) {
            (self.bandwidth_latest, self.inflight_latest) = (rate.bandwidth(), rate.delivered);
        }
    }

    pub fn reset_signals(&mut self) {
        (self.is_loss_in_round, self.bandwidth_latest, self.inflight_latest) = (false, 0, 0);
    }

    /// A round trip had losses (`AdaptLowerBoundsFromCongestion`).
    pub fn lower(&mut self, bandwidth: u64, window: u64) {
        let short = if self.bandwidth_short == INFINITE { bandwidth } else { self.bandwidth_short };
        self.bandwidth_short = self.bandwidth_latest.max(short * BETA / 100);
        let short = if self.inflight_short == INFINITE { window } else { self.inflight_short };
        self.inflight_short = self.inflight_latest.max(short * BETA / 100);
    }

    pub fn reset_short(&mut self) {
        (self.bandwidth_short, self.inflight_short) = (INFINITE, INFINITE);
    }

    /// `InflightWithHeadroom`.
    pub fn with_headroom(&self) -> u64 {
        if self.inflight_long == INFINITE {
            return INFINITE;
        }
        let headroom = (self.inflight_long * HEADROOM / 100).max(1);
        self.inflight_long.saturating_sub(headroom).max(WINDOW_MIN)
    }

    /// Doubles the growth of the long-term bound (`RaiseInflightLongtermSlope`).
    pub fn raise_slope(&mut self, window: u64) {
        self.probe_up_per_segment = (window >> self.probe_up_rounds).max(1);
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(UP_ROUNDS_MAX);
    }

    /// `ProbeInflightLongtermUpward`, with the window in use.
    pub fn probe_upward(&mut self, acked: u64, window: u64, is_round_start: bool) {
        if window < self.inflight_long {
            return;
        }
        self.probe_up_acked += acked;
        self.inflight_long += self.probe_up_acked / self.probe_up_per_segment;
        self.probe_up_acked %= self.probe_up_per_segment;
        if is_round_start {
            self.raise_slope(window);
        }
    }

    pub fn saved(&self) -> Saved {
        let &Self { inflight_long, inflight_short, bandwidth_short, .. } = self;
        Saved { mode: None, inflight_long, inflight_short, bandwidth_short }
    }

    pub fn restore(&mut self, saved: &Saved) {
        self.inflight_long = self.inflight_long.max(saved.inflight_long);
        self.inflight_short = self.inflight_short.max(saved.inflight_short);
        self.bandwidth_short = self.bandwidth_short.max(saved.bandwidth_short);
    }
}
