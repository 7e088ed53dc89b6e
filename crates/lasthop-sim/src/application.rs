//! The applications of a run, and the TCP connections they may open.

use lasthop_core::{Dscp, Duration, FlowId, FlowInfo, Host, Instant, Observer, Protocol, Seed};
use lasthop_scenario::Scenario;
use lasthop_tcp::{Endpoint, Phase, TcpConfig, TickClock};
use lasthop_traffic::{BulkConfig, ConstantUdp, FlowConfig, PageLoad, ShortFlows, ShortHosts, WebClients};

/// An entry of the scenario's list of flows.
pub(crate) struct Application {
    /// The first of its flows that are known before the run; the others follow it.
    pub first: FlowId,
    pub kind: Kind,
}

pub(crate) enum Kind {
    /// When it starts, unless it has.
    Bulk(BulkConfig, Option<Instant>),
    Udp(ConstantUdp),
    Page(PageLoad),
    Web(WebClients),
    Short(Box<Short>),
}

/// Short flows, and how many bytes they ask with and get.
pub(crate) struct Short {
    pub flows: ShortFlows,
    pub hosts: Vec<ShortHosts>,
    pub request: u64,
    pub response: u64,
}

/// One flow of the run.
pub(crate) struct Flow {
    /// Index of its application.
    pub application: usize,
    /// Of its packets.
    pub dscp: Dscp,
    pub server_port: u16,
    /// The ends of a TCP connection; none any more once both are done with it.
    pub connection: Option<Box<Connection>>,
}

/// Both ends of a TCP connection, and what their applications know of it.
pub(crate) struct Connection {
    server: Peer,
    client: Peer,
}

/// One end of a TCP connection, and how far its application has read.
pub(crate) struct Peer {
    pub endpoint: Endpoint,
    read: u64,
    saw_end: bool,
}

/// What is new for the application at one end of a connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct News {
    /// Bytes received in order so far, if there are more than last time.
    pub received: Option<u64>,
    /// The other side's stream has ended, or the connection is lost; told once.
    pub ended: bool,
}

impl Flow {
    fn new(info: &FlowInfo, connection: Option<Connection>) -> Self {
        let FlowInfo { application, dscp, server_port, .. } = *info;
        Self { application: application as usize, dscp, server_port, connection: connection.map(Box::new) }
    }

    /// One end of a TCP flow; `None` once the connection is gone.
    pub fn endpoint(&mut self, host: Host) -> Option<&mut Endpoint> {
        self.connection.as_mut().map(|connection| &mut connection.peer(host).endpoint)
    }
}

impl Connection {
    /// Opens both ends without a handshake.
    fn open<O: Observer>(&mut self, observer: &mut O) {
        self.server.endpoint.open(Instant::ZERO, observer);
        self.client.endpoint.open(Instant::ZERO, observer);
    }

    pub fn peer(&mut self, host: Host) -> &mut Peer {
        match host {
            Host::Server => &mut self.server,
            Host::Client => &mut self.client,
        }
    }

    /// True once both ends are done with it.
    pub fn is_over(&self) -> bool {
        let over = |peer: &Peer| matches!(peer.endpoint.phase(), Phase::Closed | Phase::Aborted);
        over(&self.server) && over(&self.client)
    }
}

impl Peer {
    /// What the application has not been told yet.
    pub fn news(&mut self) -> News {
        let received = self.endpoint.received_bytes();
        let ended = self.endpoint.peer_closed() || self.endpoint.phase() == Phase::Aborted;
        News {
            received: (std::mem::replace(&mut self.read, received) < received).then_some(received),
            ended: !std::mem::replace(&mut self.saw_end, ended) && ended,
        }
    }
}

impl Application {
    /// When it wants to act next without being told anything.
    pub fn next_wakeup(&self) -> Option<Instant> {
        match &self.kind {
            Kind::Bulk(_, start) => *start,
            Kind::Udp(source) => source.next_wakeup(),
            Kind::Page(page) => page.next_wakeup(),
            Kind::Web(clients) => clients.next_wakeup(),
            Kind::Short(short) => short.flows.next_wakeup(),
        }
    }
}

/// The applications of a scenario, each with its drawn start.
pub(crate) fn applications(scenario: &Scenario, seed: Seed) -> Vec<Application> {
    let infos = lasthop_traffic::flows(&scenario.flow, scenario.http.as_ref());
    let application = |(config, first, start): (&FlowConfig, FlowId, Instant)| {
        let kind = match config {
            FlowConfig::BulkTcp(bulk) => Kind::Bulk(bulk.clone(), Some(start)),
            FlowConfig::ConstantUdp(udp) => Kind::Udp(ConstantUdp::new(udp, start)),
            FlowConfig::HttpPage(page) => {
                let http = scenario.http.as_ref().expect("a valid scenario says how pages are loaded");
                Kind::Page(PageLoad::new(http, page, start))
            }
            FlowConfig::WebClients(web) => {
                Kind::Web(WebClients::new(web, start, scenario.propagation_up(), seed))
            }
            FlowConfig::ShortFlows(short) => {
                let response = u64::from(short.packets) * u64::from(scenario.segment_bytes());
                Kind::Short(Box::new(Short {
                    flows: scenario.short_flows(short, start, seed),
                    hosts: short.hosts.clone(),
                    request: short.request.0,
                    response,
                }))
            }
        };
        Application { first, kind }
    };
    lasthop_traffic::beginnings(&scenario.flow, &infos, seed).map(application).collect()
}

/// The hosts: what it takes to make a connection.
pub(crate) struct Hosts {
    tcp: TcpConfig,
    mtu: u32,
    server: TickClock,
    client: TickClock,
}

impl Hosts {
    pub fn new(scenario: &Scenario, seed: Seed) -> Self {
        let tcp = &scenario.tcp;
        let clock = |host| {
            let phase = scenario.clock_phase(host, seed) * tcp.clock_period().as_nanos() as f64;
            TickClock::new(tcp.tick, Duration::from_nanos(phase as u64))
        };
        let (server, client) = (clock(Host::Server), clock(Host::Client));
        Self { tcp: tcp.clone(), mtu: scenario.mtu.0 as u32, server, client }
    }

    /// The flows that are known before the run, which are announced.
    pub fn flows<O: Observer>(&self, scenario: &Scenario, observer: &mut O) -> Vec<Flow> {
        let infos = lasthop_traffic::flows(&scenario.flow, scenario.http.as_ref());
        let mut flows = Vec::with_capacity(infos.len());
        for (info, id) in infos.iter().zip((0..).map(FlowId)) {
            observer.announce(info);
            let mut connection = (info.protocol == Protocol::Tcp).then(|| self.connection(&self.tcp, id));
            if let (FlowConfig::WebClients(_), Some(connection)) =
                (&scenario.flow[info.application as usize], &mut connection)
            {
                connection.open(observer);
            }
            flows.push(Flow::new(info, connection));
        }
        flows
    }

    /// A flow that comes later, which is announced.
    pub fn short_flow<O: Observer>(
        &self,
        id: FlowId,
        application: usize,
        hosts: &ShortHosts,
        observer: &mut O,
    ) -> Flow {
        let info = lasthop_traffic::short_flow(id.0 as usize, application as u32, hosts);
        observer.announce(&info);
        let ShortHosts { initial_window, receive_window_initial, .. } = *hosts;
        // A window never shrinks.
        let receive_window_max = self.tcp.receive_window_max.max(receive_window_initial);
        let tcp =
            TcpConfig { initial_window, receive_window_initial, receive_window_max, ..self.tcp.clone() };
        Flow::new(&info, Some(self.connection(&tcp, id)))
    }

    fn connection(&self, config: &TcpConfig, flow: FlowId) -> Connection {
        let peer = |clock, host| Peer {
            endpoint: Endpoint::listen(config, self.mtu, clock, flow, host),
            read: 0,
            saw_end: false,
        };
        Connection { server: peer(self.server, Host::Server), client: peer(self.client, Host::Client) }
    }
}
