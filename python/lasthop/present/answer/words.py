"""Sentences about differences, the most important first.

The main metric of the first kind of traffic comes first, such as the speech quality of a call, and then the
largest difference. Then follow the main metrics of the other kinds of traffic, and all other differences by
size.

The size of a difference is the end of its 95 % interval that is nearer to zero: for a quantity the logarithm
of the ratio to the reference, for a score a share of its range. So times, rates and losses have a common
measure, noise makes a difference smaller, and differences that are certain but small come late.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from lasthop.common.metrics.units import SCORES, Scale, human, label, listed, scale_of, unit_of
from lasthop.present.answer.differences import Difference, Trend, disjoint

_FASTER = frozenset(
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
        "program_s",
    }
)
"""Durations: a smaller value is faster."""
_MORE_IS_BETTER = frozenset({*SCORES, "throughput_Bps", "throughput_mean_Bps", "bitrate_mean_bps"}) - {
    "utilisation"  # repeated packets use a link as well
}
_LESS_IS_BETTER = frozenset(
    {
        *_FASTER,
        "queue_delay_p95_s",
        "lost_per_packet",
        "retransmitted_per_packet",
        "timeouts_per_flow",
        "stalls",
        "stalled_s",
        "startup_delay_s",
    }
)
_NOTICED = {
    "s": 1e-3,
    "ms": 1.0,
    "µs": 1e3,
    "B/s": 125.0,
    "bit/s": 1e3,
    "ratio": 1e-3,
    "packets": 1.0,
    "": 0.0,
}
"""By unit: smaller changes are hardly noticeable, however large their share."""
_SHARE_NOTICED = 0.01
_RANGE = 3.5
"""A change over the whole range of a score is as large as this logarithm of a quantity's ratio."""
_MATTERS = math.log(1.05)
"""From this size on, the main metric of a kind of traffic comes before the other metrics of that kind."""
_MOST_PAIRS = 1000
_MOST_TIMES = 10


def size(diff: Difference) -> float:
    """Return the size of a difference (see above); 0 if it may be due to chance."""
    if not diff.significant:
        return 0.0
    sure = diff.low if diff.mean > 0 else diff.high
    if sure * diff.mean <= 0:
        return 0.0
    if (span := SCORES.get(diff.metric)) is not None:
        return _RANGE * abs(sure) / span
    base, level = diff.reference_mean, diff.reference_mean + sure
    least = max(_NOTICED.get(unit_of(diff.metric), 0.0), _SHARE_NOTICED * max(abs(base), abs(level)))
    return abs(math.log((max(level, 0.0) + least) / (max(base, 0.0) + least)))


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The comparisons of a metric between the levels of a factor, all of one topic."""

    members: Sequence[Difference]

    @property
    def size(self) -> float:
        return max(map(size, self.members))

    @property
    def largest(self) -> Difference:
        """The largest difference or, if none is significant, the one with the smallest p."""
        return max(self.members, key=lambda diff: (diff.significant, size(diff), -diff.p))

    @property
    def differs(self) -> bool:
        """Whether a level differs significantly, or the levels have a significant trend."""
        return any(diff.significant or diff.trend_is_significant for diff in self.members)

    @property
    def is_visible(self) -> bool:
        """Whether printed values show a significant difference, or the ends of a significant trend."""
        return any(
            human(diff.metric, diff.level_mean) != human(diff.metric, diff.reference_mean)
            for diff in self.members
            if diff.significant
        ) or any(
            human(diff.metric, diff.trend.first[1]) != human(diff.metric, diff.trend.last[1])
            for diff in self.members
            if diff.trend and diff.trend_is_significant
        )

    @property
    def apart(self) -> tuple[str, str, Difference] | None:
        """Two levels whose intervals in the tables do not overlap, the second if possible the reference.

        The third item is a comparison in their case.
        """
        if apart := [diff for diff in self.members if diff.apart]:
            diff = min(apart, key=lambda diff: diff.p)
            return diff.level, diff.reference, diff
        for case in self.cases.values():
            intervals = [(diff.level, diff.medians[0], diff) for diff in case]
            for (level, own, diff), (other, beside, _) in itertools.combinations(intervals, 2):
                if disjoint(own, beside):
                    return level, other, diff
        return None

    @property
    def cases(self) -> dict[tuple[tuple[str, str], ...], list[Difference]]:
        cases: dict[tuple[tuple[str, str], ...], list[Difference]] = {}
        for diff in self.members:
            cases.setdefault(diff.where, []).append(diff)
        return cases


def sentences(differences: Sequence[Difference]) -> list[str]:
    """Describe which levels differ significantly from their reference, the most important first."""
    if not differences:
        return []
    if max(diff.pairs for diff in differences) < 2:
        return ["One replication cannot show whether levels differ: run at least 5, with --replications 5."]
    groups: dict[tuple[object, ...], list[Difference]] = {}
    for diff in differences:
        groups.setdefault((diff.topic, diff.metric, diff.factor, diff.reference), []).append(diff)
    all_groups = [_Group(members) for members in groups.values()]
    differ = [group for group in all_groups if group.differs and group.is_visible]
    invisible = [group for group in all_groups if group.differs and not group.is_visible]
    undecided = [group for group in all_groups if not group.differs and group.apart]
    alike = [group for group in all_groups if not group.differs and not group.apart]
    texts = [sentence for group in _ranked(differ) for sentence in _describe(group)] if differ else []
    texts += [_undecided(own) for own in _by_factor(undecided)]
    texts += (
        [f"Significant, but too small for the printed digits: {_metrics(invisible)}."] if invisible else []
    )
    if not alike:
        return texts
    return [*texts, _alike(alike)] if texts else [_of_factor(own) for own in _by_factor(alike)]


def _ranked(groups: Sequence[_Group]) -> list[_Group]:
    """Order groups: leader of the first topic, largest difference, other leaders, all others by size."""
    by_topic: dict[int, list[_Group]] = {}
    for group in groups:
        by_topic.setdefault(group.members[0].topic, []).append(group)
    leaders = [_leader(by_topic[topic]) for topic in sorted(by_topic)]
    first, *others = [group for group in leaders if group.size >= _MATTERS] or leaders[:1]
    by_size = sorted(groups, key=lambda group: -group.size)
    return list(dict.fromkeys((first, by_size[0], *others, *by_size)))


def _leader(groups: Sequence[_Group]) -> _Group:
    """Return the first metric's largest difference if it is large enough, otherwise the largest of all."""
    first = groups[0].members[0].metric
    own = max((group for group in groups if group.members[0].metric == first), key=lambda group: group.size)
    return own if own.size >= _MATTERS else max(groups, key=lambda group: group.size)


# ---- A sentence for each ---------------------------------------------------------------------------------


def _describe(group: _Group) -> Iterator[str]:
    """Compare two levels, or name the best and the worst of several."""
    sure = any(diff.significant for diff in group.members)
    if not sure or any(case[0].trend_is_significant and _beyond(case) for case in group.cases.values()):
        yield from _of_trends(group)
        return
    levels = dict.fromkeys(diff.level for diff in group.members)
    if len(levels) > 1:
        yield _of_several(group)
        return
    for sign in (1, -1) if group.largest.mean > 0 else (-1, 1):
        if own := [diff for diff in group.members if diff.significant and (diff.mean > 0) == (sign > 0)]:
            yield _of_two(own, len(group.members))


def _of_two(own: Sequence[Difference], cases: int) -> str:
    """Describe how a level differs from the reference in these cases out of all cases."""
    largest = _Group(own).largest
    if len(own) == 1:
        return f"{_start(largest)}{_against(largest)}."
    what = f"{_level(largest)} {_verb(largest)} {_comparative(largest)} than {_reference(largest)}"
    where = f"in {_cases(len(own), cases)}{_by(own)}, most {_place(largest)}"
    return f"{what} {where}: {_values(largest, label(largest.metric))}."


def _of_several(group: _Group) -> str:
    """Name the best and the worst level in the case that differs most, and the best level overall."""
    cases = [case for case in group.cases.values() if any(diff.significant for diff in case)]
    most = max(cases, key=lambda case: max(map(size, case)))
    text = _best_and_worst(most)
    first = most[0]
    if len(group.cases) == 1:
        return f"{_start(first)}{text}."
    overall = _overall(group)
    more = f" {overall}" if overall else ""
    differ = _cases(len(cases), len(group.cases))
    against = f"Compared with {_reference(first)}, {label(first.metric)} differs in {differ}"
    return f"{against}, most {_place(first)}: {text}.{more}"


def _of_trends(group: _Group) -> Iterator[str]:
    """Describe how a metric rises or falls with the numbers of a factor's levels."""
    first = group.members[0]
    cases = group.cases.values()
    trends = [(case[0], case[0].trend) for case in cases if case[0].trend and case[0].trend_is_significant]
    for verb, rises in (("rises", True), ("falls", False)):
        own = [(diff, trend) for diff, trend in trends if (trend.last[1] > trend.first[1]) == rises]
        if not own:
            continue
        diff, trend = min(own, key=lambda case: case[1].p)
        what = f"{label(first.metric)} {verb} with {first.factor}"
        if len(own) > 1:
            what += f" in {_cases(len(own), len(group.cases))}, most clearly {_place(diff)}"
        else:
            what = _start(diff) + what
        yield f"{_capital(what)}: {_ends(diff, trend)}."


def _ends(diff: Difference, trend: Trend) -> str:
    """Return the ends of a trend and its test."""
    (low, least), (high, most) = trend.first, trend.last
    over = f"{trend.levels} levels, {trend.replications} replications"
    return (
        f"from {human(diff.metric, least)} with {diff.factor}={low} to {human(diff.metric, most)} with "
        f"{diff.factor}={high} (Page's trend test over {over}, {_probability(trend.p)})"
    )


def _ends_of(case: Sequence[Difference]) -> tuple[str, str]:
    """Return the best and the worst of the reference and the levels that differ from it significantly."""
    values = {diff.level: diff.level_mean for diff in case if diff.significant}
    values[case[0].reference] = next(diff for diff in case if diff.significant).reference_mean
    ordered = sorted(values, key=lambda name: values[name], reverse=case[0].metric in _MORE_IS_BETTER)
    return ordered[0], ordered[-1]


def _beyond(case: Sequence[Difference]) -> list[str]:
    """Return levels whose intervals lie beyond the best and the worst, though not significantly."""
    sure = [diff for diff in case if diff.significant]
    if not sure:
        return []
    medians = {sure[0].reference: sure[0].medians[1]} | {diff.level: diff.medians[0] for diff in sure}
    ends = [medians[name] for name in _ends_of(case)]
    unsure = [(diff.level, diff.medians[0]) for diff in case if not diff.significant]
    return [
        level
        for level, own in unsure
        if all(own.high < end.low for end in ends) or all(own.low > end.high for end in ends)
    ]


def _best_and_worst(case: Sequence[Difference]) -> str:
    """Name the best and the worst of the reference and the levels that differ from it, with their values."""
    own = [diff for diff in case if diff.significant]
    first = own[0]
    best, worst = _ends_of(case)
    values = {first.reference: first.reference_mean} | {diff.level: diff.level_mean for diff in own}
    tested = [diff for diff in own if diff.level in (best, worst)]
    tests = [_test(diff) if len(tested) == 1 else f"{diff.level} {_test(diff)}" for diff in tested]
    against = "" if len(tested) == 1 else f"against {_reference(first)}: "
    apart = _apart(first.metric, values[best], values[worst])
    least, most = _extremes(first.metric)
    beyond = [f"{first.factor}={level}" for level in _beyond(case)]
    more = f", excluding {listed(beyond)}, whose difference may be due to chance" if beyond else ""
    return (
        f"{first.factor}={best} has the {least} {label(first.metric)}, {human(first.metric, values[best])}, "
        f"{first.factor}={worst} the {most}, {human(first.metric, values[worst])} "
        f"({apart}{against}{'; '.join(tests)}){more}"
    )


def _extremes(metric: str) -> tuple[str, str]:
    """Return `best` and `worst`, or `lowest` and `highest` if neither is better."""
    if metric in _FASTER:
        return "shortest", "longest"
    return ("best", "worst") if metric in _MORE_IS_BETTER | _LESS_IS_BETTER else ("lowest", "highest")


def _apart(metric: str, best: float, worst: float) -> str:
    """Compare the worst value with the best: in points, as a factor or in per cent."""
    if metric in SCORES:
        return f"{_points(metric, worst - best)} apart; "
    if min(best, worst) <= 0:
        return ""
    ratio = _multiple(best, worst)
    return f"a factor of {ratio}; " if ratio else f"{_percent(worst / best - 1)} % {_more(worst - best)}; "


def _overall(group: _Group) -> str:
    """Name the best level on average over the cases, among the levels that all cases have."""
    first = group.members[0]
    cases = group.cases.values()
    changes: dict[str, list[float]] = {}
    for diff in group.members:
        positive = min(diff.reference_mean, diff.level_mean) > 0
        scored = first.metric in SCORES
        change = (
            diff.mean if scored else math.log(diff.level_mean / diff.reference_mean) if positive else math.nan
        )
        changes.setdefault(diff.level, []).append(change)
    means = {level: fmean(own) for level, own in changes.items() if len(own) == len(cases)}
    means = {level: mean for level, mean in means.items() if math.isfinite(mean)}
    if not means or first.metric not in _MORE_IS_BETTER | _LESS_IS_BETTER:
        return ""
    sign = 1 if first.metric in _MORE_IS_BETTER else -1
    best = max(means, key=lambda level: sign * means[level])
    what = f"{_extremes(first.metric)[0]} {label(first.metric)}"
    over = f"On average over {_cases(len(cases), len(cases))},"
    if sign * means[best] <= 0:
        return f"{over} {_reference(first)} has the {what}."
    by = (
        _points(first.metric, means[best])
        if first.metric in SCORES
        else f"{_percent(math.expm1(means[best]))} %"
    )
    return f"{over} {first.factor}={best} has the {what}, {by} {_more(means[best])} than {_reference(first)}."


def _against(diff: Difference) -> str:
    """Compare a level with its reference.

    `is 12 % faster than ...: elapsed time 8.8 s against 10.0 s (...)`.
    """
    level, reference, what, timed = _level(diff), _reference(diff), label(diff.metric), diff.metric in _FASTER
    if diff.metric in SCORES:
        values = [human(diff.metric, value) for value in (diff.level_mean, diff.reference_mean)]
        words = ("better", "worse") if diff.metric in _MORE_IS_BETTER else ("higher", "lower")
        word = words[diff.mean < 0]
        points = f"{_points(diff.metric, diff.mean)} {word}"
        return f"{level} has a {what} of {values[0]}, {reference} of {values[1]} ({points}, {_surely(diff)})"
    if (ratio := _multiple(diff.level_mean, diff.reference_mean)) is not None:
        more, less = (level, reference) if diff.mean > 0 else (reference, level)
        takes = (
            f"takes {ratio} times as long as {less}" if timed else f"has {ratio} times the {what} of {less}"
        )
        return f"{more} {takes}: {_values(diff, what if timed else '', larger_first=True)}"
    share = f"{_percent(diff.relative)} % " if math.isfinite(diff.relative) else ""
    if timed and diff.mean > 0 and share:
        return f"{level} takes {share}longer than {reference}: {_values(diff, what)}"
    return (
        f"{level} {_verb(diff)} {share}{_comparative(diff)} than {reference}: "
        f"{_values(diff, what if timed else '')}"
    )


def _values(diff: Difference, name: str, *, larger_first: bool = False) -> str:
    """Return both values, the level's first or the larger first, and the test; `name` names the metric."""
    values = [diff.level_mean, diff.reference_mean]
    if larger_first:
        values.sort(reverse=True)
    level, reference = (human(diff.metric, value) for value in values)
    return f"{name} {level} against {reference} ({_test(diff)})".lstrip()


def _test(diff: Difference) -> str:
    """Return the difference with its interval and test.

    `-3.10 s, 95 % interval -3.30 to -2.90 s, 5 pairs, p < 0.001`.
    """
    scale, unit, decimals = _scale(diff)
    mean = scale.number(diff.mean, signed=True, decimals=decimals)
    if diff.is_ratio and diff.low == diff.high:  # all pairs have the same ratio, not the same difference
        mean, unit = f"{100 * diff.relative:+.2g}", "%"
    apart = " " if diff.low == diff.high else ", "
    return f"{mean} {unit}".rstrip() + apart + _surely(diff)


def _surely(diff: Difference) -> str:
    """Return interval and test without the difference."""
    if diff.low == diff.high:
        return f"in each of {diff.pairs} pairs"
    scale, unit, decimals = _scale(diff)
    low, high = (
        "?" if math.isinf(value) else scale.number(value, signed=True, decimals=decimals)
        for value in (diff.low, diff.high)
    )
    return f"95 % interval {low} to {f'{high} {unit}'.rstrip()}, {diff.pairs} pairs, {_probability(diff.p)}"


def _probability(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _scale(diff: Difference) -> tuple[Scale, str, int | None]:
    """Return scale, unit and decimals for a difference and its interval."""
    scale = scale_of(diff.metric, [diff.mean, diff.low, diff.high])
    unit = "points" if scale.unit == "%" or diff.metric in SCORES else scale.unit
    return scale, unit, scale.decimals_of(diff.mean - diff.low) if diff.mean > diff.low else None


# ---- Nothing ---------------------------------------------------------------------------------------------


def _by_factor(groups: Sequence[_Group]) -> list[list[_Group]]:
    factors: dict[str, list[_Group]] = {}
    for group in groups:
        factors.setdefault(group.members[0].factor, []).append(group)
    return list(factors.values())


def _undecided(groups: Sequence[_Group]) -> str:
    """Describe levels that may differ: their intervals do not overlap, but no test is significant."""
    pairs = [apart for group in groups if (apart := group.apart)]
    level, other, diff = min(pairs, key=lambda apart: (apart[1] != apart[2].reference, apart[2].p))
    may = f"{_start(diff)}{diff.factor}={level} may differ from {diff.factor}={other}"
    evidence = f"their intervals of {label(diff.metric)} do not overlap"
    more = [label(own.metric) for _, _, own in pairs if own.metric != diff.metric]
    likewise = f" The same applies to {listed(list(dict.fromkeys(more)))}." if more else ""
    if other == diff.reference:
        test = f"{_test(diff)}{_needed(diff)}"
        return f"{may}: {evidence}, but the difference is not significant ({test}).{likewise}"
    command = f"'lasthop results compare' with --reference {diff.factor}={other} compares these two"
    compared = f"Other levels were compared with {_reference(diff)} only; {command}"
    return f"{may}: {evidence}. {compared}.{likewise}"


def _of_factor(groups: Sequence[_Group]) -> str:
    """Describe a factor without significant differences: the smallest p, and the detectable difference."""
    members = [diff for group in groups for diff in group.members]
    nearest = min((diff for diff in members if diff.pairs > 1), key=_distance, default=members[0])
    metrics = list(dict.fromkeys(label(diff.metric) for diff in members))
    levels = list(dict.fromkeys(diff.level for diff in members))
    who = (
        _level(nearest) if len(levels) == 1 else f"None of the {len(levels)} other levels of {nearest.factor}"
    )
    verb = "does not differ" if len(levels) == 1 else "differs"
    compared = f" in {listed(metrics)}" if len(metrics) > 1 else ""
    cases = len({diff.where for diff in members})
    many = "" if cases == 1 else f" in any of {cases} cases"
    where = [*([_level(nearest)] if len(levels) > 1 else []), *([_place(nearest)] if nearest.where else [])]
    place = ("closest " if len(members) > 1 else "") + (f"{' '.join(where)}: " if where else "")
    result = f"{_test(nearest)}{_detectable(nearest)}{_needed(nearest)}"
    return (
        f"{who} {verb} significantly from {_reference(nearest)}{compared}{many} "
        f"({place}{label(nearest.metric)} {result})."
    )


def _distance(diff: Difference) -> tuple[float, float]:
    """Order comparisons by p, and those with equal p after the correction by their effect size."""
    effect = diff.effect_size
    return diff.p, 0.0 if math.isnan(effect) else -abs(effect)


def _detectable(diff: Difference) -> str:
    """Return the difference that this number of pairs can detect, unless it is implausibly large."""
    is_plausible = 0 < diff.detectable < (_MOST_TIMES * diff.reference_mean if diff.is_ratio else math.inf)
    value = human(diff.metric, diff.detectable)
    return f"; a difference of {value} would have been detected" if is_plausible else ""


def _needed(diff: Difference) -> str:
    """Return the number of pairs that detects a difference of this size, if it is feasible."""
    needed = diff.pairs_needed
    text = f"; detecting a difference of this size takes about {needed:.0f} pairs"
    return text if needed <= _MOST_PAIRS else ""


def _alike(groups: Sequence[_Group]) -> str:
    return f"No significant difference {_metrics(groups)}."


def _metrics(groups: Sequence[_Group]) -> str:
    """Return the metrics of these comparisons: `by queue in MOS or loss rate; by delay in elapsed time`."""
    metrics: dict[str, list[str]] = {}
    for group in groups:
        own = metrics.setdefault(group.members[0].factor, [])
        own += [name for name in [label(group.members[0].metric)] if name not in own]
    by = [f"by {factor} in {listed(own, 'or')}" for factor, own in metrics.items()]
    return "; ".join(by)


# ---- Words -----------------------------------------------------------------------------------------------


def _level(diff: Difference) -> str:
    return f"{diff.factor}={diff.level}"


def _reference(diff: Difference) -> str:
    return f"{diff.factor}={diff.reference}"


def _verb(diff: Difference) -> str:
    """Return the verb of a comparison: `is` faster, `has a` lower rate, `has` fewer packets."""
    if diff.metric in _FASTER:
        return "is"
    return "has" if scale_of(diff.metric, [diff.mean]).whole else "has a"


def _comparative(diff: Difference) -> str:
    more = diff.mean > 0
    if diff.metric in _FASTER:
        return "slower" if more else "faster"
    if scale_of(diff.metric, [diff.mean]).whole:
        return f"{'more' if more else 'fewer'} {label(diff.metric)}"
    return f"{'higher' if more else 'lower'} {label(diff.metric)}"


def _more(change: float) -> str:
    return "more" if change > 0 else "less"


def _percent(change: float) -> str:
    share = 100 * abs(change)
    return f"{share:.0f}" if share >= 9.5 else f"{share:.2g}"


def _multiple(first: float, second: float) -> str | None:
    """Return the ratio of the larger to the smaller value; `None` unless it exceeds two."""
    low, high = sorted((first, second))
    if low <= 0 or high <= 2 * low:
        return None
    return f"{high / low:.1f}" if high < 100 * low else f"{high / low:.0f}"


def _points(metric: str, difference: float) -> str:
    return f"{scale_of(metric, [difference]).number(abs(difference))} points"


def _by(own: Sequence[Difference]) -> str:
    """Return the range of the differences: scores in points, others as factors or in per cent."""
    if own[0].metric in SCORES:
        ends = sorted(
            (_points(diff.metric, diff.mean) for diff in own), key=lambda text: float(text.split()[0])
        )
        return f" (by {ends[0].split()[0]} to {ends[-1]})"
    multiples = [_multiple(diff.level_mean, diff.reference_mean) for diff in own]
    factors = sorted(filter(None, multiples), key=float)
    if len(factors) == len(own):
        return f" (by a factor of {factors[0]} to {factors[-1]})"
    finite = sorted(
        (diff for diff in own if math.isfinite(diff.relative)), key=lambda diff: abs(diff.relative)
    )
    if not finite:
        return ""
    low, high = _percent(finite[0].relative), _percent(finite[-1].relative)
    return f" (by {low} %)" if low == high else f" (by {low} to {high} %)"


def _place(diff: Difference) -> str:
    return "with " + ", ".join(f"{name}={level}" for name, level in diff.where) if diff.where else ""


def _start(diff: Difference) -> str:
    """Return the beginning of a sentence: its case, if any."""
    return f"{_capital(_place(diff))}, " if diff.where else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _cases(count: int, of: int) -> str:
    return f"{count} of {of} cases" if count < of else "both cases" if count == 2 else f"all {count} cases"
