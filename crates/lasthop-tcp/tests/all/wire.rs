//! The far end of the wire, played by the test.
//!
//! Segment `n` of the stream is its n-th full segment; an ACK of `n` acknowledges everything below it.
//! Every call returns the data segments that the endpoint sent in answer.

use crate::support::poll;
use lasthop_core::{
    Duration, Ecn, Flags, FlowId, Host, Instant, Observer, SackBlock, SackList, Segment, Timestamps,
    TransportEvent,
};
use lasthop_tcp::{CachedMetrics, Endpoint, Profile, TcpConfig, TickClock};
use std::num::NonZeroU16;

pub const INFINITE: u32 = u32::MAX;
pub const MTU: u32 = 576;

/// The profile `linux-2.4` with changes.
pub fn config(change: impl FnOnce(&mut TcpConfig)) -> TcpConfig {
    let mut config = toml::from_str(Profile::Linux24.toml()).expect("the profile is complete");
    change(&mut config);
    config
}

#[derive(Debug, Default)]
pub struct Log(pub Vec<TransportEvent>);

impl Observer for Log {
    fn transport(&mut self, _: Instant, _: FlowId, _: Host, event: TransportEvent) {
        self.0.push(event);
    }
}

/// Congestion window, slow-start threshold and segments in flight.
pub type Window = (u32, u32, u32);

pub struct Wire {
    pub tcp: Endpoint,
    pub now: Instant,
    pub log: Log,
    /// Every segment that the endpoint sent.
    pub sent: Vec<(Segment, Ecn)>,
    pub mss: u64,
    timestamps: bool,
    window_segments: u64,
}

impl Wire {
    /// An endpoint that has sent its SYN at 0 and has `segments` full segments to send.
    pub fn connect(config: &TcpConfig, segments: u64) -> Self {
        let clock = TickClock::new(config.tick, Duration::ZERO);
        let tcp = Endpoint::listen(config.clone(), MTU, clock, FlowId(0), Host::Server);
        let mut wire = Self {
            mss: u64::from(tcp.mss()),
            tcp,
            now: Instant::ZERO,
            log: Log::default(),
            sent: Vec::new(),
            timestamps: config.timestamps,
            window_segments: 64,
        };
        wire.tcp.connect(wire.now, &mut wire.log);
        wire.write(segments);
        wire
    }

    /// As [`Self::connect`], with the SYN answered at 600 ms: the first flight is out.
    pub fn open(config: &TcpConfig, segments: u64) -> Self {
        Self::open_with_cache(config, segments, None)
    }

    pub fn open_with_cache(config: &TcpConfig, segments: u64, cache: Option<&CachedMetrics>) -> Self {
        let mut wire = Self::connect(config, segments);
        wire.wait(600);
        wire.syn_ack(config, cache);
        wire
    }

    pub fn syn_ack(&mut self, config: &TcpConfig, cache: Option<&CachedMetrics>) -> Vec<u64> {
        let mut answer = Segment {
            ack: 1,
            flags: Flags::SYN.with(Flags::ACK),
            mss: NonZeroU16::new(536),
            sack_permitted: config.sack,
            timestamps: if config.timestamps { self.latest_stamp() } else { None },
            window_bytes: self.window_segments * self.mss,
            window_scale: config.window_scaling.then_some(7),
            ..Segment::default()
        };
        if config.ecn {
            answer.flags = answer.flags.with(Flags::ECE);
        }
        self.tcp.handle_segment(self.now, &answer, Ecn::NotEct, cache, &mut self.log);
        self.flush()
    }

    pub fn write(&mut self, segments: u64) -> Vec<u64> {
        self.tcp.write(self.now, segments * self.mss, self.mss, &mut self.log);
        self.flush()
    }

    pub fn close(&mut self) -> Vec<u64> {
        self.tcp.close(self.now, &mut self.log);
        self.flush()
    }

    fn latest_stamp(&self) -> Option<Timestamps> {
        let latest = self.sent.iter().rev().find(|(segment, _)| segment.sequence_length() > 0);
        latest.and_then(|(segment, _)| segment.timestamps).map(|t| Timestamps { value: 1, echo: t.value })
    }

    /// Takes everything the endpoint wants to send; the numbers of the data segments among it.
    pub fn flush(&mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some((segment, ecn)) = poll(&mut self.tcp, self.now) {
            if segment.payload_bytes > 0 {
                numbers.push((segment.seq - 1) / self.mss);
            }
            self.sent.push((segment, ecn));
        }
        numbers
    }

    /// First byte of segment `number`.
    pub fn byte(&self, number: u64) -> u64 {
        1 + number * self.mss
    }

    /// A pure ACK of everything below segment `number`, with SACK blocks in segment numbers. With
    /// timestamps it echoes the latest segment sent.
    pub fn pure_ack(&self, number: u64, blocks: &[(u64, u64)]) -> Segment {
        let mut sack = SackList::default();
        for &(start, end) in blocks {
            sack.push(SackBlock { start: self.byte(start), end: self.byte(end) });
        }
        Segment {
            seq: 1,
            ack: self.byte(number),
            flags: Flags::ACK,
            window_bytes: self.window_segments * self.mss,
            timestamps: if self.timestamps { self.latest_stamp() } else { None },
            sack,
            ..Segment::default()
        }
    }

    pub fn deliver(&mut self, segment: &Segment) -> Vec<u64> {
        self.deliver_marked(segment, Ecn::NotEct)
    }

    pub fn deliver_marked(&mut self, segment: &Segment, ecn: Ecn) -> Vec<u64> {
        self.tcp.handle_segment(self.now, segment, ecn, None, &mut self.log);
        self.flush()
    }

    pub fn ack(&mut self, number: u64) -> Vec<u64> {
        self.sack(number, &[])
    }

    pub fn sack(&mut self, number: u64, blocks: &[(u64, u64)]) -> Vec<u64> {
        self.deliver(&self.pure_ack(number, blocks))
    }

    /// An ACK that echoes the timestamp of the `copy`-th transmission of segment `echoed`.
    pub fn ack_echoing(&mut self, number: u64, blocks: &[(u64, u64)], echoed: u64, copy: usize) -> Vec<u64> {
        let value = self.copies(echoed)[copy].0.timestamps.expect("timestamps are on").value;
        let timestamps = Some(Timestamps { value: 1, echo: value });
        self.deliver(&Segment { timestamps, ..self.pure_ack(number, blocks) })
    }

    /// Every transmission of segment `number`, in order.
    pub fn copies(&self, number: u64) -> Vec<(Segment, Ecn)> {
        let seq = self.byte(number);
        self.sent.iter().filter(|(s, _)| s.seq == seq && s.payload_bytes > 0).copied().collect()
    }

    /// The last segment the endpoint sent.
    pub fn last(&self) -> Segment {
        self.sent.last().expect("something was sent").0
    }

    /// Lets time pass in which no timer is due.
    pub fn wait(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        let due = self.tcp.next_wakeup();
        assert!(due.is_none_or(|due| due > until), "a timer is due at {} before {until}", due.unwrap());
        self.now = until;
    }

    /// Runs to the next timer and lets it expire.
    pub fn expire(&mut self) -> Vec<u64> {
        self.now = self.tcp.next_wakeup().expect("a timer is set");
        self.tcp.handle_wakeup(self.now, &mut self.log);
        self.flush()
    }

    pub fn now_millis(&self) -> u64 {
        self.now.as_nanos() / 1_000_000
    }

    pub fn window(&self) -> Window {
        let window = |event: &TransportEvent| match *event {
            TransportEvent::Window { cwnd, ssthresh, in_flight } => Some((cwnd, ssthresh, in_flight)),
            _ => None,
        };
        self.log.0.iter().rev().find_map(window).expect("a window was reported")
    }

    /// Timeout after the latest round-trip sample, in milliseconds.
    pub fn rto_millis(&self) -> u64 {
        let rto = |event: &TransportEvent| match *event {
            TransportEvent::RttSample { rto, .. } => Some(rto.as_nanos() / 1_000_000),
            _ => None,
        };
        self.log.0.iter().rev().find_map(rto).expect("a sample was taken")
    }

    pub fn rtt_samples(&self) -> Vec<u64> {
        let rtt = |event: &TransportEvent| match *event {
            TransportEvent::RttSample { rtt, .. } => Some(rtt.as_nanos() / 1_000_000),
            _ => None,
        };
        self.log.0.iter().filter_map(rtt).collect()
    }

    pub fn count(&self, event: TransportEvent) -> usize {
        self.log.0.iter().filter(|&&e| e == event).count()
    }

    pub fn recoveries(&self) -> usize {
        self.log.0.iter().filter(|e| matches!(e, TransportEvent::RecoveryEntered { .. })).count()
    }
}

/// Segment numbers `start..end`, for comparison with what was sent.
pub fn numbers(start: u64, end: u64) -> Vec<u64> {
    (start..end).collect()
}
