//! Real programs on the hosts, behind the last hop. They make their own connections, so only engines with
//! real hosts run them.

use std::path::Path;

use lasthop_core::{Bytes, Distribution, Duration, Faults, Host, Instant, News};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::transfer::{self, TransferConfig, is_host_name};
use crate::{Action, Application, FlowConfig, HttpConfig, Offer, Outlook, Program, Surroundings, Traffic};

/// Programs that communicate over the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramConfig {
    /// Name in the records.
    pub name: String,
    /// The program of the client (with `[hop]`: of `host`) and its arguments; the run ends with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The servers that programs talk to, each on its own host at the far end. If absent, there is one host
    /// that runs nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerConfig>,
    /// With `[hop]`: programs on hosts of the scenario. Without `command`, the run ends when all of them have
    /// ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostProgramConfig>,
    /// The flows of kind `transfer`: lasthop runs their clients and servers instead of `command`, `hosts` and
    /// `servers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferConfig>,
    /// On the kernel engine: restart the servers only every N replications: 1 to N share the same servers, N + 1
    /// to 2 N the next, and so on. If absent, and on the live engine, each replication starts its servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_servers: Option<u32>,
    /// True if the program prints JSON, whose numbers become columns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub json: bool,
    /// Absolute paths of folders in which programs may write. On the kernel engine, files written elsewhere are
    /// lost after the run; on the live engine, programs may write wherever their user may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Absolute paths of files and folders that influence the results, in addition to those in the command
    /// lines. When their contents change, everything is run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<String>,
    /// On the kernel engine: virtual time per processor time while a program computes. Above 0, runs are not
    /// reproducible. On the live engine, computing takes real time.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub cpu_cost: f64,
}

/// A host at the far end, and the program on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Host name, as the other hosts see it.
    #[serde(default = "server_name")]
    pub name: String,
    /// A shell command line.
    pub command: String,
}

/// A program on a host of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostProgramConfig {
    /// The host.
    pub name: String,
    /// A shell command line.
    pub command: String,
}

/// Default name of the server.
pub const SERVER: &str = "server";
/// Name of the client for the other hosts.
const CLIENT: &str = "client";
/// Servers' addresses are 10.0.0.1 and so on.
const SERVERS_MAX: usize = 200;
const CPU_COST_MAX: f64 = 1000.0;
const KEEP_SERVERS_MAX: u32 = 1000;

fn server_name() -> String {
    SERVER.into()
}

impl ServerConfig {
    fn check(&self, others: &[Self], faults: &mut Faults) {
        let name = self.name.as_str();
        faults.require(is_host_name(name), "name", || {
            "is not a host name; write lower-case letters, digits, dots and hyphens, as in \"origin\"".into()
        });
        let is_taken = name == CLIENT || others.iter().any(|other| other.name == name);
        faults.require(!is_taken, "name", || {
            format!("{name:?} is already the name of a host; choose another name")
        });
        faults.require(!self.command.trim().is_empty(), "command", || {
            "contains no program; write for example \"python3 -m http.server 80\"".into()
        });
    }
}

/// A program runs as soon as the hosts exist.
static AT_ONCE: Distribution<Duration> = crate::at_once();

impl FlowConfig {
    /// The real program, if the flow is one. Only engines with real hosts run it.
    pub fn real_program(&self) -> Option<&ProgramConfig> {
        match self {
            Self::Program(program) => Some(program),
            _ => None,
        }
    }
}

impl Traffic for ProgramConfig {
    keys! { name }

    fn start(&self) -> &Distribution<Duration> {
        &AT_ONCE
    }

    fn check(&self, _mtu: Bytes, faults: &mut Faults) {
        let is_named = match self.command.first() {
            None => !self.hosts.is_empty() || !self.transfers.is_empty(),
            Some(program) => !program.is_empty(),
        };
        faults.require(is_named, "command", || {
            "contains no program; write for example [\"curl\", \"http://server/\"]".into()
        });
        for (index, server) in self.servers.iter().enumerate() {
            let others = &self.servers[..index];
            faults.below(&format!("servers[{index}]"), |faults| server.check(others, faults));
        }
        faults.at_most(self.servers.len(), SERVERS_MAX, "servers");
        transfer::check(&self.transfers, faults);
        faults.at_most(self.transfers.len(), SERVERS_MAX, "transfers");
        for (key, paths) in [("write", &self.write), ("input", &self.input)] {
            for (index, path) in paths.iter().enumerate() {
                faults.require(Path::new(path).is_absolute(), &format!("{key}[{index}]"), || {
                    format!("{path:?} is not an absolute path; write for example \"/home/me/results\"")
                });
            }
        }
        let replications = self.keep_servers.unwrap_or(1);
        faults.require((1..=KEEP_SERVERS_MAX).contains(&replications), "keep_servers", || {
            format!("{replications} is out of range; write from 1 to {KEEP_SERVERS_MAX}")
        });
        faults.require((0.0..=CPU_COST_MAX).contains(&self.cpu_cost), "cpu_cost", || {
            format!("{} is out of range; write from 0 to {CPU_COST_MAX}", self.cpu_cost)
        });
    }

    /// Programs may run for an hour.
    fn latest_begin(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn flow_names(&self, _name: &str, _http: Option<&HttpConfig>) -> Vec<String> {
        Vec::new()
    }

    fn number_key(&self) -> Option<&'static str> {
        Some("command")
    }

    fn only_down(&self) -> Option<&'static str> {
        Some("a program's connections go whichever way it wants")
    }

    fn caller(&self, _sender: Host) -> Host {
        Host::Client
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        around.flow()
    }

    fn begin(&self, _start: Instant, _around: &Surroundings<'_>) -> Program {
        Program::Program(Elsewhere)
    }
}

/// The application of a real program: it has no actions for the engine.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere;

impl Application for Elsewhere {
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn handle_wakeup(&mut self, _now: Instant) {}

    fn handle_news(&mut self, _now: Instant, _flow: u32, _host: Host, _news: News) {}

    fn poll_action(&mut self) -> Option<Action> {
        None
    }
}
