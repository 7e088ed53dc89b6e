//! The vocabulary that all parts of lasthop share: integer-nanosecond time, rates and sizes, packets, events,
//! named random streams and faults of configurations. Nothing here reads a clock or draws from a global
//! generator.

pub mod amount;
mod dispatch;
pub mod dist;
pub mod drop_cause;
pub mod dscp;
pub mod ecn_option;
pub mod event;
pub mod event_kind;
pub mod faults;
pub mod named;
pub mod packet;
pub mod protocol;
pub mod ring;
pub mod rng;
pub mod time;
pub mod transport;
pub mod units;
pub mod user;

pub use amount::Amount;
pub use dist::{Cut, Distribution, Quantity, Sampler};
pub use drop_cause::{DropCause, DropCount, DropLabels, DropPlace};
pub use dscp::Dscp;
pub use ecn_option::EcnOption;
pub use event::{
    AirEvent, ExchangeEvent, FlowInfo, HttpEvent, Observer, PacketEvent, Part, PlaybackEvent, QueueDepth,
    RetransmissionKind, TransportEvent, UndoCause,
};
pub use event_kind::{EventLabels, EventRole, PacketKind, PacketStep, TransportKind};
pub use faults::{Fault, Faults};
pub use named::named;
pub use packet::{
    Body, Datagram, Direction, Ecn, Flags, FlowId, Host, Packet, PacketArena, PacketId, Place, QuicDatagram,
    SackBlock, SackList, Segment, Timestamps,
};
pub use protocol::Protocol;
pub use rng::{RandomStream, Seed};
pub use time::{Duration, Instant, Transmission};
pub use transport::{News, Transport};
pub use units::{Bytes, ParseError, Probability, QueueSize, Rate};
pub use user::{Failure, Maker, UserCode, UserName};
