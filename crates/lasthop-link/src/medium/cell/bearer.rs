//! A user's data in one direction: the queue, the bytes on their way, and the receiver that joins them (RLC).

use std::collections::VecDeque;

use lasthop_core::{Instant, PacketId, QueueDepth, Rate};

use crate::link::pop_if;
use crate::queue::fifo::{Fifo, Waiting};

/// Billionths of a bit in a byte: what a rate of `1 bit/s` sends in a nanosecond is one billionth.
const BYTE: u64 = 8_000_000_000;

/// Bytes of a bearer, counted from the first one ever sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: u64,
    pub(super) to: u64,
}

#[derive(Debug)]
pub(super) struct Bearer {
    /// Packets of which nothing has been sent.
    waiting: Fifo,
    /// Packets of which something has been sent, or that are about to be.
    begun: VecDeque<BegunPacket>,
    /// The end of the last packet that has begun.
    end: u64,
    /// Bytes sent, in first tries.
    sent: u64,
    /// Packets at the end of `begun` that have not been reported yet.
    unreported: usize,
    /// Fraction of a byte that the last blocks could not use, in billionths of a bit.
    rest: u64,
    /// The rates over time, and the number of the current one.
    course: Vec<(Instant, Option<Rate>)>,
    row: usize,
}

#[derive(Clone, Copy, Debug)]
struct BegunPacket {
    id: PacketId,
    ip_bytes: u32,
    /// Where it ends among the bytes of the bearer.
    end: u64,
    /// Bytes that have neither arrived nor been lost.
    missing: u32,
    is_damaged: bool,
}

impl Bearer {
    pub(super) fn new(course: Vec<(Instant, Option<Rate>)>) -> Self {
        Self {
            waiting: Fifo::default(),
            begun: VecDeque::new(),
            end: 0,
            sent: 0,
            unreported: 0,
            rest: 0,
            course,
            row: 0,
        }
    }

    pub(super) fn push(&mut self, packet: Waiting) {
        self.waiting.push(packet);
    }

    pub(super) fn depth(&self) -> QueueDepth {
        self.waiting.depth()
    }

    pub(super) fn packets_inside(&self) -> usize {
        self.waiting.packets() as usize + self.begun.len()
    }

    /// Bytes that have not been sent.
    pub(super) fn backlog(&self) -> u64 {
        self.end - self.sent + u64::from(self.waiting.bytes())
    }

    /// Advances to `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        while self.course.get(self.row + 1).is_some_and(|(since, _)| *since <= now) {
            self.row += 1;
        }
    }

    /// The current rate; `None` during an outage.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.course[self.row].1
    }

    /// The first time from `at` on without an outage.
    pub(super) fn up_from(&self, at: Instant) -> Instant {
        let later = self.course[self.row + 1..].iter().take_while(|(since, _)| *since <= at).count();
        let mut rows = self.course[self.row + later..].iter();
        rows.find(|(_, rate)| rate.is_some()).map_or(Instant::MAX, |(since, _)| at.max(*since))
    }

    /// Nanoseconds that all of the backlog needs at this rate.
    pub(super) fn needed(&self, rate: Rate) -> u64 {
        (self.backlog() * BYTE - self.rest).div_ceil(rate.bits_per_second())
    }

    /// Takes the bytes that fit a part of a slot, in nanoseconds, at this rate; `None` if less than a byte.
    pub(super) fn take(&mut self, rate: Rate, part: u64) -> Option<Range> {
        let room = rate.bits_per_second() * part + self.rest;
        let bytes = (room / BYTE).min(self.backlog());
        let from = self.sent;
        self.sent += bytes;
        while self.end < self.sent
            && let Some(Waiting { id, ip_bytes, .. }) = self.waiting.pop()
        {
            self.end += u64::from(ip_bytes);
            let begun = BegunPacket { id, ip_bytes, end: self.end, missing: ip_bytes, is_damaged: false };
            self.begun.push_back(begun);
            self.unreported += 1;
        }
        self.rest = if self.backlog() > 0 { room % BYTE } else { 0 };
        (bytes > 0).then_some(Range { from, to: self.sent })
    }

    /// The next packet, and its length, that has left the queue.
    pub(super) fn next_begun(&mut self) -> Option<(PacketId, u32)> {
        let index = self.begun.len() - self.unreported;
        let begun = self.begun.get(index)?;
        self.unreported -= 1;
        Some((begun.id, begun.ip_bytes))
    }

    /// The packets with bytes in a range.
    pub(super) fn packets_in(&self, bytes: Range) -> impl Iterator<Item = PacketId> {
        let first = self.begun.partition_point(|packet| packet.end <= bytes.from);
        let packets = self.begun.range(first..).take_while(move |packet| packet.start() < bytes.to);
        packets.map(|packet| packet.id)
    }

    /// A range of bytes has arrived, or is lost.
    pub(super) fn arrive(&mut self, bytes: Range, is_decoded: bool) {
        let first = self.begun.partition_point(|packet| packet.end <= bytes.from);
        for packet in self.begun.range_mut(first..).take_while(|packet| packet.start() < bytes.to) {
            let common = packet.end.min(bytes.to) - packet.start().max(bytes.from);
            packet.missing -= common as u32;
            packet.is_damaged |= !is_decoded;
        }
    }

    /// The next packet without missing bytes, and whether all of it has arrived.
    pub(super) fn next_whole(&mut self) -> Option<(PacketId, bool)> {
        let packet = pop_if(&mut self.begun, |packet| packet.missing == 0)?;
        Some((packet.id, !packet.is_damaged))
    }
}

impl BegunPacket {
    fn start(&self) -> u64 {
        self.end - u64::from(self.ip_bytes)
    }
}
