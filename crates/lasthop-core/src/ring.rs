//! Ring buffers that stay in use long after their peak length.

use std::collections::VecDeque;

/// A ring with less room than this is left as it is.
const ROOM_KEPT: usize = 16;

/// Frees most of the capacity of a ring that is now much shorter than at its peak. Entries cycle through the whole
/// capacity: after one large flight, each new entry would be written to memory outside of the processor's caches.
/// Code that removes entries from a ring calls this.
#[inline]
pub fn trim<T>(ring: &mut VecDeque<T>) {
    if ring.len() < ring.capacity() / 3 && ring.capacity() > ROOM_KEPT {
        shrink(ring);
    }
}

#[cold]
#[inline(never)]
fn shrink<T>(ring: &mut VecDeque<T>) {
    ring.shrink_to(ring.capacity() / 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_room_for_thrice_its_length_and_its_order() {
        let mut ring: VecDeque<u32> = (0..1000).collect();
        for number in 0..1000 {
            assert_eq!(ring.pop_front(), Some(number));
            trim(&mut ring);
            assert!(
                ring.capacity() <= ROOM_KEPT.max(3 * (ring.len() + 1)),
                "{} of {}",
                ring.len(),
                ring.capacity()
            );
            assert!(ring.iter().copied().eq(number + 1..1000));
        }
        assert!(ring.capacity() >= ROOM_KEPT / 2, "a short ring does not fetch memory again and again");
    }
}
