"""Runs of real programs: requests, and results as columns of `runs.parquet`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict, cast

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.common.metrics.dictionary import PRINTED
from lasthop.engines.resolved import Flow, resolved
from lasthop.stacks import transfers

if TYPE_CHECKING:
    from lasthop.engines.records import Columns

ERRORS = "stderr_end"
"""The column for the end of a program's standard error."""
_MOST_CHARACTERS = 60
_LINES = 10
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Escape sequences of terminals, such as colours."""
_CANNOT_RUN = (126, 127)
"""Exit codes of shells for a command that cannot be executed, and for a missing one."""
_SNAP_LENGTH = 65_535


class HostProgram(NamedTuple):
    """A server at the far end, or a host of the scenario, and the command line of its shell."""

    name: str
    command: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRequest:
    """Programs to run once on the hosts of a scenario."""

    cell: _core.Cell
    seed: int
    command: Sequence[str]
    """The command whose end ends the run; if empty, the run lasts until all programs in `hosts` end."""
    host: str | None = None
    """The host of the command, if there are several."""
    servers: Sequence[HostProgram] = (HostProgram("server", None),)
    hosts: Sequence[HostProgram] = ()
    """Further programs, on hosts of the scenario."""
    down: Path | None = None
    """A Mahimahi trace that replaces the rate of the link down; `up` is that of the link up."""
    up: Path | None = None
    status: str = "none"
    """The display of the status, `Style` of crates/lasthop-host."""
    summary: bool = False

    def specification(self, *, spin_us: int, captures: Path | None) -> dict[str, object]:
        """Return the request as `ShellSpec` of crates/lasthop-host; `captures` is a folder for packets."""
        capture = captures and {
            "folder": str(captures),
            "comment": self.cell.key,
            "snap_length": _SNAP_LENGTH,
        }
        return {
            "scenario": json.loads(self.cell.scenario),
            "seed": self.seed,
            "down": self.down and str(self.down.resolve()),
            "up": self.up and str(self.up.resolve()),
            "command": list(self.command),
            "host": self.host,
            "servers": [server._asdict() for server in self.servers],
            "hosts": [host._asdict() for host in self.hosts],
            "status": self.status,
            "summary": self.summary,
            "spin_us": spin_us,
            "capture": capture,
        }


def program_of(cell: _core.Cell) -> Flow | None:
    """Return the flow of a cell that is a real program, if any; of transfers, with their stacks."""
    program = next((flow for flow in resolved(cell)["flow"] if flow["kind"] == "program"), None)
    if program is None or not program.get("transfers"):
        return program
    return cast("Flow", transfers.with_commands(program))


def has_transfers(cell: _core.Cell) -> bool:
    """Whether real programs carry the transfers of a cell."""
    return any(flow.get("transfers") for flow in resolved(cell).get("flow", ()))


class ProgramFacts(TypedDict):
    """The result of a program: exit code, output and duration."""

    exit_code: int
    errors: str
    printed: str
    program_s: float


def columns_of(program: Flow, facts: ProgramFacts, wall_s: float) -> dict[str, list[object]]:
    """Return the columns that a program's run adds to `runs.parquet`, with one row."""
    if facts["exit_code"] in _CANNOT_RUN and not program.get("transfers"):
        reason = last_lines(facts["errors"])[-1]
        raise InputError(
            f"The program {program['name']} cannot be run (exit code {facts['exit_code']}): {reason}"
        )
    own: dict[str, object] = {
        "program": program["name"],
        "exit_code": facts["exit_code"],
        ERRORS: facts["errors"].rstrip(),
        "program_s": facts["program_s"],
        "wall_s": round(wall_s, 6),
    }
    if program.get("transfers"):
        own |= transfers.columns_of(transfers.results_of(program, facts["printed"]))
    elif program.get("json"):
        own |= printed_numbers(facts["printed"], facts["exit_code"])
    return {name: [value] for name, value in own.items()}


def printed_numbers(text: str, exit_code: int) -> dict[str, float]:
    """Return the numbers in a program's JSON output, by the path to each; none for a program that failed.

    Raises `InputError` if a successful program printed something else.
    """
    try:
        # A whole number beyond the range of floats becomes infinite, like a number with a large exponent.
        return dict(_numbers(json.loads(text, parse_int=float), ()))
    except RecursionError:
        reason = "JSON that is nested too deeply"
    except ValueError:
        reason = "text that is not JSON"
    if exit_code:
        return {}
    raise InputError(f"--json: the program printed {reason}: {text.strip()[:_MOST_CHARACTERS]!r}")


def last_lines(text: str) -> list[str]:
    """Return the last lines of a program's output without control characters."""
    lines = [_CONTROL.sub("", line) for line in text.splitlines() if line.strip()]
    return lines[-_LINES:] or ["(nothing)"]


def _numbers(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    """Yield the numbers in objects, except those in lists, whose lengths may differ."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, (*path, re.sub(r"\W+", "_", str(key))))
    elif isinstance(value, float):
        yield PRINTED + "_".join(path), value


def stack(tables: Sequence[Columns]) -> dict[str, list[object]]:
    """Stack tables; columns that a table lacks are None."""
    names = list(dict.fromkeys(name for table in tables for name in table))
    rows = [len(next(iter(table.values()), ())) for table in tables]
    return {
        name: [
            cell
            for table, count in zip(tables, rows, strict=True)
            for cell in table.get(name) or [None] * count
        ]
        for name in names
    }
