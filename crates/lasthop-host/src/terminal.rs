//! A terminal in a guest of its own, joined to the user's outside: keys go in, and what programs write comes out.
//!
//! Nobody types in virtual time. While a program waits for a key, the guest waits for the user, so its clock goes no
//! faster than his. Otherwise it goes as fast as it can.

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

/// From one look at the keyboard to the next while no program waits for a key: only Ctrl-C and the like may come.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// While one waits, and so long each look lasts.
const WAIT: Duration = Duration::from_millis(20);
/// To the next look once a key has come: the user's clock has hardly moved.
const NEXT_KEY_AFTER: Duration = Duration::from_millis(1);
/// Most bytes that are carried at once.
const BYTES_MAX: usize = 4096;
/// So long the screen takes for them. A program that writes on and on would let no time pass otherwise, and without time
/// Linux' scheduler would never let the thread run that makes a signal of Ctrl-C.
const SHOWN_AFTER: Duration = Duration::from_micros(100);

/// How the screen is told that programs have written something: it asks each time anew.
const WRITTEN_ONCE: EpollFlags = EpollFlags::EPOLLIN.union(EpollFlags::EPOLLONESHOT);

/// How a terminal treats what is typed and written, in the numbers of termios(3).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Modes of input.
    pub input: u32,
    /// Modes of output.
    pub output: u32,
    /// Modes of the line.
    pub control: u32,
    /// Modes of the terminal itself: echo, signals, editing.
    pub local: u32,
    /// Control characters.
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
    /// Where keyboard and screen would be.
    master: File,
    /// Where the programs are.
    slave: OwnedFd,
    keyboard: File,
    screen: File,
}

impl Terminal {
    /// A terminal with these settings for a user's programs; keyboard and screen are the host's.
    pub fn open(settings: &Settings, user: u32, keyboard: File, screen: File) -> Result<Self, Error> {
        let cannot = "cannot make a terminal";
        let OpenptyResult { master, slave } = openpty(None, &Termios::from(settings)).context(cannot)?;
        fchown(&slave, Some(Uid::from_raw(user)), None).context(cannot)?;
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).context(cannot)?;
        let terminal = Self { master: File::from(master), slave, keyboard, screen };
        terminal.resize()?;
        Ok(terminal)
    }

    /// Makes it the standard streams of this process and of all that it starts.
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

    /// Shows some of what programs have written; false if there is nothing.
    pub fn show(&self) -> Result<bool, Error> {
        let mut bytes = [0; BYTES_MAX];
        match (&self.master).read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            read => {
                let count = read.context("cannot read what programs have written")?;
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
        Ok(awaited.context("cannot see who waits for keys")? > 0)
    }

    /// Waits for keys, so long of the host's time at most; true if there are some.
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

/// Makes the standard input of the calling process, which is about to become a program, the terminal of a session of its
/// own. It allocates nothing.
pub(crate) fn begin_session() -> io::Result<()> {
    setsid()?;
    #[allow(unsafe_code)]
    // SAFETY: the call gets an open file.
    unsafe { requests::take_as_controlling(libc::STDIN_FILENO, 0) }?;
    Ok(())
}

/// What the user sees.
#[derive(Debug)]
pub struct Screen<'a> {
    terminal: &'a Terminal,
    name: u64,
    /// When it has shown what it shows now.
    free_at: Option<Instant>,
}

impl<'a> Screen<'a> {
    /// Nothing has been shown. The waiter tells by `name` that programs have written something.
    pub fn new(terminal: &'a Terminal, waiter: &Waiter, name: u64) -> io::Result<Self> {
        waiter.watch(&terminal.master, WRITTEN_ONCE, name)?;
        Ok(Self { terminal, name, free_at: None })
    }

    /// When [`Screen::attend`] wants to be called.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.free_at
    }

    /// Shows some of what programs have written, if they have, and takes more later.
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

/// What the user types.
#[derive(Debug)]
pub struct Keys<'a> {
    terminal: &'a Terminal,
    /// What the programs' terminal had no room for yet.
    waiting: Vec<u8>,
    /// When to look for more; never, once the user's terminal is gone.
    next: Option<Instant>,
}

impl<'a> Keys<'a> {
    /// Nothing has been typed.
    pub fn new(terminal: &'a Terminal) -> Self {
        Self { terminal, waiting: Vec::new(), next: Some(Instant::ZERO) }
    }

    /// When [`Keys::attend`] wants to be called.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.next
    }

    /// Passes on what the user has typed, if it is time to look, and waits for him if a program does. After output it
    /// looks, too: a program that writes on and on lets no time pass. False if the user's terminal is gone.
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

    /// Takes what has been typed; false if the user's terminal is gone.
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
