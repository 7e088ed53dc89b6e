"""Links with requests and grants: delays by hand and by CableLabs' model, and the claims of the example."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from claims_tools import verdicts
from commands import ROOT
from lasthop import _core
from lasthop.engines.engine import Request
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel

Main = Callable[..., int]

LONE = """
extends = "{preset}"

[[flow]]
kind = "constant-udp"
name = "lone"
direction = "up"
payload = "100 B"
rate = "{rate} bit/s"
start = "1 s"
duration = "{duration}"
"""
REQUEST_MS = 1.62
"""From a request to the first interval that can be granted, in CableLabs' model with its defaults.

Twelve frames of 135 us. They cover 3 frames for the request, 80 us of plant to and fro, 200 us of the
head-end, about 100 us of the way down, and 757 us of the modem.
"""


def waits(main: Main, folder: Path, text: str) -> dict[str, float]:
    """The least, median and greatest wait of the flow's packets in the queue, in milliseconds."""
    file = folder / "lone.toml"
    file.write_text(text, encoding="utf-8")
    assert main("run", file, "--out", folder / "lone", "--quiet") == 0
    flow = pl.read_parquet(folder / "lone" / "flows.parquet").filter(role="lone").row(0, named=True)
    return {name: 1e3 * flow[f"queue_delay_{name}_s"] for name in ("min", "median", "max")}


def lone(preset: str, change: str = "", duration: str = "60 s") -> str:
    """A datagram each 19.13 ms over a preset, at all phases of its intervals."""
    return LONE.format(preset=preset, rate=round(100 * 8 / 19.13e-3), duration=duration) + change


def cablelabs(interval_ms: float, count: int = 100_000) -> tuple[float, float, float]:
    """The waits of lone packets by the description of CableLabs' model: mean, least, most.

    The request goes out at a random place of the next interval. The grant has a random place in the
    first interval that it can be for.
    """
    stream = random.Random(46)
    delays = []
    for _ in range(count):
        arrival, place, slot = (interval_ms * stream.random() for _ in range(3))
        request = interval_ms + place
        granted = math.ceil((request + REQUEST_MS) / interval_ms) * interval_ms
        delays.append(granted + slot - arrival)
    return sum(delays) / count, min(delays), max(delays)


def test_cable_waits_as_in_the_model_of_cablelabs(lasthop_main: Main, tmp_path: Path) -> None:
    """Its waits spread over 2 to 8 ms, what White and others (2019) state for request and grant."""
    mean, least, most = cablelabs(2)
    assert (least, most) == pytest.approx((2, 8), abs=0.1)
    ours = waits(lasthop_main, tmp_path, lone("cable"))
    assert ours["median"] == pytest.approx(5, abs=0.1)
    assert ours["median"] == pytest.approx(mean, rel=0.12)
    assert least < 4 <= ours["min"]
    assert ours["max"] <= 6 < most
    # Without unsolicited grants.
    change = '[up.grant]\nproactive = "0 bit/s"\n'
    ours = waits(lasthop_main, tmp_path, lone("cable-low-latency", change))
    assert ours["median"] == pytest.approx(3.5, abs=0.1)
    assert ours["median"] == pytest.approx(cablelabs(1)[0], rel=0.05)


def test_what_is_granted_without_a_request_is_waited_for_half_an_interval(
    lasthop_main: Main, tmp_path: Path
) -> None:
    ours = waits(lasthop_main, tmp_path, lone("cable-low-latency"))
    assert ours["median"] == pytest.approx(0.5, abs=0.05)
    assert ours["max"] <= 1


def test_a_phone_waits_for_its_opportunity_and_its_grant(lasthop_main: Main, tmp_path: Path) -> None:
    """LTE by Brown and Khan: 6 ms at least from a request to the end of the data's subframe; on average
    half a period more.
    """
    for period_ms in (5, 10):
        grant = f'interval = "1 ms", delay = "5 ms", request = "reserved", period = "{period_ms} ms"'
        change = f'[up]\ngrant = {{ {grant} }}\nlink.rate = "1024 kbit/s"\nqueue.discipline = "drop-tail"\n'
        ours = waits(lasthop_main, tmp_path, lone("none", change))
        # 128 bytes take the whole subframe.
        assert ours["min"] + 1 == pytest.approx(6, abs=0.1)
        assert ours["median"] + 1 == pytest.approx(6 + period_ms / 2, abs=0.2)


def test_the_claims_of_the_example(lasthop_main: Main, tmp_path: Path) -> None:
    """The claims of examples/cable-upload.toml, and its statements on single waits."""
    out = tmp_path / "upload"
    assert lasthop_main("run", ROOT / "examples" / "cable-upload.toml", "--out", out, "--quiet") == 0
    assert verdicts(out) == dict.fromkeys(["idle", "drop-tail", "pie", "low-latency"], "upheld")
    flows = pl.read_parquet(out / "flows.parquet")
    idle = flows.filter(pl.col("modem") != "low-latency", role="game", upload="none")
    assert idle["queue_delay_min_s"].min() >= 0.004
    assert idle["queue_delay_max_s"].max() <= 0.006
    low = flows.filter(role="game", upload="photos", modem="low-latency")
    assert low["queue_delay_max_s"].max() < 0.004
    for modem in ("pie", "low-latency"):
        waited = flows.filter(role="call", upload="photos", modem=modem)["queue_delay_median_s"]
        assert waited.mean() == pytest.approx(0.009, abs=0.002)


def test_the_guest_waits_for_grants_as_the_model_does(tmp_path: Path, kernel: Kernel) -> None:
    """The kernel engine drives the same network, with real sockets in virtual time."""
    file = tmp_path / "lone.toml"
    upload = """
[[flow]]
kind = "bulk-tcp"
name = "upload"
direction = "up"
bytes = "4 MB"
start = "3 s"
tcp.profile = "linux-6"
"""
    file.write_text(lone("cable", upload, "2 s"), encoding="utf-8")
    (cell,) = _core.load(str(file)).cells
    guest, model = KernelEngine(kernel).run_cell(cell, Request(1, 1, 1)).flows, cell.run(1, 1, 1).flows
    (number,) = [index for index, role in enumerate(model["role"]) if role == "lone"]
    for column in ("queue_delay_min_s", "queue_delay_median_s", "queue_delay_max_s"):
        assert guest[column][number] == pytest.approx(model[column][number], abs=1e-4)
    (number,) = [index for index, role in enumerate(model["role"]) if role == "upload"]
    assert guest["elapsed_s"][number] == pytest.approx(model["elapsed_s"][number], rel=0.1)
