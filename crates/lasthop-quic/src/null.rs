//! The null replacement for TLS: messages of the same lengths in the same flights, with no content but the
//! transport parameters, and packets that are not encrypted. A key writes a mark in place of the encryption's
//! tag, so that a packet is rejected exactly where TLS would reject it.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

// Lengths of the messages of `tls`. The first flights of the hosts are counted without their transport
// parameters.
const CLIENT_HELLO: usize = 198;
const SERVER_HELLO: usize = 90;
const SERVER_FLIGHT: usize = 469;
const CLIENT_FINISHED: usize = 52;
const SESSION_TICKETS: usize = 162;

/// Length of the tag of AES-GCM; the limits are those of AES-GCM, too (RFC 9001, section 6.6).
const TAG: usize = 16;
const CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
const INTEGRITY_LIMIT: u64 = 1 << 52;

/// Marks of keys; Initial packets use a mark derived from their connection ID.
const HANDSHAKE: u64 = u64::MAX;
const FIRST_DATA: u64 = 0;

/// A host's role in the handshake.
pub(crate) struct Null;

impl ClientConfig for Null {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(NullSession::new(Side::Client, params)))
    }
}

impl ServerConfig for Null {
    fn initial_keys(&self, _version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(initial_keys(dst_cid))
    }

    fn retry_tag(&self, _version: u32, _orig_dst_cid: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; TAG]
    }

    fn start_session(self: Arc<Self>, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(NullSession::new(Side::Server, params))
    }
}

struct NullSession {
    side: Side,
    params: Vec<u8>,
    peer: Option<TransportParameters>,
    unread: Vec<u8>,
    /// Number of messages written and read.
    written: u32,
    read: u32,
    /// Mark of the next data keys.
    next: u64,
}

impl NullSession {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut own = Vec::new();
        params.write(&mut own);
        Self { side, params: own, peer: None, unread: Vec::new(), written: 0, read: 0, next: FIRST_DATA }
    }

    /// Writes a message of `length` bytes with the transport parameters: the length of the message, the
    /// length of the parameters, the parameters, zeros.
    fn write(buf: &mut Vec<u8>, length: usize, params: &[u8]) {
        let end = buf.len() + length + params.len();
        for number in [length + params.len(), params.len()] {
            buf.extend((number as u16).to_be_bytes());
        }
        buf.extend(params);
        buf.resize(end, 0);
    }

    /// The transport parameters in the next message, if it has arrived completely.
    fn message(&mut self) -> Option<Vec<u8>> {
        let number = |place: usize| {
            let bytes = self.unread.get(place..place + 2)?;
            Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
        };
        let (length, params) = (number(0)?, number(2)?);
        if self.unread.len() < length {
            return None;
        }
        let message: Vec<u8> = self.unread.drain(..length).collect();
        Some(message[4..4 + params].to_vec())
    }

    fn data_keys(&mut self) -> KeyPair<Box<dyn PacketKey>> {
        self.next += 1;
        keys(self.next).packet
    }
}

impl Session for NullSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, _side: Side) -> Keys {
        initial_keys(dst_cid)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(false)
    }

    fn is_handshaking(&self) -> bool {
        self.read < 2
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.unread.extend(buf);
        while let Some(params) = self.message() {
            self.read += 1;
            if !params.is_empty() {
                self.peer = Some(TransportParameters::read(self.side, &mut Cursor::new(params))?);
            }
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let (is_due, length, params, new_keys) = match (self.side, self.written) {
            (Side::Client, 0) => (true, CLIENT_HELLO, &self.params[..], None),
            (Side::Client, 1) => (self.read > 0, 0, &[][..], Some(HANDSHAKE)),
            (Side::Client, 2) => (self.read > 1, CLIENT_FINISHED, &[][..], Some(FIRST_DATA)),
            (Side::Server, 0) => (self.read > 0, SERVER_HELLO, &[][..], Some(HANDSHAKE)),
            (Side::Server, 1) => (true, SERVER_FLIGHT, &self.params[..], Some(FIRST_DATA)),
            (Side::Server, 2) => (self.read > 1, SESSION_TICKETS, &[][..], None),
            _ => return None,
        };
        if !is_due {
            return None;
        }
        self.written += 1;
        if length > 0 {
            Self::write(buf, length, params);
        }
        new_keys.map(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(self.data_keys())
    }

    fn is_valid_retry(&self, _orig_dst_cid: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn initial_keys(dst_cid: &ConnectionId) -> Keys {
    keys(dst_cid.iter().fold(0, |mark, byte| mark << 8 | u64::from(*byte)))
}

fn keys(mark: u64) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(NullHeaderKey), remote: Box::new(NullHeaderKey) },
        packet: KeyPair { local: Box::new(NullKey(mark)), remote: Box::new(NullKey(mark)) },
    }
}

/// Writes its mark.
struct NullKey(u64);

impl PacketKey for NullKey {
    fn encrypt(&self, _packet: u64, buf: &mut [u8], _header_len: usize) {
        let mark = buf.len() - size_of::<u64>();
        buf[mark..].copy_from_slice(&self.0.to_be_bytes());
    }

    fn decrypt(&self, _packet: u64, _header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        if payload.len() < TAG || !payload.ends_with(&self.0.to_be_bytes()) {
            return Err(CryptoError);
        }
        payload.truncate(payload.len() - TAG);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        CONFIDENTIALITY_LIMIT
    }

    fn integrity_limit(&self) -> u64 {
        INTEGRITY_LIMIT
    }
}

/// Leaves headers unprotected.
struct NullHeaderKey;

impl HeaderKey for NullHeaderKey {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}
