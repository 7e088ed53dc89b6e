//! The least or the greatest value of a sliding window, from its best, second and third best samples (after
//! Kathleen Nichols; Linux: `win_minmax.c`).

/// The least value. A sample consists of its time and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Minimum([(u64, u64); 3]);

impl Minimum {
    /// As if this had been sampled at time 0.
    pub fn new(value: u64) -> Self {
        Self([(0, value); 3])
    }

    pub fn get(&self) -> u64 {
        self.0[0].1
    }

    /// Adds a sample, and forgets samples older than `window`.
    pub fn take(&mut self, window: u64, now: u64, value: u64) {
        let sample = (now, value);
        let [first, second, third] = &mut self.0;
        if value <= first.1 || now - third.0 > window {
            self.0 = [sample; 3];
            return;
        }
        if value <= second.1 {
            (*second, *third) = (sample, sample);
        } else if value <= third.1 {
            *third = sample;
        }
        let age = now - first.0;
        if age > window {
            (*first, *second, *third) = (*second, *third, sample);
            if now - first.0 > window {
                (*first, *second, *third) = (*second, *third, sample);
            }
        } else if second.0 == first.0 && age > window / 4 {
            (*second, *third) = (sample, sample);
        } else if third.0 == second.0 && age > window / 2 {
            *third = sample;
        }
    }
}

/// The greatest value: the least of what is missing to the greatest number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maximum(Minimum);

impl Maximum {
    /// As if this had been sampled at time 0.
    pub fn new(value: u64) -> Self {
        Self(Minimum::new(!value))
    }

    pub fn get(&self) -> u64 {
        !self.0.get()
    }

    /// Adds a sample, and forgets samples older than `window`.
    pub fn take(&mut self, window: u64, now: u64, value: u64) {
        self.0.take(window, now, !value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_value_lasts_for_a_window_and_the_next_best_follows() {
        let mut greatest = Maximum::new(0);
        let mut after = |now, value| {
            greatest.take(10, now, value);
            greatest.get()
        };
        assert_eq!([after(1, 50), after(2, 90), after(3, 60)], [50, 90, 90]);
        // 70 comes after a quarter of the window, 65 after half of it.
        assert_eq!([after(5, 70), after(8, 65), after(12, 40)], [90, 90, 90]);
        assert_eq!(after(13, 30), 70, "90 is eleven old");
        assert_eq!(after(16, 20), 65);
        assert_eq!(after(40, 10), 10, "all are old");
    }

    #[test]
    fn a_lower_value_is_the_least_at_once() {
        let mut least = Minimum::new(u64::MAX);
        least.take(10, 1, 7);
        least.take(10, 2, 5);
        assert_eq!(least.get(), 5);
        least.take(10, 3, 9);
        assert_eq!(least.get(), 5);
    }
}
