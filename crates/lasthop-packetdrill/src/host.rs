//! The host under test: its sockets and one connection.

use std::collections::{BTreeMap, VecDeque};

use lasthop_core::{Duration, Ecn, Flags, FlowId, Host as Side, Instant, Segment};
use lasthop_tcp::{Endpoint, Phase, TcpConfig, TickClock, reset_for};

use crate::script::{Call, Value};
use crate::wire::Sent;

/// Access mode of a socket, and the flag of a non-blocking one, as Linux numbers them.
const READ_WRITE: i64 = 0x2;
const NON_BLOCKING: i64 = 0x800;

/// The outcome of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    Value(i64),
    Error(&'static str),
    Blocks,
}

#[derive(Clone, Copy, Debug, Default)]
struct Socket {
    is_listening: bool,
    is_non_blocking: bool,
}

/// The connection, and the state of its application.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a moment of its own")]
struct Connection {
    endpoint: Endpoint,
    /// Its socket; `None` before it is accepted, and after it is closed.
    socket: Option<i64>,
    read: u64,
    has_shut_read: bool,
    has_shut_write: bool,
    /// An error that no call has reported yet.
    error: Option<&'static str>,
    is_aborted: bool,
    /// The peer had sent its FIN before this end closed: no TIME-WAIT follows (RFC 9293, section 3.3.2).
    closes_last: bool,
}

#[derive(Debug)]
pub(crate) struct Host {
    tcp: TcpConfig,
    mtu: u32,
    sockets: BTreeMap<i64, Socket>,
    connection: Option<Connection>,
    pub now: Instant,
    /// Sent segments that have not been compared yet.
    pub sent: VecDeque<Sent>,
}

impl Host {
    pub fn new(tcp: TcpConfig, mtu: u32) -> Self {
        let (sockets, sent) = (BTreeMap::new(), VecDeque::new());
        Self { tcp, mtu, sockets, connection: None, now: Instant::ZERO, sent }
    }

    pub fn scales_windows(&self) -> bool {
        self.tcp.window_scaling
    }

    /// The fields of `tcp_info` of the connection.
    pub fn info(&self) -> Vec<(&'static str, u64)> {
        self.connection.as_ref().map_or_else(Vec::new, |connection| connection.endpoint.info())
    }

    /// The next time at which a timer fires.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let due = self.connection.as_ref()?.endpoint.next_wakeup()?;
        Some(due.max(self.now))
    }

    /// Runs the timers that are due at this time.
    pub fn wake(&mut self, now: Instant) {
        self.now = now;
        if let Some(connection) = &mut self.connection {
            connection.endpoint.handle_wakeup(now, &mut ());
            connection.note_abort("ETIMEDOUT");
        }
        self.transmit();
    }

    pub fn receive(&mut self, segment: &Segment, ecn: Ecn) {
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        let is_listening = self.sockets.values().any(|socket| socket.is_listening);
        if self.connection.is_none() && opens && is_listening {
            self.connection = Some(self.new_connection(Side::Server, None));
        }
        let gone = |c: &Connection| c.closes_last && c.endpoint.phase() == Phase::Closed;
        if self.connection.as_ref().is_none_or(gone) {
            if !segment.flags.contains(Flags::RST) {
                self.sent.push_back(Sent { at: self.now, segment: reset_for(segment), ecn: Ecn::NotEct });
            }
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        let reset = match connection.endpoint.phase() {
            Phase::SynSent => "ECONNREFUSED",
            _ if connection.endpoint.peer_closed() => "EPIPE",
            _ => "ECONNRESET",
        };
        connection.endpoint.handle_segment(self.now, segment, ecn, None, &mut ());
        connection.note_abort(reset);
        self.transmit();
    }

    fn new_connection(&self, side: Side, socket: Option<i64>) -> Connection {
        let clock = TickClock::new(self.tcp.tick, Duration::ZERO);
        Connection {
            endpoint: Endpoint::listen(self.tcp.clone(), self.mtu, clock, FlowId(0), side),
            socket,
            read: 0,
            has_shut_read: false,
            has_shut_write: false,
            error: None,
            is_aborted: false,
            closes_last: false,
        }
    }

    fn transmit(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let mut segment = Segment::default();
        while let Some(ecn) = connection.endpoint.poll_transmit(self.now, &mut segment) {
            self.sent.push_back(Sent { at: self.now, segment, ecn });
        }
    }

    /// Makes a call. `expected` is its result in the script, which names new descriptors.
    pub fn call(&mut self, call: &Call, expected: Option<i64>) -> Return {
        let descriptor = call.arguments.first().and_then(Value::int).unwrap_or(-1);
        let outcome = match call.name.as_str() {
            "socket" => {
                let new = expected.unwrap_or(3);
                let is_non_blocking = call.arguments.iter().any(|a| a.words().contains(&"SOCK_NONBLOCK"));
                self.sockets.insert(new, Socket { is_non_blocking, ..Socket::default() });
                return Return::Value(new);
            }
            "read" | "recv" | "recvfrom" | "write" | "send" | "sendto" if has_no_buffer(call) => {
                return Return::Error("EFAULT");
            }
            _ if !self.sockets.contains_key(&descriptor) => return Return::Error("EBADF"),
            "listen" => {
                self.socket(descriptor).is_listening = true;
                Return::Value(0)
            }
            "setsockopt" => self.set_option(call),
            "getsockopt" => self.pending_error(call),
            "ioctl" => self.unread(descriptor, call),
            "fcntl" => self.control(descriptor, call),
            "accept" => self.accept(descriptor, expected),
            "connect" => self.connect(descriptor),
            "read" | "recv" | "recvfrom" => self.read(descriptor, call.arguments.get(2).and_then(Value::int)),
            "recvmsg" => self.read(descriptor, buffers(call)),
            "write" | "send" | "sendto" => self.write(descriptor, call.arguments.get(2).and_then(Value::int)),
            "sendmsg" => self.write(descriptor, buffers(call)),
            "shutdown" => self.shutdown(descriptor, call),
            "close" => self.close(descriptor),
            _ => Return::Value(0),
        };
        self.transmit();
        outcome
    }

    fn socket(&mut self, descriptor: i64) -> &mut Socket {
        self.sockets.entry(descriptor).or_default()
    }

    fn connection(&mut self, descriptor: i64) -> Option<&mut Connection> {
        self.connection.as_mut().filter(|connection| connection.socket == Some(descriptor))
    }

    /// A call must wait, or returns an error if its socket does not block.
    fn wait(&mut self, descriptor: i64) -> Return {
        if self.socket(descriptor).is_non_blocking { Return::Error("EAGAIN") } else { Return::Blocks }
    }

    fn set_option(&mut self, call: &Call) -> Return {
        let value = match call.arguments.get(3) {
            Some(Value::Array(values)) => values.first().and_then(Value::int),
            _ => None,
        };
        match (call.arguments.get(2).and_then(Value::word), value) {
            (Some("TCP_SYNCNT"), Some(retries)) => self.tcp.syn_retries = retries as u32,
            // A host with small packets offers small segments.
            (Some("TCP_MAXSEG"), Some(bytes)) => {
                self.mtu = self.mtu.min(bytes as u32 + Segment::BASE_HEADER_BYTES);
            }
            _ => {}
        }
        Return::Value(0)
    }

    /// `SO_ERROR`: the expected value is right if it names the pending error, or is 0 and there is none.
    fn pending_error(&mut self, call: &Call) -> Return {
        let error = self.connection.as_mut().and_then(|connection| connection.error.take());
        let Some(Value::Array(values)) = call.arguments.get(3) else { return Return::Value(0) };
        let is_right = match values.first() {
            Some(Value::Int(0)) => error.is_none(),
            Some(Value::Word(name)) => error == Some(name),
            _ => false,
        };
        if is_right { Return::Value(0) } else { Return::Error(error.unwrap_or("no pending error")) }
    }

    /// `SIOCINQ`: the unread bytes that have arrived.
    fn unread(&mut self, descriptor: i64, call: &Call) -> Return {
        let Some(connection) = self.connection(descriptor) else { return Return::Error("EINVAL") };
        let unread = (connection.endpoint.received_bytes() - connection.read).cast_signed();
        let Some(Value::Array(values)) = call.arguments.get(2) else { return Return::Value(0) };
        let is_right = values.first().and_then(Value::int) == Some(unread);
        if is_right { Return::Value(0) } else { Return::Error("another number of bytes") }
    }

    fn control(&mut self, descriptor: i64, call: &Call) -> Return {
        let socket = self.socket(descriptor);
        if call.arguments.get(1).and_then(Value::word) == Some("F_GETFL") {
            return Return::Value(READ_WRITE | if socket.is_non_blocking { NON_BLOCKING } else { 0 });
        }
        socket.is_non_blocking =
            call.arguments.get(2).is_some_and(|flags| flags.words().contains(&"O_NONBLOCK"));
        Return::Value(0)
    }

    fn accept(&mut self, descriptor: i64, expected: Option<i64>) -> Return {
        let is_ready = self.connection.as_ref().is_some_and(|connection| {
            connection.socket.is_none()
                && matches!(connection.endpoint.phase(), Phase::Established | Phase::Closed)
        });
        if !is_ready {
            return self.wait(descriptor);
        }
        let new = expected.filter(|&new| new > descriptor).unwrap_or(descriptor + 1);
        self.sockets.insert(new, Socket::default());
        if let Some(connection) = &mut self.connection {
            connection.socket = Some(new);
        }
        Return::Value(new)
    }

    fn connect(&mut self, descriptor: i64) -> Return {
        let waits =
            if self.socket(descriptor).is_non_blocking { Return::Error("EALREADY") } else { Return::Blocks };
        let Some(connection) = self.connection(descriptor) else {
            let mut connection = self.new_connection(Side::Client, Some(descriptor));
            connection.endpoint.connect(self.now, &mut ());
            self.connection = Some(connection);
            return if waits == Return::Blocks { waits } else { Return::Error("EINPROGRESS") };
        };
        match connection.endpoint.phase() {
            Phase::Established | Phase::Closed => Return::Value(0),
            Phase::Aborted => Return::Error(connection.error.take().unwrap_or("ECONNABORTED")),
            Phase::Listen | Phase::SynSent | Phase::SynReceived => waits,
        }
    }

    fn read(&mut self, descriptor: i64, most: Option<i64>) -> Return {
        let Some(connection) = self.connection(descriptor) else { return Return::Error("ENOTCONN") };
        let there = connection.endpoint.received_bytes().saturating_sub(connection.read);
        let taken = there.min(most.unwrap_or(0).max(0).cast_unsigned());
        if taken > 0 {
            connection.read += taken;
            return Return::Value(taken.cast_signed());
        }
        if let Some(error) = connection.error.take() {
            return Return::Error(error);
        }
        let has_ended =
            connection.endpoint.peer_closed() || connection.has_shut_read || connection.is_aborted;
        if has_ended { Return::Value(0) } else { self.wait(descriptor) }
    }

    fn write(&mut self, descriptor: i64, bytes: Option<i64>) -> Return {
        let now = self.now;
        let Some(connection) = self.connection(descriptor) else { return Return::Error("EPIPE") };
        if let Some(error) = connection.error.take() {
            return Return::Error(error);
        }
        if connection.has_shut_write || connection.is_aborted {
            return Return::Error("EPIPE");
        }
        if connection.endpoint.phase() == Phase::SynSent {
            return self.wait(descriptor);
        }
        let bytes = bytes.unwrap_or(0).max(0);
        if bytes > 0 {
            let bytes = bytes.cast_unsigned();
            connection.endpoint.write(now, bytes, bytes, &mut ());
        }
        Return::Value(bytes)
    }

    fn shutdown(&mut self, descriptor: i64, call: &Call) -> Return {
        let now = self.now;
        let Some(connection) = self.connection(descriptor) else { return Return::Error("ENOTCONN") };
        if connection.is_aborted {
            return Return::Error("ENOTCONN");
        }
        let how = call.arguments.get(1).and_then(Value::word).unwrap_or("SHUT_RDWR");
        connection.has_shut_read |= how != "SHUT_WR";
        if how != "SHUT_RD" {
            connection.finish(now);
        }
        Return::Value(0)
    }

    fn close(&mut self, descriptor: i64) -> Return {
        let now = self.now;
        self.sockets.remove(&descriptor);
        if let Some(connection) = self.connection(descriptor) {
            connection.socket = None;
            let unread = connection.endpoint.received_bytes() > connection.read;
            // RFC 2525, section 2.17: closing with unread data resets the connection.
            if unread || connection.endpoint.phase() == Phase::SynSent {
                connection.endpoint.abort(now, &mut ());
                connection.is_aborted = true;
            } else {
                connection.finish(now);
            }
        }
        Return::Value(0)
    }
}

impl Connection {
    /// Nothing more will be written.
    fn finish(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.has_shut_write, true) {
            self.closes_last = self.endpoint.peer_closed();
            self.endpoint.close(now, &mut ());
        }
    }

    /// Notes the error for the application if the connection has just been given up.
    fn note_abort(&mut self, error: &'static str) {
        if self.endpoint.phase() == Phase::Aborted && !std::mem::replace(&mut self.is_aborted, true) {
            self.error = Some(error);
        }
    }
}

fn has_no_buffer(call: &Call) -> bool {
    call.arguments.get(1).and_then(Value::word) == Some("NULL")
}

/// Bytes in the buffers of a message.
fn buffers(call: &Call) -> Option<i64> {
    match call.arguments.get(1)? {
        Value::Struct { lengths, .. } => Some(lengths.iter().sum()),
        _ => None,
    }
}
