//! The causes of packet loss: one list, with the names of each cause in results, pictures and stories.

/// Defines an enum whose variants have a name.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

named! {
    /// Where a packet is lost.
    DropPlace {
        /// On arrival at the router queue.
        Arrival = "arrival",
        /// In the router queue: the packet had been accepted, and was taken out again.
        Queue = "queue",
        /// On the link.
        Link = "link",
    }
}

named! {
    /// The category that a lost packet is counted in. The records have a column for it, named `data_` or
    /// `ack_` and this name.
    DropCount {
        /// The router queue was full, or its policer had no tokens left.
        Queue = "drops_queue",
        /// RED dropped it.
        Red = "drops_red",
        /// Active queue management other than RED dropped it.
        Aqm = "drops_aqm",
        /// An ATM switch discarded it early.
        EarlyPacket = "drops_epd",
        /// An ATM switch dropped it because its flow had more than its share.
        Selective = "drops_selective",
        /// The link lost it.
        Error = "drops_error",
    }
}

/// The properties of a cause.
#[derive(Clone, Copy, Debug)]
pub struct DropLabels {
    /// Short name, as in tables.
    pub name: &'static str,
    /// Name of the drop among the events of a trace: `dropped-` and the name.
    pub event: &'static str,
    /// Where the packet is lost.
    pub place: DropPlace,
    /// The category that the packet is counted in.
    pub count: DropCount,
    /// The text after "dropped: " in legends and captures.
    pub label: &'static str,
    /// Its wording in a story.
    pub words: &'static str,
    /// Plotly's name of its symbol in pictures; `present/pictures/static.py` knows which of the symbols matplotlib
    /// has.
    pub symbol: &'static str,
    pub doc: &'static str,
}

macro_rules! causes {
    ($(
        #[doc = $doc:literal]
        $cause:ident = $name:literal ($place:ident, $count:ident):
            $label:literal, $words:literal, $symbol:literal;
    )*) => {
        /// Why a packet was lost.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DropCause {
            $(#[doc = $doc] $cause,)*
        }

        impl DropCause {
            /// Every cause.
            pub const ALL: &'static [Self] = &[$(Self::$cause,)*];

            /// Its properties.
            pub const fn labels(self) -> &'static DropLabels {
                &LABELS[self as usize]
            }
        }

        static LABELS: [DropLabels; DropCause::ALL.len()] = [$(
            DropLabels {
                name: $name,
                event: concat!("dropped-", $name),
                place: DropPlace::$place,
                count: DropCount::$count,
                label: $label,
                words: $words,
                symbol: $symbol,
                doc: $doc.trim_ascii(),
            },
        )*];
    };
}

causes! {
    /// The router queue was full.
    QueueOverflow = "queue" (Arrival, Queue): "router queue full", "router queue full", "x-thin-open";
    /// The policer in front of the router queue had too few tokens for it.
    Policer = "policer" (Arrival, Queue):
        "policer", "dropped by the policer, as it came too fast", "circle-x-open";
    /// RED dropped it: by chance between the thresholds, or for sure above the upper one.
    Red = "red" (Arrival, Red): "RED", "dropped early by RED", "cross-thin-open";
    /// CoDel dropped it from the head of the queue: packets had waited too long for too long.
    CoDel = "codel" (Queue, Aqm): "CoDel", "dropped by CoDel after too long in the queue", "hexagon-open";
    /// PIE dropped it at its arrival, by chance: packets had to wait too long.
    Pie = "pie" (Arrival, Aqm): "PIE", "dropped early by PIE", "pentagon-open";
    /// `DualPI2` dropped it from the head of the queue, by chance: packets had to wait too long.
    DualPi2 = "dualpi2" (Queue, Aqm):
        "DualPI2", "dropped by DualPI2 at the head of the queue", "diamond-wide-open";
    /// A custom queue discipline dropped it before the queue was full.
    User = "own" (Queue, Aqm):
        "own discipline", "dropped by the scenario's own queue discipline", "cross-open";
    /// The router queue was full, and the packet's flow held most of it.
    LongestFlow = "longest-flow" (Queue, Queue):
        "queue full, longest flow", "dropped out of the longest flow's queue, as the router was full",
        "triangle-down-open";
    /// The router queue was full, and a later arrival took the packet's place.
    PushedOut = "pushed-out" (Queue, Queue):
        "queue full, pushed out", "pushed out of the full router queue by a later arrival",
        "triangle-left-open";
    /// CAKE's filter dropped an ACK that a later one in the queue made superfluous.
    AckFilter = "ack-filter" (Queue, Aqm):
        "ACK filter", "dropped by the ACK filter, as a later ACK makes it superfluous", "octagon-open";
    /// Early packet discard: an ATM switch was above its threshold when the packet's first cell came.
    EarlyPacket = "epd" (Arrival, EarlyPacket):
        "early packet discard", "discarded early by the switch", "triangle-up-open";
    /// Selective drop: the same, and its connection had more than its share of the buffer.
    Selective = "selective" (Arrival, Selective):
        "more than its share of the buffer", "dropped by the switch, beyond its share", "square-open";
    /// It arrived at the router during the scenario's blackhole.
    Blackhole = "blackhole" (Arrival, Error):
        "blackhole", "lost in the blackhole", "circle-cross-open";
    /// Its number among the packets of its flow is in the scenario's list of drops.
    DropList = "drop-list" (Arrival, Error):
        "drop list", "lost due to the scenario's drop_list", "star-triangle-down-open";
    /// The link lost it, and the link has no ARQ.
    LinkError = "error" (Link, Error): "link error", "lost on the link", "asterisk-open";
    /// The link's ARQ reached its limit of retransmissions.
    ArqGivenUp = "arq" (Link, Error): "ARQ gave up", "given up by the link's ARQ", "y-down-open";
    /// The link's receive buffer was full of packets that waited for an earlier one.
    ReceiveBuffer = "receive-buffer" (Link, Error):
        "receive buffer full", "lost behind a packet that ARQ repeats, as the link's receive buffer was full",
        "y-left-open";
    /// Its compressed header was a difference from one that was lost, so the host discarded it.
    HeaderCompression = "header" (Link, Error):
        "header not decompressed", "discarded, as its header was compressed against that of a lost packet",
        "y-right-open";
    /// A node of a wireless medium reached its limit of retries.
    AirGivenUp = "air" (Link, Error):
        "given up on the air", "given up after its last try on the air", "star-diamond-open";
    /// It was for a port of which a NAT had no mapping any more.
    Nat = "nat" (Link, Error): "NAT", "lost at the NAT, where the mapping of its port has expired", "hash-open";
    /// It arrived corrupt, and the host discarded it.
    Corrupt = "corrupt" (Link, Error): "corrupt", "arrived corrupt and discarded", "y-up-open";
}
