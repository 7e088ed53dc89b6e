//! Multipath TCP (RFC 8684): one connection with a subflow on each path of a host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// MPTCP of a flow. The first subflow uses the path `via`; the others join once the connection is established.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MptcpConfig {
    /// The paths that carry data only while no other path does (the endpoint flag `backup`; RFC 8684, section
    /// 3.3.8), by their hops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backup: Vec<String>,
    /// The scheduler of both hosts, which selects a subflow for each packet (`net.mptcp.scheduler`); `default`
    /// if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Number of retransmission timeouts without an ACK after which the scheduler considers a subflow stale and
    /// sends its data on others (`net.mptcp.stale_loss_cnt`); 4 if absent, 0 for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_loss_cnt: Option<u8>,
}
