//! Linux' queue disciplines as requests to the kernel: the layouts of `<linux/pkt_sched.h>`, which the netlink crates
//! know nothing of.

use lasthop_core::{Bytes, Duration, Probability, QueueSize, Rate};
use lasthop_link::{LinuxCoDel, LinuxDiscipline, LinuxFlows, LinuxPie, LinuxQueues, LinuxRed};
use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

const HTB: TcHandle = TcHandle { major: 1, minor: 0 };
const CLASS: TcHandle = TcHandle { major: 1, minor: 1 };
/// The queue discipline in the class of a device.
pub const QUEUE: TcHandle = TcHandle { major: 2, minor: 0 };

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
/// What `htb_init` asks for.
const HTB_VERSION: u32 = 3;
/// With this link layer HTB computes times itself, without a table of rates (`htb_change_class`).
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// A tick of the guest. A timer that is set for so many ticks comes one later (`calc_index` of `kernel/time/timer.c`).
const TICK: Duration = Duration::from_millis(4);
/// Nanoseconds of a tick of `PSCHED_TICKS2NS`, as a shift.
const PSCHED_SHIFT: u32 = 6;

/// The requests that make a device's queue disciplines, in order: HTB at the root, its class, and what waits for that.
/// netem's losses are drawn from `seed`.
pub fn requests(
    index: u32,
    queues: &LinuxQueues,
    loss: Option<Probability>,
    mtu: Bytes,
    seed: u64,
) -> [RouteNetlinkMessage; 3] {
    let make = |kind: &str, parent, handle, options| {
        let mut message = TcMessage::with_index(index.cast_signed());
        (message.header.parent, message.header.handle) = (parent, handle);
        // Some disciplines insist on the flag, others take a struct instead of attributes.
        let flag = if matches!(kind, "netem" | "sfq" | "pfifo_head_drop") { 0 } else { NLA_F_NESTED };
        message.attributes = vec![
            TcAttribute::Kind(kind.into()),
            TcAttribute::Other(DefaultNla::new(TCA_OPTIONS | flag, options)),
        ];
        message
    };
    let (QueueSize::Packets(limit) | QueueSize::Bytes(limit)) = queues.limit;
    let (kind, options) = match queues.discipline {
        LinuxDiscipline::Netem => ("netem", netem(queues.delay, limit, loss, seed)),
        LinuxDiscipline::Red(parameters) => ("red", red(parameters, limit)),
        other => active(other, limit),
    };
    [
        RouteNetlinkMessage::NewQueueDiscipline(make("htb", TcHandle::ROOT, HTB, htb())),
        RouteNetlinkMessage::NewTrafficClass(make("htb", HTB, CLASS, class(queues, mtu))),
        RouteNetlinkMessage::NewQueueDiscipline(make(kind, CLASS, QUEUE, options)),
    ]
}

/// `struct tc_htb_glob`: all packets belong to the class.
fn htb() -> Vec<u8> {
    let (rate_to_quantum, debug, direct_packets) = (10, 0, 0);
    let glob = words(&[HTB_VERSION, rate_to_quantum, u32::from(CLASS.minor), debug, direct_packets]);
    nested(&[DefaultNla::new(TCA_HTB_INIT, glob)])
}

/// `struct tc_htb_opt`, and the rates in 64 bits.
fn class(queues: &LinuxQueues, mtu: Bytes) -> Vec<u8> {
    let rate = queues.rate.bits_per_second() / 8;
    let mut specification = vec![0, TC_LINKLAYER_ETHERNET];
    specification.extend((queues.overhead.0 as u16).to_ne_bytes());
    // Alignment of cells and least length: none.
    specification.extend([0; 4]);
    specification.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    let (level, priority) = (0, 0);
    let [buffer, cbuffer] = [queues.burst, queues.cburst].map(|burst| bucket_ticks(burst, queues.rate));
    let mut options = specification.repeat(2);
    options.extend(words(&[buffer, cbuffer, mtu.0 as u32, level, priority]));
    nested(&[
        DefaultNla::new(TCA_HTB_PARMS, options),
        DefaultNla::new(TCA_HTB_RATE64, rate.to_ne_bytes().into()),
        DefaultNla::new(TCA_HTB_CEIL64, rate.to_ne_bytes().into()),
    ])
}

/// `struct tc_netem_qopt`, which stands before the attributes instead of in one.
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
fn red(LinuxRed { min, max, max_probability, weight_log, ecn, adaptive }: LinuxRed, limit: u32) -> Vec<u8> {
    let marks = if ecn { TC_RED_ECN | TC_RED_HARDDROP } else { 0 };
    let flags = marks | if adaptive { TC_RED_ADAPTATIVE } else { 0 };
    let mut options = words(&[limit, min, max]);
    // The probability stands for itself, and no idle time is ever seen behind HTB.
    let (probability_log, cell_log) = (0, 0);
    options.extend([weight_log, probability_log, cell_log, flags]);
    nested(&[
        DefaultNla::new(TCA_RED_PARMS, options),
        DefaultNla::new(TCA_RED_STAB, vec![0; 256]),
        DefaultNla::new(TCA_RED_MAX_P, max_probability.share_of_u32().to_ne_bytes().into()),
    ])
}

/// The other disciplines by their names, and their options: numbers of attributes as in `<linux/pkt_sched.h>`.
fn active(discipline: LinuxDiscipline, limit: u32) -> (&'static str, Vec<u8>) {
    let quantum = |flows: LinuxFlows| flows.quantum.0 as u32;
    let period = |tupdate: Duration| micros(tupdate.saturating_sub(TICK)).max(1);
    match discipline {
        LinuxDiscipline::Netem | LinuxDiscipline::Red(_) => unreachable!("it has a layout of its own"),
        // `struct tc_fifo_qopt`.
        LinuxDiscipline::HeadDrop => ("pfifo_head_drop", words(&[limit])),
        LinuxDiscipline::Codel(codel) => ("codel", numbers(&self::codel(codel, limit, 5))),
        LinuxDiscipline::FqCodel(codel, flows) => {
            let rounds = [(5, flows.flows), (6, quantum(flows))];
            ("fq_codel", numbers(&[&self::codel(codel, limit, 7)[..], &rounds].concat()))
        }
        LinuxDiscipline::Pie(LinuxPie { target, tupdate, ecn }) => {
            ("pie", numbers(&[(1, micros(target)), (2, limit), (3, period(tupdate)), (6, ecn.into())]))
        }
        LinuxDiscipline::FqPie(LinuxPie { target, tupdate, ecn }, flows) => {
            let pie = [(1, limit), (2, flows.flows), (3, micros(target)), (4, period(tupdate))];
            ("fq_pie", numbers(&[&pie[..], &[(7, quantum(flows)), (10, ecn.into())]].concat()))
        }
        LinuxDiscipline::Sfq(flows) => {
            // `struct tc_sfq_qopt`; without perturbation, and with the usual number of active flows.
            let (perturbation, active) = (0, 0);
            ("sfq", words(&[quantum(flows), perturbation, limit, flows.flows, active]))
        }
    }
}

/// The attributes of CoDel, of which the threshold has this number.
fn codel(codel: LinuxCoDel, limit: u32, ce_threshold: u16) -> Vec<(u16, u32)> {
    let LinuxCoDel { target, interval, ecn, .. } = codel;
    let mut attributes = vec![(1, micros(target)), (2, limit), (3, micros(interval)), (4, ecn.into())];
    attributes.extend(codel.ce_threshold.map(|threshold| (ce_threshold, micros(threshold))));
    attributes
}

fn micros(duration: Duration) -> u32 {
    (duration.as_nanos() / 1_000) as u32
}

/// Attributes of 32 bits.
fn numbers(attributes: &[(u16, u32)]) -> Vec<u8> {
    let attribute = |&(kind, value): &(u16, u32)| DefaultNla::new(kind, value.to_ne_bytes().into());
    nested(&attributes.iter().map(attribute).collect::<Vec<_>>())
}

/// A bucket as the time it lasts at the rate, in ticks.
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

fn nested(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}
