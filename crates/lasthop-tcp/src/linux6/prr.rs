//! Proportional rate reduction (RFC 6937) as in Linux: with the conservative reduction bound, and with the
//! slow start reduction bound if an ACK moves the left edge and shows no further loss.

/// Segments delivered and sent since the reduction began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reduction {
    prior_window: u32,
    delivered: u64,
    pub sent: u64,
}

/// The effects of one ACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrrProgress {
    /// Segments that it delivered, and segments that it showed to be lost.
    pub delivered: u64,
    pub lost: u64,
    /// True if it moved the left edge.
    pub advanced: bool,
}

impl Reduction {
    /// A reduction begins, from this window.
    pub fn begin(window: u32) -> Self {
        Self { prior_window: window, ..Self::default() }
    }

    /// The window after an ACK (section 3); none if it delivered nothing.
    pub fn window(&mut self, in_flight: u32, ssthresh: u32, ack: PrrProgress) -> Option<u32> {
        let PrrProgress { delivered, lost, advanced } = ack;
        if delivered == 0 {
            return None;
        }
        let in_flight = i64::from(in_flight);
        let room = i64::from(ssthresh) - in_flight;
        self.delivered += delivered;
        let sent = self.sent.cast_signed();
        let mut count = if room < 0 {
            let prior = u64::from(self.prior_window);
            let share = (u64::from(ssthresh) * self.delivered).div_ceil(prior);
            share.cast_signed() - sent
        } else {
            let conserved = (self.delivered.cast_signed() - sent).max(delivered.cast_signed());
            room.min(conserved + i64::from(advanced && lost == 0))
        };
        // The first retransmission leaves in any case.
        count = count.max(i64::from(self.sent == 0));
        Some(u32::try_from(in_flight + count).unwrap_or(0).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PrrProgress = PrrProgress { delivered: 1, lost: 0, advanced: false };

    /// RFC 6937, section 4.1, without the figure's limits: every second arrival is answered.
    #[test]
    fn above_the_threshold_the_window_falls_in_proportion() {
        let mut reduction = Reduction::begin(20);
        let mut in_flight = 19;
        let mut sent = Vec::new();
        for _ in 0..6 {
            in_flight -= 1;
            let window = reduction.window(in_flight, 10, ONE).expect("one was delivered");
            let now = window - in_flight;
            reduction.sent += u64::from(now);
            in_flight += now;
            sent.push(now);
        }
        assert_eq!(sent, [1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn below_the_threshold_it_grows_with_what_arrives_and_by_one_on_progress() {
        let window = |ack| Reduction { prior_window: 20, delivered: 8, sent: 8 }.window(4, 10, ack);
        assert_eq!(window(ONE), Some(5));
        assert_eq!(window(PrrProgress { advanced: true, ..ONE }), Some(6));
        assert_eq!(window(PrrProgress { advanced: true, lost: 1, ..ONE }), Some(5));
    }

    #[test]
    fn an_ack_that_delivers_nothing_changes_nothing() {
        assert_eq!(Reduction::begin(20).window(19, 10, PrrProgress { delivered: 0, ..ONE }), None);
    }
}
