//! Van Jacobson's compression of TCP/IP headers (RFC 1144), as in Linux' `slhc.c`: only the difference of a
//! header from the previous one of the same connection crosses the link.
//!
//! A loss on the link affects the following headers, too: they are differences from a header that the far
//! side has not seen, so the host's checksum fails. A header that cannot be expressed as a difference is sent
//! completely, which repairs this. Retransmissions and repeated ACKs are such headers.

use std::collections::VecDeque;

use lasthop_core::{Dscp, Ecn, Flags, FlowId, Packet, SackList, Timestamps};

#[cfg(test)]
mod tests;

/// Number of connections whose last header both sides remember (RFC 1144, section 3.2.2).
const SLOTS: usize = 16;
/// Largest difference that can be expressed.
const DELTA_MAX: u64 = 0xffff;
/// The change mask and TCP's checksum.
const BASE_BYTES: u32 = 3;

/// How a packet crosses the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Unchanged: not TCP, or with SYN, FIN or RST.
    Plain,
    /// With its complete header, which the far side stores in a slot.
    Whole { slot: usize },
    /// As the difference from the header in a slot. The number of the slot is sent if it differs from that of
    /// the previous packet.
    Difference { slot: usize, names_slot: bool },
}

#[derive(Clone, Copy, Debug)]
struct Coded {
    form: Form,
    /// Bytes saved in its header.
    saved: u32,
}

/// The stored fields of a header.
#[derive(Clone, Debug, PartialEq)]
struct Header {
    flow: FlowId,
    bytes: u32,
    dscp: Dscp,
    ecn: Ecn,
    /// All flags except PSH, which a difference carries.
    flags: Flags,
    timestamps: Option<Timestamps>,
    sack: SackList,
    window_bytes: u64,
    seq: u64,
    ack: u64,
    payload_bytes: u32,
}

/// Both ends of one direction of a link that compresses headers.
#[derive(Debug, Default)]
pub(crate) struct VanJacobson {
    /// The headers of the sending side with their slots, the most recent first.
    sent: VecDeque<(usize, Header)>,
    last_slot: Option<usize>,
    /// The packets on the link and in its send buffer, in order.
    coded: VecDeque<Coded>,
    /// True if the far side has a different header in the slot than the sending side.
    is_stale: [bool; SLOTS],
    /// True after a loss: packets without the number of their slot are discarded (RFC 1144, section 4.1).
    tosses: bool,
}

impl Header {
    /// The header of a packet that may be compressed.
    fn of(packet: &Packet) -> Option<Self> {
        let segment = packet.tcp()?;
        let has = |flag| segment.flags.contains(flag);
        if !has(Flags::ACK) || has(Flags::SYN) || has(Flags::FIN) || has(Flags::RST) {
            return None;
        }
        Some(Self {
            flow: packet.flow,
            bytes: packet.ip_bytes - segment.payload_bytes,
            dscp: packet.dscp,
            ecn: packet.ecn,
            flags: segment.flags.without(Flags::PSH),
            timestamps: segment.timestamps,
            sack: segment.sack,
            window_bytes: segment.window_bytes,
            seq: segment.seq,
            ack: segment.ack,
            payload_bytes: segment.payload_bytes,
        })
    }

    /// Bytes of its difference from `before`; none if that cannot be expressed.
    fn difference(&self, before: &Self) -> Option<u32> {
        let same = (self.dscp, self.ecn, self.flags, self.timestamps, &self.sack)
            == (before.dscp, before.ecn, before.flags, before.timestamps, &before.sack);
        // A number that decreases means a retransmission, or an old ACK.
        let seq = self.seq.checked_sub(before.seq).filter(|delta| *delta <= DELTA_MAX)?;
        let ack = self.ack.checked_sub(before.ack).filter(|delta| *delta <= DELTA_MAX)?;
        let window = self.window_bytes.wrapping_sub(before.window_bytes);
        let last = u64::from(before.payload_bytes);
        if !same {
            return None;
        }
        match (seq, ack, window) {
            // Data after an ACK; otherwise it was probably sent before.
            (0, 0, 0) => (self.payload_bytes > 0 && last == 0).then_some(0),
            // The special cases: data in one direction, and the echo of typed characters.
            (seq, 0, 0) if seq == last => Some(0),
            (seq, ack, 0) if seq == last && ack == last => Some(0),
            _ => Some([seq, ack, window].into_iter().map(delta_bytes).sum()),
        }
    }
}

/// Bytes of a difference: one up to 255, otherwise three; an unchanged field takes none.
fn delta_bytes(delta: u64) -> u32 {
    match delta {
        0 => 0,
        1..=255 => 1,
        _ => 3,
    }
}

impl VanJacobson {
    /// A packet enters the send buffer.
    pub(crate) fn send(&mut self, packet: &Packet) {
        let coded = match Header::of(packet) {
            None => Coded { form: Form::Plain, saved: 0 },
            Some(header) => self.code(header),
        };
        self.coded.push_back(coded);
    }

    fn code(&mut self, header: Header) -> Coded {
        let place = self.sent.iter().position(|(_, sent)| sent.flow == header.flow);
        let entry = place.and_then(|place| self.sent.remove(place));
        let slot = match &entry {
            Some((slot, _)) => *slot,
            None if self.sent.len() < SLOTS => self.sent.len(),
            // The slot of the connection that has been silent for longest.
            None => self.sent.pop_back().map_or(0, |(slot, _)| slot),
        };
        let names_slot = self.last_slot.replace(slot) != Some(slot);
        let deltas = entry.and_then(|(_, before)| header.difference(&before));
        let bytes = header.bytes;
        self.sent.push_front((slot, header));
        match deltas {
            None => Coded { form: Form::Whole { slot }, saved: 0 },
            Some(deltas) => {
                let coded = BASE_BYTES + u32::from(names_slot) + deltas;
                Coded { form: Form::Difference { slot, names_slot }, saved: bytes.saturating_sub(coded) }
            }
        }
    }

    /// Bytes saved for the packet with this number of packets before it on the link and in its send buffer.
    pub(crate) fn saved(&self, place: usize) -> u32 {
        self.coded[place].saved
    }

    /// The first packet leaves the link; true if the far side can decode its header. `intact`: it has arrived
    /// intact.
    pub(crate) fn receive(&mut self, intact: bool) -> bool {
        let Some(Coded { form, .. }) = self.coded.pop_front() else { return intact };
        if !intact {
            self.tosses = true;
            if let Form::Whole { slot } | Form::Difference { slot, .. } = form {
                self.is_stale[slot] = true;
            }
            return false;
        }
        match form {
            Form::Plain => true,
            Form::Whole { slot } => {
                self.is_stale[slot] = false;
                self.tosses = false;
                true
            }
            Form::Difference { slot, names_slot } => {
                self.tosses &= !names_slot;
                // A discarded or wrongly decoded header leaves the slot different from the sending side's.
                self.is_stale[slot] |= self.tosses;
                !self.is_stale[slot]
            }
        }
    }
}
