//! An ATM switch with one output port: AAL5 segmentation, a cell buffer, early packet discard and
//! selective drop.
//!
//! Each connection has its own access link. The cells of a packet arrive over it back to back and interleave
//! with those of other connections at the switch, cell by cell; the output port sends one cell at a time. The
//! fate of a cell depends only on the buffer at its arrival, and the port never rests while cells wait. So
//! the departure of a cell is known when it arrives, and cells need no events. The loop below handles each
//! arriving cell once, or a run of cells of one packet that arrive without other cells between them and find
//! room.

use std::collections::VecDeque;

use lasthop_core::{
    Bytes, DropCause, Duration, Faults, Instant, Observer, PacketArena, PacketId, Probability, Rate,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::link::discard;

#[cfg(test)]
mod tests;

/// A switch between many senders and one output link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtmConfig {
    /// Cell rate of each connection's access link, as bits of whole cells.
    pub access_rate: Rate,
    /// Propagation delay of an access link.
    pub access_delay: Duration,
    /// Cell rate of the output link.
    pub rate: Rate,
    /// Propagation delay after the switch.
    pub delay: Duration,
    /// Buffer in cells, including the cell in transmission.
    pub buffer_cells: u32,
    /// Share of the buffer above which packets are discarded early.
    pub threshold: Probability,
    /// Which packets are discarded early.
    pub discard: Discard,
    /// Bytes in the cells of a packet in addition to the IP packet: LLC header and AAL5 trailer.
    pub overhead: Bytes,
}

/// Treatment of a packet whose first cell arrives above the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "policy", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Discard {
    /// No packet discard, as on plain UBR: a cell that finds the buffer full is lost, and so is its packet,
    /// whose other cells waste capacity (Romanow and Floyd 1995, section 2). The threshold has no
    /// effect.
    None,
    /// Early packet discard: it is dropped (Romanow and Floyd 1995).
    EarlyPacket,
    /// Selective drop: it is dropped if its connection has more than `share` times its fair share of the
    /// buffered cells (Goyal, Jain, Kalyanaraman, Fahmy and Kim 1998).
    Selective {
        /// Multiple of the fair share; the study's Z.
        share: Probability,
    },
}

/// Payload of a cell.
const CELL_PAYLOAD: u64 = 48;
/// A cell on the wire.
const CELL_BITS: u64 = 53 * 8;
/// Internally, times are in picoseconds, because a cell does not take a whole number of nanoseconds. The
/// rounding error is less than 1e-6 up to 800 Mbit/s.
const PICOS_PER_NANO: u64 = 1000;
const PICOS_PER_SECOND: u64 = 1_000_000_000_000;

impl AtmConfig {
    /// Cells of an IP packet of `ip_bytes` bytes.
    pub fn cells(&self, ip_bytes: u32) -> u32 {
        (u64::from(ip_bytes) + self.overhead.0).div_ceil(CELL_PAYLOAD) as u32
    }

    /// Propagation delay from host to host.
    pub fn one_way_delay(&self) -> Duration {
        self.access_delay + self.delay
    }

    /// Capacity of the output link in IP packets of `ip_bytes` bytes, in bit/s of their IP length.
    pub fn ip_rate(&self, ip_bytes: u32) -> f64 {
        let wire_bits = u64::from(self.cells(ip_bytes)) * CELL_BITS;
        self.rate.bits_per_second() as f64 * f64::from(ip_bytes) * 8.0 / wire_bits as f64
    }

    /// Rejects a buffer that is too small for a packet of `mtu` bytes, and a rate at
    /// which a cell takes no time.
    pub fn check(&self, mtu: Bytes, faults: &mut Faults) {
        let (buffer, cells) = (self.buffer_cells, self.cells(mtu.0 as u32));
        faults.require(buffer >= cells, "buffer_cells", || {
            format!("{buffer} cells are too few for a packet of {mtu}, which has {cells} cells; write at least {cells}")
        });
        for (key, rate) in [("rate", self.rate), ("access_rate", self.access_rate)] {
            faults.require(cell_time(rate) > 0, key, || {
                format!("\"{rate}\" is too fast: a cell would take less than a nanosecond; lower it")
            });
        }
    }
}

fn cell_time(rate: Rate) -> u64 {
    let rate = rate.bits_per_second();
    (CELL_BITS * PICOS_PER_SECOND + rate / 2) / rate
}

/// The running switch. Sans-IO, like [`crate::Path`]: it acts only when called, at the given instants.
#[derive(Clone, Debug)]
pub struct AtmSwitch {
    config: AtmConfig,
    access_time: u64,
    threshold_cells: u64,
    sources: Vec<Source>,
    /// Connections whose cells are arriving: time of the next cell, in order, and the connection.
    arriving: VecDeque<(u64, u32)>,
    buffer: Buffer,
    /// Packets whose last cell has been accepted: when they reach the far end, in order.
    leaving: VecDeque<(Instant, PacketId)>,
}

#[derive(Clone, Debug, Default)]
struct Source {
    /// Packets handed over; the first one is arriving at the switch or is the next to arrive.
    packets: VecDeque<Incoming>,
    /// When the access link will have sent everything.
    free_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Incoming {
    id: PacketId,
    /// Arrival of its first cell at the switch.
    first_cell: u64,
    cells: u32,
    /// Number of cells that have arrived; they were accepted unless the packet is lost.
    arrived: u32,
    /// True if one of them found no room; the others are still to come.
    is_lost: bool,
}

/// Cells in the buffer. They leave in the order of arrival, one per service time.
#[derive(Clone, Debug)]
struct Buffer {
    service_time: u64,
    cells: u64,
    /// When the first cell leaves.
    next_departure: u64,
    /// The connection of each cell, and the number of cells of each connection: kept for selective drop only.
    owners: Option<Owners>,
}

#[derive(Clone, Debug)]
struct Owners {
    /// Runs of cells: connection and number of cells.
    order: VecDeque<(u32, u64)>,
    counts: Vec<u64>,
    /// Number of connections with at least one cell.
    active: u64,
}

impl Buffer {
    /// Forgets the cells that have left by `now`.
    fn drain(&mut self, now: u64) {
        if self.cells == 0 || self.next_departure > now {
            return;
        }
        let left = ((now - self.next_departure) / self.service_time + 1).min(self.cells);
        self.cells -= left;
        self.next_departure += left * self.service_time;
        if let Some(owners) = &mut self.owners {
            owners.pop(left);
        }
    }

    /// Adds a run of cells, after [`Buffer::drain`]. The first cell arrives at `now`; the others arrive
    /// before it has left. Returns when the last cell will have left.
    fn push(&mut self, now: u64, owner: u32, cells: u64) -> u64 {
        if self.cells == 0 {
            self.next_departure = now + self.service_time;
        }
        self.cells += cells;
        if let Some(owners) = &mut self.owners {
            owners.push(owner, cells);
        }
        self.next_departure + (self.cells - 1) * self.service_time
    }
}

impl Owners {
    fn push(&mut self, owner: u32, cells: u64) {
        self.order.push_back((owner, cells));
        let count = &mut self.counts[owner as usize];
        self.active += u64::from(*count == 0);
        *count += cells;
    }

    fn pop(&mut self, mut cells: u64) {
        while cells > 0
            && let Some((owner, run)) = self.order.front_mut()
        {
            let left = cells.min(*run);
            let count = &mut self.counts[*owner as usize];
            *count -= left;
            self.active -= u64::from(*count == 0);
            *run -= left;
            if *run == 0 {
                self.order.pop_front();
            }
            cells -= left;
        }
    }
}

impl AtmSwitch {
    /// A switch with an access link for each of `connections`. `config` must have passed
    /// [`AtmConfig::check`].
    pub fn new(config: &AtmConfig, connections: usize) -> Self {
        let owners = matches!(config.discard, Discard::Selective { .. }).then(|| Owners {
            order: VecDeque::new(),
            counts: vec![0; connections],
            active: 0,
        });
        Self {
            access_time: cell_time(config.access_rate),
            // The study's R, rounded down to whole cells.
            threshold_cells: (config.threshold.get() * f64::from(config.buffer_cells)) as u64,
            sources: vec![Source::default(); connections],
            arriving: VecDeque::with_capacity(connections),
            buffer: Buffer { service_time: cell_time(config.rate), cells: 0, next_departure: 0, owners },
            leaving: VecDeque::new(),
            config: config.clone(),
        }
    }

    /// The sender of `connection` puts a packet on its access link.
    pub fn handle_packet(&mut self, now: Instant, id: PacketId, connection: u32, arena: &PacketArena) {
        let cells = self.config.cells(arena.get(id).ip_bytes);
        let source = &mut self.sources[connection as usize];
        let start = source.free_at.max(picos(now));
        // A backlog of months is limited to the end of time.
        source.free_at = start.saturating_add(u64::from(cells) * self.access_time);
        let delay = self.access_time + picos(Instant::ZERO + self.config.access_delay);
        let first_cell = start.saturating_add(delay);
        source.packets.push_back(Incoming { id, first_cell, cells, arrived: 0, is_lost: false });
        if source.packets.len() == 1 {
            self.arrive(first_cell, connection);
        }
    }

    /// When [`AtmSwitch::handle_wakeup`] must be called next: a packet may be complete, or is at the far end.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let complete = self.arriving.iter().map(|&(next_cell, connection)| {
            let packet = &self.sources[connection as usize].packets[0];
            next_cell.saturating_add(u64::from(packet.cells - packet.arrived - 1) * self.access_time)
        });
        let complete = complete.min().map(|picos| Instant::from_nanos(picos.div_ceil(PICOS_PER_NANO)));
        complete.into_iter().chain(self.leaving.front().map(|&(at, _)| at)).min()
    }

    /// Handles every cell that arrives by `now`. A drop is reported at the arrival of the dropped cell,
    /// rounded up to a nanosecond.
    pub fn handle_wakeup<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        // Up to the last picosecond that is rounded up to `now`.
        let until = picos(now);
        while let Some(&(at, connection)) = self.arriving.front()
            && at <= until
        {
            self.arriving.pop_front();
            self.cells_arrive(at, until, connection, arena, observer);
        }
    }

    /// The next packet that has reached the far end by `now`.
    pub fn poll_delivery(&mut self, now: Instant) -> Option<PacketId> {
        let &(at, id) = self.leaving.front()?;
        if at > now {
            return None;
        }
        self.leaving.pop_front();
        Some(id)
    }

    /// A cell arrives at `at`, and perhaps a run of further cells of its packet by `until`.
    fn cells_arrive<O: Observer>(
        &mut self,
        at: u64,
        until: u64,
        connection: u32,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        self.buffer.drain(at);
        let cause = self.judge(connection);
        let source = &mut self.sources[connection as usize];
        let Some(packet) = source.packets.front_mut() else { return };
        let id = packet.id;
        if let Some(cause) = cause {
            if !std::mem::replace(&mut packet.is_lost, true) {
                discard(instant(at), id, cause, arena, observer);
            }
            // The accepted cells of the packet are sent. The rest is dropped, except on plain UBR.
            packet.arrived += 1;
            if self.config.discard == Discard::None && packet.arrived < packet.cells {
                return self.arrive(at + self.access_time, connection);
            }
            source.packets.pop_front();
            return self.next_packet(connection);
        }
        let mut run = 1;
        if self.arriving.is_empty() && self.access_time <= self.buffer.service_time {
            // No other cell comes between: cells that arrive while there is room are accepted, regardless of
            // departures meanwhile.
            let room = u64::from(self.config.buffer_cells) - self.buffer.cells;
            run = u64::from(packet.cells - packet.arrived).min((until - at) / self.access_time + 1).min(room);
        }
        packet.arrived += run as u32;
        let (is_lost, departure) = (packet.is_lost, self.buffer.push(at, connection, run));
        if packet.arrived < packet.cells {
            return self.arrive(at + run * self.access_time, connection);
        }
        if !is_lost {
            self.leaving.push_back((instant(departure) + self.config.delay, id));
        }
        source.packets.pop_front();
        self.next_packet(connection);
    }

    /// The cause if the next cell on `connection` is dropped.
    fn judge(&self, connection: u32) -> Option<DropCause> {
        let packet = self.sources[connection as usize].packets.front()?;
        let buffered = self.buffer.cells;
        if buffered >= u64::from(self.config.buffer_cells) {
            return Some(DropCause::QueueOverflow);
        }
        if packet.arrived > 0 || buffered <= self.threshold_cells || self.config.discard == Discard::None {
            return None;
        }
        match (self.config.discard, &self.buffer.owners) {
            (Discard::Selective { share }, Some(owners)) => {
                let own = owners.counts[connection as usize] as f64;
                let fair = buffered as f64 / owners.active as f64;
                (own > share.get() * fair).then_some(DropCause::Selective)
            }
            _ => Some(DropCause::EarlyPacket),
        }
    }

    fn next_packet(&mut self, connection: u32) {
        if let Some(packet) = self.sources[connection as usize].packets.front() {
            self.arrive(packet.first_cell, connection);
        }
    }

    /// Schedules the next cell. All access links have the same rate, so its place is nearly always at the
    /// end.
    fn arrive(&mut self, at: u64, connection: u32) {
        let key = (at, connection);
        if self.arriving.back().is_none_or(|last| *last < key) {
            self.arriving.push_back(key);
        } else {
            let place = self.arriving.partition_point(|other| *other < key);
            self.arriving.insert(place, key);
        }
    }
}

fn picos(at: Instant) -> u64 {
    at.as_nanos().saturating_mul(PICOS_PER_NANO)
}

/// The first whole nanosecond that is not before `picos`.
fn instant(picos: u64) -> Instant {
    Instant::from_nanos(picos.div_ceil(PICOS_PER_NANO))
}
