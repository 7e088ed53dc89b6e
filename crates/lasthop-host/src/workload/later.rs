//! Flows that begin and end during the run.

use super::peer;
use super::{Application, Flow, FlowEnds, TcpConnection, Workload};
use crate::clock::Waiter;
use crate::error::{Context, Error};
use crate::namespace::Address;
use lasthop_core::{Dscp, FlowId, Host, Instant, Observer, Part};
use lasthop_traffic::ShortHosts;
use std::net::SocketAddr;

/// The server's ports for these flows lie above this number, one for each entry that opens such flows.
const LATER_PORT: u16 = 10_000;

/// The flows that an application opens while it runs. Their hosts have separate addresses.
pub struct Later {
    hosts: Vec<ShortHosts>,
    /// Number of the addresses of the first hosts; those of the others follow.
    first: u8,
    /// The server's port of all of them.
    port: u16,
}

impl Later {
    /// The flows of an application between these hosts, with further addresses from the number `first` on.
    pub fn new(hosts: &[ShortHosts], first: u8) -> Self {
        Self { hosts: hosts.to_vec(), first, port: LATER_PORT + u16::from(first) }
    }

    /// The addresses at which the server listens, one for each window.
    fn listening(&self, server: Address) -> Vec<SocketAddr> {
        (0..self.hosts.len()).map(|hosts| self.address(server, hosts, self.port)).collect()
    }

    fn address(&self, host: Address, hosts: usize, port: u16) -> SocketAddr {
        (host.further(self.first + hosts as u8).v4(), port).into()
    }
}

impl Workload<'_> {
    /// Announces the flow that an application opens between these hosts, and creates the socket to connect.
    pub(super) fn open<O: Observer>(
        &mut self,
        application: usize,
        hosts: usize,
        is_control: bool,
        observer: &mut O,
    ) -> Result<(), Error> {
        let number = self.flows.len();
        let id = FlowId(number as u32);
        let Application { later, sides, .. } = &self.applications[application];
        let [server, client] = sides.map(|side| self.hosts[side.host].address);
        let mut info =
            lasthop_traffic::later_flow(number, application as u32, &later.hosts[hosts], is_control);
        info.server_port = later.port;
        let server = later.address(server, hosts, later.port);
        let client = later.address(client, hosts, self.client_port(number));
        observer.announce(&info);
        let (mut connection, caller) =
            (TcpConnection::new(id, sides, false), sides[Host::Client as usize].host);
        self.enter(caller)?;
        let socket = peer::socket(client, info.dscp, self.sending[caller])
            .context("cannot make the socket of a short flow")?;
        connection.peer(Host::Client).open(socket);
        self.ports.insert(client.port(), id);
        let number = self.applications[application].takes(id);
        let ends = FlowEnds::Tcp(Box::new(connection));
        let flow = Flow::new((application, number), application, Part::Whole, [server, client], ends);
        self.flows.push(Flow { passes: true, ..flow });
        Ok(())
    }

    pub(super) fn retire<O: Observer>(&mut self, now: Instant, flow: FlowId, observer: &mut O) {
        let Flow { passes, client, ends, .. } = &mut self.flows[flow.0 as usize];
        if let FlowEnds::Tcp(connection) = ends
            && *passes
            && connection.is_over()
        {
            *ends = FlowEnds::Gone;
            // The next flow with this port may exist already.
            if self.ports.get(&client.port()) == Some(&flow) {
                self.ports.remove(&client.port());
            }
            observer.retired(now, flow);
        }
    }

    pub(super) fn listen_later(&mut self, index: usize, waiter: &Waiter) -> Result<(), Error> {
        let Application { later, sides: [server, _], .. } = &self.applications[index];
        let (host, addresses) = (server.host, later.listening(self.hosts[server.host].address));
        for address in addresses {
            self.enter(host)?;
            self.listen((Host::Client, host), address, Dscp::default(), waiter)?;
        }
        Ok(())
    }
}
