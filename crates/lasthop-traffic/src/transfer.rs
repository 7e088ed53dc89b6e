//! Transfers between clients and servers that are real programs with the interface of the QUIC interop runner. A
//! scenario's transfers are one [`ProgramConfig`](crate::ProgramConfig).

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::RangeInclusive;

use lasthop_core::{Bytes, Direction, Distribution, Duration, Faults, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{COUNT_MAX, OBJECT_MAX};

/// A transfer of files from a server to a client, one of them at the far end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferConfig {
    /// Name in the records, and name of the host at the far end.
    pub name: String,
    /// The implementation: a table `[stack.NAME]`, an adapter of `lasthop stack list`, or the built-in `quinn`
    /// (QUIC) or `tcp`.
    pub stack: String,
    /// Size of the file; or `objects`, or `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Sizes of several files, which the client requests together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["1 MB", "20 kB"]]))]
    pub objects: Vec<Bytes>,
    /// How long the client runs, instead of `bytes`. It is stopped after this time, while it requests a file that is
    /// as large as the path can carry; no file is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Test case of the QUIC interop runner.
    #[serde(default = "transfer")]
    pub testcase: String,
    /// When the client starts.
    #[serde(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Direction of the files: the client of an upload is at the far end, and downloads from a server on `host`.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub direction: Direction,
    /// The host at the edge, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A NAT in front of the client, which gives it other ports during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebind: Option<RebindConfig>,
    /// Congestion control of Linux with `stack = "tcp"`; the kernel's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Shell command line of the client, of `[stack.NAME]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Shell command line of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Further environment variables of both.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// A NAT that gives a client another port, as when it has lost its state. The client does not notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RebindConfig {
    /// Time of the first change.
    #[schemars(extend("examples" = ["5 s"]))]
    pub at: Duration,
    /// Time from each change to the next. If absent, there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["5 s"]))]
    pub every: Option<Duration>,
    /// The end of the network at which the NAT is.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub nat: NatPlace,
}

/// Where a NAT is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NatPlace {
    /// Between the client and the network, as at home: packets under way to the client are lost, and the server
    /// learns the port from what the client sends from then on.
    #[default]
    Client,
    /// Between the network and the server, as in a carrier's network: packets under way to the client arrive, and its
    /// answers have the new port.
    Server,
}

const EVERY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

impl RebindConfig {
    pub fn check(&self, faults: &mut Faults) {
        if let Some(every) = self.every {
            faults.in_range(every, EVERY, "every");
        }
    }

    /// The times of the changes within this time.
    pub fn within(&self, limit: Duration) -> impl Iterator<Item = Instant> {
        let next = |at: &Duration| Some(*at + self.every?);
        let times = iter::successors(Some(self.at), next);
        times.take_while(move |at| *at < limit).map(|at| Instant::ZERO + at)
    }
}

fn transfer() -> String {
    "transfer".into()
}

/// True if this can be the name of a host.
pub(crate) fn is_host_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [name.bytes().next(), name.bytes().last()];
    ends.into_iter().all(|end| end.is_some_and(is_word))
        && name.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// Finds faults of the transfers of a scenario.
pub(crate) fn check(transfers: &[TransferConfig], faults: &mut Faults) {
    let (mut names, mut serving) = (BTreeSet::new(), BTreeSet::new());
    for (index, own) in transfers.iter().enumerate() {
        faults.below(&format!("transfers[{index}]"), |faults| {
            own.check(faults);
            faults.require(own.direction == Direction::Down || serving.insert(&own.host), "direction", || {
                "another transfer already uploads from this host, which has one port 443; choose another host".into()
            });
            faults.require(names.insert(&own.name), "name", || {
                format!("two flows are named {:?}; rename one", own.name)
            });
        });
    }
}

impl TransferConfig {
    fn check(&self, faults: &mut Faults) {
        faults.require(is_host_name(&self.name), "name", || {
            "is also a host name; write lower-case letters, digits, dots and hyphens".into()
        });
        let stated = [self.bytes.is_some(), !self.objects.is_empty(), self.duration.is_some()];
        faults.require(stated.into_iter().filter(|is_stated| *is_stated).count() == 1, "bytes", || {
            "write either bytes = \"1 MB\", objects = [\"1 MB\", \"20 kB\"] or duration = \"30 s\"".into()
        });
        if let Some(rebind) = &self.rebind {
            faults.below("rebind", |faults| rebind.check(faults));
            faults.require(self.direction == Direction::Down, "rebind", || {
                "the client of an upload is at the far end, behind no NAT; leave it out".into()
            });
        }
        if let Some(duration) = self.duration {
            faults.not_zero(&duration, "duration", "30 s");
        }
        let key =
            |index: usize| if self.bytes.is_some() { "bytes".into() } else { format!("objects[{index}]") };
        for (index, bytes) in self.bytes.iter().chain(&self.objects).enumerate() {
            faults.in_range(*bytes, Bytes(1)..=OBJECT_MAX, &key(index));
        }
        faults.at_most(self.objects.len(), COUNT_MAX as usize, "objects");
        let is_word =
            !self.testcase.is_empty() && self.testcase.bytes().all(|byte| byte.is_ascii_alphanumeric());
        faults.require(is_word, "testcase", || {
            format!(
                "{:?} is not a test case of the QUIC interop runner; write for example \"transfer\"",
                self.testcase
            )
        });
        for (key, line) in [("client", &self.client), ("server", &self.server)] {
            faults.require(line.as_ref().is_none_or(|line| !line.trim().is_empty()), key, || {
                "contains no program; write for example \"./run_endpoint.sh\"".into()
            });
        }
    }
}
