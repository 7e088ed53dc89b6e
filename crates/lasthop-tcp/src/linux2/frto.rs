//! F-RTO: distinguishes a spurious timeout from a real one by the first two ACKs after it
//! (draft-sarolahti-tsvwg-tcp-frto-00; RFC 4138, section 2.1; with SACK: RFC 5682, section 3.1).

use crate::common::State;
use crate::config::FRtoMode;

/// The examination of a timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linux2FRto {
    pub mode: FRtoMode,
    pub progress: Option<Linux2Progress>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Linux2Progress {
    pub flight: u32,
    /// True once an ACK has advanced the window.
    pub advanced: bool,
}

#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one ACK can show all of it at once")]
pub(super) struct Linux2Shown {
    /// True if it advanced the window.
    pub moved: bool,
    /// True if it is not a duplicate.
    pub not_duplicate: bool,
    /// Whether it brought new SACK information; none without SACK.
    pub sacked: bool,
    /// True if everything sent before the timeout is acknowledged.
    pub all_old: bool,
    /// True if data sent after the timeout has arrived.
    pub some_new: bool,
}

/// The verdict of F-RTO on one ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linux2Verdict {
    Ignore,
    /// With SACK: duplicates before the first advance are only recorded (step 2).
    Wait,
    Advance,
    Real,
    Spurious,
}

impl Linux2FRto {
    pub fn new(mode: FRtoMode) -> Self {
        Self { mode, progress: None }
    }

    /// True if a timeout in this state may be examined. With SACK an acknowledged segment must not have been
    /// retransmitted earlier (RFC 5682, section 3.1, step 1).
    pub fn may_begin(&self, state: State) -> bool {
        let examined = match self.mode {
            FRtoMode::Off => false,
            FRtoMode::Draft2002 | FRtoMode::Rfc4138 => true,
            FRtoMode::Rfc5682Sack => state < State::Recovery,
        };
        examined && self.progress.is_none()
    }

    /// Steps 2 and 3, for a connection with or without SACK.
    pub fn verdict(
        &self,
        Linux2Progress { advanced, .. }: Linux2Progress,
        shown: Linux2Shown,
        sack: bool,
    ) -> Linux2Verdict {
        let Linux2Shown { moved, not_duplicate, sacked, all_old, .. } = shown;
        if !moved && not_duplicate && !sacked {
            Linux2Verdict::Ignore
        } else if self.mode == FRtoMode::Rfc5682Sack && sack {
            verdict_with_sack(advanced, shown)
        } else if !moved || all_old {
            // Basic algorithm: a duplicate, or an ACK of everything sent before the timeout.
            Linux2Verdict::Real
        } else if advanced {
            Linux2Verdict::Spurious
        } else {
            Linux2Verdict::Advance
        }
    }
}

/// RFC 5682, section 3.1, steps 2 and 3.
fn verdict_with_sack(advanced: bool, shown: Linux2Shown) -> Linux2Verdict {
    let Linux2Shown { moved, sacked, all_old, some_new, .. } = shown;
    if !advanced {
        return match (moved, all_old) {
            (false, _) => Linux2Verdict::Wait,
            (true, true) => Linux2Verdict::Real,
            (true, false) => Linux2Verdict::Advance,
        };
    }
    // Step 3a: data sent after the timeout has arrived, or there is no new information.
    if some_new || !(moved || sacked) { Linux2Verdict::Real } else { Linux2Verdict::Spurious }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUPLICATE: Linux2Shown =
        Linux2Shown { moved: false, not_duplicate: false, sacked: false, all_old: false, some_new: false };
    const ADVANCE: Linux2Shown = Linux2Shown { moved: true, not_duplicate: true, ..DUPLICATE };

    fn verdict(mode: FRtoMode, advanced: bool, shown: Linux2Shown) -> Linux2Verdict {
        Linux2FRto::new(mode).verdict(Linux2Progress { flight: 4, advanced }, shown, true)
    }

    #[test]
    fn two_advances_show_that_the_timeout_was_spurious() {
        for mode in [FRtoMode::Draft2002, FRtoMode::Rfc4138, FRtoMode::Rfc5682Sack] {
            assert_eq!(verdict(mode, false, ADVANCE), Linux2Verdict::Advance);
            assert_eq!(verdict(mode, true, ADVANCE), Linux2Verdict::Spurious);
        }
    }

    #[test]
    fn a_duplicate_shows_that_it_was_real_unless_sack_tells_more() {
        assert_eq!(verdict(FRtoMode::Rfc4138, false, DUPLICATE), Linux2Verdict::Real);
        assert_eq!(verdict(FRtoMode::Rfc5682Sack, false, DUPLICATE), Linux2Verdict::Wait);
        let reported = Linux2Shown { sacked: true, ..DUPLICATE };
        assert_eq!(verdict(FRtoMode::Rfc5682Sack, true, reported), Linux2Verdict::Spurious);
        assert_eq!(
            verdict(FRtoMode::Rfc5682Sack, true, Linux2Shown { some_new: true, ..reported }),
            Linux2Verdict::Real
        );
    }

    #[test]
    fn an_ack_of_everything_old_proves_nothing() {
        let all = Linux2Shown { all_old: true, ..ADVANCE };
        for mode in [FRtoMode::Draft2002, FRtoMode::Rfc4138, FRtoMode::Rfc5682Sack] {
            assert_eq!(verdict(mode, false, all), Linux2Verdict::Real);
        }
    }

    #[test]
    fn a_window_update_is_ignored() {
        let update = Linux2Shown { not_duplicate: true, ..DUPLICATE };
        assert_eq!(verdict(FRtoMode::Rfc4138, true, update), Linux2Verdict::Ignore);
    }

    #[test]
    fn sack_examines_no_timeout_during_recovery() {
        assert!(Linux2FRto::new(FRtoMode::Rfc4138).may_begin(State::Recovery));
        assert!(!Linux2FRto::new(FRtoMode::Rfc5682Sack).may_begin(State::Recovery));
        assert!(!Linux2FRto::new(FRtoMode::Off).may_begin(State::Open));
    }
}
