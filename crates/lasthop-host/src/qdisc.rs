//! Linux' queue disciplines as requests to the kernel: the layouts of `<linux/pkt_sched.h>`, which the netlink crates
//! know nothing of.

use lasthop_core::{Bytes, Duration, Probability, Rate};
use lasthop_link::LinuxQueues;
use netlink_packet_core::{DefaultNla, Emitable};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

const HTB: TcHandle = TcHandle { major: 1, minor: 0 };
const CLASS: TcHandle = TcHandle { major: 1, minor: 1 };
/// The netem of a device.
pub const NETEM: TcHandle = TcHandle { major: 2, minor: 0 };

const TCA_OPTIONS: u16 = 2;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_PRNG_SEED: u16 = 14;
/// What `htb_init` asks for.
const HTB_VERSION: u32 = 3;
/// With this link layer HTB computes times itself, without a table of rates (`htb_change_class`).
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Nanoseconds of a tick of `PSCHED_TICKS2NS`, as a shift.
const PSCHED_SHIFT: u32 = 6;

/// The requests that make a device's queue disciplines, in order: HTB at the root, its class, and netem in that. Its
/// losses are drawn from `seed`.
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
        message.attributes =
            vec![TcAttribute::Kind(kind.into()), TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options))];
        message
    };
    [
        RouteNetlinkMessage::NewQueueDiscipline(make("htb", TcHandle::ROOT, HTB, htb())),
        RouteNetlinkMessage::NewTrafficClass(make("htb", HTB, CLASS, class(queues, mtu))),
        RouteNetlinkMessage::NewQueueDiscipline(make("netem", CLASS, NETEM, netem(queues, loss, seed))),
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
fn netem(queues: &LinuxQueues, loss: Option<Probability>, seed: u64) -> Vec<u8> {
    let loss = loss.map_or(0, |loss| (loss.get() * f64::from(u32::MAX)).round() as u32);
    let (latency, gap, duplicate, jitter) = (0, 0, 0, 0);
    let mut options = words(&[latency, queues.limit, loss, gap, duplicate, jitter]);
    options.extend(nested(&[
        DefaultNla::new(TCA_NETEM_LATENCY64, nanos(queues.delay).to_ne_bytes().into()),
        DefaultNla::new(TCA_NETEM_PRNG_SEED, seed.to_ne_bytes().into()),
    ]));
    options
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
