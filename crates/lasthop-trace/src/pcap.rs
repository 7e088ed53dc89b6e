//! Packet captures of a run, as pcapng files of raw IPv4 packets with nanosecond timestamps.
//!
//! With a single hop, four points are captured: each host, and both sides of the router queue. The link comes
//! after `router-out`, so its losses are known only after the packet was captured there. With named hops,
//! each host and both ends of each hop are captured, see `points`. Each drop is also a row of a side table,
//! which refers to its packet by the IP identification.
//!
//! The files contain the secrets of encrypted connections, so that Wireshark can decrypt them. QUIC's logs
//! are files next to them.

mod arrivals;
mod http;
mod in_flight;
mod packet;
mod points;
mod qlog;
mod real;

#[cfg(test)]
mod tests;

use arrivals::Arrivals;
use lasthop_core::{
    DropCause, DropPlace, Ecn, FlowId, FlowInfo, Host, HttpEvent, Instant, Observer, Packet, PacketEvent,
};
use packet::{Builder, quic_key};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::blocks::unknown::UnknownBlock;
use pcap_file::{DataLink, Endianness, PcapError};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

pub use http::http_request;
pub use packet::Addresses;
pub use points::CapturePoints;
pub use real::{mark_congestion, sum_after};

/// Start of a run on the captures' clock: 2000-01-01. tcptrace would interpret zero as "not yet".
const EPOCH: Duration = Duration::from_secs(946_684_800);
/// Default snap length: the longest IPv4 packet.
pub const SNAP_LENGTH: u32 = 65_535;
pub const DROPS_FILE: &str = "drops.csv";
/// `if_tsresol`: 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Type of a Decryption Secrets Block (draft-ietf-opsawg-pcapng, section 4.7), and of a TLS key log in it.
const DECRYPTION_SECRETS: u32 = 0x0000_000a;
const TLS_KEY_LOG: u32 = 0x544c_534b;
/// Comment on a packet that the router has marked.
const MARKED: &str = "marked: congestion experienced";
const DROPS_HEADER: &str = "time_s,flow,direction,cause,ip_id,server_port,client_port";
/// A further column in a tree of hops: where the packet was dropped.
const PLACE_COLUMN: &str = ",place";

/// Writes the packets of a run as they pass. It keeps the headers of page loads' messages and, in
/// [`Arrivals`], the packets that may yet get a comment.
///
/// A write error, or a packet that IPv4 and TCP cannot express, ends the capture; [`Capture::finish`]
/// reports it.
pub struct Capture<W: Write> {
    points: CapturePoints,
    /// By point; none where nothing is captured.
    files: Vec<Option<PcapNgWriter<W>>>,
    /// By point; empty where no queue begins.
    arrivals: Vec<Arrivals>,
    applications: Vec<u32>,
    drops: W,
    builder: Builder,
    /// The packets themselves, if hosts make real packets.
    real: Option<real::Real>,
    qlog: Option<qlog::Logs>,
    snap_length: u32,
    /// Serial of the packet that the router marked last before it accepted it: its arrival comes next.
    marked: Option<u64>,
    /// ECN field of the ECN-capable packets of each flow, down and up: what a marked packet had before.
    unmarked: Vec<[Ecn; 2]>,
    failed: Option<io::Error>,
}

impl<W: Write> Capture<W> {
    /// A capture into one writer per captured point and one for the drops (CSV); `open` makes the writer of a
    /// file's name. `comment` becomes the description of every file's section; the first `snap_length` bytes
    /// of each packet are kept. Writes the headers at once.
    pub fn new(
        points: CapturePoints,
        mut open: impl FnMut(&str) -> io::Result<W>,
        comment: &str,
        snap_length: u32,
    ) -> io::Result<Self> {
        let begun = points.names().map(|point| {
            if !points.has(point) {
                return Ok(None);
            }
            let writer = open(&CapturePoints::file_name(point))?;
            begin(writer, point, comment, snap_length).map(Some).map_err(io_error)
        });
        let files = begun.collect::<io::Result<Vec<_>>>()?;
        let mut drops = open(DROPS_FILE)?;
        writeln!(drops, "{DROPS_HEADER}{}", if points.has_far_ends { PLACE_COLUMN } else { "" })?;
        Ok(Self {
            points,
            arrivals: files.iter().map(|_| Arrivals::default()).collect(),
            files,
            applications: Vec::new(),
            drops,
            builder: Builder::default(),
            real: None,
            qlog: None,
            snap_length,
            marked: None,
            unmarked: Vec::new(),
            failed: None,
        })
    }

    /// Captures the exact packets that real hosts send, in place of packets built from the models.
    #[must_use]
    pub fn of_real_packets(self) -> Self {
        Self { real: Some(real::Real::default()), ..self }
    }

    /// Also writes QUIC's logs, in a file of `folder` for each end of a connection.
    #[must_use]
    pub fn with_qlog(self, folder: PathBuf) -> Self {
        Self { qlog: Some(qlog::Logs::new(folder)), ..self }
    }

    /// Ends the capture and returns the writers, that of the drops last; or the error that ended it early.
    pub fn finish(self) -> io::Result<(Vec<W>, W)> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut files = Vec::new();
        for (file, arrivals) in self.files.into_iter().zip(self.arrivals) {
            let Some(mut file) = file else { continue };
            for block in arrivals.rest() {
                file.write_pcapng_block(block).map_err(io_error)?;
            }
            let mut writer = file.into_inner();
            writer.flush()?;
            files.push(writer);
        }
        let mut drops = self.drops;
        drops.flush()?;
        if let Some(logs) = self.qlog {
            logs.finish()?;
        }
        Ok((files, drops))
    }

    fn see(&mut self, now: Instant, event: PacketEvent, packet: &Packet) -> io::Result<()> {
        let application = self.application(packet.flow);
        let sender = packet.direction.sender();
        match event {
            PacketEvent::Sent => {
                let known = self.unmarked.get_mut(packet.flow.0 as usize);
                if let (Ecn::Ect0 | Ecn::Ect1, Some(known)) = (packet.ecn, known) {
                    known[packet.direction as usize] = packet.ecn;
                }
                let point = self.host(application, sender, packet);
                self.write(now, point, packet, 0)
            }
            PacketEvent::Forwarded => self.crossed(now, packet),
            PacketEvent::Delivered | PacketEvent::Duplicated => {
                self.crossed(now, packet)?;
                let point = self.host(application, sender.other(), packet);
                let routers = self.points.on_way(application, packet);
                self.write(now, point, packet, routers)
            }
            PacketEvent::Marked => {
                if self.waits(packet) {
                    self.comment(packet, Cow::Borrowed(MARKED));
                } else {
                    self.marked = Some(packet.serial);
                }
                Ok(())
            }
            PacketEvent::Enqueued(_) => self.arrived(now, packet),
            PacketEvent::Dequeued(_) => {
                self.settle(packet)?;
                match self.points.behind_queue(packet.place) {
                    Some(point) => self.write(now, point, packet, 1),
                    None => Ok(()),
                }
            }
            PacketEvent::Dropped(cause) => {
                if cause.labels().place != DropPlace::Link {
                    if !self.waits(packet) {
                        self.arrived(now, packet)?;
                    }
                    self.comment(packet, Cow::Owned(format!("dropped: {}", cause.labels().label)));
                }
                self.settle(packet)?;
                self.dropped(now, packet, cause)
            }
            PacketEvent::LinkRetry => Ok(()),
        }
    }

    fn crossed(&mut self, now: Instant, packet: &Packet) -> io::Result<()> {
        let Some(point) = self.points.far_end(packet.place) else { return Ok(()) };
        let routers = self.points.before(self.application(packet.flow), packet) + 1;
        self.write(now, point, packet, routers)
    }

    /// A packet arrives at the router queue: before it is marked there.
    fn arrived(&mut self, now: Instant, packet: &Packet) -> io::Result<()> {
        let marked = self.marked.take() == Some(packet.serial);
        let unmarked = self.unmarked.get(packet.flow.0 as usize).copied().unwrap_or([Ecn::Ect0; 2]);
        let ecn = if marked { unmarked[packet.direction as usize] } else { packet.ecn };
        let Some(point) = self.points.arrival(packet.place) else { return Ok(()) };
        let routers = self.points.before(self.application(packet.flow), packet);
        let block = self.block(now, point, packet, ecn, routers)?.map(|(_, block)| block.into_owned());
        if let Some(block) = block {
            self.arrivals[point].add(packet.serial, block);
        }
        if marked {
            self.comment(packet, Cow::Borrowed(MARKED));
        }
        Ok(())
    }

    /// Whether a packet waits in a router queue that is captured.
    fn waits(&self, packet: &Packet) -> bool {
        let point = self.points.arrival(packet.place);
        point.is_some_and(|point| self.arrivals[point].is_waiting(packet.serial))
    }

    /// Adds a comment to a packet, if it waits in a router queue that is captured.
    fn comment(&mut self, packet: &Packet, text: Cow<'static, str>) {
        if let Some(point) = self.points.arrival(packet.place) {
            self.arrivals[point].comment(packet.serial, text);
        }
    }

    /// A packet does not wait any longer: writes what was held back because of it.
    fn settle(&mut self, packet: &Packet) -> io::Result<()> {
        self.marked.take_if(|serial| *serial == packet.serial);
        let Some(point) = self.points.arrival(packet.place) else { return Ok(()) };
        let Some(file) = &mut self.files[point] else { return Ok(()) };
        self.arrivals[point].settle(packet.serial);
        while let Some(block) = self.arrivals[point].take_settled() {
            file.write_pcapng_block(block).map_err(io_error)?;
        }
        Ok(())
    }

    /// The point at the host where a packet begins or ends.
    fn host(&self, application: u32, host: Host, packet: &Packet) -> usize {
        let network = self.real.as_ref().and_then(|real| real.network(packet, host));
        network
            .filter(|point| *point < self.points.hosts)
            .unwrap_or_else(|| self.points.host(application, host))
    }

    fn application(&self, flow: FlowId) -> u32 {
        // Packets of no flow have the number of an application (`FlowId::stranger`).
        self.applications.get(flow.0 as usize).copied().unwrap_or(flow.application_of_stranger())
    }

    fn dropped(&mut self, now: Instant, packet: &Packet, cause: DropCause) -> io::Result<()> {
        let time = now.as_nanos();
        let (identification, client_port) = if let Some(real) = &self.real {
            (real.identification(packet), real.client_port(packet))
        } else {
            let addresses = Addresses::of(packet.flow, packet.server_port)?;
            (packet::identification(packet), addresses.client_port)
        };
        writeln!(
            self.drops,
            "{}.{:09},{},{},{},{},{},{}{}",
            time / 1_000_000_000,
            time % 1_000_000_000,
            packet.flow.0,
            packet.direction.name(),
            cause.labels().name,
            identification,
            packet.server_port,
            client_port,
            self.points.place_name(packet.place).map_or_else(String::new, |name| format!(",{name}")),
        )
    }

    /// Packets encrypted with this secret appear at every point.
    fn keep_secret(&mut self, line: &str) -> io::Result<()> {
        let mut value = Vec::with_capacity(line.len() + 9);
        value.extend(TLS_KEY_LOG.to_le_bytes());
        value.extend((line.len() as u32 + 1).to_le_bytes());
        value.extend(line.as_bytes());
        value.push(b'\n');
        for point in self.files.iter_mut().flatten() {
            let block = UnknownBlock::new(DECRYPTION_SECRETS, value.len() as u32, &value);
            point.write_pcapng_block(block).map_err(io_error)?;
        }
        Ok(())
    }

    fn write(&mut self, now: Instant, point: usize, packet: &Packet, routers: usize) -> io::Result<()> {
        if let Some((file, block)) = self.block(now, point, packet, packet.ecn, routers)? {
            file.write_pcapng_block(block).map_err(io_error)?;
        }
        Ok(())
    }

    /// The packet as seen behind so many routers, and the file of the point; none if it is not captured.
    fn block(
        &mut self,
        now: Instant,
        point: usize,
        packet: &Packet,
        ecn: Ecn,
        routers: usize,
    ) -> io::Result<Option<(&mut PcapNgWriter<W>, EnhancedPacketBlock<'_>)>> {
        let seen = self.points.seen(self.application(packet.flow), routers);
        let Some(file) = &mut self.files[point] else { return Ok(None) };
        let data = match &mut self.real {
            Some(real) => real.bytes(packet, ecn)?,
            None => self.builder.build(packet, ecn, seen)?,
        };
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: EPOCH + Duration::from_nanos(now.as_nanos()),
            original_len: data.len() as u32,
            data: Cow::Borrowed(&data[..data.len().min(self.snap_length as usize)]),
            options: Vec::new(),
        };
        Ok(Some((file, block)))
    }
}

impl<W: Write> Observer for Capture<W> {
    fn announce(&mut self, info: &FlowInfo) {
        self.applications.push(info.application);
        self.unmarked.push([Ecn::Ect0; 2]);
    }

    fn bytes(&mut self, packet: &Packet, bytes: &[u8]) {
        if let Some(real) = &mut self.real {
            real.keep(packet, bytes);
        } else if let Some(key) = quic_key(packet) {
            self.builder.quic.keep(key, bytes);
        }
    }

    fn secret(&mut self, _flow: FlowId, line: &str) {
        if self.failed.is_none() {
            self.failed = self.keep_secret(line).err();
        }
    }

    fn wants_qlog(&self) -> bool {
        self.qlog.is_some()
    }

    fn qlog(&mut self, flow: FlowId, host: Host, records: &[u8]) {
        if let Some(logs) = &mut self.qlog
            && self.failed.is_none()
        {
            self.failed = logs.add(flow, host, records).err();
        }
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if self.failed.is_none() {
            self.failed = self.see(now, event, packet).err();
        }
        if let Some(real) = &mut self.real {
            real.forget(packet, event);
        } else if let Some(key) = quic_key(packet) {
            self.builder.quic.forget(&key, event);
        }
    }

    fn http(&mut self, _now: Instant, flow: FlowId, event: HttpEvent) {
        self.builder.messages.note(flow, event);
    }
}

/// A little-endian section on all machines, with one interface.
fn begin<W: Write>(
    writer: W,
    point: &str,
    comment: &str,
    snap_length: u32,
) -> Result<PcapNgWriter<W>, PcapError> {
    let section = SectionHeaderBlock {
        endianness: Endianness::Little,
        options: vec![
            SectionHeaderOption::Comment(Cow::Owned(comment.to_owned())),
            SectionHeaderOption::UserApplication(Cow::Borrowed(concat!(
                "lasthop ",
                env!("CARGO_PKG_VERSION")
            ))),
        ],
        ..SectionHeaderBlock::default()
    };
    let mut file = PcapNgWriter::with_section_header(writer, section)?;
    file.write_pcapng_block(InterfaceDescriptionBlock {
        linktype: DataLink::RAW,
        snaplen: snap_length,
        options: vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(point)),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ],
    })?;
    Ok(file)
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
