//! Observation of congestion control: a controller that delegates to another one and records events.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use lasthop_core::{Duration, forward};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};

use crate::config::CongestionControl;
use crate::tap::{Note, Notes};

/// Makes observed controllers of a kind.
pub(crate) struct Watched {
    pub kind: CongestionControl,
    pub notes: Notes,
}

impl ControllerFactory for Watched {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = match self.kind {
            CongestionControl::NewReno => Arc::new(NewRenoConfig::default()).build(now, current_mtu),
            CongestionControl::Cubic => Arc::new(CubicConfig::default()).build(now, current_mtu),
            CongestionControl::Bbr => Arc::new(BbrConfig::default()).build(now, current_mtu),
        };
        Box::new(WatchedController { inner, notes: self.notes.clone(), rtt: None, recovery: None })
    }
}

struct WatchedController {
    inner: Box<dyn Controller>,
    notes: Notes,
    /// Send time of the last sent packet among those that this ACK newly acknowledges.
    rtt: Option<Duration>,
    /// When the last recovery period began. Losses of packets sent earlier belong to that period (RFC 9002,
    /// section 7.3.2).
    recovery: Option<Instant>,
}

impl Controller for WatchedController {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let sample = Duration::from_nanos(now.saturating_duration_since(sent).as_nanos() as u64);
        self.rtt = Some(self.rtt.map_or(sample, |least| least.min(sample)));
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        if let Some(rtt) = self.rtt.take() {
            self.notes.add(Note::Rtt(rtt));
        }
        let ControllerMetrics { congestion_window: window, ssthresh, .. } = self.inner.metrics();
        let threshold = ssthresh.filter(|threshold| *threshold < u64::MAX);
        self.notes.add(Note::Window { window, threshold, in_flight });
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let before = self.inner.window();
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        if self.recovery.is_none_or(|began| sent > began) {
            self.recovery = Some(now);
            self.notes.add(Note::Congestion { lost_bytes });
            // BBR ignores it.
            if is_persistent_congestion && self.inner.window() < before {
                self.notes.add(Note::PersistentCongestion);
            }
        }
    }

    forward! { inner:
        fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64);
        fn on_mtu_update(&mut self, new_mtu: u16);
        fn window(&self) -> u64;
        fn initial_window(&self) -> u64;
    }

    /// For logs. The pacing rate of quinn's BBR is left out: BBR starts at a random phase of its gain cycle,
    /// drawn from the operating system, and the rate is the only value that the phase changes. quinn's pacer
    /// uses the window instead.
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        metrics.pacing_rate = None;
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Self { notes, rtt, recovery, .. } = self;
        Box::new(Self { inner: self.inner.clone_box(), notes: notes.clone(), rtt: *rtt, recovery: *recovery })
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
