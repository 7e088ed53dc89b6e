//! Pacing and delivery rates at the seam, with an algorithm that does nothing else.

use lasthop_core::{Duration, FlowId, Host, SackBlock, Segment};

use super::*;
use crate::config::{CongestionControl, Profile};

/// Segments of 1000 bytes at 1 Mbit/s; the window is ten of them.
fn sender() -> Sender {
    let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
    config.congestion_control = CongestionControl::Paced;
    config.timestamps = false;
    let clock = TickClock::new(config.tick, Duration::ZERO);
    let mut sender = Sender::new(&Rc::new(config), clock, 1_000);
    sender.queue.skip_handshake(1_000_000);
    sender.establish(&mut cx(&mut (), 0), None);
    sender.queue.write(1_000_000, 1_000);
    sender
}

fn cx(observer: &mut (), micros: u64) -> Context<'_, ()> {
    let now = Instant::ZERO + Duration::from_micros(micros);
    Context { now, tick: micros / 4_000, flow: FlowId(0), host: Host::Server, observer }
}

/// How many segments leave, and when the next may.
fn leave(sender: &mut Sender) -> (usize, Option<u64>) {
    let count = sender.queue.out.drain(..).count();
    (count, sender.release().map(|at| at.as_nanos() / 1_000))
}

fn ack(sender: &mut Sender, micros: u64, ack: u64) {
    let segment = Segment { ack, window_bytes: 1_000_000, ..Segment::default() };
    sender.on_ack(&mut cx(&mut (), micros), &segment);
}

fn rates(sender: &Sender) -> Vec<(u64, u64)> {
    let Control::Paced(algorithm) = &sender.control else { panic!("another algorithm") };
    let rates = algorithm.samples.iter().filter_map(|sample| sample.rate);
    rates.map(|rate| (rate.delivered, rate.interval_us)).collect()
}

#[test]
fn segments_leave_at_the_pacing_rate_and_not_on_ticks() {
    let mut sender = sender();
    sender.send_written(&mut cx(&mut (), 500));
    assert_eq!(leave(&mut sender), (1, Some(8_500)));
    sender.on_release(&mut cx(&mut (), 8_499));
    assert_eq!(leave(&mut sender), (0, Some(8_500)), "too early");
    for number in 1..10 {
        sender.on_release(&mut cx(&mut (), 500 + 8_000 * number));
        let next = (number < 9).then_some(8_500 + 8_000 * number);
        assert_eq!(leave(&mut sender), (1, next), "the window holds ten");
    }
}

#[test]
fn retransmissions_are_paced_too() {
    let mut sender = sender();
    sender.send_written(&mut cx(&mut (), 0));
    (1..10).for_each(|number| sender.on_release(&mut cx(&mut (), 8_000 * number)));
    leave(&mut sender);
    // The last three arrive: the seven before them are lost.
    let mut segment = Segment { ack: 1, window_bytes: 1_000_000, ..Segment::default() };
    segment.sack.push(SackBlock { start: 7_001, end: 10_001 });
    sender.on_ack(&mut cx(&mut (), 172_000), &segment);
    assert_eq!(leave(&mut sender), (1, Some(180_000)));
    sender.on_release(&mut cx(&mut (), 180_000));
    assert_eq!(leave(&mut sender), (1, Some(188_000)));
}

#[test]
fn acks_tell_the_rate_at_which_the_path_delivers() {
    let mut sender = sender();
    sender.send_written(&mut cx(&mut (), 0));
    (1..10).for_each(|number| sender.on_release(&mut cx(&mut (), 8_000 * number)));
    // 100 ms there and back, and a bottleneck of half the pacing rate.
    for number in 1..=3 {
        ack(&mut sender, 84_000 + 16_000 * number, 1 + 1_000 * number);
    }
    assert_eq!(rates(&sender), [(1, 100_000), (2, 116_000), (3, 132_000)]);
}
