//! An episode of retransmissions, and the evidence that may later prove it unnecessary (RFC 3522, RFC 3708).

use crate::clock::Tick;

/// The reduction that may be undone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episode {
    /// `snd_una` when it began; none if nothing can be undone.
    pub marker: Option<u64>,
    /// Retransmissions that no D-SACK block has reported yet.
    pub retransmissions: i64,
    /// Timestamp of the first retransmission.
    pub stamp: Option<Tick>,
    /// The ssthresh to restore; 0 if it must not change.
    pub prior_ssthresh: u32,
    /// The window to restore.
    pub prior_cwnd: u32,
}

impl Episode {
    /// Notes a retransmission that left at `stamp`.
    pub fn note_retransmission(&mut self, stamp: Tick) {
        self.stamp.get_or_insert(stamp);
        self.retransmissions += 1;
    }

    /// True if a segment that ends at `end` was sent in this episode.
    pub fn covers(&self, end: u64) -> bool {
        self.marker.is_some_and(|marker| end > marker)
    }

    /// True once D-SACK has reported every retransmission.
    pub fn all_reported(&self) -> bool {
        self.marker.is_some() && self.retransmissions == 0
    }

    /// True if the segment that `echo` answers was sent before the first retransmission, so that it is an
    /// original.
    pub fn is_older(&self, echo: Option<Tick>) -> bool {
        echo.zip(self.stamp).is_some_and(|(echo, stamp)| echo < stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_from_before_the_first_retransmission_is_of_an_original() {
        let mut episode = Episode { marker: Some(100), ..Episode::default() };
        assert!(!episode.is_older(Some(4)), "nothing was sent again");
        episode.note_retransmission(5);
        episode.note_retransmission(9);
        assert!(episode.is_older(Some(4)));
        assert!(!episode.is_older(Some(5)));
        assert!(!episode.is_older(None));
    }

    #[test]
    fn all_is_reported_when_as_many_duplicates_came_as_retransmissions_left() {
        let mut episode = Episode { marker: Some(100), ..Episode::default() };
        episode.note_retransmission(5);
        episode.note_retransmission(6);
        episode.retransmissions -= 1;
        assert!(!episode.all_reported());
        episode.retransmissions -= 1;
        assert!(episode.all_reported());
        episode.marker = None;
        assert!(!episode.all_reported(), "nothing is to be undone");
    }

    #[test]
    fn covers_what_ends_beyond_its_start() {
        let episode = Episode { marker: Some(100), ..Episode::default() };
        assert!(episode.covers(101) && !episode.covers(100));
        assert!(!Episode::default().covers(101));
    }
}
