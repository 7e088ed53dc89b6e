//! The ACK filter of CAKE: a pure ACK leaves the queue when a later ACK of its flow includes its information.
//!
//! The rules are those of `cake_ack_filter`. An ACK is superfluous if there is a later packet of its flow that
//! acknowledges more, or selectively more; it must have no payload, no flags but ACK and those of ECN, and no
//! timestamp that is newer. So that ECN loses nothing, the flags of ECN must not change after it.

use lasthop_core::packet::{Flags, SackBlock, Segment};
use lasthop_core::{Packet, PacketArena};

use super::super::fifo::Fifo;

/// The place of the ACK to drop, given that the last packet of the queue has just arrived.
pub(super) fn superfluous(queue: &Fifo, aggressive: bool, arena: &PacketArena) -> Option<usize> {
    let last = queue.packets() as usize - 1;
    let packet = |place| queue.get(place).map(|waiting| arena.get(waiting.id));
    let newest = packet(last)?;
    let news = newest.tcp()?;
    if !news.flags.contains(Flags::ACK) || news.flags.contains(Flags::SYN) {
        return None;
    }
    // The first superfluous ACK, and its flags of ECN.
    let mut first: Option<(usize, Flags)> = None;
    let mut count = 0;
    for place in 0..last {
        let Some(ack) = packet(place).filter(|other| is_same_flow(other, newest)).and_then(Packet::tcp)
        else {
            continue;
        };
        if first.is_some_and(|(_, flags)| flags != ecn_flags(ack)) {
            first = None;
            count -= 1;
        }
        if !says_more(news, ack) {
            continue;
        }
        first = first.or(Some((place, ecn_flags(ack))));
        count += 1;
        if count > 1 {
            return first.map(|(place, _)| place);
        }
    }
    let (place, flags) = first?;
    (aggressive && place + 1 == last && flags == ecn_flags(news)).then_some(place)
}

fn is_same_flow(packet: &Packet, other: &Packet) -> bool {
    (packet.flow, packet.direction) == (other.flow, other.direction)
}

/// The flags that ECN feeds back with (RFC 3168, section 6.1).
fn ecn_flags(segment: &Segment) -> Flags {
    let (ece, cwr) = (Flags::ECE, Flags::CWR);
    let has = |flag| if segment.flags.contains(flag) { flag } else { Flags::default() };
    has(ece).with(has(cwr))
}

/// Whether a later segment makes this one superfluous.
fn says_more(later: &Segment, ack: &Segment) -> bool {
    let is_pure = ack.payload_bytes == 0 && ack.flags.without(Flags::ECE.with(Flags::CWR)) == Flags::ACK;
    // CAKE drops no segment with an option that it does not know (`cake_tcph_may_drop`).
    let is_known = ack.ecn_option().is_none();
    let newer = later.timestamps.unwrap_or_default();
    let is_newer = ack.timestamps.is_some_and(|own| {
        let after = |number: u32, other: u32| number.wrapping_sub(other).cast_signed() > 0;
        after(own.value, newer.value) || after(own.echo, newer.echo)
    });
    if !is_pure || !is_known || is_newer || ack.ack > later.ack {
        return false;
    }
    match selects_more(later.sack.as_slice(), ack) {
        None => false,
        Some(more) => more || ack.ack < later.ack,
    }
}

/// Whether these blocks cover more than those of an ACK; none if they do not cover all of them, or if the ACK
/// reports a duplicate (`cake_tcph_sack_compare`).
fn selects_more(later: &[SackBlock], ack: &Segment) -> Option<bool> {
    let own = ack.sack.as_slice();
    let bytes = |blocks: &[SackBlock]| blocks.iter().map(|block| block.end - block.start).sum::<u64>();
    let is_covered = |block: &SackBlock| {
        block.start >= ack.ack && later.iter().any(|by| by.start <= block.start && by.end >= block.end)
    };
    own.iter().all(is_covered).then(|| bytes(later) > bytes(own))
}
