//! Properties of all paths and arrival patterns.

use lasthop_core::dist::Cut;
use lasthop_core::units::{Probability, QueueSize};
use lasthop_core::{Bytes, Direction, Distribution, Duration, Ecn, Faults, Rate, Seed};
use proptest::prelude::*;

use crate::config::{
    ArqConfig, BufferRelease, DisciplineConfig, DropTailConfig, ErrorConfig, LinkConfig, PathConfig,
    QueueConfig, Start, StateLookup,
};
use crate::testing::{Lab, Seen, at_us, change, drop_tail, red};

const LARGEST: u32 = 1_500;

/// Gap before the packet in microseconds, IP length, ECN-capable.
type Arrival = (u64, u32, bool);

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap_us = prop_oneof![Just(0), 0_u64..50_000, 0_u64..1_000_000];
    prop::collection::vec((gap_us, 28..=LARGEST, any::<bool>()), 1..200)
}

prop_compose! {
    fn paths()(
        limit in prop_oneof![
            (1_u32..30).prop_map(QueueSize::Packets),
            (LARGEST..30_000).prop_map(QueueSize::Bytes),
        ],
        red in prop::option::of((0_u32..5, 5_u32..20, 0.01..=1.0, 0.001..=1.0, any::<bool>())),
        rate in 1_000_u64..2_000_000,
        delay_ms in 0_u64..600,
        changes in prop::collection::btree_map(0_u64..5_000, (1_000_u64..2_000_000, 0_u64..600), 0..4),
        send_buffer in u64::from(LARGEST)..20_000,
        acknowledged in any::<bool>(),
    ) -> PathConfig {
        let red = red.map(|(min, max, probability, weight, ecn)| {
            crate::RedConfig { ecn, ..self::red(min, max, probability, weight) }
        });
        let discipline = DisciplineConfig::DropTail(DropTailConfig { red });
        let release = if acknowledged { BufferRelease::Acknowledged } else { BufferRelease::Serialised };
        PathConfig {
            policer: None,
            blackhole: None,
            queue: QueueConfig { limit, discipline, ..drop_tail(1) },
            htb: None,
            grant: None,
            link: LinkConfig {
                trace: None,
                course: None,
                framing: None,
 header_compression: None,
                rate: Rate::from_bits_per_second(rate),
                delay: Duration::from_millis(delay_ms),
                change: changes.into_iter().map(change).collect(),
                overhead: Distribution::Static(Duration::from_micros(100)),
                send_buffer: Bytes(send_buffer),
                receive_buffer: None,
                release,
                loss: None,
                bit_error_rate: None,
                gilbert_elliott: None,
                error_model: None,
                errors: None,
                jitter: None,
                reorder: false,
                slots: None,
                corrupt: None,
                duplicate: None,
            },
        }
    }
}

prop_compose! {
    fn errors()(
        good_ms in 1_u64..5_000,
        bad_ms in 1_u64..5_000,
        probability in 0.0..=1.0,
        random_phase in any::<bool>(),
        arq in prop::option::of((0_u32..7, 0_u64..1_000, any::<[bool; 2]>())),
    ) -> ErrorConfig {
        let exponential = |mean_ms| Distribution::Exponential {
            mean: Duration::from_millis(mean_ms),
            min: None,
            max: None,
            cut: Cut::Redraw,
        };
        ErrorConfig {
            start: if random_phase { Start::RandomPhase } else { Start::Good },
            good: exponential(good_ms),
            bad: exponential(bad_ms),
            packet_error_probability: Some(Probability::new(probability).unwrap()),
            bit_error_rate: None,
            arq: arq.map(|(retransmissions, delay_ms, [serialised, each_try])| ArqConfig {
                retransmissions,
                delay: Duration::from_millis(delay_ms),
                serialised,
                state_lookup: if each_try { StateLookup::EachTry } else { StateLookup::FirstTry },
            }),
        }
    }
}

fn feed(lab: &mut Lab, arrivals: &[Arrival]) {
    let mut at_micros = 0;
    for &(gap_us, ip_bytes, capable) in arrivals {
        at_micros += gap_us;
        lab.send(at_us(at_micros), ip_bytes, if capable { Ecn::Ect0 } else { Ecn::NotEct });
    }
}

fn conserves(lab: &Lab) -> Result<(), TestCaseError> {
    let delivered = lab.delivered().len();
    let dropped = lab.when(|seen| matches!(seen, Seen::Dropped(_))).len();
    prop_assert_eq!(lab.sent, (delivered + dropped + lab.path.packets_inside()) as u64);
    prop_assert_eq!(lab.arena.len(), lab.path.packets_inside());
    Ok(())
}

proptest! {
    #[test]
    fn packets_are_delivered_in_order_or_dropped_once_or_inside(
        arrivals in arrivals(), config in paths(), errors in prop::option::of(errors()),
    ) {
        let faults = Faults::collect(|faults| config.check(Bytes(u64::from(LARGEST)), faults));
        prop_assert_eq!(faults, []);
        let mut lab = Lab::new(&config, errors.as_ref());
        feed(&mut lab, &arrivals);
        conserves(&lab)?;
        lab.run();
        conserves(&lab)?;
        prop_assert!(lab.arena.is_empty());
        prop_assert_eq!(lab.path.send_buffer_bytes(), 0);
        prop_assert!(lab.most_buffered <= config.link.send_buffer.0);
        prop_assert!(lab.log.lines.is_sorted_by_key(|line| line.0), "events in order of time");
        let in_order: Vec<_> = lab.delivered().iter().map(|line| line.1).collect();
        prop_assert!(in_order.is_sorted_by(|a, b| a < b), "delivered in order of arrival: {:?}", in_order);
    }

    #[test]
    fn the_same_seed_gives_the_same_log(
        arrivals in arrivals(), config in paths(), errors in errors(), replication in 1_u64..1_000,
    ) {
        let log = || {
            let mut lab = Lab::with(&config, Some(&errors), Direction::Up, Seed { study: 7, replication });
            feed(&mut lab, &arrivals);
            lab.run();
            lab.log.lines
        };
        prop_assert_eq!(log(), log());
    }
}
