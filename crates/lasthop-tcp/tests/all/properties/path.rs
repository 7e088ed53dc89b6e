//! Two endpoints over a path that loses, marks and stalls but never reorders.

use crate::support::poll;
use std::collections::VecDeque;

use lasthop_core::{
    Duration, Ecn, Flags, FlowId, Host, Instant, Observer, RetransmissionKind, Segment, TransportEvent,
};
use lasthop_tcp::{CachedMetrics, CongestionControl, Endpoint, Phase, TcpConfig, TickClock};

#[derive(Clone, Debug)]
pub struct Path {
    /// From the server, and to it.
    pub loss_percent: [u32; 2],
    pub delay_millis: u64,
    /// Delay of one packet in 20, and of the packets after it.
    pub stall_millis: u64,
    pub mark_percent: u32,
    pub seed: u64,
}

#[derive(Clone, Debug)]
pub struct Transfer {
    pub server: TcpConfig,
    pub client: TcpConfig,
    /// The connection is open from the start; both ends then have the server's configuration.
    pub opened: bool,
    pub cache: Option<CachedMetrics>,
    pub path: Path,
    /// Bytes of the client's request, if any: the client then opens the connection, and the server answers
    /// after it has read the complete request.
    pub request_bytes: u64,
    /// The client sends its FIN with the request, not after the server's.
    pub client_closes_first: bool,
    pub bytes: u64,
    pub write_bytes: u64,
}

#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub phases: [Phase; 2],
    /// By the server, and by the client.
    pub received: [u64; 2],
    pub fast_retransmissions: usize,
    /// Every sent segment: time, end, segment.
    pub packets: Vec<(Instant, usize, Segment)>,
}

/// Watches the windows.
#[derive(Default)]
struct Watch {
    fast_retransmissions: usize,
}

impl Observer for Watch {
    fn transport(&mut self, _: Instant, _: FlowId, _: Host, event: TransportEvent) {
        match event {
            TransportEvent::Window { cwnd, ssthresh, .. } => {
                assert!(cwnd >= 1 && ssthresh >= 2, "cwnd {cwnd}, ssthresh {ssthresh}");
            }
            TransportEvent::Retransmitted { kind: RetransmissionKind::Fast, .. } => {
                self.fast_retransmissions += 1;
            }
            _ => {}
        }
    }
}

/// One direction: packets in the order of arrival.
#[derive(Default)]
struct Wire {
    packets: VecDeque<(Instant, Segment, Ecn)>,
    last: Instant,
}

struct Run<'a> {
    transfer: &'a Transfer,
    now: Instant,
    /// Server and client.
    ends: [Endpoint; 2],
    /// From the server, and to it.
    wires: [Wire; 2],
    /// Right edge of the window that was last advertised to each end.
    right_edge: [u64; 2],
    /// First byte never sent so far, of each end.
    fresh: [u64; 2],
    random: u64,
    watch: Watch,
    packets: Vec<(Instant, usize, Segment)>,
    answered: bool,
    client_closed: bool,
}

impl Transfer {
    pub fn run(&self) -> Outcome {
        let end = |config: &TcpConfig, phase, host| {
            let clock = TickClock::new(config.tick, Duration::from_micros(phase));
            Endpoint::listen(config.clone(), 576, clock, FlowId(0), host)
        };
        let client = if self.opened { &self.server } else { &self.client };
        let mut run = Run {
            transfer: self,
            now: Instant::ZERO,
            ends: [end(&self.server, 0, Host::Server), end(client, 3_700, Host::Client)],
            wires: Default::default(),
            right_edge: [0, 0],
            fresh: [0, 0],
            random: self.path.seed,
            watch: Watch::default(),
            packets: Vec::new(),
            answered: false,
            client_closed: false,
        };
        if self.opened {
            for end in [0, 1] {
                run.right_edge[end] = 1 + u64::from(self.server.receive_window_initial * run.ends[end].mss());
                run.ends[end].open(run.now, &mut run.watch);
            }
        } else {
            let opener = usize::from(self.request_bytes > 0);
            run.ends[opener].connect(run.now, &mut run.watch);
        }
        run.ends[1].write(run.now, self.request_bytes, self.write_bytes, &mut run.watch);
        run.run_applications();
        run.transmit();
        while run.step() {}
        Outcome {
            phases: [run.ends[0].phase(), run.ends[1].phase()],
            received: [0, 1].map(|end| run.ends[end].received_bytes()),
            fast_retransmissions: run.watch.fast_retransmissions,
            packets: run.packets,
        }
    }
}

impl Run<'_> {
    /// Handles the next arrival or timer; false if there is none.
    fn step(&mut self) -> bool {
        assert!(self.packets.len() < 100_000, "it never ends");
        let arrivals = [0, 1].map(|end| self.wires[1 - end].packets.front().map(|&(at, ..)| at));
        let wakeups = [0, 1].map(|end| self.ends[end].next_wakeup());
        let Some(next) = arrivals.into_iter().chain(wakeups).flatten().min() else { return false };
        assert!(next >= self.now, "a timer lies in the past: {next} < {}", self.now);
        self.now = next;
        for end in [0, 1] {
            if arrivals[end] == Some(next) {
                self.arrive(end);
            }
            if wakeups[end] == Some(next) {
                self.ends[end].handle_wakeup(self.now, &mut self.watch);
                self.transmit();
                let later = self.ends[end].next_wakeup();
                assert!(later.is_none_or(|at| at > next), "the timer at {next} does not go out");
            }
        }
        true
    }

    fn arrive(&mut self, end: usize) {
        let (_, segment, ecn) = self.wires[1 - end].packets.pop_front().expect("it is due");
        let cache = self.transfer.cache.as_ref();
        let edge = segment.ack + segment.window_bytes;
        self.right_edge[end] = self.right_edge[end].max(edge);
        self.ends[end].handle_segment(self.now, &segment, ecn, cache, &mut self.watch);
        assert!(self.ends[1].received_bytes() <= self.transfer.bytes, "more arrived than was sent");
        self.run_applications();
        self.transmit();
    }

    fn run_applications(&mut self) {
        let &Transfer { request_bytes, client_closes_first, bytes, write_bytes, .. } = self.transfer;
        let [server, client] = &mut self.ends;
        if !self.answered && server.received_bytes() == request_bytes {
            self.answered = true;
            server.write(self.now, bytes, write_bytes, &mut self.watch);
            server.close(self.now, &mut self.watch);
        }
        let closes_now = client_closes_first && request_bytes > 0 || client.peer_closed();
        if closes_now && !self.client_closed {
            self.client_closed = true;
            client.close(self.now, &mut self.watch);
        }
    }

    fn transmit(&mut self) {
        for end in [0, 1] {
            while let Some((segment, ecn)) = poll(&mut self.ends[end], self.now) {
                self.check(end, &segment, ecn);
                self.fresh[end] = self.fresh[end].max(segment.end());
                self.packets.push((self.now, end, segment));
                self.carry(end, segment, ecn);
            }
        }
    }

    fn check(&self, end: usize, segment: &Segment, ecn: Ecn) {
        if segment.flags.contains(Flags::SYN) {
            return;
        }
        assert!(
            segment.end() <= self.right_edge[end],
            "beyond the window {}: {segment:?}",
            self.right_edge[end]
        );
        assert!(segment.payload_bytes <= self.ends[end].mss());
        let resent = segment.seq < self.fresh[end];
        let Transfer { server, client, .. } = &self.transfer;
        let has = |algorithm| [server, client].iter().any(|tcp| tcp.congestion_control == algorithm);
        let is_new_data = segment.payload_bytes > 0 && !resent;
        let is_accurate = server.accurate_ecn || client.accurate_ecn;
        let may_be = match ecn {
            // Under accurate ECN retransmissions and ACKs are ECN-capable, too, as in Linux.
            Ecn::Ect1 => has(CongestionControl::Prague) && !segment.flags.contains(Flags::SYN),
            Ecn::Ect0 if is_accurate => !segment.flags.contains(Flags::SYN),
            Ecn::Ect0 => is_new_data || has(CongestionControl::Dctcp),
            Ecn::NotEct => true,
            Ecn::Ce => false,
        };
        assert!(may_be, "not to be {ecn:?}: {segment:?}");
    }

    fn carry(&mut self, end: usize, segment: Segment, mut ecn: Ecn) {
        if self.percent() < self.transfer.path.loss_percent[end] {
            return;
        }
        if matches!(ecn, Ecn::Ect0 | Ecn::Ect1) && self.percent() < self.transfer.path.mark_percent {
            ecn = Ecn::Ce;
        }
        let stall = if self.percent() < 5 { self.transfer.path.stall_millis } else { 0 };
        let delay = Duration::from_millis(self.transfer.path.delay_millis + stall);
        let wire = &mut self.wires[end];
        wire.last = wire.last.max(self.now + delay);
        wire.packets.push_back((wire.last, segment, ecn));
    }

    /// 0 to 99 (`SplitMix64`).
    fn percent(&mut self) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % 100) as u32
    }
}
