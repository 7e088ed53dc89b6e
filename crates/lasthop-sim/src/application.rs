//! The applications of a run, and the TCP connections they may open.

use lasthop_core::{Dscp, Duration, FlowId, FlowInfo, Host, Instant, Observer, Protocol, Seed};
use lasthop_scenario::Scenario;
use lasthop_tcp::{Endpoint, Phase, TcpConfig, TickClock};
use lasthop_traffic::{BulkConfig, ConstantUdp, FlowConfig, PageLoad, WebClients};

/// An entry of the scenario's list of flows.
pub(crate) struct Application {
    /// The first of its flows; the others follow it.
    pub first: FlowId,
    pub kind: Kind,
}

pub(crate) enum Kind {
    /// When it starts, unless it has.
    Bulk(BulkConfig, Option<Instant>),
    Udp(ConstantUdp),
    Page(PageLoad),
    Web(WebClients),
}

/// One flow of the run.
pub(crate) struct Flow {
    /// Index of its application.
    pub application: usize,
    /// Of its packets.
    pub dscp: Dscp,
    pub server_port: u16,
    /// The ends of a TCP connection.
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
        }
    }
}

/// The applications of a scenario, each with its drawn start, and their flows, which are announced.
pub(crate) fn applications<O: Observer>(
    scenario: &Scenario,
    seed: Seed,
    observer: &mut O,
) -> (Vec<Application>, Vec<Flow>) {
    let clocks = Clocks::new(&scenario.tcp, seed);
    let mtu = scenario.mtu.0 as u32;
    let infos = lasthop_traffic::flows(&scenario.flow, scenario.http.as_ref());
    for info in &infos {
        observer.announce(info);
    }
    let mut flow = |(id, info): (u32, &FlowInfo)| {
        let mut connection = (info.protocol == Protocol::Tcp)
            .then(|| Box::new(clocks.connection(&scenario.tcp, mtu, FlowId(id))));
        if let (FlowConfig::WebClients(_), Some(connection)) =
            (&scenario.flow[info.application as usize], &mut connection)
        {
            connection.open(observer);
        }
        let FlowInfo { application, dscp, server_port, .. } = *info;
        Flow { application: application as usize, dscp, server_port, connection }
    };
    let application = |(index, config): (usize, &FlowConfig)| {
        let mut stream = seed.stream(&format!("start.flow{index}"));
        let start = Instant::ZERO + config.start().sampler().sample(&mut stream);
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
        };
        let first = infos.iter().take_while(|info| (info.application as usize) < index).count();
        Application { first: FlowId(first as u32), kind }
    };
    let applications = scenario.flow.iter().enumerate().map(application).collect();
    (applications, (0..).zip(&infos).map(&mut flow).collect())
}

/// The hosts' tick clocks. Hosts do not boot in step: each phase is drawn once per replication, unless the hosts
/// share one clock.
struct Clocks {
    server: TickClock,
    client: TickClock,
}

impl Clocks {
    fn new(config: &TcpConfig, seed: Seed) -> Self {
        let clock = |stream| {
            if config.common_clock {
                return TickClock::new(config.tick, Duration::ZERO);
            }
            let phase = seed.stream(stream).unit() * config.tick.as_nanos() as f64;
            TickClock::new(config.tick, Duration::from_nanos(phase as u64))
        };
        Self { server: clock("clock.server"), client: clock("clock.client") }
    }

    fn connection(&self, config: &TcpConfig, mtu: u32, flow: FlowId) -> Connection {
        let peer = |clock, host| Peer {
            endpoint: Endpoint::listen(config, mtu, clock, flow, host),
            read: 0,
            saw_end: false,
        };
        Connection { server: peer(self.server, Host::Server), client: peer(self.client, Host::Client) }
    }
}
