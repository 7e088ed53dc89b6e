//! Events of packets and of transports: one function for each frequent event.

use super::tcp::TcpFlow;
use super::{Analysis, Flow, Transport};
use lasthop_core::{
    Body, DropCause, DropCount, Duration, FlowId, Host, Instant, Packet, PacketEvent, Protocol,
    TransportEvent,
};

impl Analysis {
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, packet: &Packet) {
        self.record.packets_sent += 1;
        let Some(flow) = self.flow(packet.flow) else { return };
        flow.first_packet.get_or_insert(now);
        flow.inside += 1;
        if flow.is_data(packet) {
            flow.begins(now);
        }
        let is_retired = flow.at_an_end(now, PacketEvent::Sent, packet);
        self.look_beyond(now, PacketEvent::Sent, packet, is_retired);
    }

    /// The waiting times of packets in the direction without data are not needed.
    #[inline]
    pub(super) fn dequeued(&mut self, now: Instant, packet: &Packet) {
        if self.has_data[packet.direction as usize]
            && let Some(flow) = self.flow(packet.flow)
            && flow.is_data(packet)
        {
            flow.queue_delay.record(now.saturating_since(packet.queued_at));
        }
    }

    pub(super) fn marked(&mut self, packet: &Packet) {
        let Some(flow) = self.flow(packet.flow) else { return };
        if flow.is_data(packet) {
            flow.record.data_marks_ecn += 1;
        } else {
            flow.record.ack_marks_ecn += 1;
        }
    }

    #[inline]
    pub(super) fn delivered(&mut self, now: Instant, packet: &Packet) {
        self.record.packets_delivered += 1;
        self.crossed(packet);
        let Some(flow) = self.flows[packet.flow.0 as usize].as_deref_mut() else { return };
        flow.inside -= 1;
        if !flow.is_data(packet) {
            flow.begins(now);
        }
        let is_retired = flow.at_an_end(now, PacketEvent::Delivered, packet);
        self.look_beyond(now, PacketEvent::Delivered, packet, is_retired);
    }

    #[inline]
    pub(super) fn crossed(&mut self, packet: &Packet) {
        if self.bottleneck.crossed(packet)
            && let Some(flow) = &self.flows[packet.flow.0 as usize]
            && flow.is_data(packet)
            && flow.group.is_none()
        {
            self.background_bytes += u64::from(packet.ip_bytes);
        }
    }

    pub(super) fn duplicated(&mut self, now: Instant, packet: &Packet) {
        self.at_an_end(now, PacketEvent::Duplicated, packet);
    }

    pub(super) fn dropped(&mut self, now: Instant, packet: &Packet, cause: DropCause) {
        self.record.packets_dropped += 1;
        let Some(flow) = self.flow(packet.flow) else { return };
        flow.inside -= 1;
        let is_data = flow.is_data(packet);
        *flow.drops(is_data, cause) += 1;
        if packet.queued_at < Instant::MAX {
            // A drop does not report the depth.
            self.bottleneck.lost_from_queue(now, packet);
        }
        self.at_an_end(now, PacketEvent::Dropped(cause), packet);
    }

    fn at_an_end(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        let Some(flow) = self.flow(packet.flow) else { return };
        let is_retired = flow.at_an_end(now, event, packet);
        self.look_beyond(now, event, packet, is_retired);
    }

    /// Effects of an event at an end of a flow on other parts of the analysis.
    #[inline]
    fn look_beyond(&mut self, now: Instant, event: PacketEvent, packet: &Packet, is_retired: bool) {
        if is_retired {
            self.fold(now, packet.flow);
        }
        if !self.pages.is_empty()
            && let Some(page) = self.page_of(packet.flow)
        {
            page.packet(now, event, packet);
        }
    }

    pub(super) fn window(&mut self, flow: FlowId, host: Host, cwnd: u32) {
        if let Some(tcp) = self.sender(flow, host) {
            tcp.window(cwnd);
        }
    }

    pub(super) fn round_trip(&mut self, flow: FlowId, host: Host, rtt: Duration) {
        if let Some(tcp) = self.sender(flow, host) {
            tcp.round_trip(rtt);
        }
    }

    pub(super) fn transport_event(&mut self, now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        if event == TransportEvent::Aborted
            && let Some(page) = self.page_of(flow)
        {
            page.aborted(flow);
        }
        if let Some(flow) = self.flow(flow)
            && host == flow.sender()
        {
            match &mut flow.transport {
                Transport::Tcp(tcp) => {
                    if event == TransportEvent::Established {
                        // Start of a connection that is open from the beginning; others start with their SYN.
                        flow.started.get_or_insert(now);
                    }
                    tcp.event(now, event, &mut flow.record);
                }
                Transport::Udp(udp) if event == TransportEvent::Aborted => udp.abort(now),
                // UDP has no timers: these are the application's.
                Transport::Udp(_) if flow.record.protocol == Protocol::Udp => match event {
                    TransportEvent::Timeout { .. } => flow.record.timeouts += 1,
                    TransportEvent::Retransmitted { .. } => flow.record.retransmitted_packets += 1,
                    _ => {}
                },
                Transport::Udp(_) => {}
                Transport::Joint(joint) => joint.event(now, event),
            }
        }
    }

    /// The sender of a flow, if that is at `host`.
    fn sender(&mut self, flow: FlowId, host: Host) -> Option<&mut TcpFlow> {
        match self.flow(flow)? {
            flow if flow.sender() != host => None,
            Flow { transport: Transport::Tcp(tcp), .. } => Some(tcp),
            Flow { transport: Transport::Udp(_) | Transport::Joint(_), .. } => None,
        }
    }
}

impl Flow {
    /// A packet has been sent, has arrived or is lost. True if both ends have finished the flow.
    #[inline]
    fn at_an_end(&mut self, now: Instant, event: PacketEvent, packet: &Packet) -> bool {
        let data = self.is_data(packet);
        match (&mut self.transport, &packet.body) {
            (Transport::Tcp(tcp), Body::Tcp(segment)) if data => {
                tcp.data_packet(now, event, packet.serial, segment, &mut self.record);
            }
            (Transport::Tcp(tcp), Body::Tcp(segment)) => {
                tcp.ack_packet(now, event, segment, &mut self.record);
            }
            (Transport::Tcp(quic), Body::Quic(datagram)) if data => {
                quic.datagram(now, event, packet.serial, datagram, &mut self.record);
            }
            (Transport::Tcp(quic), Body::Quic(datagram)) => quic.answer(now, event, datagram.ack),
            (Transport::Udp(udp), Body::Udp(datagram)) if data => {
                udp.packet(now, event, *datagram, &mut self.record);
            }
            (Transport::Udp(udp), Body::Quic(packet)) if data => {
                udp.carried(now, event, packet, &mut self.record);
            }
            _ => {}
        }
        self.retired
    }

    /// The sender has sent or received a packet.
    fn begins(&mut self, now: Instant) {
        if self.started.is_some() {
            return;
        }
        self.started = Some(now);
        let Some(time) = self.sends_for else { return };
        match &mut self.transport {
            Transport::Tcp(tcp) => tcp.stops(now + time),
            Transport::Udp(udp) => udp.stops(now + time),
            Transport::Joint(_) => {}
        }
    }

    fn drops(&mut self, data: bool, cause: DropCause) -> &mut u64 {
        let record = &mut self.record;
        match (cause.labels().count, data) {
            (DropCount::Queue, true) => &mut record.data_drops_queue,
            (DropCount::Queue, false) => &mut record.ack_drops_queue,
            // Cells flow in the data direction only.
            (DropCount::EarlyPacket, _) => &mut record.data_drops_epd,
            (DropCount::Selective, _) => &mut record.data_drops_selective,
            (DropCount::Red, true) => &mut record.data_drops_red,
            (DropCount::Red, false) => &mut record.ack_drops_red,
            (DropCount::Aqm, true) => &mut record.data_drops_aqm,
            (DropCount::Aqm, false) => &mut record.ack_drops_aqm,
            (DropCount::Error, true) => &mut record.data_drops_error,
            (DropCount::Error, false) => &mut record.ack_drops_error,
        }
    }
}
