//! The handshake: TLS 1.3 by rustls, with an Ed25519 certificate, whose signatures all have the same length.

use std::fmt::Write;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn_proto::TimeSource;
use quinn_proto::crypto;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, KeyLog, RootCertStore, ServerConfig};

use crate::config::Crypto;
use crate::null::Null;
use crate::random::{Lent, X25519};

/// Name of the server in its certificate.
pub(crate) const SERVER_NAME: &str = "server.lasthop";
/// The application protocol (ALPN, RFC 7301): bytes without meaning.
const ALPN: &[u8] = b"lasthop";
/// 2000-01-01, 00:00 UTC, as in captures: the certificate holds from 1999 to 2099.
const EPOCH: Duration = Duration::from_secs(946_684_800);

// A self-signed certificate and its key: the same in every run, and not secret.
const CERTIFICATE: &[u8] = include_bytes!("../identity/certificate.der");
const KEY: &[u8] = include_bytes!("../identity/key.der");

/// The date for checks of certificates and tokens.
#[derive(Debug)]
pub(crate) struct Calendar;

impl TimeProvider for Calendar {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(EPOCH))
    }
}

impl TimeSource for Calendar {
    fn now(&self) -> std::time::SystemTime {
        std::time::SystemTime::UNIX_EPOCH + EPOCH
    }
}

/// ring's algorithms, with our own source of randomness.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { kx_groups: vec![&X25519], secure_random: &Lent, ..ring::default_provider() })
}

/// TLS configuration of both ends of one connection. Connections do not share it, because rustls stores
/// sessions in it.
pub(crate) struct Identities {
    /// Configuration of the connecting host.
    pub client: Arc<dyn crypto::ClientConfig>,
    /// Configuration of the other host.
    pub server: Arc<dyn crypto::ServerConfig>,
    pub secrets: Arc<Secrets>,
}

impl Identities {
    pub fn new(crypto: Crypto, zero_rtt: bool) -> Self {
        let secrets = Arc::<Secrets>::default();
        match crypto {
            Crypto::Tls => {
                let (client, server) = (client(zero_rtt, &secrets), server(zero_rtt, &secrets));
                Self { client: Arc::new(client), server: Arc::new(server), secrets }
            }
            Crypto::Null => Self { client: Arc::new(Null), server: Arc::new(Null), secrets },
        }
    }
}

/// The secrets of a connection that have not been read yet, as lines of a key log. The server reports them:
/// it has each secret before any packet is encrypted with it.
#[derive(Debug, Default)]
pub(crate) struct Secrets(Mutex<Vec<String>>);

impl Secrets {
    pub fn take(&self) -> Vec<String> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Receives the client's secrets that it uses before the server knows them.
#[derive(Debug)]
struct Early(Arc<Secrets>);

impl KeyLog for Early {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if label == "CLIENT_EARLY_TRAFFIC_SECRET" {
            self.0.log(label, client_random, secret);
        }
    }
}

impl KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = label.to_owned();
        for part in [client_random, secret] {
            line.push(' ');
            for byte in part {
                write!(line, "{byte:02x}").expect("a String takes all");
            }
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

fn client(zero_rtt: bool, secrets: &Arc<Secrets>) -> QuicClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).expect("the certificate is well-formed");
    let mut config = ClientConfig::builder_with_details(provider(), Arc::new(Calendar))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_early_data = zero_rtt;
    config.key_log = Arc::new(Early(Arc::clone(secrets)));
    config.try_into().expect("ring has the suite of Initial packets")
}

fn server(zero_rtt: bool, secrets: &Arc<Secrets>) -> QuicServerConfig {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
    let mut config = ServerConfig::builder_with_details(provider(), Arc::new(Calendar))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
        .expect("certificate and key are a pair");
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.key_log = Arc::<Secrets>::clone(secrets);
    // 0 or all there can be (RFC 9001, section 4.6.1).
    config.max_early_data_size = if zero_rtt { u32::MAX } else { 0 };
    config.try_into().expect("ring has the suite of Initial packets")
}
