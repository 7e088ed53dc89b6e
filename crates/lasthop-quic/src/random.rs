//! The source of QUIC's randomness: named streams, so that the same seed gives the same bytes.

use std::cell::RefCell;
use std::mem;

use lasthop_core::RandomStream;
use quinn_proto::{ConnectionId, ConnectionIdGenerator};
use rustls::crypto::{ActiveKeyExchange, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved};
use x25519_dalek::{PublicKey, StaticSecret};

/// The length that quinn's own generators use.
const CONNECTION_ID_BYTES: usize = 8;

// rustls requires generator and key exchange as `&'static`, so they cannot belong to a connection. Instead,
// each call into rustls lends them the connection's stream; between calls they have none.
thread_local! {
    static LENT: RefCell<Option<RandomStream>> = const { RefCell::new(None) };
}

/// Runs `work`, during which rustls draws from `stream`.
pub(crate) fn drawing_from<T>(stream: &mut Option<RandomStream>, work: impl FnOnce() -> T) -> T {
    LENT.with_borrow_mut(|lent| mem::swap(lent, stream));
    let done = work();
    LENT.with_borrow_mut(|lent| mem::swap(lent, stream));
    done
}

/// `N` bytes of a stream.
pub(crate) fn bytes<const N: usize>(stream: &mut RandomStream) -> [u8; N] {
    let mut bytes = [0; N];
    fill(stream, &mut bytes);
    bytes
}

fn fill(stream: &mut RandomStream, bytes: &mut [u8]) {
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&stream.bits().to_le_bytes()[..part.len()]);
    }
}

fn fill_from_lent(bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
    LENT.with_borrow_mut(|lent| lent.as_mut().map(|stream| fill(stream, bytes)).ok_or(GetRandomFailed))
}

/// rustls' random generator.
#[derive(Debug)]
pub(crate) struct Lent;

impl SecureRandom for Lent {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill_from_lent(bytes)
    }
}

/// X25519 (RFC 7748) with keys from the stream: ring's implementation takes them from the operating system.
#[derive(Debug)]
pub(crate) struct X25519;

impl SupportedKxGroup for X25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut secret = [0; 32];
        fill_from_lent(&mut secret)?;
        let secret = StaticSecret::from(secret);
        Ok(Box::new(Exchange { public: PublicKey::from(&secret), secret }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct Exchange {
    secret: StaticSecret,
    public: PublicKey,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer: [u8; 32] = peer.try_into().map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(peer));
        if !shared.was_contributory() {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        Ok(SharedSecret::from(&shared.as_bytes()[..]))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Draws connection IDs.
pub(crate) struct ConnectionIds(pub RandomStream);

impl ConnectionIds {
    pub fn draw(stream: &mut RandomStream) -> ConnectionId {
        ConnectionId::new(&bytes::<CONNECTION_ID_BYTES>(stream))
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        Self::draw(&mut self.0)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}
