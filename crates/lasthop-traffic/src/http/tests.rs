//! Traces: the data that the ends of the connections receive, and the reactions of browser and server.
//! Requests have 100 bytes.

mod properties;

use super::*;
use crate::{HeaderWrite, HttpServer};

const REQUEST: u64 = 100;

fn http(protocol: HttpProtocol, connections: u32) -> HttpConfig {
    HttpConfig {
        protocol,
        connections,
        request: Bytes(REQUEST),
        response_header: Bytes(200),
        header_write: HeaderWrite::Together,
        inline_after: None,
        close_after: Duration::ZERO,
        server_closes: false,
        server: HttpServer::BuiltIn,
    }
}

/// A page whose main object has 1000 bytes, and in-line objects of 500.
fn page(inline_count: u32) -> HttpPageConfig {
    HttpPageConfig {
        name: "page".into(),
        start: Distribution::Static(Duration::ZERO),
        main: Bytes(1000),
        inline: Bytes(500),
        inline_count,
        dscp: Dscp::default(),
        port: http_port(),
    }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

struct Trace {
    load: PageLoad,
}

impl Trace {
    /// A page load that has begun: the first connection is open, and the main object is requested.
    fn begun(http: &HttpConfig, inline_count: u32) -> Self {
        let mut trace = Self { load: PageLoad::new(http, &page(inline_count), at(5)) };
        assert_eq!(trace.load.next_wakeup(), Some(at(5)));
        trace.load.handle_wakeup(at(4));
        trace.does(&[]);
        trace.load.handle_wakeup(at(5));
        assert_eq!(trace.load.next_wakeup(), None);
        trace.does(&["open 0", "0: GET main"]);
        trace
    }

    /// The next actions; a write is shown with its content.
    fn does(&mut self, expected: &[&str]) {
        let mut done = Vec::new();
        while let Some(action) = self.load.poll_action() {
            let line = match action {
                Action::Connect { flow, host: Host::Client } => format!("open {flow}"),
                Action::Close { flow, host: Host::Client } => format!("{flow}: browser closes"),
                Action::Close { flow, host: Host::Server } => format!("{flow}: server closes"),
                Action::Report { flow, event } => self.report(flow, event),
                other => panic!("nothing said what this is: {other:?}"),
            };
            done.push(line);
        }
        assert_eq!(done, expected);
    }

    fn report(&mut self, connection: u32, event: HttpEvent) -> String {
        let name = HttpPageConfig::object_name;
        let (line, write) = match event {
            HttpEvent::Request { object, bytes, persistent, closes } => {
                assert_eq!(persistent, self.load.http.protocol != HttpProtocol::Http10);
                let request = (Host::Client, bytes, Content::Request(object));
                let close = if closes { " and close" } else { "" };
                (format!("{connection}: GET {}{close}", name(object)), Some(request))
            }
            HttpEvent::Response { object, header_bytes, body_bytes } => (
                format!("{connection}: 200 {}", name(object)),
                Some((Host::Server, header_bytes + body_bytes, Content::Response(object))),
            ),
            HttpEvent::FirstByte { object } => {
                (format!("{connection}: first byte of {}", name(object)), None)
            }
            HttpEvent::LastByte { object } => (format!("{connection}: has {}", name(object)), None),
        };
        if let Some((host, bytes, content)) = write {
            assert_eq!(self.load.poll_action(), Some(whole_write(connection, host, bytes, content)));
        }
        line
    }

    fn server_has(&mut self, connection: u32, bytes: u64, then: &[&str]) {
        self.load.handle_requests(connection, bytes);
        self.does(then);
    }

    fn browser_has(&mut self, connection: u32, bytes: u64, then: &[&str]) {
        self.load.handle_responses(at(100), connection, bytes);
        self.does(then);
    }

    /// The server's FIN has arrived, or the connection is lost.
    fn ends(&mut self, connection: u32, then: &[&str]) {
        self.load.handle_server_closed(at(200), connection);
        self.does(then);
    }

    fn wakes(&mut self, when: u64, then: &[&str]) {
        assert_eq!(self.load.next_wakeup(), Some(at(when)));
        self.load.handle_wakeup(at(when));
        self.does(then);
    }
}

#[test]
fn http10_fills_four_places_and_each_close_by_the_server_frees_one() {
    let mut trace =
        Trace::begun(&HttpConfig { inline_after: Some(Bytes(1)), ..http(HttpProtocol::Http10, 4) }, 5);
    trace.server_has(0, 99, &[]);
    trace.server_has(0, 100, &["0: 200 main", "0: server closes"]);
    trace.browser_has(0, 1, &["0: first byte of main"]);
    trace.browser_has(0, 200, &[]);
    let three = ["open 1", "1: GET inline-1", "open 2", "2: GET inline-2", "open 3", "3: GET inline-3"];
    trace.browser_has(0, 201, &three);
    trace.server_has(2, 100, &["2: 200 inline-2", "2: server closes"]);
    trace.browser_has(2, 700, &["2: first byte of inline-2", "2: has inline-2"]);
    trace.ends(2, &["2: browser closes", "open 4", "4: GET inline-4"]);
    trace.browser_has(0, 1200, &["0: has main"]);
    trace.ends(0, &["0: browser closes", "open 5", "5: GET inline-5"]);
    for connection in [1, 3, 4, 5] {
        trace.load.handle_responses(at(300), connection, 700);
        let has = ["first byte of", "has"].map(|what| format!("{connection}: {what} inline-{connection}"));
        trace.does(&has.each_ref().map(String::as_str));
        trace.ends(connection, &[&format!("{connection}: browser closes")]);
    }
    assert_eq!(trace.load.next_wakeup(), None);
}

#[test]
fn a_lost_connection_of_http10_frees_its_place_and_its_object_is_not_asked_for_again() {
    let mut trace =
        Trace::begun(&HttpConfig { inline_after: Some(Bytes(1)), ..http(HttpProtocol::Http10, 2) }, 2);
    trace.browser_has(0, 201, &["0: first byte of main", "open 1", "1: GET inline-1"]);
    trace.ends(0, &["0: browser closes", "open 2", "2: GET inline-2"]);
    trace.ends(1, &["1: browser closes"]);
    trace.browser_has(2, 700, &["2: first byte of inline-2", "2: has inline-2"]);
    trace.ends(2, &["2: browser closes"]);
}

#[test]
fn http3_asks_for_each_object_on_a_stream_of_one_connection() {
    let config = HttpConfig {
        inline_after: Some(Bytes(500)),
        close_after: Duration::from_millis(20),
        ..http(HttpProtocol::Http3, 1)
    };
    assert_eq!(page(3).connection_names(&config), ["connection-1"]);
    let mut load = PageLoad::new(&config, &page(2), at(5));
    load.handle_wakeup(at(5));
    let (flow, client, server) = (0, Host::Client, Host::Server);
    let asks = |object| {
        let event = HttpEvent::Request { object, bytes: REQUEST, persistent: true, closes: false };
        [Action::Report { flow, event }, Action::Send { flow, host: client, stream: object, bytes: REQUEST }]
    };
    let answers = |object, body_bytes| {
        let event = HttpEvent::Response { object, header_bytes: 200, body_bytes };
        let bytes = 200 + body_bytes;
        [Action::Report { flow, event }, Action::Send { flow, host: server, stream: object, bytes }]
    };
    let first = |object| Action::Report { flow, event: HttpEvent::FirstByte { object } };
    let last = |object| Action::Report { flow, event: HttpEvent::LastByte { object } };
    let mut does = |host, stream, received, expected: &[Action]| {
        load.handle_stream(at(50), flow, host, stream, received);
        // The sum over all streams causes no action.
        load.handle_news(at(50), flow, host, News { received: Some(9999), ended: false, ..News::default() });
        assert_eq!(std::iter::from_fn(|| load.poll_action()).collect::<Vec<_>>(), expected);
    };
    let begin =
        [vec![Action::Connect { flow, host: client }], asks(0).to_vec(), answers(0, 1000).to_vec()].concat();
    does(server, 0, REQUEST, &begin);
    does(client, 0, 699, &[first(0)]);
    does(client, 0, 700, &[asks(1), asks(2)].concat());
    // The second in-line object overtakes the first.
    does(server, 2, REQUEST, &answers(2, 500));
    does(server, 1, REQUEST, &answers(1, 500));
    does(client, 2, 700, &[first(2), last(2)]);
    does(client, 0, 1200, &[last(0)]);
    does(client, 1, 300, &[first(1)]);
    does(client, 1, 700, &[last(1)]);
    assert_eq!(load.next_wakeup(), Some(at(70)));
    load.handle_wakeup(at(70));
    assert_eq!(load.poll_action(), Some(Action::Close { flow, host: client }));
    assert_eq!((load.poll_action(), load.next_wakeup()), (None, None));
}

#[test]
fn a_page_whose_main_object_is_lost_ends_with_it() {
    for protocol in [HttpProtocol::Http10, HttpProtocol::Http11, HttpProtocol::Http11Pipelined] {
        let mut trace = Trace::begun(&http(protocol, 4), 8);
        trace.browser_has(0, 1199, &["0: first byte of main"]);
        trace.ends(0, &["0: browser closes"]);
        assert_eq!(trace.load.next_wakeup(), None, "{protocol:?}");
    }
}

#[test]
fn with_one_place_http10_fetches_one_object_after_the_other() {
    let mut trace = Trace::begun(&http(HttpProtocol::Http10, 1), 1);
    trace.browser_has(0, 1200, &["0: first byte of main", "0: has main"]);
    trace.ends(0, &["0: browser closes", "open 1", "1: GET inline-1"]);
}

#[test]
fn in_line_objects_are_asked_for_once_so_much_of_the_main_object_is_there_headers_apart() {
    let opens = ["0: first byte of main", "open 1", "1: GET inline-1"];
    for (inline_after, enough) in
        [(Some(1), 201), (Some(600), 800), (Some(1000), 1200), (Some(5000), 1200), (None, 1200)]
    {
        let config = HttpConfig { inline_after: inline_after.map(Bytes), ..http(HttpProtocol::Http10, 2) };
        let mut short = Trace::begun(&config, 1);
        short.browser_has(0, enough - 1, &opens[..1]);
        let mut whole = Trace::begun(&config, 1);
        let with_main = [&opens[..], &["0: has main"]].concat();
        whole.browser_has(0, enough, if enough == 1200 { &with_main } else { &opens });
    }
}

#[test]
fn a_header_written_by_itself_comes_before_its_object() {
    let config = HttpConfig { header_write: HeaderWrite::Separate, ..http(HttpProtocol::Http10, 4) };
    let mut load = PageLoad::new(&config, &page(0), at(5));
    load.handle_wakeup(at(5));
    while load.poll_action().is_some() {}
    load.handle_requests(0, REQUEST);
    let (flow, host, content) = (0, Host::Server, Content::Response(0));
    let event = HttpEvent::Response { object: 0, header_bytes: 200, body_bytes: 1000 };
    let expected = [
        Action::Report { flow, event },
        whole_write(flow, host, 200, content),
        whole_write(flow, host, 1000, content),
        Action::Close { flow, host },
    ];
    assert_eq!(std::iter::from_fn(|| load.poll_action()).collect::<Vec<_>>(), expected);
}

#[test]
fn http11_has_one_request_under_way_on_each_connection() {
    let mut trace = Trace::begun(&http(HttpProtocol::Http11, 3), 4);
    trace.server_has(0, 100, &["0: 200 main"]);
    #[rustfmt::skip]
    trace.browser_has(0, 1200, &[
        "0: first byte of main", "open 1", "1: GET inline-1", "open 2", "2: GET inline-2", "0: has main",
        "0: GET inline-3",
    ]);
    trace.server_has(0, 200, &["0: 200 inline-3"]);
    trace.browser_has(0, 1201, &["0: first byte of inline-3"]);
    trace.browser_has(2, 700, &["2: first byte of inline-2", "2: has inline-2", "2: GET inline-4"]);
    trace.browser_has(0, 1900, &["0: has inline-3"]);
    trace.browser_has(1, 700, &["1: first byte of inline-1", "1: has inline-1"]);
    assert_eq!(trace.load.next_wakeup(), None);
    trace.browser_has(2, 1400, &["2: first byte of inline-4", "2: has inline-4"]);
    trace.wakes(100, &["0: browser closes", "1: browser closes", "2: browser closes"]);
    trace.load.handle_browser_closed(1);
    trace.does(&["1: server closes"]);
    trace.ends(1, &[]);
    assert_eq!(trace.load.next_wakeup(), None, "nothing is left to close");
}

#[test]
fn pipelined_requests_leave_at_once_and_are_answered_in_order() {
    let mut trace = Trace::begun(
        &HttpConfig { inline_after: Some(Bytes(500)), ..http(HttpProtocol::Http11Pipelined, 1) },
        3,
    );
    let all = ["0: first byte of main", "0: GET inline-1", "0: GET inline-2", "0: GET inline-3"];
    trace.browser_has(0, 700, &all);
    trace.server_has(0, 250, &["0: 200 main", "0: 200 inline-1"]);
    trace.server_has(0, 400, &["0: 200 inline-2", "0: 200 inline-3"]);
    trace.browser_has(
        0,
        1901,
        &["0: has main", "0: first byte of inline-1", "0: has inline-1", "0: first byte of inline-2"],
    );
    trace.browser_has(0, 3300, &["0: has inline-2", "0: first byte of inline-3", "0: has inline-3"]);
    trace.wakes(100, &["0: browser closes"]);
}

#[test]
fn pipelined_requests_spread_evenly_from_the_main_connection_on() {
    let mut trace = Trace::begun(&http(HttpProtocol::Http11Pipelined, 2), 5);
    #[rustfmt::skip]
    trace.browser_has(0, 1200, &[
        "0: first byte of main", "0: GET inline-1", "open 1", "1: GET inline-2", "0: GET inline-3",
        "1: GET inline-4", "0: GET inline-5", "0: has main",
    ]);
}

#[test]
fn persistent_connections_stay_open_for_a_while() {
    let config =
        HttpConfig { close_after: Duration::from_millis(500), ..http(HttpProtocol::Http11Pipelined, 1) };
    let mut trace = Trace::begun(&config, 1);
    trace.browser_has(0, 1200, &["0: first byte of main", "0: GET inline-1", "0: has main"]);
    assert_eq!(trace.load.next_wakeup(), None);
    trace.browser_has(0, 1900, &["0: first byte of inline-1", "0: has inline-1"]);
    trace.load.handle_wakeup(at(599));
    trace.does(&[]);
    trace.wakes(600, &["0: browser closes"]);
}

/// RFC 9112, section 9.6: the last request on each connection has `Connection: close`, and its response is the
/// last.
#[test]
fn a_server_that_is_asked_to_closes_with_its_last_response() {
    let config = HttpConfig { server_closes: true, ..http(HttpProtocol::Http11Pipelined, 2) };
    let mut trace = Trace::begun(&config, 3);
    trace.server_has(0, 100, &["0: 200 main"]);
    #[rustfmt::skip]
    trace.browser_has(0, 1200, &[
        "0: first byte of main", "0: GET inline-1", "open 1", "1: GET inline-2 and close",
        "0: GET inline-3 and close", "0: has main",
    ]);
    trace.server_has(1, 100, &["1: 200 inline-2", "1: server closes"]);
    trace.server_has(0, 200, &["0: 200 inline-1"]);
    trace.server_has(0, 300, &["0: 200 inline-3", "0: server closes"]);
    trace.browser_has(1, 700, &["1: first byte of inline-2", "1: has inline-2"]);
    trace.ends(1, &["1: browser closes"]);
    trace.browser_has(0, 1900, &["0: first byte of inline-1", "0: has inline-1"]);
    trace.browser_has(0, 2600, &["0: first byte of inline-3", "0: has inline-3"]);
    assert_eq!(trace.load.next_wakeup(), None, "the browser waits for the server");
    trace.ends(0, &["0: browser closes"]);
    trace.load.handle_browser_closed(0);
    trace.does(&[]);
    // Nobody knows that the main object is the last one.
    let mut trace = Trace::begun(&config, 0);
    trace.server_has(0, 100, &["0: 200 main"]);
    trace.browser_has(0, 1200, &["0: first byte of main", "0: has main"]);
    trace.wakes(100, &["0: browser closes"]);
    trace.load.handle_browser_closed(0);
    trace.does(&["0: server closes"]);
}

#[test]
fn the_other_connections_of_http11_go_on_without_a_lost_one() {
    let mut trace = Trace::begun(&http(HttpProtocol::Http11, 2), 3);
    #[rustfmt::skip]
    trace.browser_has(0, 1200, &[
        "0: first byte of main", "open 1", "1: GET inline-1", "0: has main", "0: GET inline-2",
    ]);
    trace.ends(1, &["1: browser closes"]);
    trace.browser_has(0, 1900, &["0: first byte of inline-2", "0: has inline-2", "0: GET inline-3"]);
    trace.browser_has(0, 2600, &["0: first byte of inline-3", "0: has inline-3"]);
    trace.wakes(100, &["0: browser closes"]);
}

#[test]
fn requests_that_arrive_once_the_browser_has_lost_the_connection_are_not_answered() {
    let http = HttpConfig { inline_after: Some(Bytes(500)), ..http(HttpProtocol::Http11Pipelined, 1) };
    let mut trace = Trace::begun(&http, 3);
    #[rustfmt::skip]
    trace.browser_has(0, 700, &[
        "0: first byte of main", "0: GET inline-1", "0: GET inline-2", "0: GET inline-3",
    ]);
    trace.server_has(0, 300, &["0: 200 main", "0: 200 inline-1", "0: 200 inline-2"]);
    trace.ends(0, &["0: browser closes"]);
    trace.server_has(0, 400, &[]);
}

#[test]
fn a_connection_lost_last_leaves_the_others_to_be_closed() {
    let mut trace = Trace::begun(&http(HttpProtocol::Http11Pipelined, 2), 2);
    #[rustfmt::skip]
    trace.browser_has(0, 1900, &[
        "0: first byte of main", "0: GET inline-1", "open 1", "1: GET inline-2", "0: has main",
        "0: first byte of inline-1", "0: has inline-1",
    ]);
    trace.ends(1, &["1: browser closes"]);
    trace.wakes(200, &["0: browser closes"]);
}

#[test]
fn a_page_without_in_line_objects_is_done_with_the_main_one() {
    for protocol in [HttpProtocol::Http11, HttpProtocol::Http11Pipelined] {
        let mut trace = Trace::begun(&http(protocol, 4), 0);
        trace.browser_has(0, 1200, &["0: first byte of main", "0: has main"]);
        trace.wakes(100, &["0: browser closes"]);
    }
    let mut trace = Trace::begun(&http(HttpProtocol::Http10, 4), 0);
    trace.browser_has(0, 1200, &["0: first byte of main", "0: has main"]);
    trace.ends(0, &["0: browser closes"]);
    assert_eq!(trace.load.next_wakeup(), None);
}

#[test]
fn connections_have_the_names_of_their_objects_or_numbers() {
    let names = |protocol| page(2).connection_names(&http(protocol, 2));
    assert_eq!(names(HttpProtocol::Http10), ["main", "inline-1", "inline-2"]);
    assert_eq!(names(HttpProtocol::Http11), ["connection-1", "connection-2"]);
    assert_eq!(page(1).connection_names(&http(HttpProtocol::Http11, 2)).len(), 2);
    assert_eq!(page(1).connection_names(&http(HttpProtocol::Http11Pipelined, 2)).len(), 1);
    assert_eq!(page(0).connection_names(&http(HttpProtocol::Http11Pipelined, 2)), ["connection-1"]);
}
