//! System calls that are made one right after another. In a guest of lasthop's own they are made together: to enter its
//! kernel costs far more than what most calls do (`batched_calls.h` in `python/lasthop/engines/kernel`).

use libc::{c_int, c_long};
use nix::errno::Errno;
use nix::sys::epoll::EpollEvent;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::OnceLock;

/// The guest kernel's call for several.
const BATCHED_CALLS: c_long = 400;

/// A system call to be made, and what has come of it; as the guest kernel knows it.
#[repr(C)]
#[derive(Debug)]
pub struct Call<'a> {
    number: c_long,
    arguments: [c_long; 6],
    result: c_long,
    buffers: PhantomData<&'a mut [u8]>,
}

/// Room for what the kernel says of a TCP socket.
#[derive(Debug)]
pub struct TcpInfoBytes {
    /// A `tcp_info`.
    pub bytes: [u8; size_of::<libc::tcp_info>()],
    length: libc::socklen_t,
}

impl Default for TcpInfoBytes {
    fn default() -> Self {
        let bytes = [0; size_of::<libc::tcp_info>()];
        Self { bytes, length: bytes.len() as libc::socklen_t }
    }
}

impl<'a> Call<'a> {
    fn new<const N: usize>(number: c_long, given: [c_long; N]) -> Self {
        let mut arguments = [0; 6];
        arguments[..N].copy_from_slice(&given);
        // One that is not made has been interrupted before it began.
        let result = -c_long::from(libc::EINTR);
        Self { number, arguments, result, buffers: PhantomData }
    }

    /// Reads into a buffer.
    pub fn read(file: &'a impl AsFd, buffer: &'a mut [u8]) -> Self {
        let (target, length) = (address(buffer.as_mut_ptr()), length(buffer));
        Self::new(libc::SYS_read, [descriptor(file), target, length])
    }

    /// Writes a buffer.
    pub fn write(file: &'a impl AsFd, buffer: &'a [u8]) -> Self {
        Self::new(libc::SYS_write, [descriptor(file), address(buffer.as_ptr()), length(buffer)])
    }

    /// Asks about a TCP socket (tcp(7), `TCP_INFO`).
    pub fn tcp_info(socket: &'a impl AsFd, answer: &'a mut TcpInfoBytes) -> Self {
        let (level, option) = (libc::IPPROTO_TCP.into(), libc::TCP_INFO.into());
        let (target, length) = (address(&raw mut answer.bytes), address(&raw mut answer.length));
        Self::new(libc::SYS_getsockopt, [descriptor(socket), level, option, target, length])
    }

    /// Reads the monotonic clock.
    pub fn clock(time: &'a mut libc::timespec) -> Self {
        Self::new(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC.into(), address(&raw mut *time)])
    }

    /// Sets a timer to a time of its clock; zero disarms it.
    pub fn set_timer(timer: &'a impl AsFd, setting: &'a libc::itimerspec) -> Self {
        let flags = libc::TFD_TIMER_ABSTIME.into();
        Self::new(libc::SYS_timerfd_settime, [descriptor(timer), flags, address(&raw const *setting), 0])
    }

    /// Waits for files to become ready, for so many milliseconds, or without end if negative.
    pub fn wait(epoll: &'a impl AsFd, events: &'a mut [EpollEvent], timeout_ms: c_int) -> Self {
        let (target, count) = (address(events.as_mut_ptr()), length(events));
        Self::new(libc::SYS_epoll_pwait, [descriptor(epoll), target, count, timeout_ms.into(), 0, 0])
    }

    /// Makes it, and says whether it has failed.
    fn make(&mut self) -> bool {
        let given = self.arguments;
        #[allow(unsafe_code)]
        // SAFETY: the arguments are those of one of the calls above: what they point to is borrowed for as long as this
        // lives, and as large as they say.
        let result = unsafe {
            if self.number == libc::SYS_clock_gettime {
                // This one needs not enter the kernel.
                c_long::from(libc::clock_gettime(
                    given[0] as c_int,
                    ptr::with_exposed_provenance_mut(given[1] as usize),
                ))
            } else {
                libc::syscall(self.number, given[0], given[1], given[2], given[3], given[4], given[5])
            }
        };
        self.result = if result < 0 { -c_long::from(Errno::last_raw()) } else { result };
        result < 0
    }

    fn result(&self) -> Result<usize, Errno> {
        usize::try_from(self.result).map_err(|_| Errno::from_raw(-self.result as i32))
    }
}

/// Makes calls one after another up to the first that fails, and returns what has come of them. Those that were not made
/// say that they were interrupted, be it by a signal or by the failure of one before.
pub fn make<const N: usize>(mut calls: [Call<'_>; N]) -> [Result<usize, Errno>; N] {
    if are_batched() {
        #[allow(unsafe_code)]
        // SAFETY: as for each; the kernel writes nothing else than their results.
        unsafe {
            libc::syscall(BATCHED_CALLS, calls.as_mut_ptr(), N);
        }
    } else {
        let _ = calls.iter_mut().any(Call::make);
    }
    calls.each_ref().map(Call::result)
}

/// Whether this kernel makes several calls at once; others have no call of this number.
pub fn are_batched() -> bool {
    static ARE_BATCHED: OnceLock<bool> = OnceLock::new();
    *ARE_BATCHED.get_or_init(|| {
        #[allow(unsafe_code)]
        // SAFETY: it makes none.
        let made = unsafe { libc::syscall(BATCHED_CALLS, ptr::null::<Call<'_>>(), 0) };
        made == 0
    })
}

fn descriptor(file: &impl AsFd) -> c_long {
    file.as_fd().as_raw_fd().into()
}

fn address<T>(pointer: *const T) -> c_long {
    pointer.expose_provenance().cast_signed() as c_long
}

fn length<T>(buffer: &[T]) -> c_long {
    buffer.len().cast_signed() as c_long
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn calls_are_made_in_order_up_to_the_first_that_fails() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"abc").unwrap();
        let nowhere = File::open("/dev/null").unwrap();
        let (mut first, mut second, mut third) = ([0; 2], [0; 2], [0; 2]);
        let results = make([
            Call::read(&reader, &mut first),
            Call::write(&nowhere, b"not open for writing"),
            Call::read(&reader, &mut second),
        ]);
        assert_eq!(results, [Ok(2), Err(Errno::EBADF), Err(Errno::EINTR)]);
        assert_eq!(make([Call::read(&reader, &mut third)]), [Ok(1)]);
        assert_eq!((&first, &second, &third), (b"ab", &[0, 0], &[b'c', 0]));
    }
}
