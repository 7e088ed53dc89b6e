use lasthop_core::Bytes;
use lasthop_core::units::{Probability, QueueSize};
use lasthop_core::{Duration, Rate};

use super::{PathConfig, RedConfig};
use crate::testing::{errors, red, studied_path};

const MTU: Bytes = Bytes(576);

fn refused(change: impl FnOnce(&mut PathConfig)) -> (&'static str, String) {
    let mut config = studied_path();
    change(&mut config);
    let error = config.validate(MTU).unwrap_err();
    (error.key, error.message)
}

fn refused_red(change: impl FnOnce(&mut RedConfig)) -> &'static str {
    let mut red = red(2, 7, 0.1, 0.002);
    change(&mut red);
    refused(|config| config.queue.red = Some(red)).0
}

#[test]
fn the_studied_path_is_possible() {
    let mut config = studied_path();
    assert_eq!(config.validate(MTU), Ok(()));
    config.queue.red = Some(red(2, 7, 0.1, 0.002));
    config.link.rate = Rate::from_bits_per_second(1);
    assert_eq!(config.validate(MTU), Ok(()));
}

#[test]
fn a_queue_that_never_holds_a_packet_is_refused() {
    assert_eq!(refused(|config| config.queue.limit = QueueSize::Packets(0)).0, "queue.limit");
    let (key, message) = refused(|config| config.queue.limit = QueueSize::Bytes(575));
    assert_eq!(key, "queue.limit");
    assert!(message.contains("575 B") && message.contains("576 B"), "{message}");
}

#[test]
fn a_queue_whose_bytes_cannot_be_counted_is_refused() {
    let most = u32::MAX / 576;
    let mut config = studied_path();
    config.queue.limit = QueueSize::Packets(most);
    assert_eq!(config.validate(MTU), Ok(()));
    let (key, message) = refused(|config| config.queue.limit = QueueSize::Packets(most + 1));
    assert_eq!(key, "queue.limit");
    assert!(message.contains(&format!("{most} at most")), "{message}");
}

#[test]
fn a_send_buffer_below_the_mtu_is_refused() {
    assert_eq!(refused(|config| config.link.send_buffer = Bytes(575)).0, "link.send_buffer");
}

#[test]
fn red_thresholds_share_a_unit_and_stand_in_order() {
    assert_eq!(refused_red(|red| red.max = QueueSize::Bytes(5_000)), "queue.red.max");
    assert_eq!(refused_red(|red| red.max = QueueSize::Packets(2)), "queue.red.max");
}

#[test]
fn a_red_that_does_nothing_is_refused() {
    let zero = Probability::new(0.0).unwrap();
    assert_eq!(refused_red(|red| red.max_probability = zero), "queue.red.max_probability");
    assert_eq!(refused_red(|red| red.weight = zero), "queue.red.weight");
    assert_eq!(refused_red(|red| red.idle_packet_time = Duration::ZERO), "queue.red.idle_packet_time");
}

#[test]
fn error_states_must_take_time() {
    assert_eq!(errors(0, 1, None).validate(), Ok(()));
    assert_eq!(errors(1, 0, None).validate(), Ok(()));
    assert_eq!(errors(0, 0, None).validate().unwrap_err().key, "good");
}
