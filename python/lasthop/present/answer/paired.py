"""Paired comparison of the levels of a factor with a reference level, for `lasthop results compare`.

Pairs, mean differences, their intervals and t tests come from `lasthop.present.answer.differences`. This
module adds distribution-free statistics: the median of the pairs with a bootstrap interval, and the
signed-rank test.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from lasthop.campaign.results.manifest import finished
from lasthop.campaign.results.sections import WHO, Compared, Section, try_parts
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import counted, label, unit_of
from lasthop.common.statistics.estimates import PairedDifference
from lasthop.present.answer.differences import (
    Difference,
    Pairs,
    against,
    corrected,
    holm,
    pairs_of,
    signed_ranks,
)
from lasthop.present.answer.folder import levels_of, only_cells, read_sections
from lasthop.scenario.selection import check_role, parse_levels

HOLM, NONE = "holm", "none"
_NAMED_AT_MOST = 3


@dataclass(frozen=True, slots=True)
class Request:
    """A comparison: `reference` is `factor=level`, `only` are filters as for `select_cells`."""

    reference: str
    metric: str
    only: Sequence[str] = ()
    role: str | None = None
    correction: str = HOLM


@dataclass(frozen=True, slots=True)
class Comparison:
    """A level compared with the reference in one case.

    `difference.p` and `ranks_p` are corrected for the number of comparisons, `t_p` and `ranks.p_value` are
    not. For a single pair, p values and the interval of the median are NaN. `levels` are the levels of all
    other factors. `without_partner` counts unpaired replications, `without_value` pairs that lack a value.
    """

    difference: Difference
    ranks: PairedDifference
    t_p: float
    ranks_p: float
    levels: Mapping[str, str]
    flow: str
    without_partner: int
    without_value: int

    @property
    def case(self) -> dict[str, str]:
        """The levels of all other factors, and the flow."""
        return {**self.levels, WHO: self.flow}


@dataclass(frozen=True, slots=True)
class Compare:
    """The comparisons of a metric, case by case, and the sections of the results from which they come.

    `uncompared` names the cases without a complete pair of values.
    """

    scenario: str
    factor: str
    reference: str
    metric: str
    correction: str
    sections: Sequence[Section]
    comparisons: Sequence[Comparison]
    uncompared: Sequence[str]

    @property
    def differences(self) -> list[Difference]:
        return [row.difference for row in self.comparisons]

    @property
    def by_ratios(self) -> bool:
        return any(row.is_ratio for row in self.differences)

    def table(self) -> pl.DataFrame:
        """Return a row per comparison, in the units of the records; undefined values are null.

        Columns: the other factors, then those of `_COLUMNS`. A factor with the name of such a column has a
        prefix.
        """
        factors = list(self.comparisons[0].levels)
        names = [f"factor_{name}" if name in _COLUMNS else name for name in factors]
        values = [value for _, value in _COLUMNS.values()]
        rows = [
            [*(row.levels[name] for name in factors), *(value(self, row) for value in values)]
            for row in self.comparisons
        ]
        schema = dict.fromkeys(names, pl.String) | {name: kind for name, (kind, _) in _COLUMNS.items()}
        return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
            pl.when(pl.col(pl.Float64).is_finite()).then(pl.col(pl.Float64))
        )


_COLUMNS: dict[str, tuple[type[pl.DataType], Callable[[Compare, Comparison], object]]] = {
    "flow": (pl.String, lambda _, row: row.flow),
    "factor": (pl.String, lambda _, row: row.difference.factor),
    "level": (pl.String, lambda _, row: row.difference.level),
    "reference": (pl.String, lambda _, row: row.difference.reference),
    "metric": (pl.String, lambda _, row: row.difference.metric),
    "unit": (pl.String, lambda _, row: unit_of(row.difference.metric)),
    "means": (pl.String, lambda _, row: "geometric" if row.difference.is_ratio else "arithmetic"),
    "pairs": (pl.Int64, lambda _, row: row.difference.pairs),
    "without_partner": (pl.Int64, lambda _, row: row.without_partner),
    "without_value": (pl.Int64, lambda _, row: row.without_value),
    "reference_mean": (pl.Float64, lambda _, row: row.difference.reference_mean),
    "mean_difference": (pl.Float64, lambda _, row: row.difference.mean),
    "mean_ci_low": (pl.Float64, lambda _, row: row.difference.low),
    "mean_ci_high": (pl.Float64, lambda _, row: row.difference.high),
    "relative_change": (pl.Float64, lambda _, row: row.difference.relative),
    "median_difference": (pl.Float64, lambda _, row: row.ranks.median.estimate),
    "median_ci_low": (pl.Float64, lambda _, row: row.ranks.median.low),
    "median_ci_high": (pl.Float64, lambda _, row: row.ranks.median.high),
    "cohens_dz": (pl.Float64, lambda _, row: row.difference.effect_size),
    "rank_biserial": (pl.Float64, lambda _, row: row.ranks.rank_biserial),
    "t_p": (pl.Float64, lambda _, row: row.t_p),
    "t_p_corrected": (pl.Float64, lambda _, row: row.difference.p),
    "wilcoxon_p": (pl.Float64, lambda _, row: row.ranks.p_value),
    "wilcoxon_p_corrected": (pl.Float64, lambda _, row: row.ranks_p),
    "correction": (pl.String, lambda compare, _: compare.correction),
    "comparisons": (pl.Int64, lambda compare, _: len(compare.comparisons)),
}
"""The columns of a table of comparisons, with their types and values."""


def compare_results(folder: Path, request: Request) -> Compare:
    """Compare finished results. Raises InputError if there are none, or nothing to compare."""
    identity = finished(folder)["identity"]
    # With a role, only its rows count, so parts of flows are not mixed with whole flows.
    whole = read_sections(folder, [request.metric], parts=request.role is not None)
    factor, reference = _reference(whole, request.reference)
    sections = [section for section in _chosen(whole, request) if not section.rows.is_empty()]
    _check_levels(sections, factor, reference, request)
    rows: list[Comparison] = []
    uncompared: list[str] = []
    for section in sections:
        pairs = pairs_of(section, _column(section, factor), section.compared[0], reference)
        rows += _comparisons(section, pairs, int(identity.get("seed", 0)))
        uncompared += _without_pairs(section, pairs)
    if not rows:
        parts = [role for section in sections for role in section.left_out]
        raise InputError(
            f"--metric {request.metric}: no replication has a value both with {factor}={reference} and with "
            f"another level of {factor} in the same cell.{try_parts(parts)}"
        )
    return Compare(
        str(identity["scenario"]),
        factor,
        reference,
        request.metric,
        request.correction,
        sections,
        _corrected(rows, request.correction),
        uncompared,
    )


# ---- What is compared ------------------------------------------------------------------------------------


def _reference(sections: Sequence[Section], text: str) -> tuple[str, str]:
    """Return the factor and the level of the reference."""
    levels_by_factor = levels_of(sections)
    if not levels_by_factor:
        raise InputError(
            f"--reference {text}: the results have no factors, so there are no levels to compare."
        )
    (factor, levels), *more = parse_levels(text, levels_by_factor, "--reference").items()
    if more or len(levels) > 1:
        raise InputError(
            f"--reference {text}: give a single level of a single factor, such as {factor}={min(levels)}."
        )
    return factor, levels.pop()


def _column(section: Section, factor: str) -> str:
    return next(column for column, name in section.factors.items() if name == factor)


def _chosen(sections: Sequence[Section], request: Request) -> list[Section]:
    """Return the part of each section that `--only` and `--role` select."""
    parts = [section.rows for section in only_cells(sections, request.only)]
    if request.role is not None:
        check_role(request.role, [role for rows in parts for role in rows[WHO].unique(maintain_order=True)])
        parts = [rows.filter(pl.col(WHO) == request.role) for rows in parts]
    return [
        replace(section, rows=rows, compared=[Compared(request.metric, rows)])
        for section, rows in zip(sections, parts, strict=True)
    ]


def _check_levels(sections: Sequence[Section], factor: str, reference: str, request: Request) -> None:
    levels = {level for section in sections for level in section.rows[_column(section, factor)]}
    filters = " ".join(
        [*(f"--only {text}" for text in request.only), *([f"--role {request.role}"] if request.role else [])]
    )
    if reference not in levels:
        raise InputError(
            f"--reference {request.reference}: {filters} excludes all its runs; add {factor}={reference} to "
            "--only."
        )
    if len(levels) == 1:
        scope = f"with {filters}, the results" if filters else "the results"
        raise InputError(
            f"--reference {request.reference}: {scope} contain no other level of {factor} to compare it with."
        )


# ---- Statistics ------------------------------------------------------------------------------------------


def _comparisons(section: Section, pairs: Pairs, seed: int) -> list[Comparison]:
    """Return the comparisons of a section, grouped by case; p values are not corrected yet."""
    left_out = _left_out(pairs)
    cases: dict[tuple[str, ...], list[Comparison]] = {}
    for diff in against(section, pairs):
        place = tuple(level for _, level in diff.where)
        without_partner, without_value = left_out[diff.level, *place]
        case = dict(diff.where)
        flow = case.pop(WHO, None) or " / ".join(map(str, section.rows[WHO].unique(maintain_order=True)))
        levels = {
            name: case.get(name) or str(section.rows[column][0]) for column, name in section.factors.items()
        }
        del levels[diff.factor]
        ranks = signed_ranks(diff, seed)
        cases.setdefault(place, []).append(
            Comparison(diff, ranks, diff.p, ranks.p_value, levels, flow, without_partner, without_value)
        )
    ranks_of = [_places(section.rows[name]) for name in pairs.others]
    ordered = sorted(
        cases, key=lambda case: [places[level] for places, level in zip(ranks_of, case, strict=True)]
    )
    return [diff for case in ordered for diff in cases[case]]


def _places(levels: pl.Series) -> dict[str, int]:
    """Return the place at which each level first appears."""
    return {str(level): place for place, level in enumerate(levels.unique(maintain_order=True))}


def _left_out(pairs: Pairs) -> dict[tuple[str, ...], tuple[int, int]]:
    """Count, for each level and case, the replications without a partner and the pairs without a value."""
    keys = [pairs.factor, *pairs.others]
    alone = ~pl.col("partners")
    counts = pairs.frame.group_by(keys, maintain_order=True).agg(
        alone.sum().alias("alone"),
        (pl.col("partners") & pl.col("difference").is_null()).sum().alias("without"),
    )
    return {tuple(map(str, row[:-2])): (row[-2], row[-1]) for row in counts.iter_rows()}


def _without_pairs(section: Section, pairs: Pairs) -> list[str]:
    """Return the levels and cases without a complete pair of values."""
    keys = [pairs.factor, *pairs.others]
    counts = pairs.frame.group_by(keys, maintain_order=True).agg(pl.col("difference").count().alias("_pairs"))
    names = [section.factors.get(key, key) for key in keys]
    empty = counts.filter(pl.col("_pairs") == 0).select(keys).iter_rows()
    return [",".join(f"{name}={level}" for name, level in zip(names, row, strict=True)) for row in empty]


def _corrected(found: Sequence[Comparison], correction: str) -> list[Comparison]:
    """Correct both tests' p values, each for the number of comparisons."""
    if correction == NONE:
        return list(found)
    differences, ranks = (
        corrected([row.difference for row in found]),
        holm([row.ranks.p_value for row in found]),
    )
    return [
        replace(row, difference=difference, ranks_p=float(ranks_p))
        for row, difference, ranks_p in zip(found, differences, ranks, strict=True)
    ]


# ---- In words --------------------------------------------------------------------------------------------


def correction(compared: Compare) -> str:
    if compared.correction == HOLM and len(compared.comparisons) > 1:
        return f"corrected by Holm's method for {len(compared.comparisons)} comparisons"
    return "not corrected for the number of comparisons"


def method(compared: Compare) -> str:
    looks = compared.sections[0].looks
    until = (
        ""
        if looks == 1
        else f" The campaign had a stopping rule: intervals and p hold over its {looks} looks."
    )
    ratios = (
        " For times and rates, the difference is that of the geometric means, its interval is converted from "
        "that of the ratio, and d_z and p are of logarithms."
        if compared.by_ratios
        else ""
    )
    return (
        "Pairs are replications of the same set and number. Difference: mean over the pairs, level minus "
        f"{compared.factor}={compared.reference}, with Student's 95 % interval. "
        "Median: over the pairs, with a percentile-bootstrap 95 % interval. d_z: Cohen's effect size, mean "
        "over standard deviation of the pairs. p: paired t test; rank p: Wilcoxon's signed-rank test; both "
        f"{correction(compared)}. * marks p < 0.05. Intervals are not corrected.{ratios}{until}"
    )


def remarks(compared: Compare) -> list[str]:
    """Return remarks on missing values, and on how they may bias the answer."""
    texts = []
    alone = sum(row.without_partner for row in compared.comparisons)
    if alone:
        texts.append(f"Left out: {counted(alone, 'replication')} without a partner.")
    missing = sum(row.without_value for row in compared.comparisons)
    if missing:
        texts.append(
            f"Left out: {counted(missing, 'pair')} in which a side lacks a value of "
            f"{label(compared.metric)}, for example because a flow did not finish and so has no duration. "
            "This favours levels that leave slow flows unfinished."
        )
    if compared.uncompared:
        names = "; ".join(compared.uncompared[:_NAMED_AT_MOST])
        more = "; ..." if len(compared.uncompared) > _NAMED_AT_MOST else ""
        texts.append(
            f"Not compared, because no pair has both values: {len(compared.uncompared)} ({names}{more})."
        )
    return texts
