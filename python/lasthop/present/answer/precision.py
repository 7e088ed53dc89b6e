"""The precision of the results of a campaign with `--until`, as text."""

from collections.abc import Iterator, Mapping

import polars as pl

from lasthop.analysis.findings.precision import conditions_of, precision_table
from lasthop.campaign.results.sections import WHO, sections
from lasthop.campaign.results.shapes import Manifest
from lasthop.campaign.results.tables import Tables
from lasthop.campaign.until.looks import Condition
from lasthop.common.metrics.units import Scale, axis_title, scale_of
from lasthop.present.answer.blocks import Block
from lasthop.present.answer.show import laid_out, width

_SHORT_NAMED = 5


def precision_blocks(tables: Tables, manifest: Manifest) -> Iterator[Block]:
    """Describe the precision of finished results, condition by condition."""
    conditions = conditions_of(manifest)
    table = precision_table(conditions, tables)
    names = sections(tables)[0].factors
    for condition in conditions:
        own = table.filter(pl.col("condition") == condition.text)
        head, *rows = _condition_lines(condition, own, names)
        untrusted = own.filter(~pl.col("met"), pl.col("precision") <= condition.tolerance).height
        note = ""
        if untrusted:
            note = (
                f"{untrusted} of these rows would be precise, but Student's interval is not reliable yet: it "
                "requires 28 + 25 g^2 values of skewness g, and values that are not all equal. The median "
                "has no such limits."
            )
        yield Block(["", f"{condition.text}:", "", *head], rows, _wrapped(note))
    yield Block(["", *(line for sentence in verdict(manifest) for line in _wrapped(sentence))])


def _wrapped(sentence: str) -> list[str]:
    import textwrap

    return textwrap.wrap(sentence, width(), break_on_hyphens=False)


def _condition_lines(condition: Condition, rows: pl.DataFrame, names: Mapping[str, str]) -> list[list[str]]:
    varied = [name for name in names if rows[name].n_unique() > 1]
    labels = [*varied, *([WHO] if rows[WHO].n_unique() > 1 or not varied else [])]
    scale = scale_of(condition.metric, rows["value"])
    what = f"{condition.statistic} of {axis_title(condition.metric, scale)}"
    texts = [
        [
            *(str(row[name]) for name in labels),
            str(row["replications"]),
            interval_text(scale, row["value"], row["ci_low"], row["ci_high"]),
            precision_text(condition, row["precision"]),
            "yes" if row["met"] else "no",
        ]
        for row in rows.iter_rows(named=True)
    ]
    heads = [*(names.get(name, name) for name in labels), "n", what, "within", "met"]
    return laid_out(heads, texts, len(labels), width())


def interval_text(scale: Scale, value: float | None, low: float | None, high: float | None) -> str:
    """Return an estimate with its interval, to two digits of its error; `?` is an open end."""
    if value is None:
        return "-"
    error = max((abs(value - end) for end in (low, high) if end is not None), default=0.0)
    decimals = scale.decimals_of(error) if error else None
    ends = ["?" if end is None else scale.number(end, decimals=decimals) for end in (low, high)]
    return f"{scale.number(value, decimals=decimals)} [{'..'.join(ends)}]"


def precision_text(condition: Condition, reached: float | None) -> str:
    if reached is None:
        return "?"
    return (
        f"{100 * reached:.2g} %"
        if condition.relative
        else scale_of(condition.metric, [reached]).text(reached)
    )


def verdict(manifest: Manifest) -> Iterator[str]:
    """Describe how many cells are precise, and which cells stopped at the maximum number of replications."""
    until, cells = manifest["until"], manifest["identity"]["cells"]
    counts, short = until["replications"], until["short"]
    least, most = min(counts), max(counts)
    many = f"{least}" if least == most else f"{least} to {most}"
    precise = f"{len(cells) - len(short)} of {len(cells)} cells are precise"
    yield f"{precise}; {many} replications per cell, {sum(counts)} runs in total."
    if short:
        named = ", ".join(cells[number] or "the only cell" for number in short[:_SHORT_NAMED])
        more = ", ..." if len(short) > _SHORT_NAMED else ""
        yield (
            f"NOT precise: {len(short)} of {len(cells)} cells stopped at the maximum of {until['looks'][-1]} "
            f"replications ({named}{more}). To continue, repeat the command with more --replications."
        )
