"""The commands `lasthop results size` and `lasthop results gc`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from lasthop.campaign.results.folder import (
    RECORDS,
    TRACES,
    locked,
    opened_to_read,
    read_manifest,
    tables_are_whole,
)
from lasthop.campaign.results.shapes import Identity, Simulation
from lasthop.campaign.results.store import STORE, DamagedBatchError, Piece, Store
from lasthop.commands.basic import FOLDER
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import counted

_CELLS_NAMED = 10


@dataclass(frozen=True, slots=True)
class Holding:
    """The pieces of a store compared with the last plan; `missing` counts runs by cell."""

    identity: Identity | None
    simulation: Simulation | None
    used: Sequence[Piece]
    unused: Sequence[Piece]
    there: int
    missing: dict[str, int]

    @property
    def asked(self) -> int:
        return self.there + sum(self.missing.values())


def look(store: Store) -> Holding:
    """Compare the contents of a store with the last plan."""
    facts, pieces = store.facts(), store.pieces()
    identity = facts.get("identity")
    cells = [] if identity is None else identity["cells"]
    by_source: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_source.setdefault(piece.source, []).append(piece)
    used: set[Piece] = set()
    there, missing = 0, dict.fromkeys(cells, 0)
    asked, counts = facts.get("asked", []), facts.get("counts", [])
    for unit, ((source, first), count) in enumerate(zip(asked, counts, strict=True)):
        owners: dict[int, Piece] = {}
        for piece in by_source.get(source, ()):
            numbers = range(max(first, piece.first), min(first + count, piece.first + piece.count))
            owners.update(dict.fromkeys(numbers, piece))
        used.update(owners.values())
        there += len(owners)
        missing[cells[unit % len(cells)]] += count - len(owners)
    unused = [piece for piece in pieces if piece not in used]
    in_order = [piece for piece in pieces if piece in used]
    return Holding(identity, facts.get("simulation"), in_order, unused, there, missing)


def _describe(folder: Path, holding: Holding) -> Iterator[str]:
    identity, simulation = holding.identity, holding.simulation
    name, engine = ("none", "none") if identity is None else (identity["scenario"], identity["engine"])
    cells = 0 if identity is None else len(identity["cells"])
    yield f"{'scenario':<12}{name}, {counted(cells, 'cell')}, engine {engine}"
    version, commit = (
        (None, None) if identity is None else (identity["lasthop_version"], identity["lasthop_commit"])
    )
    yield f"{'made by':<12}lasthop {version} (commit {commit})"
    for condition in identity.get("until", ()) if identity is not None else ():
        yield f"{'until':<12}{condition}"
    lacking = holding.asked - holding.there
    yield f"{'runs':<12}{holding.asked} requested, {holding.there} stored, {lacking} missing"
    for cell, count in [item for item in holding.missing.items() if item[1]][:_CELLS_NAMED]:
        yield f"{'':<12}{count} missing of {cell or 'the only cell'}"
    others = sum(piece.count for piece in holding.unused)
    yield f"{'others':<12}{others} runs that the last command did not use"
    tables = sum(_bytes(folder / name) for name in RECORDS)
    sizes = (("store", _bytes(folder / STORE)), ("tables", tables), ("captures", _bytes(folder / TRACES)))
    yield f"{'size':<12}" + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes)
    runs, wall_s = (0, 0.0) if simulation is None else (simulation["runs"], simulation["wall_s"])
    yield f"{'simulated':<12}{runs} runs in {wall_s:.2f} s"
    manifest = read_manifest(folder)
    if manifest is None or manifest["identity"] != identity:
        state = "not finished; repeat the command to continue"
    elif tables_are_whole(folder, manifest):
        state = "finished"
    else:
        state = "tables were modified or are missing; repeat the command to write them again"
    yield f"{'state':<12}{state}"


def _bytes(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size if path.is_file() else 0


def _check(folder: Path) -> None:
    if not (folder / STORE).is_file():
        raise InputError(
            f"{folder} has no {STORE}; give a folder that 'lasthop run' or 'lasthop study run' wrote."
        )


def _collect(store: Store, holding: Holding) -> None:
    """Delete the pieces that the last plan does not use."""
    positions: dict[int, list[int]] = {}
    for piece in holding.used:
        positions.setdefault(piece.batch, []).append(piece.position)
    touched = {piece.batch for piece in holding.unused}
    store.drop([batch for batch in touched if batch not in positions])
    for batch in sorted(touched & positions.keys()):
        try:
            store.keep_only(batch, positions[batch])
        except DamagedBatchError:
            store.drop([batch])
    store.compact()


@click.command("size")
@click.argument("folder", metavar="DIR", type=FOLDER)
def size_command(*, folder: Path) -> None:
    """Show the number of runs in a results folder, and its size.

    The numbers refer to the last command that wrote to DIR: runs requested, runs stored, disk space and
    simulation time. DIR may contain other runs, for example of an earlier version of the scenario.

    Example: lasthop results size results/kulve2003
    """
    _check(folder)
    with opened_to_read(folder) as store:
        holding = look(store)
    for line in _describe(folder, holding):
        click.echo(line)


@click.command("gc")
@click.argument("folder", metavar="DIR", type=FOLDER)
def gc_command(*, folder: Path) -> None:
    """Remove stored runs that the last command did not use.

    DIR is a results folder. Its tables and report stay unchanged.

    Example: lasthop results gc results/kulve2003
    """
    _check(folder)
    with locked(folder):
        before = _bytes(folder / STORE)
        with Store(folder) as store:
            holding = look(store)
            _collect(store, holding)
        freed = (before - _bytes(folder / STORE)) / 1e6
    click.echo(f"Removed {sum(piece.count for piece in holding.unused)} runs from {folder}: {freed:.1f} MB.")
