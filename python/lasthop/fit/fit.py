"""The fit: from measurements to parameters with intervals, draws and simulated transfers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lasthop.common.errors import InputError
from lasthop.fit.course import Course
from lasthop.fit.estimate import Estimate, estimate, way
from lasthop.fit.infer import LEAST_LIKENESS, MODELS, Found, Inference, most_runs
from lasthop.fit.joined import pairs
from lasthop.fit.known import Known, beside, known
from lasthop.fit.line import NOTHING, OTHER, Model, Setting, begun, cut, line_keys
from lasthop.fit.measurement import Delays, Direction, Floats, Ints, Measurement, Transfer, packet_ms
from lasthop.fit.oneway import waits
from lasthop.fit.posterior import Check, Fit, Keys, Parameter, Series, Source
from lasthop.fit.sharing import queues
from lasthop.fit.summary import delivered
from lasthop.fit.way_back import ANY, Shares, delay_with, drawn, usual

# What the model is off from real hosts and links, as a standard deviation of the logarithm. Without it the
# intervals would only say how closely the model agrees with itself. That of the rate is what 12 captures of
# Linux showed (0.06 %), rounded up; the others are assumed.
MODEL_ERROR = {"rate": 0.001, "buffer": 0.01, "loss": 0.05, "jitter": 0.05}
# Hosts take time for a packet: the delays of the same captures were off by 0.1 ms, whatever the delay.
DELAY_ERROR_MS = 0.1
# A limit counts whole packets, and hosts that send two at a time meet it one earlier or later. The queues of
# the same captures were off by 0.3 packets, and by 0.6 at most.
PACKET_ERROR = 0.5
# Draws for the quantiles, for the scenario, and for the transfers laid over the measured one.
MANY, DRAWS, SHOWN = 4000, 20, 8
# More packets are not compared: the runs would take too long, and say little more.
MOST_PACKETS = 20_000
LONGEST_S, LEAST_S = 30.0, 2.0
# A 90 % interval that takes more of the first box has learnt nothing.
UNTOLD = 0.6
# Fewer probes of an idle line may all have met something.
LEAST_PROBES = 5
# Of the delay, where round trips are those of a busy line, from a tenth of the least to that.
UNTOLD_DELAY = 0.25
UNLIKE = (
    "No simulated line behaves quite like the measured one ({way}): it has something that these lack, so the "
    "intervals may be too narrow. The report shows where they differ."
)
LOADED = "these are smoothed round trips of a busy line; a file of ping before the transfer would tell it"
AT_RANDOM = "losses at random alone explain what was seen: it may never have filled"
UNITS = {"rate": "Mbit/s", "rtt": "ms", "buffer": "packets", "loss": "", "jitter": "ms"}
NAMES = {"rtt": "delay"}
_RATE, _RTT = (list(UNITS).index(name) for name in ("rate", "rtt"))
KEYS = {
    "rate": "{way}.link.rate",
    "rtt": "{way}.link.delay",
    "buffer": "{way}.queue.limit",
    "loss": "{way}.link.loss",
    "jitter": "{way}.link.jitter",
}


def runs_of_a_fit(ways: int) -> int:
    """How many runs the inference takes at most."""
    return ways * (most_runs() + SHOWN)


@dataclass(frozen=True)
class Way:
    """The data of one direction: those of the file that says most of it."""

    direction: Direction
    measurement: Measurement
    transfers: tuple[Transfer, ...]
    delays: Delays | None
    until_s: float
    first: Estimate
    known: Known = NOTHING
    back: Shares = (1.0, 1.0)
    """What the rate of the ACKs' way may be."""

    @property
    def source(self) -> Source:
        return Source(self.measurement.file, self.measurement.kind)


def ways_of(measurements: Sequence[Measurement]) -> list[Way]:
    """The directions that have transfers. Raises InputError if none says anything of a rate."""
    ways, reasons = [], []
    idle = _idle(measurements)
    for direction in ("down", "up"):
        having = [one for one in measurements if way(one.transfers, direction)]
        if not having:
            continue
        best = max(having, key=lambda one: _worth(one, direction))
        found = _way(best, direction, idle, measurements)
        if "rate" in found.first.refused or "delay" in found.first.refused:
            reasons += [f"{best.file}: {reason}" for reason in dict.fromkeys(found.first.refused.values())]
        else:
            ways.append(found)
    if not ways:
        said = (
            "; ".join(dict.fromkeys(reasons)) or "there is no transfer in them, and delays alone tell no rate"
        )
        raise InputError(
            f"These data do not identify the line: {said}. Measure a transfer that fills it for ten seconds, "
            "for example a download with 'tcpdump -s 120 -w line.pcap tcp' running."
        )
    return [replace(one, back=_back(one, ways)) for one in ways]


def _back(own: Way, ways: Sequence[Way]) -> Shares:
    """What the rate of the way back may be: near that of the transfer there, if there is one."""
    for other in ways:
        if other.direction != own.direction:
            share = other.first.rate / own.first.rate
            return share, share
    return ANY[own.direction]


def _idle(measurements: Sequence[Measurement]) -> float | None:
    """The least round trip of probes while no transfer ran, if there are any."""
    seen = [np.empty(0)]
    for one in measurements:
        if one.delays is not None and not one.transfers:
            seen.append(one.delays.rtt_ms)
        elif one.delays is not None and one.delays.loaded is not None:
            seen.append(one.delays.rtt_ms[~one.delays.loaded])
    probes = np.concatenate(seen)
    return float(np.nanmin(probes)) if np.isfinite(probes).sum() >= LEAST_PROBES else None


def _worth(one: Measurement, direction: Direction) -> tuple[bool, bool, float]:
    """Captures before counters, the sender's end before the receiver's, more bytes before fewer."""
    total = sum(float(part.bytes[-1]) for part in way(one.transfers, direction))
    return one.kind == "capture", one.seen_at == "sender", total


def _way(
    one: Measurement, direction: Direction, idle_ms: float | None, measurements: Sequence[Measurement]
) -> Way:
    transfers, delays = way(one.transfers, direction), one.delays
    if one.kind == "capture":
        idle_ms = None  # It has round trips of its own, of the same time.
    else:
        transfers, delays = begun(transfers, delays)
    end = max(float(part.time_s[-1]) for part in transfers)
    packets = sum(part.sent or float(part.bytes[-1]) / part.payload for part in transfers)
    until = min(0.999 * end, LONGEST_S, max(LEAST_S, end * MOST_PACKETS / max(packets, 1)))
    parts, delays = cut(transfers, delays, until)
    first = estimate(parts, delays, until, idle_ms)
    if one.kind != "capture":
        return Way(direction, one, transfers, delays, until, first)
    shown = known(parts, delays, until, one.seen_at or "sender")
    shared = queues(one, direction, measurements, packet_ms(first.rate))
    return Way(direction, one, transfers, delays, until, first, replace(shown, queues=shared))


def fit(
    measurements: Sequence[Measurement],
    *,
    seed: int = 1,
    jobs: int = 1,
    exact: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> Fit:
    """Fit a line to measurements of it. Raises InputError if they say nothing of its rate.

    `exact` data were made by the model itself, so intervals need no room for what it is off.
    """
    rng = np.random.default_rng(seed)
    learnt = [_learn(one, seed, jobs, rng, advance, exact=exact) for one in ways_of(measurements)]
    backs = _rates_back(learnt, seed)
    results = [_tell(one, back, rng, advance) for one, back in zip(learnt, backs, strict=True)]
    found = [parameter for result in results for parameter in result.parameters]
    joined, apart = pairs(measurements)
    found += [pair.answers_lost() for pair in joined]
    # A direction that was not measured keeps what the other one assumes of it.
    merged = [dict(keys) for keys in results[0].keys]
    for result in results[1:]:
        for keys, own in zip(merged, result.keys, strict=True):
            keys[result.direction] = own[result.direction]
    for keys in merged:
        for pair in joined:
            pair.put(keys)
    notes = [note for one in measurements for note in one.notes]
    notes += [said for one in measurements if (said := waits(one)) is not None]
    notes += [said for pair in joined for said in pair.notes()] + apart
    notes.append(_untold(results))
    notes += [UNLIKE.format(way=result.direction) for result in results if result.likeness < LEAST_LIKENESS]
    return Fit(
        measurements=tuple(measurements),
        parameters=tuple(found),
        best=merged[0],
        draws=tuple(merged[1:]),
        checks=tuple(check for result in results for check in result.checks),
        runs=sum(result.runs for result in results),
        notes=tuple(dict.fromkeys(notes)),
        courses={result.direction: result.course for result in results if result.course is not None},
        others=tuple(flow for result in results for flow in result.others),
    )


def _untold(results: Sequence[_Result]) -> str:
    if len(results) == 2:
        return "The round trip is shared evenly between both directions: one clock cannot tell them apart."
    own, other = results[0].direction, OTHER[results[0].direction]
    low, high = ANY[own]
    return (
        f"The direction {other} carried ACKs only, which tell neither its rate nor its queue. It is taken to "
        f"be as fast as {own}, and in runs and draws {low:.2g} to {high:.2g} times as fast; the intervals "
        "allow for that. The round trip is shared evenly between both directions, because one clock "
        "cannot tell them apart."
    )


@dataclass(frozen=True)
class _Result:
    direction: Direction
    parameters: tuple[Parameter, ...]
    keys: list[Keys]
    """Of the best estimate, then of the draws."""
    checks: tuple[Check, ...]
    runs: int
    course: Course | None
    others: tuple[Keys, ...]
    likeness: float


@dataclass(frozen=True)
class _Learnt:
    """What the inference of one direction gave."""

    way: Way
    inference: Inference
    found: Found
    rows: Floats
    """Draws, a column for each of UNITS."""
    whose: Ints
    """Of which part each is."""

    @property
    def middle(self) -> Floats:
        """The medians of the most probable part."""
        middle: Floats = np.median(self.rows[self.whose == 0], axis=0)
        return middle


def _learn(
    one: Way, seed: int, jobs: int, rng: np.random.Generator, advance: Callable[[int], object], *, exact: bool
) -> _Learnt:
    fine = one.measurement.kind == "capture"
    # Of counters, the sender's are those of round trips and of what was sent again.
    seen_at = (one.measurement.seen_at or "sender") if fine else "sender"
    setting = Setting(one.transfers, one.direction, seen_at, one.until_s, one.known, one.back)
    inference = Inference(setting, one.delays, one.first, fine=fine, seed=seed, jobs=jobs, advance=advance)
    found = inference.run(_models(one))
    rows, whose = _drawn(found, rng, 0.0 if exact else 1.0)
    rows[:, _RATE] = one.known.values().get("rate", rows[:, _RATE])
    return _Learnt(one, inference, found, rows, whose)


def _rates_back(learnt: Sequence[_Learnt], seed: int) -> list[Floats]:
    """For each direction, rates of its way back, the best one first: those of the other transfer, if any."""
    if len(learnt) == 2:
        return [np.append(other.middle[_RATE], other.rows[:, _RATE]) for other in reversed(learnt)]
    return [
        np.append(usual(one.middle[_RATE]), drawn(one.rows[:, _RATE], one.way.back, seed)) for one in learnt
    ]


def _tell(
    learnt: _Learnt, back: Floats, rng: np.random.Generator, advance: Callable[[int], object]
) -> _Result:
    one, inference, found, whose = learnt.way, learnt.inference, learnt.found, learnt.whose
    lines = np.vstack((learnt.middle, learnt.rows))
    lines[:, _RTT] = delay_with(lines[:, _RTT], lines[:, _RATE], back)
    middle, rows = lines[0], lines[1:]
    refused = untold_of(one.first, found)
    stalled = {} if one.known.stalls is None else one.known.stalls.drawn(MANY, rng)
    values = [
        _values(row, refused, one) | {"back": float(rate)}
        for row, rate in zip(lines[: 1 + DRAWS], back, strict=False)
    ]
    for number, row in enumerate(values[1:]):
        row |= {name: float(column[number]) for name, column in stalled.items()}
    models = [found.parts[number].model for number in (0, *whose[:DRAWS])]
    seen = [
        _series(*inference.seen(row, model, number), one)
        for number, (row, model) in enumerate(zip(values[:SHOWN], models[:SHOWN], strict=True))
    ]
    advance(len(seen))
    measured = _series(one.transfers, one.delays, one)
    check = Check(str(one.measurement.file), one.direction, measured, tuple(seen))
    if "queue" in refused:
        models = [Model(model.control, "drop-tail") for model in models]
    keys: list[Keys] = [
        line_keys(row, model, one.direction, one.known) for row, model in zip(values, models, strict=True)
    ]
    said = (
        *_numbers(one, found, rows, middle, refused),
        *_words(one, found, refused),
        *_beside(one, stalled),
    )
    shift = inference.setting.shift_s(values[0]["rtt"])
    course = None if one.known.course is None else one.known.course.shifted(shift)
    others = tuple(one.known.flows(one.direction, shift))
    return _Result(one.direction, said, keys, (check,), found.runs, course, others, found.likeness)


def _beside(one: Way, stalled: dict[str, Floats]) -> list[Parameter]:
    """What single packets show; counters have none."""
    source = one.source
    if one.measurement.kind == "capture":
        return beside(one.known, one.direction, source, stalled)
    reason = "it takes single packets to see whether a queue stood"
    key = f"{one.direction}.link.course"
    return [Parameter("course", key, "", reason=reason, assumed="one rate", source=source)]


def _models(one: Way) -> list[Model]:
    """The models in question: those with the congestion control that the file names, if it does.

    Where a queue stood while the rate changed, no policer made the rate.
    """
    models = [model for model in MODELS if one.known.verdict is None or model.queue != "policer"]
    named = {part.control for part in one.transfers}
    return [model for model in models if named == {model.control}] or models


def _drawn(found: Found, rng: np.random.Generator, error: float) -> tuple[Floats, Ints]:
    """Draws from the posterior, a column for each of UNITS, and of which part each is.

    What a model has none of is 0; a queue that drops by time has no length, but NaN. `error` is the part of
    the model's own error that is in them.
    """
    rows = np.zeros((MANY, len(UNITS)))
    whose = rng.choice(len(found.parts), MANY, p=[part.chance for part in found.parts])
    for number, part in enumerate(found.parts):
        own = np.flatnonzero(whose == number)
        weights = part.posterior.weights / part.posterior.weights.sum()
        chosen = rng.choice(len(weights), len(own), p=weights)
        errors = [error * MODEL_ERROR.get(name, 0.0) for name in part.names]
        noise = rng.normal(0, errors, (len(own), len(part.names)))
        drawn = dict(zip(part.names, np.exp(part.posterior.draws[chosen] + noise).T, strict=True))
        # The exponential of a logarithm is not quite a whole number.
        lengths = np.round(drawn.get("buffer", np.full(len(own), np.nan)), 6)
        drawn["buffer"] = np.maximum(lengths + rng.normal(0, error * PACKET_ERROR, len(own)), 1)
        late = rng.normal(0, error * DELAY_ERROR_MS, len(own))
        drawn["rtt"] = np.maximum(drawn["rtt"] + late, drawn["rtt"] / 2)
        for place, name in enumerate(UNITS):
            rows[own, place] = drawn.get(name, 0.0)
    return rows, whose


def untold_of(first: Estimate, found: Found) -> dict[str, str]:
    """Reasons, by parameter, for what neither the data nor the runs tell."""
    refused = dict(first.refused)
    best = found.parts[0]
    if any(part.model.endless for part in found.parts):
        refused.setdefault("buffer", AT_RANDOM)
        # No queue dropped, so what it would have dropped by is open.
        if any(part.model.queue != best.model.queue for part in found.parts):
            refused.setdefault("queue", AT_RANDOM)
    for name, share in zip(best.names, best.shares, strict=True):
        if name == "rtt" and share > UNTOLD_DELAY and first.loaded:
            refused["rtt"] = LOADED
        elif share > UNTOLD and name not in {"rate", "rtt"}:
            refused.setdefault(
                name, "simulated lines with very different values behave like the measured one"
            )
    return refused


def _values(row: Floats, refused: dict[str, str], one: Way) -> dict[str, float]:
    values = {name: float(value) for name, value in zip(UNITS, row, strict=True)} | one.known.values()
    for name in ("loss", "jitter"):
        if name in refused:
            values.pop(name)
    if "buffer" in refused or np.isnan(values["buffer"]):
        values["buffer"] = assumed_buffer(values, one.first)
    return values


def assumed_buffer(values: dict[str, float], first: Estimate) -> float:
    """A queue of a round trip, or what the data prove it to hold, if that is more."""
    return max(10.0, values["rtt"] / packet_ms(values["rate"]), 1.2 * first.buffer)


def _numbers(
    one: Way, found: Found, rows: Floats, middle: Floats, refused: dict[str, str]
) -> list[Parameter]:
    source = one.source
    numbers = []
    for place, (name, unit) in enumerate(UNITS.items()):
        key = KEYS[name].format(way=one.direction)
        public = NAMES.get(name, name)
        if name == "rate" and one.known.course is not None:
            numbers.append(_mean_rate(one.known.course, one.direction, source))
            continue
        if name in refused or np.isnan(middle[place]):
            reason = refused.get(name, f"{found.model.queue} drops by time, so its length never matters")
            assumed = {
                "buffer": "a queue of a round trip",
                "rtt": f"{middle[place] / 2:.3g} ms each way",
            }.get(name, "none")
            numbers.append(Parameter(public, key, unit, reason=reason, assumed=assumed, source=source))
            continue
        low, high = np.nanpercentile(rows[:, place], [5, 95]).tolist()
        value = float(middle[place])
        if value == 0:
            high = max(high, _hidden(name, one.first))
        ends = min(low, value), max(high, value)
        numbers.append(Parameter(public, key, unit, value, *ends, source=source))
    return numbers


def _mean_rate(course: Course, direction: Direction, source: Source) -> Parameter:
    """That of a course, which was counted."""
    half = 1.645 * course.mean * float(np.hypot(course.error, MODEL_ERROR["rate"]))
    ends = course.mean - half, course.mean + half
    return Parameter("rate", f"{direction}.link.course", "Mbit/s", course.mean, *ends, source=source)


def _hidden(name: str, first: Estimate) -> float:
    """How much loss or jitter can be there, though none was found."""
    if name == "jitter":
        return packet_ms(first.rate)
    # Rule of three, at 90 %: that nothing of n was lost still happens in a tenth of all cases. Among losses
    # of other causes, random ones hide as far as the number of those varies.
    return (2.3 + 1.64 * math.sqrt(first.losses)) / max(first.packets, 1)


def _words(one: Way, found: Found, refused: dict[str, str]) -> list[Parameter]:
    source = one.source
    chances: dict[str, dict[str, float]] = {"control": {}, "queue": {}}
    for model, chance in found.chances.items():
        for name, word in (("control", model.control), ("queue", model.queue)):
            chances[name][word] = chances[name].get(word, 0.0) + chance
    keys = {"control": "tcp.congestion_control", "queue": f"{one.direction}.queue.discipline"}
    words = []
    for name, word in (("control", found.model.control), ("queue", found.model.queue)):
        chance = chances[name][word]
        reason = refused.get(name)
        if reason is None and chance < 0.7:
            others = ", ".join(
                other for other, share in chances[name].items() if share > 0.1 and other != word
            )
            reason = f"{word} and {others} behave alike on this line"
        named = one.known.discipline(word)
        if reason is None:
            words.append(Parameter(name, keys[name], "", named, probability=chance, source=source))
        else:
            words.append(Parameter(name, keys[name], "", reason=reason, assumed=named, source=source))
    return [*words, _initial_window(one, source)]


def _initial_window(one: Way, source: Source) -> Parameter:
    window = one.transfers[0].initial_window
    if window is None:
        reason = "the start of the connection is missing"
        return Parameter(
            "initial_window", "tcp.initial_window", "packets", reason=reason, assumed="10", source=source
        )
    ends = float(window)
    return Parameter("initial_window", "tcp.initial_window", "packets", ends, ends, ends, source=source)


def _series(transfers: tuple[Transfer, ...], delays: Delays | None, one: Way) -> Series:
    """Goodput in about a hundred steps, and some thousand round trips at most."""
    grid = np.linspace(0, one.until_s, 101)
    if one.measurement.kind != "capture":
        grid = np.concatenate([[0.0], one.transfers[0].time_s])
    goodput = np.diff(delivered(transfers, grid)) * 8e-6 / np.maximum(np.diff(grid), 1e-9)
    empty = np.empty(0)
    time, rtt = (empty, empty) if delays is None else (delays.time_s, delays.rtt_ms)
    step = max(1, len(time) // 1000)
    return Series((grid[1:] + grid[:-1]) / 2, goodput, time[::step], rtt[::step])
