//! Defaults for keys that a scenario omits. Values in the file are never changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;

use lasthop_core::{Bytes, Direction, Duration, Rate};
use lasthop_link::{CellUser, CourseConfig, Framing, MediumConfig, PathConfig, Schedule, WifiStation};
use lasthop_tcp::{Profile, RULES, TcpConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::flow::{self, Flow};
use crate::hops::{self, Behind, HostConfig};
use crate::topology::{Tree, delay_outside_hops};
use crate::tree::{Entry, NAME, Node, Table, Value};
use crate::types;
use crate::when;

/// A default for a key that a scenario omits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assumption {
    pub key: String,
    pub value: String,
    /// The rule behind the value, or why it does not matter.
    pub why: String,
}

impl Assumption {
    pub(crate) fn new(key: impl Into<String>, value: impl Display, why: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.to_string(), why: why.into() }
    }
}

/// Minimum of a default queue limit, in packets.
const QUEUE_PACKETS_MIN: u64 = 10;

/// Maximum of a default queue limit in bytes: counters have 32 bits.
const QUEUE_BYTES_MAX: u64 = u32::MAX as u64;

/// Fixed part of the default time limit.
const TIME_LIMIT_S: f64 = 60.0;

/// Number of round trips in the default time limit.
const TIME_LIMIT_ROUND_TRIPS: f64 = 20.0;

/// The default time limit includes this multiple of the transfer time of all bytes at the slowest rate.
const TIME_LIMIT_TRANSFERS: f64 = 10.0;

/// Maximum of the default time limit, 11 days: timestamps must not wrap.
const TIME_LIMIT_MAX_S: f64 = 1e6;

/// The keys that an incomplete `[up]` copies from `[down]`; all other keys stay absent.
const LINK_KEYS: [&str; 4] = ["rate", "delay", "release", "send_buffer"];

/// The flow of a scenario that is read only for its link.
const DOWNLOAD: &str = r#"[{ kind = "bulk-tcp", name = "download", bytes = "1 MB" }]"#;

/// Names the unnamed flows in every list of a file by their kind, with a number if there are several.
pub fn flow_names(file: &mut Node) {
    name_flows(file);
    for level in tables_of(file.child("factor")).flat_map(|factor| tables_of(Some(factor))) {
        name_flows(level);
        let factors = tables_of(level.child(when::KEY));
        factors.flat_map(|factor| tables_of(Some(factor))).for_each(name_flows);
    }
}

fn tables_of(node: Option<&mut Node>) -> impl Iterator<Item = &mut Node> {
    let entries = node.and_then(|node| match &mut node.value {
        Value::Table(entries) => Some(entries),
        _ => None,
    });
    entries.into_iter().flatten().map(|entry| &mut entry.node)
}

fn name_flows(part: &mut Node) {
    let Some(Node { value: Value::Array(flows), .. }) = part.child("flow") else { return };
    let kind = |flow: &Node| flow.get("kind").and_then(Node::text).unwrap_or_default().to_owned();
    let nameless = |flow: &Node| flow.get(NAME).is_none();
    let mut used_names: BTreeSet<String> =
        flows.iter().filter_map(|flow| flow.get(NAME)?.text()).map(str::to_owned).collect();
    // For each kind: the number of unnamed flows, and the number of the last one that was named.
    let mut kinds: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for flow in flows.iter().filter(|flow| nameless(flow)) {
        kinds.entry(kind(flow)).or_default().0 += 1;
    }
    for flow in flows.iter_mut().filter(|flow| nameless(flow)) {
        let kind = kind(flow);
        let (many, number) = kinds.entry(kind.clone()).or_default();
        let mut numbered = || {
            *number += 1;
            format!("{kind}-{number}")
        };
        let mut name = if *many == 1 { kind.clone() } else { numbered() };
        while used_names.contains(&name) {
            name = numbered();
        }
        used_names.insert(name.clone());
        if let Value::Table(entries) = &mut flow.value {
            entries.push(Entry { key: NAME.into(), span: None, node: Node::from_text(&name) });
        }
    }
}

/// Completes the scenario of a cell; returns the assumptions. With `for_link`, adds a flow if there is none.
pub fn complete(tree: &mut Node, for_link: bool) -> Vec<Assumption> {
    let mut assume = Assume { tree, place: "", list: Vec::new() };
    assume.text("mtu", types::default_mtu(), "the MTU of Ethernet");
    assume.text("tcp.profile", Profile::default(), "today's Linux, with CUBIC");
    if for_link {
        assume.download();
    }
    assume.flows();
    if !assume.has("atm") {
        assume.network();
    }
    if !assume.has("atm") {
        assume.time_limit();
    }
    assume.list
}

/// Adapts the TCP switches that only the profile sets to the switches in the file: without SACK there are no
/// D-SACKs. The same holds within the `tcp` of each flow, host and relay.
pub fn switches(scenario: &mut Node) -> Vec<Assumption> {
    let mut followed = Vec::new();
    if let Some(tcp) = scenario.child("tcp") {
        follow(tcp, "tcp", &mut followed);
    }
    if let Some(Node { value: Value::Table(hosts), .. }) = scenario.child("host") {
        for Entry { key, node, .. } in hosts {
            if let Some(tcp) = node.child("tcp") {
                follow(tcp, &format!("host.{key}.tcp"), &mut followed);
            }
        }
    }
    let Some(Node { value: Value::Array(flows), .. }) = scenario.child("flow") else { return followed };
    for (index, flow) in flows.iter_mut().enumerate() {
        if let Some(tcp) = flow.child("tcp") {
            follow(tcp, &format!("flow[{index}].tcp"), &mut followed);
        }
        if let Some(tcp) = flow.child("relay").and_then(|relay| relay.child("tcp")) {
            follow(tcp, &format!("flow[{index}].relay.tcp"), &mut followed);
        }
    }
    followed
}

fn follow(node: &mut Node, place: &str, followed: &mut Vec<Assumption>) {
    let read = |node: &Node| node.read::<TcpConfig>().ok();
    let Some(mut tcp) = read(node) else { return };
    for rule in &RULES {
        let is_stated = node.get(rule.key).is_some_and(|switch| switch.span.is_some());
        let Some(off) = Node::literal(rule.off).filter(|_| rule.is_broken(&tcp) && !is_stated) else {
            continue;
        };
        let cause = rule.cause();
        let value = node.get(cause).map(Node::rendered).unwrap_or_default();
        let key = format!("{place}.{}", rule.key);
        followed.push(Assumption::new(key, off.rendered(), format!("follows {cause} = {value}")));
        node.set(&[rule.key], off);
        tcp = read(node).unwrap_or(tcp);
    }
}

/// Completes a scenario, or one of its hops.
struct Assume<'a> {
    tree: &'a mut Node,
    /// Prefix of paths in `tree`, such as `hop.NAME.`.
    place: &'a str,
    list: Vec<Assumption>,
}

impl Assume<'_> {
    fn has(&self, path: &str) -> bool {
        self.tree.at(path).is_some()
    }

    fn read<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        self.tree.at(path)?.read().ok()
    }

    /// Sets a key that is absent.
    fn node(&mut self, path: &str, node: Node, why: impl Into<String>) {
        if !self.has(path) {
            self.list.push(Assumption::new(format!("{}{path}", self.place), node.rendered(), why));
            self.tree.set(&path.split('.').collect::<Vec<_>>(), node);
        }
    }

    fn text(&mut self, path: &str, value: impl Display, why: impl Into<String>) {
        self.node(path, Node::from_text(&value.to_string()), why);
    }

    /// Adds a flow; real programs replace it.
    fn download(&mut self) {
        if !self.has("flow")
            && let Some(mut flows) = Node::literal(DOWNLOAD)
        {
            let host = self.tree.get("host").and_then(Node::table).into_iter().flatten().next();
            if let (Some(host), Value::Array(flows)) = (host, &mut flows.value) {
                for flow in flows {
                    flow.set(&["host"], Node::from_text(&host.key));
                }
            }
            self.node("flow", flows, "the file has no flows");
        }
    }

    fn flows(&mut self) {
        let Some(node) = self.tree.child("flow") else {
            self.tree.set(&["flow"], Node { span: None, value: Value::Array(Vec::new()) });
            return;
        };
        let Value::Array(flows) = &mut node.value else { return };
        for (index, flow) in flows.iter_mut().enumerate() {
            let default_name = flow.get(NAME).filter(|name| name.span.is_none()).map(Node::rendered);
            if let Some(name) = default_name {
                self.list.push(Assumption::new(format!("flow[{index}].name"), name, "from its kind"));
            }
            let is_real = flow.get("kind").and_then(Node::text) == Some("program");
            if flow.get("start").is_none() && !is_real {
                let start = Duration::ZERO;
                flow.set(&["start"], Node::from_text(&start.to_string()));
                self.list.push(Assumption::new(format!("flow[{index}].start"), start, "immediately"));
            }
            let access = flow.child("access").filter(|access| access.table().is_some());
            if let Some(access) = access.filter(|access| access.get("rate").is_none()) {
                let rate = flow::default_lan_rate().to_string();
                access.set(&["rate"], Node::from_text(&rate));
                self.list.push(Assumption::new(format!("flow[{index}].access.rate"), rate, "negligible"));
            }
        }
    }

    /// Calls `complete` for each hop: the unnamed one at the top of the file, or those in `[hop]`. Each hop is
    /// completed from its own table, because finding it from the top means searching all hops. Hops without
    /// `down` and hops with a name that cannot be part of a path are skipped: later checks report them.
    fn each_hop(&mut self, mut complete: impl FnMut(&mut Assume<'_>)) {
        if self.has("down") {
            complete(self);
        }
        let Some(Node { value: Value::Table(hops), .. }) = self.tree.child("hop") else { return };
        for Entry { key, node: tree, .. } in hops {
            if key.contains(['.', '[']) || tree.get("down").is_none() {
                continue;
            }
            let place = format!("hop.{key}.");
            let mut hop = Assume { tree, place: &place, list: std::mem::take(&mut self.list) };
            complete(&mut hop);
            self.list = hop.list;
        }
    }

    fn named_hops(&self) -> impl Iterator<Item = &Entry> {
        self.tree.get("hop").and_then(Node::table).into_iter().flatten()
    }

    fn sides(&self) -> impl Iterator<Item = &Node> {
        let hops = std::iter::once(&*self.tree).chain(self.named_hops().map(|hop| &hop.node));
        hops.flat_map(|hop| ["down", "up"].into_iter().filter_map(move |side| hop.get(side)))
    }

    /// The rate in bit/s of the slowest station of each medium.
    fn slowest_stations(&self) -> Vec<f64> {
        let stations = self.tree.get("host").and_then(Node::table).into_iter().flatten();
        let station = |host: &Entry| {
            let behind = host.node.get("behind")?.read::<Behind>().ok();
            let wifi = host.node.get("wifi").and_then(|wifi| wifi.read::<WifiStation>().ok());
            let cell = host.node.get("cell").and_then(|cell| cell.read::<CellUser>().ok());
            Some((host.key.clone(), HostConfig { behind, wifi, cell, ..HostConfig::default() }))
        };
        let hosts = stations.filter_map(station).collect();
        let slowest = |hop: &Entry| {
            let medium = hop.node.get("medium")?.read::<MediumConfig>().ok()?;
            Some(hops::setup(&hop.key, &medium, &hosts).slowest())
        };
        self.named_hops().filter_map(slowest).collect()
    }

    fn network(&mut self) {
        let mut has_hops = self.named_hops().any(|hop| hop.node.get("medium").is_some());
        self.each_hop(|_| has_hops = true);
        if !has_hops {
            return;
        }
        self.text("lan.rate", flow::default_lan_rate(), "negligible");
        self.text("lan.delay", Duration::ZERO, "negligible");
        let mtu = self.mtu();
        let mut up_is_stated = VecDeque::new();
        self.each_hop(|hop| up_is_stated.push_back(hop.link(mtu)));
        let round_trip = self.round_trip();
        self.each_hop(|hop| hop.queues(up_is_stated.pop_front() == Some(true), mtu, &round_trip));
    }

    fn mtu(&self) -> Bytes {
        self.read("mtu").unwrap_or_else(types::default_mtu)
    }

    /// Completes the links of a hop. Returns true if the file has an `up` for it.
    fn link(&mut self, mtu: Bytes) -> bool {
        self.text("down.link.release", "serialised", "a packet leaves the buffer once it is sent");
        if self.tree.at("down.link.release").and_then(Node::text) == Some("serialised") {
            self.text("down.link.send_buffer", mtu, "one packet");
        }
        let up_is_stated = self.has("up");
        for direction in ["down", "up"] {
            let link = format!("{direction}.link");
            if let Some(trace) = self.read::<Schedule>(&format!("{link}.trace")) {
                self.text(&format!("{link}.rate"), trace.mean_rate(), "the mean of the trace");
            }
            if let Some(course) = self.read::<CourseConfig>(&format!("{link}.course")) {
                self.text(&format!("{link}.rate"), course.mean_rate(), "the mean of the course");
                if let Some(delay) = course.delay() {
                    self.text(&format!("{link}.delay"), delay, "the first delay of the course");
                }
            }
        }
        for key in LINK_KEYS.iter().filter(|_| up_is_stated) {
            self.up_as_down(&format!("link.{key}"));
        }
        up_is_stated
    }

    /// Completes the queues of a hop. `round_trip` comes from [`Self::round_trip`].
    fn queues(&mut self, up_is_stated: bool, mtu: Bytes, round_trip: &(Duration, String)) {
        let queue_is_stated = self.has("down.queue.limit");
        self.queue_limit("down", mtu, round_trip);
        if !up_is_stated {
            let down = self.tree.get("down").cloned().unwrap_or_default();
            let why = copied(&down);
            self.tree.set(&["up"], down.without_spans());
            self.list.push(Assumption::new(format!("{}up", self.place), "as down", why));
        } else if queue_is_stated {
            self.up_as_down("queue.limit");
        } else {
            self.queue_limit("up", mtu, round_trip);
        }
    }

    fn up_as_down(&mut self, key: &str) {
        if let Some(node) = self.tree.at(&format!("down.{key}")).cloned() {
            self.node(&format!("up.{key}"), node.without_spans(), "as down");
        }
    }

    /// The longest round-trip time of a flow without queueing, and a description of that flow if flows differ.
    fn round_trip(&self) -> (Duration, String) {
        let flows = self.tree.get("flow").and_then(Node::items).unwrap_or_default();
        let access = |flow: &Node| flow.at("access.delay")?.read::<Duration>().ok();
        let lan = self.read("lan.delay").unwrap_or_default();
        let sum = |links: Duration, access| {
            let outside = [Direction::Down, Direction::Up].map(|way| delay_outside_hops(lan, access, way));
            links + outside[0] + outside[1]
        };
        let routes = FlowRoutes::of(self);
        let of =
            |flow: &Node| (sum(routes.links(Some(flow)), access(flow)), flow.get(NAME).map(Node::rendered));
        // If several are equal, the first.
        let longest = flows.iter().map(of).rev().max_by_key(|(round_trip, _)| *round_trip);
        let (round_trip, name) = longest.unwrap_or((sum(routes.links(None), None), None));
        let differ = routes.hosts.is_some() || flows.iter().any(|flow| access(flow).is_some());
        (
            round_trip,
            name.filter(|_| differ).map_or_else(String::new, |name| format!(" of {name} (the longest)")),
        )
    }

    fn queue_limit(&mut self, direction: &str, mtu: Bytes, (round_trip, whose): &(Duration, String)) {
        let rate: Option<Rate> = self.read(&format!("{direction}.link.rate"));
        let mtu = mtu.0.max(1);
        let framing: Option<Framing> = self.read(&format!("{direction}.link.framing"));
        let on_link = framing.map_or(mtu, |framing| u64::from(framing.bytes(mtu as u32)));
        let bits = u128::from(rate.map_or(0, Rate::bits_per_second)) * u128::from(round_trip.as_nanos());
        let product = bits.div_ceil(u128::from(on_link) * 8_000_000_000);
        let most = QUEUE_BYTES_MAX / mtu;
        let packets = u64::try_from(product).unwrap_or(most).max(QUEUE_PACKETS_MIN).min(most);
        let rate = rate.map_or_else(String::new, |rate| rate.to_string());
        let why = format!(
            "a bandwidth-delay product, {rate} x {round_trip}{whose}, is {product} packets; at least \
             {QUEUE_PACKETS_MIN}"
        );
        self.text(&format!("{direction}.queue.limit"), format!("{packets} packets"), why);
    }

    fn time_limit(&mut self) {
        let paths: Vec<PathConfig> = self.sides().filter_map(|side| side.read().ok()).collect();
        let packet = self.mtu().0 as u32;
        let rates = paths.iter().flat_map(|path| path.ip_rates(packet)).map(|(_, rate)| rate);
        let rates = rates.chain(self.slowest_stations());
        let slowest = rates.filter(|rate| *rate > 0.0).fold(f64::INFINITY, f64::min);
        let courses = paths.iter().filter_map(|path| path.link.course.as_ref()).map(CourseConfig::end);
        let mut flows = self.tree.get("flow").and_then(Node::items).unwrap_or_default().to_vec();
        // A flow's own TCP lacks what it has from `[tcp]`.
        for flow in &mut flows {
            flow.take("tcp");
        }
        let flows: Vec<Flow> = flows.iter().filter_map(|flow| flow.read().ok()).collect();
        let access =
            flows.iter().filter_map(|flow| Some(flow.access.as_ref()?.rate.bits_per_second() as f64));
        let slowest = access.fold(slowest, f64::min);
        let bytes = |flow: &Flow| flow.traffic().offered_bytes() as f64 * f64::from(flow.many());
        let bits = 8.0 * flows.iter().map(bytes).sum::<f64>();
        let latest_start = flows.iter().map(|flow| flow.traffic().latest_begin()).max().unwrap_or_default();
        // Each request waits for the response to the previous one.
        let requests = flows.iter().filter_map(|flow| flow.traffic().requests()).max().unwrap_or(1);
        let round_trips = TIME_LIMIT_ROUND_TRIPS * f64::from(requests);
        let (round_trip, whose) = self.round_trip();
        let seconds = latest_start.as_secs_f64()
            + courses.max().unwrap_or_default().as_secs_f64()
            + TIME_LIMIT_S
            + round_trips * round_trip.as_secs_f64()
            + TIME_LIMIT_TRANSFERS * bits / slowest;
        let limit = Duration::from_secs(seconds.min(TIME_LIMIT_MAX_S).ceil() as u64);
        let why = format!(
            "after the last start and the last stream: {TIME_LIMIT_S} s, {round_trips} round trips{whose} and \
             {TIME_LIMIT_TRANSFERS} times the transfer time of all bytes at the slowest rate"
        );
        self.text("time_limit", limit, why);
    }
}

/// The paths of the flows, as far as the file states them.
struct FlowRoutes<'a> {
    tree: Tree,
    /// For each hop the sum of the delays of its links.
    delays: Vec<Duration>,
    /// `None` without `[hop]`.
    hosts: Option<&'a Table>,
}

impl<'a> FlowRoutes<'a> {
    fn of(assume: &'a Assume<'_>) -> Self {
        let both = |hop: &Node| {
            let delay = |side: &str| hop.get(side)?.at("link.delay")?.read::<Duration>().ok();
            let down = delay("down").unwrap_or_default();
            down + delay("up").unwrap_or(down)
        };
        let Some(named) = assume.tree.get("hop").and_then(Node::table) else {
            let tree = Tree::of([("", None)].into_iter());
            return Self { tree, delays: vec![both(&*assume.tree)], hosts: None };
        };
        let behind = |hop: &'a Entry| (hop.key.as_str(), hop.node.get("behind").and_then(Node::text));
        let tree = Tree::of(named.iter().map(behind));
        let by_name: BTreeMap<&str, Duration> =
            named.iter().map(|hop| (hop.key.as_str(), both(&hop.node))).collect();
        let delays = tree.names().map(|name| by_name.get(name).copied().unwrap_or_default()).collect();
        Self { tree, delays, hosts: Some(assume.tree.get("host").and_then(Node::table).unwrap_or(&NONE)) }
    }

    /// The delay of the links there and back; with MPTCP, on the longest path.
    fn links(&self, flow: Option<&Node>) -> Duration {
        let Some(hosts) = self.hosts else { return self.delays[0] };
        let stated = |key: &str| flow.and_then(|flow| flow.get(key)?.text());
        let behind = |host: &str| hosts.iter().find(|entry| entry.key == host)?.node.get("behind");
        let hop = |host: &str, via: Option<&str>| {
            let behind = behind(host)?;
            let first = || behind.text().or_else(|| behind.items()?.first()?.text());
            self.tree.number(via.or_else(first)?)
        };
        let host = stated("host").or_else(|| hosts.first().map(|only| only.key.as_str()));
        let there = stated("peer").and_then(|peer| hop(peer, None));
        let over = |via: Option<&str>| {
            let here = host.and_then(|host| hop(host, via));
            let route = self.tree.route(there, here).into_iter();
            let delays = route.map(|place| self.delays[self.tree.at(place).0]);
            delays.fold(Duration::ZERO, |sum, delay| sum + delay)
        };
        let ways =
            if stated("stack") == Some("mptcp") { host.and_then(behind).and_then(Node::items) } else { None };
        let all = ways.unwrap_or_default().iter().map(|way| over(way.text()));
        all.max().unwrap_or_else(|| over(stated("via")))
    }
}

static NONE: Table = Table::new();

/// Why `up` is a copy of `down`, with the copied keys that a reader may not expect in both directions.
fn copied(down: &Node) -> String {
    let entries = |node: Option<&Node>| node.and_then(Node::table).cloned().unwrap_or_default();
    let of_link =
        entries(down.get("link")).into_iter().map(|entry| (format!("link.{}", entry.key), entry.key));
    let of_path = entries(Some(down)).into_iter().map(|entry| (entry.key.clone(), entry.key));
    let expected = |key: &str| LINK_KEYS.contains(&key) || ["link", "queue"].contains(&key);
    let more: Vec<String> =
        of_path.chain(of_link).filter(|(_, key)| !expected(key)).map(|(path, _)| path).collect();
    if more.is_empty() {
        return "a copy of [down]".into();
    }
    format!("a copy of [down], including {}; add [up.link] for a direction without", more.join(", "))
}
