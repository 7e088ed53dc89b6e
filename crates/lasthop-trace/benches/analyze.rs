//! Measures how fast captures are read and analysed: `cargo bench -p lasthop-trace`.
//!
//! The capture is first written to the folder for temporary files, so that it is in the system's page cache.
//! Figures are per second of CPU time, so that a busy machine does not distort them.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints")]

use etherparse::PacketBuilder;
use lasthop_trace::analyze;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

const PACKETS: u32 = 4_000_000;
/// Bytes captured of each packet: all headers.
const SNAP_LENGTH: usize = 96;
const PAYLOAD: u32 = 1448;
/// One of 50 segments is sent again.
const RETRANSMIT_EVERY: u32 = 50;

fn main() {
    for flows in [1, 100, 100_000] {
        let path = std::env::temp_dir().join(format!("lasthop-bench-{}-{flows}.pcapng", std::process::id()));
        write(&path, flows).expect("room for the capture");
        let once = || {
            let start = cpu_nanos();
            let found = analyze(File::open(&path).expect("the capture")).expect("a good capture");
            assert_eq!(found.capture.tcp_packets, u64::from(PACKETS));
            assert_eq!(found.streams.len(), 2 * flows as usize);
            (cpu_nanos() - start) as f64 / 1e9
        };
        let seconds = (0..3).map(|_| once()).fold(f64::MAX, f64::min);
        let (packets, megabytes) =
            (f64::from(PACKETS), fs::metadata(&path).expect("the capture").len() as f64 / 1e6);
        fs::remove_file(&path).expect("the capture");
        println!(
            "{PACKETS} packets of {flows:6} connections, {megabytes:.0} MB: {:.2} million packets/s, \
             {:.0} MB/s",
            packets / seconds / 1e6,
            megabytes / seconds
        );
    }
}

/// Connections take turns: two segments, then the ACK of both.
fn write(path: &Path, flows: u32) -> std::io::Result<()> {
    let mut file = PcapNgWriter::with_endianness(BufWriter::new(File::create(path)?), Endianness::Little)
        .and_then(|mut file| {
            file.write_pcapng_block(InterfaceDescriptionBlock::new(DataLink::ETHERNET, SNAP_LENGTH as u32))?;
            Ok(file)
        })
        .map_err(std::io::Error::other)?;
    let mut bytes = Vec::new();
    for number in 0..PACKETS {
        let (turn, flow) = (number / flows, number % flows);
        let sent = turn / 3 * 2 + turn % 3;
        let again = u32::from(sent % RETRANSMIT_EVERY == 1);
        let (server, client) = ([10, 0, 0, 1], [10, 1, (flow >> 8) as u8, flow as u8]);
        let ports = (30_000, 1024 + (flow >> 16) as u16);
        bytes.clear();
        if turn % 3 == 2 {
            PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv4(client, server, 64)
                .tcp(ports.1, ports.0, 1, 65_535)
                .ack(1 + sent * PAYLOAD)
                .write(&mut bytes, &[])
        } else {
            PacketBuilder::ethernet2([4; 6], [2; 6])
                .ipv4(server, client, 64)
                .tcp(ports.0, ports.1, 1 + (sent - again) * PAYLOAD, 65_535)
                .ack(1)
                .write(&mut bytes, &[0; PAYLOAD as usize])
        }
        .map_err(std::io::Error::other)?;
        let block = EnhancedPacketBlock {
            interface_id: 0,
            // The writer takes the value in the interface's unit, microseconds, despite the type.
            timestamp: Duration::from_nanos(u64::from(number)),
            original_len: bytes.len() as u32,
            data: Cow::Borrowed(&bytes[..bytes.len().min(SNAP_LENGTH)]),
            options: Vec::new(),
        };
        file.write_pcapng_block(block).map_err(std::io::Error::other)?;
    }
    file.into_inner().flush()
}

/// CPU time of this process, which has one thread (Linux).
fn cpu_nanos() -> u64 {
    let text = fs::read_to_string("/proc/self/schedstat").expect("a Linux kernel with scheduler statistics");
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds on the CPU first")
}
