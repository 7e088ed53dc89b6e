"""What a fit found: parameters with intervals, draws from the posterior, and simulated transfers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lasthop.fit.course import Course
from lasthop.fit.measurement import Floats, Kind, Measurement

Keys = Mapping[str, object]
"""Tables of a scenario, as in a file."""


@dataclass(frozen=True)
class Source:
    """Which data said something."""

    file: Path
    kind: Kind

    def __str__(self) -> str:
        """Name the file with its folder, and what it is."""
        return f"{self.file}, {self.kind}"

    @property
    def short(self) -> str:
        """The same without the folder."""
        return f"{self.file.name}, {self.kind}"


@dataclass(frozen=True)
class Parameter:
    name: str
    """`rate`, `delay`, `buffer`, `loss`, `jitter`, `stalls`, `queue`, `control`, `initial_window`, ..."""
    key: str
    """The key of the scenario that it sets, such as `down.link.rate`."""
    unit: str
    """As in the scenario (`Mbit/s`, `ms`, `packets`); empty for names and probabilities."""
    source: Source = field(kw_only=True)
    value: float | str | None = None
    low: float | None = None
    """Lower end of the 90 % interval; None for names."""
    high: float | None = None
    probability: float | None = None
    """Of a name: how probable it is among the names compared."""
    reason: str | None = None
    """Why these data do not identify it; then there is no number."""
    assumed: str | None = None
    """What the scenario has instead, as written there."""

    def texts(self) -> tuple[str, str]:
        """What the data told: estimate, and interval or probability.

        A loss is in per cent. The value of a delay is a round trip, and the key has half of it.
        """
        if isinstance(self.value, str):
            return self.value, "" if self.probability is None else f"probability {self.probability:.2f}"
        unit, factor, behind = self.unit, 1.0, ""
        if self.key.endswith("link.loss"):
            unit, factor = "%", 100.0
        elif self.key.endswith("link.delay"):
            factor, behind = 0.5, f" each way (round trip {self.value or 0.0:.4g} {unit})"
        value, low, high = (f"{factor * (number or 0.0):.4g}" for number in (self.value, self.low, self.high))
        return f"{value} {unit}{behind}", "" if low == high else f"{low} to {high} {unit}"


@dataclass(frozen=True)
class Series:
    """A transfer, measured or simulated, for laying one over the other: goodput and round trips in steps."""

    time_s: Floats
    """Middle of each step."""
    goodput_mbps: Floats
    rtt_time_s: Floats
    rtt_ms: Floats


@dataclass(frozen=True)
class Check:
    """Posterior predictive: simulated transfers beside the measured one."""

    name: str
    direction: str
    measured: Series
    simulated: tuple[Series, ...]


@dataclass(frozen=True)
class Fit:
    """The whole result. `output.text_of` makes the scenario of it, `page.page(fit, scenario)` the report."""

    measurements: tuple[Measurement, ...]
    parameters: tuple[Parameter, ...]
    best: Keys
    """The scenario's keys of the best estimate."""
    draws: tuple[Keys, ...] = ()
    """The same of each draw from the posterior."""
    checks: tuple[Check, ...] = ()
    runs: int = 0
    """How many simulations it took."""
    notes: tuple[str, ...] = ()
    """What was left out or assumed, in sentences."""
    courses: Mapping[str, Course] = field(default_factory=dict)
    """Of the directions whose rate varies; each takes the place of a rate."""
    others: tuple[Keys, ...] = ()
    """Flows of others beside the transfer."""

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, if the fit speaks of it."""
        return next((one for one in self.parameters if one.name == name), None)
