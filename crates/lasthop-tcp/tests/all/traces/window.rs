//! A receiver whose owner reads late: the window closes, the sender probes it, and goes on when it opens.

use std::collections::VecDeque;

use lasthop_core::{Duration, Ecn, FlowId, Host, Instant, Segment};
use lasthop_tcp::{CongestionControl, Endpoint, Phase, Profile, TcpConfig, TickClock};

use crate::support::poll;

const MSS: u64 = 536;
/// Segments that the receive buffer takes.
const ROOM: u64 = 8;
const SENDER: usize = 0;
const READER: usize = 1;

/// A sender and a reader, 100 ms apart, over a connection that has long been open.
struct Pair {
    ends: [Endpoint; 2],
    now: Instant,
    wires: [VecDeque<(Instant, Segment)>; 2],
    /// What each end sent, with the time in milliseconds.
    sent: [Vec<(u64, Segment)>; 2],
    /// Number of segments from the reader that are lost next.
    lose: usize,
}

impl Pair {
    fn new(profile: Profile) -> Self {
        let mut config: TcpConfig = toml::from_str(profile.toml()).expect("the profile is complete");
        if profile != Profile::Ns1998 {
            config.congestion_control = CongestionControl::Reno;
        }
        (config.timestamps, config.initial_window) = (false, 4);
        (config.receive_window_initial, config.receive_window_max) = (ROOM as u32, ROOM as u32);
        let clock = TickClock::new(config.tick, Duration::ZERO);
        let [sender, mut reader] = [Host::Server, Host::Client]
            .map(|host| Endpoint::listen(config.clone(), 576, clock, FlowId(0), host));
        reader.hold();
        let mut pair = Self {
            ends: [sender, reader],
            now: Instant::ZERO,
            wires: Default::default(),
            sent: Default::default(),
            lose: 0,
        };
        pair.ends[SENDER].connect(pair.now, &mut ());
        pair.until(1_000);
        pair
    }

    fn flush(&mut self) {
        for end in [SENDER, READER] {
            while let Some((segment, _)) = poll(&mut self.ends[end], self.now) {
                self.sent[end].push((self.now.as_nanos() / 1_000_000, segment));
                if end == READER && self.lose > 0 {
                    self.lose -= 1;
                } else {
                    self.wires[end].push_back((self.now + Duration::from_millis(100), segment));
                }
            }
        }
    }

    /// Lets time pass until this millisecond.
    fn until(&mut self, millis: u64) {
        let end = Instant::ZERO + Duration::from_millis(millis);
        loop {
            self.flush();
            let arrivals = [0, 1].map(|end| self.wires[1 - end].front().map(|&(at, _)| at));
            let wakeups = [0, 1].map(|end| self.ends[end].next_wakeup());
            let next = arrivals.into_iter().chain(wakeups).flatten().min().filter(|next| *next <= end);
            let Some(next) = next else { break };
            self.now = next;
            for end in [SENDER, READER] {
                if arrivals[end] == Some(next) {
                    let (_, segment) = self.wires[1 - end].pop_front().expect("it is due");
                    self.ends[end].handle_segment(next, &segment, Ecn::NotEct, None, &mut ());
                }
                if wakeups[end] == Some(next) {
                    self.ends[end].handle_wakeup(next, &mut ());
                }
            }
        }
        self.now = end;
    }

    fn write(&mut self, segments: u64) {
        self.ends[SENDER].write(self.now, segments * MSS, segments * MSS, &mut ());
    }

    /// The reader has read this many segments in total.
    fn read(&mut self, segments: u64) {
        self.ends[READER].read(segments * MSS);
    }

    fn received(&self) -> u64 {
        self.ends[READER].received_bytes() / MSS
    }

    /// Times and payloads of what the sender sent after this millisecond.
    fn probes(&self, after: u64) -> Vec<(u64, u32)> {
        let late = self.sent[SENDER].iter().filter(|(at, _)| *at > after);
        late.map(|(at, segment)| (*at, segment.payload_bytes)).collect()
    }

    /// Windows, in segments, that the reader advertised after this millisecond.
    fn windows(&self, after: u64) -> Vec<u64> {
        let late = self.sent[READER].iter().filter(|(at, _)| *at > after);
        late.map(|(_, segment)| segment.window_bytes / MSS).collect()
    }
}

/// A reader that reads nothing: its window is closed at 3 s.
fn closed(profile: Profile) -> Pair {
    let mut pair = Pair::new(profile);
    pair.write(20);
    pair.until(3_000);
    assert_eq!(pair.received(), ROOM, "{profile:?}");
    assert_eq!(pair.windows(1_000).last(), Some(&0));
    pair
}

#[test]
fn the_right_edge_never_moves_back() {
    for profile in [Profile::Linux6, Profile::Linux24, Profile::Ns1998] {
        let pair = closed(profile);
        let edges: Vec<u64> = pair.sent[READER].iter().map(|(_, s)| s.ack + s.window_bytes).collect();
        assert!(edges.is_sorted(), "{profile:?}: {edges:?}");
    }
}

#[test]
fn linux_probes_a_closed_window_with_old_acks_at_doubling_intervals() {
    for profile in [Profile::Linux6, Profile::Linux24] {
        let mut pair = closed(profile);
        pair.until(20_000);
        let probes = pair.probes(1_000);
        let probes: Vec<u64> = probes.iter().filter(|(_, bytes)| *bytes == 0).map(|(at, _)| *at).collect();
        // The wait begins anew with the answer, a round trip of 200 ms later.
        let waits: Vec<u64> = probes.windows(2).map(|pair| pair[1] - pair[0] - 200).collect();
        for pair in waits.windows(2) {
            let ratio = pair[1] as f64 / pair[0] as f64;
            assert!((1.7..2.3).contains(&ratio), "{profile:?}: {waits:?}");
        }
        assert!(waits.len() >= 3, "{profile:?}: {waits:?}");
        assert_eq!(pair.received(), ROOM);
        pair.until(20_200);
        let answers = pair.sent[READER].iter().filter(|(at, _)| *at > probes[0]).count();
        assert_eq!(answers, probes.len(), "each probe is answered");
    }
}

#[test]
fn bsd_probes_with_a_byte_five_seconds_later() {
    let mut pair = closed(Profile::Ns1998);
    pair.until(30_000);
    let probes: Vec<(u64, u32)> = pair.probes(3_000);
    assert!(probes.iter().all(|(_, bytes)| *bytes == 1), "{probes:?}");
    let waits: Vec<u64> = probes.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(waits.iter().all(|wait| *wait >= 5_000), "{waits:?}");
    assert!(waits.is_sorted() && waits.len() >= 2, "{waits:?}");
}

#[test]
fn reading_opens_the_window_at_once_and_everything_arrives() {
    for profile in [Profile::Linux6, Profile::Linux24, Profile::Ns1998] {
        let mut pair = closed(profile);
        // One segment is room enough for Linux, which knows of none, and not for BSD.
        pair.read(1);
        pair.until(3_050);
        let told = usize::from(profile != Profile::Ns1998);
        assert_eq!(pair.windows(2_990).len(), told, "{profile:?}");
        pair.read(8);
        pair.until(3_060);
        assert_eq!(pair.windows(2_990).last(), Some(&ROOM), "{profile:?}");
        let mut read = 8;
        while read < 20 {
            pair.until(pair.now.as_nanos() / 1_000_000 + 50);
            read = pair.received();
            pair.read(read);
            assert!(pair.now < Instant::ZERO + Duration::from_secs(20), "{profile:?}: stuck at {read}");
        }
    }
}

#[test]
fn a_lost_window_update_costs_the_time_to_the_next_probe() {
    for profile in [Profile::Linux6, Profile::Linux24, Profile::Ns1998] {
        let mut pair = closed(profile);
        pair.lose = 1;
        pair.read(8);
        pair.until(3_010);
        assert_eq!((pair.lose, pair.received()), (0, ROOM), "{profile:?}");
        let mut millis = 3_010;
        while pair.received() < 20 {
            millis += 100;
            pair.until(millis);
            pair.read(pair.received());
            assert!(millis < 30_000, "{profile:?}: stuck at {}", pair.received());
        }
        pair.ends[SENDER].close(pair.now, &mut ());
        pair.ends[READER].close(pair.now, &mut ());
        pair.until(millis + 5_000);
        assert_eq!(pair.ends[SENDER].phase(), Phase::Closed, "{profile:?}");
    }
}

#[test]
fn a_peer_that_does_not_answer_probes_is_given_up() {
    let mut pair = closed(Profile::Linux6);
    pair.lose = usize::MAX;
    pair.until(3_000_000);
    assert_eq!(pair.ends[SENDER].phase(), Phase::Aborted);
}
