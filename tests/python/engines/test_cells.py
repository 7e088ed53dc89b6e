"""The claims of the example with a mobile cell, and the presets with cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from claims_tools import verdicts
from commands import ROOT

Main = Callable[..., int]


def test_only_its_own_download_spoils_the_call(lasthop_main: Main, tmp_path: Path) -> None:
    """The claims of examples/cell-neighbours.toml."""
    out = tmp_path / "out"
    example = ROOT / "examples" / "cell-neighbours.toml"
    assert lasthop_main("run", example, "--out", out, "--quiet") == 0
    assert verdicts(out) == dict.fromkeys(["own", "neighbour", "slots"], "upheld")


@pytest.mark.parametrize(("preset", "round_trip_ms"), [("lte-cell", 70), ("5g-cell", 50)])
def test_a_preset_has_the_round_trip_that_it_states(
    preset: str, round_trip_ms: float, lasthop_main: Main, tmp_path: Path
) -> None:
    scenario = tmp_path / "calls.toml"
    scenario.write_text(
        f"extends = '{preset}'\n"
        "[[flow]]\nkind = 'voip'\nname = 'call'\ndirection = 'both'\nduration = '20 s'\n",
        encoding="utf-8",
    )
    assert lasthop_main("run", scenario, "--out", tmp_path / "out", "--quiet") == 0
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    delays = flows.filter(pl.col("role").str.starts_with("call"))["one_way_delay_p50_s"]
    assert len(delays) == 2
    assert delays.sum() * 1e3 == pytest.approx(round_trip_ms, rel=0.03)
