//! Requests for data of a run in addition to its records, the same for every engine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use lasthop_core::{Direction, Instant, Seed};
use lasthop_scenario::Scenario;
use serde::Deserialize;

use crate::{
    Analysis, Batch, Capture, CaptureTarget, Column, Columnar, LeftOut, ObjectRow, Overview, OverviewTables,
    PacketRow, Recorder, Records, Series, SeriesFile, SeriesTarget, Span, TcpRow,
};

/// Replications of a scenario, and the data requested of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub seed: u64,
    pub first: u64,
    /// Number of replications, which form a chain if the scenario caches metrics.
    pub count: u64,
    /// Requests for some of them in addition to records, by number.
    #[serde(default)]
    pub observations: BTreeMap<u64, Observation>,
}

impl Request {
    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }

    pub fn seed_of(&self, replication: u64) -> Seed {
        Seed { study: self.seed, replication }
    }
}

/// The data requested of one replication in addition to its records.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Observation {
    /// Every event.
    pub trace: bool,
    /// The data for pictures, in detail within this time.
    pub overview: Option<Span>,
    pub capture: Option<CaptureTarget>,
    pub series: Option<SeriesTarget>,
}

/// The observers of a replication for an [`Observation`].
pub type Watch = ((Option<Traced>, Option<Overview>), (Option<Steps>, Option<PacketCapture>));
/// Every event, and the record of every flow, which the story of a short flow needs.
type Traced = (Analysis, Recorder);
type Steps = Series<SeriesFile<Box<dyn Write>>>;
type PacketCapture = Capture<BufWriter<File>>;

impl Observation {
    /// Starts the observation of a run. Its time series goes to `series`, or to the file that it names.
    pub fn begin(&self, scenario: &Scenario, series: Option<Box<dyn Write>>) -> io::Result<Watch> {
        let traced = self.trace.then(|| (Analysis::of(scenario).keep_every_flow(), Recorder::default()));
        let overview = self.overview.map(|span| Overview::of(scenario, span));
        let begin = |target: &SeriesTarget| {
            let out = series.map_or_else(|| target.create().map(|file| Box::new(file) as _), Ok)?;
            target.begin(scenario, out)
        };
        let steps = self.series.as_ref().map(begin).transpose()?;
        let open = |target: &CaptureTarget| {
            // Captures built from the analysis would lack the options of MPTCP.
            if !scenario.has_mptcp() {
                return target.open(scenario);
            }
            let capture = target.open_for_real_packets(scenario, scenario)?;
            Ok(capture.with_qlog(target.folder.clone()))
        };
        let packets = self.capture.as_ref().map(open).transpose()?;
        Ok(((traced, overview), (steps, packets)))
    }
}

/// The data kept of a replication: tables by name.
#[derive(Debug)]
pub struct Kept {
    /// Columns by name of `packets`, `transport`, `objects`, `flows`, `bad_periods`, `series` and `delays`.
    pub tables: [(&'static str, Vec<(&'static str, Column)>); 7],
    pub left_out: LeftOut,
}

impl Kept {
    /// The data kept of a replication of `scenario` that ended at `end`, if any; files are completed. `known`
    /// removes the values that the engine cannot know from records.
    pub fn of(
        ((traced, overview), (steps, packets)): Watch,
        (scenario, seed, end): (&Scenario, Seed, Instant),
        known: impl FnOnce(&mut Records),
    ) -> io::Result<Option<Self>> {
        packets.map(Capture::finish).transpose()?;
        steps.map(|steps| steps.close(end)).transpose()?;
        let tables = match (traced, overview) {
            (Some((analysis, recorder)), _) => {
                let mut records = analysis.finish(end);
                known(&mut records);
                let mut batch = Batch::of(scenario);
                batch.add(seed.replication, records);
                whole(&recorder, batch.flows())
            }
            (None, Some(overview)) => overview.finish(end),
            (None, None) => return Ok(None),
        };
        let OverviewTables { packets, tcp, objects, flows, series, delays, left_out } = tables;
        let tables = [
            ("packets", packets),
            ("transport", tcp),
            ("objects", objects),
            ("flows", flows),
            ("bad_periods", bad_periods(scenario, seed, end)),
            ("series", series),
            ("delays", delays),
        ];
        Ok(Some(Self { tables, left_out }))
    }
}

fn whole(recorder: &Recorder, flows: Vec<(&'static str, Column)>) -> OverviewTables {
    OverviewTables {
        packets: PacketRow::columns(&recorder.packets),
        tcp: TcpRow::columns(&recorder.tcp),
        objects: ObjectRow::columns(&recorder.objects),
        flows,
        ..OverviewTables::default()
    }
}

/// The bad periods of a run as columns; `direction` is empty for periods of both directions.
fn bad_periods(scenario: &Scenario, seed: Seed, end: Instant) -> Vec<(&'static str, Column)> {
    let (tree, periods) = (scenario.tree(), scenario.bad_periods(seed, end));
    let hop = periods.iter().map(|(hop, ..)| tree.name(*hop).to_owned().into()).collect();
    let direction = periods.iter().map(|(_, of, ..)| of.map_or("", Direction::name).into()).collect();
    let start = periods.iter().map(|(_, _, start, _)| Some(start.as_secs_f64())).collect();
    let stop = periods.iter().map(|(.., stop)| Some(stop.as_secs_f64())).collect();
    vec![
        ("start_s", Column::Float(start)),
        ("end_s", Column::Float(stop)),
        ("hop", Column::Text(hop)),
        ("direction", Column::Text(direction)),
    ]
}
