//! A video that plays while it is being received: the viewer's quality measures.

use crate::records::FlowRecord;
use lasthop_core::{Duration, Instant, PlaybackEvent, Rate};

#[derive(Clone, Debug, Default)]
pub(super) struct Playback {
    began: Option<Instant>,
    stalled: Option<Instant>,
    stalls: u64,
    stalled_time: Duration,
    segments: u64,
    /// Sum of the segments' bitrates, and that of the last one.
    bitrates: u64,
    last: Option<Rate>,
    switches: u64,
}

impl Playback {
    pub fn note(&mut self, now: Instant, event: PlaybackEvent) {
        match event {
            PlaybackEvent::Segment { bitrate } => {
                self.segments += 1;
                self.bitrates += bitrate.bits_per_second();
                let last = self.last.replace(bitrate);
                self.switches += u64::from(last.is_some_and(|last| last != bitrate));
            }
            PlaybackEvent::Playing => {
                self.began.get_or_insert(now);
                self.resume(now);
            }
            PlaybackEvent::Stalled => {
                self.stalls += 1;
                self.stalled = Some(now);
            }
            PlaybackEvent::Ended => {}
        }
    }

    /// Forgets stalls and segments so far; a stall that lasts counts from `now`.
    pub fn restart(&mut self, now: Instant) {
        let stalled = self.stalled.map(|_| now);
        *self = Self { began: self.began, stalled, last: self.last, ..Self::default() };
    }

    fn resume(&mut self, now: Instant) {
        if let Some(since) = self.stalled.take() {
            self.stalled_time += now.saturating_since(since);
        }
    }

    /// Fills in the record of a flow that started at `start`, in a run that ended at `end`.
    pub fn finish(mut self, started: Option<Instant>, end: Instant, record: &mut FlowRecord) {
        self.resume(end);
        let startup = self.began.zip(started).map(|(began, started)| began.saturating_since(started));
        record.startup_delay_s = startup.map(Duration::as_secs_f64);
        record.stalls = Some(self.stalls);
        record.stalled_s = Some(self.stalled_time.as_secs_f64());
        record.bitrate_mean_bps = (self.segments > 0).then(|| self.bitrates as f64 / self.segments as f64);
        record.bitrate_switches = Some(self.switches);
        record.segments = Some(self.segments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn segment(kilobits: u64) -> PlaybackEvent {
        PlaybackEvent::Segment { bitrate: Rate::from_bits_per_second(1000 * kilobits) }
    }

    fn record(events: &[(u64, PlaybackEvent)], end: u64) -> FlowRecord {
        let mut playback = Playback::default();
        for (millis, event) in events {
            playback.note(at(*millis), *event);
        }
        let mut record = FlowRecord::default();
        playback.finish(Some(at(100)), at(end), &mut record);
        record
    }

    #[test]
    fn a_viewer_waits_watches_waits_again_and_sees_the_bitrates_change() {
        use PlaybackEvent::{Ended, Playing, Stalled};
        let events = [
            (1000, segment(500)),
            (1000, Playing),
            (5000, Stalled),
            (7500, segment(1000)),
            (7500, Playing),
            (9000, segment(1000)),
            (15_500, Ended),
        ];
        let record = record(&events, 20_000);
        assert_eq!(record.startup_delay_s, Some(0.9));
        assert_eq!((record.stalls, record.stalled_s), (Some(1), Some(2.5)));
        assert_eq!((record.segments, record.bitrate_switches), (Some(3), Some(1)));
        assert!((record.bitrate_mean_bps.unwrap() - 2.5e6 / 3.0).abs() < 1e-6);
    }

    #[test]
    fn a_stall_at_the_end_of_the_run_lasts_until_then() {
        let events = [(1000, segment(500)), (1000, PlaybackEvent::Playing), (5000, PlaybackEvent::Stalled)];
        let record = record(&events, 9000);
        assert_eq!((record.stalls, record.stalled_s), (Some(1), Some(4.0)));
    }

    #[test]
    fn what_never_played_has_no_start_up_delay() {
        let record = record(&[], 9000);
        assert_eq!((record.startup_delay_s, record.bitrate_mean_bps), (None, None));
        assert_eq!((record.stalls, record.segments), (Some(0), Some(0)));
    }
}
