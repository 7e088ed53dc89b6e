"""Which levels of a factor differ significantly, and by how much.

Replications of the same number meet the same link states and starting times in every cell, so we compare them
in pairs. The difference between a level and its factor's first level is the mean over the pairs, with
Student's 95 % interval and the p value of the paired t test (Jain, The Art of Computer Systems Performance
Analysis, section 13.4.1). The noise of times and rates grows with them, so their test is about logarithms:
the means are geometric, and the interval is that of their ratio.

If the levels are three or more numbers, Page's test asks for a trend along them. It needs no normal
distribution, and sees in two replications what a t test cannot.

The p values of all tests in an answer are corrected together after Holm (1979), with weights: the main
metrics of a kind of traffic weigh ten times as much as all others. So the probability that any difference
called significant is due to chance is at most 5 %, as far as the pairs are independent and their differences
(of times and rates: those of the logarithms) nearly normal.
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
_OFTEN = 0.84
"""The normal distribution's quantile of 80 %."""
_POWER = 7.85
"""(1.96 + 0.84)^2: this many pairs show a difference of one standard deviation with a probability of 80 %."""
_UNKNOWN = Interval(math.nan, math.nan, math.nan)
_UNBOUNDED = 100.0
_LEAST_LEVELS, _LEAST_BLOCKS = 3, 2
"""A trend takes this many levels and replications."""
_WEIGHT = 10.0
"""Weight of a kind's main metrics, so that comparing more metrics hardly makes them less certain."""


@dataclass(frozen=True, slots=True, eq=False)
class Trend:
    """A metric along the numbers of a factor's levels in one case; `p` is that of Page's test, corrected.

    `first` and `last` are the levels with the smallest and the greatest number, and their means.
    """

    first: tuple[str, float]
    last: tuple[str, float]
    levels: int
    replications: int
    p: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A level against its reference in one case: `where` are the levels of the other factors, and the flow.

    `mean` is the mean of the paired differences, level less reference, with its 95 % interval, in the
    metric's unit. A single pair has neither interval nor p value: they are NaN. `reference_mean` is the
    reference's mean. If `is_ratio`, means are geometric, and the interval is that of the ratio, applied to
    the reference's mean; an end beyond a hundred times that mean is infinite. `p` is corrected for the number
    of comparisons. If all pairs differ by the same time or rate, it is 0.
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
    """Number of looks that interval and p cover; see `lasthop.campaign.until`."""
    logarithms: tuple[float, float] | None = None
    """If the metric is compared by ratios: mean and half the interval of the differences of logarithms."""
    medians: tuple[Interval, Interval] = (_UNKNOWN, _UNKNOWN)
    """The medians of level and reference with the intervals that tables show."""
    trend: Trend | None = None
    """The trend in this case; all its comparisons have the same."""

    @property
    def level_mean(self) -> float:
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
    def apart(self) -> bool:
        """Whether the intervals that tables show for level and reference do not overlap."""
        return disjoint(*self.medians)

    @property
    def trend_is_significant(self) -> bool:
        """Whether the levels of this case have a trend that is hardly due to chance."""
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
        """Number of pairs that would show a difference of this size with a probability of 80 %."""
        if self.mean == 0 or self.pairs < 2:
            return math.inf
        return max(_POWER * (self.deviation / self.tested[0]) ** 2, self.pairs + 1.0)

    @property
    def detectable(self) -> float:
        """The least difference that these pairs show with a probability of 80 %; NaN for a single pair."""
        if self.pairs < 2:
            return math.nan
        reach = student(1 - SIGNIFICANT * self.share / self.looks, self.pairs - 1)
        least = (reach + _OFTEN) * self.deviation / math.sqrt(self.pairs)
        return self.reference_mean * math.expm1(least) if self.is_ratio else least


def disjoint(one: Interval, other: Interval) -> bool:
    return one.low > other.high or other.low > one.high


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
    """Correct the p values of differences and trends for their number; the main metrics weigh more."""
    trends = {id(one.trend): (one.trend, one.headline) for one in found if one.trend is not None}
    tests: list[tuple[Difference | Trend, bool]] = [*((one, one.headline) for one in found), *trends.values()]
    weights = [_WEIGHT if headline else 1.0 for _, headline in tests]
    p_values = [float(p) for p in holm([test.p for test, _ in tests], weights)]
    of_trends = {
        key: replace(trend, p=p)
        for (key, (trend, _)), p in zip(trends.items(), p_values[len(found) :], strict=True)
    }
    return [
        replace(one, p=p, share=weight / sum(weights), trend=of_trends.get(id(one.trend)))
        for one, p, weight in zip(found, p_values[: len(found)], weights[: len(found)], strict=True)
    ]


def differences(sections: Sequence[Section]) -> list[Difference]:
    """Compare every level of every factor with the factor's first level, in each case; the last factor first.

    Levels that are numbers are also compared as a trend. Metrics that are the same everywhere are left out,
    unless they are headlines.
    """
    found = []
    for section in sections:
        for factor in reversed(section.varied):
            for compared in section.compared:
                if compared.headline or compared.rows[compared.metric].n_unique() > 1:
                    pairs = pairs_of(section, factor, compared, compared.rows[factor][0])
                    trends = _trends(section, factor, compared)
                    found += [replace(one, trend=trends.get(one.where)) for one in against(section, pairs)]
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
    metric = compared.metric
    others, own = _replications(section, factor, compared)
    keys = [factor, *others, *REPLICATION]
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


def _replications(section: Section, factor: str, compared: Compared) -> tuple[Sequence[str], pl.DataFrame]:
    """Return the columns that tell cases apart, and a value for each level, case and replication."""
    others = [name for name in section.varied if name != factor]
    # With several flows, a comparison names its flow. If every level has one flow, these are pairs, whatever
    # their names.
    if section.rows.group_by(factor).agg(pl.col(WHO).n_unique())[WHO].max() != 1:
        others.append(WHO)
    value = pl.col(compared.metric).cast(pl.Float64)
    # A role may have several flows in a run.
    own = compared.rows.group_by([factor, *others, *REPLICATION], maintain_order=True).agg(
        pl.when(value.is_not_null().all()).then(value.mean())
    )
    return others, own


def against(section: Section, pairs: Pairs) -> Iterator[Difference]:
    """Yield how each level differs from the reference in each case that has pairs.

    p values are not corrected.
    """
    difference, level, base = pl.col("difference"), pl.col(pairs.metric), pl.col("base")
    known = pairs.frame.drop_nulls("difference")
    ratios = _are_ratios(pairs.metric, known.select(level, base))
    change = level.log() - base.log() if ratios else difference
    cases = known.group_by([pairs.factor, *pairs.others], maintain_order=True).agg(
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
    """Tell whether a metric is compared by ratios: a time or a rate that is never 0."""
    return unit_of(metric) in RATIOS and bool((values > 0).select(pl.all_horizontal(pl.all().all())).item())


def _where(section: Section, others: Sequence[str], case: Sequence[object]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (section.factors.get(name, name), str(level)) for name, level in zip(others, case, strict=True)
    )


def _median(values: Sequence[float], sets: Sequence[int], looks: int) -> Interval:
    """Return the median with the interval that tables show; the range of the values stands in for one."""
    array = np.asarray(values)
    found = quantiles_over_sets(array, np.asarray(sets), [50.0], "linear", shared(CONFIDENCE, looks))
    middle, low, high = (float(number) for number in found[:, 0])
    return Interval(
        middle,
        float(array.min()) if math.isnan(low) else low,
        float(array.max()) if math.isnan(high) else high,
    )


def _trends(section: Section, factor: str, compared: Compared) -> dict[tuple[tuple[str, str], ...], Trend]:
    """Return the trend of a metric in each case if the levels are numbers; p values are not corrected."""
    ordered = in_order(names := [str(level) for level in section.rows[factor].unique(maintain_order=True)])
    if numbers(names) is None or len(names) < _LEAST_LEVELS:
        return {}
    others, own = _replications(section, factor, compared)
    cases = own.partition_by(others, as_dict=True, maintain_order=True) if others else {(): own}
    found = {}
    for case, rows in cases.items():
        wide = rows.pivot(factor, index=REPLICATION, values=compared.metric)
        there = [level for level in ordered if level in wide.columns and wide[level].count()]
        blocks = wide.select(there).drop_nulls()
        if len(there) < _LEAST_LEVELS or blocks.height < _LEAST_BLOCKS:
            continue
        means = blocks.select(
            pl.all().log().mean().exp() if _are_ratios(compared.metric, blocks) else pl.all().mean()
        )
        first, last = means[there[0]][0], means[there[-1]][0]
        # What rounding alone tells apart is equal.
        step = ROUNDING * float(np.abs(blocks.to_numpy()).max()) or 1.0
        score, p = page_trend(np.round(blocks.to_numpy() / step))
        if score * (last - first) <= 0:
            p = 1.0
        found[_where(section, others, case)] = Trend(
            (there[0], first), (there[-1], last), len(there), blocks.height, min(1.0, section.looks * p)
        )
    return found


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
