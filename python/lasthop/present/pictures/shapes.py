"""The parts of a picture of a run: layers of values with their marks, panels over a time axis, captions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lasthop import _core
from lasthop.campaign.plan import Plan
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import listed, scale
from lasthop.present.pictures.marks import BAD_PERIODS, Mark, Shape

Value = float | None
T = TypeVar("T", "Phase", "BadPeriod")


@dataclass(frozen=True, slots=True)
class Layer:
    """Values that share a mark.

    Times are in seconds, `y` in the panel's unit; `far` is the other end of a bar or span. An arrow goes from
    `y` at time `x` to `ends` at time `far`.
    """

    mark: Mark
    x: Sequence[float]
    y: Sequence[Value]
    far: Sequence[float] | None = None
    labels: Sequence[str] | None = None
    flow: str = ""
    """The flow of the layer, in a panel of several flows."""
    ends: Sequence[float] | None = None

    def peak(self) -> float:
        """Return the largest value; 0 if there is none."""
        return max(filter(None, self.far or self.y), default=0.0)

    def times(self, factor: float) -> Layer:
        """Return the layer in another unit."""
        y = [None if value is None else value * factor for value in self.y]
        return replace(self, y=y, far=None if self.far is None else [value * factor for value in self.far])

    def within(self, start: float, stop: float) -> Layer:
        """Return the part between two times; step lines are cut at its ends."""
        if self.x and start <= min(self.x) and max(self.x) <= stop:
            return self
        inside = [i for i, x in enumerate(self.x) if start <= x <= stop]
        x = [self.x[i] for i in inside]
        if self.mark.shape in (Shape.STEPS, Shape.BANDS):
            before = sum(1 for time in self.x if time < start)
            if before and (not x or x[0] > start):
                inside, x = [before - 1, *inside], [start, *x]
            if x and self.x[-1] > stop:
                inside, x = [*inside, inside[-1]], [*x, stop]
        y = [self.y[i] for i in inside]
        far = None if self.far is None else [self.far[i] for i in inside]
        labels = None if self.labels is None else [self.labels[i] for i in inside]
        return replace(self, x=x, y=y, far=far, labels=labels)


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a connection, in seconds, of a `kind` in `lasthop.analysis.explain.facts`."""

    kind: str
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class Panel:
    """A pair of axes.

    `subject` distinguishes panels of a kind; `rows` names the heights 0, 1, ... of spans, or the hosts at the
    sides of a ladder. `of_flows` is whether it shows flows, of which a `Cast` may have omitted some. `across`
    is the quantity on the horizontal axis with its unit, if this is not time. `top` is the upper end of the
    vertical axis, if fixed.
    """

    kind: str
    quantity: str
    unit: str
    layers: list[Layer]
    subject: str = ""
    rows: Sequence[str] = ()
    of_flows: bool = False
    across: str = ""
    top: float | None = None
    is_whole: bool = False
    """Whether the panel shows the whole run, however long."""
    phases: Sequence[Phase] = ()
    """The phases of its only connection, which are shaded."""

    @property
    def title(self) -> str:
        """Title of the vertical axis, with the unit."""
        return f"{self.quantity} ({self.unit})" if self.unit else self.quantity

    @property
    def label(self) -> str:
        return f"{self.subject} {self.title}".strip()

    def peak(self) -> float:
        """Return the largest value of all layers; 0 if there is none."""
        return max((layer.peak() for layer in self.layers), default=0.0)

    def within(self, start: float, stop: float) -> Panel:
        """Return the part between two times, or the panel itself if it is not over time."""
        if self.across:
            return self
        layers = filled(layer.within(start, stop) for layer in self.layers)
        return replace(self, layers=layers, phases=clipped(self.phases, start, stop))


@dataclass(frozen=True, slots=True)
class BadPeriod:
    """A bad period of a link, in seconds, in a direction or, if this is empty, in both.

    `hop` is empty if there is only one. `places` are the places of the link.
    """

    start: float
    stop: float
    direction: str
    hop: str = ""
    places: frozenset[int] = field(default=frozenset(), compare=False)

    @property
    def mark(self) -> Mark:
        """The look of the period, and its name in legends."""
        mark = BAD_PERIODS[self.direction]
        return replace(mark, name=f"{mark.name} of {self.hop}") if self.hop else mark


def clipped(periods: Iterable[T], start: float, stop: float) -> list[T]:
    """Return the parts of phases or bad periods between two times."""
    return [
        replace(period, start=max(period.start, start), stop=min(period.stop, stop))
        for period in periods
        if period.start < stop and period.stop > start
    ]


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels over a time axis from `start` to `stop` in seconds, with the bad periods of the link.

    `notes` are sentences for the reader. `log` are the logarithmic axes: `x`, `y`, `xy`, or none.
    """

    panels: list[Panel]
    start: float
    stop: float
    bad_periods: list[BadPeriod]
    notes: Sequence[str] = ()
    log: str = ""


def made_by(plan: Plan) -> str:
    return f"seed {plan.seed}, {plan.engine.name} engine, lasthop {_core.VERSION}"


def caption(panels: Sequence[Panel], source: str, notes: Sequence[str]) -> str:
    """Return the caption: the panels' contents, the runs that are the `source`, and the notes."""
    over_time = list(dict.fromkeys(panel.label for panel in panels if not panel.across))
    shows = [f"{listed(over_time)} over time"] if over_time else []
    shows += [f"{panel.label} against {panel.across}" for panel in panels if panel.across]
    sentence = "; ".join(shows)
    return " ".join([f"{sentence[:1].upper()}{sentence[1:]}.", f"{source}.", *notes])


def check_span(start: float, stop: float, end: float) -> tuple[float, float]:
    """Return the times to draw of a run that ends at `end`.

    Raises `InputError` if nothing lies between `--from` and `--to`.
    """
    if start >= end:
        raise InputError(f"--from {start:g}: the run ends at {end:.3f} s.")
    if start >= stop:
        raise InputError(f"--from {start:g} --to {stop:g}: --from must be earlier than --to (in seconds).")
    return start, min(stop, end)


def joined(layers: Iterable[Layer]) -> list[Layer]:
    """Join consecutive layers of the same mark, with gaps between step lines."""
    layers_ = []
    for mark, group in itertools.groupby(layers, lambda layer: layer.mark):
        own = list(group)
        gaps = mark.shape is Shape.STEPS
        if mark.shape is Shape.BANDS:
            layers_ += own
            continue
        x = [time for layer in own for time in (*layer.x, *(layer.x[-1:] if gaps else ()))]
        y = [value for layer in own for value in (*layer.y, *((None,) if gaps else ()))]
        far = None if own[0].far is None else [value for layer in own for value in layer.far or ()]
        layers_.append(Layer(mark, x, y, far))
    return layers_


def scaled(panel: Panel) -> Panel:
    """Convert a panel in `s`, `B` or `B/s` to a unit that suits its largest value."""
    by = scale(panel.unit, [panel.peak()])
    return replace(panel, unit=by.unit, layers=[layer.times(by.factor) for layer in panel.layers])


def filled(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers with values."""
    return [layer for layer in layers if any(y is not None for y in layer.y)]
