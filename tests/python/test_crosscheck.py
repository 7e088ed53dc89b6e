"""Engines against each other: where a flow's histories part, and how far its metrics lie apart."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lasthop.crosscheck.align import State, history, parting
from lasthop.live.engine import LiveTrace

ROOT = Path(__file__).resolve().parents[2]
Main = Callable[..., int]


def state(ack: int | None, cwnd: int = 10, *sent: tuple[int, int]) -> State:
    return State(0, ack, "", cwnd, None, 0, list(sent))


def test_histories_part_at_the_first_ack_that_finds_another_state() -> None:
    same = [state(None), state(1001), state(2001, 11, (5001, 6001))]
    assert parting(same, same) is None
    for other, what in (
        ([same[0], same[1], state(3001, 11, (5001, 6001))], ["ack"]),
        ([same[0], same[1], state(2001, 12, (5001, 6001))], ["cwnd"]),
        ([same[0], same[1], state(2001, 11)], ["sent"]),
        (same[:2], ["ends"]),
    ):
        found = parting(same, other)
        assert found is not None
        assert (found.ack_number, found.what) == (2, what)


def test_a_state_that_one_engine_has_not_told_is_no_difference() -> None:
    assert parting([State(0, None, "", None)], [State(0, None, "", 10)]) is None


def test_a_history_is_what_the_sender_saw_and_did_in_the_order_of_events() -> None:
    packet = {
        "order": [0, 2, 3, 5], "time_ns": [0, 20, 20, 40], "event": ["sent", "delivered", "sent", "delivered"],
        "flow": [0] * 4, "direction": ["down", "up", "down", "up"], "seq": [1, 1, 101, 1], "end": [101, 1, 201, 1],
        "ack": [None, 101, None, 201], "sack": ["", "", "", "301-401"],
    }  # fmt: skip
    tcp = {
        "order": [1, 4, 6], "time_ns": [0, 20, 40], "flow": [0, 0, 0], "host": ["server"] * 3,
        "event": ["window", "window", "recovery-entered"], "cwnd": [1, 2, None], "ssthresh": [None] * 3,
        "in_flight": [1, 2, None],
    }  # fmt: skip
    states = history(LiveTrace(packets=packet, tcp=tcp, objects={}, flows={}, link_states={}), 0)
    assert [(s.ack, s.cwnd, s.sent, s.sack, s.happened) for s in states] == [
        (None, 1, [(1, 101)], "", []),
        (101, 2, [(101, 201)], "", []),
        (201, 2, [], "301-401", ["recovery-entered"]),
    ]


def test_each_difference_is_told_with_both_stories(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "flows.csv"
    # The kernel is no Linux 2.4: they must part, and soon.
    assert lasthop_main("crosscheck", ROOT / "examples" / "two-flows.toml", "--only", "memory=none", "--out", out) == 0
    text = capsys.readouterr().out
    assert "model beside kernel" in text
    assert "the same up to ACK" in text
    for engine in ("kernel ", "model  "):
        assert f"    {engine}" in text
    rows = pl.read_csv(out)
    assert rows["flow"].to_list() == ["tcp-1", "tcp-2"]
    assert rows["same_acks"].max() < rows["acks"].min()  # type: ignore[operator]


@pytest.mark.parametrize(("options", "most"), [((), 0.01), (("--errors",), 0.03)], ids=["clean", "errors"])
@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.long)])
def test_the_model_of_linux_6_follows_the_kernel_on_random_scenarios(
    tmp_path: Path, lasthop_main: Main, options: tuple[str, ...], most: float, count: int
) -> None:
    make = [sys.executable, ROOT / "scripts" / "random_scenarios.py", "--count", str(count), "--seed", "7"]
    file = tmp_path / "random.toml"
    file.write_text(subprocess.run([*make, *options], capture_output=True, text=True, check=True).stdout)
    out = tmp_path / "flows.csv"
    assert lasthop_main("crosscheck", file, "--quiet", "--out", out) == 0
    rows = pl.read_csv(out).filter(pl.col("elapsed_distance").is_not_null())
    assert rows.height >= count
    assert statistics.median(rows["elapsed_distance"].abs()) < most


def test_nothing_to_compare_with_is_an_error(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("crosscheck", ROOT / "examples" / "modern.toml", "--no-model") == 2
    assert "nothing to compare with" in capsys.readouterr().err


def test_the_example_runs_on_the_model_and_follows_the_kernel(tmp_path: Path, lasthop_main: Main) -> None:
    file, out = ROOT / "examples" / "modern.toml", tmp_path / "flows.csv"
    assert lasthop_main("run", file, "--out", tmp_path / "modern", "--quiet") == 0
    assert lasthop_main("crosscheck", file, "--quiet", "--out", out) == 0
    rows = pl.read_csv(out)
    assert rows["cell"].n_unique() == 4
    assert statistics.median(rows["elapsed_distance"].abs()) < 0.01
