//! A web page load: a main object, in-line objects, and the connections that fetch them.
//!
//! Browser and server are one state machine without input or output.
//! Its owner reports what the ends of each connection have received, and performs the [`Action`]s. Parsing
//! times, server think times and caches are not modelled.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use lasthop_core::{Bytes, Distribution, Dscp, Duration, Faults, Host, HttpEvent, Instant, News};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Action, Application, COUNT_MAX, Content, FlowConfig, HeaderWrite, HttpConfig, HttpProtocol, OBJECT_MAX,
    Offer, Outlook, Program, Surroundings, Traffic,
};

#[cfg(test)]
mod tests;

/// A web page load by the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpPageConfig {
    /// Name of the page load in the records.
    pub name: String,
    /// When the browser opens its first connection.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Size of the main object.
    #[schemars(extend("examples" = ["30 kB"]))]
    pub main: Bytes,
    /// Size of each in-line object.
    #[schemars(extend("examples" = ["10 kB"]))]
    pub inline: Bytes,
    /// Number of in-line objects.
    pub inline_count: u32,
    /// Code point of the page load's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the web server.
    #[serde(default = "http_port")]
    pub port: NonZeroU16,
}

const fn http_port() -> NonZeroU16 {
    NonZeroU16::new(80).unwrap()
}

impl HttpPageConfig {
    /// Number of objects, the main one included.
    pub fn objects(&self) -> u32 {
        1 + self.inline_count
    }

    /// Size of an object, from 0 for the main one.
    pub fn object_bytes(&self, object: u32) -> Bytes {
        if object == 0 { self.main } else { self.inline }
    }

    /// Name of an object: `main`, `inline-1`, ...
    pub fn object_name(object: u32) -> String {
        if object == 0 { "main".to_owned() } else { format!("inline-{object}") }
    }

    /// True if the request for an object asks the server to close the connection after the response. Requests
    /// are spread evenly, so the last ones go to one connection each.
    pub fn closes(&self, http: &HttpConfig, object: u32) -> bool {
        http.server_closes && object > 0 && object + http.connections > self.inline_count
    }

    /// Names of the connections that the page load may open, in the order of opening. A connection for
    /// one object has the object's name.
    pub fn connection_names(&self, http: &HttpConfig) -> Vec<String> {
        let useful = match http.protocol {
            HttpProtocol::Http10 => return (0..self.objects()).map(Self::object_name).collect(),
            HttpProtocol::Http11 => self.objects(),
            // The first in-line object shares the main one's connection.
            HttpProtocol::Http11Pipelined => self.inline_count.max(1),
            HttpProtocol::Http3 => 1,
        };
        (1..=http.connections.min(useful)).map(|number| format!("connection-{number}")).collect()
    }
}

impl FlowConfig {
    /// The page that the flow loads, if it is a page load.
    pub fn page(&self) -> Option<&HttpPageConfig> {
        match self {
            Self::HttpPage(page) => Some(page),
            _ => None,
        }
    }
}

impl Traffic for HttpPageConfig {
    keys! { name, start, dscp }

    fn check(&self, _mtu: Bytes, faults: &mut Faults) {
        faults.in_range(self.main, Bytes(1)..=OBJECT_MAX, "main");
        faults.in_range(self.inline, Bytes(1)..=OBJECT_MAX, "inline");
        faults.in_range(self.inline_count, 0..=COUNT_MAX, "inline_count");
    }

    fn offered_bytes(&self) -> u64 {
        self.main.0.saturating_add(self.inline.0.saturating_mul(u64::from(self.inline_count)))
    }

    fn only_down(&self) -> Option<&'static str> {
        Some("the browser is on the client")
    }

    fn flow_names(&self, name: &str, http: Option<&HttpConfig>) -> Vec<String> {
        let connections = http.map(|http| self.connection_names(http)).unwrap_or_default();
        connections.iter().map(|connection| format!("{name}/{connection}")).collect()
    }

    fn port(&self) -> Option<NonZeroU16> {
        Some(self.port)
    }

    fn caller(&self, _sender: Host) -> Host {
        Host::Client
    }

    fn runs_over_quic(&self) -> bool {
        true
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        let bytes = |http: &HttpConfig| (http.request.0 as f64, http.response_header.0 as f64);
        let (request, header) = around.http.map_or((0.0, 0.0), bytes);
        let each = 4.0 + around.segments(request) + around.segments(header + self.inline.0 as f64);
        let flows = self.flow_names("", around.http).len() as f64;
        let main = around.segments(header + self.main.0 as f64);
        Offer { flows, ..around.waiting(main + f64::from(self.objects()) * each) }
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        let http = around.http.expect("a valid scenario says how pages are loaded");
        Program::HttpPage(PageLoad::new(http, self, start))
    }
}

/// One running page load. Its flows are its connections, in the order of
/// [`HttpPageConfig::connection_names`].
#[derive(Clone, Debug)]
pub struct PageLoad {
    http: HttpConfig,
    page: HttpPageConfig,
    start: Option<Instant>,
    /// Connections, or the streams of the only connection.
    connections: Vec<Connection>,
    /// In-line objects that are not yet requested; none before the browser knows of them.
    waiting: VecDeque<u32>,
    discovered: bool,
    /// Objects that are complete, or will never be because their connection is lost.
    settled: u32,
    close_at: Option<Instant>,
    actions: VecDeque<Action>,
}

#[derive(Clone, Debug, Default)]
struct Connection {
    /// The requested objects, in order.
    objects: Vec<u32>,
    /// How many of the requests the server has answered.
    answered: usize,
    /// How many objects are complete at the browser, and their bytes with headers.
    complete: usize,
    complete_bytes: u64,
    /// True if the first byte of the next object has arrived.
    has_begun: bool,
    closed: bool,
}

impl PageLoad {
    /// A page load that begins at `start`.
    pub fn new(http: &HttpConfig, page: &HttpPageConfig, start: Instant) -> Self {
        Self {
            http: http.clone(),
            page: page.clone(),
            start: Some(start),
            connections: Vec::new(),
            waiting: VecDeque::new(),
            discovered: false,
            settled: 0,
            close_at: None,
            actions: VecDeque::new(),
        }
    }

    fn handle_bytes(&mut self, now: Instant, connection: u32, host: Host, bytes: u64) {
        match host {
            Host::Server => self.handle_requests(connection, bytes),
            Host::Client => self.handle_responses(now, connection, bytes),
        }
    }

    /// The server has received `bytes` in order so far on a connection: it answers every complete request.
    fn handle_requests(&mut self, connection: u32, bytes: u64) {
        let requests = (bytes / self.http.request.0) as usize;
        loop {
            let state = &mut self.connections[connection as usize];
            // The server may have answered more requests than the browser still has: the browser forgets the
            // requests on a lost connection.
            if state.answered >= requests.min(state.objects.len()) {
                break;
            }
            let object = state.objects[state.answered];
            state.answered += 1;
            let (header, body) = (self.http.response_header.0, self.page.object_bytes(object).0);
            self.report(connection, HttpEvent::Response { object, header_bytes: header, body_bytes: body });
            let content = Content::Response(object);
            let rest = match self.http.header_write {
                HeaderWrite::Together => header + body,
                HeaderWrite::Separate => {
                    self.write(connection, Host::Server, header, content);
                    body
                }
            };
            self.write(connection, Host::Server, rest, content);
            if self.is_final(object) {
                self.actions.push_back(Action::Close { flow: connection, host: Host::Server });
            }
        }
    }

    /// The browser has closed its side; the server closes, too, unless it has.
    fn handle_browser_closed(&mut self, connection: u32) {
        if !self.ends_by_server(connection) {
            self.actions.push_back(Action::Close { flow: connection, host: Host::Server });
        }
    }

    /// The browser has received `bytes` in order so far on a connection.
    fn handle_responses(&mut self, now: Instant, connection: u32, bytes: u64) {
        loop {
            let state = &mut self.connections[connection as usize];
            let Some(&object) = state.objects.get(state.complete) else { break };
            let arrived = bytes - state.complete_bytes;
            if arrived > 0 && !std::mem::replace(&mut state.has_begun, true) {
                self.report(connection, HttpEvent::FirstByte { object });
            }
            let whole = self.response_bytes(object);
            if object == 0 && self.knows_inline(arrived) {
                self.discover();
            }
            if arrived < whole {
                break;
            }
            let state = &mut self.connections[connection as usize];
            state.complete += 1;
            state.complete_bytes += whole;
            state.has_begun = false;
            self.settled += 1;
            self.report(connection, HttpEvent::LastByte { object });
            self.after_object(now, connection);
        }
    }

    /// An object is complete. HTTP/1.0 waits for the server to close; HTTP/1.1 requests the next object, or
    /// closes some time after the last one.
    fn after_object(&mut self, now: Instant, connection: u32) {
        if !self.http.protocol.persistent() {
            return;
        }
        if let Some(next) = self.waiting.pop_front() {
            self.request(connection, next);
        }
        self.close_if_settled(now);
    }

    /// HTTP/1.1: some time after the last object that it can get, the browser closes the connections that are
    /// still open.
    fn close_if_settled(&mut self, now: Instant) {
        let total = if self.discovered { self.page.objects() } else { 1 };
        let is_open = |(number, state): (u32, &Connection)| {
            self.flow(number) == number && !state.closed && !self.ends_by_server(number)
        };
        if self.settled == total && (0..).zip(&self.connections).any(is_open) {
            self.close_at = Some(now + self.http.close_after);
        }
    }

    /// The browser has seen the end of the server's stream, or lost the connection, and closes. HTTP/1.0 then
    /// opens a connection for the next object; HTTP/1.1 closes all connections once nothing more can come.
    fn handle_server_closed(&mut self, now: Instant, connection: u32) {
        self.close(connection);
        if !self.http.protocol.persistent() {
            return self.fill_places();
        }
        let state = &mut self.connections[connection as usize];
        self.settled += (state.objects.len() - state.complete) as u32;
        state.objects.truncate(state.complete);
        self.close_if_settled(now);
    }

    /// True if the server closes a connection after this response.
    fn is_final(&self, object: u32) -> bool {
        !self.http.protocol.persistent() || self.page.closes(&self.http, object)
    }

    /// True if the server closes a connection after the last response so far requested on it.
    fn ends_by_server(&self, connection: u32) -> bool {
        let last = self.connections[connection as usize].objects.last();
        last.is_some_and(|&object| self.is_final(object))
    }

    fn response_bytes(&self, object: u32) -> u64 {
        self.http.response_header.0 + self.page.object_bytes(object).0
    }

    fn connect(&mut self) -> u32 {
        let connection = self.connections.len() as u32;
        self.connections.push(Connection::default());
        if self.flow(connection) == connection {
            self.actions.push_back(Action::Connect { flow: connection, host: Host::Client });
        }
        connection
    }

    /// Number of the flow of a connection, or of the flow that a stream belongs to.
    fn flow(&self, connection: u32) -> u32 {
        if self.http.protocol.has_streams() { 0 } else { connection }
    }

    fn request(&mut self, connection: u32, object: u32) {
        self.connections[connection as usize].objects.push(object);
        let bytes = self.http.request.0;
        let persistent = self.http.protocol.persistent();
        let closes = self.page.closes(&self.http, object);
        self.report(connection, HttpEvent::Request { object, bytes, persistent, closes });
        self.write(connection, Host::Client, bytes, Content::Request(object));
    }

    fn write(&mut self, connection: u32, host: Host, bytes: u64, content: Content) {
        self.actions.push_back(if self.http.protocol.has_streams() {
            Action::Send { flow: 0, host, stream: connection, bytes }
        } else {
            whole_write(connection, host, bytes, content)
        });
    }

    /// The browser closes a connection; with streams, the first stream stands for their connection.
    fn close(&mut self, connection: u32) {
        if self.flow(connection) == connection
            && !std::mem::replace(&mut self.connections[connection as usize].closed, true)
        {
            self.actions.push_back(Action::Close { flow: connection, host: Host::Client });
        }
    }

    fn report(&mut self, connection: u32, event: HttpEvent) {
        let flow = self.flow(connection);
        self.actions.push_back(Action::Report { flow, event });
    }

    /// True once enough of the main object's response has arrived for the browser to read the references in
    /// it.
    fn knows_inline(&self, arrived: u64) -> bool {
        let needed = self.http.inline_after.unwrap_or(self.page.main).min(self.page.main);
        arrived >= self.http.response_header.0 + needed.0
    }

    /// The browser has read the references to the in-line objects.
    fn discover(&mut self) {
        if std::mem::replace(&mut self.discovered, true) {
            return;
        }
        self.waiting = (1..self.page.objects()).collect();
        match self.http.protocol {
            HttpProtocol::Http10 => self.fill_places(),
            HttpProtocol::Http11 => {
                // The main object's connection takes its share once it is free.
                while self.connections.len() < self.http.connections as usize
                    && let Some(object) = self.waiting.pop_front()
                {
                    let connection = self.connect();
                    self.request(connection, object);
                }
            }
            HttpProtocol::Http3 => {
                for object in std::mem::take(&mut self.waiting) {
                    let stream = self.connect();
                    self.request(stream, object);
                }
            }
            HttpProtocol::Http11Pipelined => {
                for object in std::mem::take(&mut self.waiting) {
                    let connection = (object - 1) % self.http.connections;
                    if connection as usize == self.connections.len() {
                        self.connect();
                    }
                    self.request(connection, object);
                }
            }
        }
    }

    /// HTTP/1.0: opens a connection for each waiting object, up to the maximum number of connections.
    fn fill_places(&mut self) {
        let open = |page: &Self| page.connections.iter().filter(|connection| !connection.closed).count();
        while open(self) < self.http.connections as usize
            && let Some(object) = self.waiting.pop_front()
        {
            let connection = self.connect();
            self.request(connection, object);
        }
    }
}

impl Application for PageLoad {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.start.or(self.close_at)
    }

    /// Starts the page load or closes its connections, whichever is due.
    fn handle_wakeup(&mut self, now: Instant) {
        if self.start.take_if(|start| *start <= now).is_some() {
            let connection = self.connect();
            self.request(connection, 0);
        }
        if self.close_at.take_if(|close_at| *close_at <= now).is_some() {
            for connection in 0..self.connections.len() as u32 {
                self.close(connection);
            }
        }
    }

    fn handle_news(&mut self, now: Instant, flow: u32, host: Host, news: News) {
        if let Some(bytes) = news.received
            && !self.http.protocol.has_streams()
        {
            self.handle_bytes(now, flow, host, bytes);
        }
        match host {
            Host::Server if news.ended => self.handle_browser_closed(flow),
            Host::Client if news.ended => self.handle_server_closed(now, flow),
            _ => {}
        }
    }

    fn handle_stream(&mut self, now: Instant, _flow: u32, host: Host, stream: u32, received: u64) {
        self.handle_bytes(now, stream, host, received);
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

/// A message that is written at once.
fn whole_write(flow: u32, host: Host, bytes: u64, content: Content) -> Action {
    Action::Write { flow, host, bytes, write_bytes: bytes, content }
}
