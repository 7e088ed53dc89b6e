use super::*;
use proptest::prelude::*;

const FLOW: FlowId = FlowId(3);

fn noted(events: &[HttpEvent]) -> Messages {
    let mut messages = Messages::default();
    for &event in events {
        messages.note(FLOW, event);
    }
    messages
}

/// `length` bytes of a stream from offset `seq` on.
fn part(messages: &Messages, direction: Direction, seq: u64, length: usize) -> Vec<u8> {
    let mut payload = vec![0; length];
    messages.write(FLOW, direction, seq, &mut payload);
    payload
}

fn text(messages: &Messages, direction: Direction, seq: u64, length: usize) -> String {
    String::from_utf8(part(messages, direction, seq, length)).unwrap()
}

fn request(object: u32, persistent: bool) -> HttpEvent {
    HttpEvent::Request { object, bytes: 120, persistent, closes: false }
}

fn response(object: u32, header_bytes: u64, body_bytes: u64) -> HttpEvent {
    HttpEvent::Response { object, header_bytes, body_bytes }
}

#[test]
fn a_request_names_its_object_and_is_padded_to_its_size() {
    let messages = noted(&[request(0, false), request(2, true)]);
    let padding = ".".repeat(46);
    assert_eq!(
        text(&messages, Direction::Up, 1, 120),
        format!(
            "GET /main HTTP/1.0\r\nHost: server\r\nUser-Agent: lasthop\r\nX-Padding: {padding}....\r\n\r\n"
        )
    );
    let second = format!(
        "GET /inline-2 HTTP/1.1\r\nHost: server\r\nUser-Agent: lasthop\r\nX-Padding: {padding}\r\n\r\n"
    );
    assert_eq!(text(&messages, Direction::Up, 121, 120), second);
}

#[test]
fn the_longest_request_that_asks_to_close_fits_into_the_smallest_message() {
    let text = String::from_utf8(http_request("inline-1000", true, true, 100)).unwrap();
    assert!(text.starts_with("GET /inline-1000 HTTP/1.1\r\n"), "{text}");
    assert!(text.contains("\r\nConnection: close\r\n") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn a_response_has_its_header_and_lines_that_name_object_and_offset() {
    let messages = noted(&[request(1, true), response(1, 110, 130)]);
    let header = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 130\r\nContent-Type: text/plain\r\nX-Padding: {}\r\n\r\n",
        ".".repeat(31)
    );
    let line = |start: u64| format!("{:.<63}\n", format!("inline-1, byte {start} "));
    let body = [line(0), line(64), "in".to_owned()].concat();
    assert_eq!(text(&messages, Direction::Down, 1, 240), header + &body);
}

#[test]
fn a_header_without_size_of_its_own_is_carved_out_of_the_response() {
    let messages = noted(&[request(0, false), response(0, 0, 400), response(1, 0, 99)]);
    let whole = text(&messages, Direction::Down, 1, 499);
    assert!(whole.starts_with("HTTP/1.0 200 OK\r\nContent-Length: 300\r\n"), "{whole}");
    assert_eq!(whole.find("\r\n\r\n"), Some(96));
    assert_eq!(whole[100..].find("main, byte 0 "), Some(0));
    assert!(whole[400..].starts_with("inline-1, byte 0 ."), "no room for a header: {whole}");
}

#[test]
fn a_flow_without_messages_and_what_nobody_wrote_are_left_alone() {
    let messages = noted(&[request(0, false)]);
    assert_eq!(part(&messages, Direction::Down, 1, 3), [0; 3]);
    assert_eq!(part(&messages, Direction::Up, 120, 3), [b'\n', 0, 0]);
    for flow in [FlowId(0), FlowId(4)] {
        let mut payload = [7];
        messages.write(flow, Direction::Up, 1, &mut payload);
        assert_eq!(payload, [7]);
    }
}

proptest! {
    #[test]
    fn a_stream_cut_anywhere_has_the_same_bytes(
        answers in proptest::collection::vec((prop_oneof![Just(0_u64), 100..300_u64], 1..1000_u64), 1..6),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0..700_usize), 20),
    ) {
        let mut events = vec![request(0, true)];
        events.extend((0..).zip(&answers).map(|(object, &(header, body))| response(object, header, body)));
        let messages = noted(&events);
        let length: u64 = answers.iter().map(|(header, body)| header + body).sum();
        let whole = part(&messages, Direction::Down, 1, length as usize);
        prop_assert!(whole.iter().all(|byte| byte.is_ascii_graphic() || b" \r\n".contains(byte)));
        for (cut, length) in cuts {
            let from = cut.index(whole.len());
            let to = whole.len().min(from + length);
            prop_assert_eq!(&part(&messages, Direction::Down, 1 + from as u64, to - from), &whole[from..to]);
        }
    }
}
