//! Streams of datagrams that a host offers its network: more than it can carry would wait there without end.

use std::borrow::Cow;

use lasthop_core::packet::Datagram;
use lasthop_core::{Distribution, Duration, Faults, Rate};
use lasthop_traffic::{ConstantUdpConfig, FlowConfig};

use crate::flow::{Flow, Ways};
use crate::types::{Scenario, Topology};

/// Checks that the streams fit the network of the host that sends them, each by itself and all that may send at once.
pub fn streams_fit(scenario: &Scenario, faults: &mut Faults) {
    let of_all = match scenario.topology() {
        Topology::LastHop { lan, .. } => (lan.rate, "lan.rate", true),
        Topology::Atm(atm) => (atm.access_rate, "atm.access_rate", false),
    };
    let streams: Vec<Stream> =
        (0..).zip(&scenario.flow).filter_map(|(index, flow)| Stream::of(index, flow)).collect();
    for stream in &streams {
        let (rate, key, shared) = stream.access.map_or(of_all, |rate| (rate, "its access.rate", false));
        // The greatest load is met when some stream starts.
        let at_once = streams.iter().filter(|other| {
            other.index == stream.index
                || shared
                    && other.access.is_none()
                    && other.ways.meet(stream.ways)
                    && other.first <= stream.first
                    && stream.first < other.last
        });
        let at_once: Vec<_> = at_once.collect();
        let load = |one: &&Stream| one.load(rate) * if shared { f64::from(one.many) } else { 1.0 };
        let load: f64 = at_once.iter().copied().map(|one| load(&one)).sum();
        let place = format!("flow[{}].{}", stream.index, stream.key);
        faults.require(load <= 1.0, &place, || {
            let others =
                if at_once.len() > 1 { " with the streams that may send at the same time" } else { "" };
            format!(
                "\"{}\" of payload and its headers would take {:.0} % of {key} = \"{rate}\"{others}, and datagrams \
                 would pile up in the host; lower it, or raise {key}",
                stream.config.rate,
                100.0 * load
            )
        });
        if load > 1.0 {
            return;
        }
    }
}

struct Stream<'a> {
    index: usize,
    ways: Ways,
    /// The key that sets its rate.
    key: &'static str,
    many: u32,
    /// Rate of the access link that its server has in place of the LAN, if that sends.
    access: Option<Rate>,
    config: Cow<'a, ConstantUdpConfig>,
    /// When it may send at the earliest and at the latest.
    first: Duration,
    last: Duration,
}

impl<'a> Stream<'a> {
    fn of(index: usize, flow: &'a Flow) -> Option<Self> {
        let (key, config) = match &flow.kind {
            FlowConfig::ConstantUdp(config) => ("rate", Cow::Borrowed(config)),
            FlowConfig::OnOff(config) => ("rate", Cow::Owned(config.stream())),
            FlowConfig::Voip(config) => ("codec", Cow::Owned(config.stream())),
            _ => return None,
        };
        let none = Duration::from_nanos(0);
        let (first, latest) = match &config.start {
            Distribution::Static(start) => (*start, *start),
            Distribution::Uniform { min, max } => (*min, *max),
            Distribution::Exponential { min, max, .. } => {
                (min.unwrap_or(none), max.unwrap_or(Duration::from_nanos(u64::MAX)))
            }
            Distribution::Sequence(starts) => {
                let (least, greatest) = (starts.iter().min(), starts.iter().max());
                (least.copied().unwrap_or(none), greatest.copied().unwrap_or(none))
            }
        };
        let last = Duration::from_nanos(latest.as_nanos().saturating_add(config.duration.as_nanos()));
        let access = flow.access.as_ref().filter(|_| flow.direction != Ways::Up).map(|access| access.rate);
        Some(Self { index, ways: flow.direction, many: flow.many(), access, key, config, first, last })
    }

    /// The part of a network of this rate that each flow of its entry fills while it sends.
    fn load(&self, rate: Rate) -> f64 {
        let datagram = rate.transmission_time(self.config.payload.0 as u32 + Datagram::HEADER_BYTES);
        datagram.as_nanos() as f64 / self.config.interval().as_nanos() as f64
    }
}
