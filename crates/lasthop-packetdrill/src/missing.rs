//! Features that a script needs and the model does not have.

use std::collections::BTreeMap;

use lasthop_core::Flags;

use crate::script::{Action, Call, PacketSpec, Script, TcpOption, Value};
use crate::shell::Setup;

/// Socket options without effect on the packets of a connection that writes what its buffers hold.
const OPTIONS: [&str; 8] = [
    "SO_REUSEADDR",
    "SO_SNDBUF",
    "SO_PRIORITY",
    "IP_MTU_DISCOVER",
    "IP_FREEBIND",
    "TCP_NODELAY",
    "TCP_SYNCNT",
    "TCP_MAXSEG",
];
/// Flags of sends and receives that change nothing here.
const MESSAGE_FLAGS: [&str; 2] = ["MSG_NOSIGNAL", "MSG_DONTWAIT"];

/// The features that a script needs and the model does not have, by line.
pub(crate) fn missing(script: &Script) -> Vec<(u32, String)> {
    let mut missing = Vec::new();
    let mut opened = 0;
    for event in &script.events {
        let feature = match &event.action {
            Action::Foreign(name) => Some(name.clone()),
            Action::Inject(packet) => foreign_option(packet),
            Action::Expect(packet) => foreign_option(packet).or_else(|| advertised_window(packet)),
            Action::Command(text) => changed_setting(text),
            Action::Code(_) => None,
            Action::Call(call) => {
                let opens = matches!(call.name.as_str(), "accept" | "socket");
                opened += u32::from(opens && call.result.int().is_some_and(|descriptor| descriptor >= 0));
                // A listening socket and that of its connection.
                let is_second = opens && opened > if is_server(script) { 2 } else { 1 };
                if is_second { Some("a second connection".to_owned()) } else { of_call(call) }
            }
        };
        missing.extend(feature.map(|feature| (event.line, feature)));
    }
    missing
}

/// True if the host under test waits for connections.
fn is_server(script: &Script) -> bool {
    script.events.iter().any(|event| matches!(&event.action, Action::Call(call) if call.name == "listen"))
}

fn foreign_option(packet: &PacketSpec) -> Option<String> {
    packet.options.iter().flatten().find_map(|option| match option {
        TcpOption::Foreign(name) => Some(format!("the TCP option {name}")),
        _ => None,
    })
}

/// Windows of the model count segments, not the memory of a socket.
fn advertised_window(packet: &PacketSpec) -> Option<String> {
    let is_checked = packet.window.is_some() && !packet.flags.contains(Flags::RST);
    is_checked.then(|| "windows that depend on socket memory (win)".to_owned())
}

/// A command between events may not change the host.
fn changed_setting(text: &str) -> Option<String> {
    let mut setup = Setup::default();
    setup.read(0, text, &BTreeMap::new());
    let changed =
        setup.settings.keys().next().map(|name| format!("a change of the setting {name} during the script"));
    let missing = setup.missing.into_iter().next().map(|(_, name)| name);
    let queue = text.contains("tc ").then(|| "a change of the queue discipline during the script".to_owned());
    missing.or(changed).or(queue)
}

fn of_call(call: &Call) -> Option<String> {
    let argument = |index: usize| call.arguments.get(index).map(Value::words).unwrap_or_default();
    let strange =
        |words: Vec<&str>| words.into_iter().find(|word| !MESSAGE_FLAGS.contains(word)).map(str::to_owned);
    match call.name.as_str() {
        "socket" => {
            let supported = ["SOCK_STREAM", "SOCK_NONBLOCK", "IPPROTO_TCP", "AF_INET"];
            let other = (0..3).flat_map(argument).find(|word| !supported.contains(word));
            other.map(|word| format!("sockets of {word}"))
        }
        "bind" | "listen" | "accept" | "connect" | "read" | "close" | "shutdown" => None,
        "fcntl" => {
            let other = argument(1).into_iter().find(|word| !["F_GETFL", "F_SETFL"].contains(word));
            other.map(|word| format!("fcntl {word}"))
        }
        "setsockopt" => set_option(call),
        "getsockopt" => match argument(2).as_slice() {
            ["SO_ERROR"] => None,
            names => Some(format!("getsockopt {}", names.join(" "))),
        },
        "ioctl" => {
            argument(1).into_iter().find(|name| *name != "SIOCINQ").map(|name| format!("ioctl {name}"))
        }
        "recv" | "recvfrom" => strange(argument(3)),
        "write" => partial(call),
        "send" | "sendto" => strange(argument(3)).or_else(|| partial(call)),
        "sendmsg" => strange(argument(2)).or_else(|| ancillary(call)).or_else(|| partial(call)),
        "recvmsg" => strange(argument(2)).or_else(|| ancillary(call)),
        name => Some(format!("the call {name}")),
    }
}

fn set_option(call: &Call) -> Option<String> {
    let names = call.arguments.get(2).map(Value::words).unwrap_or_default();
    let value = match call.arguments.get(3) {
        Some(Value::Array(values)) => values.first().and_then(Value::int),
        _ => None,
    };
    match (names.as_slice(), value) {
        (["TCP_NODELAY"], Some(0)) => Some("TCP_NODELAY off".to_owned()),
        // The upper bits are the code point of the DS field, the lower ones ECN's.
        (["IP_TOS"], Some(tos)) if tos % 4 == 0 => None,
        ([name], _) if OPTIONS.contains(name) => None,
        _ if call.result.int().is_some_and(|result| result < 0) => {
            Some("a rejected socket option".to_owned())
        }
        _ => Some(format!("setsockopt {}", names.join(" "))),
    }
}

/// Control messages, as in `msg_control=[...]`.
fn ancillary(call: &Call) -> Option<String> {
    match call.arguments.get(1) {
        Some(Value::Struct { words, .. }) => {
            let name = words.iter().find(|word| *word == "msg_control");
            name.map(|_| "control messages (msg_control)".to_owned())
        }
        _ => None,
    }
}

/// The memory of a socket has no limit in the model, so partial writes are not supported.
fn partial(call: &Call) -> Option<String> {
    let wanted = match (call.name.as_str(), call.arguments.get(1)) {
        ("sendmsg", Some(Value::Struct { lengths, .. })) => Some(lengths.iter().sum()),
        _ => call.arguments.get(2).and_then(Value::int),
    };
    let result = call.result.int()?;
    let is_partial = (0..wanted?).contains(&result) || call.end.is_some();
    is_partial.then(|| "a socket with full memory".to_owned())
}
