"""The results of a run, as data frames, pictures and text."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from lasthop import _core
from lasthop.api.plot import Plots
from lasthop.api.texts import texts
from lasthop.campaign.plan import ChosenRun
from lasthop.campaign.results.folder import HOPS, PAGES, SHORTS, STATIONS
from lasthop.common.errors import InputError
from lasthop.scenario.selection import all_levels, select_cell, select_cells

if TYPE_CHECKING:
    from lasthop.api.scenario import Scenario
    from lasthop.campaign.campaign import Campaign


@dataclass(frozen=True, slots=True)
class Trace:
    """Every event of a replication, as data frames; events have `time_s` in addition to `time_ns`."""

    packets: pl.DataFrame
    """A row for each event of a packet: sent, queued, marked, dropped (with the cause), delivered."""
    transport: pl.DataFrame
    """A row for each event within a sender: timeout, recovery, undo, window, round-trip sample."""
    objects: pl.DataFrame
    """A row for each object of a page load, with the times of request and response in nanoseconds."""
    flows: pl.DataFrame
    """The flows, with their numbers in the other frames."""
    bad_periods: pl.DataFrame
    """The periods in which a link was in a bad state, in seconds."""


class Results:
    """The measurements of a run.

    Frames are from polars; convert them with `.to_pandas()` or `.to_arrow()`. `lasthop results metrics NAME`
    describes a column. Replications are numbered from 1 within each set. `only` selects the cell, such as
    `"variant=eifel"`; it is required if there are several cells.
    """

    def __init__(self, scenario: Scenario, campaign: Campaign) -> None:
        """Wrap the finished campaign of a scenario."""
        self.scenario = scenario
        """The scenario that was run."""
        self._campaign = campaign

    @property
    def plot(self) -> Plots:
        """Pictures of the results, and of single replications."""
        return Plots(self)

    @property
    def folder(self) -> Path:
        """The results folder, for `lasthop results show` and other commands."""
        return self._campaign.out

    @functools.cached_property
    def flows(self) -> pl.DataFrame:
        """A row per flow and replication; the first columns are the levels of its cell."""
        return self._campaign.finished.flows()

    @functools.cached_property
    def runs(self) -> pl.DataFrame:
        """A row per replication: the bottleneck, and metrics of all flows together."""
        return self._campaign.finished.run_rows()

    @functools.cached_property
    def pages(self) -> pl.DataFrame | None:
        """A row per page load and replication; `None` if the scenario loads no pages."""
        return self._campaign.finished.optional(PAGES)

    @functools.cached_property
    def shorts(self) -> pl.DataFrame | None:
        """A row per kind of short flows and replication; `None` if the scenario has none."""
        return self._campaign.finished.optional(SHORTS)

    @functools.cached_property
    def hops(self) -> pl.DataFrame | None:
        """A row per hop, direction and replication; `None` if the scenario names no hops."""
        return self._campaign.finished.optional(HOPS)

    @functools.cached_property
    def stations(self) -> pl.DataFrame | None:
        """A row per station, direction and replication; `None` if no hop has a medium."""
        return self._campaign.finished.optional(STATIONS)

    @functools.cached_property
    def summary(self) -> pl.DataFrame:
        """The statistics of every metric in every cell with 95 % intervals, as in `summary.csv`."""
        from lasthop.analysis.findings.analyse import analyse, summary_of_points

        loaded = self.scenario.loaded
        return summary_of_points(analyse(self._campaign, loaded.assets))

    def compare(
        self,
        reference: str,
        metric: str,
        *,
        only: str | Sequence[str] = (),
        role: str | None = None,
        correction: str = "holm",
    ) -> pl.DataFrame:
        """Compare the levels of a factor with a reference in pairs, as `lasthop results compare` does.

        Args:
            reference: The level to compare with, such as `"variant=baseline"`.
            metric: The column to compare, such as `"elapsed_s"`.
            only: Compare only in these cells.
            role: Compare only flows with this role.
            correction: The correction of p values for the number of comparisons: `holm` or `none`.

        Returns:
            A row per comparison, in the units of the records: mean and median difference with 95 % intervals,
            effect sizes, p values.
        """
        from lasthop.present.answer.paired import Request, compare_results

        return compare_results(self.folder, Request(reference, metric, texts(only), role, correction)).table()

    def trace(self, replication: int = 1, *, only: str | Sequence[str] = (), set_number: int = 1) -> Trace:
        """Repeat a replication, and return its events."""
        from lasthop.campaign.results.columns import as_frame
        from lasthop.present.pictures.trace_tables import as_events

        trace = self.one(replication, only, set_number).trace()
        events = map(as_events, (trace.packets, trace.transport))
        return Trace(*events, *map(as_frame, (trace.objects, trace.flows, trace.bad_periods)))

    def series(
        self,
        replication: int = 1,
        *,
        step: str = "100ms",
        only: str | Sequence[str] = (),
        set_number: int = 1,
        over: Literal["replications"] | None = None,
    ) -> pl.DataFrame:
        """Repeat a replication of each selected cell, and return its time series with this `step`.

        The columns are those of `lasthop export`: each step has a row per active flow, and two rows for the
        hop, in which `flow` is null. With `over="replications"` all replications are repeated, and each step
        has the median and the band of each metric.
        """
        from lasthop.campaign.folded import folds
        from lasthop.campaign.series import read_step, series_of

        step_ns = read_step(step)
        if over is not None:
            return folds(self.each(1, only, set_number), step_ns)
        return series_of(self.each(replication, only, set_number), step_ns)

    def explain(
        self,
        replication: int = 1,
        flow: str | None = None,
        *,
        only: str | Sequence[str] = (),
        set_number: int = 1,
    ) -> Story:
        """Explain the events of all flows of a replication, or of one flow, as text."""
        from lasthop.analysis.explain import explain

        return Story("\n\n".join(explain(self.one(replication, only, set_number), flow)))

    def capture(
        self,
        folder: str | PathLike[str],
        replication: int = 1,
        *,
        only: str | Sequence[str] = (),
        set_number: int = 1,
    ) -> list[Path]:
        """Repeat a replication, and write its packets into a new folder, as `lasthop export` does."""
        from lasthop.campaign.capture import write_captures

        return write_captures(self.one(replication, only, set_number), Path(folder))

    def report(self) -> Path:
        """Write the report and the tables of statistics into the folder; return the report's path."""
        from lasthop.analysis.findings.analyse import analyse
        from lasthop.present.report.page import write_outputs

        loaded = self.scenario.loaded
        return write_outputs(analyse(self._campaign, loaded.assets, loaded.claims, loaded.drawn))

    def one(self, replication: int, only: str | Sequence[str], set_number: int) -> ChosenRun:
        """Return a replication of the only cell that matches `only`, to be repeated."""
        self._check_repeatable()
        plan = self._campaign.plan
        return self._chosen(
            select_cell(plan.cells, all_levels(plan.study), None, texts(only)), replication, set_number
        )

    def each(self, replication: int, only: str | Sequence[str], set_number: int) -> list[ChosenRun]:
        """Return a replication of each cell that matches `only`, to be repeated."""
        self._check_repeatable()
        plan = self._campaign.plan
        cells = select_cells(plan.cells, all_levels(plan.study), texts(only))
        return [self._chosen(cell, replication, set_number) for cell in cells]

    def _chosen(self, cell: _core.Cell, replication: int, set_number: int) -> ChosenRun:
        plan = self._campaign.plan
        for name, number, most in (
            ("replication", replication, plan.replications),
            ("set_number", set_number, plan.sets),
        ):
            if not 1 <= number <= most:
                raise InputError(f"{name}={number} is not between 1 and {most}, the number in the results.")
        return ChosenRun(plan, cell, set_number, replication)

    def _check_repeatable(self) -> None:
        engine = self._campaign.plan.engine
        if not self._campaign.plan.repeatable:
            raise InputError(f"These results are of the {engine.name} engine, whose runs cannot be repeated.")

    def __repr__(self) -> str:
        engine = self._campaign.plan.engine.name
        return f"<Results {self.scenario.name}: {self._campaign.runs} runs on the {engine} engine>"

    def _repr_html_(self) -> str:
        from html import escape

        from lasthop.present.answer.blocks import shortened
        from lasthop.present.answer.folder import read_sections
        from lasthop.present.answer.show import Shown, answer_blocks

        blocks = answer_blocks(read_sections(self.folder), Shown())
        lines = "\n".join(shortened(blocks, _LINES, ".summary"))
        return f"<p>{escape(repr(self)[1:-1])}</p><pre>{escape(lines)}</pre>"


_LINES = 60
"""Maximum of lines of an answer in a notebook."""


class Story(str):
    """A text that notebooks display with its line breaks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre style='white-space: pre-wrap'>{escape(self)}</pre>"
