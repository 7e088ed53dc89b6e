//! One end of a QUIC connection: one stream in both directions, a stream for each message and its answer, or
//! datagrams.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant as StdInstant;

use bytes::{Bytes, BytesMut};
use lasthop_core::{
    Body, Bytes as Size, Datagram, Duration, Ecn, FlowId, Host, Instant, News, Observer, Packet, PacketArena,
    Protocol, QuicDatagram, RandomStream, RetransmissionKind, SackBlock, Seed, Transport, TransportEvent,
};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent,
    EcnCodepoint, Endpoint, EndpointConfig, Event, MtuDiscoveryConfig, ServerConfig, StreamEvent,
    TransportConfig, VarInt,
};

use crate::config::QuicConfig;
use crate::controller::Watched;
use crate::datagrams::Datagrams;
use crate::flight::Flight;
use crate::qlog::Log;
use crate::random::{self, ConnectionIds, drawing_from};
use crate::streams::{Part, Streams};
use crate::tap::{Note, Notes, Tap, Tapped};
use crate::tls::{Calendar, Identities, SERVER_NAME, Secrets};

const PORT: u16 = 4433;
/// Position of the first byte of data in [`TransportEvent`]s; position 0 is the opening of the stream.
const FIRST_BYTE: u64 = 1;

/// Both ends of a flow, the server's and the client's, over IP packets of up to `mtu` bytes. The client
/// moves at these times, if its connections can migrate. If `log` is set, the ends pass qlog to the observer.
pub fn ends(config: &QuicConfig, mtu: Size, moves: &Moves, seed: Seed, flow: FlowId, log: bool) -> [Quic; 2] {
    let base = StdInstant::now();
    let identities = Identities::new(config.crypto, config.zero_rtt);
    let moves = if config.migration { moves.clone() } else { Moves::default() };
    let pair = |what: &str, log: bool| {
        let [down, up] = [(); 2].map(|()| Rc::new(RefCell::new(Flight::default())));
        let end = |host, flights| {
            let stream = |of: &str| seed.stream(&format!("{what}.{}.{}.{of}", flow.0, host as usize));
            let streams = [stream("tls"), stream("ids"), stream("endpoint")];
            let moves = moves.clone();
            Quic::new(config, mtu, &identities, streams, Place { base, flow, host, moves, flights }, log)
        };
        [end(Host::Server, [Rc::clone(&down), Rc::clone(&up)]), end(Host::Client, [up, down])]
    };
    if config.zero_rtt {
        meet(pair("quic.before", false));
        identities.secrets.take();
    }
    pair("quic", log)
}

/// Completes a handshake before the run, in no time. The ends of the run share their TLS state, so the
/// connecting end then has a session ticket.
fn meet(mut ends: [Quic; 2]) {
    let mut arena = PacketArena::default();
    let id = arena.reserve();
    let packet = arena.get_mut(id);
    ends[0].connect(Instant::ZERO, &mut ());
    let mut is_silent = false;
    while !is_silent {
        is_silent = true;
        for (from, to) in [(0, 1), (1, 0)] {
            while ends[from].poll_transmit(Instant::ZERO, packet, &mut ()) {
                ends[to].handle_packet(Instant::ZERO, packet, &mut ());
                is_silent = false;
            }
        }
    }
}

/// When the client gets another address or port.
#[derive(Clone, Debug, Default)]
pub struct Moves {
    /// The times, in order.
    pub at: Rc<[Instant]>,
    /// False if the host moves to another address. True if only its port changes, and behind its back: a NAT
    /// has forgotten the port.
    pub rebinds: bool,
}

/// Time and addresses of an end.
struct Place {
    /// The time zero of the run.
    base: StdInstant,
    flow: FlowId,
    host: Host,
    moves: Moves,
    /// The datagrams that it sends, and those sent to it.
    flights: [Rc<RefCell<Flight>>; 2],
}

impl Place {
    fn std(&self, now: Instant) -> StdInstant {
        self.base + std::time::Duration::from_nanos(now.as_nanos())
    }

    fn virtual_time(&self, instant: StdInstant) -> Instant {
        let passed = instant.saturating_duration_since(self.base);
        Instant::from_nanos(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Number of moves of the client so far.
    fn moved(&self, now: Instant) -> u16 {
        self.moves.at.partition_point(|at| *at <= now) as u16
    }

    /// Address of the other end, for an end with a datagram to or from this address of the client.
    fn peer(&self, address: u16) -> SocketAddr {
        let [high, low] = address.to_be_bytes();
        let (address, port) = match (self.host, self.moves.rebinds) {
            (Host::Server, false) => (Ipv4Addr::new(10, high, low, 2), PORT),
            (Host::Server, true) => (Ipv4Addr::new(10, 0, 0, 2), PORT.wrapping_add(address)),
            (Host::Client, _) => (Ipv4Addr::new(10, 0, 0, 1), PORT),
        };
        SocketAddr::new(IpAddr::V4(address), port)
    }

    /// Address of the client in a datagram that leaves now for `remote`.
    fn address(&self, now: Instant, remote: SocketAddr) -> u16 {
        match (self.host, remote.ip()) {
            (Host::Server, _) if self.moves.rebinds => remote.port().wrapping_sub(PORT),
            (Host::Server, IpAddr::V4(address)) => {
                let [_, high, low, _] = address.octets();
                u16::from_be_bytes([high, low])
            }
            _ => self.moved(now),
        }
    }
}

/// One end of a flow over QUIC.
#[allow(clippy::struct_excessive_bools, reason = "independent facts of a connection")]
pub struct Quic {
    place: Place,
    endpoint: Endpoint,
    client: ClientConfig,
    ecn: bool,
    /// Random stream of TLS.
    random: Option<RandomStream>,
    connection: Option<(ConnectionHandle, Connection)>,
    is_caller: bool,
    is_established: bool,
    notes: Notes,
    log: Option<Log>,
    seen: Vec<Note>,
    secrets: Arc<Secrets>,
    wakeup: Option<Instant>,
    /// Moves of the client that quinn knows of.
    moved: u16,
    /// True if a timer has expired, and nothing was polled since, so that its probe has not been seen yet.
    woken: bool,
    /// Consecutive timeouts.
    backoff: u32,
    /// Number of MTU probes seen so far.
    mtu_probes: u64,
    /// Responses that belong to no connection, with the client's address.
    answers: VecDeque<(Vec<u8>, u16)>,
    buffer: Vec<u8>,
    /// The client's address in the datagram being built.
    address: u16,
    streams: Streams,
    /// In place of streams, if it is a connection of datagrams.
    datagrams: Option<Datagrams>,
    /// The time from which it may send datagrams, until the application is informed.
    ready: Option<Instant>,
    /// First position, over all streams, from which on nothing has been sent yet.
    sent: u64,
    /// First position that the other end has not acknowledged.
    acknowledged: u64,
    /// Description of the datagram being built.
    datagram: QuicDatagram,
    reported: u64,
    is_end_told: bool,
    lost: Option<ConnectionError>,
    is_over: bool,
}

impl std::fmt::Debug for Quic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { place, sent, streams, lost, .. } = self;
        f.debug_struct("Quic")
            .field("flow", &place.flow)
            .field("host", &place.host)
            .field("sent", sent)
            .field("received", &streams.received())
            .field("lost", lost)
            .finish_non_exhaustive()
    }
}

impl Quic {
    fn new(
        config: &QuicConfig,
        mtu: Size,
        identities: &Identities,
        streams: [RandomStream; 3],
        place: Place,
        log: bool,
    ) -> Self {
        let [tls, mut ids, mut stream] = streams;
        let notes = Notes::default();
        let log = log.then(|| Log::of(place.host));
        let payload = (mtu.0.min(65_535) as u16) - Datagram::HEADER_BYTES as u16;
        let mut transport = transport_config(config, payload, &notes);
        transport.qlog_stream(log.as_ref().and_then(|log| log.stream(place.base)));
        let transport = Arc::new(transport);
        let token_key = random::bytes::<32>(&mut stream);
        let token_key = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(&token_key);
        let tap = Tap { notes: notes.clone(), log: log.clone() };
        let server = Tapped { inner: Arc::clone(&identities.server), tap: tap.clone() };
        let mut server = ServerConfig::new(Arc::new(server), Arc::new(token_key));
        server.transport_config(Arc::clone(&transport)).time_source(Arc::new(Calendar));
        let client = Tapped { inner: Arc::clone(&identities.client), tap };
        let mut client = ClientConfig::new(Arc::new(client));
        let first_id = ConnectionIds::draw(&mut ids);
        client.transport_config(transport).initial_dst_cid_provider(Arc::new(move || first_id));
        let config_of_endpoint = endpoint_config(&mut stream, ids, payload);
        Self {
            place,
            endpoint: Endpoint::new(Arc::new(config_of_endpoint), Some(Arc::new(server)), true, None),
            client,
            ecn: config.ecn,
            random: Some(tls),
            connection: None,
            is_caller: false,
            is_established: false,
            notes,
            log,
            seen: Vec::new(),
            secrets: Arc::clone(&identities.secrets),
            wakeup: None,
            moved: 0,
            woken: false,
            backoff: 0,
            mtu_probes: 0,
            answers: VecDeque::new(),
            buffer: Vec::new(),
            address: 0,
            streams: Streams::default(),
            datagrams: None,
            ready: None,
            sent: 0,
            acknowledged: FIRST_BYTE,
            datagram: QuicDatagram::default(),
            reported: 0,
            is_end_told: false,
            lost: None,
            is_over: false,
        }
    }

    /// An end of a flow of this protocol. Its writes form a stream, or are datagrams (RFC 9221).
    #[must_use]
    pub fn carrying(self, protocol: Protocol) -> Self {
        let datagrams = (protocol == Protocol::QuicDatagrams).then(Datagrams::default);
        Self { datagrams, ..self }
    }

    /// Why the connection was lost, if it was.
    pub fn failure(&self) -> Option<String> {
        self.lost.as_ref().map(ToString::to_string)
    }

    /// True once the handshake is complete at this end.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// Bytes that arrived, on all streams in order or in datagrams.
    pub fn received(&self) -> u64 {
        self.datagrams.as_ref().map_or_else(|| self.streams.received(), |datagrams| datagrams.received_bytes)
    }

    /// Takes a datagram of the other end that has arrived through a socket.
    pub fn handle_datagram<O: Observer>(&mut self, now: Instant, bytes: &[u8], ecn: Ecn, observer: &mut O) {
        self.take_in(now, (bytes, 0), ecn, observer);
    }

    /// The next datagram to send through a socket: its ECN field, its description and its bytes. The owner
    /// assigns the numbers.
    pub fn poll_datagram<O: Observer>(
        &mut self,
        now: Instant,
        observer: &mut O,
    ) -> Option<(Ecn, QuicDatagram, &[u8])> {
        let ecn = self.poll_next(now, observer)?;
        let known = self.known();
        Some((ecn, known, &self.buffer))
    }

    /// Notes which data the other end has received in order, according to a datagram that has arrived from
    /// it.
    pub fn note_acknowledged(&mut self, datagram: &QuicDatagram) {
        self.acknowledged = self.acknowledged.max(datagram.ack);
    }

    /// Writes the next datagram into the buffer; its ECN field, if there is a datagram.
    fn poll_next<O: Observer>(&mut self, now: Instant, observer: &mut O) -> Option<Ecn> {
        let Some(answer) = self.answers.pop_front() else { return self.poll_connection(now, observer) };
        (self.buffer, self.address) = answer;
        Some(Ecn::NotEct)
    }

    /// Description of the datagram in the buffer, which has no number yet.
    fn known(&mut self) -> QuicDatagram {
        let (payload_bytes, ack) = (self.buffer.len() as u32, self.awaited());
        QuicDatagram { payload_bytes, ack, ..mem::take(&mut self.datagram) }
    }

    /// The datagram that was sent last.
    #[cfg(test)]
    pub(crate) fn datagram(&self) -> &[u8] {
        &self.buffer
    }

    /// Gives a datagram to quinn.
    fn take_in<O: Observer>(
        &mut self,
        now: Instant,
        (bytes, address): (&[u8], u16),
        ecn: Ecn,
        observer: &mut O,
    ) {
        let Self { endpoint, connection, place, buffer, random, .. } = self;
        let at = place.std(now);
        let ecn = EcnCodepoint::from_bits(ecn.bits()).filter(|_| self.ecn);
        let remote = place.peer(address);
        buffer.clear();
        let mut answer = None;
        drawing_from(random, || {
            match endpoint.handle(at, remote, None, ecn, BytesMut::from(bytes), buffer) {
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some((_, connection)) = connection {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    match endpoint.accept(incoming, at, buffer, None) {
                        Ok(accepted) => *connection = Some(accepted),
                        Err(error) => answer = error.response,
                    }
                }
                Some(DatagramEvent::Response(response)) => answer = Some(response),
                None => {}
            }
        });
        if let Some(answer) = answer {
            self.answers.push_back((self.buffer[..answer.size].to_vec(), address));
        }
        self.settle(now, observer);
    }

    /// Handles quinn's events until there are none.
    fn settle<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        let Some((handle, mut connection)) = self.connection.take() else { return };
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(handle, event) {
                    drawing_from(&mut self.random, || connection.handle_event(event));
                }
            }
            let Some(event) = connection.poll() else { break };
            self.event(now, event, &mut connection, observer);
        }
        self.feed(now, &mut connection);
        self.conclude(now, &mut connection, observer);
        self.set_wakeup(now, &mut connection);
        self.connection = Some((handle, connection));
        self.tell(now, observer);
        if !self.is_established {
            self.secrets.take().iter().for_each(|line| observer.secret(self.place.flow, line));
        }
    }

    fn set_wakeup(&mut self, now: Instant, connection: &mut Connection) {
        self.wakeup = connection.poll_timeout().map(|at| self.place.virtual_time(at).max(now));
    }

    fn event<O: Observer>(
        &mut self,
        now: Instant,
        event: Event,
        connection: &mut Connection,
        observer: &mut O,
    ) {
        match event {
            Event::Connected => {
                self.is_established = true;
                self.is_over = false;
                observer.transport(now, self.place.flow, self.place.host, TransportEvent::Established);
            }
            Event::ConnectionLost { reason } => self.give_up(now, reason, observer),
            Event::Stream(StreamEvent::Opened { .. }) => self.streams.accept(connection),
            Event::Stream(StreamEvent::Readable { id }) => self.streams.read(id, connection),
            Event::Stream(StreamEvent::Finished { id }) => self.streams.finish_acknowledged(id),
            Event::DatagramReceived => {
                let Some(datagrams) = &mut self.datagrams else { return };
                while let Some(number) = datagrams.read(connection) {
                    observer.datagram(now, self.place.flow, self.place.host, number);
                }
            }
            Event::Stream(_) | Event::HandshakeDataReady | Event::DatagramsUnblocked => {}
        }
    }

    fn give_up<O: Observer>(&mut self, now: Instant, reason: ConnectionError, observer: &mut O) {
        let Place { flow, host, .. } = self.place;
        if self.is_over {
            return;
        }
        self.is_over = true;
        // The host that connected closes once it has received everything and all its data is acknowledged.
        let is_done = self.streams.is_finished()
            && matches!(&reason, ConnectionError::ApplicationClosed(close)
                if close.error_code == VarInt::from_u32(0));
        if is_done {
            observer.transport(now, flow, host, TransportEvent::Closed);
        } else {
            self.lost = Some(reason);
            observer.transport(now, flow, host, TransportEvent::Aborted);
        }
    }

    /// Gives quinn the data that it may send next.
    fn feed(&mut self, now: Instant, connection: &mut Connection) {
        let may_send = self.is_caller && (self.is_established || connection.has_0rtt());
        if let Some(datagrams) = &mut self.datagrams {
            if may_send && datagrams.begin() {
                self.ready = Some(now);
            }
            return;
        }
        if may_send {
            self.streams.open(connection);
        }
        self.streams.feed(connection);
    }

    /// Writes the next datagram of the connection into the buffer; its ECN field, if there is a datagram.
    fn poll_connection<O: Observer>(&mut self, now: Instant, observer: &mut O) -> Option<Ecn> {
        let (handle, mut connection) = self.connection.take()?;
        self.feed(now, &mut connection);
        self.buffer.clear();
        let transmit = connection.poll_transmit(self.place.std(now), 1, &mut self.buffer);
        if transmit.is_none() {
            self.woken = false;
            self.set_wakeup(now, &mut connection);
        }
        self.connection = Some((handle, connection));
        self.tell(now, observer);
        let transmit = transmit?;
        self.address = self.place.address(now, transmit.destination);
        self.buffer.truncate(transmit.size);
        Some(transmit.ecn.filter(|_| self.ecn).map_or(Ecn::NotEct, field))
    }

    /// Closes the connection once both directions are done, or all datagrams have left.
    fn conclude<O: Observer>(&mut self, now: Instant, connection: &mut Connection, observer: &mut O) {
        let is_done = self.datagrams.as_ref().map_or_else(|| self.streams.is_done(), Datagrams::is_done);
        if self.is_caller && is_done && !self.is_over {
            self.is_over = true;
            observer.transport(now, self.place.flow, self.place.host, TransportEvent::Closed);
            connection.close(self.place.std(now), VarInt::from_u32(0), Bytes::new());
        }
    }

    /// Passes the notes of quinn's callbacks to the observer.
    fn tell<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        let Place { flow, host, .. } = self.place;
        let mut seen = mem::take(&mut self.seen);
        self.notes.take(&mut seen);
        let mtu =
            self.connection.as_ref().map_or(1200, |(_, connection)| u64::from(connection.current_mtu()));
        let segments = |bytes: u64| (bytes / mtu) as u32;
        let mut is_of_mtu = None;
        for note in seen.drain(..) {
            let event = match note {
                Note::Rtt(rtt) => {
                    self.backoff = 0;
                    TransportEvent::RttSample { rtt, rto: Duration::ZERO }
                }
                Note::Window { window, threshold, in_flight } => TransportEvent::Window {
                    cwnd: segments(window),
                    ssthresh: threshold.map_or(u32::MAX, segments),
                    in_flight: segments(in_flight),
                },
                Note::PersistentCongestion => TransportEvent::PersistentCongestion,
                Note::Congestion { lost_bytes: 0 } => TransportEvent::EcnReduction,
                Note::Congestion { .. } => {
                    TransportEvent::RecoveryEntered { recovery_point: FIRST_BYTE + self.sent }
                }
                Note::Bytes(stream, bytes, fin) => {
                    let Some(seq) = self.carry(stream, &bytes, fin) else { continue };
                    let kind =
                        if self.backoff > 0 { RetransmissionKind::Timeout } else { RetransmissionKind::Lost };
                    TransportEvent::Retransmitted { seq, kind }
                }
                Note::Datagram(number, bytes) => {
                    self.carry_datagram(number, bytes);
                    continue;
                }
                Note::Probe if *is_of_mtu.get_or_insert_with(|| self.probes_mtu()) => continue,
                Note::Probe | Note::Crypto if self.woken => {
                    self.woken = false;
                    self.backoff += 1;
                    let seq = if self.is_established { self.acknowledged } else { 0 };
                    TransportEvent::Timeout { seq, backoff: self.backoff }
                }
                Note::Probe | Note::Crypto => continue,
            };
            observer.transport(now, flow, host, event);
        }
        self.seen = seen;
        if let Some(log) = &self.log {
            log.take(|records| observer.qlog(flow, host, records));
        }
    }

    /// The datagram just built probes the MTU: it has a PING, too, but no timer caused it.
    fn probes_mtu(&mut self) -> bool {
        let Some((_, connection)) = &self.connection else { return false };
        let probes = connection.stats().path.sent_plpmtud_probes;
        mem::replace(&mut self.mtu_probes, probes) < probes
    }

    /// Notes that the datagram being built carries these bytes of a stream. Returns their position if some of
    /// them were sent before.
    fn carry(&mut self, stream: u32, bytes: &Range<u64>, fin: bool) -> Option<u64> {
        let Part { place, ends, is_again } = self.streams.carry(stream, bytes, fin);
        let (start, end) = (FIRST_BYTE + place.start, FIRST_BYTE + place.end);
        let datagram = &mut self.datagram;
        if !bytes.is_empty() {
            if is_again && datagram.repeated.is_none() {
                datagram.repeated = Some(datagram.blocks.len() as u8);
            }
            datagram.blocks.push(SackBlock { start, end });
        }
        if ends {
            datagram.end = NonZeroU64::new(end);
        }
        datagram.stream_bytes += (end - start) as u32;
        self.sent = self.sent.max(place.end);
        is_again.then_some(start)
    }

    /// Notes that the UDP datagram being built carries this QUIC datagram. Datagrams leave in order, so it
    /// follows the last one.
    fn carry_datagram(&mut self, number: u64, bytes: u32) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.carry(number);
        }
        let numbers = self.datagram.numbers();
        let first = if numbers.is_empty() { number } else { numbers.start };
        self.datagram.datagrams = [first, number + 1].map(|number| number as u32);
        self.datagram.stream_bytes += bytes;
    }

    /// When the client moves next, if its connection has begun.
    fn next_move(&self) -> Option<Instant> {
        let moves = self.place.host == Host::Client && self.is_caller && !self.is_over;
        let moves = moves && !self.place.moves.rebinds;
        self.place.moves.at.get(usize::from(self.moved)).copied().filter(|_| moves)
    }

    /// The first position of the other end's data that has not arrived.
    fn awaited(&self) -> u64 {
        let mut arriving = self.place.flights[1].borrow_mut();
        FIRST_BYTE
            + if arriving.has_messages() {
                arriving.in_order(|stream| self.streams.received_on(stream))
            } else {
                self.streams.received_on(0) + u64::from(self.streams.has_peer_finished())
            }
    }
}

fn field(ecn: EcnCodepoint) -> Ecn {
    match ecn {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}

/// quinn's transport configuration.
fn transport_config(config: &QuicConfig, payload: u16, notes: &Notes) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let idle = std::time::Duration::from_nanos(config.idle_timeout.as_nanos());
    let discovery = config.mtu_discovery.then(|| {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(payload);
        discovery
    });
    let frequency = config.ack_eliciting_threshold.map(|threshold| {
        let mut frequency = AckFrequencyConfig::default();
        frequency.ack_eliciting_threshold(threshold.into());
        frequency
    });
    transport
        .congestion_controller_factory(Arc::new(Watched {
            kind: config.congestion_control,
            notes: notes.clone(),
        }))
        .initial_rtt(std::time::Duration::from_nanos(config.initial_rtt.as_nanos()))
        .max_idle_timeout(idle.try_into().ok())
        .mtu_discovery_config(discovery)
        .ack_frequency_config(frequency)
        .enable_segmentation_offload(false);
    transport
}

fn endpoint_config(stream: &mut RandomStream, ids: RandomStream, payload: u16) -> EndpointConfig {
    let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &random::bytes::<32>(stream));
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    config
        .rng_seed(Some(random::bytes(stream)))
        .cid_generator(move || Box::new(ConnectionIds(ids.clone())))
        .max_udp_payload_size(payload)
        .expect("the scenario was checked");
    config
}

// Long functions are not inlined: their code would separate the few instructions that a packet of TCP or UDP
// needs.
impl Transport for Quic {
    #[inline(never)]
    fn connect<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        let Self { endpoint, client, place, random, .. } = self;
        let remote = place.peer(place.moved(now));
        let connected =
            drawing_from(random, || endpoint.connect(place.std(now), client.clone(), remote, SERVER_NAME));
        self.connection = Some(connected.expect("address and name are good"));
        self.is_caller = true;
        self.moved = self.place.moved(now);
        self.settle(now, observer);
    }

    /// QUIC has no connections without a handshake; a scenario with such flows is rejected.
    fn open<O: Observer>(&mut self, _now: Instant, _observer: &mut O) {
        unreachable!("QUIC flows are not open at first")
    }

    #[inline(never)]
    fn write<O: Observer>(&mut self, now: Instant, bytes: u64, _write_bytes: u64, observer: &mut O) {
        if let (Some(datagrams), Some((_, connection))) = (&mut self.datagrams, &mut self.connection) {
            datagrams.write(bytes, connection);
        } else {
            self.streams.write(bytes);
        }
        self.settle(now, observer);
    }

    #[inline(never)]
    fn send<O: Observer>(&mut self, now: Instant, stream: u32, bytes: u64, observer: &mut O) {
        let first = self.place.flights[0].borrow_mut().begin(stream, bytes);
        self.streams.send(stream, first, bytes);
        self.settle(now, observer);
    }

    fn stop(&mut self) {
        self.streams.stop();
    }

    #[inline(never)]
    fn close<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        match &mut self.datagrams {
            Some(datagrams) => datagrams.closing = true,
            None => self.streams.closing = true,
        }
        self.settle(now, observer);
    }

    #[inline(never)]
    fn handle_packet<O: Observer>(&mut self, now: Instant, packet: &Packet, observer: &mut O) {
        let Body::Quic(datagram) = &packet.body else { return };
        self.note_acknowledged(datagram);
        let arrived = Rc::clone(&self.place.flights[1]);
        let mut arrived = arrived.borrow_mut();
        let Some((bytes, address)) = arrived.arrive(datagram.number) else { return };
        // The client does not receive packets sent to an address that it has left.
        if self.place.host == Host::Server || address == self.place.moved(now) {
            self.take_in(now, (bytes, address), packet.ecn, observer);
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if self.place.moves.at.is_empty() && self.ready.is_none() {
            self.wakeup
        } else {
            [self.wakeup, self.next_move(), self.ready].into_iter().flatten().min()
        }
    }

    #[inline(never)]
    fn handle_wakeup<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        let at = self.place.std(now);
        if self.next_move().is_some_and(|at| at <= now)
            && let Some((_, connection)) = &mut self.connection
        {
            self.moved = self.place.moved(now);
            connection.local_address_changed();
        }
        if self.wakeup.is_some_and(|due| due <= now)
            && let Some((_, connection)) = &mut self.connection
        {
            connection.handle_timeout(at);
            self.woken = true;
        }
        self.settle(now, observer);
    }

    #[inline(never)]
    fn poll_transmit<O: Observer>(&mut self, now: Instant, packet: &mut Packet, observer: &mut O) -> bool {
        let Some(ecn) = self.poll_next(now, observer) else { return false };
        let number = self.place.flights[0].borrow_mut().send(&self.buffer, self.address);
        let datagram = QuicDatagram { number, address: self.address, ..self.known() };
        packet.ecn = ecn;
        packet.ip_bytes = datagram.payload_bytes + Datagram::HEADER_BYTES;
        packet.body = Body::Quic(datagram);
        (packet.flow, packet.direction) = (self.place.flow, self.place.host.into());
        observer.bytes(packet, &self.buffer);
        true
    }

    fn news(&mut self) -> News {
        let received = self.received();
        let is_more = received > self.reported;
        self.reported = received;
        let has_peer_finished =
            self.streams.has_peer_finished() && !self.place.flights[1].borrow().has_messages();
        let ended = (has_peer_finished || self.lost.is_some()) && !self.is_end_told;
        self.is_end_told |= ended;
        News { received: is_more.then_some(received), ended, ready: self.ready.take().is_some() }
    }

    fn poll_stream(&mut self) -> Option<(u32, u64)> {
        self.streams.poll()
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
