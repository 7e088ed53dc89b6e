use super::*;
use crate::Content;

fn call(keys: &str) -> VoipConfig {
    toml::from_str(&format!("name = \"call\"\nstart = \"0 s\"\n{keys}")).expect("a call")
}

/// Bytes and times, in ms, of the packets of a call that starts at 5 ms.
fn packets(config: &VoipConfig) -> Vec<(u64, u64)> {
    let start = Instant::ZERO + Duration::from_millis(5);
    let mut source = ConstantUdp::new(&config.stream(), start, Host::Server);
    let mut packets = Vec::new();
    while let Some(due) = source.next_wakeup() {
        source.handle_wakeup(due);
        while let Some(Action::Write { bytes, .. }) = source.poll_action() {
            packets.push((bytes, due.as_nanos() / 1_000_000));
        }
    }
    packets
}

#[test]
fn each_codec_sends_its_frame_behind_an_rtp_header_every_20_ms() {
    let times = [5, 25, 45, 65, 85];
    let of = |bytes: u64| times.map(|at| (bytes, at)).to_vec();
    assert_eq!(packets(&call("duration = \"100 ms\"")), of(172), "G.711 is the default");
    assert_eq!(packets(&call("codec = \"Opus\"\nduration = \"100 ms\"")), of(92));
}

/// A call over QUIC that the server begins at 5 ms, and whose handshake takes until 105 ms.
#[test]
fn over_quic_the_handshake_comes_first_and_a_close_last() {
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let mut speaker =
        Call::new(call("duration = \"40 ms\"").stream(), at(5), Host::Server, Protocol::QuicDatagrams);
    let frame = Action::datagram(Host::Server, 172);
    assert_eq!(
        frame,
        Action::Write { flow: 0, host: Host::Server, bytes: 172, write_bytes: 172, content: Content::Filler }
    );
    let wake = |speaker: &mut Call, due| {
        assert_eq!(speaker.next_wakeup(), Some(at(due)));
        speaker.handle_wakeup(at(due));
        std::iter::from_fn(|| speaker.poll_action()).collect::<Vec<_>>()
    };
    assert_eq!(wake(&mut speaker, 5), [Action::Connect { flow: 0, host: Host::Server }]);
    assert_eq!(speaker.next_wakeup(), None);
    let ready = News { ready: true, ..News::default() };
    speaker.handle_news(at(100), 0, Host::Client, ready);
    assert_eq!(speaker.next_wakeup(), None, "that is the other end");
    speaker.handle_news(at(105), 0, Host::Server, ready);
    assert_eq!(wake(&mut speaker, 105), [frame]);
    assert_eq!(wake(&mut speaker, 125), [frame]);
    let end = [Action::Complete { flow: 0 }, Action::Close { flow: 0, host: Host::Server }];
    assert_eq!(wake(&mut speaker, 145), end);
    assert_eq!(speaker.next_wakeup(), None);
}

#[test]
fn a_lost_connection_ends_the_call() {
    let mut speaker = Call::new(call("").stream(), Instant::ZERO, Host::Client, Protocol::QuicDatagrams);
    speaker.handle_wakeup(Instant::ZERO);
    speaker.handle_news(Instant::ZERO, 0, Host::Client, News { ready: true, ..News::default() });
    assert!(speaker.next_wakeup().is_some());
    speaker.handle_news(Instant::ZERO, 0, Host::Client, News { ended: true, ..News::default() });
    assert_eq!(speaker.next_wakeup(), None);
}

#[test]
fn a_minute_has_3000_frames() {
    let config = call("");
    assert_eq!(config.stream_bytes(), Some(3000 * 172));
    assert_eq!(config.latest_begin(), Duration::from_secs(60));
}

#[test]
fn the_codec_delays_speech_by_a_frame_and_its_look_ahead() {
    let delay = |codec: &str| call(&format!("codec = {codec:?}")).voice().unwrap().codec_delay;
    assert_eq!(delay("G.711"), Duration::from_micros(23_750));
    assert_eq!(delay("Opus"), Duration::from_micros(26_500));
}

#[test]
fn what_cannot_be_is_said_with_its_key() {
    let faults = |config: VoipConfig, mtu| Faults::collect(|faults| config.check(Bytes(mtu), faults));
    let small = faults(call(""), 199);
    assert_eq!((small.len(), small[0].key.as_str()), (1, "codec"));
    assert!(faults(call(""), 200).is_empty(), "172 bytes and 28 of headers");
    let none = faults(call("duration = \"0 s\""), 1500);
    assert_eq!((none.len(), none[0].key.as_str()), (1, "duration"));
}
