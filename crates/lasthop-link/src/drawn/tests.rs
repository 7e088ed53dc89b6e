use lasthop_core::{Distribution, Faults};

use super::*;
use crate::config::{Epochs, StateConfig, States, Walk};
use crate::testing::{SEED, studied_path};

const HOUR: Duration = Duration::from_secs(3_600);

fn mbit(rate: f64) -> Rate {
    Rate::from_bits_per_second((rate * 1e6) as u64)
}

fn drawn(course: &DrawnCourse, direction: Direction, seed: Seed, until: Duration) -> Timetable {
    assert_eq!(Faults::collect(|faults| course.check(faults)), []);
    let table = course.draw(&studied_path().link, direction, seed, until);
    // What is written is what was drawn.
    assert_eq!(Timetable::parse(&table.to_string()), Ok(table.clone()));
    table
}

fn starlink() -> Epochs {
    let ms = Duration::from_millis;
    Epochs {
        every: Duration::from_secs(15),
        start: Some(Distribution::Static(Duration::from_secs(12))),
        rate: Distribution::Uniform { min: mbit(50.0), max: mbit(150.0) },
        delay: Some(Distribution::Uniform { min: ms(15), max: ms(35) }),
        gap: Some(Distribution::Static(ms(70))),
    }
}

#[test]
fn epochs_begin_when_starlinks_do() {
    let table = drawn(&DrawnCourse::Epochs(starlink()), Direction::Down, SEED, Duration::from_secs(60));
    let rows: Vec<_> = table.rows().iter().map(|row| (row.at.as_nanos() / 1_000_000, row.rate)).collect();
    let times: Vec<u64> = rows.iter().map(|row| row.0).collect();
    assert_eq!(times, [0, 12_000, 12_070, 27_000, 27_070, 42_000, 42_070, 57_000, 57_070]);
    let is_up: Vec<bool> = rows.iter().map(|row| row.1.is_some()).collect();
    assert_eq!(is_up, [true, false, true, false, true, false, true, false, true]);
    let rates: Vec<_> = rows.iter().filter_map(|row| row.1).collect();
    assert!(rates.iter().all(|rate| (mbit(50.0)..=mbit(150.0)).contains(rate)));
    assert!(rates.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn directions_share_delays_and_gaps_but_no_rates() {
    let course = DrawnCourse::Epochs(Epochs {
        gap: Some(Distribution::Uniform { min: Duration::ZERO, max: Duration::from_millis(200) }),
        start: Some(Distribution::Uniform { min: Duration::ZERO, max: Duration::from_secs(15) }),
        ..starlink()
    });
    let [down, up] = [Direction::Down, Direction::Up].map(|way| drawn(&course, way, SEED, HOUR));
    let times = |table: &Timetable| table.rows().iter().map(|row| (row.at, row.delay)).collect::<Vec<_>>();
    assert_eq!(times(&down), times(&up));
    let equal =
        down.rows().iter().zip(up.rows()).filter(|(down, up)| down.rate.is_some() && down.rate == up.rate);
    assert_eq!(equal.count(), 0);
    let other = drawn(&course, Direction::Down, Seed { replication: 2, ..SEED }, HOUR);
    assert_ne!(other, down);
    assert_ne!(times(&other), times(&down));
}

#[test]
fn epochs_without_a_start_begin_with_the_run_and_without_a_gap() {
    let plain = Epochs { start: None, delay: None, ..starlink() };
    let table = drawn(&DrawnCourse::Epochs(plain.clone()), Direction::Up, SEED, Duration::from_secs(16));
    let times: Vec<_> = table.rows().iter().map(|row| row.at.as_nanos() / 1_000_000).collect();
    assert_eq!(times, [0, 15_000, 15_070]);
    assert_eq!(table.first_delay(), None);
    // A start of 0 states a reallocation, with its gap, at the start of the run.
    let at_once = Epochs { start: Some(Distribution::Static(Duration::ZERO)), ..plain };
    let table = drawn(&DrawnCourse::Epochs(at_once), Direction::Up, SEED, Duration::from_secs(16));
    let times: Vec<_> = table.rows().iter().map(|row| row.at.as_nanos() / 1_000_000).collect();
    assert_eq!(times, [0, 70, 15_000, 15_070]);
}

/// Theory: a stationary Ornstein-Uhlenbeck process has this mean and variance, and the correlation
/// exp(-t / time constant) at a distance of t. A mean over T has a variance of about 2 · variance · constant /
/// T, so over 50 hours with 5 s it is within 0.016 · 4 standard deviations.
#[test]
fn the_walk_has_the_moments_of_theory() {
    let (spread, constant, step) = (0.5, 5.0, 0.1);
    let walk = Walk {
        mean: mbit(20.0),
        spread,
        time_constant: Duration::from_secs(5),
        step: Duration::from_millis(100),
    };
    let table = drawn(&DrawnCourse::Walk(walk), Direction::Down, SEED, Duration::from_secs(50 * 3_600));
    let rates: Vec<f64> = table.rows().iter().map(|row| row.rate.unwrap().bits_per_second() as f64).collect();
    assert_eq!(rates.len(), 1_800_000);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let deviation = (2.0_f64 * constant / (50.0 * 3_600.0)).sqrt();
    assert!((mean(&rates) / 20e6 - 1.0).abs() < 4.0 * 0.55 * deviation, "{}", mean(&rates));
    let logs: Vec<f64> =
        rates.iter().map(|rate| libm::log(*rate) - (libm::log(20e6) - spread * spread / 2.0)).collect();
    assert!(mean(&logs).abs() < 4.0 * spread * deviation, "{}", mean(&logs));
    let products = |lag: usize| {
        let products: Vec<f64> = logs.iter().zip(&logs[lag..]).map(|(one, other)| one * other).collect();
        mean(&products)
    };
    let variance = products(0);
    assert!((variance / (spread * spread) - 1.0).abs() < 4.0 * deviation, "{variance}");
    for lag in [1, 10, 50, 100, 200] {
        let theory = libm::exp(-(lag as f64) * step / constant);
        let found = products(lag) / variance;
        assert!((found - theory).abs() < 4.0 * deviation, "{lag} steps: {found}, {theory}");
    }
    // Normal: the shares within one and two standard deviations.
    for (within, theory) in [(1.0, 0.6827), (2.0, 0.9545)] {
        let share = logs.iter().filter(|log| log.abs() < within * spread).count() as f64 / logs.len() as f64;
        assert!((share - theory).abs() < 0.01, "{share}");
    }
}

#[test]
fn a_walk_of_other_steps_is_the_same_process() {
    let variance = |millis| {
        let walk = Walk {
            mean: mbit(20.0),
            spread: 0.5,
            time_constant: Duration::from_secs(2),
            step: Duration::from_millis(millis),
        };
        let table = drawn(&DrawnCourse::Walk(walk), Direction::Up, SEED, HOUR * 10);
        let logs = table.rows().iter().map(|row| libm::log(row.rate.unwrap().bits_per_second() as f64));
        let logs: Vec<f64> = logs.collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        logs.iter().map(|log| (log - mean) * (log - mean)).sum::<f64>() / logs.len() as f64
    };
    for millis in [100, 500, 2_000] {
        assert!((variance(millis) / 0.25 - 1.0).abs() < 0.06, "{millis} ms: {}", variance(millis));
    }
}

fn state(rate: Option<f64>, mean_ms: u64, next: Option<&[f64]>) -> StateConfig {
    let next = next.map(<[f64]>::to_vec);
    StateConfig { rate: rate.map(mbit), delay: None, mean: Duration::from_millis(mean_ms), next }
}

/// Theory: the chain of visits has the shares v = v P, and a state its share of visits times its mean time.
/// Here P is 0, 3/4, 1/4 / 1, 0, 0 / 1/2, 1/2, 0, so v is 8 : 7 : 2, and the times 4, 1 and 0.5 s make it
/// 32 : 7 : 1.
#[test]
fn states_have_the_shares_of_theory() {
    let states = vec![
        state(Some(20.0), 4_000, Some(&[0.0, 3.0, 1.0])),
        state(Some(2.0), 1_000, Some(&[1.0, 0.0, 0.0])),
        state(None, 500, Some(&[0.5, 0.5, 0.0])),
    ];
    let table = drawn(&DrawnCourse::States(States { states }), Direction::Down, SEED, HOUR * 50);
    let mut seconds = [0.0; 3];
    for pair in table.rows().windows(2) {
        let which = match pair[0].rate {
            Some(rate) if rate == mbit(20.0) => 0,
            Some(_) => 1,
            None => 2,
        };
        seconds[which] += pair[1].at.as_secs_f64() - pair[0].at.as_secs_f64();
    }
    let total: f64 = seconds.iter().sum();
    for (seconds, theory) in seconds.iter().zip([32.0 / 40.0, 7.0 / 40.0, 1.0 / 40.0]) {
        let share = seconds / total;
        assert!((share / theory - 1.0).abs() < 0.05, "{share}, {theory}");
    }
}

#[test]
fn a_course_that_would_end_in_an_outage_ends_with_a_rate() {
    let states = vec![state(Some(1.0), 1, None), state(None, 100_000, None)];
    let course = DrawnCourse::States(States { states });
    let table = drawn(&course, Direction::Down, SEED, Duration::from_secs(1));
    assert!(table.rows().last().is_some_and(|row| row.rate.is_some()));
}

#[test]
fn courses_that_make_no_sense_are_refused() {
    let keys = |course: DrawnCourse| {
        let faults = Faults::collect(|faults| course.check(faults));
        faults.into_iter().map(|fault| fault.key).collect::<Vec<_>>()
    };
    let epochs = |change: fn(&mut Epochs)| {
        let mut epochs = starlink();
        change(&mut epochs);
        keys(DrawnCourse::Epochs(epochs))
    };
    assert_eq!(epochs(|epochs| epochs.every = Duration::ZERO), ["every"]);
    assert_eq!(epochs(|epochs| epochs.every = Duration::from_millis(70)), ["gap"]);
    let walk = |spread, constant, step| {
        let [time_constant, step] = [constant, step].map(Duration::from_millis);
        keys(DrawnCourse::Walk(Walk { mean: mbit(1.0), spread, time_constant, step }))
    };
    assert_eq!(walk(-0.1, 1_000, 100), ["spread"]);
    assert_eq!(walk(f64::NAN, 1_000, 100), ["spread"]);
    assert_eq!(walk(0.5, 1_000, 2_000), ["step"]);
    let states = |states| keys(DrawnCourse::States(States { states }));
    assert_eq!(states(vec![state(Some(1.0), 1, None)]), ["states"]);
    assert_eq!(states(vec![state(None, 1, None), state(None, 1, None)]), ["states"]);
    let own = state(Some(1.0), 1, Some(&[1.0, 0.0]));
    assert_eq!(states(vec![own, state(None, 1, None)]), ["states[0].next"]);
    let long = DrawnCourse::Walk(Walk {
        mean: mbit(1.0),
        spread: 0.1,
        time_constant: HOUR,
        step: Duration::from_millis(1),
    });
    assert_eq!(Faults::collect(|faults| long.check_length(HOUR, faults))[0].key, "step");
}
