//! A relay over real sockets, as in the model engine (`relay.rs` of `lasthop-sim`).

use super::peer::Peer;
use super::{Flow, FlowEnds, Workload};
use crate::clock::Waiter;
use crate::error::Error;
use lasthop_core::{FlowId, Host, Instant, Observer};
use nix::errno::Errno;
use socket2::Socket;
use std::os::fd::AsRawFd;

#[allow(unsafe_code)]
mod ioctl {
    nix::ioctl_read_bad!(unacknowledged, libc::TIOCOUTQ, libc::c_int);
}

#[derive(Debug)]
pub(super) struct Relay {
    /// Maximum of data in each direction that are buffered or not acknowledged by the far end.
    buffer: usize,
    /// From the peer's side to the host's, and back.
    ways: [RelayDirection; 2],
}

/// One direction.
#[derive(Debug, Default)]
struct RelayDirection {
    /// Data that were read and did not fit the socket.
    held: Vec<u8>,
    ended: bool,
    has_closed: bool,
}

impl Relay {
    pub fn new(buffer: u64) -> Self {
        Self { buffer: buffer as usize, ways: Default::default() }
    }
}

impl RelayDirection {
    fn copy(&mut self, buffer: usize, from: &mut Peer, to: &mut Peer) -> Result<(), Error> {
        let Some(socket) = to.socket.clone().filter(|_| to.sender.has_been_open()) else {
            return Ok(());
        };
        loop {
            let room = buffer.saturating_sub(self.held.len() + unacknowledged(&socket)?);
            let before = self.held.len();
            self.ended |= from.read_up_to(room, &mut self.held)?;
            let has_read = self.held.len() > before;
            let mut written = 0;
            while written < self.held.len() {
                match nix::sys::socket::send(
                    socket.as_raw_fd(),
                    &self.held[written..],
                    nix::sys::socket::MsgFlags::MSG_NOSIGNAL,
                ) {
                    Ok(bytes) => written += bytes,
                    Err(Errno::EAGAIN | Errno::EINTR) => break,
                    // Data cannot arrive any more.
                    Err(_) => {
                        self.held.clear();
                        written = 0;
                        from.give_up();
                    }
                }
            }
            self.held.drain(..written);
            if !has_read {
                break;
            }
        }
        if self.ended && self.held.is_empty() && !self.has_closed {
            self.has_closed = true;
            to.close();
        }
        Ok(())
    }
}

/// Bytes in a socket that the far end has not acknowledged, sent or not (tcp(7), `SIOCOUTQ`).
fn unacknowledged(socket: &Socket) -> Result<usize, Error> {
    let mut bytes = 0;
    #[allow(unsafe_code)]
    // SAFETY: the number lives through the call.
    unsafe { ioctl::unacknowledged(socket.as_raw_fd(), &raw mut bytes) }.map_err(std::io::Error::from)?;
    Ok(bytes as usize)
}

impl Workload<'_> {
    /// The whole flow of which this is a side, if the relay is its end at `host`.
    pub(super) fn relayed(&self, flow: FlowId, host: Host) -> Option<FlowId> {
        let part = self.flows.get(flow.0 as usize)?.part;
        (part.relay_end() == Some(host)).then(|| flow.whole(host))
    }

    /// The flow that an end of an application's flow belongs to: a side, if a relay splits the flow.
    pub(super) fn end_of(&self, index: usize, number: u32, host: Host) -> FlowId {
        let whole = self.flow_of(index, number);
        let is_relayed = matches!(self.flows[whole.0 as usize].ends, FlowEnds::Relayed(_));
        if is_relayed { whole.side(host) } else { whole }
    }

    /// The relay of a flow has accepted at its end of a side, and connects onward.
    pub(super) fn connect_onward(
        &mut self,
        whole: FlowId,
        accepted: Host,
        waiter: &Waiter,
    ) -> Result<(), Error> {
        let onward = accepted.other();
        self.connect(whole.side(onward.other()), onward, waiter)
    }

    pub(super) fn arrived_at_relay<O: Observer>(
        &mut self,
        now: Instant,
        flow: FlowId,
        host: Host,
        observer: &mut O,
    ) -> Result<(), Error> {
        let peer = self.peer(flow, host);
        peer.flush();
        peer.look(now, observer);
        self.run_relay(flow.whole(host))
    }

    pub(super) fn run_relay(&mut self, whole: FlowId) -> Result<(), Error> {
        let [flow, peer_side, host_side] = &mut self.flows[whole.0 as usize..][..3] else { return Ok(()) };
        let (
            FlowEnds::Relayed(relay),
            Flow { ends: FlowEnds::Tcp(first), .. },
            Flow { ends: FlowEnds::Tcp(second), .. },
        ) = (&mut flow.ends, peer_side, host_side)
        else {
            return Ok(());
        };
        let ([_, from], [to, _]) = (&mut first.peers, &mut second.peers);
        let [onward, back] = &mut relay.ways;
        onward.copy(relay.buffer, from, to)?;
        back.copy(relay.buffer, to, from)
    }
}

#[cfg(test)]
mod tests;
