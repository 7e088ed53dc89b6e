//! The kinds of events of packets and of transports: one list, with the names of each kind in traces,
//! pictures and stories.

use crate::{DropCause, PacketEvent, RetransmissionKind, TransportEvent, UndoCause};

/// The category of a kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventRole {
    /// An event of a packet.
    Packet,
    /// An event inside a transport.
    Transport,
    /// A retransmission. Its name is `retransmitted-` and the reason.
    Retransmission,
    /// A transport undid a reduction. Its name is `undone-` and the evidence.
    Undo,
}

impl EventRole {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Transport => "transport",
            Self::Retransmission => "retransmission",
            Self::Undo => "undo",
        }
    }
}

/// The properties of a kind of event.
#[derive(Clone, Copy, Debug)]
pub struct EventLabels {
    /// Its name in traces.
    pub name: &'static str,
    pub role: EventRole,
    /// Its text in legends.
    pub label: &'static str,
    /// Its wording in a story.
    pub words: &'static str,
    /// Plotly's name of its symbol in pictures; empty if it has none.
    pub symbol: &'static str,
    pub doc: &'static str,
}

macro_rules! kinds {
    ($(#[$meta:meta])* $name:ident: $($(#[doc = $doc:literal])+
        $kind:ident = $text:literal ($role:ident): $label:literal, $words:literal, $symbol:literal;
    )*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $doc])+ $kind,)*
        }

        impl $name {
            /// The properties of every kind, in the order of the kinds.
            pub const LABELS: &'static [EventLabels] = &[$(
                EventLabels {
                    name: $text,
                    role: EventRole::$role,
                    label: $label,
                    words: $words,
                    symbol: $symbol,
                    doc: concat!($($doc),+).trim_ascii(),
                },
            )*];

            /// Its properties.
            pub const fn labels(self) -> &'static EventLabels {
                &Self::LABELS[self as usize]
            }
        }
    };
}

kinds! {
    /// The events of a packet, apart from its loss.
    PacketStep:
    /// The sending host sent it.
    Sent = "sent" (Packet): "segment sent", "sent", "square";
    /// The router marked it.
    Marked = "marked" (Packet): "ECN mark", "marked by the router (congestion experienced)", "circle-open";
    /// It entered the router queue.
    Enqueued = "enqueued" (Packet): "entered the router queue", "taken into the router queue", "";
    /// It left the router queue.
    Dequeued = "dequeued" (Packet): "left the router queue", "handed to the link", "";
    /// A transmission over the link failed.
    LinkRetry = "link-retry" (Packet): "failed try over the link", "tried in vain over the link", "";
    /// It crossed a hop, and continues.
    Forwarded = "forwarded" (Packet): "crossed a hop", "crossed the hop", "";
    /// The receiving host received it.
    Delivered = "delivered" (Packet): "segment arrived", "arrived", "circle";
    /// The receiving host received a copy of it, which the link made.
    Duplicated = "duplicated" (Packet): "copy arrived", "arrived a second time", "";
}

kinds! {
    /// The events inside a transport.
    TransportKind:
    /// The handshake is complete.
    Established = "established" (Transport): "connection established", "established", "";
    /// The retransmission timer expired.
    Timeout = "timeout" (Transport): "timer expired", "the retransmission timer expired", "circle-open";
    /// A tail loss probe was sent.
    TailLossProbe = "tail-loss-probe" (Transport):
        "tail loss probe with new data", "a probe was sent to bring an ACK", "diamond";
    /// Fast recovery began.
    RecoveryEntered = "recovery-entered" (Transport): "fast recovery", "fast recovery began", "";
    /// Recovery is over.
    RecoveryLeft = "recovery-left" (Transport): "end of recovery", "recovery ended", "";
    /// Everything that was sent over a long period was lost, and the window fell to its minimum.
    PersistentCongestion = "persistent-congestion" (Transport):
        "persistent congestion", "everything was lost over a long period, and the window fell to its \
        minimum", "";
    /// The window was reduced because of an ECN echo.
    EcnReduction = "ecn-reduction" (Transport): "reduction by ECN", "an ECN echo reduced the window", "";
    /// A reduction was undone because of timestamps.
    UndoneTimestamps = "undone-timestamps" (Undo): "reduction undone",
        "an echoed timestamp older than the first retransmission (Eifel detection, RFC 3522)", "star-open";
    /// A reduction was undone because of D-SACK.
    UndoneDsack = "undone-dsack" (Undo): "reduction undone",
        "D-SACK blocks for every retransmission of the episode (RFC 2883, RFC 3708)", "star-open";
    /// A reduction was undone because of F-RTO.
    UndoneFRto = "undone-frto" (Undo): "reduction undone",
        "F-RTO: two ACKs advanced the window after the timeout (RFC 4138)", "star-open";
    /// A segment was sent again in fast recovery.
    RetransmittedFast = "retransmitted-fast" (Retransmission):
        "fast retransmission", "sent again in fast recovery", "triangle-up";
    /// A segment was sent again after a timeout.
    RetransmittedTimeout = "retransmitted-timeout" (Retransmission):
        "retransmission after timeout", "sent again after the timeout", "diamond";
    /// A hole was filled because the window had room.
    RetransmittedForward = "retransmitted-forward" (Retransmission):
        "forward retransmission", "sent again because the window allowed", "square";
    /// The last segment was sent again as a tail loss probe.
    RetransmittedProbe = "retransmitted-probe" (Retransmission):
        "tail loss probe", "sent again to bring an ACK", "diamond-open";
    /// Data were sent again because their packet counts as lost.
    RetransmittedLost = "retransmitted-lost" (Retransmission):
        "retransmission of lost data", "sent again because its packet counts as lost", "triangle-down";
    /// The window changed.
    Window = "window" (Transport): "window", "the window changed", "";
    /// The congestion control is in another state.
    State = "state" (Transport): "state of the congestion control", "the congestion control changed state", "";
    /// A round-trip time was measured.
    RttSample = "rtt-sample" (Transport): "RTT", "a round-trip time was measured", "circle";
    /// The connection is closed.
    Closed = "closed" (Transport): "connection closed", "closed", "";
    /// The connection was given up.
    Aborted = "aborted" (Transport): "connection given up", "given up", "";
}

/// A packet event without its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// It continues.
    Step(PacketStep),
    /// It was lost.
    Dropped(DropCause),
}

impl PacketKind {
    /// Its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step(step) => step.labels().name,
            Self::Dropped(cause) => cause.labels().event,
        }
    }

    /// A number, different for each kind.
    pub const fn number(self) -> u32 {
        match self {
            Self::Step(step) => step as u32,
            Self::Dropped(cause) => PacketStep::LABELS.len() as u32 + cause as u32,
        }
    }
}

impl PacketEvent {
    pub const fn kind(self) -> PacketKind {
        PacketKind::Step(match self {
            Self::Sent => PacketStep::Sent,
            Self::Marked => PacketStep::Marked,
            Self::Enqueued(_) => PacketStep::Enqueued,
            Self::Dequeued(_) => PacketStep::Dequeued,
            Self::LinkRetry => PacketStep::LinkRetry,
            Self::Forwarded => PacketStep::Forwarded,
            Self::Delivered => PacketStep::Delivered,
            Self::Duplicated => PacketStep::Duplicated,
            Self::Dropped(cause) => return PacketKind::Dropped(cause),
        })
    }
}

impl TransportEvent {
    pub const fn kind(self) -> TransportKind {
        match self {
            Self::Established => TransportKind::Established,
            Self::Timeout { .. } => TransportKind::Timeout,
            Self::TailLossProbe { .. } => TransportKind::TailLossProbe,
            Self::RecoveryEntered { .. } => TransportKind::RecoveryEntered,
            Self::RecoveryLeft => TransportKind::RecoveryLeft,
            Self::PersistentCongestion => TransportKind::PersistentCongestion,
            Self::EcnReduction => TransportKind::EcnReduction,
            Self::Undone(UndoCause::Timestamps) => TransportKind::UndoneTimestamps,
            Self::Undone(UndoCause::Dsack) => TransportKind::UndoneDsack,
            Self::Undone(UndoCause::FRto) => TransportKind::UndoneFRto,
            Self::Retransmitted { kind: RetransmissionKind::Fast, .. } => TransportKind::RetransmittedFast,
            Self::Retransmitted { kind: RetransmissionKind::Timeout, .. } => {
                TransportKind::RetransmittedTimeout
            }
            Self::Retransmitted { kind: RetransmissionKind::Forward, .. } => {
                TransportKind::RetransmittedForward
            }
            Self::Retransmitted { kind: RetransmissionKind::Probe, .. } => TransportKind::RetransmittedProbe,
            Self::Retransmitted { kind: RetransmissionKind::Lost, .. } => TransportKind::RetransmittedLost,
            Self::Window { .. } => TransportKind::Window,
            Self::State(_) => TransportKind::State,
            Self::RttSample { .. } => TransportKind::RttSample,
            Self::Closed => TransportKind::Closed,
            Self::Aborted => TransportKind::Aborted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own_that_tells_its_role() {
        let labels: Vec<&EventLabels> = PacketStep::LABELS.iter().chain(TransportKind::LABELS).collect();
        for (index, kind) in labels.iter().enumerate() {
            assert!(labels[..index].iter().all(|other| other.name != kind.name), "{}", kind.name);
            assert_eq!(kind.name.starts_with("retransmitted-"), kind.role == EventRole::Retransmission);
            assert_eq!(kind.name.starts_with("undone-"), kind.role == EventRole::Undo);
            assert!(![kind.label, kind.words, kind.doc].contains(&""), "{}", kind.name);
        }
    }

    #[test]
    fn drops_go_on_where_the_other_kinds_of_packet_events_end() {
        let drops = DropCause::ALL.iter().map(|cause| PacketKind::Dropped(*cause));
        let numbers: Vec<u32> = drops.map(PacketKind::number).collect();
        assert_eq!(numbers[0], PacketEvent::Duplicated.kind().number() + 1);
        assert!(numbers.is_sorted_by(|a, b| a < b));
        assert_eq!(PacketKind::Dropped(DropCause::Red).name(), "dropped-red");
    }
}
