//! An interpreter of packetdrill's script language (Cardwell et al. 2013) for the TCP of the model, sans-IO.
//!
//! A script injects packets and system calls at stated times, and says which packets and results must follow.
//! Here a [`lasthop_tcp::Endpoint`] answers, in virtual time.
//!
//! - `lexer`, `parser`, `script`: from text to events; `error`: what is wrong with a text
//! - `shell`, `settings`: the settings of the kernel that a script asks for, as switches of the model
//! - `missing`: what a script needs and the model does not have
//! - `host`, `wire`: sockets and one connection; packets of the script and segments of the model
//! - `run`: the events, one after the other
//!
//! Segments that leave together are one packet where the script expects one, as an offload leaves them.
//! Python code in a script runs elsewhere: a run returns what it may ask for.

mod error;
mod host;
mod lexer;
mod missing;
mod parser;
mod run;
mod script;
mod settings;
mod shell;
mod wire;

use std::collections::BTreeMap;

use lasthop_tcp::{Profile, TcpConfig};

pub use error::ScriptError;
pub use parser::parse;
pub use run::{Code, Difference};
pub use script::{Action, Call, Event, PacketSpec, Script, Setting, TcpOption, Time, Value};
pub use settings::Tolerance;

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What the script needs and the model does not have, by line. If there is anything, it did not run.
    pub missing: Vec<(u32, String)>,
    /// The first difference, if there is one.
    pub difference: Option<Difference>,
    /// The Python code that was reached.
    pub codes: Vec<Code>,
    /// Virtual time that passed, in microseconds.
    pub elapsed_us: u64,
}

/// Runs a script on a TCP of this era. `files` holds the shell scripts that it calls, by the paths in it;
/// `tolerance` takes the place of the script's own.
pub fn run(
    text: &str,
    files: &BTreeMap<String, String>,
    profile: Profile,
    tolerance: Option<Tolerance>,
) -> Result<Outcome, ScriptError> {
    let script = parse(text)?;
    let tcp: TcpConfig = toml::from_str(profile.toml()).expect("a profile states all switches");
    let mut setup = shell::Setup::default();
    if let Some((line, command)) = &script.setup {
        setup.read(*line, command, files);
    }
    let settings = settings::Settings::new(&script, setup, tcp, tolerance)?;
    let mut missing = settings.missing.clone();
    missing.extend(missing::missing(&script));
    missing.sort();
    let mut outcome = Outcome { missing, difference: None, codes: Vec::new(), elapsed_us: 0 };
    if outcome.missing.is_empty() {
        let mut run = run::Run::new(&settings);
        outcome.difference = run.events(&script).err();
        outcome.elapsed_us = run.elapsed_us();
        outcome.codes = run.codes;
    }
    Ok(outcome)
}
