"""Pictures over replications: the median of each level in each step, with a band."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.campaign.folded import BAND_WORDS, fold
from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.units import counted, scale
from lasthop.present.pictures import marks
from lasthop.present.pictures.cast import MOST_PANELS, check_flows
from lasthop.present.pictures.marks import FLOW_COLORS, Look, Shape
from lasthop.present.pictures.shapes import (
    BadPeriod,
    Layer,
    Panel,
    Picture,
    caption,
    check_span,
    clipped,
    filled,
    made_by,
    scaled,
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The values of a kind of picture: a metric of the time series, of each flow or of the hop."""

    metric: str
    quantity: str
    unit: str
    of_flows: bool = False
    top: float | None = None


_KINDS = {
    "cwnd": _Kind("cwnd", "window", "segments", of_flows=True),
    "rtt": _Kind("srtt_s", "smoothed RTT", "s", of_flows=True),
    "queue": _Kind("queue_mean_packets", "router queue", "packets"),
    "goodput": _Kind("goodput_Bps", "goodput", "B/s"),
    "fairness": _Kind("fairness_jain", "Jain's index", "", top=1.05),
}
OVER_KINDS = tuple(_KINDS)
_USUAL_KINDS = ("queue", "goodput", "fairness")


@dataclass(frozen=True, slots=True)
class OverPicture:
    """The panels between two times, and the remarks on them."""

    panels: list[Panel]
    span: tuple[float, float]
    source: str
    notes: list[str]
    left_out: list[str]
    bad_periods: Sequence[BadPeriod] = ()
    log: str = ""

    def of(self, panels: Sequence[Panel]) -> Picture:
        start, stop = self.span
        bad = clipped(self.bad_periods, start, stop)
        parts = [panel.within(start, stop) for panel in panels]
        return Picture(parts, start, stop, bad, [*self.notes, *self.left_out], self.log)

    def remarks(self) -> list[str]:
        """Return the notes on the picture, and on omitted flows."""
        return [*self.notes, *(f"{note} Choose others with --flow." for note in self.left_out)]

    def caption(self, panels: Sequence[Panel]) -> str:
        return caption(panels, self.source, [*self.notes, *self.left_out])


@dataclass(frozen=True, slots=True)
class _Folded:
    """The folded time series of each chosen cell, by the levels that distinguish it from the others."""

    levels: dict[str, pl.DataFrame]
    step_s: float
    replications: int

    def rows(self, kind: _Kind, flow: str | None, direction: str) -> dict[str, pl.DataFrame]:
        """Return the steps of each level in which at least half of the replications have a value."""
        of = pl.col("flow").is_null() if flow is None else pl.col("flow") == flow
        wanted = of & (pl.col("direction") == direction) & (pl.col("metric") == kind.metric)
        enough = pl.col("replications") * 2 >= self.replications
        return {level: rows.filter(wanted & enough) for level, rows in self.levels.items()}

    def flows(self, metric: str) -> list[tuple[str, str]]:
        """Return the flows with a metric, and the directions of their data."""
        own = pl.concat(self.levels.values()).filter(pl.col("flow").is_not_null(), pl.col("metric") == metric)
        return own.select("flow", "direction").unique(maintain_order=True).rows()


def check_kinds(text: str | None) -> list[str]:
    """Return the kinds in `--kind`, or the default kinds. Raises `InputError` for kinds of a single run."""
    kinds = list(_USUAL_KINDS) if text is None else [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind not in OVER_KINDS:
            raise InputError(
                f"--kind {text}: '{kind}' cannot be drawn over replications; did you mean "
                f"'{nearest(kind, OVER_KINDS)}'? Kinds: {', '.join(OVER_KINDS)}."
            )
    return list(dict.fromkeys(kinds))


def picture_over(
    runs: Sequence[ChosenRun],
    kinds: str | None,
    flows: Sequence[str],
    span: tuple[float | None, float | None],
) -> OverPicture:
    """Run all replications of each run's cell and set, and return their picture."""
    chosen = check_kinds(kinds)
    if len(runs) > len(FLOW_COLORS):
        raise InputError(
            f"--over replications: a picture can show at most {len(FLOW_COLORS)} cells, not {len(runs)}; "
            "select some with --only."
        )
    folded = _fold(runs)
    check_flows(flows, [flow for flow, _ in folded.flows("goodput_Bps")])
    panels, left_out = [], []
    for kind in chosen:
        drawn_panels, remarks = _panels(folded, kind, flows)
        if kinds is not None and not drawn_panels:
            lack = (
                "no flows share the link at the same time"
                if kind == "fairness"
                else "no flow has such values"
            )
            raise InputError(
                f"--kind {kinds}: '{kind}' cannot be drawn, because {lack}; draw goodput or queue."
            )
        panels += drawn_panels
        left_out += remarks
    plan = runs[0].plan
    cells = "; ".join(run.cell.key for run in runs if run.cell.key) or "its only cell"
    replications = counted(folded.replications, "replication")
    source = f"{plan.study.name}, {cells}, {replications} of set {runs[0].set_number}, {made_by(plan)}"
    lines = (
        f"Lines: medians over {replications}, in steps of {_step(folded)} in which at least half of them "
        f"have a value; bands: {BAND_WORDS}."
    )
    return OverPicture(panels, _span(span, panels), source, [lines], list(dict.fromkeys(left_out)))


def _fold(runs: Sequence[ChosenRun]) -> _Folded:
    """Run all replications. The step is that of a single run, the longest among the first replications."""
    steps = [step for run in runs for step in run.overview().series["step_s"][:1]]
    if not steps:
        raise InputError("--over replications: no packet is sent in the selected cells.")
    tables = [fold(run, round(max(steps) * 1e9)) for run in runs]
    return _Folded(dict(zip(_names(runs), tables, strict=True)), max(steps), runs[0].plan.replications)


def _names(runs: Sequence[ChosenRun]) -> list[str]:
    """Return the levels that distinguish the cell of each run from the others."""
    levels = {factor: [run.cell.levels.get(factor, "") for run in runs] for factor in runs[0].cell.levels}
    varied = [factor for factor, own in levels.items() if len(set(own)) > 1]
    return [
        ", ".join(f"{factor} = {levels[factor][place]}" for factor in varied) for place in range(len(runs))
    ]


def _step(folded: _Folded) -> str:
    by = scale("s", [folded.step_s])
    return f"{folded.step_s * by.factor:g} {by.unit}"


def _panels(folded: _Folded, name: str, flows: Sequence[str]) -> tuple[list[Panel], list[str]]:
    """Return the panels of a kind, and the remarks on flows without a panel.

    Without `flows`, there is a panel of the whole hop for each direction of data.
    """
    kind = _KINDS[name]
    having = [(flow, way) for flow, way in folded.flows(kind.metric) if not flows or flow in flows]
    notes: list[str] = []
    if kind.of_flows and not flows and len(having) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(having)} flows have a panel.")
        having = having[:MOST_PANELS]
    whole = not having if flows else not kind.of_flows
    ways = dict.fromkeys(way for flow, way in folded.flows("goodput_Bps") if not flows or flow in flows)
    of: list[tuple[str | None, str]] = [(None, way) for way in ways] if whole else [*having]
    panels = []
    for flow, way in of:
        subject = flow or (way if len(ways) > 1 else "")
        layers = filled(_layers(folded, kind, flow, way))
        if layers:
            quantity = f"{kind.quantity} over {_step(folded)}" if name == "goodput" else kind.quantity
            panels.append(scaled(Panel(name, quantity, kind.unit, layers, subject, top=kind.top)))
    return panels, notes


def _layers(folded: _Folded, kind: _Kind, flow: str | None, way: str) -> Iterator[Layer]:
    """Yield the bands of all levels, then their medians on top; both are interrupted at pauses."""
    rows = folded.rows(kind, flow, way)
    for mark_of in (marks.Mark.banded, marks.Mark.of):
        for place, (level, own) in enumerate(rows.items()):
            mark = mark_of(marks.MEDIAN, Look(level, FLOW_COLORS[place]))
            for x, low, middle, high in _stretches(own, folded.step_s):
                is_band = mark.shape is Shape.BANDS
                yield Layer(
                    mark,
                    x,
                    low if is_band else middle,
                    high if is_band else None,
                    flow="" if is_band else level,
                )


def _stretches(rows: pl.DataFrame, step_s: float) -> Iterator[tuple[list[float], ...]]:
    """Yield times, lows, medians and highs of consecutive steps, with the end of the last step."""
    numbered = rows.with_columns((pl.col("time_s") / step_s).round().cast(pl.Int64).alias("step"))
    apart = numbered.with_columns((pl.col("step").diff().fill_null(1) != 1).cum_sum().alias("stretch"))
    for own in apart.partition_by("stretch", maintain_order=True):
        closed = pl.concat([own, own.tail(1).with_columns(pl.col("time_s") + step_s)])
        yield tuple(closed[name].to_list() for name in ("time_s", "low", "median", "high"))


def _span(wanted: tuple[float | None, float | None], panels: Sequence[Panel]) -> tuple[float, float]:
    """Return the times to draw, by default from 0 to the end of the last line."""
    end = max((layer.x[-1] for panel in panels for layer in panel.layers), default=0.0)
    return check_span(wanted[0] or 0.0, end if wanted[1] is None else wanted[1], end)
