//! The last hop: router queue, RED, link errors, ARQ, link buffers.

pub mod config;

pub use config::{
    ArqConfig, BufferRelease, ErrorConfig, LinkConfig, PathConfig, QueueConfig, RedConfig, StateLookup,
};
