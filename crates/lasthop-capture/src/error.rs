//! Errors of capture files.

use std::fmt;
use std::io;

/// Why a capture could not be read. The packets read before the error are not returned.
#[derive(Debug)]
pub enum CaptureError {
    /// Its beginning matches no known format; with its probable format.
    NotACapture(&'static str),
    /// A part of the file violates its format or is of an unknown kind.
    Unreadable {
        reason: String,
        /// Byte of the file where the record begins.
        offset: u64,
        /// Complete packets before it.
        packets: u64,
    },
    Io {
        error: io::Error,
        offset: u64,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACapture(what) => write!(f, "neither pcap nor pcapng: {what}"),
            Self::Unreadable { reason, offset, packets } => {
                write!(f, "unreadable at byte {offset}, after {packets} packets: {reason}")
            }
            Self::Io { error, offset } => write!(f, "cannot be read beyond byte {offset}: {error}"),
        }
    }
}

impl std::error::Error for CaptureError {}
