"""Common properties of all kinds of flows, on the model and with a real TCP, and their examples."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.engines.engine import Request
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LINK = '[down.link]\nrate = "10 Mbit/s"\ndelay = "10 ms"\n'
BULK = '[[flow]]\nkind = "bulk-tcp"\nname = "a"\n'
UDP = '[[flow]]\nkind = "constant-udp"\nname = "u"\nrate = "64 kbit/s"\npayload = "160 B"\nduration = "1 s"\n'
KEYS = {
    "direction": BULK + 'bytes = "200 kB"\ndirection = "up"\n' + UDP + 'direction = "up"\n',
    "count": BULK + 'bytes = "50 kB"\ncount = 3\nstart = { distribution = "uniform", min = "0 s", max = "1 '
    's" }\n',
    "duration": BULK + 'duration = "1 s"\n',
    "tcp": BULK + 'bytes = "1 MB"\n' + BULK.replace('"a"', '"old"') + 'bytes = "1 MB"\nstart = "2 s"\n'
    'tcp = { congestion_control = "reno", sack = false, timestamps = false, initial_window = 2 }\n',
    "access": BULK + 'bytes = "200 kB"\naccess = { delay = "20 ms", rate = "50 Mbit/s" }\n',
}  # fmt: skip


def cell(tmp_path: Path, text: str) -> _core.Cell:
    file = tmp_path / "flows.toml"
    file.write_text(LINK + text, encoding="utf-8")
    (only,) = _core.load(str(file)).cells
    return only


@pytest.mark.parametrize("key", KEYS)
def test_a_real_tcp_does_what_the_model_does(kernel: Kernel, tmp_path: Path, key: str) -> None:
    only = cell(tmp_path, KEYS[key])
    model, guest = only.run(1, 1, 1).flows, KernelEngine(kernel).run_cell(only, Request(1, 1, 1)).flows
    for column in ("flow", "application", "role", "direction", "outcome"):
        assert guest[column] == model[column], column
    measured = "throughput_Bps" if key == "duration" else "elapsed_s"
    assert guest[measured] == pytest.approx(model[measured], rel=0.02)
    # What is left in the socket of the stopping transfer is sent, too.
    close = 0.1 if key == "duration" else 0.02
    assert guest["sent_packets"] == pytest.approx(model["sent_packets"], rel=close)
    if key == "tcp":
        assert [run["sack_blocks"][1] for run in (model, guest)] == [0, 0]
        assert min(run["sack_blocks"][0] for run in (model, guest)) > 0
    if key == "access":
        assert guest["rtt_min_s"][0] == pytest.approx(0.06, abs=0.002)


def example(name: str, replications: int) -> pl.DataFrame:
    """The flows of the first replications of each cell of an example."""
    frames = []
    for cell in _core.load(str(EXAMPLES / f"{name}.toml")).cells:
        levels = {factor: pl.lit(level) for factor, level in cell.levels.items()}
        frames.append(pl.DataFrame(cell.run(1, 1, replications).flows).with_columns(**levels))
    return pl.concat(frames)


def test_fair_queueing_keeps_the_latency_of_a_loaded_link_low() -> None:
    """The claim of examples/rrul.toml, flent's test."""
    flows = example("rrul", 2)
    assert flows["role"].n_unique() == 4
    assert flows.height == 2 * 2 * 10
    delays, throughputs = (means(flows, column) for column in ("queue_delay_p95_s", "throughput_Bps"))
    for stream in ("ping", "pong"):
        assert delays["fq_codel", stream] < 0.1 * delays["drop-tail", stream]
    for transfer in ("download", "upload"):
        assert throughputs["fq_codel", transfer] > 0.9 * throughputs["drop-tail", transfer]


def means(flows: pl.DataFrame, column: str) -> dict[tuple[str, str], float]:
    """The mean of a column over the flows of each role, by level of the queue."""
    table = flows.group_by("queue", "role").agg(pl.col(column).mean())
    return {(queue, role): mean for queue, role, mean in table.rows()}


def test_cubic_takes_more_of_a_long_fast_path_than_reno() -> None:
    """The claim of examples/coexistence.toml."""
    flows = example("coexistence", 3)
    assert set(flows["outcome"]) == {"closed"}
    by_role = means(flows.with_columns(queue=pl.lit("all")), "throughput_Bps")
    assert by_role["all", "cubic"] > 1.5 * by_role["all", "reno"], by_role


def test_dualpi2_shares_the_link_and_keeps_pragues_packets_waiting_a_millisecond() -> None:
    """The claims of examples/l4s.toml."""
    flows = example("l4s", 1)
    throughputs, delays = (means(flows, column) for column in ("throughput_Bps", "queue_delay_p95_s"))
    assert 0.5 < throughputs["dualpi2", "prague"] / throughputs["dualpi2", "cubic"] < 2, throughputs
    assert throughputs["codel", "prague"] > 4 * throughputs["codel", "cubic"], throughputs
    assert 10 * delays["dualpi2", "prague"] < 0.015 < delays["dualpi2", "cubic"], delays


def test_bursts_cost_prague_its_throughput_and_cubic_behind_fq_codel() -> None:
    """The claims of examples/l4s-bursts.toml."""
    flows = example("l4s-bursts", 1)

    def of(column: str, control: str, queue: str) -> dict[str, float]:
        rows = flows.filter(control=control, queue=queue)
        return dict(rows.select("bursts", column).iter_rows())

    prague, cubic = (of("throughput_Bps", control, "dualpi2") for control in ("prague", "cubic"))
    for bursts, least, most in (
        ("slots-1ms", 0.95, 1.0),
        ("wifi", 0.95, 1.0),
        ("slots-4ms", 0.2, 0.4),
        ("slots-16ms", 0.05, 0.1),
        ("wifi-busy", 0.4, 0.6),
    ):
        assert least < prague[bursts] / prague["none"] < most, (bursts, prague)
    assert max(of("queue_delay_p95_s", "prague", "dualpi2").values()) < 0.003
    for bursts in ("slots-1ms", "slots-4ms", "wifi", "wifi-busy"):
        assert cubic[bursts] > 0.9 * cubic["none"], cubic
    assert min(of("queue_delay_p95_s", "cubic", "dualpi2").values()) > 0.01
    behind_fq = of("throughput_Bps", "cubic", "fq_codel")
    assert behind_fq["slots-1ms"] < 0.1 * behind_fq["none"], behind_fq
    for control in ("prague", "cubic"):
        long = of("throughput_Bps", control, "drop-tail")
        assert min(long.values()) > 0.9 * long["none"], long


def test_bbr_leaves_cubic_little_of_a_short_queue(kernel: Kernel, tmp_path: Path) -> None:
    """The claim of examples/coexistence-bbr.toml, of a shorter run."""
    for name in ("coexistence", "coexistence-bbr"):
        text = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8").replace('"20 s"', '"12 s"')
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    (only,) = _core.load(str(tmp_path / "coexistence-bbr.toml")).cells
    for run in (only.run(1, 1, 1), KernelEngine(kernel).run_cell(only, Request(1, 1, 1))):
        by_role = means(pl.DataFrame(run.flows).with_columns(queue=pl.lit("all")), "throughput_Bps")
        assert by_role["all", "bbr"] > 3 * by_role["all", "cubic"], by_role


@pytest.mark.parametrize("name", ["coexistence", "rrul"])
def test_the_question_fits_in_twenty_lines(name: str) -> None:
    lines = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line and not line.startswith("#")]) < 20
