use proptest::prelude::*;

use super::*;
use crate::Duration;

#[track_caller]
fn error<T: FromStr<Err = ParseError> + fmt::Debug>(text: &str) -> String {
    text.parse::<T>().unwrap_err().to_string()
}

#[test]
fn durations_are_exact_decimals() {
    for (text, nanos) in [
        ("300 ms", 300_000_000),
        ("0.15 ms", 150_000),
        ("5 s", 5_000_000_000),
        ("100 us", 100_000),
        ("2 min", 120_000_000_000),
        ("1.5 h", 5_400_000_000_000),
        ("10 ns", 10),
        ("0 s", 0),
        ("0.000000001 s", 1),
        ("1.50 ms", 1_500_000),
        (" 300ms ", 300_000_000),
        ("0.1 s", 100_000_000),
        ("1000000000 s", 1_000_000_000_000_000_000),
    ] {
        assert_eq!(text.parse(), Ok(Duration::from_nanos(nanos)), "{text}");
    }
    assert_eq!(
        error::<Duration>("0.1 ns"),
        "\"0.1 ns\" has too many digits: the smallest unit is a nanosecond"
    );
    assert!(error::<Duration>("1000000000.000000001 s").contains("too large"));
}

/// 3GPP TS 43.064: 9.05, 13.4, 15.6 and 21.4 kbit/s a slot.
#[test]
fn rates_may_be_time_slots_of_gsm() {
    for (text, written) in [
        ("1 CS-1", "9050 bit/s"),
        ("1 CS-2", "13400 bit/s"),
        ("1 CS-3", "15600 bit/s"),
        ("1 CS-4", "21400 bit/s"),
        ("4 CS-2", "53600 bit/s"),
        ("8 CS-4", "171200 bit/s"),
        ("2 TCH/F4.8", "9600 bit/s"),
        ("1 TCH/F9.6", "9600 bit/s"),
        ("3TCH/F14.4", "43200 bit/s"),
    ] {
        assert_eq!(text.parse::<Rate>().unwrap().to_string(), written, "{text}");
    }
    for text in ["2.5 CS-2", "9 CS-2", "0 CS-2"] {
        let message = error::<Rate>(text);
        assert!(message.contains("write a whole number from 1 to 8, for example \"3 CS-2\""), "{message}");
    }
    for (text, meant) in [("3 cs-2", "3 CS-2"), ("3 CS2", "3 CS-2"), ("64 kb", "64 kbit/s")] {
        let message = error::<Rate>(text);
        assert!(message.contains(&format!("did you mean \"{meant}\"?")), "{message}");
    }
}

#[test]
fn rates_sizes_and_queue_sizes_have_their_units() {
    for (text, bits) in
        [("64 kbit/s", 64_000), ("100 Mbit/s", 100_000_000), ("1 Gbit/s", 1_000_000_000), ("800 bit/s", 800)]
    {
        assert_eq!(text.parse::<Rate>().unwrap().bits_per_second(), bits);
        assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
    }
    for (text, bytes) in [
        ("9600 B", 9600),
        ("12 kB", 12_000),
        ("64 KiB", 65_536),
        ("1.5 MB", 1_500_000),
        ("2 GB", 2_000_000_000),
        ("1 GiB", 1 << 30),
    ] {
        assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes));
    }
    for (text, size) in [
        ("20 packets", QueueSize::Packets(20)),
        ("1 packet", QueueSize::Packets(1)),
        ("11000 B", QueueSize::Bytes(11_000)),
        ("11 kB", QueueSize::Bytes(11_000)),
        ("2 MB", QueueSize::Bytes(2_000_000)),
    ] {
        assert_eq!(text.parse::<QueueSize>().unwrap(), size);
    }
}

#[test]
fn errors_name_the_accepted_units_and_the_nearest_text() {
    assert_eq!(
        error::<Rate>("64"),
        "missing unit in \"64\": write for example \"64 kbit/s\" (accepted: bit/s, kbit/s, Mbit/s, Gbit/s, \
         CS-1, CS-2, CS-3, CS-4, TCH/F4.8, TCH/F9.6, TCH/F14.4)"
    );
    assert_eq!(
        error::<Rate>("64 kbps"),
        "unknown unit \"kbps\" in \"64 kbps\": did you mean \"64 kbit/s\"? (accepted: bit/s, kbit/s, \
         Mbit/s, Gbit/s, CS-1, CS-2, CS-3, CS-4, TCH/F4.8, TCH/F9.6, TCH/F14.4)"
    );
    assert_eq!(
        error::<Rate>("-64 kbit/s"),
        r#""-64 kbit/s" is negative: a rate must not be negative, write for example "64 kbit/s""#
    );
    assert!(error::<Rate>("0 kbit/s").contains("must be above zero"));
    assert!(error::<Rate>("0.0005 kbit/s").contains("the smallest unit is a bit per second"));
    assert!(error::<Bytes>("9600 b").contains("did you mean \"9600 B\"?"));
    assert!(error::<Bytes>("99999999999999999999 B").contains("too large for a size"));
    assert!(error::<Bytes>(&"9".repeat(80)).contains("missing unit"));
    assert!(error::<Bytes>(&format!("{} B", "9".repeat(80))).contains("too large"));
    assert!(error::<QueueSize>("20").contains("\"20 packets\""));
    assert!(error::<QueueSize>("5000000000 packets").contains("too large"));
    assert!(error::<Duration>("5 sec").contains("did you mean \"5 s\"?"));
    assert!(error::<Duration>("5 MS").contains("did you mean \"5 ms\"?"));
    for text in ["", "s", "NaN", ".5 s", "1. s", "1,5 s", "1e3 s", "inf s", "1.2.3 s", "\u{2212}1 s"] {
        assert!(text.parse::<Duration>().is_err(), "{text:?}");
    }
    assert!(error::<Duration>(&format!("0.{}1 s", "0".repeat(60))).contains("too many digits"));
}

#[test]
fn a_number_without_unit_in_a_file_is_a_missing_unit() {
    let error = |json| serde_json::from_str::<Duration>(json).unwrap_err().to_string();
    assert!(error("300").starts_with(r#"missing unit in "300": write for example "300 ms""#));
    assert!(error("-3").contains("is negative"));
    assert!(error("0.5").contains("missing unit"));
    assert!(error("true").contains("a number and a unit"));
}

#[test]
fn probabilities_lie_between_zero_and_one() {
    assert_eq!(serde_json::from_str::<Probability>("1").unwrap().get().to_bits(), 1.0_f64.to_bits());
    assert_eq!("0.63".parse::<Probability>().unwrap().to_string(), "0.63");
    assert_eq!("63 %".parse::<Probability>(), Probability::new(0.63));
    assert_eq!("0.5%".parse::<Probability>(), Probability::new(0.005));
    for text in ["1.01", "-0.1", "NaN", "inf", "101 %", "%"] {
        assert!(error::<Probability>(text).contains("from 0 to 1"), "{text}");
    }
}

#[test]
fn the_largest_packet_at_the_lowest_rate_does_not_overflow() {
    let time = Rate::from_bits_per_second(1).transmission_time(65_535);
    assert_eq!(time, Duration::from_secs(8 * 65_535));
    assert_eq!(Rate::from_bits_per_second(u64::MAX).transmission_time(65_535), Duration::ZERO);
    assert_eq!(Rate::from_bits_per_second(64_000).transmission_time(576), Duration::from_millis(72));
}

proptest! {
    #[test]
    fn every_quantity_survives_its_canonical_text(
        value in any::<u64>(), shift in 0_u32..64, small in any::<u32>(),
    ) {
        let value = value >> shift;
        let duration = Duration::from_nanos(value.min(1_000_000_000_000_000_000));
        prop_assert_eq!(duration.to_string().parse::<Duration>(), Ok(duration));
        let rate = Rate::from_bits_per_second(value.clamp(1, 1_000_000_000_000));
        prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
        prop_assert_eq!(Bytes(value).to_string().parse::<Bytes>(), Ok(Bytes(value)));
        for size in [QueueSize::Packets(small), QueueSize::Bytes(small)] {
            prop_assert_eq!(size.to_string().parse::<QueueSize>(), Ok(size));
        }
        let json = serde_json::to_string(&duration).unwrap();
        prop_assert_eq!(serde_json::from_str::<Duration>(&json).unwrap(), duration);
    }

    #[test]
    fn no_text_makes_the_parser_panic(
        text in "\\PC*", number in "[-+0-9.,_eE ]{0,40}(s|ms|kB|packets|kbit/s)?",
    ) {
        for text in [text, number] {
            let _ = text.parse::<Duration>();
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<QueueSize>();
            let _ = text.parse::<Probability>();
        }
    }
}
