"""Time series of a run: their sums, and the files that `lasthop export` writes."""

from __future__ import annotations

import math
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
import pyarrow.parquet
import pytest

from lasthop import _core
from lasthop.engines.engine import CaptureTarget, Observation, Request, SeriesTarget
from lasthop.engines.kernel import kernel_engine
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel
from lasthop.scenario.points import read_study
from observing import observe, traced

ROOT = Path(__file__).resolve().parents[4]
Main = Callable[..., int]

BOTH_WAYS = """
[down.link]
rate = "1 Mbit/s"
delay = "30 ms"
loss = "1 %"

[up.link]
rate = "400 kbit/s"

[down.queue]
discipline = "codel"

[[flow]]
kind = "bulk-tcp"
name = "down, quoted"
bytes = "300 kB"

[[flow]]
kind = "bulk-tcp"
name = "up"
direction = "up"
bytes = "150 kB"

[[flow]]
kind = "constant-udp"
name = "call"
direction = "up"
rate = "64 kbit/s"
payload = "160 B"
duration = "5 s"
"""


def cells_of(tmp_path: Path, name: str) -> list[_core.Cell]:
    if name == "both-ways":
        file = tmp_path / "both-ways.toml"
        file.write_text(BOTH_WAYS, encoding="utf-8")
    else:
        file = ROOT / name
    cells = list(read_study(file).cells)
    return cells[:: max(1, len(cells) // 3)]


def series_of(cell: _core.Cell, file: Path, step_ms: int) -> pl.DataFrame:
    observe(cell, 1, 1, 1, Observation(series=SeriesTarget(file, step_ms * 1_000_000)))
    return pl.read_csv(file, infer_schema_length=None)


def drops(flows: pl.DataFrame, way: str) -> int:
    columns = [name for name in flows.columns if name.startswith(f"{way}_drops")]
    return int(flows.select(pl.sum_horizontal(columns)).sum().item())


@pytest.mark.parametrize(
    "name",
    [
        "both-ways",
        "examples/queue.toml",
        "examples/disciplines.toml",
        "examples/lossy.toml",
        "examples/trace.toml",
        "examples/atm.toml",
        "examples/web-page.toml",
        "studies/kulve2003/study.toml",
    ],
)
def test_steps_add_up_to_the_records_of_the_run(tmp_path: Path, name: str) -> None:
    for number, cell in enumerate(cells_of(tmp_path, name)):
        table = series_of(cell, tmp_path / f"{number}.csv", 130)
        columns = traced(cell, 1, 1, 1).flows
        flows = pl.DataFrame(dict(columns), strict=False, infer_schema_length=None)
        hop, of_flows = table.filter(pl.col("flow").is_null()), table.drop_nulls("flow")
        direction = dict(of_flows.select("flow", "direction").iter_rows())
        for flow in flows.iter_rows(named=True):
            own = of_flows.filter(flow=flow["flow"])
            lost = sum(value for key, value in flow.items() if key.startswith("data_drops"))
            assert own["lost_packets"].sum() == lost, (cell.key, flow["flow"])
            if flow["outcome"] == "closed" and flow["protocol"] == "tcp":
                arrived = round(own["goodput_Bps"].sum() * 0.13)
                assert arrived == round(flow["throughput_Bps"] * flow["elapsed_s"]), (cell.key, flow["flow"])
        for way, back in (("down", "up"), ("up", "down")):
            down = flows.filter(pl.col("flow").is_in([flow for flow, own in direction.items() if own == way]))
            up = flows.filter(pl.col("flow").is_in([flow for flow, own in direction.items() if own == back]))
            of_hop = hop.filter(direction=way)
            assert of_hop["lost_packets"].sum() == drops(down, "data") + drops(up, "ack")
            assert of_hop["time_s"].to_list() == pytest.approx([0.13 * step for step in range(of_hop.height)])
            both = of_flows.filter(direction=way).group_by("time_s").agg(pl.col("goodput_Bps").sum())
            assert of_hop["goodput_Bps"].sum() == pytest.approx(both["goodput_Bps"].sum())


def test_the_whole_queue_is_that_of_its_flows_and_their_acks(tmp_path: Path) -> None:
    cell = cells_of(tmp_path, "examples/queue.toml")[0]
    table = series_of(cell, tmp_path / "queue.csv", 100)
    run = cell.run(1, 1, 1).runs
    down = table.filter(pl.col("flow").is_null(), direction="down")
    mean = down["queue_mean_packets"].sum() * 0.1 / run["duration_s"][0]
    assert mean == pytest.approx(run["queue_mean_packets"][0])
    assert down["queue_max_packets"].max() == run["queue_max_packets"][0]
    of_flows = table.drop_nulls("flow")["queue_mean_packets"].sum()
    assert of_flows == pytest.approx(down["queue_mean_packets"].sum())  # no ACK goes down


def test_fairness_is_jains_index_of_the_flows_in_the_table(tmp_path: Path) -> None:
    cell = cells_of(tmp_path, "examples/two-flows.toml")[0]
    table = series_of(cell, tmp_path / "two.csv", 500)
    checked = 0
    for step in table.drop_nulls("flow").partition_by("time_s"):
        goodputs = step["goodput_Bps"].to_numpy()
        [hop] = table.filter(pl.col("flow").is_null(), direction="down", time_s=step["time_s"][0]).to_dicts()
        if hop["sending_flows"] == len(goodputs) == 2 and goodputs.any():
            assert hop["fairness_jain"] == pytest.approx(goodputs.sum() ** 2 / (2 * (goodputs**2).sum()))
            checked += 1
    assert checked > 10


def test_no_step_carries_more_than_the_capacity_that_follows_the_link(tmp_path: Path) -> None:
    file = tmp_path / "change.toml"
    change = '[[down.link.change]]\nat = "3500 ms"\nrate = "200 kbit/s"\n'
    link = f'[down.link]\nrate = "1 Mbit/s"\ndelay = "30 ms"\n{change}'
    file.write_text(f'{link}[[flow]]\nkind = "bulk-tcp"\nbytes = "800 kB"\n', encoding="utf-8")
    tables = [
        series_of(cell, tmp_path / f"{number}.csv", 1000).filter(pl.col("flow").is_null(), direction="down")
        for number, cell in enumerate(
            [_core.load(str(file)).cells[0], *cells_of(tmp_path, "examples/trace.toml")[:1]]
        )
    ]
    assert tables[0]["capacity_Bps"].to_list()[:5] == pytest.approx([125_000] * 3 + [75_000, 25_000])
    for table in tables:
        assert table["capacity_Bps"].n_unique() > 1
        # A packet in flight across the boundary of two steps counts for the second.
        assert (table["goodput_Bps"] <= table["capacity_Bps"] + 1500.0).all()


def test_one_way_delays_are_those_of_the_trace(tmp_path: Path) -> None:
    for name in ("both-ways", "examples/queue.toml"):
        trace = traced(cells_of(tmp_path, name)[0], 1, 1, 1)
        packets = pl.DataFrame(
            {
                key: trace.packets[key]
                for key in ("event", "flow", "direction", "serial", "time_ns", "payload_bytes")
            }
        ).filter(pl.col("payload_bytes") > 0)
        sent = packets.filter(event="sent").select("serial", sent_ns="time_ns")
        arrived = packets.filter(event="delivered").join(sent, on="serial")
        for number, flow in enumerate(trace.flows["flow"]):
            delays = (
                arrived.filter(flow=number).select((pl.col("time_ns") - pl.col("sent_ns")) / 1e9).to_series()
            )
            assert len(delays) == trace.flows["received_packets"][number]
            for quantile in (50, 95, 99):
                measured = trace.flows[f"one_way_delay_p{quantile}_s"][number]
                assert measured == pytest.approx(np.percentile(delays, quantile), rel=1e-9), (flow, quantile)


def test_the_files_say_what_they_hold(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    source = ROOT / "examples" / "queue.toml"
    assert lasthop_main("export", source, "--step", "0.5 s", "--out", "a.parquet") == 0
    assert lasthop_main("export", source, "--step", "500ms", "--out", "a.csv") == 0
    assert (
        lasthop_main("export", source, "--only", "queue=long", "--replication", "2", "--out", "b.parquet")
        == 0
    )
    assert "replication 2 of set 1" in capsys.readouterr().out
    whole = pl.read_parquet("a.parquet")
    assert whole.columns[:5] == ["queue", "set", "replication", "time_s", "flow"]
    assert whole["queue"].unique(maintain_order=True).to_list() == ["short", "long"]
    csv = pl.read_csv("a.csv", schema=whole.schema)
    assert csv.equals(whole)
    assert set(pl.read_parquet("b.parquet").select("queue", "replication").iter_rows()) == {("long", 2)}
    file = pyarrow.parquet.ParquetFile("a.parquet")
    assert file.schema_arrow.field("goodput_Bps").metadata[b"unit"] == b"B/s"
    assert file.metadata.metadata[b"lasthop.step_s"] == b"0.5"
    assert all(
        field.metadata[b"description"]
        for field in file.schema_arrow
        if field.name not in ("set", "replication")
    )


def test_the_same_run_gives_the_same_bytes_and_steps_of_any_length_the_same_sums(
    lasthop_main: Main, tmp_path: Path
) -> None:
    source = ROOT / "examples" / "queue.toml"
    for name in ("a.csv", "b.csv"):
        assert lasthop_main("export", source, "--out", name) == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    cell = cells_of(tmp_path, "examples/queue.toml")[0]
    sums = set()
    for step_ms in (1, 7, 100, 60_000):
        table = series_of(cell, tmp_path / f"{step_ms}.csv", step_ms).drop_nulls("flow")
        sums.add((round(table["goodput_Bps"].sum() * step_ms / 1e3), table["lost_packets"].sum()))
    assert len(sums) == 1
    assert not math.isclose(sums.pop()[0], 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--step", "100"], "Give a number and a unit, such as 100ms"),
        (["--step", "3 parsecs"], "Give a number and a unit, such as 100ms"),
        (["--step", "0 s"], "too short"),
        (["--as", "csv", "--out", "x.xls"], "did you mean 'x.csv'?"),
        (["--only", "queue=sort"], "did you mean 'short'?"),
        (["--replication", "11"], "has 10 replications"),
    ],
)
def test_wrong_requests_leave_nothing(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    arguments = arguments if "--out" in arguments else [*arguments, "--out", "x.csv"]
    assert lasthop_main("export", ROOT / "examples" / "queue.toml", *arguments) == 2
    assert message in capsys.readouterr().err
    assert list(Path().iterdir()) == []


def test_nothing_is_overwritten(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.csv").write_text("mine", encoding="utf-8")
    assert lasthop_main("export", ROOT / "examples" / "queue.toml", "--out", "x.csv") == 2
    assert "already exists" in capsys.readouterr().err
    assert Path("x.csv").read_text(encoding="utf-8") == "mine"


def test_a_folder_of_results_has_the_series_of_its_runs(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "queue.toml", tmp_path / "results"
    file.write_text((ROOT / "examples" / "queue.toml").read_text(encoding="utf-8"), encoding="utf-8")
    some = ("--only", "queue=short", "--replications", "3", "--seed", "7")
    assert lasthop_main("run", file, *some, "--out", out, "--quiet") == 0
    assert lasthop_main("export", out, "--replication", "2", "--out", "folder.csv") == 0
    assert lasthop_main("export", file, *some, "--replication", "2", "--out", "file.csv") == 0
    assert Path("folder.csv").read_bytes() == Path("file.csv").read_bytes()

    def refused(*options: str) -> str:
        capsys.readouterr()
        assert lasthop_main("export", out, *options, "--out", "other.csv") == 2
        return capsys.readouterr().err

    assert "already determines this" in refused("--seed", "7")
    assert "has no results of these cells. Its cells: queue=short" in refused("--only", "queue=long")
    assert "a set of 'queue' has 3 replications" in refused("--replication", "4")
    file.write_text(file.read_text(encoding="utf-8").replace("1 MB", "2 MB"), encoding="utf-8")
    assert "has changed since" in refused()
    file.unlink()
    assert "does not exist" in refused()


UNEVEN = """
replications = 6
down.link = { rate = "1 Mbit/s", delay = "30 ms", loss = "1 %" }

[[flow]]
kind = "bulk-tcp"
name = "one"
bytes = "200 kB"
start = { distribution = "uniform", min = "0 s", max = "2 s" }

[[flow]]
kind = "bulk-tcp"
name = "two"
bytes = "100 kB"
start = { distribution = "uniform", min = "0 s", max = "2 s" }

[factor.queue]
short.down.queue.limit = "10 packets"
long.down.queue.limit = "100 packets"
"""


def test_over_replications_the_median_and_the_band_are_those_of_all_of_them(
    tmp_path: Path, lasthop_main: Main
) -> None:
    """Equal to the series of single replications, where a value without a row is 0, or missing if unknown."""
    file = tmp_path / "uneven.toml"
    file.write_text(UNEVEN, encoding="utf-8")
    command = ("export", file, "--only", "queue=short", "--step", "200ms")
    assert lasthop_main(*command, "--over", "replications", "--out", "folded.parquet") == 0
    singles = []
    for number in range(1, 7):
        assert lasthop_main(*command, "--replication", number, "--out", f"{number}.parquet") == 0
        singles.append(pl.read_parquet(f"{number}.parquet"))
    folded = pl.read_parquet("folded.parquet")
    assert folded.columns[:6] == ["queue", "set", "flow", "direction", "time_s", "metric"]
    zeros = {"goodput_Bps", "lost_packets", "marks_ecn", "queue_mean_packets", "queue_max_packets"}
    kinds = Counter[str]()
    for row in folded.iter_rows(named=True):
        same = pl.col("flow").is_null() if row["flow"] is None else pl.col("flow") == row["flow"]
        matches = [
            single.filter(same, time_s=row["time_s"], direction=row["direction"]) for single in singles
        ]
        values = [
            value for single in matches if single.height and (value := single[row["metric"]][0]) is not None
        ]
        if row["metric"] == "fairness_jain":  # only where several had data to send
            several = [single for single in matches if single.height and single["sending_flows"][0] > 1]
            values = [value for single in several if (value := single["fairness_jain"][0]) is not None]
        if row["metric"] in zeros or row["metric"] == "sending_flows":
            kinds["filled"] += len(values) < 6
            values += [0] * (6 - len(values))
        kinds[row["metric"]] += 1
        assert row["replications"] == len(values)
        bounds = np.percentile(values, [10, 50, 90])
        assert [row["low"], row["median"], row["high"]] == pytest.approx(bounds.tolist()), row
    assert kinds["filled"] > 10
    assert {"cwnd", "srtt_s", "fairness_jain", "capacity_Bps", *zeros} <= set(kinds)
    columns = pyarrow.parquet.ParquetFile("folded.parquet").schema_arrow
    assert all(
        columns.field(name).metadata[b"description"]
        for name in ("metric", "replications", "median", "low", "high")
    )


def test_series_that_cannot_be_folded_over_replications_are_errors(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "uneven.toml"

    def refused(*options: object) -> str:
        assert lasthop_main("export", *options, "--over", "replications", "--out", "out.csv") == 2
        assert not Path("out.csv").exists()
        return capsys.readouterr().err

    file.write_text(UNEVEN.replace("factor.queue", "factor.median"), encoding="utf-8")
    assert "The factor 'median' has the name of a column" in refused(file)
    file.write_text(UNEVEN, encoding="utf-8")
    assert "--replication chooses one run" in refused(file, "--replication", 2)
    until = ("--until", "median(elapsed_s) of one within 50 %", "--replications", 12)
    assert lasthop_main("run", file, "--only", "queue=short", *until, "--out", "precise", "--quiet") == 0
    capsys.readouterr()
    assert "different numbers of replications" in refused("precise")


def test_a_guest_sends_a_series_in_parts_while_it_runs_and_runs_as_without(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def unpacked(
        sent: BinaryIO, captures: Mapping[int, CaptureTarget], series: SeriesTarget | None
    ) -> dict[str, Any]:
        sent.seek(0)
        with tarfile.open(fileobj=sent) as archive:
            sizes.extend(member.size for member in archive if member.name == "series.csv")
        return unpack(sent, captures, series)

    unpack = kernel_engine._unpack
    monkeypatch.setattr(kernel_engine, "_unpack", unpacked)
    engine, cell = KernelEngine(kernel), cells_of(tmp_path, "examples/queue.toml")[0]
    file = tmp_path / "parts.csv"
    series = Observation(series=SeriesTarget(file, 1_000_000))
    run = engine.run_cell(cell, Request.of_one(1, 1, 1, series))
    assert len(sizes) > 4
    assert max(sizes) < 500_000 < sum(sizes) == file.stat().st_size
    assert run.flows == engine.run_cell(cell, Request(1, 1, 1)).flows


def test_a_guest_kernel_gives_a_series_that_adds_up_too(kernel: Kernel, tmp_path: Path) -> None:
    engine, cell = KernelEngine(kernel), cells_of(tmp_path, "examples/queue.toml")[0]
    wanted = Observation(series=SeriesTarget(tmp_path / "kernel.csv", 100_000_000))
    observe(cell, 1, 1, 1, wanted, engine=engine)
    table = pl.read_csv(tmp_path / "kernel.csv", infer_schema_length=None).drop_nulls("flow")
    flows = engine.run_cell(cell, Request(1, 1, 1)).flows
    for number, flow in enumerate(flows["flow"]):
        lost = sum(cells[number] for name, cells in flows.items() if name.startswith("data_drops"))
        assert table.filter(flow=flow)["lost_packets"].sum() == lost
        assert flows["one_way_delay_p50_s"][number] > 0.05
    assert table.filter(flow="download")["goodput_Bps"].sum() * 0.1 == pytest.approx(1e6)
