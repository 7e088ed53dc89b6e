//! The packets of a capture as columns, for `lasthop fit`.

use super::decode::{Decoded, Endpoint, FlowKey, Header, TransportPacket, decode};
use lasthop_capture::{CaptureError, Lacks, read};
use lasthop_core::Flags;
use std::collections::BTreeMap;
use std::io::Read;

/// The TCP and UDP packets of a capture, in its order. A number in a column takes as many bytes as it needs:
/// a long capture has millions of packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packets {
    /// Nanoseconds since 1970.
    pub time_ns: Vec<u64>,
    pub flow: Vec<u32>,
    /// 1 if it goes against the flow's first packet.
    pub reverse: Vec<u8>,
    pub seq: Vec<u32>,
    pub ack: Vec<u32>,
    pub bytes: Vec<u32>,
    /// Equal for the same UDP datagram in captures at several points; 0 for TCP.
    pub digest: Vec<u32>,
    pub flags: Vec<u8>,
    /// Window, not scaled.
    pub window: Vec<u16>,
    /// Timestamp and its echo (RFC 7323); 0 without.
    pub stamp: Vec<u32>,
    pub echo: Vec<u32>,
    /// The first SACK block; 0 without.
    pub sack_from: Vec<u32>,
    pub sack_to: Vec<u32>,
    /// The flows, in the order of their first packets.
    pub flows: Vec<PacketFlow>,
    /// Packets whose headers or TCP options are not complete in the capture.
    pub cut_headers: u64,
    pub lacks: Lacks,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PacketFlow {
    /// Source and destination of its first packet.
    pub ends: (Endpoint, Endpoint),
    pub tcp: bool,
    /// The sequence number of the first packet's SYN.
    syn: Option<u32>,
    /// The largest segments that the ends accept, and their window scales, as the SYNs say: of the end that
    /// sent the first packet, then of the other.
    pub mss: [Option<u16>; 2],
    pub scale: [Option<u8>; 2],
    /// The shortest TCP headers of packets with data, in bytes, of the same ends.
    pub header: [Option<u8>; 2],
}

/// Reads the packets of a pcap or pcapng file.
pub fn packets<R: Read>(input: R) -> Result<Packets, CaptureError> {
    let mut packets = Packets::default();
    let mut index = BTreeMap::new();
    packets.lacks = read(input, |frame| {
        match decode(&frame)?.1 {
            Decoded::Transport(packet) => {
                let flow = packets.flow_of(&packet, &mut index);
                packets.push(frame.time_ns, flow, &packet);
            }
            Decoded::Incomplete => packets.cut_headers += 1,
            Decoded::Other | Decoded::Fragment => {}
        }
        Ok(())
    })?;
    Ok(packets)
}

impl Packets {
    /// The index of the packet's flow. A SYN with a new sequence number begins a new one.
    fn flow_of(&mut self, packet: &TransportPacket, index: &mut BTreeMap<FlowKey, usize>) -> usize {
        let (key, syn) = (packet.key(), packet.opening());
        match index.get(&key) {
            Some(&known) if syn.is_none() || syn == self.flows[known].syn => known,
            _ => {
                let ends = (packet.source, packet.destination);
                let tcp = packet.tcp.is_some();
                self.flows.push(PacketFlow {
                    ends,
                    tcp,
                    syn,
                    mss: [None; 2],
                    scale: [None; 2],
                    header: [None; 2],
                });
                index.insert(key, self.flows.len() - 1);
                self.flows.len() - 1
            }
        }
    }

    fn push(&mut self, now_ns: u64, index: usize, packet: &TransportPacket) {
        let flow = &mut self.flows[index];
        let reverse = packet.source != flow.ends.0;
        let header = packet.tcp.unwrap_or_default();
        if header.flags.contains(Flags::SYN) {
            flow.mss[usize::from(reverse)] = header.mss;
            flow.scale[usize::from(reverse)] = header.window_scale;
        }
        if packet.tcp.is_some() && packet.payload_bytes > 0 {
            let shortest = &mut flow.header[usize::from(reverse)];
            *shortest = Some(shortest.unwrap_or(u8::MAX).min(header.length));
        }
        self.cut_headers += u64::from(header.is_cut);
        let Header { seq, ack, window, .. } = header;
        let (stamp, echo) = header.stamps.unwrap_or_default();
        let (sack_from, sack_to) = header.sack[0].unwrap_or_default();
        self.time_ns.push(now_ns);
        self.flow.push(index as u32);
        self.reverse.push(u8::from(reverse));
        self.seq.push(seq);
        self.ack.push(ack);
        self.bytes.push(u32::try_from(packet.payload_bytes).unwrap_or(u32::MAX));
        self.digest.push(packet.digest);
        self.flags.push(header.flags.byte());
        self.window.push(window);
        self.stamp.push(stamp);
        self.echo.push(echo);
        self.sack_from.push(sack_from);
        self.sack_to.push(sack_to);
    }
}
