//! Fairness among flows at the bottleneck.

/// Jain, Chiu and Hawe (1984): (sum x)^2 / (n sum x^2); `None` without values or if all are 0.
pub(crate) fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// Max-min fair shares of `capacity`: no flow gets more than `offered`, and the others share evenly the
/// capacity that a flow leaves (Bertsekas and Gallager 1992, section 6.5.2). In the order of `offered`.
pub(super) fn max_min_shares(offered: &[f64], capacity: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..offered.len()).collect();
    order.sort_by(|&a, &b| offered[a].total_cmp(&offered[b]));
    let mut shares = vec![0.0; offered.len()];
    let mut left = capacity;
    for (given, &index) in order.iter().enumerate() {
        let even = left / (offered.len() - given) as f64;
        shares[index] = offered[index].min(even);
        left -= shares[index];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_small_flow_leaves_the_others_share() {
        assert_eq!(max_min_shares(&[2.0, 10.0, 4.0, 10.0], 16.0), [2.0, 5.0, 4.0, 5.0]);
        assert_eq!(max_min_shares(&[1.0, 2.0], 16.0), [1.0, 2.0], "enough for all");
        assert_eq!(max_min_shares(&[8.0, 8.0], 6.0), [3.0, 3.0]);
        assert_eq!(max_min_shares(&[], 6.0), [0.0; 0]);
    }

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_a_monopoly() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[0.0, 5.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }

    proptest! {
        #[test]
        fn shares_use_the_capacity_and_who_gets_less_than_asked_has_no_richer_neighbour(
            offered in prop::collection::vec(0.0..100.0_f64, 1..20),
            capacity in 0.0..1000.0_f64,
        ) {
            let shares = max_min_shares(&offered, capacity);
            let total: f64 = shares.iter().sum();
            prop_assert!((total - capacity.min(offered.iter().sum())).abs() < 1e-6);
            let most = shares.iter().copied().fold(0.0, f64::max);
            for (share, asked) in shares.iter().zip(&offered) {
                prop_assert!(*share <= *asked);
                prop_assert!(*share >= asked - 1e-9 || *share > most - 1e-9);
            }
        }
    }
}
