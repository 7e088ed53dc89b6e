use lasthop_core::{Direction, DropCause, Ecn, Instant, Segment};

use super::*;
use crate::path::Path;
use crate::testing::{Lab, SEED, datagram, studied_path};

fn segment(flow: u32, payload_bytes: u32) -> Packet {
    let body = Body::Tcp(Segment { payload_bytes, ..Segment::default() });
    Packet { flow: FlowId(flow), body, ..datagram(0, 40 + payload_bytes, Ecn::NotEct) }
}

fn lossy(lists: &[(u32, &[u64])]) -> Lab {
    let path = Path::new(&studied_path(), lasthop_core::Bytes(576), None, Direction::Down, SEED);
    let path = lists.iter().fold(path, |path, (flow, numbers)| path.losing(FlowId(*flow), numbers));
    Lab { path, ..Lab::new(&studied_path(), None) }
}

fn lost(lab: &Lab) -> Vec<u64> {
    lab.dropped(DropCause::DropList).into_iter().map(|(_, packet)| packet).collect()
}

#[test]
fn segments_with_data_count_and_no_others() {
    let mut lab = lossy(&[(0, &[1, 3])]);
    for payload_bytes in [0, 500, 0, 500, 0, 500, 500] {
        lab.send_packet(Instant::ZERO, segment(0, payload_bytes));
    }
    assert_eq!(lost(&lab), [1, 5]);
}

#[test]
fn each_flow_counts_by_itself_and_so_does_each_datagram() {
    let mut lab = lossy(&[(1, &[2]), (2, &[1])]);
    for flow in [0, 1, 2, 1, 2, 0, 1] {
        lab.send_packet(Instant::ZERO, Packet { flow: FlowId(flow), ..datagram(0, 100, Ecn::NotEct) });
    }
    assert_eq!(lost(&lab), [2, 3]);
    lab.run();
    assert_eq!(lab.delivered().len(), 5);
    assert!(lab.arena.is_empty());
}
