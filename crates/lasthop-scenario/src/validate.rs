//! Checks across several parts of a scenario. Each single part is checked by the crate that it configures.

use std::collections::BTreeSet;

use lasthop_core::{Bytes, Fault, Faults, Host};
use lasthop_link::check_delay;

use crate::error::suggest;
use crate::flow::{DataDirection, Flow, FlowStack};
use crate::hops::{self, RouterImplementation};
use crate::lan::streams_fit;
use crate::topology::host_names;
use crate::types::Scenario;

/// Smallest and largest IP packets that a path must carry (RFC 791, section 3.1 and 3.2).
const MTU_RANGE: std::ops::RangeInclusive<Bytes> = Bytes(68)..=Bytes(65_535);

/// Maximum number of parts of the network: their numbers have 16 bits ([`lasthop_core::Place`]).
const PARTS_MAX: usize = 1 << u16::BITS;

/// Returns all faults, in the order of the types.
pub fn validate(scenario: &Scenario) -> Vec<Fault> {
    let faults = Faults::collect(|faults| parts(scenario, faults));
    if faults.is_empty() { Faults::collect(|faults| streams_fit(scenario, faults)) } else { faults }
}

fn parts(scenario: &Scenario, faults: &mut Faults) {
    let mtu = scenario.mtu;
    let fits = MTU_RANGE.contains(&mtu);
    faults.in_range(mtu, MTU_RANGE, "mtu");
    let whole = one_topology(scenario, faults);
    if fits && whole {
        network(scenario, faults);
    }
    if let Some(errors) = &scenario.errors {
        faults.below("errors", |faults| errors.check(faults));
    }
    faults.below("tcp", |faults| scenario.tcp.check(scenario.time_limit, faults));
    if let Some(http) = &scenario.http {
        faults.below("http", |faults| http.check(faults));
    }
    if fits {
        flows(scenario, faults);
    }
    kinds(scenario, faults);
    faults.not_zero(&scenario.time_limit, "time_limit", "300 s");
    if let Some(measure) = &scenario.measure {
        let names: Vec<&str> = scenario.flow.iter().map(|flow| flow.traffic().name()).collect();
        faults.below("measure", |faults| measure.check(scenario.time_limit, &names, faults));
    }
}

/// Checks the network between the hosts.
fn network(scenario: &Scenario, faults: &mut Faults) {
    let mtu = scenario.mtu;
    // Linux' queue disciplines can do less than the models.
    let is_linux = scenario.router.implementation == RouterImplementation::Linux;
    if let Some(atm) = &scenario.atm {
        faults.below("atm", |faults| atm.check(mtu, faults));
    }
    for (name, path) in [("down", &scenario.down), ("up", &scenario.up)] {
        let Some(path) = path else { continue };
        faults.below(name, |faults| path.check(mtu, faults));
        faults.require(
            scenario.errors.is_none() || path.link.errors.is_none(),
            &format!("{name}.link.errors"),
            || "[errors] applies to both directions; leave out one of the two".into(),
        );
        if is_linux {
            faults.below(name, |faults| path.check_linux(mtu, scenario.errors.is_some(), faults));
        }
    }
    if !scenario.hop.is_empty() {
        let host_pairs = scenario.host_pairs().len();
        let parts = 2 * scenario.hop.len() + scenario.host.len() + 2 * host_pairs;
        faults.require(parts <= PARTS_MAX, "hop", || {
            format!(
                "the network has {parts} parts, two for each hop and flow and one for each host, but at most \
                 {PARTS_MAX} are supported; leave out some"
            )
        });
        hops::check(&scenario.hop, &scenario.host, mtu, scenario.time_limit, faults);
    }
    if let Some(lan) = &scenario.lan {
        check_delay(lan.delay, "lan.delay", faults);
    }
    scenario.check_courses(faults);
    if is_linux {
        faults.require(scenario.atm.is_none(), "router.implementation", || {
            "an ATM switch has no router; leave it out".into()
        });
        if let Some(errors) = &scenario.errors {
            faults.below("errors", |faults| errors.check_linux(faults));
        }
    }
}

/// Checks the requirements of some kinds of flows on the rest of the scenario.
fn kinds(scenario: &Scenario, faults: &mut Faults) {
    let short = scenario.flow.iter().position(|flow| flow.traffic().opens_later());
    let place = format!("flow[{}].kind", short.unwrap_or_default());
    faults.require(short.is_none() || scenario.atm.is_none(), &place, || {
        "short flows open during the run, but a switch has an access link for each flow from the start; \
        leave out [atm]"
            .into()
    });
    let up = scenario.flow.iter().position(|flow| flow.direction != DataDirection::Down);
    let place = format!("flow[{}].direction", up.unwrap_or_default());
    faults.require(up.is_none() || scenario.atm.is_none(), &place, || {
        "\"up\": an ATM switch has only a delay in this direction, no rate and no queue; leave it out".into()
    });
    if let Some(flow) = scenario.flow.iter().find(|flow| flow.real_program().is_some()) {
        faults.require(scenario.flow.len() == 1, "flow", || {
            "a real program must be the only flow; leave out the other flows".into()
        });
        for (key, is_stated) in [
            ("tcp", flow.tcp.is_some()),
            ("access", flow.access.is_some()),
            ("peer", flow.peer.is_some()),
            ("via", flow.via.is_some()),
        ] {
            faults.require(!is_stated, &format!("flow[0].{key}"), || {
                "not supported for a real program; leave it out".into()
            });
        }
    }
    let moves = |flow: &Flow| flow.quic().is_some_and(|quic| quic.migration);
    if let Some(index) = scenario.flow.iter().position(moves) {
        faults.require(!scenario.handovers().is_empty(), &format!("flow[{index}].quic.migration"), || {
            "no link changes, so the client never migrates; add down.link.change, or leave it out".into()
        });
    }
    let is_page = |flow: &&Flow| flow.page().is_some();
    if let Some(http) = &scenario.http {
        for (index, flow) in scenario.flow.iter().enumerate().filter(|(_, flow)| is_page(flow)) {
            let stack = if http.protocol.has_streams() { FlowStack::Quic } else { FlowStack::Tcp };
            faults.require(flow.stack == stack, &format!("flow[{index}].stack"), || {
                "HTTP/3 requires QUIC, and QUIC carries no other HTTP; write both stack = \"quic\" here and \
                 protocol = \"http3\" in [http], or neither"
                    .into()
            });
        }
    }
    let page = scenario.flow.iter().position(|flow| is_page(&flow));
    let place = format!("flow[{}].kind", page.unwrap_or_default());
    faults.require(page.is_none() || scenario.http.is_some(), &place, || {
        "the flow loads a web page, but there is no [http]; add for example [http] with protocol = \"http1.0\""
            .into()
    });
}

/// Checks that there is exactly one network: a last hop, a switch, or a tree of hops. Returns true if so.
fn one_topology(scenario: &Scenario, faults: &mut Faults) -> bool {
    let (atm, tree) = (scenario.atm.is_some(), !scenario.hop.is_empty());
    for (key, stated) in [
        ("lan", scenario.lan.is_some()),
        ("down", scenario.down.is_some()),
        ("up", scenario.up.is_some()),
        ("errors", scenario.errors.is_some()),
        ("medium", scenario.medium.is_some()),
        ("hop", tree),
    ] {
        faults.require(!(stated && atm), key, || {
            format!("applies to a last hop, but the scenario has an ATM switch; leave out [{key}] or [atm]")
        });
    }
    let is_linux = scenario.router.implementation == RouterImplementation::Linux;
    for (key, stated) in [
        ("down", scenario.down.is_some()),
        ("up", scenario.up.is_some()),
        ("errors", scenario.errors.is_some()),
        ("medium", scenario.medium.is_some()),
        ("router", is_linux),
    ] {
        faults.require(!(stated && tree), key, || {
            format!("applies to a single hop, but the scenario has [hop]; move it to [hop.NAME.{key}]")
        });
    }
    faults.require(tree || scenario.host.is_empty(), "host", || {
        "named hosts need a hop; add [down] or [medium], or leave out [host]".into()
    });
    let stated = scenario.down.is_some();
    faults.require(stated || atm || tree, "down", || {
        "is missing; add for example [down.link] with rate = \"1 Mbit/s\" and delay = \"50 ms\"".into()
    });
    if tree {
        hops::check_tree(&scenario.hop, &scenario.host, faults) && !stated && !atm
    } else {
        stated != atm
    }
}

/// Checks that the ends of a flow are two different hosts of the scenario.
fn ends(scenario: &Scenario, flow: &Flow, faults: &mut Faults) {
    let names = host_names(&scenario.host);
    for (key, name) in [("host", &flow.host), ("peer", &flow.peer)] {
        if let Some(name) = name {
            faults.require(names.contains(&name.as_str()), key, || {
                format!("there is no host {name:?}{}", suggest(name, &names))
            });
        }
    }
    if let Some(program) = flow.real_program() {
        for (index, other) in program.hosts.iter().enumerate() {
            faults.require(names.contains(&other.name.as_str()), &format!("hosts[{index}].name"), || {
                format!("there is no host {:?}{}", other.name, suggest(&other.name, &names))
            });
        }
        for (index, own) in program.transfers.iter().enumerate() {
            let place = |key: &str| format!("transfers[{index}].{key}");
            faults.require(own.host.is_some() || names.len() == 1, &place("host"), || {
                format!("there are several hosts; name that of the client (accepted: {})", names.join(", "))
            });
            if let Some(host) = &own.host {
                faults.require(names.contains(&host.as_str()), &place("host"), || {
                    format!("there is no host {host:?}{}", suggest(host, &names))
                });
            }
            faults.require(!names.contains(&own.name.as_str()), &place("name"), || {
                format!("{:?} is already the name of a host; choose another name", own.name)
            });
        }
        for (index, server) in program.servers.iter().enumerate() {
            faults.require(!names.contains(&server.name.as_str()), &format!("servers[{index}].name"), || {
                format!("{:?} is already the name of a host; choose another name", server.name)
            });
        }
    }
    let has_transfers = flow.real_program().is_some_and(|program| !program.transfers.is_empty());
    faults.require(flow.host.is_some() || names.len() == 1 || has_transfers, "host", || {
        format!("there are several hosts; name the one at the edge (accepted: {})", names.join(", "))
    });
    faults.require(
        flow.peer.is_none() || flow.peer.as_deref() != Some(host_name(scenario, flow)),
        "peer",
        || "a host cannot be its own peer; write another host, or leave it out for a separate server".into(),
    );
    faults.require(flow.peer.is_none() || flow.access.is_none(), "access", || {
        "an access link needs a flow without `peer`; leave out one of the two".into()
    });
    shares_no_medium(scenario, flow, faults);
    let migrate = flow.migrate.as_ref().map(|migrate| ("migrate.via", &migrate.via));
    for (key, via) in flow.via.as_ref().map(|via| ("via", via)).into_iter().chain(migrate) {
        let ways = scenario.ways(flow);
        let names: Vec<&str> = ways.iter().map(String::as_str).collect();
        faults.require(ways.contains(via), key, || {
            format!("the host has no path through {via:?}{}", suggest(via, &names))
        });
    }
}

/// Requires that the ends of a flow are not stations of the same medium, which the models do not support.
fn shares_no_medium(scenario: &Scenario, flow: &Flow, faults: &mut Faults) {
    let ways = |end| scenario.host.get(scenario.host_of(flow, end)).map_or(&[][..], |host| host.ways());
    let (own, others) = (ways(Host::Client), ways(Host::Server));
    let is_medium = |hop: &&String| scenario.hop.get(*hop).is_some_and(|hop| hop.medium.is_some());
    let shared = own.iter().filter(is_medium).find(|hop| others.contains(hop));
    faults.require(shared.is_none(), "peer", || {
        format!(
            "both hosts are stations of {:?}, but packets between two stations are not modelled; put one of \
             them behind another hop",
            shared.map_or("", String::as_str)
        )
    });
}

/// The host at the edge of a flow.
fn host_name<'a>(scenario: &'a Scenario, flow: &'a Flow) -> &'a str {
    scenario.host_of(flow, Host::Client)
}

/// Checks whether a flow may have an access link.
fn access(scenario: &Scenario, flow: &Flow, faults: &mut Faults) {
    let Some(own) = &flow.access else { return };
    check_delay(own.delay, "access.delay", faults);
    let why = if scenario.atm.is_some() {
        Some("every flow has an access link to the ATM switch, set by access_rate and access_delay")
    } else if scenario.has_linux_router() {
        Some("Linux' router supports no access links; write router.implementation = \"lasthop\"")
    } else if flow.traffic().opens_later() {
        Some("short flows share the LAN")
    } else {
        None
    };
    faults.require(why.is_none(), "access", || format!("{}; leave it out", why.unwrap_or_default()));
}

fn flows(scenario: &Scenario, faults: &mut Faults) {
    let Scenario { flow: flows, mtu, time_limit, .. } = scenario;
    faults.require(!flows.is_empty(), "flow", || {
        "the scenario has no flows; add for example [[flow]] with kind = \"bulk-tcp\", or use the link with \
         `lasthop shell`, `repeat` or `lab`"
            .into()
    });
    let mut names = BTreeSet::new();
    for (index, flow) in flows.iter().enumerate() {
        faults.below(&format!("flow[{index}]"), |faults| {
            let mut own = flow.instances(index).map(|instance| instance.name);
            let duplicate = own.find(|name| !names.insert(name.clone()));
            let name = duplicate.as_deref().unwrap_or_default();
            faults.require(duplicate.is_none(), "name", || {
                format!("two flows are named {name:?}; rename one, for example to \"{name}-{}\"", index + 1)
            });
            flow.check(*mtu, *time_limit, faults);
            access(scenario, flow, faults);
            scenario.check_drop_list(flow, faults);
            let before = faults.count();
            ends(scenario, flow, faults);
            if faults.count() == before {
                scenario.check_relay(flow, faults);
            }
            flow.check_mptcp((host_name(scenario, flow), scenario.ways(flow)), faults);
        });
    }
}
