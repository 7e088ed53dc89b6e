use super::*;

/// The largest root whose cube is at most `a`.
fn exact_root(a: u64) -> u64 {
    let bits = (0..21).rev().map(|bit| 1_u64 << bit);
    bits.fold(0, |root, bit| if (root | bit).pow(3) <= a { root | bit } else { root })
}

#[test]
fn cube_roots_are_those_of_linux() {
    // By hand from `cubic_root`: 64 has 7 bits, so shift = (7 * 84 >> 8) - 1 = 1 and 64 >> 3 = 8; the estimate is
    // (123 + 10 << 1) >> 6 = 4, and Newton's step gives (2 * 4 + 64 / (4 * 3)) * 341 >> 10 = 4.
    // Below 64, the table is rounded: (54 + 35) >> 6 = 1, (254 + 35) >> 6 = 4.
    for (cube, root) in [(0, 0), (1, 1), (63, 4), (64, 4)] {
        assert_eq!(cube_root(cube), root, "{cube}");
    }
}

#[test]
fn cube_roots_are_slightly_off() {
    let mut total = 0;
    for segments in 1..=10_000_u64 {
        let cube = segments * ((1 << 40) / SCALED_C);
        let exact = exact_root(cube);
        // In units of 0.001 %.
        let error = cube_root(cube).abs_diff(exact) * 100_000 / exact;
        assert!(error < 200, "{segments} segments: {error}");
        total += error;
    }
    assert_eq!(total / 10_000, 24, "a mean of 0.025 %");
}
