//! Page loads in real HTTP: messages of exactly the sizes that the scenario states, the server that answers, and the
//! client's reading of the answers.

pub mod client;
pub mod server;

use crate::error::Error;
use lasthop_traffic::{HttpConfig, HttpPageConfig, HttpServer};

#[cfg(test)]
mod tests;

/// Of a response whose size includes its header.
const INCLUDED_HEADER_BYTES: u64 = 256;
/// Lines of a header apart from a field that fills it up: status, date and length, and what nginx adds.
const HEADER_BYTES_MIN: [(HttpServer, u64); 2] = [(HttpServer::BuiltIn, 96), (HttpServer::Nginx, 224)];

/// The objects of a page as a server has them.
#[derive(Clone, Debug)]
pub struct Site {
    /// Of each object, from the main one.
    pub answers: Vec<Answer>,
    /// Whether connections stay open.
    pub persistent: bool,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its name, which is its path.
    pub name: String,
    /// The request for it.
    pub request: Vec<u8>,
    /// Size of the header in front of it.
    pub header_bytes: u64,
    /// Its size.
    pub body_bytes: u64,
}

impl Site {
    /// The site of a page; an error if real messages cannot be as small as the scenario wants them.
    pub fn new(http: &HttpConfig, page: &HttpPageConfig) -> Result<Self, Error> {
        let persistent = http.protocol.persistent();
        let answer = |object| {
            let name = HttpPageConfig::object_name(object);
            let (header_bytes, body_bytes) = sizes(http, page.object_bytes(object).0, &name)?;
            Ok(Answer {
                request: request(&name, persistent, http.request.0)?,
                name,
                header_bytes,
                body_bytes,
            })
        };
        let answers = (0..page.objects()).map(answer).collect::<Result<_, Error>>()?;
        Ok(Self { answers, persistent })
    }
}

/// Sizes of the header and the body of an object.
fn sizes(http: &HttpConfig, object_bytes: u64, name: &str) -> Result<(u64, u64), Error> {
    let stated = http.response_header.0;
    if stated == 0 {
        return match object_bytes.checked_sub(INCLUDED_HEADER_BYTES) {
            Some(body) => Ok((INCLUDED_HEADER_BYTES, body)),
            None => Err(Error::new(format!(
                "the object {name:?} is \"{object_bytes} B\" large with its header (response_header = \"0 B\"), and \
                 with real hosts the header alone takes {INCLUDED_HEADER_BYTES}; give it \"{INCLUDED_HEADER_BYTES} B\" \
                 or more, or the header a size of its own"
            ))),
        };
    }
    let (server, least) =
        HEADER_BYTES_MIN.into_iter().find(|(server, _)| *server == http.server).expect("each has one");
    if stated < least {
        return Err(Error::new(format!(
            "response_header = \"{stated} B\" is too small for the header of a real server ({server:?}): at least \
             \"{least} B\""
        )));
    }
    Ok((stated, object_bytes))
}

fn request(name: &str, persistent: bool, bytes: u64) -> Result<Vec<u8>, Error> {
    let text = |bytes| lasthop_trace::http_request(name, persistent, bytes);
    let whole = |text: &[u8]| text.ends_with(b"\r\n\r\n");
    let found = text(bytes);
    if whole(&found) {
        return Ok(found);
    }
    let least = (bytes..).find(|bytes| whole(&text(*bytes))).expect("there is room at last");
    Err(Error::new(format!(
        "request = \"{bytes} B\" is too small for a real request for {name:?}: at least \"{least} B\""
    )))
}
