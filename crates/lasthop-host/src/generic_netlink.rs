//! Generic netlink: families of requests, to which the kernel gives numbers when it starts.

use netlink_packet_core::{
    Emitable, NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd, nlas::GenlCtrlAttrs};
use netlink_packet_generic::{GenlFamily, GenlMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;

/// A reply to one request, with room to spare.
const REPLY_BYTES: usize = 8192;

/// A socket for requests of one family, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Requests<F> {
    socket: Socket,
    family: u16,
    kind: PhantomData<F>,
}

impl<F: GenlFamily + Emitable + Debug> Requests<F> {
    /// Opens a socket, and asks the kernel for the number of the family.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let name = GenlCtrlAttrs::FamilyName(F::family_name().into());
        let question = GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![name] };
        // The controller's answer takes the place of an acknowledgement.
        let answer = exchange(&socket, GenlMessage::from_payload(question), NLM_F_REQUEST)?;
        let number = |attribute: &GenlCtrlAttrs| match attribute {
            GenlCtrlAttrs::FamilyId(number) => Some(*number),
            _ => None,
        };
        let family = answer.and_then(|answer| answer.into_parts().1.nlas.iter().find_map(number));
        let missing = || io::Error::other(format!("the kernel has no {}", F::family_name()));
        Ok(Self { socket, family: family.ok_or_else(missing)?, kind: PhantomData })
    }

    /// Sends a request, and waits until the kernel has done it.
    pub fn send(&self, request: F) -> io::Result<()> {
        let mut message = GenlMessage::from_payload(request);
        message.set_resolved_family_id(self.family);
        exchange(&self.socket, message, NLM_F_REQUEST | NLM_F_ACK).map(drop)
    }
}

/// Sends a message, and returns the controller's answer unless there is only an acknowledgement.
fn exchange<M: NetlinkSerializable>(
    socket: &Socket,
    message: M,
    flags: u16,
) -> io::Result<Option<GenlMessage<GenlCtrl>>> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut reply = vec![0; REPLY_BYTES];
    let length = socket.recv(&mut &mut reply[..], 0)?;
    match NetlinkMessage::deserialize(&reply[..length]).map_err(io::Error::other)?.payload {
        NetlinkPayload::InnerMessage(answer) => Ok(Some(answer)),
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
        _ => Ok(None),
    }
}
