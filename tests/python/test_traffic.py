"""Kinds of traffic: short scenarios of each on the model and on the kernel engine, and what is said of wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.engines.kernel.engine import KernelEngine
from lasthop.engines.kernel.store import Kernel
from lasthop.metrics.units import human

Main = Callable[..., int]

LINK = '[down.link]\nrate = "1 Mbit/s"\ndelay = "30 ms"\n'
BULK = '[[flow]]\nkind = "bulk-tcp"\nbytes = "500 kB"\n'
CALL = '[[flow]]\nkind = "voip"\n'
Flows = dict[str, dict[str, float]]


def cell(folder: Path, *parts: str) -> _core.Cell:
    file = folder / "traffic.toml"
    file.write_text(LINK + "".join(parts), encoding="utf-8")
    return _core.load(str(file)).cells[0]


def by_name(records: _core.Records) -> Flows:
    """The flows of a replication, each with its columns."""
    columns = records.flows
    return {name: {key: column[row] for key, column in columns.items()} for row, name in enumerate(columns["flow"])}


def model(one: _core.Cell) -> Flows:
    return by_name(one.run(1, 1, 1))


def kernel_flows(kernel: Kernel, one: _core.Cell) -> Flows:
    return by_name(KernelEngine(kernel).run_cell(one, 1, 1, 1))


# ---- Calls -----------------------------------------------------------------------------------------------


def test_a_call_alone_is_perfect_and_beside_a_download_it_is_not(tmp_path: Path) -> None:
    alone = model(cell(tmp_path, CALL))["voip"]
    assert alone["mos"] == pytest.approx(4.41, abs=0.005)
    # 200 bytes at 1 Mbit/s are 1.6 ms; a frame, its look-ahead and the jitter buffer are 83.75 ms.
    assert alone["voice_delay_s"] == pytest.approx(0.03 + 0.0016 + 0.08375, abs=1e-4)
    beside = model(cell(tmp_path, '[down.queue]\nlimit = "60 packets"\n', CALL + 'duration = "5 s"\n', BULK))
    assert beside["voip"]["voice_late"] > 0.3
    assert beside["voip"]["mos"] < 4.0
    assert beside["bulk-tcp"]["mos"] is None


def test_a_call_over_real_sockets_has_the_score_of_the_model(kernel: Kernel, tmp_path: Path) -> None:
    one = cell(tmp_path, CALL + 'codec = "Opus"\nduration = "10 s"\n', BULK)
    expected, real = model(one)["voip"], kernel_flows(kernel, one)["voip"]
    assert real["sent_packets"] == expected["sent_packets"] == 500
    assert real["mos"] == pytest.approx(expected["mos"], abs=0.15)
    assert real["voice_delay_s"] == pytest.approx(expected["voice_delay_s"], abs=1e-3)


def test_the_answer_of_calls_is_their_score(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "calls.toml"
    codel = '[factor.queue.drop-tail]\n[factor.queue.codel]\ndown.queue.discipline = "codel"\n'
    file.write_text(LINK + CALL + BULK + codel, encoding="utf-8")
    assert lasthop_main("run", file, "--replications", "5", "--out", tmp_path / "out") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "(MOS)" in text
    assert "With flow=voip, queue=codel has a" in text
    assert "higher speech quality" in text
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    assert flows.filter(role="bulk-tcp")["mos"].null_count() == 10
    assert human("mos", 4.4092) == "4.41 MOS"


def test_what_a_call_cannot_be_is_said(tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(f'{LINK}{CALL}codec = "G711"\n', encoding="utf-8")
    assert lasthop_main("validate", file) == 2
    assert "did you mean `G.711`?" in capsys.readouterr().err
