//! MPTCP of a host: its addresses, one per path, and Linux' path manager, which opens a subflow from each
//! (`ip-mptcp(8)`; `Documentation/netlink/specs/mptcp_pm.yaml`).

use crate::error::{Context, Error};
use crate::generic_netlink::Requests;
use crate::namespace::{Address, sysctl};
use crate::netlink::nested;
use lasthop_core::Host;
use lasthop_scenario::{Flow, FlowStack, MptcpConfig, Scenario};
use lasthop_tcp::Pacing;
use netlink_packet_core::DefaultNla;
use std::fs;

/// The path manager, its requests, their attributes and flags (`linux/mptcp_pm.h`, `linux/mptcp.h`).
const PATH_MANAGER: &str = "mptcp_pm";
const ADD_ADDRESS: u8 = 1;
const SET_LIMITS: u8 = 5;
const ENDPOINT: u16 = 1;
const LIMIT_SUBFLOWS: u16 = 3;
const FAMILY: u16 = 1;
const ADDRESS_V4: u16 = 3;
const FLAGS: u16 = 6;
const FLAG_SUBFLOW: u32 = 1 << 1;
const FLAG_BACKUP: u32 = 1 << 2;
const NESTED: u16 = 1 << 15;
/// Linux' own limits of send buffers. A connection whose application has closed gets no further subflows, so
/// an application must not be able to write everything at once.
const WRITE_BUFFERS: &str = "4096 16384 4194304";

/// MPTCP at one end of a flow, according to the scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multipath<'a> {
    config: Option<&'a MptcpConfig>,
    /// The hops of the paths of the host at the edge.
    ways: &'a [String],
    end: Host,
}

impl<'a> Multipath<'a> {
    /// MPTCP of an end of a flow, if MPTCP carries it.
    pub fn of(scenario: &'a Scenario, flow: &'a Flow, end: Host) -> Option<Self> {
        let is_it = flow.stack == FlowStack::Mptcp;
        is_it.then(|| Self { config: flow.mptcp.as_deref(), ways: scenario.ways(flow), end })
    }

    /// The same for the kernel, at a host with this first address.
    pub fn at(self, address: Address) -> Mptcp {
        let MptcpConfig { backup, scheduler, stale_loss_cnt } = self.config.cloned().unwrap_or_default();
        let endpoint = |(way, hop): (usize, &String)| (address.on_way(way), backup.contains(hop));
        let endpoints = match self.end {
            Host::Server => Vec::new(),
            Host::Client => self.ways.iter().enumerate().map(endpoint).collect(),
        };
        let further_subflows = self.ways.len() as u32 - 1;
        Mptcp { endpoints, further_subflows, scheduler, stale_loss_cnt }
    }
}

#[derive(Clone, Debug)]
pub struct Mptcp {
    /// The host's address on each path, and whether it is a backup; empty for a host with one address.
    endpoints: Vec<(Address, bool)>,
    further_subflows: u32,
    scheduler: Option<String>,
    stale_loss_cnt: Option<u8>,
}

impl Mptcp {
    /// The host's addresses on all paths except the first.
    pub fn further_addresses(&self) -> Vec<Address> {
        self.endpoints.iter().skip(1).map(|(address, _)| *address).collect()
    }

    pub fn set_up(&self) -> Result<(), Error> {
        if let Some(scheduler) = &self.scheduler {
            let offered = fs::read_to_string("/proc/sys/net/mptcp/available_schedulers").unwrap_or_default();
            if let Some(error) = missing_scheduler(&offered, scheduler) {
                return Err(error);
            }
            sysctl("mptcp/scheduler", scheduler)?;
        }
        sysctl("ipv4/tcp_wmem", WRITE_BUFFERS)?;
        if let Some(count) = self.stale_loss_cnt {
            sysctl("mptcp/stale_loss_cnt", &count.to_string())?;
        }
        let set_up = || {
            let manager = Requests::open(PATH_MANAGER)?;
            manager.send(SET_LIMITS, vec![number(LIMIT_SUBFLOWS, self.further_subflows)])?;
            let mut endpoints = self.endpoints.iter();
            endpoints.try_for_each(|(address, is_backup)| {
                manager.send(ADD_ADDRESS, vec![endpoint(*address, *is_backup)])
            })
        };
        set_up().context("cannot configure the paths of a host for the kernel's MPTCP")
    }
}

fn missing_scheduler(offered: &str, wanted: &str) -> Option<Error> {
    let offered: Vec<_> = offered.split_whitespace().collect();
    if offered.contains(&wanted) {
        return None;
    }
    let has = if offered.is_empty() { "only \"default\"".to_owned() } else { offered.join(", ") };
    Some(Error::new(format!("mptcp.scheduler = \"{wanted}\": this kernel offers {has}; choose one of these")))
}

/// Rejects MPTCP on engines without lasthop's guest kernel.
pub fn needs_no_mptcp(scenario: &Scenario) -> Result<(), Error> {
    scenario.flow.iter().position(|flow| flow.stack == FlowStack::Mptcp).map_or(Ok(()), |index| {
        Err(Error::new(format!(
            "flow[{index}].stack = \"mptcp\" runs on the kernel engine only, whose guest has MPTCP; use \
             --engine kernel, or leave it out"
        )))
    })
}

/// Rejects settings that MPTCP sockets do not support.
pub fn needs_plain_mptcp(scenario: &Scenario) -> Result<(), Error> {
    let is_paced = |flow: &Flow, end| scenario.tcp_at(flow, end).pacing == Pacing::Socket;
    let of_mptcp = scenario.flow.iter().filter(|flow| flow.stack == FlowStack::Mptcp);
    let mut paced = of_mptcp.filter(|flow| is_paced(flow, Host::Server) || is_paced(flow, Host::Client));
    paced.next().map_or(Ok(()), |flow| {
        Err(Error::new(format!(
            "the flow {:?} cannot have both MPTCP and pacing = true: Linux' MPTCP sockets support no pacing \
             rate (SO_MAX_PACING_RATE); write pacing = \"fq\", or leave it out",
            flow.traffic().name()
        )))
    })
}

/// The attribute that requests a subflow from this address.
fn endpoint(address: Address, is_backup: bool) -> DefaultNla {
    let flags = FLAG_SUBFLOW | if is_backup { FLAG_BACKUP } else { 0 };
    let inner = [
        DefaultNla::new(FAMILY, (libc::AF_INET as u16).to_ne_bytes().into()),
        DefaultNla::new(ADDRESS_V4, address.v4().octets().into()),
        number(FLAGS, flags),
    ];
    DefaultNla::new(ENDPOINT | NESTED, nested(&inner))
}

fn number(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_ne_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generic_netlink::Request;
    use netlink_packet_core::NetlinkSerializable;

    #[test]
    fn an_endpoint_has_the_bytes_of_the_kernels_interface() {
        let address = Address { network: 1, number: 101 };
        let attributes = vec![endpoint(address, true)];
        let request = Request { family: 0, command: ADD_ADDRESS, attributes };
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        let wanted: [u8; 32] = [
            1, 1, 0, 0, // command, version
            28, 0, 1, 0x80, // endpoint, nested
            6, 0, 1, 0, 2, 0, 0, 0, // AF_INET, padded
            8, 0, 3, 0, 10, 0, 1, 102, //
            8, 0, 6, 0, 6, 0, 0, 0, // subflow and backup
        ];
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn a_scheduler_that_the_kernel_lacks_is_named_with_those_it_has() {
        assert!(missing_scheduler("default\n", "default").is_none());
        let error = missing_scheduler("default bpf_rr\n", "roundrobin").unwrap().to_string();
        assert!(error.contains("\"roundrobin\": this kernel offers default, bpf_rr;"), "{error}");
    }
}
