//! What the analysis has to know of a scenario before its run.

use lasthop_scenario::Scenario;
use lasthop_traffic::FlowConfig;

use crate::{Analysis, ApplicationInfo, RunInfo};

impl Analysis {
    /// An analysis of one run of `scenario`, on whichever engine. The bottleneck is the link down.
    pub fn of(scenario: &Scenario) -> Self {
        let run = RunInfo {
            rate_Bps: scenario.bottleneck_rate() / 8.0,
            segment_bytes: scenario.segment_bytes(),
            packet_bytes: scenario.mtu.0 as u32,
        };
        Self::new(scenario.flow.iter().map(application_info).collect(), run)
    }
}

fn application_info(flow: &FlowConfig) -> ApplicationInfo {
    let objects = match flow {
        FlowConfig::HttpPage(page) => Some(page.objects()),
        FlowConfig::BulkTcp(_)
        | FlowConfig::ConstantUdp(_)
        | FlowConfig::WebClients(_)
        | FlowConfig::ShortFlows(_) => None,
    };
    ApplicationInfo { name: flow.name().to_owned(), objects }
}
