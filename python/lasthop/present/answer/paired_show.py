"""A comparison with a reference level, as text."""

import math
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from lasthop.common.metrics.units import Scale, axis_title, scale_of
from lasthop.present.answer.paired import Compare, Comparison, method, remarks
from lasthop.present.answer.show import (
    bullet,
    laid_out,
    left_out,
    no_room,
    table_width,
    unfinished,
    width,
)
from lasthop.present.answer.words import sentences

_DROPPED_FIRST = ("median [95 %]", "rank p", "d_z", "pairs")
"""Columns omitted in a narrow terminal, in this order; the reference's mean is omitted last."""


def compare_lines(compared: Compare) -> list[str]:
    """Return the table, remarks on missing values, the differences as sentences, and the method."""
    rows = compared.comparisons
    cases = varying_cases(rows)
    ends = [end for row in rows for end in (row.difference.mean, row.difference.low, row.difference.high)]
    scale = scale_of(compared.metric, ends)
    columns = _columns(compared, scale)
    labels = [*cases, compared.factor]
    names = [[*(row.case[name] for name in cases), row.difference.level] for row in rows]
    fields = {head: [text(row) for row in rows] for head, text in columns.items()}
    limit, heads = width(), list(fields)
    for head in (*_DROPPED_FIRST, heads[0]):
        if not sys.stdout.isatty() or table_width([*labels, *heads], _rows(names, fields, heads)) <= limit:
            break
        heads.remove(head)
    table_rows = _rows(names, fields, heads)
    dropped = [head for head in fields if head not in heads]
    title = f"{axis_title(compared.metric, scale)}, compared with {compared.factor}={compared.reference}"
    return [
        f"{title[0].upper()}{title[1:]}",
        "",
        *chain(
            *laid_out([*labels, *heads], table_rows, len(labels), table_width([*labels, *heads], table_rows))
        ),
        *([no_room(dropped, "--out")] if dropped else []),
        *(line for section in compared.sections for line in unfinished(section)),
        *(line for section in compared.sections for line in left_out(section)),
        *(line for remark in remarks(compared) for line in textwrap.wrap(remark, limit)),
        "",
        *chain(*map(bullet, sentences(compared.differences))),
        "",
        *textwrap.wrap(method(compared), limit),
    ]


def varying_cases(rows: Sequence[Comparison]) -> list[str]:
    """Return the factors, and `flow`, that vary between cases, including cases without a pair."""
    varied = {name for row in rows for name, _ in row.difference.where}
    return [name for name in rows[0].case if name in varied or len({row.case[name] for row in rows}) > 1]


def _rows(
    names: Sequence[Sequence[str]], fields: Mapping[str, Sequence[str]], heads: Sequence[str]
) -> list[list[str]]:
    return [[*own, *(fields[head][place] for head in heads)] for place, own in enumerate(names)]


def _columns(compared: Compare, scale: Scale) -> dict[str, Callable[[Comparison], str]]:
    """Return the columns of numbers: heads, and functions that return a row's text."""
    bases = scale_of(compared.metric, [row.difference.reference_mean for row in compared.comparisons])
    base = f"{compared.reference} ({bases.unit})" if bases.unit else compared.reference
    return {
        base: lambda row: bases.number(row.difference.reference_mean),
        "difference [95 %]": lambda row: bracketed(
            scale, row.difference.mean, row.difference.low, row.difference.high
        ),
        "change": lambda row: _percent(row.difference.relative),
        "median [95 %]": lambda row: bracketed(
            scale, row.ranks.median.estimate, row.ranks.median.low, row.ranks.median.high
        ),
        "d_z": lambda row: _effect(row.difference.effect_size),
        "p": lambda row: _p(row.difference.p) + ("*" if row.difference.significant else " "),
        "rank p": lambda row: _p(row.ranks_p),
        "pairs": lambda row: str(row.difference.pairs),
    }


def bracketed(scale: Scale, value: float, low: float, high: float) -> str:
    """Return a difference with its interval, if any, to two digits of its width; `?` is an open end."""
    width = (value if math.isinf(high) else high) - low
    decimals = scale.decimals_of(width) if width > 0 else None
    texts = [
        "?" if math.isinf(number) else scale.number(number, signed=True, decimals=decimals)
        for number in (value, low, high)
    ]
    return texts[0] if math.isnan(low) or low == high else f"{texts[0]} [{texts[1]}..{texts[2]}]"


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %" if math.isfinite(share) else "-"


def _effect(size: float) -> str:
    return "-" if math.isnan(size) else f"{size:+.0f}" if abs(size) >= 100 else f"{size:+.2f}"


def _p(value: float) -> str:
    return "-" if math.isnan(value) else "<0.001" if value < 0.001 else f"{value:.3f}"
