//! A guest around the hosts: the owner of the programs, and the guest's answer.

use crate::counters::Counters;
use crate::error::{Context, Error};
use crate::lateness::LatenessSummary;
use caps::{CapSet, Capability};
use nix::sys::prctl::set_keepcaps;
use nix::unistd::{Gid, Uid, chdir, setgid, setgroups, setuid};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The user whose programs run in a guest, and the environment of the programs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    pub user: u32,
    pub group: u32,
    pub groups: Vec<u32>,
    pub environment: Vec<(String, String)>,
    pub folder: PathBuf,
}

impl User {
    /// Makes the caller a process of this user, with the capabilities for starting programs in namespaces.
    /// Returns the environment of the user's programs.
    pub(crate) fn become_it(&self) -> Result<&[(String, String)], Error> {
        let groups: Vec<_> = self.groups.iter().copied().map(Gid::from_raw).collect();
        set_keepcaps(true).context("cannot keep capabilities")?;
        setgroups(&groups).context("cannot set the groups")?;
        setgid(Gid::from_raw(self.group)).context("cannot set the group")?;
        setuid(Uid::from_raw(self.user)).context("cannot set the user")?;
        let permitted = caps::read(None, CapSet::Permitted).context("cannot read the capabilities")?;
        caps::set(None, CapSet::Effective, &permitted).context("cannot use the capabilities")?;
        debug_assert!(permitted.contains(&Capability::CAP_SYS_ADMIN));
        chdir(&self.folder).context(&format!("cannot enter the working folder {}", self.folder.display()))?;
        Ok(&self.environment)
    }
}

/// The outcome of programs behind the last hop.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Exit code of the client's program.
    pub code: i32,
    /// Time from the start of the client's program to its end.
    pub elapsed_ns: u64,
    pub counters: Counters,
    pub lateness: LatenessSummary,
    /// Packets that a host did not accept.
    pub not_taken: u64,
}
