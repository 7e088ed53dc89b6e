//! Records of a window of time: counts restart when it begins, and are kept when it ends.

use lasthop_core::{FlowId, Instant};
use lasthop_scenario::MeasureConfig;

use super::{Analysis, Flow, Group, Records, Transport};
use crate::records::{FlowRecord, RunRecord, ShortRecord};

#[derive(Clone, Debug)]
pub(crate) struct Measure {
    config: MeasureConfig,
    /// The applications whose first packet the times count from; none to count from the start of the run.
    since: Vec<u32>,
    /// Once it is known when the window begins and ends.
    window: Option<[Instant; 2]>,
    has_begun: bool,
    /// What it contains, once it has ended.
    measured: Option<Records>,
}

impl Measure {
    pub fn new(config: &MeasureConfig, since: Vec<u32>) -> Self {
        Self { config: config.clone(), since, window: None, has_begun: false, measured: None }
    }
}

impl Analysis {
    /// Called before the first event from `boundary` on, and before each event until the window is known;
    /// `packet_of` is the flow of a packet's event.
    #[cold]
    #[inline(never)]
    pub(super) fn cross(&mut self, now: Instant, packet_of: Option<FlowId>) {
        let Some(mut measure) = self.measure.take() else { return };
        if measure.window.is_none() {
            let is_named = |flow: &Flow| measure.since.contains(&flow.application);
            if measure.since.is_empty() {
                measure.window = Some(measure.config.after(Instant::ZERO));
            } else if packet_of.and_then(|flow| self.flow(flow)).is_some_and(|flow| is_named(flow)) {
                measure.window = Some(measure.config.after(now));
            }
        }
        if let Some([begins, ends]) = measure.window {
            if !measure.has_begun && now >= begins {
                measure.has_begun = true;
                self.restart(begins);
            }
            self.boundary = if measure.has_begun { ends } else { begins };
            if measure.has_begun && now >= ends {
                let within = Self { until: Some(ends), ..self.clone() };
                measure.measured = Some(within.finish(ends));
                self.boundary = Instant::MAX;
            }
        }
        self.measure = Some(measure);
    }

    fn restart(&mut self, from: Instant) {
        self.from = from;
        self.record = RunRecord::default();
        self.background_bytes = 0;
        self.bottleneck.restart(from);
        self.groups.iter_mut().for_each(Group::restart);
        self.flows.iter_mut().flatten().for_each(|flow| flow.restart(from));
        if let Some(hops) = &mut self.hops {
            hops.restart(from);
        }
    }

    /// Ends the window at the end of the run, and returns what it contains if it ended before. Without a window
    /// there is nothing.
    pub(super) fn end_window(&mut self, end: Instant) -> Option<Records> {
        self.measure.as_ref()?;
        if self.boundary <= end {
            self.cross(end, None);
        }
        let measure = self.measure.take()?;
        if !measure.has_begun {
            self.restart(end);
        }
        measure.measured
    }
}

impl Records {
    /// Takes the values of a window from `measured`; facts about whole flows and page loads stay.
    pub(super) fn measured(self, measured: Self) -> Self {
        let mut within = measured.flows.into_iter();
        let flows = self.flows.into_iter().map(|whole| match within.next() {
            Some(own) => own.with_facts_of(&whole),
            None => whole.restarted().with_facts_of(&whole),
        });
        Self {
            flows: flows.collect(),
            shorts: of_groups(self.shorts, measured.shorts),
            pages: self.pages,
            hops: measured.hops,
            stations: measured.stations,
            run: RunRecord { duration_s: self.run.duration_s, ..measured.run },
        }
    }
}

/// The short flows of a window, with an empty record for each group that appeared after it.
fn of_groups(whole: Vec<ShortRecord>, mut measured: Vec<ShortRecord>) -> Vec<ShortRecord> {
    let later = whole.into_iter().skip(measured.len());
    let empty = |ShortRecord { application, .. }| ShortRecord { application, ..ShortRecord::default() };
    measured.extend(later.map(empty));
    measured
}

impl Flow {
    fn restart(&mut self, from: Instant) {
        self.record = self.record.restarted();
        self.queue_delay.restart();
        if let Some(exchanges) = &mut self.exchanges {
            exchanges.restart();
        }
        if let Some(playback) = &mut self.playback {
            playback.restart(from);
        }
        match &mut self.transport {
            Transport::Tcp(tcp) => tcp.restart(from),
            Transport::Udp(udp) => udp.restart(from),
            Transport::Joint(joint) => joint.restart(from),
        }
    }
}

impl FlowRecord {
    /// A record of the same flow without counts.
    pub(super) fn restarted(&self) -> Self {
        Self {
            flow: self.flow.clone(),
            application: self.application.clone(),
            host: self.host.clone(),
            peer: self.peer.clone(),
            part_of: self.part_of.clone(),
            protocol: self.protocol,
            direction: self.direction,
            tail_loss_probes: self.tail_loss_probes.map(|_| 0),
            ..Self::default()
        }
    }

    fn with_facts_of(self, whole: &Self) -> Self {
        Self {
            outcome: whole.outcome,
            start_s: whole.start_s,
            elapsed_s: whole.elapsed_s,
            data_transmit_s: whole.data_transmit_s,
            startup_delay_s: whole.startup_delay_s,
            ..self
        }
    }
}
