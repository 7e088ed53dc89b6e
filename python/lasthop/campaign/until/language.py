"""The conditions of `--until`: STATISTIC(METRIC) [of FLOW] within NUMBER UNIT|% [at LEVEL %].

median(elapsed_s) within 2 %
p95(queue_delay_p95_s) of call within 5 ms
mean(throughput_Bps) of download within 10 kbit/s at 99 %
"""

import functools
import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from lasthop.campaign.results.folder import HOPS, PAGES, SHORTS, STATIONS
from lasthop.campaign.results.sections import metrics_of
from lasthop.campaign.results.tables import PART_OF, Tables, with_derived
from lasthop.campaign.until.looks import STATISTICS, Condition
from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.dictionary import dictionary
from lasthop.common.metrics.units import units_for
from lasthop.common.statistics.quantiles import CONFIDENCE

_FORM = re.compile(
    r"\s*(?P<statistic>\w+)\s*\(\s*(?P<metric>\w+)\s*\)"
    r"(?:\s+of\s+(?P<flow>\S.*?))?"
    r"\s+within\s+(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>%|[^\W\d][\w/]*)?"
    r"(?:\s+at\s+(?P<level>\d+(?:\.\d+)?)\s*%)?\s*"
)
_TEXTS = (
    "flow",
    "application",
    "host",
    "peer",
    PART_OF,
    "drop_hops",
    "protocol",
    "direction",
    "outcome",
    "page",
    "role",
    "valid",
    "hop",
    "station",
)
"""Columns that contain no numbers."""
_RANGE = (50.0, 99.99)


@functools.cache
def known_metrics() -> Sequence[str]:
    def row(table: str) -> pl.LazyFrame:
        # A flow that is part neither of another flow nor of a page load.
        texts = {name: None if name == PART_OF else name for name in _TEXTS}
        return pl.LazyFrame(
            {
                name: pl.Series([texts[name]], dtype=pl.String) if name in texts else [0.0]
                for name in dictionary()[table]
            }
        )

    pages, shorts, hops, stations = (
        with_derived(name, row(Path(name).stem)) for name in (PAGES, SHORTS, HOPS, STATIONS)
    )
    return metrics_of(Tables(row("flows"), row("runs"), pages, shorts, hops, stations))


def parse(text: str) -> Condition:
    """Read a condition; raise `InputError` if it is wrong."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise InputError(
            f"--until \"{text}\": this is not a condition. Write it like 'median(elapsed_s) within 2 %' or "
            "'p95(queue_delay_p95_s) of call within 5 ms at 99 %'."
        )
    statistic, metric, flow, unit = (form[name] for name in ("statistic", "metric", "flow", "unit"))
    _check(text, "statistic", statistic, STATISTICS)
    _check(text, "metric", metric, known_metrics())
    number, relative = float(form["number"]), unit == "%"
    if number == 0:
        raise InputError(f'--until "{text}": the precision must be above 0.')
    tolerance = number / 100 if relative else number * _size(text, metric, unit or "")
    level = float(form["level"] or 100 * CONFIDENCE)
    if not _RANGE[0] <= level <= _RANGE[1]:
        raise InputError(f'--until "{text}": the confidence {level:g} % is not between 50 % and 99.99 %.')
    whose = f" of {flow}" if flow else ""
    width = f"{form['number']} {unit}" if unit else form["number"]
    written = f"{statistic}({metric}){whose} within {width} at {level:g} %"
    return Condition(written, statistic, metric, flow, tolerance, relative, level / 100)


def _check(text: str, kind: str, word: str, valid: Sequence[str]) -> None:
    if word in valid:
        return
    if kind == "statistic" and word in ("min", "max"):
        reason = f"no number of replications bounds a {word} on both sides"
    else:
        reason = f"there is no {kind} '{word}'; did you mean '{nearest(word, valid)}'?"
    raise InputError(
        f'--until "{text}": {reason}. {kind.capitalize()}s: {", ".join(valid)}.'.replace("?.", "?")
    )


def _size(text: str, metric: str, unit: str) -> float:
    """Return the size of a unit in units of the metric."""
    units = units_for(metric)
    if unit in units:
        return units[unit]
    named = [name for name in units if name]
    if not unit:
        raise InputError(f'--until "{text}": {metric} needs a unit: {", ".join(named)}, or %.')
    guess = (
        f"did you mean '{nearest(unit, named)}'? Units: {', '.join(named)}, or %"
        if named
        else "omit it, or give %"
    )
    raise InputError(f"--until \"{text}\": '{unit}' is not a unit of {metric}; {guess}.")
