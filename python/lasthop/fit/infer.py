"""Simulation-based inference: draw lines, run them, keep those that behave like the measured one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc

from lasthop.errors import InputError
from lasthop.fit.abc import Posterior, posterior, probabilities
from lasthop.fit.estimate import Estimate
from lasthop.fit.line import Model, Setting, cut, simulate
from lasthop.fit.measurement import Delays, Floats, Transfer
from lasthop.fit.summary import View, summarise

# Runs of each round, powers of two as Sobol sequences want them: for each model, for each that is left, and
# for the one that is chosen, twice.
FIRST, SECOND, THIRD, LAST = 32, 32, 128, 128
KINDS = (
    ("cubic", "drop-tail"),
    ("bbr", "drop-tail"),
    ("reno", "drop-tail"),
    ("cubic", "codel"),
    ("bbr", "codel"),
    ("cubic", "policer"),
    ("bbr", "policer"),
)
# A rate of random loss is drawn from numbers above 0, so a link without any is a model of its own.
MODELS = tuple(Model(control, queue, lossy) for lossy in (False, True) for control, queue in KINDS)
# Models that stay in the second round.
LEFT = 4
# How much wider than the 90 % interval the next box is.
WIDER = 3.0
# Half the width that a box keeps at least, as a logarithm.
LEAST_HALF = {"rate": 0.004, "rtt": 0.004, "buffer": 0.03, "loss": 0.3, "jitter": 0.2}


@dataclass(frozen=True)
class Box:
    """The prior of a round: uniform in the logarithm of each property."""

    names: tuple[str, ...]
    low: Floats
    high: Floats

    @classmethod
    def around(cls, first: Estimate, names: Sequence[str]) -> Box:
        """A wide box around first estimates."""
        loss = max(first.loss, 0.5 / first.packets)
        packet_ms = 12 / first.rate
        ranges = {
            "rate": (0.8 * first.rate, 1.5 * first.rate),
            "rtt": (0.75 * first.rtt, 1.08 * first.rtt),
            "buffer": (max(2.0, 0.3 * first.buffer), max(12.0, 3.0 * first.buffer)),
            "loss": (loss / 100, 3 * loss),
            "jitter": (0.05 * packet_ms, max(4 * first.jitter, 2 * packet_ms)),
        }
        ends = np.log([ranges[name] for name in names])
        return cls(tuple(names), ends[:, 0], ends[:, 1])

    def points(self, count: int, seed: int) -> Floats:
        """A scrambled Sobol sequence."""
        unit = qmc.Sobol(len(self.names), seed=seed).random(count)
        points: Floats = self.low + unit * (self.high - self.low)
        return points

    def narrowed(self, found: Posterior) -> Box:
        """A box around what a round found, within this one but for what it found outside."""
        ends = found.quantiles((0.05, 0.5, 0.95))
        middle = np.clip(ends[1], self.low, self.high)
        half = np.maximum(WIDER * (ends[2] - ends[0]) / 2, [LEAST_HALF[name] for name in self.names])
        low, high = np.maximum(middle - half, self.low), np.minimum(middle + half, self.high)
        # At an edge there may be more beyond it.
        width = self.high - self.low
        at_edge = 0.02 * width
        low = np.where(middle - half < self.low - at_edge, self.low - 0.15 * width, low)
        high = np.where(middle + half > self.high + at_edge, self.high + 0.15 * width, high)
        return Box(self.names, low, high)


@dataclass(frozen=True)
class Found:
    """The result of the last round."""

    model: Model
    names: tuple[str, ...]
    posterior: Posterior
    chances: dict[str, float]
    """Probabilities of the models compared."""
    runs: int
    shares: Floats
    """For each parameter, the part of the first box that its 90 % interval takes."""


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
        names = ["rate", "rtt"]
        if model.queue != "codel":
            names.append("buffer")
        if model.lossy:
            names.append("loss")
        if self.first.jitter > 0:
            names.append("jitter")
        return tuple(names)

    def run(self, models: Sequence[Model]) -> Found:
        """All rounds."""
        models = [model for model in models if self.first.losses or not model.lossy]
        rounds = [(model, Box.around(self.first, self.names(model))) for model in models]
        boxes = [box for _, box in rounds]
        parts = self._round(rounds, FIRST)
        chances = probabilities([summaries for _, summaries in parts], self.observed)
        best = np.argsort(-chances, kind="stable")[: min(LEFT, int((chances > 0).sum()))]
        found = [self._learnt(parts[place]) for place in best]
        rounds = [(models[place], boxes[place].narrowed(one)) for place, one in zip(best, found, strict=True)]
        parts = self._round(rounds, SECOND)
        chances = probabilities([summaries for _, summaries in parts], self.observed)
        place = int(np.argmax(chances))
        model, box = rounds[place]
        named = {str(one): float(chance) for (one, _), chance in zip(rounds, chances, strict=True)}
        start = boxes[best[place]]
        result = self._learnt(parts[place])
        for count in (THIRD, LAST):
            box = box.narrowed(result)
            result = self._learnt(self._round([(model, box)], count)[0])
        ends = result.quantiles((0.05, 0.95))
        shares = (ends[1] - ends[0]) / (start.high - start.low)
        return Found(model, box.names, result, named, self.runs, shares)

    def _learnt(self, runs: tuple[Floats, Floats]) -> Posterior:
        parameters, summaries = runs
        return posterior(parameters, summaries, self.observed)

    def _round(self, rounds: Sequence[tuple[Model, Box]], count: int) -> list[tuple[Floats, Floats]]:
        """Parameters and summaries of `count` runs of each model in its box."""
        tasks = []
        for place, (model, box) in enumerate(rounds):
            points = box.points(count, self.seed + self.runs + place)
            tasks += [
                (place, model, box.names, point, self.runs + number) for number, point in enumerate(points)
            ]
            self.runs += count
        rows: list[list[tuple[Floats, Floats]]] = [[] for _ in rounds]
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

    def _table(self, rows: list[tuple[Floats, Floats]], box: Box) -> tuple[Floats, Floats]:
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
        """One run, as far as it is compared."""
        values = {"buffer": 1000.0} | values
        made = simulate(self.setting, values, model, self.seed * 100_003 + number)
        transfers, delays = cut(made.transfers, made.delays, self.setting.until_s)
        return transfers, delays
