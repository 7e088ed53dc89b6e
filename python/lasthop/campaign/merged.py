"""Merging stored results into the records of a plan and their manifest, which is written last."""

import json
import shutil
from collections.abc import Sequence
from typing import cast

from lasthop._core import Cell
from lasthop.campaign.inventory import Inventory
from lasthop.campaign.plan import Plan
from lasthop.campaign.provenance import host_facts
from lasthop.campaign.results.folder import MANIFEST, MERGING, digest, forget_tables
from lasthop.campaign.results.manifest import MEASURE, NOTES, SCENARIO_FILE, TASK, UNTIL
from lasthop.campaign.results.merge import merge_tables
from lasthop.campaign.results.shapes import Manifest, Notes
from lasthop.campaign.results.store import Store
from lasthop.campaign.results.tables import factor_column
from lasthop.common.files import write_text
from lasthop.engines.records import TABLES
from lasthop.scenario.assumptions import for_manifest
from lasthop.scenario.changes import task_factors
from lasthop.scenario.facts import window_text
from lasthop.scenario.points import for_manifest as space_for_manifest


def manifest_of(plan: Plan) -> Manifest:
    """Return the manifest of a plan before its first run."""
    guest = plan.engine.guest
    manifest = {
        "identity": plan.identity(),
        **({} if plan.file is None else {SCENARIO_FILE: str(plan.file.resolve())}),
        "repeatable": plan.repeatable,
        "assumed": for_manifest(plan.study, plan.cells),
        **space_for_manifest(plan.study, plan.cells, factor_column),
        **measured_for_manifest(plan.cells),
        TASK: task_factors(plan.cells, plan.study.factors),
        "host": host_facts() | ({} if guest is None else {"guest": guest}),
    }
    return cast("Manifest", manifest)


def measured_for_manifest(cells: Sequence[Cell]) -> dict[str, str]:
    """Return a manifest's text on the window of time that metrics are of; nothing for whole runs."""
    windows = list(dict.fromkeys(window_text(cell) for cell in cells))
    if windows == [""]:
        return {}
    return {MEASURE: windows[0] if len(windows) == 1 else "in a window that depends on the cell"}


def merge(store: Store, inventory: Inventory) -> Manifest:
    """Write the plan's records from the store; return their manifest."""
    plan, out = inventory.plan, inventory.out
    merging = out / MERGING
    shutil.rmtree(merging, ignore_errors=True)
    merging.mkdir()
    try:
        meanings = {table: plan.meanings(table) for table in TABLES}
        files = merge_tables(store, inventory.locate(), merging, plan.facts(), meanings)
        manifest = _with_runs(inventory)
        manifest["tables"] = {name: digest(merging / name) for name in files}
        # From here on the folder is not finished until its new manifest is written.
        forget_tables(out)
        for name in files:
            (merging / name).rename(out / name)
    finally:
        shutil.rmtree(merging, ignore_errors=True)
    write_text(out / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    return manifest


def _with_runs(inventory: Inventory) -> Manifest:
    """Return the manifest with the facts about the runs."""
    simulation = inventory.facts.get("simulation") or {"runs": 0, "wall_s": 0.0}
    manifest: Manifest = {**manifest_of(inventory.plan), "simulation": simulation}
    if inventory.snap_length is not None:
        manifest["snap_length"] = inventory.snap_length
    if inventory.stopping is not None:
        manifest[UNTIL] = inventory.stopping.record
    notes: Notes | None = None
    for cell, piece in inventory.first_pieces():
        if piece.facts is not None:
            facts = json.loads(piece.facts)
            notes = notes or {"priority": facts["priority"], "differences": {}}
            notes["differences"][cell] = facts["differences"]
    if notes is not None:
        manifest[NOTES] = notes
    return manifest
