"""The fit of a line to measurements: parameters with intervals, draws and simulated transfers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lasthop.common.errors import InputError
from lasthop.fit.course import Course
from lasthop.fit.cross import Known
from lasthop.fit.estimate import Estimate, estimate, transfers_of
from lasthop.fit.infer import (
    MODELS,
    USUAL_LIKENESS,
    Inference,
    Mixture,
    most_runs,
)
from lasthop.fit.joined import pairs
from lasthop.fit.line import NOTHING, OTHER, Model, Setting, cut, from_start, line_keys
from lasthop.fit.measurement import Delays, Direction, Floats, Ints, Measurement, Transfer, packet_ms
from lasthop.fit.observed import Observed, delivered_with, observe, parameters_of
from lasthop.fit.oneway import waits
from lasthop.fit.posterior import Check, Fit, Keys, Parameter, Series, Source
from lasthop.fit.sharing import queues
from lasthop.fit.summary import delivered
from lasthop.fit.way_back import ANY, Shares, delay_with, draw, usual

# The error of the model compared with real hosts and links, as a standard deviation of the logarithm. Without
# it the intervals would describe only the agreement of the model with itself. That of the rate was measured
# with 12 captures of Linux (0.06 %) and rounded up; the others are assumed.
MODEL_ERROR = {"rate": 0.001, "buffer": 0.01, "loss": 0.05, "jitter": 0.05}
# The error of the regression for a policer's rate, which depends on its bucket and on the line. Over nine
# policers of a half to a tenth of the line's rate it was 0.7 %, rounded up.
POLICER_ERROR = 0.01
# Hosts need time for a packet: the delays of the same captures were off by 0.1 ms, whatever the delay.
DELAY_ERROR_MS = 0.1
# A limit counts whole packets, and with hosts that send two at a time it may act a packet earlier or later.
# The queues of the same captures were off by 0.3 packets, and by 0.6 at most.
PACKET_ERROR = 0.5
# Draws for the quantiles, for the scenario, and for the transfers drawn with the measured one.
MANY, DRAWS, SHOWN = 4000, 20, 8
# More packets are not compared: the runs would take too long for little more information.
MOST_PACKETS = 20_000
LONGEST_S, LEAST_S = 30.0, 2.0
# The share of the shorter transfer that another one beside it may overlap.
TOGETHER = 0.1
# A control or discipline that is less probable is not identified.
LEAST_PROBABILITY = 0.7
# A 90 % interval that spans more than this share of the prior is uninformative.
UNINFORMATIVE = 0.6
# With fewer probes of an idle line, all of them may have been delayed.
LEAST_PROBES = 5
# The same for the delay if round trips are those of a busy line: from a tenth of the least to the least.
UNINFORMATIVE_DELAY = 0.25
# Quantiles of the round trips that a simulated transfer must have like the measured one.
QUANTILES = (50, 75, 90)
UNLIKE = (
    "Few simulated lines deviate as much as the measured line ({way}), which may have properties outside the "
    "model, so the intervals may be too narrow. The report shows the differences."
)
SEVERAL = (
    "Several transfers shared the line ({way}). How they share it differs between equal runs, so the "
    "intervals may be too narrow, and the congestion control and the kind of queue may be wrong. Capture one "
    "transfer alone."
)
VARIED = (
    "The rate that the line left for the transfer ({}) varied, because of the link or of traffic outside the "
    "capture. Changes are only visible while a queue stands ({:.0%} of the time), so the intervals may be "
    "too narrow, and the congestion control and the kind of queue may be wrong."
)
LOADED = "these are smoothed round trips of a busy line; the output of ping before the transfer identifies it"
AT_RANDOM = "random losses alone explain the data, so the queue may never have been full"
UNITS = {"rate": "Mbit/s", "rtt": "ms", "buffer": "packets", "loss": "", "jitter": "ms"}
NAMES = {"rtt": "delay"}
# What is drawn: the same, and the rate of the link behind a policer.
COLUMNS = (*UNITS, "line")
_RATE, _RTT = (list(UNITS).index(name) for name in ("rate", "rtt"))
KEYS = {
    "rate": "{way}.link.rate",
    "rtt": "{way}.link.delay",
    "buffer": "{way}.queue.limit",
    "loss": "{way}.link.loss",
    "jitter": "{way}.link.jitter",
}


def runs_of_a_fit(ways: int) -> int:
    """Return the largest number of runs of the inference."""
    return ways * (most_runs() + SHOWN)


@dataclass(frozen=True)
class Way:
    """The data of a direction, from the most informative file."""

    direction: Direction
    measurement: Measurement
    transfers: tuple[Transfer, ...]
    delays: Delays | None
    until_s: float
    first: Estimate
    observed: Observed = NOTHING
    back: Shares = (1.0, 1.0)
    """The range of the rate of the ACKs' direction."""

    @property
    def source(self) -> Source:
        return Source(self.measurement.file, self.measurement.kind)


def ways_of(measurements: Sequence[Measurement]) -> list[Way]:
    """Return the directions with transfers. Raises InputError if none identifies a rate."""
    ways, reasons = [], []
    idle = _idle(measurements)
    for direction in ("down", "up"):
        candidates = [
            measurement for measurement in measurements if transfers_of(measurement.transfers, direction)
        ]
        if not candidates:
            continue
        best = max(candidates, key=lambda measurement: _worth(measurement, direction))
        way = _way(best, direction, idle, measurements)
        if "rate" in way.first.refused or "delay" in way.first.refused:
            reasons += [f"{best.file}: {reason}" for reason in dict.fromkeys(way.first.refused.values())]
            reasons += [note.rstrip(".") for note in best.notes]
        else:
            ways.append(way)
    if not ways:
        missing = "they contain no transfer, and delays do not determine a rate"
        why = "; ".join(dict.fromkeys(reasons)) or missing
        raise InputError(
            f"These data do not identify the line: {why}. Measure a transfer that fills the line for ten "
            "seconds, for example a download while 'tcpdump -s 120 -w line.pcap tcp' is running."
        )
    return [replace(measurement, back=_back(measurement, ways)) for measurement in ways]


def _back(way: Way, ways: Sequence[Way]) -> Shares:
    """Return the range of the rate in the other direction: that of the transfer there, if there is one."""
    for other in ways:
        if other.direction != way.direction:
            share = other.first.rate / way.first.rate
            return share, share
    return ANY[way.direction]


def _idle(measurements: Sequence[Measurement]) -> float | None:
    """Return the least round trip of probes while no transfer ran, if there are any."""
    seen = [np.empty(0)]
    for measurement in measurements:
        if measurement.delays is not None and not measurement.transfers:
            seen.append(measurement.delays.rtt_ms)
        elif measurement.delays is not None and measurement.delays.loaded is not None:
            seen.append(measurement.delays.rtt_ms[~measurement.delays.loaded])
    probes = np.concatenate(seen)
    return float(np.nanmin(probes)) if np.isfinite(probes).sum() >= LEAST_PROBES else None


def _worth(measurement: Measurement, direction: Direction) -> tuple[bool, bool, float]:
    """Prefer captures to counters, the sender's end to the receiver's, and more bytes to fewer."""
    total = sum(float(part.bytes[-1]) for part in transfers_of(measurement.transfers, direction))
    return measurement.kind == "capture", measurement.seen_at == "sender", total


def _way(
    measurement: Measurement, direction: Direction, idle_ms: float | None, measurements: Sequence[Measurement]
) -> Way:
    transfers, delays = transfers_of(measurement.transfers, direction), measurement.delays
    if measurement.kind == "capture":
        idle_ms = None  # The capture has round trips of the same time.
    else:
        transfers, delays = from_start(transfers, delays)
    end = max(float(part.time_s[-1]) for part in transfers)
    packets = sum(part.packets for part in transfers)
    until = min(0.999 * end, LONGEST_S, max(LEAST_S, end * MOST_PACKETS / max(packets, 1)))
    parts, delays = cut(transfers, delays, until)
    others, seen_at = measurement.others.get(direction), measurement.seen_at or "sender"
    others = None if others is None else others.until(until)
    first = estimate(parts, delays, until, idle_ms, delivered_with(others, delays, seen_at))
    if measurement.kind != "capture":
        return Way(direction, measurement, transfers, delays, until, first)
    observed = observe(parts, delays, until, seen_at, others)
    shared = queues(measurement, direction, measurements, packet_ms(first.rate))
    return Way(direction, measurement, transfers, delays, until, first, replace(observed, queues=shared))


def fit(
    measurements: Sequence[Measurement],
    *,
    seed: int = 1,
    jobs: int = 1,
    exact: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> Fit:
    """Fit a line to measurements. Raises InputError if they do not identify the rate.

    `exact` data come from the model itself, so the intervals do not include the model's error.
    """
    rng = np.random.default_rng(seed)
    ways = ways_of(measurements)
    fits = [_infer(way, seed, jobs, rng, advance, exact=exact) for way in ways]
    backs = _rates_back(fits, seed)
    results = [_result(way_fit, back, rng, advance) for way_fit, back in zip(fits, backs, strict=True)]
    parameters = [parameter for result in results for parameter in result.parameters]
    joined, apart = pairs(measurements)
    parameters += [pair.answers_lost() for pair in joined]
    # A direction that was not measured has the keys that the other direction assumes.
    merged = [dict(keys) for keys in results[0].keys]
    for result in results[1:]:
        for keys, own in zip(merged, result.keys, strict=True):
            keys[result.direction] = own[result.direction]
    for keys in merged:
        for pair in joined:
            pair.put(keys)
    notes = [note for item in measurements for note in item.notes]
    notes += [note for item in measurements if (note := waits(item)) is not None]
    notes += [note for pair in joined for note in pair.notes()] + apart
    notes.append(_delay_note(results))
    notes += _at_once(fits)
    notes += [SEVERAL.format(way=way.direction) for way in ways if overlap(way.transfers)]
    notes += [VARIED.format(way.direction, way.observed.covered_share) for way in ways if way.observed.varied]
    notes += [UNLIKE.format(way=result.direction) for result in results if result.likeness < USUAL_LIKENESS]
    return Fit(
        measurements=tuple(measurements),
        parameters=tuple(parameters),
        best=merged[0],
        draws=tuple(merged[1:]),
        checks=tuple(check for result in results for check in result.checks),
        runs=sum(result.runs for result in results),
        notes=tuple(dict.fromkeys(notes)),
        courses={result.direction: result.course for result in results if result.course is not None},
        others=tuple(flow for result in results for flow in result.others),
        recordings={result.direction: result.recording for result in results if result.recording},
    )


def _at_once(fits: Sequence[_WayFit]) -> list[str]:
    """Return a note on transfers of both directions that ran at the same time in one capture."""
    ways = [fit_.way for fit_ in fits if fit_.way.measurement.kind == "capture"]
    if len(ways) < 2 or ways[0].measurement is not ways[1].measurement:
        return []
    begins, ends = (
        [pick(float(part.time_s[place]) for part in way.transfers) for way in ways]
        for pick, place in ((min, 0), (max, -1))
    )
    if min(ends) - max(begins) < TOGETHER * min(end - begin for begin, end in zip(begins, ends, strict=True)):
        return []
    return [
        f"{ways[0].measurement.file.name}: transfers of both directions ran at the same time, and each was "
        "fitted as if it were alone. The intervals may be too narrow, because round trips include the queues "
        "of both directions. Capture the transfers one after the other."
    ]


def overlap(transfers: Sequence[Transfer]) -> bool:
    """Return whether any two of the transfers ran at the same time."""
    times = sorted((float(part.time_s[0]), float(part.time_s[-1])) for part in transfers)
    return any(second[0] < first[1] for first, second in itertools.pairwise(times))


def _delay_note(results: Sequence[_Result]) -> str:
    if len(results) == 2:
        return "The round trip is divided evenly between both directions, which one clock cannot distinguish."
    own, other = results[0].direction, OTHER[results[0].direction]
    low, high = ANY[own]
    return (
        f"The direction {other} carried only ACKs, which identify neither its rate nor its queue. Its "
        f"assumed rate is that of {own}, and in runs and draws {low:.2g} to {high:.2g} times that rate; the "
        "intervals include this range. The round trip is divided evenly between both directions, which one "
        "clock cannot distinguish."
    )


@dataclass(frozen=True)
class _Result:
    direction: Direction
    parameters: tuple[Parameter, ...]
    keys: list[Keys]
    """The keys of the best estimate, then of the draws."""
    checks: tuple[Check, ...]
    runs: int
    course: Course | None
    others: tuple[Keys, ...]
    recording: tuple[Known, Keys] | None
    likeness: float


@dataclass(frozen=True)
class _WayFit:
    """The result of the inference of a direction."""

    way: Way
    inference: Inference
    result: Mixture
    rows: Floats
    """Draws, with a column for each of COLUMNS."""
    whose: Ints
    """The part of the mixture to which each draw belongs."""

    @property
    def middle(self) -> Floats:
        """The medians of the most probable part."""
        middle: Floats = np.median(self.rows[self.whose == 0], axis=0)
        return middle


def _infer(
    way: Way, seed: int, jobs: int, rng: np.random.Generator, advance: Callable[[int], object], *, exact: bool
) -> _WayFit:
    fine = way.measurement.kind == "capture"
    # Among counters, the sender's include round trips and retransmissions.
    seen_at = (way.measurement.seen_at or "sender") if fine else "sender"
    setting = Setting(way.transfers, way.direction, seen_at, way.until_s, way.observed, way.back)
    inference = Inference(setting, way.delays, way.first, fine=fine, seed=seed, jobs=jobs, advance=advance)
    result = inference.run(_models(way))
    rows, whose = _draw(result, rng, 0.0 if exact else 1.0)
    rows[:, _RATE] = way.observed.values().get("rate", rows[:, _RATE])
    return _WayFit(way, inference, result, rows, whose)


def _rates_back(fits: Sequence[_WayFit], seed: int) -> list[Floats]:
    """Return for each direction rates of the other one, the best estimate first, if possible as measured."""
    if len(fits) == 2:
        return [np.append(other.middle[_RATE], other.rows[:, _RATE]) for other in reversed(fits)]
    return [
        np.append(usual(fit_.middle[_RATE]), draw(fit_.rows[:, _RATE], fit_.way.back, seed)) for fit_ in fits
    ]


def _result(
    fit_: _WayFit, back: Floats, rng: np.random.Generator, advance: Callable[[int], object]
) -> _Result:
    way, inference, result, whose = fit_.way, fit_.inference, fit_.result, fit_.whose
    lines = np.vstack((fit_.middle, fit_.rows))
    lines[:, _RTT] = delay_with(lines[:, _RTT], lines[:, _RATE], back)
    middle, rows = lines[0], lines[1:]
    refused = unidentified(way.first, result)
    stall_draws = {} if way.observed.stalls is None else way.observed.stalls.draw(MANY, rng)
    values = [
        _values(row, refused, way) | {"back": float(rate)}
        for row, rate in zip(lines[: 1 + DRAWS], back, strict=False)
    ]
    for number, row in enumerate(values[1:]):
        row |= {name: float(column[number]) for name, column in stall_draws.items()}
    models = [result.parts[number].model for number in (0, *whose[:DRAWS])]
    simulated = [
        _series(*inference.simulated(row, model, number), way)
        for number, (row, model) in enumerate(zip(values[:SHOWN], models[:SHOWN], strict=True))
    ]
    advance(len(simulated))
    measured = _series(way.transfers, way.delays, way)
    check = Check(str(way.measurement.file), way.direction, measured, tuple(simulated))
    if "queue" in refused:
        models = [Model(model.control, "drop-tail") for model in models]
    keys: list[Keys] = [
        line_keys(row, model, way.direction, way.observed) for row, model in zip(values, models, strict=True)
    ]
    # Counters have smoothed round trips, which runs do not have.
    if way.measurement.kind == "capture" and far_from(check, packet_ms(middle[_RATE])):
        result = replace(result, likeness=0.0)
    words = _words(way, result, refused)
    parameters = (
        *_numbers(way, result, rows, middle, refused, doubtful=words[0].value is None),
        *words,
        *_observations(way, stall_draws),
    )
    shift = inference.setting.shift_s(values[0]["rtt"])
    course = None if way.observed.course is None else way.observed.course.shifted(shift)
    others = tuple(way.observed.flows(way.direction, shift))
    known = way.observed.known
    recording = None if known is None else (known, known.flow(way.direction, values[0]["rtt"] / 1e3, ""))
    return _Result(
        way.direction, parameters, keys, (check,), result.runs, course, others, recording, result.likeness
    )


def far_from(check: Check, packet: float) -> bool:
    """Return whether the measured round trips are far outside those of the simulated transfers.

    Compared are quantiles. Far is as much beyond their range as this is wide, and at least one packet's time
    (`packet`, in ms): about four standard deviations for the usual number of transfers.
    """
    if not len(check.measured.rtt_ms) or not all(len(one.rtt_ms) for one in check.simulated):
        return False
    measured = np.percentile(check.measured.rtt_ms, QUANTILES)
    simulated = np.array([np.percentile(one.rtt_ms, QUANTILES) for one in check.simulated])
    low, high = simulated.min(axis=0), simulated.max(axis=0)
    margin = np.maximum(high - low, packet)
    return bool(((measured < low - margin) | (measured > high + margin)).any())


def _observations(way: Way, stall_draws: dict[str, Floats]) -> list[Parameter]:
    """Return the parameters observed from packets, which counters do not have."""
    source = way.source
    if way.measurement.kind == "capture":
        return parameters_of(way.observed, way.direction, source, stall_draws)
    reason = "only packets show whether there was a standing queue"
    key = f"{way.direction}.link.course"
    return [Parameter("course", key, "", reason=reason, assumed="one rate", source=source)]


def _models(way: Way) -> list[Model]:
    """Return the candidate models: those with the congestion control in the file, if known.

    A standing queue during changes of the rate excludes a policer.
    """
    models = [model for model in MODELS if way.observed.verdict is None or model.queue != "policer"]
    controls = {part.control for part in way.transfers}
    return [model for model in models if controls == {model.control}] or models


def _draw(result: Mixture, rng: np.random.Generator, error: float) -> tuple[Floats, Ints]:
    """Draw from the posterior: a column for each of COLUMNS, and the part to which each draw belongs.

    Properties that a model lacks are 0; the length of a queue that drops by time is NaN. `error` scales the
    model's error that is added to the draws.
    """
    rows = np.zeros((MANY, len(COLUMNS)))
    whose = rng.choice(len(result.parts), MANY, p=[part.chance for part in result.parts])
    for number, part in enumerate(result.parts):
        own = np.flatnonzero(whose == number)
        weights = part.posterior.weights / part.posterior.weights.sum()
        chosen = rng.choice(len(weights), len(own), p=weights)
        errors = [error * MODEL_ERROR.get(name, 0.0) for name in part.names]
        if part.model.queue == "policer":
            errors[part.names.index("rate")] = max(errors[part.names.index("rate")], POLICER_ERROR)
        noise = rng.normal(0, errors, (len(own), len(part.names)))
        columns = dict(zip(part.names, np.exp(part.posterior.draws[chosen] + noise).T, strict=True))
        # The exponential of a logarithm is not quite a whole number.
        lengths = np.round(columns.get("buffer", np.full(len(own), np.nan)), 6)
        columns["buffer"] = np.maximum(lengths + rng.normal(0, error * PACKET_ERROR, len(own)), 1)
        late = rng.normal(0, error * DELAY_ERROR_MS, len(own))
        columns["rtt"] = np.maximum(columns["rtt"] + late, columns["rtt"] / 2)
        for place, name in enumerate(COLUMNS):
            rows[own, place] = columns.get(name, 0.0)
    return rows, whose


def unidentified(first: Estimate, result: Mixture) -> dict[str, str]:
    """Return the reasons for parameters that neither the data nor the runs identify."""
    refused = dict(first.refused)
    best = result.parts[0]
    if any(part.model.endless for part in result.parts):
        refused.setdefault("buffer", AT_RANDOM)
        # Without drops by a queue, its discipline is unknown.
        if best.model.endless or any(part.model.queue != best.model.queue for part in result.parts):
            refused.setdefault("queue", AT_RANDOM)
    for name, share in zip(best.names, best.shares, strict=True):
        if name == "rtt" and share > UNINFORMATIVE_DELAY and first.loaded:
            refused["rtt"] = LOADED
        elif share > UNINFORMATIVE and name not in {"rate", "rtt"}:
            refused.setdefault(
                name, "simulated lines with very different values behave like the measured line"
            )
    return refused


def _values(row: Floats, refused: dict[str, str], way: Way) -> dict[str, float]:
    values = {name: float(value) for name, value in zip(COLUMNS, row, strict=True)} | way.observed.values()
    for name in ("loss", "jitter"):
        if name in refused:
            values.pop(name)
    if "buffer" in refused or np.isnan(values["buffer"]):
        values["buffer"] = assumed_buffer(values, way.first)
    return values


def assumed_buffer(values: dict[str, float], first: Estimate) -> float:
    """Return a queue of a round trip, or the largest observed queue, if this is larger."""
    return max(10.0, values["rtt"] / packet_ms(values["rate"]), 1.2 * first.buffer)


def _numbers(
    way: Way, result: Mixture, rows: Floats, middle: Floats, refused: dict[str, str], *, doubtful: bool
) -> list[Parameter]:
    """Return the numbers with their intervals.

    Without a congestion control, the models may all be wrong, and the rate with them (`doubtful`). Its
    interval then spans what the spacing of packets shows, too.
    """
    source = way.source
    numbers = []
    for place, (name, unit) in enumerate(UNITS.items()):
        key = KEYS[name].format(way=way.direction)
        public = NAMES.get(name, name)
        if name == "rate" and way.observed.course is not None:
            numbers.append(_mean_rate(way.observed.course, way.direction, source))
            continue
        if name in refused or np.isnan(middle[place]):
            reason = refused.get(name, f"{result.model.queue} drops by time, so its limit has no effect")
            assumed = {
                "buffer": "a queue of a round trip",
                "rtt": f"{middle[place] / 2:.3g} ms each way",
            }.get(name, "none")
            numbers.append(Parameter(public, key, unit, reason=reason, assumed=assumed, source=source))
            continue
        low, high = np.nanpercentile(rows[:, place], [5, 95]).tolist()
        value = float(middle[place])
        if value == 0:
            high = max(high, _largest_hidden(name, way.first))
        within = [value]
        if name == "rate" and doubtful:
            within += [way.first.rate * (1 + error * MODEL_ERROR["rate"]) for error in (-1.645, 1.645)]
        ends = min(low, *within), max(high, *within)
        numbers.append(Parameter(public, key, unit, value, *ends, source=source))
    return numbers


def _mean_rate(course: Course, direction: Direction, source: Source) -> Parameter:
    half = 1.645 * course.mean * float(np.hypot(course.error, MODEL_ERROR["rate"]))
    ends = course.mean - half, course.mean + half
    return Parameter("rate", f"{direction}.link.course", "Mbit/s", course.mean, *ends, source=source)


def _largest_hidden(name: str, first: Estimate) -> float:
    """Return the largest loss or jitter that may exist although none was observed."""
    if name == "jitter":
        return packet_ms(first.rate)
    # Rule of three, at 90 %: in a tenth of all cases, none of n packets is lost. Random losses can also be
    # hidden by the random variation of the number of other losses.
    return (2.3 + 1.64 * math.sqrt(first.losses)) / max(first.packets, 1)


def _words(way: Way, result: Mixture, refused: dict[str, str]) -> list[Parameter]:
    source = way.source
    chances: dict[str, dict[str, float]] = {"control": {}, "queue": {}}
    for model, chance in result.chances.items():
        for name, word in (("control", model.control), ("queue", model.queue)):
            chances[name][word] = chances[name].get(word, 0.0) + chance
    keys = {"control": "tcp.congestion_control", "queue": f"{way.direction}.queue.discipline"}
    words = []
    for name, word in (("control", result.model.control), ("queue", result.model.queue)):
        chance = result.explained * chances[name][word]
        reason = refused.get(name)
        if reason is None and result.explained < LEAST_PROBABILITY:
            reason = f"{word} behaves most like the measured line of those compared, but not quite"
        if reason is None and chance < LEAST_PROBABILITY:
            others = ", ".join(
                other for other, share in chances[name].items() if share > 0.1 and other != word
            )
            reason = f"{word} and {others} behave similarly on this line"
        name_ = way.observed.discipline(word)
        if reason is None:
            words.append(Parameter(name, keys[name], "", name_, probability=chance, source=source))
        else:
            words.append(Parameter(name, keys[name], "", reason=reason, assumed=name_, source=source))
    return [*words, _initial_window(way, source)]


def _initial_window(way: Way, source: Source) -> Parameter:
    window = way.transfers[0].initial_window
    if window is None:
        reason = "the start of the connection is missing"
        return Parameter(
            "initial_window", "tcp.initial_window", "packets", reason=reason, assumed="10", source=source
        )
    ends = float(window)
    return Parameter("initial_window", "tcp.initial_window", "packets", ends, ends, ends, source=source)


def _series(transfers: tuple[Transfer, ...], delays: Delays | None, way: Way) -> Series:
    """Return goodput in about a hundred steps, and at most about a thousand round trips."""
    grid = np.linspace(0, way.until_s, 101)
    if way.measurement.kind != "capture":
        grid = np.concatenate([[0.0], way.transfers[0].time_s])
    goodput = np.diff(delivered(transfers, grid)) * 8e-6 / np.maximum(np.diff(grid), 1e-9)
    empty = np.empty(0)
    time, rtt = (empty, empty) if delays is None else (delays.time_s, delays.rtt_ms)
    step = max(1, len(time) // 1000)
    return Series((grid[1:] + grid[:-1]) / 2, goodput, time[::step], rtt[::step])
