"""Differences in words: which come first, and a sentence for each.

The main metric of the first kind of traffic comes first, such as the speech quality of a call, and then the
largest difference. The other kinds of traffic follow, each with its main metric, and then all other
differences by size. Differences that hardly matter come last.

The size of a difference is the part that its 95 % interval leaves for certain: for a quantity the logarithm
of the ratio to the reference, for a score a share of its range. So times, rates and losses are measured
alike, noise counts against a difference, and a difference that is certain but small comes late.
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
_MORE_IS_BETTER = frozenset({*SCORES, "throughput_Bps", "throughput_mean_Bps", "bitrate_mean_bps"})
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
"""By unit: a change smaller than this is hardly noticed, however large its share."""
_SHARE_NOTICED = 0.01
_RANGE = 3.5
"""A change over the whole range of a score weighs as much as this logarithm of a quantity's ratio."""
_MATTERS = math.log(1.05)
"""From this size on, the main metric of a kind of traffic comes before the other metrics of that kind."""
_MOST_PAIRS = 1000
_MOST_TIMES = 10


def size(one: Difference) -> float:
    """Return the size of a difference that is certain; 0 if the difference may be due to chance."""
    if not one.significant:
        return 0.0
    sure = one.low if one.mean > 0 else one.high
    if sure * one.mean <= 0:
        return 0.0
    if (span := SCORES.get(one.metric)) is not None:
        return _RANGE * abs(sure) / span
    base, level = one.reference_mean, one.reference_mean + sure
    least = max(_NOTICED.get(unit_of(one.metric), 0.0), _SHARE_NOTICED * max(abs(base), abs(level)))
    return abs(math.log((max(level, 0.0) + least) / (max(base, 0.0) + least)))


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The comparisons of one metric over the levels of one factor, all of one topic."""

    members: Sequence[Difference]

    @property
    def size(self) -> float:
        return max(map(size, self.members))

    @property
    def largest(self) -> Difference:
        """The largest difference, or the clearest one if none is certain."""
        return max(self.members, key=lambda one: (one.significant, size(one), -one.p))

    @property
    def differs(self) -> bool:
        """Whether a level differs significantly, or the levels have a significant trend."""
        return any(one.significant or one.trend_is_significant for one in self.members)

    @property
    def apart(self) -> tuple[str, str, Difference] | None:
        """Two levels whose intervals do not overlap in the tables, and a comparison in their case.

        The reference is the second of them if it can be.
        """
        if apart := [one for one in self.members if one.apart]:
            one = min(apart, key=lambda one: one.p)
            return one.level, one.reference, one
        for case in self.cases.values():
            known = [(one.level, one.medians[0], one) for one in case]
            for (level, own, one), (other, beside, _) in itertools.combinations(known, 2):
                if disjoint(own, beside):
                    return level, other, one
        return None

    @property
    def cases(self) -> dict[tuple[tuple[str, str], ...], list[Difference]]:
        found: dict[tuple[tuple[str, str], ...], list[Difference]] = {}
        for one in self.members:
            found.setdefault(one.where, []).append(one)
        return found


def sentences(found: Sequence[Difference]) -> list[str]:
    """Say which levels differ significantly from their reference: what matters most first, the rest last."""
    if not found:
        return []
    if max(one.pairs for one in found) < 2:
        return ["One replication cannot show whether levels differ: run at least 5, with --replications 5."]
    groups: dict[tuple[object, ...], list[Difference]] = {}
    for one in found:
        groups.setdefault((one.topic, one.metric, one.factor, one.reference), []).append(one)
    all_groups = [_Group(members) for members in groups.values()]
    differ = [group for group in all_groups if group.differs]
    undecided = [group for group in all_groups if not group.differs and group.apart]
    alike = [group for group in all_groups if not group.differs and not group.apart]
    told = [sentence for group in _ranked(differ) for sentence in _told(group)] if differ else []
    told += [_undecided(own) for own in _by_factor(undecided)]
    if not alike:
        return told
    return [*told, _alike(alike)] if told else [_of_factor(own) for own in _by_factor(alike)]


def _ranked(groups: Sequence[_Group]) -> list[_Group]:
    """Order groups by importance: leader of the first topic, largest, other leaders, all others by size."""
    by_topic: dict[int, list[_Group]] = {}
    for group in groups:
        by_topic.setdefault(group.members[0].topic, []).append(group)
    leaders = [_leader(by_topic[topic]) for topic in sorted(by_topic)]
    first, *others = [group for group in leaders if group.size >= _MATTERS] or leaders[:1]
    by_size = sorted(groups, key=lambda group: -group.size)
    return list(dict.fromkeys((first, by_size[0], *others, *by_size)))


def _leader(groups: Sequence[_Group]) -> _Group:
    """Return the first metric's largest difference if it matters, else the largest of all."""
    first = groups[0].members[0].metric
    own = max((group for group in groups if group.members[0].metric == first), key=lambda group: group.size)
    return own if own.size >= _MATTERS else max(groups, key=lambda group: group.size)


# ---- A sentence for each ---------------------------------------------------------------------------------


def _told(group: _Group) -> Iterator[str]:
    """Say which of two levels has more and which less, or which of several has most and which least."""
    sure = any(one.significant for one in group.members)
    if not sure or any(case[0].trend_is_significant and _beyond(case) for case in group.cases.values()):
        yield from _of_trends(group)
        return
    levels = dict.fromkeys(one.level for one in group.members)
    if len(levels) > 1:
        yield _of_several(group)
        return
    for sign in (1, -1) if group.largest.mean > 0 else (-1, 1):
        if own := [one for one in group.members if one.significant and (one.mean > 0) == (sign > 0)]:
            yield _of_two(own, len(group.members))


def _of_two(own: Sequence[Difference], cases: int) -> str:
    """Say how a level differs from the reference in these cases out of all cases."""
    largest = _Group(own).largest
    if len(own) == 1:
        return f"{_start(largest)}{_against(largest)}."
    what = f"{_level(largest)} {_verb(largest)} {_comparative(largest)} than {_reference(largest)}"
    where = f"in {_cases(len(own), cases)}{_by(own)}, most {_place(largest)}"
    return f"{what} {where}: {_values(largest, label(largest.metric))}."


def _of_several(group: _Group) -> str:
    """Say which levels have most and least in the case that differs most, and which level wins overall."""
    cases = [case for case in group.cases.values() if any(one.significant for one in case)]
    most = max(cases, key=lambda case: max(map(size, case)))
    text = _best_and_worst(most)
    first = most[0]
    if len(group.cases) == 1:
        return f"{_start(first)}{text}."
    overall = _overall(group)
    more = f" {overall}" if overall else ""
    differ = _cases(len(cases), len(group.cases))
    against = f"Against {_reference(first)}, {label(first.metric)} differs in {differ}"
    return f"{against}, most {_place(first)}: {text}.{more}"


def _of_trends(group: _Group) -> Iterator[str]:
    """Say how a metric rises or falls with the numbers of a factor's levels."""
    first = group.members[0]
    cases = group.cases.values()
    found = [(case[0], case[0].trend) for case in cases if case[0].trend and case[0].trend_is_significant]
    for verb, rises in (("rises", True), ("falls", False)):
        own = [(one, trend) for one, trend in found if (trend.last[1] > trend.first[1]) == rises]
        if not own:
            continue
        one, trend = min(own, key=lambda case: case[1].p)
        what = f"{label(first.metric)} {verb} with {first.factor}"
        if len(own) > 1:
            what += f" in {_cases(len(own), len(group.cases))}, most clearly {_place(one)}"
        else:
            what = _start(one) + what
        yield f"{_capital(what)}: {_ends(one, trend)}."


def _ends(one: Difference, trend: Trend) -> str:
    """Give the ends of a trend and its test."""
    (low, least), (high, most) = trend.first, trend.last
    over = f"{trend.levels} levels, {trend.replications} replications"
    return (
        f"from {human(one.metric, least)} with {one.factor}={low} to {human(one.metric, most)} with "
        f"{one.factor}={high} (Page's trend test over {over}, {_probability(trend.p)})"
    )


def _ends_of(case: Sequence[Difference]) -> tuple[str, str]:
    """Return the best and the worst of the reference and the levels that differ from it significantly."""
    values = {one.level: one.level_mean for one in case if one.significant}
    values[case[0].reference] = next(one for one in case if one.significant).reference_mean
    ordered = sorted(values, key=lambda name: values[name], reverse=case[0].metric in _MORE_IS_BETTER)
    return ordered[0], ordered[-1]


def _beyond(case: Sequence[Difference]) -> list[str]:
    """Return the levels that tables show beyond the best and the worst, though they may differ by chance."""
    sure = [one for one in case if one.significant]
    if not sure:
        return []
    medians = {sure[0].reference: sure[0].medians[1]} | {one.level: one.medians[0] for one in sure}
    ends = [medians[name] for name in _ends_of(case)]
    unsure = [(one.level, one.medians[0]) for one in case if not one.significant]
    return [
        level
        for level, own in unsure
        if all(own.high < end.low for end in ends) or all(own.low > end.high for end in ends)
    ]


def _best_and_worst(case: Sequence[Difference]) -> str:
    """Name the best and the worst of the reference and the levels that differ from it, with their values."""
    own = [one for one in case if one.significant]
    first = own[0]
    best, worst = _ends_of(case)
    values = {first.reference: first.reference_mean} | {one.level: one.level_mean for one in own}
    tested = [one for one in own if one.level in (best, worst)]
    tests = [_tested(one) if len(tested) == 1 else f"{one.level} {_tested(one)}" for one in tested]
    against = "" if len(tested) == 1 else f"against {_reference(first)}: "
    apart = _apart(first.metric, values[best], values[worst])
    least, most = _extremes(first.metric)
    beyond = [f"{first.factor}={level}" for level in _beyond(case)]
    more = f", not counting {listed(beyond)}, whose difference may be due to chance" if beyond else ""
    return (
        f"{first.factor}={best} has the {least} {label(first.metric)}, {human(first.metric, values[best])}, "
        f"{first.factor}={worst} the {most}, {human(first.metric, values[worst])} "
        f"({apart}{against}{'; '.join(tests)}){more}"
    )


def _extremes(metric: str) -> tuple[str, str]:
    """Call the two ends best and worst, or lowest and highest if it is open which is better."""
    if metric in _FASTER:
        return "shortest", "longest"
    return ("best", "worst") if metric in _MORE_IS_BETTER | _LESS_IS_BETTER else ("lowest", "highest")


def _apart(metric: str, best: float, worst: float) -> str:
    """Compare the worst value with the best; without two positive values there is no ratio."""
    if metric in SCORES:
        return f"{_points(metric, worst - best)} apart; "
    if min(best, worst) <= 0:
        return ""
    ratio = _multiple(best, worst)
    return f"a factor of {ratio}; " if ratio else f"{_percent(worst / best - 1)} % {_more(worst - best)}; "


def _overall(group: _Group) -> str:
    """Say which level is best on average over the cases, among the levels that all cases have."""
    first = group.members[0]
    cases = group.cases.values()
    changes: dict[str, list[float]] = {}
    for one in group.members:
        positive = min(one.reference_mean, one.level_mean) > 0
        scored = first.metric in SCORES
        change = (
            one.mean if scored else math.log(one.level_mean / one.reference_mean) if positive else math.nan
        )
        changes.setdefault(one.level, []).append(change)
    means = {level: fmean(own) for level, own in changes.items() if len(own) == len(cases)}
    means = {level: mean for level, mean in means.items() if math.isfinite(mean)}
    if not means or first.metric not in _MORE_IS_BETTER | _LESS_IS_BETTER:
        return ""
    sign = 1 if first.metric in _MORE_IS_BETTER else -1
    best = max(means, key=lambda level: sign * means[level])
    what = f"{_extremes(first.metric)[0]} {label(first.metric)}"
    over = f"On the average over {_cases(len(cases), len(cases))},"
    if sign * means[best] <= 0:
        return f"{over} {_reference(first)} has the {what}."
    by = (
        _points(first.metric, means[best])
        if first.metric in SCORES
        else f"{_percent(math.expm1(means[best]))} %"
    )
    return f"{over} {first.factor}={best} has the {what}, {by} {_more(means[best])} than {_reference(first)}."


def _against(one: Difference) -> str:
    """Compare one level with its reference.

    `is 12 % faster than ...: elapsed time 8.8 s against 10.0 s (...)`.
    """
    level, reference, what, timed = _level(one), _reference(one), label(one.metric), one.metric in _FASTER
    if one.metric in SCORES:
        values = [human(one.metric, value) for value in (one.level_mean, one.reference_mean)]
        word = "better" if one.mean > 0 else "worse"
        points = f"{_points(one.metric, one.mean)} {word}"
        return f"{level} has a {what} of {values[0]}, {reference} of {values[1]} ({points}, {_surely(one)})"
    if (ratio := _multiple(one.level_mean, one.reference_mean)) is not None:
        more, less = (level, reference) if one.mean > 0 else (reference, level)
        takes = (
            f"takes {ratio} times as long as {less}" if timed else f"has {ratio} times the {what} of {less}"
        )
        return f"{more} {takes}: {_values(one, what if timed else '', larger_first=True)}"
    share = f"{_percent(one.relative)} % " if math.isfinite(one.relative) else ""
    if timed and one.mean > 0 and share:
        return f"{level} takes {share}longer than {reference}: {_values(one, what)}"
    return (
        f"{level} {_verb(one)} {share}{_comparative(one)} than {reference}: "
        f"{_values(one, what if timed else '')}"
    )


def _values(one: Difference, name: str, *, larger_first: bool = False) -> str:
    """Give both values, the level's first or the larger first, and the test; `name` names the metric."""
    values = [one.level_mean, one.reference_mean]
    if larger_first:
        values.sort(reverse=True)
    level, reference = (human(one.metric, value) for value in values)
    return f"{name} {level} against {reference} ({_tested(one)})".lstrip()


def _tested(one: Difference) -> str:
    """Give the difference with its interval and test.

    `-3.10 s, 95 % interval -3.30 to -2.90 s, 5 pairs, p < 0.001`.
    """
    scale, unit, decimals = _scale(one)
    mean = scale.number(one.mean, signed=True, decimals=decimals)
    if one.is_ratio and one.low == one.high:  # all pairs have the same ratio, not the same difference
        mean, unit = f"{100 * one.relative:+.2g}", "%"
    apart = " " if one.low == one.high else ", "
    return f"{mean} {unit}".rstrip() + apart + _surely(one)


def _surely(one: Difference) -> str:
    """Give interval and test for a difference that was already given."""
    if one.low == one.high:
        return f"in each of {one.pairs} pairs"
    scale, unit, decimals = _scale(one)
    low, high = (
        "?" if math.isinf(value) else scale.number(value, signed=True, decimals=decimals)
        for value in (one.low, one.high)
    )
    return f"95 % interval {low} to {f'{high} {unit}'.rstrip()}, {one.pairs} pairs, {_probability(one.p)}"


def _probability(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _scale(one: Difference) -> tuple[Scale, str, int | None]:
    """Return how a difference and its interval are shown: scale, unit and decimals."""
    scale = scale_of(one.metric, [one.mean, one.low, one.high])
    unit = "points" if scale.unit == "%" or one.metric in SCORES else scale.unit
    return scale, unit, scale.decimals_of(one.mean - one.low) if one.mean > one.low else None


# ---- Nothing ---------------------------------------------------------------------------------------------


def _by_factor(groups: Sequence[_Group]) -> list[list[_Group]]:
    factors: dict[str, list[_Group]] = {}
    for group in groups:
        factors.setdefault(group.members[0].factor, []).append(group)
    return list(factors.values())


def _undecided(groups: Sequence[_Group]) -> str:
    """Say that levels of a factor may differ: their intervals do not overlap, but no test is significant."""
    found = [apart for group in groups if (apart := group.apart)]
    level, other, one = min(found, key=lambda apart: (apart[1] != apart[2].reference, apart[2].p))
    may = f"{_start(one)}{one.factor}={level} may differ from {one.factor}={other}"
    seen = f"their intervals of {label(one.metric)} do not overlap"
    more = [label(own.metric) for _, _, own in found if own.metric != one.metric]
    likewise = f" The same is true of {listed(list(dict.fromkeys(more)))}." if more else ""
    if other == one.reference:
        test = f"{_tested(one)}{_needed(one)}"
        return f"{may}: {seen}, but the difference is not significant ({test}).{likewise}"
    command = f"'lasthop results compare' with --reference {one.factor}={other} tests them"
    return f"{may}: {seen}. Only {_reference(one)} was compared with all others; {command}.{likewise}"


def _of_factor(groups: Sequence[_Group]) -> str:
    """Say that no level of a factor differs, what came nearest, and what the runs would have shown."""
    members = [one for group in groups for one in group.members]
    nearest = min((one for one in members if one.pairs > 1), key=_distance, default=members[0])
    metrics = list(dict.fromkeys(label(one.metric) for one in members))
    levels = list(dict.fromkeys(one.level for one in members))
    who = (
        _level(nearest) if len(levels) == 1 else f"None of the {len(levels)} other levels of {nearest.factor}"
    )
    verb = "does not differ" if len(levels) == 1 else "differs"
    compared = f" in {listed(metrics)}" if len(metrics) > 1 else ""
    cases = len({one.where for one in members})
    many = "" if cases == 1 else f" in any of {cases} cases"
    where = [*([_level(nearest)] if len(levels) > 1 else []), *([_place(nearest)] if nearest.where else [])]
    place = ("nearest " if len(members) > 1 else "") + (f"{' '.join(where)}: " if where else "")
    shown = f"{_tested(nearest)}{_shown(nearest)}{_needed(nearest)}"
    return (
        f"{who} {verb} significantly from {_reference(nearest)}{compared}{many} "
        f"({place}{label(nearest.metric)} {shown})."
    )


def _distance(one: Difference) -> tuple[float, float]:
    """Order comparisons by p, and those that are all equal after the correction by their effect."""
    effect = one.effect_size
    return one.p, 0.0 if math.isnan(effect) else -abs(effect)


def _shown(one: Difference) -> str:
    """Say which difference this number of pairs would have shown, unless it is out of all proportion."""
    shown = 0 < one.detectable < (_MOST_TIMES * one.reference_mean if one.is_ratio else math.inf)
    return f"; one of {human(one.metric, one.detectable)} would have shown" if shown else ""


def _needed(one: Difference) -> str:
    """Say how many pairs a difference of this size takes, if that number can be run."""
    needed = one.pairs_needed
    return (
        f"; a difference of this size takes about {needed:.0f} pairs to show" if needed <= _MOST_PAIRS else ""
    )


def _alike(groups: Sequence[_Group]) -> str:
    metrics: dict[str, list[str]] = {}
    for group in groups:
        own = metrics.setdefault(group.members[0].factor, [])
        own += [name for name in [label(group.members[0].metric)] if name not in own]
    by = [f"by {factor} in {listed(own, 'or')}" for factor, own in metrics.items()]
    return f"No significant difference {'; '.join(by)}."


# ---- Words -----------------------------------------------------------------------------------------------


def _level(one: Difference) -> str:
    return f"{one.factor}={one.level}"


def _reference(one: Difference) -> str:
    return f"{one.factor}={one.reference}"


def _verb(one: Difference) -> str:
    """Begin a comparison: `is` for faster, `has a` for a lower rate, `has` for fewer packets."""
    if one.metric in _FASTER:
        return "is"
    return "has" if scale_of(one.metric, [one.mean]).whole else "has a"


def _comparative(one: Difference) -> str:
    more = one.mean > 0
    if one.metric in _FASTER:
        return "slower" if more else "faster"
    if scale_of(one.metric, [one.mean]).whole:
        return f"{'more' if more else 'fewer'} {label(one.metric)}"
    return f"{'higher' if more else 'lower'} {label(one.metric)}"


def _more(change: float) -> str:
    return "more" if change > 0 else "less"


def _percent(change: float) -> str:
    share = 100 * abs(change)
    return f"{share:.0f}" if share >= 9.5 else f"{share:.2g}"


def _multiple(one: float, other: float) -> str | None:
    """Return the ratio of the larger to the smaller; `None` unless it is more than two."""
    low, high = sorted((one, other))
    if low <= 0 or high <= 2 * low:
        return None
    return f"{high / low:.1f}" if high < 100 * low else f"{high / low:.0f}"


def _points(metric: str, difference: float) -> str:
    return f"{scale_of(metric, [difference]).number(abs(difference))} points"


def _by(own: Sequence[Difference]) -> str:
    """Give the range of the differences: scores in points, everything else as factors or in per cent."""
    if own[0].metric in SCORES:
        ends = sorted((_points(one.metric, one.mean) for one in own), key=lambda text: float(text.split()[0]))
        return f" (by {ends[0].split()[0]} to {ends[-1]})"
    multiples = [_multiple(one.level_mean, one.reference_mean) for one in own]
    factors = sorted(filter(None, multiples), key=float)
    if len(factors) == len(own):
        return f" (by a factor of {factors[0]} to {factors[-1]})"
    known = sorted((one for one in own if math.isfinite(one.relative)), key=lambda one: abs(one.relative))
    if not known:
        return ""
    low, high = _percent(known[0].relative), _percent(known[-1].relative)
    return f" (by {low} %)" if low == high else f" (by {low} to {high} %)"


def _place(one: Difference) -> str:
    return "with " + ", ".join(f"{name}={level}" for name, level in one.where) if one.where else ""


def _start(one: Difference) -> str:
    """Begin a sentence with its case, if it has one."""
    return f"{_capital(_place(one))}, " if one.where else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _cases(count: int, of: int) -> str:
    return f"{count} of {of} cases" if count < of else "both cases" if count == 2 else f"all {count} cases"
