//! The text of page loads' requests and responses, derived from the events.
//!
//! A byte of a stream is the same in every packet that carries it, regardless of the segmentation.

use lasthop_core::{Direction, FlowId, HttpEvent};
use lasthop_traffic::HttpPageConfig;
use std::io::Write;

#[cfg(test)]
mod tests;

/// Length of a body's lines, line feed included.
const LINE_BYTES: u64 = 64;
/// Size of the header within a response whose size includes it; a smaller response has no header.
const CARVED_HEADER_BYTES: u64 = 100;

/// The messages of each flow, in the order of their streams.
#[derive(Debug, Default)]
pub(super) struct Messages {
    flows: Vec<HttpMessages>,
}

#[derive(Debug, Default)]
struct HttpMessages {
    persistent: bool,
    /// The messages from the server, and from the client.
    streams: [Vec<Message>; 2],
}

#[derive(Debug)]
struct Message {
    /// Stream offset of its first byte, and of the first after it.
    start: u64,
    end: u64,
    object: String,
    header: Vec<u8>,
}

impl Messages {
    pub fn note(&mut self, flow: FlowId, event: HttpEvent) {
        let index = flow.0 as usize;
        match event {
            HttpEvent::Request { object, bytes, persistent, closes } => {
                if self.flows.len() <= index {
                    self.flows.resize_with(index + 1, HttpMessages::default);
                }
                self.flows[index].persistent = persistent;
                let name = HttpPageConfig::object_name(object);
                let header = http_request(&name, persistent, closes, bytes);
                self.flows[index].append(Direction::Up, name, header, 0);
            }
            HttpEvent::Response { object, header_bytes, body_bytes } => {
                let name = HttpPageConfig::object_name(object);
                self.flows[index].response(name, header_bytes, body_bytes);
            }
            HttpEvent::FirstByte { .. } | HttpEvent::LastByte { .. } => {}
        }
    }

    /// Writes the part of a stream from `seq` on into `payload`; nothing for a flow without messages.
    pub fn write(&self, flow: FlowId, direction: Direction, mut seq: u64, mut payload: &mut [u8]) {
        let Some(connection) = self.flows.get(flow.0 as usize) else { return };
        let stream = &connection.streams[direction as usize];
        let first = stream.partition_point(|message| message.end <= seq);
        for message in &stream[first..] {
            if payload.is_empty() {
                return;
            }
            let length = payload.len().min((message.end - seq) as usize);
            let (part, rest) = payload.split_at_mut(length);
            message.write(seq - message.start, part);
            seq += length as u64;
            payload = rest;
        }
    }
}

impl HttpMessages {
    fn response(&mut self, object: String, header_bytes: u64, body_bytes: u64) {
        let (header, body) = match header_bytes {
            0 if body_bytes < CARVED_HEADER_BYTES => (0, body_bytes),
            0 => (CARVED_HEADER_BYTES, body_bytes - CARVED_HEADER_BYTES),
            _ => (header_bytes, body_bytes),
        };
        let version = version(self.persistent);
        let fields = format!("{version} 200 OK\r\nContent-Length: {body}\r\nContent-Type: text/plain\r\n");
        self.append(Direction::Down, object, padded(&fields, header as usize), body);
    }

    /// Appends a message. The first byte of data has stream offset 1.
    fn append(&mut self, direction: Direction, object: String, header: Vec<u8>, body_bytes: u64) {
        let stream = &mut self.streams[direction as usize];
        let start = stream.last().map_or(1, |last| last.end);
        let end = start + header.len() as u64 + body_bytes;
        stream.push(Message { start, end, object, header });
    }
}

/// The text of a request of `bytes` bytes, truncated if its lines need more. With `closes` it asks the server
/// to close the connection after the response.
pub fn http_request(object: &str, persistent: bool, closes: bool, bytes: u64) -> Vec<u8> {
    let version = version(persistent);
    let close = if closes { "Connection: close\r\n" } else { "" };
    let fields = format!("GET /{object} {version}\r\nHost: server\r\nUser-Agent: lasthop\r\n{close}");
    padded(&fields, bytes as usize)
}

fn version(persistent: bool) -> &'static str {
    if persistent { "HTTP/1.1" } else { "HTTP/1.0" }
}

/// Header lines of exactly `bytes`, with a field that pads to that size.
fn padded(fields: &str, bytes: usize) -> Vec<u8> {
    const NAME: &str = "X-Padding: ";
    const END: &str = "\r\n\r\n";
    let padding = bytes.saturating_sub(fields.len() + NAME.len() + END.len());
    let mut header = format!("{fields}{NAME}{}{END}", ".".repeat(padding)).into_bytes();
    // In no scenario is a message too small for its fields, but no message may be larger than modelled.
    header.truncate(bytes);
    header
}

impl Message {
    fn write(&self, offset: u64, out: &mut [u8]) {
        let header = self.header.get(offset as usize..).unwrap_or_default();
        let length = header.len().min(out.len());
        let (head, mut rest) = out.split_at_mut(length);
        head.copy_from_slice(&header[..length]);
        let mut at = (offset + length as u64).saturating_sub(self.header.len() as u64);
        while !rest.is_empty() {
            let line = self.line(at - at % LINE_BYTES);
            let line = &line[(at % LINE_BYTES) as usize..];
            let length = line.len().min(rest.len());
            let (part, after) = rest.split_at_mut(length);
            part.copy_from_slice(&line[..length]);
            at += length as u64;
            rest = after;
        }
    }

    /// The line of the body that begins at `start`; it contains the name of the object and `start`.
    fn line(&self, start: u64) -> [u8; LINE_BYTES as usize] {
        let mut line = [b'.'; LINE_BYTES as usize];
        let (text, end) = line.split_at_mut(LINE_BYTES as usize - 1);
        end[0] = b'\n';
        write!(&mut *text, "{}, byte {start} ", self.object).expect("two short numbers fit the line");
        line
    }
}
