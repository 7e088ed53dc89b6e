"""Published numbers against measured ones: `comparison.csv` and the agreement table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from lasthop.catalogue import Assets
from lasthop.summary import key_columns

_RELATIVE = 0.05
_ABSOLUTE_AT_ZERO = 0.05
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Rule:
    """When a measured number counts as equal to the published one."""

    tolerance: float
    relative: bool
    text: str


_TIME = Rule(_RELATIVE, relative=True, text="within 5 %")
_COUNT = Rule(2.0, relative=False, text="within 2")
RULES: dict[str, Rule] = {
    "elapsed_s": _TIME,
    "overall_time_s": _TIME,
    "throughput_Bps": _TIME,
    "spacing_ms": _TIME,
    "retransmitted_packets": _COUNT,
    "duplicate_acks": _COUNT,
    "triple_duplicate_acks": _COUNT,
    "sack_blocks": _COUNT,
    "drops_queue": _COUNT,
    "drops_error": _COUNT,
    "drops_red": Rule(3.0, relative=False, text="within 3"),
}
"""Times and rates: relative. Counts: absolute, as they are small and often zero. RED's are random: a wider bound."""


def judge(metric: str, published: float, measured: float | None) -> tuple[bool | None, str]:
    """Return whether `measured` is within the metric's rule (`None` if it cannot be said) and the rule as text."""
    rule = RULES.get(metric)
    if rule is None:
        return None, "no rule for this metric"
    tolerance, text = rule.tolerance, rule.text
    if rule.relative:
        tolerance = rule.tolerance * abs(published)
        if published == 0:
            tolerance, text = _ABSOLUTE_AT_ZERO, f"within {_ABSOLUTE_AT_ZERO} (published is zero)"
    if measured is None:
        return None, text
    return abs(measured - published) <= tolerance + _EPSILON, text


def compare(summary: pl.DataFrame, assets: Assets) -> pl.DataFrame:
    """Join a study's summary to its published numbers.

    One row per published number of a cell that was run, in the order of `published.csv`: its key columns, `published`,
    `measured`, `ratio` (measured / published), `difference` (measured - published), `within`, `rule`, `note`.
    """
    keys = key_columns(assets)
    cell_keys = keys[: keys.index("flow")]
    published = assets.published.join(summary.select(cell_keys).unique(), on=cell_keys, how="semi", nulls_equal=True)
    joined = published.join(
        summary.select(*keys, pl.col("value").alias("measured")),
        on=keys,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    judged = [judge(*row) for row in joined.select("metric", "value", "measured").iter_rows()]
    return joined.select(
        *keys,
        pl.col("value").alias("published"),
        "measured",
        pl.when(pl.col("value") != 0).then(pl.col("measured") / pl.col("value")).round(4).alias("ratio"),
        (pl.col("measured") - pl.col("value")).round(4).alias("difference"),
        pl.Series("within", [within for within, _ in judged], dtype=pl.Boolean),
        pl.Series("rule", [text for _, text in judged], dtype=pl.String),
        "note",
    )


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many published medians are met, among those that were run."""

    what: str
    scope: str
    tolerance: str
    hits: int
    total: int

    @property
    def share(self) -> float:
        """Hits per total, 0 to 1."""
        return self.hits / self.total


_COUNT_TITLES = {
    "drops_queue": "queue drops",
    "drops_error": "error drops",
    "drops_red": "RED drops and ECN marks",
    "retransmitted_packets": "retransmitted packets",
    "duplicate_acks": "duplicate ACKs",
    "triple_duplicate_acks": "triple duplicate ACKs",
    "sack_blocks": "ACKs with SACK",
}


def _elapsed(medians: pl.DataFrame, scope: str) -> Iterator[Agreement]:
    for percent in (5, 10):
        near = medians.filter((pl.col("ratio") - 1).abs() <= percent / 100 + _EPSILON)
        yield Agreement("median elapsed time of TCP flows", scope, f"{percent} %", near.height, medians.height)


def agreement(comparison: pl.DataFrame) -> list[Agreement]:
    """Count how many published medians are met.

    Times are those of TCP flows (a UDP stream lasts as long as it is told to). Counts are those of the data direction,
    UDP included; the ACK direction has next to no drops and would flatter the figure. Numbers whose replications are
    marked doubtful are included.
    """
    medians = comparison.filter(pl.col("statistic") == "median", pl.col("measured").is_not_null())
    rows: list[Agreement] = []
    times = medians.filter(pl.col("metric") == "elapsed_s", pl.col("flow").str.starts_with("tcp"))
    rows.extend(_elapsed(times, "all"))
    if "link" in times.columns:
        for (link,), part in times.partition_by("link", as_dict=True, maintain_order=True).items():
            rows.extend(_elapsed(part, str(link)))
    for metric, title in _COUNT_TITLES.items():
        part = medians.filter(pl.col("metric") == metric, (pl.col("direction") == "data") | (metric == "sack_blocks"))
        met = part.filter(pl.col("within"))
        rows.append(
            Agreement(f"median {title}", "all", RULES[metric].text.removeprefix("within "), met.height, part.height)
        )
    return [row for row in rows if row.total]
