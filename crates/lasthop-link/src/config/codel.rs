//! What a scenario says about CoDel, and what of it is impossible.

use lasthop_core::Duration;

use super::{Discipline, Faults, QueueConfig};

/// A CoDel queue's parameters, by the names of RFC 8289.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoDelConfig {
    pub(crate) target: Duration,
    pub(crate) interval: Duration,
    pub(crate) ecn: bool,
}

impl QueueConfig {
    /// The parameters, with the values that RFC 8289 recommends (sections 4.2 and 4.3) for those that are not stated.
    pub(crate) fn codel(&self) -> CoDelConfig {
        CoDelConfig {
            target: self.target.unwrap_or(Duration::from_millis(5)),
            interval: self.interval.unwrap_or(Duration::from_millis(100)),
            ecn: self.ecn,
        }
    }

    pub(super) fn validate_codel(&self, faults: &mut Faults, place: &str) {
        let is_codel = self.discipline == Discipline::Codel;
        let stated =
            [("target", self.target.is_some()), ("interval", self.interval.is_some()), ("ecn", self.ecn)];
        for (key, stated) in stated {
            faults.check(is_codel || !stated, format!("{place}.{key}"), || {
                let red = if key == "ecn" { "; RED's is red.ecn" } else { "" };
                format!("belongs to CoDel{red}; leave it out, or add discipline = \"codel\"")
            });
        }
        if !is_codel {
            return;
        }
        faults.check(self.red.is_none(), format!("{place}.red"), || {
            "CoDel stands in place of RED; leave out this table, or discipline = \"codel\"".into()
        });
        let CoDelConfig { target, interval, .. } = self.codel();
        faults.check(!target.is_zero(), format!("{place}.target"), || {
            "must be above zero: \"5 ms\", say, or the time that a packet takes on a slower link".into()
        });
        faults.check(interval > target, format!("{place}.interval"), || {
            format!("\"{interval}\" must be above target = \"{target}\": a round-trip time, \"100 ms\" say")
        });
    }
}
