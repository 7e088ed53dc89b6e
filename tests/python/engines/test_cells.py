"""The claims of the example with a mobile cell, and the presets with cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from commands import ROOT

Main = Callable[..., int]

SCHEDULERS = ("round-robin", "proportional-fair")


def test_only_its_own_download_spoils_the_call(lasthop_main: Main, tmp_path: Path) -> None:
    """The claim of examples/cell-neighbours.toml."""
    out = tmp_path / "out"
    example = ROOT / "examples" / "cell-neighbours.toml"
    assert lasthop_main("run", example, "--out", out, "--quiet") == 0
    flows = pl.read_parquet(out / "flows.parquet")
    stations = pl.read_parquet(out / "stations.parquet").filter(direction="down")
    for scheduler in SCHEDULERS:
        call = flows.filter(role="call-down", scheduler=scheduler)
        assert call.filter(download="neighbour")["mos"].min() > 4  # type: ignore[operator]
        for download in ("own", "both"):
            assert call.filter(download=download)["mos"].max() < 3  # type: ignore[operator]
        both = stations.filter(download="both", scheduler=scheduler)
        for station in ("phone", "neighbour"):
            share = both.filter(station=station)["airtime_share"]
            assert share.mean() == pytest.approx(0.5, rel=0.1)
        video = flows.filter(role="video", download="both", scheduler=scheduler)
        assert video["throughput_Bps"].max() * 8 < 3e6  # type: ignore[operator]


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
