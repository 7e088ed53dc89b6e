//! A TUN device: IP packets into and out of the network namespace in which it was created.

use crate::calls::{self, Call, TcpInfoBytes};
use crate::clock::{NextWait, Reads};
use crate::hop::Frame;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

pub const DEVICE: &str = "hop";

mod ioctl {
    #![allow(unsafe_code, reason = "nix generates the call from the number and the type")]
    nix::ioctl_write_ptr_bad!(set_interface, libc::TUNSETIFF, libc::ifreq);
}

/// One TUN device; it disappears when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
}

impl Tun {
    /// A new device with this name in the network namespace of the caller. It has no offloads: each packet
    /// could be on a wire, with its checksums.
    pub fn create(device: &str) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = open("/dev/net/tun", flags, Mode::empty())?;
        let mut name = [0; libc::IFNAMSIZ];
        for (target, byte) in name.iter_mut().zip(device.bytes()) {
            *target = libc::c_char::from_ne_bytes([byte]);
        }
        let request = libc::ifreq {
            ifr_name: name,
            ifr_ifru: libc::__c_anonymous_ifr_ifru {
                ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
            },
        };
        #[allow(unsafe_code)]
        // SAFETY: the request is an `ifreq` that lives through the call, which keeps no pointer to it.
        unsafe {
            ioctl::set_interface(file.as_raw_fd(), &raw const request)?;
        }
        Ok(Self { file })
    }

    /// Reads the next packet that the namespace sends; false if there is none now.
    pub fn read(&self, frame: &mut Frame) -> io::Result<bool> {
        loop {
            return match nix::unistd::read(&self.file, &mut frame.buffer) {
                Ok(length) => {
                    frame.length = length;
                    Ok(true)
                }
                Err(Errno::EAGAIN) => Ok(false),
                Err(Errno::EINTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Tries to read the next packets that the namespace sends.
    pub fn read_some(&self, Reads { frames, results }: &mut Reads) {
        *results = calls::make(frames.each_mut().map(|frame| Call::read(&self.file, &mut frame.buffer)));
    }

    /// Writes a packet to the namespace, and then queries a TCP socket. Returns whether the namespace
    /// accepted it, and whether there is an answer. If there is a next wait, it also polls for ready files.
    pub fn write_and_ask(
        &self,
        packet: &[u8],
        socket: &impl AsFd,
        answer: &mut TcpInfoBytes,
        next: Option<NextWait<'_>>,
    ) -> (bool, bool) {
        let calls = [Call::write(&self.file, packet), Call::tcp_info(socket, answer)];
        let [written, asked] = NextWait::make(next, calls);
        (written == Ok(packet.len()), asked.is_ok())
    }

    /// Writes a packet to the namespace; false if it is not accepted. A next wait then polls for ready files.
    pub fn write_and_look(&self, packet: &[u8], next: Option<NextWait<'_>>) -> bool {
        let [written] = NextWait::make(next, [Call::write(&self.file, packet)]);
        written == Ok(packet.len())
    }

    /// Writes a packet to the namespace; false if the namespace does not accept it.
    pub fn write(&self, packet: &[u8]) -> bool {
        nix::unistd::write(&self.file, packet) == Ok(packet.len())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
