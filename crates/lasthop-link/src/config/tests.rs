use lasthop_core::{Bytes, Duration, Fault, Faults, Probability, QueueSize, Rate};
use serde_json::{Value, json};

use super::{ClassConfig, DisciplineConfig, HtbConfig, PathConfig, QueueConfig, RedConfig};
use crate::testing::{errors, red, studied_path};

const MTU: Bytes = Bytes(576);

fn faults(config: &PathConfig) -> Vec<Fault> {
    Faults::collect(|faults| config.check(MTU, faults))
}

fn refused(change: impl FnOnce(&mut PathConfig)) -> (String, String) {
    let mut config = studied_path();
    change(&mut config);
    let fault = faults(&config).remove(0);
    (fault.key, fault.message)
}

fn refused_red(change: impl FnOnce(&mut RedConfig)) -> String {
    let mut red = red(2, 7, 0.1, 0.002);
    change(&mut red);
    refused(|config| config.queue.discipline = DisciplineConfig::red(red)).0
}

#[test]
fn the_studied_path_is_possible() {
    let mut config = studied_path();
    assert_eq!(faults(&config), []);
    config.queue.discipline = DisciplineConfig::red(red(2, 7, 0.1, 0.002));
    config.link.rate = Rate::from_bits_per_second(1);
    assert_eq!(faults(&config), []);
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
    assert_eq!(faults(&config), []);
    let (key, message) = refused(|config| config.queue.limit = QueueSize::Packets(most + 1));
    assert_eq!(key, "queue.limit");
    assert!(message.contains(&format!("at most {most}")), "{message}");
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
    assert_eq!(refused_red(|red| red.idle_packet_time = Some(Duration::ZERO)), "queue.red.idle_packet_time");
    assert_eq!(refused_red(|red| red.harddrop = false), "queue.red.harddrop");
}

#[test]
fn the_idle_time_of_red_is_given_once() {
    assert_eq!(refused_red(|red| red.avpkt = Some(Bytes(500))), "queue.red.avpkt");
    assert_eq!(refused_red(|red| red.idle_packet_time = None), "queue.red");
    let avpkt =
        |bytes| move |red: &mut RedConfig| (red.idle_packet_time, red.avpkt) = (None, Some(Bytes(bytes)));
    assert_eq!(refused_red(avpkt(0)), "queue.red.avpkt");
    assert_eq!(refused_red(avpkt(65_536)), "queue.red.avpkt");
}

#[test]
fn error_states_must_take_time() {
    let faults = |good, bad| Faults::collect(|faults| errors(good, bad, None).check(faults));
    assert_eq!(faults(0, 1), []);
    assert_eq!(faults(1, 0), []);
    assert_eq!(faults(0, 0)[0].key, "good");
}

/// A queue of ten packets with these keys.
fn queue(keys: &Value) -> QueueConfig {
    let mut table = json!({ "limit": "10 packets" });
    table.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    serde_json::from_value(table).unwrap()
}

fn red_table() -> Value {
    json!(red(2, 7, 0.1, 0.002))
}

#[test]
fn keys_of_another_discipline_are_refused() {
    let refused = |keys| refused(|config| config.queue = queue(&keys));
    let (key, message) = refused(json!({ "target": "5 ms" }));
    assert_eq!(key, "queue.target");
    assert!(message.contains("applies to discipline = \"codel\""), "{message}");
    let (key, message) = refused(json!({ "discipline": "codel", "red": red_table() }));
    assert_eq!(key, "queue.red");
    assert!(message.contains("applies to discipline = \"drop-tail\""), "{message}");
    let (key, message) = refused(json!({ "red": red_table(), "ecn": true }));
    assert_eq!(key, "queue.ecn");
    assert!(message.ends_with("for RED, write red.ecn"), "{message}");
}

/// A cell has the keys of its file, even those that repeat a default, and no others.
#[test]
fn a_queue_is_written_as_it_is_stated() {
    for keys in [
        json!({ "red": null }),
        json!({ "red": red_table() }),
        json!({ "discipline": "drop-head", "red": null }),
        json!({ "discipline": "codel", "red": null, "target": "5 ms", "ecn": false }),
        json!({ "discipline": "fq_codel", "red": null, "interval": "60 ms", "flows": 1024 }),
        json!({ "discipline": "cake", "red": null, "rate": "1 Mbit/s", "overhead": "atm" }),
        json!({ "discipline": "python:my_module.Mine", "red": null }),
    ] {
        let written = json!(queue(&keys));
        assert_eq!(written, json!(serde_json::from_value::<QueueConfig>(written.clone()).unwrap()));
        let written = written.as_object().unwrap();
        assert_eq!(
            written.keys().collect::<Vec<_>>()[1..],
            keys.as_object().unwrap().keys().collect::<Vec<_>>()
        );
        assert!(keys.as_object().unwrap().iter().all(|(key, value)| written[key] == *value), "{written:?}");
    }
}

#[test]
fn a_queue_that_classes_share_is_checked_once_for_all_of_them() {
    let class = |name: &str, default| ClassConfig {
        name: name.into(),
        parent: None,
        rate: Rate::from_bits_per_second(32_000),
        ceil: None,
        priority: 0,
        quantum: None,
        burst: Bytes(1600),
        cburst: Bytes(1600),
        matches: Vec::new(),
        default,
        queue: None,
    };
    let class = vec![class("a", true), class("b", false)];
    let htb = HtbConfig { rate: None, burst: Bytes(1600), overhead: Bytes(0), class };
    let mut config = PathConfig { htb: Some(htb), ..studied_path() };
    config.queue.limit = QueueSize::Packets(u32::MAX / 576);
    let [fault] = &faults(&config)[..] else { panic!("{:?}", faults(&config)) };
    assert_eq!(fault.key, "queue.limit");
    assert!(fault.message.starts_with("2 queues of"), "{}", fault.message);
}
