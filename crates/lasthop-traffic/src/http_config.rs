//! How browser and server communicate, for all pages.

use lasthop_core::{Bytes, Duration, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{COUNT_MAX, OBJECT_MAX};

/// Size in which a request or response header fits, with the fields that a capture shows.
const MESSAGE_MIN: Bytes = Bytes(100);

/// How browser and server communicate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// How objects share connections.
    pub protocol: HttpProtocol,
    /// Maximum number of connections that a page load has open at once.
    #[schemars(extend("examples" = [4]))]
    pub connections: u32,
    /// Size of each request; each request is a separate write.
    #[schemars(extend("examples" = ["300 B"]))]
    pub request: Bytes,
    /// Size of the header in front of every object; zero if the objects' sizes include it.
    #[schemars(extend("examples" = ["300 B"]))]
    pub response_header: Bytes,
    /// How the server writes the header.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub header_write: HeaderWrite,
    /// Part of the main object (without its header) after which the browser requests the in-line objects. If
    /// absent, or if the object is smaller: the complete object.
    pub inline_after: Option<Bytes>,
    /// HTTP/1.1 and HTTP/3: how long the browser keeps its connections open after the last object.
    #[serde(default)]
    pub close_after: Duration,
    /// HTTP/1.1 with pipelining: the last request on a connection asks the server to close it after the
    /// response (`Connection: close`, RFC 9112, section 9.6), so that the FIN leaves with the last byte. If
    /// false, or if the page has no in-line objects, the browser closes. For the model engine.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub server_closes: bool,
    /// The server program on engines with real hosts. On the model engine the server is always a state
    /// machine; its messages have the same sizes.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub server: HttpServer,
}

impl HttpConfig {
    /// Finds messages without room for their header, and keys that contradict each other.
    pub fn check(&self, faults: &mut Faults) {
        faults.in_range(self.request, MESSAGE_MIN..=OBJECT_MAX, "request");
        if self.response_header != Bytes(0) {
            faults.in_range(self.response_header, MESSAGE_MIN..=OBJECT_MAX, "response_header");
        }
        self.check_header_write(faults);
        self.check_server_closes(faults);
        faults.in_range(self.connections, 1..=COUNT_MAX, "connections");
        faults.require(!self.protocol.has_streams() || self.connections == 1, "connections", || {
            format!("{}: HTTP/3 loads a page over one connection; write 1", self.connections)
        });
        faults.require(self.protocol.persistent() || self.close_after.is_zero(), "close_after", || {
            "has no effect with protocol = \"http1.0\", where the server closes; leave it out".into()
        });
    }

    fn check_server_closes(&self, faults: &mut Faults) {
        if !self.server_closes {
            return;
        }
        faults.require(self.protocol == HttpProtocol::Http11Pipelined, "server_closes", || {
            "needs protocol = \"http1.1-pipelined\", where the browser can mark its last request; leave this \
             key out"
                .into()
        });
        faults.require(self.close_after.is_zero(), "server_closes", || {
            "has no effect with close_after, after which the browser closes; leave out one of the two".into()
        });
    }

    fn check_header_write(&self, faults: &mut Faults) {
        if self.header_write == HeaderWrite::Together {
            return;
        }
        faults.require(self.response_header != Bytes(0), "header_write", || {
            "needs the size of a header; set response_header, or leave this key out".into()
        });
        faults.require(!self.protocol.has_streams(), "header_write", || {
            "has no effect with protocol = \"http3\", whose frames share packets; leave it out".into()
        });
        faults.require(self.server == HttpServer::BuiltIn, "header_write", || {
            "nginx joins header and object (`tcp_nopush`); write server = \"built-in\", or leave this key \
             out"
            .into()
        });
    }
}

/// How a server writes the header of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderWrite {
    /// In one write with the object.
    #[default]
    Together,
    /// In a separate write before the object. The header is then a separate segment, which uses one
    /// segment of the initial window.
    Separate,
}

/// A web server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HttpServer {
    /// The server of the engine.
    #[default]
    BuiltIn,
    /// The program nginx of this machine.
    Nginx,
}

/// How objects share connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpProtocol {
    /// One object per connection, which the server closes.
    #[serde(rename = "http1.0")]
    Http10,
    /// Persistent connections, with one outstanding request on each.
    #[serde(rename = "http1.1")]
    Http11,
    /// Persistent connections; all requests are sent at once, spread evenly.
    #[serde(rename = "http1.1-pipelined")]
    Http11Pipelined,
    /// One QUIC connection with a stream for each object; all requests are sent at once. For flows with
    /// `stack = "quic"`.
    #[serde(rename = "http3")]
    Http3,
}

impl HttpProtocol {
    /// True if a connection stays open after a response.
    pub fn persistent(self) -> bool {
        self != Self::Http10
    }

    /// True if each object has a separate stream.
    pub fn has_streams(self) -> bool {
        self == Self::Http3
    }
}
