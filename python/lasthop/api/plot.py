"""Pictures of results and single replications, as `lasthop plot` and `lasthop results compare` draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lasthop.api.drawing import Drawing
from lasthop.api.texts import texts
from lasthop.common.errors import InputError
from lasthop.present.pictures.logarithmic import check_log
from lasthop.present.pictures.of_results import BAND, BAR, BOX, CDF, HEATMAP, LINE, ResultRequest

if TYPE_CHECKING:
    from lasthop.campaign.plan import ChosenRun
    from lasthop.present.pictures.files import Shown

Filters = str | Sequence[str]


class HasRuns(Protocol):
    """Finished results."""

    @property
    def folder(self) -> Path:
        """The results folder."""

    def one(self, replication: int, only: Filters, set_number: int) -> ChosenRun:
        """Return a replication of the only matching cell, to be repeated."""

    def each(self, replication: int, only: Filters, set_number: int) -> list[ChosenRun]:
        """Return a replication of each matching cell, to be repeated."""


class Plots:
    """The pictures of results; each method returns a `Drawing` of the width of a `column` or `page`."""

    def __init__(self, results: HasRuns) -> None:
        self._results = results

    def box(
        self,
        y: str | None = None,
        *,
        x: str | Sequence[str] | None = None,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        ratio: str | None = None,
        whiskers: str | None = None,
        y2: str | None = None,
        log: str | None = None,
        theory: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw quartiles over the replications at each level, and whiskers.

        Args:
            y: The column to draw, by default the time of page loads, short flows or transfers.
            x: The factor on the horizontal axis. With several factors, the levels of the last are adjacent.
            hue: The factor shown by colour.
            only: Draw only these cells.
            role: Draw only flows with this role.
            ratio: Two levels of a factor, as in `packets=10/9`: draw the ratio of the metric, at equal
                replications.
            y2: A second metric, with its axis on the right.
            whiskers: The ends of the whiskers: `iqr`, the furthest values within 1.5 interquartile ranges, or
                `extremes`.
            log: The logarithmic axes, `x`, `y` or `xy`; boxes and bars can have `y` only, a CDF `x` only.
            theory: The throughput that a theory predicts: `mathis` over a loss probability, or `max-min`.
            width: `column` or `page` of a two-column paper.
        """
        return self._chart(
            ResultRequest(
                _join(x), y, hue, BOX, texts(only), role, whiskers, ratio, y2, log=log, theory=theory
            ),
            width,
        )

    def bar(
        self,
        y: str | None = None,
        *,
        x: str | Sequence[str] | None = None,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        ratio: str | None = None,
        y2: str | None = None,
        log: str | None = None,
        theory: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw medians with quartiles; the arguments are those of `box`."""
        return self._chart(
            ResultRequest(
                _join(x), y, hue, BAR, texts(only), role, ratio=ratio, y2=y2, log=log, theory=theory
            ),
            width,
        )

    def cdf(
        self,
        y: str | None = None,
        *,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        ratio: str | None = None,
        log: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw the distribution functions of all values; the arguments are those of `box`."""
        return self._chart(ResultRequest(None, y, hue, CDF, texts(only), role, ratio=ratio, log=log), width)

    def heatmap(
        self,
        y: str | None = None,
        *,
        x: str | Sequence[str] | None = None,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        ratio: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw means over two factors, `x` across and `hue` down; the arguments are those of `box`."""
        return self._chart(ResultRequest(_join(x), y, hue, HEATMAP, texts(only), role, ratio=ratio), width)

    def line(
        self,
        y: str | None = None,
        *,
        x: str | Sequence[str] | None = None,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        ratio: str | None = None,
        y2: str | None = None,
        log: str | None = None,
        theory: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw means with 95 % intervals against numeric levels; the arguments are those of `box`."""
        return self._chart(
            ResultRequest(
                _join(x), y, hue, LINE, texts(only), role, ratio=ratio, y2=y2, log=log, theory=theory
            ),
            width,
        )

    def band(
        self,
        y: str | None = None,
        *,
        x: str | Sequence[str] | None = None,
        hue: str | None = None,
        only: Filters = (),
        role: str | None = None,
        ratio: str | None = None,
        log: str | None = None,
        theory: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw runs, running median, and 10th to 90th percentile over a range; arguments as in `box`."""
        return self._chart(
            ResultRequest(_join(x), y, hue, BAND, texts(only), role, ratio=ratio, log=log, theory=theory),
            width,
        )

    def forest(
        self,
        reference: str,
        metric: str,
        *,
        only: Filters = (),
        role: str | None = None,
        correction: str = "holm",
    ) -> Drawing:
        """Draw the differences that `Results.compare` returns, with their intervals; arguments as there."""
        from lasthop.present.answer.paired import Request, compare_results
        from lasthop.present.pictures.forest import forest_caption, forest_figure

        compared = compare_results(
            self._results.folder, Request(reference, metric, texts(only), role, correction)
        )
        return Drawing(lambda noted: forest_figure(compared, noted=noted), [], forest_caption(compared))

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
        over: str | None = None,
        log: str | None = None,
        theory: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw a replication over time, with a panel per kind, or per kind and flow.

        If the window of a single TCP flow is drawn, the phases of `explain` are shaded.

        Args:
            kinds: Any of waterfall, sequence, cwnd, rtt, queue, goodput, stack, fairness and delay, by
                default the first six, or one of ladder, sizes, classes and network.
            replication: The number of the replication in its set, from 1.
            flows: Draw only these flows or page loads.
            only: The cell, if there are several.
            set_number: The number of the set.
            start: First time to draw, in seconds.
            stop: Last time to draw, in seconds.
            over: Levels of a factor, as in `control=reno,cubic`, or values of a key, as in
                `tcp.initial_window=3,10`: draw a run with each of them over each other, in kinds of
                `over_replications`.
            log: The logarithmic axes: `x`, `y` or `xy`.
            theory: `aimd`, the sawtooth of Reno in cwnd, or `max-min`, fair shares in goodput.
            width: `column` or `page` of a two-column paper.
        """
        from lasthop.present.pictures.files import PictureRequest, picture_run
        from lasthop.present.pictures.over_levels import picture_levels, read_over, runs_over

        names = ",".join(texts(kinds)) or None
        if over is not None:
            if theory is not None:
                raise InputError(f"theory={theory} is for one run or for results; omit over={over}.")
            levels = read_over(over)
            each = self._results.each(replication, only, set_number)
            runs = runs_over(each, levels, each[0].plan.file)
            shown = picture_levels(runs, levels, names, texts(flows), (start, stop))
            return _over_time(replace(shown, log=check_log(log)), width)
        request = PictureRequest(
            kinds=names, flows=texts(flows), start=start, stop=stop, log=log, theory=theory
        )
        return _over_time(picture_run(self._results.one(replication, only, set_number), request), width)

    def over_replications(
        self,
        kinds: str | Sequence[str] = (),
        *,
        flows: str | Sequence[str] = (),
        only: Filters = (),
        set_number: int = 1,
        start: float | None = None,
        stop: float | None = None,
        log: str | None = None,
        width: str = "page",
    ) -> Drawing:
        """Draw all replications over time: for each selected cell a line through the medians, and a band.

        Args:
            kinds: Any of cwnd, rtt, queue, goodput and fairness, by default the last three.
            flows: Draw these flows instead of the whole hop.
            only: Draw only these cells.
            set_number: The number of the set.
            start: First time to draw, in seconds.
            stop: Last time to draw, in seconds.
            log: The logarithmic axes: `x`, `y` or `xy`.
            width: `column` or `page` of a two-column paper.
        """
        from lasthop.present.pictures.over import picture_over

        runs = self._results.each(1, only, set_number)
        shown = picture_over(runs, ",".join(texts(kinds)) or None, texts(flows), (start, stop))
        return _over_time(replace(shown, log=check_log(log)), width)

    def _chart(self, request: ResultRequest, width: str) -> Drawing:
        from lasthop.present.pictures.charts import chart_figure
        from lasthop.present.pictures.of_results import read_chart

        chart = read_chart(self._results.folder, request)
        bare = replace(chart, notes=[])
        return Drawing(
            lambda noted: chart_figure(chart if noted else bare, width), chart.notes, chart.caption
        )


def _join(factors: str | Sequence[str] | None) -> str | None:
    return None if factors is None else ",".join(texts(factors))


def _over_time(shown: Shown, width: str) -> Drawing:
    from lasthop.present.pictures.files import run_figure

    whole = shown.of(shown.panels)
    bare = replace(whole, notes=())
    return Drawing(
        lambda noted: run_figure(whole if noted else bare, width),
        shown.remarks(),
        shown.caption(shown.panels),
    )
