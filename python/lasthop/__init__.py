"""A laboratory for transport protocols on the slow, lossy last hop.

    import lasthop

    results = lasthop.run("examples/queue.toml", replications=20)
    results.compare("queue=short", "elapsed_s")

`Scenario` describes an experiment, `run` runs it, and `Results` contains its results;
docs/guides/python.md has examples. Modules are loaded when they are used, so the import is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lasthop._core import Ack, Packet, ScenarioError, UserCodeError
    from lasthop.api.drawing import Drawing
    from lasthop.api.run import run
    from lasthop.api.run_results import Results, Trace
    from lasthop.api.scenario import Scenario
    from lasthop.api.testing.fixture import LasthopFixture
    from lasthop.common.algorithms import CongestionControl, ErrorModel, QueueDiscipline, Traffic
    from lasthop.common.errors import InputError

    __version__: str

__all__ = [
    "Ack",
    "CongestionControl",
    "Drawing",
    "ErrorModel",
    "InputError",
    "LasthopFixture",
    "Packet",
    "QueueDiscipline",
    "Results",
    "Scenario",
    "ScenarioError",
    "Trace",
    "Traffic",
    "UserCodeError",
    "__version__",
    "run",
]
_PLACES = {
    "Ack": "lasthop._core",
    "CongestionControl": "lasthop.common.algorithms",
    "Drawing": "lasthop.api.drawing",
    "ErrorModel": "lasthop.common.algorithms",
    "InputError": "lasthop.common.errors",
    "LasthopFixture": "lasthop.api.testing.fixture",
    "Packet": "lasthop._core",
    "QueueDiscipline": "lasthop.common.algorithms",
    "Results": "lasthop.api.run_results",
    "Scenario": "lasthop.api.scenario",
    "ScenarioError": "lasthop._core",
    "Trace": "lasthop.api.run_results",
    "Traffic": "lasthop.common.algorithms",
    "UserCodeError": "lasthop._core",
    "run": "lasthop.api.run",
}


def __getattr__(name: str) -> object:
    """Load a name when it is first used (PEP 562)."""
    if name == "__version__":
        return import_module("lasthop._core").VERSION
    if name not in _PLACES:
        raise AttributeError(f"module 'lasthop' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names that can be loaded."""
    return sorted({*globals(), *__all__})
