"""An answer as text: a table per section, then sentences about differences."""

import itertools
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.analysis.statistics.summary import STATISTIC, by_group
from lasthop.campaign.results.sections import (
    COMPLETED,
    REPLICATION,
    WHO,
    Section,
    by_replication,
    without_parts,
)
from lasthop.common.metrics.units import Scale, axis_title, label, listed, scale_of
from lasthop.common.statistics.quantiles import QUANTILES, QUARTILE_RANGE
from lasthop.present.answer.blocks import Block

STATISTICS = (*QUANTILES, "mean", QUARTILE_RANGE)
_WIDTH = 100
"""Width in columns if the output is not a terminal."""
_HEADS = {"retransmitted_packets": "retrans."}
"""Short heads for columns whose name would be much wider than their numbers."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
_GAP = 2
_SEVERAL = "_several"
_EMPTY_LINE = Block([""])
_FOR_INTERVAL = 6
"""The least number of replications with a 95 % interval of the median."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The contents of an answer: a statistic, and the factor columns whose levels have rows (`None`: all)."""

    statistic: str = "median"
    by: Sequence[str] | None = None


def statistics(section: Section, by: Sequence[str] | None = None) -> pl.DataFrame:
    """Compute statistics of a section's metrics, per cell and flow, or per combination of the columns `by`.

    A replication's value is its mean over the flows of a role, and over the cells of the other factors.
    Columns: the factors, `flow`, `metric`, `statistic`, `value`, `replications`, `unit`, `ci_low`, `ci_high`.
    """
    factors = list(section.factors if by is None else by)
    rows, keys = by_replication(section, factors).lazy(), [*factors, WHO]
    lines = list(by_group(rows, keys, section.metrics, looks=section.looks))
    schema: dict[str, pl.DataType] = {**dict.fromkeys(keys, pl.String()), **STATISTIC}
    table = pl.DataFrame(lines, schema=schema, orient="row")
    return table.with_columns(pl.col("value", "ci_low", "ci_high").fill_nan(None))


def answer_blocks(sections: Sequence[Section], shown: Shown) -> list[Block]:
    """Return the answer: for each section a table and what did not finish, then the differences."""
    window = sections[0].window if sections else ""
    blocks = [Block([f"Metrics count only the time {window}."]), _EMPTY_LINE] if window else []
    for section in (section for section in sections if section.metrics):
        table = _table(section, shown)
        notes = [*unfinished(section), *_unequal(section, shown.by), *left_out(section)]
        blocks += [table._replace(tail=[*table.tail, *notes]), _EMPTY_LINE]
    if equal := _equal_replications(sections):
        blocks += [Block([equal]), _EMPTY_LINE]
    sentences = _differences(sections) if shown.by is None else []
    if not sentences:
        return blocks[:-1]
    task = [
        section.factors[name] for section in sections for name in section.varied if name not in section.tested
    ]
    within = f", within each {listed(list(dict.fromkeys(task)))}" if task else ""
    means = "means over pairs, geometric for times and rates; p corrected by Holm"
    head = f"Differences between levels{within} ({means}):"
    return [*blocks, Block(textwrap.wrap(head, width()), list(map(bullet, sentences)), noun="difference")]


def _equal_replications(sections: Sequence[Section]) -> str:
    """Return a remark if all replications are equal in each cell; otherwise an empty text."""
    most = 1
    for section in (section for section in sections if section.metrics):
        if section.rows.select(REPLICATION).n_unique() == 1:
            continue
        rows = by_replication(section, list(section.factors))
        cells = rows.group_by([*section.factors, WHO]).agg(
            pl.len(), several=pl.max_horizontal(pl.col(metric).n_unique() for metric in section.metrics)
        )
        if (cells["several"] > 1).any():
            return ""
        most = max(most, *cells["len"])
    if most == 1:
        return ""
    return f"All {most} replications are equal: nothing in these runs is random, so one is enough."


def _differences(sections: Sequence[Section]) -> list[str]:
    """Return sentences about differences. A single cell has none, and does not load the code for them."""
    if not any(section.varied for section in sections):
        return []
    from lasthop.present.answer.differences import differences
    from lasthop.present.answer.words import sentences

    return sentences(differences(sections))


def bullet(sentence: str) -> list[str]:
    """Return a sentence as a wrapped item of a list."""
    # Do not wrap between a number and its unit, or p and its value.
    joined = re.sub(r" (?=%)|(?<=p [=<]) |(?<=\bp) (?=[=<])", _NO_BREAK, sentence)
    lines = textwrap.wrap(
        joined, width(), initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def unfinished(section: Section) -> list[str]:
    """Return how many rows did not complete, by outcome."""
    if "outcome" not in section.rows.columns:
        return []
    counts = Counter(section.rows.filter(pl.col("outcome") != COMPLETED)["outcome"])
    if not counts:
        return []
    named = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return [f"Not finished: {counts.total()} of {section.rows.height} ({named})."]


def left_out(section: Section) -> list[str]:
    return textwrap.wrap(without_parts(section.left_out), width()) if section.left_out else []


def _unequal(section: Section, by: Sequence[str] | None) -> list[str]:
    """Return a warning if the means of the levels are over different cells."""
    others = [column for column in section.factors if by is not None and column not in by]
    if by is None or not others:
        return []
    cells = section.rows.select(*by, WHO, pl.concat_str(others, separator=",").alias("cell")).unique()
    of_level = cells.group_by([*by, WHO]).agg(pl.col("cell").sort())
    if of_level.group_by(WHO).agg(pl.col("cell").n_unique())["cell"].max() == 1:
        return []
    return ["Not all levels were run with the same levels of the other factors: compare rows with care."]


def _table(section: Section, shown: Shown) -> Block:
    table = statistics(section, shown.by)
    if table.is_empty():
        return Block([f"{section.title}: no values of {', '.join(map(label, section.metrics))}."])
    labels = list(section.varied if shown.by is None else shown.by)
    if table[WHO].n_unique() > 1 or not labels:
        labels.append(WHO)
    most = max(table["replications"], default=0)
    ranges = shown.statistic == "median" and most < _FOR_INTERVAL
    keys = [name for name in table.columns if name in (*section.factors, WHO)]
    groups = table.partition_by(keys, maintain_order=True)
    fields = [_fields(group, shown.statistic, ranges=ranges) for group in groups]
    if not any(fields):
        return Block([f"{section.title}: a single replication has no {shown.statistic}."])
    scales, without = _scales(section, fields)
    spread = spread_over_flows(section, keys)
    title = _title(section, shown, table, ranges=ranges, grouped=bool(spread))
    zero = [f"Always zero: {', '.join(map(label, without))}."] if without else []
    if not scales:
        return Block(title, tail=zero)
    titles = [section.noun if name == WHO else section.factors[name] for name in labels]
    names = [[str(group[name][0]) for name in labels] for group in groups]
    if spread:
        titles.append("p10..p90 of flows")
        for own, group in zip(names, groups, strict=True):
            own.append(spread.get(group.select(keys).row(0), "-"))
    (head, *rows), notes = _rendered(titles, names, fields, scales)
    if any(re.search(r"\[\?|\?\]", line) for row in rows for line in row):
        notes = ["?: too few replications to bound this end of the interval.", *notes]
    return Block([*title, "", *head], rows, [*notes, *zero])


def spread_over_flows(section: Section, keys: Sequence[str]) -> dict[tuple[object, ...], str]:
    """Return the 10 % and 90 % quantiles over the flows of each row that stands for several flows per run.

    They are those of the row's first metric that all of its flows have, with the unit.
    """
    by = [name for name in keys if name in section.rows.columns]
    several = pl.len() > pl.struct(*section.factors, *REPLICATION).n_unique()
    groups = section.rows.group_by(by, maintain_order=True).agg(
        several.alias(_SEVERAL), pl.col(section.metrics)
    )
    spread = {}
    for row in groups.filter(_SEVERAL).iter_rows(named=True):
        own = next((metric for metric in section.metrics if None not in row[metric]), None)
        if own is not None:
            values = pl.Series(row[own], dtype=pl.Float64)
            ends = [values.quantile(share, "linear") or 0.0 for share in (0.1, 0.9)]
            scale = scale_of(own, ends)
            spread[tuple(row[name] for name in by)] = (
                f"{'..'.join(map(scale.number, ends))} {scale.unit}".rstrip()
            )
    return spread


Field = tuple[float, float | None, float | None]
"""A value and the ends of its interval or range."""


def _fields(group: pl.DataFrame, statistic: str, *, ranges: bool) -> dict[str, Field]:
    """Return a row's value of each metric, with its interval or with the range of all values."""
    fields: dict[str, dict[str, Field]] = {}
    for metric, name, *field in group.select("metric", "statistic", "value", "ci_low", "ci_high").iter_rows():
        fields.setdefault(metric, {})[name] = (field[0], field[1], field[2])
    if not ranges:
        return {metric: own[statistic] for metric, own in fields.items() if statistic in own}
    return {metric: (own[statistic][0], own["min"][0], own["max"][0]) for metric, own in fields.items()}


def _scales(section: Section, fields: Sequence[Mapping[str, Field]]) -> tuple[dict[str, Scale], list[str]]:
    """Return each metric's scale, and the names of metrics that are always 0."""
    scales, without = {}, []
    for metric in section.metrics:
        values = [number for own in fields if metric in own for number in own[metric] if number is not None]
        if any(values):
            middles = [own[metric][0] for own in fields if metric in own]
            scales[metric] = scale_of(metric, middles)
        elif values:
            without.append(metric)
    return scales, without


def _text(field: Field | None, scale: Scale, *, bracket: bool) -> str:
    if field is None:
        return "-"
    value, low, high = (None if number is None else scale.number(number) for number in field)
    if not bracket or (low is None and high is None) or low == high == value:
        return str(value)
    return f"{value} [{low or '?'}..{high or '?'}]"


def _title(section: Section, shown: Shown, table: pl.DataFrame, *, ranges: bool, grouped: bool) -> list[str]:
    counts = table["replications"]
    least, most = min(counts), max(counts)
    over = f"{most}" if least == most else f"{least} to {most}"
    group = " (group means)" if grouped else ""
    what = f"{section.title}{group}: {shown.statistic} of {over} replication{'' if most == 1 else 's'}"
    if most > 1:
        needed = f"[least..greatest]; a 95 % interval needs {_FOR_INTERVAL}"
        over = "" if section.looks == 1 else " over all looks"
        what += f", {needed if ranges else f'[95 % interval{over}]'}"
    return textwrap.wrap(what, width())


def width() -> int:
    """Return the width of the terminal, or a fixed width for other outputs."""
    if not sys.stdout.isatty():
        return _WIDTH
    from rich.console import Console

    return Console().width


def _rendered(
    labels: Sequence[str],
    names: Sequence[Sequence[str]],
    fields: Sequence[Mapping[str, Field]],
    scales: Mapping[str, Scale],
) -> tuple[list[list[str]], list[str]]:
    """Render head and rows, with brackets for as many metrics as fit, at least for the first.

    On a terminal, metrics that do not fit are omitted; the second list then names them.
    """
    limit, metrics, bracketed = width(), list(scales), len(scales)
    while True:
        heads = [*labels, *(_HEADS.get(metric) or axis_title(metric, scales[metric]) for metric in metrics)]
        rows = _texts(names, fields, {metric: scales[metric] for metric in metrics}, bracketed)
        least, _ = _widths(heads, rows, len(labels))
        fits = sum(least) + _GAP * len(least) <= limit
        if fits or (bracketed == 1 and (len(metrics) == 1 or not sys.stdout.isatty())):
            break
        if bracketed > 1:
            bracketed -= 1
        else:
            metrics.pop()
    dropped = [label(metric) for metric in scales if metric not in metrics]
    return laid_out(heads, rows, len(labels), limit), [no_room(dropped, "--metric")] if dropped else []


def no_room(names: Sequence[str], option: str) -> str:
    return f"Omitted for lack of space: {', '.join(names)}. A wider terminal or {option} shows them."


def table_width(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the width of a table without wrapping."""
    return sum(max(map(len, column)) + _GAP for column in zip(heads, *rows, strict=True))


def laid_out(heads: Sequence[str], rows: Sequence[Sequence[str]], labels: int, limit: int) -> list[list[str]]:
    """Return the lines of the head and of each row of a table whose first `labels` columns are names.

    `limit` is its maximum width, if words fit.
    """
    least, whole = _widths(heads, rows, labels)
    spare = limit - sum(least) - _GAP * len(least)
    widths = []
    for must, would in zip(least, whole, strict=True):
        more = max(0, min(spare, would - must))
        spare -= more
        widths.append(must + more)
    wrapped = [
        [textwrap.wrap(cell, wide, break_on_hyphens=False) for cell, wide in zip(row, widths, strict=True)]
        for row in (heads, *rows)
    ]
    height = max(map(len, wrapped[0]))
    wrapped[0] = [[""] * (height - len(head)) + head for head in wrapped[0]]  # aligned at the bottom
    sides = [str.ljust] * labels + [str.rjust] * (len(heads) - labels)

    def line(parts: Sequence[str]) -> str:
        cells = [side(part, wide) for side, part, wide in zip(sides, parts, widths, strict=True)]
        return (" " * _GAP).join(cells).rstrip()

    return [[line(parts) for parts in itertools.zip_longest(*row, fillvalue="")] for row in wrapped]


def _texts(
    names: Sequence[Sequence[str]],
    fields: Sequence[Mapping[str, Field]],
    scales: Mapping[str, Scale],
    bracketed: int,
) -> list[list[str]]:
    """Return the rows as text, with brackets in the first `bracketed` metrics."""
    return [
        [
            *own,
            *(_text(f.get(m), scale, bracket=n < bracketed) for n, (m, scale) in enumerate(scales.items())),
        ]
        for own, f in zip(names, fields, strict=True)
    ]


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]], labels: int) -> tuple[list[int], list[int]]:
    """Return the least width of each column, and the width without wrapping.

    Names stay whole; heads and numbers may be wrapped between words.
    """
    columns = list(zip(heads, *rows, strict=True))
    words = [
        [*head.split(), *(own if place < labels else " ".join(own).split())]
        for place, (head, *own) in enumerate(columns)
    ]
    return [max(map(len, own)) for own in words], [max(map(len, own)) for own in columns]
