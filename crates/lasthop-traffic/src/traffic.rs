//! The properties of an application that are known before it runs.

use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Distribution, Dscp, Duration, Ecn, Faults, Host, Instant, Protocol, Rate, Seed, Segment,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{HttpConfig, Offer, Outlook, Program};

/// TCP settings of some short transfers that differ from `[tcp]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShortHosts {
    /// Name of their results.
    pub name: String,
    /// Initial congestion window in segments.
    pub initial_window: u32,
    /// Initial advertised window in segments.
    pub receive_window_initial: u32,
}

impl ShortHosts {
    pub(crate) fn check(&self, earlier: &[Self], faults: &mut Faults) {
        let Self { name, initial_window, receive_window_initial } = self;
        let is_taken = earlier.iter().any(|other| other.name == *name);
        faults.require(!is_taken && !name.is_empty(), "name", || {
            format!("{name:?} is empty or a duplicate; write for example \"iw{initial_window}\"")
        });
        faults.in_range(*initial_window, 1..=Segment::WINDOW_MAX, "initial_window");
        faults.in_range(*receive_window_initial, 2..=Segment::WINDOW_MAX, "receive_window_initial");
    }
}

/// Datagrams that an application sends at a steady rate, regardless of the network.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams<'a> {
    /// The key of `[[flow]]` that sets the rate.
    pub key: &'static str,
    /// Rate of the payload.
    pub rate: Rate,
    /// Payload of each datagram.
    pub payload: Bytes,
    /// Time between the starts of two datagrams.
    pub interval: Duration,
    /// When the first datagram leaves.
    pub start: &'a Distribution<Duration>,
    /// How long datagrams are sent from then on.
    pub duration: Duration,
}

/// Properties of a call that determine its quality, apart from the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Voice {
    /// The name of its codec in scenarios.
    pub codec: &'static str,
    /// Duration of the speech in a packet.
    pub frame: Duration,
    /// Delay from speech to the complete frame, and in the codec.
    pub codec_delay: Duration,
    /// How long the first frame to arrive waits before it is played.
    pub jitter_buffer: Duration,
    /// The longest gap that the codec's loss concealment fills, if there is one.
    pub conceals: Option<Duration>,
    /// Ie of ITU-T G.107.
    pub impairment: f64,
    /// Bpl of ITU-T G.107.
    pub loss_robustness: f64,
}

/// The facts of the scenario that an application may use.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Name of the application, unique in the run.
    pub name: &'a str,
    /// The host that sends the application's data; the other one receives them.
    pub sender: Host,
    /// Transport of the application's flows.
    pub protocol: Protocol,
    /// How web pages are loaded, if the scenario states it.
    pub http: Option<&'a HttpConfig>,
    pub mtu: Bytes,
    /// Payload of a full TCP segment.
    pub segment_bytes: u32,
    /// Bytes that an application writes to a TCP connection at a time, unless its configuration states
    /// another size.
    pub write_bytes: u64,
    /// Initial capacity of the last hop in the direction of the application's data, in bit/s of full IP
    /// packets.
    pub bottleneck_bps: f64,
    /// Propagation delay from the client to the server.
    pub propagation_up: Duration,
    /// Seed of the replication's random streams.
    pub seed: Seed,
}

/// An entry of the scenario's list of flows: the properties of an application that are known before it runs.
pub trait Traffic {
    /// Name in the records.
    fn name(&self) -> &str;

    fn start(&self) -> &Distribution<Duration>;

    /// Finds faults of an application with packets of up to `mtu` bytes.
    fn check(&self, mtu: Bytes, faults: &mut Faults);

    /// Its latest start (see [`Distribution::most`]), or the end of its stream after such a start.
    fn latest_begin(&self) -> Duration {
        self.start().most()
    }

    /// Bytes of application data, if known, that it sends over a transport that adapts to the network.
    fn offered_bytes(&self) -> u64 {
        0
    }

    fn protocol(&self) -> Protocol {
        Protocol::Tcp
    }

    /// Names of the flows that are known before the run, if `name` is the application's name in that run.
    fn flow_names(&self, name: &str, _http: Option<&HttpConfig>) -> Vec<String> {
        vec![name.to_owned()]
    }

    /// See [`lasthop_core::FlowInfo::offered_bytes`].
    fn stream_bytes(&self) -> Option<u64> {
        None
    }

    /// See [`lasthop_core::FlowInfo::sends_for`].
    fn sends_for(&self) -> Option<Duration> {
        None
    }

    /// Code point of its flows' packets.
    fn dscp(&self) -> Dscp {
        Dscp::default()
    }

    /// ECN field of its datagrams.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Port of the server, if one is stated.
    fn port(&self) -> Option<NonZeroU16> {
        None
    }

    /// The key that states its number of flows, if one entry has many flows by itself; it then has no
    /// `count`.
    fn number_key(&self) -> Option<&'static str> {
        None
    }

    /// Why its data cannot go from the client to the server, if they cannot.
    fn only_down(&self) -> Option<&'static str> {
        None
    }

    /// The host that connects, if `sender` sends the data.
    fn caller(&self, sender: Host) -> Host {
        sender
    }

    /// True if its flows are open from the beginning, without a handshake. Only the model engine can do that.
    fn is_open_at_first(&self) -> bool {
        false
    }

    /// Descriptions of the flows that it opens while it runs.
    fn later_flows(&self) -> &[ShortHosts] {
        &[]
    }

    /// True if it opens flows while it runs.
    fn opens_later(&self) -> bool {
        !self.later_flows().is_empty()
    }

    /// For a call: how its frames become speech.
    fn voice(&self) -> Option<Voice> {
        None
    }

    /// The maximum stream of datagrams that it sends regardless of the network.
    fn datagrams(&self) -> Option<Datagrams<'_>> {
        None
    }

    /// True if QUIC can carry its flows.
    fn runs_over_quic(&self) -> bool {
        false
    }

    /// Number of requests that it makes one after another, each after the complete response to the previous
    /// one.
    fn requests(&self) -> Option<u32> {
        None
    }

    /// True if one host makes requests, and the other responds.
    fn asks(&self) -> bool {
        self.requests().is_some()
    }

    /// True for a video.
    fn plays(&self) -> bool {
        false
    }

    /// Approximate upper bounds of its traffic.
    fn offer(&self, around: &Outlook<'_>) -> Offer;

    /// The running application, from `start` on.
    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program;
}
