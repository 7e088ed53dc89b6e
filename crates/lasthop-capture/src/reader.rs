//! Capture files, record by record: pcap and pcapng, either byte order, any clock resolution.
//!
//! The parsers are those of pcap-parser; this module does the framing. A record is passed to its parser only
//! when it is complete. So errors distinguish truncated files, damaged files and files that are not captures,
//! and give the place of the fault.

use crate::error::CaptureError;
use pcap_parser::pcapng::{
    Block, InterfaceDescriptionBlock, InterfaceStatisticsBlock, OptionCode, parse_block_be, parse_block_le,
};
use pcap_parser::{
    LegacyPcapBlock, PcapHeader, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified,
    parse_pcap_header,
};
use std::io::{ErrorKind, Read};

const CHUNK: usize = 256 * 1024;
/// Longest packet that the capture programs write (libpcap's `MAXIMUM_SNAPLEN`).
const MAX_PACKET: usize = 262_144;
/// Longest pcapng block that Wireshark accepts.
const MAX_BLOCK: usize = 16 * 1024 * 1024;
const PCAP_HEADER: usize = 24;
const BLOCK_FRAME: usize = 12;
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The packet block of pcapng before 2004.
const OBSOLETE_PACKET: u32 = 2;
const NANOS: u128 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Link type, as <https://www.tcpdump.org/linktypes.html> numbers them.
    pub link: u32,
    pub wire_length: usize,
    pub data: &'a [u8],
}

/// What a capture lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// If the capture ends in the middle of a record, for example because its writer was killed: the byte
    /// where that record begins.
    pub cut_at: Option<u64>,
    /// Packets that interfaces and the operating system dropped before they were captured, by the counters in
    /// the file.
    pub dropped: u64,
}

/// Passes every packet of a capture to `see`, which may reject it with a reason. Memory is that of the longest
/// record.
pub fn read<R: Read>(
    input: R,
    mut see: impl FnMut(Frame<'_>) -> Result<(), String>,
) -> Result<Lacks, CaptureError> {
    let mut reader = Reader::new(input)?;
    while reader.record(&mut see)? {}
    reader.end_of_section();
    Ok(Lacks { cut_at: reader.cut_at, dropped: reader.dropped })
}

struct Reader<R> {
    input: R,
    /// The part of the file in memory: `buffer[start..end]`, from byte `offset` on.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    packets: u64,
    cut_at: Option<u64>,
    /// Packets dropped in the sections before this one.
    dropped: u64,
    format: Format,
}

enum Format {
    Pcap(PcapHeader),
    PcapNg { big_endian: bool, interfaces: Vec<Interface> },
}

#[derive(Clone, Copy)]
struct Interface {
    link: u32,
    /// Resolution and offset of its clock.
    units_per_second: u64,
    offset_s: i64,
    /// Packets dropped so far, by the newest interface statistics block.
    dropped: u64,
}

impl<R: Read> Reader<R> {
    fn new(input: R) -> Result<Self, CaptureError> {
        let format = Format::PcapNg { big_endian: false, interfaces: Vec::new() };
        let mut reader = Self {
            input,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            offset: 0,
            packets: 0,
            cut_at: None,
            dropped: 0,
            format,
        };
        reader.fill(PCAP_HEADER)?;
        if !reader.bytes().starts_with(&SECTION_HEADER) {
            match parse_pcap_header(reader.bytes()) {
                Ok((_, header)) => {
                    reader.format = Format::Pcap(header);
                    reader.advance(PCAP_HEADER);
                }
                Err(_) => return Err(CaptureError::NotACapture(guess(reader.bytes()))),
            }
        }
        Ok(reader)
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn advance(&mut self, length: usize) {
        self.start += length;
        self.offset += length as u64;
    }

    /// Reads until `length` bytes are in memory or the file ends; true if they are in memory.
    fn fill(&mut self, length: usize) -> Result<bool, CaptureError> {
        if self.end - self.start >= length {
            return Ok(true);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < length {
            self.buffer.resize(length.next_multiple_of(CHUNK), 0);
        }
        while self.end < length {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(CaptureError::Io { error, offset: self.offset + self.end as u64 });
                }
            }
        }
        Ok(true)
    }

    /// Adds up the counters of the section's interfaces, which a new section clears.
    fn end_of_section(&mut self) {
        if let Format::PcapNg { interfaces, .. } = &mut self.format {
            self.dropped +=
                interfaces.drain(..).fold(0, |sum: u64, interface| sum.saturating_add(interface.dropped));
        }
    }

    /// The next record; false at the end of the file.
    fn record(
        &mut self,
        see: &mut impl FnMut(Frame<'_>) -> Result<(), String>,
    ) -> Result<bool, CaptureError> {
        let Some(length) = self.whole_record()? else { return Ok(false) };
        if self.bytes().starts_with(&SECTION_HEADER) {
            self.end_of_section();
        }
        let record = &self.buffer[self.start..self.start + length];
        let outcome = match &mut self.format {
            Format::Pcap(header) => pcap_packet(header, record).map(Some),
            Format::PcapNg { big_endian, interfaces } => block(*big_endian, interfaces, record),
        };
        let outcome = outcome.and_then(|frame| frame.map(&mut *see).transpose());
        match outcome {
            Ok(packet) => self.packets += u64::from(packet.is_some()),
            Err(reason) => return Err(self.damaged(reason)),
        }
        self.advance(length);
        Ok(true)
    }

    /// Reads a complete record into memory. Returns its length, or `None` at the end of the file.
    fn whole_record(&mut self) -> Result<Option<usize>, CaptureError> {
        let head = match &self.format {
            Format::Pcap(header) => packet_head(header),
            Format::PcapNg { .. } => BLOCK_FRAME,
        };
        let mut whole = self.fill(head)?;
        if self.bytes().is_empty() {
            return Ok(None);
        }
        let mut length = 0;
        if whole {
            length = match &mut self.format {
                Format::Pcap(header) => packet_length(header, &self.buffer[self.start..self.end]),
                Format::PcapNg { big_endian, .. } => {
                    block_length(big_endian, &self.buffer[self.start..self.end])
                }
            }
            .map_err(|reason| self.damaged(reason))?;
            whole = self.fill(length)?;
        }
        if !whole {
            if self.offset == 0 {
                return Err(CaptureError::NotACapture("it ends within its header"));
            }
            self.cut_at = Some(self.offset);
            return Ok(None);
        }
        Ok(Some(length))
    }

    fn damaged(&self, reason: String) -> CaptureError {
        CaptureError::Unreadable { reason, offset: self.offset, packets: self.packets }
    }
}

/// The probable format of a file with this beginning.
fn guess(bytes: &[u8]) -> &'static str {
    match bytes {
        [] => "it is empty",
        [0x1f, 0x8b, ..] => "it is compressed by gzip, decompress it first",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is compressed by zstd, decompress it first",
        _ if bytes.len() < PCAP_HEADER => "it is too short for either",
        _ => "its first bytes match neither format",
    }
}

fn packet_head(header: &PcapHeader) -> usize {
    if header.is_modified_format() { 24 } else { 16 }
}

/// Length of a pcap record that begins with these bytes, its head included.
fn packet_length(header: &PcapHeader, bytes: &[u8]) -> Result<usize, String> {
    let captured = word(bytes, 8, header.is_bigendian()) as usize;
    if captured > MAX_PACKET {
        return Err(format!("a packet of {captured} captured bytes exceeds the maximum"));
    }
    Ok(packet_head(header) + captured)
}

fn pcap_packet<'a>(header: &PcapHeader, record: &'a [u8]) -> Result<Frame<'a>, String> {
    let parse = match (header.is_modified_format(), header.is_bigendian()) {
        (true, _) => parse_pcap_frame_modified,
        (false, true) => parse_pcap_frame_be,
        (false, false) => parse_pcap_frame,
    };
    let (_, LegacyPcapBlock { ts_sec, ts_usec, origlen, data, .. }) =
        parse(record).map_err(|_| "not a packet record".to_owned())?;
    let (unit_ns, per_second) =
        if header.is_nanosecond_precision() { (1, 1_000_000_000) } else { (1000, 1_000_000) };
    if ts_usec >= per_second {
        return Err(format!("the time has {ts_usec} of {per_second} parts of a second"));
    }
    Ok(Frame {
        time_ns: u64::from(ts_sec) * 1_000_000_000 + u64::from(ts_usec) * unit_ns,
        // The upper bits say whether a frame check sequence follows the packet.
        link: header.network.0.cast_unsigned() & 0x03ff_ffff,
        wire_length: origlen as usize,
        data,
    })
}

/// Length of a pcapng block that begins with these bytes. A section header defines its byte order.
fn block_length(big_endian: &mut bool, bytes: &[u8]) -> Result<usize, String> {
    if bytes.starts_with(&SECTION_HEADER) {
        *big_endian = match bytes[8..12] {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => return Err("a section header without its byte-order mark".to_owned()),
        };
    }
    let length = word(bytes, 4, *big_endian) as usize;
    if length < BLOCK_FRAME || !length.is_multiple_of(4) || length > MAX_BLOCK {
        return Err(format!("a block cannot have {length} bytes"));
    }
    Ok(length)
}

fn block<'a>(
    big_endian: bool,
    interfaces: &mut Vec<Interface>,
    record: &'a [u8],
) -> Result<Option<Frame<'a>>, String> {
    let kind = word(record, 0, big_endian);
    if word(record, record.len() - 4, big_endian) as usize != record.len() {
        return Err("a block has two different lengths".to_owned());
    }
    let parse = if big_endian { parse_block_be } else { parse_block_le };
    let (_, block) = parse(record).map_err(|_| format!("the content of a block of type {kind} is broken"))?;
    match block {
        Block::InterfaceDescription(description) => interfaces.push(interface(&description, big_endian)?),
        Block::EnhancedPacket(packet) => {
            let interface = interfaces.get(packet.if_id as usize).ok_or_else(|| {
                format!("a packet of interface {}, for which there is no description", packet.if_id)
            })?;
            let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            return Ok(Some(Frame {
                time_ns: interface.time_ns(units)?,
                link: interface.link,
                wire_length: packet.origlen as usize,
                data: packet.data.get(..packet.caplen as usize).unwrap_or(packet.data),
            }));
        }
        Block::InterfaceStatistics(statistics) => {
            if let Some(interface) = interfaces.get_mut(statistics.if_id as usize) {
                interface.dropped = dropped(&statistics, big_endian);
            }
        }
        Block::SimplePacket(_) => return Err("a simple packet block, which has no time".to_owned()),
        Block::Unknown(_) if kind == OBSOLETE_PACKET => {
            return Err("a packet block of the obsolete kind; rewrite the file with editcap".to_owned());
        }
        _ => {}
    }
    Ok(None)
}

fn interface(description: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Result<Interface, String> {
    let mut interface = Interface {
        link: description.linktype.0.cast_unsigned(),
        units_per_second: 1_000_000,
        offset_s: 0,
        dropped: 0,
    };
    // `ts_resolution()` and `ts_offset()` do not support powers of two and big-endian offsets.
    for option in &description.options {
        match (option.code, option.value()) {
            (OptionCode::IfTsresol, &[resolution, ..]) => {
                let exponent = u32::from(resolution & 0x7f);
                let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
                interface.units_per_second = base
                    .checked_pow(exponent)
                    .ok_or_else(|| format!("a clock of {base}^{exponent} ticks a second"))?;
            }
            (OptionCode::IfTsoffset, value) => {
                let offset = value.first_chunk().ok_or("an if_tsoffset of less than 8 bytes")?;
                interface.offset_s =
                    if big_endian { i64::from_be_bytes(*offset) } else { i64::from_le_bytes(*offset) };
            }
            (OptionCode::EndOfOpt, _) => break,
            _ => {}
        }
    }
    Ok(interface)
}

/// The sum of `isb_ifdrop` and `isb_osdrop`, which count since the beginning of the capture.
fn dropped(statistics: &InterfaceStatisticsBlock<'_>, big_endian: bool) -> u64 {
    let counters = statistics.options.iter().filter_map(|option| match (option.code, option.value()) {
        (OptionCode::IsbIfDrop | OptionCode::IsbOsDrop, value) => {
            let count = value.first_chunk()?;
            Some(if big_endian { u64::from_be_bytes(*count) } else { u64::from_le_bytes(*count) })
        }
        _ => None,
    });
    counters.fold(0, u64::saturating_add)
}

impl Interface {
    fn time_ns(self, units: u64) -> Result<u64, String> {
        let since_offset = u128::from(units) * NANOS / u128::from(self.units_per_second);
        i128::try_from(since_offset)
            .ok()
            .and_then(|nanos| nanos.checked_add(i128::from(self.offset_s) * 1_000_000_000))
            .and_then(|nanos| u64::try_from(nanos).ok())
            .ok_or_else(|| "a time before 1970 or after 2554".to_owned())
    }
}

fn word(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let word = *bytes[at..].first_chunk().expect("the head of a record is in memory");
    if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}
