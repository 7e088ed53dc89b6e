//! The interface between applications and engines: the actions that an application wants done.

use lasthop_core::{
    ExchangeEvent, Host, HttpEvent, Instant, News, Observer, PlaybackEvent, Transport, TransportEvent,
};

/// An action that an application wants done. The application numbers its flows itself, from 0: first the
/// flows that are known before the run ([`crate::Traffic::flow_names`]), then the flows that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opens a flow that was not known before the run.
    Open {
        /// Number of the flow: the next one.
        flow: u32,
        /// Index in [`crate::Traffic::later_flows`] of the flow's description.
        hosts: usize,
        /// True for a flow that arranges another flow between them.
        is_control: bool,
    },
    Connect {
        flow: u32,
        host: Host,
    },
    Write {
        flow: u32,
        host: Host,
        bytes: u64,
        /// Size of each write. On a flow of datagrams, each write is one datagram.
        write_bytes: u64,
        content: Content,
    },
    /// A host writes a complete message on a new stream, or answers on a stream that the other host began.
    /// Only for flows whose transport has streams.
    Send {
        flow: u32,
        host: Host,
        /// Number of the stream: from 0, in the order in which streams are begun.
        stream: u32,
        bytes: u64,
    },
    /// A host withdraws data that it has written and that has not been sent yet.
    Stop {
        flow: u32,
        host: Host,
    },
    /// A host has nothing more to write.
    Close {
        flow: u32,
        host: Host,
    },
    /// An event for the observer.
    Report {
        flow: u32,
        event: HttpEvent,
    },
    /// An event of a video, for the observer.
    Play {
        flow: u32,
        event: PlaybackEvent,
    },
    /// An event of a flow's requests, for the observer.
    Exchange {
        flow: u32,
        event: ExchangeEvent,
    },
    /// An event of an application with timers of its own, for the observer.
    Transport {
        flow: u32,
        host: Host,
        event: TransportEvent,
    },
    /// The host that requested a short flow has the complete response; or a host that sends an amount not known
    /// in advance has written everything.
    Complete {
        flow: u32,
    },
}

impl Action {
    /// The end that the action applies to: number of the flow, and host.
    #[inline]
    pub const fn end(self) -> Option<(u32, Host)> {
        match self {
            Self::Connect { flow, host }
            | Self::Write { flow, host, .. }
            | Self::Send { flow, host, .. }
            | Self::Stop { flow, host }
            | Self::Close { flow, host } => Some((flow, host)),
            Self::Open { .. }
            | Self::Report { .. }
            | Self::Play { .. }
            | Self::Exchange { .. }
            | Self::Transport { .. }
            | Self::Complete { .. } => None,
        }
    }

    /// Performs the action on that end.
    #[inline]
    pub fn act_on<T: Transport, O: Observer>(self, end: &mut T, now: Instant, observer: &mut O) {
        match self {
            Self::Connect { .. } => end.connect(now, observer),
            Self::Write { bytes, write_bytes, .. } => end.write(now, bytes, write_bytes, observer),
            Self::Send { stream, bytes, .. } => end.send(now, stream, bytes, observer),
            Self::Stop { .. } => end.stop(),
            Self::Close { .. } => end.close(now, observer),
            Self::Open { .. }
            | Self::Report { .. }
            | Self::Play { .. }
            | Self::Exchange { .. }
            | Self::Transport { .. }
            | Self::Complete { .. } => {}
        }
    }

    /// The sender of a stream of datagrams sends one.
    #[inline]
    pub(crate) const fn datagram(host: Host, bytes: u64) -> Self {
        Self::Write { flow: 0, host, bytes, write_bytes: bytes, content: Content::Filler }
    }
}

/// The content of a write. The model engine only counts bytes; real hosts write real messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Anything.
    Filler,
    /// The HTTP request for this object of a page.
    Request(u32),
    /// The HTTP response with this object.
    Response(u32),
}

/// A running application. Sans-IO: its owner calls [`Application::handle_wakeup`] at
/// [`Application::next_wakeup`] and [`Application::handle_news`] when there is news. After each call it
/// performs the actions that [`Application::poll_action`] returns, until there are none.
pub trait Application {
    /// When it next wants to act, if there is no news until then.
    fn next_wakeup(&self) -> Option<Instant>;

    /// Handles everything that is due by `now`.
    fn handle_wakeup(&mut self, now: Instant);

    /// There is news at the end of a flow at `host`.
    fn handle_news(&mut self, now: Instant, flow: u32, host: Host, news: News);

    /// Whether it may react to data that a host receives before the stream ends.
    fn heeds_data(&self) -> bool {
        true
    }

    /// `received` bytes have arrived in order so far on a stream of a flow at `host`, if the transport has
    /// streams. Each datagram of UDP counts as a stream: `stream` is its number among those of its sender.
    /// Called before the other news of the same instant.
    fn handle_stream(&mut self, now: Instant, flow: u32, host: Host, stream: u32, received: u64) {
        let _ = (now, flow, host, stream, received);
    }

    fn poll_action(&mut self) -> Option<Action>;
}
