//! A user's own congestion control: the adapter between the user's code and a stack.

use lasthop_core::{Failure, Instant, Rate};

use super::{Congestion, Controller, Moment, Prior, RateSample, Segments, Setup, Window};
use crate::algorithm::{Ack, CongestionAlgorithm, CongestionWindow, ControlSetup, Delivery, Sign};

/// The running algorithm, and the window that the stack sees.
#[derive(Debug)]
pub(crate) struct User {
    name: String,
    algorithm: Box<dyn CongestionAlgorithm>,
    segments: Segments,
    pacing_rate: Option<Rate>,
}

impl User {
    pub fn new(setup: Setup<'_>) -> Self {
        let code = setup.code.expect("a user's algorithm has code");
        let segments = setup.window;
        let start =
            CongestionWindow { window: segments.window(), ssthresh: segments.ssthresh(), pacing_rate: None };
        let own = ControlSetup { stream: setup.stream(), segment_bytes: setup.segment_bytes, start };
        let algorithm = code.make(own);
        Self { name: code.to_string(), algorithm, segments, pacing_rate: None }
    }

    /// Lets the algorithm decide, and checks its decisions.
    fn decide(&mut self, decision: impl FnOnce(&mut dyn CongestionAlgorithm, &mut CongestionWindow)) {
        let mut own = CongestionWindow {
            window: self.segments.window(),
            ssthresh: self.segments.ssthresh(),
            pacing_rate: self.pacing_rate,
        };
        decision(&mut *self.algorithm, &mut own);
        // The type of rates excludes zero.
        let did = match own.window {
            0 => Some("set a window of 0 segments, which would stop the sender; set at least 1"),
            u32::MAX => Some("set an infinite window; set the number of segments that may be in flight"),
            _ => None,
        };
        if let Some(did) = did {
            Failure::new(format!("{} {did}", self.name)).raise();
        }
        self.segments.set(own.window);
        self.segments.set_ssthresh(own.ssthresh);
        self.pacing_rate = own.pacing_rate;
    }
}

fn instant(at: &Moment) -> Instant {
    Instant::from_nanos(at.us * 1000)
}

impl Controller for User {
    in_segments!(segments);

    fn on_start(&mut self, at: &Moment, _: u64) {
        self.decide(|algorithm, own| algorithm.on_start(instant(at), own));
    }

    fn on_rtt(&mut self, at: &Moment, rtt_us: u64) {
        self.decide(|algorithm, own| algorithm.on_rtt(instant(at), rtt_us, own));
    }

    fn on_ack(&mut self, sample: &RateSample) {
        let delivery = sample.rate.map(|rate| Delivery {
            segments: rate.delivered,
            interval_us: rate.interval_us,
            is_app_limited: rate.is_app_limited,
        });
        let RateSample { at, acked, is_window_limited, .. } = *sample;
        let ack = Ack { now: instant(&at), acked, is_window_limited, delivery };
        self.decide(|algorithm, own| algorithm.on_ack(&ack, own));
    }

    fn on_congestion(&mut self, sign: Congestion, flight: u32) {
        let sign = match sign {
            Congestion::Loss => Sign::Loss,
            Congestion::Ecn => Sign::Ecn,
        };
        self.decide(|algorithm, own| algorithm.on_congestion(sign, flight, own));
    }

    fn on_spurious(&mut self, prior: Prior<u32>) {
        self.decide(|algorithm, own| algorithm.on_spurious(prior.window, prior.ssthresh, own));
    }

    fn on_timeout(&mut self, at: &Moment, flight: u32, window: u32) {
        self.decide(|algorithm, own| {
            own.window = window;
            algorithm.on_timeout(instant(at), flight, own);
        });
    }

    fn on_persistent(&mut self, at: &Moment, window: u32) {
        self.decide(|algorithm, own| {
            own.window = window;
            algorithm.on_repeated_timeout(instant(at), own);
        });
    }

    fn is_rate_based(&self) -> bool {
        self.algorithm.is_rate_based()
    }

    fn has_states(&self) -> bool {
        true
    }

    fn state_name(&self) -> Option<&'static str> {
        self.algorithm.state()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use lasthop_core::{Seed, UserCode, UserName};

    use super::*;
    use crate::config::{CongestionControl, Profile, TcpConfig};
    use crate::control::Counting;

    /// An algorithm that sets given values.
    #[derive(Debug)]
    struct Set(CongestionWindow);

    impl CongestionAlgorithm for Set {
        fn on_ack(&mut self, _ack: &Ack, own: &mut CongestionWindow) {
            *own = self.0;
        }

        fn on_congestion(&mut self, _sign: Sign, in_use: u32, own: &mut CongestionWindow) {
            own.ssthresh = in_use / 2;
        }
    }

    fn user(set: CongestionWindow) -> User {
        let name = UserName::try_from("rust:set".to_owned()).expect("a name");
        let code = UserCode::new(name, Arc::new(move |_| Box::new(Set(set)) as Box<dyn CongestionAlgorithm>));
        let stream = Seed { study: 1, replication: 1 }.stream("own");
        let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
        config.congestion_control = CongestionControl::User(Box::new(code));
        config.draws = stream.into();
        let window = Segments::new(&config, 1_460, Counting::Segments);
        User::new(Setup::new(&config, window, 250, 1_460))
    }

    fn ack(user: &mut User) {
        let at = Moment { us: 5, tick: 0, una: 0, nxt: 0 };
        user.on_ack(&RateSample { at, acked: 1, is_window_limited: true, rate: None });
    }

    #[test]
    fn the_stack_sees_what_the_algorithm_decides() {
        let rate = Some(Rate::from_bits_per_second(8_000));
        let mut user = user(CongestionWindow { window: 7, ssthresh: 5, pacing_rate: rate });
        ack(&mut user);
        assert_eq!((user.window(), user.ssthresh(), user.pacing_rate()), (7, 5, rate));
        user.state_mut().set(6);
        user.on_timeout(&Moment { us: 5, tick: 0, una: 0, nxt: 0 }, 6, 1);
        assert_eq!((user.window(), user.ssthresh()), (1, 3));
    }

    #[test]
    fn a_window_of_nothing_or_without_end_ends_the_run() {
        for (window, said) in [(0, "a window of 0 segments"), (u32::MAX, "an infinite window")] {
            let mut user = user(CongestionWindow { window, ssthresh: u32::MAX, pacing_rate: None });
            let payload = catch_unwind(AssertUnwindSafe(|| ack(&mut user))).expect_err("no window");
            let Failure { message, .. } = Failure::caught(payload);
            assert!(message.starts_with(&format!("rust:set set {said}")), "{message}");
        }
    }
}
