//! What applications do, whichever engine carries it out.

use lasthop_core::{Host, HttpEvent, Instant, News, Observer, PlaybackEvent, Transport};

/// What an application wants done. It numbers its flows itself, from 0: first those known before the run
/// ([`crate::Traffic::flow_names`]), then those that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A flow comes to be that was not known before the run.
    Open {
        /// Number of the flow: the next one.
        flow: u32,
        /// Which of [`crate::Traffic::later_flows`] it is one of.
        hosts: usize,
        /// It arranges another flow between them.
        is_control: bool,
    },
    /// A host connects.
    Connect {
        /// Number of the flow.
        flow: u32,
        /// Which host.
        host: Host,
    },
    /// A host writes.
    Write {
        /// Number of the flow.
        flow: u32,
        /// Which host.
        host: Host,
        /// How much.
        bytes: u64,
        /// Size of each write; one datagram each, where the flow carries datagrams.
        write_bytes: u64,
        /// What these bytes are.
        content: Content,
    },
    /// A host writes a whole message on a stream of its own, or answers on a stream that the other one began: on a flow
    /// whose transport has streams.
    Send {
        /// Number of the flow.
        flow: u32,
        /// Which host.
        host: Host,
        /// Number of the stream, from 0 in the order in which they are begun.
        stream: u32,
        /// How much.
        bytes: u64,
    },
    /// A host takes back what it has written and what has not been sent yet.
    Stop {
        /// Number of the flow.
        flow: u32,
        /// Which host.
        host: Host,
    },
    /// A host has nothing more to write.
    Close {
        /// Number of the flow.
        flow: u32,
        /// Which host.
        host: Host,
    },
    /// Something to tell the observer.
    Report {
        /// Number of the flow.
        flow: u32,
        /// What.
        event: HttpEvent,
    },
    /// Something to tell the observer of a video.
    Play {
        /// Number of the flow.
        flow: u32,
        /// What.
        event: PlaybackEvent,
    },
    /// Who asked for something on a flow has all of it; or who sends an amount that was not known before has written all.
    Complete {
        /// Number of the flow.
        flow: u32,
    },
}

impl Action {
    /// The end that something is to be done with: number of the flow, and host.
    #[inline]
    pub const fn end(self) -> Option<(u32, Host)> {
        match self {
            Self::Connect { flow, host }
            | Self::Write { flow, host, .. }
            | Self::Send { flow, host, .. }
            | Self::Stop { flow, host }
            | Self::Close { flow, host } => Some((flow, host)),
            Self::Open { .. } | Self::Report { .. } | Self::Play { .. } | Self::Complete { .. } => None,
        }
    }

    /// Does it with that end.
    #[inline]
    pub fn act_on<T: Transport, O: Observer>(self, end: &mut T, now: Instant, observer: &mut O) {
        match self {
            Self::Connect { .. } => end.connect(now, observer),
            Self::Write { bytes, write_bytes, .. } => end.write(now, bytes, write_bytes, observer),
            Self::Send { stream, bytes, .. } => end.send(now, stream, bytes, observer),
            Self::Stop { .. } => end.stop(),
            Self::Close { .. } => end.close(now, observer),
            Self::Open { .. } | Self::Report { .. } | Self::Play { .. } | Self::Complete { .. } => {}
        }
    }

    /// The host that has a stream of datagrams sends one.
    #[inline]
    pub(crate) const fn datagram(host: Host, bytes: u64) -> Self {
        Self::Write { flow: 0, host, bytes, write_bytes: bytes, content: Content::Filler }
    }
}

/// What is written. The model engine only counts bytes; real hosts write real messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Anything.
    Filler,
    /// The HTTP request for this object of a page.
    Request(u32),
    /// The HTTP response with this object.
    Response(u32),
}

/// An application at work. Sans-IO: its owner calls [`Application::handle_wakeup`] at [`Application::next_wakeup`] and
/// [`Application::handle_news`] when there is news, and each time then does what [`Application::poll_action`] returns,
/// until there is nothing.
pub trait Application {
    /// When it wants to act next without being told anything.
    fn next_wakeup(&self) -> Option<Instant>;

    /// Does what is due by `now`.
    fn handle_wakeup(&mut self, now: Instant);

    /// Something is new at the end of a flow at `host`.
    fn handle_news(&mut self, now: Instant, flow: u32, host: Host, news: News);

    /// Whether it may act upon data that a host gets, before the stream ends.
    fn heeds_data(&self) -> bool {
        true
    }

    /// So many bytes have arrived in order on a stream of a flow at `host`, where the transport has streams. Told before
    /// the other news of that moment.
    fn handle_stream(&mut self, now: Instant, flow: u32, host: Host, stream: u32, received: u64) {
        let _ = (now, flow, host, stream, received);
    }

    /// What to do next.
    fn poll_action(&mut self) -> Option<Action>;
}
