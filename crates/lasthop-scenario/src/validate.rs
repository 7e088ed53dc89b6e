//! What no type can say of a scenario: values that contradict each other or that nothing can run.

use lasthop_core::Bytes;
use lasthop_core::packet::{Datagram, Segment};
use lasthop_traffic::{
    Arrivals, ConstantUdpConfig, CutPoisson, FlowConfig, HttpConfig, HttpPageConfig, HttpProtocol,
    ShortFlowsConfig, WebClientsConfig,
};

use crate::faults::{Faults, Invalid, RETRIES_MAX, SEGMENTS_MAX};
use crate::lan::streams_fit;
use crate::tcp;
use crate::types::{RouterImplementation, Scenario, Topology};

/// Smallest and largest IP packets that a path must carry (RFC 791, section 3.1 and 3.2).
const MTU_RANGE: std::ops::RangeInclusive<u64> = 68..=65_535;

/// Most bytes of one transfer; sums with headers and sequence numbers stay far from overflow.
const TRANSFER_MAX: Bytes = Bytes(1_000_000_000_000_000);

/// An HTTP request or response header with the fields that a capture shows has room in so much.
const HTTP_MESSAGE_MIN: Bytes = Bytes(100);

/// Largest object, far from overflow when many are summed.
const HTTP_MESSAGE_MAX: Bytes = Bytes(1_000_000_000);

/// Largest cut of a Poisson distribution; beyond, drawing would be slow.
const POISSON_MAX: u32 = 100;

/// Most objects of a page, and connections.
const HTTP_OBJECTS_MAX: u32 = 1000;

/// Checks everything; everything that is wrong, in the order of the types.
pub fn validate(scenario: &Scenario) -> Vec<Invalid> {
    let mut faults = Faults::default();
    let mtu = scenario.mtu;
    let fits = MTU_RANGE.contains(&mtu.0);
    faults.require(fits, "mtu", || {
        format!(
            "\"{mtu}\" cannot be an MTU; write from \"{} B\" to \"{} B\"",
            MTU_RANGE.start(),
            MTU_RANGE.end()
        )
    });
    let whole = one_topology(scenario, &mut faults);
    if fits && whole {
        network(scenario, &mut faults);
    }
    if let Some(errors) = &scenario.errors {
        faults.below("errors", errors.validate().err());
        let retransmissions = errors.arq.as_ref().map_or(0, |arq| arq.retransmissions);
        faults.require(retransmissions <= RETRIES_MAX, "errors.arq.retransmissions", || {
            format!("{retransmissions} is out of range; write at most {RETRIES_MAX}")
        });
    }
    tcp::validate(&scenario.tcp, &mut faults);
    tcp::timestamp_clock(&scenario.tcp, scenario.time_limit, &mut faults);
    if let Some(config) = &scenario.http {
        http(config, &mut faults);
    }
    if fits {
        flows(&scenario.flow, mtu, &mut faults);
    }
    kinds(scenario, &mut faults);
    faults.not_zero(&scenario.time_limit, "time_limit", "300 s");
    let mut faults = faults.all();
    if faults.is_empty() {
        faults.extend(streams_fit(scenario).err());
    }
    faults
}

/// Checks what lies between the hosts.
fn network(scenario: &Scenario, faults: &mut Faults) {
    let mtu = scenario.mtu;
    match scenario.topology() {
        Topology::LastHop { down, up, .. } => {
            let paths = [("down", down), ("up", up)].map(|(name, path)| (name, path, path.validate(mtu)));
            for (name, path, valid) in paths {
                match valid {
                    Err(invalid) => faults.below(name, invalid),
                    // Linux' queue disciplines can be less than the models.
                    Ok(()) if scenario.router.implementation == RouterImplementation::Linux => {
                        faults.below(name, path.linux_queues(mtu).err());
                    }
                    Ok(()) => {}
                }
            }
        }
        Topology::Atm(atm) => faults.below("atm", atm.validate(mtu).err().into_iter().flatten()),
    }
    if scenario.router.implementation == RouterImplementation::Linux {
        faults.require(scenario.atm.is_none(), "router.implementation", || {
            "an ATM switch has no router; leave it out".into()
        });
        faults.below("errors", scenario.errors.as_ref().and_then(|errors| errors.linux_loss().err()));
    }
}

/// Some kinds of flows need something of the rest.
fn kinds(scenario: &Scenario, faults: &mut Faults) {
    let short = scenario.flow.iter().position(|flow| matches!(flow, FlowConfig::ShortFlows(_)));
    let place = format!("flow[{}].kind", short.unwrap_or_default());
    faults.require(short.is_none() || scenario.atm.is_none(), &place, || {
        "short flows come and go, but a switch has an access link for each flow from the start; leave out [atm]".into()
    });
    let page = scenario.flow.iter().position(|flow| matches!(flow, FlowConfig::HttpPage(_)));
    faults.require(page.is_none() || scenario.http.is_some(), "flow", || {
        "loads a web page, but nothing says how; add a table [http] with protocol = \"http1.0\", say".into()
    });
}

/// Either a whole last hop or a switch. True if there is one of them.
fn one_topology(scenario: &Scenario, faults: &mut Faults) -> bool {
    let atm = scenario.atm.is_some();
    for (key, stated) in [
        ("lan", scenario.lan.is_some()),
        ("down", scenario.down.is_some()),
        ("up", scenario.up.is_some()),
        ("errors", scenario.errors.is_some()),
    ] {
        faults.require(!(stated && atm), key, || {
            format!("belongs to a last hop, but the scenario has an ATM switch; leave out [{key}] or [atm]")
        });
    }
    let stated = scenario.down.is_some();
    faults.require(stated || atm, "down", || {
        "is missing; add a table [down.link] with rate = \"1 Mbit/s\" and delay = \"50 ms\", say".into()
    });
    stated != atm
}

fn flows(flows: &[FlowConfig], mtu: Bytes, faults: &mut Faults) {
    faults.require(!flows.is_empty(), "flow", || {
        "a scenario without flows sends nothing; add a table [[flow]] with kind = \"bulk-tcp\"".into()
    });
    for (index, config) in flows.iter().enumerate() {
        let place = format!("flow[{index}]");
        let name = config.name();
        faults.require(!name.is_empty(), &format!("{place}.name"), || {
            "the name is empty; write \"tcp-1\", say".into()
        });
        let earlier = flows[..index].iter().position(|other| other.name() == name);
        faults.require(earlier.is_none(), &format!("{place}.name"), || {
            format!("two flows are called {name:?}; give each its own name, \"{name}-{}\" say", index + 1)
        });
        flow(config, &place, mtu, faults);
    }
}

fn flow(config: &FlowConfig, place: &str, mtu: Bytes, faults: &mut Faults) {
    match config {
        FlowConfig::BulkTcp(bulk) => {
            faults.not_zero(&bulk.bytes, &format!("{place}.bytes"), "100 kB");
            faults.require(bulk.bytes <= TRANSFER_MAX, &format!("{place}.bytes"), || {
                format!("\"{}\" is too much for one transfer; write at most \"{TRANSFER_MAX}\"", bulk.bytes)
            });
            let segment = mtu.0 - u64::from(Segment::BASE_HEADER_BYTES);
            if let Some(write) = bulk.write {
                faults.not_zero(&write, &format!("{place}.write"), &format!("{segment} B"));
            }
        }
        FlowConfig::ConstantUdp(udp) => constant_udp(udp, place, mtu, faults),
        FlowConfig::HttpPage(page) => http_page(page, place, faults),
        FlowConfig::WebClients(clients) => web_clients(clients, place, faults),
        FlowConfig::ShortFlows(short) => short_flows(short, place, faults),
    }
}

fn constant_udp(udp: &ConstantUdpConfig, place: &str, mtu: Bytes, faults: &mut Faults) {
    let room = mtu.0 - u64::from(Datagram::HEADER_BYTES);
    let payload = udp.payload.0;
    let fits = (1..=room).contains(&payload);
    faults.require(fits, &format!("{place}.payload"), || {
        format!(
            "a datagram of {payload} bytes of payload does not fit mtu = \"{mtu}\"; \
             write from \"1 B\" to \"{room} B\""
        )
    });
    if fits {
        let takes_time = !udp.interval().is_zero();
        faults.require(takes_time, &format!("{place}.rate"), || {
            format!(
                "at \"{}\" datagrams of {payload} bytes of payload follow each other without any time between; \
                 lower it",
                udp.rate
            )
        });
        faults.require(
            !takes_time || udp.total_bytes() <= TRANSFER_MAX.0,
            &format!("{place}.duration"),
            || {
                format!(
                    "\"{}\" at \"{}\" makes more than \"{TRANSFER_MAX}\"; shorten it, or lower the rate",
                    udp.duration, udp.rate
                )
            },
        );
    }
    faults.not_zero(&udp.duration, &format!("{place}.duration"), "60 s");
}

fn http(http: &HttpConfig, faults: &mut Faults) {
    size(faults, http.request, HTTP_MESSAGE_MIN, "http.request");
    if http.response_header != Bytes(0) {
        size(faults, http.response_header, HTTP_MESSAGE_MIN, "http.response_header");
    }
    count(faults, http.connections, 1, "http.connections");
    let closes_itself = http.protocol == HttpProtocol::Http10 && !http.close_after.is_zero();
    faults.require(!closes_itself, "http.close_after", || {
        "has no meaning with protocol = \"http1.0\", where the server closes; leave it out".into()
    });
}

fn http_page(page: &HttpPageConfig, place: &str, faults: &mut Faults) {
    size(faults, page.main, Bytes(1), &format!("{place}.main"));
    size(faults, page.inline, Bytes(1), &format!("{place}.inline"));
    count(faults, page.inline_count, 0, &format!("{place}.inline_count"));
}

fn web_clients(config: &WebClientsConfig, place: &str, faults: &mut Faults) {
    count(faults, config.clients, 1, &format!("{place}.clients"));
    count(faults, config.batches, 1, &format!("{place}.batches"));
    faults.not_zero(&config.interval, &format!("{place}.interval"), "10 s");
    for (key, CutPoisson { mean, min, max }) in [("requests", config.requests), ("multiple", config.multiple)]
    {
        faults.require(
            min >= 1 && min <= mean && mean <= max && max <= POISSON_MAX,
            &format!("{place}.{key}"),
            || {
                format!(
                    "from {min} to {max} with mean {mean}; write 1 <= min <= mean <= max <= {POISSON_MAX}"
                )
            },
        );
    }
    let first = ("first_unit".to_owned(), config.first_unit);
    let others = config.others.iter().enumerate();
    let others = others.map(|(index, class)| (format!("others[{index}].unit"), class.unit));
    for (key, unit) in others.chain([first]) {
        size(faults, unit, Bytes(1), &format!("{place}.{key}"));
    }
    faults.require(
        config.others.iter().any(|class| class.share.get() > 0.0),
        &format!("{place}.others"),
        || "no class has a share; add { unit = \"1 kB\", share = 0.35 }, say".into(),
    );
}

fn short_flows(config: &ShortFlowsConfig, place: &str, faults: &mut Faults) {
    count(faults, config.packets, 1, &format!("{place}.packets"));
    size(faults, config.request, Bytes(1), &format!("{place}.request"));
    if let Arrivals::Poisson { load } = config.arrivals {
        faults.require(load.get() > 0.0, &format!("{place}.arrivals.load"), || {
            "nothing ever starts; write 0.5, say".into()
        });
    }
    faults.require(!config.hosts.is_empty(), &format!("{place}.hosts"), || {
        "is empty; add { name = \"iw3\", initial_window = 3, receive_window_initial = 4 }, say".into()
    });
    for (index, hosts) in config.hosts.iter().enumerate() {
        let place = format!("{place}.hosts[{index}]");
        let earlier = config.hosts[..index].iter().any(|other| other.name == hosts.name);
        faults.require(!earlier && !hosts.name.is_empty(), &format!("{place}.name"), || {
            format!("{:?} is empty or taken; write \"iw{}\", say", hosts.name, hosts.initial_window)
        });
        for (key, value, least) in [
            ("initial_window", hosts.initial_window, 1),
            ("receive_window_initial", hosts.receive_window_initial, 2),
        ] {
            faults.require((least..=SEGMENTS_MAX).contains(&value), &format!("{place}.{key}"), || {
                format!("{value} is out of range; write from {least} to {SEGMENTS_MAX}")
            });
        }
    }
}

fn size(faults: &mut Faults, value: Bytes, least: Bytes, path: &str) {
    faults.require((least..=HTTP_MESSAGE_MAX).contains(&value), path, || {
        format!("\"{value}\" is out of range; write from \"{least}\" to \"{HTTP_MESSAGE_MAX}\"")
    });
}

fn count(faults: &mut Faults, value: u32, least: u32, path: &str) {
    faults.require((least..=HTTP_OBJECTS_MAX).contains(&value), path, || {
        format!("{value} is out of range; write from {least} to {HTTP_OBJECTS_MAX}")
    });
}
