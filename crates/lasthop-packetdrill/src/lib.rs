//! An interpreter of packetdrill's script language (Cardwell et al. 2013) for the TCP of the model, sans-IO.
//!
//! A script injects packets and system calls at stated times, and specifies the expected packets and results.
//! Here a [`lasthop_tcp::Endpoint`] answers, in virtual time.
//!
//! - `lexer`, `parser`, `script`: from text to events; `error`: errors in the text
//! - `shell`, `settings`: kernel settings of a script, as switches of the model
//! - `missing`: features that a script needs and the model does not have
//! - `host`, `wire`: sockets and one connection; packets of the script and segments of the model
//! - `run`: executes the events
//!
//! Segments that leave together count as one packet if the script expects one, as with segmentation offload.
//! Python code in a script runs elsewhere: a run returns the values that it may use.

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
    /// Features that the script needs and the model does not have, by line. If there are any, it did not run.
    pub missing: Vec<(u32, String)>,
    /// The first difference, if there is one.
    pub difference: Option<Difference>,
    /// The Python code that was reached.
    pub codes: Vec<Code>,
    /// Virtual time that passed, in microseconds.
    pub elapsed_us: u64,
}

/// Runs a script on a TCP of this era. `files` contains the shell scripts that it calls, by the paths in it;
/// `tolerance` overrides the script's.
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
