//! One end of a TCP connection: a socket, the data still to be written, and the read position.

use super::diag::Diag;
use super::sender::{Sender, TcpInfo};
use crate::calls::{self, Call, TcpInfoBytes, Write};
use crate::clock::NextWait;
use crate::error::{Context, Error};
use crate::tun::Tun;
use lasthop_core::{Dscp, FlowId, Host, Instant, News, Observer, Segment};
use nix::errno::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::rc::Rc;

const WRITE_BYTES: usize = 1 << 17;
const WRITES: usize = 64;
/// Maximum number of unsent bytes in the socket of an application that will stop.
const UNSENT_BYTES: u32 = 1 << 16;
pub const READ_BYTES: usize = 1 << 14;
/// Errors of a socket that is not connected yet, has no room, or was shut down.
const HARMLESS: [ErrorKind; 4] =
    [ErrorKind::WouldBlock, ErrorKind::Interrupted, ErrorKind::NotConnected, ErrorKind::BrokenPipe];
/// The data that applications send.
static ZEROS: [u8; WRITE_BYTES] = [0; WRITE_BYTES];

/// Bytes to be written, in writes of one size. No segment spans their end.
#[derive(Clone, Debug)]
struct Order {
    left: u64,
    write: u64,
    /// True if segments may span its writes.
    joined: bool,
    /// Bytes of the current write that are still to be written.
    current: u64,
    /// The content; zeros if absent.
    text: Option<Vec<u8>>,
}

impl Order {
    fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        let Self { mut left, write, joined, mut current, ref text } = *self;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            if current == 0 {
                current = left.min(write);
            }
            let length = current.min(WRITE_BYTES as u64) as usize;
            let ends = if joined { left } else { current };
            let last = if length as u64 == ends { libc::MSG_EOR } else { 0 };
            let bytes = match text {
                Some(text) => &text[text.len() - left as usize..][..length],
                None => &ZEROS[..length],
            };
            (left, current) = (left - length as u64, current - length as u64);
            Some((bytes, last))
        })
    }
}

/// Notes that this number of bytes of the first order have been written, at most one write.
fn take_off(orders: &mut VecDeque<Order>, bytes: u64) {
    let Some(order) = orders.front_mut() else { return };
    if order.current == 0 {
        order.current = order.left.min(order.write);
    }
    order.current -= bytes;
    order.left -= bytes;
    if order.left == 0 {
        orders.pop_front();
    }
}

/// How many connections carry the data of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carriers {
    One,
    Several,
}

#[derive(Debug)]
pub struct Peer {
    pub socket: Option<Rc<Socket>>,
    /// The kernel's information about it after the last delivered packet, not evaluated yet.
    pending_info: Option<TcpInfo>,
    /// How to query the kernel about it if another process has the socket: access, own and other address.
    foreign: Option<(Rc<Diag>, SocketAddr, SocketAddr)>,
    pub sender: Sender,
    orders: VecDeque<Order>,
    close: bool,
    received: u64,
    /// True if, according to the data read so far, the other end's stream has ended or the connection is
    /// lost.
    pub told_end: bool,
    /// True if the connection ended by an error.
    lost: bool,
    receive_window_max: u32,
    carriers: Carriers,
}

impl Peer {
    /// An end without a socket yet, which advertises a window of at most this number of bytes.
    pub fn new(flow: FlowId, host: Host, receive_window_max: u32) -> Self {
        let sender = Sender::new(flow, host);
        Self {
            socket: None,
            pending_info: None,
            foreign: None,
            sender,
            orders: VecDeque::new(),
            close: false,
            received: 0,
            told_end: false,
            lost: false,
            receive_window_max,
            carriers: Carriers::One,
        }
    }

    /// Notes that it is an end of several connections, with the socket of all of them.
    pub fn has_several(&mut self) {
        self.carriers = Carriers::Several;
    }

    /// Bytes read so far, if it is an end of several connections.
    pub fn read_of_several(&self) -> Option<u64> {
        (self.carriers == Carriers::Several).then_some(self.received)
    }

    pub fn open(&mut self, socket: Socket) -> &Rc<Socket> {
        self.socket.insert(Rc::new(socket))
    }

    /// Notes that another process will have its socket.
    pub fn leave_to_another(&mut self, diag: Rc<Diag>, own: SocketAddr, other: SocketAddr) {
        self.foreign = Some((diag, own, other));
    }

    fn info(&self) -> Option<TcpInfo> {
        match (&self.socket, &self.foreign) {
            (Some(socket), _) => TcpInfo::of(socket).ok(),
            (None, Some((diag, own, other))) => diag.info(*own, *other).ok().flatten(),
            (None, None) => None,
        }
    }

    /// Passes a packet for it to its host; false if the host does not accept it. The kernel's information is
    /// evaluated later. For `next`, see [`HostFlows`](crate::emulator::HostFlows::hand_over).
    pub fn hand_over(&mut self, tun: &Tun, packet: &[u8], next: Option<NextWait<'_>>) -> bool {
        let Some(socket) = self.socket.as_deref() else { return tun.write(packet) };
        let mut answer = TcpInfoBytes::default();
        let (taken, answered) = tun.write_and_ask(packet, socket, &mut answer, next);
        self.pending_info = answered.then(|| TcpInfo::from_bytes(&answer.bytes));
        taken
    }

    /// The socket, if it has received data before, so that only more data can be new.
    pub fn reading(&self) -> Option<&Rc<Socket>> {
        let is_discarded =
            !self.close && self.received > 0 && !self.told_end && self.carriers == Carriers::One;
        let only_reads = self.orders.is_empty() && is_discarded;
        self.socket.as_ref().filter(|_| only_reads)
    }

    /// Notes that it was read, and that the data is discarded.
    pub fn has_read(&mut self, reads: [Result<usize, Errno>; 2]) {
        for read in reads {
            match read {
                Ok(bytes) => self.received += bytes as u64,
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(_) => self.lost = true,
            }
        }
    }

    pub fn connect(&self, to: SocketAddr) -> Result<(), Error> {
        let socket = self.socket.as_ref().expect("the connecting end has its socket from the start");
        match socket.connect(&SockAddr::from(to)) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                Err(error).context(&format!("cannot connect to {to}"))
            }
            _ => Ok(()),
        }
    }

    /// The application writes `bytes`, in writes of `write` bytes, which segments may span if `joined`.
    pub fn write(&mut self, bytes: u64, write: u64, joined: bool) {
        if bytes > 0 {
            self.orders.push_back(Order { left: bytes, write, joined, current: 0, text: None });
        }
        self.flush();
    }

    pub fn write_text(&mut self, text: Vec<u8>) {
        let bytes = text.len() as u64;
        self.orders.push_back(Order {
            left: bytes,
            write: bytes,
            joined: false,
            current: 0,
            text: Some(text),
        });
        self.flush();
    }

    /// The application withdraws data that has not been written to the socket yet.
    pub fn stop(&mut self) {
        self.orders.clear();
    }

    /// The application closes its stream, after all data that it has written.
    pub fn close(&mut self) {
        self.close = true;
        self.flush();
    }

    /// The socket may have room. A lost connection is detected by reading.
    pub fn flush(&mut self) {
        let Some(socket) = &self.socket else { return };
        while !self.orders.is_empty() {
            let writes: Vec<_> = self.orders.iter().flat_map(Order::writes).take(WRITES).collect();
            match calls::send_each(&**socket, &writes, libc::MSG_NOSIGNAL) {
                Ok(written) => written.into_iter().for_each(|bytes| take_off(&mut self.orders, bytes as u64)),
                // A socket reports the error of a lost connection only once.
                Err(error) => {
                    self.lost |= !HARMLESS.contains(&io::Error::from(error).kind());
                    return;
                }
            }
        }
        if std::mem::take(&mut self.close) && socket.shutdown(Shutdown::Write).is_err() {
            // Not connected yet: this is repeated when it is. Or no longer: there is nothing to close.
            self.close = !self.sender.has_been_open();
        }
    }

    pub fn news(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<News, Error> {
        let Some(socket) = self.socket.as_deref() else { return Ok(News::default()) };
        let before = self.received;
        let (mut first, mut second) = ([0; READ_BYTES], [0; READ_BYTES]);
        let ended = 'reads: loop {
            let reads = calls::make([Call::read(socket, &mut first), Call::read(socket, &mut second)]);
            for (buffer, read) in [&first, &second].into_iter().zip(reads) {
                match read {
                    Ok(0) => break 'reads true,
                    Ok(bytes) => {
                        take(&buffer[..bytes])?;
                        self.received += bytes as u64;
                    }
                    Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOTCONN) => break 'reads false,
                    Err(_) => {
                        self.lost = true;
                        break 'reads true;
                    }
                }
            }
        };
        if before == 0 && self.received > 0 && self.carriers == Carriers::One {
            // Some kernels forget the route's window with the first segment (6.12: tcp_measure_rcv_mss).
            clamp_window(socket, self.receive_window_max)?;
        }
        Ok(News {
            received: (self.received > before).then_some(self.received),
            ended: ended && !std::mem::replace(&mut self.told_end, true),
            ..News::default()
        })
    }

    /// Reads up to this number of bytes that have arrived. True if the stream has ended.
    pub fn read_up_to(&mut self, bytes: usize, into: &mut Vec<u8>) -> Result<bool, Error> {
        let Some(socket) = self.socket.as_deref() else { return Ok(false) };
        let (before, first) = (self.received, into.len());
        let mut buffer = [0; READ_BYTES];
        while into.len() < first + bytes && !self.told_end {
            let length = READ_BYTES.min(first + bytes - into.len());
            let [read] = calls::make([Call::read(socket, &mut buffer[..length])]);
            match read {
                Ok(0) => self.told_end = true,
                Ok(bytes) => {
                    into.extend_from_slice(&buffer[..bytes]);
                    self.received += bytes as u64;
                }
                Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOTCONN) => break,
                Err(_) => (self.lost, self.told_end) = (true, true),
            }
        }
        if before == 0 && self.received > 0 {
            clamp_window(socket, self.receive_window_max)?;
        }
        Ok(self.told_end)
    }

    /// Resets the connection.
    pub fn give_up(&mut self) {
        let Some(socket) = &self.socket else { return };
        // A connected socket resets when connected to no address (connect(2)): zeros, which are `AF_UNSPEC`.
        #[allow(unsafe_code)]
        // SAFETY: the storage is zeroed, and as long as it says.
        let nowhere = unsafe { SockAddr::try_init(|_, _| Ok(())) };
        if let Ok(((), nowhere)) = nowhere {
            let _ = socket.connect(&nowhere);
        }
    }

    /// It sends a segment, which no observer has seen yet; `again` if it was sent before.
    pub fn sends<O: Observer>(&mut self, now: Instant, segment: &Segment, again: bool, observer: &mut O) {
        self.sender.sends(segment.end());
        if again && let Some(info) = self.info() {
            self.sender.sends_again(now, segment.seq, info, observer);
        }
    }

    /// Reports the changes after an action of the kernel.
    pub fn look<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        if self.carriers == Carriers::Several {
            // Its socket knows the first connection only.
            if self.told_end {
                self.sender.ends(now, self.lost, observer);
            }
            return;
        }
        let Some(info) = self.pending_info.take().or_else(|| self.info()) else { return };
        // A socket that has not connected yet counts as closed, too.
        if info.is_closed() && !self.sender.has_been_open() && !self.told_end {
            return;
        }
        let error = |socket: &Rc<Socket>| socket.take_error().is_ok_and(|error| error.is_some());
        let failed = || self.lost || self.socket.as_ref().is_some_and(error);
        self.sender.arrived(now, info, failed, observer);
    }
}

/// Lets a socket advertise a window of at most this number of bytes from now on (tcp(7), `TCP_WINDOW_CLAMP`).
fn clamp_window(socket: &Socket, bytes: u32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// Lets a socket hold little more than it sends, for an application that will stop.
pub fn limit_unsent(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT_BYTES)
}

/// Lets a socket pace (socket(7), Linux 4.20): it does with any maximum rate, even one never reached.
fn pace(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64::MAX - 1)
}

pub(super) fn set_option<T: Copy>(
    socket: &Socket,
    level: libc::c_int,
    option: libc::c_int,
    value: T,
) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    #[allow(unsafe_code)]
    // SAFETY: the value lives through the call, which reads the stated number of bytes.
    let answer =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[derive(Clone, Copy, Debug)]
pub struct Sending {
    pub paced: bool,
    pub nagle: bool,
    pub mptcp: bool,
}

/// A TCP socket that never blocks, bound to `address`, whose packets have this code point.
pub fn socket(address: SocketAddr, dscp: Dscp, sending: Sending) -> io::Result<Socket> {
    let protocol = if sending.mptcp { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(protocol))?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(!sending.nagle)?;
    socket.set_tos_v4(u32::from(dscp.get()) << 2)?;
    if sending.paced {
        pace(&socket)?;
    }
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

#[cfg(test)]
pub(super) mod tests;
