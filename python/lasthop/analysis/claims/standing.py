"""How many published numbers hold at each level of factors that the source does not have."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from lasthop.analysis.claims import NOT_UPHELD, UNCOMPUTABLE, UNDECIDED, UPHELD
from lasthop.analysis.studies.comparison import band, compare, misprinted
from lasthop.analysis.studies.summary import extra_columns, key_columns, summary_of
from lasthop.campaign.results.tables import Tables
from lasthop.studies.catalogue import Assets

Standing = Mapping[tuple[str, ...], Counter[str]]
"""Counts of verdicts by the levels of the factors that the published numbers do not have."""


def standing(folder: Path, factors: list[str], assets: Assets) -> Standing:
    """Judge each published number of a cell that was run, and count the verdicts.

    A number is upheld if the 95 % interval of the measured number lies within the tolerance of its metric,
    not upheld if it lies outside, and undecided if it crosses an edge. A measured number without an interval
    counts as exact; without a measured number the verdict is `uncomputable`. Misprints and metrics without a
    tolerance do not count.
    """
    summary = summary_of(Tables.read(folder), factors, assets)
    extra, keys = extra_columns(factors, assets), key_columns(assets)
    rows = (
        compare(summary, assets, extra)
        .filter(~misprinted(assets.presentation.misprints))
        .join(
            summary.select(*extra, *keys, "ci_low", "ci_high"),
            on=[*extra, *keys],
            how="left",
            nulls_equal=True,
        )
    )
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for levels, part in rows.partition_by(extra, as_dict=True).items() if extra else [((), rows)]:
        numbers = part.select("metric", "published", "measured", "ci_low", "ci_high")
        verdicts = (verdict(*row) for row in numbers.iter_rows())
        counts[tuple(map(str, levels))] = Counter(filter(None, verdicts))
    return counts


def verdict(
    metric: str, published: float, measured: float | None, low: float | None, high: float | None
) -> str:
    """Return the verdict on a published number; empty for a metric without a tolerance."""
    edges = band(metric, published)
    if edges is None:
        return ""
    if measured is None:
        return UNCOMPUTABLE
    if low is None or high is None:
        low = high = measured
    if edges[0] <= low and high <= edges[1]:
        return UPHELD
    return NOT_UPHELD if high < edges[0] or low > edges[1] else UNDECIDED
