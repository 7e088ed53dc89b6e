//! Work on which nothing depends before the next wait. In a guest it is done together with that wait, to avoid a
//! separate system call.

use super::{Flow, FlowEnds, TcpConnection, Turn, Watched, Workload};
use crate::calls::{self, Call};
use crate::clock::Waiter;
use crate::emulator::tun_name;
use crate::error::{Context, Error};
use lasthop_core::{FlowId, Host, Instant, Observer};
use lasthop_traffic::Application as _;
use nix::errno::Errno;
use socket2::Socket;
use std::io;
use std::rc::Rc;

pub enum Postponed {
    /// A datagram of a flow is to be sent by a host.
    Send(FlowId, Host, Vec<u8>),
    /// A socket with this name is to be read.
    Read(u64),
}

impl Workload<'_> {
    /// Waits as [`Waiter::wait`] does, after doing the work postponed at `now`. Returns the time; none if a
    /// socket had more news than expected, so that there was no wait.
    pub fn wait<O: Observer>(
        &mut self,
        (now, due): (Instant, Instant),
        waiter: &mut Waiter,
        ready: &mut Vec<u64>,
        observer: &mut O,
    ) -> Result<Option<Instant>, Error> {
        match self.postponed.take() {
            None => Ok(Some(waiter.wait(Some(due), ready)?)),
            Some(Postponed::Send(flow, host, datagram)) => {
                let Some(socket) = self.udp_socket(flow, host) else { return Ok(None) };
                waiter.expect(tun_name(self.host_of(flow, host)));
                let ([sent], time) = waiter.wait_after([Call::send(socket, &datagram)], Some(due), ready)?;
                check(sent)?;
                Ok(Some(time.map_or_else(|| waiter.wait(Some(due), ready), Ok)?))
            }
            Some(Postponed::Read(name)) => {
                let Some(socket) = self.unheeded(name).map(Rc::clone) else { return Ok(None) };
                let [first, second] = &mut self.unread;
                let (made, time) =
                    waiter.wait_after(Call::read_all(&*socket, [first, second]), Some(due), ready)?;
                if let Some((connection, host)) = self.connection(name) {
                    connection.peer(host).has_read(made);
                }
                if time.is_none() {
                    self.ready(&mut Turn { now, waiter, observer }, name)?;
                }
                Ok(time)
            }
        }
    }

    /// Leaves a socket whose data is discarded to the next wait; false if it is not, or if that saves
    /// nothing.
    pub fn postpone_reading(&mut self, name: u64) -> bool {
        let is_unheeded = calls::are_batched() && self.unheeded(name).is_some();
        if is_unheeded {
            self.postponed = Some(Postponed::Read(name));
        }
        is_unheeded
    }

    pub(super) fn postpone_sending(&mut self, flow: FlowId, host: Host, datagram: Vec<u8>) {
        self.postponed = Some(Postponed::Send(flow, host, datagram));
    }

    /// Sends the postponed datagram now, because another action comes first.
    pub(super) fn send_postponed(&mut self) -> Result<(), Error> {
        let datagram = self.postponed.take_if(|postponed| matches!(postponed, Postponed::Send(..)));
        let Some(Postponed::Send(flow, host, datagram)) = datagram else { return Ok(()) };
        let Some(socket) = self.udp_socket(flow, host) else { return Ok(()) };
        let [sent] = calls::make([Call::send(socket, &datagram)]);
        check(sent)
    }

    fn udp_socket(&self, flow: FlowId, host: Host) -> Option<&Rc<Socket>> {
        match &self.flows[flow.0 as usize].ends {
            FlowEnds::Udp(ends) => Some(&ends[host as usize].socket),
            _ => None,
        }
    }

    /// The socket with this name, if its data is discarded until its stream ends.
    fn unheeded(&self, name: u64) -> Option<&Rc<Socket>> {
        match self.watched[(name - self.first_name) as usize] {
            Watched::Sink(flow, host) => self.udp_socket(flow, host),
            Watched::Peer(flow, host) if self.relayed(flow, host).is_some() => None,
            Watched::Peer(flow, host) => {
                let Flow { application, ends: FlowEnds::Tcp(connection), .. } = &self.flows[flow.0 as usize]
                else {
                    return None;
                };
                let heeded = self.applications[*application].program.heeds_data();
                connection.peers[host as usize].reading().filter(|_| !heeded && connection.served.is_none())
            }
            Watched::Listener(_) | Watched::Datagrams(..) | Watched::Quic(..) => None,
        }
    }

    fn connection(&mut self, name: u64) -> Option<(&mut TcpConnection, Host)> {
        let Watched::Peer(flow, host) = self.watched[(name - self.first_name) as usize] else { return None };
        match &mut self.flows[flow.0 as usize].ends {
            FlowEnds::Tcp(connection) => Some((connection, host)),
            _ => None,
        }
    }
}

/// Treats an ICMP error of an earlier datagram as success: the current datagram is sent nevertheless.
fn check(sent: Result<usize, Errno>) -> Result<(), Error> {
    match sent {
        Err(error) if error != Errno::ECONNREFUSED => {
            Err(io::Error::from(error)).context("cannot send a datagram")
        }
        _ => Ok(()),
    }
}
