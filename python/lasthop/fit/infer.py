"""Simulation-based inference: draw lines, run them, and select those that behave like the measured line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import qmc

from lasthop.common.errors import InputError
from lasthop.fit.abc import Posterior, likeness, posterior, probabilities
from lasthop.fit.estimate import Estimate
from lasthop.fit.line import Model, Setting, cut, simulate
from lasthop.fit.measurement import Delays, Floats, Transfer, packet_ms
from lasthop.fit.summary import View, summarise
from lasthop.fit.way_back import of_run

# Runs of each round, powers of two for Sobol sequences: of each model, of each remaining model, and twice of
# the most probable model. Other plausible models have half as many.
FIRST, SECOND, THIRD, LAST = 32, 32, 128, 128
KINDS = (
    ("cubic", "drop-tail"),
    ("bbr", "drop-tail"),
    ("reno", "drop-tail"),
    ("cubic", "codel"),
    ("bbr", "codel"),
    ("reno", "codel"),
    ("cubic", "policer"),
    ("bbr", "policer"),
    ("reno", "policer"),
)
# Loss and jitter are drawn from positive numbers, so a link without them is a separate model.
MODELS = tuple(Model(control, queue, lossy) for lossy in (False, True) for control, queue in KINDS)
# Models in the second round, and the largest number of variants of each: without jitter, without a limit of
# the queue, and without both.
LEFT, TWINS = 4, 3
# Kinds in the last rounds, and the least probability of these and of the models of the result.
MOST, LEAST_CHANCE = 3, 0.05
# The least probability of a model that remained only as the rival of another kind. Only a twelfth of the runs
# is near, so one or two of them may be chance.
LEAST_RIVAL = 0.25
# If fewer of the last runs deviate as much as the measured transfer, the model does not explain it.
LEAST_LIKENESS = 0.01
# Below this share, another kind of line is the more plausible the smaller the share is.
USUAL_LIKENESS = 0.05
# The width of the next box relative to the 90 % interval.
WIDER = 3.0
# The largest rate relative to the first estimate, if a queue grew, and if the line was hardly filled.
MOST_RATE, MOST_UNFILLED = 1.5, 4.0
# The least rate of a line relative to its policer's.
LEAST_LINE = 1.2
# The largest bucket of a policer, in packets of a round trip.
MOST_BUCKET = 4.0
# The largest number of additional last rounds, while the estimate lies outside the box.
AGAIN = 2
# The least half-width of a box, as a logarithm.
LEAST_HALF = {"rate": 0.004, "rtt": 0.004, "buffer": 0.03, "loss": 0.3, "jitter": 0.2, "line": 0.05}
# The same for a queue, in packets.
LEAST_PACKETS = 1.5
# The longest queue, in packets: with MOST_PACKETS compared, a longer one behaves the same.
LONGEST_QUEUE = 20_000


@dataclass(frozen=True)
class Box:
    """The prior of a round: uniform in the logarithm of each property."""

    names: tuple[str, ...]
    low: Floats
    high: Floats
    closed: frozenset[str]
    """Properties that cannot lie outside."""

    @classmethod
    def around(cls, first: Estimate, names: Sequence[str], queue: str) -> Box:
        """Return a wide box around first estimates."""
        loss = max(first.loss, 0.5 / first.packets)
        packet = packet_ms(first.rate)
        # A line that was not filled is at least as fast as its short trains of packets.
        most = (
            MOST_RATE * first.rate
            if first.filled
            else max(MOST_UNFILLED * first.rate, MOST_RATE * first.pace)
        )
        ranges = {
            "rate": (0.8 * min(first.rate, max(first.usual, first.rate / 2)), most),
            "rtt": cls._trips(first, packet),
            "buffer": cls._lengths(first, packet, queue),
            "loss": (loss / 100, 3 * loss),
            "jitter": (0.05 * packet, max(4 * first.jitter, 2 * packet)),
            "line": (max(LEAST_LINE * first.rate, 0.5 * first.pace), max(4 * first.rate, 2 * first.pace)),
        }
        ends = np.log([ranges[name] for name in names])
        # Random loss is limited by the counted losses, and a loss below the least is the model without loss.
        closed = frozenset({"loss", "rtt"} if first.pinged else {"loss"})
        return cls(tuple(names), ends[:, 0], ends[:, 1], closed)

    @staticmethod
    def _trips(first: Estimate, packet: float) -> tuple[float, float]:
        if first.pinged:
            return 0.97 * first.rtt, 1.01 * first.rtt
        # The least round trip includes the time of at least one packet.
        least = max((0.1 if first.loaded else 0.75) * first.rtt - packet, 0.1 * first.rtt)
        return least, 1.08 * first.rtt

    @staticmethod
    def _lengths(first: Estimate, packet: float, queue: str) -> tuple[float, float]:
        """Return a range for the queue, or for a policer's bucket, which causes no delay."""
        if queue == "policer":
            return 2.0, max(12.0, MOST_BUCKET * first.rtt / packet, 3.0 * first.buffer)
        return max(2.0, 0.3 * first.buffer), max(12.0, 3.0 * first.buffer)

    def only(self, names: Sequence[str]) -> Box:
        """Return the box of some of the properties."""
        chosen = [place for place, name in enumerate(self.names) if name in names]
        return Box(
            tuple(self.names[place] for place in chosen), self.low[chosen], self.high[chosen], self.closed
        )

    def points(self, count: int, seed: int) -> Floats:
        """Return a scrambled Sobol sequence, with queues of whole packets, as in runs."""
        unit = qmc.Sobol(len(self.names), seed=seed).random(count)
        points: Floats = self.low + unit * (self.high - self.low)
        if "buffer" in self.names:
            place = self.names.index("buffer")
            points[:, place] = _whole_packets(points[:, place])
        return points

    def narrowed(self, posterior_: Posterior) -> Box:
        """Return a box around a posterior, which extends beyond this box only where the posterior does."""
        ends = posterior_.quantiles((0.05, 0.5, 0.95))
        width = np.where([name in self.closed for name in self.names], 0.0, self.high - self.low)
        middle = np.clip(ends[1], self.low - width / 2, self.high + width / 2)
        least = [LEAST_HALF[name] for name in self.names]
        # At least three lengths, because runs have whole packets.
        least = [
            max(half, LEAST_PACKETS / max(np.exp(at), 1)) if name == "buffer" else half
            for name, half, at in zip(self.names, least, middle, strict=True)
        ]
        half = np.maximum(WIDER * (ends[2] - ends[0]) / 2, least)
        low, high = np.maximum(middle - half, self.low), np.minimum(middle + half, self.high)
        # A posterior at an edge may extend beyond it.
        at_edge, more = 0.02 * width, 0.15 * width
        low = np.where(middle - half < self.low - at_edge, np.minimum(self.low, middle) - more, low)
        high = np.where(middle + half > self.high + at_edge, np.maximum(self.high, middle) + more, high)
        return Box(self.names, low, high, self.closed)

    def holds(self, posterior_: Posterior) -> bool:
        """Return whether the median of a posterior lies in the box."""
        middle = posterior_.quantiles((0.5,))[0]
        closed = np.array([name in self.closed for name in self.names])
        return bool((closed | ((self.low <= middle) & (middle <= self.high))).all())


@dataclass(frozen=True)
class Part:
    """The posterior under a model."""

    model: Model
    names: tuple[str, ...]
    posterior: Posterior
    chance: float
    """The probability of the model."""
    shares: Floats
    """The share of the prior that the 90 % interval of each parameter spans."""


@dataclass(frozen=True)
class Mixture:
    """The result: a mixture of the posteriors of plausible models."""

    parts: tuple[Part, ...]
    """The most probable first."""
    chances: dict[Model, float]
    """Probabilities of the models compared."""
    runs: int
    likeness: float = 1.0
    """The share of the most probable model's runs that deviate at least as much as the measurement."""

    @property
    def model(self) -> Model:
        return self.parts[0].model

    @property
    def explained(self) -> float:
        """The probability that the measured line is of a kind that was compared."""
        return min(1.0, self.likeness / USUAL_LIKENESS)


def twins_of(model: Model) -> list[Model]:
    """Return variants without jitter, and with a queue that never overflowed if losses have another cause."""
    calm = [model.jittery, False] if model.jittery else [False]
    endless = [False, True] if model.lossy and model.queue == "drop-tail" else [False]
    twins = [replace(model, jittery=jittery, endless=endless_) for jittery in calm for endless_ in endless]
    return [twin for twin in twins if twin != model]


def most_runs() -> int:
    """Return the largest number of runs of the inference of a direction."""
    last = (THIRD + (1 + AGAIN) * LAST) * (2 + 2 * MOST) // 2
    return len(MODELS) * FIRST + LEFT * (1 + TWINS) * SECOND + last


def likely_models(models: Sequence[Model], chances: Floats, most: int, least: float) -> list[int]:
    """Return the places of the `most` most probable kinds with more than a `least` probability.

    Random losses differ from run to run, so few runs cannot distinguish a queue that overflowed a little from
    a queue that never did: models with and without a limit of the queue are of one kind here.
    """
    kinds = [replace(model, endless=False) for model in models]
    sums = dict.fromkeys(kinds, 0.0)
    for kind, chance in zip(kinds, chances, strict=True):
        sums[kind] += float(chance)
    best = [kind for kind in sorted(sums, key=lambda kind: -sums[kind])[:most] if sums[kind] > least]
    return [int(place) for place in np.argsort(-chances, kind="stable") if kinds[place] in best]


def rival_of(models: Sequence[Model], best: Sequence[int], likenesses: Sequence[float]) -> list[int]:
    """Return the place of the model that explains the measurement best among other controls and queues.

    It remains if all of the `best` have the same control and queue: few runs distinguish models badly.
    """
    kinds = {(models[place].control, models[place].queue) for place in best}
    others = [place for place, model in enumerate(models) if (model.control, model.queue) not in kinds]
    rival = max(others, key=lambda place: likenesses[place], default=None)
    if rival is None or len(kinds) > 1 or likenesses[rival] < USUAL_LIKENESS:
        return []
    return [rival]


def without_unlikely(chances: Floats, likenesses: Sequence[float]) -> Floats:
    """Return the probabilities without models that do not explain the measurement, if others explain it.

    Probabilities only rank the models compared, and may favour a model that never yields the measurement.
    """
    remaining = np.where(np.asarray(likenesses) < LEAST_LIKENESS, 0.0, chances)
    return remaining / remaining.sum() if remaining.any() else chances


def _whole_packets(lengths: Floats) -> Floats:
    """Round logarithms of queue lengths to those of whole packets, from 1 to the longest queue."""
    rounded: Floats = np.log(np.clip(np.round(np.exp(lengths)), 1, LONGEST_QUEUE))
    return rounded


def with_whole_packets(posterior_: Posterior, names: Sequence[str]) -> Posterior:
    """Return a posterior with queues of whole packets, as in runs; correlated parameters are shifted, too.

    Half a packet more in the queue looks like a smaller delay, but there are no half packets.
    """
    if "buffer" not in names:
        return posterior_
    place = names.index("buffer")
    lengths = posterior_.draws[:, place]
    share = posterior_.weights / posterior_.weights.sum()
    around = posterior_.draws - share @ posterior_.draws
    column = share * around[:, place]
    slope = column @ around / max(float(column @ around[:, place]), 1e-18)
    slope[place] = 1.0
    shifts = _whole_packets(lengths) - lengths
    return Posterior(posterior_.draws + shifts[:, None] * slope, posterior_.weights)


Rounds = Sequence[tuple[Model, Box]]
Runs = list[tuple[Floats, Floats]]


class Inference:
    def __init__(
        self,
        setting: Setting,
        delays: Delays | None,
        first: Estimate,
        *,
        fine: bool,
        seed: int,
        jobs: int,
        advance: Callable[[int], object],
    ) -> None:
        self.setting, self.first, self.seed, self.jobs, self.advance = setting, first, seed, jobs, advance
        transfers, delays = cut(setting.transfers, delays, setting.until_s)
        self.view = View.of(transfers, delays, setting.until_s, fine=fine)
        self.observed = summarise(transfers, delays, self.view)
        self.runs = 0

    def names(self, model: Model) -> tuple[str, ...]:
        """Return the properties that are drawn under a model."""
        names = ["rtt"] if self.setting.observed.course is not None else ["rate", "rtt"]
        if model.queue != "codel" and not model.endless:
            names.append("buffer")
        if model.queue == "policer" and self.view.fine:
            names.append("line")
        if model.lossy:
            names.append("loss")
        if model.jittery:
            names.append("jitter")
        return tuple(names)

    def run(self, models: Sequence[Model]) -> Mixture:
        jittery = self.first.jitter > 0
        if not self.first.losses:
            # Without losses, each discipline behaves like a queue that never overflowed.
            queues = {"drop-tail"} if self.view.losses != "none" else {model.queue for model in models}
            models = [model for model in models if not model.lossy and model.queue in queues]
        models = [replace(model, jittery=jittery) for model in models]
        wide = {model: Box.around(self.first, self.names(model), model.queue) for model in models}
        rounds: Rounds = list(wide.items())
        parts = self._round(rounds, [FIRST] * len(rounds))
        rounds, parts = self._likely(rounds, parts, LEFT, 0.0)
        rounds = self._narrowed(rounds, parts)
        rounds += [(twin, box.only(self.names(twin))) for model, box in rounds for twin in twins_of(model)]
        parts = self._round(rounds, [SECOND] * len(rounds))
        compared = [model for model, _ in rounds]
        rounds, parts, rival = self._with_rival(rounds, parts)
        for number, count in enumerate((THIRD, LAST, *[LAST] * AGAIN)):
            if number > 1 and rounds[0][1].holds(self._posterior(parts[0])):
                break
            rounds = self._narrowed(rounds, parts)
            parts = self._round(rounds, [count] + [count // 2] * (len(rounds) - 1))
            rounds, parts = self._likely(rounds, parts, MOST, LEAST_CHANCE, rival)
        return self._mixture(rounds, parts, compared, wide)

    def _mixture(
        self, rounds: Rounds, parts: Runs, compared: Sequence[Model], wide: Mapping[Model, Box]
    ) -> Mixture:
        """Return the plausible models of the last rounds, the most probable first."""
        likenesses = [likeness(*runs, self.observed) for runs in parts]
        chances = without_unlikely(probabilities([runs for _, runs in parts], self.observed), likenesses)
        best = [int(at) for at in np.argsort(-chances, kind="stable") if chances[at] > LEAST_CHANCE]
        normalised = chances[best] / chances[best].sum()
        chances_of = dict.fromkeys(compared, 0.0)
        mixture = []
        for place, chance in zip(best, normalised.tolist(), strict=True):
            model, box = rounds[place]
            posterior_ = with_whole_packets(self._posterior(parts[place]), box.names)
            ends = posterior_.quantiles((0.05, 0.95))
            start = wide[replace(model, jittery=self.first.jitter > 0, endless=False)].only(box.names)
            shares = (ends[1] - ends[0]) / (start.high - start.low)
            mixture.append(Part(model, box.names, posterior_, chance, shares))
            chances_of[model] = chance
        return Mixture(tuple(mixture), chances_of, self.runs, likenesses[best[0]])

    def _likely(
        self, rounds: Rounds, parts: Runs, most: int, least: float, rival: Model | None = None
    ) -> tuple[Rounds, Runs]:
        """Select the models of the next round, the most probable first; the rival must be more probable."""
        chances = probabilities([summaries for _, summaries in parts], self.observed)
        models = [model for model, _ in rounds]
        best = [
            place
            for place in likely_models(models, chances, most, least)
            if models[place] != rival or chances[place] >= LEAST_RIVAL
        ]
        return [rounds[place] for place in best], [parts[place] for place in best]

    def _with_rival(self, rounds: Rounds, parts: Runs) -> tuple[Rounds, Runs, Model | None]:
        """Select the models of the third round, with the best of the other kinds if all are of one kind."""
        chosen, own = self._likely(rounds, parts, MOST, LEAST_CHANCE)
        models = [model for model, _ in rounds]
        best = [models.index(model) for model, _ in chosen]
        rival = rival_of(models, best, [likeness(*runs, self.observed) for runs in parts])
        chosen, own = (
            [*chosen, *(rounds[place] for place in rival)],
            [*own, *(parts[place] for place in rival)],
        )
        return chosen, own, models[rival[0]] if rival else None

    def _narrowed(self, rounds: Rounds, parts: Runs) -> list[tuple[Model, Box]]:
        posteriors = [self._posterior(own) for own in parts]
        return [(model, box.narrowed(own)) for (model, box), own in zip(rounds, posteriors, strict=True)]

    def _posterior(self, runs: tuple[Floats, Floats]) -> Posterior:
        parameters, summaries = runs
        return posterior(parameters, summaries, self.observed)

    def _round(self, rounds: Rounds, counts: Sequence[int]) -> Runs:
        """Return parameters and summaries of `counts` runs of each model in its box."""
        tasks = []
        for place, ((model, box), count) in enumerate(zip(rounds, counts, strict=True)):
            points = box.points(count, self.seed + self.runs + place)
            tasks += [
                (place, model, box.names, point, self.runs + number) for number, point in enumerate(points)
            ]
            self.runs += count
        rows: list[Runs] = [[] for _ in rounds]
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                for (place, _, _, point, _), summary in zip(
                    tasks, pool.map(self._simulate, tasks), strict=True
                ):
                    self.advance(1)
                    if summary is not None:
                        rows[place].append((point, summary))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return [self._table(part, box) for part, (_, box) in zip(rows, rounds, strict=True)]

    def _table(self, rows: Runs, box: Box) -> tuple[Floats, Floats]:
        if not rows:
            empty = np.full((1, len(self.observed)), 1e6)
            return (box.low + box.high)[None, :] / 2, empty
        return np.asarray([point for point, _ in rows]), np.asarray([summary for _, summary in rows])

    def _simulate(self, task: tuple[int, Model, tuple[str, ...], Floats, int]) -> Floats | None:
        _, model, names, point, number = task
        try:
            transfers, delays = self.simulated(dict(zip(names, np.exp(point), strict=True)), model, number)
        except InputError:  # no transfer took place
            return None
        summary = summarise(transfers, delays, self.view) if transfers else None
        return None if summary is None or len(summary) != len(self.observed) else summary

    def simulated(
        self, values: dict[str, float], model: Model, number: int
    ) -> tuple[tuple[Transfer, ...], Delays | None]:
        """Return the compared part of a run; the rate of the ACKs' direction is `back`, or else random."""
        values = {"buffer": 1000.0} | self.setting.observed.values() | values
        if "back" not in values:
            values = of_run(values, self.setting.back, number)
        measurement = simulate(self.setting, values, model, self.seed * 100_003 + number)
        transfers, delays = cut(measurement.transfers, measurement.delays, self.setting.until_s)
        return transfers, delays
