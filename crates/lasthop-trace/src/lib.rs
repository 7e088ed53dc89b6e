//! From packet events to records: turns the event stream of any engine into metrics.
//!
//! [`Analysis`] turns the events of one run into one [`FlowRecord`] per flow, one [`PageRecord`] per page
//! load, one [`ShortRecord`] per kind of short flows and one [`RunRecord`]; [`Recorder`] keeps the events
//! themselves, [`Overview`] the part that pictures need; [`Capture`] writes the packets as pcapng;
//! [`Conservation`] checks that no packet appears, disappears or is settled twice. All of them are observers
//! and can be combined as tuples.
//!
//! They rely on one property of the stream: within a flow and direction, serials rise in the order of sending
//! ([`Conservation`] checks that, too).

mod analysis;
mod analyze;
mod arrived;
mod batch;
mod columns;
mod conservation;
mod observation;
mod overview;
mod pcap;
mod recorder;
mod records;
mod roles;
mod samples;
mod scenario;
mod series;
mod thinned;

pub use analysis::{Analysis, ApplicationInfo, Heard, Records, RunInfo};
pub use analyze::{
    CaptureAnalysis, CaptureError, CaptureRecord, Ending, PacketFlow, Packets, ProtocolRecord, SizeRecord,
    StreamRecord, analyze, packets,
};
pub use batch::Batch;
pub use columns::{Column, Columnar, Meaning};
pub use conservation::{Conservation, PacketCounts, Violation};
pub use observation::{Kept, Observation, Request, Watch};
pub use overview::{LeftOut, Overview, OverviewTables};
pub use pcap::{
    Addresses, Capture, CapturePoints, DROPS_FILE, SNAP_LENGTH, http_request, mark_congestion, sum_after,
};
pub use recorder::{ObjectRow, PacketRow, Recorder, TcpRow};
pub use records::{FlowRecord, HopRecord, Outcome, PageRecord, RunRecord, ShortRecord, StationRecord};
pub use scenario::{CaptureTarget, SeriesTarget};
pub use series::{Bottlenecks, FoldedSeries, Series, SeriesFile, SeriesRow, SeriesSink, Span};
