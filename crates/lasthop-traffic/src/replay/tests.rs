use super::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn config(rows: &str) -> ReplayConfig {
    toml::from_str(&format!("name = \"replay\"\nstart = \"0 s\"\nfile = \"time_s,bytes\\n{rows}\""))
        .expect("a replay")
}

/// The sizes of the datagrams that leave the server when the source is woken.
fn woken(source: &mut Replay, millis: u64) -> Vec<u64> {
    source.handle_wakeup(at(millis));
    let size = |action| match action {
        Action::Write { flow: 0, host: Host::Client, bytes, write_bytes, .. } if bytes == write_bytes => {
            bytes
        }
        other => panic!("not a datagram: {other:?}"),
    };
    std::iter::from_fn(|| source.poll_action()).map(size).collect()
}

#[test]
fn packets_leave_when_they_did_counted_from_the_start() {
    let config = config("0.005,100\\n0.005,200\\n0.03,300");
    let mut source = Replay::new(&config.file, at(10), Host::Client);
    assert_eq!(source.next_wakeup(), Some(at(15)));
    assert_eq!(woken(&mut source, 14), [0; 0]);
    assert_eq!(woken(&mut source, 15), [100, 200]);
    assert_eq!(source.next_wakeup(), Some(at(40)));
    assert_eq!(woken(&mut source, 90), [300], "who comes late gets all that is due");
    assert_eq!(source.next_wakeup(), None);
    assert_eq!(config.stream_bytes(), Some(600));
    assert_eq!(config.latest_begin(), Duration::from_millis(30));
}

#[test]
fn a_packet_that_does_not_fit_is_named() {
    let faults = |mtu| Faults::collect(|faults| config("0,100\\n1,273").check(Bytes(mtu), faults));
    assert_eq!(faults(301), []);
    let [fault] = &faults(300)[..] else { panic!("one fault") };
    assert_eq!(fault.key, "file");
    assert!(fault.message.starts_with("packet 2 has 273 bytes of payload"), "{}", fault.message);
}
