//! The E-model of ITU-T G.107 (06/2015) in narrowband, limited to the parameters that a network changes.
//!
//! All other parameters have their default values, so that the rating starts from 93.2. Echo is assumed to be
//! cancelled, so Idd is the only delay impairment that counts.

/// Rating with all parameters at their defaults: Ro - Is of G.107, section 7.
const DEFAULT_RATING: f64 = 93.2;

/// Idd: impairment by a one-way delay of `ms` milliseconds from mouth to ear (G.107, section 7.4, with
/// the sensitivity of the default conversation).
fn delay_impairment(ms: f64) -> f64 {
    if ms <= 100.0 {
        return 0.0;
    }
    let x = libm::log2(ms / 100.0);
    let root = |base: f64| libm::pow(1.0 + libm::pow(base, 6.0), 1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// Ie,eff: impairment by a codec and its losses, `loss` of `0.0..=1.0` (G.107, section 7.5). `burst_ratio` is
/// the mean length of bursts of losses over that of independent losses.
fn equipment_impairment(impairment: f64, loss_robustness: f64, loss: f64, burst_ratio: f64) -> f64 {
    let percent = 100.0 * loss;
    impairment + (95.0 - impairment) * percent / (percent / burst_ratio + loss_robustness)
}

/// MOS of a rating R (G.107, Annex B).
fn mos_of(rating: f64) -> f64 {
    match rating {
        ..=0.0 => 1.0,
        100.0.. => 4.5,
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// Ie of the codec.
    pub impairment: f64,
    /// Bpl of the codec.
    pub loss_robustness: f64,
    /// Share of the frames that are not played.
    pub loss: f64,
    /// Mean length of their bursts over that of independent losses.
    pub burst_ratio: f64,
    /// Delay from mouth to ear.
    pub delay_s: f64,
}

impl Heard {
    /// How much the delay lowers the rating R (Idd), and how much the codec and missing frames do (Ie,eff).
    pub fn impairments(self) -> (f64, f64) {
        let Self { impairment, loss_robustness, loss, burst_ratio, delay_s } = self;
        let equipment = equipment_impairment(impairment, loss_robustness, loss, burst_ratio);
        (delay_impairment(1e3 * delay_s), equipment)
    }

    /// The rating R.
    pub fn rating(self) -> f64 {
        let (delay, equipment) = self.impairments();
        DEFAULT_RATING - delay - equipment
    }

    /// Mean opinion score of the conversation.
    pub(super) fn mos(self) -> f64 {
        mos_of(self.rating())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, published: f64, within: f64) {
        assert!((value - published).abs() <= within, "{value} is not {published}");
    }

    #[test]
    fn the_default_rating_is_a_score_of_4_41() {
        near(mos_of(DEFAULT_RATING), 4.41, 0.005);
        let perfect =
            Heard { impairment: 0.0, loss_robustness: 25.1, loss: 0.0, burst_ratio: 1.0, delay_s: 0.1 };
        near(perfect.mos(), 4.41, 0.005);
    }

    /// G.107, Annex B, table B.1: lower limits of the categories of user satisfaction.
    #[test]
    fn ratings_have_the_scores_of_the_recommendation() {
        for (rating, mos) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            near(mos_of(rating), mos, 0.01);
        }
        assert!(mos_of(-3.0).to_bits() == 1f64.to_bits() && mos_of(2.0) >= 1.0, "never below 1");
        near(mos_of(100.0), 4.5, 1e-12);
    }

    /// By hand: X is 0, 1, 2 and 3, so that the roots are those of 1, 2, 65 and 730, and of those of X/3.
    #[test]
    fn delay_counts_from_100_ms_on() {
        for (ms, impairment) in [(0.0, 0.0), (100.0, 0.0), (200.0, 3.04), (400.0, 24.07), (800.0, 40.83)] {
            near(delay_impairment(ms), impairment, 0.02);
        }
        near(delay_impairment(150.0), 0.16, 0.01);
    }

    /// ITU-T G.113 (02/2001), Appendix I: G.711 with loss concealment under random loss of 2, 3, 5 and 7 %.
    #[test]
    fn losses_impair_g711_as_tabulated() {
        for (percent, impairment) in [(0.0, 0.0), (2.0, 7.0), (3.0, 10.0), (5.0, 15.0), (7.0, 20.0)] {
            near(equipment_impairment(0.0, 25.1, percent / 100.0, 1.0), impairment, 0.8);
        }
        assert!(
            equipment_impairment(0.0, 25.1, 0.1, 4.0) > equipment_impairment(0.0, 25.1, 0.1, 1.0),
            "bursts sound worse"
        );
    }
}
