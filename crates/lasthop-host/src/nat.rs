//! A NAT in front of a client, which gives it other ports during the run. Packets keep the client's own port in the
//! network and in captures; only the server sees the other one.

use crate::header::{Port, ports, replace_port};
use crate::hop::{External, Frame};
use lasthop_core::{Duration, Instant};
use lasthop_traffic::{NatPlace, RebindConfig};

/// The first external port (RFC 4787, section 4.2.1): below those that Linux chooses for clients.
const FIRST: u16 = 1024;

/// A NAT between a server and its clients.
#[derive(Debug)]
pub struct Nat {
    config: RebindConfig,
    /// For each external port, from [`FIRST`] on: the client's port, and the number of changes until the mapping.
    mappings: Vec<(u16, u64)>,
}

impl Nat {
    pub fn new(config: RebindConfig) -> Self {
        Self { config, mappings: Vec::new() }
    }

    /// A client sends a packet.
    pub fn send(&mut self, now: Instant, frame: &mut Frame) {
        if self.config.nat == NatPlace::Client {
            self.map(now, frame);
        }
    }

    /// A packet of a client reaches the server.
    pub fn reach_server(&mut self, now: Instant, frame: &mut Frame) {
        if self.config.nat == NatPlace::Server {
            self.map(now, frame);
        }
        if let External::Port(port) = std::mem::take(&mut frame.external) {
            replace_port(frame.bytes_mut(), Port::Source, port);
        }
    }

    /// The server sends a packet to the port that it knows.
    pub fn answer(&self, now: Instant, frame: &mut Frame) {
        let Some((_, port)) = ports(frame.bytes()) else { return };
        if let Some((own, _)) = self.mapping(port) {
            replace_port(frame.bytes_mut(), Port::Destination, own);
            frame.external = External::Port(port);
        }
        if self.config.nat == NatPlace::Server && !self.knows(now, frame.external) {
            frame.external = External::Expired;
        }
    }

    /// A packet of the server reaches the client; false if the NAT drops it there.
    pub fn reaches_client(&self, now: Instant, frame: &Frame) -> bool {
        let is_here = self.config.nat == NatPlace::Client && ports(frame.bytes()).is_some();
        !is_here || self.knows(now, frame.external)
    }

    /// Number of changes until `now`. Before the first, clients have their own ports.
    fn changes(&self, now: Instant) -> u64 {
        let first = Instant::ZERO + self.config.at;
        let further = |every: Duration| now.saturating_since(first).as_nanos() / every.as_nanos();
        if now < first { 0 } else { 1 + self.config.every.map_or(0, further) }
    }

    /// Notes the port that the server is to see, of a new mapping if there is none since the last change.
    fn map(&mut self, now: Instant, frame: &mut Frame) {
        let changes = self.changes(now);
        // The link's copy of a packet has its new bytes.
        let is_new = |own| changes > 0 && self.mapping(own).is_none();
        let Some((own, _)) = ports(frame.bytes()).filter(|(own, _)| is_new(*own)) else { return };
        let wanted = (own, changes);
        let place = self.mappings.iter().rposition(|own| *own == wanted).unwrap_or_else(|| {
            self.mappings.push(wanted);
            self.mappings.len() - 1
        });
        frame.external = External::Port(FIRST.wrapping_add(place as u16));
    }

    fn mapping(&self, port: u16) -> Option<(u16, u64)> {
        self.mappings.get(usize::from(port.checked_sub(FIRST)?)).copied()
    }

    /// True if the mapping of a port is that of the last change.
    fn knows(&self, now: Instant, external: External) -> bool {
        let mapping = if let External::Port(port) = external { self.mapping(port) } else { None };
        mapping.map_or(0, |(_, changes)| changes) == self.changes(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    const OWN: u16 = 40_000;

    fn frame(source: u16, destination: u16) -> Frame {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([10, 0, 1, 1], [10, 0, 0, 1], 64)
            .udp(source, destination)
            .write(&mut bytes, &[7; 20])
            .unwrap();
        let mut frame = Frame::new(576);
        frame.buffer[..bytes.len()].copy_from_slice(&bytes);
        frame.length = bytes.len();
        frame
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn nat(nat: NatPlace) -> Nat {
        Nat::new(RebindConfig { at: Duration::from_secs(1), every: Some(Duration::from_secs(5)), nat })
    }

    /// The client's port that the server sees in a packet that crosses the network between these seconds.
    fn seen(nat: &mut Nat, sent: u64, arrives: u64, own: u16) -> u16 {
        let mut frame = frame(own, 443);
        nat.send(at(sent), &mut frame);
        assert_eq!(ports(frame.bytes()), Some((own, 443)), "the network sees the client's own port");
        nat.reach_server(at(arrives), &mut frame);
        let seen = ports(frame.bytes()).unwrap().0;
        nat.reach_server(at(arrives), &mut frame);
        assert_eq!(ports(frame.bytes()), Some((seen, 443)), "a copy of the packet has its new bytes");
        seen
    }

    #[test]
    fn the_server_sees_another_port_after_each_change() {
        for (place, expected) in [
            (NatPlace::Client, [OWN, OWN, 1024, 1024, 1025, 1025, 1026]),
            (NatPlace::Server, [OWN, 1024, 1024, 1025, 1025, 1026, 1026]),
        ] {
            let mut nat = nat(place);
            let ways = [(0, 0), (0, 1), (1, 5), (5, 6), (6, 10), (10, 11), (11, 12)];
            assert_eq!(ways.map(|(sent, arrives)| seen(&mut nat, sent, arrives, OWN)), expected, "{place:?}");
        }
    }

    #[test]
    fn connections_of_a_client_have_different_ports() {
        let mut nat = nat(NatPlace::Client);
        let sent = [(1, OWN), (2, OWN + 1), (3, OWN)];
        assert_eq!(sent.map(|(now, own)| seen(&mut nat, now, now, own)), [1024, 1025, 1024]);
    }

    #[test]
    fn answers_reach_the_client_until_the_port_changes() {
        for (place, late) in [(NatPlace::Client, false), (NatPlace::Server, true)] {
            let mut nat = nat(place);
            let mut port = OWN;
            for (now, next) in [(0, 1), (2, 6), (7, 11)] {
                if now > 0 {
                    port = seen(&mut nat, now, now, OWN);
                }
                let mut answer = frame(443, port);
                nat.answer(at(now), &mut answer);
                assert_eq!(ports(answer.bytes()), Some((443, OWN)));
                assert!(nat.reaches_client(at(now), &answer));
                assert_eq!(nat.reaches_client(at(next), &answer), late, "{place:?}: it was under way");
                let mut stale = frame(443, port);
                nat.answer(at(next), &mut stale);
                let arrives = stale.external != External::Expired && nat.reaches_client(at(next), &stale);
                assert!(!arrives, "{place:?}: the mapping had expired");
            }
        }
    }
}
