//! A recording of a flow: the times and sizes of its packets.

use std::fmt;
use std::sync::Arc;

use lasthop_core::Duration;

#[cfg(test)]
mod tests;

const HEADER: &str = "time_s,bytes";
/// Maximum number of packets of a recording, which becomes part of its scenario.
const PACKETS_MAX: usize = 200_000;
/// Maximum length of a recording: no run lasts longer unless its scenario states it.
const SPAN_MAX: Duration = Duration::from_secs(1_000_000);
/// Largest payload of a datagram.
const BYTES_MAX: u32 = 65_507;

/// The packets of a recording, in order of time. A complete scenario holds the text of the CSV file.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    packets: Arc<[Packet]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Time since the recording's time 0.
    pub at: Duration,
    pub bytes: u32,
}

impl Recording {
    /// Takes packets in any order; an error describes a fault of one packet, or of all of them.
    pub fn new(mut packets: Vec<Packet>) -> Result<Self, String> {
        if packets.is_empty() {
            return Err("it contains no packets".into());
        }
        if packets.len() > PACKETS_MAX {
            return Err(format!(
                "has {} packets, but at most {PACKETS_MAX} are replayed; shorten it",
                packets.len()
            ));
        }
        let possible = |packet: &Packet| (1..=BYTES_MAX).contains(&packet.bytes);
        if let Some(number) = packets.iter().position(|packet| !possible(packet)) {
            return Err(format!(
                "packet {} has {} bytes, but a datagram has from 1 to {BYTES_MAX}; capture without \
                 segmentation offload",
                number + 1,
                packets[number].bytes
            ));
        }
        packets.sort_by_key(|packet| packet.at);
        let recording = Self { packets: packets.into() };
        if recording.end() > SPAN_MAX {
            return Err(format!("lasts \"{}\"; shorten it to \"{SPAN_MAX}\"", recording.end()));
        }
        Ok(recording)
    }

    /// Reads a CSV file: the header `time_s,bytes`, then a line for each packet, in order of time.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = (1..).zip(text.trim_start_matches('\u{feff}').lines());
        let header: Vec<_> = lines.next().map_or("", |(_, line)| line).split(',').map(str::trim).collect();
        if header.join(",") != HEADER {
            return Err(format!("line 1: the header is {:?}; write {HEADER:?}", header.join(",")));
        }
        let mut packets: Vec<Packet> = Vec::new();
        for (number, line) in lines {
            let packet = Packet::parse(line).map_err(|reason| format!("line {number}: {reason}"))?;
            if packets.last().is_some_and(|last| last.at > packet.at) {
                return Err(format!(
                    "line {number}: the time is before that of the line above; sort the lines"
                ));
            }
            packets.push(packet);
        }
        Self::new(packets)
    }

    /// The packets, in order of time.
    pub fn packets(&self) -> Arc<[Packet]> {
        Arc::clone(&self.packets)
    }

    /// When the last packet leaves.
    pub fn end(&self) -> Duration {
        self.packets[self.packets.len() - 1].at
    }

    /// Payload of all packets together.
    pub fn total_bytes(&self) -> u64 {
        self.packets.iter().map(|packet| u64::from(packet.bytes)).sum()
    }

    /// Number, from 1, and payload of the largest packet.
    pub(crate) fn largest(&self) -> (usize, u32) {
        let sizes = (1..).zip(self.packets.iter().map(|packet| packet.bytes));
        sizes.max_by_key(|(_, bytes)| *bytes).unwrap_or_default()
    }
}

impl Packet {
    fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split(',').map(str::trim).collect();
        let [time, bytes] = words[..] else {
            return Err(format!("{:?} has {} values; write two, as in the header", line.trim(), words.len()));
        };
        let is_plain = time.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let at = format!("{time} s").parse().ok().filter(|_| is_plain).ok_or_else(|| {
            format!("time_s: {time:?} is not a time; write seconds with at most nine decimals, such as 0.02")
        })?;
        let bytes = bytes.parse().ok().filter(|bytes| (1..=BYTES_MAX).contains(bytes)).ok_or_else(|| {
            format!("bytes: {bytes:?} is not the size of a datagram; write a number from 1 to {BYTES_MAX}")
        })?;
        Ok(Self { at, bytes })
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        for Packet { at, bytes } in self.packets.iter() {
            let (whole, nanos) = (at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000);
            writeln!(f, "{whole}.{nanos:09},{bytes}")?;
        }
        Ok(())
    }
}

lasthop_core::file_serde!(
    Recording,
    "Recording",
    "A capture, or a CSV file with the columns time_s and bytes, in the scenario's folder."
);
