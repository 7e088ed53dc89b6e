use super::*;
use crate::Conservation;
use proptest::prelude::*;

/// One step of a sender and a network; the steps need not be consistent with each other.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send { seq: u64, len: u32 },
    Deliver { which: usize },
    Drop { which: usize },
    Ack { upto: u64 },
    Timeout { seq: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40_u64, 1..9_u32).prop_map(|(seq, len)| Step::Send { seq, len }),
        3 => any::<usize>().prop_map(|which| Step::Deliver { which }),
        1 => any::<usize>().prop_map(|which| Step::Drop { which }),
        1 => (0..40_u64).prop_map(|upto| Step::Ack { upto }),
        1 => (0..40_u64).prop_map(|seq| Step::Timeout { seq }),
    ]
}

/// The verdicts by the definition, from everything that was ever sent: (serial, bytes, time, fate).
#[derive(Default)]
struct Reference {
    copies: Vec<(u64, std::ops::Range<u64>, u64, bool)>,
    retransmitted: Vec<usize>,
    timeouts: Vec<(u64, u64)>,
    /// One-way delays of the copies that arrived, in milliseconds.
    delays: Vec<u64>,
}

impl Reference {
    /// The quantile by its definition: type 7 of Hyndman and Fan (1996).
    fn delay_s(&self, q: f64) -> Option<f64> {
        let mut delays = self.delays.clone();
        delays.sort_unstable();
        let position = delays.len().checked_sub(1)? as f64 * q;
        let (below, above) = (delays[position.floor() as usize], delays[position.ceil() as usize]);
        Some((below as f64 + position.fract() * (above - below) as f64) / 1e3)
    }

    fn unnecessary(&self) -> u64 {
        let needless = |index: &&usize| {
            let earlier = &self.copies[..**index];
            self.copies[**index]
                .1
                .clone()
                .all(|byte| earlier.iter().any(|copy| copy.3 && copy.1.contains(&byte)))
        };
        self.retransmitted.iter().filter(needless).count() as u64
    }

    fn spurious(&self) -> u64 {
        let late = |(at, head): &&(u64, u64)| {
            self.copies.iter().any(|copy| copy.3 && copy.2 < *at && copy.1.contains(head))
        };
        self.timeouts.iter().filter(late).count() as u64
    }
}

/// Plays the steps. An ACK covers at most the data that arrived in sequence, and no timeout concerns data
/// that the sender knows to have arrived.
fn play(steps: &[Step]) -> (Trace, Reference, Conservation) {
    let (mut trace, mut reference) = (Trace::tcp(), Reference::default());
    let mut conservation = Conservation::default();
    let (mut inside, mut acknowledged, mut highest): (Vec<(Packet, usize)>, u64, u64) = (Vec::new(), 0, 0);
    trace.handshake(0);
    for (at, step) in (1000..).zip(steps) {
        match *step {
            Step::Send { seq, len } => {
                let packet = trace.sent(at, seq, len);
                conservation.packet(ms(at), PacketEvent::Sent, &packet);
                if seq < highest {
                    reference.retransmitted.push(reference.copies.len());
                }
                highest = highest.max(seq + u64::from(len));
                reference.copies.push((packet.serial, seq..seq + u64::from(len), at, false));
                inside.push((packet, reference.copies.len() - 1));
            }
            Step::Deliver { which } if !inside.is_empty() => {
                let (packet, index) = inside.remove(which % inside.len());
                trace.delivered(at, &packet);
                conservation.packet(ms(at), PacketEvent::Delivered, &packet);
                reference.copies[index].3 = true;
                reference.delays.push(at - reference.copies[index].2);
            }
            Step::Drop { which } if !inside.is_empty() => {
                let (packet, _) = inside.remove(which % inside.len());
                trace.dropped(at, &packet, DropCause::QueueOverflow);
                conservation.packet(ms(at), PacketEvent::Dropped(DropCause::QueueOverflow), &packet);
            }
            Step::Ack { upto } => {
                let arrived =
                    |byte: &u64| reference.copies.iter().any(|copy| copy.3 && copy.1.contains(byte));
                let edge = (0..highest).find(|byte| !arrived(byte)).unwrap_or(highest);
                acknowledged = acknowledged.max(upto.min(edge));
                trace.ack(at, acknowledged);
            }
            Step::Timeout { seq } if seq >= acknowledged => {
                trace.timeout(at, seq);
                reference.timeouts.push((at, seq));
            }
            _ => {}
        }
    }
    (trace, reference, conservation)
}

proptest! {
    #[test]
    fn verdicts_equal_their_definition_on_random_streams(steps in prop::collection::vec(step(), 0..120)) {
        let (trace, reference, conservation) = play(&steps);
        let record = trace.record();
        prop_assert_eq!(record.retransmitted_packets, reference.retransmitted.len() as u64);
        prop_assert_eq!(record.unnecessary_retransmissions, reference.unnecessary());
        prop_assert_eq!(record.timeouts, reference.timeouts.len() as u64);
        prop_assert_eq!(record.spurious_timeouts, reference.spurious());
        prop_assert!(record.retransmitted_packets <= record.sent_packets);
        prop_assert!(record.unnecessary_retransmissions <= record.retransmitted_packets);
        prop_assert!(record.spurious_timeouts <= record.timeouts);
        prop_assert!(record.triple_duplicate_acks * 3 <= record.duplicate_acks);
        let counts = conservation.total();
        prop_assert_eq!(counts.sent, counts.delivered + counts.dropped + counts.inside);
        prop_assert_eq!(record.received_packets, counts.delivered);
        prop_assert!(conservation.violations().is_empty());
        let measured = [record.one_way_delay_p50_s, record.one_way_delay_p95_s, record.one_way_delay_p99_s];
        for (measured, q) in measured.into_iter().zip([0.5, 0.95, 0.99]) {
            let exact = reference.delay_s(q);
            prop_assert_eq!(measured.is_some(), exact.is_some());
            prop_assert!((measured.unwrap_or(0.0) - exact.unwrap_or(0.0)).abs() < 1e-9);
        }
    }
}
