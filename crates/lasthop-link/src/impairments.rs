//! Impairments of single packets after they are sent: loss, jitter, corruption, duplication. Each impairment
//! has its own random stream for each direction, and draws for every packet, so that switching one on does
//! not change the others.

use lasthop_core::dist::Sampler;
use lasthop_core::{Direction, Duration, Instant, Probability, RandomStream, Seed};

use crate::algorithm::{ErrorAlgorithm, ErrorSetup};
use crate::chance::Chance;
use crate::config::{CourseConfig, GilbertElliott, LinkConfig};
use crate::errors::LinkState;
use crate::slots::Slots;
use crate::timetable::{Row, Timetable};

#[cfg(test)]
mod tests;

#[derive(Debug)]
pub(crate) struct Impairments {
    loss: Option<(Loss, RandomStream)>,
    jitter: Option<(Sampler<Duration>, RandomStream)>,
    corruption: Option<(Probability, RandomStream)>,
    duplication: Option<(Probability, RandomStream)>,
    slots: Option<Slots>,
}

/// How packets are lost.
#[derive(Debug)]
enum Loss {
    /// Independently.
    Random(Chance),
    /// By the state of a Markov chain.
    Bursts(GilbertElliott, LinkState),
    /// Independently, with the current probability of a table over time.
    Timed(Vec<(Instant, Chance)>, usize),
    User(Box<dyn ErrorAlgorithm>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is lost on the way.
    Lost,
    /// It arrives at this time.
    Arrives { at: Instant, state: State },
}

/// The state in which a packet arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Intact,
    Corrupt,
    /// Intact, followed directly by a copy.
    Doubled,
}

impl Impairments {
    /// The impairments of a link; none if it has none.
    pub(crate) fn new(config: &LinkConfig, direction: Direction, seed: Seed) -> Option<Self> {
        let stream = |what| seed.stream(&format!("link.{}.{what}", direction.name()));
        let random = Chance::new(config.loss, config.bit_error_rate, config.framing).map(Loss::Random);
        let bursts = config.gilbert_elliott.clone().map(|chain| Loss::Bursts(chain, LinkState::Good));
        let table = config.course.as_ref().and_then(CourseConfig::table);
        let rows = table.into_iter().filter(|table| table.has_loss()).flat_map(Timetable::rows);
        let chance = |row: &Row| Chance::new(row.loss, row.bit_error_rate, config.framing);
        let timed = rows.filter_map(|row| Some((Instant::ZERO + row.at, chance(row)?))).collect::<Vec<_>>();
        let timed = (!timed.is_empty()).then_some(Loss::Timed(timed, 0));
        let own = config.error_model.as_ref();
        let own = own.map(|code| Loss::User(code.make(ErrorSetup { stream: stream("loss") })));
        let impairments = Self {
            loss: random.or(bursts).or(timed).or(own).map(|loss| (loss, stream("loss"))),
            jitter: config.jitter.as_ref().map(|jitter| (jitter.sampler(), stream("jitter"))),
            corruption: config.corrupt.map(|probability| (probability, stream("corruption"))),
            duplication: config.duplicate.map(|probability| (probability, stream("duplication"))),
            slots: config.slots.map(|slots| Slots::new(slots.every)),
        };
        let Self { loss, jitter, corruption, duplication, slots } = &impairments;
        let parts =
            [loss.is_some(), jitter.is_some(), corruption.is_some(), duplication.is_some(), slots.is_some()];
        parts.contains(&true).then_some(impairments)
    }

    /// Draws the fate of the next packet, of `ip_bytes` bytes, which is sent at `now` and travels for `delay`.
    pub(crate) fn draw(&mut self, now: Instant, delay: Duration, ip_bytes: u32) -> Fate {
        let is_lost = self.loss.as_mut().is_some_and(|(loss, stream)| loss.draw(now, ip_bytes, stream));
        let jitter = self.jitter.as_mut().map_or(Duration::ZERO, |(lengths, stream)| lengths.sample(stream));
        let draw = |chance: &mut Option<(Probability, RandomStream)>| {
            chance.as_mut().is_some_and(|(chance, stream)| hits(*chance, stream))
        };
        let state = match (draw(&mut self.corruption), draw(&mut self.duplication)) {
            (true, _) => State::Corrupt,
            (false, true) => State::Doubled,
            (false, false) => State::Intact,
        };
        if is_lost { Fate::Lost } else { Fate::Arrives { at: self.slot(now + delay + jitter), state } }
    }

    /// When a packet is delivered that arrives at `arrival`: at its slot, if there are slots.
    pub(crate) fn slot(&mut self, arrival: Instant) -> Instant {
        self.slots.as_mut().map_or(arrival, |slots| slots.of(arrival))
    }
}

impl Loss {
    fn draw(&mut self, now: Instant, ip_bytes: u32, stream: &mut RandomStream) -> bool {
        match self {
            Self::Random(chance) => chance.hits(ip_bytes, stream),
            Self::User(algorithm) => algorithm.loses(now, ip_bytes),
            Self::Timed(chances, current) => {
                while chances.get(*current + 1).is_some_and(|next| next.0 <= now) {
                    *current += 1;
                }
                chances[*current].1.hits(ip_bytes, stream)
            }
            Self::Bursts(chain, state) => {
                let (leaves, loss, other) = match state {
                    LinkState::Good => (chain.p, chain.loss_good, LinkState::Bad),
                    LinkState::Bad => (chain.r, chain.loss_bad, LinkState::Good),
                };
                let is_lost = hits(loss, stream);
                if hits(leaves, stream) {
                    *state = other;
                }
                is_lost
            }
        }
    }
}

fn hits(probability: Probability, stream: &mut RandomStream) -> bool {
    stream.unit() < probability.get()
}
