//! F-RTO with SACK (RFC 5682, section 3.1): a timeout was spurious if data that was not retransmitted
//! arrives.

/// The examination of a timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Linux6FRto {
    pub is_active: bool,
}

#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one ACK can show all of it at once")]
pub(super) struct Shown {
    /// True if data that was never retransmitted arrived.
    pub original: bool,
    /// True if it moved the left edge.
    pub advanced: bool,
    /// True if all data sent before the timeout is acknowledged.
    pub recovered: bool,
    /// True if new data has been sent since the timeout.
    pub sent_new: bool,
    /// True for new SACK information, or a duplicate.
    pub doubtful: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Continue with the ordinary recovery.
    None,
    Spurious,
    /// Send new data, so that the next ACK decides.
    Advance,
}

impl Linux6FRto {
    pub fn verdict(&mut self, shown: Shown) -> Verdict {
        let Shown { original, advanced, recovered, sent_new, doubtful } = shown;
        if !self.is_active {
            Verdict::None
        } else if original {
            // Step 3.b
            Verdict::Spurious
        } else if sent_new {
            // Step 3.a
            self.is_active = !doubtful;
            Verdict::None
        } else if advanced && !recovered {
            // Step 2.b
            Verdict::Advance
        } else {
            Verdict::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_original_proves_the_timeout_spurious() {
        let mut frto = Linux6FRto { is_active: true };
        assert_eq!(
            frto.verdict(Shown { original: true, advanced: true, ..Shown::default() }),
            Verdict::Spurious
        );
        frto.is_active = false;
        assert_eq!(frto.verdict(Shown { original: true, ..Shown::default() }), Verdict::None);
    }

    #[test]
    fn doubts_about_new_data_end_the_examination() {
        let mut frto = Linux6FRto { is_active: true };
        assert_eq!(frto.verdict(Shown { advanced: true, ..Shown::default() }), Verdict::Advance);
        assert_eq!(frto.verdict(Shown { sent_new: true, ..Shown::default() }), Verdict::None);
        assert!(frto.is_active);
        frto.verdict(Shown { sent_new: true, doubtful: true, ..Shown::default() });
        assert!(!frto.is_active);
    }
}
