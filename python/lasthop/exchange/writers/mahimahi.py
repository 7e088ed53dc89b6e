"""Mahimahi: a script that nests its shells, and the traces of mm-link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from lasthop.exchange.line import State
from lasthop.exchange.quantities import scenario_time
from lasthop.exchange.writers.hop import Hop, Side, packet_loss
from lasthop.exchange.writers.tc import missing_lines

MS = 10**6
OPPORTUNITY_BITS = 1500 * 8
_WAYS = {"down": "downlink", "up": "uplink"}
_PERIOD_MS = 12_000
"""The length of the longest trace of a constant rate: with it, those in whole kbit/s are exact."""
_SPARE_MS = 60_000
"""How long the last rate of a course holds in a trace before it repeats."""
_PIE_BURST_MS = 150
"""The burst allowance of RFC 8033, section 4.3."""


def write(hop: Hop) -> dict[str, str]:
    """Return the script and both traces, by the names of their files."""
    delay_ms = _delay(hop)
    shells: list[str] = []
    options: list[str] = []
    files = {}
    for way, side in hop.sides.items():
        files[f"{way}.trace"] = _trace(side)
        shells += _losses(side)
        options += _queue(side)
    lines = [
        "#!/bin/sh",
        f"# {hop.title}, by 'lasthop export --as mahimahi'. Runs a program, by default a shell.",
        "#",
        *missing_lines(hop.missing()),
        'here=$(dirname "$0")',
        "[ $# -gt 0 ] || set -- sh",
        " \\\n  ".join(
            [f"exec mm-delay {delay_ms}", *shells, 'mm-link "$here/up.trace" "$here/down.trace"', *options]
        )
        + ' -- "$@"',
    ]
    return {"run.sh": "\n".join(lines) + "\n"} | files


def _delay(hop: Hop) -> int:
    """Return the delay of both directions in milliseconds, half the round trip."""
    delays = [side.delay_ns for side in hop.sides.values()]
    milliseconds = round(Fraction(sum(delays), 2 * MS))
    for side, delay in zip(hop.sides.values(), delays, strict=True):
        if delay != milliseconds * MS:
            side.lacks("link.delay", f"{milliseconds} ms in both directions")
        if any(state.delay_ns not in (None, delay) for state in side.states):
            side.lacks("link", "the delay does not change")
    return milliseconds


def _losses(side: Side) -> Iterator[str]:
    link = _WAYS[side.way]
    loss = side.take("link.loss")
    if (bits := side.take("link.bit_error_rate")) is not None:
        loss = packet_loss(float(str(bits)), side.mtu)
        side.lacks("link.bit_error_rate", "short packets are lost as often as full ones")
    if any(state.loss for state in side.states):
        side.lacks("link", "losses of the course are left out")
    if loss is not None and float(str(loss)) > 0:
        yield f"mm-loss {link} {_decimal(float(str(loss)))}"
    errors = side.take("link.errors")
    if not isinstance(errors, dict):
        return
    means = [_mean(errors[period]) for period in ("good", "bad")]
    certain = errors.get("packet_error_probability") == 1.0 and not errors.get("arq")
    if not certain or None in means or errors.get("start") != "good":
        side.lacks("link.errors", "no bad periods and no ARQ")
        return
    fixed = isinstance(errors["good"], str)
    if fixed != isinstance(errors["bad"], str):
        side.lacks("link.errors", "no bad periods: both are of constant length, or both exponential")
        return
    lengths = " ".join(_decimal(Fraction(mean or 0, 10**9)) for mean in means)
    yield f"{'mm-intermittent' if fixed else 'mm-onoff'} {link} {lengths}"


def _mean(period: object) -> int | None:
    """Return the length of periods in nanoseconds, if they are constant or exponential."""
    if isinstance(period, str):
        return scenario_time(period)
    if (
        isinstance(period, dict)
        and period["distribution"] == "exponential"
        and (period.get("min") is None and period.get("max") is None)
    ):
        return scenario_time(period["mean"])
    return None


def _decimal(value: float | Fraction) -> str:
    number = (
        Decimal(repr(value))
        if isinstance(value, float)
        else (Decimal(value.numerator) / Decimal(value.denominator))
    )
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _queue(side: Side) -> Iterator[str]:
    """Yield the options of mm-link for the queue of a direction."""
    kind = side.take("queue.discipline") or "drop-tail"
    limit, unit = side.limit()
    names = {"drop-tail": "droptail", "drop-head": "drophead", "codel": "codel", "pie": "pie"}
    name = names.get(str(kind))
    if name is None:
        side.lacks("queue.discipline", f"a queue that drops only when it is full, instead of {kind!r}")
        name = "droptail"
    arguments = [f"packets={limit}" if unit == "packets" else f"bytes={limit}"]
    if kind == "codel":
        for key, default in (("target", "5 ms"), ("interval", "100 ms")):
            arguments.append(f"{key}={_milliseconds(side, key, default)}")
    elif kind == "pie":
        arguments += [f"qdelay_ref={_milliseconds(side, 'target', '15 ms')}", f"max_burst={_PIE_BURST_MS}"]
        side.lacks("queue.discipline", "PIE is that of Mahimahi: updates every 30 ms")
    link = _WAYS[side.way]
    yield f"--{link}-queue={name}"
    yield f'--{link}-queue-args="{", ".join(arguments)}"'


def _milliseconds(side: Side, key: str, default: str) -> int:
    value = scenario_time(str(side.take(f"queue.{key}") or default))
    milliseconds = max(round(Fraction(value, MS)), 1)
    if milliseconds * MS != value:
        side.lacks(f"queue.{key}", f"{milliseconds} ms")
    return milliseconds


def _trace(side: Side) -> str:
    text = side.take("link.trace")
    if isinstance(text, str):
        return text
    changes = [state for state in side.states if state.rate is not None]
    if changes:
        end = -(-changes[-1].at_ns // MS) + _SPARE_MS
        side.lacks("link", f"the trace repeats after {end / 1000:g} s")
        return "".join(f"{time}\n" for time in _opportunities(side.rate, changes, end))
    times, exact = constant(side.rate)
    if not exact:
        side.lacks("link.rate", f"{len(times) * OPPORTUNITY_BITS * 1000 / times[-1]:.0f} bit/s")
    return "".join(f"{time}\n" for time in times)


def constant(rate: int) -> tuple[list[int], bool]:
    """Return the times of a constant rate, in milliseconds, and whether their mean is exact.

    The period is the shortest in which whole opportunities fit in whole milliseconds, if it is not too long.
    """
    per_ms = Fraction(rate, OPPORTUNITY_BITS * 1000)
    exact = per_ms.denominator <= _PERIOD_MS
    if exact:
        period, count = per_ms.denominator, per_ms.numerator
    else:
        count = max(round(per_ms * _PERIOD_MS), 1)
        period = max(round(count / per_ms), 1)
    return [-(-number * period // count) for number in range(1, count + 1)], exact


def _opportunities(rate: int, changes: Sequence[State], end_ms: int) -> Iterator[int]:
    """Yield the time of each opportunity of a course: when its last bit has passed."""
    states = [State(0, rate), *changes, State(end_ms * MS, 0)]
    # In billionths of a bit, so that all are whole numbers.
    needed, passed, last = OPPORTUNITY_BITS * 10**9, 0, 0
    for state, after in pairwise(states):
        per_ns, now = state.rate or 0, state.at_ns
        while per_ns and now + (wait := -(-(needed - passed) // per_ns)) <= after.at_ns:
            now += wait
            passed += wait * per_ns - needed
            last = -(-now // MS)
            yield last
        passed += (after.at_ns - now) * per_ns
    if last < end_ms:
        yield end_ms
