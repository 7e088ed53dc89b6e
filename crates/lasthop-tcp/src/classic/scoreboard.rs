//! The blocks that SACK has reported, as ranges in sequence order.

use lasthop_core::{SackBlock, SackList};

/// The data that the receiver holds above the first unacknowledged byte.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassicScoreboard {
    /// Disjoint, in order, not touching.
    blocks: Vec<SackBlock>,
}

impl ClassicScoreboard {
    /// Enters the blocks of an ACK. Returns true if they report new data (RFC 6675, section 2). Blocks below
    /// `una` (D-SACK) and beyond `max` are ignored.
    pub fn apply(&mut self, sack: &SackList, una: u64, max: u64) -> bool {
        let mut news = false;
        for &block in sack.as_slice() {
            if block.start >= una && block.end <= max && block.start < block.end {
                news |= self.insert(block);
            }
        }
        news
    }

    fn insert(&mut self, block: SackBlock) -> bool {
        let first = self.blocks.partition_point(|known| known.end < block.start);
        let after = self.blocks.partition_point(|known| known.start <= block.end);
        if first == after {
            self.blocks.insert(first, block);
            return true;
        }
        let merged = SackBlock {
            start: block.start.min(self.blocks[first].start),
            end: block.end.max(self.blocks[after - 1].end),
        };
        let news = after - first > 1 || merged != self.blocks[first];
        self.blocks[first] = merged;
        self.blocks.drain(first + 1..after);
        news
    }

    /// Everything below `una` is acknowledged.
    pub fn acknowledge(&mut self, una: u64) {
        let passed = self.blocks.partition_point(|block| block.end <= una);
        self.blocks.drain(..passed);
    }

    /// The first gap at or above `from` with reported data above it.
    pub fn next_hole(&self, from: u64) -> Option<SackBlock> {
        let mut start = from;
        for block in &self.blocks {
            if start < block.start {
                return Some(SackBlock { start, end: block.start });
            }
            start = start.max(block.end);
        }
        None
    }

    pub fn clear(&mut self) {
        self.blocks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64, end: u64) -> SackBlock {
        SackBlock { start, end }
    }

    fn list(blocks: &[(u64, u64)]) -> SackList {
        let mut list = SackList::default();
        for &(start, end) in blocks {
            list.push(block(start, end));
        }
        list
    }

    #[test]
    fn holes_are_what_lies_between_reported_blocks() {
        let mut board = ClassicScoreboard::default();
        assert!(board.apply(&list(&[(30, 40), (10, 20)]), 1, 100));
        assert!(!board.apply(&list(&[(30, 40), (12, 20)]), 1, 100), "nothing new");
        assert_eq!(board.next_hole(1), Some(block(1, 10)));
        assert_eq!(board.next_hole(10), Some(block(20, 30)));
        assert_eq!(board.next_hole(25), Some(block(25, 30)));
        assert_eq!(board.next_hole(30), None);
        assert!(board.apply(&list(&[(20, 30)]), 1, 100), "it joins two");
        assert_eq!(board.next_hole(1), Some(block(1, 10)));
        assert_eq!(board.next_hole(10), None);
        board.acknowledge(40);
        assert_eq!(board.next_hole(40), None);
    }

    #[test]
    fn blocks_outside_what_is_outstanding_are_ignored() {
        let mut board = ClassicScoreboard::default();
        assert!(!board.apply(&list(&[(1, 5), (90, 110)]), 5, 100));
        assert_eq!(board.next_hole(5), None);
    }
}
