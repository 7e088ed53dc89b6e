//! Reports of duplicates in an ACK's SACK option.

use lasthop_core::SackList;

/// True if the first block is a D-SACK: it lies below the ACK, or inside the second (RFC 2883, section 4).
pub(crate) fn is_dsack(sack: &SackList, ack: u64) -> bool {
    let blocks = sack.as_slice();
    let enclosed = |first: u64, end: u64| blocks.get(1).is_some_and(|b| first >= b.start && end <= b.end);
    blocks.first().is_some_and(|b| b.start < ack || enclosed(b.start, b.end))
}
