//! The datagrams in flight between both ends of a flow. Packets of the engine are plain values without bytes,
//! so the bytes wait here for the arrival of their packet.

use std::collections::VecDeque;

/// Number of later datagrams that may overtake a datagram before it counts as lost.
const OVERTAKEN_MAX: u64 = 10_000;

/// One direction of a flow. The network does not report which datagrams it drops, so a datagram is forgotten
/// once many later ones have arrived. Memory is limited to the datagrams in flight and the latest losses.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Number of the first stored datagram.
    first: u64,
    /// The datagrams, each with the address of the client that it was sent from or to. A datagram that
    /// has arrived is empty.
    datagrams: VecDeque<(Vec<u8>, u16)>,
    /// The last datagram to arrive: the network may deliver a copy directly after it.
    latest: Option<u64>,
    /// Buffers of past datagrams, for reuse.
    spare: Vec<Vec<u8>>,
    /// The messages in the datagrams, in the order of writing: stream and bytes.
    messages: Vec<(u32, u64)>,
    /// Bytes of all messages.
    written: u64,
    /// Number of messages from the first on that have arrived completely, and their bytes.
    whole: usize,
    whole_bytes: u64,
}

impl Flight {
    /// Takes a copy of a datagram and returns its number.
    pub fn send(&mut self, bytes: &[u8], address: u16) -> u64 {
        let mut datagram = self.spare.pop().unwrap_or_default();
        datagram.extend_from_slice(bytes);
        self.datagrams.push_back((datagram, address));
        self.first + self.datagrams.len() as u64 - 1
    }

    /// The datagram with this number, unless it is forgotten.
    pub fn arrive(&mut self, number: u64) -> Option<(&[u8], u16)> {
        if let Some(before) = self.latest.replace(number)
            && before != number
            && let Some(datagram) =
                self.place(before).map(|place| std::mem::take(&mut self.datagrams[place].0))
        {
            self.keep(datagram);
        }
        while number > self.first + OVERTAKEN_MAX {
            let (overtaken, _) = self.datagrams.pop_front()?;
            self.keep(overtaken);
            self.first += 1;
        }
        let (datagram, address) = &self.datagrams[self.place(number)?];
        (!datagram.is_empty()).then_some((datagram, *address))
    }

    /// Registers a new message; returns the number of bytes written before it.
    pub fn begin(&mut self, stream: u32, bytes: u64) -> u64 {
        self.messages.push((stream, bytes));
        self.written += bytes;
        self.written - bytes
    }

    pub fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// The number of bytes of all messages, concatenated, that have arrived without a gap. `received` returns
    /// the bytes received on a stream.
    pub fn in_order(&mut self, received: impl Fn(u32) -> u64) -> u64 {
        while let Some(&(stream, bytes)) = self.messages.get(self.whole) {
            let arrived = received(stream);
            if arrived < bytes {
                return self.whole_bytes + arrived;
            }
            self.whole += 1;
            self.whole_bytes += bytes;
        }
        self.whole_bytes
    }

    fn place(&self, number: u64) -> Option<usize> {
        let place = number.checked_sub(self.first)? as usize;
        (place < self.datagrams.len()).then_some(place)
    }

    fn keep(&mut self, mut datagram: Vec<u8>) {
        if datagram.capacity() > 0 {
            datagram.clear();
            self.spare.push(datagram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_may_come_right_behind_and_an_overtaken_datagram_late() {
        let mut flight = Flight::default();
        for byte in 0..4 {
            assert_eq!(flight.send(&[byte], 7), u64::from(byte));
        }
        for (number, bytes) in
            [(2, Some(&[2][..])), (2, Some(&[2])), (0, Some(&[0])), (2, None), (3, Some(&[3]))]
        {
            assert_eq!(flight.arrive(number), bytes.map(|bytes| (bytes, 7)), "datagram {number}");
        }
    }

    #[test]
    fn messages_are_in_order_up_to_the_first_gap() {
        let mut flight = Flight::default();
        assert_eq!((flight.begin(0, 100), flight.begin(2, 50), flight.begin(1, 30)), (0, 100, 150));
        for (received, in_order) in
            [([0, 0, 0], 0), ([99, 30, 50], 99), ([100, 30, 20], 120), ([100, 30, 50], 180)]
        {
            assert_eq!(flight.in_order(|stream| received[stream as usize]), in_order);
        }
    }

    #[test]
    fn what_is_lost_is_forgotten_in_the_end() {
        let mut flight = Flight::default();
        for number in 0..3 * OVERTAKEN_MAX {
            flight.send(&[1; 1200], 0);
            if number % 2 == 1 {
                assert!(flight.arrive(number).is_some());
            }
        }
        assert!(flight.datagrams.len() as u64 <= OVERTAKEN_MAX + 1);
        assert!(flight.arrive(0).is_none());
    }
}
