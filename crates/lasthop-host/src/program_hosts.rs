//! The hosts of real programs: servers, and the client or the hosts of the scenario.

use crate::emulator::HostFlows;
use crate::error::Error;
use crate::header::Headers;
use crate::hop::{External, Flows, Frame};
use crate::namespace::{Address, HostConfig, HostNamespace};
use crate::nat::Nat;
use crate::tun::Tun;
use etherparse::IpSlice;
use lasthop_core::{Body, FlowId, Host, Instant, Observer, Packet};
use lasthop_scenario::{Flow, Scenario};
use lasthop_traffic::{FlowConfig, ProgramConfig, TransferConfig};
use std::net::IpAddr;

/// Name of the host behind a single hop.
const CLIENT: &str = "client";

/// The hosts, servers first.
#[derive(Debug)]
pub struct ProgramHosts {
    pub names: Vec<String>,
    pub namespaces: Vec<HostNamespace>,
    /// The network between them: a scenario with a flow for each [`application`].
    pub network: Scenario,
    servers: usize,
}

/// The number of the application whose flows go between these hosts.
fn application(server: usize, client: usize, hosts: usize) -> usize {
    client * hosts + server
}

impl ProgramHosts {
    /// Creates the hosts: these servers, at least one, and those of the scenario. The caller is in the
    /// network namespace of one of them afterwards.
    pub fn create(scenario: &Scenario, servers: &[&str]) -> Result<Self, Error> {
        let (names, network) = (names(scenario, servers), network(scenario, servers));
        let mut hosts = Self { names, namespaces: Vec::new(), network, servers: servers.len() };
        hosts.add_missing(scenario)?;
        Ok(hosts)
    }

    /// Replaces the hosts at the edge, and the network. The caller is in the network of a new host
    /// afterwards.
    pub fn renew(&mut self, scenario: &Scenario, servers: &[&str]) -> Result<(), Error> {
        self.network = network(scenario, servers);
        self.namespaces.truncate(self.servers);
        self.add_missing(scenario)
    }

    fn add_missing(&mut self, scenario: &Scenario) -> Result<(), Error> {
        let mtu = scenario.mtu.0 as u32;
        for number in self.namespaces.len()..self.names.len() {
            let address = match number.checked_sub(self.servers) {
                None => Address::server(number as u8),
                Some(number) => Address::edge(number),
            };
            self.namespaces.push(HostNamespace::create(address, mtu, &HostConfig::default())?);
        }
        Ok(())
    }

    pub fn servers(&self) -> &[HostNamespace] {
        &self.namespaces[..self.servers]
    }

    pub fn destination(&self, bytes: &[u8]) -> Option<usize> {
        let address = destination(bytes)?;
        self.namespaces.iter().position(|host| host.address.all().contains(&address))
    }

    /// The host with this name, or the first one at the edge.
    pub fn named(&self, name: Option<&str>) -> Result<&HostNamespace, Error> {
        let number = match name {
            None => Some(self.servers),
            Some(name) => self.names.iter().position(|own| own == name),
        };
        number.map(|number| &self.namespaces[number]).ok_or_else(|| {
            let (name, accepted) = (name.unwrap_or_default(), self.names.join(", "));
            Error::new(format!("there is no host {name:?} for a program (accepted: {accepted})"))
        })
    }

    pub fn tuns(&self) -> Vec<&Tun> {
        self.namespaces.iter().map(|host| &host.tun).collect()
    }

    /// Combines these flows with the hosts' addresses.
    pub fn carrying<F: Flows>(&self, flows: F) -> BetweenHosts<F> {
        let addresses = self.namespaces.iter().map(|host| host.address.all()).collect();
        let has_ways = self.network.names_hops();
        let (applications, nats) = (Vec::new(), Vec::new());
        BetweenHosts { flows, addresses, servers: self.servers, has_ways, applications, nats }
    }
}

fn destination(bytes: &[u8]) -> Option<IpAddr> {
    Some(IpSlice::from_slice(bytes).ok()?.destination_addr())
}

fn names(scenario: &Scenario, servers: &[&str]) -> Vec<String> {
    let own = scenario.host.keys().cloned();
    let client = scenario.host.is_empty().then(|| CLIENT.to_owned());
    servers.iter().map(|name| (*name).to_owned()).chain(own).chain(client).collect()
}

/// The network between programs of servers and hosts. In a tree of hops, it has a flow between each two.
pub fn network(scenario: &Scenario, servers: &[&str]) -> Scenario {
    let mut network = scenario.clone();
    if !scenario.names_hops() {
        return network;
    }
    let names = names(scenario, servers);
    for server in servers {
        network.host.insert((*server).to_owned(), lasthop_scenario::HostConfig::default());
    }
    let program = scenario
        .real_program()
        .cloned()
        .unwrap_or_else(|| ProgramConfig { name: "programs".into(), ..ProgramConfig::default() });
    let flow = |client: &String, server: &String| Flow {
        host: Some(client.clone()),
        peer: Some(server.clone()),
        ..Flow::from(FlowConfig::Program(program.clone()))
    };
    network.flow = names.iter().flat_map(|client| names.iter().map(|server| flow(client, server))).collect();
    network
}

/// Flows between programs' hosts, and the host that each packet is for; the lower number is the server.
pub struct BetweenHosts<F> {
    pub flows: F,
    addresses: Vec<[IpAddr; 2]>,
    servers: usize,
    /// True if the route of a packet depends on its hosts.
    has_ways: bool,
    pub applications: Vec<u32>,
    /// NATs, by the servers that see the ports of their clients change.
    nats: Vec<(usize, Nat)>,
}

impl<F> BetweenHosts<F> {
    /// Puts the clients of these transfers, whose servers come first among the hosts, behind their NATs.
    #[must_use]
    pub fn behind_nats(mut self, transfers: &[TransferConfig]) -> Self {
        let nat = |(server, own): (usize, &TransferConfig)| Some((server, Nat::new(own.rebind.clone()?)));
        self.nats = transfers.iter().enumerate().filter_map(nat).collect();
        self
    }

    /// The NAT between a server and its clients.
    fn nat_of(&mut self, server: Option<usize>) -> Option<&mut Nat> {
        self.nats.iter_mut().find(|(own, _)| Some(*own) == server).map(|(_, nat)| nat)
    }

    fn number(&self, address: IpAddr) -> Option<usize> {
        self.addresses.iter().position(|own| own.contains(&address))
    }

    fn destination(&self, bytes: &[u8]) -> Option<usize> {
        self.number(destination(bytes)?)
    }

    fn application_of(&self, headers: &Headers<'_>) -> Option<u32> {
        let (from, to) = (self.number(headers.addresses.0)?, self.number(headers.addresses.1)?);
        Some(application(from.min(to), from.max(to), self.addresses.len()) as u32)
    }
}

impl<F: Flows> Flows for BetweenHosts<F> {
    fn sender(&self, host: usize, headers: &Headers<'_>) -> Option<Host> {
        let is_server = if self.has_ways {
            self.application_of(headers)?;
            host < self.number(headers.addresses.1)?
        } else {
            host < self.servers
        };
        Some(if is_server { Host::Server } else { Host::Client })
    }

    fn way(&self, flow: FlowId) -> (u32, usize) {
        (self.applications[flow.0 as usize], 0)
    }

    fn identify<O: Observer>(
        &mut self,
        now: Instant,
        sender: Host,
        headers: &Headers<'_>,
        observer: &mut O,
    ) -> (FlowId, u16, Body) {
        let (flow, server_port, body) = self.flows.identify(now, sender, headers, observer);
        let application = self.application_of(headers).filter(|_| self.has_ways).unwrap_or_default();
        if flow.is_stranger() {
            return (FlowId::stranger(application), server_port, body);
        }
        if flow.0 as usize == self.applications.len() {
            self.applications.push(application);
        }
        (flow, server_port, body)
    }

    fn arrived<O: Observer>(&mut self, now: Instant, host: Host, packet: &Packet, observer: &mut O) {
        self.flows.arrived(now, host, packet, observer);
    }
}

impl<F: Flows> HostFlows for BetweenHosts<F> {
    fn receiver(&self, end: Host, _packet: &Packet, bytes: &[u8]) -> usize {
        let receiver = self
            .destination(bytes)
            .filter(|host| self.has_ways || (*host < self.servers) == (end == Host::Server));
        receiver.unwrap_or(if end == Host::Server { 0 } else { self.servers })
    }

    fn leaves(&mut self, now: Instant, host: usize, frame: &mut Frame) {
        if self.nats.is_empty() {
            return;
        }
        frame.external = External::Own;
        if let Some(nat) = self.nat_of(Some(host)) {
            nat.answer(now, frame);
        } else if let Some(nat) = self.nat_of(self.destination(frame.bytes())) {
            nat.send(now, frame);
        }
    }

    fn reaches(&mut self, now: Instant, host: usize, frame: &mut Frame) -> bool {
        if self.nats.is_empty() {
            return true;
        }
        if let Some(nat) = self.nat_of(Some(host)) {
            nat.reach_server(now, frame);
            return true;
        }
        let server = IpSlice::from_slice(frame.bytes()).ok().and_then(|ip| self.number(ip.source_addr()));
        self.nat_of(server).is_none_or(|nat| nat.reaches_client(now, frame))
    }

    fn neighbour(&self, host: usize, bytes: &[u8]) -> Option<usize> {
        if self.has_ways || self.servers < 2 || host >= self.servers {
            return None;
        }
        self.destination(bytes).filter(|to| *to < self.servers)
    }
}
