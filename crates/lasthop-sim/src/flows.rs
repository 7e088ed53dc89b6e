//! The flows of a run and their ends.

use std::cell::Cell;
use std::rc::Rc;

use lasthop_core::{Dscp, Duration, FlowId, FlowInfo, Host, Protocol, Seed, Transport};
use lasthop_scenario::Scenario;
use lasthop_tcp::{CachedMetrics, Endpoint, Tcp, TcpConfig, TickClock};
use lasthop_traffic::ShortHosts;

use crate::transport::{End, Udp};

/// An entry of the scenario's list of flows, at work.
pub(crate) struct Running<A> {
    pub program: A,
    /// Its flows, by the numbers that it gives them.
    pub flows: Vec<FlowId>,
}

/// One flow of the run.
pub(crate) struct Flow<T> {
    /// Index of its application, and its number there.
    pub application: usize,
    pub number: u32,
    /// Of its packets.
    pub dscp: Dscp,
    pub server_port: u16,
    /// It came while the run lasted, and goes once it is over.
    passes: bool,
    /// Its ends; none any more once it has gone.
    ends: Option<Box<Ends<T>>>,
}

/// Both ends of a flow.
pub(crate) struct Ends<T> {
    pub server: T,
    pub client: T,
}

impl<T: Transport> Flow<T> {
    pub fn new(info: &FlowInfo, number: u32, ends: Ends<T>) -> Self {
        let FlowInfo { application, dscp, server_port, .. } = *info;
        let passes = info.group.is_some();
        Self {
            application: application as usize,
            number,
            dscp,
            server_port,
            passes,
            ends: Some(Box::new(ends)),
        }
    }

    /// Its end at `host`, unless it has gone.
    #[inline]
    pub fn end(&mut self, host: Host) -> Option<&mut T> {
        self.ends.as_mut().map(|ends| match host {
            Host::Server => &mut ends.server,
            Host::Client => &mut ends.client,
        })
    }

    /// Lets it go if it passes and both ends are done with it; true if it has gone now.
    #[inline]
    pub fn go(&mut self) -> bool {
        self.passes && self.ends.take_if(|ends| ends.server.is_over() && ends.client.is_over()).is_some()
    }
}

/// The hosts: they make the ends of flows.
pub(crate) trait Hosts {
    type End: Transport;

    /// The ends of a flow; `later` says what is special about one that was not known before the run.
    fn ends(&self, flow: FlowId, info: &FlowInfo, later: Option<&ShortHosts>) -> Ends<Self::End>;
}

/// The hosts of a scenario.
pub(crate) struct ScenarioHosts {
    tcp: Rc<TcpConfig>,
    mtu: u32,
    server: TickClock,
    client: TickClock,
    /// What the server remembers of the client, if it does.
    metrics: Option<Rc<Cell<CachedMetrics>>>,
}

impl ScenarioHosts {
    pub fn new(scenario: &Scenario, seed: Seed, metrics: Option<Rc<Cell<CachedMetrics>>>) -> Self {
        let tcp = &scenario.tcp;
        let clock = |host| {
            let phase = scenario.clock_phase(host, seed) * tcp.clock_period().as_nanos() as f64;
            TickClock::new(tcp.tick, Duration::from_nanos(phase as u64))
        };
        let (server, client) = (clock(Host::Server), clock(Host::Client));
        Self { tcp: Rc::new(tcp.clone()), mtu: scenario.mtu.0 as u32, server, client, metrics }
    }

    fn tcp(&self, config: &Rc<TcpConfig>, flow: FlowId) -> Ends<End> {
        let end = |clock, host, metrics| {
            End::Tcp(Tcp::new(Endpoint::listen(Rc::clone(config), self.mtu, clock, flow, host), metrics))
        };
        Ends {
            server: end(self.server, Host::Server, self.metrics.clone()),
            client: end(self.client, Host::Client, None),
        }
    }
}

impl Hosts for ScenarioHosts {
    type End = End;

    fn ends(&self, flow: FlowId, info: &FlowInfo, later: Option<&ShortHosts>) -> Ends<End> {
        match (info.protocol, later) {
            (Protocol::Tcp, None) => self.tcp(&self.tcp, flow),
            (Protocol::Tcp, Some(&ShortHosts { initial_window, receive_window_initial, .. })) => {
                // A window never shrinks.
                let receive_window_max = self.tcp.receive_window_max.max(receive_window_initial);
                let tcp = TcpConfig::clone(&self.tcp);
                let config = TcpConfig { initial_window, receive_window_initial, receive_window_max, ..tcp };
                self.tcp(&Rc::new(config), flow)
            }
            (Protocol::Udp, _) => {
                Ends { server: End::Udp(Udp::new(info.ecn)), client: End::Udp(Udp::new(info.ecn)) }
            }
        }
    }
}
