//! Flows over QUIC: the ends of the model engine, each with a UDP socket on its host.

use super::peer::set_option;
use super::{Endpoint, Flow, FlowEnds, Turn, Watched, Workload};
use crate::clock::Waiter;
use crate::error::{Context, Error};
use crate::header::ecn_of;
use lasthop_core::{
    Bytes, Dscp, Ecn, FlowId, FlowInfo, Host, Instant, Observer, QuicDatagram, Seed, Transport,
};
use lasthop_quic::{Quic, QuicConfig};
use lasthop_scenario::Scenario;
use lasthop_traffic::{Action, Application, HttpConfig, HttpServer};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::rc::Rc;

#[cfg(test)]
mod tests;

/// Receive buffer of a socket, if the kernel permits it: a link may release many datagrams at once.
const RECEIVE_BUFFER_BYTES: u32 = 1 << 22;

/// The common data of the ends of all flows over QUIC.
#[derive(Clone, Copy, Debug)]
pub struct QuicSetup {
    pub mtu: Bytes,
    pub seed: Seed,
    pub log: bool,
}

pub struct End {
    quic: Box<Quic>,
    socket: Socket,
    dscp: Dscp,
    next: u64,
    /// A datagram for which the socket had no room.
    waiting: Option<Outgoing>,
    /// Datagrams that have been sent, and that the emulator has not seen yet.
    sent: VecDeque<Outgoing>,
    buffer: Vec<u8>,
}

/// A datagram with its sender's description.
struct Outgoing {
    ecn: Ecn,
    info: QuicDatagram,
    bytes: Vec<u8>,
}

impl End {
    /// An end whose socket is in the network namespace of the caller.
    fn new(quic: Quic, mtu: Bytes, dscp: Dscp, [own, other]: [SocketAddr; 2]) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), None)?;
        socket.set_reuse_address(true)?;
        socket.set_recv_tos_v4(true)?;
        if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES).is_err() {
            socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES as usize)?;
        }
        socket.bind(&SockAddr::from(own))?;
        socket.connect(&SockAddr::from(other))?;
        let buffer = vec![0; mtu.0 as usize];
        Ok(Self { quic: Box::new(quic), socket, dscp, next: 0, waiting: None, sent: VecDeque::new(), buffer })
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if self.waiting.is_some() { Some(Instant::ZERO) } else { self.quic.next_wakeup() }
    }

    /// Handles the next datagram that has arrived; false if there is none.
    fn receive<O: Observer>(&mut self, now: Instant, observer: &mut O) -> io::Result<bool> {
        let mut room = cmsg_space!(u8);
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let flags = MsgFlags::empty();
        let message = match recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut room), flags) {
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            message => message?,
        };
        let length = message.bytes;
        let ecn = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::Ipv4Tos(class) => Some(ecn_of(class)),
            _ => None,
        });
        self.quic.handle_datagram(now, &self.buffer[..length], ecn.unwrap_or_default(), observer);
        Ok(true)
    }

    fn make<O: Observer>(&mut self, now: Instant, observer: &mut O) -> Option<Outgoing> {
        let (ecn, info, bytes) = self.quic.poll_datagram(now, observer)?;
        self.next += 1;
        Some(Outgoing { ecn, info: QuicDatagram { number: self.next - 1, ..info }, bytes: bytes.to_vec() })
    }

    /// Sends all pending datagrams, as long as the socket has room.
    fn flush<O: Observer>(&mut self, now: Instant, observer: &mut O) -> io::Result<()> {
        loop {
            let Some(outgoing) = self.waiting.take().or_else(|| self.make(now, observer)) else {
                return Ok(());
            };
            let class = self.dscp.get() << 2 | outgoing.ecn.bits();
            let (parts, control) = ([IoSlice::new(&outgoing.bytes)], [ControlMessage::Ipv4Tos(&class)]);
            match sendmsg::<()>(self.socket.as_raw_fd(), &parts, &control, MsgFlags::empty(), None) {
                Err(Errno::EAGAIN) => {
                    self.waiting = Some(outgoing);
                    return Ok(());
                }
                sent => drop(sent?),
            }
            self.sent.push_back(outgoing);
        }
    }

    /// The description of a datagram that leaves its host, by its bytes: no two are equal. Hosts keep order.
    pub fn identify(&mut self, bytes: &[u8]) -> Option<QuicDatagram> {
        let place = self.sent.iter().position(|sent| sent.bytes == bytes)?;
        self.sent.drain(..=place).next_back().map(|sent| sent.info)
    }

    pub fn arrived(&mut self, datagram: &QuicDatagram) {
        self.quic.note_acknowledged(datagram);
    }
}

impl Workload<'_> {
    /// Both ends of a flow, with sockets that are watched.
    pub(super) fn add_quic(
        &mut self,
        id: FlowId,
        info: &FlowInfo,
        config: &QuicConfig,
        ([server, client], sides): ([SocketAddr; 2], [Endpoint; 2]),
        waiter: &Waiter,
    ) -> Result<FlowEnds, Error> {
        let QuicSetup { mtu, seed, log } = self.quic;
        let [of_server, of_client] = lasthop_quic::ends(config, mtu, &Rc::default(), seed, id, log)
            .map(|end| end.carrying(info.protocol));
        let mut end = |host: Host, quic, addresses| {
            self.enter(sides[host as usize].host)?;
            let end = End::new(quic, mtu, info.dscp, addresses)
                .context(&format!("cannot make the sockets of flow {:?}", info.name))?;
            let name = self.name(Watched::Quic(id, host));
            waiter.watch(&end.socket, EpollFlags::EPOLLIN, name)?;
            Ok::<_, Error>(end)
        };
        let client_end = end(Host::Client, of_client, [client, server])?;
        let server_end = end(Host::Server, of_server, [server, client])?;
        self.flows_over_quic.push(id);
        Ok(FlowEnds::Quic(Box::new([server_end, client_end])))
    }

    pub(super) fn quic_end(&mut self, flow: FlowId, host: Host) -> Option<&mut End> {
        match &mut self.flows.get_mut(flow.0 as usize)?.ends {
            FlowEnds::Quic(ends) => Some(&mut ends[host as usize]),
            _ => None,
        }
    }

    pub(super) fn next_quic_wakeup(&self) -> Option<Instant> {
        let ends = self.flows_over_quic.iter().filter_map(|flow| match &self.flows[flow.0 as usize].ends {
            FlowEnds::Quic(ends) => ends.iter().filter_map(End::next_wakeup).min(),
            _ => None,
        });
        ends.min()
    }

    pub(super) fn wake_quic<O: Observer>(&mut self, turn: &mut Turn<'_, O>) -> Result<(), Error> {
        for index in 0..self.flows_over_quic.len() {
            let flow = self.flows_over_quic[index];
            for host in [Host::Server, Host::Client] {
                let Some(end) = self.quic_end(flow, host) else { continue };
                if end.next_wakeup().is_none_or(|due| due > turn.now) {
                    continue;
                }
                if end.quic.next_wakeup().is_some_and(|due| due <= turn.now) {
                    end.quic.handle_wakeup(turn.now, turn.observer);
                }
                self.react(turn, flow, host)?;
            }
        }
        Ok(())
    }

    pub(super) fn read_datagrams<O: Observer>(
        &mut self,
        turn: &mut Turn<'_, O>,
        flow: FlowId,
        host: Host,
    ) -> Result<(), Error> {
        while let Some(end) = self.quic_end(flow, host)
            && end.receive(turn.now, turn.observer).context("cannot receive a datagram of QUIC")?
        {
            self.react(turn, flow, host)?;
        }
        Ok(())
    }

    /// Handles an event at a QUIC end: passes the news to the application, and sends the resulting datagrams.
    fn react<O: Observer>(&mut self, turn: &mut Turn<'_, O>, id: FlowId, host: Host) -> Result<(), Error> {
        let Flow { application, number, ends: FlowEnds::Quic(ends), .. } = &mut self.flows[id.0 as usize]
        else {
            return Ok(());
        };
        let (index, number, end) = (*application, *number, &mut *ends[host as usize].quic);
        let news = end.news();
        if !news.is_none() {
            let program = &mut self.applications[index].program;
            while let Some((stream, received)) = end.poll_stream() {
                program.handle_stream(turn.now, number, host, stream, received);
            }
            program.handle_news(turn.now, number, host, news);
        }
        self.touched.push((id, host));
        self.carry_out(turn, index)
    }

    /// Performs an application's action at a QUIC end; false if it is not a QUIC end.
    pub(super) fn act_over_quic<O: Observer>(
        &mut self,
        turn: &mut Turn<'_, O>,
        index: usize,
        action: Action,
    ) -> bool {
        let Some((flow, host)) = action.end() else { return false };
        let flow = self.flow_of(index, flow);
        let Some(end) = self.quic_end(flow, host) else { return false };
        action.act_on(&mut *end.quic, turn.now, turn.observer);
        self.touched.push((flow, host));
        true
    }

    /// Sends the pending datagrams of the QUIC ends that were acted on. All actions come before any sending.
    pub(super) fn flush_quic<O: Observer>(&mut self, turn: &mut Turn<'_, O>) -> Result<(), Error> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for (flow, host) in touched.drain(..) {
            if let Some(end) = self.quic_end(flow, host) {
                end.flush(turn.now, turn.observer).context("cannot send a datagram of QUIC")?;
            }
        }
        self.touched = touched;
        Ok(())
    }
}

/// Rejects features of QUIC that only the model engine has.
pub fn needs_plain_quic(scenario: &Scenario) -> Result<(), Error> {
    for (index, flow) in scenario.flow.iter().enumerate() {
        let moves = [
            ("migrate", flow.migrate.is_some()),
            ("rebind", flow.rebind.is_some()),
            ("quic.migration", flow.quic().is_some_and(|quic| quic.migration)),
        ];
        if let Some((key, _)) = moves.iter().find(|(_, moves)| *moves) {
            return Err(Error::new(format!(
                "flow[{index}].{key} runs on the model engine only: sockets keep their addresses; \
                 use --engine model, or leave it out"
            )));
        }
    }
    let is_nginx = |http: &HttpConfig| http.protocol.has_streams() && http.server == HttpServer::Nginx;
    if scenario.http.as_ref().is_some_and(is_nginx) {
        return Err(Error::new(
            "[http] server = \"nginx\" does not support HTTP/3 here; write \"built-in\", or another protocol",
        ));
    }
    Ok(())
}
