//! The last hop: router queue, RED, link errors, ARQ, link buffers, as state machines without IO.
//!
//! ```text
//! handle_packet -> [policer] -> [class] -> [RED] -> router queue -> [HTB or grants] -> send buffer -> serialiser
//!               -> tries (ARQ) -> loss, jitter -> propagation -> in-order release -> poll_delivery
//! ```
//!
//! [`Path`] is one direction. It is the complete interface, apart from the configuration and the states of
//! the link ([`Periods`]). [`AtmSwitch`] and [`Medium`] replace both directions.
//!
//! # Where this differs from Linux
//!
//! - A queue is a FIFO. Linux' `pfifo` counts packets and `bfifo` bytes of the link-layer frame; here
//!   bytes are those of the IP packet, and a packet passes straight through when the queue is empty and
//!   the send buffer has room. The send buffer takes the place of a Linux device's ring, but it is counted in
//!   bytes and can hold them until a link-layer acknowledgement returns.
//! - HTB counts bytes of the IP packet, and has no hysteresis. The guest kernel's `sch_htb` judges it
//!   (`lasthop crosscheck --router linux`).
//! - RED is that of Floyd and Jacobson (1993) in floating point, in packets or bytes, with one draw per
//!   packet between the thresholds and no byte-weighted probability. Only [`Path::linux`] uses the RED of
//!   Linux (`red/linux.rs`).
//! - `netem` has no states with a duration, and no ARQ. Its jitter reorders packets unless its rate is used,
//!   too; here delivery is in order unless the link is configured otherwise. `netem`'s limit also covers the
//!   packets in propagation; here the send buffer limits these, and only with
//!   [`BufferRelease::Acknowledged`].
//!
//! # What is not modelled
//!
//! Single bits (an error hits the whole packet), and errors of link-layer acknowledgements.

mod algorithm;
mod atm;
mod blackhole;
mod capacity;
mod chance;
mod config;
mod course;
mod discipline;
mod drawn;
mod drop_list;
pub mod errors;
mod grants;
mod htb;
mod impairments;
mod link;
mod medium;
mod opportunities;
mod path;
mod policer;
mod queue;
mod receive_buffer;
mod router;
mod slots;
#[cfg(test)]
mod testing;
mod timetable;
mod van_jacobson;

pub use algorithm::{ErrorAlgorithm, ErrorSetup, QueueAlgorithm, QueueSetup, QueuedPacket, Verdicts};
pub use atm::{AtmConfig, AtmSwitch, Discard};
pub use blackhole::BlackholeConfig;
pub use capacity::Capacity;
pub use config::{
    AckFilter, ArqConfig, BufferRelease, CakeConfig, CellConfig, CellUp, CellUser, ClassConfig, CoDelConfig,
    CourseConfig, DisciplineConfig, DrawnCourse, DropTailConfig, DrxConfig, DualPi2Config, Epochs,
    ErrorConfig, FlowsConfig, FqCoDelConfig, FqPieConfig, Framing, GilbertElliott, GrantConfig, HarqConfig,
    HeaderCompression, HtbConfig, Isolation, LinkChange, LinkConfig, LinuxDiscipline, LinuxFlows, LinuxQueue,
    LinuxQueues, LinuxRed, MatchConfig, MediumConfig, MediumSetup, PathConfig, PieConfig, PolicerConfig,
    QueueConfig, RedConfig, RequestKind, Scheduler, SlotsConfig, Standard, Start, StateConfig, StateLookup,
    States, Tins, UserDiscipline, UserErrors, Walk, WifiConfig, WifiQueue, WifiStation, check_delay,
};
pub use errors::{LinkState, Period, Periods, bad_periods};
pub use htb::Classifier;
pub use medium::Medium;
pub use opportunities::{Schedule, ScheduleError};
pub use path::Path;
pub use timetable::Timetable;
