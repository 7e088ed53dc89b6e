//! Batches of system calls. The kernel of lasthop's guest runs a batch in one call, because entering that
//! kernel costs far more than most calls do (`batched_calls.h` in `python/lasthop/engines/kernel`).

use libc::{c_int, c_long, c_uint};
use nix::errno::Errno;
use nix::sys::epoll::EpollEvent;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::OnceLock;

/// The guest kernel's system call for batches, and its conditions for the next call.
const BATCHED_CALLS: c_long = 400;
const IS_WORD: c_long = 401;
const IS_BEFORE: c_long = 402;
/// The result of a call that was not made.
const NOT_MADE: c_long = c_long::MIN;

/// A system call to be made, and its result, in the guest kernel's layout.
#[repr(C)]
#[derive(Debug)]
pub struct Call<'a> {
    number: c_long,
    arguments: [c_long; 6],
    result: c_long,
    /// Distance to the next call if this one succeeds, and if it would block; zero ends the batch.
    next: c_uint,
    next_if_empty: c_uint,
    buffers: PhantomData<&'a mut [u8]>,
}

#[derive(Debug)]
pub struct TcpInfoBytes {
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
    fn new<const N: usize>(number: c_long, args: [c_long; N]) -> Self {
        let mut arguments = [0; 6];
        arguments[..N].copy_from_slice(&args);
        Self { number, arguments, result: NOT_MADE, next: 1, next_if_empty: 0, buffers: PhantomData }
    }

    pub fn read(file: &'a impl AsFd, buffer: &'a mut [u8]) -> Self {
        let (target, length) = (address(buffer.as_mut_ptr()), length(buffer));
        Self::new(libc::SYS_read, [descriptor(file), target, length])
    }

    /// Reads until nothing is left. The calls after these two are made only if nothing is left.
    pub fn read_all(file: &'a impl AsFd, [first, second]: [&'a mut [u8]; 2]) -> [Self; 2] {
        let [first, second] = [Self::read(file, first), Self::read(file, second)];
        [Self { next_if_empty: 2, ..first }, Self { next: 0, next_if_empty: 1, ..second }]
    }

    pub fn send(socket: &'a impl AsFd, datagram: &'a [u8]) -> Self {
        Self::new(libc::SYS_sendto, [descriptor(socket), address(datagram.as_ptr()), length(datagram)])
    }

    pub fn write(file: &'a impl AsFd, buffer: &'a [u8]) -> Self {
        Self::new(libc::SYS_write, [descriptor(file), address(buffer.as_ptr()), length(buffer)])
    }

    /// Queries a TCP socket (tcp(7), `TCP_INFO`).
    pub fn tcp_info(socket: &'a impl AsFd, answer: &'a mut TcpInfoBytes) -> Self {
        let (level, option) = (libc::IPPROTO_TCP.into(), libc::TCP_INFO.into());
        let (target, length) = (address(&raw mut answer.bytes), address(&raw mut answer.length));
        Self::new(libc::SYS_getsockopt, [descriptor(socket), level, option, target, length])
    }

    pub fn clock(time: &'a mut libc::timespec) -> Self {
        Self::new(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC.into(), address(&raw mut *time)])
    }

    /// Sets a timer to a time of its clock; zero disarms it.
    pub fn set_timer(timer: &'a impl AsFd, setting: &'a libc::itimerspec) -> Self {
        let flags = libc::TFD_TIMER_ABSTIME.into();
        Self::new(libc::SYS_timerfd_settime, [descriptor(timer), flags, address(&raw const *setting), 0])
    }

    /// Waits until files are ready, for at most this number of milliseconds, or without limit if negative.
    pub fn wait(epoll: &'a impl AsFd, events: &'a mut [EpollEvent], timeout_ms: c_int) -> Self {
        let (target, count) = (address(events.as_mut_ptr()), length(events));
        Self::new(libc::SYS_epoll_pwait, [descriptor(epoll), target, count, timeout_ms.into(), 0, 0])
    }

    /// Waits until files are ready and reads the clock. If the file with this name is reported first, and
    /// before `due`, it is also read, once per buffer. This must be the last call of a batch. Only in
    /// lasthop's own guest.
    pub fn wait_and_read(
        (epoll, events, timeout_ms): (&'a impl AsFd, &'a mut [EpollEvent], c_int),
        (time, due): (&'a mut libc::timespec, &'a libc::timespec),
        (name, file): (u64, &'a impl AsFd),
        buffers: impl Iterator<Item = &'a mut [u8]>,
    ) -> Vec<Self> {
        // An event that is not reported must leave no old value.
        events[0] = EpollEvent::empty();
        let label = address(events.as_ptr().wrapping_byte_add(offset_of!(libc::epoll_event, u64)));
        let (read, due) = (address(&raw const *time), address(&raw const *due));
        let mut calls = vec![
            Self::wait(epoll, events, timeout_ms),
            Self::clock(time),
            Self::new(IS_WORD, [label, name.cast_signed()]),
            Self::new(IS_BEFORE, [read, due]),
        ];
        calls.extend(buffers.map(|buffer| Self::read(file, buffer)));
        calls
    }

    fn make(&mut self) {
        let args = self.arguments;
        #[allow(unsafe_code)]
        // SAFETY: the arguments belong to one of the calls above. The memory that they point to is borrowed
        // for the lifetime of `self`, and has the stated size.
        let result = unsafe {
            if self.number == libc::SYS_clock_gettime {
                // This call need not enter the kernel.
                c_long::from(libc::clock_gettime(
                    args[0] as c_int,
                    ptr::with_exposed_provenance_mut(args[1] as usize),
                ))
            } else {
                libc::syscall(self.number, args[0], args[1], args[2], args[3], args[4], args[5])
            }
        };
        self.result = if result < 0 { -c_long::from(Errno::last_raw()) } else { result };
    }

    pub fn was_made(&self) -> bool {
        self.result != NOT_MADE
    }

    /// The result of the call. A call that was not made counts as interrupted before it began, by a signal or
    /// by the result of an earlier call.
    pub fn result(&self) -> Result<usize, Errno> {
        match self.result {
            NOT_MADE => Err(Errno::EINTR),
            result => usize::try_from(result).map_err(|_| Errno::from_raw(-result as i32)),
        }
    }
}

/// Makes calls one after another, until one fails without a stated continuation; returns their results.
pub fn make<const N: usize>(mut calls: [Call<'_>; N]) -> [Result<usize, Errno>; N] {
    make_all(&mut calls);
    calls.each_ref().map(Call::result)
}

/// The same for any number of calls.
pub fn make_all(calls: &mut [Call<'_>]) {
    if are_batched() {
        #[allow(unsafe_code)]
        // SAFETY: as for a single call; the kernel writes only their results.
        unsafe {
            libc::syscall(BATCHED_CALLS, calls.as_mut_ptr(), calls.len());
        }
        return;
    }
    let mut at = 0;
    while let Some(call) = calls.get_mut(at) {
        call.make();
        let step = match call.result() {
            Ok(_) => call.next,
            Err(Errno::EAGAIN) => call.next_if_empty,
            Err(_) => 0,
        };
        if step == 0 {
            return;
        }
        at += step as usize;
    }
}

/// Bytes to be written, and the flags of the write.
pub type Write<'a> = (&'a [u8], c_int);

/// Makes these writes to a socket, with the same flags, until the socket has no room. Returns the number of
/// bytes of each write; an error only if the first write fails.
pub fn send_each(socket: &impl AsFd, writes: &[Write<'_>], flags: c_int) -> Result<Vec<usize>, Errno> {
    let part = |(bytes, _): &Write<'_>| libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut parts: Vec<_> = writes.iter().map(part).collect();
    #[allow(unsafe_code)]
    // SAFETY: a header of zeros is an empty message for no address.
    let empty: libc::mmsghdr = unsafe { std::mem::zeroed() };
    let mut messages = vec![empty; writes.len()];
    for ((message, part), (_, flags)) in messages.iter_mut().zip(&mut parts).zip(writes) {
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (part, 1);
        message.msg_hdr.msg_flags = *flags;
    }
    #[allow(unsafe_code)]
    // SAFETY: the messages, their parts and the bytes live through the call, which writes only the lengths.
    let sent = unsafe {
        libc::sendmmsg(socket.as_fd().as_raw_fd(), messages.as_mut_ptr(), messages.len() as c_uint, flags)
    };
    let sent = Errno::result(sent)?.cast_unsigned() as usize;
    Ok(messages[..sent].iter().map(|message| message.msg_len as usize).collect())
}

/// True if this kernel supports batches; other kernels have no system call with this number.
pub fn are_batched() -> bool {
    static ARE_BATCHED: OnceLock<bool> = OnceLock::new();
    *ARE_BATCHED.get_or_init(|| {
        #[allow(unsafe_code)]
        // SAFETY: the batch is empty.
        let result = unsafe { libc::syscall(BATCHED_CALLS, ptr::null::<Call<'_>>(), 0) };
        result == 0
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
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

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

    #[test]
    fn what_follows_reads_is_made_only_if_nothing_is_left() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        let read_and_write = |expected: [Result<usize, Errno>; 3]| {
            let (mut first, mut second) = ([0; 2], [0; 2]);
            let [one, two] = Call::read_all(&reader, [&mut first, &mut second]);
            assert_eq!(make([one, two, Call::write(&reader, b"x")]), expected);
        };
        read_and_write([Err(Errno::EAGAIN), Err(Errno::EINTR), Ok(1)]);
        writer.write_all(b"ab").unwrap();
        read_and_write([Ok(2), Err(Errno::EAGAIN), Ok(1)]);
        writer.write_all(b"abcd").unwrap();
        read_and_write([Ok(2), Ok(2), Err(Errno::EINTR)]);
        // With unread data, closing the socket is an error for the other end.
        drop(writer);
        read_and_write([Err(Errno::ECONNRESET), Err(Errno::EINTR), Err(Errno::EINTR)]);
    }

    #[test]
    fn writes_are_taken_one_after_another_as_far_as_there_is_room() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        let taken = send_each(&writer, &[(b"ab", 0), (b"c", libc::MSG_EOR)], libc::MSG_NOSIGNAL);
        let mut read = [0; 3];
        reader.read_exact(&mut read).unwrap();
        assert_eq!((taken, &read), (Ok(vec![2, 1]), b"abc"));
        let bytes = vec![0; 1 << 16];
        let full = [(&bytes[..], 0); 64];
        let taken = send_each(&writer, &full, libc::MSG_NOSIGNAL).unwrap();
        assert!((1..64).contains(&taken.len()), "{taken:?}");
        assert_eq!(send_each(&writer, &full, libc::MSG_NOSIGNAL), Err(Errno::EAGAIN));
        drop(reader);
        assert_eq!(send_each(&writer, &full, libc::MSG_NOSIGNAL), Err(Errno::EPIPE));
    }
}
