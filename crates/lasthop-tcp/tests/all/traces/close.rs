//! Both ends of a connection that the client opens: request and response, every order of closing, giving up.

use crate::support::poll;
use std::collections::VecDeque;

use lasthop_core::{Duration, Ecn, Flags, FlowId, Host, Instant, Segment};
use lasthop_tcp::{CachedMetrics, Endpoint, Phase, Profile, TcpConfig, TickClock};

use crate::wire::{MTU, config};

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Two endpoints, 300 ms apart.
struct Pair {
    ends: [Endpoint; 2],
    now: Instant,
    /// Sent by the client, and by the server.
    wires: [VecDeque<(Instant, Segment)>; 2],
    sent: [Vec<Segment>; 2],
    cache: Option<CachedMetrics>,
    /// Lost segments of the client and of the server: their numbers in the order of sending.
    lost: [Vec<usize>; 2],
}

impl Pair {
    fn connect(config: &TcpConfig) -> Self {
        Self::connect_losing(config, [vec![], vec![]])
    }

    fn connect_losing(config: &TcpConfig, lost: [Vec<usize>; 2]) -> Self {
        let clock = TickClock::new(config.tick, Duration::ZERO);
        let end = |host| Endpoint::listen(config.clone(), MTU, clock, FlowId(0), host);
        let mut pair = Self {
            ends: [end(Host::Client), end(Host::Server)],
            now: Instant::ZERO,
            wires: Default::default(),
            sent: Default::default(),
            cache: config.cached_metrics.then(CachedMetrics::default),
            lost,
        };
        pair.ends[CLIENT].connect(pair.now, &mut ());
        pair
    }

    fn write(&mut self, end: usize, bytes: u64) {
        self.ends[end].write(self.now, bytes, bytes, &mut ());
    }

    fn close(&mut self, end: usize) {
        self.ends[end].close(self.now, &mut ());
        self.flush();
    }

    fn flush(&mut self) {
        for end in [CLIENT, SERVER] {
            while let Some((segment, _)) = poll(&mut self.ends[end], self.now) {
                if !self.lost[end].contains(&self.sent[end].len()) {
                    self.wires[end].push_back((self.now + Duration::from_millis(300), segment));
                }
                self.sent[end].push(segment);
            }
        }
    }

    /// The next arrival or timer; false if there is none.
    fn step(&mut self) -> bool {
        self.flush();
        let arrivals = [0, 1].map(|end| self.wires[1 - end].front().map(|&(at, _)| at));
        let wakeups = [0, 1].map(|end| self.ends[end].next_wakeup());
        let Some(next) = arrivals.into_iter().chain(wakeups).flatten().min() else { return false };
        self.now = next;
        for end in [CLIENT, SERVER] {
            if arrivals[end] == Some(next) {
                let (_, segment) = self.wires[1 - end].pop_front().expect("it is due");
                let cache = if end == SERVER { self.cache } else { None };
                self.ends[end].handle_segment(next, &segment, Ecn::NotEct, cache.as_ref(), &mut ());
            }
            if wakeups[end] == Some(next) {
                self.ends[end].handle_wakeup(next, &mut ());
            }
        }
        self.flush();
        true
    }

    fn run_until(&mut self, mut reached: impl FnMut(&Self) -> bool) {
        while !reached(self) {
            assert!(self.step(), "nothing is left to happen at {}", self.now);
        }
    }

    fn run(&mut self) {
        while self.step() {}
    }

    /// The client has sent a request of 350 bytes, the server has read it.
    fn requested(config: &TcpConfig) -> Self {
        let mut pair = Self::connect(config);
        pair.write(CLIENT, 350);
        pair.run_until(|pair| pair.received(SERVER) == 350);
        pair
    }

    fn received(&self, end: usize) -> u64 {
        self.ends[end].received_bytes()
    }

    fn phases(&self) -> [Phase; 2] {
        [self.ends[CLIENT].phase(), self.ends[SERVER].phase()]
    }

    fn resets(&self, end: usize) -> Vec<Segment> {
        self.sent[end].iter().filter(|segment| segment.flags.contains(Flags::RST)).copied().collect()
    }

    fn millis(&self) -> u64 {
        self.now.as_nanos() / 1_000_000
    }
}

const BOTH_CLOSED: [Phase; 2] = [Phase::Closed, Phase::Closed];

#[test]
fn fin_of_a_server_that_answers_and_closes_at_once_rides_on_the_last_segment() {
    for answer in [100, 536, 1_000] {
        let mut pair = Pair::requested(&config(|_| ()));
        pair.write(SERVER, answer);
        pair.close(SERVER);
        let last = pair.sent[SERVER].last().unwrap();
        assert!(last.flags.contains(Flags::FIN) && last.payload_bytes > 0, "{answer} bytes: {last:?}");
        let fins = pair.sent[SERVER].iter().filter(|segment| segment.flags.contains(Flags::FIN)).count();
        assert_eq!(fins, 1);
        pair.run_until(|pair| pair.ends[CLIENT].peer_closed());
        assert_eq!(pair.received(CLIENT), answer);
        pair.close(CLIENT);
        pair.run();
        assert_eq!(pair.phases(), BOTH_CLOSED);
    }
}

#[test]
fn fin_rides_on_the_last_segment_of_an_answer_that_waits_for_the_window_too() {
    let mut pair = Pair::requested(&config(|_| ()));
    pair.write(SERVER, 5_000);
    pair.close(SERVER);
    pair.run_until(|pair| pair.ends[CLIENT].peer_closed());
    pair.close(CLIENT);
    pair.run();
    let fin = pair.sent[SERVER].iter().find(|segment| segment.flags.contains(Flags::FIN)).unwrap();
    assert_eq!((fin.payload_bytes, fin.end()), (5_000 % 536, 5_002));
    assert_eq!((pair.phases(), pair.received(CLIENT)), (BOTH_CLOSED, 5_000));
}

#[test]
fn request_opens_the_connection_when_the_handshake_ack_is_lost() {
    // The client's second segment is the handshake's ACK, its third the request.
    let mut pair = Pair::connect_losing(&config(|_| ()), [vec![1], vec![]]);
    pair.write(CLIENT, 350);
    pair.run_until(|pair| pair.received(SERVER) == 350);
    assert_eq!((pair.phases()[SERVER], pair.millis()), (Phase::Established, 900));
    assert_eq!(pair.sent[SERVER].len(), 2, "the SYN-ACK, and the first segment's ACK at once");
}

#[test]
fn client_that_closes_with_its_request_still_gets_the_answer() {
    let mut pair = Pair::connect(&config(|_| ()));
    pair.write(CLIENT, 350);
    pair.ends[CLIENT].close(pair.now, &mut ());
    pair.run_until(|pair| pair.ends[SERVER].peer_closed());
    pair.write(SERVER, 5_000);
    pair.close(SERVER);
    pair.run();
    assert_eq!((pair.phases(), pair.received(CLIENT)), (BOTH_CLOSED, 5_000));
}

#[test]
fn both_close_at_the_same_time() {
    let mut pair = Pair::requested(&config(|_| ()));
    pair.ends[CLIENT].close(pair.now, &mut ());
    pair.close(SERVER);
    pair.run();
    assert_eq!(pair.phases(), BOTH_CLOSED);
    assert!(pair.resets(CLIENT).is_empty() && pair.resets(SERVER).is_empty());
}

#[test]
fn client_closes_an_idle_connection_first() {
    let mut pair = Pair::requested(&config(|_| ()));
    pair.write(SERVER, 2_000);
    pair.run_until(|pair| pair.received(CLIENT) == 2_000);
    pair.close(CLIENT);
    pair.run_until(|pair| pair.ends[SERVER].peer_closed());
    pair.close(SERVER);
    pair.run();
    assert_eq!(pair.phases(), BOTH_CLOSED);
}

/// RFC 9293, section 3.6: the end that closes first waits in TIME-WAIT and acknowledges a repeated FIN. The other
/// end has forgotten the connection; it answers with an RST (section 3.10.7.1).
#[test]
fn an_end_that_closed_last_answers_late_segments_with_a_reset() {
    let linux6: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("the profile is complete");
    let mut pair = Pair::requested(&linux6);
    pair.close(CLIENT);
    pair.run_until(|pair| pair.ends[SERVER].peer_closed());
    pair.close(SERVER);
    pair.run();
    let is_fin = |segment: &&Segment| segment.flags.contains(Flags::FIN);
    let fin = *pair.sent[SERVER].iter().find(is_fin).unwrap();
    let (ack, acks) = (*pair.sent[CLIENT].last().unwrap(), pair.sent[CLIENT].len());
    for (end, late) in [(CLIENT, fin), (SERVER, ack)] {
        pair.ends[end].handle_segment(pair.now, &late, Ecn::NotEct, None, &mut ());
        pair.flush();
    }
    assert_eq!(pair.sent[CLIENT].len(), acks + 1);
    assert!(pair.resets(CLIENT).is_empty());
    let resets: Vec<_> = pair.resets(SERVER).iter().map(|reset| (reset.seq, reset.flags)).collect();
    assert_eq!(resets, [(ack.ack, Flags::RST)]);
    pair.run();
    assert_eq!(pair.phases(), BOTH_CLOSED);
}

#[test]
fn passive_opener_reads_and_leaves_metrics() {
    let caching = config(|c| c.cached_metrics = true);
    let mut pair = Pair::connect(&caching);
    let measured =
        CachedMetrics { ssthresh: 3, srtt_8: 8 * 60, rttvar_4: 4 * 25, ..CachedMetrics::default() };
    pair.cache = Some(measured);
    pair.write(CLIENT, 350);
    pair.run_until(|pair| pair.received(SERVER) == 350);
    // The timeout is below 3 s: without timestamps, Linux does not trust cached values.
    pair.write(SERVER, 30 * 536);
    pair.close(SERVER);
    assert_eq!(pair.sent[SERVER].iter().filter(|s| s.payload_bytes > 0).count(), 2);

    let stamped = config(|c| {
        c.cached_metrics = true;
        c.timestamps = true;
    });
    let mut pair = Pair::connect(&stamped);
    pair.cache = Some(CachedMetrics { ssthresh: 9, ..measured });
    pair.write(CLIENT, 350);
    pair.run_until(|pair| pair.received(SERVER) == 350);
    pair.ends[SERVER].write(pair.now, 30 * 524, 524, &mut ());
    pair.close(SERVER);
    assert_eq!(
        pair.sent[SERVER].iter().filter(|s| s.payload_bytes > 0).count(),
        4,
        "Linux' rule: 4 segments"
    );
    pair.run_until(|pair| pair.ends[CLIENT].peer_closed());
    pair.close(CLIENT);
    pair.run_until(|pair| pair.phases()[SERVER] == Phase::Closed);
    let mut cache = CachedMetrics::default();
    pair.ends[SERVER].store_metrics(&mut cache);
    // The client's FIN repeats an ACK number, but is not a duplicate ACK, so the end was undisturbed.
    assert!(cache.srtt_8 > 0 && cache.ssthresh >= 9, "{cache:?}");
}

#[test]
fn abort_resets_the_peer() {
    let mut pair = Pair::requested(&config(|_| ()));
    pair.write(SERVER, 5_000);
    pair.flush();
    pair.ends[CLIENT].abort(pair.now, &mut ());
    pair.run();
    assert_eq!(pair.phases(), [Phase::Aborted, Phase::Aborted]);
    let resets = pair.resets(CLIENT);
    assert_eq!(
        (resets[0].seq, resets[0].flags, resets[0].ip_bytes()),
        (351, Flags::RST.with(Flags::ACK), 40)
    );
    // The data in flight is answered as by a host without the connection.
    assert!(resets[1..].iter().all(|reset| reset.flags == Flags::RST && reset.seq == 351));
    assert_eq!(pair.resets(SERVER), []);
}

#[test]
fn abort_before_the_answer_to_the_syn_is_silent_and_the_syn_ack_is_reset() {
    let mut pair = Pair::connect(&config(|_| ()));
    pair.flush();
    pair.ends[CLIENT].abort(pair.now, &mut ());
    pair.run();
    assert_eq!(pair.phases(), [Phase::Aborted, Phase::Aborted]);
    let resets = pair.resets(CLIENT);
    assert_eq!(resets.len(), 1);
    assert_eq!((resets[0].seq, resets[0].flags), (1, Flags::RST));
}

#[test]
fn abort_has_no_effect_at_the_end() {
    let mut pair = Pair::requested(&config(|_| ()));
    pair.ends[CLIENT].close(pair.now, &mut ());
    pair.close(SERVER);
    pair.run();
    pair.ends[CLIENT].abort(pair.now, &mut ());
    pair.flush();
    assert_eq!((pair.phases(), pair.resets(CLIENT)), (BOTH_CLOSED, vec![]));
}

#[test]
fn exhausted_retries_are_silent_and_the_peer_learns_of_them_when_it_sends() {
    let mut pair = Pair::requested(&config(|c| c.retries = 1));
    pair.write(SERVER, 100);
    // Both copies of the response are lost, and so is everything that the server sends until it gives up.
    let next = pair.sent[SERVER].len();
    pair.lost[SERVER] = (next..next + 2).collect();
    pair.run_until(|pair| pair.phases()[SERVER] == Phase::Aborted);
    assert_eq!(pair.resets(SERVER), []);
    assert!(!pair.step(), "the client waits; only its application can end that");
    assert_eq!(pair.phases()[CLIENT], Phase::Established);
    pair.close(CLIENT);
    pair.run();
    assert_eq!(pair.phases(), [Phase::Aborted, Phase::Aborted]);
    assert_eq!(pair.resets(SERVER).len(), 1);
}

#[test]
fn an_end_that_has_closed_waits_for_the_peers_fin_60_seconds() {
    let mut pair = Pair::requested(&config(|_| ()));
    pair.close(SERVER);
    pair.run_until(|pair| pair.ends[CLIENT].peer_closed());
    // The client's application never closes.
    let acknowledged = pair.millis() + 300;
    pair.run();
    assert_eq!((pair.phases(), pair.millis()), ([Phase::Established, Phase::Aborted], acknowledged + 60_000));
    // When it writes at last, it is reset.
    pair.write(CLIENT, 100);
    pair.run();
    assert_eq!(pair.phases(), [Phase::Aborted, Phase::Aborted]);
}

#[test]
fn a_reset_that_does_not_fit_is_ignored() {
    let mut pair = Pair::requested(&config(|_| ()));
    let window = pair.ends[SERVER].received_bytes();
    for seq in [0, window, 1_000_000] {
        let reset = Segment { seq, flags: Flags::RST, ..Segment::default() };
        pair.ends[SERVER].handle_segment(pair.now, &reset, Ecn::NotEct, None, &mut ());
        assert_eq!(pair.phases()[SERVER], Phase::Established, "{seq}");
    }
    let mut waiting = Pair::connect(&config(|_| ()));
    for ack in [0, 2] {
        let reset = Segment { ack, flags: Flags::RST.with(Flags::ACK), ..Segment::default() };
        waiting.ends[CLIENT].handle_segment(waiting.now, &reset, Ecn::NotEct, None, &mut ());
        assert_eq!(waiting.phases()[CLIENT], Phase::SynSent);
    }
    let refused = Segment { ack: 1, flags: Flags::RST.with(Flags::ACK), ..Segment::default() };
    waiting.ends[CLIENT].handle_segment(waiting.now, &refused, Ecn::NotEct, None, &mut ());
    assert_eq!(waiting.phases()[CLIENT], Phase::Aborted);
}
