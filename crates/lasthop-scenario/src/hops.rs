//! Hops and hosts by name: the keys of `[hop]` and `[host]`, and their checks.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_core::{Bytes, Direction, Duration, Faults};
use lasthop_link::{CellUser, ErrorConfig, MediumConfig, MediumSetup, PathConfig, WifiStation};
use lasthop_tcp::TcpConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::suggest;

/// Name of the only hop in a scenario without `[hop]`.
pub const ONLY_HOP: &str = "last-hop";

/// Name of the only host behind it.
pub(crate) const ONLY_HOST: &str = "client";

/// The name of the separate server of a flow without `peer`.
pub const SERVER: &str = "server";

/// A hop: a link in both directions with its queues, connected to the root or to another hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HopConfig {
    /// The next hop towards the root; if absent, this hop is connected to the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
    /// From the root towards the hosts; required without `medium`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<PathConfig>,
    /// From the hosts towards the root; its defaults depend on `down`, like those of `[up]` on `[down]`.
    pub up: Option<PathConfig>,
    /// A Wi-Fi or a cell that both directions and all hosts of the hop share, instead of `down`, `up`, `errors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<MediumConfig>,
    /// Errors of the link, in both directions; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<ErrorConfig>,
    /// The router at each end of the link.
    #[serde(default, skip_serializing_if = "RouterConfig::is_default")]
    pub router: RouterConfig,
    /// True if the columns of the run (`utilisation`, `efficiency`, the queue) describe this hop. If no hop is
    /// marked, they describe the slowest hop in each direction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bottleneck: bool,
}

impl HopConfig {
    /// One direction; `None` for a medium.
    pub fn side(&self, direction: Direction) -> Option<&PathConfig> {
        match direction {
            Direction::Down => self.down.as_ref(),
            Direction::Up => self.up.as_ref().or(self.down.as_ref()),
        }
    }

    /// Requires either links or a medium.
    fn check_kind(&self, faults: &mut Faults) {
        let Some(medium) = &self.medium else {
            return faults.require(self.down.is_some(), "down", || {
                "is missing; add for example down.link with rate = \"1 Mbit/s\" and delay = \"50 ms\", or a \
                 medium"
                    .into()
            });
        };
        faults.below("medium", |faults| medium.check(faults));
        for (key, stated) in
            [("down", self.down.is_some()), ("up", self.up.is_some()), ("errors", self.errors.is_some())]
        {
            faults.require(!stated, key, || {
                "applies to a link, but the hop has a medium; leave out one of the two".into()
            });
        }
    }

    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        for direction in [Direction::Down, Direction::Up] {
            let name = direction.name();
            let Some(path) = self.side(direction) else { continue };
            faults.below(name, |faults| path.check(mtu, faults));
            faults.require(
                self.errors.is_none() || path.link.errors.is_none(),
                &format!("{name}.link.errors"),
                || "the hop's `errors` apply to both directions; leave out one of the two".into(),
            );
        }
        if let Some(errors) = &self.errors {
            faults.below("errors", |faults| errors.check(faults));
        }
        if self.router.implementation == RouterImplementation::Linux {
            self.check_linux(mtu, faults);
        }
    }

    /// Finds what Linux' router does not support.
    fn check_linux(&self, mtu: Bytes, faults: &mut Faults) {
        faults.require(self.medium.is_none(), "router.implementation", || {
            "\"linux\": Linux' router has a link, but the hop has a medium; leave out one of the two".into()
        });
        for direction in [Direction::Down, Direction::Up] {
            let Some(path) = self.side(direction) else { continue };
            faults.below(direction.name(), |faults| path.check_linux(mtu, self.errors.is_some(), faults));
        }
        if let Some(errors) = &self.errors {
            faults.below("errors", |faults| errors.check_linux(faults));
        }
    }
}

/// The router between each LAN and the last hop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterConfig {
    /// Implementation of the queues, rate, delay and losses.
    #[serde(default)]
    pub implementation: RouterImplementation,
}

impl RouterConfig {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Implementation of the queues, rate, delay and losses of a hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouterImplementation {
    /// The models of this program: router queue and link.
    #[default]
    Lasthop,
    /// The queue disciplines of Linux: on the kernel engine, a namespace forwards packets through HTB (the
    /// classes of the scenario, or one class with `link.rate`) and a queue discipline in each class. If there is
    /// one class, its drop-tail queue is netem, with `link.delay`, with `queue.limit` in packets, which includes
    /// delayed packets, and with `errors` without good states as independent loss. The model engine models all
    /// of these except netem. `link.send_buffer` and RED's `avpkt` have no effect.
    Linux,
}

/// A host at the edge of the network, or at its root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// The hop that connects the host, or several, each with its own path to the host; the first is the default
    /// path. If absent, the host is at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Behind>,
    /// TCP of this host, for flows without their own `tcp`; merged over `[tcp]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Box<TcpConfig>>,
    /// Properties as a station, for a host behind a hop with `medium.kind = "wifi"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wifi: Option<WifiStation>,
    /// Properties as a user, for a host behind a hop with `medium.kind = "cell"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellUser>,
}

/// The hop or hops that connect a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Behind {
    /// One hop.
    One(String),
    /// Several, each with a path to the host.
    Several(Vec<String>),
}

impl HostConfig {
    /// The hops that connect it, one per path; empty at the root.
    pub fn ways(&self) -> &[String] {
        match &self.behind {
            None => &[],
            Some(Behind::One(hop)) => std::slice::from_ref(hop),
            Some(Behind::Several(hops)) => hops,
        }
    }
}

pub(crate) type Hops = BTreeMap<String, HopConfig>;
pub(crate) type HostsByName = BTreeMap<String, HostConfig>;

/// True if a name can be a key without quotation marks, as the paths in messages assume.
fn is_plain(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.bytes().all(allowed)
}

/// Checks names, and that each hop and host is connected to an existing hop. Returns true if so.
pub(crate) fn check_tree(hops: &Hops, hosts: &HostsByName, faults: &mut Faults) -> bool {
    let before = faults.count();
    let loops = loops(hops);
    let names: Vec<&str> = hops.keys().map(String::as_str).collect();
    let check_exists = |behind: &str, faults: &mut Faults, key: &str| {
        faults.require(hops.contains_key(behind), key, || {
            format!("there is no hop {behind:?}{}", suggest(behind, &names))
        });
    };
    for (name, hop) in hops {
        faults.below(&format!("hop.{name}"), |faults| {
            plain_name(name, faults);
            hop.check_kind(faults);
            let behind = hop.behind.as_ref().and_then(|behind| hops.get(behind));
            faults.require(behind.is_none_or(|behind| behind.medium.is_none()), "behind", || {
                "is a hop with a medium, to which only hosts can be connected; connect a host instead".into()
            });
            if let Some(behind) = &hop.behind {
                check_exists(behind, faults, "behind");
            }
            faults.require(!loops.contains(name.as_str()), "behind", || {
                "the hops form a loop; leave out `behind` of the hop at the root".into()
            });
        });
    }
    for (name, host) in hosts {
        faults.below(&format!("host.{name}"), |faults| {
            plain_name(name, faults);
            check_station(hops, host, faults);
            faults.require(name != SERVER, "", || {
                format!("{SERVER:?} is the name of the default peer of flows; choose another name")
            });
            let ways = host.ways();
            for (index, hop) in ways.iter().enumerate() {
                check_exists(hop, faults, "behind");
                faults.require(!ways[..index].contains(hop), "behind", || {
                    format!("{hop:?} is listed twice; list it once")
                });
            }
            faults.require(host.behind.is_none() || !ways.is_empty(), "behind", || {
                "the list is empty; add a hop, or leave out `behind` for a host at the root".into()
            });
        });
    }
    faults.count() == before
}

/// Requires that the keys `wifi` and `cell` of a host match the medium of its hop.
fn check_station(hops: &Hops, host: &HostConfig, faults: &mut Faults) {
    let media = host.ways().iter().filter_map(|hop| hops.get(hop)?.medium.as_ref());
    let kinds: Vec<&str> = media.map(MediumConfig::kind).collect();
    if let Some(wifi) = &host.wifi {
        faults.require(kinds.contains(&"wifi"), "wifi", || {
            "the host is not behind a hop with medium.kind = \"wifi\"; leave it out".into()
        });
        faults.below("wifi", |faults| wifi.check(faults));
    }
    let needs_cell = kinds.contains(&"cell");
    faults.require(host.cell.is_none() || needs_cell, "cell", || {
        "the host is not behind a hop with medium.kind = \"cell\"; leave it out".into()
    });
    faults.require(host.cell.is_some() || !needs_cell, "cell", || {
        "is missing; add for example cell.rate = \"30 Mbit/s\", the user's rate if it had all slots".into()
    });
    if let Some(cell) = &host.cell {
        faults.below("cell", |faults| cell.check(faults));
    }
}

/// The hosts behind a hop with a medium: its stations, in their order.
pub(crate) fn stations<'a>(
    hop: &'a str,
    hosts: &'a HostsByName,
) -> impl Iterator<Item = (&'a str, &'a HostConfig)> {
    let hosts = hosts.iter().filter(move |(_, host)| host.ways().iter().any(|way| way == hop));
    hosts.map(|(name, host)| (name.as_str(), host))
}

/// A medium with its stations.
pub(crate) fn setup<'a>(hop: &'a str, medium: &'a MediumConfig, hosts: &'a HostsByName) -> MediumSetup<'a> {
    let stations = stations(hop, hosts);
    match medium {
        MediumConfig::Wifi(wifi) => {
            let own = |(_, host): (_, &'a HostConfig)| host.wifi.as_ref().unwrap_or(&PLAIN_WIFI);
            MediumSetup::Wifi(wifi, stations.map(own).collect())
        }
        MediumConfig::Cell(cell) => {
            // Users without a rate are faults.
            MediumSetup::Cell(cell, stations.filter_map(|(_, host)| host.cell.as_ref()).collect())
        }
    }
}

/// A station that states nothing.
static PLAIN_WIFI: WifiStation = WifiStation::PLAIN;

fn plain_name(name: &str, faults: &mut Faults) {
    faults.require(is_plain(name), "", || {
        "a name may contain only letters, digits, - and _; choose another name".into()
    });
}

/// The hops that are behind themselves. Visits each hop once.
fn loops(hops: &Hops) -> BTreeSet<&str> {
    let behind =
        |hop: &str| hops.get_key_value(hops.get(hop)?.behind.as_deref()?).map(|(name, _)| name.as_str());
    let (mut in_loops, mut visits) = (BTreeSet::new(), BTreeMap::new());
    for (visit, start) in hops.keys().enumerate() {
        let mut at = Some(start.as_str());
        while let Some(hop) = at {
            if let Some(earlier) = visits.get(hop) {
                if *earlier == visit {
                    let others = std::iter::successors(behind(hop), |other| behind(other));
                    in_loops.extend(others.take_while(|other| *other != hop).chain([hop]));
                }
                break;
            }
            visits.insert(hop, visit);
            at = behind(hop);
        }
    }
    in_loops
}

/// Checks each hop and host by itself.
pub(crate) fn check(hops: &Hops, hosts: &HostsByName, mtu: Bytes, time_limit: Duration, faults: &mut Faults) {
    for (name, hop) in hops {
        faults.below(&format!("hop.{name}"), |faults| hop.check(mtu, faults));
    }
    let linux = hops.iter().find(|(_, hop)| hop.router.implementation == RouterImplementation::Linux);
    if let Some((name, _)) = linux {
        faults.require(hops.len() == 1, &format!("hop.{name}.router.implementation"), || {
            "\"linux\": Linux' router needs a scenario with a single hop; leave it out".into()
        });
    }
    let marked: Vec<_> = hops.iter().filter(|(_, hop)| hop.bottleneck).map(|(name, _)| name).collect();
    if let [first, second, ..] = marked[..] {
        faults.require(false, &format!("hop.{second}.bottleneck"), || {
            format!("{first:?} is marked as the bottleneck, too; leave out one of the two")
        });
    }
    for (name, host) in hosts {
        if let Some(tcp) = &host.tcp {
            faults.below(&format!("host.{name}.tcp"), |faults| tcp.check(time_limit, faults));
        }
    }
}
