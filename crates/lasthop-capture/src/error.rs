//! What can be wrong with a capture file.

use std::fmt;
use std::io;

/// Why a capture could not be read. Nothing that was read before is handed out.
#[derive(Debug)]
pub enum CaptureError {
    /// It begins like no format that we know; what it is instead, as far as that can be told.
    NotACapture(&'static str),
    /// Something in the file contradicts its format, or is of a kind that we do not know.
    Unreadable {
        /// What is wrong.
        reason: String,
        /// Byte of the file where the record begins.
        offset: u64,
        /// Whole packets before it.
        packets: u64,
    },
    /// The operating system could not read on.
    Io {
        /// What it said.
        error: io::Error,
        /// Bytes read before.
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
