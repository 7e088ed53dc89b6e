use super::*;
use crate::script::{PacketSpec, TcpOption, Value};
use lasthop_core::{Ecn, Flags, SackBlock};

fn only(text: &str) -> Event {
    let mut script = parse(text).expect("a script");
    assert_eq!(script.events.len(), 1, "{text}");
    script.events.remove(0)
}

fn refused(text: &str) -> String {
    parse(text).expect_err("refused").to_string()
}

#[test]
fn a_packet_has_flags_range_ack_window_and_options() {
    let event =
        only("+.1 < [ect0] SEW. 0:0(0) ack 1 win 32792 <mss 1000,sackOK,TS val 3 ecr 4,nop,wscale 7>");
    assert_eq!(event.time, Time::Relative(100_000));
    let flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR).with(Flags::ACK);
    let options = vec![
        TcpOption::Mss(1_000),
        TcpOption::SackPermitted,
        TcpOption::Timestamps(3, 4),
        TcpOption::Nop,
        TcpOption::WindowScale(7),
    ];
    let packet = PacketSpec {
        ecn: Some(vec![Ecn::Ect0]),
        flags,
        ace: None,
        seq: 0,
        payload: 0,
        ack: Some(1),
        window: Some(32_792),
        options: Some(options),
    };
    assert_eq!(event.action, Action::Inject(packet));
}

#[test]
fn blocks_of_sack_follow_each_other() {
    let Action::Inject(packet) = only("0 < . 1:1(0) ack 1 win 9 <sack 11:21 31:41,nop,nop>").action else {
        panic!("a packet that arrives")
    };
    let blocks = vec![SackBlock { start: 11, end: 21 }, SackBlock { start: 31, end: 41 }];
    assert_eq!(packet.options, Some(vec![TcpOption::Sack(blocks), TcpOption::Nop, TcpOption::Nop]));
}

#[test]
fn a_call_that_waits_has_an_end_and_a_note_is_no_part_of_it() {
    let Action::Call(call) = only("+.01...0.011 connect(3, ..., ...) = -1 EINPROGRESS (in progress)").action
    else {
        panic!("a call")
    };
    assert_eq!((call.end, call.error.as_deref()), (Some(11_000), Some("EINPROGRESS")));
    assert_eq!(call.arguments, [Value::Int(3), Value::Any, Value::Any]);
}

#[test]
fn times_are_absolute_relative_ranges_or_free() {
    let times = [("1.5", Time::Absolute(1_500_000)), ("*", Time::Any)];
    let ranges = [
        ("+.3~+.31", Time::RelativeRange(300_000, 310_000)),
        ("1~2", Time::AbsoluteRange(1_000_000, 2_000_000)),
    ];
    for (text, time) in times.into_iter().chain(ranges) {
        assert_eq!(only(&format!("{text} close(3) = 0")).time, time);
    }
}

#[test]
fn a_message_names_the_lengths_of_its_buffers() {
    let text = "0 sendmsg(4, {msg_name(...)=..., msg_iov(2)=[{..., 40}, {..., 2}], msg_flags=0}, 0) = 42";
    let Action::Call(call) = only(text).action else { panic!("a call") };
    let Value::Struct { lengths, .. } = &call.arguments[1] else { panic!("a message") };
    assert_eq!(lengths, &[40, 2]);
}

#[test]
fn other_protocols_are_named() {
    for (text, name) in
        [("0 > udp (8)", "packets of udp"), ("0 < [tos 0x4] . 1:1(0) ack 1 win 9", "tos of the IP header")]
    {
        assert_eq!(only(text).action, Action::Foreign(name.to_owned()));
    }
}

#[test]
fn an_error_names_its_line_and_what_is_accepted() {
    let errors = [
        ("\n0 < . 1:2(2) ack 1 win 9", "line 2: 1:2 is not 2 bytes long"),
        ("0 < X 0:0(0) win 9", "line 1: \"X\" is not a flag: use F, S, R, P, E, W, A, 0 to 7 and ."),
        ("0 > . 1:1(0) ack 1 <mtu 3>", "line 1: \"mtu\" is not a TCP option of this language"),
        ("+1~2 close(3) = 0", "line 1: both ends of a range must be absolute, or both begin with +"),
        ("close(3) = 0", "line 1: a time such as 0, +0.1, .5~.6 or * is missing; found \"close\""),
        ("0 close(3)", "line 1: '=' is missing before the result of the call; found the end of the script"),
        ("// nothing", "line 1: the script contains no event"),
    ];
    for (text, start) in errors {
        let error = refused(text);
        assert!(error.starts_with(start), "{error}");
    }
}
