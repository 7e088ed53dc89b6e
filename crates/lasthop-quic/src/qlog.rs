//! The qlog of an end, for qvis: draft-ietf-quic-qlog-main-schema-03 and -quic-events-03, as a JSON text
//! sequence (RFC 7464).
//!
//! quinn-proto writes the events. This module adds the missing parts: the owner of the log, and the length
//! and frames of packets. It also corrects quinn-proto's errors.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lasthop_core::Host;
use quinn_proto::{QlogConfig, QlogStream};
use serde_json::{Value, json};

use crate::frames::{Frame, frames};

/// First byte of each record of a JSON text sequence.
const RECORD_SEPARATOR: u8 = 0x1e;
/// Unit of an acknowledgment's delay in ms: 2^3 us, the default, which no end changes (RFC 9000, section
/// 18.2).
const ACK_DELAY_MS: f64 = 0.008;
const RTTS: [&str; 4] = ["min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"];

/// The log of an end. quinn-proto holds its parts, so they must be `Send`.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    host: Host,
    /// Complete records that have not been taken yet.
    records: Vec<u8>,
    /// The record that quinn-proto is writing.
    coming: Vec<u8>,
    /// Length and frames of the packet whose record comes next.
    packet: (usize, Vec<Value>),
}

impl Log {
    pub fn of(host: Host) -> Self {
        let packet = (0, Vec::new());
        Self(Arc::new(Mutex::new(Kept { host, records: Vec::new(), coming: Vec::new(), packet })))
    }

    /// The writer for quinn-proto, with `base` as time zero.
    pub fn stream(&self, base: Instant) -> Option<QlogStream> {
        let mut config = QlogConfig::default();
        config.writer(Box::new(self.clone())).start_time(base);
        config.into_stream()
    }

    /// Notes that a packet of this length with this payload was sent or received. quinn-proto logs it next,
    /// or not at all.
    pub fn note_packet(&self, length: usize, payload: &[u8]) {
        let mut shown: Vec<Value> = Vec::new();
        for frame in frames(payload) {
            // Each byte of padding is a frame.
            if frame != Frame::Other(0) || shown.last().is_none_or(|last| last["frame_type"] != "padding") {
                shown.push(described(&frame));
            }
        }
        self.lock().packet = (length, shown);
    }

    /// Hands on the records that have been written.
    pub fn take(&self, mut receive: impl FnMut(&[u8])) {
        let mut kept = self.lock();
        if !kept.records.is_empty() {
            receive(&kept.records);
            kept.records.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.lock();
        kept.coming.extend_from_slice(bytes);
        if bytes.ends_with(b"\n") {
            kept.complete()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Kept {
    fn complete(&mut self) -> io::Result<()> {
        let text = self.coming.strip_prefix(&[RECORD_SEPARATOR]).unwrap_or(&self.coming);
        let mut record: Value = serde_json::from_slice(text)?;
        self.coming.clear();
        self.amend(&mut record);
        self.records.push(RECORD_SEPARATOR);
        serde_json::to_writer(&mut self.records, &record)?;
        self.records.push(b'\n');
        Ok(())
    }

    fn amend(&mut self, record: &mut Value) {
        // The log describes one connection, regardless of the connection ID that quinn-proto uses for it.
        forget(record, "group_id");
        match record["name"].as_str() {
            None => {
                let end = match self.host {
                    Host::Server => "server",
                    Host::Client => "client",
                };
                record["trace"]["vantage_point"] = json!({ "type": end });
            }
            Some("transport:packet_sent" | "transport:packet_received") => {
                let (length, frames) = std::mem::take(&mut self.packet);
                record["data"]["raw"] = json!({ "length": length });
                record["data"]["frames"] = frames.into();
            }
            // quinn-proto writes seconds, but qlog requires milliseconds; this writes them to the
            // microsecond.
            Some("recovery:metrics_updated") => {
                for name in RTTS {
                    if let Some(seconds) = record["data"][name].as_f64() {
                        record["data"][name] = json!((seconds * 1e6).round() / 1e3);
                    }
                }
                // There is no threshold before the first loss.
                if record["data"]["ssthresh"] == u64::MAX {
                    forget(&mut record["data"], "ssthresh");
                }
            }
            // quinn-proto attributes every loss to the reordering threshold.
            Some("recovery:packet_lost") => {
                forget(&mut record["data"], "trigger");
            }
            Some(_) => {}
        }
    }
}

fn forget(object: &mut Value, key: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(key);
    }
}

/// A frame in qlog's form. Frames that only control the connection have just a type.
fn described(frame: &Frame<'_>) -> Value {
    match frame {
        Frame::Stream { id, bytes, fin } => json!({
            "frame_type": "stream",
            "stream_id": id,
            "offset": bytes.start,
            "length": bytes.end - bytes.start,
            "fin": fin,
        }),
        Frame::Crypto(bytes) => {
            json!({ "frame_type": "crypto", "offset": bytes.start, "length": bytes.end - bytes.start })
        }
        Frame::Datagram(content) => json!({ "frame_type": "datagram", "length": content.len() }),
        Frame::Ack(acknowledgment) => json!({
            "frame_type": "ack",
            "ack_delay": acknowledgment.delay as f64 * ACK_DELAY_MS,
            "acked_ranges": acknowledgment.ranges().collect::<Vec<_>>(),
        }),
        Frame::Probe(kind) | Frame::Other(kind) => match name(*kind) {
            Some(name) => json!({ "frame_type": name }),
            None => json!({ "frame_type": "unknown", "raw_frame_type": kind }),
        },
    }
}

/// RFC 9000, section 19; without extensions.
fn name(kind: u64) -> Option<&'static str> {
    Some(match kind {
        0x00 => "padding",
        0x01 => "ping",
        0x04 => "reset_stream",
        0x05 => "stop_sending",
        0x07 => "new_token",
        0x10 => "max_data",
        0x11 => "max_stream_data",
        0x12 | 0x13 => "max_streams",
        0x14 => "data_blocked",
        0x15 => "stream_data_blocked",
        0x16 | 0x17 => "streams_blocked",
        0x18 => "new_connection_id",
        0x19 => "retire_connection_id",
        0x1a => "path_challenge",
        0x1b => "path_response",
        0x1c | 0x1d => "connection_close",
        0x1e => "handshake_done",
        _ => return None,
    })
}
