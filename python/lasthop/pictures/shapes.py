"""What a picture of a run is made of: layers of values with their marks, in panels over one axis of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lasthop.pictures.marks import Mark, Shape

Value = float | None


@dataclass(frozen=True, slots=True)
class Layer:
    """Values that share a mark. Times in seconds, `y` in the panel's unit, `far` is the other end of a bar or span."""

    mark: Mark
    x: Sequence[float]
    y: Sequence[Value]
    far: Sequence[float] | None = None
    labels: Sequence[str] | None = None

    def within(self, start: float, stop: float) -> Layer:
        """Return what lies between two times; a line of steps enters and leaves at its height."""
        inside = [i for i, x in enumerate(self.x) if start <= x <= stop]
        x, y = [self.x[i] for i in inside], [self.y[i] for i in inside]
        if self.mark.shape is Shape.STEPS:
            before = sum(1 for time in self.x if time < start)
            if before and (not x or x[0] > start):
                x, y = [start, *x], [self.y[before - 1], *y]
            if x and self.x[-1] > stop:
                x, y = [*x, stop], [*y, y[-1]]
        far = None if self.far is None else [self.far[i] for i in inside]
        return Layer(self.mark, x, y, far, None if self.labels is None else [self.labels[i] for i in inside])


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. `subject` tells panels of one kind apart; `rows` names the heights 0, 1, ... of spans."""

    kind: str
    quantity: str
    unit: str
    layers: list[Layer]
    subject: str = ""
    rows: Sequence[str] = ()

    @property
    def label(self) -> str:
        """What its vertical axis shows, in which unit."""
        return f"{self.subject} {self.quantity} ({self.unit})".strip() if self.unit else self.subject

    def within(self, start: float, stop: float) -> Panel:
        """Return the panel between two times."""
        return replace(self, layers=filled(layer.within(start, stop) for layer in self.layers))


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels over one axis of time, from `start` to `stop` in seconds, with the bad periods of the link."""

    panels: list[Panel]
    start: float
    stop: float
    bad_periods: list[tuple[float, float]]


def filled(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers that have something to show."""
    return [layer for layer in layers if any(y is not None for y in layer.y)]
