//! The built-in web server: hyper, polled in the emulator's own loop.

use super::{Answer, Site};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use socket2::Socket;
use std::convert::Infallible;
use std::future::Future;
use std::io::{self, ErrorKind, Read as _};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Maximum number of bytes read at once: some requests.
const READ_BYTES: usize = 1 << 14;
const PADDING: HeaderName = HeaderName::from_static("x-padding");

/// The server's end of one connection.
pub struct HttpConnection {
    served: Option<Pin<Box<dyn Future<Output = hyper::Result<()>>>>>,
    again: Arc<Again>,
}

impl HttpConnection {
    pub fn new(site: Rc<Site>, socket: Rc<Socket>) -> Self {
        let stream = HttpSocket { socket, separate_headers: site.separate_headers };
        let service = service_fn(move |request: Request<Incoming>| {
            let response = respond(&site, request.uri().path());
            async move { Ok::<_, Infallible>(response) }
        });
        let mut builder = http1::Builder::new();
        builder.half_close(true).header_read_timeout(None);
        let served = builder.serve_connection(stream, service);
        Self { served: Some(Box::pin(served)), again: Arc::default() }
    }

    /// Makes progress without blocking. Must be called when the socket becomes readable or writable.
    pub fn poll(&mut self) {
        let waker = Waker::from(Arc::clone(&self.again));
        let mut context = Context::from_waker(&waker);
        while let Some(served) = &mut self.served {
            self.again.0.store(false, Ordering::Relaxed);
            // An error means that the client has ended the connection, which the client reports.
            if served.as_mut().poll(&mut context).is_ready() {
                self.served = None;
            } else if !self.again.0.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Set by hyper when it has more to do without waiting.
#[derive(Default)]
struct Again(AtomicBool);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn respond(site: &Site, path: &str) -> Response<Full<Bytes>> {
    let named = |answer: &&Answer| path.strip_prefix('/') == Some(answer.name.as_str());
    let Some(answer) = site.answers.iter().find(named) else {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let body = Bytes::from(vec![b'.'; answer.body_bytes as usize]);
    let padding = ".".repeat((answer.header_bytes - unpadded_bytes(answer.body_bytes)) as usize);
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, answer.body_bytes.into());
    headers.insert(PADDING, HeaderValue::try_from(padding).expect("dots are a value"));
    response
}

/// Size of a header without padding.
fn unpadded_bytes(body_bytes: u64) -> u64 {
    const LINES: [&str; 4] =
        ["HTTP/1.1 200 OK", "content-length: ", "x-padding: ", "date: Thu, 01 Jan 1970 00:00:00 GMT"];
    let lines: usize = LINES.iter().map(|line| line.len() + "\r\n".len()).sum();
    (lines + "\r\n".len() + body_bytes.to_string().len()) as u64
}

/// A non-blocking socket for hyper. The caller of poll knows by other means when it is ready.
struct HttpSocket {
    socket: Rc<Socket>,
    separate_headers: bool,
}

impl Read for HttpSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; READ_BYTES];
        let room = buffer.remaining().min(READ_BYTES);
        ready(self.socket.as_ref().read(&mut bytes[..room]))
            .map_ok(|length| buffer.put_slice(&bytes[..length]))
    }
}

impl Write for HttpSocket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // A segment never spans two responses.
        ready(self.socket.send_with_flags(bytes, libc::MSG_EOR | libc::MSG_NOSIGNAL))
    }

    /// If true, hyper writes a header and its object one by one; otherwise it joins them.
    fn is_write_vectored(&self) -> bool {
        self.separate_headers
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}

fn ready<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}
