//! Congestion control: what a stack tells an algorithm, and what it asks of it.
//!
//! A stack owns loss detection, recovery and timers; an algorithm owns the window. While a stack repairs losses or
//! limits bursts it shapes the window itself (`Controller::state_mut`), by rules of its own.

mod bandwidth;
mod bbr;
mod bbr3;
mod bytes;
mod cubic;
mod dctcp;
mod fq;
mod hystart;
mod ledbat;
#[cfg(test)]
mod paced;
mod pacer;
mod prague;
mod rate;
mod reno;
mod segments;
mod user;
mod vegas;
mod westwood;

use lasthop_core::{Duration, RandomStream, Rate, dispatched, forward};

use crate::clock::Tick;
use crate::common::State;
use crate::config::{CongestionControl, Draws, TcpConfig, UserControl};
use cubic::Cubic;
use hystart::HyStartPlusPlus;

pub(crate) use bytes::Bytes;
pub(crate) use cubic::Cubic23;
pub(crate) use fq::Fq;
pub(crate) use pacer::{Pacer, burst};
pub(crate) use rate::{DeliveryRate, LostSegment, Progress, RateSampler};
pub(crate) use reno::Reno;
pub(crate) use segments::{Counting, Segments};

/// When something happened, and what had been acknowledged and sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub us: u64,
    pub tick: Tick,
    pub una: u64,
    pub nxt: u64,
}

/// What one ACK says to congestion control (Linux: `rate_sample`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSample {
    pub at: Moment,
    /// Segments that have arrived, as far as is known from now on; 1 where the stack counts ACKs.
    pub acked: u32,
    /// The window was in use: only then may it grow (RFC 7661).
    pub is_window_limited: bool,
    /// How fast segments arrived; for algorithms that are rate-based, where the ACK tells.
    pub rate: Option<DeliveryRate>,
}

/// What one ACK says of the path, to an algorithm that models it (Linux: `cong_control`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathSample {
    pub ack: RateSample,
    /// Segments that this ACK shows to be lost.
    pub lost: u64,
    /// Segments that have arrived so far and those that were lost, and when something arrived last.
    pub total_delivered: u64,
    pub total_lost: u64,
    pub delivered_us: u64,
    /// Segments in flight, before this ACK and after it.
    pub in_flight_before: u32,
    pub in_flight: u32,
    /// How long pacing holds what comes next.
    pub wait: Duration,
    /// It reports a single segment that is not full: the receiver may have held it back.
    pub may_be_delayed: bool,
}

/// Any ACK, after what it acknowledges has been counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub at: Moment,
    /// It brings neither SACK blocks nor an ECN echo nor another window (Linux: header prediction).
    pub is_predicted: bool,
    /// Segments that have arrived, and those of them that were reported with an ECN echo.
    pub delivered: u64,
    pub delivered_ce: u64,
}

/// A sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    Loss,
    Ecn,
}

/// New data leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Before it does.
    pub at: Moment,
    /// Nothing was in flight; when data had left before.
    pub idle_since: Option<Tick>,
    /// There had been too little to send.
    pub is_app_limited: bool,
}

/// The window and the threshold before a reduction; 0 where there is nothing to restore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prior<A> {
    pub window: A,
    pub ssthresh: A,
}

/// A window in the unit of its stack, with the growth and the reduction of RFC 5681.
pub(crate) trait Window {
    /// Segments or bytes.
    type Amount: Copy;

    fn window(&self) -> Self::Amount;

    fn ssthresh(&self) -> Self::Amount;

    /// Slow start and congestion avoidance (RFC 5681, section 3.1).
    fn grow(&mut self, sample: &RateSample);

    /// ssthresh becomes half of `flight`, at least two segments (RFC 5681, equation 4).
    fn halve(&mut self, flight: Self::Amount);

    /// Takes a reduction back (RFC 4015, section 3.2).
    fn restore(&mut self, prior: Prior<Self::Amount>);

    /// Sends on from a window of this size.
    fn restart(&mut self, window: Self::Amount);
}

/// The window's amounts under a controller.
pub(crate) type Amount<C> = <<C as Controller>::Window as Window>::Amount;

/// An algorithm. What it does not say, it does as Reno.
pub(crate) trait Controller {
    type Window: Window;

    fn state(&self) -> &Self::Window;

    /// The window, for the rules of the stack that shape it.
    fn state_mut(&mut self) -> &mut Self::Window;

    /// The handshake is complete, in which `delivered` segments have arrived.
    fn on_start(&mut self, _at: &Moment, _delivered: u64) {}

    /// New data leaves.
    fn on_sent(&mut self, _sent: &Sent) {}

    /// A round-trip sample, before the ACK that brought it is looked at for losses.
    fn on_rtt(&mut self, _at: &Moment, _rtt_us: u64) {}

    /// The state changes.
    fn on_state(&mut self, _at: &Moment, _state: State) {}

    /// It wants to hear of every ACK, also while nothing is in flight.
    fn hears_every_ack(&self) -> bool {
        false
    }

    /// An ACK, for an algorithm that hears every one (Linux: `in_ack_event`).
    fn on_every_ack(&mut self, _ack: &Acked) {}

    /// An ACK that shows progress while nothing is being repaired; for a rate-based algorithm, any ACK.
    fn on_ack(&mut self, sample: &RateSample) {
        self.state_mut().grow(sample);
    }

    /// Any ACK, for an algorithm that is rate-based.
    fn on_path(&mut self, path: &PathSample) {
        self.on_ack(&path.ack);
    }

    /// It sends less than it might, to see the path empty: what arrives says little of the rate.
    fn holds_back(&self) -> bool {
        false
    }

    /// It wants to hear of every segment that is found lost.
    fn hears_losses(&self) -> bool {
        false
    }

    /// A segment was lost, for an algorithm that hears of every one. The ACK that shows it follows.
    fn on_segment_lost(&mut self, _lost: &LostSegment) {}

    /// A timeout: so many segments were lost so far. The state changes next.
    fn on_lost(&mut self, _total: u64) {}

    /// A sign of congestion, once per window of data: ssthresh falls, from what was in use. The stack brings the
    /// window down to it.
    fn on_congestion(&mut self, _sign: Congestion, flight: Amount<Self>) {
        self.state_mut().halve(flight);
    }

    /// A reduction is over: the window is ssthresh, unless it was undone.
    fn on_reduced(&mut self) {}

    /// The latest reduction was unnecessary.
    fn on_spurious(&mut self, prior: Prior<Amount<Self>>) {
        self.state_mut().restore(prior);
    }

    /// The first timeout of an episode; sending goes on with `window`.
    fn on_timeout(&mut self, at: &Moment, flight: Amount<Self>, window: Amount<Self>) {
        self.on_congestion(Congestion::Loss, flight);
        self.on_persistent(at, window);
    }

    /// What was sent after a timeout is lost too: ssthresh stays (RFC 5681, section 3.1).
    fn on_persistent(&mut self, _at: &Moment, window: Amount<Self>) {
        self.state_mut().restart(window);
    }

    /// It models the path: it gets delivery rates with every ACK, and sets its window also while the stack repairs
    /// losses (Linux: `cong_control`).
    fn is_rate_based(&self) -> bool {
        false
    }

    /// The rate at which data leaves at most; none if ACKs alone clock it.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Segments that leave together when paced, at least.
    fn burst_min(&self) -> u32 {
        2
    }

    /// Segments that leave together when paced, at most.
    fn burst_max(&self) -> u32 {
        u32::MAX
    }

    fn window(&self) -> Amount<Self> {
        self.state().window()
    }

    fn ssthresh(&self) -> Amount<Self> {
        self.state().ssthresh()
    }
}

/// What an algorithm is set up with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub window: Segments,
    /// Of the host's clock.
    pub ticks_per_second: u64,
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// Segments leave at a rate.
    pub is_paced: bool,
    /// A user's own algorithm.
    pub code: Option<&'a UserControl>,
    draws: &'a Draws,
}

impl<'a> Setup<'a> {
    /// For a window at the start.
    pub fn new(config: &'a TcpConfig, window: Segments, ticks_per_second: u64, segment_bytes: u32) -> Self {
        let code = match &config.congestion_control {
            CongestionControl::User(code) => Some(&**code),
            _ => None,
        };
        let (is_paced, draws) = (config.pacing.is_on(), &config.draws);
        Self { window, ticks_per_second, segment_bytes, is_paced, code, draws }
    }

    /// For an algorithm that draws numbers.
    pub fn stream(&self) -> RandomStream {
        self.draws.stream()
    }
}

/// An algorithm is kept in place, or in a box: a large one in place would make every sender as large.
macro_rules! stored {
    ($algorithm:ty) => {
        $algorithm
    };
    ($algorithm:ty, $boxed:ty) => {
        $boxed
    };
}

/// Makes the enum over the algorithms of Linux. After `=` stands which key asks for an algorithm, and perhaps which switch
/// must be on; the first that fits is taken.
macro_rules! algorithms {
    ($(
        $(#[cfg($when:meta)])? $name:ident($algorithm:ty $(, $boxed:ty)?) = $key:ident $(if $switch:ident)?,
    )*) => {
        dispatched! {
            each:
            /// The algorithm of a connection.
            #[derive(Debug)]
            pub(crate) enum Control {
                $($(#[cfg($when)])? $name(stored!($algorithm $(, $boxed)?)),)*
            }
        }

        impl Control {
            pub fn new(config: &TcpConfig, setup: Setup<'_>) -> Self {
                match &config.congestion_control {
                    $($(#[cfg($when)])? CongestionControl::$key { .. } $(if config.$switch)? => {
                        Self::$name(<$algorithm>::new(setup).into())
                    })*
                }
            }
        }
    };
}

impl Control {
    /// The peer does not count marks: Prague is Reno then, as that of Linux.
    pub fn do_without_counters(&mut self) {
        if let Self::Prague(prague) = self {
            *self = Self::Reno(Reno(*prague.state()));
        }
    }
}

algorithms! {
    RenoPlusPlus(HyStartPlusPlus<Reno<Segments>>) = Reno if hystart_plus_plus,
    CubicPlusPlus(HyStartPlusPlus<Cubic<false>>, Box<HyStartPlusPlus<Cubic<false>>>) = Cubic if hystart_plus_plus,
    Reno(Reno<Segments>) = Reno,
    Cubic(Cubic<true>) = Cubic,
    Vegas(vegas::Vegas) = Vegas,
    Westwood(westwood::Westwood) = Westwood,
    Dctcp(dctcp::Dctcp) = Dctcp,
    Bbr(bbr::Bbr, Box<bbr::Bbr>) = Bbr,
    Bbr3(bbr3::Bbr3, Box<bbr3::Bbr3>) = Bbr3,
    Prague(prague::Prague) = Prague,
    LedbatPlusPlus(ledbat::LedbatPlusPlus, Box<ledbat::LedbatPlusPlus>) = LedbatPlusPlus,
    User(user::User) = User,
    #[cfg(test)]
    Paced(paced::Paced) = Paced,
}

impl Controller for Control {
    type Window = Segments;

    forward! { each:
        fn state(&self) -> &Segments;
        fn state_mut(&mut self) -> &mut Segments;
        fn on_start(&mut self, at: &Moment, delivered: u64);
        fn on_sent(&mut self, sent: &Sent);
        fn on_rtt(&mut self, at: &Moment, rtt_us: u64);
        fn on_state(&mut self, at: &Moment, state: State);
        fn hears_every_ack(&self) -> bool;
        fn on_every_ack(&mut self, ack: &Acked);
        fn on_reduced(&mut self);
        fn on_ack(&mut self, sample: &RateSample);
        fn on_path(&mut self, path: &PathSample);
        fn holds_back(&self) -> bool;
        fn hears_losses(&self) -> bool;
        fn on_segment_lost(&mut self, lost: &LostSegment);
        fn on_lost(&mut self, total: u64);
        fn on_congestion(&mut self, sign: Congestion, flight: u32);
        fn on_spurious(&mut self, prior: Prior<u32>);
        fn on_timeout(&mut self, at: &Moment, flight: u32, window: u32);
        fn on_persistent(&mut self, at: &Moment, window: u32);
        fn is_rate_based(&self) -> bool;
        fn pacing_rate(&self) -> Option<Rate>;
        fn burst_min(&self) -> u32;
        fn burst_max(&self) -> u32;
    }
}
