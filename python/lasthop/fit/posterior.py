"""What a fit found: parameters with intervals, draws from the posterior, and simulated transfers."""

from __future__ import annotations

from dataclasses import dataclass

from lasthop.fit.measurement import Floats, Measurement


@dataclass(frozen=True)
class Parameter:
    """One property of the line."""

    name: str
    """`rate`, `delay`, `buffer`, `loss`, `jitter`, `stalls`, `queue`, `control`, `initial_window`, ..."""
    key: str
    """The key of the scenario that it sets, such as `link.down.rate`."""
    unit: str
    """As in the scenario (`Mbit/s`, `ms`, `packets`); empty for names and probabilities."""
    value: float | str | None = None
    low: float | None = None
    """Lower end of the 90 % interval; None for names."""
    high: float | None = None
    probability: float | None = None
    """Of a name: how probable it is among the names compared."""
    source: str = ""
    """Which data said it."""
    reason: str | None = None
    """Why these data do not identify it; then there is no number."""
    assumed: str | None = None
    """What the scenario has instead, as written there."""

    @property
    def identified(self) -> bool:
        """Whether the data told it."""
        return self.reason is None


@dataclass(frozen=True)
class Draw:
    """One draw from the posterior."""

    overrides: dict[str, object]
    """Keys of the scenario, with dots, and their values as in a file."""
    weight: float = 1.0


@dataclass(frozen=True)
class Course:
    """The rate over time, where it varies: steps that each begin at a time."""

    time_s: Floats
    rate_mbps: Floats


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
    best: dict[str, object]
    """The overrides of the best estimate."""
    draws: tuple[Draw, ...] = ()
    course: Course | None = None
    checks: tuple[Check, ...] = ()
    runs: int = 0
    """How many simulations it took."""
    notes: tuple[str, ...] = ()
    """What was left out or assumed, in sentences."""

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, if the fit speaks of it."""
        return next((one for one in self.parameters if one.name == name), None)
