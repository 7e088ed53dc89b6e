//! Servers of a guest that serve several replications, one after the other.

use crate::clock::{Clock, Reads, Waiter};
use crate::emulator::{tun_name, tun_named};
use crate::error::{Context, Error};
use crate::generic_netlink::Requests;
use crate::guest::User;
use crate::program_hosts::ProgramHosts;
use crate::programs::{Commands, HostProgram, Programs};
use lasthop_core::{Duration, Instant};
use lasthop_scenario::Scenario;
use nix::sched::{CloneFlags, setns};
use nix::sys::epoll::EpollFlags;
use std::fs::{self, File};

/// Virtual time between two replications: the next retransmission of a connection is at most two minutes away
/// (`TCP_RTO_MAX`), and TIME-WAIT lasts another minute (`TCP_TIMEWAIT_LEN`).
const PAUSE: Duration = Duration::from_secs(240);
/// Linux' cache of TCP metrics (`tcp_metrics.c`), and the request that, without an address, removes all entries of
/// the network namespace.
const TCP_METRICS: &str = "tcp_metrics";
const TCP_METRICS_CMD_DEL: u8 = 2;

/// The servers, and the hosts of the replication that they serve.
#[derive(Debug)]
pub struct KeptServers {
    /// The hosts. Those at the edge are renewed for each replication.
    pub hosts: ProgramHosts,
    pub programs: Programs,
    has_served: bool,
}

impl KeptServers {
    pub fn start(
        scenario: &Scenario,
        names: &[&str],
        servers: &[HostProgram],
        user: &User,
    ) -> Result<Self, Error> {
        let hosts = ProgramHosts::create(scenario, names)?;
        let commands = Commands {
            hosts: &hosts,
            main: &[],
            host: None,
            servers,
            others: &[],
            user: Some(user),
            has_terminal: false,
            kept: None,
        };
        let programs = Programs::start(&commands)?;
        Ok(Self { hosts, programs, has_served: false })
    }

    /// Prepares the hosts for a replication: renews those at the edge, and clears the state of the servers'.
    pub fn prepare(&mut self, scenario: &Scenario, names: &[&str]) -> Result<(), Error> {
        // The programs of each replication have a separate PID namespace, next to that of the servers.
        let own = File::open("/proc/self/ns/pid").context("cannot hold the PID namespace")?;
        setns(own, CloneFlags::CLONE_NEWPID).context("cannot return to the PID namespace")?;
        if !std::mem::replace(&mut self.has_served, true) {
            return Ok(());
        }
        // The programs would inherit the emulator's protection.
        fs::write("/proc/self/oom_score_adj", "0").context("cannot end the protection of the emulator")?;
        self.let_connections_end(scenario.mtu.0 as usize)?;
        for server in self.hosts.servers() {
            server.enter()?;
            let flush = || Requests::open(TCP_METRICS)?.send(TCP_METRICS_CMD_DEL, Vec::new());
            flush().context("cannot empty the cache of TCP's metrics")?;
        }
        self.hosts.renew(scenario, names)
    }

    /// Carries the remaining packets between the hosts, without delay or loss, until all connections have ended.
    fn let_connections_end(&self, mtu: usize) -> Result<(), Error> {
        let mut waiter = Waiter::new(Clock::start()?, Duration::ZERO, false)?;
        let tuns = self.hosts.tuns();
        for (host, tun) in tuns.iter().enumerate() {
            waiter.watch(tun, EpollFlags::EPOLLIN, tun_name(host))?;
        }
        let (end, mut ready, mut batch) = (Instant::ZERO + PAUSE, Vec::new(), Reads::new(mtu));
        while waiter.wait(Some(end), &mut ready)? < end {
            for name in &ready {
                tuns[tun_named(*name)].read_some(&mut batch);
                for frame in batch.packets()? {
                    if let Some(host) = self.hosts.destination(frame.bytes()) {
                        tuns[host].write(frame.bytes());
                    }
                }
            }
        }
        Ok(())
    }
}
