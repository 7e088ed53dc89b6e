//! Generic netlink: families of requests, whose numbers the kernel assigns at boot.

use crate::netlink::{connect, exchange};
use netlink_packet_core::{DefaultNla, Emitable, NLM_F_ACK, NetlinkPayload, NetlinkSerializable};
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd, nlas::GenlCtrlAttrs};
use netlink_sys::{Socket, protocols::NETLINK_GENERIC};
use std::io;

/// A socket for requests of one family, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Requests {
    socket: Socket,
    family: u16,
}

impl Requests {
    /// Opens a socket, and asks the kernel for the number of the family.
    pub fn open(family: &str) -> io::Result<Self> {
        let socket = connect(NETLINK_GENERIC)?;
        let name = GenlCtrlAttrs::FamilyName(family.into());
        let question = GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![name] };
        // The controller's answer takes the place of an acknowledgement.
        let answer = exchange(&socket, GenlMessage::from_payload(question), 0)?;
        let number = |attribute: &GenlCtrlAttrs| match attribute {
            GenlCtrlAttrs::FamilyId(number) => Some(*number),
            _ => None,
        };
        let number = match answer {
            NetlinkPayload::InnerMessage(GenlMessage::<GenlCtrl> { payload, .. }) => {
                payload.nlas.iter().find_map(number)
            }
            _ => None,
        };
        let missing = || io::Error::other(format!("the kernel has no {family}"));
        Ok(Self { socket, family: number.ok_or_else(missing)? })
    }

    /// Sends a request, and waits until the kernel has processed it.
    pub fn send(&self, command: u8, attributes: Vec<DefaultNla>) -> io::Result<()> {
        let request = Request { family: self.family, command, attributes };
        exchange::<_, GenlMessage<GenlCtrl>>(&self.socket, request, NLM_F_ACK).map(drop)
    }
}

/// A request of a family, by the family's own numbers.
#[derive(Debug)]
pub struct Request {
    pub family: u16,
    pub command: u8,
    pub attributes: Vec<DefaultNla>,
}

impl Request {
    /// `struct genlmsghdr`: command, version, two reserved bytes.
    const HEADER_BYTES: usize = 4;
    const VERSION: u8 = 1;
}

impl NetlinkSerializable for Request {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        Self::HEADER_BYTES + self.attributes.as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, attributes) = buffer.split_at_mut(Self::HEADER_BYTES);
        header.copy_from_slice(&[self.command, Self::VERSION, 0, 0]);
        self.attributes.as_slice().emit(attributes);
    }
}
