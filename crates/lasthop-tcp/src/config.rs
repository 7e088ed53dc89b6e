//! The switches of a TCP endpoint. A profile is a set of values for all of them, stored as data in
//! `profiles/`; a scenario names a profile and changes single switches.

use std::fmt;
use std::rc::Rc;

use lasthop_core::{Bytes, Duration, ParseError, RandomStream};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::algorithm::UserControl;
use crate::clock::{TickClock, WHEEL_TURN};

mod draws;
mod knobs;
mod pacing;
mod rules;

pub use draws::Draws;
pub use knobs::Knobs;
pub use pacing::Pacing;
pub use rules::{RULES, Rule};

/// Maximum delay of an adaptive delayed ACK (`TCP_DELACK_MAX`).
pub(crate) const ACK_DELAY_MAX: Duration = Duration::from_millis(200);
/// Bytes of a write of iperf3 (`DEFAULT_TCP_BLKSIZE`).
const WRITE_BYTES: u64 = 128 << 10;

/// Every switch of a TCP endpoint. The profile supplies the values that a scenario does not set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct TcpConfig {
    /// The era that supplies the defaults of all other switches. If a scenario turns a feature off, switches that
    /// need this feature are turned off, too, unless the scenario sets them.
    #[schemars(default)]
    pub profile: Profile,
    /// The implementation of the sender: its units, clocks and timers. Each stack supports its own values of
    /// `recovery` and some switches that only this stack has.
    pub stack: Stack,
    /// Initial congestion window in segments, while nothing is cached for the destination.
    pub initial_window: u32,
    /// A connection whose SYN or SYN-ACK was sent again starts with one segment (RFC 5681, section 3.1).
    pub syn_timeout_cuts_window: bool,
    /// The round-trip time of the handshake counts for the timeout, even without timestamps. Without
    /// timestamps, Linux up to 2.6 forgets it, because a timeout that is too small could never be corrected
    /// (`tcp_init_metrics`); the first timeout is then `rto_initial`.
    pub handshake_rtt: bool,
    /// Initial slow-start threshold, while nothing is cached for the destination; at least two segments.
    pub initial_ssthresh: SizeLimit,
    /// Memory of the socket for data that is not acknowledged (twice `SO_SNDBUF`). It includes 1280 bytes for
    /// each segment that is not SACKed, as in Linux 4.11. An application that has filled it writes again when a
    /// third is free. Only stack `linux-6` supports a limit.
    pub send_buffer: SizeLimit,
    /// Duplicate ACKs, or segments SACKed, that start fast recovery.
    pub dupack_threshold: u32,
    /// With fewer than four segments outstanding and no new data to send, fast recovery starts when all but
    /// one of them are reported (RFC 5827, section 3.2).
    pub early_retransmit: bool,
    /// Send new data on the first duplicate ACKs when the window in flight allows (RFC 3042).
    pub limited_transmit: bool,
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// The receiver reports duplicates (RFC 2883), and the sender undoes a reduction once every
    /// retransmission of the episode is reported as a duplicate.
    pub dsack: bool,
    /// Timestamps (RFC 7323): every ACK of new data gives a round-trip sample.
    pub timestamps: bool,
    /// Undo of reductions that an echoed timestamp proves unnecessary (Eifel detection, RFC 3522). Needs
    /// timestamps.
    pub eifel: bool,
    /// Spurious-timeout detection by F-RTO.
    pub frto: FRtoMode,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Accurate ECN (RFC 9768): if both ends support it, they report the number of marks to each other in the
    /// header's ECN flags; otherwise ECN is that of RFC 3168. Needs `ecn`. Prague always requests it.
    pub accurate_ecn: bool,
    /// The option of accurate ECN (RFC 9768, section 3.2.3): if both ends send it, each segment reports the bytes
    /// received with each codepoint, so that a sender can detect whether the counter in the header has wrapped.
    /// Segments are 12 bytes smaller, and a change of codepoint is acknowledged immediately. Needs
    /// `accurate_ecn`, or Prague.
    pub accurate_ecn_option: bool,
    /// Control block interdependence: when a connection closes, ssthresh, cwnd, RTT, RTT variance and reordering
    /// are cached per destination, for the next connection.
    pub cached_metrics: bool,
    /// Initial window of a connection that finds cached metrics.
    pub cached_initial_window: CachedInitialWindow,
    /// The algorithm that grows the window, and cuts it after signs of congestion.
    pub congestion_control: CongestionControl,
    /// The version of `tcp_prague.c` that `congestion_control = "prague"` follows.
    pub prague_version: PragueVersion,
    /// Segments leave at a rate instead of in bursts: at twice the window per round-trip time in slow start,
    /// later at 1.2 times that, as Linux paces a socket. BBR sets its own rate and always paces. With `"fq"`
    /// the host's queue discipline paces; TCP passes segments to it ahead of time. With `"never"` not even BBR
    /// paces, as before Linux 4.13 without `fq`, and it is the BBR of that time. Only stack `linux-6` supports
    /// them.
    pub pacing: Pacing,
    /// The first slow start slows down when the delay grows, and resumes if the delay falls again
    /// (`HyStart++`, RFC 9406). For `reno`, and for `cubic` instead of Linux' `HyStart`, with the stack
    /// `linux-6`.
    pub hystart_plus_plus: bool,
    /// The reaction to signs of loss: the window, and the retransmissions.
    pub recovery: RecoveryRules,
    /// Under classic rules: after a fast retransmit or a timeout, duplicate ACKs start another fast
    /// retransmit only once more is acknowledged than had been sent (RFC 2582, section 5).
    pub fast_retransmit_guard: bool,
    /// `NewReno` restarts the retransmission timer only at the first partial ACK of a recovery, so that many
    /// losses end in slow start (the "impatient" variant of RFC 6582, section 4). If false, it restarts the
    /// timer at each partial ACK.
    pub newreno_impatient: bool,
    /// Send no segment that is smaller than it could be only because the window is almost full (RFC 9293,
    /// section 3.8.6.2.1). With windows that count segments this is always the case.
    pub silly_window_avoidance: bool,
    /// Nagle's algorithm: data that does not fill a segment waits for more data, or for an ACK. With `classic` it
    /// waits while any data is unacknowledged (RFC 896); with `linux-6`, while another segment that was not full
    /// is unacknowledged (Minshall's version, as in Linux).
    pub nagle: bool,
    /// New data is appended to waiting segments, as in Linux (`tcp_sendmsg`); if false, a segment ends with its
    /// write. For the stack `linux-2`; the other stacks always append.
    pub joined_writes: bool,
    /// At a dubious ACK, segments that have waited longer than the retransmission timeout count as lost before
    /// the timer expires.
    pub lost_by_age: bool,
    /// Maximum number of segments sent in response to a dubious ACK: limits cwnd to in-flight plus this.
    pub max_burst: u32,
    /// Resolution of the host's timers and of its timestamp clock; in the stack `linux-6` the latter has 1 ms
    /// and round-trip times 1 us.
    pub tick: Duration,
    /// A segment that was sent long enough before another segment that has arrived is lost (RACK, RFC 8985).
    /// Has an effect only with SACK. If off, three duplicate ACKs or SACKed segments indicate a loss.
    pub rack: bool,
    /// After two round-trip times without an ACK, the last segment is retransmitted, or a new one is sent
    /// (RFC 8985, section 7).
    pub tail_loss_probe: bool,
    /// The clocks of all hosts tick in phase, from the start of the run. If false, each has its own phase.
    pub common_clock: bool,
    /// Lower bound of the retransmission timeout; in Linux, of its variance term.
    pub rto_min: Duration,
    /// Retransmission timeout before the first RTT sample.
    pub rto_initial: Duration,
    /// Upper bound of the retransmission timeout, backoff included.
    pub rto_max: Duration,
    /// Retransmissions of a segment before the connection is aborted.
    pub retries: u32,
    /// Retransmissions of a SYN before the connection is aborted.
    pub syn_retries: u32,
    /// Time for which an end whose FIN is acknowledged waits for the peer's FIN, counted from the last segment
    /// that arrived (Linux: `tcp_fin_timeout`).
    pub fin_timeout: Duration,
    /// Number of full-sized segments that trigger an immediate ACK; with fewer, the ACK may be delayed.
    pub ack_every: u32,
    /// Time after which a delayed ACK is sent, counted in ticks from the current tick.
    pub delayed_ack: Duration,
    /// The delay follows the spacing of segments, from `delayed_ack` up to 200 ms; quick ACKs are sent at the
    /// start and after pauses, duplicates and marks; the end of a write is acknowledged immediately, unless the
    /// application answers (Linux 6.12; with the stack `linux-2` as in Linux 2.4, up to 500 ms where no write
    /// ends). `delayed_ack` is then "40 ms" in Linux, `ack_every` is 2, and
    /// `first_segment_acked_at_once` and `quick_acks` have no effect.
    pub delayed_ack_adapts: bool,
    /// Acknowledge the first data segment immediately.
    pub first_segment_acked_at_once: bool,
    /// Acknowledge the first data segments immediately: as many as fit half of the advertised window, at least 2
    /// and at most 16, as in Linux.
    pub quick_acks: bool,
    /// Initial advertised window in segments.
    pub receive_window_initial: u32,
    /// Growth of the advertised window for each in-order segment, in segments.
    pub receive_window_growth: u32,
    /// Largest advertised window, in segments; limited by the header to 65 535 bytes without window scaling.
    pub receive_window_max: u32,
    /// Window scaling (RFC 7323, section 2), by the smallest shift that can express the largest window.
    pub window_scaling: bool,
    /// The SACK-permitted option of a SYN occupies the padding of the timestamps option, as in Linux: the SYN
    /// is four bytes shorter.
    pub compact_syn: bool,
    /// Random stream of a congestion control, at one end of one connection.
    #[serde(skip)]
    pub draws: Draws,
    /// Switches that scenarios cannot set.
    #[serde(skip)]
    pub knobs: Knobs,
}

/// The era of a set of switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Profile {
    /// Linux 2.4.20 as the Helsinki studies configured it.
    #[serde(rename = "linux-2.4")]
    Linux24,
    /// Linux 2.6 before proportional rate reduction, with Reno growth.
    #[serde(rename = "linux-2.6")]
    Linux26,
    /// Linux 4.11 on a host without the queue discipline `fq`: as `linux-6`, but not even BBR is paced.
    #[serde(rename = "linux-4.11")]
    Linux411,
    /// Linux 6.12 with its defaults (CUBIC), but without cached metrics; timers of 250 Hz.
    #[default]
    #[serde(rename = "linux-6")]
    Linux6,
    /// The TCP of simulators of 1998: classic rules, a clock of 100 ms, no delayed ACKs; `recovery` is "reno".
    #[serde(rename = "ns-1998")]
    Ns1998,
}

impl Profile {
    /// The values of all switches, as a TOML table.
    pub const fn toml(self) -> &'static str {
        match self {
            Self::Linux24 => include_str!("../profiles/linux-2.4.toml"),
            Self::Linux26 => include_str!("../profiles/linux-2.6.toml"),
            Self::Linux411 => include_str!("../profiles/linux-4.11.toml"),
            Self::Linux6 => include_str!("../profiles/linux-6.toml"),
            Self::Ns1998 => include_str!("../profiles/ns-1998.toml"),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The implementation of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// Linux up to 2.6: windows count segments, a scoreboard tracks each segment, and time counts ticks.
    #[serde(rename = "linux-2")]
    Linux2,
    /// Linux 6: as `linux-2`, but time counts microseconds, and one timer serves timeouts, tail loss probes
    /// and RACK.
    #[serde(rename = "linux-6")]
    Linux6,
    /// Textbooks, BSD and the simulators of the 1990s: windows count bytes, one segment is timed at a time,
    /// and a timeout goes back to the first unacknowledged byte.
    Classic,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Initial window of a connection that finds cached metrics; never above the cached ssthresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CachedInitialWindow {
    /// By segment size, as in Linux and RFC 2414: 4 segments up to 1095 bytes, 3 up to 1460, else 2.
    BySegmentSize,
    /// `initial_window`, as for any other connection.
    Configured,
}

/// Spurious-timeout detection by F-RTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FRtoMode {
    /// Conventional recovery after every timeout.
    Off,
    /// The version of 2002 (draft-sarolahti-tsvwg-tcp-frto-00): after a spurious timeout the window is
    /// half of the flight size before it.
    #[serde(rename = "2002")]
    Draft2002,
    /// RFC 4138, basic algorithm: after a spurious timeout ssthresh is restored and the window kept
    /// (Eifel response, RFC 4015).
    #[serde(rename = "rfc4138")]
    Rfc4138,
    /// RFC 5682, SACK-enhanced algorithm, with the same response. Needs SACK.
    #[serde(rename = "rfc5682-sack")]
    Rfc5682Sack,
}

/// The reaction to signs of loss: the window, and the retransmissions.
///
/// The first three are for the stack `linux-2`: ssthresh is half of the flight size, the window ends at
/// ssthresh, and until then it is at most the flight size plus one; with the first two, the window also drops
/// to ssthresh immediately. The fourth is for `linux-6`. All others are for the stack `classic`: ssthresh is
/// half of the window in whole segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryRules {
    /// Linux 2.4 without rate halving: the window stays at ssthresh, and the head alone is marked lost on
    /// each further sign of loss.
    LinuxInFlight,
    /// RFC 3517: every segment with enough SACKed segments above it is lost. The window continues to fall, by
    /// one every second ACK, down to half of ssthresh, as with rate halving in Linux 2.4.
    Rfc3517RateHalving,
    /// RFC 3517, and rate halving as in Linux until 3.1: the window falls by one every second ACK, from its
    /// value before.
    RateHalving,
    /// Proportional rate reduction (RFC 6937) as in Linux 6, with RACK if `rack` is on, otherwise with RFC
    /// 6675.
    ProportionalRate,
    /// Duplicate ACKs have no effect: losses are detected by timeout only ("vanilla" TCP).
    None,
    /// Fast retransmit, then slow start from one segment.
    Tahoe,
    /// Fast recovery until the next new ACK; each duplicate ACK adds a segment to the window (RFC 2001).
    Reno,
    /// Fast recovery until all data that had been sent is acknowledged, as first published (Hoe 1995): a
    /// partial ACK retransmits one segment and resets the window to ssthresh, and every second duplicate for
    /// which the window sends nothing sends a new segment.
    Newreno,
    /// As `newreno`, but a partial ACK deflates the window by the acknowledged data, and the sender sends
    /// only data that the window allows (RFC 2582).
    #[serde(rename = "newreno-rfc2582")]
    NewrenoRfc2582,
    /// SACK with an estimate of the segments in the network (Fall and Floyd 1996): initially the window minus
    /// three segments, then one less for each duplicate ACK, two less for a partial ACK, one more for each
    /// segment sent. A hole is retransmitted once; if that is lost, too, only the timeout repairs it. Needs
    /// SACK; with a peer without it, the rule is Reno.
    SackPipe,
}

impl TcpConfig {
    /// Period of a host's clock: one tick, or a turn of Linux' timer wheel.
    pub fn clock_period(&self) -> Duration {
        let wheel = self.stack == Stack::Linux6;
        self.tick * if wheel { WHEEL_TURN } else { 1 }
    }

    /// True if waiting data is joined, regardless of the writes.
    pub fn joins_writes(&self) -> bool {
        self.stack == Stack::Linux6 || self.joined_writes
    }

    /// Default size of an application's writes, with full segments of `segment_bytes`: that of iperf3; the
    /// tools of older studies wrote segment by segment.
    pub fn write_bytes(&self, segment_bytes: u32) -> u64 {
        if self.joins_writes() { WRITE_BYTES } else { u64::from(segment_bytes) }
    }

    /// Number of retransmissions of a segment (a SYN, or another one) before the connection is aborted.
    pub(crate) fn most_retries(&self, syn: bool) -> u32 {
        if syn { self.syn_retries } else { self.retries }
    }

    /// The clock of the timestamp option at a host with this timer clock.
    pub(crate) fn timestamp_clock(&self, timers: TickClock) -> TickClock {
        if self.stack == Stack::Linux6 {
            TickClock::new(Duration::from_millis(1), Duration::ZERO)
        } else {
            timers
        }
    }

    /// True if every packet is ECN-capable and echoes are exact, as in Linux with DCTCP.
    pub(crate) fn is_all_ect(&self) -> bool {
        self.ecn && self.congestion_control == CongestionControl::Dctcp && !self.accurate_ecn
    }

    /// True if echoes are counters (RFC 9768).
    pub(crate) fn counts_marks(&self) -> bool {
        self.ecn && self.accurate_ecn
    }

    /// True for Prague, whose packets are ECT(1).
    pub(crate) fn is_l4s(&self) -> bool {
        self.counts_marks() && self.congestion_control == CongestionControl::Prague
    }

    /// The configuration of a host with Prague, which requests accurate ECN.
    pub(crate) fn with_accurate_ecn(self: &Rc<Self>) -> Rc<Self> {
        if self.congestion_control != CongestionControl::Prague || self.accurate_ecn {
            return Rc::clone(self);
        }
        Rc::new(Self { accurate_ecn: true, ..Self::clone(self) })
    }

    /// A setting that the model engine does not model: the key, and a remedy.
    pub fn unmodelled(&self) -> Option<(&'static str, String)> {
        let algorithm = &self.congestion_control;
        let is_modelled = match self.stack {
            Stack::Linux6 => true,
            Stack::Linux2 => matches!(algorithm, CongestionControl::Reno | CongestionControl::Cubic),
            Stack::Classic => *algorithm == CongestionControl::Reno,
        };
        if is_modelled {
            return None;
        }
        let reason = if let CongestionControl::User(_) = algorithm {
            format!("\"{algorithm}\" is custom code, which runs with stack = \"linux-6\" only")
        } else {
            format!(
                "\"{algorithm}\" is modelled with stack = \"linux-6\" only; engines with real TCP support it \
                 (--engine live)"
            )
        };
        Some(("congestion_control", reason))
    }

    /// TCP of one end of a connection. Only a congestion control that draws random numbers needs `stream` and a
    /// separate configuration.
    pub fn of_end(self: &Rc<Self>, stream: impl FnOnce() -> RandomStream) -> Rc<Self> {
        if !self.congestion_control.draws() {
            return Rc::clone(self);
        }
        Rc::new(Self { draws: stream().into(), ..Self::clone(self) })
    }
}

impl RecoveryRules {
    /// The stack that supports these rules.
    pub fn stack(self) -> Stack {
        match self {
            Self::LinuxInFlight | Self::Rfc3517RateHalving | Self::RateHalving => Stack::Linux2,
            Self::ProportionalRate => Stack::Linux6,
            Self::None | Self::Tahoe | Self::Reno | Self::Newreno | Self::NewrenoRfc2582 | Self::SackPipe => {
                Stack::Classic
            }
        }
    }

    /// True if the window falls gradually with returning ACKs.
    pub(crate) fn halves_rate(self) -> bool {
        matches!(self, Self::Rfc3517RateHalving | Self::RateHalving)
    }
}

/// A version of the reference implementation of Prague (`MODULE_VERSION` of `tcp_prague.c` in
/// `L4STeam/linux`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PragueVersion {
    /// That of August 2020: the growth per second depends on the round-trip time (`prague_rtt_scaling` is off),
    /// and the window also grows while pacing, not the window, limits the sender.
    #[serde(rename = "0.5")]
    V0_5,
    /// Flows over short paths grow as if their round-trip time were 25 ms, 500 rounds after slow start.
    #[serde(rename = "0.6")]
    V0_6,
}

/// The algorithm that grows the window, and cuts it after signs of congestion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CongestionControl {
    /// Slow start and congestion avoidance; half of the window after a loss (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438) with `HyStart`, as in Linux; with the stack `linux-2`, version 2.3 of Linux 2.6.29
    /// to 2.6.38.
    Cubic,
    /// Vegas (Brakmo and Peterson 1995), as in Linux: the window follows the delay, and reacts to losses like
    /// Reno. The model engine has it with the stack `linux-6` only.
    Vegas,
    /// Westwood+ (Grieco and Mascolo 2004), as in Linux: like Reno, but after congestion the window is the
    /// data that the path delivered in the shortest round-trip time. The model engine has it with the stack
    /// `linux-6` only.
    Westwood,
    /// BIC (Xu, Harfoush and Rhee 2004), as in Linux: a binary search for the window at which segments were
    /// lost, after a loss that cuts the window by a fifth. The model engine has it with the stack `linux-6`
    /// only.
    Bic,
    /// DCTCP (RFC 8257), as in Linux: marks cut the window by half of their share, and the receiver echoes
    /// each mark. It is for queues that mark early and that only DCTCP senders use. Needs `ecn`. The model
    /// engine has it with the stack `linux-6` only.
    Dctcp,
    /// Prague (draft-briscoe-iccrg-prague-congestion-control): like DCTCP, but its packets are ECT(1), for
    /// low-latency queues such as `dualpi2`; its window also grows while it is being reduced; it is paced;
    /// and short paths give no advantage. Needs `ecn`, and always requests accurate ECN; with a peer without
    /// it, the sender uses Reno without ECN. The model engine has it with the stack `linux-6` only.
    Prague,
    /// LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus), a scavenger: it adds at most 60 ms of delay, and yields
    /// to other flows. The model engine has it with the stack `linux-6` only.
    #[serde(rename = "ledbat++")]
    LedbatPlusPlus,
    /// BBR (Cardwell et al. 2017), version 1 as in Linux: a model of the path (its delivery rate and its
    /// shortest round-trip time) sets window and pacing rate. The model engine has it with the stack
    /// `linux-6` only.
    Bbr,
    /// BBR version 3 (draft-ietf-ccwg-bbr), without its support for ECN: like version 1, with bounds on the
    /// data in flight, which losses lower and probes raise. The model engine has it with the stack `linux-6`
    /// only; Linux does not have it.
    Bbr3,
    /// An algorithm for tests of pacing.
    #[cfg(test)]
    #[serde(skip)]
    Paced,
    /// A custom algorithm, on the model engine with the stack `linux-6` only.
    #[serde(untagged)]
    User(Box<UserControl>),
}

impl CongestionControl {
    /// True if it depends on marks, which need ECN.
    pub fn needs_ecn(&self) -> bool {
        matches!(self, Self::Dctcp | Self::Prague)
    }

    /// True if its slow start is that of RFC 5681, which `HyStart++` can slow down.
    pub fn has_slow_start(&self) -> bool {
        matches!(self, Self::Reno | Self::Cubic)
    }

    /// True if it draws random numbers.
    fn draws(&self) -> bool {
        matches!(self, Self::Bbr | Self::Bbr3 | Self::User(_))
    }
}

/// The name in scenario files, which is also the name in Linux.
impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The initial slow-start threshold or the size of a buffer: `"infinite"`, or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stated", into = "String")]
pub enum SizeLimit {
    Infinite,
    Bytes(Bytes),
}

/// A limit as written. A number is accepted here, so that the parser of sizes reports its missing unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stated {
    Text(String),
    Number(f64),
}

impl TryFrom<Stated> for SizeLimit {
    type Error = String;
    fn try_from(stated: Stated) -> Result<Self, String> {
        let text = match stated {
            Stated::Text(text) => text,
            Stated::Number(number) => number.to_string(),
        };
        if text == "infinite" {
            return Ok(Self::Infinite);
        }
        if text.starts_with(char::is_alphabetic) {
            return Err(format!(
                "{text:?} is not a size: write \"infinite\" or a size, for example \"64 KiB\""
            ));
        }
        text.parse().map(Self::Bytes).map_err(|error: ParseError| error.to_string())
    }
}

impl fmt::Display for SizeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infinite => f.write_str("infinite"),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

impl From<SizeLimit> for String {
    fn from(value: SizeLimit) -> Self {
        value.to_string()
    }
}

impl JsonSchema for SizeLimit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SizeLimit".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Bytes::json_schema(generator);
        schema.insert("description".into(), "A size in bytes, or \"infinite\"".into());
        let size = schema.get("pattern").and_then(|pattern| pattern.as_str()).unwrap_or_default();
        let either = format!("^infinite$|{size}");
        schema.insert("pattern".into(), either.into());
        schema
    }
}
