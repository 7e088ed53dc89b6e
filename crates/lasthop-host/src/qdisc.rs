//! Linux' queue disciplines as requests: layouts of `<linux/pkt_sched.h>` that the netlink crates lack.

use crate::netlink::nested;
use lasthop_core::{Bytes, Direction, Duration, Probability, Protocol, QueueSize, Rate};
use lasthop_link::{
    AckFilter, CakeConfig, ClassConfig, CoDelConfig, DualPi2Config, Framing, HtbConfig, Isolation,
    LinuxDiscipline, LinuxFlows, LinuxQueue, LinuxQueues, LinuxRed, MatchConfig, PieConfig, Tins,
};
use netlink_packet_core::{DefaultNla, NLA_F_NESTED};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

const HTB: TcHandle = TcHandle { major: 1, minor: 0 };

const TCA_OPTIONS: u16 = 2;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_PRNG_SEED: u16 = 14;
const TCA_RED_PARMS: u16 = 1;
const TCA_RED_STAB: u16 = 2;
const TCA_RED_MAX_P: u16 = 3;
const TC_RED_ECN: u8 = 1;
const TC_RED_HARDDROP: u8 = 2;
const TC_RED_ADAPTATIVE: u8 = 4;
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const TC_U32_TERMINAL: u8 = 1;
const ETH_P_IP: u16 = 0x0800;
/// The version that `htb_init` expects.
const HTB_VERSION: u32 = 3;
/// With this link layer, HTB computes times itself, without a rate table (`htb_change_class`).
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// A tick of the guest, by which a timer expires late (`calc_index` of `kernel/time/timer.c`).
const TICK: Duration = Duration::from_millis(4);
/// Nanoseconds of a tick in `PSCHED_TICKS2NS`, as a shift.
const PSCHED_SHIFT: u32 = 6;

/// Class number `index`, or the root, whose number follows the last class.
const fn class_handle(index: usize) -> TcHandle {
    TcHandle { major: 1, minor: index as u16 + 1 }
}

/// The queue discipline in class number `index` of a device.
pub const fn queue_handle(index: usize) -> TcHandle {
    TcHandle { major: index as u16 + 2, minor: 0 }
}

/// The requests that create a device's queue disciplines, in order: HTB at the root, its classes, the
/// discipline in each class, and the filters for the classes. netem's losses are drawn from `seed`.
pub fn requests(
    index: u32,
    direction: Direction,
    LinuxQueues { htb, delay, queues }: &LinuxQueues,
    loss: Option<Probability>,
    mtu: Bytes,
    seed: u64,
) -> Vec<RouteNetlinkMessage> {
    let make = |kind: &str, parent, handle, options| {
        let mut message = TcMessage::with_index(index.cast_signed());
        (message.header.parent, message.header.handle) = (parent, handle);
        // Some disciplines require the flag; others take a struct instead of attributes.
        let flag = match kind {
            "netem" | "sfq" | "pfifo" | "bfifo" | "pfifo_head_drop" => 0,
            _ => NLA_F_NESTED,
        };
        message.attributes = vec![
            TcAttribute::Kind(kind.into()),
            TcAttribute::Other(DefaultNla::new(TCA_OPTIONS | flag, options)),
        ];
        message
    };
    let mut requests =
        vec![RouteNetlinkMessage::NewQueueDiscipline(make("htb", TcHandle::ROOT, HTB, glob(htb)))];
    let root = htb.rate.map(|rate| (class_handle(htb.class.len()), rate));
    if let Some((handle, rate)) = root {
        let options = class(htb, mtu, [(rate, htb.burst); 2], None);
        requests.push(RouteNetlinkMessage::NewTrafficClass(make("htb", HTB, handle, options)));
    }
    for (number, config) in htb.class.iter().enumerate() {
        let parent = htb.parent_of(number).map(class_handle);
        let parent = parent.or(root.map(|(handle, _)| handle)).unwrap_or(HTB);
        let ceil = config.ceil.unwrap_or(config.rate);
        let options = class(htb, mtu, [(config.rate, config.burst), (ceil, config.cburst)], Some(config));
        requests.push(RouteNetlinkMessage::NewTrafficClass(make(
            "htb",
            parent,
            class_handle(number),
            options,
        )));
    }
    for (number, queue) in queues.iter().enumerate() {
        let Some(LinuxQueue { limit, discipline }) = *queue else { continue };
        let (QueueSize::Packets(most) | QueueSize::Bytes(most)) = limit;
        let (kind, options) = match discipline {
            LinuxDiscipline::Netem => ("netem", netem(*delay, most, loss, seed)),
            LinuxDiscipline::Red(parameters) => ("red", red(parameters, most)),
            LinuxDiscipline::Fifo => {
                (if matches!(limit, QueueSize::Packets(_)) { "pfifo" } else { "bfifo" }, words(&[most]))
            }
            other => active(other, most),
        };
        let discipline = make(kind, class_handle(number), queue_handle(number), options);
        requests.push(RouteNetlinkMessage::NewQueueDiscipline(discipline));
    }
    let classes = htb.class.iter().enumerate();
    let filters =
        classes.flat_map(|(number, class)| class.matches.iter().map(move |matching| (number, matching)));
    requests.extend((1..).zip(filters).map(|(preference, (number, matching))| {
        let mut message =
            make("u32", HTB, TcHandle::UNSPEC, filter(matching, direction, class_handle(number)));
        message.header.info = u32::from(preference as u16) << 16 | u32::from(ETH_P_IP.to_be());
        RouteNetlinkMessage::NewTrafficFilter(message)
    }));
    requests
}

/// `struct tc_htb_glob`: packets that match no filter belong to the default class.
fn glob(htb: &HtbConfig) -> Vec<u8> {
    let default = htb.class.iter().position(|class| class.default).unwrap_or_default();
    let (rate_to_quantum, debug, direct_packets) = (10, 0, 0);
    let default = u32::from(class_handle(default).minor);
    let glob = words(&[HTB_VERSION, rate_to_quantum, default, debug, direct_packets]);
    nested(&[DefaultNla::new(TCA_HTB_INIT, glob)])
}

/// `struct tc_htb_opt`, and the 64-bit rates of the class and its ceiling, with their buckets.
fn class(htb: &HtbConfig, mtu: Bytes, rates: [(Rate, Bytes); 2], config: Option<&ClassConfig>) -> Vec<u8> {
    let bytes = rates.map(|(rate, _)| rate.bits_per_second() / 8);
    let mut options = Vec::new();
    for rate in bytes {
        options.extend([0, TC_LINKLAYER_ETHERNET]);
        options.extend((htb.overhead.0 as u16).to_ne_bytes());
        // No cell alignment and no minimum length.
        options.extend([0; 4]);
        options.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    }
    let (quantum, priority) =
        config.map_or((mtu.0, 0), |class| (class.quantum_bytes(), u32::from(class.priority)));
    let level = 0;
    let [buffer, cbuffer] = rates.map(|(rate, burst)| bucket_ticks(burst, rate));
    options.extend(words(&[buffer, cbuffer, quantum as u32, level, priority]));
    nested(&[
        DefaultNla::new(TCA_HTB_PARMS, options),
        DefaultNla::new(TCA_HTB_RATE64, bytes[0].to_ne_bytes().into()),
        DefaultNla::new(TCA_HTB_CEIL64, bytes[1].to_ne_bytes().into()),
    ])
}

/// The filter `u32` that assigns packets of a direction to a class. Their IPv4 headers have no options.
fn filter(
    MatchConfig { dscp, port, protocol }: &MatchConfig,
    direction: Direction,
    class: TcHandle,
) -> Vec<u8> {
    // Mask and value of the header's words.
    let mut keys = Vec::new();
    if let Some(dscp) = dscp {
        keys.push((0, 0x00fc_0000, u32::from(dscp.get()) << 18));
    }
    if let Some(protocol) = protocol {
        let number = if *protocol == Protocol::Tcp { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP };
        keys.push((8, 0x00ff_0000, number.cast_unsigned() << 16));
    }
    if let Some(port) = port {
        // The server sends the packets of the direction down.
        let shift = if direction == Direction::Down { 16 } else { 0 };
        keys.push((20, 0xffff << shift, u32::from(port.get()) << shift));
    }
    let mut selector = vec![TC_U32_TERMINAL, 0, keys.len() as u8];
    selector.resize(16, 0);
    for (offset, mask, value) in keys {
        selector.extend(u32::to_be_bytes(mask));
        selector.extend(u32::to_be_bytes(value));
        selector.extend(words(&[offset, 0]));
    }
    nested(&[
        DefaultNla::new(TCA_U32_CLASSID, u32::from(class).to_ne_bytes().into()),
        DefaultNla::new(TCA_U32_SEL, selector),
    ])
}

/// `struct tc_netem_qopt`, which precedes the attributes instead of being one.
fn netem(delay: Duration, limit: u32, loss: Option<Probability>, seed: u64) -> Vec<u8> {
    let loss = loss.map_or(0, Probability::share_of_u32);
    let (latency, gap, duplicate, jitter) = (0, 0, 0, 0);
    let mut options = words(&[latency, limit, loss, gap, duplicate, jitter]);
    options.extend(nested(&[
        DefaultNla::new(TCA_NETEM_LATENCY64, nanos(delay).to_ne_bytes().into()),
        DefaultNla::new(TCA_NETEM_PRNG_SEED, seed.to_ne_bytes().into()),
    ]));
    options
}

/// `struct tc_red_qopt`, a table for the decay of the average in idle time, and the probability.
fn red(red: LinuxRed, limit: u32) -> Vec<u8> {
    let LinuxRed { min, max, max_probability, weight_log, ecn, harddrop, adaptive } = red;
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let marks = flag(ecn, TC_RED_ECN) | flag(ecn && harddrop, TC_RED_HARDDROP);
    let flags = marks | flag(adaptive, TC_RED_ADAPTATIVE);
    let mut options = words(&[limit, min, max]);
    // The probability is given explicitly, and RED sees no idle time below HTB.
    let (probability_log, cell_log) = (0, 0);
    options.extend([weight_log, probability_log, cell_log, flags]);
    nested(&[
        DefaultNla::new(TCA_RED_PARMS, options),
        DefaultNla::new(TCA_RED_STAB, vec![0; 256]),
        DefaultNla::new(TCA_RED_MAX_P, max_probability.share_of_u32().to_ne_bytes().into()),
    ])
}

/// The other disciplines with their names and options: attribute numbers as in `<linux/pkt_sched.h>`.
fn active(discipline: LinuxDiscipline, limit: u32) -> (&'static str, Vec<u8>) {
    let quantum = |flows: LinuxFlows| flows.quantum.0 as u32;
    let period = |tupdate: Duration| micros(tupdate.saturating_sub(TICK)).max(1);
    match discipline {
        LinuxDiscipline::Netem | LinuxDiscipline::Fifo | LinuxDiscipline::Red(_) => {
            unreachable!("it has a layout of its own")
        }
        // `struct tc_fifo_qopt`.
        LinuxDiscipline::HeadDrop => ("pfifo_head_drop", words(&[limit])),
        LinuxDiscipline::Codel(codel) => ("codel", numbers(&self::codel(codel, limit, 5))),
        LinuxDiscipline::FqCodel(codel, flows) => {
            let rounds = [(5, flows.flows), (6, quantum(flows))];
            ("fq_codel", numbers(&[&self::codel(codel, limit, 7)[..], &rounds].concat()))
        }
        LinuxDiscipline::Pie(PieConfig { target, tupdate, ecn }) => {
            ("pie", numbers(&[(1, micros(target)), (2, limit), (3, period(tupdate)), (6, ecn.into())]))
        }
        LinuxDiscipline::FqPie(PieConfig { target, tupdate, ecn }, flows) => {
            let pie = [(1, limit), (2, flows.flows), (3, micros(target)), (4, period(tupdate))];
            ("fq_pie", numbers(&[&pie[..], &[(7, quantum(flows)), (10, ecn.into())]].concat()))
        }
        LinuxDiscipline::DualPi2(DualPi2Config { target, tupdate, step_threshold, min_qlen_step }) => {
            // The limit in bytes of memory would come first if packets are short.
            let limits = [(1, limit), (2, u32::MAX)];
            let times = [(3, micros(target)), (4, micros(tupdate)), (8, micros(step_threshold))];
            ("dualpi2", numbers(&[&limits[..], &times, &[(9, min_qlen_step)]].concat()))
        }
        LinuxDiscipline::Cake(cake) => ("cake", self::cake(cake, limit)),
        LinuxDiscipline::Sfq(flows) => {
            // `struct tc_sfq_qopt`; without perturbation, and with the usual number of active flows.
            let (perturbation, active) = (0, 0);
            ("sfq", words(&[quantum(flows), perturbation, limit, flows.flows, active]))
        }
    }
}

/// The attributes of CAKE, with the codes of its modes in `<linux/pkt_sched.h>`.
fn cake(cake: CakeConfig, limit: u32) -> Vec<u8> {
    let tins = match cake.tins {
        Tins::Diffserv3 => 0,
        Tins::Diffserv4 => 1,
        Tins::Besteffort => 3,
    };
    let isolation = match cake.isolation {
        Isolation::None => 0,
        Isolation::Flows => 4,
        Isolation::DualSrchost => 5,
        Isolation::DualDsthost => 6,
        Isolation::TripleIsolate => 7,
    };
    let ack_filter = match cake.ack_filter {
        AckFilter::Off => 0,
        AckFilter::On => 1,
        AckFilter::Aggressive => 2,
    };
    let number = |(kind, value): (u16, u32)| DefaultNla::new(kind, value.to_ne_bytes().into());
    let rate = cake.rate.map_or(0, Rate::bits_per_second) / 8;
    let mut attributes = vec![DefaultNla::new(2, rate.to_ne_bytes().into())];
    attributes.extend(
        [
            (3, tins),
            (4, (cake.overhead == Framing::Atm).into()),
            (5, isolation),
            (6, cake.overhead.added().0 as u32),
            (7, micros(cake.rtt)),
            (8, micros(cake.target())),
            (10, limit),
            (14, cake.mpu.0 as u32),
            (16, ack_filter),
        ]
        .map(number),
    );
    nested(&attributes)
}

/// The attributes of CoDel; the ECN threshold has this number.
fn codel(codel: CoDelConfig, limit: u32, ce_threshold: u16) -> Vec<(u16, u32)> {
    let CoDelConfig { target, interval, ecn, .. } = codel;
    let mut attributes = vec![(1, micros(target)), (2, limit), (3, micros(interval)), (4, ecn.into())];
    attributes.extend(codel.ce_threshold.map(|threshold| (ce_threshold, micros(threshold))));
    attributes
}

fn micros(duration: Duration) -> u32 {
    (duration.as_nanos() / 1_000) as u32
}

fn numbers(attributes: &[(u16, u32)]) -> Vec<u8> {
    let attribute = |&(kind, value): &(u16, u32)| DefaultNla::new(kind, value.to_ne_bytes().into());
    nested(&attributes.iter().map(attribute).collect::<Vec<_>>())
}

/// A bucket size as its duration at the rate, in ticks.
fn bucket_ticks(burst: Bytes, rate: Rate) -> u32 {
    let nanos = u128::from(burst.0) * 8 * 1_000_000_000 / u128::from(rate.bits_per_second());
    u32::try_from(nanos >> PSCHED_SHIFT).unwrap_or(u32::MAX)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
