"""Scenarios in Python, loaded from a file or built in code."""

from collections.abc import Mapping
from html import escape
from os import PathLike
from pathlib import Path
from typing import Self

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import counted
from lasthop.scenario.points import parse_study
from lasthop.scenario.toml import to_toml
from lasthop.studies.catalogue import find_scenario
from lasthop.studies.loading import Loaded, load


class Scenario:
    """The description of an experiment: link, queues, TCP, traffic, and the factors that vary them.

    Load it from a file, or build it with the keys of a scenario file::

        lasthop.Scenario.load("examples/queue.toml")
        lasthop.Scenario(
            down={"link": {"rate": "1 Mbit/s", "delay": "50 ms"}},
            flow=[{"kind": "bulk-tcp", "bytes": "1 MB"}],
        )

    The whole scenario is checked. `ScenarioError` lists the errors, each with its place, the reason and the
    nearest valid value. Line numbers of a scenario built in code refer to its `text`.
    """

    def __init__(self, keys: Mapping[str, object] | None = None, /, **more: object) -> None:
        """Build and check a scenario.

        Args:
            keys: Tables, lists, texts and numbers, as `lasthop validate --schema` describes them.
            more: Further keys.
        """
        if isinstance(keys, str | PathLike):
            raise InputError(f"{str(keys)!r} is not a mapping of keys; lasthop.Scenario.load reads a file.")
        if both := [key for key in more if key in (keys or {})]:
            raise InputError(f"The key '{both[0]}' is both in the mapping and a keyword argument.")
        text = to_toml({**(keys or {}), **more})
        self._set(Loaded(parse_study(text)), None, text)

    @classmethod
    def load(cls, source: str | PathLike[str], *, points: int | None = None) -> Self:
        """Read a scenario file, or a published study by its name, and the files that it extends.

        Args:
            source: The file, or a name in `lasthop study list`.
            points: Number of points at which ranges are sampled, instead of the file's number.
        """
        file = find_scenario(str(source))
        loaded = load(file, points)
        return cls.__new__(cls)._set(loaded, file, file.read_text(encoding="utf-8"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a scenario file."""
        return cls.__new__(cls)._set(Loaded(parse_study(text)), None, text)

    def _set(self, loaded: Loaded, file: Path | None, text: str) -> Self:
        self.loaded = loaded
        """The scenario as commands read it, with the published numbers of a study."""
        self.file = file
        """The scenario file; `None` if the scenario was built in code."""
        self.text = text
        """The text of the scenario, without the files that it extends."""
        return self

    @property
    def study(self) -> _core.Study:
        """The checked scenario."""
        return self.loaded.study

    @property
    def name(self) -> str:
        """The short name, also of the results folder."""
        return self.study.name

    @property
    def seed(self) -> int:
        """The seed of all random streams."""
        return self.study.seed

    @property
    def replications(self) -> int:
        """The number of runs per cell, unless `run` overrides it."""
        return self.study.replications

    @property
    def factors(self) -> dict[str, list[str]]:
        """The names of the levels of each factor."""
        return self.study.factors

    @property
    def cells(self) -> list[str]:
        """The combinations of levels, as `factor=level,...`; without factors, a single empty text."""
        return [cell.key for cell in self.study.cells]

    def __repr__(self) -> str:
        cells = counted(len(self.study.cells), "cell")
        return f"<Scenario {self.name}: {cells}, replications={self.replications}, seed={self.seed}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td style='text-align:left'>{escape(', '.join(levels))}</td></tr>"
            for name, levels in self.factors.items()
        )
        table = f"<table><tr><th>factor</th><th>levels</th></tr>{rows}</table>" if rows else ""
        return f"<p>{escape(repr(self)[1:-1])}</p>{table}"
