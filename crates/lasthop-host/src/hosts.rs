//! The hosts of applications. TCP settings belong to a network namespace, so a host whose flows have
//! different TCP settings has several namespaces, with the same addresses.

use crate::error::Error;
use crate::features::{Difference, Features, missing_algorithm, short_metrics};
use crate::mptcp::{Mptcp, Multipath};
use crate::namespace::{Address, Further, HostConfig, HostNamespace};
use lasthop_core::Host;
use lasthop_scenario::{Flow, HostPair, SERVER, Scenario};
use lasthop_tcp::TcpConfig;
use lasthop_traffic::HttpServer;

/// The ends of every flow, in the order of [`Hosts::of_pair`].
const ENDS: [Host; 2] = [Host::Server, Host::Client];

/// Maximum number of servers with their own address; the rest of their network is for short flows.
const SERVERS_MAX: usize = 128;

#[derive(Debug)]
pub struct Hosts<'a> {
    scenario: &'a Scenario,
    namespaces: Vec<Namespace<'a>>,
    /// The namespaces of the ends of each pair's flows, the server's first: of applications, then relays'
    /// sides.
    pub of_pair: Vec<[usize; 2]>,
    /// Number of addresses of servers of flows without a peer. Linux' router tells hosts apart by their
    /// addresses, so there each of these servers has its own; elsewhere they share one.
    servers: u8,
}

/// A host with one TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Namespace<'a> {
    address: Address,
    tcp: &'a TcpConfig,
    mptcp: Option<Multipath<'a>>,
}

impl<'a> Hosts<'a> {
    /// The hosts of a scenario. Without names, the first two are the server and the client, with `[tcp]`.
    pub fn of(scenario: &'a Scenario) -> Self {
        let mut namespaces: Vec<Namespace<'_>> = Vec::new();
        let mut number = |namespace| {
            namespaces.iter().position(|other| *other == namespace).unwrap_or_else(|| {
                namespaces.push(namespace);
                namespaces.len() - 1
            })
        };
        if scenario.host.is_empty() {
            for address in [Address::server(0), Address::CLIENT] {
                number(Namespace { address, tcp: &scenario.tcp, mptcp: None });
            }
        }
        let host_pairs = scenario.host_pairs();
        let servers = if scenario.names_hops() && scenario.has_linux_router() {
            host_pairs.len().clamp(1, SERVERS_MAX)
        } else {
            1
        };
        let end = |(index, pair): (usize, &HostPair<'a>), end| {
            let (flow, part) = (&scenario.flow[pair.instance.entry], pair.part);
            let name = scenario.host_at(flow, part, end);
            Namespace {
                address: match &*name {
                    SERVER => Address::server((index % servers) as u8),
                    name => address_of(scenario, name),
                },
                tcp: scenario.tcp_of_part(flow, part, end),
                mptcp: Multipath::of(scenario, flow, end),
            }
        };
        let pairs = host_pairs.iter().enumerate();
        let of_pair = pairs.map(|pair| ENDS.map(|host| number(end(pair, host)))).collect();
        Self { scenario, namespaces, of_pair, servers: servers as u8 }
    }

    pub fn tcps(&self) -> impl Iterator<Item = &'a TcpConfig> {
        self.namespaces.iter().map(|namespace| namespace.tcp)
    }

    pub fn have_mptcp(&self) -> impl Iterator<Item = bool> {
        self.namespaces.iter().map(|namespace| namespace.mptcp.is_some())
    }

    /// The namespace of the web server of the scenario's pages, if it is a separate program.
    pub fn web_server(&self) -> Option<usize> {
        let is_nginx = self.scenario.http.as_ref().is_some_and(|http| http.server == HttpServer::Nginx);
        let applications = self.scenario.applications();
        let page = applications.iter().position(|instance| instance.config.page().is_some());
        page.filter(|_| is_nginx).map(|page| self.of_pair[page][Host::Server as usize])
    }

    pub fn differences(&self) -> Vec<Difference> {
        let mut all = Vec::new();
        for tcp in self.tcps() {
            for difference in Features::of(self.scenario, tcp).differences {
                if !all.contains(&difference) {
                    all.push(difference);
                }
            }
        }
        all
    }

    /// Creates the namespaces. The caller is in one of them afterwards.
    pub fn create(&self) -> Result<Vec<HostNamespace>, Error> {
        let mtu = self.scenario.mtu.0 as u32;
        let create = |namespace: &Namespace<'_>| {
            let host = Features::of(self.scenario, namespace.tcp).host;
            let mptcp = namespace.mptcp.map(|mptcp| mptcp.at(namespace.address));
            let ways = mptcp.as_ref().map(Mptcp::further_addresses).unwrap_or_default();
            let config = HostConfig { further: self.further(namespace), ways, ..host };
            let created = HostNamespace::create(namespace.address, mtu, &config)
                .map_err(|error| missing_algorithm(namespace.tcp).unwrap_or(error))?;
            mptcp.map_or(Ok(()), |mptcp| mptcp.set_up())?;
            Ok(created)
        };
        self.namespaces.iter().map(create).collect()
    }

    /// A host's further addresses: windows of short flows are metrics of routes, so each needs its own.
    fn further(&self, namespace: &Namespace<'_>) -> Vec<Further> {
        let (mut further, mut number) = (Vec::new(), self.servers - 1);
        for (instance, ends) in self.scenario.applications().iter().zip(&self.of_pair) {
            let ends = ends.map(|end| self.namespaces[end].address);
            let side = ends.iter().position(|address| *address == namespace.address);
            for hosts in instance.config.traffic().later_flows() {
                number += 1;
                let Some(side) = side else { continue };
                let [own, other] = [ends[side], ends[1 - side]].map(|address| address.further(number));
                let metrics = short_metrics(self.scenario, namespace.tcp, hosts);
                further.push(Further { own, other, metrics });
            }
        }
        further
    }
}

pub fn address_of(scenario: &Scenario, name: &str) -> Address {
    if name == SERVER {
        return Address::server(0);
    }
    let relays = scenario.relays();
    let names = scenario.host.keys().chain(&relays);
    Address::edge(names.into_iter().position(|own| own == name).unwrap_or_default())
}

/// Rejects TCP settings and places of flows that real hosts do not support.
pub fn needs_hosts(scenario: &Scenario) -> Result<(), Error> {
    let is_nginx = scenario.http.as_ref().is_some_and(|http| http.server == HttpServer::Nginx);
    for flow in scenario.flow.iter().filter(|flow| flow.tcp.is_some()) {
        let why = if flow.traffic().opens_later() {
            "short flows use hosts with separate windows; use --engine model, or leave out its tcp"
        } else if is_nginx && flow.page().is_some() {
            "nginx runs on one host; use the built-in server, or leave out its tcp"
        } else {
            continue;
        };
        return Err(Error::new(format!(
            "the flow {:?} cannot have its own `tcp` on this engine: {why}",
            flow.traffic().name()
        )));
    }
    let pages: Vec<&Flow> = scenario.flow.iter().filter(|flow| is_nginx && flow.page().is_some()).collect();
    let server = |flow| scenario.host_of(flow, Host::Server);
    if let Some(other) = pages.iter().find(|page| server(page) != server(pages[0])) {
        return Err(Error::new(format!(
            "the page {:?} has another server than {:?}, but nginx runs on one host; use the built-in \
             server, or set the same `peer` for all pages",
            other.traffic().name(),
            pages[0].traffic().name()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::needs_no_router;
    use lasthop_scenario::Study;

    fn scenario(extra: &str) -> Scenario {
        let text = format!(
            r#"
            name = "tree"
            replications = 1
            tcp.profile = "linux-6"
            [hop.cable]
            down = {{ link = {{ rate = "50 Mbit/s", delay = "8 ms" }} }}
            [host.laptop]
            behind = "cable"
            [host.tv]
            behind = "cable"
            {extra}"#
        );
        Study::from_str(&text, "tree.toml").unwrap().cells[0].scenario.clone()
    }

    #[test]
    fn behind_linux_router_each_server_has_its_own_address() {
        let flows = r#"
            [[flow]]
            kind = "bulk-tcp"
            name = "two"
            host = "laptop"
            bytes = "1 kB"
            count = 2
            [[flow]]
            kind = "bulk-tcp"
            name = "one"
            host = "tv"
            bytes = "1 kB""#;
        let networks_and_numbers = |scenario: &Scenario| -> Vec<_> {
            let hosts = Hosts::of(scenario);
            hosts.namespaces.iter().map(|host| (host.address.network, host.address.number)).collect()
        };
        let shared = scenario(flows);
        assert_eq!(networks_and_numbers(&shared), [(0, 0), (1, 0), (2, 0)]);
        let linux = scenario(&format!("[hop.cable.router]\nimplementation = \"linux\"\n{flows}"));
        assert_eq!(networks_and_numbers(&linux), [(0, 0), (1, 0), (0, 1), (0, 2), (2, 0)]);
    }

    #[test]
    fn linux_router_of_a_named_hop_does_not_run_in_real_time() {
        let flow = "[[flow]]\nkind = \"bulk-tcp\"\nname = \"one\"\nhost = \"tv\"\nbytes = \"1 kB\"\n";
        assert!(needs_no_router(&scenario(flow)).is_ok());
        let linux = scenario(&format!("[hop.cable.router]\nimplementation = \"linux\"\n{flow}"));
        assert!(needs_no_router(&linux).is_err());
    }

    #[test]
    fn each_host_has_a_namespace_for_each_of_its_tcps() {
        let scenario = scenario(
            r#"tcp.congestion_control = "reno"
            [[flow]]
            kind = "bulk-tcp"
            name = "own"
            host = "laptop"
            bytes = "1 kB"
            tcp.sack = false
            [[flow]]
            kind = "bulk-tcp"
            name = "between"
            host = "laptop"
            peer = "tv"
            bytes = "1 kB"
            [[flow]]
            kind = "bulk-tcp"
            name = "down"
            host = "tv"
            bytes = "1 kB""#,
        );
        let hosts = Hosts::of(&scenario);
        assert_eq!(hosts.of_pair, [[0, 1], [2, 3], [4, 2]]);
        let networks: Vec<_> = hosts.namespaces.iter().map(|namespace| namespace.address.network).collect();
        assert_eq!(networks, [0, 1, 2, 1, 0], "server, laptop, tv, laptop again, server again");
        let controls: Vec<_> = hosts.tcps().map(|tcp| tcp.congestion_control.to_string()).collect();
        assert_eq!(controls, ["cubic", "cubic", "reno", "cubic", "cubic"]);
    }
}
