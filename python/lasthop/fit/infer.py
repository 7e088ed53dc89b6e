"""Simulation-based inference: draw lines, run them, keep those that behave like the measured one."""

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

# Runs of each round, powers of two as Sobol sequences want them: for each model, for each that is left, and
# twice for the most probable one. Others that may be true have half as many.
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
# Loss and jitter are drawn from numbers above 0, so a link without any is a model of its own.
MODELS = tuple(Model(control, queue, lossy) for lossy in (False, True) for control, queue in KINDS)
# Models that stay in the second round, and twins that each of them has at most: without jitter, without a
# limit of its queue, and without both.
LEFT, TWINS = 4, 3
# Kinds that stay in the last rounds, and how probable they and the models of the result are at least.
MOST, LEAST_CHANCE = 3, 0.05
# Where fewer of the last runs are as odd as the measured transfer, it is none of theirs.
LEAST_LIKENESS = 0.01
# How much wider than the 90 % interval the next box is.
WIDER = 3.0
# How far above the first guess the rate may be, where a queue grew, and where the line was hardly filled.
MOST_RATE, MOST_UNFILLED = 1.5, 4.0
# Round trips of packets that a policer's bucket holds at most.
MOST_BUCKET = 4.0
# More last rounds at most, as long as what one found lies outside its box.
AGAIN = 2
# Half the width that a box keeps at least, as a logarithm.
LEAST_HALF = {"rate": 0.004, "rtt": 0.004, "buffer": 0.03, "loss": 0.3, "jitter": 0.2}
# The same of a queue, in packets.
LEAST_PACKETS = 1.5


@dataclass(frozen=True)
class Box:
    """The prior of a round: uniform in the logarithm of each property."""

    names: tuple[str, ...]
    low: Floats
    high: Floats
    closed: frozenset[str]
    """Properties that are known not to lie outside."""

    @classmethod
    def around(cls, first: Estimate, names: Sequence[str], queue: str) -> Box:
        """A wide box around first estimates."""
        loss = max(first.loss, 0.5 / first.packets)
        packet = packet_ms(first.rate)
        # A line that nothing filled is at least as fast as packets that came together.
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
        }
        ends = np.log([ranges[name] for name in names])
        # There is no more random loss than was counted, and less than the least is none.
        closed = frozenset({"loss", "rtt"} if first.pinged else {"loss"})
        return cls(tuple(names), ends[:, 0], ends[:, 1], closed)

    @staticmethod
    def _trips(first: Estimate, packet: float) -> tuple[float, float]:
        """A range for the delay."""
        if first.pinged:
            return 0.97 * first.rtt, 1.01 * first.rtt
        # The least round trip has the time of one packet in it, and often more.
        least = max((0.1 if first.loaded else 0.75) * first.rtt - packet, 0.1 * first.rtt)
        return least, 1.08 * first.rtt

    @staticmethod
    def _lengths(first: Estimate, packet: float, queue: str) -> tuple[float, float]:
        """A range for the queue, or for a policer's bucket, which no wait tells of."""
        if queue == "policer":
            return 2.0, max(12.0, MOST_BUCKET * first.rtt / packet, 3.0 * first.buffer)
        return max(2.0, 0.3 * first.buffer), max(12.0, 3.0 * first.buffer)

    def only(self, names: Sequence[str]) -> Box:
        """The same of some of its properties."""
        chosen = [place for place, one in enumerate(self.names) if one in names]
        return Box(
            tuple(self.names[place] for place in chosen), self.low[chosen], self.high[chosen], self.closed
        )

    def points(self, count: int, seed: int) -> Floats:
        """A scrambled Sobol sequence, with queues of whole packets, as they are run."""
        unit = qmc.Sobol(len(self.names), seed=seed).random(count)
        points: Floats = self.low + unit * (self.high - self.low)
        if "buffer" in self.names:
            place = self.names.index("buffer")
            points[:, place] = _whole_packets(points[:, place])
        return points

    def narrowed(self, found: Posterior) -> Box:
        """A box around what a round found, within this one but for what it found outside."""
        ends = found.quantiles((0.05, 0.5, 0.95))
        width = np.where([name in self.closed for name in self.names], 0.0, self.high - self.low)
        middle = np.clip(ends[1], self.low - width / 2, self.high + width / 2)
        least = [LEAST_HALF[name] for name in self.names]
        # Three lengths at least, as runs have whole packets.
        least = [
            max(half, LEAST_PACKETS / max(np.exp(at), 1)) if name == "buffer" else half
            for name, half, at in zip(self.names, least, middle, strict=True)
        ]
        half = np.maximum(WIDER * (ends[2] - ends[0]) / 2, least)
        low, high = np.maximum(middle - half, self.low), np.minimum(middle + half, self.high)
        # At an edge there may be more beyond it, and most if the middle is there.
        at_edge, more = 0.02 * width, 0.15 * width
        low = np.where(middle - half < self.low - at_edge, np.minimum(self.low, middle) - more, low)
        high = np.where(middle + half > self.high + at_edge, np.maximum(self.high, middle) + more, high)
        return Box(self.names, low, high, self.closed)

    def holds(self, found: Posterior) -> bool:
        """Whether the middle of what a round found is in it."""
        middle = found.quantiles((0.5,))[0]
        closed = np.array([name in self.closed for name in self.names])
        return bool((closed | ((self.low <= middle) & (middle <= self.high))).all())


@dataclass(frozen=True)
class Part:
    """What the last round learnt under one model."""

    model: Model
    names: tuple[str, ...]
    posterior: Posterior
    chance: float
    """How probable the model is."""
    shares: Floats
    """For each parameter, the part of the first box that its 90 % interval takes."""


@dataclass(frozen=True)
class Found:
    """The result: the posterior is a mixture of those of the models that may be true."""

    parts: tuple[Part, ...]
    """The most probable first."""
    chances: dict[Model, float]
    """Probabilities of the models compared."""
    runs: int
    likeness: float = 1.0
    """Of the most probable model, the part of the runs that are at least as odd as what was measured."""

    @property
    def model(self) -> Model:
        return self.parts[0].model


def twins_of(model: Model) -> list[Model]:
    """The same line without jitter, and with a queue that never overflowed if losses have another cause."""
    calm = [model.jittery, False] if model.jittery else [False]
    endless = [False, True] if model.lossy and model.queue == "drop-tail" else [False]
    twins = [replace(model, jittery=one, endless=other) for one in calm for other in endless]
    return [twin for twin in twins if twin != model]


def most_runs() -> int:
    """How many runs the inference of one direction takes at most."""
    last = (THIRD + (1 + AGAIN) * LAST) * (1 + 2 * MOST) // 2
    return len(MODELS) * FIRST + LEFT * (1 + TWINS) * SECOND + last


def run_again(models: Sequence[Model], chances: Floats, most: int, least: float) -> list[int]:
    """The places of so many kinds that are probable enough, the most probable model first.

    Losses at random come at other times in each run. So few runs do not tell a queue that overflowed a little
    from one that never did: a model with and without a limit of the queue is one kind here.
    """
    kinds = [replace(model, endless=False) for model in models]
    sums = dict.fromkeys(kinds, 0.0)
    for kind, chance in zip(kinds, chances, strict=True):
        sums[kind] += float(chance)
    best = [kind for kind in sorted(sums, key=lambda kind: -sums[kind])[:most] if sums[kind] > least]
    return [int(place) for place in np.argsort(-chances, kind="stable") if kinds[place] in best]


def checked(chances: Floats, likenesses: Sequence[float]) -> Floats:
    """The probabilities without the models whose runs are unlike what was measured, if others' are like it.

    They only say which is nearest of those compared, and may favour a model in whose runs it never happens.
    """
    passed = np.where(np.asarray(likenesses) < LEAST_LIKENESS, 0.0, chances)
    return passed / passed.sum() if passed.any() else chances


def _whole_packets(lengths: Floats) -> Floats:
    """Round logarithms of queue lengths to those of whole packets, at least one."""
    rounded: Floats = np.log(np.maximum(np.round(np.exp(lengths)), 1))
    return rounded


def whole(found: Posterior, names: Sequence[str]) -> Posterior:
    """The same with queues of whole packets, as runs have them. What goes along with the queue moves, too.

    Half a packet more of a queue and so much less of a delay look alike, but there are no half packets.
    """
    if "buffer" not in names:
        return found
    place = names.index("buffer")
    lengths = found.draws[:, place]
    share = found.weights / found.weights.sum()
    around = found.draws - share @ found.draws
    beside = share * around[:, place]
    slope = beside @ around / max(float(beside @ around[:, place]), 1e-18)
    slope[place] = 1.0
    moved = _whole_packets(lengths) - lengths
    return Posterior(found.draws + moved[:, None] * slope, found.weights)


Rounds = Sequence[tuple[Model, Box]]
Runs = list[tuple[Floats, Floats]]


class Inference:
    """One direction of a line, with its data and its runs."""

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
        """The properties that are drawn under a model."""
        names = ["rtt"] if self.setting.known.course is not None else ["rate", "rtt"]
        if model.queue != "codel" and not model.endless:
            names.append("buffer")
        if model.lossy:
            names.append("loss")
        if model.jittery:
            names.append("jitter")
        return tuple(names)

    def run(self, models: Sequence[Model]) -> Found:
        jittery = self.first.jitter > 0
        models = [replace(model, jittery=jittery) for model in models if self.first.losses or not model.lossy]
        wide = {model: Box.around(self.first, self.names(model), model.queue) for model in models}
        rounds: Rounds = list(wide.items())
        parts = self._round(rounds, [FIRST] * len(rounds))
        rounds, parts = self._likely(rounds, parts, LEFT, 0.0)
        rounds = self._narrowed(rounds, parts)
        rounds += [(twin, box.only(self.names(twin))) for model, box in rounds for twin in twins_of(model)]
        parts = self._round(rounds, [SECOND] * len(rounds))
        compared = [model for model, _ in rounds]
        rounds, parts = self._likely(rounds, parts, MOST, LEAST_CHANCE)
        for number, count in enumerate((THIRD, LAST, *[LAST] * AGAIN)):
            if number > 1 and rounds[0][1].holds(self._learnt(parts[0])):
                break
            rounds = self._narrowed(rounds, parts)
            parts = self._round(rounds, [count] + [count // 2] * (len(rounds) - 1))
            rounds, parts = self._likely(rounds, parts, MOST, LEAST_CHANCE)
        return self._found(rounds, parts, compared, wide)

    def _found(
        self, rounds: Rounds, parts: Runs, compared: Sequence[Model], wide: Mapping[Model, Box]
    ) -> Found:
        """What the last rounds tell: the models that may be true, the most probable first."""
        likenesses = [likeness(*runs, self.observed) for runs in parts]
        chances = checked(probabilities([runs for _, runs in parts], self.observed), likenesses)
        best = [int(at) for at in np.argsort(-chances, kind="stable") if chances[at] > LEAST_CHANCE]
        left = chances[best] / chances[best].sum()
        told = dict.fromkeys(compared, 0.0)
        found = []
        for place, chance in zip(best, left.tolist(), strict=True):
            model, box = rounds[place]
            learnt = whole(self._learnt(parts[place]), box.names)
            ends = learnt.quantiles((0.05, 0.95))
            start = wide[replace(model, jittery=self.first.jitter > 0, endless=False)].only(box.names)
            shares = (ends[1] - ends[0]) / (start.high - start.low)
            found.append(Part(model, box.names, learnt, chance, shares))
            told[model] = chance
        return Found(tuple(found), told, self.runs, likenesses[best[0]])

    def _likely(self, rounds: Rounds, parts: Runs, most: int, least: float) -> tuple[Rounds, Runs]:
        """The models that are run again, the most probable first."""
        chances = probabilities([summaries for _, summaries in parts], self.observed)
        best = run_again([model for model, _ in rounds], chances, most, least)
        return [rounds[place] for place in best], [parts[place] for place in best]

    def _narrowed(self, rounds: Rounds, parts: Runs) -> list[tuple[Model, Box]]:
        learnt = [self._learnt(one) for one in parts]
        return [(model, box.narrowed(one)) for (model, box), one in zip(rounds, learnt, strict=True)]

    def _learnt(self, runs: tuple[Floats, Floats]) -> Posterior:
        parameters, summaries = runs
        return posterior(parameters, summaries, self.observed)

    def _round(self, rounds: Rounds, counts: Sequence[int]) -> Runs:
        """Parameters and summaries of so many runs of each model in its box."""
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
                for (place, _, _, point, _), summary in zip(tasks, pool.map(self._one, tasks), strict=True):
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

    def _one(self, task: tuple[int, Model, tuple[str, ...], Floats, int]) -> Floats | None:
        _, model, names, point, number = task
        try:
            transfers, delays = self.seen(dict(zip(names, np.exp(point), strict=True)), model, number)
        except InputError:  # It never got going.
            return None
        summary = summarise(transfers, delays, self.view) if transfers else None
        return None if summary is None or len(summary) != len(self.observed) else summary

    def seen(
        self, values: dict[str, float], model: Model, number: int
    ) -> tuple[tuple[Transfer, ...], Delays | None]:
        """One run, as far as it is compared; the ACKs' way is as fast as `back`, or as it may be."""
        values = {"buffer": 1000.0} | self.setting.known.values() | values
        if "back" not in values:
            values = of_run(values, self.setting.back, number)
        made = simulate(self.setting, values, model, self.seed * 100_003 + number)
        transfers, delays = cut(made.transfers, made.delays, self.setting.until_s)
        return transfers, delays
