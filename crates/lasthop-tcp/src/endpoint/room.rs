//! The window of an end whose owner controls its reads: the free space of the receive buffer.

use crate::config::{Stack, TcpConfig};

/// The receive buffer of an end. It takes as much as its largest window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// First sequence number that the owner has not read.
    read: u64,
    /// The right edge of the window as advertised so far. It never moves back (RFC 9293, section 3.8.6).
    edge: u64,
}

impl Default for Room {
    /// The data follow the SYN.
    fn default() -> Self {
        Self { read: 1, edge: 0 }
    }
}

impl Room {
    /// The window to advertise at `nxt`, in bytes, if a buffer without data would have a window of `open`.
    /// `data` is the end of the data, without a FIN.
    pub fn window(&self, config: &TcpConfig, mss: u32, nxt: u64, data: u64, open: u64) -> u64 {
        let (buffer, mss) = (u64::from(config.receive_window_max) * u64::from(mss), u64::from(mss));
        let free = buffer.saturating_sub(data.saturating_sub(self.read));
        // Less would be a silly window (RFC 9293, section 3.8.6.2.2; `__tcp_select_window`).
        let least = mss.min(buffer / 2);
        let fresh = if free < least { 0 } else { open.min(free) };
        (nxt + fresh).max(self.edge) - nxt
    }

    /// The right edge of a window that was advertised.
    pub fn advertised(&mut self, edge: u64) {
        self.edge = self.edge.max(edge);
    }

    /// The owner has read everything below `read`.
    pub fn read(&mut self, read: u64) {
        self.read = read;
    }

    /// True if the window has opened so far that the peer must be informed immediately: in Linux if it is twice
    /// what the peer knows (`tcp_cleanup_rbuf`), in BSD by two segments or half of the buffer (`tcp_output`).
    pub fn must_tell(&self, config: &TcpConfig, mss: u32, nxt: u64, window: u64) -> bool {
        let known = self.edge.saturating_sub(nxt);
        let buffer = u64::from(config.receive_window_max) * u64::from(mss);
        let more = window.saturating_sub(known);
        match config.stack {
            Stack::Linux2 | Stack::Linux6 => 2 * known <= buffer && window > 0 && window >= 2 * known,
            Stack::Classic => more >= 2 * u64::from(mss) || (more > 0 && 2 * more >= buffer),
        }
    }

    /// True for a segment that asks for an ACK and nothing else: a probe of the window, from below what was
    /// acknowledged (Linux), or data beyond the window (BSD, RFC 9293, section 3.8.6.1).
    pub fn refuses(&self, seq: u64, length: u64, acked: u64) -> bool {
        if length == 0 { seq < acked } else { seq >= self.edge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;

    const MSS: u32 = 1_000;

    fn config(profile: Profile, segments: u32) -> TcpConfig {
        let config: TcpConfig = toml::from_str(profile.toml()).expect("complete");
        TcpConfig { receive_window_max: segments, ..config }
    }

    #[test]
    fn the_window_closes_as_data_waits_and_is_never_taken_back() {
        let config = config(Profile::Linux6, 10);
        let mut room = Room::default();
        room.advertised(1 + 10_000);
        // 4 kB arrived and wait: the edge stays. All arrived: the window is closed.
        assert_eq!(room.window(&config, MSS, 4_001, 4_001, 10_000), 6_000);
        assert_eq!(room.window(&config, MSS, 10_001, 10_001, 10_000), 0);
        // Half a segment of room is a silly window.
        room.read(501);
        assert_eq!(room.window(&config, MSS, 10_001, 10_001, 10_000), 0);
        room.read(1_001);
        assert_eq!(room.window(&config, MSS, 10_001, 10_001, 10_000), 1_000);
        // A window that was advertised stays although the buffer has no room for it.
        room.advertised(11_001);
        room.read = 1;
        assert_eq!(room.window(&config, MSS, 10_001, 10_001, 10_000), 1_000);
    }

    #[test]
    fn linux_tells_of_a_window_twice_as_large_and_bsd_of_two_segments() {
        for (profile, expected) in
            [(Profile::Linux6, [true, false, true]), (Profile::Ns1998, [false, false, true])]
        {
            let config = config(profile, 10);
            let mut room = Room::default();
            room.advertised(10_001);
            let tell = |room: &Room, window| room.must_tell(&config, MSS, 10_001, window);
            let first = tell(&room, 1_000);
            room.advertised(12_001);
            assert_eq!([first, tell(&room, 3_000), tell(&room, 4_000)], expected, "{profile:?}");
        }
    }

    #[test]
    fn probes_are_answered_and_not_taken() {
        let mut room = Room::default();
        room.advertised(10_001);
        assert!(room.refuses(10_000, 0, 10_001), "below what was acknowledged");
        assert!(!room.refuses(10_001, 0, 10_001), "an ACK");
        assert!(room.refuses(10_001, 1, 10_001), "beyond the window");
        assert!(!room.refuses(9_001, 1_000, 9_001));
    }
}
