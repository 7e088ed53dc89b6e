//! The peer's counters of bytes, from the option of accurate ECN (RFC 9768, section 3.2.3).

use lasthop_core::EcnOption;

/// The place of CE in order 1.
const CE: usize = 1;

/// The latest counters of the peer's options, in order 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerEcnBytes {
    counts: [u32; EcnOption::FIELDS_MAX as usize],
    /// The counter that grew last: what an ACK without the option is taken for.
    estimate: Option<usize>,
}

impl Default for PeerEcnBytes {
    fn default() -> Self {
        Self { counts: EcnOption::FIRST, estimate: None }
    }
}

impl PeerEcnBytes {
    /// Reads the option of an ACK that shows the arrival of `delivered` bytes. Returns the bytes that came
    /// with a mark; `None` if that is unknown (`tcp_accecn_process_option`).
    pub fn read(&mut self, option: Option<&EcnOption>, delivered: u64) -> Option<u64> {
        let Some(option) = option else {
            let place = self.estimate?;
            self.counts[place] = (self.counts[place] + delivered as u32) % EcnOption::SIZE;
            return Some(if place == CE { delivered } else { 0 });
        };
        let before = self.estimate;
        let (mut has_grown, mut is_clear) = (false, before.is_some());
        let mut marked = 0;
        let counters = option.in_order_1();
        for place in option.places() {
            let delta = (counters[place] + EcnOption::SIZE - self.counts[place]) % EcnOption::SIZE;
            self.counts[place] = counters[place];
            if place == CE {
                marked = delta;
            }
            let is_other = delta > 0 && before != Some(place);
            let is_second = is_other && std::mem::replace(&mut has_grown, true);
            if is_second || delta >= EcnOption::SIZE / 2 {
                is_clear = false;
                self.estimate = None;
            } else if is_other {
                self.estimate = Some(place);
            }
        }
        is_clear.then_some(marked.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(counts: [u32; 3]) -> EcnOption {
        EcnOption { fields: 3, is_order_1: true, counts }
    }

    #[test]
    fn the_marked_bytes_are_those_since_the_last_option() {
        let mut bytes = PeerEcnBytes::default();
        assert_eq!(bytes.read(Some(&option([1, 0, 1001])), 1000), None, "the first counter to grow");
        assert_eq!(bytes.read(Some(&option([1, 3000, 2001])), 4000), Some(3000));
        assert_eq!(bytes.read(None, 1000), Some(1000), "as the last one: marked");
        assert_eq!(bytes.read(Some(&option([1, 4000, 2501])), 500), Some(0));
    }

    #[test]
    fn both_orders_tell_the_same() {
        let mut bytes = PeerEcnBytes::default();
        let order_0 = |ect_0, ce| EcnOption { fields: 2, is_order_1: false, counts: [ect_0, ce, 0] };
        assert_eq!(bytes.read(Some(&order_0(1001, 0)), 1000), None);
        assert_eq!(bytes.read(Some(&order_0(2001, 500)), 1500), Some(500));
        assert_eq!(bytes.read(Some(&option([1, 700, 2001])), 200), Some(200));
        assert_eq!(bytes.read(Some(&option([901, 800, 2001])), 1000), Some(100), "one new counter");
        assert_eq!(bytes.read(Some(&option([901, 900, 2101])), 200), None, "two");
    }

    #[test]
    fn counters_wrap_and_do_not_run_backwards() {
        let mut bytes = PeerEcnBytes::default();
        bytes.read(Some(&option([1, EcnOption::SIZE / 2 - 1, 1])), 0);
        bytes.read(Some(&option([1, EcnOption::SIZE - 5, 1])), 0);
        assert_eq!(bytes.read(Some(&option([1, 5, 1])), 10), Some(10), "modulo 2^24");
        assert_eq!(bytes.read(Some(&option([1, 4, 1])), 10), None, "an old ACK");
    }
}
