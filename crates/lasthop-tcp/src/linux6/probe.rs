//! Tail loss probes (RFC 8985, section 7, as in Linux).

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// `snd_nxt` after it.
    end: Option<u64>,
    /// True if it was a retransmission.
    again: bool,
}

/// The verdict of an ACK on the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeVerdict {
    /// Undecided.
    Open,
    /// It was not needed, or carried new data.
    Settled,
    /// A segment had been lost, and the probe has repaired it (section 7.4.2).
    Repaired,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeShown {
    pub una: u64,
    /// True if D-SACK reports the probe.
    pub duplicate_of_probe: bool,
    /// True if it brings no new information.
    pub plain_duplicate: bool,
}

impl Probe {
    pub fn is_out(&self) -> bool {
        self.end.is_some()
    }

    /// True if the outstanding probe is a retransmission.
    pub fn is_retransmission(&self) -> bool {
        self.end.is_some() && self.again
    }

    /// Notes the probe; all sent data ends at `end`.
    pub fn sent(&mut self, end: u64, again: bool) {
        *self = Self { end: Some(end), again };
    }

    /// Loss recovery or a reduction begins: the probe is no longer significant.
    pub fn forget(&mut self) {
        self.end = None;
    }

    /// True if a D-SACK block that ends at `end` and is no longer than a segment reports it.
    pub fn ends_at(&self, end: u64) -> bool {
        self.end == Some(end)
    }

    pub fn judge(&mut self, shown: ProbeShown) -> ProbeVerdict {
        let Some(end) = self.end.filter(|&end| shown.una >= end) else { return ProbeVerdict::Open };
        if self.again && !shown.duplicate_of_probe && shown.una > end {
            return ProbeVerdict::Repaired;
        }
        if !self.again || shown.duplicate_of_probe || shown.plain_duplicate {
            self.end = None;
            return ProbeVerdict::Settled;
        }
        ProbeVerdict::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(again: bool, shown: ProbeShown) -> ProbeVerdict {
        let mut probe = Probe::default();
        probe.sent(100, again);
        probe.judge(shown)
    }

    #[test]
    fn a_probe_with_new_data_is_settled_by_its_ack() {
        assert_eq!(judge(false, ProbeShown { una: 99, ..ProbeShown::default() }), ProbeVerdict::Open);
        assert_eq!(judge(false, ProbeShown { una: 100, ..ProbeShown::default() }), ProbeVerdict::Settled);
    }

    #[test]
    fn a_retransmission_is_settled_by_a_duplicate_and_repaired_by_what_lies_beyond() {
        let at = ProbeShown { una: 100, ..ProbeShown::default() };
        assert_eq!(judge(true, at), ProbeVerdict::Open, "the ACK may be for either");
        assert_eq!(judge(true, ProbeShown { duplicate_of_probe: true, ..at }), ProbeVerdict::Settled);
        assert_eq!(judge(true, ProbeShown { plain_duplicate: true, ..at }), ProbeVerdict::Settled);
        assert_eq!(judge(true, ProbeShown { una: 101, ..at }), ProbeVerdict::Repaired);
    }
}
