//! Congestion control: the interface between a stack and an algorithm.
//!
//! A stack owns loss detection, recovery and timers; an algorithm owns the window. While a stack repairs
//! losses or limits bursts, it sets the window itself (`Controller::state_mut`), by its own rules.

/// The window of an algorithm that counts segments, a field of it.
macro_rules! in_segments {
    ($window:ident) => {
        type Window = Segments;

        fn state(&self) -> &Segments {
            &self.$window
        }

        fn state_mut(&mut self) -> &mut Segments {
            &mut self.$window
        }
    };
}

mod bandwidth;
mod bbr;
mod bbr3;
mod bic;
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

use lasthop_core::{Duration, EcnOption, RandomStream, Rate, Segment, dispatched, forward};

use crate::algorithm::UserControl;
use crate::clock::Tick;
use crate::common::State;
use crate::config::{CongestionControl, Draws, Pacing, PragueVersion, TcpConfig};
use cubic::Cubic;
use hystart::HyStartPlusPlus;

pub(crate) use bytes::Bytes;
pub(crate) use cubic::Cubic23;
pub(crate) use fq::Fq;
pub(crate) use pacer::{Pacer, burst};
pub(crate) use rate::{DeliveryRate, LostSegment, Progress, RateSampler};
pub(crate) use reno::Reno;
pub(crate) use segments::{Counting, Segments};

/// The time of an event, and the positions that had been acknowledged and sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub us: u64,
    pub tick: Tick,
    pub una: u64,
    pub nxt: u64,
}

/// The information in one ACK for congestion control (Linux: `rate_sample`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSample {
    pub at: Moment,
    /// Segments that have newly arrived according to this ACK; 1 if the stack counts ACKs.
    pub acked: u32,
    /// True if the window was in use: only then may it grow (RFC 7661).
    pub is_window_limited: bool,
    /// For rate-based algorithms: the delivery rate, if the ACK gives one.
    pub rate: Option<DeliveryRate>,
}

/// The information in one ACK for an algorithm that models the path (Linux: `cong_control`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathSample {
    pub ack: RateSample,
    /// Segments that this ACK shows to be lost.
    pub lost: u64,
    /// Segments that have arrived and that were lost so far, and the time of the last arrival.
    pub total_delivered: u64,
    pub total_lost: u64,
    pub delivered_us: u64,
    /// Segments in flight, before this ACK and after it.
    pub in_flight_before: u32,
    pub in_flight: u32,
    /// How long pacing delays the next segment.
    pub wait: Duration,
    /// True if it reports a single segment that is not full: the receiver may have delayed this ACK.
    pub may_be_delayed: bool,
}

/// Any ACK, after what it acknowledges has been counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub at: Moment,
    /// True if it has no SACK blocks, no ECN echo and no new window (Linux: header prediction).
    pub is_predicted: bool,
    /// Segments acknowledged in order; none if no segment was outstanding.
    pub acknowledged: Option<u32>,
    /// Segments that have arrived, and those of them that were reported with an ECN echo.
    pub delivered: u64,
    pub delivered_ce: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    Loss,
    Ecn,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Before it does.
    pub at: Moment,
    /// True if nothing was in flight; with the time of the previous transmission.
    pub idle_since: Option<Tick>,
    /// True if there had been too little to send.
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

    /// Undoes a reduction (RFC 4015, section 3.2).
    fn restore(&mut self, prior: Prior<Self::Amount>);

    /// Continues with a window of this size.
    fn restart(&mut self, window: Self::Amount);
}

/// The window's amounts under a controller.
pub(crate) type Amount<C> = <<C as Controller>::Window as Window>::Amount;

/// An algorithm. The default methods are those of Reno.
pub(crate) trait Controller {
    type Window: Window;

    fn state(&self) -> &Self::Window;

    /// The window, for the rules of the stack.
    fn state_mut(&mut self) -> &mut Self::Window;

    /// The handshake is complete, in which `delivered` segments have arrived.
    fn on_start(&mut self, _at: &Moment, _delivered: u64) {}

    fn on_sent(&mut self, _sent: &Sent) {}

    /// A round-trip sample, before its ACK is checked for losses.
    fn on_rtt(&mut self, _at: &Moment, _rtt_us: u64) {}

    fn on_state(&mut self, _at: &Moment, _state: State) {}

    /// True if it must be informed of every ACK, even while nothing is in flight.
    fn hears_every_ack(&self) -> bool {
        false
    }

    /// An ACK, for an algorithm that is informed of every one (Linux: `in_ack_event`).
    fn on_every_ack(&mut self, _ack: &Acked) {}

    /// An ACK that shows progress while nothing is being repaired; for a rate-based algorithm, any ACK.
    fn on_ack(&mut self, sample: &RateSample) {
        self.state_mut().grow(sample);
    }

    /// Any ACK, for an algorithm that is rate-based.
    fn on_path(&mut self, path: &PathSample) {
        self.on_ack(&path.ack);
    }

    /// True if it sends less than it could, to measure the empty path: delivery rates are then not
    /// significant.
    fn holds_back(&self) -> bool {
        false
    }

    /// True if it must be informed of every lost segment.
    fn hears_losses(&self) -> bool {
        false
    }

    /// A segment was lost, for an algorithm that is informed of every one. The ACK that shows the loss
    /// follows.
    fn on_segment_lost(&mut self, _lost: &LostSegment) {}

    /// A timeout, with the number of segments lost so far. The change of state follows.
    fn on_lost(&mut self, _total: u64) {}

    /// A sign of congestion, once per window of data: ssthresh is computed from the used window. The stack
    /// reduces the window to it.
    fn on_congestion(&mut self, _sign: Congestion, flight: Amount<Self>) {
        self.state_mut().halve(flight);
    }

    /// A reduction is over: the window is ssthresh, unless it was undone.
    fn on_reduced(&mut self) {}

    /// The latest reduction was unnecessary.
    fn on_spurious(&mut self, prior: Prior<Amount<Self>>) {
        self.state_mut().restore(prior);
    }

    /// The first timeout of an episode; sending continues with `window`.
    fn on_timeout(&mut self, at: &Moment, flight: Amount<Self>, window: Amount<Self>) {
        self.on_congestion(Congestion::Loss, flight);
        self.on_persistent(at, window);
    }

    /// Data sent after a timeout is lost, too: ssthresh stays (RFC 5681, section 3.1).
    fn on_persistent(&mut self, _at: &Moment, window: Amount<Self>) {
        self.state_mut().restart(window);
    }

    /// True if it models the path: it gets a delivery rate with every ACK, and also sets its window while the
    /// stack repairs losses (Linux: `cong_control`).
    fn is_rate_based(&self) -> bool {
        false
    }

    /// True if the window also grows while pacing holds data back.
    fn grows_while_paced(&self) -> bool {
        false
    }

    /// The maximum sending rate; none if only ACKs clock the data.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// True if it is a state machine whose states have names.
    fn has_states(&self) -> bool {
        false
    }

    /// The name of its state, if it has one now.
    fn state_name(&self) -> Option<&'static str> {
        None
    }

    /// Minimum number of segments that leave together when paced.
    fn burst_min(&self) -> u32 {
        2
    }

    /// Maximum number of segments that leave together when paced.
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

/// Constant properties of an algorithm, which a stack queries once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nature {
    pub is_rate_based: bool,
    pub hears_every_ack: bool,
    pub hears_losses: bool,
}

impl Nature {
    pub fn of(algorithm: &impl Controller) -> Self {
        Self {
            is_rate_based: algorithm.is_rate_based(),
            hears_every_ack: algorithm.hears_every_ack(),
            hears_losses: algorithm.hears_losses(),
        }
    }
}

/// The setup of an algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub window: Segments,
    /// Tick of the host's clock.
    pub ticks_per_second: u64,
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// The same with its headers (`tcp_mss_to_mtu`).
    pub packet_bytes: u32,
    pub pacing: Pacing,
    pub prague: PragueVersion,
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
        let (pacing, prague, draws) = (config.pacing, config.prague_version, &config.draws);
        let stamps = if config.timestamps { Segment::TIMESTAMPS_BYTES } else { 0 };
        let counters = if config.accurate_ecn_option { EcnOption::BYTES } else { 0 };
        let packet_bytes = segment_bytes + Segment::BASE_HEADER_BYTES + stamps + counters;
        Self { window, ticks_per_second, segment_bytes, packet_bytes, pacing, prague, code, draws }
    }

    /// For an algorithm that draws numbers.
    pub fn stream(&self) -> RandomStream {
        self.draws.stream()
    }
}

/// How an algorithm is stored: in place or in a box. A large algorithm in place would enlarge every sender.
macro_rules! stored {
    ($algorithm:ty) => {
        $algorithm
    };
    ($algorithm:ty, $boxed:ty) => {
        $boxed
    };
}

/// Defines the enum of the algorithms of Linux, which forwards every call. After `=` follow the key that
/// selects the algorithm and the switch that must be on; the first match is taken.
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
    /// Falls back to Reno if the peer does not count marks, like Linux' Prague.
    pub fn do_without_counters(&mut self) {
        if let Self::Prague(prague) = self {
            *self = Self::Reno(Reno(*prague.state()));
        }
    }
}

algorithms! {
    RenoPlusPlus(HyStartPlusPlus<Reno<Segments>>) = Reno if hystart_plus_plus,
    CubicPlusPlus(HyStartPlusPlus<Cubic<false>>, Box<HyStartPlusPlus<Cubic<false>>>)
        = Cubic if hystart_plus_plus,
    Reno(Reno<Segments>) = Reno,
    Cubic(Cubic<true>) = Cubic,
    Vegas(vegas::Vegas) = Vegas,
    Westwood(westwood::Westwood) = Westwood,
    Bic(bic::Bic) = Bic,
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
        fn grows_while_paced(&self) -> bool;
        fn pacing_rate(&self) -> Option<Rate>;
        fn has_states(&self) -> bool;
        fn state_name(&self) -> Option<&'static str>;
        fn burst_min(&self) -> u32;
        fn burst_max(&self) -> u32;
    }
}
