//! The hosts of applications. TCP settings belong to a host, so applications with different TCP settings have
//! different pairs of hosts, with the same addresses in separate network namespaces.

use crate::error::Error;
use crate::features::{Difference, Features, missing_algorithm};
use crate::namespace::HostNamespace;
use lasthop_core::Host;
use lasthop_scenario::Scenario;
use lasthop_tcp::TcpConfig;

/// The TCP settings of a scenario, each with a pair of hosts; the first are those of `[tcp]`.
#[derive(Debug)]
pub struct Pairs<'a> {
    scenario: &'a Scenario,
    tcps: Vec<&'a TcpConfig>,
    /// Index of the pair, by application.
    of: Vec<usize>,
}

/// The fixed host and the mobile host with the same TCP settings.
pub type Pair = (HostNamespace, HostNamespace);

impl<'a> Pairs<'a> {
    /// The TCP settings of a scenario.
    pub fn of(scenario: &'a Scenario) -> Self {
        let mut tcps: Vec<&TcpConfig> = Vec::new();
        for tcp in scenario.tcps() {
            if !tcps.contains(&tcp) {
                tcps.push(tcp);
            }
        }
        let place = |tcp: &TcpConfig| tcps.iter().position(|other| *other == tcp).unwrap_or_default();
        let of = scenario.applications().iter().map(|instance| place(scenario.tcp_of(instance))).collect();
        Self { scenario, tcps, of }
    }

    /// The pair of hosts of each application.
    pub fn by_application(&self) -> &[usize] {
        &self.of
    }

    /// Differences of the hosts from the scenario.
    pub fn differences(&self) -> Vec<Difference> {
        let mut all = Vec::new();
        for tcp in &self.tcps {
            for difference in Features::of(self.scenario, tcp).differences {
                if !all.contains(&difference) {
                    all.push(difference);
                }
            }
        }
        all
    }

    /// Creates the hosts. The caller is in the network namespace of one of them afterwards.
    pub fn create(&self) -> Result<Vec<Pair>, Error> {
        let mtu = self.scenario.mtu.0 as u32;
        let pair = |tcp: &&TcpConfig| {
            let Features { server, client, .. } = Features::of(self.scenario, tcp);
            let server = HostNamespace::create(Host::Server, 0, mtu, &server);
            let pair =
                server.and_then(|server| Ok((server, HostNamespace::create(Host::Client, 0, mtu, &client)?)));
            pair.map_err(|error| missing_algorithm(tcp).unwrap_or(error))
        };
        self.tcps.iter().map(pair).collect()
    }
}

/// Rejects a flow's own TCP settings if hosts cannot have them.
pub fn needs_pairs(scenario: &Scenario) -> Result<(), Error> {
    let is_nginx =
        scenario.http.as_ref().is_some_and(|http| http.server == lasthop_traffic::HttpServer::Nginx);
    for flow in scenario.flow.iter().filter(|flow| flow.tcp.is_some()) {
        let why = if flow.traffic().opens_later() {
            "short flows have hosts with windows of their own already; use --engine model, or leave out its \
             tcp"
        } else if is_nginx && flow.page().is_some() {
            "nginx runs on one host; use the built-in server, or leave out its tcp"
        } else {
            continue;
        };
        return Err(Error::new(format!(
            "the flow {:?} cannot have a TCP of its own here: {why}",
            flow.traffic().name()
        )));
    }
    Ok(())
}
