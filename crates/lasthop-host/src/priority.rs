//! Makes the emulator punctual: real-time scheduling and locked memory, if permitted.

use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::unistd::geteuid;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Priority {
    pub real_time: bool,
    pub memory_locked: bool,
}

impl Priority {
    /// Requests both, before a user namespace is entered, which removes the permission. Children do not inherit
    /// them.
    pub fn acquire() -> Self {
        let parameters = libc::sched_param { sched_priority: 1 };
        #[allow(unsafe_code)]
        // SAFETY: the parameters live through the call; 0 is the calling process.
        let answer = unsafe {
            libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters)
        };
        // With a limit, a later allocation could fail at a worse moment.
        let unlimited = geteuid().is_root()
            || getrlimit(Resource::RLIMIT_MEMLOCK).is_ok_and(|(soft, _)| soft == RLIM_INFINITY);
        let all = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE;
        Self { real_time: answer == 0, memory_locked: unlimited && mlockall(all).is_ok() }
    }
}
