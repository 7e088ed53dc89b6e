//! The quality of a call: a jitter buffer of fixed length, and then the E-model.

use super::e_model::Heard;
use crate::records::FlowRecord;
use lasthop_core::Duration;
use lasthop_traffic::Voice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameFate {
    Unknown,
    Lost,
    Late,
    Played,
}

/// A call at the receiver. The first frame to arrive waits for the length of the jitter buffer. Each frame is
/// played with the same total delay as that one, or is late. Memory is one byte per frame.
#[derive(Clone, Debug)]
pub(super) struct Call {
    voice: Voice,
    /// One-way delay of the first frame that arrived.
    first_delay: Option<Duration>,
    /// By the frame's number.
    frames: Vec<FrameFate>,
}

impl Call {
    pub fn new(voice: Voice) -> Self {
        Self { voice, first_delay: None, frames: Vec::new() }
    }

    pub fn lost(&mut self, number: u64) {
        self.note(number, FrameFate::Lost);
    }

    pub fn arrived(&mut self, number: u64, delay: Duration) {
        let first = *self.first_delay.get_or_insert(delay);
        let in_time = delay <= first + self.voice.jitter_buffer;
        self.note(number, if in_time { FrameFate::Played } else { FrameFate::Late });
    }

    /// Forgets the frames so far, but not the delay of the jitter buffer.
    pub fn restart(&mut self) {
        self.frames.fill(FrameFate::Unknown);
    }

    fn note(&mut self, number: u64, fate: FrameFate) {
        let place = number as usize;
        if self.frames.len() <= place {
            self.frames.resize(place + 1, FrameFate::Unknown);
        }
        self.frames[place] = fate;
    }

    pub fn finish(self, record: &mut FlowRecord) {
        let known: Vec<FrameFate> =
            self.frames.into_iter().filter(|fate| *fate != FrameFate::Unknown).collect();
        if known.is_empty() {
            return;
        }
        let share = |which| known.iter().filter(|fate| **fate == which).count() as f64 / known.len() as f64;
        record.voice_loss = Some(share(FrameFate::Lost));
        record.voice_late = Some(share(FrameFate::Late));
        let Voice { codec_delay, jitter_buffer, impairment, loss_robustness, .. } = self.voice;
        let delay = self.first_delay.map(|first| codec_delay + first + jitter_buffer);
        record.voice_delay_s = delay.map(Duration::as_secs_f64);
        // Without any frame there is no delay.
        let mos = record.voice_delay_s.map_or(1.0, |delay_s| {
            let loss = share(FrameFate::Lost) + share(FrameFate::Late);
            Heard { impairment, loss_robustness, loss, burst_ratio: burst_ratio(&known), delay_s }.mos()
        });
        record.mos = Some(mos);
    }
}

/// `BurstR` of G.107, section 7.5: mean length of the bursts of frames that are not played, over the mean
/// length for independent losses, which is 1 / (1 - loss); at least 1.
fn burst_ratio(frames: &[FrameFate]) -> f64 {
    let missing = |fate: FrameFate| fate != FrameFate::Played;
    let lost = frames.iter().filter(|fate| missing(**fate)).count() as f64;
    let starts = frames.windows(2).filter(|pair| !missing(pair[0]) && missing(pair[1])).count();
    let bursts = starts + usize::from(frames.first().is_some_and(|fate| missing(*fate)));
    let played = 1.0 - lost / frames.len() as f64;
    if bursts == 0 { 1.0 } else { (lost / bursts as f64 * played).max(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quality of G.711 frames with these delays in ms; lost frames are `None`.
    fn heard(delays: &[Option<u64>]) -> FlowRecord {
        let voice = Voice {
            codec: "G.711",
            frame: Duration::from_millis(20),
            conceals: None,
            codec_delay: Duration::from_millis(20),
            jitter_buffer: Duration::from_millis(60),
            impairment: 0.0,
            loss_robustness: 25.1,
        };
        let mut call = Call::new(voice);
        for (number, delay) in (0..).zip(delays) {
            match delay {
                Some(delay) => call.arrived(number, Duration::from_millis(*delay)),
                None => call.lost(number),
            }
        }
        let mut record = FlowRecord::default();
        call.finish(&mut record);
        record
    }

    fn mos(delays: &[Option<u64>]) -> f64 {
        heard(delays).mos.expect("a call has a score")
    }

    #[test]
    fn frames_wait_as_long_as_the_first_one_and_are_late_beyond() {
        let record = heard(&[Some(15), Some(75), Some(76), Some(5), None]);
        assert_eq!((record.voice_loss, record.voice_late), (Some(0.2), Some(0.2)));
        assert_eq!(record.voice_delay_s, Some(0.095));
    }

    #[test]
    fn a_call_without_loss_has_the_score_of_its_delay() {
        assert!((mos(&[Some(15); 100]) - 4.41).abs() < 0.005);
        // 20 + 320 + 60 ms: R is 93.2 - 24.07.
        assert!((mos(&[Some(320); 100]) - 3.56).abs() < 0.01);
    }

    #[test]
    fn late_frames_sound_like_lost_ones_and_bursts_sound_worse() {
        let with = |other: Option<u64>, at: fn(usize) -> bool| {
            let frame = |number| if at(number) { other } else { Some(15) };
            mos(&(0..100).map(frame).collect::<Vec<_>>())
        };
        let spread = |number: usize| number % 10 == 5;
        let burst = |number: usize| (40..50).contains(&number);
        assert!((with(None, spread) - with(Some(200), spread)).abs() < 1e-12);
        assert!(with(None, burst) < with(None, spread));
    }

    #[test]
    fn a_burst_is_measured_against_independent_losses() {
        use FrameFate::{Late, Lost, Played};
        // Half of the frames are lost, in two bursts of two; bursts of independent losses would have a mean
        // length of two, too.
        assert!((burst_ratio(&[Lost, Late, Played, Played, Lost, Lost, Played, Played]) - 1.0).abs() < 1e-12);
        // One burst of four among eight frames: twice as long.
        let long = [Played, Played, Lost, Lost, Lost, Lost, Played, Played];
        assert!((burst_ratio(&long) - 2.0).abs() < 1e-12);
        assert!((burst_ratio(&[Lost, Played, Lost, Played]) - 1.0).abs() < 1e-12, "spread evenly");
    }

    #[test]
    fn silence_is_the_worst_and_nothing_said_has_no_score() {
        let silent = heard(&[None, None]);
        assert_eq!((silent.mos, silent.voice_delay_s, silent.voice_loss), (Some(1.0), None, Some(1.0)));
        assert_eq!(heard(&[]).mos, None);
    }

    #[test]
    fn frames_on_their_way_count_nowhere() {
        let mut call = Call::new(Voice {
            codec: "G.711",
            frame: Duration::from_millis(20),
            conceals: None,
            codec_delay: Duration::ZERO,
            jitter_buffer: Duration::ZERO,
            impairment: 0.0,
            loss_robustness: 10.0,
        });
        call.arrived(3, Duration::ZERO);
        let mut record = FlowRecord::default();
        call.finish(&mut record);
        assert_eq!((record.voice_loss, record.voice_late), (Some(0.0), Some(0.0)));
    }
}
