"""The outlook of kulve2003: the statements of its pages on further scenarios."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from lasthop.commands.cli import main

OUTLOOK = Path(__file__).resolve().parents[3] / "studies" / "kulve2003" / "outlook"


def flows(folder: Path, name: str, only: str) -> pl.DataFrame:
    arguments = ["--only", only, "--quiet", "--out", str(folder / name)]
    assert main(["run", str(OUTLOOK / f"{name}.toml"), *arguments]) == 0
    return pl.read_parquet(folder / name / "flows.parquet")


def test_cached_metrics_help_few_transfers_more_than_many(tmp_path: Path) -> None:
    """Statement K283, for more flows."""
    rows = flows(tmp_path, "more-flows", "link=e0,length=1,workload=2tcp,workload=4tcp,workload=8tcp")
    drops = dict(
        rows.group_by("workload", "variant").agg(pl.mean("data_drops_queue")).map_rows(_keyed).iter_rows()
    )
    left = [
        drops[f"{workload} eifel+cbi"] / drops[f"{workload} eifel"] for workload in ("2tcp", "4tcp", "8tcp")
    ]
    assert left == sorted(left)
    assert left[0] < 0.2
    assert left[2] > 0.7
    # ECN's marks replace drops, and more of them with more transfers.
    assert drops["8tcp eifel+ecn"] < 0.3 * drops["8tcp eifel"]


def test_the_gain_of_cached_metrics_does_not_grow_with_the_transfer(tmp_path: Path) -> None:
    """Statement K283, the other half."""
    rows = flows(tmp_path, "more-flows", "link=e0,workload=2tcp,variant=eifel,variant=eifel+cbi")
    ends = rows.group_by("length", "variant", "replication").agg(pl.max("elapsed_s"))
    times = dict(ends.group_by("length", "variant").agg(pl.median("elapsed_s")).map_rows(_keyed).iter_rows())
    gains = [times[f"{length} eifel"] - times[f"{length} eifel+cbi"] for length in (1, 4, 8)]
    assert gains == pytest.approx([1.6] * 3, abs=0.5)


def _keyed(row: tuple[str, str, float]) -> tuple[str, float]:
    return f"{row[0]} {row[1]}", row[2]


def test_a_stream_that_goes_up_delays_transfers_only_if_it_leaves_acks_no_room(tmp_path: Path) -> None:
    rows = flows(tmp_path, "udp-up", "link=e0,variant=eifel").filter(role="tcp-slower")
    cells = rows.group_by("stream", "up-queue").agg(pl.median("elapsed_s"), pl.mean("ack_drops_queue"))
    results = {(stream, int(room)): (time, drops) for stream, room, time, drops in cells.iter_rows()}
    alone, _ = results["none", 1]
    for stream in ("up", "up-56k"):
        assert results[stream, 1] == results[stream, 20]
        assert results[stream, 1] == (pytest.approx(alone, rel=0.03), 0)
    assert results["up-60k", 1][0] > 1.3 * alone
    assert results["up-60k", 1][1] > 20
    assert results["up-60k", 20][0] < 1.15 * alone


@pytest.mark.parametrize("link", ["e0", "r3"])
def test_a_class_of_its_own_keeps_the_stream_whole(tmp_path: Path, link: str) -> None:
    rows = flows(tmp_path, "diffserv", f"link={link}").filter(role="udp")
    drops = pl.mean("data_drops_queue") + pl.mean("data_drops_red")
    cells = rows.group_by("router", "variant").agg(drops.alias("drops"), pl.median("queue_delay_p95_s"))
    single, own = (cells.filter(router=router) for router in ("one-queue", "classes"))
    assert single["drops"].min() > 10  # type: ignore[operator]
    assert own["drops"].max() <= 0.2  # type: ignore[operator]
    assert own["queue_delay_p95_s"].max() < single["queue_delay_p95_s"].min()  # type: ignore[operator]
