//! Flows over MPTCP (RFC 8684): a socket for the whole at each end, and the kernel's subflows, whose state is
//! queried from the kernel.

use super::diag::Diag;
use super::segments::split;
use super::{Flow, FlowEnds, TcpConnection, Workload};
use crate::error::{Context, Error};
use crate::header::{Headers, Transport};
use lasthop_core::{FlowId, FlowInfo, Host};
use socket2::Socket;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::rc::Rc;

/// The options of MPTCP within TCP, and the one of them that joins a connection: kind, subtype, and length of
/// the content in a SYN (RFC 8684, section 3.2).
const MPTCP: u8 = 30;
const MP_JOIN: u8 = 1;
const JOIN_BYTES: usize = 10;
/// `SOL_MPTCP`, `MPTCP_INFO`, and the place of the token in `struct mptcp_info` (`linux/mptcp.h`).
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const TOKEN_AT: usize = 12;

#[derive(Debug, Default)]
pub struct Subflows {
    /// By the address of the host that opened them.
    by_client: BTreeMap<SocketAddr, FlowId>,
    /// Access to the kernel in the namespaces of hosts, by number.
    kernels: BTreeMap<usize, Rc<Diag>>,
}

impl Workload<'_> {
    /// Adds a subflow of a flow that was added before. The first one has the addresses of that flow.
    pub(super) fn add_subflow(&mut self, id: FlowId, info: &FlowInfo, of: FlowId) -> Result<(), Error> {
        let index = info.application as usize;
        let sides = self.applications[index].sides;
        for host in sides.map(|side| side.host) {
            self.enter(host)?;
            if let Entry::Vacant(entry) = self.subflows.kernels.entry(host) {
                let kernel = Diag::open().context("cannot query the kernel's subflows")?;
                entry.insert(Rc::new(kernel));
            }
        }
        let Flow { server, client, .. } = self.flows[of.0 as usize];
        let ends = FlowEnds::Tcp(Box::new(TcpConnection::new(id, &sides, false)));
        // No application knows of it.
        let number = u32::MAX;
        let flow = Flow::new((index, number), index, info.part, [server, client], ends);
        self.flows.push(Flow { way: info.way(), ..flow });
        if self.applications[index].mptcp == Some(info.way()) {
            self.begin(id, client);
        }
        Ok(())
    }

    /// A subflow begins at this address of the host that opens it.
    fn begin(&mut self, id: FlowId, client: SocketAddr) {
        let Self { flows, applications, subflows, .. } = self;
        let flow = &mut flows[id.0 as usize];
        flow.client = client;
        let [of_server, of_client] =
            applications[flow.application].sides.map(|side| Rc::clone(&subflows.kernels[&side.host]));
        if let FlowEnds::Tcp(connection) = &mut flow.ends {
            connection.opened = true;
            connection.peer(Host::Server).leave_to_another(of_server, flow.server, client);
            connection.peer(Host::Client).leave_to_another(of_client, client, flow.server);
        }
        subflows.by_client.insert(client, id);
    }

    /// The subflow of a packet that `sender` sends, if that subflow has begun.
    pub(super) fn subflow_of(&self, sender: Host, headers: &Headers<'_>) -> Option<FlowId> {
        let (source, destination) = headers.addresses;
        let (source_port, destination_port) = headers.transport.ports()?;
        let client = match sender {
            Host::Server => (destination, destination_port),
            Host::Client => (source, source_port),
        };
        self.subflows.by_client.get(&client.into()).copied()
    }

    /// The subflow that this packet of the host at the edge begins.
    pub(super) fn join(&mut self, sender: Host, headers: &Headers<'_>) -> Option<FlowId> {
        let Transport::Tcp(header, _) = &headers.transport else { return None };
        if self.subflows.kernels.is_empty() || sender != Host::Client || !header.syn() || header.ack() {
            return None;
        }
        let token = joined(header.options())?;
        let address = headers.addresses.0;
        let (whole, application) = self.flows.iter().find_map(|flow| match &flow.ends {
            FlowEnds::Tcp(connection) => {
                let [server, _] = &connection.peers;
                let is_it =
                    server.read_of_several().is_some() && token_of(server.socket.as_ref()?) == Some(token);
                is_it.then_some((flow.client, flow.application))
            }
            _ => None,
        })?;
        let host = self.hosts[self.applications[application].sides[Host::Client as usize].host].address;
        let is_it = |flow: &Flow| {
            let is_new = matches!(&flow.ends, FlowEnds::Tcp(connection) if !connection.opened);
            is_new && flow.client == whole && address == host.on_way(flow.way).v4()
        };
        let id = FlowId(self.flows.iter().position(is_it)? as u32);
        self.begin(id, SocketAddr::from((address, header.source_port())));
        Some(id)
    }
}

/// The token of the connection that a SYN with these options joins.
fn joined(mut options: &[u8]) -> Option<u32> {
    loop {
        options = match options {
            // Padding, and the end of the list (RFC 9293, section 3.1).
            [1, rest @ ..] => rest,
            [0, ..] | [] => return None,
            _ => {
                let (kind, option, rest) = split(options)?;
                if let (MPTCP, [subtype, _, a, b, c, d, ..]) = (kind, option)
                    && option.len() == JOIN_BYTES
                    && subtype >> 4 == MP_JOIN
                {
                    return Some(u32::from_be_bytes([*a, *b, *c, *d]));
                }
                rest
            }
        };
    }
}

/// The token by which the other end joins the connection of a socket.
fn token_of(socket: &Socket) -> Option<u32> {
    let mut info = [0_u8; TOKEN_AT + size_of::<u32>()];
    let mut length = info.len() as libc::socklen_t;
    #[allow(unsafe_code)]
    // SAFETY: buffer and length live through the call, which writes no more bytes than the length says.
    let answer = unsafe {
        libc::getsockopt(socket.as_raw_fd(), SOL_MPTCP, MPTCP_INFO, info.as_mut_ptr().cast(), &raw mut length)
    };
    let token = info.last_chunk().map(|token| u32::from_ne_bytes(*token));
    token.filter(|_| answer == 0 && length as usize == info.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_join_is_found_behind_other_options() {
        // MSS, SACK permitted with timestamps, window scale, MP_JOIN with the address 1 and a nonce.
        let syn = [
            2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7, 30, 12, 0x10, 1, 0xde, 0xad, 0xbe,
            0xef, 1, 2, 3, 4,
        ];
        assert_eq!(joined(&syn), Some(0xdead_beef));
        // MP_CAPABLE, version 1, joins nothing.
        assert_eq!(joined(&[30, 4, 0x01, 0x01]), None);
        assert_eq!(joined(&[30, 12, 0x10, 1]), None, "it is cut");
        assert_eq!(joined(&[8, 0, 1]), None, "a length that leads nowhere");
    }
}
