//! The cache in which Linux keeps what TCP has learnt of other hosts (`tcp_metrics.c`).

use crate::generic_netlink::Requests;
use netlink_packet_core::Emitable;
use netlink_packet_generic::GenlFamily;
use std::io;

/// Empties the cache of the caller's network namespace.
pub fn flush() -> io::Result<()> {
    Requests::open()?.send(DeleteAll)
}

/// `TCP_METRICS_CMD_DEL` without an address, which removes all entries of the network namespace.
#[derive(Debug)]
struct DeleteAll;

impl GenlFamily for DeleteAll {
    fn family_name() -> &'static str {
        "tcp_metrics"
    }

    fn command(&self) -> u8 {
        2
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for DeleteAll {
    fn buffer_len(&self) -> usize {
        0
    }

    fn emit(&self, _: &mut [u8]) {}
}
