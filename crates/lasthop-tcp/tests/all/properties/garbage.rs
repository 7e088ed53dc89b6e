//! Segments that no honest peer would send must not cause a panic.

use crate::support::poll;
use lasthop_core::{Duration, Ecn, Flags, FlowId, Host, Instant, SackBlock, SackList, Segment, Timestamps};
use lasthop_tcp::{Endpoint, Phase, TcpConfig, TickClock};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

/// Mostly near the connection's 20 segments, at times far from them.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..24u64).prop_map(|segment| 1 + segment * 524),
        2 => 0..15_000u64,
        1 => 0..(1u64 << 62),
    ]
}

fn flags() -> impl Strategy<Value = Flags> {
    let all = [Flags::FIN, Flags::SYN, Flags::RST, Flags::ECE, Flags::CWR];
    // Resets end the test, so they are rare.
    (prop::collection::vec(prop::sample::select(all.to_vec()), 0..3), 0..20u32).prop_map(|(flags, reset)| {
        flags
            .into_iter()
            .filter(|&flag| flag != Flags::RST || reset == 0)
            .fold(Flags::ACK, lasthop_core::Flags::with)
    })
}

fn segment() -> impl Strategy<Value = Segment> {
    let block = (offset(), offset()).prop_map(|(start, end)| SackBlock { start, end });
    let sack = prop::collection::vec(block, 0..5).prop_map(|blocks| {
        let mut list = SackList::default();
        for block in blocks {
            list.push(block);
        }
        list
    });
    let stamps = prop::option::of((any::<u32>(), prop_oneof![any::<u32>(), 0..5_000u32]));
    let window = prop_oneof![2 => 0..100_000u64, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    let payload = prop_oneof![Just(0), 0..3_000u32];
    (offset(), offset(), payload, flags(), window, any::<bool>(), stamps, sack).prop_map(
        |(seq, ack, payload_bytes, flags, window_bytes, sack_permitted, stamps, sack)| Segment {
            seq,
            ack,
            payload_bytes,
            flags,
            window_bytes,
            mss: None,
            sack_permitted,
            window_scale: None,
            compact: false,
            timestamps: stamps.map(|(value, echo)| Timestamps { value, echo }),
            sack,
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Take(Box<Segment>, Ecn),
    Wait(u64),
    Wake,
}

fn step() -> impl Strategy<Value = Step> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ce)];
    prop_oneof![
        6 => (segment(), ecn).prop_map(|(segment, ecn)| Step::Take(Box::new(segment), ecn)),
        1 => (0..3_000u64).prop_map(Step::Wait),
        2 => Just(Step::Wake),
    ]
}

struct Victim {
    tcp: Endpoint,
    now: Instant,
}

impl Victim {
    fn drain(&mut self) {
        let mut sent = 0;
        while poll(&mut self.tcp, self.now).is_some() {
            sent += 1;
            assert!(sent < 1_000, "it never stops sending");
        }
    }

    fn take(&mut self, segment: &Segment, ecn: Ecn) {
        self.tcp.handle_segment(self.now, segment, ecn, None, &mut ());
        self.drain();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Take(segment, ecn) => self.take(segment, *ecn),
            Step::Wait(millis) => self.run_to(self.now + Duration::from_millis(*millis)),
            Step::Wake => {
                if let Some(due) = self.tcp.next_wakeup() {
                    self.run_to(due);
                }
            }
        }
    }

    fn run_to(&mut self, until: Instant) {
        while let Some(due) = self.tcp.next_wakeup().filter(|&due| due <= until) {
            self.now = self.now.max(due);
            self.tcp.handle_wakeup(self.now, &mut ());
            self.drain();
        }
        self.now = self.now.max(until);
    }
}

// Two tests, so that two cores share the work.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_segment_makes_a_listener_panic(
        config in super::config(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        survives(&config, None, &steps)?;
    }

    #[test]
    fn no_segment_makes_a_connecting_endpoint_panic(
        config in super::config(),
        handshake in any::<bool>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        survives(&config, Some(handshake), &steps)?;
    }
}

/// Takes the steps. Before them, `connecting` opens the connection actively; `Some(true)` completes the
/// handshake.
fn survives(config: &TcpConfig, connecting: Option<bool>, steps: &[Step]) -> TestCaseResult {
    let clock = TickClock::new(config.tick, Duration::ZERO);
    let tcp = Endpoint::listen(config.clone(), 576, clock, FlowId(0), Host::Server);
    let mut victim = Victim { tcp, now: Instant::ZERO };
    if connecting.is_some() {
        victim.tcp.connect(victim.now, &mut ());
    }
    victim.tcp.write(victim.now, 20 * 524, 524, &mut ());
    victim.tcp.close(victim.now, &mut ());
    victim.drain();
    if connecting == Some(true) {
        let syn_ack = Segment {
            ack: 1,
            flags: Flags::SYN.with(Flags::ACK).with(Flags::ECE),
            window_bytes: 64_000,
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 1 }),
            ..Segment::default()
        };
        victim.take(&syn_ack, Ecn::NotEct);
        prop_assert_eq!(victim.tcp.phase(), Phase::Established);
    }
    for step in steps {
        victim.step(step);
    }
    Ok(())
}
