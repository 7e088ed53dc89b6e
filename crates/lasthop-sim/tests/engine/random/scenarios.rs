//! Scenarios that a file could state, from harmless to hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Direction, Distribution, Dscp, Duration, Faults, Probability, Protocol, QueueSize, Rate, named,
};
use lasthop_link::{
    AckFilter, ArqConfig, AtmConfig, BlackholeConfig, BufferRelease, CakeConfig, CellConfig, CellUp,
    CellUser, ClassConfig, CoDelConfig, CourseConfig, Discard, DisciplineConfig, DropTailConfig, DrxConfig,
    DualPi2Config, ErrorConfig, FlowsConfig, FqCoDelConfig, FqPieConfig, Framing, GilbertElliott,
    GrantConfig, HarqConfig, HeaderCompression, HtbConfig, Isolation, LinkChange, LinkConfig, MatchConfig,
    MediumConfig, PathConfig, PieConfig, PolicerConfig, QueueConfig, RedConfig, RequestKind, Scheduler,
    SlotsConfig, Standard, Start, StateLookup, Timetable, Tins, WifiConfig, WifiQueue, WifiStation,
};
use lasthop_scenario::{
    AccessConfig, Behind, DataDirection, Flow, HopConfig, HostConfig, LanConfig, RelayConfig, Roles,
    RouterConfig, Scenario,
};
use lasthop_tcp::{CongestionControl, FRtoMode, PragueVersion, Profile, RecoveryRules, Stack, TcpConfig};
use lasthop_traffic::{
    BulkConfig, CoapConfig, Codec, ConstantUdpConfig, Ect, FlowConfig, HeaderWrite, HttpConfig,
    HttpPageConfig, HttpProtocol, OnOffConfig, Packet, Recording, ReplayConfig, RequestResponseConfig,
    VideoConfig, VoipConfig,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use proptest::{bool, collection, option};

use crate::support::{self, linux24};

/// Any scenario, with enough time for every retry.
pub fn scenarios() -> impl Strategy<Value = Scenario> {
    let mtu = prop_oneof![Just(296), Just(576), Just(1500), 296_u64..=1500];
    mtu.prop_flat_map(|mtu| {
        let flow = collection::vec(entry(mtu), 1..=5);
        let between = prop_oneof![4 => last_hop(mtu).boxed(), 1 => atm(mtu).boxed(), 2 => tree(mtu).boxed()];
        let ends = collection::vec((any::<Index>(), option::of(any::<Index>()), any::<Index>()), 5);
        (Just(mtu), between, tcp(), http(), (flow, ends)).prop_map(
            |(mtu, Between { lan, down, up, errors, atm, hop, host }, tcp, http, (mut flow, ends))| {
                for ((index, flow), ends) in flow.iter_mut().enumerate().zip(&ends) {
                    flow.kind.rename(format!("flow-{index}"));
                    between_hosts(flow, (&hop, &host), *ends);
                    let has_media = hop.values().any(|hop| hop.medium.is_some());
                    if atm.is_none() && index == 1 && !flow.traffic().opens_later() && !has_media {
                        flow.drop_list = vec![2, 3, 7];
                    }
                    if atm.is_some() {
                        (flow.direction, flow.access) = (DataDirection::Down, None);
                    }
                }
                let mut scenario = Scenario {
                    mtu: Bytes(mtu),
                    lan,
                    down,
                    up,
                    errors,
                    atm,
                    medium: None,
                    hop,
                    host,
                    router: RouterConfig::default(),
                    tcp,
                    http: Some(http),
                    flow,
                    roles: Roles::ByName,
                    time_limit: Duration::from_secs(1_000_000),
                    measure: None,
                    kernel: None,
                };
                put_relays(&mut scenario, &ends);
                assert_valid(&scenario);
                scenario
            },
        )
    })
}

fn assert_valid(scenario: &Scenario) {
    let Scenario { mtu, down, up, atm, errors, hop, .. } = scenario;
    let faults = Faults::collect(|faults| {
        let media = hop.values().filter_map(|hop| hop.medium.as_ref());
        media.for_each(|medium| medium.check(faults));
        let sides = hop.values().flat_map(|hop| hop.down.iter().chain(&hop.up));
        for path in down.iter().chain(up).chain(sides) {
            path.check(*mtu, faults);
        }
        if let Some(atm) = atm {
            atm.check(*mtu, faults);
        }
        if let Some(errors) = errors {
            errors.check(faults);
        }
    });
    assert_eq!(faults, []);
}

/// The network part of a scenario.
#[derive(Clone, Debug, Default)]
struct Between {
    lan: Option<LanConfig>,
    down: Option<PathConfig>,
    up: Option<PathConfig>,
    errors: Option<ErrorConfig>,
    atm: Option<AtmConfig>,
    hop: BTreeMap<String, HopConfig>,
    host: BTreeMap<String, HostConfig>,
}

/// A Wi-Fi network, from one that loses nothing to one that gives up at once.
fn wifi() -> impl Strategy<Value = WifiConfig> {
    let standards = [Standard::B, Standard::A, Standard::G, Standard::N, Standard::Ac, Standard::Ax];
    let queues = [WifiQueue::Fifo, WifiQueue::FqCodel, WifiQueue::Airtime];
    let limit = option::of((1_u32..=60).prop_map(QueueSize::Packets));
    let rts = option::of((0_u64..=3_000).prop_map(Bytes));
    let frames = (option::of(1_u32..=64), option::of((4_096_u64..=70_000).prop_map(Bytes)));
    let busy = prop_oneof![3 => Just(0.0), 1 => 0.0..=0.6].prop_map(probability);
    (select(standards.to_vec()), select(queues.to_vec()), limit, 0_u32..=8, rts, frames, busy).prop_map(
        |(standard, queue, limit, retries, rts_threshold, (max_mpdus, max_ampdu), busy)| {
            let aggregates = matches!(standard, Standard::N | Standard::Ac | Standard::Ax);
            let max_mpdus = max_mpdus.filter(|_| aggregates);
            let max_ampdu = max_ampdu.filter(|_| aggregates);
            WifiConfig { standard, queue, limit, retries, rts_threshold, max_mpdus, max_ampdu, busy }
        },
    )
}

fn station() -> impl Strategy<Value = WifiStation> {
    let rate = option::of(doublings(1_000_000, 500_000_000).prop_map(Rate::from_bits_per_second));
    let error = prop_oneof![1 => Just(0.0), 2 => 0.0..=0.4].prop_map(probability);
    (rate, error).prop_map(|(rate, error)| WifiStation { rate, course: None, error })
}

/// A cell, from one without errors to one that gives up at once.
fn cell() -> impl Strategy<Value = CellConfig> {
    let tti = select(vec![125, 500, 1_000, 10_000]).prop_map(Duration::from_micros);
    let window = option::of(1_u64..=500);
    let scheduler = (select(vec![Scheduler::RoundRobin, Scheduler::ProportionalFair]), window);
    let limit = (1_u32..=60).prop_map(QueueSize::Packets);
    let harq = option::of((0.0..=0.9, option::of(1_u64..=20), 1_u32..=6));
    let drx = option::of((1_u64..=10, 0_u64..=100, 10_u64..=300));
    (tti, scheduler, millis(50), limit, harq, drx).prop_map(
        |(tti, (scheduler, window), delay, limit, harq, drx)| CellConfig {
            tti,
            scheduler,
            window: window.filter(|_| scheduler == Scheduler::ProportionalFair).map(|slots| tti * slots),
            delay,
            limit,
            harq: harq.map(|(error, round_trip, tries)| HarqConfig {
                error: probability(error),
                round_trip: round_trip.map(|slots| tti * slots),
                tries,
            }),
            drx: drx.map(|(on, inactivity, cycle)| DrxConfig {
                on: tti * on,
                inactivity: tti * inactivity,
                cycle: tti * cycle,
            }),
        },
    )
}

fn cell_user() -> impl Strategy<Value = CellUser> {
    let rate = || doublings(1_000_000, 200_000_000).prop_map(Rate::from_bits_per_second);
    (rate(), option::of(rate())).prop_map(|(rate, up)| CellUser {
        rate: Some(rate),
        course: None,
        up: up.map(|rate| CellUp { rate: Some(rate), course: None }),
    })
}

/// Up to six hops and twenty hosts. Some hops that no other hangs behind are media.
fn tree(mtu: u64) -> impl Strategy<Value = Between> {
    let media = prop_oneof![wifi().prop_map(MediumConfig::Wifi), cell().prop_map(MediumConfig::Cell)];
    let air = option::weighted(0.5, media);
    let hop = (path(mtu), path(mtu), option::of(errors()), option::of(any::<Index>()), air);
    let host = (collection::vec(any::<Index>(), 0..=2), station(), cell_user());
    (collection::vec(hop, 1..=6), collection::vec(host, 1..=20)).prop_map(|(hops, hosts)| {
        let many = hops.len();
        let name = |hop: usize| format!("hop-{hop}");
        let behind = |number: usize, behind: &Option<Index>| {
            behind.filter(|_| number > 0).map(|behind| behind.index(number))
        };
        let with_others: BTreeSet<usize> =
            hops.iter().enumerate().filter_map(|(number, hop)| behind(number, &hop.3)).collect();
        let hop = hops.into_iter().enumerate().map(|(number, (mut down, mut up, errors, under, air))| {
            // The oracle of RED knows one queue.
            [&mut down, &mut up].into_iter().for_each(without_red);
            let behind = behind(number, &under).map(name);
            let router = RouterConfig::default();
            let medium = air.filter(|_| !with_others.contains(&number));
            let (down, up) = (Some(down), Some(up));
            let links = HopConfig { behind, down, up, medium: None, errors, router, bottleneck: false };
            let hop = match medium {
                None => links,
                Some(_) => HopConfig { medium, down: None, up: None, errors: None, ..links },
            };
            (name(number), hop)
        });
        let hop: BTreeMap<String, HopConfig> = hop.collect();
        let host = hosts.into_iter().enumerate().map(|(number, (ways, station, user))| {
            let ways: BTreeSet<String> = ways.into_iter().map(|way| name(way.index(many))).collect();
            let behind = Some(Behind::Several(ways.into_iter().collect::<Vec<_>>()))
                .filter(|ways| *ways != Behind::Several(Vec::new()));
            let host = HostConfig { behind, ..HostConfig::default() };
            let media = host.ways().iter().filter_map(|way| hop[way].medium.as_ref());
            let kinds: Vec<&str> = media.map(MediumConfig::kind).collect();
            let wifi = Some(station).filter(|_| kinds.contains(&"wifi"));
            let cell = Some(user).filter(|_| kinds.contains(&"cell"));
            (format!("host-{number}"), HostConfig { wifi, cell, ..host })
        });
        let lan = Some(LanConfig {
            rate: Rate::from_bits_per_second(100_000_000),
            delay: Duration::from_micros(150),
        });
        let host = host.collect();
        Between { lan, hop, host, ..Between::default() }
    })
}

/// Puts a flow between hosts, if they have names.
fn between_hosts(
    flow: &mut Flow,
    (hops, hosts): (&BTreeMap<String, HopConfig>, &BTreeMap<String, HostConfig>),
    (host, peer, via): (Index, Option<Index>, Index),
) {
    if hosts.is_empty() {
        return;
    }
    let names: Vec<&String> = hosts.keys().collect();
    flow.host = Some(names[host.index(names.len())].clone());
    flow.peer = peer
        .map(|peer| names[peer.index(names.len())].clone())
        .filter(|peer| Some(peer) != flow.host.as_ref())
        // Stations of one medium do not talk to each other.
        .filter(|peer| {
            let own = flow.host.as_ref().map_or(&[][..], |host| hosts[host].ways());
            let shared = hosts[peer].ways().iter().filter(|way| own.contains(way));
            shared.into_iter().all(|way| hops[way].medium.is_none())
        });
    flow.access = flow.access.take().filter(|_| flow.peer.is_none());
    let ways = flow.host.as_ref().map_or(&[][..], |host| hosts[host].ways());
    flow.via = (!ways.is_empty()).then(|| ways[via.index(ways.len())].clone());
}

/// Lets a third of the flows over TCP between named hosts go through a relay, anywhere on their way, that holds
/// from one packet to more than most flows send.
fn put_relays(scenario: &mut Scenario, drawn: &[(Index, Option<Index>, Index)]) {
    if scenario.hop.is_empty() {
        return;
    }
    let (tree, mtu) = (scenario.tree(), scenario.mtu.0);
    let names: Vec<String> = scenario.hop.keys().cloned().collect();
    let relays = scenario.flow.iter().zip(drawn).map(|(flow, (host, _, via))| {
        let traffic = flow.traffic();
        let can = traffic.protocol() == Protocol::Tcp && !traffic.opens_later() && flow.drop_list.is_empty();
        let way = scenario.route(&tree, flow, Direction::Down);
        // Far digits of numbers whose near ones have chosen the hosts.
        let [first, second] = [host, via].map(|index| index.index(10_007));
        if !can || way.is_empty() || second % 3 > 0 {
            return None;
        }
        let at = names[tree.at(way[first % way.len()]).0].clone();
        Some(RelayConfig { at, buffer: Bytes(mtu << (first % 9)), tcp: None })
    });
    let relays: Vec<Option<RelayConfig>> = relays.collect();
    scenario.flow.iter_mut().zip(relays).for_each(|(flow, relay)| flow.relay = relay);
}

fn without_red(path: &mut PathConfig) {
    if path.queue.red().is_some() {
        path.queue.discipline = DisciplineConfig::default();
    }
}

fn last_hop(mtu: u64) -> impl Strategy<Value = Between> {
    let errors = (option::of(errors()), bool::weighted(0.3));
    (path(mtu), path(mtu), errors).prop_map(|(mut down, mut up, (mut errors, of_one))| {
        without_red(&mut up);
        if of_one {
            down.link.errors = errors.take();
        }
        let rate = Rate::from_bits_per_second(100_000_000);
        let lan = Some(LanConfig { rate, delay: Duration::from_micros(150) });
        Between { lan, down: Some(down), up: Some(up), errors, ..Between::default() }
    })
}

/// A switch whose buffer holds a few packets.
fn atm(mtu: u64) -> impl Strategy<Value = Between> {
    let rate = || doublings(8_000, 10_000_000).prop_map(Rate::from_bits_per_second);
    let discard = prop_oneof![
        Just(Discard::None),
        Just(Discard::EarlyPacket),
        (0.1..=1.0).prop_map(|share| Discard::Selective { share: probability(share) })
    ];
    let cells = mtu as u32 / 40 + 2;
    (rate(), rate(), millis(600), cells..=20 * cells, 0.1..=1.0, discard).prop_map(
        |(access_rate, rate, delay, buffer_cells, threshold, discard)| {
            let atm = AtmConfig {
                access_rate,
                access_delay: Duration::from_micros(5),
                rate,
                delay,
                buffer_cells,
                threshold: probability(threshold),
                discard,
                overhead: Bytes(16),
            };
            Between { atm: Some(atm), ..Between::default() }
        },
    )
}

/// A number from `min` to `max`; each doubling is equally likely.
fn doublings(min: u64, max: u64) -> impl Strategy<Value = u64> {
    (0..=(max / min).ilog2()).prop_flat_map(move |steps| (min << steps)..=(min << (steps + 1)).min(max))
}

fn millis(max: u64) -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        9 => (0..=max * 1_000_000).prop_map(Duration::from_nanos),
    ]
}

fn path(mtu: u64) -> impl Strategy<Value = PathConfig> {
    let queue = prop_oneof![
        (1..=5_u32).prop_map(QueueSize::Packets),
        (5..=50_u32).prop_map(QueueSize::Packets),
        (mtu as u32..=60_000).prop_map(QueueSize::Bytes),
    ];
    let release = prop_oneof![Just(BufferRelease::Serialised), Just(BufferRelease::Acknowledged)];
    let rate = doublings(8_000, 10_000_000).prop_map(Rate::from_bits_per_second);
    let micros = Duration::from_micros;
    let overhead = prop_oneof![
        Just(Distribution::Static(Duration::ZERO)),
        Just(Distribution::Uniform { min: micros(80), max: micros(180) }),
    ];
    let send_buffer = prop_oneof![mtu..=2 * mtu, mtu..=20_000];
    let vj = option::weighted(0.1, Just(HeaderCompression::Vj));
    let buffers = (send_buffer, vj, option::weighted(0.2, mtu..=4 * mtu));
    let changes =
        collection::btree_map(0..30_000_u64, (option::of(doublings(8_000, 10_000_000)), millis(600)), 0..3);
    let change = |(at_ms, (rate, delay)): (u64, (Option<u64>, Duration))| LinkChange {
        at: Duration::from_millis(at_ms),
        rate: rate.map(Rate::from_bits_per_second),
        delay: Some(delay),
    };
    let course = (changes, option::weighted(0.2, course()), framing());
    let link = (rate, millis(600), course, overhead, buffers, release, impairments()).prop_map(
        move |(rate, delay, (changes, course, framing), overhead, buffers, release, impairments)| {
            let reorder = release == BufferRelease::Serialised && impairments.reorder;
            let (send_buffer, vj, receive_buffer) = buffers;
            LinkConfig {
                trace: None,
                framing,
                rate,
                delay,
                change: if course.is_some() { Vec::new() } else { changes.into_iter().map(change).collect() },
                course: course.map(CourseConfig::Table),
                overhead,
                send_buffer: Bytes(send_buffer),
                release,
                reorder,
                header_compression: vj.filter(|_| !reorder),
                receive_buffer: receive_buffer.filter(|_| !reorder).map(Bytes),
                ..impairments
            }
        },
    );
    let grant = option::weighted(0.1, grant());
    let policer = option::weighted(0.1, policer(mtu));
    let lost = (policer, blackhole());
    (discipline(), queue, option::weighted(0.3, htb()), grant, link, lost).prop_map(
        |(mut discipline, limit, htb, grant, link, (policer, blackhole))| {
            // Behind classes, CAKE has no rate of its own.
            if let (DisciplineConfig::Cake(cake), Some(_)) = (&mut discipline, &htb) {
                cake.rate = None;
            }
            let queue = QueueConfig { discipline, ..QueueConfig::drop_tail(limit) };
            let mut path = PathConfig { policer, blackhole, queue, htb, grant: None, link };
            // The oracle of RED knows packets that wait, not one that has begun.
            if let Some(grant) = grant.filter(|_| path.queue.red().is_none()) {
                granted(&mut path, &grant);
            }
            path
        },
    )
}

/// Lets the link grant, and removes what cannot be beside grants.
fn granted(path: &mut PathConfig, grant: &GrantConfig) {
    path.htb = None;
    let link = &mut path.link;
    (link.course, link.framing, link.header_compression) = (None, None, None);
    link.change.iter_mut().for_each(|change| change.rate = None);
    // Either a byte of each interval is left to ask for, or nothing.
    let least = 8_000_000_000_u64.div_ceil(grant.interval.as_nanos());
    let has_rest = |rate: Rate| rate.bits_per_second().saturating_add(least) <= link.rate.bits_per_second();
    let proactive = grant.proactive.map(|rate| if has_rest(rate) { rate } else { link.rate });
    path.grant = Some(GrantConfig { proactive, ..grant.clone() });
}

/// Grants for any rate from 8 kbit/s.
fn grant() -> impl Strategy<Value = GrantConfig> {
    let nanos = |range: std::ops::Range<u64>| Strategy::prop_map(range, Duration::from_nanos);
    let proactive = option::of(doublings(100, 10_000_000).prop_map(Rate::from_bits_per_second));
    let period = option::of(nanos(500_000..40_000_000_u64));
    let collision = option::of((0.0..0.9).prop_map(probability));
    (nanos(1_000_000..20_000_000_u64), millis(50), period, collision, proactive).prop_map(
        |(interval, delay, period, collision, proactive)| GrantConfig {
            interval,
            delay,
            request: if period.is_some() { RequestKind::Reserved } else { RequestKind::Contention },
            collision: collision.filter(|_| period.is_none()),
            period: period.map(|period| period.max(interval)),
            proactive,
        },
    )
}

fn policer(mtu: u64) -> impl Strategy<Value = PolicerConfig> {
    (doublings(8_000, 10_000_000), mtu..=20 * mtu).prop_map(|(rate, burst)| PolicerConfig {
        rate: Rate::from_bits_per_second(rate),
        burst: Bytes(burst),
    })
}

fn blackhole() -> impl Strategy<Value = Option<BlackholeConfig>> {
    let times = (0..30_000_u64, 1..3_000_u64);
    let times = times.prop_map(|(at, lasts)| [at, lasts].map(Duration::from_millis));
    option::weighted(0.1, times.prop_map(|[at, lasts]| BlackholeConfig { at, lasts }))
}

/// Rates, delays and outages over time.
fn course() -> impl Strategy<Value = Timetable> {
    let rate = prop_oneof![1 => Just(0), 3 => doublings(8_000, 10_000_000)];
    let rows = collection::vec((1..10_000_u64, rate, 0..600_u64), 0..6);
    (rows, doublings(8_000, 10_000_000)).prop_map(|(rows, last_rate)| {
        let (mut text, mut at) = ("time_s,rate_bps,delay_s\n".to_owned(), 0);
        for (lasts, rate, delay) in rows {
            writeln!(text, "{}.{:03},{rate},0.{delay:03}", at / 1000, at % 1000).unwrap();
            at += lasts;
        }
        writeln!(text, "{}.{:03},{last_rate},0", at / 1000, at % 1000).unwrap();
        Timetable::parse(&text).unwrap()
    })
}

fn framing() -> impl Strategy<Value = Option<Framing>> {
    let added = (0..100_u64).prop_map(|bytes| Framing::PerPacket(Bytes(bytes)));
    option::weighted(0.2, prop_oneof![Just(Framing::Atm), added])
}

/// Impairments of a link; the link itself is chosen later.
fn impairments() -> impl Strategy<Value = LinkConfig> {
    let chance = || (0.0..0.2).prop_map(|value| Probability::new(value).unwrap());
    let loss = prop_oneof![
        8 => Just((None, None, None)),
        1 => chance().prop_map(|loss| (Some(loss), None, None)),
        1 => (0.0..1e-4)
            .prop_map(|rate| (None, Some(Probability::new(rate).unwrap()), None)),
        1 => (chance(), chance(), chance()).prop_map(|(p, r, loss_good)| {
            (None, None, Some(GilbertElliott { p, r, loss_bad: Probability::ONE, loss_good }))
        }),
    ];
    let jitter =
        option::weighted(0.2, millis(50).prop_map(|max| Distribution::Uniform { min: Duration::ZERO, max }));
    let few = || option::weighted(0.1, chance());
    let slots = option::weighted(0.1, (1..20_u64).prop_map(Duration::from_millis));
    (loss, jitter, any::<bool>(), few(), few(), slots).prop_map(
        |((loss, bit_error_rate, gilbert_elliott), jitter, reorder, corrupt, duplicate, slots)| LinkConfig {
            slots: slots.filter(|_| !reorder).map(|every| SlotsConfig { every }),
            loss,
            bit_error_rate,
            gilbert_elliott,
            reorder: reorder && jitter.is_some(),
            jitter,
            corrupt,
            duplicate,
            ..support::path(8_000, Duration::ZERO, QueueSize::Packets(1), 1_500).link
        },
    )
}

/// A discipline with random keys.
fn discipline() -> impl Strategy<Value = DisciplineConfig> {
    let others = DisciplineConfig::all().into_iter().filter(|other| *other != DisciplineConfig::default());
    let others = select(others.collect::<Vec<_>>());
    let flows = (prop_oneof![1..8_u32, Just(1_024)], prop_oneof![Just(1_500_u64), 50..3_000_u64]);
    let cake = (
        option::of(doublings(8_000, 10_000_000)),
        select(named::<Tins>()),
        select(named::<Isolation>()),
        select(named::<AckFilter>()),
        framing(),
    );
    let active = (others, 1..50_u64, 1..500_u64, bool::ANY, flows, cake).prop_map(
        |(
            discipline,
            target_ms,
            more_ms,
            ecn,
            (flows, quantum),
            (rate, tins, isolation, ack_filter, overhead),
        )| {
            use DisciplineConfig as Kind;
            let (target, more) = (Duration::from_millis(target_ms), Duration::from_millis(more_ms));
            let codel = CoDelConfig { target, interval: target + more, ce_threshold: Some(more), ecn };
            let pie = PieConfig { target, tupdate: more, ecn };
            let flows = FlowsConfig { flows, quantum: Some(Bytes(quantum)) };
            match discipline {
                Kind::DropTail(_) | Kind::DropHead | Kind::RandomDrop | Kind::User { .. } => discipline,
                Kind::Codel(_) => Kind::Codel(codel),
                Kind::FqCodel(_) => Kind::FqCodel(FqCoDelConfig { codel, flows }),
                Kind::Pie(_) => Kind::Pie(pie),
                Kind::FqPie(_) => Kind::FqPie(FqPieConfig { pie, flows }),
                Kind::DualPi2(_) => Kind::DualPi2(DualPi2Config {
                    target,
                    tupdate: more,
                    step_threshold: target,
                    min_qlen_step: (target_ms % 3) as u32,
                }),
                Kind::Sfq(_) => Kind::Sfq(flows),
                Kind::Cake(cake) => Kind::Cake(CakeConfig {
                    rate: rate.map(Rate::from_bits_per_second),
                    tins,
                    isolation,
                    ack_filter,
                    overhead: overhead.unwrap_or(cake.overhead),
                    mpu: Bytes(84),
                    rtt: more,
                }),
            }
        },
    );
    let drop_tail = option::of(red()).prop_map(|red| DisciplineConfig::DropTail(DropTailConfig { red }));
    prop_oneof![1 => drop_tail, 1 => active]
}

/// UDP and TCP in separate classes, whose rates are a bottleneck or far above the link. One of them may be
/// inside another class.
fn htb() -> impl Strategy<Value = HtbConfig> {
    let rate = || doublings(8_000, 10_000_000);
    let class = move || (rate(), option::of(rate()), 0..=1_u8);
    let overhead = prop_oneof![Just(Bytes(0)), Just(Bytes(14))];
    (option::of(rate()), overhead, class(), class(), option::of(class())).prop_map(
        |(root, overhead, udp, tcp, around)| {
            let class = |name: &str, (rate, more, priority): (u64, Option<u64>, u8)| ClassConfig {
                name: name.into(),
                parent: None,
                rate: Rate::from_bits_per_second(rate),
                ceil: more.map(|more| Rate::from_bits_per_second(rate + more)),
                priority,
                quantum: None,
                burst: Bytes(1600),
                cburst: Bytes(1600),
                matches: Vec::new(),
                default: false,
                queue: None,
            };
            let matches = vec![MatchConfig { protocol: Some(Protocol::Udp), ..MatchConfig::default() }];
            let udp = ClassConfig { matches, ..class("udp", udp) };
            let tcp = ClassConfig { default: true, ..class("tcp", tcp) };
            let around = around.map(|(rate, more, _)| class("around", (rate, more, 0)));
            let udp = ClassConfig { parent: around.as_ref().map(|class| class.name.clone()), ..udp };
            let rate = root.map(Rate::from_bits_per_second);
            HtbConfig {
                rate,
                burst: Bytes(1600),
                overhead,
                class: around.into_iter().chain([udp, tcp]).collect(),
            }
        },
    )
}

fn red() -> impl Strategy<Value = RedConfig> {
    let packets = (1..10_u32, 1..20_u32)
        .prop_map(|(min, width)| (QueueSize::Packets(min), QueueSize::Packets(min + width)));
    let bytes = (200..5_000_u32, 100..20_000_u32)
        .prop_map(|(min, width)| (QueueSize::Bytes(min), QueueSize::Bytes(min + width)));
    let idle = (1..500_u64).prop_map(Duration::from_millis);
    let weight = prop_oneof![Just(0.002), 0.001..=1.0];
    (prop_oneof![packets, bytes], 0.01..=1.0, weight, idle, collection::vec(bool::ANY, 4)).prop_map(
        |((min, max), max_probability, weight, idle_packet_time, switches)| RedConfig {
            min,
            max,
            max_probability: probability(max_probability),
            weight: probability(weight),
            idle_packet_time: Some(idle_packet_time),
            avpkt: None,
            ecn: switches[0],
            gentle: switches[1],
            adaptive: switches[2],
            harddrop: !switches[0] || switches[3],
        },
    )
}

fn probability(value: f64) -> Probability {
    Probability::new(value).expect("between 0 and 1")
}

fn errors() -> impl Strategy<Value = ErrorConfig> {
    let length = |max: u64| {
        let uniform = (0..=max / 2, 1..=max / 2).prop_map(|(min, width)| Distribution::Uniform {
            min: Duration::from_millis(min),
            max: Duration::from_millis(min + width),
        });
        prop_oneof![uniform, (1..=max).prop_map(|max| Distribution::Static(Duration::from_millis(max)))]
    };
    let lookup = prop_oneof![Just(StateLookup::EachTry), Just(StateLookup::FirstTry)];
    let arq = (0..=6_u32, millis(1000), bool::ANY, lookup).prop_map(
        |(retransmissions, delay, serialised, state_lookup)| ArqConfig {
            retransmissions,
            delay,
            serialised,
            state_lookup,
        },
    );
    (length(20_000), length(4_000), 0.0..=1.0, bool::ANY, option::of(arq)).prop_map(
        |(good, bad, hit, by_bits, arq)| ErrorConfig {
            start: Start::Good,
            good,
            bad,
            packet_error_probability: (!by_bits).then(|| probability(hit)),
            bit_error_rate: by_bits.then(|| probability(hit / 10_000.0)),
            arq,
        },
    )
}

fn tcp() -> impl Strategy<Value = TcpConfig> {
    // Boxed: the tree of strategies is too large for the stack of a test thread.
    prop_oneof![3 => linux().boxed(), 1 => modern().boxed(), 1 => classic().boxed()]
}

/// Any recovery rules that this stack supports.
fn recovery(stack: Stack) -> impl Strategy<Value = RecoveryRules> {
    select(named::<RecoveryRules>().into_iter().filter(|rules| rules.stack() == stack).collect::<Vec<_>>())
}

/// The profile `linux-6`.
fn modern() -> impl Strategy<Value = TcpConfig> {
    let growth = select(named::<CongestionControl>());
    let switches = (bool::ANY, bool::ANY, bool::ANY, bool::ANY, bool::ANY);
    (growth, switches, 1..=10_u32).prop_map(|(congestion_control, switches, initial_window)| {
        let (sack, timestamps, ecn, rack, tail_loss_probe) = switches;
        TcpConfig {
            sack,
            dsack: sack,
            frto: if sack { FRtoMode::Rfc5682Sack } else { FRtoMode::Off },
            timestamps,
            eifel: timestamps,
            ecn: ecn || congestion_control.needs_ecn(),
            accurate_ecn: ecn && rack,
            accurate_ecn_option: ecn && rack && tail_loss_probe,
            hystart_plus_plus: sack && congestion_control.has_slow_start(),
            prague_version: if rack { PragueVersion::V0_5 } else { PragueVersion::V0_6 },
            rack,
            tail_loss_probe,
            congestion_control,
            initial_window,
            ..toml::from_str(Profile::Linux6.toml()).expect("the profile is complete")
        }
    })
}

/// The profile `ns-1998` in its variants.
fn classic() -> impl Strategy<Value = TcpConfig> {
    let recovery = recovery(Stack::Classic);
    (recovery, bool::ANY, bool::ANY, 2..=64_u32).prop_map(|(recovery, avoidance, ecn, window)| TcpConfig {
        recovery,
        sack: recovery == RecoveryRules::SackPipe,
        silly_window_avoidance: avoidance,
        ecn,
        receive_window_initial: window,
        receive_window_max: window,
        ..toml::from_str(Profile::Ns1998.toml()).expect("the profile is complete")
    })
}

fn linux() -> impl Strategy<Value = TcpConfig> {
    let switches = (bool::ANY, bool::ANY, bool::ANY, bool::ANY, bool::ANY, bool::ANY, bool::ANY);
    let frto = select(named::<FRtoMode>());
    let recovery = recovery(Stack::Linux2);
    let window_max = prop_oneof![2..=64_u32, Just(64)];
    let retries = prop_oneof![Just((15, 5)), (1..=5_u32, 1..=3_u32)];
    (switches, frto, recovery, 1..=10_u32, 1..=4_u32, window_max, retries).prop_map(
        |(switches, frto, recovery, initial_window, max_burst, receive_window_max, retries)| {
            let (sack, dsack, timestamps, ecn, limited_transmit, cached_metrics, first) = switches;
            let profile = linux24();
            TcpConfig {
                sack,
                dsack: dsack && sack,
                timestamps,
                eifel: timestamps,
                ecn,
                limited_transmit,
                cached_metrics,
                first_segment_acked_at_once: first,
                early_retransmit: first,
                handshake_rtt: !first,
                joined_writes: first,
                quick_acks: ecn,
                frto,
                recovery,
                initial_window,
                max_burst,
                receive_window_initial: profile.receive_window_initial.min(receive_window_max),
                receive_window_max,
                retries: retries.0,
                syn_retries: retries.1,
                ..profile
            }
        },
    )
}

/// Any kind of flow. Some have data upwards (if the kind allows it), a count, their own TCP, or an access
/// link.
fn entry(mtu: u64) -> impl Strategy<Value = Flow> {
    let count = option::weighted(0.2, 1..=3_u32);
    let access = (millis(200), doublings(100_000, 100_000_000));
    let access =
        access.prop_map(|(delay, rate)| AccessConfig { delay, rate: Rate::from_bits_per_second(rate) });
    let own = (option::weighted(0.2, tcp()), option::weighted(0.2, access));
    (flow(mtu), bool::weighted(0.3), count, own).prop_map(|(kind, up, count, (tcp, access))| {
        let up = up && kind.traffic().only_down().is_none();
        let is_call = matches!(kind, FlowConfig::Voip(_));
        let direction = match up {
            true if is_call => DataDirection::Both,
            true => DataDirection::Up,
            false => DataDirection::Down,
        };
        let tcp = tcp.filter(|_| kind.traffic().protocol() == Protocol::Tcp).map(Box::new);
        Flow { direction, count, tcp, access, ..Flow::from(kind) }
    })
}

fn flow(mtu: u64) -> impl Strategy<Value = FlowConfig> {
    let start = || prop_oneof![Just(Duration::ZERO), millis(10_000)].prop_map(Distribution::Static);
    let bytes = prop_oneof![doublings(1, 200_000), 20_000..=200_000_u64].prop_map(Bytes);
    let write = option::weighted(0.3, (50..4_000_u64).prop_map(Bytes));
    let bulk = (bytes, option::weighted(0.2, millis(20_000)), write, start());
    let bulk = bulk.prop_map(|(bytes, duration, write, start)| {
        FlowConfig::BulkTcp(BulkConfig {
            name: String::new(),
            bytes: duration.is_none().then_some(bytes),
            duration,
            write,
            start,
            dscp: Dscp::default(),
            port: None,
        })
    });
    let rate = doublings(1_000, 500_000).prop_map(Rate::from_bits_per_second);
    let ecn = prop_oneof![Just(None), Just(Some(Ect::Ect0)), Just(Some(Ect::Ect1))];
    let udp =
        (rate, 20..=mtu - 28, 1..=20_u64, ecn, start()).prop_map(|(rate, payload, seconds, ecn, start)| {
            FlowConfig::ConstantUdp(ConstantUdpConfig {
                name: String::new(),
                rate,
                payload: Bytes(payload),
                duration: Duration::from_secs(seconds),
                start,
                dscp: Dscp::default(),
                ecn,
                port: None,
            })
        });
    prop_oneof![
        4 => bulk,
        1 => udp,
        2 => page(start()),
        1 => call(start()),
        1 => requests(start()),
        1 => coap(mtu, start()),
        1 => on_off(mtu, start()),
        1 => video(start()),
        1 => replay(mtu, start()),
    ]
}

fn replay(
    mtu: u64,
    start: impl Strategy<Value = Distribution<Duration>>,
) -> impl Strategy<Value = FlowConfig> {
    let packet = (0..10_000_000_000_u64, 20..=mtu as u32 - 28)
        .prop_map(|(nanos, bytes)| Packet { at: Duration::from_nanos(nanos), bytes });
    (start, collection::vec(packet, 1..200)).prop_map(|(start, packets)| {
        FlowConfig::Replay(ReplayConfig {
            name: String::new(),
            file: Recording::new(packets).expect("small datagrams"),
            start,
            dscp: Dscp::default(),
            port: None,
        })
    })
}

fn video(start: impl Strategy<Value = Distribution<Duration>>) -> impl Strategy<Value = FlowConfig> {
    let ladder = collection::btree_set(doublings(1_000, 500_000), 1..5);
    let seconds = |max: u64| (1..=max).prop_map(Duration::from_secs);
    (start, ladder, seconds(4), seconds(20), seconds(4), seconds(10), seconds(10)).prop_map(
        |(start, ladder, segment, duration, startup, reservoir, cushion)| {
            FlowConfig::Video(VideoConfig {
                name: String::new(),
                bitrates: ladder.into_iter().map(Rate::from_bits_per_second).collect(),
                segment,
                duration,
                startup,
                buffer: (startup + segment).max(reservoir + cushion),
                reservoir,
                cushion,
                start,
                dscp: Dscp::default(),
                port: None,
            })
        },
    )
}

fn on_off(
    mtu: u64,
    start: impl Strategy<Value = Distribution<Duration>>,
) -> impl Strategy<Value = FlowConfig> {
    let length = || {
        (1..3_000_u64).prop_map(|mean| Distribution::Exponential {
            mean: Duration::from_millis(mean),
            min: None,
            max: None,
            cut: lasthop_core::Cut::Redraw,
        })
    };
    let rate = doublings(1_000, 500_000).prop_map(Rate::from_bits_per_second);
    (start, rate, 20..=mtu - 28, length(), length(), 1..=20_u64).prop_map(
        |(start, rate, payload, on, off, seconds)| {
            FlowConfig::OnOff(OnOffConfig {
                name: String::new(),
                rate,
                payload: Bytes(payload),
                on,
                off,
                duration: Duration::from_secs(seconds),
                start,
                dscp: Dscp::default(),
                port: None,
            })
        },
    )
}

fn requests(start: impl Strategy<Value = Distribution<Duration>>) -> impl Strategy<Value = FlowConfig> {
    let size = |max: u64| (1..max).prop_map(|max| Distribution::Uniform { min: Bytes(1), max: Bytes(max) });
    let think = millis(2_000).prop_map(|max| Distribution::Uniform { min: Duration::ZERO, max });
    (start, 1..20_u32, size(2_000), size(20_000), think).prop_map(
        |(start, requests, request, response, think)| {
            FlowConfig::RequestResponse(RequestResponseConfig {
                name: String::new(),
                requests,
                request,
                response,
                think,
                start,
                dscp: Dscp::default(),
                port: None,
            })
        },
    )
}

fn coap(mtu: u64, start: impl Strategy<Value = Distribution<Duration>>) -> impl Strategy<Value = FlowConfig> {
    let size = || (4..=mtu - 28).prop_map(|max| Distribution::Uniform { min: Bytes(4), max: Bytes(max) });
    let interval = millis(2_000).prop_map(|max| Distribution::Uniform { min: Duration::ZERO, max });
    let timers = (1..3_000_u64, 1.0..2.0, 0..=4_u32, 1..=3_u32);
    (start, 1..20_u32, size(), size(), interval, timers).prop_map(
        |(start, requests, request, response, interval, timers)| {
            let (ack_timeout, ack_random_factor, max_retransmit, nstart) = timers;
            FlowConfig::Coap(CoapConfig {
                name: String::new(),
                requests,
                request,
                response,
                interval,
                ack_timeout: Duration::from_millis(ack_timeout),
                ack_random_factor,
                max_retransmit,
                nstart,
                start,
                dscp: Dscp::default(),
                port: None,
            })
        },
    )
}

fn call(start: impl Strategy<Value = Distribution<Duration>>) -> impl Strategy<Value = FlowConfig> {
    let codec = prop_oneof![Just(Codec::G711), Just(Codec::Opus)];
    (start, codec, 1..=20_u64, millis(200)).prop_map(|(start, codec, seconds, jitter_buffer)| {
        FlowConfig::Voip(VoipConfig {
            name: String::new(),
            codec,
            duration: Duration::from_secs(seconds),
            jitter_buffer,
            start,
            dscp: Dscp::default(),
            port: None,
        })
    })
}

fn page(start: impl Strategy<Value = Distribution<Duration>>) -> impl Strategy<Value = FlowConfig> {
    let size = || doublings(1, 30_000).prop_map(Bytes);
    (start, size(), size(), 0..8_u32).prop_map(|(start, main, inline, inline_count)| {
        FlowConfig::HttpPage(HttpPageConfig {
            name: String::new(),
            start,
            main,
            inline,
            inline_count,
            dscp: Dscp::default(),
            port: NonZeroU16::MIN,
        })
    })
}

fn http() -> impl Strategy<Value = HttpConfig> {
    let protocol = prop_oneof![
        Just(HttpProtocol::Http10),
        Just(HttpProtocol::Http11),
        Just(HttpProtocol::Http11Pipelined)
    ];
    let message = || (100..2_000_u64).prop_map(Bytes);
    let inline_after = option::of(doublings(1, 30_000).prop_map(Bytes));
    let header_write = prop_oneof![Just(HeaderWrite::Together), Just(HeaderWrite::Separate)];
    let header = (message(), header_write);
    let close = (bool::ANY, millis(2_000));
    (protocol, 1..6_u32, message(), header, inline_after, close).prop_map(
        |(protocol, connections, request, (response_header, header_write), inline_after, close)| {
            let (by_server, close_after) = close;
            let server_closes = by_server && protocol == HttpProtocol::Http11Pipelined;
            let at_once = server_closes || protocol == HttpProtocol::Http10;
            HttpConfig {
                protocol,
                connections,
                request,
                response_header,
                header_write,
                inline_after,
                close_after: if at_once { Duration::ZERO } else { close_after },
                server_closes,
                server: lasthop_traffic::HttpServer::BuiltIn,
            }
        },
    )
}

/// Kinds that have separate tests, because they last as long as the run, are user code, or are programs.
const ELSEWHERE: [&str; 4] = ["web-clients", "short-flows", "own", "program"];

#[test]
fn each_kind_of_flow_is_drawn_or_tested_elsewhere() {
    let mut runner = TestRunner::deterministic();
    let mut kind = || flow(1500).new_tree(&mut runner).expect("no filter").current().kind();
    let mut met: BTreeSet<&str> = (0..500).map(|_| kind()).collect();
    met.extend(ELSEWHERE);
    assert_eq!(met, FlowConfig::KINDS.iter().copied().collect());
}
