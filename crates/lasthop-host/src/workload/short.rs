//! Short flows: connections that come and go while the run lasts.

use super::peer::{self, News, Peer};
use super::{Application, Connection, Ends, Flow, Kind, Workload};
use crate::clock::Waiter;
use crate::error::{Context, Error};
use crate::namespace::further_address;
use lasthop_core::{Dscp, FlowId, Host, Instant, Observer};
use lasthop_scenario::Scenario;
use lasthop_traffic::{ShortFlows, ShortFlowsConfig, ShortHosts};
use std::net::SocketAddr;

/// Short flows, and how many bytes they ask with and get.
pub struct Short {
    pub flows: ShortFlows,
    hosts: Vec<ShortHosts>,
    /// Number of the pair of addresses of the first hosts; those of the others follow.
    first_pair: u8,
    request: u64,
    response: u64,
    /// The fixed host's port of all of them.
    port: u16,
}

impl Short {
    /// Those of an entry of `scenario`; the number of the pair of addresses of its first hosts is `first_pair`.
    pub fn new(
        scenario: &Scenario,
        config: &ShortFlowsConfig,
        flows: ShortFlows,
        first_pair: u8,
        port: u16,
    ) -> Self {
        Self {
            flows,
            hosts: config.hosts.clone(),
            first_pair,
            request: config.request.0,
            response: u64::from(config.packets) * u64::from(scenario.segment_bytes()),
            port,
        }
    }

    /// Where the fixed host listens, for all its windows.
    pub fn listening(&self) -> impl Iterator<Item = SocketAddr> {
        let port = self.port;
        let pairs = self.first_pair..self.first_pair + self.hosts.len() as u8;
        pairs.map(move |pair| (further_address(Host::Server, pair), port).into())
    }
}

impl Workload {
    /// Starts the short flow that is due, if one is. The caller is in the mobile host's namespace.
    pub(super) fn start_short<O: Observer>(
        &mut self,
        now: Instant,
        index: usize,
        waiter: &Waiter,
        observer: &mut O,
    ) -> Result<(), Error> {
        let number = self.flows.len();
        let id = FlowId(number as u32);
        let client_port = self.client_port(number);
        let Kind::Short(short) = &mut self.applications[index].kind else { return Ok(()) };
        let Some(hosts) = short.flows.poll_start(now, id) else { return Ok(()) };
        let mut info = lasthop_traffic::short_flow(number, index as u32, &short.hosts[hosts]);
        info.server_port = short.port;
        let pair = short.first_pair + hosts as u8;
        let request = short.request;
        observer.announce(&info);
        let mut connection = Connection::new(id, self.receive_window_max);
        let from = SocketAddr::from((further_address(Host::Client, pair), client_port));
        let socket = peer::socket(from, info.dscp).context("cannot make the socket of a short flow")?;
        connection.peer(Host::Client).open(socket);
        self.ports.insert(client_port, id);
        let server_port = info.server_port;
        self.flows.push(Flow {
            application: index,
            server_port,
            client_port,
            ends: Ends::Tcp(Box::new(connection)),
        });
        let to = SocketAddr::from((further_address(Host::Server, pair), server_port));
        self.connect_to(id, Host::Client, to, waiter)?;
        observer.written(now, id, Host::Client, request);
        self.peer(id, Host::Client).write(request, request);
        Ok(())
    }

    /// Something has come at one end of a short flow, or its stream has ended.
    pub(super) fn tell_short<O: Observer>(
        &mut self,
        now: Instant,
        flow: FlowId,
        host: Host,
        observer: &mut O,
    ) -> Result<(), Error> {
        let segment_bytes = self.segment_bytes;
        let Flow { application, ends: Ends::Tcp(connection), .. } = &mut self.flows[flow.0 as usize] else {
            return Ok(());
        };
        let Application { kind: Kind::Short(short), .. } = &mut self.applications[*application] else {
            return Ok(());
        };
        let peer: &mut Peer = connection.peer(host);
        let News { received, ended } = peer.news(|_| Ok(()))?;
        match host {
            Host::Server if received == Some(short.request) => {
                observer.written(now, flow, host, short.response);
                peer.write(short.response, segment_bytes);
                peer.close();
            }
            Host::Client if received == Some(short.response) => {
                observer.completed(now, flow);
                short.flows.handle_over(now, flow);
            }
            _ => {}
        }
        if ended {
            // The response has ended, or an end has given up.
            short.flows.handle_over(now, flow);
            peer.close();
        }
        Ok(())
    }

    /// Forgets a connection of short life that both ends are done with.
    pub(super) fn retire<O: Observer>(&mut self, now: Instant, flow: FlowId, observer: &mut O) {
        let Flow { application, client_port, ends, .. } = &mut self.flows[flow.0 as usize];
        if let Ends::Tcp(connection) = ends
            && connection.is_over()
            && matches!(self.applications[*application].kind, Kind::Short(_))
        {
            *ends = Ends::Gone;
            // The next flow with this port may have come already.
            if self.ports.get(client_port) == Some(&flow) {
                self.ports.remove(client_port);
            }
            observer.retired(now, flow);
        }
    }

    /// Listens for the short flows of an application. The caller is in the fixed host's namespace.
    pub(super) fn listen_short(&mut self, index: usize, waiter: &Waiter) -> Result<(), Error> {
        let Kind::Short(short) = &self.applications[index].kind else { return Ok(()) };
        for address in short.listening().collect::<Vec<_>>() {
            self.listen(Host::Client, address, Dscp::default(), waiter)?;
        }
        Ok(())
    }
}
