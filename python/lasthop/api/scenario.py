"""Scenarios in Python: loaded from a file, or built in code."""

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
    """What an experiment is: link, queues, TCP, traffic, and the factors that vary them.

    Load one from a file, or build one with the keys of a scenario file::

        lasthop.Scenario.load("examples/queue.toml")
        lasthop.Scenario(
            down={"link": {"rate": "1 Mbit/s", "delay": "50 ms"}},
            flow=[{"kind": "bulk-tcp", "bytes": "1 MB"}],
        )

    Either way, lasthop checks the whole scenario. `ScenarioError` lists the errors, each with its place, the
    reason and the nearest valid value. Line numbers of a scenario built in code refer to its `text`.
    """

    def __init__(self, keys: Mapping[str, object] | None = None, /, **more: object) -> None:
        """Build and check a scenario.

        Args:
            keys: Tables, lists, texts and numbers, as `lasthop validate --schema` describes them.
            more: Further keys.
        """
        if both := [key for key in more if key in (keys or {})]:
            raise InputError(f"The key '{both[0]}' is given twice: in the mapping and as a keyword argument.")
        text = to_toml({**(keys or {}), **more})
        self._take(Loaded(parse_study(text)), None, text)

    @classmethod
    def load(cls, source: str | PathLike[str], *, points: int | None = None) -> Self:
        """Read a scenario file, or a published study by its name, and the files that it extends.

        Args:
            source: The file, or a name in `lasthop study list`.
            points: Number of points at which ranges are sampled. It replaces the file's number.
        """
        file = find_scenario(str(source))
        loaded = load(file, points)
        return cls.__new__(cls)._take(loaded, file, file.read_text(encoding="utf-8"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a scenario file."""
        return cls.__new__(cls)._take(Loaded(parse_study(text)), None, text)

    def _take(self, loaded: Loaded, file: Path | None, text: str) -> Self:
        self.loaded = loaded
        """The scenario as the commands read it, with the printed numbers of a published study."""
        self.file = file
        """The file that the scenario was read from; `None` if it was built in code."""
        self.text = text
        """The text of the scenario, without the files that it extends."""
        return self

    @property
    def study(self) -> _core.Study:
        """The scenario, read and checked."""
        return self.loaded.study

    @property
    def name(self) -> str:
        """The short name, which folders of results have, too."""
        return self.study.name

    @property
    def seed(self) -> int:
        """The number from which all random streams derive."""
        return self.study.seed

    @property
    def replications(self) -> int:
        """Number of runs per cell, unless `run` is given another."""
        return self.study.replications

    @property
    def factors(self) -> dict[str, list[str]]:
        """The factors and the names of their levels."""
        return self.study.factors

    @property
    def cells(self) -> list[str]:
        """The combinations of levels that run, as `factor=level,...`; without factors, one empty text."""
        return [cell.key for cell in self.study.cells]

    def __repr__(self) -> str:
        """Give the name and the size."""
        cells = len(self.study.cells)
        size = [
            counted(cells, "cell"),
            f"replications={self.replications}",
            f"seed={self.seed}",
        ]
        return f"<Scenario {self.name}: {', '.join(size)}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td style='text-align:left'>{escape(', '.join(levels))}</td></tr>"
            for name, levels in self.factors.items()
        )
        table = f"<table><tr><th>factor</th><th>levels</th></tr>{rows}</table>" if rows else ""
        return f"<p>{escape(repr(self)[1:-1])}</p>{table}"
