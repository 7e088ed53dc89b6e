"""A comparison with a reference level, as lines to read."""

import math
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence

from lasthop.common.metrics.units import Scale, axis_title, scale_of
from lasthop.present.answer.paired import Compare, Comparison, method, remarks
from lasthop.present.answer.show import bulleted, laid_out, left_out, table_width, unfinished, width
from lasthop.present.answer.words import sentences

_DROPPED_FIRST = ("median [95 %]", "rank p", "d_z", "pairs")
"""Columns that a narrow terminal leaves out, in this order; the reference's mean goes last."""


def compare_lines(compared: Compare) -> list[str]:
    """Lay out the table, what was left out, the differences in words, and what the numbers are."""
    found = compared.found
    cases = telling_cases(found)
    ends = [end for one in found for end in (one.difference.mean, one.difference.low, one.difference.high)]
    scale = scale_of(compared.metric, ends)
    columns = _columns(compared, scale)
    labels = [*cases, compared.factor]
    names = [[*(one.case[name] for name in cases), one.difference.level] for one in found]
    fields = {head: [text(one) for one in found] for head, text in columns.items()}
    limit, kept = width(), list(fields)
    for head in (*_DROPPED_FIRST, kept[0]):
        if not sys.stdout.isatty() or table_width([*labels, *kept], _rows(names, fields, kept)) <= limit:
            break
        kept.remove(head)
    rows = _rows(names, fields, kept)
    dropped = [head for head in fields if head not in kept]
    title = f"{axis_title(compared.metric, scale)}, against {compared.factor}={compared.reference}"
    return [
        f"{title[0].upper()}{title[1:]}",
        "",
        *laid_out([*labels, *kept], rows, len(labels), table_width([*labels, *kept], rows)),
        *([f"No room for: {', '.join(dropped)}. A wider terminal or --out shows them."] if dropped else []),
        *(line for section in compared.sections for line in unfinished(section)),
        *(line for section in compared.sections for line in left_out(section)),
        *(line for remark in remarks(compared) for line in textwrap.wrap(remark, limit)),
        "",
        *bulleted(sentences(compared.differences)),
        "",
        *textwrap.wrap(method(compared), limit),
    ]


def telling_cases(found: Sequence[Comparison]) -> list[str]:
    """Return the factors that tell cases apart, even cases without a pair, and `flow` if it does."""
    varied = {name for one in found for name, _ in one.difference.where}
    return [name for name in found[0].case if name in varied or len({one.case[name] for one in found}) > 1]


def _rows(
    names: Sequence[Sequence[str]], fields: Mapping[str, Sequence[str]], kept: Sequence[str]
) -> list[list[str]]:
    return [[*own, *(fields[head][place] for head in kept)] for place, own in enumerate(names)]


def _columns(compared: Compare, scale: Scale) -> dict[str, Callable[[Comparison], str]]:
    """Return the columns of numbers: the head of each, and the function that writes its values."""
    bases = scale_of(compared.metric, [one.difference.reference_mean for one in compared.found])
    base = f"{compared.reference} ({bases.unit})" if bases.unit else compared.reference
    return {
        base: lambda one: bases.number(one.difference.reference_mean),
        "difference [95 %]": lambda one: bracketed(
            scale, one.difference.mean, one.difference.low, one.difference.high
        ),
        "change": lambda one: _percent(one.difference.relative),
        "median [95 %]": lambda one: bracketed(
            scale, one.ranks.median.estimate, one.ranks.median.low, one.ranks.median.high
        ),
        "d_z": lambda one: _effect(one.difference.effect_size),
        "p": lambda one: _p(one.difference.p) + ("*" if one.difference.significant else " "),
        "rank p": lambda one: _p(one.ranks_p),
        "pairs": lambda one: str(one.difference.pairs),
    }


def bracketed(scale: Scale, value: float, low: float, high: float) -> str:
    """Write a difference with its interval, if it has one, to two digits of the interval's width.

    A question mark is an end that is not bounded.
    """
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
