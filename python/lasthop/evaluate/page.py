"""The dossier as an HTML page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lasthop.analysis.checks.tell import command_of
from lasthop.analysis.claims import NOT_UPHELD, UPHELD
from lasthop.analysis.claims.verdicts import numbers
from lasthop.common.files import write_text
from lasthop.common.html.template import page, text
from lasthop.common.statistics.estimates import Interval
from lasthop.common.version import version
from lasthop.evaluate.dossier import NUMBERS_ONLY, Dossier, Ran
from lasthop.evaluate.picture import cells_of, colours, picture, strokes
from lasthop.evaluate.rows import TESTED
from lasthop.evaluate.tell import short

_CSS = {UPHELD: "good", NOT_UPHELD: "bad", NUMBERS_ONLY: ""}


@dataclass(frozen=True)
class _Line:
    """The numbers of a control in a cell; `cell` is empty except for the first control."""

    cell: str
    control: str
    tested: bool
    numbers: Sequence[tuple[str, str]]


def write_page(dossier: Dossier, file: Path) -> None:
    context = {
        "dossier": dossier,
        "css": text("report.css"),
        "version": version(),
        "names": dossier.controls,
        "colours": colours(dossier.controls),
        "strokes": strokes,
        "tested": TESTED,
        "badge": lambda verdict: _CSS.get(verdict, "open"),
        "short": short,
        "numbers": numbers,
        "command": lambda ran, judged: (ran.checked and command_of(ran.checked, judged)) or "",
        "lines": lambda ran: list(_lines(ran, dossier)),
        "drawn": lambda ran: picture(ran.measured[0], dossier.controls, ran.row.laws),
    }
    html = page(Path(__file__).with_name("dossier.html.j2"), context)
    write_text(file, html)


def _lines(ran: Ran, dossier: Dossier) -> Iterator[_Line]:
    """Yield the lines of a row's table, by cell and control."""
    intervals = [
        {
            (cell, value.control): value.interval
            for cell, values in cells_of(measured).items()
            for value in values
        }
        for measured in ran.measured
    ]
    for cell, values in cells_of(ran.measured[0]).items():
        place = values[0].place
        for control, name in dossier.controls.items():
            first = control == TESTED
            numbers = [_texts(values_.get((cell, control))) for values_ in intervals]
            yield _Line(cell if first else "", name, first, numbers)
        for law in ran.row.laws:
            (level,) = place.values()
            rest = [("", "")] * (len(intervals) - 1)
            yield _Line("", law.name, tested=False, numbers=[(f"{law.values[level]:.3g}", ""), *rest])


def _texts(interval: Interval | None) -> tuple[str, str]:
    if interval is None:
        return "–", ""
    return f"{interval.estimate:.3g}", f"{interval.low:.3g} .. {interval.high:.3g}"
