//! From TCP headers to the segments of the analysis, whose sequence numbers never wrap.

use etherparse::{TcpHeaderSlice, TcpOptionElement, TcpOptionsIterator};
use lasthop_core::{EcnOption, Flags, Host, SackBlock, Segment, Timestamps};
use std::num::NonZeroU16;

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, Debug, Default)]
pub struct Segments {
    server: SequenceSpace,
    client: SequenceSpace,
}

/// The data that one end has sent.
#[derive(Clone, Copy, Debug, Default)]
struct SequenceSpace {
    /// Its initial sequence number, once it has sent a SYN.
    initial: Option<u32>,
    /// First stream offset after the highest that it has sent.
    end: u64,
    shift: Option<u8>,
}

impl SequenceSpace {
    /// The stream offset of a sequence number: of all that fold into it, the one nearest to the last sent
    /// data.
    fn offset(&self, number: u32) -> u64 {
        let folded = number.wrapping_sub(self.initial.unwrap_or(number));
        let distance = folded.wrapping_sub(self.end as u32).cast_signed();
        self.end.saturating_add_signed(i64::from(distance))
    }
}

impl Segments {
    /// The segment of a header that `sender` sends, and whether any of it was sent before.
    pub fn read(&mut self, sender: Host, header: &TcpHeaderSlice<'_>, payload_bytes: u32) -> (Segment, bool) {
        let (own, peer) = match sender {
            Host::Server => (&mut self.server, &self.client),
            Host::Client => (&mut self.client, &self.server),
        };
        let syn = header.syn();
        if syn && own.initial.is_none() {
            own.initial = Some(header.sequence_number());
        }
        let mut segment = Segment {
            seq: own.offset(header.sequence_number()),
            ack: if header.ack() { peer.offset(header.acknowledgment_number()) } else { 0 },
            payload_bytes,
            flags: flags(header),
            compact: true,
            ..Segment::default()
        };
        read_options(header, peer, &mut segment);
        if syn {
            own.shift = segment.window_scale;
        }
        let shift = match (own.shift, peer.shift) {
            (Some(shift), Some(_)) if !syn => shift,
            _ => 0,
        };
        segment.window_bytes = u64::from(header.window_size()) << shift.min(14);
        let again = segment.sequence_length() > 0 && segment.seq < own.end;
        own.end = own.end.max(segment.end());
        (segment, again)
    }
}

fn flags(header: &TcpHeaderSlice<'_>) -> Flags {
    let set = [
        (header.fin(), Flags::FIN),
        (header.syn(), Flags::SYN),
        (header.rst(), Flags::RST),
        (header.psh(), Flags::PSH),
        (header.ack(), Flags::ACK),
        (header.ece(), Flags::ECE),
        (header.cwr(), Flags::CWR),
        (header.ns(), Flags::AE),
    ];
    set.iter().filter(|(set, _)| *set).fold(Flags::default(), |flags, (_, flag)| flags.with(*flag))
}

/// The blocks of a SACK option refer to the peer's stream. etherparse's iterator ends at the option of
/// accurate ECN, which it does not know.
fn read_options(header: &TcpHeaderSlice<'_>, peer: &SequenceSpace, segment: &mut Segment) {
    let mut options = header.options_iterator();
    let mut counters = None;
    loop {
        let from = options.rest();
        let Some(option) = options.next() else { break };
        let Ok(option) = option else {
            let Some((kind, bytes, rest)) = split(from) else { break };
            counters = counters_of(kind, bytes).or(counters);
            options = TcpOptionsIterator::from_slice(rest);
            continue;
        };
        match option {
            TcpOptionElement::MaximumSegmentSize(bytes) => segment.mss = NonZeroU16::new(bytes),
            TcpOptionElement::WindowScale(shift) => segment.window_scale = Some(shift),
            TcpOptionElement::SelectiveAcknowledgementPermitted => segment.sack_permitted = true,
            TcpOptionElement::SelectiveAcknowledgement(first, others) => {
                for (start, end) in std::iter::once(first).chain(others.into_iter().flatten()) {
                    segment.sack.push(SackBlock { start: peer.offset(start), end: peer.offset(end) });
                }
            }
            TcpOptionElement::Timestamp(value, echo) => {
                segment.timestamps = Some(Timestamps { value, echo });
            }
            TcpOptionElement::Noop => {}
        }
    }
    if let Some(counters) = &counters {
        segment.set_ecn_option(counters);
    }
}

/// The first option: its number and its content, and what follows it.
pub(super) fn split(options: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let &[kind, length, ..] = options else { return None };
    let (option, rest) = options.split_at_checked(length.into())?;
    Some((kind, option.get(2..)?, rest))
}

/// The counters of accurate ECN in the content of an option (RFC 9768, section 3.2.3).
fn counters_of(kind: u8, bytes: &[u8]) -> Option<EcnOption> {
    let mut option = [true, false]
        .map(|is_order_1| EcnOption { is_order_1, ..EcnOption::default() })
        .into_iter()
        .find(|option| option.kind() == kind)?;
    for (count, field) in option.counts.iter_mut().zip(bytes.chunks_exact(3)) {
        *count = u32::from_be_bytes([0, field[0], field[1], field[2]]);
        option.fields += 1;
    }
    Some(option)
}
