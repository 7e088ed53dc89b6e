//! Flows that begin and end during the run.

use super::peer;
use super::{Connection, Ends, Flow, Workload};
use crate::clock::Waiter;
use crate::error::{Context, Error};
use crate::namespace::further_address;
use lasthop_core::{Dscp, FlowId, Host, Instant, Observer};
use lasthop_traffic::ShortHosts;
use std::net::SocketAddr;

/// The fixed host's ports for these flows lie above this number: one port for each entry of the scenario that
/// opens such flows.
const LATER_PORT: u16 = 10_000;

/// The flows that an application opens while it runs. Their hosts have separate addresses.
pub struct Later {
    hosts: Vec<ShortHosts>,
    /// Number of the pair of addresses of the first hosts; the pairs of the others follow.
    first_pair: u8,
    /// The fixed host's port of all of them.
    port: u16,
}

impl Later {
    /// The flows of an application between these hosts; the first hosts have the pair of addresses with this
    /// number.
    pub fn new(hosts: &[ShortHosts], first_pair: u16) -> Self {
        Self { hosts: hosts.to_vec(), first_pair: first_pair as u8, port: LATER_PORT + first_pair }
    }

    /// The addresses at which the fixed host listens, one for each window.
    pub fn listening(&self) -> impl Iterator<Item = SocketAddr> {
        (0..self.hosts.len()).map(|hosts| self.address(Host::Server, hosts, self.port))
    }

    fn address(&self, host: Host, hosts: usize, port: u16) -> SocketAddr {
        (further_address(host, self.first_pair + hosts as u8), port).into()
    }
}

impl Workload {
    /// Announces the flow that an application opens between the hosts with this index, and creates the socket
    /// that will connect. The caller is in the mobile host's namespace.
    pub(super) fn open<O: Observer>(
        &mut self,
        application: usize,
        hosts: usize,
        is_control: bool,
        observer: &mut O,
    ) -> Result<(), Error> {
        let number = self.flows.len();
        let id = FlowId(number as u32);
        let later = &self.applications[application].later;
        let mut info =
            lasthop_traffic::later_flow(number, application as u32, &later.hosts[hosts], is_control);
        info.server_port = later.port;
        let server = later.address(Host::Server, hosts, later.port);
        let client = later.address(Host::Client, hosts, self.client_port(number));
        observer.announce(&info);
        let receive_window_max = self.applications[application].receive_window_max;
        let mut connection = Connection::new(id, receive_window_max, false);
        let socket = peer::socket(client, info.dscp, self.sending[0])
            .context("cannot make the socket of a short flow")?;
        connection.peer(Host::Client).open(socket);
        self.ports.insert(client.port(), id);
        let flows = &mut self.applications[application].flows;
        let (number, ends) = (flows.len() as u32, Ends::Tcp(Box::new(connection)));
        flows.push(id);
        self.flows.push(Flow { application, number, server, client, passes: true, ends });
        Ok(())
    }

    /// Removes a temporary flow once both ends have finished it.
    pub(super) fn retire<O: Observer>(&mut self, now: Instant, flow: FlowId, observer: &mut O) {
        let Flow { passes, client, ends, .. } = &mut self.flows[flow.0 as usize];
        if let Ends::Tcp(connection) = ends
            && *passes
            && connection.is_over()
        {
            *ends = Ends::Gone;
            // The next flow with this port may exist already.
            if self.ports.get(&client.port()) == Some(&flow) {
                self.ports.remove(&client.port());
            }
            observer.retired(now, flow);
        }
    }

    /// Listens for the flows that an application will open. The caller is in the fixed host's namespace.
    pub(super) fn listen_later(&mut self, index: usize, waiter: &Waiter) -> Result<(), Error> {
        let addresses: Vec<SocketAddr> = self.applications[index].later.listening().collect();
        addresses
            .into_iter()
            .try_for_each(|address| Ok(self.listen((Host::Client, 0), address, Dscp::default(), waiter)?))
    }
}
