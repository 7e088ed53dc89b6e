"""Comparison of published with measured numbers: `comparison.csv` and the agreement table."""

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from lasthop.analysis.statistics.summary import for_each_level
from lasthop.analysis.studies.lines import VALUE
from lasthop.analysis.studies.summary import key_columns
from lasthop.studies.catalogue import Assets
from lasthop.studies.presentation.spec import NOT_STATED

_RELATIVE = 0.05
_ABSOLUTE_AT_ZERO = 0.05
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Rule:
    """The tolerance within which a measured number counts as equal to the published number."""

    tolerance: float
    relative: bool
    text: str


_TIME = Rule(_RELATIVE, relative=True, text="within 5 %")
_COUNT = Rule(2.0, relative=False, text="within 2")
_FEW = Rule(1.0, relative=False, text="within 1")
RATIO = Rule(0.05, relative=False, text="within 0.05")
"""The rule for numbers between 0 and 1."""
RULES: dict[str, Rule] = {
    "elapsed_s": _TIME,
    "overall_time_s": _TIME,
    "throughput_Bps": _TIME,
    "response_time_s": _TIME,
    "response_time_change_percent": Rule(5.0, relative=False, text="within 5 points"),
    "throughput_main_median_Bps": _TIME,
    "throughput_inline_slowest_Bps": _TIME,
    "throughput_inline_fastest_Bps": _TIME,
    "spacing_ms": _TIME,
    "jitter_ms": _TIME,
    "retransmitted_packets": _COUNT,
    "duplicate_acks": _COUNT,
    "triple_duplicate_acks": _COUNT,
    "sack_blocks": _COUNT,
    "drops_queue": _COUNT,
    "drops_error": _COUNT,
    "drops_congestion": _FEW,
    "drops_sum_of_maxima": Rule(3.0, relative=False, text="within 3"),
    "drops_red": Rule(3.0, relative=False, text="within 3"),
    "efficiency": RATIO,
    "fairness": RATIO,
}
"""Rules for times and rates are relative. Those for counts, which are small and often zero, are absolute, and
wider for the random counts of RED. Those for efficiency and fairness are absolute."""


def judge(metric: str, published: float, measured: float | None) -> tuple[bool | None, str]:
    """Return whether `measured` is within the metric's rule (`None` if unknown) and the rule as text."""
    rule = RULES.get(metric)
    if rule is None:
        return None, "no rule for this metric"
    text = f"within {_ABSOLUTE_AT_ZERO} (published is zero)" if rule.relative and not published else rule.text
    if measured is None:
        return None, text
    tolerance = _tolerance(rule, published)
    return abs(measured - published) <= tolerance + _EPSILON, text


def band(metric: str, published: float) -> tuple[float, float] | None:
    """Return the least and the greatest value that count as equal to the published number."""
    rule = RULES.get(metric)
    if rule is None:
        return None
    tolerance = _tolerance(rule, published) + _EPSILON
    return published - tolerance, published + tolerance


def _tolerance(rule: Rule, published: float) -> float:
    if not rule.relative:
        return rule.tolerance
    return rule.tolerance * abs(published) if published else _ABSOLUTE_AT_ZERO


def compare(summary: pl.DataFrame, assets: Assets, extra: Sequence[str] = ()) -> pl.DataFrame:
    """Join a study's summary to its published numbers.

    There is a row for each published number of a cell that was run, in the order of `published.csv`: its key
    columns, `published`, `measured`, `ratio` (measured / published), `difference` (measured - published),
    `within`, `rule`, `note`. The rows repeat for every combination of levels in the columns `extra`, which
    come first.
    """
    return for_each_level(summary, extra, lambda part, _: _compare(part, assets))


def _compare(summary: pl.DataFrame, assets: Assets) -> pl.DataFrame:
    keys = key_columns(assets)
    cell_keys = keys[: keys.index("flow")]
    published = assets.published.join(
        summary.select(cell_keys).unique(), on=cell_keys, how="semi", nulls_equal=True
    )
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
    """The number of published numbers of a kind that agree, among those that were run."""

    what: str
    scope: str
    tolerance: str
    hits: int
    total: int
    level: str = ""
    """Levels of the factors that the published numbers do not have."""
    rms: float | None = None
    """Root mean square of the differences, once per kind; only for absolute rules, except counts."""

    @property
    def share(self) -> float:
        """Hits per total, 0 to 1."""
        return self.hits / self.total


_COUNT_TITLES = {
    "drops_congestion": "congestion drops",
    "drops_queue": "queue drops",
    "drops_error": "error drops",
    "drops_red": "RED drops and ECN marks",
    "retransmitted_packets": "retransmitted packets",
    "duplicate_acks": "duplicate ACKs",
    "triple_duplicate_acks": "triple duplicate ACKs",
    "sack_blocks": "ACKs with SACK",
}
MIDDLES = ["median", NOT_STATED]
"""Statistics of location over replications."""
CENTRES = [*MIDDLES, VALUE]
"""Statistics that count in the agreement: those of location, not of spread."""


def misprinted(phrases: Sequence[str]) -> pl.Expr:
    """Return whether the note of a published number contains any of `phrases`."""
    note = pl.col("note").fill_null("")
    return pl.any_horizontal(
        pl.lit(value=False), *(note.str.contains(phrase, literal=True) for phrase in phrases)
    )


def _times(middles: pl.DataFrame, not_stated: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the kinds of times and rates whose agreement is counted."""
    # The throughput of a bulk transfer duplicates its elapsed time; that of page loads is a separate number.
    of_pages = middles.filter(metric="response_time_s")["table"].unique()
    kinds = {
        "response time": pl.col("metric") == "response_time_s",
        "throughput of page loads": pl.col("metric").str.starts_with("throughput")
        & pl.col("table").is_in(of_pages.implode()),
        "elapsed time of TCP flows": (pl.col("metric") == "elapsed_s") & (pl.col("flow") != "udp"),
    }
    meant = pl.col("statistic").replace(NOT_STATED, not_stated)
    for what, chosen in kinds.items():
        for statistic in ("median", "mean"):
            yield f"{statistic} {what}", middles.filter(chosen, meant == statistic)


def _near(what: str, times: pl.DataFrame, scope: str) -> Iterator[Agreement]:
    for percent in (5, 10):
        near = times.filter((pl.col("ratio") - 1).abs() <= percent / 100 + _EPSILON)
        yield Agreement(what, scope, f"{percent} %", near.height, times.height)


def _ratios(centres: pl.DataFrame) -> Iterator[Agreement]:
    for metric, rule in RULES.items():
        part = centres.filter(metric=metric)
        if rule is not RATIO or part.is_empty():
            continue
        off = (part["measured"] - part["published"]).to_numpy()
        rms: float | None = float(np.sqrt(np.mean(off**2)))
        for bound in (0.05, 0.10):
            hits = int(np.count_nonzero(np.abs(off) <= bound + _EPSILON))
            yield Agreement(metric, "all", f"{bound:.2f}", hits, part.height, rms=rms)
            rms = None


def agreement(
    comparison: pl.DataFrame,
    extra: Sequence[str] = (),
    misprints: Sequence[str] = (),
    not_stated: str = "median",
) -> list[Agreement]:
    """Count how many published medians and numbers of single runs agree.

    `not_stated` is the statistic that was compared if the study does not state one.

    There is a count for every combination of the levels in the columns `extra`. If a cell was not run at a
    level, that level changes nothing there, and the first level's numbers count, so that all counts cover the
    same cells. Times are those of TCP flows (the duration of a UDP stream is an input). Counts are those of
    the data direction, including UDP; the ACK direction has almost no drops and would inflate the agreement.
    Numbers whose replications are marked doubtful are included; numbers whose note contains one of the
    phrases `misprints` are not.
    """
    comparison = comparison.filter(~misprinted(misprints))
    if not extra:
        return _agreement(comparison, not_stated)
    parts = comparison.partition_by(extra, as_dict=True, include_key=False, maintain_order=True)
    first = next(iter(parts.values()))
    keys = first.columns[first.columns.index("table") : first.columns.index("flow")]
    rows = []
    for levels, part in parts.items():
        whole = pl.concat([part, first.join(part, on=keys, how="anti", nulls_equal=True)])
        rows += [replace(row, level=" ".join(map(str, levels))) for row in _agreement(whole, not_stated)]
    return rows


def _agreement(comparison: pl.DataFrame, not_stated: str) -> list[Agreement]:
    measured = comparison.filter(pl.col("measured").is_not_null())
    medians = measured.filter(pl.col("statistic").is_in(MIDDLES))
    rows = list(_ratios(measured.filter(statistic=VALUE)))
    for what, times in _times(medians, not_stated):
        rows.extend(_near(what, times, "all"))
        if "link" in times.columns:
            for (link,), part in times.partition_by("link", as_dict=True, maintain_order=True).items():
                rows.extend(_near(what, part, str(link)))
    data = (pl.col("direction") == "data") if "direction" in medians.columns else pl.lit(value=True)
    for metric, title in _COUNT_TITLES.items():
        part = medians.filter(pl.col("metric") == metric, data | (metric == "sack_blocks"))
        met = part.filter(pl.col("within"))
        tolerance = RULES[metric].text.removeprefix("within ")
        rows.append(Agreement(f"median {title}", "all", tolerance, met.height, part.height))
    return [row for row in rows if row.total]


def agreement_lines(rows: Sequence[Agreement]) -> list[str]:
    """Return the agreement as text: a line per kind of number.

    If there are several levels, each has a line with the shares over all links in per cent.
    """
    by_level: dict[str, list[Agreement]] = {}
    for row in rows:
        by_level.setdefault(row.level, []).append(row)
    if len(by_level) == 1:
        return [
            f"{row.what + ('' if row.scope == 'all' else f', {row.scope}'):<46}within {row.tolerance:<5}"
            f"{row.hits:>4} of {row.total:<4}{100 * row.share:>4.0f} %"
            f"{'' if row.rms is None else f'   root mean square difference {row.rms:.3f}'}"
            for row in rows
        ]
    kinds = [row for row in next(iter(by_level.values())) if row.scope == "all"]
    wrapped = [
        [*textwrap.wrap(row.what.removeprefix("median "), 8, break_long_words=False), row.tolerance]
        for row in kinds
    ]
    widths = [max(map(len, head)) for head in wrapped]
    first = max(map(len, by_level))
    lines = ["Shares in %, all links"]
    for texts in itertools.zip_longest(*wrapped, fillvalue=""):
        fields = "".join(f"  {text:>{width}}" for text, width in zip(texts, widths, strict=True))
        lines.append((" " * first + fields).rstrip())
    for level, own in by_level.items():
        shares = [row.share for row in own if row.scope == "all"]
        fields = "".join(f"  {100 * share:>{width}.0f}" for share, width in zip(shares, widths, strict=True))
        lines.append(f"{level:<{first}}{fields}")
    return lines
