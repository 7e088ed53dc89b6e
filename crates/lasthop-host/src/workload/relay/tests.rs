//! A relay between two connections of the loopback device.

use std::io::{ErrorKind, Read, Write};

use super::super::peer::tests::connected;
use super::*;

fn look(peer: &mut Peer) {
    peer.look(Instant::ZERO, &mut ());
}

#[test]
fn data_pass_and_a_reset_beyond_the_relay_comes_back() {
    let ((mut from, mut server), (mut to, mut client)) = (connected(), connected());
    look(&mut to);
    let mut way = RelayDirection::default();
    server.write_all(b"data").unwrap();
    let mut arrived = [0; 4];
    client.set_nonblocking(true).unwrap();
    while client.read(&mut arrived).is_err() {
        way.copy(1000, &mut from, &mut to).unwrap();
    }
    assert_eq!(&arrived, b"data");

    // The client's end goes away without a word, so what comes for it is answered by a reset.
    socket2::SockRef::from(&client).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    server.write_all(b"in vain").unwrap();
    server.set_nonblocking(true).unwrap();
    let error = loop {
        way.copy(1000, &mut from, &mut to).unwrap();
        match server.read(&mut arrived) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            end => break end.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(way.held.is_empty(), "what cannot arrive is not awaited");
}
