//! One connection on which a client sends requests, one after another, and a server answers each at once.

use std::collections::VecDeque;

use lasthop_core::{Host, News};

use crate::{Action, Content};

/// Both ends of the connection (flow 0 of its application), and the actions that they want done.
#[derive(Clone, Debug)]
pub(crate) struct Dialogue {
    server: Host,
    write_bytes: u64,
    connected: bool,
    over: bool,
    /// Bytes of all requests so far, and of all responses to them.
    requested: u64,
    awaited: u64,
    /// Bytes of the response that are still to be written.
    response_bytes: Option<u64>,
    actions: VecDeque<Action>,
}

impl Dialogue {
    /// A connection that the client will open, between hosts that write `write_bytes` at a time.
    pub fn new(server: Host, write_bytes: u64) -> Self {
        Self {
            server,
            write_bytes,
            connected: false,
            over: false,
            requested: 0,
            awaited: 0,
            response_bytes: None,
            actions: VecDeque::new(),
        }
    }

    /// The client sends a request; it has the complete response to its last one.
    pub fn ask(&mut self, request: u64, response: u64) {
        let client = self.server.other();
        if !std::mem::replace(&mut self.connected, true) {
            self.actions.push_back(Action::Connect { flow: 0, host: client });
        }
        self.requested += request;
        self.awaited += response;
        self.response_bytes = Some(response);
        self.write(client, request);
    }

    /// The client has no more requests.
    pub fn close(&mut self) {
        self.actions.push_back(Action::Close { flow: 0, host: self.server.other() });
    }

    /// Lets the server answer, and lets an end close when the other end has closed. True if the client now
    /// has the complete response.
    pub fn handle_news(&mut self, host: Host, news: News) -> bool {
        let received = |bytes| news.received.is_some_and(|received| received >= bytes);
        let mut is_whole = false;
        if host != self.server {
            is_whole = received(self.awaited);
        } else if received(self.requested)
            && let Some(bytes) = self.response_bytes.take()
        {
            self.write(host, bytes);
        }
        if news.ended {
            self.over = true;
            self.actions.push_back(Action::Close { flow: 0, host });
        }
        is_whole
    }

    /// An end has closed, or the connection is lost: no more requests are possible.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    pub fn tell(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn write(&mut self, host: Host, bytes: u64) {
        let (flow, write_bytes, content) = (0, self.write_bytes, Content::Filler);
        self.actions.push_back(Action::Write { flow, host, bytes, write_bytes, content });
    }
}
