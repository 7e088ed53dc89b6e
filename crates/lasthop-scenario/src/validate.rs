//! What no type can say of a scenario: values that contradict each other or that nothing can run.

use lasthop_core::packet::{Datagram, Segment};
use lasthop_core::{Bytes, Duration};
use lasthop_link::ConfigError;
use lasthop_tcp::{CongestionControl, FRtoMode, RecoveryRules, TcpConfig};
use lasthop_traffic::{
    Arrivals, CutPoisson, FlowConfig, HttpConfig, HttpPageConfig, HttpProtocol, ShortFlowsConfig,
    WebClientsConfig,
};

use crate::types::{RouterImplementation, Scenario, Topology};

/// Path of a value in the scenario, and what is wrong with it; what to do instead after a semicolon.
type Invalid = (String, String);

/// Smallest and largest IP packets that a path must carry (RFC 791, section 3.1 and 3.2).
const MTU_RANGE: std::ops::RangeInclusive<u64> = 68..=65_535;

/// Largest window in segments: more than any real path holds, and far from overflow.
const SEGMENTS_MAX: u32 = 1_000_000;

/// Most retransmissions of a segment, or of a packet by the link.
const RETRIES_MAX: u32 = 255;

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

/// Checks everything; the first fault in the order of the types wins.
pub fn validate(scenario: &Scenario) -> Result<(), Invalid> {
    let mtu = scenario.mtu;
    require(MTU_RANGE.contains(&mtu.0), "mtu", || {
        format!(
            "\"{mtu}\" cannot be an MTU; write from \"{} B\" to \"{} B\"",
            MTU_RANGE.start(),
            MTU_RANGE.end()
        )
    })?;
    one_topology(scenario)?;
    match scenario.topology() {
        Topology::LastHop { down, up, .. } => {
            down.validate(mtu).map_err(below("down"))?;
            up.validate(mtu).map_err(below("up"))?;
        }
        Topology::Atm(atm) => atm.validate(mtu).map_err(below("atm"))?,
    }
    if let Some(errors) = &scenario.errors {
        errors.validate().map_err(below("errors"))?;
        let retransmissions = errors.arq.as_ref().map_or(0, |arq| arq.retransmissions);
        require(retransmissions <= RETRIES_MAX, "errors.arq.retransmissions", || {
            format!("{retransmissions} is out of range; write at most {RETRIES_MAX}")
        })?;
    }
    router(scenario)?;
    tcp(&scenario.tcp)?;
    timestamp_clock(&scenario.tcp, scenario.time_limit)?;
    scenario.http.as_ref().map_or(Ok(()), http)?;
    flows(&scenario.flow, mtu)?;
    let short = scenario.flow.iter().position(|flow| matches!(flow, FlowConfig::ShortFlows(_)));
    let place = format!("flow[{}].kind", short.unwrap_or_default());
    require(short.is_none() || scenario.atm.is_none(), &place, || {
        "short flows come and go, but a switch has an access link for each flow from the start; leave out [atm]".into()
    })?;
    let page = scenario.flow.iter().position(|flow| matches!(flow, FlowConfig::HttpPage(_)));
    require(page.is_none() || scenario.http.is_some(), "flow", || {
        "loads a web page, but nothing says how; add a table [http] with protocol = \"http1.0\", say".into()
    })?;
    not_zero(&scenario.time_limit, "time_limit", "300 s")
}

/// Says where in the scenario the faulty table stands.
fn below(name: &'static str) -> impl Fn(ConfigError) -> Invalid {
    move |fault| (format!("{name}.{}", fault.key), fault.message)
}

/// Linux' queue disciplines can be less than the models.
fn router(scenario: &Scenario) -> Result<(), Invalid> {
    if scenario.router.implementation == RouterImplementation::Lasthop {
        return Ok(());
    }
    let Topology::LastHop { down, up, .. } = scenario.topology() else {
        let reason = "an ATM switch has no router; leave it out";
        return Err(("router.implementation".into(), reason.into()));
    };
    down.linux_queues(scenario.mtu).map_err(below("down"))?;
    up.linux_queues(scenario.mtu).map_err(below("up"))?;
    let errors = scenario.errors.as_ref();
    errors.map_or(Ok(()), |errors| errors.linux_loss().map(drop).map_err(below("errors")))
}

/// Either a whole last hop or a switch.
fn one_topology(scenario: &Scenario) -> Result<(), Invalid> {
    let atm = scenario.atm.is_some();
    for (key, stated) in [
        ("lan", scenario.lan.is_some()),
        ("down", scenario.down.is_some()),
        ("up", scenario.up.is_some()),
        ("errors", scenario.errors.is_some()),
    ] {
        require(!(stated && atm), key, || {
            format!("belongs to a last hop, but the scenario has an ATM switch; leave out [{key}] or [atm]")
        })?;
        require(stated || atm || key == "errors", key, || {
            format!("is missing; add a table [{key}]; a last hop has [lan], [down] and [up]")
        })?;
    }
    Ok(())
}

fn require(holds: bool, path: &str, reason: impl FnOnce() -> String) -> Result<(), Invalid> {
    if holds { Ok(()) } else { Err((path.into(), reason())) }
}

fn not_zero<T: Default + PartialEq>(value: &T, path: &str, example: &str) -> Result<(), Invalid> {
    require(*value != T::default(), path, || format!("must not be zero; write {example:?}, say"))
}

fn tcp(config: &TcpConfig) -> Result<(), Invalid> {
    for (key, value, range) in [
        ("initial_window", config.initial_window, 1..=SEGMENTS_MAX),
        ("dupack_threshold", config.dupack_threshold, 1..=SEGMENTS_MAX),
        ("max_burst", config.max_burst, 1..=SEGMENTS_MAX),
        ("ack_every", config.ack_every, 1..=SEGMENTS_MAX),
        ("retries", config.retries, 0..=RETRIES_MAX),
        ("syn_retries", config.syn_retries, 0..=RETRIES_MAX),
        // Room for a full segment and the FIN that rides on it: the window would never open further.
        ("receive_window_initial", config.receive_window_initial, 2..=SEGMENTS_MAX),
        ("receive_window_growth", config.receive_window_growth, 0..=SEGMENTS_MAX),
        ("receive_window_max", config.receive_window_max, 2..=SEGMENTS_MAX),
    ] {
        require(range.contains(&value), &format!("tcp.{key}"), || {
            let (min, max) = (range.start(), range.end());
            format!(
                "{value} is out of range; write from {min} to {max}, the nearest is {}",
                value.clamp(*min, *max)
            )
        })?;
    }
    for (key, value, example) in [
        ("tick", config.tick, "10 ms"),
        ("rto_initial", config.rto_initial, "3 s"),
        ("fin_timeout", config.fin_timeout, "60 s"),
        ("delayed_ack", config.delayed_ack, "200 ms"),
    ] {
        not_zero(&value, &format!("tcp.{key}"), example)?;
    }
    for (key, value) in [("rto_min", config.rto_min), ("rto_initial", config.rto_initial)] {
        let max = config.rto_max;
        require(value <= max, &format!("tcp.{key}"), || {
            format!("\"{value}\" is above rto_max = \"{max}\"; lower it, or raise rto_max")
        })?;
    }
    for (key, on, needed, key_needed) in [
        ("eifel", config.eifel, config.timestamps, "timestamps"),
        ("dsack", config.dsack, config.sack, "sack"),
    ] {
        require(!on || needed, &format!("tcp.{key}"), || {
            format!("it needs {key_needed} = true; set that too, or {key} = false")
        })?;
    }
    require(config.frto != FRtoMode::Rfc5682Sack || config.sack, "tcp.frto", || {
        "\"rfc5682-sack\" needs sack = true; set that too, or write \"rfc4138\"".into()
    })?;
    tcp_family(config)?;
    let (initial, max) = (config.receive_window_initial, config.receive_window_max);
    require(initial <= max, "tcp.receive_window_initial", || {
        format!("{initial} is above receive_window_max = {max}; lower it, or raise receive_window_max")
    })
}

/// Some switches exist under the rules of Linux only, others under the classic ones.
fn tcp_family(config: &TcpConfig) -> Result<(), Invalid> {
    let rules = config.recovery;
    require(rules != RecoveryRules::SackPipe || config.sack, "tcp.recovery", || {
        "\"sack-pipe\" needs sack = true; set that too, or write \"newreno\"".into()
    })?;
    let off = config.frto == FRtoMode::Off;
    modern_rules(config)?;
    let reno = config.congestion_control == CongestionControl::Reno;
    for (key, value, set, classic) in [
        ("congestion_control", "\"reno\"", !reno, false),
        ("frto", "\"off\"", !off, false),
        ("early_retransmit", "false", config.early_retransmit, false),
        ("timestamps", "false", config.timestamps, false),
        ("cached_metrics", "false", config.cached_metrics, false),
        ("lost_by_age", "false", config.lost_by_age, false),
        ("fast_retransmit_guard", "false", config.fast_retransmit_guard, true),
        ("silly_window_avoidance", "true", !config.silly_window_avoidance, true),
    ] {
        require(!set || rules.is_classic() == classic, &format!("tcp.{key}"), || {
            let (family, nearest) =
                if classic { ("classic", "\"reno\"") } else { ("Linux'", "\"linux-in-flight\"") };
            format!(
                "only {family} recovery rules know it; write {key} = {value}, or recovery = {nearest}, say"
            )
        })?;
    }
    Ok(())
}

/// Some switches exist under proportional rate reduction only, others not.
fn modern_rules(config: &TcpConfig) -> Result<(), Invalid> {
    let modern = config.recovery == RecoveryRules::ProportionalRate;
    for (key, on) in [("rack", config.rack), ("tail_loss_probe", config.tail_loss_probe)] {
        require(!on || modern, &format!("tcp.{key}"), || {
            format!(
                "only recovery = \"proportional-rate\" knows it; write {key} = false, or profile = \"linux-6\""
            )
        })?;
    }
    let draft = matches!(config.frto, FRtoMode::Draft2002 | FRtoMode::Rfc4138);
    for (key, value, set) in [
        ("limited_transmit", "true", !config.limited_transmit),
        ("early_retransmit", "false", config.early_retransmit),
        ("lost_by_age", "false", config.lost_by_age),
        ("frto", "\"rfc5682-sack\"", draft),
    ] {
        require(!(modern && set), &format!("tcp.{key}"), || {
            format!("recovery = \"proportional-rate\" does not know it; write {key} = {value}")
        })?;
    }
    Ok(())
}

/// Timestamps are 32 bits wide (RFC 7323, section 3.2); the model does not let them wrap.
fn timestamp_clock(config: &TcpConfig, time_limit: Duration) -> Result<(), Invalid> {
    let tick = config.tick;
    // One tick for the phase of the host's clock, one for the value 0, which is left out.
    let last = time_limit.as_nanos() / tick.as_nanos() + 2;
    require(!config.timestamps || u32::try_from(last).is_ok(), "tcp.tick", || {
        format!(
            "timestamps of \"{tick}\" wrap before time_limit = \"{time_limit}\"; write \"10 ms\", say, or lower \
             time_limit"
        )
    })
}

fn flows(flows: &[FlowConfig], mtu: Bytes) -> Result<(), Invalid> {
    require(!flows.is_empty(), "flow", || {
        "a scenario without flows sends nothing; add a table [[flow]] with kind = \"bulk-tcp\"".into()
    })?;
    for (index, config) in flows.iter().enumerate() {
        let place = format!("flow[{index}]");
        let name = config.name();
        require(!name.is_empty(), &format!("{place}.name"), || {
            "the name is empty; write \"tcp-1\", say".into()
        })?;
        let earlier = flows[..index].iter().position(|other| other.name() == name);
        require(earlier.is_none(), &format!("{place}.name"), || {
            format!("two flows are called {name:?}; give each its own name, \"{name}-{}\" say", index + 1)
        })?;
        flow(config, &place, mtu)?;
    }
    Ok(())
}

fn flow(config: &FlowConfig, place: &str, mtu: Bytes) -> Result<(), Invalid> {
    match config {
        FlowConfig::BulkTcp(bulk) => {
            not_zero(&bulk.bytes, &format!("{place}.bytes"), "100 kB")?;
            require(bulk.bytes <= TRANSFER_MAX, &format!("{place}.bytes"), || {
                format!("\"{}\" is too much for one transfer; write at most \"{TRANSFER_MAX}\"", bulk.bytes)
            })?;
            let segment = mtu.0 - u64::from(Segment::BASE_HEADER_BYTES);
            bulk.write
                .map_or(Ok(()), |write| not_zero(&write, &format!("{place}.write"), &format!("{segment} B")))
        }
        FlowConfig::ConstantUdp(udp) => {
            let room = mtu.0 - u64::from(Datagram::HEADER_BYTES);
            let payload = udp.payload.0;
            require((1..=room).contains(&payload), &format!("{place}.payload"), || {
                format!(
                    "a datagram of {payload} bytes of payload does not fit mtu = \"{mtu}\"; \
                     write from \"1 B\" to \"{room} B\""
                )
            })?;
            require(!udp.interval().is_zero(), &format!("{place}.rate"), || {
                format!(
                    "at \"{}\" datagrams of {payload} bytes of payload follow each other without any time between; \
                     lower it",
                    udp.rate
                )
            })?;
            require(udp.total_bytes() <= TRANSFER_MAX.0, &format!("{place}.duration"), || {
                format!(
                    "\"{}\" at \"{}\" makes more than \"{TRANSFER_MAX}\"; shorten it, or lower the rate",
                    udp.duration, udp.rate
                )
            })?;
            not_zero(&udp.duration, &format!("{place}.duration"), "60 s")
        }
        FlowConfig::HttpPage(page) => http_page(page, place),
        FlowConfig::WebClients(clients) => web_clients(clients, place),
        FlowConfig::ShortFlows(short) => short_flows(short, place),
    }
}

fn http(http: &HttpConfig) -> Result<(), Invalid> {
    size(http.request, HTTP_MESSAGE_MIN, "http.request")?;
    if http.response_header != Bytes(0) {
        size(http.response_header, HTTP_MESSAGE_MIN, "http.response_header")?;
    }
    count(http.connections, 1, "http.connections")?;
    let closes_itself = http.protocol == HttpProtocol::Http10 && !http.close_after.is_zero();
    require(!closes_itself, "http.close_after", || {
        "has no meaning with protocol = \"http1.0\", where the server closes; leave it out".into()
    })
}

fn http_page(page: &HttpPageConfig, place: &str) -> Result<(), Invalid> {
    size(page.main, Bytes(1), &format!("{place}.main"))?;
    size(page.inline, Bytes(1), &format!("{place}.inline"))?;
    count(page.inline_count, 0, &format!("{place}.inline_count"))
}

fn web_clients(config: &WebClientsConfig, place: &str) -> Result<(), Invalid> {
    count(config.clients, 1, &format!("{place}.clients"))?;
    count(config.batches, 1, &format!("{place}.batches"))?;
    not_zero(&config.interval, &format!("{place}.interval"), "10 s")?;
    for (key, CutPoisson { mean, min, max }) in [("requests", config.requests), ("multiple", config.multiple)]
    {
        require(
            min >= 1 && min <= mean && mean <= max && max <= POISSON_MAX,
            &format!("{place}.{key}"),
            || {
                format!(
                    "from {min} to {max} with mean {mean}; write 1 <= min <= mean <= max <= {POISSON_MAX}"
                )
            },
        )?;
    }
    let first = ("first_unit".to_owned(), config.first_unit);
    let others = config.others.iter().enumerate();
    let others = others.map(|(index, class)| (format!("others[{index}].unit"), class.unit));
    for (key, unit) in others.chain([first]) {
        size(unit, Bytes(1), &format!("{place}.{key}"))?;
    }
    require(config.others.iter().any(|class| class.share.get() > 0.0), &format!("{place}.others"), || {
        "no class has a share; add { unit = \"1 kB\", share = 0.35 }, say".into()
    })
}

fn short_flows(config: &ShortFlowsConfig, place: &str) -> Result<(), Invalid> {
    count(config.packets, 1, &format!("{place}.packets"))?;
    size(config.request, Bytes(1), &format!("{place}.request"))?;
    if let Arrivals::Poisson { load } = config.arrivals {
        require(load.get() > 0.0, &format!("{place}.arrivals.load"), || {
            "nothing ever starts; write 0.5, say".into()
        })?;
    }
    require(!config.hosts.is_empty(), &format!("{place}.hosts"), || {
        "is empty; add { name = \"iw3\", initial_window = 3, receive_window_initial = 4 }, say".into()
    })?;
    for (index, hosts) in config.hosts.iter().enumerate() {
        let place = format!("{place}.hosts[{index}]");
        let earlier = config.hosts[..index].iter().any(|other| other.name == hosts.name);
        require(!earlier && !hosts.name.is_empty(), &format!("{place}.name"), || {
            format!("{:?} is empty or taken; write \"iw{}\", say", hosts.name, hosts.initial_window)
        })?;
        for (key, value, least) in [
            ("initial_window", hosts.initial_window, 1),
            ("receive_window_initial", hosts.receive_window_initial, 2),
        ] {
            require((least..=SEGMENTS_MAX).contains(&value), &format!("{place}.{key}"), || {
                format!("{value} is out of range; write from {least} to {SEGMENTS_MAX}")
            })?;
        }
    }
    Ok(())
}

fn size(value: Bytes, least: Bytes, path: &str) -> Result<(), Invalid> {
    require((least..=HTTP_MESSAGE_MAX).contains(&value), path, || {
        format!("\"{value}\" is out of range; write from \"{least}\" to \"{HTTP_MESSAGE_MAX}\"")
    })
}

fn count(value: u32, least: u32, path: &str) -> Result<(), Invalid> {
    require((least..=HTTP_OBJECTS_MAX).contains(&value), path, || {
        format!("{value} is out of range; write from {least} to {HTTP_OBJECTS_MAX}")
    })
}
