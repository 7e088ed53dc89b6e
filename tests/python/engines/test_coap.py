"""CoAP requests: the example, real sockets, and aiocoap in virtual time over the same line."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.engines.engine import Request
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel
from test_live import run_shell

Main = Callable[..., int]
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "coap.toml"
LINE = """
time_limit = "20 h"
down.link = {{ rate = "20 kbit/s", delay = "{delay}", loss = "{loss}" }}
up.link = {{ rate = "20 kbit/s", delay = "{delay}", loss = "{loss}" }}
"""
LIMIT_S = 600.0
REQUESTS = """
[[flow]]
kind = "coap"
direction = "up"
requests = 400
request = "86 B"
response = "26 B"
interval = "100 s"
"""
PEER = """
import asyncio, json, sys, time
import aiocoap
from aiocoap import resource

class Readings(resource.Resource):
    async def render_post(self, request):
        return aiocoap.Message(code=aiocoap.CHANGED)

async def serve():
    site = resource.Site()
    site.add_resource(["r"], Readings())
    await aiocoap.Context.create_server_context(site, bind=("::", 5683))
    await asyncio.get_running_loop().create_future()

async def request(context, taken):
    begun = time.monotonic()
    message = aiocoap.Message(code=aiocoap.POST, uri="coap://server/r", payload=bytes(50))
    try:
        await context.request(message).response
        taken.append(round(time.monotonic() - begun, 3))
    except aiocoap.error.Error:
        pass

async def ask():
    context = await aiocoap.Context.create_client_context()
    taken, requests = [], []
    for _ in range(400):
        requests.append(asyncio.create_task(request(context, taken)))
        await asyncio.sleep(100)
    await asyncio.gather(*requests)
    print(json.dumps(taken))

asyncio.run(serve() if sys.argv[1] == "serve" else ask())
"""


def cell(folder: Path, text: str) -> _core.Cell:
    file = folder / "coap.toml"
    file.write_text(text, encoding="utf-8")
    return _core.load(str(file)).cells[0]


def test_the_example_shows_what_it_claims(tmp_path: Path, lasthop_main: Main) -> None:
    assert lasthop_main("run", EXAMPLE, "--out", tmp_path / "out", "--quiet") == 0
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    of = {
        level: flows.filter(pl.col("ack_timeout") == level).mean().row(0, named=True)
        for level in ("2s", "4s", "8s")
    }
    assert of["2s"]["completion_p50_s"] > 2 * of["4s"]["completion_p50_s"]
    assert of["2s"]["retransmitted_packets"] > of["2s"]["requests"]
    assert of["4s"]["spurious_timeouts"] == of["8s"]["spurious_timeouts"] == 0
    assert of["8s"]["completion_p50_s"] == pytest.approx(of["4s"]["completion_p50_s"], rel=0.01)
    assert of["8s"]["completion_p95_s"] > of["4s"]["completion_p95_s"]


def test_real_sockets_carry_what_the_model_sends(kernel: Kernel, tmp_path: Path) -> None:
    """The same requests are lost, sent again and given up."""
    parsed = cell(tmp_path, LINE.format(delay="100 ms", loss="20 %") + REQUESTS.replace("400", "100"))
    model, real = (
        pl.DataFrame(records.flows).row(0, named=True)
        for records in (parsed.run(1, 1, 1), KernelEngine(kernel).run_cell(parsed, Request(1, 1, 1)))
    )
    for name in (
        "requests_completed",
        "sent_packets",
        "timeouts",
        "retransmitted_packets",
        "data_drops_error",
    ):
        assert real[name] == model[name], name
    assert model["retransmitted_packets"] > 10
    for name in ("completion_p50_s", "completion_mean_s", "completion_max_s"):
        assert real[name] == pytest.approx(model[name], rel=1e-3), name


@pytest.mark.long(by_hand="fetches aiocoap from PyPI")
def test_aiocoap_sends_the_same_packets(kernel: Kernel, tmp_path: Path) -> None:
    """400 requests over lines that lose 20 % of the packets, five seeds, and over a line without losses whose
    round trip of 2.47 s is longer than nearly half of the timers.
    """
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "own"], check=True)
    python = tmp_path / "own" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "aiocoap==0.4.17"], check=True)
    peer = tmp_path / "peer.py"
    peer.write_text(PEER, encoding="utf-8")
    for delay, loss, seed in [*(("100 ms", "20 %", seed) for seed in range(1, 6)), ("1.2 s", "0 %", 1)]:
        line = tmp_path / "line.toml"
        line.write_text(LINE.format(delay=delay, loss=loss), encoding="utf-8")
        options = ["--engine", "kernel", "--kernel", kernel.name, "--link", line, "--seed", seed]
        options += ["--server", f"{python} {peer} serve", "--", python, peer, "ask"]
        ran = run_shell(*map(str, options), timeout_s=LIMIT_S)
        assert ran.returncode == 0, ran.stderr
        times = sorted(json.loads(ran.stdout.splitlines()[-1]))
        sent = {
            line.split()[0]: int(line.split()[1]) for line in ran.stderr.splitlines() if " sent, " in line
        }
        model = pl.DataFrame(
            cell(tmp_path, LINE.format(delay=delay, loss=loss) + REQUESTS).run(seed, 1, 1).flows
        )
        expected = model.row(0, named=True)
        assert len(times) == expected["requests_completed"]
        assert statistics.median(times) == pytest.approx(expected["completion_p50_s"], abs=1e-3)
        ours = {"up": expected["sent_packets"], "down": expected["received_packets"]}
        if loss == "0 %":
            # Each timer is drawn between 2 s and 3 s.
            likely = 400 * 0.467
            for again in (sent["up"] - 400, ours["up"] - 400):
                assert abs(again - likely) < 4 * math.sqrt(likely * 0.533)
        else:
            assert sent == ours
            assert statistics.mean(times) == pytest.approx(expected["completion_mean_s"], rel=0.05)
