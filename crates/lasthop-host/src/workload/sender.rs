//! Derives events from the kernel's information about a sender.

use crate::calls::{self, Call, TcpInfoBytes};
use lasthop_core::{
    Duration, FlowId, Host, Instant, Observer, RetransmissionKind, TransportEvent, UndoCause,
};
use socket2::Socket;
use std::io;

#[cfg(test)]
mod tests;

/// States of a connection, by the kernel's numbers.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const CLOSED: u8 = 7;
/// States of congestion control, by the kernel's numbers.
const CA_OPEN: u8 = 0;
const CA_DISORDER: u8 = 1;
const CA_CWR: u8 = 2;
const CA_RECOVERY: u8 = 3;
const CA_LOSS: u8 = 4;
/// From this value on, ssthresh is infinite.
const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

/// The used fields of `TCP_INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    /// Expiries of the retransmission timer since the last progress.
    pub retransmits: u8,
    pub cwnd: u32,
    pub ssthresh: u32,
    /// Segments in flight, as the kernel counts them.
    pub in_flight: u32,
    pub srtt_us: u32,
    pub rto_us: u32,
}

impl TcpInfo {
    pub fn closed() -> Self {
        Self { state: CLOSED, ..Self::default() }
    }

    pub fn of(socket: &Socket) -> io::Result<Self> {
        let mut answer = TcpInfoBytes::default();
        let [asked] = calls::make([Call::tcp_info(socket, &mut answer)]);
        asked?;
        Ok(Self::from_bytes(&answer.bytes))
    }

    /// Reads the beginning of the kernel's `tcp_info`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut whole = [0; size_of::<libc::tcp_info>()];
        let length = bytes.len().min(whole.len());
        whole[..length].copy_from_slice(&bytes[..length]);
        #[allow(unsafe_code)]
        // SAFETY: a `tcp_info` is made of integers: any bytes are valid, and the source need not be aligned.
        let info: libc::tcp_info = unsafe { std::ptr::read_unaligned(whole.as_ptr().cast()) };
        let outstanding = info.tcpi_unacked + info.tcpi_retrans;
        Self {
            state: info.tcpi_state,
            ca_state: info.tcpi_ca_state,
            retransmits: info.tcpi_retransmits,
            cwnd: info.tcpi_snd_cwnd,
            ssthresh: info.tcpi_snd_ssthresh,
            in_flight: outstanding.saturating_sub(info.tcpi_sacked + info.tcpi_lost),
            srtt_us: info.tcpi_rtt,
            rto_us: info.tcpi_rto,
        }
    }

    pub fn is_closed(&self) -> bool {
        self.state == CLOSED
    }
}

/// One end of a connection, for the derivation of its events.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    flow: FlowId,
    host: Host,
    last: TcpInfo,
    /// First stream offset after the highest that was sent.
    sent_end: u64,
    /// True if `Closed` or `Aborted` has been reported.
    over: bool,
}

impl Sender {
    /// The end of `flow` at `host`, not open yet.
    pub fn new(flow: FlowId, host: Host) -> Self {
        let last = TcpInfo { ssthresh: SSTHRESH_INFINITE, ..TcpInfo::default() };
        Self { flow, host, last, sent_end: 0, over: false }
    }

    pub fn sends(&mut self, end: u64) {
        self.sent_end = self.sent_end.max(end);
    }

    /// True if the connection has been opened, successfully or not.
    pub fn has_been_open(&self) -> bool {
        self.last.state != 0
    }

    /// True if the connection was open and is no longer.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The kernel has handled an arrived packet, and reports `info`.
    pub fn arrived<O: Observer>(
        &mut self,
        now: Instant,
        info: TcpInfo,
        failed: impl FnOnce() -> bool,
        observer: &mut O,
    ) {
        let mut tell = |event| observer.transport(now, self.flow, self.host, event);
        let last = std::mem::replace(&mut self.last, info);
        if self.over {
            return;
        }
        if info.is_closed() {
            self.over = true;
            // A closed socket has forgotten everything else.
            return tell(if failed() { TransportEvent::Aborted } else { TransportEvent::Closed });
        }
        if last.state != ESTABLISHED && info.state == ESTABLISHED {
            tell(TransportEvent::Established);
        }
        if info.srtt_us != last.srtt_us {
            let rtt = Duration::from_micros(u64::from(sample_us(last.srtt_us, info.srtt_us)));
            tell(TransportEvent::RttSample { rtt, rto: Duration::from_micros(u64::from(info.rto_us)) });
        }
        let repairing = |state: u8| matches!(state, CA_CWR | CA_RECOVERY | CA_LOSS);
        if repairing(last.ca_state) && info.ssthresh > last.ssthresh {
            let cause = if last.ca_state == CA_LOSS { UndoCause::FRto } else { UndoCause::Dsack };
            tell(TransportEvent::Undone(cause));
        }
        if info.ca_state != last.ca_state {
            if matches!(last.ca_state, CA_RECOVERY | CA_LOSS) && info.ca_state < CA_RECOVERY {
                tell(TransportEvent::RecoveryLeft);
            }
            match info.ca_state {
                CA_RECOVERY => tell(TransportEvent::RecoveryEntered { recovery_point: self.sent_end }),
                CA_CWR => tell(TransportEvent::EcnReduction),
                _ => {}
            }
        }
        self.tell_window(now, last, observer);
    }

    /// It has ended without a packet.
    pub fn ends<O: Observer>(&mut self, now: Instant, failed: bool, observer: &mut O) {
        if !std::mem::replace(&mut self.over, true) {
            let event = if failed { TransportEvent::Aborted } else { TransportEvent::Closed };
            observer.transport(now, self.flow, self.host, event);
        }
    }

    /// The kernel retransmits a segment, and reports `info`; no observer has seen the segment yet.
    pub fn sends_again<O: Observer>(&mut self, now: Instant, seq: u64, info: TcpInfo, observer: &mut O) {
        let last = std::mem::replace(&mut self.last, info);
        if info.retransmits > last.retransmits {
            let backoff = u32::from(info.retransmits);
            observer.transport(now, self.flow, self.host, TransportEvent::Timeout { seq, backoff });
        }
        let kind = match info.ca_state {
            CA_LOSS => RetransmissionKind::Timeout,
            // Neither after a timeout nor in recovery, on an open connection: it can only be a probe.
            CA_OPEN | CA_DISORDER | CA_CWR if !matches!(info.state, SYN_SENT | SYN_RECV) => {
                observer.transport(now, self.flow, self.host, TransportEvent::TailLossProbe { seq });
                RetransmissionKind::Probe
            }
            _ => RetransmissionKind::Fast,
        };
        observer.transport(now, self.flow, self.host, TransportEvent::Retransmitted { seq, kind });
        self.tell_window(now, last, observer);
    }

    fn tell_window<O: Observer>(&self, now: Instant, last: TcpInfo, observer: &mut O) {
        let TcpInfo { cwnd, ssthresh, in_flight, .. } = self.last;
        if (cwnd, ssthresh, in_flight) != (last.cwnd, last.ssthresh, last.in_flight) {
            let ssthresh = if ssthresh >= SSTHRESH_INFINITE { u32::MAX } else { ssthresh };
            observer.transport(
                now,
                self.flow,
                self.host,
                TransportEvent::Window { cwnd, ssthresh, in_flight },
            );
        }
    }
}

/// The sample that changed the smoothed round-trip time, in which it has the weight of one eighth (RFC 6298,
/// section 2.3). The kernel keeps eight times the value and reports whole microseconds, so the sample is
/// exact to within 8 us.
fn sample_us(before: u32, after: u32) -> u32 {
    if before == 0 { after } else { (8 * after).saturating_sub(7 * before) }
}
