//! The frames of a packet before it is encrypted (RFC 9000, section 19).

use std::ops::Range;

/// The relevant content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Bytes of a stream.
    Stream { id: u64, bytes: Range<u64>, fin: bool },
    /// A frame that only elicits an acknowledgment (PING), or one without delay (`IMMEDIATE_ACK`), as in
    /// probes; with its type.
    Probe(u64),
    /// Bytes of the handshake.
    Crypto(Range<u64>),
    /// A datagram with this content (RFC 9221).
    Datagram(&'a [u8]),
    /// An acknowledgment of packets.
    Ack(Acknowledgment<'a>),
    /// Anything else, of this type.
    Other(u64),
}

/// The acknowledged packets, and how long the last of them waited for this frame, in the sender's units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgment<'a> {
    largest: u64,
    pub delay: u64,
    first_range: u64,
    others: u64,
    /// Gaps and lengths of the other ranges.
    rest: &'a [u8],
}

impl Acknowledgment<'_> {
    /// The packets' numbers, first and last of each range, the highest range first (RFC 9000, section
    /// 19.3.1).
    pub fn ranges(&self) -> impl Iterator<Item = [u64; 2]> {
        let mut reader = Reader(self.rest);
        let mut smallest = self.largest.saturating_sub(self.first_range);
        let others = (0..self.others).map_while(move |_| {
            let largest = smallest.checked_sub(reader.number()? + 2)?;
            smallest = largest.checked_sub(reader.number()?)?;
            Some([smallest, largest])
        });
        std::iter::once([smallest, self.largest]).chain(others)
    }
}

/// The frames of a payload, up to the first unknown frame.
pub(crate) fn frames(payload: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut reader = Reader(payload);
    std::iter::from_fn(move || reader.frame())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn frame(&mut self) -> Option<Frame<'a>> {
        let kind = self.number()?;
        match kind {
            0x00 | 0x1e => {}
            0x01 | 0x1f => return Some(Frame::Probe(kind)),
            0x02 | 0x03 => return self.acknowledgment(kind == 0x03),
            0x04 => self.numbers(3)?,
            0x05 | 0x11 | 0x15 => self.numbers(2)?,
            0x06 => {
                let offset = self.number()?;
                return Some(Frame::Crypto(offset..offset + self.counted()?));
            }
            0x07 => drop(self.counted()?),
            0x08..=0x0f => return self.stream(kind),
            0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => self.numbers(1)?,
            0x18 => {
                self.numbers(2)?;
                let length = *self.0.first()?;
                self.skip(1 + u64::from(length) + 16)?;
            }
            0x1a | 0x1b => self.skip(8)?,
            0x1c | 0x1d => {
                self.numbers(if kind == 0x1c { 2 } else { 1 })?;
                self.counted()?;
            }
            0x30 => return Some(Frame::Datagram(std::mem::take(&mut self.0))),
            0x31 => {
                let length = self.number()?;
                return self.take(length).map(Frame::Datagram);
            }
            // ACK_FREQUENCY.
            0xaf => self.numbers(4)?,
            _ => return None,
        }
        Some(Frame::Other(kind))
    }

    fn stream(&mut self, kind: u64) -> Option<Frame<'a>> {
        let id = self.number()?;
        let offset = if kind & 0x04 == 0 { 0 } else { self.number()? };
        let length = if kind & 0x02 == 0 { self.0.len() as u64 } else { self.number()? };
        self.skip(length)?;
        Some(Frame::Stream { id, bytes: offset..offset + length, fin: kind & 0x01 != 0 })
    }

    fn acknowledgment(&mut self, ecn: bool) -> Option<Frame<'a>> {
        let (largest, delay) = (self.number()?, self.number()?);
        let (others, first_range) = (self.number()?, self.number()?);
        let rest = self.0;
        self.numbers(2 * others + if ecn { 3 } else { 0 })?;
        Some(Frame::Ack(Acknowledgment { largest, delay, first_range, others, rest }))
    }

    /// A variable-length integer (RFC 9000, section 16).
    fn number(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let length = 1 << (first >> 6);
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes[1..].iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte)))
    }

    fn numbers(&mut self, count: u64) -> Option<()> {
        (0..count).try_for_each(|_| self.number().map(drop))
    }

    fn counted(&mut self) -> Option<u64> {
        let length = self.number()?;
        self.skip(length)?;
        Some(length)
    }

    fn skip(&mut self, length: u64) -> Option<()> {
        self.take(length).map(drop)
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_in_appendix_a_of_rfc_9000() {
        let number = |bytes: &[u8]| Reader(bytes).number();
        assert_eq!(number(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]), Some(151_288_809_941_952_652));
        assert_eq!(number(&[0x9d, 0x7f, 0x3e, 0x7d]), Some(494_878_333));
        assert_eq!(number(&[0x7b, 0xbd]), Some(15_293));
        assert_eq!(number(&[0x25]), Some(37));
        assert_eq!(number(&[0x40]), None);
    }

    #[test]
    fn a_stream_frame_says_which_bytes_it_carries() {
        // An ACK of packets 0 to 2 and 5, PADDING, 3 bytes of stream 4 from 258 on, the rest of stream 0.
        let payload = [0x02, 5, 0, 1, 0, 1, 2, 0x00, 0x0e, 4, 0x41, 0x02, 3, 9, 9, 9, 0x1f, 0x09, 0, 7, 7];
        let mut found: Vec<Frame<'_>> = frames(&payload).collect();
        let Frame::Ack(acknowledgment) = found.remove(0) else { panic!("{found:?}") };
        assert_eq!(acknowledgment.ranges().collect::<Vec<_>>(), [[5, 5], [0, 2]]);
        let expected = [
            Frame::Other(0),
            Frame::Stream { id: 4, bytes: 258..261, fin: false },
            Frame::Probe(0x1f),
            Frame::Stream { id: 0, bytes: 0..2, fin: true },
        ];
        assert_eq!(found, expected);
    }

    /// RFC 9221, section 4: a datagram with a length field, and one that extends to the end of the packet.
    #[test]
    fn a_datagram_frame_has_its_content() {
        let found: Vec<Frame<'_>> = frames(&[0x31, 2, 8, 9, 0x01, 0x30, 7, 7, 7]).collect();
        assert_eq!(found, [Frame::Datagram(&[8, 9]), Frame::Probe(1), Frame::Datagram(&[7, 7, 7])]);
        assert_eq!(frames(&[0x31, 3, 8, 9]).count(), 0);
    }

    #[test]
    fn what_is_cut_short_ends_the_frames() {
        assert_eq!(frames(&[0x0a, 0, 9, 1]).count(), 0);
    }
}
