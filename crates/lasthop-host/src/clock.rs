//! The host's monotonic clock, and waiting on it.

use crate::calls::{self, Call};
use crate::hop::Frame;
use lasthop_core::{Duration, Instant};
use lasthop_tcp::WHEEL_TURN;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId as TimerClock, TimerFd, TimerFlags};
use nix::time::{ClockId, clock_getres, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Time after the start of Linux' monotonic clock at which its tick counter becomes zero (`INITIAL_JIFFIES`).
const TICKS_WRAP: Duration = Duration::from_secs(300);
const READY_MAX: usize = 64;
/// Number of packets read together: a host mostly sends one or two at a time, and another read detects the end.
pub const READ_TOGETHER: usize = 4;
/// Name of the timer among ready files.
const TIMER: u64 = u64::MAX;
/// Interval of checks whether a rest is due.
const REST_INTERVAL: Duration = Duration::from_millis(1);
/// A real-time program rests for 1/`REST_SHARE` of its time. If it rests for less than 50 ms of each second, Linux
/// stops it for that long (`kernel.sched_rt_runtime_us`), and packets would be 50 ms late.
const REST_SHARE: u64 = 10;

/// Time since the start of a run, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: u64,
}

impl Clock {
    pub fn start() -> io::Result<Self> {
        Ok(Self { start_nanos: nanos_of(ClockId::CLOCK_MONOTONIC)? })
    }

    /// A run that starts at `phase` (`0.0..1.0`) of a turn of the timer wheel, on a kernel that only this
    /// program uses.
    ///
    /// Until its first tick, the resolution of a kernel's timers is a tick (`hrtimer_switch_to_hres`), so at
    /// least one tick passes.
    pub fn start_at(phase: f64) -> io::Result<Self> {
        // The coarse clock advances by ticks.
        let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)?.num_nanoseconds();
        let clock = Self::start()?;
        let turn = tick * WHEEL_TURN.cast_signed();
        let passed = clock.start_nanos.cast_signed() - TICKS_WRAP.as_nanos().cast_signed();
        let wait = tick + ((phase * turn as f64) as i64 - passed - tick).rem_euclid(turn);
        let due = Instant::from_nanos(wait.cast_unsigned());
        Waiter::new(clock, Duration::ZERO, false)?.wait(Some(due), &mut Vec::new())?;
        Self::start()
    }

    pub fn now(self) -> io::Result<Instant> {
        Ok(self.since_start(nanos_of(ClockId::CLOCK_MONOTONIC)?))
    }

    fn since_start(self, nanos: u64) -> Instant {
        Instant::from_nanos(nanos.saturating_sub(self.start_nanos))
    }
}

fn nanos_of(clock: ClockId) -> io::Result<u64> {
    Ok(nanos(clock_gettime(clock)?))
}

fn nanos(time: TimeSpec) -> u64 {
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Keeps the processor time of a real-time program below the limit of Linux.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Time of the last check, and the processor time used until then.
    since: Instant,
    busy: u64,
}

impl Rest {
    fn start(now: Instant) -> io::Result<Self> {
        Ok(Self { since: now, busy: nanos_of(ClockId::CLOCK_THREAD_CPUTIME_ID)? })
    }

    /// Sleeps for the share of the time since the last check.
    fn take(&mut self, now: Instant) -> io::Result<()> {
        let whole = now.saturating_since(self.since);
        if whole < REST_INTERVAL {
            return Ok(());
        }
        let busy = nanos_of(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
        let rested = whole.as_nanos().saturating_sub(busy - self.busy);
        let owed = (whole.as_nanos() / REST_SHARE).saturating_sub(rested);
        if owed > 0 {
            std::thread::sleep(std::time::Duration::from_nanos(owed));
        }
        *self = Self { since: now + Duration::from_nanos(owed), busy };
        Ok(())
    }
}

/// A wait for a time, or for a file, that follows a call.
pub struct NextWait<'a> {
    pub waiter: &'a mut Waiter,
    pub due: Instant,
}

impl NextWait<'_> {
    /// Limits the wait to this time, if it is earlier.
    #[must_use]
    pub fn or_before(self, due: Option<Instant>) -> Self {
        Self { due: due.map_or(self.due, |due| due.min(self.due)), ..self }
    }

    /// Makes calls, and then polls for ready files, if there is a next wait.
    pub fn make<const N: usize>(next: Option<Self>, calls: [Call<'_>; N]) -> [Result<usize, Errno>; N] {
        match next {
            Some(Self { waiter, due }) => waiter.make_and_look(calls, due),
            None => calls::make(calls),
        }
    }
}

/// The setting of the timer; without a time it is disarmed.
#[derive(Clone, Copy)]
struct Timer {
    due: Option<Instant>,
}

/// The results of calls and of the poll that follows them; no poll result if the calls ended before.
pub type CallResults<const N: usize, T> = ([Result<usize, Errno>; N], Option<T>);

/// Packets of a device, and the results of reading them.
#[derive(Debug)]
pub struct Reads {
    pub frames: [Frame; READ_TOGETHER],
    pub results: [Result<usize, Errno>; READ_TOGETHER],
}

impl Reads {
    /// Buffers for packets of up to `mtu` bytes.
    pub fn new(mtu: usize) -> Self {
        Self { frames: std::array::from_fn(|_| Frame::new(mtu)), results: [Ok(0); READ_TOGETHER] }
    }

    pub fn packets(&mut self) -> io::Result<&mut [Frame]> {
        let mut count = 0;
        for (frame, result) in self.frames.iter_mut().zip(self.results) {
            match result {
                Ok(length) => frame.length = length,
                Err(Errno::EAGAIN | Errno::EINTR) => break,
                Err(error) => return Err(error.into()),
            }
            count += 1;
        }
        Ok(&mut self.frames[..count])
    }
}

/// A device that is read in the same call as the poll that reports it ready first.
struct Device {
    name: u64,
    file: OwnedFd,
    reads: Reads,
    /// True if the read packets have not been fetched.
    is_read: bool,
}

/// Waits for files to become ready, and for a time to come.
pub struct Waiter {
    clock: Clock,
    epoll: Epoll,
    timer: TimerFd,
    armed: Option<Instant>,
    /// Time of the last poll.
    now: Instant,
    spin: Duration,
    rest: Option<Rest>,
    events: Vec<EpollEvent>,
    /// Files that [`Waiter::make_and_look`] has reported as ready.
    ready: Vec<u64>,
    devices: Vec<Device>,
    /// The device that is likely to be ready next.
    expected: Option<usize>,
}

impl Waiter {
    /// Waits on `clock`. It spends the last `spin` before a time in a busy loop: setting a timer and waking
    /// up takes about ten microseconds on many machines, more than the interval of packets on a fast link.
    /// `rests` must be set if the program has real-time priority.
    pub fn new(clock: Clock, spin: Duration, rests: bool) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer =
            TimerFd::new(TimerClock::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        let events = vec![EpollEvent::empty(); READY_MAX];
        let now = clock.now()?;
        let rest = rests.then(|| Rest::start(now)).transpose()?;
        Ok(Self {
            clock,
            epoll,
            timer,
            armed: None,
            now,
            spin,
            rest,
            events,
            ready: Vec::new(),
            devices: Vec::new(),
            expected: None,
        })
    }

    /// Watches a file, which is reported by `name`.
    pub fn watch(&self, file: impl AsFd, flags: EpollFlags, name: u64) -> io::Result<()> {
        Ok(self.epoll.add(file, EpollEvent::new(flags, name))?)
    }

    /// Watches a device with packets of up to `mtu` bytes, which is reported by `name`.
    pub fn watch_device(&mut self, file: impl AsFd, name: u64, mtu: usize) -> io::Result<()> {
        self.watch(&file, EpollFlags::EPOLLIN, name)?;
        let file = file.as_fd().try_clone_to_owned()?;
        self.devices.push(Device { name, file, reads: Reads::new(mtu), is_read: false });
        Ok(())
    }

    /// Notes that the device with this name is likely to be ready next.
    pub fn expect(&mut self, name: u64) {
        self.expected = self.devices.iter().position(|device| device.name == name);
    }

    /// The packets that were already read from a reported device.
    pub fn read_ahead(&mut self, name: u64) -> Option<&mut Reads> {
        let device = self.devices.iter_mut().find(|device| device.name == name)?;
        std::mem::take(&mut device.is_read).then_some(&mut device.reads)
    }

    /// Watches a file again that was watched once (`EPOLLONESHOT`) and has been reported.
    pub fn watch_again(&self, file: impl AsFd, flags: EpollFlags, name: u64) -> io::Result<()> {
        Ok(self.epoll.modify(file, &mut EpollEvent::new(flags, name))?)
    }

    /// Waits until a watched file is ready or `due` has come; `ready` gets the names of the files that are.
    /// Returns the time. It makes few system calls, which dominate the cost of a run in a guest kernel.
    pub fn wait(&mut self, due: Option<Instant>, ready: &mut Vec<u64>) -> io::Result<Instant> {
        self.wait_after([], due, ready)?;
        Ok(self.now)
    }

    /// The same after calls. Returns their results and the time; no time if the calls ended before the wait.
    pub fn wait_after<const N: usize>(
        &mut self,
        calls: [Call<'_>; N],
        due: Option<Instant>,
        ready: &mut Vec<u64>,
    ) -> io::Result<CallResults<N, Instant>> {
        ready.clear();
        if N == 0 && !self.ready.is_empty() {
            ready.append(&mut self.ready);
            return Ok((calls.each_ref().map(Call::result), Some(self.now)));
        }
        if let Some(rest) = &mut self.rest {
            rest.take(self.now)?;
        }
        let (made, mut count) = self.look_for(calls, due)?;
        while let Some(number) = count {
            self.tell(number, ready);
            if !ready.is_empty() || due.is_some_and(|due| due <= self.now) {
                return Ok((made, Some(self.now)));
            }
            (_, count) = self.look_for([], due)?;
        }
        Ok((made, None))
    }

    fn look_for<const N: usize>(
        &mut self,
        calls: [Call<'_>; N],
        due: Option<Instant>,
    ) -> io::Result<CallResults<N, usize>> {
        let near = due.is_some_and(|due| due <= self.now + self.spin);
        if near { self.look(calls, None, 0) } else { self.look(calls, Some(Timer { due }), -1) }
    }

    /// Makes calls, and then the first poll of the next wait for `due`: if a file is ready, that wait ends at
    /// once. Nothing else may come in between. Returns the results of the calls.
    pub fn make_and_look<const N: usize>(
        &mut self,
        calls: [Call<'_>; N],
        due: Instant,
    ) -> [Result<usize, Errno>; N] {
        if due <= self.now + self.spin {
            return calls::make(calls);
        }
        // An error of this poll occurs in the next wait, too, which reports it.
        let Ok((made, count)) = self.look(calls, Some(Timer { due: Some(due) }), 0) else {
            return [Err(Errno::EINTR); N];
        };
        let mut ready = std::mem::take(&mut self.ready);
        self.tell(count.unwrap_or(0), &mut ready);
        self.ready = ready;
        made
    }

    fn tell(&mut self, count: usize, ready: &mut Vec<u64>) {
        for name in self.events[..count].iter().map(EpollEvent::data) {
            if name == TIMER {
                self.armed = None;
            } else {
                ready.push(name);
            }
        }
    }

    /// Makes calls, sets the timer if there is a time and the timer is not already set to it, waits until
    /// files are ready and reads the clock. Returns the results of the calls, and the number of ready files;
    /// none if the calls ended before.
    ///
    /// An expected device is also read, if nothing is due before it would be read anyway.
    fn look<const N: usize>(
        &mut self,
        calls: [Call<'_>; N],
        timer: Option<Timer>,
        timeout_ms: i32,
    ) -> io::Result<CallResults<N, usize>> {
        let sets = timer.filter(|Timer { due }| *due != self.armed || due.is_none());
        let due = timer.and_then(|timer| timer.due);
        let setting = self.setting(due);
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let expected = self.expected.filter(|_| due.is_some() && calls::are_batched());
        let mut device = expected.map(|index| &mut self.devices[index]);
        let mut calls = Vec::from(calls);
        calls.extend(sets.map(|_| Call::set_timer(&self.timer, &setting)));
        let first = calls.len();
        if let Some(Device { name, file, reads, .. }) = &mut device {
            let wait = (&self.epoll.0, &mut self.events[..], timeout_ms);
            let buffers = reads.frames.iter_mut().map(|frame| &mut frame.buffer[..]);
            calls.extend(Call::wait_and_read(wait, (&mut time, &setting.it_value), (*name, file), buffers));
        } else {
            calls.push(Call::wait(&self.epoll.0, &mut self.events, timeout_ms));
            calls.push(Call::clock(&mut time));
        }
        calls::make_all(&mut calls);
        let results: Vec<_> = calls.iter().map(Call::result).collect();
        let looks = calls[N].was_made();
        let made = std::array::from_fn(|index| results[index]);
        if !looks {
            return Ok((made, None));
        }
        if let Some(Timer { due }) = sets {
            results[N]?;
            self.armed = due;
        }
        if let (Some(device), [_, _, _, Ok(_), reads @ ..]) = (device, &results[first..]) {
            device.reads.results.copy_from_slice(reads);
            device.is_read = true;
        }
        let count = match results[first] {
            Err(Errno::EINTR) => 0,
            waited => waited?,
        };
        self.now = match results[first + 1] {
            Ok(_) => self.clock.since_start(nanos(time.into())),
            Err(_) => self.clock.now()?,
        };
        Ok((made, Some(count)))
    }

    /// The timer's setting for a time; without one it is disarmed.
    fn setting(&self, due: Option<Instant>) -> libc::itimerspec {
        let nanos = due.map_or(0, |due| {
            let nanos = self.clock.start_nanos.saturating_add(due.as_nanos());
            // A time of zero would disarm it.
            nanos.saturating_sub(self.spin.as_nanos()).max(1)
        });
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = libc::timespec {
            tv_sec: (nanos / 1_000_000_000).cast_signed(),
            tv_nsec: (nanos % 1_000_000_000).cast_signed(),
        };
        libc::itimerspec { it_interval: never, it_value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_rests_leaves_more_of_its_time_than_linux_asks_for() {
        let mut waiter = Waiter::new(Clock::start().unwrap(), Duration::ZERO, true).unwrap();
        let mut ready = Vec::new();
        let before = nanos_of(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        let mut now = waiter.now;
        let (start, end) = (now, now + Duration::from_millis(200));
        while now < end {
            // A wait always has a due time.
            now = waiter.wait(Some(now), &mut ready).unwrap();
        }
        let busy = nanos_of(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap() - before;
        assert!(busy * 20 < now.saturating_since(start).as_nanos() * 19, "{busy} ns of 200 ms");
    }

    #[test]
    fn a_file_that_calls_have_made_ready_ends_the_next_wait_before_it_begins() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut waiter = Waiter::new(Clock::start().unwrap(), Duration::ZERO, false).unwrap();
        waiter.watch(&reader, EpollFlags::EPOLLIN, 7).unwrap();
        let (far, mut ready, mut time) = (Instant::ZERO + Duration::from_secs(3600), Vec::new(), [zero(); 2]);
        let [first, second] = &mut time;
        let made = waiter.make_and_look([Call::clock(first), Call::clock(second)], far);
        assert_eq!((made, waiter.ready.len()), ([Ok(0); 2], 0));
        let [first, _] = &mut time;
        let made = waiter.make_and_look([Call::write(&writer, b"ab"), Call::clock(first)], far);
        assert_eq!((made, &waiter.ready[..]), ([Ok(2), Ok(0)], &[7][..]));
        drop(reader);
        waiter.wait(Some(far), &mut ready).unwrap();
        assert_eq!((&ready[..], waiter.ready.len(), waiter.armed), (&[7][..], 0, Some(far)));
    }

    #[test]
    fn calls_that_end_before_leave_out_the_wait_that_follows_them() {
        let (reader, mut writer) = std::os::unix::net::UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        let mut waiter = Waiter::new(Clock::start().unwrap(), Duration::ZERO, false).unwrap();
        let (due, mut ready) = (Some(Instant::ZERO + Duration::from_millis(1)), Vec::new());
        let mut read = |waiter: &mut Waiter| {
            let (mut first, mut second) = ([0; 1], [0; 1]);
            waiter.wait_after(Call::read_all(&reader, [&mut first, &mut second]), due, &mut ready).unwrap()
        };
        io::Write::write_all(&mut writer, b"ab").unwrap();
        assert_eq!(read(&mut waiter), ([Ok(1), Ok(1)], None));
        let (made, time) = read(&mut waiter);
        assert_eq!(made, [Err(Errno::EAGAIN), Err(Errno::EINTR)]);
        assert!(time >= due, "{time:?}");
    }

    #[test]
    fn a_wait_that_is_over_already_is_not_looked_after_ahead() {
        let mut waiter = Waiter::new(Clock::start().unwrap(), Duration::ZERO, false).unwrap();
        let [first, second] = &mut [zero(); 2];
        let made = waiter.make_and_look([Call::clock(first), Call::clock(second)], waiter.now);
        assert_eq!((made, waiter.armed), ([Ok(0); 2], None));
    }

    fn zero() -> libc::timespec {
        libc::timespec { tv_sec: 0, tv_nsec: 0 }
    }
}
