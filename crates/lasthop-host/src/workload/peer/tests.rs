//! On connections of the loopback device.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

/// An end of a connection, and the program at its other end.
pub fn connected() -> (Peer, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sending = Sending { paced: false, nagle: false, mptcp: false };
    let own = socket("127.0.0.1:0".parse().unwrap(), Dscp::default(), sending).unwrap();
    // It never blocks, so it says that the connection is under way.
    let _ = own.connect(&listener.local_addr().unwrap().into());
    let (other, _) = listener.accept().unwrap();
    other.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let mut peer = Peer::new(FlowId(0), Host::Client, 65_535);
    peer.open(own);
    (peer, other)
}

#[test]
fn an_end_that_gives_up_resets_the_connection_and_reads_no_more() {
    let (mut peer, mut other) = connected();
    other.write_all(b"never read").unwrap();
    peer.give_up();
    let error = other.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(peer.read_up_to(10, &mut Vec::new()).unwrap(), "nothing more will come");
    // Once is enough.
    peer.give_up();
}

#[test]
fn an_end_that_closes_says_so_and_resets_nothing() {
    let (mut peer, mut other) = connected();
    peer.close();
    peer.flush();
    assert_eq!(other.read(&mut [0; 10]).unwrap(), 0);
    other.write_all(b"late").unwrap();
    let mut late = Vec::new();
    while late.len() < 4 {
        assert!(!peer.read_up_to(10, &mut late).unwrap());
    }
    assert_eq!(late, b"late");
}
