"""What every engine returns: a replication's records, as tables."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

TABLES = ("flows", "pages", "shorts", "hops", "stations", "runs")

Columns: TypeAlias = Mapping[str, Sequence[Any]]
"""A table of an engine: its columns by name. Their cells are text, numbers or None."""


class Results(Protocol):
    """The results of one call of an engine: columns by name, each table with `replication`."""

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
        """A row per hop, direction and replication; none if the scenario names no hops."""

    @property
    def stations(self) -> Columns:
        """A row per station of a medium, direction and replication; none if no hop has a medium."""

    @property
    def runs(self) -> Columns:
        """A row per replication."""
