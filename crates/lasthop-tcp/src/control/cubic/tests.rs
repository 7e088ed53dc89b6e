use super::*;

#[test]
fn cube_roots_are_exact() {
    for root in [0_u64, 1, 2, 3, 10, 999, 1_000, 65_535, 2_000_000] {
        assert_eq!(cube_root(root.pow(3)), root);
        assert_eq!(cube_root((root + 1).pow(3) - 1), root);
    }
}
