"""Which levels of a factor differ significantly, and by how much.

Replications of the same number meet the same link states and starting times in every cell, so we compare them in pairs.
The difference of a level from its factor's first level is the mean over the pairs, with Student's 95 % interval and the
p value of the paired t test (Jain, The Art of Computer Systems Performance Analysis, section 13.4.1). The p values of
all comparisons in an answer are corrected together after Holm (1979). So the probability that any difference called
significant is due to chance is at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from lasthop.answer.sections import REPLICATION, WHO, Compared, Section
from lasthop.metrics.units import label, scale_of
from lasthop.statistics.estimates import ROUNDING, Interval, PairedDifference, paired_difference, student
from lasthop.statistics.quantiles import CONFIDENCE, shared

SIGNIFICANT = 1 - CONFIDENCE
_TIMES = frozenset(
    {
        "response_time_s",
        "elapsed_s",
        "fct_mean_s",
        "fct_median_s",
        "fct_p95_s",
        "duration_s",
        "completion_mean_s",
        "completion_p50_s",
        "completion_p95_s",
        "completion_p99_s",
    }
)
"""Metrics of which less is faster."""
_MOST_PAIRS = 1000
_POWER = 7.85
"""(1.96 + 0.84)^2: pairs that show a difference of one standard deviation with a probability of 80 %."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A level against its reference in one case: `where` are the levels of the other factors, and the flow.

    `mean` is that of the paired differences, level less reference, with its 95 % interval, in the metric's unit; of a
    single pair the interval and `p` are NaN. `reference_mean` is the reference's. `p` is corrected for the number of
    comparisons. If all pairs differ by the same time or rate it is 0.
    """

    factor: str
    level: str
    reference: str
    metric: str
    where: tuple[tuple[str, str], ...]
    pairs: int
    mean: float
    low: float
    high: float
    reference_mean: float
    p: float
    values: Sequence[float] = field(default=(), repr=False, compare=False)
    """The differences of the pairs, replication by replication."""
    looks: int = 1
    """How many looks interval and p hold over; see `lasthop.until`."""

    @property
    def relative(self) -> float:
        """Difference as a share of the reference; NaN if that is 0."""
        return self.mean / abs(self.reference_mean) if self.reference_mean else math.nan

    @property
    def significant(self) -> bool:
        """Whether it is hardly chance."""
        return self.p < SIGNIFICANT

    @property
    def deviation(self) -> float:
        """Standard deviation of the pairs' differences, in the metric's unit; NaN of a single pair."""
        if self.pairs < 2:
            return math.nan
        reach = student(shared(CONFIDENCE, self.looks), self.pairs - 1)
        return (self.high - self.mean) / reach * math.sqrt(self.pairs)

    @property
    def effect_size(self) -> float:
        """Cohen's d_z: mean over standard deviation of the pairs' differences; NaN if they do not vary."""
        return self.mean / self.deviation if self.deviation else math.nan

    @property
    def pairs_needed(self) -> float:
        """How many pairs would show a difference of this size with a probability of 80 %."""
        if self.mean == 0 or self.pairs < 2:
            return math.inf
        return max(_POWER * (self.deviation / self.mean) ** 2, self.pairs + 1.0)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Correct p values for their number (Holm, Scandinavian Journal of Statistics 6, 1979); NaN is none of them."""
    values = np.asarray(p_values, dtype=np.float64)
    corrected = values.copy()
    order = [place for place in np.argsort(values, kind="stable") if not math.isnan(values[place])]
    reached = 0.0
    for rank, place in enumerate(order):
        reached = max(reached, min(1.0, (len(order) - rank) * float(values[place])))
        corrected[place] = reached
    return corrected


def differences(sections: Sequence[Section]) -> list[Difference]:
    """Compare every level of every factor with the factor's first level, in each case; the last factor first."""
    found = [
        one
        for section in sections
        for factor in reversed(section.varied)
        for compared in section.compared
        for one in against(section, pairs_of(section, factor, compared, compared.rows[factor][0]))
    ]
    corrected = holm([one.p for one in found])
    return [replace(one, p=float(p)) for one, p in zip(found, corrected, strict=True)]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Replications of the levels of the column `factor` beside those of its level `reference`.

    `frame` has the columns `factor`, `others`, `set`, `replication`, the metric, `base` (the reference's value),
    `difference`, which is null if either value is missing, and `partners`: whether both replications were run.
    """

    factor: str
    reference: str
    metric: str
    others: Sequence[str]
    frame: pl.DataFrame


def pairs_of(section: Section, factor: str, compared: Compared, reference: str) -> Pairs:
    """Pair each replication of the other levels with that of the reference of the same set and number, in each case."""
    others = [name for name in section.varied if name != factor]
    # Where a run has several flows, a comparison says which it is of.
    if section.rows[WHO].n_unique() > 1:
        others.append(WHO)
    metric = compared.metric
    value = pl.col(metric).cast(pl.Float64)
    # A role may have several flows in a run.
    keys = [factor, *others, *REPLICATION]
    own = compared.rows.group_by(keys, maintain_order=True).agg(pl.when(value.is_not_null().all()).then(value.mean()))
    base = own.filter(pl.col(factor) == reference).select(*others, *REPLICATION, pl.col(metric).alias("base"))
    levels = own.filter(pl.col(factor) != reference)
    there = base.with_columns(partners=pl.lit(value=True))
    paired = levels.join(there, on=[*others, *REPLICATION], how="left", maintain_order="left")
    cases = levels.select(factor, *others).unique(maintain_order=True)
    expected = cases.join(base, on=others, how="inner") if others else cases.join(base, how="cross")
    lonely = expected.join(levels, on=keys, how="anti")
    frame = pl.concat([paired, lonely], how="diagonal").with_columns(
        difference=pl.col(metric) - pl.col("base"), partners=pl.col("partners").fill_null(value=False)
    )
    return Pairs(factor, str(reference), metric, others, frame)


def against(section: Section, pairs: Pairs) -> Iterator[Difference]:
    """Yield how each level differs from the reference in each case that has pairs; p values are not corrected."""
    difference = pl.col("difference")
    known = pairs.frame.drop_nulls("difference")
    cases = known.group_by([pairs.factor, *pairs.others], maintain_order=True).agg(
        difference, pairs=pl.len(), mean=difference.mean(), deviation=difference.std(), base=pl.col("base").mean()
    )
    counts = scale_of(pairs.metric, []).whole
    for case in cases.iter_rows(named=True):
        where = tuple((section.factors.get(name, name), str(case[name])) for name in pairs.others)
        mean, half, p = tested(
            case["mean"], case["deviation"], case["pairs"], case["base"], counts=counts, looks=section.looks
        )
        yield Difference(
            section.factors[pairs.factor],
            str(case[pairs.factor]),
            pairs.reference,
            pairs.metric,
            where,
            case["pairs"],
            mean,
            mean - half,
            mean + half,
            case["base"],
            p,
            case["difference"],
            section.looks,
        )


def tested(
    mean: float, deviation: float | None, pairs: int, base: float, *, counts: bool, looks: int
) -> tuple[float, float, float]:
    """Return the mean difference, half of its interval's width, and p of the paired t test; both hold over all looks.

    Pairs that all differ by the same time or rate leave no doubt. Counts may do so by chance: there p is that of the
    sign test.
    """
    if deviation is None:
        return mean, math.nan, math.nan
    tiny = ROUNDING * max(abs(base), abs(mean))
    mean, error = (0.0 if abs(number) <= tiny else number for number in (mean, deviation / math.sqrt(pairs)))
    if error == 0.0:
        return mean, 0.0, 1.0 if mean == 0.0 else min(1.0, looks * 2.0 ** (1 - pairs)) if counts else 0.0
    from scipy import special

    p = min(1.0, looks * 2 * float(special.stdtr(pairs - 1, -abs(mean) / error)))
    return mean, error * student(shared(CONFIDENCE, looks), pairs - 1), p


def signed_ranks(one: Difference, seed: int) -> PairedDifference:
    """Return the median of the pairs and the signed-rank test, which asks for no normal differences.

    What rounding alone explains is no difference. A single pair has neither an interval nor a p value.
    """
    values = np.asarray(one.values)
    values[np.abs(values) <= ROUNDING * abs(one.reference_mean)] = 0.0
    found = paired_difference(values, np.zeros(values.size), seed, one.looks)
    assert found is not None, "a comparison has pairs"
    if values.size > 1:
        return found
    return replace(found, median=Interval(found.median.estimate, math.nan, math.nan), p_value=math.nan)


# ---- In words --------------------------------------------------------------------------------------------


def sentences(found: Sequence[Difference]) -> list[str]:
    """Say which levels differ significantly from their reference, and last which do not."""
    if not found:
        return []
    if max(one.pairs for one in found) < 2:
        return ["One replication cannot show whether levels differ: run at least 5, with --replications 5."]
    groups: dict[tuple[str, str, str], list[Difference]] = {}
    for one in found:
        groups.setdefault((one.factor, one.level, one.metric), []).append(one)
    told = [sentence for group in groups.values() for sentence in _significant(group)]
    alike = [group for group in groups.values() if not any(one.significant for one in group)]
    if not told:
        return [_not_significant(group) for group in alike]
    return [*told, _alike(alike)] if alike else told


def _significant(group: Sequence[Difference]) -> Iterator[str]:
    """Yield a sentence for each direction in which a level differs."""
    for sign in (-1, 1):
        own = [one for one in group if one.significant and np.sign(one.mean) == sign]
        if not own:
            continue
        largest = max(own, key=lambda one: abs(one.relative) if math.isfinite(one.relative) else math.inf)
        if len(own) == 1:
            place = _place(largest)
            start = f"{place[0].upper()}{place[1:]}, " if place else ""
            yield f"{start}{_level(largest)} {_against(largest)} ({_numbers(largest)})."
            continue
        compared = f"{_level(largest)} {_verb(largest)} {_comparative(largest)} than {_reference(largest)}"
        cases = (
            f"{len(own)} of {len(group)}" if len(own) < len(group) else "both" if len(own) == 2 else f"all {len(own)}"
        )
        yield f"{compared} in {cases} cases{_by(own)}, most {_place(largest)} ({_numbers(largest)})."


def _not_significant(group: Sequence[Difference]) -> str:
    """Say that a level does not differ, with the case that comes nearest to it."""
    clearest = min(group, key=lambda one: one.p)
    cases = "" if len(group) == 1 else f" in any of {len(group)} cases"
    place = "" if len(group) == 1 else f"nearest {_place(clearest)}: "
    return (
        f"{_level(clearest)} does not differ significantly from {_reference(clearest)}{cases} "
        f"({place}{_numbers(clearest)}{_needed(clearest)})."
    )


def _alike(groups: Sequence[Sequence[Difference]]) -> str:
    metrics: dict[str, list[str]] = {}
    for first, *_ in groups:
        metrics.setdefault(f"{_level(first)} and {_reference(first)}", []).append(label(first.metric))
    pairs = [f"{two} ({', '.join(own)})" for two, own in metrics.items()]
    return f"No significant difference: {'; '.join(pairs)}."


def _level(one: Difference) -> str:
    return f"{one.factor}={one.level}"


def _reference(one: Difference) -> str:
    return f"{one.factor}={one.reference}"


def _verb(one: Difference) -> str:
    """Begin a comparison: `is` of what is faster, `has a` of a lower rate, `has` of fewer packets."""
    if one.metric in _TIMES:
        return "is"
    return "has" if scale_of(one.metric, [one.mean]).whole else "has a"


def _comparative(one: Difference) -> str:
    more = one.mean > 0
    if one.metric in _TIMES:
        return "slower" if more else "faster"
    if scale_of(one.metric, [one.mean]).whole:
        return f"{'more' if more else 'fewer'} {label(one.metric)}"
    return f"{'higher' if more else 'lower'} {label(one.metric)}"


def _against(one: Difference) -> str:
    """Compare one level with its reference: `is 12 % faster than ...`."""
    if one.relative >= 1:
        times = f"{1 + one.relative:.1f} times"
        if one.metric in _TIMES:
            return f"takes {times} as long as {_reference(one)}"
        return f"has {times} the {label(one.metric)} of {_reference(one)}"
    share = f"{_percent(one)} % " if math.isfinite(one.relative) else ""
    return f"{_verb(one)} {share}{_comparative(one)} than {_reference(one)}"


def _percent(one: Difference) -> str:
    share = 100 * abs(one.relative)
    return f"{share:.0f}" if share >= 9.5 else f"{share:.2g}"


def _by(own: Sequence[Difference]) -> str:
    known = sorted((one for one in own if math.isfinite(one.relative)), key=lambda one: abs(one.relative))
    if not known:
        return ""
    low, high = _percent(known[0]), _percent(known[-1])
    return f" (by {low} %)" if low == high else f" (by {low} to {high} %)"


def _place(one: Difference) -> str:
    return "with " + ", ".join(f"{name}={level}" for name, level in one.where) if one.where else ""


def _numbers(one: Difference) -> str:
    """Give the difference with its interval and test: `elapsed time -3.10 s, 95 % interval ..., 5 pairs, p < 0.001`."""
    scale = scale_of(one.metric, [one.mean, one.low, one.high])
    unit = "points" if scale.unit == "%" else scale.unit
    decimals = scale.decimals_of(one.high - one.mean) if one.high > one.mean else None
    mean, low, high = (scale.number(value, signed=True, decimals=decimals) for value in (one.mean, one.low, one.high))
    what = f"{label(one.metric)} {mean} {unit}".rstrip()
    if one.low == one.high:
        return f"{what} in each of {one.pairs} pairs"
    p = "p < 0.001" if one.p < 0.001 else f"p = {one.p:.2g}"
    return f"{what}, 95 % interval {low} to {high}{f' {unit}' if unit else ''}, {one.pairs} pairs, {p}"


def _needed(one: Difference) -> str:
    """Say how many pairs a difference of this size takes, if that is a number one may run."""
    needed = one.pairs_needed
    return f"; a difference of this size takes about {needed:.0f} pairs to show" if needed <= _MOST_PAIRS else ""
