//! Shared helpers for tests of endpoints.

use lasthop_core::{Ecn, Instant, Segment};
use lasthop_tcp::Endpoint;

/// The next segment that an endpoint sends, with the ECN field of its packet.
pub fn poll(endpoint: &mut Endpoint, now: Instant) -> Option<(Segment, Ecn)> {
    let mut segment = Segment::default();
    endpoint.poll_transmit(now, &mut segment).map(|ecn| (segment, ecn))
}
