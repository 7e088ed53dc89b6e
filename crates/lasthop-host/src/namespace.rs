//! Hosts as network namespaces. The namespaces have no names and are held only by open files, so that
//! they disappear when the process ends in any way.

use crate::error::{Context, Error};
use crate::netlink::{Destination, Netlink};
use crate::tun::{DEVICE, Tun};
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
/// The addresses of a host on its second and later paths have numbers above this.
const WAYS_FROM: u8 = 100;

/// An address of a host, for IPv4 and for IPv6. The servers are in network 0; each host at the edge has its own
/// network, from 1. With one such host, its addresses are those of captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The number of its network.
    pub network: u16,
    /// Number in the network, from 0: that of a server, or of a further address of a host.
    pub number: u8,
}

impl Address {
    /// The first address of the only host at the edge.
    pub const CLIENT: Self = Self { network: 1, number: 0 };

    pub const fn server(number: u8) -> Self {
        Self { network: 0, number }
    }

    /// The first address of the host at the edge with this number.
    pub const fn edge(number: usize) -> Self {
        Self { network: Self::CLIENT.network + number as u16, number: 0 }
    }

    /// Another address in its network.
    #[must_use]
    pub const fn further(self, number: u8) -> Self {
        Self { number, ..self }
    }

    /// The address of a host on the path with this index.
    #[must_use]
    pub const fn on_way(self, way: usize) -> Self {
        if way == 0 { self } else { self.further(WAYS_FROM + way as u8) }
    }

    pub const fn v4(self) -> Ipv4Addr {
        let [high, low] = self.network.to_be_bytes();
        Ipv4Addr::new(10, high, low, 1 + self.number)
    }

    /// The unique local address of IPv6 (RFC 4193).
    pub const fn v6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0, 0, self.network, 0, 0, 0, 1 + self.number as u16)
    }

    pub fn shares_network(self, address: IpAddr) -> bool {
        let network = match address {
            IpAddr::V4(address) => u16::from_be_bytes([address.octets()[1], address.octets()[2]]),
            IpAddr::V6(address) => address.segments()[3],
        };
        network == self.network
    }

    pub fn all(self) -> [IpAddr; 2] {
        [self.v4().into(), self.v6().into()]
    }
}

#[derive(Debug)]
pub struct HostNamespace {
    namespace: File,
    pub address: Address,
    pub tun: Tun,
}

#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// Values for files below `/proc/sys/net`.
    pub sysctls: Vec<(String, String)>,
    /// Metrics of its route to the other hosts.
    pub metrics: Vec<RouteMetric>,
    pub further: Vec<Further>,
    /// The queue discipline of its link, if packets do not go directly to the device.
    pub discipline: Option<&'static str>,
    /// Its addresses on further paths.
    pub ways: Vec<Address>,
}

/// A further address of a host, for traffic with one address of another host.
#[derive(Clone, Debug)]
pub struct Further {
    pub own: Address,
    pub other: Address,
    pub metrics: Vec<RouteMetric>,
}

/// Lets an ordinary user create namespaces, in a user namespace that maps the user to the same id.
pub fn acquire_rights() -> Result<(), Error> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|errno| {
        Error::new(format!(
            "this system does not allow user {user} to create a user namespace ({errno}); run it as root, or let \
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
    /// A new host. The caller is in its network namespace from then on.
    pub fn create(address: Address, mtu: u32, config: &HostConfig) -> Result<Self, Error> {
        new_network()?;
        let namespace = File::open("/proc/self/ns/net").context("cannot hold the network namespace")?;
        let tun = Tun::create(DEVICE)
            .context("cannot create a TUN device; /dev/net/tun must exist, readable and writable")?;
        let index = if_nametoindex(DEVICE).context("cannot find the TUN device")?;
        let netlink = Netlink::open().context("cannot open a netlink socket")?;
        let (ipv4, ipv6) = (address.v4(), address.v6());
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
            netlink.up(index)?;
            // IPv6 only now: when a link comes up, Linux allocates the routes of its addresses without waiting for
            // memory, and silently drops an address whose route it cannot store.
            if let Some(ipv6) = ipv6 {
                netlink.address(index, ipv6.into(), 64)?;
            }
            netlink.route(index, Destination::Any(ipv4.into()), &config.metrics)?;
            for Further { own, other, metrics } in &config.further {
                netlink.address(index, own.v4().into(), 24)?;
                netlink.route(index, Destination::Host(other.v4()), metrics)?;
            }
            for own in &config.ways {
                netlink.address(index, own.v4().into(), 24)?;
            }
            let any = |ipv6| netlink.route(index, Destination::Any(IpAddr::V6(ipv6)), &config.metrics);
            ipv6.map_or(Ok(()), any)
        };
        setup().context("cannot set up the addresses and routes of the hosts")?;
        if let Some(kind) = config.discipline {
            netlink.discipline(index, kind).context(&format!(
                "cannot set the queue discipline {kind} of the hosts; this kernel needs the module sch_{kind}"
            ))?;
        }
        Ok(Self { namespace, address, tun })
    }

    pub fn enter(&self) -> Result<(), Error> {
        setns(&self.namespace, CloneFlags::CLONE_NEWNET).context("cannot enter a network namespace")
    }
}

impl AsFd for HostNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

pub(crate) fn new_network() -> Result<(), Error> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| {
        Error::new(format!("cannot create a network namespace ({errno}); this needs CAP_SYS_ADMIN"))
    })
}

/// Moves the caller into a new network namespace with only the loopback device.
pub fn lone_network() -> Result<(), Error> {
    new_network()?;
    let up = || Netlink::open()?.up(LOOPBACK_INDEX);
    up().context("cannot set up the loopback device")
}

/// Sets a value below `/proc/sys/net` of the caller's network namespace.
pub(crate) fn sysctl(name: &str, value: &str) -> Result<(), Error> {
    let path = format!("/proc/sys/net/{name}");
    fs::write(&path, value).context(&format!("cannot write {value} to {path}"))
}
