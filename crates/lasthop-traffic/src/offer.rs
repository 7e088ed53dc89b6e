//! Upper bounds of the traffic of an application, computed before it runs.

use lasthop_core::{Bytes, Distribution, Duration, Quantity};

use crate::HttpConfig;

/// The facts of the scenario that an estimate for an application uses.
#[derive(Clone, Copy, Debug)]
pub struct Outlook<'a> {
    /// How web pages are loaded, if the scenario states it.
    pub http: Option<&'a HttpConfig>,
    pub mtu: Bytes,
    /// Payload of a full TCP segment.
    pub segment_bytes: u32,
    /// Seconds until the run ends at the latest.
    pub limit: f64,
    /// Seconds that a packet and its answer take on an empty path.
    pub round_trip: f64,
    /// Capacity of the last hop in the direction of its data, in bit/s.
    pub fastest_bps: f64,
    /// Initial capacity of the last hop towards the client, in bit/s.
    pub down_bps: f64,
}

impl Outlook<'_> {
    /// Segments of a message.
    pub(crate) fn segments(&self, bytes: f64) -> f64 {
        (bytes / f64::from(self.segment_bytes)).ceil() + 1.0
    }

    /// Seconds that are left of a duration when the run ends.
    pub(crate) fn lasts(&self, duration: Duration) -> f64 {
        duration.as_secs_f64().min(self.limit)
    }

    /// One flow with full packets, without any data yet.
    pub(crate) fn flow(&self) -> Offer {
        Offer { ip_bytes: self.mtu.0 as f64, flows: 1.0, ..Offer::default() }
    }

    /// One flow of data that wait for the capacity of the network.
    pub(crate) fn waiting(&self, packets: f64) -> Offer {
        Offer { waiting: packets, ..self.flow() }
    }
}

/// Upper bounds of the traffic of an application's flows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer {
    /// Data packets that wait for the capacity of the network.
    pub waiting: f64,
    /// Data packets that are sent regardless of the network.
    pub streaming: f64,
    /// Size of a data packet, in bytes.
    pub ip_bytes: f64,
    /// Flows that are known before the run.
    pub flows: f64,
    /// Number of flows that begin during the run.
    pub passing: f64,
    /// The greatest number of them at a time, if the link carries the load of all applications.
    pub passing_at_once: f64,
    /// Their load, as a share of the link.
    pub load: f64,
}

impl Offer {
    /// The same for this number of such applications.
    #[must_use]
    pub fn times(self, many: f64) -> Self {
        Self {
            waiting: many * self.waiting,
            streaming: many * self.streaming,
            ip_bytes: self.ip_bytes,
            flows: many * self.flows,
            passing: many * self.passing,
            passing_at_once: many * self.passing_at_once,
            load: many * self.load,
        }
    }
}

/// A cautious estimate of the mean of draws, which the actual mean is not much below. For an exponential
/// distribution it is about half of the mean.
pub(crate) fn cautious_mean<T: Quantity>(distribution: &Distribution<T>) -> f64 {
    let units = |value: T| value.base_units() as f64;
    match distribution {
        Distribution::Static(value) => units(*value),
        Distribution::Uniform { min, max } => f64::midpoint(units(*min), units(*max)),
        Distribution::Exponential { mean, min, max, .. } => {
            let (least, mean) = (min.map_or(0.0, units), units(*mean));
            f64::midpoint(least, max.map_or(mean, |max| units(max).min(mean))).max(least)
        }
        Distribution::Sequence(values) => {
            values.iter().copied().map(units).sum::<f64>() / values.len().max(1) as f64
        }
    }
}

/// Seconds from the beginning of one stay in a state to the beginning of the next.
pub fn period(one: &Distribution<Duration>, other: &Distribution<Duration>) -> f64 {
    ((cautious_mean(one) + cautious_mean(other)) / 1e9).max(1e-9)
}
