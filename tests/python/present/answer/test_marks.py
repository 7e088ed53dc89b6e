"""Marks: each has a symbol in every kind of picture."""

from __future__ import annotations

from collections.abc import Iterator

from lasthop.present.pictures import marks
from lasthop.present.pictures.marks import Mark
from lasthop.present.pictures.static import SYMBOLS


def _all_marks() -> Iterator[Mark]:
    for value in vars(marks).values():
        if isinstance(value, Mark):
            yield value
        elif isinstance(value, dict):
            yield from (mark for mark in value.values() if isinstance(mark, Mark))


def test_every_symbol_on_screen_has_one_on_paper() -> None:
    """`marks` names plotly's symbols; `static` draws matplotlib's."""
    symbols = {mark.symbol for mark in _all_marks() if mark.symbol} | set(marks.FLOW_SYMBOLS)
    assert len(symbols) > 10
    assert symbols - set(SYMBOLS) == set()
