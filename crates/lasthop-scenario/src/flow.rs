//! An entry of the scenario's list of flows: its kind, and the keys that all kinds have in common.

use std::ops::{Deref, RangeInclusive};

use lasthop_core::{Bytes, Direction, Duration, Faults, Host, Protocol, Rate};
use lasthop_quic::QuicConfig;
use lasthop_tcp::TcpConfig;
use lasthop_traffic::{FlowConfig, Instance};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::suggest;
use crate::hops::ONLY_HOP;
use crate::mptcp::MptcpConfig;

/// Most addresses that Linux' path manager knows (`MPTCP_PM_ADDR_MAX`).
const WAYS_MAX: usize = 8;

/// Maximum number of applications that one entry may stand for.
const COUNTS: RangeInclusive<u32> = 1..=1000;

/// An entry of the scenario's list of flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = into_kinds)]
pub struct Flow {
    /// Its kind, with the keys of that kind.
    #[serde(flatten)]
    pub kind: FlowConfig,
    /// Direction of its data: `down` if the server sends them, `up` if the client does (with
    /// `[hop]`: its peer, and its `host`). A call may go `both` ways: it is then two flows, named after it
    /// with `-down` and `-up`, which start together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub direction: DataDirection,
    /// Number of flows that this entry stands for. They are named after it with `-1`, `-2` and so on, and
    /// each draws its own start. If absent, there is one flow, with the plain name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// TCP of both its ends, merged over `[tcp]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Box<TcpConfig>>,
    /// Transport of the flow: QUIC in place of TCP or UDP, for kinds that QUIC can carry; MPTCP in place of
    /// TCP, over all ways of `host`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stack: FlowStack,
    /// QUIC of both its ends, with `stack = "quic"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<Box<QuicConfig>>,
    /// MPTCP of both its ends, with `stack = "mptcp"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<Box<MptcpConfig>>,
    /// Access link between the flow's server and the router, in place of the LAN; each flow of a `count` has
    /// its own access link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessConfig>,
    /// The host at the edge; may be absent if there is only one. Directions are seen from here: `down` is
    /// towards this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The host at the other end; if absent, a server of the flow's own at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The way to `host`, for a host with several: the hop that it hangs behind there. If absent, the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// A relay on its way, in which TCP ends and goes on from there on a connection of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayConfig>,
    /// The move of `host` to another of its ways, on which the flow goes on (RFC 9000, section 9); with
    /// `stack = "quic"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrate: Option<MigrateConfig>,
    /// A change of the port of `host`, of which the host does not know; with `stack = "quic"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebind: Option<RebindConfig>,
    /// Packets in the direction of its data that are lost when they arrive at the first router, by number
    /// from 1. TCP segments with data count, retransmissions too; of UDP and QUIC, all datagrams. Each flow
    /// of a `count` and each connection of a page counts by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop_list: Vec<u64>,
}

/// A move of a host from one way to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MigrateConfig {
    /// When.
    #[schemars(extend("examples" = ["5 s"]))]
    pub at: Duration,
    /// The way that it takes from then on: the hop that it hangs behind there.
    pub via: String,
}

/// A change of the port from which the other end sees the client, as behind a NAT that forgot it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RebindConfig {
    /// When.
    #[schemars(extend("examples" = ["5 s"]))]
    pub at: Duration,
}

/// A relay on the way of a flow over TCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    /// The hop at whose root side it stands; without `[hop]`, the only one.
    #[serde(default = "only_hop")]
    pub at: String,
    /// In each direction, the most data that it has read from one connection and that the far end of the
    /// other has not acknowledged. Further data wait in the first one's receive buffer, whose window closes.
    /// If absent, the most that Linux gives a connection for sending (`tcp_wmem`).
    #[serde(default = "default_buffer")]
    pub buffer: Bytes,
    /// TCP of its own end towards the hop, merged over that of the flow.
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
    /// The name of the relay at a hop, as a host.
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
    /// Multipath TCP (RFC 8684), on the kernel engine only: Linux' own, with a subflow for each way of
    /// `host`, which opens the connection.
    Mptcp,
}

/// Direction of the data of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DataDirection {
    /// From the server to the client.
    #[default]
    Down,
    /// From the client to the server.
    Up,
    /// Both ways, with one flow for each.
    Both,
}

impl DataDirection {
    /// Each direction of the data.
    pub(crate) const fn directions(self) -> &'static [Direction] {
        match self {
            Self::Down => &[Direction::Down],
            Self::Up => &[Direction::Up],
            Self::Both => &[Direction::Down, Direction::Up],
        }
    }

    /// Whether the two have a direction in common.
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

/// The access link between the server of a flow and the router, in both directions.
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
    /// The number of flows that the entry stands for. A number that is too large counts as the maximum: all
    /// errors of a file are reported at once, so other checks look at the flows before `check` refuses the
    /// entry.
    pub fn many(&self) -> u32 {
        self.count.unwrap_or(1).min(*COUNTS.end())
    }

    /// The number of applications that the entry stands for; a call both ways is two.
    pub fn applications(&self) -> usize {
        self.many() as usize * self.direction.directions().len()
    }

    /// The applications of a run that this entry, with this index in the list, stands for. Without a count,
    /// the random stream of the start is named after the index alone, so that the count of another entry
    /// changes no start.
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
        let turned = |text: &str| match self.direction {
            DataDirection::Both => format!("{text}-{}", direction.name()),
            DataDirection::Down | DataDirection::Up => text.to_owned(),
        };
        let name = self.traffic().name();
        Instance {
            config: &self.kind,
            entry,
            name: turned(&numbered(name, '-')),
            group: turned(name),
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
            "\"both\": only a call (kind = \"voip\") goes both ways; write a flow for each".into()
        });
        if let Some(count) = self.count {
            faults.in_range(count, COUNTS, "count");
            if let Some(key) = self.traffic().number_key() {
                faults.require(false, "count", || {
                    format!("the entry is many flows already; leave it out, and see {key}")
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
    /// QUIC of its ends, if QUIC carries the flow.
    pub fn quic(&self) -> Option<QuicConfig> {
        (self.stack == FlowStack::Quic).then(|| self.quic.as_deref().cloned().unwrap_or_default())
    }

    /// MPTCP of its ends, if MPTCP carries the flow.
    pub fn mptcp(&self) -> Option<MptcpConfig> {
        (self.stack == FlowStack::Mptcp).then(|| self.mptcp.as_deref().cloned().unwrap_or_default())
    }

    /// Checks its MPTCP against the ways of its host.
    pub(crate) fn check_mptcp(&self, (host, ways): (&str, &[String]), faults: &mut Faults) {
        let Some(mptcp) = self.mptcp() else {
            return faults.require(self.mptcp.is_none(), "mptcp", || {
                "another transport carries the flow; add stack = \"mptcp\", or leave it out".into()
            });
        };
        let traffic = self.traffic();
        let is_plain = traffic.runs_over_quic() && traffic.voice().is_none() && self.page().is_none();
        faults.require(is_plain, "stack", || {
            "\"mptcp\" carries flows with kind = \"bulk-tcp\", \"request-response\" or \"video\"; leave it \
             out"
            .into()
        });
        faults.require(ways.len() > 1, "stack", || {
            format!(
                "\"mptcp\" needs several ways to a host, and {host:?} has one; write behind = [\"wifi\", \
                 \"lte\"] in [host.{host}], say, or leave it out"
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

    fn check_quic(&self, mtu: Bytes, faults: &mut Faults) {
        let Some(quic) = self.quic() else {
            faults.require(self.migrate.is_none(), "migrate", || {
                "TCP stays at its addresses, and only QUIC can move; add stack = \"quic\", or leave it \
                 out"
                .into()
            });
            return faults.require(self.quic.is_none(), "quic", || {
                "the flow is carried by TCP; add stack = \"quic\", or leave it out".into()
            });
        };
        faults.require(self.traffic().runs_over_quic(), "stack", || {
            "\"quic\" carries flows with kind = \"bulk-tcp\", \"http-page\", \"request-response\", \"video\" \
             or \"voip\"; leave it out"
                .into()
        });
        faults.require(self.tcp.is_none(), "tcp", || {
            "the flow is carried by QUIC, whose keys stand in quic = { ... }; leave it out".into()
        });
        let caller = self.traffic().caller(self.direction.directions()[0].sender());
        let (moves, key) =
            if self.migrate.is_some() { (true, "migrate") } else { (quic.migration, "quic.migration") };
        faults.require(!moves || caller == Host::Client, key, || {
            "the server connects, and only the host that connected may move (RFC 9000, section 9); write \
             direction = \"up\" or another kind, or leave it out"
                .into()
        });
        faults.require(self.migrate.is_none() || !quic.migration, "quic.migration", || {
            "`migrate` says when the host moves; leave one of the two out".into()
        });
        quic.check(mtu, faults);
    }
}

impl Flow {
    /// Checks the relay by itself.
    pub(crate) fn check_relay(&self, mtu: Bytes, time_limit: Duration, faults: &mut Faults) {
        let Some(relay) = &self.relay else { return };
        let traffic = self.traffic();
        let why = if self.stack == FlowStack::Quic {
            Some("QUIC is encrypted from end to end, and no relay can end it")
        } else if traffic.protocol() != Protocol::Tcp || self.real_program().is_some() {
            Some("a relay ends TCP, and this flow is none that lasthop opens over it")
        } else if traffic.opens_later() {
            Some("short flows come and go, and the relay is modelled for flows that are known before the run")
        } else if traffic.is_open_at_first() {
            Some("the flow is open from the beginning, and a relay connects when it has accepted")
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

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Adds the keys that all kinds have in common to the schema of each kind, so that each schema is complete.
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
