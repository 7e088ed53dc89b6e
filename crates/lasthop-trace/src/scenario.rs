//! The facts of a scenario that the analysis and a capture need before its run.

use lasthop_core::{Direction, Duration, FlowId, Host, Part, Place};
use lasthop_link::Capacity;
use lasthop_scenario::{HostPair, Scenario, Tree};
use lasthop_traffic::HttpPageConfig;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;

use crate::analysis::Measure;
use crate::{
    Addresses, Analysis, ApplicationInfo, Bottlenecks, Capture, CapturePoints, Overview, RunInfo, Series,
    SeriesFile, Span,
};

/// The place of the capture of one run, and the description in its files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureTarget {
    /// An existing folder without captures.
    pub folder: PathBuf,
    /// Beginning of each file's description.
    pub comment: String,
    pub snap_length: u32,
    /// The only point that is captured, by name; all if none is named.
    #[serde(default)]
    pub point: Option<String>,
}

impl CaptureTarget {
    /// Creates the files, which must not exist: a pcapng file per capture point and the side table; later
    /// also the logs of QUIC. Their description consists of the comment and the ports of each flow of
    /// `scenario`.
    pub fn open(&self, scenario: &Scenario) -> io::Result<Capture<BufWriter<File>>> {
        let create = |name: &str| File::create_new(self.folder.join(name)).map(BufWriter::new);
        let points = CapturePoints::of(scenario).only(self.point.as_deref());
        let mut description = vec![self.comment.clone()];
        let flows = (0..).zip(scenario.flows());
        for (index, info) in flows.filter(|(_, info)| info.part != Part::Relayed) {
            let addresses = points.describe(&info, Addresses::of(FlowId(index), info.server_port)?);
            description.push(format!("flow {index} ({}): {addresses}", info.name));
        }
        let capture = Capture::new(points, create, &description.join("\n"), self.snap_length)?;
        Ok(capture.with_qlog(self.folder.clone()))
    }

    /// The same for packets that real hosts send. Its files may exist already; they may be devices of a
    /// guest, for example. `network` is the scenario with the flows between any two hosts.
    pub fn open_for_real_packets(
        &self,
        scenario: &Scenario,
        network: &Scenario,
    ) -> io::Result<Capture<BufWriter<File>>> {
        let open = |name: &str| {
            let file =
                File::options().write(true).create(true).truncate(true).open(self.folder.join(name))?;
            Ok(BufWriter::new(file))
        };
        let points = CapturePoints::of_programs(scenario, network).only(self.point.as_deref());
        Ok(Capture::new(points, open, &self.comment, self.snap_length)?.of_real_packets())
    }
}

impl Analysis {
    pub fn of(scenario: &Scenario) -> Self {
        let (tree, places) = (scenario.tree(), scenario.bottlenecks());
        let run = RunInfo {
            capacities: [Direction::Down, Direction::Up].map(|way| Capacity::at(&scenario.rates(way))),
            places,
            bottlenecks: places.map(|place| tree.name(tree.at(place).0).to_owned()),
            segment_bytes: scenario.segment_bytes(),
            packet_bytes: scenario.mtu.0 as u32,
        };
        let info = |pair: &HostPair<'_>| application_info(scenario, pair, &tree, places);
        let applications = scenario.host_pairs().iter().map(info).collect();
        Self::new(applications, run).with_hops(scenario).within(measure(scenario))
    }
}

fn measure(scenario: &Scenario) -> Option<Measure> {
    let config = scenario.measure.as_ref()?;
    let is_named = |pair: &HostPair<'_>| {
        config.flow.as_deref() == Some(scenario.flow[pair.instance.entry].traffic().name())
    };
    let pairs = scenario.host_pairs();
    let since = (0..).zip(&pairs).filter(|(_, pair)| is_named(pair)).map(|(index, _)| index);
    Some(Measure::new(config, since.collect()))
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesTarget {
    /// A new CSV file.
    pub file: PathBuf,
    pub step_ns: NonZeroU64,
}

impl SeriesTarget {
    pub fn create(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::new(File::create_new(&self.file)?))
    }

    /// Begins the time series of a run of `scenario` in `out`, which is the file or a substitute for it.
    pub fn begin<W: Write>(&self, scenario: &Scenario, out: W) -> io::Result<Series<SeriesFile<W>>> {
        let length = Duration::from_nanos(self.step_ns.get());
        Ok(Series::new(length, bottlenecks(scenario), SeriesFile::new(out)?))
    }
}

/// The hop that the steps of a series speak of, in each direction.
fn bottlenecks(scenario: &Scenario) -> Bottlenecks {
    if scenario.atm.is_some() {
        return Bottlenecks::single([Some(Capacity::at(&scenario.rates(Direction::Down))), None]);
    }
    let (tree, places) = (scenario.tree(), scenario.bottlenecks());
    let capacity = |place| Some(scenario.side(&tree, place).capacity(scenario.mtu.0 as u32));
    let crosses = |pair: &HostPair<'_>| {
        let avoided = passes_by(scenario, pair, &tree, places);
        avoided.into_iter().map(|way| way.map(|passes_by| !passes_by)).collect()
    };
    Bottlenecks {
        places,
        capacities: places.map(capacity),
        crossed: scenario.host_pairs().iter().map(crosses).collect(),
    }
}

/// For each way of a flow, whether its packets avoid the bottleneck of each direction.
fn passes_by(scenario: &Scenario, pair: &HostPair<'_>, tree: &Tree, places: [Place; 2]) -> Vec<[bool; 2]> {
    let flow = &scenario.flow[pair.instance.entry];
    let [down, up] =
        [Direction::Down, Direction::Up].map(|direction| scenario.routes(tree, flow, pair.part, direction));
    let avoids =
        |routes: [&Vec<Place>; 2]| [0, 1].map(|direction| !routes[direction].contains(&places[direction]));
    down.iter().zip(&up).map(|(down, up)| avoids([down, up])).collect()
}

impl Overview {
    /// An overview of one run of `scenario`, on any engine, in detail within `span`.
    pub fn of(scenario: &Scenario, span: Span) -> Self {
        let names = scenario.host_pairs().iter().map(HostPair::name).collect();
        Self::new(names, bottlenecks(scenario), span)
    }
}

fn application_info(
    scenario: &Scenario,
    pair: &HostPair<'_>,
    tree: &Tree,
    places: [Place; 2],
) -> ApplicationInfo {
    let HostPair { instance, application, part } = pair;
    let traffic = instance.config.traffic();
    let flow = &scenario.flow[instance.entry];
    ApplicationInfo {
        name: pair.name(),
        hosts: [Host::Client, Host::Server].map(|end| scenario.host_at(flow, *part, end).into_owned()),
        passes_by: passes_by(scenario, pair, tree, places),
        objects: instance.config.page().filter(|_| !part.is_side()).map(HttpPageConfig::objects),
        voice: traffic.voice(),
        asks: traffic.asks() && !part.is_side(),
        plays: traffic.plays() && !part.is_side(),
        whole: (*part == Part::HostSide).then_some(*application),
    }
}
