"""The records of replications that every engine returns, as tables."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

TABLES = ("flows", "pages", "shorts", "hops", "stations", "runs")

Columns: TypeAlias = Mapping[str, Sequence[Any]]
"""A table of an engine: columns of text, numbers or None, by name."""


class Results(Protocol):
    """The results of a call of an engine; each table has the column `replication`."""

    @property
    def flows(self) -> Columns:
        """A row per flow and replication."""

    @property
    def pages(self) -> Columns:
        """A row per page load and replication."""

    @property
    def shorts(self) -> Columns:
        """A row per kind of short flows and replication."""

    @property
    def hops(self) -> Columns:
        """A row per hop, direction and replication; empty if the scenario names no hops."""

    @property
    def stations(self) -> Columns:
        """A row per station of a medium, direction and replication; empty if no hop has a medium."""

    @property
    def runs(self) -> Columns:
        """A row per replication."""
