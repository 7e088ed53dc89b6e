//! Checks that the streams of datagrams that a host sends do not exceed the capacity of its LAN or access link,
//! whose queue has no limit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use lasthop_core::packet::Datagram;
use lasthop_core::{Distribution, Duration, Faults, Rate};
use lasthop_traffic::Datagrams;

use crate::flow::{DataDirection, Flow};
use crate::types::Scenario;

/// Checks each stream alone, and all streams that may send at the same time.
pub fn streams_fit(scenario: &Scenario, faults: &mut Faults) {
    let of_all = match (&scenario.atm, &scenario.lan) {
        (Some(atm), _) => (atm.access_rate, "atm.access_rate", false),
        (None, Some(lan)) => (lan.rate, "lan.rate", !scenario.names_hops()),
        (None, None) => return,
    };
    let streams: Vec<Stream> =
        (0..).zip(&scenario.flow).filter_map(|(index, flow)| Stream::of(index, flow)).collect();
    let together = if of_all.2 { at_once(&streams, of_all.0) } else { BTreeMap::new() };
    for stream in &streams {
        let (rate, key, _) = stream.access.map_or(of_all, |rate| (rate, "its access.rate", false));
        let alone = Load { streams: 1, share: stream.share(rate) };
        let load = *together.get(&stream.index).unwrap_or(&alone);
        let place = format!("flow[{}].{}", stream.index, stream.datagrams.key);
        faults.require(load.share <= WHOLE, &place, || {
            let others =
                if load.streams > 1 { " together with streams that may send at the same time" } else { "" };
            format!(
                "\"{}\" of payload plus headers would take {:.0} % of {key} = \"{rate}\"{others}, and \
                 datagrams would pile up in the host; lower it, or raise {key}",
                stream.datagrams.rate,
                100.0 * load.share as f64 / WHOLE as f64
            )
        });
        if load.share > WHOLE {
            return;
        }
    }
}

/// The full capacity of a network in units of `Load::share`: integers, whose sums do not depend on the order.
const WHOLE: u128 = 1 << 40;

/// The share of a network's capacity that some streams use.
#[derive(Clone, Copy, Default)]
struct Load {
    streams: usize,
    share: u128,
}

/// For each stream on the LAN, by index, the load at its start. The maximum load occurs at some stream's start.
fn at_once(streams: &[Stream<'_>], rate: Rate) -> BTreeMap<usize, Load> {
    let mut sharing: Vec<&Stream<'_>> = streams.iter().filter(|stream| stream.access.is_none()).collect();
    sharing.sort_by_key(|stream| stream.first);
    let mut loads = BTreeMap::new();
    let mut sending: BTreeMap<DataDirection, Load> = BTreeMap::new();
    let mut ends = BinaryHeap::new();
    for starting in sharing.chunk_by(|stream, next| stream.first == next.first) {
        while let Some(&Reverse((last, ways, share))) = ends.peek()
            && last <= starting[0].first
        {
            ends.pop();
            let load = sending.entry(ways).or_default();
            *load = Load { streams: load.streams - 1, share: load.share - share };
        }
        for stream in starting {
            let share = u128::from(stream.many) * stream.share(rate);
            let load = sending.entry(stream.ways).or_default();
            *load = Load { streams: load.streams + 1, share: load.share + share };
            ends.push(Reverse((stream.last, stream.ways, share)));
        }
        for stream in starting {
            let meeting = sending.iter().filter(|(ways, _)| ways.meet(stream.ways));
            let sum = meeting.fold(Load::default(), |sum, (_, load)| Load {
                streams: sum.streams + load.streams,
                share: sum.share + load.share,
            });
            loads.insert(stream.index, sum);
        }
    }
    loads
}

struct Stream<'a> {
    index: usize,
    ways: DataDirection,
    many: u32,
    /// Rate of the access link that replaces the LAN of its server, if the server sends.
    access: Option<Rate>,
    datagrams: Datagrams<'a>,
    /// The earliest and the latest time at which it may send.
    first: Duration,
    last: Duration,
}

impl<'a> Stream<'a> {
    fn of(index: usize, flow: &'a Flow) -> Option<Self> {
        let datagrams = flow.traffic().datagrams()?;
        let none = Duration::from_nanos(0);
        let (first, latest) = match datagrams.start {
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
        let last = Duration::from_nanos(latest.as_nanos().saturating_add(datagrams.duration.as_nanos()));
        let access =
            flow.access.as_ref().filter(|_| flow.direction != DataDirection::Up).map(|access| access.rate);
        Some(Self { index, ways: flow.direction, many: flow.many(), access, datagrams, first, last })
    }

    /// The share of a network with this rate that one flow of the entry uses.
    fn share(&self, rate: Rate) -> u128 {
        let datagram = rate.transmission_time(self.datagrams.payload.0 as u32 + Datagram::HEADER_BYTES);
        u128::from(datagram.as_nanos()) * WHOLE / u128::from(self.datagrams.interval.as_nanos())
    }
}
