"""Captures of both ends of a transfer, joined packet by packet."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from made import captured

from lasthop.fit.joined import MARKS, Packets, pairs
from lasthop.fit.measurement import Measurement
from lasthop.fit.sources import read

HOST = "10.0.1.1"
PAIR_LOST = (8, 17)
KEPT = Path(__file__).parent / "captures"
LINE = """
[tcp]
profile = "linux-6"
[down]
link = { rate = "4 Mbit/s", delay = "30 ms", loss = "0.3 %" }
queue.limit = "25 packets"
[up]
link = { rate = "4 Mbit/s", delay = "10 ms", loss = "2 %" }
[[flow]]
kind = "bulk-tcp"
name = "transfer"
direction = "down"
duration = "5 s"
"""


def both(folder: Path) -> list[Measurement]:
    """What the two ends saw."""
    return [read(folder / f"{end}.pcapng", HOST) for end in ("server", "client")]


def dropped(folder: Path, way: str) -> int:
    """Packets that the scenario's line lost."""
    rows = (folder / "drops.csv").read_text(encoding="utf-8").splitlines()[1:]
    return sum(row.split(",")[2] == way for row in rows)


def test_both_ends_tell_the_losses_of_each_way(tmp_path: Path) -> None:
    """The side table of the capture knows what was dropped; the pair is told by the two files alone."""
    folder = captured(tmp_path / "one", LINE).parent
    (pair,), refused = pairs(both(folder))
    assert refused == []
    assert pair.data.lost == dropped(folder, "down") > 0
    # ACKs after the last that arrived are not counted, nor are handshakes.
    assert dropped(folder, "up") - 2 <= pair.answers.lost <= dropped(folder, "up")
    assert pair.answers.lost > 5
    parameter = pair.answers_lost()
    assert parameter.key == "up.link.loss"
    assert parameter.low is not None
    assert parameter.high is not None
    assert parameter.low < 0.02 < parameter.high


def test_only_the_round_trip_is_told_without_waits(tmp_path: Path) -> None:
    """30 ms down and 10 ms up, and a packet's 3 ms: clocks that differ hide how the 43 ms are shared."""
    server, client = both(captured(tmp_path / "one", LINE).parent)
    (pair,), _ = pairs([server, client])
    assert pair.round_trip_ms == pytest.approx(43.1, abs=0.3)
    # A queue of 25 packets at 4 Mbit/s.
    assert 30 < pair.data.waits_ms[1] < 76
    assert pair.answers.waits_ms[1] < 1
    assert "do not identify the delay of each direction" in list(pair.notes())[-1]


def test_captures_of_other_transfers_are_not_joined(tmp_path: Path) -> None:
    """The server's end of one run and the client's of another carry the same data at other times."""
    server, _ = both(captured(tmp_path / "one", LINE).parent)
    other = captured(tmp_path / "two", LINE + 'start = "0.7 s"\n')
    found, refused = pairs([server, read(other, HOST)])
    assert found == []
    assert refused[0].startswith("server.pcapng and client.pcapng were not joined: ")


def test_a_pair_of_real_tcp_is_matched(tmp_path: Path) -> None:
    """Linux in a guest, over 2.4 Mbit/s, 20 ms each way, with 1 % of random loss down and 3 % up.

    `PAIR_LOST` is what the side table of the kept captures had.
    """
    for end in ("server", "client"):
        packed = (KEPT / f"pair-{end}.pcapng.gz").read_bytes()
        (tmp_path / f"{end}.pcapng").write_bytes(gzip.decompress(packed))
    (pair,), refused = pairs(both(tmp_path))
    assert refused == []
    assert (pair.data.lost, pair.answers.lost) == PAIR_LOST
    # A packet takes 5 ms, and an ACK less than 0.3 ms.
    assert pair.round_trip_ms == pytest.approx(45.3, abs=0.3)


def test_what_offload_joined_is_taken_apart() -> None:
    """A packet of 3000 bytes is three of 1448 at most, whose sequence numbers may wrap."""
    columns = {name: np.array([7], np.uint32) for name in MARKS}
    columns["seq"] = np.array([2**32 - 1448], np.uint32)
    columns |= {"bytes": np.array([3000], np.uint32), "time_ns": np.array([5_000_000], np.uint64)}
    apart = Packets.of(columns, np.array([True]), 1448)
    assert apart.marks[:, 0].tolist() == [2**32 - 1448, 0, 1448]
    assert apart.time_ms.tolist() == [5.0, 5.0, 5.0]
