use lasthop_core::Host;

use super::*;
use crate::{Action, Application};

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
    let faults = |config: VoipConfig, mtu| Faults::found_by(|faults| config.check(Bytes(mtu), faults));
    let small = faults(call(""), 199);
    assert_eq!((small.len(), small[0].key.as_str()), (1, "codec"));
    assert!(faults(call(""), 200).is_empty(), "172 bytes and 28 of headers");
    let none = faults(call("duration = \"0 s\""), 1500);
    assert_eq!((none.len(), none[0].key.as_str()), (1, "duration"));
}
