//! The flows of a run and their ends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::iter;
use std::rc::Rc;

use lasthop_core::{Bytes, Dscp, Duration, FlowId, FlowInfo, Host, Part, Protocol, Seed, Transport};
use lasthop_quic::{Moves, QuicConfig};
use lasthop_scenario::{Flow as Entry, Scenario};
use lasthop_tcp::{CachedMetrics, Endpoint, Tcp, TcpConfig, TickClock};
use lasthop_traffic::{FlowConfig, ShortHosts};

use crate::relay::Relay;
use crate::transport::{End, Udp};

/// A running entry of the scenario's list of flows.
pub(crate) struct Running<'a, A> {
    pub program: A,
    pub config: &'a FlowConfig,
    /// Index of its entry.
    pub entry: usize,
    /// Its flows, indexed by the numbers that it gives them.
    pub flows: Vec<FlowId>,
}

/// One flow of the run.
pub(crate) struct Flow<T> {
    /// Index of its application, and its number there.
    pub application: usize,
    pub number: u32,
    /// Code point of its packets.
    pub dscp: Dscp,
    pub server_port: u16,
    /// The end that is a relay's, if one is.
    pub relay_end: Option<Host>,
    /// The relay that it goes through. Its ends are then those of the two flows after it.
    pub relay: Option<Box<Relay>>,
    /// True if it was opened during the run; it is removed once it is over.
    passes: bool,
    /// Its ends; `None` once it is removed.
    ends: Option<Box<Ends<T>>>,
}

/// Both ends of a flow.
pub(crate) struct Ends<T> {
    pub server: T,
    pub client: T,
}

impl<T: Transport> Flow<T> {
    pub fn new(info: &FlowInfo, number: u32, ends: Ends<T>) -> Self {
        let FlowInfo { application, dscp, server_port, part, .. } = *info;
        let passes = info.group.is_some();
        Self {
            application: application as usize,
            number,
            dscp,
            server_port,
            relay_end: part.relay_end(),
            relay: None,
            passes,
            ends: Some(Box::new(ends)),
        }
    }

    /// A flow that goes through a relay.
    pub fn relayed(info: &FlowInfo, number: u32, relay: Relay) -> Self {
        let FlowInfo { application, dscp, server_port, .. } = *info;
        Self {
            application: application as usize,
            number,
            dscp,
            server_port,
            relay_end: None,
            relay: Some(Box::new(relay)),
            passes: false,
            ends: None,
        }
    }

    /// The side of a relay, of the application and with the number of the whole flow.
    pub fn side_of(self, whole: &Self) -> Self {
        Self { application: whole.application, number: whole.number, ..self }
    }

    /// Its end at `host`, unless it is removed.
    #[inline]
    pub fn end(&mut self, host: Host) -> Option<&mut T> {
        self.ends.as_mut().map(|ends| match host {
            Host::Server => &mut ends.server,
            Host::Client => &mut ends.client,
        })
    }

    /// Removes it if it is temporary and both ends are done; returns true if it is removed now.
    #[inline]
    pub fn go(&mut self) -> bool {
        self.passes && self.ends.take_if(|ends| ends.server.is_over() && ends.client.is_over()).is_some()
    }
}

/// The hosts, which make the ends of flows.
pub(crate) trait Hosts {
    type End: Transport;

    /// The ends of a flow. For a flow that was not known before the run, `later` is the index of its
    /// [`ShortHosts`] in the application's list.
    fn ends(&self, flow: FlowId, info: &FlowInfo, later: Option<usize>) -> Ends<Self::End>;
}

/// A host and another one, by their names.
type Pair = (String, String);

/// The metrics that hosts cache about each other.
#[derive(Default)]
pub(crate) struct Metrics(RefCell<BTreeMap<Pair, Rc<Cell<CachedMetrics>>>>);

impl Metrics {
    /// The metrics of an earlier run.
    pub fn remembered(of: &BTreeMap<Pair, CachedMetrics>) -> Self {
        let shared = of.iter().map(|(pair, metrics)| (pair.clone(), Rc::new(Cell::new(*metrics))));
        Self(RefCell::new(shared.collect()))
    }

    /// The metrics for the next run.
    pub fn remember(self) -> BTreeMap<Pair, CachedMetrics> {
        self.0.into_inner().into_iter().map(|(pair, metrics)| (pair, metrics.get())).collect()
    }

    fn of(&self, host: &str, peer: &str) -> Rc<Cell<CachedMetrics>> {
        Rc::clone(self.0.borrow_mut().entry((host.to_owned(), peer.to_owned())).or_default())
    }
}

/// The latest TCP configuration at either end, which entries with an equal configuration share.
struct Latest(RefCell<[Rc<TcpConfig>; 2]>);

impl Latest {
    fn new(scenario: &Scenario) -> Self {
        let config = Rc::new(scenario.tcp.clone());
        Self(RefCell::new([Rc::clone(&config), config]))
    }

    fn share(&self, end: Host, config: &TcpConfig) -> Rc<TcpConfig> {
        let latest = &mut self.0.borrow_mut()[end as usize];
        if **latest != *config {
            *latest = Rc::new(config.clone());
        }
        Rc::clone(latest)
    }
}

/// The hosts of a scenario.
pub(crate) struct ScenarioHosts {
    /// TCP of each pair's flows.
    tcp: Vec<Rc<FlowsTcp>>,
    /// QUIC of each application's flows, if QUIC carries them.
    quic: Vec<Option<HostQuic>>,
    /// True if QUIC writes logs.
    qlog: bool,
    mtu: u32,
    seed: Seed,
}

/// QUIC of the flows of an entry, and when their client moves.
type HostQuic = (Rc<QuicConfig>, Moves);

impl ScenarioHosts {
    /// The hosts; if `qlog`, their QUIC writes logs.
    pub fn new(scenario: &Scenario, seed: Seed, metrics: &Metrics, qlog: bool) -> Self {
        let latest = Latest::new(scenario);
        let tcp_of = |flow, part| Rc::new(FlowsTcp::new(scenario, flow, part, metrics, &latest, seed));
        let tcp = scenario
            .flow
            .iter()
            .flat_map(|flow| iter::repeat_n(tcp_of(flow, Part::Whole), flow.applications()));
        let host_pairs = scenario.host_pairs();
        let sides = host_pairs.iter().filter(|pair| pair.part.is_side());
        let of_sides = sides.map(|pair| tcp_of(&scenario.flow[pair.instance.entry], pair.part));
        let quic = scenario.flow.iter().flat_map(|flow| {
            let quic = flow.quic().map(|config| {
                let moves = scenario.moves(flow);
                let migration = !moves.at.is_empty();
                (Rc::new(QuicConfig { migration, ..config }), moves)
            });
            iter::repeat_n(quic, flow.applications())
        });
        Self {
            tcp: tcp.chain(of_sides).collect(),
            quic: quic.collect(),
            qlog,
            mtu: scenario.mtu.0 as u32,
            seed,
        }
    }

    fn tcp(&self, at_hosts: &[HostTcp; 2], flow: FlowId, sender: Host) -> Ends<End> {
        let end = |host| {
            let HostTcp { config, phase, metrics } = &at_hosts[host as usize];
            let share = if config.common_clock { 0.0 } else { *phase };
            let phase = share * config.clock_period().as_nanos() as f64;
            let clock = TickClock::new(config.tick, Duration::from_nanos(phase as u64));
            let metrics = Rc::clone(metrics);
            let stream = || self.seed.stream(&format!("congestion_control.{}.{}", flow.0, host as usize));
            let endpoint = Endpoint::listen(config.of_end(stream), self.mtu, clock, flow, host);
            // Only the sender of data learns metrics.
            End::Tcp(Tcp::new(endpoint, Some(metrics).filter(|_| config.cached_metrics && host == sender)))
        };
        Ends { server: end(Host::Server), client: end(Host::Client) }
    }
}

impl ScenarioHosts {
    fn quic(&self, flow: FlowId, info: &FlowInfo) -> Ends<End> {
        let quic = self.quic[info.application as usize].as_ref();
        let (config, moves) = quic.expect("QUIC carries its flows");
        let mtu = Bytes(u64::from(self.mtu));
        let [server, client] = lasthop_quic::ends(config, mtu, moves, self.seed, flow, self.qlog)
            .map(|end| End::Quic(Box::new(end.carrying(info.protocol))));
        Ends { server, client }
    }
}

impl Hosts for ScenarioHosts {
    type End = End;

    fn ends(&self, flow: FlowId, info: &FlowInfo, later: Option<usize>) -> Ends<End> {
        let tcp = &self.tcp[info.application as usize];
        match (info.protocol, later) {
            (Protocol::Tcp, None) => self.tcp(&tcp.initial, flow, info.sender),
            (Protocol::Tcp, Some(hosts)) => self.tcp(&tcp.later[hosts], flow, info.sender),
            (Protocol::Quic | Protocol::QuicDatagrams, _) => self.quic(flow, info),
            (Protocol::Udp, _) => {
                Ends { server: End::Udp(Udp::new(info.ecn)), client: End::Udp(Udp::new(info.ecn)) }
            }
        }
    }
}

/// TCP of the flows of an entry.
struct FlowsTcp {
    initial: [HostTcp; 2],
    /// TCP of flows that are opened later, by their hosts.
    later: Vec<[HostTcp; 2]>,
}

/// TCP at a host, for the flows of an entry.
#[derive(Clone)]
struct HostTcp {
    config: Rc<TcpConfig>,
    /// The initial phase of the host's clock.
    phase: f64,
    /// The metrics that it caches about the other host.
    metrics: Rc<Cell<CachedMetrics>>,
}

impl FlowsTcp {
    fn new(
        scenario: &Scenario,
        flow: &Entry,
        part: Part,
        metrics: &Metrics,
        latest: &Latest,
        seed: Seed,
    ) -> Self {
        let initial = [Host::Server, Host::Client].map(|end| {
            let [name, peer] = [end, end.other()].map(|end| scenario.host_at(flow, part, end));
            HostTcp {
                config: latest.share(end, scenario.tcp_of_part(flow, part, end)),
                phase: Scenario::clock_phase(&name, seed),
                metrics: metrics.of(&name, &peer),
            }
        });
        let of_hosts = |hosts: &ShortHosts| initial.clone().map(|tcp| tcp.of_hosts(hosts));
        Self { later: flow.traffic().later_flows().iter().map(of_hosts).collect(), initial }
    }
}

impl HostTcp {
    fn of_hosts(self, hosts: &ShortHosts) -> Self {
        let &ShortHosts { initial_window, receive_window_initial, .. } = hosts;
        let tcp = TcpConfig::clone(&self.config);
        // A window never shrinks.
        let receive_window_max = tcp.receive_window_max.max(receive_window_initial);
        let config = Rc::new(TcpConfig { initial_window, receive_window_initial, receive_window_max, ..tcp });
        Self { config, ..self }
    }
}
