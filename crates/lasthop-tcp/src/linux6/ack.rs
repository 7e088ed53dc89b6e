//! Processing of ACKs: accounting, round-trip samples, the window.

use lasthop_core::{Duration, Flags, Observer, Segment, TransportEvent};

use super::facts::{AckFacts, Samples};
use super::loss::Repair;
use super::probe::{self, ProbeVerdict};
use super::scoreboard::Linux6SentSegment;
use super::{Counts, Linux6Sender, prr};
use crate::common::{Context, State};
use crate::control::{Acked, Congestion, Controller, DeliveryRate, PathSample, RateSample, Window};

impl Linux6Sender {
    /// Processes the acknowledgment of a segment and sends the data that it allows.
    pub fn on_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) {
        if segment.ack == self.queue.una && segment.sack.is_empty() && self.is_idle() {
            // Data of the peer: only the window in its header is relevant.
            self.echo = segment.timestamps.and_then(crate::clock::echoed_tick);
            self.queue.window_bytes = segment.window_bytes;
            return;
        }
        let mut timer_is_due = self.process_ack(cx, segment);
        timer_is_due &= !self.send_new(cx);
        if timer_is_due {
            self.schedule_probe(cx, true);
        }
        if self.board.queue.outstanding() == 0 {
            self.await_window(cx);
        }
        if self.refill() {
            self.send_written(cx);
        }
        self.report_window(cx);
    }

    /// Processes the acknowledgment of a segment without sending new data.
    pub fn take_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) {
        if self.process_ack(cx, segment) {
            self.schedule_probe(cx, true);
        }
    }

    /// True if nothing is in flight, and no data is left to send.
    fn is_idle(&self) -> bool {
        self.board.queue.outstanding() == 0
            && self.queue.next().is_none()
            && !self.probe.is_out()
            && !self.rates.is_on()
            && !self.nature.hears_every_ack
    }

    /// Processes the acknowledgment of a segment. Returns true if the timer for a probe must still be set;
    /// the next transmission also sets it.
    fn process_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) -> bool {
        if segment.ack > self.queue.nxt {
            return false;
        }
        let prior_una = self.queue.una;
        let mut facts = AckFacts {
            advanced: segment.ack > prior_una,
            data: segment.sequence_length() > 0,
            ..AckFacts::default()
        };
        let mut samples = Samples::default();
        self.echo = segment.timestamps.and_then(crate::clock::echoed_tick);
        if segment.ack < prior_una {
            if !segment.sack.as_slice().is_empty() {
                self.apply_sack(cx.us, segment, prior_una, &mut facts, &mut samples);
                let repair = self.on_dubious_ack(cx, &mut facts, prior_una);
                self.repair(cx, repair);
            }
            return false;
        }
        let outstanding = self.board.queue.outstanding();
        let prior_in_flight = if self.rates.is_on() { self.board.in_flight() } else { 0 };
        let prior = self.counts;
        let prior_highest = if self.config.sack { self.board.highest_sacked(prior_una) } else { prior_una };
        if facts.advanced {
            self.expiries = 0;
        }
        facts.window_update = facts.advanced || segment.window_bytes > self.queue.window_bytes;
        facts.predicted = self.nature.hears_every_ack
            && facts.advanced
            && segment.window_bytes == self.queue.window_bytes
            && segment.sack.is_empty()
            && !segment.flags.contains(Flags::ECE);
        (self.queue.window_bytes, self.queue.una) = (segment.window_bytes, segment.ack);
        facts.ece = self.queue.ecn && segment.flags.contains(Flags::ECE) && !self.config.accurate_ecn;
        self.apply_sack(cx.us, segment, prior_una, &mut facts, &mut samples);
        if outstanding == 0 {
            self.tell_ack(cx, &facts, prior.delivered);
            if facts.dsack {
                self.on_dubious_ack(cx, &mut facts, prior_una);
            }
            self.process_probe_ack(cx, &facts);
            return false;
        }
        self.acknowledge(cx, &mut facts, samples, prior_highest);
        self.read_marks(segment, &mut facts, prior.delivered);
        let reported = self.tell_ack(cx, &facts, prior.delivered);
        self.process_probe_ack(cx, &facts);
        let mut repair = Repair::Nothing;
        if facts.is_dubious(self.recovery.state) {
            facts.duplicate = !(facts.advanced || facts.not_duplicate() || facts.dsack);
            repair = self.on_dubious_ack(cx, &mut facts, prior_una);
        }
        let probe_is_due = facts.set_timer && repair == Repair::Nothing && self.may_probe();
        if facts.set_timer && !probe_is_due && !self.schedule_probe(cx, true) {
            self.rearm_timer(cx);
        }
        self.count_echo(&facts, reported);
        let progress = self.progress_since(prior, facts.advanced);
        if self.nature.is_rate_based {
            self.tell_losses();
            let may_be_delayed = self.is_runt(&facts, prior_una);
            self.follow_path(cx, may_be_delayed, progress, prior_in_flight);
        } else {
            self.control_window(cx, &facts, progress);
        }
        self.update_rate();
        self.repair(cx, repair);
        probe_is_due
    }

    fn progress_since(&self, prior: Counts, advanced: bool) -> prr::PrrProgress {
        let Counts { delivered, lost, .. } = self.counts;
        prr::PrrProgress { delivered: delivered - prior.delivered, lost: lost - prior.lost, advanced }
    }

    /// Informs an algorithm that needs every ACK. Returns the delivered segments.
    fn tell_ack<O: Observer>(&mut self, cx: &Context<'_, O>, facts: &AckFacts, before: u64) -> u64 {
        if self.nature.hears_every_ack {
            self.count_echo(facts, before);
            let Counts { delivered, delivered_ce, .. } = self.counts;
            let &AckFacts { predicted: is_predicted, acknowledged, .. } = facts;
            let ack = Acked { at: self.moment(cx), is_predicted, acknowledged, delivered, delivered_ce };
            self.control.on_every_ack(&ack);
        }
        self.counts.delivered
    }

    /// If the peer does not count marks, the segments that an ACK with an ECN echo delivers beyond `before`
    /// count as marked.
    fn count_echo(&mut self, facts: &AckFacts, before: u64) {
        if facts.ece && !self.config.accurate_ecn {
            self.counts.delivered_ce += self.counts.delivered - before;
        }
    }

    /// Removes segments acknowledged in order, and takes the round-trip samples (`tcp_clean_rtx_queue`).
    fn acknowledge<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        facts: &mut AckFacts,
        mut samples: Samples,
        prior_highest: u64,
    ) {
        let now = cx.us;
        let mut lowest = self.queue.nxt;
        let mut count = 0;
        while let Some(segment) = self.board.pop_acknowledged(self.queue.una) {
            count += 1;
            self.rates.on_acknowledged();
            if segment.ever_retransmitted {
                facts.retransmission_acked = true;
            } else if !segment.sacked {
                samples.note_acked(segment.sent.us);
                lowest = lowest.min(segment.seq);
                facts.original_acked |= segment.end <= self.recovery.point;
            }
            if !segment.sacked {
                samples.note_delivered(&segment);
                if self.config.sack {
                    self.counts.delivered += 1;
                    if !self.is_spurious(&segment) {
                        self.rack.advance(now, &segment, self.rtt.least_us());
                    }
                }
            }
            facts.acked = true;
            facts.data_acked |= !segment.syn;
            if segment.syn {
                self.episode.stamp = None;
            }
            if segment.end == self.queue.una {
                break;
            }
        }
        facts.acknowledged = Some(count);
        let measured = self.take_samples(cx, facts, &samples);
        if facts.acked {
            facts.set_timer = true;
            if !self.config.sack {
                self.settle_duplicates(count);
                facts.original_acked &= !facts.retransmission_acked;
            } else if lowest < prior_highest {
                self.note_reordering(lowest);
            }
        } else if let (true, Some((first, _)), Some(head)) =
            (measured, samples.sacked, self.board.queue.head())
        {
            // The SACKed segment was sent before the last transmission of the head.
            facts.set_timer |= first < head.sent.us;
        }
        self.rack.update_window(samples.newest.map_or(0, |(_, delivered)| delivered), self.counts.delivered);
    }

    /// True if the echoed timestamp is older than the retransmission, so that the original arrived.
    fn is_spurious(&self, segment: &Linux6SentSegment) -> bool {
        segment.ever_retransmitted && self.echo.is_some_and(|echo| echo < segment.sent.us / 1000)
    }

    /// Returns true if there was a sample for the timeout.
    fn take_samples<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        facts: &AckFacts,
        samples: &Samples,
    ) -> bool {
        let now = cx.us;
        let in_order = samples.acked.filter(|_| !facts.retransmission_acked);
        let mut latest = samples.sacked.or(in_order).map(|(_, last)| now.saturating_sub(last));
        let mut rtt = in_order.or(samples.sacked).map(|(first, _)| now.saturating_sub(first));
        if rtt.is_none() && facts.acked {
            // The timestamp option, in milliseconds, identifies the transmission (RFC 7323, section 4.1).
            rtt = self.echo.map(|echo| (now / 1000).saturating_sub(echo).max(1) * 1000);
            latest = rtt;
        }
        if let (Some(rtt), Some(latest)) = (rtt, latest) {
            self.rtt.note_least(now, latest);
            self.rtt.sample(rtt, self.queue.una, self.queue.nxt);
            cx.emit(TransportEvent::RttSample {
                rtt: Duration::from_micros(rtt),
                rto: self.clock.length(self.rtt.rto()),
            });
        }
        if let Some(latest) = latest {
            self.control.on_rtt(&self.moment(cx), latest);
        }
        rtt.is_some()
    }

    /// The window after an ACK.
    fn control_window<O: Observer>(
        &mut self,
        cx: &Context<'_, O>,
        facts: &AckFacts,
        progress: prr::PrrProgress,
    ) {
        let raise = if self.recovery.reordering > self.config.dupack_threshold {
            facts.acked || facts.data_sacked
        } else {
            facts.data_acked
        };
        if self.recovery.state.is_reducing() {
            self.reduce_window(progress);
        } else if raise {
            self.usage.touch(cx.tick);
            let sample = self.rate_sample(cx, progress, None);
            self.control.on_ack(&sample);
        }
    }

    fn rate_sample<O: Observer>(
        &self,
        cx: &Context<'_, O>,
        progress: prr::PrrProgress,
        rate: Option<DeliveryRate>,
    ) -> RateSample {
        let state = self.control.state();
        let is_window_limited = self.usage.allows_growth(state.window(), state.ssthresh())
            || (self.control.grows_while_paced() && self.queue.unsent() > 0);
        RateSample { at: self.moment(cx), acked: progress.delivered as u32, is_window_limited, rate }
    }

    /// True if it reports one segment that is not full and was alone in its round trip: the receiver may have
    /// delayed its ACK.
    fn is_runt(&self, facts: &AckFacts, prior_una: u64) -> bool {
        facts.data_acked
            && self.queue.una - prior_una < u64::from(self.queue.mss)
            && !(facts.retransmission_acked || facts.data_sacked || facts.ece || facts.dsack)
            && self.rates.prior_delivered().is_some_and(|prior| prior + 1 == self.counts.delivered)
    }

    /// The information in an ACK for an algorithm that models the path.
    fn follow_path<O: Observer>(
        &mut self,
        cx: &Context<'_, O>,
        may_be_delayed: bool,
        progress: prr::PrrProgress,
        in_flight_before: u32,
    ) {
        let Counts { delivered: total_delivered, lost: total_lost, .. } = self.counts;
        let least = self.rtt.least_us();
        let rate = self.rates.sample(cx.us, progress.delivered, (total_delivered, total_lost), least);
        let in_flight = self.board.in_flight();
        self.control.on_path(&PathSample {
            ack: self.rate_sample(cx, progress, rate),
            lost: progress.lost,
            total_delivered,
            total_lost,
            delivered_us: self.rates.delivered_us(),
            in_flight_before,
            in_flight,
            wait: self.pacer.wait(cx.now),
            may_be_delayed,
        });
        if self.control.holds_back() {
            self.rates.on_app_limited(total_delivered, in_flight);
        }
    }

    /// The window during a reduction.
    pub(super) fn reduce_window(&mut self, progress: prr::PrrProgress) {
        let (in_flight, ssthresh) = (self.board.in_flight(), self.control.ssthresh());
        if let Some(window) = self.reduction.window(in_flight, ssthresh, progress) {
            self.control.state_mut().set(window);
        }
    }

    /// Evaluates the probe with an ACK: if the probe was needed, a segment had been lost (RFC 8985, section
    /// 7.4).
    fn process_probe_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, facts: &AckFacts) {
        let shown = probe::ProbeShown {
            una: self.queue.una,
            duplicate_of_probe: facts.dsack_of_probe,
            plain_duplicate: !(facts.advanced || facts.not_duplicate() || facts.data_sacked),
        };
        if self.probe.judge(shown) == ProbeVerdict::Repaired {
            self.begin_reduction(Congestion::Loss);
            self.set_state(cx, State::Cwr);
            self.end_reduction();
            self.keep_open(cx);
        }
    }
}
