"""Pictures of results and of single replications: those of `lasthop plot` and `lasthop compare --plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lasthop.api.drawing import Drawing
from lasthop.api.texts import texts
from lasthop.pictures.results import BAND, BOX, CDF, HEATMAP, LINE, ResultRequest

if TYPE_CHECKING:
    from lasthop.campaign.plan import ChosenRun

Filters = str | Sequence[str]


class HasRuns(Protocol):
    """Finished results."""

    @property
    def folder(self) -> Path:
        """Where they are."""

    def one(self, replication: int, only: Filters, set_number: int) -> ChosenRun:
        """Return one replication, to be made again."""


class Plots:
    """The pictures of some results. Each method returns a `Drawing`, as wide as a `column` or a `page` of a paper."""

    def __init__(self, results: HasRuns) -> None:
        """Draw pictures of these results."""
        self._results = results

    def box(
        self,
        y: str | None = None,
        *,
        x: str | None = None,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw quartiles and extremes over the replications at each level.

        Args:
            y: The column to draw; the time that page loads, short flows or transfers took if not given.
            x: The factor on the horizontal axis.
            hue: The factor shown by colour.
            only: Draw only these cells.
            role: Draw only flows with this role.
            width: `column` or `page` of a two-column paper.
        """
        return self._chart(ResultRequest(x, y, hue, BOX, texts(only), role), width)

    def cdf(
        self,
        y: str | None = None,
        *,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw the distribution functions of all values; arguments as of `box`."""
        return self._chart(ResultRequest(None, y, hue, CDF, texts(only), role), width)

    def heatmap(
        self,
        y: str | None = None,
        *,
        x: str | None = None,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw means over two factors, `x` across and `hue` down; arguments as of `box`."""
        return self._chart(ResultRequest(x, y, hue, HEATMAP, texts(only), role), width)

    def line(
        self,
        y: str | None = None,
        *,
        x: str | None = None,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw means with 95 % intervals against numeric levels; arguments as of `box`."""
        return self._chart(ResultRequest(x, y, hue, LINE, texts(only), role), width)

    def band(
        self,
        y: str | None = None,
        *,
        x: str | None = None,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw runs, running median, and 10th to 90th percentile over a range; arguments as of `box`."""
        return self._chart(ResultRequest(x, y, hue, BAND, texts(only), role), width)

    def forest(
        self,
        reference: str,
        metric: str,
        *,
        only: Filters = (),
        role: str | None = None,
        correction: str = "holm",
    ) -> Drawing:
        """Draw the differences that `Results.compare` returns, with their intervals; same arguments."""
        from lasthop.answer.paired import Request, compare_results
        from lasthop.pictures.forest import forest_figure

        compared = compare_results(self._results.folder, Request(reference, metric, texts(only), role, correction))
        return Drawing(lambda: forest_figure(compared), [])

    def over_time(
        self,
        kinds: str | Sequence[str] = (),
        replication: int = 1,
        *,
        flows: str | Sequence[str] = (),
        only: Filters = (),
        set_number: int = 1,
        start: float | None = None,
        stop: float | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw one replication over time, a panel per kind, or per kind and flow.

        Args:
            kinds: Any of waterfall, sequence, cwnd, rtt, queue, goodput, stack, fairness and delay; the first six if
                not given.
            replication: Its number, from 1 within its set.
            flows: Draw only these flows or page loads.
            only: The cell, where there are several.
            set_number: The set.
            start: First time to draw, seconds.
            stop: Last time to draw, seconds.
            width: `column` or `page` of a two-column paper.
        """
        from lasthop.pictures.files import PictureRequest, picture_run
        from lasthop.pictures.static import figure_of

        asked = ",".join(texts(kinds)) or None
        request = PictureRequest(kinds=asked, flows=texts(flows), start=start, stop=stop)
        found = picture_run(self._results.one(replication, only, set_number), request)
        return Drawing(lambda: figure_of(found.of(found.panels), width), found.told())

    def _chart(self, request: ResultRequest, width: str) -> Drawing:
        from lasthop.pictures.charts import chart_figure
        from lasthop.pictures.results import read_chart

        chart = read_chart(self._results.folder, request)
        return Drawing(lambda: chart_figure(chart, width), chart.notes)
