//! The programs of servers: their output, and whether they listen.

use crate::error::{Context, Error};
use crate::namespace::HostNamespace;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::process::Command;

/// Offset that a shell adds to the number of the signal that ended a command.
pub const SIGNAL_BASE: i32 = 128;
/// Size of a read, and the number of reads that empty a full pipe.
const READ_BYTES: usize = 4096;
const READS_OF_PIPE: usize = 16;
/// The longest line that is passed on whole.
const LINE_BYTES: usize = 1 << 16;

#[derive(Debug)]
pub struct Servers<'a> {
    running: Vec<Server<'a>>,
    /// True if their output goes to standard error.
    is_shown: bool,
}

#[derive(Debug)]
struct Server<'a> {
    name: &'a str,
    host: &'a HostNamespace,
    process: Pid,
    /// Its standard output and error, until it has closed both.
    output: Option<PipeReader>,
    /// The printed part of an incomplete line, which is not displayed yet.
    partial: Vec<u8>,
    /// The last line with text.
    last: String,
    listens: bool,
    /// Its exit code, once it has ended.
    code: Option<i32>,
}

impl<'a> Servers<'a> {
    /// Without servers yet. Their output is displayed or discarded.
    pub fn new(is_shown: bool) -> Self {
        Self { running: Vec::new(), is_shown }
    }

    pub fn start(
        &mut self,
        name: &'a str,
        host: &'a HostNamespace,
        mut program: Command,
    ) -> Result<(), Error> {
        let cannot = "cannot start the server's command";
        let (output, printed) = io::pipe().context(cannot)?;
        program.stdout(printed.try_clone().context(cannot)?).stderr(printed);
        let child = program.spawn().context(cannot)?;
        self.running.push(Server {
            name,
            host,
            process: Pid::from_raw(child.id().cast_signed()),
            output: Some(output),
            partial: Vec::new(),
            last: String::new(),
            listens: false,
            code: None,
        });
        Ok(())
    }

    /// The names of those that do not listen, but may do so later. An error if one has failed. The caller is
    /// in the network namespace of one of them afterwards.
    pub fn awaited(&mut self) -> Result<Vec<&'a str>, Error> {
        let are_left = reap(|process, code| {
            if let Some(server) = self.running.iter_mut().find(|server| server.process == process) {
                server.code = Some(code);
            }
        });
        let mut awaited = Vec::new();
        for server in &mut self.running {
            server.listens = server.listens || {
                server.host.enter()?;
                is_reachable().context("cannot check whether a server listens")?
            };
            match server.code {
                _ if server.listens => {}
                // A background process that it has started may still listen.
                None | Some(0) if are_left => awaited.push(server.name),
                None | Some(0) => {}
                Some(code) => return Err(server.failure(code, self.is_shown)),
            }
        }
        Ok(awaited)
    }

    /// Waits until `file` is readable or closed, or until servers have printed something, which is passed on.
    /// True if there is something to do for `file`.
    pub fn wait(&mut self, file: &impl AsFd, timeout: PollTimeout) -> Result<bool, Error> {
        let outputs = self.running.iter().filter_map(|server| server.output.as_ref()).map(AsFd::as_fd);
        let files = std::iter::once(file.as_fd()).chain(outputs);
        let mut files: Vec<_> = files.map(|file| PollFd::new(file, PollFlags::POLLIN)).collect();
        match poll(&mut files, timeout) {
            Err(Errno::EINTR) => return Ok(false),
            done => done.context("cannot wait for the programs")?,
        };
        let has_file = files[0].any().unwrap_or(true);
        for server in &mut self.running {
            server.pass_on(self.is_shown);
        }
        Ok(has_file)
    }

    /// Passes on the rest of their output.
    pub fn finish(&mut self) {
        for server in &mut self.running {
            server.pass_on_all(self.is_shown);
            server.output = None;
            server.show(self.is_shown);
        }
    }
}

impl Server<'_> {
    /// Passes on some of what it has printed. False if there was nothing.
    fn pass_on(&mut self, is_shown: bool) -> bool {
        let Some(output) = &mut self.output else { return false };
        let mut files = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
        if !poll(&mut files, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
            return false;
        }
        let mut bytes = [0; READ_BYTES];
        match output.read(&mut bytes) {
            Ok(0) | Err(_) => self.output = None,
            Ok(count) => self.partial.extend_from_slice(&bytes[..count]),
        }
        self.show(is_shown);
        true
    }

    /// Passes on the content of a full pipe, but no more: a background program may print endlessly.
    fn pass_on_all(&mut self, is_shown: bool) {
        let _ = (0..READS_OF_PIPE).all(|_| self.pass_on(is_shown));
    }

    /// Shows the lines that have ended; at the end of the output, all.
    fn show(&mut self, is_shown: bool) {
        let ends = (self.output.is_none() && !self.partial.is_empty()) || self.partial.len() > LINE_BYTES;
        if ends && !self.partial.ends_with(b"\n") {
            self.partial.push(b'\n');
        }
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut self.partial, rest);
        let with_text = lines.split(|byte| *byte == b'\n').rfind(|line| !line.trim_ascii().is_empty());
        if let Some(line) = with_text {
            let text = String::from_utf8_lossy(line.trim_ascii());
            self.last = text.chars().filter(|character| !character.is_control()).collect();
        }
        if is_shown {
            let of_server = |line: &[u8]| [self.name.as_bytes(), b": ", line].concat();
            let text: Vec<u8> = lines.split_inclusive(|byte| *byte == b'\n').flat_map(of_server).collect();
            // There may be nobody to read it.
            let _ = io::stderr().write_all(&text);
        }
    }

    /// The error for a program that has ended with this exit code before it listened.
    fn failure(&mut self, code: i32, is_shown: bool) -> Error {
        self.pass_on_all(is_shown);
        let last = if is_shown || self.last.is_empty() { String::new() } else { format!(": {}", self.last) };
        let name = self.name;
        Error::new(format!(
            "the command of {name} ended with exit code {code} before it accepted connections{last}"
        ))
    }
}

/// Reaps the children that have ended, each with its exit code; false if no child is left.
pub fn reap(mut ended: impl FnMut(Pid, i32)) -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(process, code)) => ended(process, code),
            Ok(WaitStatus::Signaled(process, signal, _)) => ended(process, SIGNAL_BASE + signal as i32),
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

/// True if a program in the caller's network namespace waits for packets of others, or for an answer, which
/// only comes once packets are carried.
fn is_reachable() -> io::Result<bool> {
    for (table, states) in
        [("tcp", TCP_STATES), ("tcp6", TCP_STATES), ("udp", UDP_STATES), ("udp6", UDP_STATES)]
    {
        let sockets = match fs::read_to_string(format!("/proc/self/net/{table}")) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue, // a kernel without IPv6
            read => read?,
        };
        if sockets.lines().skip(1).any(|socket| has_state(socket, states)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// States in `/proc/net` (`tcp_states.h`): `TCP_LISTEN`, `TCP_SYN_SENT`; of UDP without a peer, `TCP_CLOSE`.
const TCP_STATES: &[&str] = &["0A", "02"];
const UDP_STATES: &[&str] = &["07"];

/// True if this line of a table is a socket in one of these states that others can reach.
fn has_state(socket: &str, states: &[&str]) -> bool {
    let mut words = socket.split_whitespace().skip(1);
    let (Some(local), Some(state)) = (words.next(), words.nth(1)) else { return false };
    let address = local.split(':').next().unwrap_or_default();
    // 127.0.0.0/8 and ::1, in the byte order of the machine.
    let is_loopback = address.ends_with("7F") || address == "00000000000000000000000001000000";
    states.contains(&state) && !is_loopback
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn sockets_that_others_reach_are_told_from_all_others() {
        let line =
            |local: &str, state: &str| format!(" 0: {local} 00000000:0000 {state} 00000000:00000000 00:0");
        for (local, state, states, expected) in [
            ("00000000:0050", "0A", TCP_STATES, true),
            ("0100000A:0050", "0A", TCP_STATES, true),
            ("0100007F:0050", "0A", TCP_STATES, false),
            ("0100000A:9C40", "02", TCP_STATES, true),
            ("0100000A:9C40", "06", TCP_STATES, false),
            ("00000000000000000000000000000000:0050", "0A", TCP_STATES, true),
            ("00000000000000000000000001000000:0050", "0A", TCP_STATES, false),
            ("0000000000000000FFFF00000100007F:0050", "0A", TCP_STATES, false),
            ("00000000:0045", "07", UDP_STATES, true),
            ("0100000A:9C40", "01", UDP_STATES, false),
        ] {
            assert_eq!(has_state(&line(local, state), states), expected, "{local} {state}");
        }
        assert!(!has_state("", TCP_STATES));
    }

    #[test]
    fn the_kernel_writes_its_tables_as_expected() {
        let table = |name| fs::read_to_string(format!("/proc/self/net/{name}")).unwrap();
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
        let ports = [("tcp", TCP_STATES, tcp.local_addr()), ("udp", UDP_STATES, udp.local_addr())];
        for (name, states, address) in ports {
            let own = format!("00000000:{:04X} ", address.unwrap().port());
            let lines = table(name);
            let line = lines.lines().find(|line| line.contains(&own)).unwrap();
            assert!(has_state(line, states), "{line}");
        }
    }
}
