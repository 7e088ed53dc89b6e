//! The frames of a packet before it is encrypted (RFC 9000, section 19).

use std::ops::Range;

/// What matters here of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Bytes of a stream.
    Stream { id: u64, bytes: Range<u64>, fin: bool },
    /// Asks for an acknowledgment without delay, or for any: a probe carries one.
    Probe,
    /// Bytes of the handshake.
    Crypto,
    /// Anything else.
    Other,
}

/// The frames of a payload, up to the first that is not known.
pub(crate) fn frames(payload: &[u8]) -> impl Iterator<Item = Frame> {
    let mut reader = Reader(payload);
    std::iter::from_fn(move || reader.frame())
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn frame(&mut self) -> Option<Frame> {
        let kind = self.number()?;
        match kind {
            0x00 | 0x1e => {}
            0x01 | 0x1f => return Some(Frame::Probe),
            0x02 | 0x03 => self.acknowledgment(kind == 0x03)?,
            0x04 => self.numbers(3)?,
            0x05 | 0x11 | 0x15 => self.numbers(2)?,
            0x06 => {
                self.number()?;
                self.counted()?;
                return Some(Frame::Crypto);
            }
            0x07 | 0x31 => self.counted()?,
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
            0x30 => self.0 = &[],
            // ACK_FREQUENCY.
            0xaf => self.numbers(4)?,
            _ => return None,
        }
        Some(Frame::Other)
    }

    fn stream(&mut self, kind: u64) -> Option<Frame> {
        let id = self.number()?;
        let offset = if kind & 0x04 == 0 { 0 } else { self.number()? };
        let length = if kind & 0x02 == 0 { self.0.len() as u64 } else { self.number()? };
        self.skip(length)?;
        Some(Frame::Stream { id, bytes: offset..offset + length, fin: kind & 0x01 != 0 })
    }

    fn acknowledgment(&mut self, ecn: bool) -> Option<()> {
        self.numbers(2)?;
        let ranges = self.number()?;
        self.numbers(1 + 2 * ranges + if ecn { 3 } else { 0 })
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

    fn counted(&mut self) -> Option<()> {
        let length = self.number()?;
        self.skip(length)
    }

    fn skip(&mut self, length: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(length).ok()?..)?;
        Some(())
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
        let found: Vec<Frame> = frames(&payload).filter(|frame| *frame != Frame::Other).collect();
        let expected = [
            Frame::Stream { id: 4, bytes: 258..261, fin: false },
            Frame::Probe,
            Frame::Stream { id: 0, bytes: 0..2, fin: true },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_cut_short_ends_the_frames() {
        assert_eq!(frames(&[0x0a, 0, 9, 1]).count(), 0);
    }
}
