//! Entries `[[flow]]` of a scenario: the kind, and the keys that all kinds share.

use std::ops::{Deref, RangeInclusive};

use lasthop_core::{Bytes, Direction, Duration, Faults, Host, Protocol, Rate};
use lasthop_quic::QuicConfig;
use lasthop_tcp::TcpConfig;
use lasthop_traffic::{FlowConfig, Instance, RebindConfig};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::suggest;
use crate::hops::ONLY_HOP;
use crate::mptcp::MptcpConfig;

/// Maximum number of addresses of Linux' path manager (`MPTCP_PM_ADDR_MAX`).
const WAYS_MAX: usize = 8;

/// Accepted values of `count`.
const COUNTS: RangeInclusive<u32> = 1..=1000;

/// A flow, or `count` equal flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = into_kinds)]
pub struct Flow {
    /// The kind, with the keys of that kind.
    #[serde(flatten)]
    pub kind: FlowConfig,
    /// Direction of the data: `down` towards `host`, the client; `up` from it. A call may use `both`: it then
    /// consists of two flows that start together, named after it with `-down` and `-up`.
    #[serde(default, skip_serializing_if = "lasthop_traffic::is_default")]
    pub direction: DataDirection,
    /// Number of flows of this entry. Their names end in `-1`, `-2` and so on, and each flow draws its own
    /// start. If absent, there is one flow, whose name is unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// TCP of both ends, merged over `[tcp]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Box<TcpConfig>>,
    /// Transport of the flow: QUIC instead of TCP or UDP, for kinds that QUIC can carry; MPTCP instead of
    /// TCP, over all paths of `host`.
    #[serde(default, skip_serializing_if = "lasthop_traffic::is_default")]
    pub stack: FlowStack,
    /// QUIC of both ends, with `stack = "quic"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<Box<QuicConfig>>,
    /// MPTCP of both ends, with `stack = "mptcp"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<Box<MptcpConfig>>,
    /// Access link between the flow's server and the router, instead of the LAN; with `count`, one per flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessConfig>,
    /// The host at the edge: `down` is towards this host. Required if there are several hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The host at the other end; if absent, a separate server at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// For a `host` with several paths, the hop that selects the path. If absent, the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// A relay on the route, which splits the flow into two TCP connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayConfig>,
    /// Migration of `host` to another of its paths (RFC 9000, section 9); with `stack = "quic"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrate: Option<MigrateConfig>,
    /// A change of the port of `host` that the host does not notice, as by a NAT; with `stack = "quic"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebind: Option<RebindConfig>,
    /// Numbers, from 1, of the packets that are dropped at the first router in the direction of the data. The
    /// numbers count TCP segments with data, including retransmissions, or all datagrams of UDP and QUIC,
    /// separately for each flow of a `count` and each connection of a page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop_list: Vec<u64>,
}

/// The migration of a host from one path to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MigrateConfig {
    /// Time of the migration.
    #[schemars(extend("examples" = ["5 s"]))]
    pub at: Duration,
    /// The hop that selects the new path.
    pub via: String,
}

/// A relay on the route of a TCP flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    /// The hop at whose root side the relay is located; without `[hop]`, the only hop.
    #[serde(default = "only_hop")]
    pub at: String,
    /// In each direction, the maximum of data that the relay has read from one connection and that are not
    /// acknowledged on the other. Further data stay in the receive buffer of the first connection, whose window
    /// closes. If absent, the maximum of Linux' `tcp_wmem`.
    #[serde(default = "default_buffer")]
    pub buffer: Bytes,
    /// TCP of the relay's end towards the hop, merged over that of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Box<TcpConfig>>,
}

fn only_hop() -> String {
    ONLY_HOP.into()
}

const fn default_buffer() -> Bytes {
    Bytes(4 << 20)
}

/// Largest buffer.
const BUFFER_MAX: Bytes = Bytes(1_000_000_000);

impl RelayConfig {
    /// The host name of the relay.
    pub fn name(&self) -> String {
        format!("{}-relay", self.at)
    }
}

/// The transport that carries a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowStack {
    /// TCP, or UDP if the flow is a stream of datagrams.
    #[default]
    Tcp,
    /// QUIC (RFC 9000), by quinn-proto.
    Quic,
    /// Multipath TCP (RFC 8684) of Linux, on the kernel engine only. `host` opens the connection, with a subflow
    /// on each of its paths.
    Mptcp,
}

/// Direction of a flow's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DataDirection {
    /// From the server to the client.
    #[default]
    Down,
    /// From the client to the server.
    Up,
    /// Both, with one flow each.
    Both,
}

impl DataDirection {
    pub(crate) const fn directions(self) -> &'static [Direction] {
        match self {
            Self::Down => &[Direction::Down],
            Self::Up => &[Direction::Up],
            Self::Both => &[Direction::Down, Direction::Up],
        }
    }

    /// True if the two share a direction.
    pub(crate) fn meet(self, other: Self) -> bool {
        self == other || self == Self::Both || other == Self::Both
    }
}

impl From<Direction> for DataDirection {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Down => Self::Down,
            Direction::Up => Self::Up,
        }
    }
}

/// The access link between a flow's server and the router, in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessConfig {
    /// Propagation delay.
    #[serde(default)]
    pub delay: Duration,
    /// Bit rate.
    #[serde(default = "default_lan_rate")]
    pub rate: Rate,
}

impl From<FlowConfig> for Flow {
    fn from(kind: FlowConfig) -> Self {
        Self {
            kind,
            direction: DataDirection::Down,
            count: None,
            tcp: None,
            stack: FlowStack::Tcp,
            quic: None,
            mptcp: None,
            access: None,
            host: None,
            peer: None,
            via: None,
            relay: None,
            migrate: None,
            rebind: None,
            drop_list: Vec::new(),
        }
    }
}

impl Deref for Flow {
    type Target = FlowConfig;

    fn deref(&self) -> &FlowConfig {
        &self.kind
    }
}

impl Flow {
    /// The number of flows of the entry, limited to the maximum, because other checks read it before `check`
    /// rejects larger numbers.
    pub fn many(&self) -> u32 {
        self.count.unwrap_or(1).min(*COUNTS.end())
    }

    /// The number of applications of the entry; a call in both directions counts as two.
    pub fn applications(&self) -> usize {
        self.many() as usize * self.direction.directions().len()
    }

    /// The applications of the entry with index `entry`. Without a count, the random stream of the start is
    /// named after the index alone, so that the count of another entry changes no start.
    pub(crate) fn instances(&self, entry: usize) -> impl Iterator<Item = Instance<'_>> {
        let ways = self.direction.directions();
        let each = move |number| ways.iter().map(move |direction| self.instance(entry, number, *direction));
        (1..=self.many()).flat_map(each)
    }

    fn instance(&self, entry: usize, number: u32, direction: Direction) -> Instance<'_> {
        let numbered = |text: &str, mark| match self.count {
            Some(_) => format!("{text}{mark}{number}"),
            None => text.to_owned(),
        };
        let with_direction = |text: &str| match self.direction {
            DataDirection::Both => format!("{text}-{}", direction.name()),
            DataDirection::Down | DataDirection::Up => text.to_owned(),
        };
        let name = self.traffic().name();
        Instance {
            config: &self.kind,
            entry,
            name: with_direction(&numbered(name, '-')),
            group: with_direction(name),
            sender: direction.sender(),
            start_stream: numbered(&format!("start.flow{entry}"), '.'),
            protocol: match self.stack {
                FlowStack::Tcp | FlowStack::Mptcp => self.traffic().protocol(),
                FlowStack::Quic if self.traffic().protocol() == Protocol::Udp => Protocol::QuicDatagrams,
                FlowStack::Quic => Protocol::Quic,
            },
        }
    }

    /// Finds faults of a flow with packets of up to `mtu` bytes, in a run that ends at `time_limit`.
    pub(crate) fn check(&self, mtu: Bytes, time_limit: Duration, faults: &mut Faults) {
        self.kind.check(mtu, faults);
        if let (DataDirection::Up, Some(why)) = (self.direction, self.traffic().only_down()) {
            faults.require(false, "direction", || format!("\"up\": {why}; leave it out"));
        }
        let is_call = self.traffic().voice().is_some();
        faults.require(self.direction != DataDirection::Both || is_call, "direction", || {
            "\"both\": only a call (kind = \"voip\") has two directions; write one flow for each direction".into()
        });
        if let Some(count) = self.count {
            faults.in_range(count, COUNTS, "count");
            if let Some(key) = self.traffic().number_key() {
                faults.require(false, "count", || {
                    format!("this kind opens many flows itself; leave it out, and set {key}")
                });
            }
        }
        self.check_quic(mtu, faults);
        self.check_rebind(faults);
        self.check_relay(mtu, time_limit, faults);
        if let Some(tcp) = &self.tcp {
            faults.require(self.traffic().protocol() == Protocol::Tcp, "tcp", || {
                "a stream of datagrams has no TCP; leave it out".into()
            });
            faults.below("tcp", |faults| tcp.check(time_limit, faults));
        }
    }
}

impl Flow {
    /// The QUIC configuration, if QUIC carries the flow.
    pub fn quic(&self) -> Option<QuicConfig> {
        (self.stack == FlowStack::Quic).then(|| self.quic.as_deref().cloned().unwrap_or_default())
    }

    /// The MPTCP configuration, if MPTCP carries the flow.
    pub fn mptcp(&self) -> Option<MptcpConfig> {
        (self.stack == FlowStack::Mptcp).then(|| self.mptcp.as_deref().cloned().unwrap_or_default())
    }

    /// Checks its MPTCP against the paths of its host.
    pub(crate) fn check_mptcp(&self, (host, ways): (&str, &[String]), faults: &mut Faults) {
        let Some(mptcp) = self.mptcp() else {
            return faults.require(self.mptcp.is_none(), "mptcp", || {
                "another transport carries the flow; add stack = \"mptcp\", or leave it out".into()
            });
        };
        let traffic = self.traffic();
        let is_plain = traffic.runs_over_quic() && traffic.voice().is_none() && self.page().is_none();
        faults.require(is_plain, "stack", || {
            "\"mptcp\" supports kind = \"bulk-tcp\", \"request-response\" and \"video\" only; leave it out".into()
        });
        faults.require(ways.len() > 1, "stack", || {
            format!(
                "\"mptcp\" needs several paths to a host, but {host:?} has one; write for example behind = \
                 [\"wifi\", \"lte\"] in [host.{host}], or leave it out"
            )
        });
        faults.require(ways.len() <= WAYS_MAX, "stack", || {
            format!("\"mptcp\" of Linux has at most {WAYS_MAX} paths, but {host:?} has {}", ways.len())
        });
        let names: Vec<&str> = ways.iter().map(String::as_str).collect();
        for way in &mptcp.backup {
            faults.require(ways.contains(way), "mptcp.backup", || {
                format!("the host has no path through {way:?}{}", suggest(way, &names))
            });
        }
    }

    fn check_quic(&self, mtu: Bytes, faults: &mut Faults) {
        let Some(quic) = self.quic() else {
            faults.require(self.migrate.is_none(), "migrate", || {
                "only QUIC can migrate to another address; add stack = \"quic\", or leave it out".into()
            });
            return faults.require(self.quic.is_none(), "quic", || {
                "the flow is carried by TCP; add stack = \"quic\", or leave it out".into()
            });
        };
        faults.require(self.traffic().runs_over_quic(), "stack", || {
            "\"quic\" supports kind = \"bulk-tcp\", \"http-page\", \"request-response\", \"video\" and \
             \"voip\" only; leave it out"
                .into()
        });
        faults.require(self.tcp.is_none(), "tcp", || {
            "the flow is carried by QUIC, which is configured in quic = { ... }; leave it out".into()
        });
        let caller = self.traffic().caller(self.direction.directions()[0].sender());
        let (moves, key) =
            if self.migrate.is_some() { (true, "migrate") } else { (quic.migration, "quic.migration") };
        faults.require(!moves || caller == Host::Client, key, || {
            "the server opens the connection, but only the client may migrate (RFC 9000, section 9); write \
             direction = \"up\" or another kind, or leave it out"
                .into()
        });
        faults.require(self.migrate.is_none() || !quic.migration, "quic.migration", || {
            "`migrate` sets the time of the migration; leave out one of the two".into()
        });
        quic.check(mtu, faults);
    }
}

impl Flow {
    pub(crate) fn check_relay(&self, mtu: Bytes, time_limit: Duration, faults: &mut Faults) {
        let Some(relay) = &self.relay else { return };
        let traffic = self.traffic();
        let why = if self.stack == FlowStack::Quic {
            Some("QUIC is encrypted from end to end, so no relay can terminate it")
        } else if traffic.protocol() != Protocol::Tcp || self.real_program().is_some() {
            Some("a relay terminates TCP connections that lasthop opens, but this flow has none")
        } else if traffic.opens_later() {
            Some("short flows open during the run, but a relay supports only flows that exist from the start")
        } else if traffic.is_open_at_first() {
            Some(
                "the flow is open from the start, but a relay connects only once it has accepted a connection",
            )
        } else {
            None
        };
        faults.require(why.is_none(), "relay", || format!("{}; leave it out", why.unwrap_or_default()));
        faults.in_range(relay.buffer, mtu..=BUFFER_MAX, "relay.buffer");
        if let Some(tcp) = &relay.tcp {
            faults.below("relay.tcp", |faults| tcp.check(time_limit, faults));
        }
    }
}

/// Rate of a LAN that has no noticeable effect.
pub const fn default_lan_rate() -> Rate {
    Rate::from_bits_per_second(100_000_000_000)
}

/// Adds the keys that all kinds share to the schema of each kind, so that each schema is complete.
fn into_kinds(schema: &mut Schema) {
    let Some(Value::Object(common)) = schema.remove("properties") else { return };
    for key in ["type", "additionalProperties", "unevaluatedProperties"] {
        schema.remove(key);
    }
    let kinds = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    for kind in kinds.into_iter().flatten() {
        if let Some(properties) = kind["properties"].as_object_mut() {
            properties.extend(common.clone());
        }
    }
}
