use super::client::Answers;
use super::server::HttpConnection;
use super::*;
use lasthop_core::{Bytes, Distribution, Duration};
use lasthop_traffic::HttpProtocol;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::rc::Rc;

fn config(protocol: HttpProtocol, response_header: u64) -> HttpConfig {
    HttpConfig {
        protocol,
        connections: 1,
        request: Bytes(100),
        response_header: Bytes(response_header),
        header_write: HeaderWrite::Together,
        inline_after: None,
        close_after: Duration::ZERO,
        server_closes: false,
        server: HttpServer::BuiltIn,
    }
}

fn page(main: u64, inline: u64) -> HttpPageConfig {
    HttpPageConfig {
        name: "page".into(),
        start: Distribution::Static(Duration::ZERO),
        main: Bytes(main),
        inline: Bytes(inline),
        inline_count: 2,
        dscp: lasthop_core::Dscp::default(),
        port: 80.try_into().unwrap(),
    }
}

/// All bytes that can be read now, and whether the stream has ended.
fn drain(mut socket: &Socket) -> (Vec<u8>, bool) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return (bytes, true),
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            Err(_) => return (bytes, false),
        }
    }
}

/// The response to a browser that sends these requests at once, truncated after `cut` bytes.
fn ask(site: Site, requests: &[usize], cut: usize) -> (Vec<u8>, bool) {
    let (browser, server) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    browser.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let text: Vec<u8> = requests.iter().flat_map(|object| site.answers[*object].request.clone()).collect();
    let mut connection = HttpConnection::new(Rc::new(site), Rc::new(server));
    let mut got = Vec::new();
    for part in [&text[..cut], &text[cut..]] {
        (&browser).write_all(part).unwrap();
        connection.poll();
        got.extend(drain(&browser).0);
    }
    let ended = drain(&browser).1;
    (got, ended)
}

#[test]
fn answers_have_exactly_the_stated_sizes() {
    for (header, main, inline) in [(200, 5000, 300), (100, 100_000, 0), (0, 6288, 256)] {
        let site = Site::new(&config(HttpProtocol::Http11Pipelined, header), &page(main, inline)).unwrap();
        let (got, ended) = ask(site.clone(), &[0, 1, 2], 150);
        assert_eq!(got.len() as u64, 3 * header + main + 2 * inline);
        assert!(!ended, "a persistent connection stays");
        let mut answers = Answers::default();
        site.answers.iter().for_each(|answer| answers.expect(answer.clone()));
        for bytes in got.chunks(37) {
            answers.read(bytes).unwrap();
        }
    }
}

#[test]
fn http_1_0_closes_behind_its_answer() {
    let site = Site::new(&config(HttpProtocol::Http10, 200), &page(1000, 10)).unwrap();
    let (got, ended) = ask(site, &[0], 0);
    assert_eq!((got.len(), ended), (1200, true));
    assert!(got.starts_with(b"HTTP/1.0 200 OK\r\n"));
}

/// Sockets that keep writes separate.
#[test]
fn a_header_is_written_by_itself_if_the_scenario_says_so() {
    for (header_write, writes) in
        [(HeaderWrite::Together, vec![1200]), (HeaderWrite::Separate, vec![200, 1000])]
    {
        let config = HttpConfig { header_write, ..config(HttpProtocol::Http10, 200) };
        let site = Site::new(&config, &page(1000, 10)).unwrap();
        let (browser, server) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        server.set_nonblocking(true).unwrap();
        (&browser).write_all(&site.answers[0].request).unwrap();
        HttpConnection::new(Rc::new(site), Rc::new(server)).poll();
        let mut buffer = [0; 4096];
        let got: Vec<usize> =
            std::iter::from_fn(|| (&browser).read(&mut buffer).ok().filter(|&bytes| bytes > 0)).collect();
        assert_eq!(got, writes);
    }
}

#[test]
fn an_answer_of_another_size_is_an_error() {
    let site = Site::new(&config(HttpProtocol::Http11, 200), &page(1000, 10)).unwrap();
    let read = |text: &str| {
        let mut answers = Answers::default();
        answers.expect(site.answers[0].clone());
        answers.read(text.as_bytes()).map_err(|error| error.to_string())
    };
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    assert!(
        read(ok)
            .unwrap_err()
            .contains("a header of 41 bytes and 1000 bytes of content instead of 200 and 1000")
    );
    assert!(read("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().contains("404 for \"main\""));
    assert!(read("HTTP/1.1 200 OK\r\n\r\n").unwrap_err().contains("no content-length"));
    assert!(read("SSH-2.0\r\n").is_err());
    assert!(Answers::default().read(ok.as_bytes()).unwrap_err().to_string().contains("there was no request"));
    assert!(read("HTTP/1.1 200").is_ok(), "the rest may come");
}

#[test]
fn no_server_closes_persistent_connections() {
    let http = HttpConfig { server_closes: true, ..config(HttpProtocol::Http11Pipelined, 200) };
    let error = Site::new(&http, &page(1000, 10)).unwrap_err().to_string();
    assert!(error.contains("server_closes") && error.contains("--engine model"), "{error}");
}

#[test]
fn what_real_messages_have_no_room_for_is_refused_with_the_least_size() {
    let refusal = |http: HttpConfig, page| Site::new(&http, &page).unwrap_err().to_string();
    let nginx = HttpConfig { server: HttpServer::Nginx, ..config(HttpProtocol::Http11, 223) };
    assert!(refusal(nginx, page(1000, 10)).contains("at least \"224 B\""));
    assert!(refusal(config(HttpProtocol::Http11, 0), page(1000, 255)).contains("\"256 B\" or more"));
}
