//! Between the packets of a script and the segments of the model: sequence numbers, timestamps and windows.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use lasthop_core::{Ecn, EcnOption, Flags, Instant, SackBlock, Segment, Timestamps};

use crate::script::{PacketSpec, TcpOption};

/// A segment that the host has sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub at: Instant,
    pub segment: Segment,
    pub ecn: Ecn,
}

/// Translates numbers of the script into those of the model and back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    /// Numbers of the SYNs in the script: the peer's, and the host's, which its first packet contains.
    peer_first: u32,
    own_first: Option<u32>,
    /// Shift count of the peer's windows.
    shift: u8,
    /// The host's timestamps by those of the script, and the first pair.
    stamps: BTreeMap<u32, u32>,
    first_stamp: Option<(u32, u32)>,
}

impl Wire {
    /// The segment that arrives. `scaling`: this host scales windows if the peer does.
    pub fn inject(
        &mut self,
        packet: &PacketSpec,
        scaling: bool,
        scales_echo: bool,
    ) -> Result<Segment, String> {
        let is_syn = packet.flags.contains(Flags::SYN);
        let options = packet.options.as_deref().unwrap_or_default();
        if is_syn {
            self.peer_first = packet.seq;
            self.shift = options
                .iter()
                .filter_map(
                    |option| if let TcpOption::WindowScale(shift) = option { Some(*shift) } else { None },
                )
                .find(|_| scaling)
                .unwrap_or_default();
        }
        let own_first = self.own_first.unwrap_or(0);
        let own = |number: u32| u64::from(number.wrapping_sub(own_first));
        let mut segment = Segment {
            seq: packet.seq.wrapping_sub(self.peer_first).into(),
            ack: packet.ack.map_or(0, own),
            window_bytes: u64::from(packet.window.unwrap_or(0)) << if is_syn { 0 } else { self.shift },
            payload_bytes: packet.payload,
            flags: packet.flags,
            ..Segment::default()
        };
        let mut counters = None;
        for option in options {
            match option {
                TcpOption::Mss(mss) => segment.mss = NonZeroU16::new(*mss),
                TcpOption::WindowScale(shift) => segment.window_scale = Some(*shift),
                TcpOption::SackPermitted => segment.sack_permitted = true,
                TcpOption::Sack(blocks) => {
                    for block in blocks {
                        let [start, end] = [block.start, block.end].map(|edge| own(edge as u32));
                        segment.sack.push(SackBlock { start, end });
                    }
                }
                TcpOption::Timestamps(value, echo) => {
                    let has_echo = packet.ack.is_some();
                    let echo = if has_echo { self.live_stamp(*echo, scales_echo)? } else { 0 };
                    segment.timestamps = Some(Timestamps { value: *value, echo });
                }
                TcpOption::Ecn(option) => counters = Some(option),
                TcpOption::Nop | TcpOption::Eol | TcpOption::Foreign(_) => {}
            }
        }
        if let Some(counters) = counters {
            segment.set_ecn_option(counters);
        }
        Ok(segment)
    }

    /// The host's timestamp for one of the script.
    fn live_stamp(&self, script: u32, scales: bool) -> Result<u32, String> {
        let first_pair = self.first_stamp.filter(|_| scales);
        let guess = first_pair.map(|(first, live)| script.wrapping_sub(first).wrapping_add(live));
        self.stamps.get(&script).copied().or(guess).ok_or_else(|| {
            format!("no earlier packet has TS val {script}; --tcp_ts_ecr_scaled would interpolate")
        })
    }

    /// Compares sent segments with the expected packet, except for the time. Several segments of one burst are
    /// one packet, with PSH and FIN of the last.
    pub fn compare(&mut self, expected: &PacketSpec, parts: &[Sent]) -> Result<(), String> {
        let Some(sent) = joined(parts) else { return Err("nothing was sent".to_owned()) };
        if sent.segment.flags.contains(Flags::SYN) && expected.flags.contains(Flags::SYN) {
            self.own_first.get_or_insert(expected.seq);
        }
        if let (Some(live), Some((script, _))) = (sent.segment.timestamps, stamps(expected)) {
            self.stamps.insert(script, live.value);
            self.first_stamp.get_or_insert((script, live.value));
        }
        let matches = Self::flags_match(expected, sent.segment.flags)
            && expected.seq == self.seq(&sent.segment)
            && expected.payload == sent.segment.payload_bytes
            && expected.ack.is_none_or(|ack| ack == self.ack(&sent.segment))
            && expected.ecn.as_ref().is_none_or(|accepted| accepted.contains(&sent.ecn));
        if matches && self.options_match(expected, &sent.segment) {
            Ok(())
        } else {
            Err(self.describe(&sent))
        }
    }

    fn flags_match(expected: &PacketSpec, flags: Flags) -> bool {
        match expected.ace {
            Some(ace) => {
                let field = Flags::from_ace(0b111);
                ace == flags.ace() && expected.flags.without(field) == flags.without(field)
            }
            None => expected.flags == flags,
        }
    }

    /// True if the options match, in order. Timestamps are checked separately.
    fn options_match(&self, expected: &PacketSpec, segment: &Segment) -> bool {
        let Some(expected) = &expected.options else { return true };
        let sent = self.options(segment);
        let matches = |(expected, sent): (&TcpOption, &TcpOption)| match (expected, sent) {
            (TcpOption::Timestamps(_, expected), TcpOption::Timestamps(_, sent)) => expected == sent,
            _ => expected == sent,
        };
        expected.len() == sent.len() && expected.iter().zip(&sent).all(matches)
    }

    /// The error of the timestamp, in ticks.
    pub fn stamp_error(&self, expected: &PacketSpec, sent: &Sent) -> Option<u32> {
        let ((script, _), live) = (stamps(expected)?, sent.segment.timestamps?);
        let (first, first_live) = self.first_stamp?;
        let expected = live.value.wrapping_sub(first_live).wrapping_add(first);
        Some(expected.wrapping_sub(script).cast_signed().unsigned_abs())
    }

    fn seq(&self, segment: &Segment) -> u32 {
        (segment.seq as u32).wrapping_add(self.own_first.unwrap_or(0))
    }

    fn ack(&self, segment: &Segment) -> u32 {
        (segment.ack as u32).wrapping_add(self.peer_first)
    }

    /// The options of a segment as Linux lays them out (`tcp_options_write`).
    fn options(&self, segment: &Segment) -> Vec<TcpOption> {
        let mut options = Vec::new();
        let padding = [TcpOption::Nop, TcpOption::Nop];
        options.extend(segment.mss.map(|mss| TcpOption::Mss(mss.get())));
        if let Some(Timestamps { value, echo }) = segment.timestamps {
            if segment.shares_padding() {
                options.push(TcpOption::SackPermitted);
            } else {
                options.extend(padding.clone());
            }
            let value =
                self.first_stamp.map_or(value, |(first, live)| value.wrapping_sub(live).wrapping_add(first));
            options.push(TcpOption::Timestamps(value, echo));
        }
        let ecn = segment.ecn_option();
        if let Some(ecn) = ecn {
            options.push(TcpOption::Ecn(ecn));
            let end = usize::from(ecn.length());
            let padded = EcnOption::bytes(ecn.fields, !segment.sack.is_empty()) as usize;
            options.extend((end..padded.max(end)).map(|_| TcpOption::Nop));
        }
        if segment.sack_permitted && !segment.shares_padding() {
            options.extend(padding.clone());
            options.push(TcpOption::SackPermitted);
        }
        if let Some(shift) = segment.window_scale {
            options.extend([TcpOption::Nop, TcpOption::WindowScale(shift)]);
        }
        if !segment.sack.is_empty() {
            let skipped = ecn.map_or(0, |ecn| usize::from(ecn.length() % 4 % 3));
            options.extend(padding.into_iter().skip(skipped));
            let peer = u64::from(self.peer_first);
            let block = |b: &SackBlock| SackBlock { start: b.start + peer, end: b.end + peer };
            options.push(TcpOption::Sack(segment.sack.as_slice().iter().map(block).collect()));
        }
        options
    }

    /// A segment that was sent, in the language of scripts.
    pub fn describe(&self, sent: &Sent) -> String {
        let segment = &sent.segment;
        let first = self.seq(segment);
        let flags = segment.flags.without(Flags::ACK);
        let has_ack = segment.flags.contains(Flags::ACK);
        let ecn = match sent.ecn {
            Ecn::NotEct => "noecn",
            Ecn::Ect0 => "ect0",
            Ecn::Ect1 => "ect1",
            Ecn::Ce => "ce",
        };
        let mut text = format!(
            "> [{ecn}] {flags:?}{} {first}:{}({})",
            if has_ack { "." } else { "" },
            first.wrapping_add(segment.payload_bytes),
            segment.payload_bytes
        );
        if has_ack {
            text = format!("{text} ack {}", self.ack(segment));
        }
        let options: Vec<String> = self.options(segment).iter().map(TcpOption::to_string).collect();
        if !options.is_empty() {
            text = format!("{text} <{}>", options.join(","));
        }
        text
    }
}

/// Value and echo of a packet's timestamps.
fn stamps(packet: &PacketSpec) -> Option<(u32, u32)> {
    packet.options.as_ref()?.iter().find_map(|option| match option {
        TcpOption::Timestamps(value, echo) => Some((*value, *echo)),
        _ => None,
    })
}

/// The segments of a burst as one packet: PSH and FIN are those of the last, CWR is that of the first.
fn joined(parts: &[Sent]) -> Option<Sent> {
    let (first, last) = (parts.first()?, parts.last()?);
    let mut joined = *last;
    joined.segment.seq = first.segment.seq;
    joined.segment.payload_bytes = parts.iter().map(|part| part.segment.payload_bytes).sum();
    if parts.len() > 1 {
        let reduced = if first.segment.flags.contains(Flags::CWR) { Flags::CWR } else { Flags::default() };
        joined.segment.flags = last.segment.flags.without(Flags::CWR).with(reduced);
    }
    Some(joined)
}

/// True if a segment continues the packet of another one.
pub(crate) fn continues(before: &Sent, next: &Sent) -> bool {
    let free = Flags::PSH.with(Flags::FIN).with(Flags::CWR);
    let (first, second) = (&before.segment, &next.segment);
    second.seq == first.end()
        && second.payload_bytes > 0
        && second.ack == first.ack
        && before.ecn == next.ecn
        && first.flags.without(free) == second.flags.without(free)
}
