//! A terminal in a guest, connected to the user's terminal: keys go in, and the output of programs
//! comes out.
//!
//! Users type in real time. While a program waits for a key, the guest waits for the user, so its clock runs
//! no faster than real time. Otherwise it runs as fast as it can.

use crate::clock::Waiter;
use crate::error::{Context, Error};
use lasthop_core::{Duration, Instant};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::{OpenptyResult, openpty};
use nix::sys::epoll::EpollFlags;
use nix::sys::termios::Termios;
use nix::unistd::{Uid, dup2_stderr, dup2_stdin, dup2_stdout, fchown, setsid};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

/// Interval of checks of the keyboard while no program waits for a key: only keys such as Ctrl-C matter then.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Interval of checks while a program waits for a key. Each check also waits for this long in real time.
const WAIT: Duration = Duration::from_millis(20);
/// Time until the next check after a key: hardly any real time has passed.
const NEXT_KEY_AFTER: Duration = Duration::from_millis(1);
const BYTES_MAX: usize = 4096;
/// Virtual time for the display of some output. Without it, no time would pass while a program writes continuously,
/// and Linux' scheduler would never run the thread that turns Ctrl-C into a signal.
const SHOWN_AFTER: Duration = Duration::from_micros(100);

/// Events for output of programs; the screen watches for them again each time.
const WRITTEN_ONCE: EpollFlags = EpollFlags::EPOLLIN.union(EpollFlags::EPOLLONESHOT);

/// Settings of a terminal, in the numbers of termios(3).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub input: u32,
    pub output: u32,
    pub control: u32,
    /// Modes of the terminal itself: echo, signals, editing.
    pub local: u32,
    pub characters: [u8; libc::NCCS],
}

impl From<&Settings> for Termios {
    fn from(settings: &Settings) -> Self {
        Self::from(libc::termios {
            c_iflag: settings.input,
            c_oflag: settings.output,
            c_cflag: settings.control,
            c_lflag: settings.local,
            c_line: 0,
            c_cc: settings.characters,
            c_ispeed: libc::B38400,
            c_ospeed: libc::B38400,
        })
    }
}

/// Requests to terminals, and to the host's files in a guest (`host_files.c`).
mod requests {
    nix::ioctl_write_int_bad!(wait_for_input, 0x6c01);
    nix::ioctl_write_int_bad!(is_awaited, 0x6c02);
    nix::ioctl_read_bad!(window, libc::TIOCGWINSZ, libc::winsize);
    nix::ioctl_write_ptr_bad!(set_window, libc::TIOCSWINSZ, libc::winsize);
    nix::ioctl_write_int_bad!(take_as_controlling, libc::TIOCSCTTY);
}

/// The programs' terminal, and the user's.
#[derive(Debug)]
pub struct Terminal {
    /// The side of keyboard and screen.
    master: File,
    /// The side of the programs.
    slave: OwnedFd,
    keyboard: File,
    screen: File,
}

impl Terminal {
    /// A terminal with these settings for a user's programs. Its keyboard and screen are those of the host.
    pub fn open(settings: &Settings, user: u32, keyboard: File, screen: File) -> Result<Self, Error> {
        let cannot = "cannot create a terminal";
        let OpenptyResult { master, slave } = openpty(None, &Termios::from(settings)).context(cannot)?;
        fchown(&slave, Some(Uid::from_raw(user)), None).context(cannot)?;
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).context(cannot)?;
        let terminal = Self { master: File::from(master), slave, keyboard, screen };
        terminal.resize()?;
        Ok(terminal)
    }

    /// Makes it the standard streams of this process and of its children.
    pub fn take_streams(&self) -> Result<(), Error> {
        let cannot = "cannot use the terminal";
        dup2_stdin(&self.slave).context(cannot)?;
        dup2_stdout(&self.slave).context(cannot)?;
        dup2_stderr(&self.slave).context(cannot)
    }

    /// Gives it the size of the user's window.
    pub fn resize(&self) -> Result<(), Error> {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        #[allow(unsafe_code)]
        // SAFETY: both calls get a size that outlives them.
        let resized = unsafe {
            requests::window(self.keyboard.as_raw_fd(), &raw mut size)
                .and_then(|_| requests::set_window(self.master.as_raw_fd(), &raw const size))
        };
        resized.map(drop).context("cannot set the size of the terminal")
    }

    /// Shows some output of programs; false if there is none.
    pub fn show(&self) -> Result<bool, Error> {
        let mut bytes = [0; BYTES_MAX];
        match (&self.master).read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            read => {
                let count = read.context("cannot read the output of programs")?;
                (&self.screen).write_all(&bytes[..count]).context("cannot write to the terminal")?;
                Ok(count > 0)
            }
        }
    }

    /// Whether a program waits for a key.
    fn is_awaited(&self) -> Result<bool, Error> {
        #[allow(unsafe_code)]
        // SAFETY: the call gets two open files.
        let awaited = unsafe { requests::is_awaited(self.keyboard.as_raw_fd(), self.slave.as_raw_fd()) };
        Ok(awaited.context("cannot check which process waits for keys")? > 0)
    }

    /// Waits for keys, for at most this long in real time; true if there are any.
    fn wait_for_keys(&self, longest: Duration) -> Result<bool, Error> {
        let milliseconds = longest.as_nanos() / 1_000_000;
        #[allow(unsafe_code)]
        // SAFETY: the call gets an open file.
        match unsafe { requests::wait_for_input(self.keyboard.as_raw_fd(), milliseconds as i32) } {
            Err(Errno::EINTR) => Ok(false),
            ready => Ok(ready.context("cannot wait for keys")? > 0),
        }
    }
}

/// Makes standard input the terminal of a new session, before a program is executed. It allocates nothing.
pub(crate) fn begin_session() -> io::Result<()> {
    setsid()?;
    #[allow(unsafe_code)]
    // SAFETY: the call gets an open file.
    unsafe { requests::take_as_controlling(libc::STDIN_FILENO, 0) }?;
    Ok(())
}

#[derive(Debug)]
pub struct Screen<'a> {
    terminal: &'a Terminal,
    name: u64,
    /// When it will have shown the current output.
    free_at: Option<Instant>,
}

impl<'a> Screen<'a> {
    /// An empty screen. The waiter reports output of programs by `name`.
    pub fn new(terminal: &'a Terminal, waiter: &Waiter, name: u64) -> io::Result<Self> {
        waiter.watch(&terminal.master, WRITTEN_ONCE, name)?;
        Ok(Self { terminal, name, free_at: None })
    }

    pub fn next_wakeup(&self) -> Option<Instant> {
        self.free_at
    }

    /// Shows some output of programs, if there is any; the rest follows later.
    pub fn attend(&mut self, now: Instant, waiter: &Waiter, has_written: bool) -> Result<(), Error> {
        if has_written {
            self.terminal.show()?;
            self.free_at = Some(now + SHOWN_AFTER);
        } else if self.free_at.is_some_and(|free_at| free_at <= now) {
            waiter.watch_again(&self.terminal.master, WRITTEN_ONCE, self.name)?;
            self.free_at = None;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct Keys<'a> {
    terminal: &'a Terminal,
    /// Keys for which the programs' terminal has no room yet.
    waiting: Vec<u8>,
    /// Time of the next check; never, once the user's terminal is gone.
    next: Option<Instant>,
}

impl<'a> Keys<'a> {
    pub fn new(terminal: &'a Terminal) -> Self {
        Self { terminal, waiting: Vec::new(), next: Some(Instant::ZERO) }
    }

    pub fn next_wakeup(&self) -> Option<Instant> {
        self.next
    }

    /// Passes on the user's keys, if a check is due, and waits for the user if a program does. It also checks
    /// after output, because no time passes while a program writes continuously. False if the user's terminal is
    /// gone.
    pub fn attend(&mut self, now: Instant, after_output: bool) -> Result<bool, Error> {
        let Some(due) = self.next else { return Ok(true) };
        if now < due && !after_output {
            return Ok(true);
        }
        let has_room = self.waiting.is_empty();
        let waits = has_room && now >= due && self.terminal.is_awaited()?;
        let has_come = has_room && self.terminal.wait_for_keys(if waits { WAIT } else { Duration::ZERO })?;
        if has_come && !self.take()? {
            self.next = None;
            return Ok(false);
        }
        self.pass_on()?;
        if has_come || now >= due {
            let pause = if has_come {
                NEXT_KEY_AFTER
            } else if waits {
                WAIT
            } else {
                LOOK_EVERY
            };
            self.next = Some(now + pause);
        }
        Ok(true)
    }

    /// Reads the user's keys; false if the user's terminal is gone.
    fn take(&mut self) -> Result<bool, Error> {
        self.waiting.resize(BYTES_MAX, 0);
        let count = match (&self.terminal.keyboard).read(&mut self.waiting) {
            Err(error) if error.raw_os_error() == Some(libc::EIO) => 0,
            read => read.context("cannot read from the terminal")?,
        };
        self.waiting.truncate(count);
        Ok(count > 0)
    }

    fn pass_on(&mut self) -> Result<(), Error> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        match (&self.terminal.master).write(&self.waiting) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            written => drop(self.waiting.drain(..written.context("cannot pass keys on")?)),
        }
        Ok(())
    }
}
