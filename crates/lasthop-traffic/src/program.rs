//! A real program on each host, behind the last hop. It makes its connections by itself: only engines with real hosts
//! run it.

use lasthop_core::{Bytes, Distribution, Duration, Faults, Host, Instant, News};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Action, Application, HttpConfig, Program, Surroundings, Traffic};

/// Programs that talk over the last hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramConfig {
    /// Name in the records.
    pub name: String,
    /// The mobile host's program and its arguments; the run ends with it.
    pub command: Vec<String>,
    /// A shell command line for the fixed host; nothing runs there if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Whether the program prints JSON, whose numbers become columns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub json: bool,
}

/// A program runs as soon as the hosts are there.
static AT_ONCE: Distribution<Duration> = crate::at_once();

impl Traffic for ProgramConfig {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&self) -> &Distribution<Duration> {
        &AT_ONCE
    }

    fn check(&self, _mtu: Bytes, faults: &mut Faults) {
        let is_named = self.command.first().is_some_and(|program| !program.is_empty());
        faults.require(is_named, "command", || {
            "names no program; write [\"curl\", \"http://server/\"], say".into()
        });
    }

    /// It may last an hour.
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

    fn begin(&self, _start: Instant, _around: &Surroundings<'_>) -> Program {
        Program::Program(Elsewhere)
    }
}

/// What a real program looks like to who carries out actions: nothing is left to do.
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
