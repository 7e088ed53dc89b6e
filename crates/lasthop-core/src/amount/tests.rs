use proptest::prelude::*;

use super::*;
use crate::{Bytes, Duration, QueueSize, Rate};

fn amount(text: &str) -> Amount {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn range(from: &str, to: &str, scale: Scale) -> Range {
    Range::new(amount(from), amount(to), scale).unwrap()
}

#[test]
fn a_unit_tells_the_kind() {
    for (text, kind, number) in [
        ("64 kbit/s", Kind::Rate, 64e3),
        ("1.5ms", Kind::Duration, 0.0015),
        ("2 min", Kind::Duration, 120.0),
        ("64 KiB", Kind::Size, 65_536.0),
        ("1 packet", Kind::Packets, 1.0),
    ] {
        assert_eq!((amount(text).kind, amount(text).number()), (kind, number), "{text}");
    }
}

#[test]
fn the_wrong_text_gets_the_nearest_unit() {
    for (text, part) in [
        ("64 kbits", "did you mean \"64 kbit/s\"?"),
        ("64 mbit/s", "did you mean \"64 Mbit/s\"?"),
        ("10 msec", "did you mean \"10 ms\"?"),
        ("10", "has no unit"),
        ("-1 ms", "is negative"),
        ("", "has no unit"),
        ("10000000 GB", "is too large"),
        ("0.1 ns", "has too many digits"),
    ] {
        let error = text.parse::<Amount>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_level_is_written_in_the_largest_unit_below_it() {
    for (text, written) in [
        ("1234500 bit/s", "1.2345Mbit/s"),
        ("64 kbit/s", "64kbit/s"),
        ("999 bit/s", "999bit/s"),
        ("1000000001 ns", "1.000000001s"),
        ("90 s", "90s"),
        ("0 s", "0ns"),
        ("64 KiB", "65.536kB"),
        ("7 packets", "7packets"),
    ] {
        assert_eq!(amount(text).to_string(), written);
        assert_eq!(amount(written), amount(text));
    }
}

#[test]
fn a_logarithmic_range_has_the_geometric_mean_in_its_middle() {
    let rates = range("10 kbit/s", "10 Mbit/s", Scale::Log);
    let levels: Vec<_> = [0.0, 0.25, 0.5, 1.0].map(|share| rates.at(share).to_string()).into();
    assert_eq!(levels, ["10kbit/s", "56.234kbit/s", "316.23kbit/s", "10Mbit/s"]);
    let delays = range("0 s", "300 ms", Scale::Linear);
    assert_eq!(
        [0.0, 0.5, 0.123_456_789].map(|share| delays.at(share).to_string()),
        ["0ns", "150ms", "37.037ms"]
    );
}

#[test]
fn whole_numbers_have_equal_shares() {
    let range = Range::new(Amount::whole(1).unwrap(), Amount::whole(3).unwrap(), Scale::Linear).unwrap();
    let levels = [0.0, 0.33, 0.34, 0.66, 0.67, 1.0].map(|share| range.at(share).to_string());
    assert_eq!(levels, ["1", "1", "2", "2", "3", "3"]);
}

#[test]
fn a_range_has_two_ends_of_one_kind_in_order() {
    let made = |from: &str, to: &str, scale| Range::new(amount(from), amount(to), scale).is_some();
    assert!(made("0 s", "1 s", Scale::Linear));
    assert!(!made("0 s", "1 s", Scale::Log));
    assert!(!made("1 s", "1 s", Scale::Linear));
    assert!(!made("2 s", "1 s", Scale::Linear));
    assert!(!made("1 s", "2 packets", Scale::Linear));
}

fn scales() -> impl Strategy<Value = Scale> {
    prop_oneof![Just(Scale::Linear), Just(Scale::Log)]
}

proptest! {
    #[test]
    fn a_level_lies_in_its_range_and_its_text_is_exact(
        ends in (1_u64..1 << 50, 1_u64..1 << 50),
        unit in 0_usize..3,
        scale in scales(),
        share in 0.0..=1.0_f64,
    ) {
        prop_assume!(ends.0 < ends.1);
        let unit = ["bit/s", "ns", "B"][unit];
        let range = range(&format!("{}{unit}", ends.0), &format!("{}{unit}", ends.1), scale);
        let level = range.at(share);
        prop_assert!(range.from.value <= level.value && level.value <= range.to.value);
        prop_assert_eq!(amount(&level.to_string()), level);
    }

    #[test]
    fn a_real_level_is_written_to_its_last_digit(
        ends in (1e-9..1e6_f64, 1e-9..1e6_f64), scale in scales(), share in 0.0..=1.0_f64,
    ) {
        prop_assume!(ends.0 < ends.1);
        let [from, to] = [ends.0, ends.1].map(|end| Amount::real(end).unwrap());
        let level = Range::new(from, to, scale).unwrap().at(share);
        prop_assert!(ends.0 <= level.value && level.value <= ends.1);
        prop_assert_eq!(Amount::real(level.to_string().parse().unwrap()), Some(level));
    }

    #[test]
    fn a_level_reads_as_the_type_that_it_is_for(value in 1_u64..1 << 31) {
        let text = |unit: &str| amount(&format!("{value}{unit}")).to_string();
        prop_assert_eq!(text("bit/s").parse::<Rate>().unwrap().bits_per_second(), value);
        prop_assert_eq!(text("ns").parse::<Duration>().unwrap(), Duration::from_nanos(value));
        prop_assert_eq!(text("B").parse::<Bytes>().unwrap(), Bytes(value));
        prop_assert_eq!(text("packets").parse::<QueueSize>().unwrap(), QueueSize::Packets(value as u32));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,12}") {
        let _ = text.parse::<Amount>();
    }
}
