"""Which levels of a factor differ significantly, and by how much.

Replications of the same number have the same link states and starting times in every cell, so they are
compared in pairs. The difference between a level and its factor's first level is the mean over the pairs,
with Student's 95 % interval and the p value of the paired t test (Jain, The Art of Computer Systems
Performance Analysis, section 13.4.1). The noise of times and rates is proportional to their size, so their
test is on logarithms: the means are geometric, and the interval is that of their ratio.

If the levels are three or more numbers, Page's test looks for a trend along them. It does not assume a normal
distribution, and can find in two replications a trend that a t test cannot.

The p values of all tests in an answer are corrected together by Holm's method (1979), with weights: the main
metrics of a kind of traffic weigh ten times as much as all others. So the probability that any difference
reported as significant is due to chance is at most 5 %, provided that the pairs are independent and their
differences (for times and rates, those of the logarithms) nearly normal.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from lasthop.campaign.results.sections import REPLICATION, WHO, Compared, Section, Topic
from lasthop.common.metrics.units import RATIOS, SCORES, scale_of, unit_of
from lasthop.common.statistics.estimates import (
    OFTEN,
    ROUNDING,
    Interval,
    PairedDifference,
    page_trend,
    paired_difference,
    quantiles_over_sets,
    student,
)
from lasthop.common.statistics.quantiles import CONFIDENCE, shared
from lasthop.scenario.levels import in_order, numbers

SIGNIFICANT = 1 - CONFIDENCE
_POWER = 7.85
"""(1.96 + 0.84)^2: this many pairs detect a difference of a standard deviation with a probability of 80 %."""
_UNKNOWN = Interval(math.nan, math.nan, math.nan)
_UNBOUNDED = 100.0
_LEAST_LEVELS, _LEAST_BLOCKS = 3, 2
"""A trend requires this many levels and replications."""
_WEIGHT = 10.0
"""Weight of main metrics, so that comparing more metrics hardly affects their tests."""


@dataclass(frozen=True, slots=True, eq=False)
class Trend:
    """A metric along the numbers of a factor's levels in one case; `p` is the corrected p of Page's test.

    `first` and `last` are the levels with the smallest and the greatest number, with their means.
    """

    first: tuple[str, float]
    last: tuple[str, float]
    levels: int
    replications: int
    p: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A level compared with its reference in one case. `where` holds the other factors' levels, and the flow.

    `mean` is the mean of the paired differences, level minus reference, with its 95 % interval, in the
    metric's unit. Interval and p value of a single pair are NaN. `reference_mean` is the reference's mean. If
    `is_ratio`, means are geometric, and the interval is that of the ratio, applied to the reference's mean;
    an end beyond a hundred times that mean is infinite. `p` is corrected for the number of comparisons; it is
    0 if all pairs differ by the same time or rate.
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
    """This comparison's part of the 5 % error probability."""
    values: Sequence[float] = field(default=(), repr=False, compare=False)
    """The differences of the pairs, replication by replication."""
    looks: int = 1
    """Number of looks that interval and p cover; see `lasthop.campaign.until`."""
    logarithms: tuple[float, float] | None = None
    """For ratios: the mean difference of logarithms, and half of its interval."""
    medians: tuple[Interval, Interval] = (_UNKNOWN, _UNKNOWN)
    """The medians of level and reference with the intervals that tables show."""
    trend: Trend | None = None
    """The trend in this case, which all its comparisons share."""

    @property
    def level_mean(self) -> float:
        return self.reference_mean + self.mean

    @property
    def relative(self) -> float:
        """Difference as a share of the reference; NaN for scores, and if the reference is 0."""
        if self.metric in SCORES or not self.reference_mean:
            return math.nan
        return self.mean / abs(self.reference_mean)

    @property
    def significant(self) -> bool:
        return self.p < SIGNIFICANT

    @property
    def apart(self) -> bool:
        """Whether the intervals that tables show for level and reference do not overlap."""
        return disjoint(*self.medians)

    @property
    def trend_is_significant(self) -> bool:
        return self.trend is not None and self.trend.p < SIGNIFICANT

    @property
    def is_ratio(self) -> bool:
        return self.logarithms is not None

    @property
    def tested(self) -> tuple[float, float]:
        """Mean difference and half of its interval on the scale of the test."""
        return self.logarithms or (self.mean, self.high - self.mean)

    @property
    def deviation(self) -> float:
        """Standard deviation of the pairs' differences, or of their logarithms; NaN for a single pair."""
        if self.pairs < 2:
            return math.nan
        reach = student(shared(CONFIDENCE, self.looks), self.pairs - 1)
        return self.tested[1] / reach * math.sqrt(self.pairs)

    @property
    def effect_size(self) -> float:
        """Cohen's d_z: mean over standard deviation of the pairs' differences; NaN if they do not vary."""
        return self.tested[0] / self.deviation if self.deviation else math.nan

    @property
    def pairs_needed(self) -> float:
        """Number of pairs that detects a difference of this size with a probability of 80 %."""
        if self.mean == 0 or self.pairs < 2:
            return math.inf
        return max(_POWER * (self.deviation / self.tested[0]) ** 2, self.pairs + 1.0)

    @property
    def detectable(self) -> float:
        """The least difference that these pairs detect with a probability of 80 %; NaN for a single pair."""
        if self.pairs < 2:
            return math.nan
        reach = student(1 - SIGNIFICANT * self.share / self.looks, self.pairs - 1)
        least = (reach + OFTEN) * self.deviation / math.sqrt(self.pairs)
        return self.reference_mean * math.expm1(least) if self.is_ratio else least


def disjoint(first: Interval, second: Interval) -> bool:
    return first.low > second.high or second.low > first.high


def holm(p_values: ArrayLike, weights: ArrayLike | None = None) -> NDArray[np.float64]:
    """Correct p values for their number (Holm, Scandinavian Journal of Statistics 6, 1979); ignore NaN.

    A p value with a larger weight is corrected less.
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


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Correct the p values of differences and trends for their number, with weights."""
    trends = {id(diff.trend): (diff.trend, diff.headline) for diff in differences if diff.trend is not None}
    tests: list[tuple[Difference | Trend, bool]] = [
        *((diff, diff.headline) for diff in differences),
        *trends.values(),
    ]
    weights = [_WEIGHT if headline else 1.0 for _, headline in tests]
    p_values = [float(p) for p in holm([test.p for test, _ in tests], weights)]
    of_trends = {
        key: replace(trend, p=p)
        for (key, (trend, _)), p in zip(trends.items(), p_values[len(differences) :], strict=True)
    }
    return [
        replace(diff, p=p, share=weight / sum(weights), trend=of_trends.get(id(diff.trend)))
        for diff, p, weight in zip(
            differences, p_values[: len(differences)], weights[: len(differences)], strict=True
        )
    ]


def differences(sections: Sequence[Section]) -> list[Difference]:
    """Compare every level of each tested factor with its first level, in each case; the last factor first.

    Numeric levels are also tested for a trend. Metrics without variation are omitted, unless they are
    headlines.
    """
    diffs = []
    for section in sections:
        for factor in reversed(section.tested):
            for column in section.compared:
                if column.headline or column.rows[column.metric].n_unique() > 1:
                    pairs = pairs_of(section, factor, column, column.rows[factor][0])
                    trends = _trends(section, factor, column)
                    diffs += [replace(diff, trend=trends.get(diff.where)) for diff in against(section, pairs)]
    return corrected(diffs)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Replications of the levels of the column `factor`, paired with those of its level `reference`.

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
    metric = compared.metric
    others, own = _replications(section, factor, compared)
    keys = [factor, *others, *REPLICATION]
    base = own.filter(pl.col(factor) == reference).select(*others, *REPLICATION, pl.col(metric).alias("base"))
    levels = own.filter(pl.col(factor) != reference)
    partners = base.with_columns(partners=pl.lit(value=True))
    paired = levels.join(partners, on=[*others, *REPLICATION], how="left", maintain_order="left")
    cases = levels.select(factor, *others).unique(maintain_order=True)
    expected = cases.join(base, on=others, how="inner") if others else cases.join(base, how="cross")
    lonely = expected.join(levels, on=keys, how="anti")
    frame = pl.concat([paired, lonely], how="diagonal").with_columns(
        difference=pl.col(metric) - pl.col("base"), partners=pl.col("partners").fill_null(value=False)
    )
    return Pairs(factor, str(reference), metric, others, frame, compared)


def _replications(section: Section, factor: str, compared: Compared) -> tuple[Sequence[str], pl.DataFrame]:
    """Return the columns that identify cases, and a value for each level, case and replication."""
    others = [name for name in section.varied if name != factor]
    # With several flows, a comparison is within a flow. If every level has one flow, these are paired,
    # whatever their names.
    if section.rows.group_by(factor).agg(pl.col(WHO).n_unique())[WHO].max() != 1:
        others.append(WHO)
    value = pl.col(compared.metric).cast(pl.Float64)
    # A role may have several flows in a run.
    own = compared.rows.group_by([factor, *others, *REPLICATION], maintain_order=True).agg(
        pl.when(value.is_not_null().all()).then(value.mean())
    )
    return others, own


def against(section: Section, pairs: Pairs) -> Iterator[Difference]:
    """Yield the difference of each level from the reference in each case with pairs; p is not corrected."""
    difference, level, base = pl.col("difference"), pl.col(pairs.metric), pl.col("base")
    complete = pairs.frame.drop_nulls("difference")
    ratios = _are_ratios(pairs.metric, complete.select(level, base))
    change = level.log() - base.log() if ratios else difference
    cases = complete.group_by([pairs.factor, *pairs.others], maintain_order=True).agg(
        difference,
        level.alias("values"),
        base.alias("bases"),
        pl.col("set"),
        pairs=pl.len(),
        mean=difference.mean(),
        deviation=difference.std(),
        base=base.mean(),
        change=change.mean(),
        change_deviation=change.std(),
        geometric=base.log().mean().exp() if ratios else base.mean(),
    )
    counts = scale_of(pairs.metric, []).whole
    for case in cases.iter_rows(named=True):
        where = _where(section, pairs.others, [case[name] for name in pairs.others])
        mean, half, p = tested(
            case["mean"], case["deviation"], case["pairs"], case["base"], counts=counts, looks=section.looks
        )
        ends, reference_mean, logarithms = (mean, mean - half, mean + half), case["base"], None
        if ratios and half > 0:
            shift, half, p = tested(
                case["change"],
                case["change_deviation"],
                case["pairs"],
                1.0,
                counts=False,
                looks=section.looks,
            )
            reference_mean, logarithms = case["geometric"], (shift, half)
            mean, low, high = (
                reference_mean * math.expm1(end) for end in (shift, shift - half, shift + half)
            )
            ends = mean, low, high if high < _UNBOUNDED * reference_mean else math.inf
        yield Difference(
            section.factors[pairs.factor],
            str(case[pairs.factor]),
            pairs.reference,
            pairs.metric,
            where,
            case["pairs"],
            *ends,
            reference_mean,
            p,
            pairs.compared.topic,
            pairs.compared.headline,
            values=case["difference"],
            looks=section.looks,
            logarithms=logarithms,
            medians=(
                _median(case["values"], case["set"], section.looks),
                _median(case["bases"], case["set"], section.looks),
            ),
        )


def _are_ratios(metric: str, values: pl.DataFrame) -> bool:
    """Return whether a metric is compared by ratios: a time or a rate that is never 0."""
    return unit_of(metric) in RATIOS and bool((values > 0).select(pl.all_horizontal(pl.all().all())).item())


def _where(section: Section, others: Sequence[str], case: Sequence[object]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (section.factors.get(name, name), str(level)) for name, level in zip(others, case, strict=True)
    )


def _median(values: Sequence[float], sets: Sequence[int], looks: int) -> Interval:
    """Return the median with the interval in tables, or else with the range of the values."""
    array = np.asarray(values)
    quantiles = quantiles_over_sets(array, np.asarray(sets), [50.0], "linear", shared(CONFIDENCE, looks))
    middle, low, high = (float(number) for number in quantiles[:, 0])
    return Interval(
        middle,
        float(array.min()) if math.isnan(low) else low,
        float(array.max()) if math.isnan(high) else high,
    )


def _trends(section: Section, factor: str, compared: Compared) -> dict[tuple[tuple[str, str], ...], Trend]:
    """Return the trend of a metric in each case if the levels are numbers; p is not corrected."""
    ordered = in_order(names := [str(level) for level in section.rows[factor].unique(maintain_order=True)])
    if numbers(names) is None or len(names) < _LEAST_LEVELS:
        return {}
    others, own = _replications(section, factor, compared)
    cases = own.partition_by(others, as_dict=True, maintain_order=True) if others else {(): own}
    trends = {}
    for case, rows in cases.items():
        wide = rows.pivot(factor, index=REPLICATION, values=compared.metric)
        available = [level for level in ordered if level in wide.columns and wide[level].count()]
        blocks = wide.select(available).drop_nulls()
        if len(available) < _LEAST_LEVELS or blocks.height < _LEAST_BLOCKS:
            continue
        means = blocks.select(
            pl.all().log().mean().exp() if _are_ratios(compared.metric, blocks) else pl.all().mean()
        )
        first, last = means[available[0]][0], means[available[-1]][0]
        # Values that differ only by rounding errors are equal.
        step = ROUNDING * float(np.abs(blocks.to_numpy()).max()) or 1.0
        score, p = page_trend(np.round(blocks.to_numpy() / step))
        if score * (last - first) <= 0:
            p = 1.0
        trends[_where(section, others, case)] = Trend(
            (available[0], first),
            (available[-1], last),
            len(available),
            blocks.height,
            min(1.0, section.looks * p),
        )
    return trends


def tested(
    mean: float, deviation: float | None, pairs: int, base: float, *, counts: bool, looks: int
) -> tuple[float, float, float]:
    """Return mean difference, half the width of its interval, and p of the paired t test, over all looks.

    If all pairs differ by the same time or rate, p is 0. Counts may agree by chance: their p is that of the
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


def signed_ranks(diff: Difference, seed: int) -> PairedDifference:
    """Return the median of the pairs and the signed-rank test, which does not assume normal differences.

    Differences due to rounding count as zero. A single pair has neither an interval nor a p value.
    """
    values = np.asarray(diff.values)
    values[np.abs(values) <= ROUNDING * abs(diff.reference_mean)] = 0.0
    ranks = paired_difference(values, np.zeros(values.size), seed, diff.looks)
    assert ranks is not None, "a comparison has pairs"
    if values.size > 1:
        return ranks
    return replace(ranks, median=Interval(ranks.median.estimate, math.nan, math.nan), p_value=math.nan)
