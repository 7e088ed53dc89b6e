//! Page loads through the whole engine.

use crate::support::{bulk, http, page, path, replications, scenario, udp};
use lasthop_core::{Bytes, Duration, QueueSize};
use lasthop_scenario::Scenario;
use lasthop_trace::{Outcome, Records};
use lasthop_traffic::{FlowConfig, HeaderWrite, HttpConfig, HttpProtocol};

/// 64 kbit/s and 300 ms in both directions, no loss.
fn loaded(http: HttpConfig, flows: Vec<FlowConfig>) -> Records {
    let link = path(64_000, Duration::from_millis(300), QueueSize::Packets(20), 9600);
    let scenario = Scenario { http: Some(http), ..scenario(576, &link, flows) };
    replications(&scenario, 1, 1).remove(0)
}

fn response_ns(http: HttpConfig, inline_count: u32) -> u64 {
    let records = loaded(http, vec![page("page", 400, inline_count, Duration::ZERO)]);
    let response_s = records.pages[0].response_time_s.expect("it ended");
    (response_s * 1e9).round() as u64
}

/// When all packets that a host sends back to back have arrived. Each packet takes 80 ns a byte on the LAN
/// and 125 us a byte on the link. The link begins when the first packet has passed the LAN and 150 us of
/// delay; 300 ms of delay follow.
fn arrival_ns(packets: &[u64]) -> u64 {
    80 * packets[0] + 150_000 + 125_000 * packets.iter().sum::<u64>() + 300_000_000
}

/// One object of 400 bytes. A SYN has 48 bytes, an ACK 40; both ends send a separate ACK before they send the
/// data of their application.
#[test]
fn the_response_time_of_a_tiny_page_is_what_a_pencil_says() {
    let handshake = arrival_ns(&[48]) + arrival_ns(&[48]);
    let request = arrival_ns(&[40, 140]);
    let response_and_fin = arrival_ns(&[40, 440]);
    let one = handshake + request + response_and_fin;
    assert_eq!(one, 1_295_114_080);
    assert_eq!(response_ns(http(HttpProtocol::Http10, 1), 0), one);

    // With one connection at a time, the SYN for the next object follows the ACK of the server's FIN and the
    // browser's own FIN.
    let next = arrival_ns(&[40, 40, 48]) + arrival_ns(&[48]) + request + response_and_fin;
    assert_eq!(response_ns(http(HttpProtocol::Http10, 1), 1), one + next);
}

/// With its header the object fills two segments, which is the initial window. A header in a separate write
/// uses one segment, so the last of three segments waits for the ACK of the first.
#[test]
fn a_header_written_by_itself_takes_a_segment_of_the_initial_window() {
    let asked = arrival_ns(&[48]) + arrival_ns(&[48]) + arrival_ns(&[40, 140]);
    let load = |header_write| {
        let config =
            HttpConfig { response_header: Bytes(100), header_write, ..http(HttpProtocol::Http10, 1) };
        let records = loaded(config, vec![page("page", 972, 0, Duration::ZERO)]);
        (records.pages[0].response_time_s.expect("it ended") * 1e9).round() as u64
    };
    assert_eq!(load(HeaderWrite::Together), asked + arrival_ns(&[40, 576, 576]));
    let separate = asked + arrival_ns(&[40, 140]) + arrival_ns(&[40]) + arrival_ns(&[476]);
    assert_eq!(load(HeaderWrite::Separate), separate);
}

/// The server's FIN answers the browser's FIN at once: no connection stays open.
#[test]
fn a_persistent_connection_saves_a_handshake_and_pays_for_its_close() {
    let handshake = arrival_ns(&[48]) + arrival_ns(&[48]);
    let main = arrival_ns(&[40, 140]) + arrival_ns(&[40, 440]);
    // The server has received its first segment before, so its ACK of the second request is piggybacked on
    // the response.
    let inline = arrival_ns(&[40, 140]) + arrival_ns(&[440]);
    let close = arrival_ns(&[40]) + arrival_ns(&[40, 40]);
    assert_eq!(response_ns(http(HttpProtocol::Http11, 1), 1), handshake + main + inline + close);
}

/// RFC 9112, section 9.6: the server's FIN leaves with its last byte, and the page has ended when it is there.
#[test]
fn a_server_that_closes_with_its_last_response_spares_the_browsers_close() {
    let load = |server_closes| {
        let config = HttpConfig { server_closes, ..http(HttpProtocol::Http11Pipelined, 1) };
        response_ns(config, 1)
    };
    assert_eq!(load(false) - load(true), arrival_ns(&[40]) + arrival_ns(&[40, 40]));
}

#[test]
fn page_loads_beside_each_other_and_other_traffic_have_their_own_records() {
    let second = Duration::from_secs(1);
    let flows = vec![
        page("first", 8000, 3, Duration::ZERO),
        udp("stream", 8_000, 100, Duration::from_secs(5), Duration::ZERO),
        page("second", 2000, 2, second),
        bulk("bulk", 20_000, Duration::ZERO),
    ];
    let records = loaded(http(HttpProtocol::Http11Pipelined, 2), flows);
    let names: Vec<_> = records.flows.iter().map(|flow| flow.flow.as_str()).collect();
    #[rustfmt::skip]
    assert_eq!(names, [
        "first/connection-1", "first/connection-2", "stream", "second/connection-1", "second/connection-2",
        "bulk",
    ]);
    for (page, (name, start_s, objects)) in records.pages.iter().zip([("first", 0.0, 4), ("second", 1.0, 3)])
    {
        assert_eq!((page.page.as_str(), page.start_s, page.outcome), (name, Some(start_s), Outcome::Closed));
        assert_eq!((page.objects, page.objects_received, page.connections), (objects, objects, 2));
    }
    assert!(records.flows.iter().all(|flow| flow.outcome == Outcome::Closed));
}
