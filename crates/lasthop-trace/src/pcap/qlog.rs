//! QUIC's logs, one file for each end of a connection.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lasthop_core::{FlowId, Host};

/// Number of bytes that are buffered: a run may have more connections than a process may open files.
const WAITING_BYTES: usize = 65_536;

#[derive(Debug)]
pub(super) struct Logs {
    folder: PathBuf,
    waiting: BTreeMap<(FlowId, Host), Vec<u8>>,
}

impl Logs {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, waiting: BTreeMap::new() }
    }

    pub fn add(&mut self, flow: FlowId, host: Host, records: &[u8]) -> io::Result<()> {
        let log = self.waiting.entry((flow, host)).or_default();
        log.extend_from_slice(records);
        if log.len() >= WAITING_BYTES {
            write(&self.folder, flow, host, log)?;
            log.clear();
        }
        Ok(())
    }

    pub fn finish(self) -> io::Result<()> {
        let Self { folder, waiting } = self;
        waiting.into_iter().try_for_each(|((flow, host), log)| write(&folder, flow, host, &log))
    }
}

fn write(folder: &Path, flow: FlowId, host: Host, log: &[u8]) -> io::Result<()> {
    let end = if host == Host::Server { "server" } else { "client" };
    let name = format!("flow-{}.{end}.sqlog", flow.0);
    File::options().append(true).create(true).open(folder.join(name))?.write_all(log)
}
