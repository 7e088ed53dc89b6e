//! The connections of real programs. The data direction of a flow, that of most of its payload, is known only at the
//! end. Therefore events are recorded, and reported at the end.

use super::diag::Diag;
use super::peer::Peer;
use super::segments::Segments;
use crate::error::{Context, Error};
use crate::header::{Headers, Transport};
use crate::hop::Flows;
use crate::namespace::HostNamespace;
use lasthop_core::{
    Body, Datagram, Dscp, Duration, Ecn, FlowId, FlowInfo, Host, Instant, Observer, Packet, PacketEvent,
    Part, Protocol, TransportEvent,
};
use lasthop_traffic::TransferConfig;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

#[cfg(test)]
mod tests;

/// Protocol, and the addresses of the server and of the client.
type FiveTuple = (u8, SocketAddr, SocketAddr);

/// All connections of a run, and access to the hosts' kernels for information about them.
#[derive(Debug)]
pub struct Connections {
    /// Access to the kernel of each host, with the host's addresses.
    kernels: Vec<([IpAddr; 2], Rc<Diag>)>,
    /// The names of transfers, and how long they send, by their servers' addresses.
    transfers: Vec<([IpAddr; 2], String, Option<Duration>)>,
    flows: Vec<Conversation>,
    /// The latest connection between these ends.
    latest: BTreeMap<FiveTuple, FlowId>,
}

/// A TCP connection, or datagrams between the same ports.
#[derive(Debug)]
struct Conversation {
    /// The index of its transfer, if it belongs to one.
    transfer: Option<usize>,
    server_port: u16,
    dscp: Dscp,
    /// The data that each host has sent, the server first.
    payload_bytes: [u64; 2],
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Tcp(Box<Tcp>),
    /// Datagrams that each host has sent.
    Udp([u64; 2]),
}

#[derive(Debug)]
struct Tcp {
    peers: [Peer; 2],
    segments: Segments,
    /// The ends that have opened their stream, and the ends whose stream has ended.
    opened: [bool; 2],
    ended: [bool; 2],
}

impl Connections {
    /// Without connections yet. The caller is in the network namespace of the last of these hosts afterwards.
    pub fn between(hosts: &[HostNamespace]) -> Result<Self, Error> {
        let kernel = |host: &HostNamespace| {
            host.enter()?;
            let kernel = Diag::open().context("cannot query the kernel's connections")?;
            Ok::<_, Error>((host.address.all(), Rc::new(kernel)))
        };
        Ok(Self::known_to(hosts.iter().map(kernel).collect::<Result<_, _>>()?))
    }

    fn known_to(kernels: Vec<([IpAddr; 2], Rc<Diag>)>) -> Self {
        Self { kernels, transfers: Vec::new(), flows: Vec::new(), latest: BTreeMap::new() }
    }

    /// Names the connections to these servers, one for each transfer, after the transfers.
    #[must_use]
    pub fn of_transfers(mut self, servers: &[HostNamespace], transfers: &[TransferConfig]) -> Self {
        let named = servers.iter().zip(transfers);
        let known = |(server, own): (&HostNamespace, &TransferConfig)| {
            (server.address.all(), own.name.clone(), own.duration)
        };
        self.transfers = named.map(known).collect();
        self
    }

    /// The kernel of the host with this address; that of the first host for packets that no host receives.
    fn kernel_of(&self, address: IpAddr) -> Rc<Diag> {
        let kernel = self.kernels.iter().find(|(own, _)| own.contains(&address));
        Rc::clone(&kernel.unwrap_or(&self.kernels[0]).1)
    }

    /// The properties of the connections, as flows of these applications, by their numbers here. Connections
    /// that were never accepted are left out. The first connection of a transfer has its name.
    pub fn flows(&self, applications: &[u32]) -> BTreeMap<FlowId, FlowInfo> {
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut name = |flow: &Conversation| {
            let transfer = flow.transfer.map(|index| self.transfers[index].1.as_str());
            let word = transfer.unwrap_or_else(|| match flow.protocol() {
                Protocol::Tcp => "tcp",
                Protocol::Udp | Protocol::Quic | Protocol::QuicDatagrams => "udp",
            });
            let number = numbers.entry(word).or_default();
            *number += 1;
            if transfer.is_some() && *number == 1 { word.to_owned() } else { format!("{word}-{number}") }
        };
        let accepted = (0..).map(FlowId).zip(&self.flows).filter(|(_, flow)| flow.is_accepted());
        let info = |(id, flow): (FlowId, &Conversation)| {
            let sends_for = flow.transfer.and_then(|index| self.transfers[index].2);
            (id, FlowInfo { sends_for, ..flow.info(name(flow), applications[id.0 as usize]) })
        };
        accepted.map(info).collect()
    }

    /// The connection of a segment; a new one if the segment opens it.
    fn of_segment(&mut self, ends: FiveTuple, opens: bool, dscp: Dscp) -> Option<FlowId> {
        let existing = self.latest.get(&ends).copied();
        let is_over = |id: FlowId| match &self.flows[id.0 as usize].kind {
            Kind::Tcp(tcp) => tcp.ended == [true; 2],
            Kind::Udp(_) => false,
        };
        match existing {
            Some(id) if !(opens && is_over(id)) => Some(id),
            None if !opens => None,
            _ => Some(self.add(ends, dscp)),
        }
    }

    fn add(&mut self, ends: FiveTuple, dscp: Dscp) -> FlowId {
        let id = FlowId(self.flows.len() as u32);
        let (protocol, server, client) = ends;
        let kind = if protocol == TCP {
            let mut peers = [Host::Server, Host::Client].map(|host| Peer::new(id, host, 0));
            peers[0].leave_to_another(self.kernel_of(server.ip()), server, client);
            peers[1].leave_to_another(self.kernel_of(client.ip()), client, server);
            Kind::Tcp(Box::new(Tcp {
                peers,
                segments: Segments::default(),
                opened: [false; 2],
                ended: [false; 2],
            }))
        } else {
            Kind::Udp([0; 2])
        };
        let transfer = self.transfers.iter().position(|(own, ..)| own.contains(&server.ip()));
        let server_port = server.port();
        self.flows.push(Conversation { transfer, server_port, dscp, payload_bytes: [0; 2], kind });
        self.latest.insert(ends, id);
        id
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

impl Conversation {
    fn protocol(&self) -> Protocol {
        match self.kind {
            Kind::Tcp(_) => Protocol::Tcp,
            Kind::Udp(_) => Protocol::Udp,
        }
    }

    /// True if both ends have opened it, if it is a connection.
    fn is_accepted(&self) -> bool {
        match &self.kind {
            Kind::Tcp(tcp) => tcp.opened == [true; 2],
            Kind::Udp(_) => true,
        }
    }

    fn info(&self, name: String, application: u32) -> FlowInfo {
        let [server, client] = self.payload_bytes;
        FlowInfo {
            name,
            application,
            group: None,
            is_control: false,
            protocol: self.protocol(),
            sender: if client > server { Host::Client } else { Host::Server },
            offered_bytes: None,
            sends_for: None,
            dscp: self.dscp,
            ecn: Ecn::NotEct,
            server_port: self.server_port,
            part: Part::Whole,
        }
    }

    fn body<O: Observer>(
        &mut self,
        now: Instant,
        sender: Host,
        transport: &Transport<'_>,
        observer: &mut O,
    ) -> Body {
        let own = sender as usize;
        let body = match (&mut self.kind, transport) {
            (Kind::Tcp(tcp), Transport::Tcp(header, payload_bytes)) => {
                let (segment, again) = tcp.segments.read(sender, header, *payload_bytes);
                tcp.peers[own].sends(now, &segment, again, observer);
                tcp.opened[own] |= header.syn();
                tcp.ended[own] |= header.fin();
                if header.rst() {
                    tcp.ended = [true; 2];
                }
                Body::Tcp(segment)
            }
            (Kind::Udp(sent), Transport::Udp(_, payload)) => {
                let number = sent[own];
                sent[own] += 1;
                Body::Udp(Datagram { number, payload_bytes: payload.len() as u32 })
            }
            _ => unreachable!("its ends tell the protocol"),
        };
        self.payload_bytes[own] += u64::from(body.payload_bytes());
        body
    }
}

impl Flows for Connections {
    /// Unused: the owner determines the hosts.
    fn sender(&self, _host: usize, _headers: &Headers<'_>) -> Option<Host> {
        None
    }

    fn way(&self, _flow: FlowId) -> (u32, usize) {
        (0, 0)
    }

    fn identify<O: Observer>(
        &mut self,
        now: Instant,
        sender: Host,
        headers: &Headers<'_>,
        observer: &mut O,
    ) -> (FlowId, u16, Body) {
        let (server_port, client_port) = headers.transport.server_and_client_port(sender);
        let (source, destination) = headers.addresses;
        let (server, client) =
            if sender == Host::Server { (source, destination) } else { (destination, source) };
        let ends = |protocol| -> FiveTuple {
            (protocol, (server, server_port).into(), (client, client_port).into())
        };
        let id = match &headers.transport {
            Transport::Tcp(header, _) => {
                self.of_segment(ends(TCP), header.syn() && !header.ack(), headers.dscp)
            }
            Transport::Udp(..) => {
                let ends = ends(UDP);
                Some(self.latest.get(&ends).copied().unwrap_or_else(|| self.add(ends, headers.dscp)))
            }
            Transport::Other | Transport::Fragment => None,
        };
        match id {
            Some(id) => {
                let body = self.flows[id.0 as usize].body(now, sender, &headers.transport, observer);
                (id, server_port, body)
            }
            None => (FlowId::stranger(0), server_port, Body::Udp(Datagram::default())),
        }
    }

    fn arrived<O: Observer>(&mut self, now: Instant, host: Host, packet: &Packet, observer: &mut O) {
        if let Some(Conversation { kind: Kind::Tcp(tcp), .. }) = self.flows.get_mut(packet.flow.0 as usize) {
            tcp.peers[host as usize].look(now, observer);
        }
    }
}

/// A recording of the events of a run, for an observer that can be informed only at its end.
#[derive(Debug, Default)]
pub struct Tape(Vec<(Instant, TapeEvent)>);

#[derive(Debug)]
enum TapeEvent {
    Packet(PacketEvent, Box<Packet>),
    Transport(FlowId, Host, TransportEvent),
}

/// Packet events, and the events that count packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
}

impl Counts {
    fn add(&mut self, event: PacketEvent) {
        self.events += 1;
        match event {
            PacketEvent::Sent => self.sent += 1,
            PacketEvent::Delivered => self.delivered += 1,
            PacketEvent::Dropped(_) => self.dropped += 1,
            _ => {}
        }
    }
}

impl Tape {
    /// Reports all events of these flows, in order, with new flow numbers; counts those of other flows.
    pub fn play<O: Observer>(self, flows: &BTreeMap<FlowId, FlowInfo>, observer: &mut O) -> Counts {
        for info in flows.values() {
            observer.announce(info);
        }
        let numbers: BTreeMap<FlowId, FlowId> = flows.keys().copied().zip((0..).map(FlowId)).collect();
        let mut others = Counts::default();
        for (now, entry) in self.0 {
            match entry {
                TapeEvent::Packet(event, mut packet) => {
                    if let Some(number) = numbers.get(&packet.flow) {
                        packet.flow = *number;
                        observer.packet(now, event, &packet);
                    } else {
                        others.add(event);
                    }
                }
                TapeEvent::Transport(flow, host, event) => {
                    if let Some(number) = numbers.get(&flow) {
                        observer.transport(now, *number, host, event);
                    }
                }
            }
        }
        others
    }
}

impl Observer for Tape {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if !packet.flow.is_stranger() {
            self.0.push((now, TapeEvent::Packet(event, Box::new(packet.clone()))));
        }
    }

    fn transport(&mut self, now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        self.0.push((now, TapeEvent::Transport(flow, host, event)));
    }
}
