//! The applications of a scenario over real sockets: the model engine's state machines, the kernel's TCP.

mod connections;
mod diag;
mod http;
mod later;
mod mptcp;
mod peer;
mod postponed;
mod quic;
mod relay;
mod segments;
mod sender;

use crate::calls::{self, Call};
use crate::clock::{NextWait, Waiter};
use crate::emulator::HostFlows;
use crate::error::{Context, Error};
use crate::features::receive_window_max;
use crate::header::{Headers, Transport};
use crate::hop::Flows;
use crate::hosts::Hosts;
use crate::namespace::HostNamespace;
use crate::tun::Tun;
pub use connections::{Connections, Counts, Tape};
use diag::Diag;
use http::Site;
use http::client::Answers;
pub use http::nginx::Nginx;
use lasthop_core::{
    Body, Datagram, Dscp, FlowId, FlowInfo, Host, Instant, News, Observer, Packet, Part, Protocol, Seed,
};
use lasthop_quic::QuicConfig;
use lasthop_scenario::{Flow as FlowEntry, HostPair, Scenario};
use lasthop_tcp::{Pacing, TcpConfig};
use lasthop_traffic::{Action, Application as _, Content, HttpServer, Instance, Program};
use later::Later;
use mptcp::Subflows;
use nix::sys::epoll::EpollFlags;
use peer::{Peer, Sending};
use postponed::Postponed;
pub use quic::needs_plain_quic;
use relay::Relay;
use segments::Segments;
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// The client's port of flow 0 in the first run of a chain, as in captures.
const CLIENT_PORT: u16 = 20_001;
/// Sets of client ports that the runs of a chain use in turn: those of the last run are still in TIME-WAIT.
const CLIENT_PORTS: u32 = 10_000;
const SOCKET_EVENTS: EpollFlags =
    EpollFlags::EPOLLIN.union(EpollFlags::EPOLLOUT).union(EpollFlags::EPOLLRDHUP).union(EpollFlags::EPOLLET);
/// Length of a datagram's number at the start of its payload, as in captures.
const NUMBER_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Watched {
    Listener(usize),
    Peer(FlowId, Host),
    /// An end of a UDP flow whose datagrams are discarded.
    Sink(FlowId, Host),
    /// An end of a UDP flow whose datagrams are passed to the application.
    Datagrams(FlowId, Host),
    Quic(FlowId, Host),
}

/// An entry of the scenario's list of flows.
struct Application {
    program: Program,
    /// Its flows, indexed by the numbers that it gives them.
    flows: Vec<FlowId>,
    /// The ends of its flows, the server's first.
    sides: [Endpoint; 2],
    later: Later,
    /// The objects of a page load.
    site: Option<Rc<Site>>,
    quic: Option<Rc<QuicConfig>>,
    /// True if it makes requests, so that both ends of its flows send and receive.
    asks: bool,
    /// The path of the first subflow, if MPTCP carries its flows.
    mptcp: Option<usize>,
}

impl Application {
    /// Takes another flow, and returns the number that it has here.
    fn takes(&mut self, id: FlowId) -> u32 {
        self.flows.push(id);
        self.flows.len() as u32 - 1
    }
}

/// The current time, with the waiter and the observer for the actions of applications and sockets.
pub struct Turn<'a, O> {
    pub now: Instant,
    pub waiter: &'a Waiter,
    pub observer: &'a mut O,
}

/// One end of all flows of an application.
#[derive(Clone, Copy)]
struct Endpoint {
    host: usize,
    /// The largest window that it advertises, in bytes.
    receive_window_max: u32,
    /// True if segments that it sends may span writes.
    joins_writes: bool,
}

struct Flow {
    /// Index of its application, and its number there.
    application: usize,
    number: u32,
    /// The number of its host pair; there are several per application with relays.
    pair: usize,
    part: Part,
    server: SocketAddr,
    client: SocketAddr,
    /// Its index among the paths of its application.
    way: usize,
    /// True if it was opened during the run; it is removed once it is over.
    passes: bool,
    ends: FlowEnds,
}

impl Flow {
    /// A flow that lasts for the whole run, on the first path of its application. The server's address is
    /// first.
    fn new(
        (application, number): (usize, u32),
        pair: usize,
        part: Part,
        [server, client]: [SocketAddr; 2],
        ends: FlowEnds,
    ) -> Self {
        Self { application, number, pair, part, server, client, way: 0, passes: false, ends }
    }
}

enum FlowEnds {
    Tcp(Box<TcpConnection>),
    /// The server's end first.
    Udp(Box<[UdpEnd; 2]>),
    Quic(Box<[quic::End; 2]>),
    /// A flow through a relay; both its sides follow.
    Relayed(Box<Relay>),
    Gone,
}

struct UdpEnd {
    socket: Rc<Socket>,
    /// Number of datagrams that it has sent.
    sent: u64,
}

struct TcpConnection {
    /// The server's end first.
    peers: [Peer; 2],
    segments: Segments,
    /// True if its first SYN was requested.
    opened: bool,
    /// For a page load: the browser's parser, and the server.
    answers: Option<Answers>,
    served: Option<http::server::HttpConnection>,
}

impl TcpConnection {
    fn new(flow: FlowId, sides: &[Endpoint; 2], of_page: bool) -> Self {
        let peer = |host| Peer::new(flow, host, sides[host as usize].receive_window_max);
        Self {
            peers: [Host::Server, Host::Client].map(peer),
            segments: Segments::default(),
            opened: false,
            answers: of_page.then(Answers::default),
            served: None,
        }
    }

    /// True if both ends have finished it; an end that never existed counts as finished.
    fn is_over(&self) -> bool {
        let never = |peer: &Peer| peer.socket.is_none() && !peer.sender.has_been_open();
        let over = |peer: &Peer| peer.sender.is_over() || never(peer);
        self.opened && self.peers.iter().all(over)
    }

    fn peer(&mut self, host: Host) -> &mut Peer {
        &mut self.peers[host as usize]
    }
}

pub struct Workload<'a> {
    /// The hosts, and the one in whose network namespace this process is.
    hosts: &'a [HostNamespace],
    inside: usize,
    applications: Vec<Application>,
    host_pairs: Vec<[Endpoint; 2]>,
    /// The buffer of the relay of each application's flows.
    buffers: Vec<u64>,
    flows: Vec<Flow>,
    /// Flow by the client's port.
    ports: BTreeMap<u16, FlowId>,
    subflows: Subflows,
    /// Listening sockets, with the end that connects and the host that listens.
    listeners: Vec<(Socket, Host, usize)>,
    watched: Vec<Watched>,
    first_name: u64,
    /// Sockets of earlier runs of a chain.
    flows_before: usize,
    server: HttpServer,
    /// By host.
    sending: Vec<Sending>,
    quic: quic::QuicSetup,
    flows_over_quic: Vec<FlowId>,
    /// The QUIC ends that an application has just acted on.
    touched: Vec<(FlowId, Host)>,
    postponed: Option<Postponed>,
    /// Buffer for data that is discarded.
    unread: [Vec<u8>; 2],
}

impl<'a> Workload<'a> {
    /// The applications of a scenario, with the starts that the model engine draws, and with sockets that are
    /// ready to connect, on these hosts. `run` counts the runs of a chain. If `qlog`, QUIC writes logs.
    /// Watched sockets get names from `first_name` on. The caller is in the network namespace of one of the
    /// hosts afterwards.
    pub fn new(
        scenario: &Scenario,
        seed: Seed,
        (run, qlog): (u32, bool),
        (namespaces, hosts): (&'a [HostNamespace], &Hosts<'_>),
        (waiter, first_name): (&Waiter, u64),
    ) -> Result<Self, Error> {
        let (instances, infos) = (scenario.applications(), scenario.flows());
        if infos.len() as u32 > CLIENT_PORTS {
            return Err(Error::new(format!("the live engine supports at most {CLIENT_PORTS} flows")));
        }
        let buffer = |instance: &Instance<'_>| {
            scenario.flow[instance.entry].relay.as_ref().map_or(0, |relay| relay.buffer.0)
        };
        let sending = |(tcp, mptcp): (&TcpConfig, bool)| Sending {
            paced: tcp.pacing == Pacing::Socket,
            nagle: tcp.nagle,
            mptcp,
        };
        let mut workload = Self {
            hosts: namespaces,
            inside: usize::MAX,
            applications: applications(scenario, seed, hosts)?,
            host_pairs: host_pairs(scenario, hosts),
            buffers: instances.iter().map(buffer).collect(),
            flows: Vec::new(),
            ports: BTreeMap::new(),
            subflows: Subflows::default(),
            listeners: Vec::new(),
            watched: Vec::new(),
            first_name,
            server: scenario.http.as_ref().map(|http| http.server).unwrap_or_default(),
            flows_before: run as usize * infos.len(),
            sending: hosts.tcps().zip(hosts.have_mptcp()).map(sending).collect(),
            quic: quic::QuicSetup { mtu: scenario.mtu, seed, log: qlog },
            flows_over_quic: Vec::new(),
            touched: Vec::new(),
            postponed: None,
            unread: [vec![0; peer::READ_BYTES], vec![0; peer::READ_BYTES]],
        };
        for (flow, info) in infos.iter().enumerate() {
            let id = FlowId(flow as u32);
            match info.part {
                Part::Subflow { of, .. } => workload.add_subflow(id, info, of)?,
                Part::Relayed => workload.add_relayed(id, info),
                part => {
                    let application = workload.application_of(id, info);
                    let caller = instances[application].config.traffic().caller(info.sender);
                    workload.add(id, info, (application, part), caller, waiter)?;
                }
            }
        }
        for index in 0..workload.applications.len() {
            workload.listen_later(index, waiter)?;
        }
        Ok(workload)
    }

    fn host_of(&self, flow: FlowId, end: Host) -> usize {
        let pair = self.flows.get(flow.0 as usize).map(|flow| flow.pair);
        self.host_pairs[pair.unwrap_or(flow.application_of_stranger() as usize)][end as usize].host
    }

    /// An application between whose hosts a packet of no flow is sent, by this end.
    fn between(&self, sender: Host, headers: &Headers<'_>) -> Option<u32> {
        let (source, destination) = headers.addresses;
        let has = |side: &Endpoint, address| self.hosts[side.host].address.shares_network(address);
        let is_it = |[server, client]: &[Endpoint; 2]| {
            let [own, other] = if sender == Host::Server { [server, client] } else { [client, server] };
            has(own, source) && has(other, destination)
        };
        self.host_pairs.iter().position(is_it).map(|pair| pair as u32)
    }

    fn enter(&mut self, host: usize) -> Result<(), Error> {
        if std::mem::replace(&mut self.inside, host) != host {
            self.hosts[host].enter()?;
        }
        Ok(())
    }

    /// The client's port of the flow with this number.
    fn client_port(&self, flow: usize) -> u16 {
        CLIENT_PORT + ((self.flows_before + flow) % CLIENT_PORTS as usize) as u16
    }

    /// The application of a flow, also of a side.
    fn application_of(&self, id: FlowId, info: &FlowInfo) -> usize {
        let whole = info.part.relay_end().map(|end| id.whole(end));
        whole.map_or(info.application as usize, |whole| self.flows[whole.0 as usize].application)
    }

    /// Adds a flow that goes through a relay; its sides follow.
    fn add_relayed(&mut self, id: FlowId, info: &FlowInfo) {
        let application = info.application as usize;
        let number = self.applications[application].takes(id);
        let ends = FlowEnds::Relayed(Box::new(Relay::new(self.buffers[application])));
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        self.flows.push(Flow::new((application, number), application, info.part, [nowhere; 2], ends));
    }

    fn add(
        &mut self,
        id: FlowId,
        info: &FlowInfo,
        (application, part): (usize, Part),
        caller: Host,
        waiter: &Waiter,
    ) -> Result<(), Error> {
        let pair = info.application as usize;
        let sides = self.host_pairs[pair];
        let is_relay = |end| part.relay_end() == Some(end);
        let mptcp = self.applications[application].mptcp;
        // Further addresses belong to the host at the edge, so this is the one that connects.
        let caller = if mptcp.is_some() { Host::Client } else { caller };
        let own_address = |end: Host| self.hosts[sides[end as usize].host].address;
        let server_address = SocketAddr::from((own_address(Host::Server).v4(), info.server_port));
        let client_address = own_address(Host::Client).on_way(mptcp.unwrap_or_default()).v4();
        let client_address = SocketAddr::from((client_address, self.client_port(id.0 as usize)));
        let addresses = [server_address, client_address];
        let cannot = format!("cannot make the sockets of flow {:?}", info.name);
        let quic = self.applications[application].quic.clone();
        let ends = if let Some(config) = quic {
            self.add_quic(id, info, &config, (addresses, sides), waiter)?
        } else if info.protocol == Protocol::Udp {
            self.add_udp(id, info, (addresses, sides), waiter)?
        } else {
            let of_page = self.applications[application].site.is_some();
            let mut connection = TcpConnection::new(id, &sides, of_page);
            if mptcp.is_some() {
                connection.peers.iter_mut().for_each(Peer::has_several);
            }
            let [from, to] = [caller, caller.other()].map(|end| addresses[end as usize]);
            let [own, other] = [caller, caller.other()].map(|end| sides[end as usize].host);
            self.enter(other)?;
            if of_page && self.server == HttpServer::Nginx && !is_relay(Host::Server) {
                let diag = Rc::new(Diag::open().context("cannot query the kernel for nginx' connections")?);
                connection.peer(Host::Server).leave_to_another(diag, to, from);
            } else {
                self.listen((caller, other), to, info.dscp, waiter).context(&cannot)?;
            }
            self.enter(own)?;
            let socket = peer::socket(from, info.dscp, self.sending[own]).context(&cannot)?;
            if info.sends_for.is_some() && caller == info.sender && !is_relay(caller) {
                peer::limit_unsent(&socket).context(&cannot)?;
            }
            connection.peer(caller).open(socket);
            FlowEnds::Tcp(Box::new(connection))
        };
        self.ports.insert(client_address.port(), id);
        let number = if let Some(end) = part.relay_end() {
            self.flows[id.whole(end).0 as usize].number
        } else {
            self.applications[application].takes(id)
        };
        self.flows.push(Flow::new((application, number), pair, part, addresses, ends));
        Ok(())
    }

    fn add_udp(
        &mut self,
        id: FlowId,
        info: &FlowInfo,
        (addresses, sides): ([SocketAddr; 2], [Endpoint; 2]),
        waiter: &Waiter,
    ) -> Result<FlowEnds, Error> {
        let cannot = format!("cannot make the sockets of flow {:?}", info.name);
        let asks = self.applications[info.application as usize].asks;
        // The receiver's socket comes first, so that nothing is sent to a closed port.
        let mut ends = [info.sender.other(), info.sender].map(|end| {
            self.enter(sides[end as usize].host)?;
            let socket = datagram_socket(addresses[end as usize], info).context(&cannot)?;
            if asks {
                let name = self.name(Watched::Datagrams(id, end));
                waiter.watch(&socket, EpollFlags::EPOLLIN, name)?;
            } else if end != info.sender {
                let name = self.name(Watched::Sink(id, end));
                waiter.watch(&socket, EpollFlags::EPOLLIN, name)?;
                return Ok(socket);
            }
            socket.connect(&SockAddr::from(addresses[end.other() as usize])).context(&cannot)?;
            Ok(socket)
        });
        if info.sender == Host::Server {
            ends.reverse();
        }
        let [server, client] = ends
            .map(|end: Result<Socket, Error>| end.map(|socket| UdpEnd { socket: Rc::new(socket), sent: 0 }));
        Ok(FlowEnds::Udp(Box::new([server?, client?])))
    }

    /// Listens at `address` of a host, unless it does already, for connections from this end.
    fn listen(
        &mut self,
        (caller, host): (Host, usize),
        address: SocketAddr,
        dscp: Dscp,
        waiter: &Waiter,
    ) -> io::Result<()> {
        let same =
            |listener: &Socket| listener.local_addr().is_ok_and(|bound| bound.as_socket() == Some(address));
        if self.listeners.iter().any(|(listener, from, of)| (*from, *of) == (caller, host) && same(listener))
        {
            return Ok(());
        }
        // Accepted sockets inherit these options.
        let listener = peer::socket(address, dscp, self.sending[host])?;
        listener.listen(libc::SOMAXCONN)?;
        let name = self.name(Watched::Listener(self.listeners.len()));
        waiter.watch(&listener, EpollFlags::EPOLLIN, name)?;
        self.listeners.push((listener, caller, host));
        Ok(())
    }

    fn name(&mut self, watched: Watched) -> u64 {
        self.watched.push(watched);
        self.first_name + self.watched.len() as u64 - 1
    }

    pub fn next_wakeup(&self) -> Option<Instant> {
        let programs = self.applications.iter().filter_map(|application| application.program.next_wakeup());
        programs.chain(self.next_quic_wakeup()).min()
    }

    /// True if no application has anything left to do, and no connection is open. A QUIC connection has
    /// timers until it is over.
    pub fn is_done(&self) -> bool {
        let over = |flow: &Flow| match &flow.ends {
            FlowEnds::Tcp(tcp) => !tcp.opened || tcp.is_over(),
            FlowEnds::Udp(..) | FlowEnds::Quic(_) | FlowEnds::Relayed(_) | FlowEnds::Gone => true,
        };
        self.next_wakeup().is_none() && self.flows.iter().all(over)
    }

    /// Lets due applications and QUIC ends act. Their last action may be postponed if the owner `waits` then.
    pub fn wake<O: Observer>(&mut self, turn: &mut Turn<'_, O>, waits: bool) -> Result<(), Error> {
        for index in 0..self.applications.len() {
            let program = &mut self.applications[index].program;
            if program.next_wakeup().is_some_and(|due| due <= turn.now) {
                program.handle_wakeup(turn.now);
                self.carry_out(turn, index)?;
            }
        }
        if !(waits && calls::are_batched() && self.flows_over_quic.is_empty()) {
            self.send_postponed()?;
        }
        self.wake_quic(turn)
    }

    pub fn ready<O: Observer>(&mut self, turn: &mut Turn<'_, O>, name: u64) -> Result<(), Error> {
        match self.watched[(name - self.first_name) as usize] {
            Watched::Listener(index) => self.accept(turn, index),
            Watched::Peer(flow, host) if self.relayed(flow, host).is_some() => {
                self.arrived_at_relay(turn.now, flow, host, turn.observer)
            }
            Watched::Peer(flow, host) => {
                let FlowEnds::Tcp(connection) = &mut self.flows[flow.0 as usize].ends else { return Ok(()) };
                connection.peer(host).flush();
                match &mut connection.served {
                    Some(served) if host == Host::Server => served.poll(),
                    _ => {
                        self.tell_application(turn, flow, host)?;
                        // Changes by packets were handled on arrival; only a connection's end may come
                        // without one.
                        if !self.peer(flow, host).told_end {
                            return Ok(());
                        }
                    }
                }
                self.peer(flow, host).look(turn.now, turn.observer);
                self.retire(turn.now, flow, turn.observer);
                Ok(())
            }
            Watched::Sink(flow, host) => {
                while self.read_two(flow, host).iter().all(Option::is_some) {}
                Ok(())
            }
            Watched::Datagrams(flow, host) => loop {
                let read = self.read_two(flow, host);
                for Datagram { number, payload_bytes } in read.into_iter().flatten() {
                    let Flow { application, number: own, .. } = self.flows[flow.0 as usize];
                    let (datagram, bytes) = (number as u32, u64::from(payload_bytes));
                    let program = &mut self.applications[application].program;
                    program.handle_stream(turn.now, own, host, datagram, bytes);
                    self.carry_out(turn, application)?;
                    self.send_postponed()?;
                }
                if read.contains(&None) {
                    return Ok(());
                }
            },
            Watched::Quic(flow, host) => self.read_datagrams(turn, flow, host),
        }
    }

    /// Reads up to two datagrams that have arrived at an end of a UDP flow.
    fn read_two(&mut self, flow: FlowId, host: Host) -> [Option<Datagram>; 2] {
        let FlowEnds::Udp(ends) = &self.flows[flow.0 as usize].ends else { return [None; 2] };
        let [first, second] = &mut self.unread;
        let read = Call::read_all(&*ends[host as usize].socket, [&mut first[..], &mut second[..]]);
        let [one, other] = calls::make(read);
        [
            one.ok().map(|length| datagram(&first[..length])),
            other.ok().map(|length| datagram(&second[..length])),
        ]
    }

    fn accept<O: Observer>(&mut self, turn: &mut Turn<'_, O>, index: usize) -> Result<(), Error> {
        while let Ok((socket, from)) = self.listeners[index].0.accept() {
            let (listener, connecting, _) = &self.listeners[index];
            let port = match connecting {
                Host::Client => from.as_socket().map(|address| address.port()),
                Host::Server => listener.local_addr()?.as_socket().map(|address| address.port()),
            };
            let host = connecting.other();
            let Some(flow) = port.and_then(|port| self.ports.get(&port).copied()) else { continue };
            let whole = self.relayed(flow, host);
            socket.set_nonblocking(true)?;
            socket.set_tcp_nodelay(listener.tcp_nodelay()?)?;
            let name = self.name(Watched::Peer(flow, host));
            let Flow { application, ends, .. } = &mut self.flows[flow.0 as usize];
            let FlowEnds::Tcp(connection) = ends else { continue };
            let socket = connection.peer(host).open(socket);
            turn.waiter.watch(socket, SOCKET_EVENTS, name)?;
            if let Some(site) = self.applications[*application].site.as_ref().filter(|_| whole.is_none()) {
                connection.served =
                    Some(http::server::HttpConnection::new(Rc::clone(site), Rc::clone(socket)));
            }
            connection.peer(host).look(turn.now, turn.observer);
            if let Some(whole) = whole {
                self.connect_onward(whole, host, turn.waiter)?;
            }
        }
        Ok(())
    }

    fn peer(&mut self, flow: FlowId, host: Host) -> &mut Peer {
        match &mut self.flows[flow.0 as usize].ends {
            FlowEnds::Tcp(connection) => connection.peer(host),
            FlowEnds::Udp(..) | FlowEnds::Quic(_) | FlowEnds::Relayed(_) | FlowEnds::Gone => {
                unreachable!("only open TCP flows have peers")
            }
        }
    }

    fn tell_application<O: Observer>(
        &mut self,
        turn: &mut Turn<'_, O>,
        flow: FlowId,
        host: Host,
    ) -> Result<(), Error> {
        let Flow { application, number, ends, .. } = &mut self.flows[flow.0 as usize];
        let (index, FlowEnds::Tcp(connection)) = (*application, ends) else { return Ok(()) };
        let TcpConnection { peers, answers, .. } = &mut **connection;
        let peer = &mut peers[host as usize];
        let news = peer.news(|bytes| answers.as_mut().map_or(Ok(()), |answers| answers.read(bytes)))?;
        if news.is_none() {
            return Ok(());
        }
        if let Some(bytes) = peer.read_of_several() {
            turn.observer.read(turn.now, flow, host, bytes, news.ended);
        }
        self.applications[index].program.handle_news(turn.now, *number, host, news);
        self.carry_out(turn, index)?;
        self.send_postponed()
    }

    fn carry_out<O: Observer>(&mut self, turn: &mut Turn<'_, O>, index: usize) -> Result<(), Error> {
        while let Some(action) = self.applications[index].program.poll_action() {
            self.tell(turn.now, index, action, turn.observer);
            self.send_postponed()?;
            if self.act_over_quic(turn, index, action) {
                continue;
            }
            match action {
                Action::Open { hosts, is_control, .. } => {
                    self.open(index, hosts, is_control, turn.observer)?;
                }
                Action::Connect { flow, host } => {
                    self.connect(self.end_of(index, flow, host), host, turn.waiter)?;
                }
                Action::Write { flow, host, bytes, write_bytes, content } => {
                    self.write(self.end_of(index, flow, host), host, (bytes, write_bytes), content)?;
                }
                Action::Send { .. } => unreachable!("only QUIC has streams"),
                Action::Stop { flow, host } => self.peer(self.end_of(index, flow, host), host).stop(),
                Action::Close { flow, host } => self.peer(self.end_of(index, flow, host), host).close(),
                Action::Report { .. }
                | Action::Play { .. }
                | Action::Exchange { .. }
                | Action::Transport { .. }
                | Action::Complete { .. } => {}
            }
        }
        self.flush_quic(turn)
    }

    /// Reports an action to the observer.
    fn tell<O: Observer>(&self, now: Instant, index: usize, action: Action, observer: &mut O) {
        match action {
            Action::Write { flow, host, bytes, .. } | Action::Send { flow, host, bytes, .. } => {
                observer.written(now, self.flow_of(index, flow), host, bytes);
            }
            Action::Report { flow, event } => observer.http(now, self.flow_of(index, flow), event),
            Action::Play { flow, event } => observer.playback(now, self.flow_of(index, flow), event),
            Action::Exchange { flow, event } => observer.exchange(now, self.flow_of(index, flow), event),
            Action::Transport { flow, host, event } => {
                observer.transport(now, self.flow_of(index, flow), host, event);
            }
            Action::Complete { flow } => observer.completed(now, self.flow_of(index, flow)),
            Action::Open { .. } | Action::Connect { .. } | Action::Stop { .. } | Action::Close { .. } => {}
        }
    }

    fn flow_of(&self, index: usize, number: u32) -> FlowId {
        self.applications[index].flows[number as usize]
    }

    fn connect(&mut self, flow: FlowId, host: Host, waiter: &Waiter) -> Result<(), Error> {
        let Flow { server, client, ends, application, .. } = &mut self.flows[flow.0 as usize];
        let is_multipath = self.applications[*application].mptcp.is_some();
        let host = if is_multipath { Host::Client } else { host };
        let to = if host == Host::Server { *client } else { *server };
        let FlowEnds::Tcp(connection) = ends else { return Ok(()) };
        connection.opened = true;
        let peer = connection.peer(host);
        peer.connect(to)?;
        let socket = Rc::clone(peer.socket.as_ref().expect("it is connecting"));
        let name = self.name(Watched::Peer(flow, host));
        Ok(waiter.watch(&*socket, SOCKET_EVENTS, name)?)
    }

    /// Writes `bytes`, in writes of `write` bytes; a request is written as its complete text.
    fn write(
        &mut self,
        flow: FlowId,
        host: Host,
        (bytes, write_bytes): (u64, u64),
        content: Content,
    ) -> Result<(), Error> {
        let Flow { application, ends, .. } = &mut self.flows[flow.0 as usize];
        let Application { site, sides, .. } = &self.applications[*application];
        match (ends, content, site) {
            (FlowEnds::Tcp(connection), Content::Request(object), Some(site)) => {
                let answer = site.answers[object as usize].clone();
                connection.peer(host).write_text(answer.request.clone());
                connection.answers.get_or_insert_default().expect(answer);
            }
            (FlowEnds::Tcp(connection), ..) => {
                let joined = sides[host as usize].joins_writes;
                connection.peer(host).write(bytes, write_bytes, joined);
            }
            (FlowEnds::Udp(ends), ..) => {
                let sent = &mut ends[host as usize].sent;
                let first = *sent;
                *sent += bytes.div_ceil(write_bytes);
                for (number, start) in (first..).zip((0..bytes).step_by(write_bytes as usize)) {
                    let payload_bytes = write_bytes.min(bytes - start) as u32;
                    self.send_postponed()?;
                    self.postpone_sending(flow, host, payload(Datagram { number, payload_bytes }));
                }
            }
            (FlowEnds::Quic(_) | FlowEnds::Relayed(_) | FlowEnds::Gone, ..) => {}
        }
        Ok(())
    }

    /// The server has received the first `bytes` of the requests on a connection. It writes and closes by
    /// itself. The observer is informed of its response before it sees a packet of the response.
    fn tell_answers<O: Observer>(&mut self, now: Instant, flow: FlowId, bytes: u64, observer: &mut O) {
        let Flow { application: index, number, .. } = self.flows[flow.0 as usize];
        let application = &mut self.applications[index];
        if application.site.is_none() {
            return;
        }
        let news = News { received: Some(bytes), ended: false, ..News::default() };
        application.program.handle_news(now, number, Host::Server, news);
        while let Some(action) = self.applications[index].program.poll_action() {
            self.tell(now, index, action, observer);
        }
    }
}

impl HostFlows for Workload<'_> {
    fn receiver(&self, end: Host, packet: &Packet, _bytes: &[u8]) -> usize {
        self.host_of(packet.flow, end)
    }

    fn hand_over(
        &mut self,
        host: Host,
        packet: &Packet,
        tun: &Tun,
        bytes: &[u8],
        next: Option<NextWait<'_>>,
    ) -> bool {
        match self.flows.get_mut(packet.flow.0 as usize) {
            Some(Flow { ends: FlowEnds::Tcp(connection), .. }) => {
                connection.peer(host).hand_over(tun, bytes, next)
            }
            _ => tun.write_and_look(bytes, next),
        }
    }
}

impl Flows for Workload<'_> {
    fn sender(&self, host: usize, headers: &Headers<'_>) -> Option<Host> {
        // A host may be the server of one flow and the client of another.
        let is_of_flow = |end: &Host| {
            let (server_port, client_port) = headers.transport.server_and_client_port(*end);
            self.ports.get(&client_port).is_some_and(|flow| {
                let is_server = self.flows[flow.0 as usize].server.port() == server_port;
                is_server && self.host_of(*flow, *end) == host
            })
        };
        let ends = [Host::Server, Host::Client];
        let is_of_subflow = |end: &Host| {
            let flow = self.subflow_of(*end, headers);
            flow.is_some_and(|flow| self.host_of(flow, *end) == host)
        };
        let is_of_application = |end: &Host| self.between(*end, headers).is_some();
        let application = ends.into_iter().find(is_of_subflow).or_else(|| ends.into_iter().find(is_of_flow));
        application.or_else(|| ends.into_iter().find(is_of_application))
    }

    fn way(&self, flow: FlowId) -> (u32, usize) {
        let Flow { pair, way, .. } = self.flows[flow.0 as usize];
        (pair as u32, way)
    }

    fn identify<O: Observer>(
        &mut self,
        now: Instant,
        sender: Host,
        headers: &Headers<'_>,
        observer: &mut O,
    ) -> (FlowId, u16, Body) {
        let transport = &headers.transport;
        let (server_port, client_port) = transport.server_and_client_port(sender);
        let stranger = (
            FlowId::stranger(self.between(sender, headers).unwrap_or_default()),
            server_port,
            Body::Udp(Datagram::default()),
        );
        let subflow = self.subflow_of(sender, headers).or_else(|| self.join(sender, headers));
        let Some(id) = subflow.or_else(|| self.ports.get(&client_port).copied()) else { return stranger };
        let flow = &mut self.flows[id.0 as usize];
        let body = match (&mut flow.ends, transport) {
            (FlowEnds::Tcp(connection), Transport::Tcp(header, payload_bytes)) => {
                let (segment, again) = connection.segments.read(sender, header, *payload_bytes);
                connection.peer(sender).sends(now, &segment, again, observer);
                if sender == Host::Server && self.relayed(id, sender).is_none() {
                    // The SYN has offset 0.
                    self.tell_answers(now, id, segment.ack.saturating_sub(1), observer);
                }
                Body::Tcp(segment)
            }
            (FlowEnds::Udp(..), Transport::Udp(_, payload)) => Body::Udp(datagram(payload)),
            (FlowEnds::Quic(ends), Transport::Udp(_, payload)) => {
                match ends[sender as usize].identify(payload) {
                    Some(datagram) => Body::Quic(datagram),
                    None => return stranger,
                }
            }
            _ => return stranger,
        };
        if server_port == self.flows[id.0 as usize].server.port() {
            (id, server_port, body)
        } else {
            stranger
        }
    }

    fn arrived<O: Observer>(&mut self, now: Instant, host: Host, packet: &Packet, observer: &mut O) {
        if self.relayed(packet.flow, host).is_some() {
            // An error would show again when the socket is ready.
            let _ = self.arrived_at_relay(now, packet.flow, host, observer);
            return;
        }
        match (self.flows.get_mut(packet.flow.0 as usize).map(|flow| &mut flow.ends), &packet.body) {
            (Some(FlowEnds::Tcp(connection)), _) => {
                connection.peer(host).look(now, observer);
                self.retire(now, packet.flow, observer);
            }
            (Some(FlowEnds::Quic(ends)), Body::Quic(datagram)) => ends[host as usize].arrived(datagram),
            _ => {}
        }
    }
}

/// Rejects flows that sockets cannot make.
pub fn needs_sockets(scenario: &Scenario) -> Result<(), Error> {
    let model_only = |flow: &&FlowEntry| flow.traffic().is_open_at_first();
    scenario.flow.iter().find(model_only).map_or(Ok(()), |flow| {
        Err(Error::new(format!(
            "the flow {:?} has kind = \"web-clients\", whose connections are open from the start, which real \
             TCP does not support; use --engine model",
            flow.traffic().name()
        )))
    })
}

fn applications(scenario: &Scenario, seed: Seed, hosts: &Hosts<'_>) -> Result<Vec<Application>, Error> {
    let mut first = 1;
    let application = |((instance, program), ends): ((Instance<'_>, Program), &[usize; 2])| {
        let config = instance.config;
        let quic = scenario.flow[instance.entry].quic().map(Rc::new);
        let site = match (config.page(), &scenario.http) {
            (Some(page), Some(http)) if quic.is_none() => Some(Rc::new(Site::new(http, page)?)),
            _ => None,
        };
        let later = Later::new(config.traffic().later_flows(), first);
        first += config.traffic().later_flows().len() as u8;
        let flow = &scenario.flow[instance.entry];
        let sides = sides(scenario, (flow, Part::Whole), ends);
        let first_way = || scenario.ways(flow).iter().position(|way| Some(way) == flow.via.as_ref());
        let mptcp = flow.mptcp().map(|_| first_way().unwrap_or_default());
        let asks = config.traffic().asks();
        Ok(Application { program, flows: Vec::new(), sides, later, site, quic, asks, mptcp })
    };
    let programs = scenario.applications().into_iter().zip(scenario.programs(seed));
    programs.zip(&hosts.of_pair).map(application).collect()
}

fn host_pairs(scenario: &Scenario, hosts: &Hosts<'_>) -> Vec<[Endpoint; 2]> {
    let host_pairs = scenario.host_pairs();
    let flow = |pair: &HostPair<'_>| (&scenario.flow[pair.instance.entry], pair.part);
    host_pairs.iter().zip(&hosts.of_pair).map(|(pair, ends)| sides(scenario, flow(pair), ends)).collect()
}

fn sides(scenario: &Scenario, (flow, part): (&FlowEntry, Part), ends: &[usize; 2]) -> [Endpoint; 2] {
    [Host::Server, Host::Client].map(|end| {
        let tcp = scenario.tcp_of_part(flow, part, end);
        let (receive_window_max, joins_writes) = (receive_window_max(scenario, tcp), tcp.joins_writes());
        Endpoint { host: ends[end as usize], receive_window_max, joins_writes }
    })
}

fn datagram_socket(address: SocketAddr, info: &FlowInfo) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    socket.set_tos_v4(u32::from(info.dscp.get()) << 2 | u32::from(info.ecn.bits()))?;
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

fn payload(datagram: Datagram) -> Vec<u8> {
    let mut payload = vec![0; datagram.payload_bytes as usize];
    let number = datagram.number.to_be_bytes();
    let length = payload.len().min(NUMBER_BYTES);
    payload[..length].copy_from_slice(&number[NUMBER_BYTES - length..]);
    payload
}

fn datagram(payload: &[u8]) -> Datagram {
    let bytes = &payload[..payload.len().min(NUMBER_BYTES)];
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Datagram { number, payload_bytes: payload.len() as u32 }
}
