//! What is known of an application before it runs.

use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Distribution, Dscp, Duration, Ecn, Faults, Host, Instant, Protocol, Rate, Seed, Segment,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{HttpConfig, Offer, Outlook, Program};

/// What the hosts of some of the short transfers do other than `[tcp]` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShortHosts {
    /// What results of these are called.
    pub name: String,
    /// Initial congestion window in segments.
    pub initial_window: u32,
    /// Advertised window at first, in segments.
    pub receive_window_initial: u32,
}

impl ShortHosts {
    pub(crate) fn check(&self, earlier: &[Self], faults: &mut Faults) {
        let Self { name, initial_window, receive_window_initial } = self;
        let is_taken = earlier.iter().any(|other| other.name == *name);
        faults.require(!is_taken && !name.is_empty(), "name", || {
            format!("{name:?} is empty or taken; write \"iw{initial_window}\", say")
        });
        faults.in_range(*initial_window, 1..=Segment::WINDOW_MAX, "initial_window");
        faults.in_range(*receive_window_initial, 2..=Segment::WINDOW_MAX, "receive_window_initial");
    }
}

/// Datagrams that an application sends at a steady rate, whatever the network does.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams<'a> {
    /// The key of `[[flow]]` that sets the rate.
    pub key: &'static str,
    /// Of payload.
    pub rate: Rate,
    /// Of each datagram.
    pub payload: Bytes,
    /// Between the starts of two datagrams.
    pub interval: Duration,
    /// When the first one leaves.
    pub start: &'a Distribution<Duration>,
    /// How long they are sent from then on.
    pub duration: Duration,
}

/// What decides how a call sounds, beside what the network does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Voice {
    /// Its codec, as scenarios call it.
    pub codec: &'static str,
    /// Speech in a packet.
    pub frame: Duration,
    /// What passes from speech to the frame that has it, and in the codec.
    pub codec_delay: Duration,
    /// How long the first frame that arrives waits before it is played.
    pub jitter_buffer: Duration,
    /// The longest gap that the codec's loss concealment fills, if there is one.
    pub conceals: Option<Duration>,
    /// Ie of ITU-T G.107.
    pub impairment: f64,
    /// Bpl of ITU-T G.107.
    pub loss_robustness: f64,
}

/// What an application may know of the scenario around it.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Name of the application, unique in the run.
    pub name: &'a str,
    /// The host that sends the application's data; the other one receives them.
    pub sender: Host,
    /// What carries the application's flows.
    pub protocol: Protocol,
    /// How web pages are loaded, if the scenario says.
    pub http: Option<&'a HttpConfig>,
    /// Largest IP packet.
    pub mtu: Bytes,
    /// Payload of a full TCP segment.
    pub segment_bytes: u32,
    /// What an application writes to a TCP connection at a time, unless its configuration says.
    pub write_bytes: u64,
    /// What the last hop carries at first in the direction of the application's data, in bit/s of full IP packets.
    pub bottleneck_bps: f64,
    /// Propagation delay from the mobile host to the fixed host.
    pub propagation_up: Duration,
    /// Of the replication's random streams.
    pub seed: Seed,
}

/// An entry of the scenario's list of flows: what is known of an application before it runs.
pub trait Traffic {
    /// Name in the records.
    fn name(&self) -> &str;

    /// When it starts.
    fn start(&self) -> &Distribution<Duration>;

    /// Finds what no application with packets of up to `mtu` bytes can be.
    fn check(&self, mtu: Bytes, faults: &mut Faults);

    /// When it starts at the latest (see [`Distribution::most`]), or when its stream ends then.
    fn latest_begin(&self) -> Duration {
        self.start().most()
    }

    /// Bytes of application data that are known to be sent over a transport that waits for the network.
    fn offered_bytes(&self) -> u64 {
        0
    }

    /// Transport protocol of its flows.
    fn protocol(&self) -> Protocol {
        Protocol::Tcp
    }

    /// Names of the flows that are known before the run, if the application is called `name` there.
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

    /// Port of the fixed host, if one is stated.
    fn port(&self) -> Option<NonZeroU16> {
        None
    }

    /// The key that says how many flows it is, if it is many by itself; it has no `count` then.
    fn number_key(&self) -> Option<&'static str> {
        None
    }

    /// Why its data cannot go from the mobile host to the fixed host, if they cannot.
    fn only_down(&self) -> Option<&'static str> {
        None
    }

    /// The host that connects, where `sender` sends the data.
    fn caller(&self, sender: Host) -> Host {
        sender
    }

    /// Its flows are open from the beginning, without a handshake. Only a model can do that.
    fn is_open_at_first(&self) -> bool {
        false
    }

    /// What the flows are like that it opens while it runs.
    fn later_flows(&self) -> &[ShortHosts] {
        &[]
    }

    /// It opens flows while it runs.
    fn opens_later(&self) -> bool {
        !self.later_flows().is_empty()
    }

    /// How its frames become speech, of a call.
    fn voice(&self) -> Option<Voice> {
        None
    }

    /// The datagrams that it may send at most, whatever the network does.
    fn datagrams(&self) -> Option<Datagrams<'_>> {
        None
    }

    /// QUIC can carry its flows.
    fn runs_over_quic(&self) -> bool {
        false
    }

    /// Requests that it makes one after another, each after the whole response to the last one.
    fn requests(&self) -> Option<u32> {
        None
    }

    /// It is a video.
    fn plays(&self) -> bool {
        false
    }

    /// What it may send at most, by and large.
    fn offer(&self, around: &Outlook<'_>) -> Offer;

    /// The application at work, from `start` on.
    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program;
}
