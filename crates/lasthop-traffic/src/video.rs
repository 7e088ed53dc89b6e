//! Video on demand over one connection: a client fetches segments, and chooses the bitrate of each by the
//! level of its buffer.
//!
//! The algorithm is BBA-0 of Huang, Johari and others, "A Buffer-Based Approach to Rate Adaptation: Evidence
//! from a Large Video Streaming Service", SIGCOMM 2014, section 4 and algorithm 1.

use std::num::NonZeroU16;

use lasthop_core::{Bytes, Distribution, Dscp, Duration, Faults, Host, Instant, News, PlaybackEvent, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dialogue::Dialogue;
use crate::{Action, Application, COUNT_MAX, OBJECT_MAX, Offer, Outlook, Program, Surroundings, Traffic};

#[cfg(test)]
mod tests;

/// Size of a request for a segment.
const REQUEST_BYTES: u64 = 200;
/// Maximum number of segments of a video.
const SEGMENTS_MAX: u64 = 1_000_000;

/// A video that plays while it is being received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VideoConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// Bitrates in which every segment is available, the lowest first.
    #[serde(default = "default_bitrates")]
    pub bitrates: Vec<Rate>,
    /// Playing time of a segment.
    #[serde(default = "crate::seconds::<4>")]
    pub segment: Duration,
    /// Playing time of the video, rounded up to whole segments.
    #[serde(default = "crate::seconds::<600>")]
    pub duration: Duration,
    /// Buffer level at which playback starts, also after a stall.
    #[serde(default = "crate::seconds::<8>")]
    pub startup: Duration,
    /// Maximum buffer level; the client requests no segment that would not fit.
    #[serde(default = "crate::seconds::<240>")]
    pub buffer: Duration,
    /// Up to this buffer level, the client requests the lowest bitrate.
    #[serde(default = "crate::seconds::<90>")]
    pub reservoir: Duration,
    /// From this level above the reservoir, the client requests the highest bitrate.
    #[serde(default = "crate::seconds::<126>")]
    pub cushion: Duration,
    /// When the client connects and requests the first segment.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the server; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

fn default_bitrates() -> Vec<Rate> {
    [235, 375, 560, 750, 1050, 1750, 2350, 3000]
        .map(|kilobits| Rate::from_bits_per_second(1000 * kilobits))
        .to_vec()
}

impl VideoConfig {
    fn segments(&self) -> u64 {
        self.duration.as_nanos().div_ceil(self.segment.as_nanos().max(1))
    }

    /// Bytes of a segment of this bitrate, at least one.
    fn segment_bytes(&self, bitrate: Rate) -> u64 {
        let bits =
            u128::from(bitrate.bits_per_second()) * u128::from(self.segment.as_nanos()) / 1_000_000_000;
        u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX).max(1)
    }

    /// Algorithm 1: the index in the ladder of the next segment's bitrate, after the index `previous` and
    /// with this buffer level.
    ///
    /// The rate map f rises linearly from the lowest bitrate at the end of the reservoir to the highest at
    /// the end of the cushion. The bitrate stays until f passes the next higher or lower bitrate. The
    /// comparison uses products in place of f, because they are whole numbers.
    fn next_rung(&self, previous: usize, content: Duration) -> usize {
        let top = self.bitrates.len() - 1;
        if content <= self.reservoir {
            return 0;
        }
        if content >= self.reservoir + self.cushion {
            return top;
        }
        let above_lowest = |rung: usize| {
            u128::from(self.bitrates[rung].bits_per_second() - self.bitrates[0].bits_per_second())
        };
        let mapped = above_lowest(top) * u128::from(content.saturating_sub(self.reservoir).as_nanos());
        let reached_at = |rung: usize| above_lowest(rung) * u128::from(self.cushion.as_nanos());
        if mapped >= reached_at((previous + 1).min(top)) {
            (0..=top).rev().find(|rung| reached_at(*rung) < mapped).unwrap_or(0)
        } else if mapped <= reached_at(previous.saturating_sub(1)) {
            (0..=top).find(|rung| reached_at(*rung) > mapped).unwrap_or(top)
        } else {
            previous
        }
    }

    fn check_ladder(&self, faults: &mut Faults) {
        let ladder = &self.bitrates;
        faults.require(!ladder.is_empty() && ladder.len() <= COUNT_MAX as usize, "bitrates", || {
            format!("{} bitrates; write for example [\"500 kbit/s\", \"1 Mbit/s\"]", ladder.len())
        });
        faults.require(
            ladder.is_sorted_by(|a, b| a.bits_per_second() < b.bits_per_second()),
            "bitrates",
            || "are not in order; write each once, the lowest first".into(),
        );
        let largest = ladder.iter().map(|bitrate| self.segment_bytes(*bitrate)).max().unwrap_or(0);
        faults.require(largest <= OBJECT_MAX.0, "segment", || {
            format!("\"{}\" at the highest bitrate is more than \"{OBJECT_MAX}\"; shorten it", self.segment)
        });
    }

    fn check_buffer(&self, faults: &mut Faults) {
        let Self { segment, startup, buffer, reservoir, cushion, .. } = self;
        let room = startup.as_nanos().saturating_add(segment.as_nanos());
        faults.require(room <= buffer.as_nanos(), "buffer", || {
            format!(
                "\"{buffer}\" is shorter than startup = \"{startup}\" plus a segment of \"{segment}\"; \
                 write at least that"
            )
        });
        faults.not_zero(cushion, "cushion", "126 s");
        let full = reservoir.as_nanos().saturating_add(cushion.as_nanos());
        faults.require(full <= buffer.as_nanos(), "cushion", || {
            format!(
                "reservoir = \"{reservoir}\" and cushion = \"{cushion}\" together exceed \
                 buffer = \"{buffer}\", so that the highest bitrate would never be requested; write less"
            )
        });
    }
}

impl Traffic for VideoConfig {
    keys! { name, start, dscp, port }

    fn check(&self, _mtu: Bytes, faults: &mut Faults) {
        faults.not_zero(&self.segment, "segment", "4 s");
        faults.not_zero(&self.duration, "duration", "600 s");
        faults.require(self.segment.is_zero() || self.segments() <= SEGMENTS_MAX, "duration", || {
            format!(
                "\"{}\" are more than {SEGMENTS_MAX} segments of \"{}\"; write less",
                self.duration, self.segment
            )
        });
        self.check_ladder(faults);
        self.check_buffer(faults);
    }

    fn latest_begin(&self) -> Duration {
        self.start.most() + self.duration
    }

    /// The minimum: the offered data adapts to the network.
    fn offered_bytes(&self) -> u64 {
        let lowest = self.bitrates.first().map_or(0, |bitrate| self.segment_bytes(*bitrate));
        self.segments().saturating_mul(lowest)
    }

    fn caller(&self, sender: Host) -> Host {
        sender.other()
    }

    fn plays(&self) -> bool {
        true
    }

    fn runs_over_quic(&self) -> bool {
        true
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        let segments = 4.0 * (self.duration.as_secs_f64() / self.segment.as_secs_f64().max(1e-9)).ceil();
        let best = self.bitrates.last().map_or(0.0, |rate| rate.bits_per_second() as f64);
        let bytes = best / 8.0 * (self.duration + self.segment).as_secs_f64();
        around.waiting(segments + around.segments(bytes))
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        Program::Video(Video::new(self, start, around.sender, around.write_bytes))
    }
}

/// A running client and its server.
#[derive(Clone, Debug)]
pub struct Video {
    config: VideoConfig,
    dialogue: Dialogue,
    /// When the next segment is requested, if that waits for the start or for room in the buffer.
    next: Option<Instant>,
    /// Number of segments that are not yet requested, and whether a requested one is awaited.
    segments_left: u64,
    is_awaiting: bool,
    /// Index in the ladder of the bitrate that was requested last.
    rung: usize,
    /// Buffer level at `since`, and whether the video has been playing since then.
    content: Duration,
    since: Instant,
    is_playing: bool,
}

impl Video {
    /// A client that requests its first segment from `server` at `start`, and gets responses in writes of
    /// `write_bytes`.
    pub fn new(config: &VideoConfig, start: Instant, server: Host, write_bytes: u64) -> Self {
        Self {
            dialogue: Dialogue::new(server, write_bytes),
            next: Some(start),
            segments_left: config.segments(),
            is_awaiting: false,
            rung: 0,
            content: Duration::ZERO,
            since: start,
            is_playing: false,
            config: config.clone(),
        }
    }

    /// When the buffer will be empty, if nothing arrives until then.
    fn emptied(&self) -> Option<Instant> {
        self.is_playing.then(|| self.since + self.content)
    }

    /// Plays the video until `now`.
    fn play(&mut self, now: Instant) {
        if self.is_playing {
            self.content = self.content.saturating_sub(now.saturating_since(self.since));
        }
        self.since = now;
    }

    fn report(&mut self, event: PlaybackEvent) {
        self.dialogue.tell(Action::Play { flow: 0, event });
    }

    fn ask(&mut self) {
        self.rung = self.config.next_rung(self.rung, self.content);
        self.segments_left -= 1;
        self.is_awaiting = true;
        let bitrate = self.config.bitrates[self.rung];
        self.dialogue.ask(REQUEST_BYTES, self.config.segment_bytes(bitrate));
    }

    /// A segment has arrived. Requests the next one as soon as it fits.
    fn take_in(&mut self, now: Instant) {
        self.play(now);
        self.is_awaiting = false;
        self.content += self.config.segment;
        self.report(PlaybackEvent::Segment { bitrate: self.config.bitrates[self.rung] });
        let VideoConfig { startup, segment, buffer, .. } = self.config;
        if !self.is_playing && (self.content >= startup || self.segments_left == 0) {
            self.is_playing = true;
            self.report(PlaybackEvent::Playing);
        }
        if self.segments_left == 0 {
            return self.dialogue.close();
        }
        let excess = (self.content + segment).saturating_sub(buffer);
        if excess.is_zero() { self.ask() } else { self.next = Some(now + excess) }
    }
}

impl Application for Video {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.next.into_iter().chain(self.emptied()).min()
    }

    fn handle_wakeup(&mut self, now: Instant) {
        self.play(now);
        if self.is_playing && self.content.is_zero() {
            self.is_playing = false;
            let is_whole = self.segments_left == 0 && !self.is_awaiting;
            self.report(if is_whole { PlaybackEvent::Ended } else { PlaybackEvent::Stalled });
        }
        if self.next.take_if(|next| *next <= now).is_some() {
            self.ask();
        }
    }

    fn handle_news(&mut self, now: Instant, _flow: u32, host: Host, news: News) {
        if self.dialogue.handle_news(host, news) {
            self.take_in(now);
        }
        if self.dialogue.is_over() {
            self.next = None;
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.dialogue.poll_action()
    }
}
