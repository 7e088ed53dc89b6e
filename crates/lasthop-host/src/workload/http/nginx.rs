//! nginx as the web server: one process with private files, which ends with this process.

use super::Site;
use crate::error::{Context, Error};
use crate::namespace::HostNamespace;
use lasthop_core::Dscp;
use lasthop_scenario::Scenario;
use lasthop_traffic::HttpPageConfig;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::fmt::Write;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use std::{fs, io};

/// Folder of its files: a private mount covers it.
const FOLDER: &str = "/proc";
/// Folders in which nginx is searched. Users' search paths often lack the second.
const PROGRAMS: [&str; 2] = ["nginx", "/usr/sbin/nginx"];
/// Number and interval of checks whether it listens.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct Nginx {
    process: Child,
}

impl Nginx {
    /// Serves the pages of a scenario on a host. The caller is in that host's network namespace afterwards.
    pub fn start(scenario: &Scenario, server: &HostNamespace) -> Result<Option<Self>, Error> {
        let Some(http) = &scenario.http else { return Ok(None) };
        let own = server.address.v4();
        let pages: Vec<&HttpPageConfig> = scenario.flow.iter().filter_map(|flow| flow.page()).collect();
        let sites = pages
            .iter()
            .map(|page| Ok((*page, Site::new(http, page)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        for (index, page) in pages.iter().enumerate() {
            if page.dscp != Dscp::default() {
                return Err(unable(page, "nginx marks no packets"));
            }
            if pages[..index].iter().any(|other| other.port == page.port) {
                return Err(unable(page, "the pages of nginx need different ports"));
            }
        }
        server.enter()?;
        let mut nginx = Self { process: spawn(own, &sites)? };
        for page in pages {
            nginx.wait_until_listening(SocketAddr::from((own, page.port.get())))?;
        }
        Ok(Some(nginx))
    }

    fn wait_until_listening(&mut self, address: SocketAddr) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.process.try_wait().context("cannot monitor nginx")? {
                return Err(Error::new(format!("nginx has ended early ({status})")));
            }
            sleep(PAUSE);
        }
        Err(Error::new(format!("nginx does not listen at {address}")))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn unable(page: &HttpPageConfig, why: &str) -> Error {
    Error::new(format!(
        "[http] server = \"nginx\" cannot serve the page {:?}: {why}; write \"built-in\"",
        page.name
    ))
}

fn spawn(own: Ipv4Addr, sites: &[(&HttpPageConfig, Site)]) -> Result<Child, Error> {
    for program in PROGRAMS {
        let files = files(own, sites);
        let mut command = Command::new(program);
        command.args(["-p", FOLDER, "-e", "stderr", "-c"]).arg(format!("{FOLDER}/nginx.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        #[allow(unsafe_code)]
        // SAFETY: this process has one thread, so the copy may do everything that this process may.
        unsafe {
            command.pre_exec(move || {
                set_pdeathsig(Signal::SIGKILL)?;
                write_files(&files)
            });
        }
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => return result.context("cannot start nginx"),
        }
    }
    Err(Error::new(
        "[http] server = \"nginx\": this machine has no program nginx; install it, or write \"built-in\"",
    ))
}

/// Writes files that only the calling process and its children see.
fn write_files(files: &[(String, Vec<u8>)]) -> io::Result<()> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    mount(NONE, FOLDER, Some("tmpfs"), MsFlags::empty(), NONE)?;
    files.iter().try_for_each(|(name, content)| fs::write(format!("{FOLDER}/{name}"), content))
}

/// The objects and the configuration: Debian's with one process, and with headers of constant size.
fn files(own: Ipv4Addr, sites: &[(&HttpPageConfig, Site)]) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut configuration = format!(
        "daemon off;\nmaster_process off;\npid {FOLDER}/pid;\nevents {{ worker_connections 10000; }}\n\
         http {{\naccess_log off;\nserver_tokens off;\netag off;\ndefault_type text/plain;\nsendfile on;\n\
         tcp_nopush on;\nkeepalive_timeout 1d;\nkeepalive_requests 1000000;\nlingering_close off;\n"
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(configuration, "{kind}_temp_path {FOLDER}/{kind};");
    }
    for (number, (page, site)) in sites.iter().enumerate() {
        let address = SocketAddr::from((own, page.port.get()));
        let _ = writeln!(configuration, "server {{\nlisten {address};");
        for answer in &site.answers {
            let file = format!("{number}-{}", answer.name);
            let padding =
                answer.header_bytes.saturating_sub(unpadded_bytes(site.persistent, answer.body_bytes));
            let padding = ".".repeat(padding as usize);
            let _ = writeln!(
                configuration,
                "location = /{} {{ alias {FOLDER}/{file}; add_header X-Padding \"{padding}\"; }}",
                answer.name
            );
            files.push((file, vec![b'.'; answer.body_bytes as usize]));
        }
        configuration.push_str("}\n");
    }
    configuration.push_str("}\n");
    files.push(("nginx.conf".into(), configuration.into_bytes()));
    files
}

/// Size of a header without padding.
fn unpadded_bytes(persistent: bool, body_bytes: u64) -> u64 {
    let lines = [
        "HTTP/1.1 200 OK",
        "Server: nginx",
        "Date: Thu, 01 Jan 1970 00:00:00 GMT",
        "Content-Type: text/plain",
        "Content-Length: ",
        "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT",
        if persistent { "Connection: keep-alive" } else { "Connection: close" },
        "X-Padding: ",
        "Accept-Ranges: bytes",
        "",
    ];
    let lines: usize = lines.iter().map(|line| line.len() + "\r\n".len()).sum();
    (lines + body_bytes.to_string().len()) as u64
}
