//! Multipath TCP (RFC 8684): one connection over all ways of a host, each with a subflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// MPTCP of a flow, in Linux' terms. The first subflow takes the way `via`, the others are joined once the
/// connection is established.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MptcpConfig {
    /// The ways that carry data only while no other does (the endpoint flag `backup`; RFC 8684, section
    /// 3.3.8).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backup: Vec<String>,
    /// The packet scheduler of both hosts, which chooses a subflow for each packet (`net.mptcp.scheduler`);
    /// `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// After how many of its retransmission timeouts without any sign of life from a subflow the scheduler
    /// passes it over and sends its data again on others (`net.mptcp.stale_loss_cnt`); 4 if absent, 0 for
    /// never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_loss_cnt: Option<u8>,
}
