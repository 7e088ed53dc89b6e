//! The cache in which Linux keeps what TCP has learnt of other hosts (`tcp_metrics.c`).

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use std::io;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME`.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Without an address, `TCP_METRICS_CMD_DEL` removes all entries of the network namespace.
const DELETE: u8 = 2;
const FAMILY: &[u8] = b"tcp_metrics\0";
/// `NLM_F_REQUEST`, and `NLM_F_ACK`; `NLMSG_ERROR`, which also acknowledges.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const ERROR: u16 = 2;
/// Both headers of a message, and that of an attribute; attributes begin at multiples of four bytes.
const HEADERS: usize = 20;
const ATTRIBUTE: usize = 4;
const REPLY_BYTES: usize = 4096;

/// Empties the cache of the caller's network namespace.
pub fn flush() -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut name = Vec::from(((ATTRIBUTE + FAMILY.len()) as u16).to_ne_bytes());
    name.extend(FAMILY_NAME.to_ne_bytes());
    name.extend(FAMILY);
    let reply = exchange(&socket, CONTROL, REQUEST, GET_FAMILY, &name)?;
    let family = attribute(&reply[HEADERS.min(reply.len())..], FAMILY_ID)
        .ok_or_else(|| io::Error::other("the kernel has no tcp_metrics"))?;
    exchange(&socket, family, REQUEST | ACKNOWLEDGE, DELETE, &[]).map(drop)
}

/// Sends a request of generic netlink, and returns the answer.
fn exchange(socket: &Socket, family: u16, flags: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let mut message = Vec::from(((HEADERS + attributes.len()) as u32).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]); // sequence number and port
    message.extend([command, 1, 0, 0]);
    message.extend(attributes);
    socket.send(&message, 0)?;
    let mut reply = vec![0; REPLY_BYTES];
    let length = socket.recv(&mut &mut reply[..], 0)?;
    reply.truncate(length);
    match (u16_at(&reply, 4), reply.get(16..HEADERS)) {
        (Some(ERROR), Some(code)) => match i32::from_ne_bytes([code[0], code[1], code[2], code[3]]) {
            0 => Ok(reply),
            code => Err(io::Error::from_raw_os_error(-code)),
        },
        _ => Ok(reply),
    }
}

/// The value of an attribute of two bytes.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<u16> {
    loop {
        let (length, kind) = (u16_at(bytes, 0)?, u16_at(bytes, 2)?);
        if kind == wanted {
            return u16_at(bytes, ATTRIBUTE);
        }
        bytes = bytes.get(usize::from(length.max(1)).next_multiple_of(ATTRIBUTE)..)?;
    }
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    Some(u16::from_ne_bytes([*bytes.get(place)?, *bytes.get(place + 1)?]))
}
