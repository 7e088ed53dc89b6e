//! A phone call over IP: one speech frame per RTP packet, without pauses. The packets travel in UDP, or in
//! QUIC's datagrams (RFC 9221) on a connection whose handshake comes first.
//!
//! RTP is RFC 3550; only its header's length matters here. RTCP is not sent. The receiver plays frames from a
//! jitter buffer, which the analysis models with [`Voice`].

use std::collections::VecDeque;
use std::num::NonZeroU16;

use lasthop_core::{Bytes, Distribution, Dscp, Duration, Faults, Host, Instant, News, Protocol, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Action, Application, ConstantUdp, ConstantUdpConfig, Datagrams, Offer, Outlook, Program, Surroundings,
    Traffic, Voice,
};

#[cfg(test)]
mod tests;

/// Header of an RTP packet without contributing sources (RFC 3550, section 5.1).
const RTP_HEADER_BYTES: u64 = 12;
/// Interval of frames, for both codecs.
const FRAME: Duration = Duration::from_millis(20);

/// A phone call over IP, one way. Its quality is computed with the E-model of ITU-T G.107.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VoipConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// The codec.
    #[serde(default)]
    pub codec: Codec,
    /// Duration of the call; over QUIC it is counted from the end of the handshake.
    #[serde(default = "crate::seconds::<60>")]
    pub duration: Duration,
    /// Time for which the receiver delays the first frame before it plays. Later frames play at the codec's
    /// interval; a frame that arrives after its time counts as lost.
    #[serde(default = "default_jitter_buffer")]
    pub jitter_buffer: Duration,
    /// When the first frame leaves; over QUIC, when the speaker connects.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the server; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

const fn default_jitter_buffer() -> Duration {
    Duration::from_millis(60)
}

/// A speech codec: its packets, and the effect of lost frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Codec {
    /// 160 bytes every 20 ms (64 kbit/s), with the loss concealment of G.711's Appendix I. Ie 0, Bpl 25.1
    /// (ITU-T G.113, Appendix I, which gives them for packets of 10 ms).
    #[default]
    #[serde(rename = "G.711")]
    G711,
    /// 80 bytes every 20 ms (32 kbit/s at a constant rate: fullband speech by RFC 7587, section 3.1.1),
    /// without in-band error correction. No ITU-T Recommendation states its values: Ie 0 and Bpl 10 are
    /// assumed.
    Opus,
}

impl Codec {
    /// Bytes of encoded speech in a frame.
    const fn frame_bytes(self) -> u64 {
        match self {
            Self::G711 => 160,
            Self::Opus => 80,
        }
    }

    /// Delay of encoder and decoder in addition to the frame itself: G.711's loss concealment (Appendix I, 30
    /// samples), Opus' look-ahead (RFC 6716, section 2).
    const fn look_ahead(self) -> Duration {
        match self {
            Self::G711 => Duration::from_micros(3_750),
            Self::Opus => Duration::from_micros(6_500),
        }
    }

    /// Its name in scenarios.
    const fn name(self) -> &'static str {
        match self {
            Self::G711 => "G.711",
            Self::Opus => "Opus",
        }
    }

    /// The longest gap that its loss concealment fills: that of G.711's Appendix I is silent after 60 ms.
    const fn conceals(self) -> Option<Duration> {
        match self {
            Self::G711 => Some(Duration::from_millis(60)),
            Self::Opus => None,
        }
    }

    /// Ie of ITU-T G.107: the impairment without losses.
    const fn impairment(self) -> f64 {
        match self {
            Self::G711 | Self::Opus => 0.0,
        }
    }

    /// Bpl of ITU-T G.107: the robustness against losses.
    const fn loss_robustness(self) -> f64 {
        match self {
            Self::G711 => 25.1,
            Self::Opus => 10.0,
        }
    }
}

impl VoipConfig {
    /// Its packets, each with a frame and an RTP header.
    pub fn stream(&self) -> ConstantUdpConfig {
        let Self { name, codec, duration, start, dscp, port, .. } = self.clone();
        let payload = Bytes(codec.frame_bytes() + RTP_HEADER_BYTES);
        let rate = Rate::from_bits_per_second(payload.0 * 8_000_000_000 / FRAME.as_nanos());
        ConstantUdpConfig { name, rate, payload, duration, start, dscp, ecn: None, port }
    }
}

impl Traffic for VoipConfig {
    keys! { name, start, dscp, port }

    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        let stream = self.stream();
        faults.require(stream.fits(mtu), "codec", || {
            format!(
                "a packet with {} bytes of speech does not fit mtu = \"{mtu}\"; raise mtu",
                self.codec.frame_bytes()
            )
        });
        stream.check_amount(faults);
    }

    fn latest_begin(&self) -> Duration {
        self.stream().latest_begin()
    }

    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn stream_bytes(&self) -> Option<u64> {
        self.stream().stream_bytes()
    }

    fn voice(&self) -> Option<Voice> {
        Some(Voice {
            codec: self.codec.name(),
            frame: FRAME,
            codec_delay: FRAME + self.codec.look_ahead(),
            jitter_buffer: self.jitter_buffer,
            conceals: self.codec.conceals(),
            impairment: self.codec.impairment(),
            loss_robustness: self.codec.loss_robustness(),
        })
    }

    fn runs_over_quic(&self) -> bool {
        true
    }

    fn datagrams(&self) -> Option<Datagrams<'_>> {
        Some(self.stream().datagrams_of("codec", &self.start))
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        self.stream().offer(around)
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        Program::Voip(Call::new(self.stream(), start, around.sender, around.protocol))
    }
}

#[derive(Clone, Debug)]
pub struct Call {
    stream: ConstantUdpConfig,
    sender: Host,
    state: State,
    actions: VecDeque<Action>,
}

#[derive(Clone, Debug)]
enum State {
    /// The call needs a connection, and connects at this time.
    Idle(Instant),
    Connecting,
    /// Frames are being sent. If there is a connection, the call hangs up at this time.
    Speaking(ConstantUdp, Option<Instant>),
    Over,
}

impl Call {
    /// A call of these packets from `sender` that begins at `start`. It first makes a connection if
    /// `protocol` has connections.
    pub fn new(stream: ConstantUdpConfig, start: Instant, sender: Host, protocol: Protocol) -> Self {
        let state = if protocol == Protocol::Udp {
            State::Speaking(ConstantUdp::new(&stream, start, sender), None)
        } else {
            State::Idle(start)
        };
        Self { stream, sender, state, actions: VecDeque::new() }
    }
}

impl Application for Call {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        match &self.state {
            State::Idle(start) => Some(*start),
            State::Speaking(frames, end) => frames.next_wakeup().or(*end),
            State::Connecting | State::Over => None,
        }
    }

    fn handle_wakeup(&mut self, now: Instant) {
        let (flow, host) = (0, self.sender);
        match &mut self.state {
            State::Idle(start) if *start <= now => {
                self.state = State::Connecting;
                self.actions.push_back(Action::Connect { flow, host });
            }
            State::Speaking(frames, end) => {
                frames.handle_wakeup(now);
                self.actions.extend(std::iter::from_fn(|| frames.poll_action()));
                if end.is_some_and(|end| end <= now) {
                    self.state = State::Over;
                    // The connection determines how much of the written data was sent.
                    self.actions.extend([Action::Complete { flow }, Action::Close { flow, host }]);
                }
            }
            _ => {}
        }
    }

    fn handle_news(&mut self, now: Instant, _flow: u32, host: Host, news: News) {
        if host != self.sender {
            return;
        }
        if news.ready && matches!(self.state, State::Connecting) {
            let frames = ConstantUdp::new(&self.stream, now, host);
            self.state = State::Speaking(frames, Some(now + self.stream.duration));
        }
        if news.ended {
            self.state = State::Over;
        }
    }

    #[inline]
    fn heeds_data(&self) -> bool {
        false
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}
