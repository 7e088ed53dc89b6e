use proptest::prelude::*;

use super::*;

fn packets(text: &str) -> Vec<(u64, u32)> {
    let recording = Recording::parse(text).expect("a recording");
    recording.packets().iter().map(|packet| (packet.at.as_nanos(), packet.bytes)).collect()
}

fn error(text: &str) -> String {
    Recording::parse(text).expect_err("no recording")
}

#[test]
fn a_table_has_a_packet_a_line() {
    let text = "\u{feff}time_s, bytes\r\n0,172\r\n0.02,172\r\n0.02 , 1\r\n1.000000001,65507\r\n";
    let read = [(0, 172), (20_000_000, 172), (20_000_000, 1), (1_000_000_001, 65_507)];
    assert_eq!(packets(text), read);
    let recording = Recording::parse(text).unwrap();
    assert_eq!((recording.total_bytes(), recording.largest()), (65_852, (4, 65_507)));
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    assert_eq!(error(""), "line 1: the header is \"\"; write \"time_s,bytes\"");
    assert!(error("time,bytes\n0,1").starts_with("line 1: the header is \"time,bytes\""));
    assert_eq!(error("time_s,bytes\n"), "it contains no packets");
    assert!(error("time_s,bytes\n0,1\n0").starts_with("line 3: \"0\" has 1 values"));
    assert!(error("time_s,bytes\n-1,1").starts_with("line 2: time_s: \"-1\" is not a time"));
    assert!(error("time_s,bytes\n0,0").starts_with("line 2: bytes: \"0\" is not the size"));
    assert!(error("time_s,bytes\n0,65508").contains("write a number from 1 to 65507"));
    assert!(error("time_s,bytes\n1,1\n0,1").starts_with("line 3: the time is before"));
    assert!(error("time_s,bytes\n1000001,1").starts_with("lasts \"1000001 s\""));
    let long = "0,1\n".repeat(PACKETS_MAX + 1);
    assert!(error(&format!("{HEADER}\n{long}")).starts_with("has 200001 packets"));
}

#[test]
fn packets_of_a_capture_may_come_in_any_order() {
    let packet = |millis, bytes| Packet { at: Duration::from_millis(millis), bytes };
    let recording = Recording::new(vec![packet(3, 1), packet(1, 2), packet(3, 3)]).unwrap();
    let large = Recording::new(vec![packet(1, 1), packet(2, 65_508)]).unwrap_err();
    assert!(large.starts_with("packet 2 has 65508 bytes"), "{large}");
    assert_eq!(recording.packets()[..], [packet(1, 2), packet(3, 1), packet(3, 3)]);
}

proptest! {
    /// Written text can be read again.
    #[test]
    fn text_comes_back_as_it_was(
        rows in prop::collection::vec((0..u64::from(u32::MAX), 1..=BYTES_MAX), 1..50),
    ) {
        let packet = |(nanos, bytes)| Packet { at: Duration::from_nanos(nanos), bytes };
        let packets = rows.into_iter().map(packet);
        let recording = Recording::new(packets.collect()).unwrap();
        prop_assert_eq!(Recording::parse(&recording.to_string()).unwrap(), recording);
    }

    /// Any text is either read or rejected with a reason.
    #[test]
    fn no_text_makes_it_panic(text in "(time_s,bytes\n)?[0-9.,\n a-z\u{feff}-]{0,60}") {
        if let Err(reason) = Recording::parse(&text) {
            prop_assert!(!reason.is_empty());
        }
    }
}
