use super::*;

/// Ticks of 10 ms: minimum 200 ms, initial 3 s, maximum 120 s.
fn estimator() -> Linux2RttEstimator {
    Linux2RttEstimator::new(20, 300, 12_000)
}

#[test]
fn timeout_is_initial_before_the_first_sample() {
    let rtt = estimator();
    assert_eq!((rtt.rto(), rtt.has_sample()), (300, false));
}

#[test]
fn first_sample_gives_three_round_trips() {
    let mut rtt = estimator();
    rtt.sample(60, 0, 1);
    assert_eq!((rtt.srtt_8(), rtt.mdev_4(), rtt.rto()), (480, 120, 180));
}

#[test]
fn variance_term_has_a_floor() {
    let mut rtt = estimator();
    rtt.sample(4, 0, 1);
    assert_eq!(rtt.rto(), 4 + 20);
}

#[test]
fn sample_below_a_tick_counts_as_one() {
    let mut rtt = estimator();
    rtt.sample(0, 0, 1);
    assert_eq!((rtt.srtt_8(), rtt.rto()), (8, 21));
}

#[test]
fn gains_are_an_eighth_and_a_quarter() {
    let mut rtt = estimator();
    rtt.sample(60, 0, 1);
    rtt.sample(100, 0, 1);
    // error 40: srtt 60 + 5; deviation 30 + (40 - 30) / 4, kept times 4.
    assert_eq!((rtt.srtt_8(), rtt.mdev_4()), (520, 130));
    assert_eq!(rtt.rto(), 65 + 130);
}

#[test]
fn sample_far_below_counts_with_a_thirty_second() {
    let mut rtt = estimator();
    rtt.sample(100, 0, 1);
    for _ in 0..8 {
        rtt.sample(100, 0, 1);
    }
    let before = rtt.mdev_4();
    assert_eq!(before, 21, "200 less a quarter of itself eight times, rounded in integers");
    // error -80, deviation 5: the change of 75 is divided by 8 once more.
    rtt.sample(20, 0, 1);
    assert_eq!(rtt.mdev_4() - before, 75 >> 3);
}

#[test]
fn sample_as_far_above_counts_in_full() {
    let mut rtt = estimator();
    for _ in 0..9 {
        rtt.sample(100, 0, 1);
    }
    let before = rtt.mdev_4();
    rtt.sample(180, 0, 1);
    assert_eq!(rtt.mdev_4() - before, 75);
}

#[test]
fn variance_falls_once_per_window_and_rises_at_once() {
    let mut rtt = estimator();
    // The window ends at 10.
    rtt.sample(60, 0, 10);
    assert_eq!(rtt.rto(), 60 + 120);
    for una in 1..=10 {
        rtt.sample(60, una, 20);
    }
    assert_eq!(rtt.rto(), 60 + 120, "the window is not over");
    // Beyond 10: a quarter of the way to the largest deviation of that window, 120 itself.
    rtt.sample(60, 11, 20);
    assert_eq!(rtt.rto(), 60 + 120);
    // The next window saw nothing above the floor of 20.
    rtt.sample(60, 21, 30);
    assert_eq!(rtt.rto(), 60 + 120 - (120 - 20) / 4);
    rtt.sample(60, 22, 30);
    assert_eq!(rtt.rto(), 60 + 95, "once per window");
    rtt.sample(260, 23, 30);
    assert_eq!(rtt.rto(), 85 + rtt.mdev_4().unsigned_abs());
}

#[test]
fn back_off_doubles_up_to_the_maximum() {
    let mut rtt = estimator();
    rtt.sample(60, 0, 1);
    let timeouts: Vec<Tick> = (0..8)
        .map(|_| {
            rtt.back_off();
            rtt.rto()
        })
        .collect();
    assert_eq!(timeouts, [360, 720, 1_440, 2_880, 5_760, 11_520, 12_000, 12_000]);
    rtt.sample(60, 0, 1);
    assert_eq!(rtt.rto(), 180, "a sample ends the back-off");
}

#[test]
fn cached_values_count_where_they_are_larger() {
    let mut rtt = estimator();
    rtt.sample(60, 0, 1);
    rtt.raise(400, 100);
    assert_eq!(rtt.rto(), 180);
    rtt.raise(800, 200);
    assert_eq!((rtt.srtt_8(), rtt.rto()), (800, 100 + 200));
}

#[test]
fn forgetting_brings_the_initial_timeout_back() {
    let mut rtt = estimator();
    rtt.sample(60, 0, 1);
    rtt.forget();
    assert_eq!((rtt.rto(), rtt.has_sample()), (300, false));
}
