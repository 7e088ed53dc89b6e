"""The tables of a full-factorial study: metrics of runs by cell, and the analysis of their variance.

A published number comes from single runs. The measured number is the mean over the replications, and the
analysis covers these means: the same quantity with less noise. The tables also show the noise. For a metric
in a cell they contain the least and greatest value, the standard deviation and Student's 90 % interval of the
mean, over the replications. For a share of the variation they contain the same over analyses of single
replications, which have one run per cell like the published analysis. Averaging removes noise from the rest,
so a share of the means may exceed the share in most replications.

All intervals hold over the `looks` of a campaign with a stopping rule. Its cells may have different numbers
of replications; the analysis uses the replications that all cells have.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from lasthop.analysis.statistics.anova import (
    REPLICATION_COLUMNS,
    TIMES,
    Analysis,
    Table,
    analyse,
    balanced,
    full_factorial,
)
from lasthop.analysis.studies.lines import EFFECT, SHARE, SPREAD, SQUARES, STANDARD_ERROR, VALUE, Line
from lasthop.campaign.results.tables import factor_column
from lasthop.common.metrics.units import unit_of
from lasthop.common.statistics.estimates import mean_interval, mean_intervals
from lasthop.common.statistics.quantiles import CONFIDENCE, shared
from lasthop.studies.presentation.spec import FactorialSpec


def _spread(values: Sequence[float], looks: int) -> dict[str, float]:
    if len(values) < 2:
        return {}
    interval = mean_interval(values, shared(0.90, looks))
    deviation = float(np.std(values, ddof=1))
    return dict(zip(SPREAD, (min(values), max(values), deviation, interval.low, interval.high), strict=True))


def run_metrics(runs: pl.DataFrame, spec: FactorialSpec, looks: int) -> Iterator[Line]:
    """Yield each metric of each cell: the mean over the replications, and the spread of several."""
    columns = [factor_column(factor) for factor in spec.factors]
    for group, part in runs.partition_by(columns, as_dict=True, maintain_order=True).items():
        levels = dict(zip(spec.factors, map(str, group), strict=True))
        for column, metric in spec.metrics.items():
            values = part[column].drop_nulls().to_list()
            numbers = {VALUE: float(np.mean(values)), **_spread(values, looks)} if values else {}
            for statistic, number in numbers.items():
                low, high = (
                    mean_intervals(values, shared(CONFIDENCE, looks))[1:]
                    if statistic == VALUE
                    else (math.nan, math.nan)
                )
                unit = unit_of(column)
                yield Line(
                    "all", "", metric, statistic, number, len(values), unit, levels, float(low), float(high)
                )


def _in_common(runs: pl.DataFrame, spec: FactorialSpec, looks: int) -> pl.DataFrame:
    """Omit replications that some cells lack, as they may in a campaign with a stopping rule."""
    return (
        runs
        if looks == 1
        else balanced(Table(runs, "", [factor_column(factor) for factor in spec.factors])).frame
    )


def _of_means(runs: pl.DataFrame, spec: FactorialSpec, column: str, looks: int) -> Analysis | None:
    """Analyse the means over replications; `None` unless every cell was run and every run has a number."""
    columns = [factor_column(factor) for factor in spec.factors]
    means = runs.group_by(columns, maintain_order=True).agg(pl.col(column).mean())
    if means.height != spec.cells or runs[column].null_count():
        return None
    return _analysis(means, spec, column, looks)


def _analysis(values: pl.DataFrame, spec: FactorialSpec, column: str, looks: int) -> Analysis:
    """Analyse a value per cell, with the study's names."""
    factors = list(spec.factors.items())
    frame = values.select(
        column,
        *(pl.col(factor_column(name)).replace(dict(own.levels)).alias(own.name) for name, own in factors),
    )
    names = [own.name for _, own in factors]
    return analyse(full_factorial(Table(frame, column, names, looks=looks), names))


def variation(runs: pl.DataFrame, spec: FactorialSpec, looks: int) -> Iterator[Line]:
    """Yield the allocation of each metric's variation, and the standard error."""
    runs = _in_common(runs, spec, looks)
    whole = runs.partition_by(REPLICATION_COLUMNS, maintain_order=True)
    singles = [part for part in whole if part.height == spec.cells]
    count = len(singles)
    for column, metric in spec.metrics.items():
        unit = unit_of(column)
        analysis = _of_means(runs, spec, column, looks)
        if analysis is None:
            continue
        shares = _shares([_analysis(part, spec, column, looks) for part in singles]) if count > 1 else {}
        for component in analysis.components:
            flow = component.term.replace(TIMES, "-") or component.kind.title()
            yield Line(flow, "", f"{SQUARES}_{metric}", VALUE, component.sum_of_squares, count, f"{unit}^2")
            if component.percent is None:
                continue
            spread = _spread(shares.get((component.kind, component.term), []), looks)
            for statistic, number in {VALUE: component.percent, **spread}.items():
                yield Line(flow, "", f"{SHARE}_{metric}", statistic, number, count, "percent")
        if analysis.standard_error is not None:
            name = f"{STANDARD_ERROR}_{metric}"
            yield Line(STANDARD_ERROR, "", name, VALUE, analysis.standard_error, count, unit)


def _shares(analyses: Sequence[Analysis]) -> dict[tuple[str, str], list[float]]:
    """Collect the shares of each source of variation, without the total."""
    shares: dict[tuple[str, str], list[float]] = {}
    for analysis in analyses:
        for component in analysis.components:
            if component.percent is not None and component.kind != "total variation":
                shares.setdefault((component.kind, component.term), []).append(component.percent)
    return shares


def effects(runs: pl.DataFrame, spec: FactorialSpec, looks: int) -> Iterator[Line]:
    """Yield the main effects of each metric with their 90 % intervals."""
    runs = _in_common(runs, spec, looks)
    count = runs.select(pl.struct(REPLICATION_COLUMNS).n_unique()).item()
    for column, metric in spec.metrics.items():
        analysis = _of_means(runs, spec, column, looks)
        for effect in analysis.effects if analysis else ():
            if effect.kind != "main effect":
                continue
            flow = f"{effect.term}: {effect.level}"
            numbers = {VALUE: effect.effect, "ci_low": effect.ci_low, "ci_high": effect.ci_high}
            for statistic, number in numbers.items():
                if number is not None:
                    yield Line(flow, "", f"{EFFECT}_{metric}", statistic, number, count, unit_of(column))


LINES: Mapping[str, Callable[[pl.DataFrame, FactorialSpec, int], Iterator[Line]]] = {
    "run-metrics": run_metrics,
    "variation": variation,
    "effects": effects,
}
"""Functions for each of the `FACTORIAL_KINDS` of tables, of the runs and the number of looks."""
