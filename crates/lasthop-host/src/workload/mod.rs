//! The applications of a scenario over real sockets: the state machines of the model engine, and the kernel's TCP.

mod diag;
mod http;
mod peer;
mod segments;
mod sender;
mod short;

use crate::clock::Waiter;
use crate::error::{Context, Error};
use crate::features::receive_window_max;
use crate::header::Transport;
use crate::hop::Flows;
use crate::namespace::{HostNamespace, addresses};
use diag::Diag;
use http::Site;
use http::client::Answers;
pub use http::nginx::Nginx;
use lasthop_core::{
    Body, Datagram, Dscp, FlowId, FlowInfo, Host, HttpEvent, Instant, Observer, Packet, Protocol, Seed,
};
use lasthop_scenario::Scenario;
use lasthop_traffic::{Action, BulkConfig, ConstantUdp, FlowConfig, HttpServer, PageLoad};
use nix::sys::epoll::EpollFlags;
use peer::{News, Peer};
use segments::Segments;
use short::Short;
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// The mobile host's port of flow 0 in the first run of a chain, as in captures.
const CLIENT_PORT: u16 = 20_001;
/// Ports of the mobile host that runs of a chain take in turn: those of the last are still in TIME-WAIT.
const CLIENT_PORTS: u32 = 10_000;
/// Below the fixed host's ports for short flows, a port for each entry of the scenario.
const SHORT_PORT: u16 = 10_000;
/// Packets of no flow of the scenario.
pub const STRANGER: FlowId = FlowId(u32::MAX);
/// What sockets are watched for; told when it changes.
const SOCKET_EVENTS: EpollFlags =
    EpollFlags::EPOLLIN.union(EpollFlags::EPOLLOUT).union(EpollFlags::EPOLLRDHUP).union(EpollFlags::EPOLLET);
/// Bytes of a datagram's number in front of its payload, as in captures.
const NUMBER_BYTES: usize = 8;

/// What a watched socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Watched {
    Listener(usize),
    Peer(FlowId, Host),
    Sink(usize),
}

/// An entry of the scenario's list of flows.
struct Application {
    first: FlowId,
    kind: Kind,
}

enum Kind {
    /// When it starts, unless it has.
    Bulk(BulkConfig, Option<Instant>),
    Udp(ConstantUdp),
    Page(PageLoad, Rc<Site>),
    Short(Box<Short>),
}

/// One flow of the run.
struct Flow {
    application: usize,
    server_port: u16,
    client_port: u16,
    ends: Ends,
}

enum Ends {
    Tcp(Box<Connection>),
    /// The server's socket; the client's only reads.
    Udp(Socket),
    /// A short flow that is over.
    Gone,
}

struct Connection {
    server: Peer,
    client: Peer,
    segments: Segments,
    /// Its first SYN was asked for.
    opened: bool,
    /// What the browser reads, and who answers, of a page load.
    answers: Answers,
    served: Option<http::server::Connection>,
}

impl Connection {
    /// Ends without sockets, which advertise windows of so many bytes at most.
    fn new(flow: FlowId, receive_window_max: u32) -> Self {
        Self {
            server: Peer::new(flow, Host::Server, receive_window_max),
            client: Peer::new(flow, Host::Client, receive_window_max),
            segments: Segments::default(),
            opened: false,
            answers: Answers::default(),
            served: None,
        }
    }

    /// Whether both ends are done with it, one that never came to be included.
    fn is_over(&self) -> bool {
        let never = |peer: &Peer| peer.socket().is_none() && !peer.sender.has_been_open();
        let over = |peer: &Peer| peer.sender.is_over() || never(peer);
        self.opened && over(&self.server) && over(&self.client)
    }

    fn peer(&mut self, host: Host) -> &mut Peer {
        match host {
            Host::Server => &mut self.server,
            Host::Client => &mut self.client,
        }
    }
}

/// The applications of one run and their sockets.
pub struct Workload {
    applications: Vec<Application>,
    flows: Vec<Flow>,
    /// Flow by the client's port.
    ports: BTreeMap<u16, FlowId>,
    listeners: Vec<(Socket, Host)>,
    sinks: Vec<Socket>,
    watched: Vec<Watched>,
    first_name: u64,
    /// Of earlier runs of a chain.
    flows_before: usize,
    segment_bytes: u64,
    receive_window_max: u32,
    server: HttpServer,
}

impl Workload {
    /// The applications of a scenario, with the starts that the model engine draws, and with sockets that are ready to
    /// connect. `run` counts the runs of a chain; names from `first_name` on are given to the watched sockets. The
    /// caller is in some network namespace of these afterwards.
    pub fn new(
        scenario: &Scenario,
        seed: Seed,
        run: u32,
        hosts: (&HostNamespace, &HostNamespace),
        (waiter, first_name): (&Waiter, u64),
    ) -> Result<Self, Error> {
        let infos = lasthop_traffic::flows(&scenario.flow, scenario.http.as_ref());
        if infos.len() as u32 > CLIENT_PORTS {
            return Err(Error::new(format!("the live engine has ports for {CLIENT_PORTS} flows")));
        }
        let mut workload = Self {
            applications: applications(scenario, seed, &infos)?,
            flows: Vec::new(),
            ports: BTreeMap::new(),
            listeners: Vec::new(),
            sinks: Vec::new(),
            watched: Vec::new(),
            first_name,
            server: scenario.http.as_ref().map(|http| http.server).unwrap_or_default(),
            flows_before: run as usize * infos.len(),
            segment_bytes: u64::from(scenario.segment_bytes()),
            receive_window_max: receive_window_max(scenario),
        };
        for (flow, info) in infos.iter().enumerate() {
            let client_port = workload.client_port(flow);
            workload.add(FlowId(flow as u32), info, client_port, hosts, waiter)?;
        }
        hosts.0.enter()?;
        for index in 0..workload.applications.len() {
            workload.listen_short(index, waiter)?;
        }
        // Where short flows come from.
        hosts.1.enter()?;
        Ok(workload)
    }

    /// The mobile host's port of the flow with this number.
    fn client_port(&self, flow: usize) -> u16 {
        CLIENT_PORT + ((self.flows_before + flow) % CLIENT_PORTS as usize) as u16
    }

    fn add(
        &mut self,
        id: FlowId,
        info: &FlowInfo,
        client_port: u16,
        (server, client): (&HostNamespace, &HostNamespace),
        waiter: &Waiter,
    ) -> Result<(), Error> {
        let server_address = SocketAddr::from((addresses(Host::Server).0, info.server_port));
        let client_address = SocketAddr::from((addresses(Host::Client).0, client_port));
        let application = info.application as usize;
        let cannot = format!("cannot make the sockets of flow {:?}", info.name);
        let ends = if info.protocol == Protocol::Udp {
            client.enter()?;
            let sink = datagram_socket(client_address, info).context(&cannot)?;
            let name = self.name(Watched::Sink(self.sinks.len()));
            waiter.watch(&sink, EpollFlags::EPOLLIN, name)?;
            self.sinks.push(sink);
            server.enter()?;
            let socket = datagram_socket(server_address, info).context(&cannot)?;
            socket.connect(&SockAddr::from(client_address)).context(&cannot)?;
            Ends::Udp(socket)
        } else {
            let mut connection = Connection::new(id, self.receive_window_max);
            // Who connects, and where the other listens.
            let (host, from, to) = match self.applications[application].kind {
                Kind::Page(..) => (Host::Client, client_address, server_address),
                _ => (Host::Server, server_address, client_address),
            };
            let (own, other) = if host == Host::Server { (server, client) } else { (client, server) };
            other.enter()?;
            if host == Host::Client && self.server == HttpServer::Nginx {
                let diag = Rc::new(Diag::open().context("cannot ask the kernel about nginx' connections")?);
                connection.server.leave_to_another(diag, to, from);
            } else {
                self.listen(host, to, info.dscp, waiter).context(&cannot)?;
            }
            own.enter()?;
            let socket = peer::socket(from, info.dscp).context(&cannot)?;
            connection.peer(host).open(socket);
            Ends::Tcp(Box::new(connection))
        };
        self.ports.insert(client_port, id);
        self.flows.push(Flow { application, server_port: info.server_port, client_port, ends });
        Ok(())
    }

    /// Listens at `address`, unless that is done already, for connections from `host`.
    fn listen(&mut self, host: Host, address: SocketAddr, dscp: Dscp, waiter: &Waiter) -> io::Result<()> {
        let same =
            |listener: &Socket| listener.local_addr().is_ok_and(|bound| bound.as_socket() == Some(address));
        if self.listeners.iter().any(|(listener, from)| *from == host && same(listener)) {
            return Ok(());
        }
        let listener = peer::socket(address, dscp)?;
        listener.listen(libc::SOMAXCONN)?;
        let name = self.name(Watched::Listener(self.listeners.len()));
        waiter.watch(&listener, EpollFlags::EPOLLIN, name)?;
        self.listeners.push((listener, host));
        Ok(())
    }

    fn name(&mut self, watched: Watched) -> u64 {
        self.watched.push(watched);
        self.first_name + self.watched.len() as u64 - 1
    }

    /// When an application wants to act next.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let wakeup = |application: &Application| match &application.kind {
            Kind::Bulk(_, start) => *start,
            Kind::Udp(source) => source.next_wakeup(),
            Kind::Page(page, _) => page.next_wakeup(),
            Kind::Short(short) => short.flows.next_wakeup(),
        };
        self.applications.iter().filter_map(wakeup).min()
    }

    /// Whether no application has anything left to do, and no connection is open.
    pub fn is_done(&self) -> bool {
        let over = |flow: &Flow| match &flow.ends {
            Ends::Tcp(tcp) => !tcp.opened || tcp.is_over(),
            Ends::Udp(_) | Ends::Gone => true,
        };
        self.next_wakeup().is_none() && self.flows.iter().all(over)
    }

    /// Lets the applications act whose time has come.
    pub fn wake<O: Observer>(
        &mut self,
        now: Instant,
        waiter: &Waiter,
        observer: &mut O,
    ) -> Result<(), Error> {
        for index in 0..self.applications.len() {
            let Application { first, kind } = &mut self.applications[index];
            let first = *first;
            match kind {
                Kind::Bulk(config, start) => {
                    if start.take_if(|start| *start <= now).is_some() {
                        let (bytes, write) = (config.bytes.0, config.write.map(|write| write.0));
                        self.connect(first, Host::Server, waiter)?;
                        let write = write.unwrap_or(self.segment_bytes);
                        let server = self.peer(first, Host::Server);
                        server.write(bytes, write);
                        server.close();
                    }
                }
                Kind::Udp(source) => {
                    let Ends::Udp(socket) = &self.flows[first.0 as usize].ends else { continue };
                    while let Some(datagram) = source.poll_transmit(now) {
                        send_datagram(socket, datagram).context("cannot send a datagram")?;
                    }
                }
                Kind::Page(page, _) => {
                    if page.next_wakeup().is_some_and(|due| due <= now) {
                        page.handle_wakeup(now);
                        self.carry_out(now, index, waiter, observer)?;
                    }
                }
                Kind::Short(_) => self.start_short(now, index, waiter, observer)?,
            }
        }
        Ok(())
    }

    /// A watched socket is ready.
    pub fn ready<O: Observer>(
        &mut self,
        now: Instant,
        name: u64,
        waiter: &Waiter,
        observer: &mut O,
    ) -> Result<(), Error> {
        match self.watched[(name - self.first_name) as usize] {
            Watched::Listener(index) => self.accept(now, index, waiter, observer),
            Watched::Peer(flow, host) => {
                let Ends::Tcp(connection) = &mut self.flows[flow.0 as usize].ends else { return Ok(()) };
                connection.peer(host).flush();
                match &mut connection.served {
                    Some(served) if host == Host::Server => served.poll(),
                    _ => {
                        self.tell_application(now, flow, host, waiter, observer)?;
                        // What packets have changed was seen when they arrived; only the end may come without one.
                        if !self.peer(flow, host).has_ended() {
                            return Ok(());
                        }
                    }
                }
                self.peer(flow, host).look(now, observer);
                self.retire(now, flow, observer);
                Ok(())
            }
            Watched::Sink(index) => {
                let mut byte = [std::mem::MaybeUninit::uninit(); 1];
                while self.sinks[index].recv(&mut byte).is_ok() {}
                Ok(())
            }
        }
    }

    fn accept<O: Observer>(
        &mut self,
        now: Instant,
        index: usize,
        waiter: &Waiter,
        observer: &mut O,
    ) -> Result<(), Error> {
        while let Ok((socket, from)) = self.listeners[index].0.accept() {
            let (listener, connecting) = &self.listeners[index];
            let port = match connecting {
                Host::Client => from.as_socket().map(|address| address.port()),
                Host::Server => listener.local_addr()?.as_socket().map(|address| address.port()),
            };
            let host = connecting.other();
            let Some(flow) = port.and_then(|port| self.ports.get(&port).copied()) else { continue };
            socket.set_nonblocking(true)?;
            socket.set_tcp_nodelay(true)?;
            let name = self.name(Watched::Peer(flow, host));
            let Flow { application, ends, .. } = &mut self.flows[flow.0 as usize];
            let Ends::Tcp(connection) = ends else { continue };
            let socket = connection.peer(host).open(socket);
            waiter.watch(socket, SOCKET_EVENTS, name)?;
            if let Kind::Page(_, site) = &self.applications[*application].kind {
                connection.served = Some(http::server::Connection::new(Rc::clone(site), Rc::clone(socket)));
            }
            connection.peer(host).look(now, observer);
        }
        Ok(())
    }

    fn connect(&mut self, flow: FlowId, host: Host, waiter: &Waiter) -> Result<(), Error> {
        let Flow { server_port, client_port, .. } = self.flows[flow.0 as usize];
        let to = match host {
            Host::Server => SocketAddr::from((addresses(Host::Client).0, client_port)),
            Host::Client => SocketAddr::from((addresses(Host::Server).0, server_port)),
        };
        self.connect_to(flow, host, to, waiter)
    }

    fn connect_to(&mut self, flow: FlowId, host: Host, to: SocketAddr, waiter: &Waiter) -> Result<(), Error> {
        let name = self.name(Watched::Peer(flow, host));
        let Ends::Tcp(connection) = &mut self.flows[flow.0 as usize].ends else { return Ok(()) };
        connection.opened = true;
        let peer = connection.peer(host);
        peer.connect(to)?;
        let socket = peer.socket().expect("it is connecting");
        Ok(waiter.watch(socket, SOCKET_EVENTS, name)?)
    }

    fn peer(&mut self, flow: FlowId, host: Host) -> &mut Peer {
        match &mut self.flows[flow.0 as usize].ends {
            Ends::Tcp(connection) => connection.peer(host),
            Ends::Udp(_) | Ends::Gone => unreachable!("only open TCP flows have peers"),
        }
    }

    fn tell_application<O: Observer>(
        &mut self,
        now: Instant,
        flow: FlowId,
        host: Host,
        waiter: &Waiter,
        observer: &mut O,
    ) -> Result<(), Error> {
        let Flow { application, ends, .. } = &mut self.flows[flow.0 as usize];
        let (index, Ends::Tcp(connection)) = (*application, ends) else { return Ok(()) };
        if let Kind::Short(_) = self.applications[index].kind {
            return self.tell_short(now, flow, host, observer);
        }
        let Application { first, kind } = &mut self.applications[index];
        let Connection { client, server, answers, .. } = &mut **connection;
        let peer = if host == Host::Client { client } else { server };
        match kind {
            Kind::Bulk(..) => {
                let News { ended, .. } = peer.news(|_| Ok(()))?;
                if ended && host == Host::Client {
                    peer.close();
                }
            }
            Kind::Page(page, _) => {
                let News { received, ended } = peer.news(|bytes| answers.read(bytes))?;
                let connection = flow.0 - first.0;
                if let Some(bytes) = received {
                    page.handle_responses(now, connection, bytes);
                }
                if ended {
                    page.handle_server_closed(now, connection);
                }
                self.carry_out(now, index, waiter, observer)?;
            }
            Kind::Udp(_) | Kind::Short(_) => {}
        }
        Ok(())
    }

    /// Does what a page load wants done.
    fn carry_out<O: Observer>(
        &mut self,
        now: Instant,
        index: usize,
        waiter: &Waiter,
        observer: &mut O,
    ) -> Result<(), Error> {
        let mut asked = 0;
        loop {
            let Application { first, kind: Kind::Page(page, site) } = &mut self.applications[index] else {
                return Ok(());
            };
            let first = first.0;
            let Some(action) = page.poll_action() else { return Ok(()) };
            match action {
                Action::Report { connection, event } => {
                    if let HttpEvent::Request { object, .. } = event {
                        asked = object;
                    }
                    observer.http(now, FlowId(first + connection), event);
                }
                Action::Connect { connection } => {
                    self.connect(FlowId(first + connection), Host::Client, waiter)?;
                }
                Action::Write { connection, .. } => {
                    let answer = site.answers[asked as usize].clone();
                    let flow = &mut self.flows[(first + connection) as usize];
                    if let Ends::Tcp(connection) = &mut flow.ends {
                        connection.client.write_text(answer.request.clone());
                        connection.answers.expect(answer);
                    }
                }
                Action::Close { connection, host } => self.peer(FlowId(first + connection), host).close(),
            }
        }
    }

    /// The server has the first `bytes` of the requests on a connection. It writes and closes by itself; the observer
    /// is told what it answers, before any packet of the answer is seen.
    fn tell_answers<O: Observer>(&mut self, now: Instant, flow: FlowId, bytes: u64, observer: &mut O) {
        let Application { first, kind } = &mut self.applications[self.flows[flow.0 as usize].application];
        let Kind::Page(page, _) = kind else { return };
        page.handle_requests(flow.0 - first.0, bytes);
        while let Some(action) = page.poll_action() {
            if let Action::Report { connection, event } = action {
                observer.http(now, FlowId(first.0 + connection), event);
            }
        }
    }
}

impl Flows for Workload {
    fn identify<O: Observer>(
        &mut self,
        now: Instant,
        sender: Host,
        transport: &Transport<'_>,
        observer: &mut O,
    ) -> (FlowId, u16, Body) {
        let (server_port, client_port) = transport.server_and_client_port(sender);
        let stranger = (STRANGER, server_port, Body::Udp(Datagram::default()));
        let Some(id) = self.ports.get(&client_port).copied() else { return stranger };
        let flow = &mut self.flows[id.0 as usize];
        let body = match (&mut flow.ends, transport) {
            (Ends::Tcp(connection), Transport::Tcp(header, payload_bytes)) => {
                let (segment, again) = connection.segments.read(sender, header, *payload_bytes);
                connection.peer(sender).sends(now, &segment, again, observer);
                if sender == Host::Server {
                    // The SYN has offset 0.
                    self.tell_answers(now, id, segment.ack.saturating_sub(1), observer);
                }
                Body::Tcp(segment)
            }
            (Ends::Udp(_), Transport::Udp(_, payload)) => Body::Udp(datagram(payload)),
            _ => return stranger,
        };
        if server_port == self.flows[id.0 as usize].server_port { (id, server_port, body) } else { stranger }
    }

    fn arrived<O: Observer>(&mut self, now: Instant, host: Host, packet: &Packet, observer: &mut O) {
        if let Some(Flow { ends: Ends::Tcp(connection), .. }) = self.flows.get_mut(packet.flow.0 as usize) {
            connection.peer(host).look(now, observer);
            self.retire(now, packet.flow, observer);
        }
    }
}

/// Refuses flows for which there are no sockets here.
pub fn needs_sockets(scenario: &Scenario) -> Result<(), Error> {
    let model_only = |flow: &&FlowConfig| matches!(flow, FlowConfig::WebClients(_));
    scenario.flow.iter().find(model_only).map_or(Ok(()), |flow| {
        let kinds = "bulk-tcp, constant-udp, http-page and short-flows";
        Err(Error::new(format!(
            "the flow {:?} runs on the model engine only; engines with a real TCP have {kinds}",
            flow.name()
        )))
    })
}

fn applications(scenario: &Scenario, seed: Seed, infos: &[FlowInfo]) -> Result<Vec<Application>, Error> {
    let mut pair = 1;
    let application = |(config, first, start): (&FlowConfig, FlowId, Instant)| {
        let kind = match config {
            FlowConfig::BulkTcp(bulk) => Kind::Bulk(bulk.clone(), Some(start)),
            FlowConfig::ConstantUdp(udp) => Kind::Udp(ConstantUdp::new(udp, start)),
            FlowConfig::HttpPage(page) => {
                let http = scenario.http.as_ref().expect("a valid scenario says how pages are loaded");
                Kind::Page(PageLoad::new(http, page, start), Rc::new(Site::new(http, page)?))
            }
            FlowConfig::ShortFlows(config) => {
                let flows = scenario.short_flows(config, start, seed);
                let port = SHORT_PORT + pair;
                let short = Short::new(scenario, config, flows, pair as u8, port);
                pair += config.hosts.len() as u16;
                Kind::Short(Box::new(short))
            }
            FlowConfig::WebClients(_) => unreachable!("refused before"),
        };
        Ok(Application { first, kind })
    };
    lasthop_traffic::beginnings(&scenario.flow, infos, seed).map(application).collect()
}

fn datagram_socket(address: SocketAddr, info: &FlowInfo) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    socket.set_tos_v4(u32::from(info.dscp.get()) << 2)?;
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

fn send_datagram(socket: &Socket, datagram: Datagram) -> io::Result<()> {
    let mut payload = vec![0; datagram.payload_bytes as usize];
    let number = datagram.number.to_be_bytes();
    let shown = payload.len().min(NUMBER_BYTES);
    payload[..shown].copy_from_slice(&number[NUMBER_BYTES - shown..]);
    match socket.send(&payload) {
        // An ICMP error of an earlier one; this one is sent all the same.
        Err(error) if error.raw_os_error() != Some(libc::ECONNREFUSED) => Err(error),
        _ => Ok(()),
    }
}

fn datagram(payload: &[u8]) -> Datagram {
    let shown = &payload[..payload.len().min(NUMBER_BYTES)];
    let number = shown.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Datagram { number, payload_bytes: payload.len() as u32 }
}
