//! Information from the kernel about connections whose sockets another process holds (`sock_diag(7)`).

use super::sender::TcpInfo;
use crate::netlink::{connect, exchange};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags, nlas::Nla};
use netlink_packet_sock_diag::{AF_INET, AF_INET6, IPPROTO_TCP, SockDiagMessage, TCP_LISTEN, TCP_TIME_WAIT};
use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};
use std::io;
use std::net::SocketAddr;

/// Access to the network namespace in which it was opened.
#[derive(Debug)]
pub struct Diag {
    socket: Socket,
}

impl Diag {
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: connect(NETLINK_SOCK_DIAG)? })
    }

    /// The end at `local` of a connection. An end that no longer exists, or only waits for stray segments,
    /// counts as closed. None if the kernel does not answer.
    pub fn info(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<TcpInfo>> {
        let socket_id = SocketId {
            source_port: local.port(),
            destination_port: remote.port(),
            source_address: local.ip(),
            destination_address: remote.ip(),
            cookie: [u8::MAX; 8], // any socket
            ..SocketId::new_v4()
        };
        let request = SockDiagMessage::InetRequest(InetRequest {
            family: if local.is_ipv4() { AF_INET } else { AF_INET6 },
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO,
            states: StateFlags::all(),
            socket_id,
        });
        match exchange(&self.socket, request, 0) {
            Ok(NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response))) => {
                // If the connection is gone, the kernel finds its listening socket.
                if matches!(response.header.state, TCP_TIME_WAIT | TCP_LISTEN) {
                    return Ok(Some(TcpInfo::closed()));
                }
                let bytes = response.nlas.iter().find_map(|nla| match nla {
                    Nla::TcpInfo(bytes) => Some(bytes),
                    _ => None,
                });
                Ok(bytes.map(|bytes| TcpInfo::from_bytes(bytes)))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Some(TcpInfo::closed())),
            Err(error) => Err(error),
            Ok(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_seen_until_it_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, from) = listener.accept().unwrap();
        let diag = Diag::open().unwrap();
        let here = listener.local_addr().unwrap();
        let open = diag.info(here, from).unwrap().unwrap();
        assert!(!open.is_closed() && open.cwnd > 0, "{open:?}");
        drop((server, client));
        assert!(diag.info(here, from).unwrap().unwrap().is_closed(), "it waits for stray segments");
        let never = ([127, 0, 0, 2], 1).into();
        assert!(diag.info(here, never).unwrap().unwrap().is_closed(), "only the listener is there");
    }
}
