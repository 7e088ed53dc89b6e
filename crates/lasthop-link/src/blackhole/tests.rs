use lasthop_core::{Bytes, DropCause};

use super::*;
use crate::config::PathConfig;
use crate::testing::{Lab, at_us, studied_path};

#[test]
fn it_loses_what_arrives_in_its_time_and_nothing_else() {
    let (at, lasts) = (Duration::from_millis(100), Duration::from_millis(50));
    let config = PathConfig { blackhole: Some(BlackholeConfig { at, lasts }), ..studied_path() };
    let mut lab = Lab::new(&config, None);
    // The first two are in queue and link all the time.
    lab.burst(at_us(99_999), 2);
    for us in [100_000, 149_999, 150_000] {
        lab.burst(at_us(us), 1);
    }
    lab.run();
    assert_eq!(lab.dropped(DropCause::Blackhole), [(at_us(100_000), 2), (at_us(149_999), 3)]);
    assert_eq!(lab.delivered().iter().map(|(_, packet)| *packet).collect::<Vec<_>>(), [0, 1, 4]);
    assert!(lab.arena.is_empty());
}

#[test]
fn one_that_lasts_no_time_is_refused() {
    let blackhole = BlackholeConfig { at: Duration::from_secs(1), lasts: Duration::ZERO };
    let config = PathConfig { blackhole: Some(blackhole), ..studied_path() };
    let faults = Faults::collect(|faults| config.check(Bytes(576), faults));
    assert_eq!(faults[0].key, "blackhole.for");
}
