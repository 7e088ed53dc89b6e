use super::*;

#[derive(Default)]
struct Log(Vec<TransportEvent>);

impl Observer for Log {
    fn transport(&mut self, _now: Instant, _flow: FlowId, _host: Host, event: TransportEvent) {
        if !matches!(event, TransportEvent::Window { .. }) {
            self.0.push(event);
        }
    }
}

fn sender() -> Sender {
    Sender::new(FlowId(0), Host::Server)
}

const OPEN: TcpInfo = TcpInfo {
    state: ESTABLISHED,
    ca_state: 0,
    retransmits: 0,
    cwnd: 10,
    ssthresh: SSTHRESH_INFINITE,
    in_flight: 5,
    srtt_us: 600_000,
    rto_us: 1_800_000,
};

/// The events for these answers of the kernel, after the answer for a connection that has just opened.
fn events(answers: &[TcpInfo]) -> Vec<TransportEvent> {
    let (mut sender, mut log) = (sender(), Log::default());
    for info in std::iter::once(&OPEN).chain(answers) {
        sender.arrived(Instant::ZERO, *info, || false, &mut log);
    }
    log.0.split_off(2)
}

#[test]
fn opening_is_told_with_the_first_sample() {
    let (mut sender, mut log) = (sender(), Log::default());
    sender.arrived(Instant::ZERO, OPEN, || false, &mut log);
    let rto = Duration::from_micros(1_800_000);
    assert_eq!(
        log.0,
        [TransportEvent::Established, TransportEvent::RttSample { rtt: Duration::from_micros(600_000), rto }]
    );
}

#[test]
fn a_fast_recovery_begins_and_ends() {
    let recovery = TcpInfo { ca_state: CA_RECOVERY, ssthresh: 5, cwnd: 5, ..OPEN };
    assert_eq!(
        events(&[recovery, recovery, TcpInfo { ca_state: 0, ..recovery }]),
        [TransportEvent::RecoveryEntered { recovery_point: 0 }, TransportEvent::RecoveryLeft]
    );
}

#[test]
fn a_threshold_that_rises_again_was_lowered_in_error() {
    let loss = TcpInfo { ca_state: CA_LOSS, ssthresh: 5, cwnd: 1, ..OPEN };
    assert_eq!(
        events(&[loss, OPEN]),
        [TransportEvent::Undone(UndoCause::FRto), TransportEvent::RecoveryLeft]
    );
}

#[test]
fn an_expired_timer_is_told_before_its_segment() {
    let (mut sender, mut log) = (sender(), Log::default());
    sender.arrived(Instant::ZERO, OPEN, || false, &mut log);
    let loss = TcpInfo { ca_state: CA_LOSS, retransmits: 1, ..OPEN };
    sender.sends_again(Instant::ZERO, 7, loss, &mut log);
    sender.sends_again(Instant::ZERO, 9, loss, &mut log);
    sender.sends_again(Instant::ZERO, 7, TcpInfo { retransmits: 2, ..loss }, &mut log);
    let again = |seq| TransportEvent::Retransmitted { seq, kind: RetransmissionKind::Timeout };
    let timeout = |backoff| TransportEvent::Timeout { seq: 7, backoff };
    assert_eq!(log.0[2..], [timeout(1), again(7), again(9), timeout(2), again(7)]);
}

#[test]
fn a_tail_loss_probe_is_no_timeout() {
    let (mut sender, mut log) = (sender(), Log::default());
    sender.arrived(Instant::ZERO, OPEN, || false, &mut log);
    sender.sends_again(Instant::ZERO, 7, OPEN, &mut log);
    assert_eq!(
        log.0[2..],
        [
            TransportEvent::TailLossProbe { seq: 7 },
            TransportEvent::Retransmitted { seq: 7, kind: RetransmissionKind::Probe },
        ]
    );
}

#[test]
fn a_closed_connection_tells_so_once() {
    let closed = TcpInfo { state: CLOSED, ..TcpInfo::default() };
    assert_eq!(events(&[closed, closed]), [TransportEvent::Closed]);
}

#[test]
fn a_sample_is_read_off_the_smoothed_time() {
    let mut srtt8 = 600_000_u64 * 8;
    for sample in [700_000_u64, 650_123, 20_000, 4_000_000] {
        let before = (srtt8 / 8) as u32;
        srtt8 = srtt8 - srtt8 / 8 + sample;
        let read = u64::from(sample_us(before, (srtt8 / 8) as u32));
        assert!(read.abs_diff(sample) <= 8, "{read} for {sample}");
    }
}
