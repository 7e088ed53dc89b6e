//! Grants: the sender requests capacity, and its packets wait in the router's queue for the granted slots.
//!
//! The head-end of a cable network assigns slots interval by interval, in MAPs (DOCSIS 3.1 MULPI, section 7.2).
//! The modem sends requests in contention, or in the header of data in a slot (piggyback). Packets fill slots
//! like a stream, "continuous concatenation and fragmentation". Base stations are similar: scheduling requests,
//! buffer status reports, segmentation (3GPP TS 36.321, TS 36.322).

use std::collections::VecDeque;

use lasthop_core::{Duration, FlowId, Instant, Observer, PacketId, QueueDepth, RandomStream, Rate};

use crate::config::GrantConfig;
use crate::discipline::{Dequeued, Discipline, Packets, Wait};
use crate::queue::Queue;

#[cfg(test)]
mod tests;

/// Maximum number of doublings of the backoff window, which starts with one opportunity.
const BACKOFF_END: u32 = 4;

/// The unused granted part of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    interval: u64,
    /// Bytes of the interval before it.
    offset: u32,
    bytes: u32,
}

impl Slot {
    const NONE: Self = Self { interval: 0, offset: 0, bytes: 0 };

    /// Removes its first bytes.
    fn shrink(&mut self, bytes: u32) {
        self.offset += bytes;
        self.bytes -= bytes;
    }
}

/// The grants of the head-end, and the requests of the sender.
#[derive(Debug)]
struct Grants {
    rate: Rate,
    interval: Duration,
    delay: Duration,
    /// Time between two opportunities for requests.
    period: Duration,
    /// Rate that is granted without a request, in bit/s.
    proactive: u64,
    collision: f64,
    stream: RandomStream,
    /// Requested slots, and their bytes.
    slots: VecDeque<Slot>,
    granted: u64,
    /// The next slot without a request; empty if there are none.
    unasked: Slot,
    /// The interval of the latest data.
    sent_in: Option<u64>,
    /// The start of a slot with data whose header may still carry a request.
    header: Option<Instant>,
    /// Collisions of the current request, and the time of its next attempt.
    collisions: u32,
    retry: Instant,
    /// All granted slots, requested or not.
    #[cfg(test)]
    handed_out: Vec<Slot>,
}

impl Grants {
    fn new(config: &GrantConfig, rate: Rate, stream: RandomStream) -> Self {
        let mut grants = Self {
            rate,
            interval: config.interval,
            delay: config.delay,
            period: config.opportunities(),
            proactive: config.proactive.map_or(0, Rate::bits_per_second),
            collision: config.collision.unwrap_or_default().get(),
            stream,
            slots: VecDeque::new(),
            granted: 0,
            unasked: Slot::NONE,
            sent_in: None,
            header: None,
            collisions: 0,
            retry: Instant::ZERO,
            #[cfg(test)]
            handed_out: Vec::new(),
        };
        grants.unasked = grants.unasked_from(0);
        grants
    }

    /// Whole bytes at a rate up to the beginning of an interval.
    fn bytes_until(&self, bits_per_second: u64, interval: u64) -> u64 {
        let nanobits =
            u128::from(interval) * u128::from(self.interval.as_nanos()) * u128::from(bits_per_second);
        (nanobits / 8_000_000_000) as u64
    }

    fn bytes_of(&self, bits_per_second: u64, interval: u64) -> u32 {
        let [start, end] = [interval, interval + 1].map(|at| self.bytes_until(bits_per_second, at));
        (end - start) as u32
    }

    /// The first slot without a request, from this interval on.
    fn unasked_from(&self, mut interval: u64) -> Slot {
        if self.proactive == 0 {
            return Slot::NONE;
        }
        loop {
            let bytes = self.bytes_of(self.proactive, interval);
            if bytes > 0 {
                return Slot { interval, offset: 0, bytes };
            }
            interval += 1;
        }
    }

    fn start_of(&self, interval: u64) -> Instant {
        Instant::ZERO + self.interval * interval
    }

    /// Time of the first byte of a slot.
    fn start(&self, slot: Slot) -> Instant {
        self.start_of(slot.interval) + self.rate.transmission_time(slot.offset)
    }

    /// True if the next slot is one without a request.
    fn is_unasked(&self) -> bool {
        let place = |slot: &Slot| (slot.interval, slot.offset);
        self.unasked.bytes > 0 && self.slots.front().is_none_or(|slot| place(&self.unasked) < place(slot))
    }

    fn next(&self) -> Option<Slot> {
        if self.is_unasked() { Some(self.unasked) } else { self.slots.front().copied() }
    }

    /// Takes bytes from the front of the next slot.
    fn take(&mut self, bytes: u32) {
        if self.is_unasked() {
            self.unasked.shrink(bytes);
            if self.unasked.bytes == 0 {
                self.unasked = self.unasked_from(self.unasked.interval + 1);
            }
        } else if let Some(slot) = self.slots.front_mut() {
            slot.shrink(bytes);
            self.granted -= u64::from(bytes);
            if slot.bytes == 0 {
                self.slots.pop_front();
            }
        }
    }

    /// Discards grants for the time before `now`. If there was `nothing` to send, a slot that has started is lost.
    fn lose_unused(&mut self, now: Instant, nothing: bool) {
        let interval = now.as_nanos() / self.interval.as_nanos();
        if self.unasked.bytes > 0 && self.unasked.interval < interval {
            self.unasked = self.unasked_from(interval);
        }
        while let Some(slot) = self.next()
            && self.start(slot) < now
        {
            let passed = u128::from(now.saturating_since(self.start(slot)).as_nanos());
            let passed = passed * u128::from(self.rate.bits_per_second()) / 8_000_000_000;
            match if nothing { slot.bytes } else { passed.min(u128::from(slot.bytes)) as u32 } {
                0 => return,
                lost => self.take(lost),
            }
        }
    }

    /// The request at `at` for `bytes` arrives.
    fn grant(&mut self, at: Instant, bytes: u64) {
        self.granted += bytes;
        let earliest = (at + self.delay).as_nanos().div_ceil(self.interval.as_nanos());
        let last = self.slots.back();
        let mut interval = last.map_or(earliest, |last| last.interval.max(earliest));
        let mut left = bytes;
        while left > 0 {
            let last = self.slots.back_mut().filter(|last| last.interval == interval);
            let used = last.as_ref().map(|last| last.offset + last.bytes);
            let offset = used.unwrap_or_else(|| self.bytes_of(self.proactive, interval));
            let room = self.bytes_of(self.rate.bits_per_second(), interval).saturating_sub(offset);
            let bytes = left.min(u64::from(room)) as u32;
            if bytes > 0 {
                #[cfg(test)]
                self.handed_out.push(Slot { interval, offset, bytes });
                left -= u64::from(bytes);
                match self.slots.back_mut() {
                    Some(last) if last.interval == interval => last.bytes += bytes,
                    _ => self.slots.push_back(Slot { interval, offset, bytes }),
                }
            }
            interval += 1;
        }
    }

    /// The first opportunity for a request at or after `at`.
    fn opportunity(&self, at: Instant) -> Instant {
        Instant::ZERO + self.period * at.as_nanos().div_ceil(self.period.as_nanos())
    }

    /// The sender requests the waiting bytes that it has not requested yet, if it can now.
    fn ask(&mut self, now: Instant, waiting: u64) {
        if let Some(at) = self.header.take_if(|at| *at <= now) {
            return self.request(at, waiting);
        }
        if self.has_all() {
            return;
        }
        let missing = waiting.saturating_sub(self.granted);
        let has_slot = self.next().is_some_and(|slot| self.start_of(slot.interval) <= now);
        if missing == 0 || has_slot || now < self.retry || self.opportunity(now) != now {
            return;
        }
        if self.collision > 0.0 && self.stream.unit() < self.collision {
            self.collisions += 1;
            let window = 1_u64 << self.collisions.min(BACKOFF_END);
            let skipped = (self.stream.unit() * window as f64) as u64;
            self.retry = self.opportunity(now + self.delay) + self.period * skipped;
        } else {
            self.request(now, waiting);
        }
    }

    /// A request arrives, which also ends a request in contention (MULPI, section 7.2.1.2).
    fn request(&mut self, at: Instant, waiting: u64) {
        if self.has_all() {
            return;
        }
        (self.collisions, self.retry) = (0, Instant::ZERO);
        self.grant(at, waiting.saturating_sub(self.granted));
    }

    /// Starts a packet in the current slot, with `waiting` bytes behind it. Returns the time of its last byte. A
    /// packet that does not end in its slot requests capacity for the rest, like a fragment of DOCSIS.
    fn send(&mut self, now: Instant, ip_bytes: u32, waiting: u64) -> Instant {
        let (mut left, mut end) = (ip_bytes, now);
        while left > 0
            && let Some(slot) = self.next()
        {
            let start = self.start(slot);
            let part = left.min(slot.bytes);
            let is_first = left == ip_bytes;
            left -= part;
            end = start.max(end) + self.rate.transmission_time(part);
            self.take(part);
            let is_new = self.sent_in.replace(slot.interval) != Some(slot.interval);
            if is_first && (is_new || left > 0) {
                self.request(start, waiting + u64::from(left));
            } else if is_new {
                self.header.get_or_insert(start);
            }
        }
        end
    }

    /// True if the whole link is granted without requests.
    fn has_all(&self) -> bool {
        self.proactive == self.rate.bits_per_second()
    }

    /// Time of the next possible request.
    fn next_request(&self, now: Instant) -> Instant {
        if self.has_all() {
            return Instant::MAX;
        }
        let next = self.opportunity(now + Duration::from_nanos(1)).max(self.retry);
        next.min(self.header.unwrap_or(next))
    }
}

/// The queue of a link that grants.
#[derive(Debug)]
pub(crate) struct Granted {
    grants: Grants,
    queue: Queue,
    /// A packet whose transmission has begun, perhaps in a slot before the current one.
    begun: Option<BegunGrant>,
    /// True if the queue was empty when last checked.
    is_idle: bool,
}

#[derive(Debug)]
struct BegunGrant {
    packet: Dequeued,
    /// When its last byte leaves.
    end: Instant,
}

impl Granted {
    /// `collisions` is the random stream of the collisions.
    pub(crate) fn new(config: &GrantConfig, rate: Rate, queue: Queue, collisions: RandomStream) -> Self {
        Self { grants: Grants::new(config, rate, collisions), queue, begun: None, is_idle: true }
    }

    /// Announces a flow between these hosts, by their numbers.
    pub(crate) fn announce(&mut self, flow: FlowId, hosts: [u32; 2]) {
        self.queue.announce(flow, hosts);
    }

    /// The queue, with a packet that has begun and has not reached the link.
    fn with_begun(&self, depth: QueueDepth) -> QueueDepth {
        let Some(BegunGrant { packet, .. }) = &self.begun else { return depth };
        QueueDepth {
            packets: depth.packets + 1,
            bytes: depth.bytes + packet.ip_bytes,
            class_packets: depth.class_packets + 1,
            ..depth
        }
    }

    fn waiting(&self) -> u64 {
        u64::from(self.queue.depth().bytes)
    }

    /// Begins a packet, if a slot has come.
    fn begin<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<BegunGrant, Wait> {
        let now = packets.now;
        self.grants.lose_unused(now, self.is_idle);
        self.is_idle = self.queue.room_needed().is_none();
        if self.is_idle {
            self.grants.header = None;
            return Err(Wait::ARRIVAL);
        }
        self.grants.ask(now, self.waiting());
        let request = self.grants.next_request(now);
        let start = self.grants.next().map_or(Instant::MAX, |slot| self.grants.start(slot));
        if start > now {
            return Err(Wait::Until(start.min(request)));
        }
        match self.queue.dequeue(room, packets) {
            Ok(packet) => {
                let end = self.grants.send(now, packet.ip_bytes, self.waiting());
                Ok(BegunGrant { packet, end })
            }
            Err(Wait::Until(at)) => {
                // It may have dropped its packets.
                self.is_idle = self.queue.room_needed().is_none();
                Err(Wait::Until(if self.is_idle { at } else { at.min(request) }))
            }
            Err(wait) => Err(wait),
        }
    }
}

impl Discipline for Granted {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let depth = self.queue.enqueue(id, packets)?;
        Some(self.with_begun(depth))
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        let now = packets.now;
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.begin(room, packets)?,
        };
        // The link sends a packet as a whole. It begins so late that the last byte leaves in its slot.
        let time = self.grants.rate.transmission_time(begun.packet.ip_bytes);
        let start = Instant::from_nanos(begun.end.as_nanos().saturating_sub(time.as_nanos()));
        if start > now {
            self.grants.ask(now, self.waiting());
            self.begun = Some(begun);
            return Err(Wait::Until(start.min(self.grants.next_request(now))));
        }
        Ok(Dequeued { depth: self.queue.depth(), ..begun.packet })
    }

    fn depth(&self) -> QueueDepth {
        self.with_begun(self.queue.depth())
    }
}
