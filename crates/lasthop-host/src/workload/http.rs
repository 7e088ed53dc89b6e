//! Page loads in real HTTP: messages of exactly the scenario's sizes, the server, the client's parser.

pub mod client;
pub mod nginx;
pub mod server;

use crate::error::Error;
use lasthop_traffic::{HeaderWrite, HttpConfig, HttpPageConfig, HttpServer};

#[cfg(test)]
mod tests;

/// Size of the header in a response whose size includes it.
const INCLUDED_HEADER_BYTES: u64 = 256;
/// Size of nginx' own fields and of the padding field. Scenarios leave room enough for all other messages.
const NGINX_HEADER_BYTES_MIN: u64 = 224;

#[derive(Clone, Debug)]
pub struct Site {
    /// The objects, starting with the main one.
    pub answers: Vec<Answer>,
    pub persistent: bool,
    pub separate_headers: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its name, which is its path.
    pub name: String,
    pub request: Vec<u8>,
    pub header_bytes: u64,
    pub body_bytes: u64,
}

impl Site {
    /// The site of a page; an error if real messages cannot be as small as the scenario states.
    pub fn new(http: &HttpConfig, page: &HttpPageConfig) -> Result<Self, Error> {
        if http.server_closes {
            return Err(Error::new(
                "server_closes = true: with real hosts the browser closes persistent connections; leave it \
                 out, or use --engine model",
            ));
        }
        let persistent = http.protocol.persistent();
        let answer = |object| {
            let name = HttpPageConfig::object_name(object);
            let (header_bytes, body_bytes) = sizes(http, page.object_bytes(object).0, &name)?;
            let request = lasthop_trace::http_request(&name, persistent, false, http.request.0);
            Ok(Answer { name, request, header_bytes, body_bytes })
        };
        let answers = (0..page.objects()).map(answer).collect::<Result<_, Error>>()?;
        let separate_headers = http.header_write == HeaderWrite::Separate;
        Ok(Self { answers, persistent, separate_headers })
    }
}

fn sizes(http: &HttpConfig, object_bytes: u64, name: &str) -> Result<(u64, u64), Error> {
    let stated = http.response_header.0;
    if stated == 0 {
        return match object_bytes.checked_sub(INCLUDED_HEADER_BYTES) {
            Some(body) => Ok((INCLUDED_HEADER_BYTES, body)),
            None => Err(Error::new(format!(
                "the object {name:?} is \"{object_bytes} B\" large with its header \
                 (response_header = \"0 B\"), but with real hosts the header alone has \
                 {INCLUDED_HEADER_BYTES}; write \"{INCLUDED_HEADER_BYTES} B\" or more, or set response_header"
            ))),
        };
    }
    if http.server == HttpServer::Nginx && stated < NGINX_HEADER_BYTES_MIN {
        return Err(Error::new(format!(
            "response_header = \"{stated} B\" is too small for server = \"nginx\": at least \
             \"{NGINX_HEADER_BYTES_MIN} B\""
        )));
    }
    Ok((stated, object_bytes))
}
