"""Which levels of a factor differ significantly, and by how much.

Replications of the same number meet the same link states and starting times in every cell, so we compare them
in pairs. The difference between a level and its factor's first level is the mean over the pairs, with
Student's 95 % interval and the p value of the paired t test (Jain, The Art of Computer Systems Performance
Analysis, section 13.4.1). The p values of all comparisons in an answer are corrected together after Holm
(1979), with weights: the main metrics of a kind of traffic weigh ten times as much as all others. So the
probability that any difference called significant is due to chance is at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from lasthop.answer.sections import REPLICATION, WHO, Compared, Section, Topic
from lasthop.metrics.units import SCORES, scale_of
from lasthop.statistics.estimates import ROUNDING, Interval, PairedDifference, paired_difference, student
from lasthop.statistics.quantiles import CONFIDENCE, shared

SIGNIFICANT = 1 - CONFIDENCE
_OFTEN = 0.84
"""The normal distribution's quantile of 80 %."""
_POWER = 7.85
"""(1.96 + 0.84)^2: this many pairs show a difference of one standard deviation with a probability of 80 %."""
_WEIGHT = 10.0
"""Weight of a kind's main metrics, so that comparing more metrics hardly makes them less certain."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A level against its reference in one case: `where` are the levels of the other factors, and the flow.

    `mean` is the mean of the paired differences, level less reference, with its 95 % interval, in the
    metric's unit. A single pair has neither interval nor p value: they are NaN. `reference_mean` is the
    reference's mean. `p` is corrected for the number of comparisons. If all pairs differ by the same time or
    rate, it is 0.
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
    topic: Topic = Topic.TRANSFERS
    headline: bool = True
    share: float = 1.0
    """The part of the 5 % error probability that this comparison may use up by itself."""
    values: Sequence[float] = field(default=(), repr=False, compare=False)
    """The differences of the pairs, replication by replication."""
    looks: int = 1
    """Number of looks that interval and p cover; see `lasthop.until`."""

    @property
    def level_mean(self) -> float:
        """The level's mean over the pairs."""
        return self.reference_mean + self.mean

    @property
    def relative(self) -> float:
        """Difference as a share of the reference; NaN for scores (they differ by points) and if that is 0."""
        if self.metric in SCORES or not self.reference_mean:
            return math.nan
        return self.mean / abs(self.reference_mean)

    @property
    def significant(self) -> bool:
        """Whether the difference is hardly due to chance."""
        return self.p < SIGNIFICANT

    @property
    def deviation(self) -> float:
        """Standard deviation of the pairs' differences, in the metric's unit; NaN for a single pair."""
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
        """Number of pairs that would show a difference of this size with a probability of 80 %."""
        if self.mean == 0 or self.pairs < 2:
            return math.inf
        return max(_POWER * (self.deviation / self.mean) ** 2, self.pairs + 1.0)

    @property
    def detectable(self) -> float:
        """The least difference that these pairs show with a probability of 80 %; NaN for a single pair."""
        if self.pairs < 2:
            return math.nan
        reach = student(1 - SIGNIFICANT * self.share / self.looks, self.pairs - 1)
        return (reach + _OFTEN) * self.deviation / math.sqrt(self.pairs)


def holm(p_values: ArrayLike, weights: ArrayLike | None = None) -> NDArray[np.float64]:
    """Correct p values for their number (Holm, Scandinavian Journal of Statistics 6, 1979); NaN is left out.

    With weights, p values of larger weight are corrected less.
    """
    values = np.asarray(p_values, dtype=np.float64)
    heavy = np.ones_like(values) if weights is None else np.asarray(weights, dtype=np.float64)
    corrected = values.copy()
    order = [place for place in np.argsort(values / heavy, kind="stable") if not math.isnan(values[place])]
    left, reached = float(heavy[order].sum()), 0.0
    for place in order:
        reached = max(reached, min(1.0, left / float(heavy[place]) * float(values[place])))
        corrected[place] = reached
        left -= float(heavy[place])
    return corrected


def corrected(found: Sequence[Difference]) -> list[Difference]:
    """Correct the p values of differences for their number; the main metrics weigh more."""
    weights = [_WEIGHT if one.headline else 1.0 for one in found]
    p_values = holm([one.p for one in found], weights)
    return [
        replace(one, p=float(p), share=weight / sum(weights))
        for one, p, weight in zip(found, p_values, weights, strict=True)
    ]


def differences(sections: Sequence[Section]) -> list[Difference]:
    """Compare every level of every factor with the factor's first level, in each case; the last factor first.

    Metrics that are the same everywhere are left out, unless they are headlines.
    """
    found = [
        one
        for section in sections
        for factor in reversed(section.varied)
        for compared in section.compared
        if compared.headline or compared.rows[compared.metric].n_unique() > 1
        for one in against(section, pairs_of(section, factor, compared, compared.rows[factor][0]))
    ]
    return corrected(found)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Replications of the levels of the column `factor` beside those of its level `reference`.

    `frame` has the columns `factor`, `others`, `set`, `replication`, the metric, `base` (the reference's
    value), `difference`, which is null if either value is missing, and `partners`: whether both replications
    were run.
    """

    factor: str
    reference: str
    metric: str
    others: Sequence[str]
    frame: pl.DataFrame
    compared: Compared


def pairs_of(section: Section, factor: str, compared: Compared, reference: str) -> Pairs:
    """Pair each replication with the reference's replication of the same set and number, in each case."""
    others = [name for name in section.varied if name != factor]
    # With several flows, a comparison names its flow. If every level has one flow, these are pairs, whatever
    # their names.
    if _several(section.rows, factor):
        others.append(WHO)
    metric = compared.metric
    value = pl.col(metric).cast(pl.Float64)
    # A role may have several flows in a run.
    keys = [factor, *others, *REPLICATION]
    own = compared.rows.group_by(keys, maintain_order=True).agg(
        pl.when(value.is_not_null().all()).then(value.mean())
    )
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
    return Pairs(factor, str(reference), metric, others, frame, compared)


def _several(rows: pl.DataFrame, factor: str) -> bool:
    """Tell whether a level of a factor has several flows."""
    return bool(rows.group_by(factor).agg(pl.col(WHO).n_unique())[WHO].max() != 1)


def against(section: Section, pairs: Pairs) -> Iterator[Difference]:
    """Yield how each level differs from the reference in each case that has pairs.

    p values are not corrected.
    """
    difference = pl.col("difference")
    known = pairs.frame.drop_nulls("difference")
    cases = known.group_by([pairs.factor, *pairs.others], maintain_order=True).agg(
        difference,
        pairs=pl.len(),
        mean=difference.mean(),
        deviation=difference.std(),
        base=pl.col("base").mean(),
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
            pairs.compared.topic,
            pairs.compared.headline,
            values=case["difference"],
            looks=section.looks,
        )


def tested(
    mean: float, deviation: float | None, pairs: int, base: float, *, counts: bool, looks: int
) -> tuple[float, float, float]:
    """Return mean difference, half of its interval's width, and p of the paired t test, both over all looks.

    Pairs that all differ by the same time or rate leave no doubt. Counts may agree by chance: their p is that
    of the sign test.
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
    """Return the median of the pairs and the signed-rank test, which needs no normal differences.

    A difference that rounding alone explains counts as none. A single pair has neither an interval nor a p
    value.
    """
    values = np.asarray(one.values)
    values[np.abs(values) <= ROUNDING * abs(one.reference_mean)] = 0.0
    found = paired_difference(values, np.zeros(values.size), seed, one.looks)
    assert found is not None, "a comparison has pairs"
    if values.size > 1:
        return found
    return replace(found, median=Interval(found.median.estimate, math.nan, math.nan), p_value=math.nan)
