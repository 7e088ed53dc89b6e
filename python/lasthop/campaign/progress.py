"""The progress of a campaign: a bar on a terminal or in a notebook, otherwise lines on standard error."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

_LINE_EVERY_S = 5.0
_MOVE_EVERY_S = 0.1


@contextmanager
def progress(
    total: int | Callable[[], int],
    done: int,
    *,
    quiet: bool,
    doing: str = "simulating",
    what: str = "runs",
    most: bool = False,
    detail: Callable[[], Sequence[str]] = tuple,
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of `what` that just finished.

    `done` of `total` are finished at the start. A total that may grow is a function; with `most`, the
    total is an upper bound. `detail` returns lines to print below.
    """
    current_total = total if callable(total) else lambda: total
    if quiet or current_total() == done:
        yield lambda _: None
    elif _in_notebook():
        yield _cell(current_total, done, doing, what)
    elif sys.stderr.isatty():
        with _bar(current_total, done, doing, what, detail) as advance:
            yield advance
    else:
        yield _lines(current_total, done, what, "at most " if most else "", detail)


@contextmanager
def _bar(
    total: Callable[[], int], done: int, doing: str, what: str, detail: Callable[[], Sequence[str]]
) -> Iterator[Callable[[int], None]]:
    from rich.console import Console, RenderableType
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Detailed(Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            yield from super().get_renderables()
            yield from map(Text, detail())

    columns = (
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(what),
        TextColumn("elapsed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Detailed(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total(), completed=done)
        yield lambda runs: bar.update(task, advance=runs, total=total())


def _lines(
    total: Callable[[], int], done: int, what: str, most: str, detail: Callable[[], Sequence[str]]
) -> Callable[[int], None]:
    started = last = time.monotonic()
    finished = 0

    def advance(runs: int) -> None:
        nonlocal last, finished
        finished += runs
        now = time.monotonic()
        if now - last < _LINE_EVERY_S:
            return
        last = now
        elapsed = now - started
        left_s = elapsed / finished * (total() - done - finished) if finished else 0.0
        left = f", {most or 'about '}{left_s:.0f} s left" if finished else ""
        counts = f"{done + finished} of {most}{total()} {what}"
        for line in (f"{counts}, {elapsed:.0f} s elapsed{left}", *detail()):
            sys.stderr.write(f"{line}\n")

    return advance


def _in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, the only one whose shell has this name."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _cell(total: Callable[[], int], done: int, doing: str, what: str) -> Callable[[int], None]:
    """Display a bar below the notebook's cell; update it at most ten times a second."""
    from IPython.display import HTML, display

    def html() -> HTML:
        return HTML(
            f"{doing} <progress value='{finished}' max='{total()}'></progress> {finished} of {total()} {what}"
        )

    finished, last = done, 0.0
    handle = display(html(), display_id=True)

    def advance(runs: int) -> None:
        nonlocal last, finished
        finished += runs
        if time.monotonic() - last >= _MOVE_EVERY_S or finished == total():
            last = time.monotonic()
            handle.update(html())

    return advance
