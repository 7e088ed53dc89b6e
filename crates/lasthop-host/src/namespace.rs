//! Two hosts as network namespaces. The namespaces have no names and are held only by open files, so that
//! they disappear when the process ends in any way.

use crate::error::{Context, Error};
use crate::netlink::{Destination, Netlink};
use crate::tun::{DEVICE, Tun};
use lasthop_core::Host;
use netlink_packet_route::route::RouteMetric;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

/// The least MTU of IPv6 (RFC 8200, section 5).
const IPV6_MTU_MIN: u32 = 1280;
const LOOPBACK_INDEX: u32 = 1;

/// Addresses of a host: for IPv4 those of captures, for IPv6 unique local addresses. Hosts on the same side
/// are numbered from 0.
pub fn addresses(host: Host, number: u8) -> (Ipv4Addr, Ipv6Addr) {
    let ipv4 = further_address(host, number);
    let [_, _, network, last] = ipv4.octets();
    (ipv4, Ipv6Addr::new(0xfd00, 0, 0, u16::from(network), 0, 0, 0, u16::from(last)))
}

/// The address of a host in the pair of addresses with this number. Pair 0 are the hosts' own addresses;
/// pairs from 1 on are those in [`HostConfig::further`].
pub fn further_address(host: Host, pair: u8) -> Ipv4Addr {
    let network = match host {
        Host::Server => 0,
        Host::Client => 1,
    };
    Ipv4Addr::new(10, 0, network, 1 + pair)
}

/// One of the two hosts.
#[derive(Debug)]
pub struct HostNamespace {
    namespace: File,
    /// Its link to the last hop.
    pub tun: Tun,
}

/// Configuration of a host.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// Values for files below `/proc/sys/net`.
    pub sysctls: Vec<(String, String)>,
    /// Metrics of its route to the other host.
    pub metrics: Vec<RouteMetric>,
    /// For each further pair of addresses (one at each host), the metrics of the route to the other host's
    /// address.
    pub further: Vec<Vec<RouteMetric>>,
    /// The queue discipline of its link, if packets do not go directly to the device.
    pub discipline: Option<&'static str>,
}

/// Lets an ordinary user create namespaces, by a user namespace that maps the user to the same id. Root needs
/// none.
pub fn acquire_rights() -> Result<(), Error> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|errno| {
        Error::new(format!(
            "this system does not let user {user} make a user namespace ({errno}); run it as root, or let \
             users do so (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone or \
             kernel.apparmor_restrict_unprivileged_userns; in a container its seccomp profile)"
        ))
    })?;
    // An unprivileged process may map its group only after giving up setgroups (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny").context("cannot set up the user namespace")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1")).context("cannot map the user")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1")).context("cannot map the group")
}

impl HostNamespace {
    /// A new host with this number on its side. The caller is in its network namespace from then on.
    pub fn create(host: Host, number: u8, mtu: u32, config: &HostConfig) -> Result<Self, Error> {
        new_network()?;
        let namespace = File::open("/proc/self/ns/net").context("cannot hold the network namespace")?;
        let tun = Tun::create(DEVICE)
            .context("cannot make a TUN device; /dev/net/tun must be there, readable and writable")?;
        let index = if_nametoindex(DEVICE).context("cannot find the TUN device")?;
        let netlink = Netlink::open().context("cannot open a netlink socket")?;
        let (ipv4, ipv6) = addresses(host, number);
        let ipv6 = (mtu >= IPV6_MTU_MIN && fs::exists("/proc/sys/net/ipv6").unwrap_or(false)).then_some(ipv6);
        if ipv6.is_some() {
            // No automatic addresses and no solicitations, so that no unrequested packet crosses the hop.
            sysctl(&format!("ipv6/conf/{DEVICE}/addr_gen_mode"), "1")?;
            sysctl(&format!("ipv6/conf/{DEVICE}/router_solicitations"), "0")?;
            sysctl(&format!("ipv6/conf/{DEVICE}/accept_ra"), "0")?;
        }
        // A server of an ordinary user may use a privileged port.
        sysctl("ipv4/ip_unprivileged_port_start", "0")?;
        for (name, value) in &config.sysctls {
            sysctl(name, value)?;
        }
        let setup = || {
            netlink.up(LOOPBACK_INDEX)?;
            netlink.configure(index, mtu)?;
            netlink.address(index, ipv4.into(), 24)?;
            if let Some(ipv6) = ipv6 {
                netlink.address(index, ipv6.into(), 64)?;
            }
            netlink.up(index)?;
            netlink.route(index, Destination::Any(ipv4.into()), &config.metrics)?;
            for (pair, metrics) in (1..).zip(&config.further) {
                netlink.address(index, further_address(host, pair).into(), 24)?;
                netlink.route(index, Destination::Host(further_address(host.other(), pair)), metrics)?;
            }
            let any = |ipv6| netlink.route(index, Destination::Any(IpAddr::V6(ipv6)), &config.metrics);
            ipv6.map_or(Ok(()), any)
        };
        setup().context("cannot set up the addresses and routes of the hosts")?;
        if let Some(kind) = config.discipline {
            netlink.discipline(index, kind).context(&format!(
                "cannot give the hosts the queue discipline {kind}; this kernel needs the module sch_{kind}"
            ))?;
        }
        Ok(Self { namespace, tun })
    }

    /// Takes the caller into the host's network namespace.
    pub fn enter(&self) -> Result<(), Error> {
        setns(&self.namespace, CloneFlags::CLONE_NEWNET).context("cannot enter a network namespace")
    }
}

impl AsFd for HostNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

/// Takes the caller into a new network namespace.
pub(crate) fn new_network() -> Result<(), Error> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| {
        Error::new(format!("cannot make a network namespace ({errno}); it takes CAP_SYS_ADMIN"))
    })
}

/// Sets a value below `/proc/sys/net` of the caller's network namespace.
pub(crate) fn sysctl(name: &str, value: &str) -> Result<(), Error> {
    let path = format!("/proc/sys/net/{name}");
    fs::write(&path, value).context(&format!("cannot write {value} to {path}"))
}
