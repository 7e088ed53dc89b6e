"""Blocks of text, of which only as much is shown as fits on a screen."""

from collections.abc import Sequence
from typing import NamedTuple


class Block(NamedTuple):
    """Lines of text: a head, rows that may be left out from the last one on, and a tail.

    A row is a line of a table or an item of a list; it may be wrapped over several lines.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]] = ()
    tail: Sequence[str] = ()
    noun: str = "row"
    rest: str = ""
    """The command that shows all rows, if it is not the one for the whole text."""

    def lines(self, shown: int, rest: str) -> list[str]:
        """Return the lines with `shown` rows; `rest` is the command that shows the others."""
        more = len(self.rows) - shown
        nouns = self.noun if more == 1 else f"{self.noun}s"
        note = [f"  ... and {more} more {nouns}: {self.rest or rest}"] if more else []
        return [*self.head, *(line for row in self.rows[:shown] for line in row), *note, *self.tail]


def all_lines(blocks: Sequence[Block]) -> list[str]:
    return [line for block in blocks for line in block.lines(len(block.rows), "")]


def shortened(blocks: Sequence[Block], most: int, rest: str) -> list[str]:
    """Return at most `most` lines of the blocks, ending with what was left out and how to see it.

    Rows are left out until all fit or each block has one: of a long block first, and rather of a later one.
    """
    shown = [min(len(block.rows), most) for block in blocks]

    def lines() -> list[str]:
        return [line for block, own in zip(blocks, shown, strict=True) for line in block.lines(own, rest)]

    while len(lines()) > most and max(shown, default=0) > 1:
        taken = [
            sum(map(len, block.rows[:own])) * place if own > 1 else 0
            for place, (block, own) in enumerate(zip(blocks, shown, strict=True), 1)
        ]
        shown[taken.index(max(taken))] -= 1
    if len(text := lines()) <= most:
        return text
    return [*text[: most - 1], f"... and {len(text) - most + 1} more lines: {rest}"]
