//! What the analysis has to know of a scenario before its run.

use lasthop_core::{Instant, Segment};
use lasthop_scenario::Scenario;
use lasthop_traffic::FlowConfig;

use crate::{Analysis, FlowInfo, Protocol, RunInfo};

impl Analysis {
    /// An analysis of one run of `scenario`, on whichever engine. The bottleneck is the link down.
    pub fn of(scenario: &Scenario) -> Self {
        let flows: Vec<FlowInfo> = scenario.flow.iter().map(flow_info).collect();
        let packet_bytes = scenario.mtu.0 as u32;
        let options = if scenario.tcp.timestamps { Segment::TIMESTAMPS_BYTES } else { 0 };
        let run = RunInfo {
            rate_Bps: scenario.down.link.rate.bits_per_second() as f64 / 8.0,
            segment_bytes: packet_bytes - Segment::BASE_HEADER_BYTES - options,
            packet_bytes,
        };
        Self::new(&flows, run)
    }
}

fn flow_info(flow: &FlowConfig) -> FlowInfo {
    let (protocol, payload) = match flow {
        FlowConfig::BulkTcp(bulk) => (Protocol::Tcp, bulk.bytes.0),
        FlowConfig::ConstantUdp(udp) => (Protocol::Udp, udp.total_bytes()),
    };
    FlowInfo { name: flow.name().to_owned(), protocol, payload, start: Instant::ZERO }
}
