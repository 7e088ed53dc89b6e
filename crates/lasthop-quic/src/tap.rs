//! Observation of packets before encryption: a session whose keys note the frames of their packets.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use lasthop_core::{Duration, forward};
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

use crate::datagrams;
use crate::frames::{Frame, frames};
use crate::qlog::Log;

/// An action of an end, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Note {
    /// It sends these bytes of the stream with this number, and possibly the end of the stream.
    Bytes(u32, Range<u64>, bool),
    /// It sends the datagram with this number and size.
    Datagram(u64, u32),
    /// It sends `PING` or `IMMEDIATE_ACK`.
    Probe,
    /// It sends a part of the handshake.
    Crypto,
    /// It has measured a round-trip time.
    Rtt(Duration),
    /// The current congestion window, the slow start threshold if there is one, and the bytes in flight.
    Window { window: u64, threshold: Option<u64>, in_flight: u64 },
    /// It has found losses, or a mark if there are none.
    Congestion { lost_bytes: u64 },
    /// Everything sent over a long period was lost.
    PersistentCongestion,
}

/// The notes of quinn-proto's callbacks, which the end reads. They must be `Send`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Note>>>);

impl Notes {
    pub fn add(&self, note: Note) {
        self.lock().push(note);
    }

    /// Moves all notes to `notes`.
    pub fn take(&self, notes: &mut Vec<Note>) {
        notes.append(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receivers of observations.
#[derive(Clone)]
pub(crate) struct Tap {
    pub notes: Notes,
    pub log: Option<Log>,
}

impl Tap {
    fn session(&self, inner: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(TappedSession { inner, tap: self.clone() })
    }

    fn key(&self, inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(TappedKey { inner, tap: self.clone() })
    }

    fn pair(&self, pair: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.key(pair.local), remote: self.key(pair.remote) }
    }

    fn keys(&self, keys: Keys) -> Keys {
        Keys { header: keys.header, packet: self.pair(keys.packet) }
    }
}

/// A configuration with observed sessions.
pub(crate) struct Tapped<T: ?Sized> {
    pub inner: Arc<T>,
    pub tap: Tap,
}

impl<T: ClientConfig + ?Sized> ClientConfig for Tapped<T> {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = Arc::clone(&self.inner).start_session(version, server_name, params)?;
        Ok(self.tap.session(inner))
    }
}

impl<T: ServerConfig + ?Sized> ServerConfig for Tapped<T> {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(self.tap.keys(self.inner.initial_keys(version, dst_cid)?))
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let inner = Arc::clone(&self.inner).start_session(version, params);
        self.tap.session(inner)
    }
}

struct TappedSession {
    inner: Box<dyn Session>,
    tap: Tap,
}

impl Session for TappedSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.tap.keys(self.inner.initial_keys(dst_cid, side))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let (header, inner) = self.inner.early_crypto()?;
        Some((header, self.tap.key(inner)))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        Some(self.tap.keys(keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        Some(self.tap.pair(keys))
    }

    forward! { inner:
        fn handshake_data(&self) -> Option<Box<dyn Any>>;
        fn peer_identity(&self) -> Option<Box<dyn Any>>;
        fn early_data_accepted(&self) -> Option<bool>;
        fn is_handshaking(&self) -> bool;
        fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError>;
        fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError>;
        fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool;
        fn export_keying_material(
            &self,
            output: &mut [u8],
            label: &[u8],
            context: &[u8],
        ) -> Result<(), ExportKeyingMaterialError>;
    }
}

struct TappedKey {
    inner: Box<dyn PacketKey>,
    tap: Tap,
}

impl PacketKey for TappedKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let payload = header_len..buf.len() - self.inner.tag_len();
        if let Some(log) = &self.tap.log {
            log.note_packet(buf.len(), &buf[payload.clone()]);
        }
        for frame in frames(&buf[payload]) {
            match frame {
                Frame::Stream { id, bytes, fin } => {
                    // The two lowest bits identify which end opened the stream, and that it is bidirectional (RFC
                    // 9000, section 2.1).
                    self.tap.notes.add(Note::Bytes((id >> 2) as u32, bytes, fin));
                }
                Frame::Datagram(content) => {
                    if let Some(number) = datagrams::number(content) {
                        self.tap.notes.add(Note::Datagram(number, content.len() as u32));
                    }
                }
                Frame::Probe(_) => self.tap.notes.add(Note::Probe),
                Frame::Crypto(_) => self.tap.notes.add(Note::Crypto),
                Frame::Ack(_) | Frame::Other(_) => {}
            }
        }
        self.inner.encrypt(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = header.len() + payload.len();
        self.inner.decrypt(packet, header, payload)?;
        if let Some(log) = &self.tap.log {
            log.note_packet(length, payload);
        }
        Ok(())
    }

    forward! { inner:
        fn tag_len(&self) -> usize;
        fn confidentiality_limit(&self) -> u64;
        fn integrity_limit(&self) -> u64;
    }
}
