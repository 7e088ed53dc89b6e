"""The result of a fit: parameters with intervals, draws from the posterior, and simulated transfers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lasthop.fit.course import Course
from lasthop.fit.cross import Known
from lasthop.fit.measurement import Floats, Kind, Measurement

Keys = Mapping[str, object]
"""Tables of a scenario, as in a file."""


@dataclass(frozen=True)
class Source:
    """The file from which a parameter was estimated."""

    file: Path
    kind: Kind

    def __str__(self) -> str:
        return f"{self.file}, {self.kind}"

    @property
    def short(self) -> str:
        """The file without its folder, and its kind."""
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
    """For names, the probability among the names compared."""
    reason: str | None = None
    """The reason if the data do not identify the parameter; then there is no value."""
    assumed: str | None = None
    """The value in the scenario in this case, as text."""

    def texts(self) -> tuple[str, str]:
        """Return estimate, and interval or probability, as text.

        A loss is in per cent. The value of a delay is a round trip, of which the key has half.
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
    """A measured or simulated transfer for drawing: goodput in steps, and round trips."""

    time_s: Floats
    """Middle of each step."""
    goodput_mbps: Floats
    rtt_time_s: Floats
    rtt_ms: Floats


@dataclass(frozen=True)
class Check:
    """A posterior predictive check: simulated transfers and the measured transfer."""

    name: str
    direction: str
    measured: Series
    simulated: tuple[Series, ...]


@dataclass(frozen=True)
class Fit:
    """The whole result. `output.text_of` returns its scenario, `page.page(fit, scenario)` its report."""

    measurements: tuple[Measurement, ...]
    parameters: tuple[Parameter, ...]
    best: Keys
    """The scenario's keys of the best estimate."""
    draws: tuple[Keys, ...] = ()
    """The scenario's keys of each draw from the posterior."""
    checks: tuple[Check, ...] = ()
    runs: int = 0
    """Number of simulations."""
    notes: tuple[str, ...] = ()
    """Sentences about omissions and assumptions."""
    courses: Mapping[str, Course] = field(default_factory=dict)
    """The courses of directions whose rate varies, by direction."""
    others: tuple[Keys, ...] = ()
    """Flows of cross traffic."""
    recordings: Mapping[str, tuple[Known, Keys]] = field(default_factory=dict)
    """Cross traffic in the captures, and its flow without the file's name, by direction."""

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of this name, if there is one."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)
