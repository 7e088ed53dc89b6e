"""Whether the records support a claim.

The two sides of a statement are computed from means over replications in each cell, then averaged over cells.
The test is on their difference d, paired by replication, as equal numbers mean equal conditions. If d(i) is
computed without replication i of n, the jackknife's standard error is

    s = sqrt((n - 1) / n sum (d(i) - mean of d(.))^2)

and the interval is d +- t[(1 + confidence) / 2; n - 1] s (Tukey 1958; Efron and Tibshirani, An Introduction
to the Bootstrap, ch. 11). For differences of means this is the paired t interval; the same formula applies to
ratios, slopes and absolute values. Quantiles over replications use the bootstrap's standard error instead,
or, if there are too few replications for the bootstrap, order statistics; a statement on several quantiles
is then undecided (see `lasthop.common.statistics.resampling`).
`a > b` is upheld if the interval of a - b lies above 0, not upheld if it lies at or below 0, and undecided
otherwise. A tolerance w moves the bound: `a >= b` requires a >= b - w |b|, and `a == b` also a <= b + w |b|.

A claim of several parts (statements, levels of `every`) is upheld if all parts are, and not upheld if any
part is not. The latter is a search among k parts, so the confidence of its intervals is 1 - (1 - confidence)
/ k (Bonferroni). If m of k levels must uphold it (m is 1 for `some`, given for `at_least`, four fifths of k
for `most`), the confidence is 1 - (1 - confidence) / (k - m + 1) for them, and 1 - (1 - confidence) / m for
the k - m + 1 levels that refute it (Benjamini and Heller 2008).

If means decide, differences count as certain, and no claim is undecided.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lasthop.analysis.claims import NOT_RUN, NOT_UPHELD, UNCOMPUTABLE, UNDECIDED, UPHELD
from lasthop.analysis.claims.records import Records, Values
from lasthop.common.errors import InputError
from lasthop.common.statistics.estimates import ROUNDING, Interval
from lasthop.common.statistics.quantiles import CONFIDENCE
from lasthop.common.statistics.resampling import (
    Bootstrap,
    Jackknife,
    OrderStatistics,
    Ranked,
    Resampled,
    replications_for,
)
from lasthop.studies.claims.design import Design, Laid, Place, combinations, lay_out, single_levels
from lasthop.studies.claims.file import Claim, Claims
from lasthop.studies.claims.language import (
    EXPLAINED,
    FLOW,
    REPLICATION,
    WEAK,
    Absolute,
    Alone,
    Among,
    ClaimError,
    Comparison,
    Expression,
    Levels,
    Number,
    Operation,
    Over,
    Term,
    Trend,
    bare_quantiles,
    bound_terms,
    quantiles,
    sides,
)

_MOST = 0.8
"""Share of the levels of `most` that must uphold a claim."""


@dataclass(frozen=True)
class Bound:
    """A value that must be above 0, or at least 0 if `weak`. A `step` of a trend only must not be refuted."""

    value: Resampled | Ranked
    weak: bool = False
    step: str = ""

    def holds(self, confidence: float) -> bool:
        """Whether the interval confirms the bound."""
        if self.step:
            return not self.fails(confidence)
        low = self.value.interval(confidence).low
        return low >= 0 if self.weak else low > 0

    def fails(self, confidence: float) -> bool:
        """Whether the interval refutes the bound."""
        high = self.value.interval(confidence).high
        return high < 0 if self.weak or self.step else high <= 0

    @property
    def distance(self) -> float:
        """Distance from failing, in standard errors. An exact 0 fails with certainty, unless 0 suffices."""
        if self.value.estimate == self.value.error == 0:
            return math.inf if self.weak or self.step else -math.inf
        return self.value.distance


@dataclass(frozen=True)
class Part:
    """A statement at the levels of `place`, on the mean over `cells` cells.

    `left` and `right` are its sides (for a trend the values at the last and the first level), `difference` is
    left minus right with its interval. A missing value is `None`. `pairs` counts the replications with all
    values.
    """

    statement: str
    place: Place
    cells: int
    pairs: int
    left: float | None
    right: float | None
    difference: Interval | None
    bounds: tuple[Bound, ...]
    confidence: float = CONFIDENCE
    left_out: int = 0
    """Replications in which a term has no value, except terms of the baseline."""
    needed: int = 0
    """Number of replications that bound its quantiles, if there are fewer."""

    def holds(self, confidence: float) -> bool:
        return bool(self.bounds) and all(bound.holds(self._among(bound, confidence)) for bound in self.bounds)

    def fails(self, confidence: float) -> bool:
        return any(bound.fails(self._among(bound, confidence)) for bound in self.bounds)

    def _among(self, bound: Bound, confidence: float) -> float:
        """Return the confidence required to refute one of the steps of a trend (Bonferroni)."""
        return 1 - (1 - confidence) / sum(bool(b.step) for b in self.bounds) if bound.step else confidence

    @property
    def verdict(self) -> str:
        return _verdict(holds=self.holds(self.confidence), fails=self.fails(self.confidence))

    @property
    def backward(self) -> list[Bound]:
        """The steps of a trend that go in the opposite direction."""
        return [
            bound for bound in self.bounds if bound.step and bound.fails(self._among(bound, self.confidence))
        ]

    @property
    def strength(self) -> float:
        """The least distance of a bound from 0, in standard errors."""
        relevant = [bound for bound in self.bounds if not bound.step] + self.backward
        return min((bound.distance for bound in relevant), default=-math.inf)

    @property
    def remark(self) -> str:
        """A remark on what the numbers do not show."""
        if self.needed and self.pairs and self.verdict == UNDECIDED:
            return f"its percentiles need {self.needed} replications for an interval with two ends"
        if not self.bounds:
            few = self.pairs < 2
            return (
                "fewer than two replications have values of all its terms"
                if few
                else "a side has no finite value"
            )
        steps = ", ".join(bound.step for bound in self.backward)
        return f"goes in the opposite direction {steps}" if steps else ""


@dataclass(frozen=True)
class Outcome:
    """The verdict on a claim. `decisive` is the part nearest to failing; `cells` has a part per cell."""

    claim: Claim
    verdict: str
    decisive: Part | None = None
    cells: Sequence[Part] = field(default_factory=list)
    reason: str = ""


def _verdict(*, holds: bool, fails: bool) -> str:
    return UPHELD if holds else NOT_UPHELD if fails else UNDECIDED


def evaluate(claims: Claims, records: Records, baseline: Records | None = None) -> list[Outcome]:
    """Evaluate every claim. The records of the `baseline` must have been read with `beside=records`.

    Raises InputError if a claim names a metric or a flow that the records do not contain.
    """
    outcomes = []
    for claim in claims.claims:
        try:
            outcomes.append(_outcome(claim, records, baseline, by_means=claims.by_means))
        except ClaimError as error:
            raise InputError(f"{claims.file}: claim {claim.id}: {error}") from None
    return outcomes


def estimate(expression: Alone, design: Design, records: Records) -> list[tuple[Place, Interval | None]]:
    """Return the value of an expression in each cell of a design, with its confidence interval.

    The list is empty if some of the cells were not run. Raises ClaimError if the records lack a metric.
    """
    laid = lay_out(expression, {}, design)
    if laid.needed - records.cells:
        return []
    return [
        (place, _Evaluation(laid, [place], 0.0, records, None, by_means=False).part(place).difference)
        for place in laid.places
    ]


def _outcome(claim: Claim, records: Records, baseline: Records | None, *, by_means: bool) -> Outcome:
    if not claim.holds:
        return Outcome(claim, UNCOMPUTABLE, reason=claim.uncomputable)
    needed = frozenset[tuple[str, ...]]().union(*(laid.needed for laid in claim.holds))
    absent = needed - records.cells
    if absent:
        return Outcome(claim, NOT_RUN, reason=f"{len(absent)} of its {len(needed)} cells were not run")
    of_baseline = frozenset[tuple[str, ...]]().union(*(laid.of_baseline for laid in claim.holds))
    if of_baseline and baseline is None:
        reason = "there is no baseline; 'lasthop check baseline save' saves the records of an earlier version"
        return Outcome(claim, NOT_RUN, reason=reason)
    if baseline is not None and (absent := of_baseline - baseline.cells):
        reason = f"the baseline lacks {len(absent)} of its {len(of_baseline)} cells"
        return Outcome(claim, NOT_RUN, reason=reason)
    whole: list[list[Part]] = []
    cells: list[Part] = []

    def part(laid: Laid, place: Place, places: Sequence[Place]) -> Part:
        return _Evaluation(laid, places, claim.within, records, baseline, by_means=by_means).part(place)

    for laid in claim.holds:
        alone = {id(place): part(laid, place, [place]) for place in laid.places}
        cells += alone.values()
        for place, members in laid.groups(claim.every):
            several = laid.groups(claim.most or claim.some, members)
            whole.append(
                [
                    part(laid, {**place, **extra}, group)
                    if len(group) > 1
                    else replace(alone[id(group[0])], place={**place, **extra})
                    for extra, group in several
                ]
            )
    return _conclude(claim, whole, cells, 1 - records.confidence)


def _conclude(claim: Claim, whole: Sequence[Sequence[Part]], cells: Sequence[Part], chance: float) -> Outcome:
    """Combine the parts: in every element of `whole` enough levels must hold.

    `chance` is the permitted probability of error of the verdict.
    """
    holds, fails, candidates = True, False, []
    for parts in whole:
        needed = math.ceil(_MOST * len(parts)) if claim.most else claim.at_least
        spare = len(parts) - needed
        holds &= sum(part.holds(1 - chance / (spare + 1)) for part in parts) >= needed
        fails |= sum(part.fails(1 - chance / needed / len(whole)) for part in parts) > spare
        candidates.append(sorted(parts, key=lambda part: part.strength)[spare])
    weakest = min(candidates, key=lambda part: part.strength)
    return Outcome(claim, _verdict(holds=holds, fails=fails), weakest, cells, weakest.remark)


class _Evaluation:
    """A statement over some of its cells.

    Values are arrays: the value over all replications, followed by the values over the resamples.
    """

    def __init__(
        self,
        laid: Laid,
        places: Sequence[Place],
        within: float,
        records: Records,
        baseline: Records | None,
        *,
        by_means: bool,
    ) -> None:
        self._by_means = by_means
        self._baseline = baseline
        self._statement = laid.statement
        self._places = places
        self._within = within
        self._records = records
        terms = [
            (term, {**bound, **chosen})
            for side in sides(laid.statement)
            for term, bound in bound_terms(side)
            for chosen in single_levels({f: levels for f, levels in bound.items() if f == REPLICATION})
        ]
        # Terms of the same replications are paired by replication, other terms by set.
        choices = {{**bound, **term.levels}.get(REPLICATION) for term, bound in terms}
        self._by_set = len(choices) > 1
        own, of_baseline = (
            [
                np.isfinite(values)
                for place in places
                for term, bound in terms
                if term.baseline == which
                for values in self._raw(term, {**{f: (level,) for f, level in place.items()}, **bound})
            ]
            for which in (False, True)
        )
        self._complete = np.all(own + of_baseline, axis=0)
        self._pairs = int(np.count_nonzero(self._complete))
        self._left_out = int(np.count_nonzero(~np.all(own, axis=0))) if own else 0
        sets = np.unique(records.sets) if self._by_set else records.sets[records.chosen(next(iter(choices)))]
        shares = [share for side in sides(laid.statement) for share in quantiles(side)]
        needed = 0 if by_means else replications_for(shares)
        self._needed = needed if self._pairs < needed else 0
        """Number of replications for its quantiles, if there are fewer."""
        self._plan: Bootstrap | Jackknife | OrderStatistics = Jackknife(self._pairs)
        if self._needed and np.unique(sets).size == 1 and (ranks := self._ranks()):
            self._plan = ranks
        elif shares and self._pairs:
            self._plan = Bootstrap(sets[self._complete])

    def _ranks(self) -> OrderStatistics | None:
        """Return the plan for a statement on one quantile, or on quantiles of samples that are all equal."""
        nodes = bare_quantiles(self._statement)
        if not nodes or not self._pairs or len(self._places) > 1 or len({node.at for node in nodes}) > 1:
            return None
        here = {factor: (level,) for factor, level in self._places[0].items()}
        first, *others = (self._pooled(node, here) for node in nodes)
        equal = all(np.allclose(first, other, rtol=ROUNDING, atol=0.0) for other in others)
        return OrderStatistics(self._pairs, nodes[0].at or 0.0) if equal else None

    @property
    def _averages(self) -> Bootstrap | Jackknife:
        assert not isinstance(self._plan, OrderStatistics), "its statement has nothing but a quantile"
        return self._plan

    def _raw(self, term: Term, here: Mapping[str, tuple[str, ...]]) -> Iterator[Values]:
        """Yield a term's values in each of its cells."""
        levels = {**here, **term.levels}
        chosen = self._records.chosen(levels.get(REPLICATION))
        parts = [chosen & of_set for of_set in self._records.of_sets] if self._by_set else []
        records = self._baseline if term.baseline and self._baseline is not None else self._records
        for key in combinations(records.factors, levels):
            values = records.values(term.column, levels.get(FLOW), key, term.rows)
            means = [values[part].mean() if part.any() else np.nan for part in parts]
            yield np.array(means) if self._by_set else values[chosen]

    def part(self, place: Place) -> Part:
        """Compute the sides, and the values that must be above 0."""
        text, cells, pairs = self._text(), len(self._places), self._pairs
        confidence = self._records.confidence
        if pairs == 0:
            return Part(text, place, cells, 0, None, None, None, (), confidence, self._left_out)
        with np.errstate(divide="ignore", invalid="ignore"):
            left, right, checks = self._sides()
            scale = float(max(abs(left[0]), abs(right[0])))
            difference = self._resampled(left - right, scale)
            bounds = tuple(Bound(self._resampled(values, scale), weak, step) for values, weak, step in checks)
        interval = difference.interval(confidence) if difference.defined else None
        defined = all(bound.value.defined for bound in bounds)
        return Part(
            text,
            place,
            cells,
            pairs,
            _finite(left[0]),
            _finite(right[0]),
            interval,
            bounds if defined else (),
            confidence,
            self._left_out,
            self._needed,
        )

    def _resampled(self, values: Values, scale: float) -> Resampled | Ranked:
        resampled = self._plan.of(values, scale)
        if isinstance(resampled, Ranked):
            return resampled
        if self._needed:
            return resampled.unbounded()
        return resampled.alone() if self._by_means else resampled

    def _text(self) -> str:
        """Return the statement with its tolerance."""
        statement = self._statement
        tolerant = self._within and isinstance(statement, Comparison) and statement.relation in WEAK
        return f"{statement.text} within {100 * self._within:g} %" if tolerant else statement.text

    def _sides(self) -> tuple[Values, Values, list[tuple[Values, bool, str]]]:
        """Return left and right, and each value that must be above 0, as in `Bound`."""
        statement = self._statement
        if isinstance(statement, Trend):
            steps = [self._mean(statement.at(level)) for level in statement.levels]
            checks = [(statement.sign * (steps[-1] - steps[0]), False, "")]
            names = [f"from {a} to {b}" for a, b in itertools.pairwise(statement.levels)]
            differences = [statement.sign * (b - a) for a, b in itertools.pairwise(steps)]
            checks += [(value, False, name) for value, name in zip(differences, names, strict=True)]
            return steps[-1], steps[0], checks
        if isinstance(statement, Alone):
            value = self._mean(statement.inner)
            return value, np.zeros_like(value), []
        left, right = self._mean(statement.left), self._mean(statement.right)
        margin = (
            self._within * self._mean(Absolute(statement.right)) if self._within else np.zeros_like(right)
        )
        above, below = left - right, right - left
        match statement.relation:
            case ">":
                return left, right, [(above, False, "")]
            case "<":
                return left, right, [(below, False, "")]
            case ">=":
                return left, right, [(above + margin, True, "")]
            case "<=":
                return left, right, [(below + margin, True, "")]
        return left, right, [(above + margin, True, ""), (below + margin, True, "")]

    def _mean(self, node: Expression) -> Values:
        total = sum(self._value(node, {f: (level,) for f, level in place.items()}) for place in self._places)
        return np.asarray(total / len(self._places))

    def _value(self, node: Expression, here: Levels, *, each: bool = False) -> Values:
        """Compute an expression in a cell, from means over replications or, with `each`, per replication."""
        match node:
            case Number(value):
                return np.full(self._pairs if each else self._plan.size, value)
            case Term():
                raw = np.mean(np.stack(list(self._raw(node, here))), axis=0)[self._complete]
                return raw if each else self._averages.mean(raw)
            case Operation(operator, left, right):
                return _OPERATORS[operator](
                    self._value(left, here, each=each), self._value(right, here, each=each)
                )
            case Absolute(inner):
                return np.abs(self._value(inner, here, each=each))
            case Among(_, share):
                values = self._pooled(node, here)
                if share is not None and not isinstance(self._plan, Jackknife):
                    return self._plan.quantile(values, share)
                return self._averages.mean(values.mean(axis=0))
            case Over(function, inner, through):
                values = np.stack(
                    [self._value(inner, {**here, **levels}, each=each) for levels in single_levels(through)]
                )
                return _OVER_LEVELS[function](values, tuple(through.values()))

    def _pooled(self, node: Among, here: Levels) -> Values:
        """Return the values that a statistic is over: a row per level in `through`, a column per pair."""
        levels = single_levels(node.through)
        return np.stack([self._value(node.inner, {**here, **own}, each=True) for own in levels])


def _slope(values: Values, levels: Sequence[tuple[str, ...]]) -> Values:
    """Return the least-squares slope over the levels of a factor."""
    at = np.array(levels[0], np.float64)
    at -= at.mean()
    return np.asarray(at @ values / (at @ at))


def _explained(values: Values, levels: Sequence[tuple[str, ...]]) -> Values:
    """Return SSA / SST of a full-factorial design with A as first factor, as in `statistics.anova`."""
    cells, mean = values.shape[0], values.mean(axis=0)
    effects = values.reshape(len(levels[0]), -1, values.shape[-1]).mean(axis=1) - mean
    return np.asarray(cells / len(effects) * (effects**2).sum(axis=0) / ((values - mean) ** 2).sum(axis=0))


_OVER_LEVELS: Mapping[str, Callable[[Values, Sequence[tuple[str, ...]]], Values]] = {
    "slope": _slope,
    "least": lambda values, _: np.asarray(values.min(axis=0)),
    "greatest": lambda values, _: np.asarray(values.max(axis=0)),
    EXPLAINED: _explained,
}
"""Functions of the values at each combination of the factors' levels; the first factor varies slowest."""


def _relation(holds: Callable[[Values, Values], NDArray[np.bool_]]) -> Callable[[Values, Values], Values]:
    """Return a function that is 1 if a relation holds and 0 otherwise; NaN if a side is NaN."""
    return lambda left, right: np.where(np.isnan(left) | np.isnan(right), np.nan, holds(left, right))


_OPERATORS: Mapping[str, Callable[[Values, Values], Values]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    ">": _relation(np.greater),
    "<": _relation(np.less),
    ">=": _relation(np.greater_equal),
    "<=": _relation(np.less_equal),
    "==": _relation(np.isclose),
}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
