//! Requests to the kernel by netlink: links, addresses and routes of a network namespace.

use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_CREATE, NLM_F_ECHO, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// Limit of packets that wait for the emulator: large, because the models' LAN has no limit.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;
const NETWORK_BITS: u8 = 24;
/// A reply to one request, with room to spare.
const REPLY_BYTES: usize = 8192;

#[derive(Clone, Copy, Debug)]
pub enum Destination {
    /// The default route of the family of this address.
    Any(IpAddr),
    Host(Ipv4Addr),
    /// All hosts whose addresses share the first three bytes with this one.
    Network(Ipv4Addr),
}

/// Opens a socket for requests of this protocol, in the caller's network namespace.
pub fn connect(protocol: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// Sends a request, and returns the single message of the answer.
pub fn exchange<Q: NetlinkSerializable, A: NetlinkDeserializable>(
    socket: &Socket,
    request: Q,
    flags: u16,
) -> io::Result<NetlinkPayload<A>> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut reply = vec![0; REPLY_BYTES];
    let length = socket.recv(&mut &mut reply[..], 0)?;
    match NetlinkMessage::deserialize(&reply[..length]).map_err(io::Error::other)?.payload {
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
        payload => Ok(payload),
    }
}

/// A netlink socket, which changes the network namespace that it was opened in.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: connect(NETLINK_ROUTE)? })
    }

    pub fn up(&self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Sets the MTU and the length of the device's queue, and makes packets go directly to the device: a
    /// default queue discipline would drop, mark or pace them.
    pub fn configure(&self, index: u32, mtu: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = vec![LinkAttribute::Mtu(mtu), LinkAttribute::TxQueueLen(DEVICE_QUEUE_PACKETS)];
        // Without multicast on the link there are no group joins.
        link.header.change_mask = LinkFlags::Multicast;
        self.request(RouteNetlinkMessage::SetLink(link), 0)?;
        self.discipline(index, "noqueue")
    }

    /// Sets the queue discipline of a link, with its defaults.
    pub fn discipline(&self, index: u32, kind: &str) -> io::Result<()> {
        let mut qdisc = TcMessage::with_index(index.cast_signed());
        qdisc.header.parent = TcHandle::ROOT;
        qdisc.attributes = vec![TcAttribute::Kind(kind.into())];
        self.replace(RouteNetlinkMessage::NewQueueDiscipline(qdisc))
    }

    /// Gives a link an address, without duplicate address detection.
    pub fn address(&self, index: u32, address: IpAddr, prefix_length: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix_length;
        message.header.scope = AddressScope::Universe;
        message.header.index = index;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        if address.is_ipv6() {
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    pub fn route(&self, index: u32, to: Destination, metrics: &[RouteMetric]) -> io::Result<()> {
        let mut route = RouteMessage::default();
        let family_of = match to {
            Destination::Any(source) => source,
            Destination::Host(host) => {
                route.header.destination_prefix_length = u32::BITS as u8;
                route.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(host)));
                host.into()
            }
            Destination::Network(address) => {
                route.header.destination_prefix_length = NETWORK_BITS;
                let network = address.to_bits() & !(u32::MAX >> NETWORK_BITS);
                route.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(network.into())));
                address.into()
            }
        };
        route.header.address_family = family(family_of);
        route.header.table = netlink_packet_route::route::RouteHeader::RT_TABLE_MAIN;
        route.header.protocol = RouteProtocol::Static;
        route.header.scope = if family_of.is_ipv4() { RouteScope::Link } else { RouteScope::Universe };
        route.header.kind = RouteType::Unicast;
        route.attributes.push(RouteAttribute::Oif(index));
        if !metrics.is_empty() {
            route.attributes.push(RouteAttribute::Metrics(metrics.to_vec()));
        }
        self.request(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_EXCL)
    }

    pub fn replace(&self, request: RouteNetlinkMessage) -> io::Result<()> {
        self.request(request, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// The number of packets in the queue discipline of a link, and of those that it has dropped so far.
    pub fn waiting_and_dropped(&self, index: u32, discipline: TcHandle) -> io::Result<(u32, u32)> {
        let mut question = TcMessage::with_index(index.cast_signed());
        question.header.handle = discipline;
        // The answer is a notification to listeners; the requester gets an echo of it (`qdisc_get_notify`).
        let question = RouteNetlinkMessage::GetQueueDiscipline(question);
        let reply = exchange(&self.socket, question, NLM_F_ECHO)?;
        let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(answer)) = reply else {
            return Err(io::Error::other("the kernel sent no answer about a queue discipline"));
        };
        let statistics = answer.attributes.iter().flat_map(|attribute| match attribute {
            TcAttribute::Stats2(statistics) => &statistics[..],
            _ => &[],
        });
        let mut queue = statistics.filter_map(|statistics| match statistics {
            TcStats2::Queue(queue) => Some((queue.qlen, queue.drops)),
            _ => None,
        });
        queue
            .next()
            .ok_or_else(|| io::Error::other("the kernel does not report the drops of a queue discipline"))
    }

    fn request(&self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        exchange::<_, RouteNetlinkMessage>(&self.socket, request, NLM_F_ACK | flags).map(drop)
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// The bytes of attributes, as the content of another one.
pub fn nested(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}
