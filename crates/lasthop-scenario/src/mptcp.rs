//! Multipath TCP (RFC 8684): one connection over all ways of a host, each with a subflow.

use lasthop_core::{Faults, FlowId, FlowInfo, Part};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::suggest;
use crate::flow::{Flow, FlowStack};
use crate::types::Scenario;

/// Most addresses that Linux' path manager knows (`MPTCP_PM_ADDR_MAX`).
const WAYS_MAX: usize = 8;

/// MPTCP of a flow, in Linux' terms. The first subflow takes the way `via`, the others are joined once the
/// connection is established.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MptcpConfig {
    /// The ways that carry data only while no other does (the endpoint flag `backup`; RFC 8684, section 3.3.8).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backup: Vec<String>,
    /// The packet scheduler of both hosts, which chooses a subflow for each packet (`net.mptcp.scheduler`);
    /// `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// After how many of its retransmission timeouts without any sign of life from a subflow the scheduler passes
    /// it over and sends its data again on others (`net.mptcp.stale_loss_cnt`); 4 if absent, 0 for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_loss_cnt: Option<u8>,
}

impl Flow {
    /// MPTCP of its ends, if MPTCP carries the flow.
    pub fn mptcp(&self) -> Option<MptcpConfig> {
        (self.stack == FlowStack::Mptcp).then(|| self.mptcp.as_deref().cloned().unwrap_or_default())
    }
}

/// Checks a flow's MPTCP against the ways of its host.
pub(crate) fn check(flow: &Flow, (host, ways): (&str, &[String]), faults: &mut Faults) {
    let Some(mptcp) = flow.mptcp() else {
        return faults.require(flow.mptcp.is_none(), "mptcp", || {
            "another transport carries the flow; add stack = \"mptcp\", or leave it out".into()
        });
    };
    let traffic = flow.traffic();
    let is_plain = traffic.runs_over_quic() && traffic.voice().is_none() && flow.page().is_none();
    faults.require(is_plain, "stack", || {
        "\"mptcp\" carries flows with kind = \"bulk-tcp\", \"request-response\" or \"video\"; leave it out".into()
    });
    faults.require(ways.len() > 1, "stack", || {
        format!(
            "\"mptcp\" needs several ways to a host, and {host:?} has one; write behind = [\"wifi\", \"lte\"] in \
             [host.{host}], say, or leave it out"
        )
    });
    faults.require(ways.len() <= WAYS_MAX, "stack", || {
        format!("\"mptcp\" of Linux has at most {WAYS_MAX} ways, and {host:?} has {}", ways.len())
    });
    let names: Vec<&str> = ways.iter().map(String::as_str).collect();
    for way in &mptcp.backup {
        faults.require(ways.contains(way), "mptcp.backup", || {
            format!("the host does not hang behind {way:?}{}", suggest(way, &names))
        });
    }
}

impl Scenario {
    /// Whether MPTCP carries any of its flows.
    pub fn has_mptcp(&self) -> bool {
        self.flow.iter().any(|flow| flow.stack == FlowStack::Mptcp)
    }

    /// The subflows of these flows, of those that MPTCP carries: one for each way of the host.
    pub(crate) fn subflows(&self, flows: &[FlowInfo]) -> Vec<FlowInfo> {
        let lanes = self.lanes();
        let of = |(id, info): (u32, &FlowInfo)| {
            let flow = &self.flow[lanes[info.application as usize].instance.entry];
            let ways = if flow.stack == FlowStack::Mptcp { self.ways(flow) } else { &[] };
            let subflow = |(way, hop): (usize, &String)| FlowInfo {
                name: format!("{}/{hop}", info.name),
                offered_bytes: None,
                sends_for: None,
                part: Part::Subflow { of: FlowId(id), way },
                ..info.clone()
            };
            ways.iter().enumerate().map(subflow).collect::<Vec<_>>()
        };
        (0..).zip(flows).flat_map(of).collect()
    }
}
