"""Readers of what programs measured, on what real programs wrote.

iperf3 3.12, flent 2.1.1 with netperf 2.7, irtt 0.9.0 and iputils' ping 20221126 ran behind the live engine:
8 Mbit/s down with 60 kB of queue, 2 Mbit/s up with 30 kB, 20 ms each way.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lasthop.common.errors import InputError
from lasthop.fit.measurement import Measurement
from lasthop.fit.sources import read

FILES = Path(__file__).parent / "measured"
DOWN_MBPS, UP_MBPS, ROUND_MS = 8.0, 2.0, 40.0


def mbps(file: str) -> float:
    """The mean rate of the packets of a file's only transfer, headers included."""
    (one,) = read(FILES / file).transfers
    assert one.mss is not None
    whole = one.bytes[-1] * (1 + one.overhead / one.mss)
    return float(whole * 8e-6 / (one.time_s[-1] - one.time_s[0]))


@pytest.mark.parametrize(
    ("file", "rate"),
    [
        ("iperf3-down.json", DOWN_MBPS),
        ("iperf3-up.json", UP_MBPS),
        ("iperf3-both.json", UP_MBPS),
        ("tcp-download.flent.gz", DOWN_MBPS),
    ],
)
def test_transfers_are_as_fast_as_the_line(file: str, rate: float) -> None:
    assert rate * 0.93 < mbps(file) < rate * 1.03


def test_netperf_counts_what_it_wrote() -> None:
    assert mbps("tcp-upload.flent.gz") > UP_MBPS  # with what lies in its socket


@pytest.mark.parametrize("file", ["irtt.json.gz", "ping.txt", "ping-D.txt", "tcp-download.flent.gz"])
def test_the_least_round_trip_is_that_of_the_line(file: str) -> None:
    delays = read(FILES / file).delays
    assert delays is not None
    assert ROUND_MS < np.nanmin(delays.rtt_ms) < ROUND_MS + 1.5


def test_iperf3_tells_which_way_and_by_whom() -> None:
    up, down = read(FILES / "iperf3-up.json"), read(FILES / "iperf3-down.json")
    assert (up.seen_at, up.transfers[0].direction) == ("sender", "up")
    assert (down.seen_at, down.transfers[0].direction) == ("receiver", "down")
    assert up.transfers[0].control == "bbr"
    assert down.delays is None
    assert any(note.startswith("No round-trip times") for note in down.notes)
    assert any(note.startswith("No arrivals") for note in up.notes)
    assert (up.transfers[0].mss, up.transfers[0].overhead) == (1428, 72)  # IPv6, and TCP's timestamps


def test_the_servers_counts_within_a_file_of_iperf3_are_what_arrived() -> None:
    both = read(FILES / "iperf3-both.json")
    assert both.seen_at == "both"
    assert both.transfers[0].control == "cubic"
    assert not any(note.startswith("No arrivals") for note in both.notes)
    with_own = json.loads((FILES / "iperf3-both.json").read_text(encoding="utf-8"))
    assert both.transfers[0].bytes[-1] <= with_own["end"]["sum_received"]["bytes"]


def test_datagrams_slower_than_the_line_are_limited_by_the_application() -> None:
    (stream,) = read(FILES / "iperf3-udp.json").transfers
    assert (stream.protocol, stream.app_limited) == ("udp", True)


def test_flent_tells_pings_under_load_from_others() -> None:
    measured = read(FILES / "tcp-download.flent.gz")
    delays = measured.delays
    assert delays is not None
    assert delays.loaded is not None
    assert np.median(delays.rtt_ms[delays.loaded]) > np.median(delays.rtt_ms[~delays.loaded]) + 1
    assert delays.sent == 80
    assert measured.transfers[0].control == "bbr"


def test_irtt_has_one_way_delays_only_where_the_clocks_allow(tmp_path: Path) -> None:
    good = read(FILES / "irtt.json.gz").delays
    assert good is not None
    assert good.up_ms is not None
    assert good.down_ms is not None
    assert np.allclose(good.up_ms + good.down_ms, good.rtt_ms, atol=0.05)
    made = json.loads(gzip.decompress((FILES / "irtt.json.gz").read_bytes()))
    for probe in made["round_trips"]:
        probe["delay"]["send"] -= 100_000_000
        probe["delay"]["receive"] += 100_000_000
    made["round_trips"][3] |= {"lost": "true_up", "delay": {}}
    (tmp_path / "irtt.json").write_text(json.dumps(made), encoding="utf-8")
    apart = read(tmp_path / "irtt.json")
    assert apart.delays is not None
    assert (apart.delays.up_ms, apart.delays.lost) == (None, 1)
    assert math.isnan(apart.delays.rtt_ms[3])
    assert any(note.startswith("No one-way delays") for note in apart.notes)


@pytest.mark.parametrize(
    ("file", "start_s"), [("irtt.json.gz", 1795759615.27), ("ping-D.txt", None), ("ping.txt", None)]
)
def test_files_with_the_time_of_day_tell_when_they_began(file: str, start_s: float | None) -> None:
    found = read(FILES / file).start_s
    if file == "ping-D.txt":
        first = re.search(r"\[(\d+\.\d+)\].*time=([\d.]+)", (FILES / file).read_text(encoding="utf-8"))
        assert first is not None
        start_s = float(first[1]) - float(first[2]) / 1e3
    assert found == (None if start_s is None else pytest.approx(start_s, abs=0.01))


def test_ping_counts_what_was_lost_and_when(tmp_path: Path) -> None:
    lines = (FILES / "ping-D.txt").read_text(encoding="utf-8").splitlines()
    file = tmp_path / "ping.txt"
    file.write_text("\n".join(line for line in lines if "_seq=7 " not in line), encoding="utf-8")
    delays = read(file).delays
    assert delays is not None
    assert (delays.lost, delays.sent) == (1, 20)
    assert math.isnan(delays.rtt_ms[6])
    assert delays.time_s[6] == pytest.approx(0.6, abs=0.01)
    # Without a summary, the probes after the last reply are unknown.
    file.write_text("\n".join(lines[:11]), encoding="utf-8")
    assert any(note.startswith("No summary") for note in read(file).notes)


def test_ping_without_times_is_spaced_by_its_summary() -> None:
    measured = read(FILES / "ping.txt")
    assert measured.delays is not None
    assert measured.delays.time_s[-1] == pytest.approx(1.914)
    assert any(note.startswith("No times") for note in measured.notes)


def test_sequence_numbers_of_ping_wrap(tmp_path: Path) -> None:
    numbers = [65534, 65535, 0, 1]
    lines = [f"64 bytes from 10.0.0.1: icmp_seq={seq} ttl=64 time=40 ms" for seq in numbers]
    (tmp_path / "ping.txt").write_text("\n".join(["PING 10.0.0.1", *lines]), encoding="utf-8")
    delays = read(tmp_path / "ping.txt").delays
    assert delays is not None
    assert np.isfinite(delays.rtt_ms[-4:]).all()
    assert delays.lost == len(delays.rtt_ms) - 4


def edited(file: str, edit: Callable[[Any], object]) -> str:
    made = json.loads((FILES / file).read_text(encoding="utf-8"))
    edit(made)
    return json.dumps(made)


def misspell(made: dict[str, Any]) -> None:
    made["start"]["test_star"] = made["start"].pop("test_start")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", '{"start": {"version": "iperf 3.12"}, "intervals": [', "line 1, column 52: invalid JSON"),
        (
            "b.json",
            '{"start": {"version": "iperf 3.12"}, "intervals": [], "error": "unable to connect"}',
            "intervals is empty; iperf3 reports: unable to connect",
        ),
        (
            "c.json",
            edited("iperf3-up.json", lambda made: made["intervals"][1]["streams"][0].update(bytes="many")),
            'intervals[1].streams[0].bytes: expected a number, not "many"',
        ),
        (
            "d.json",
            edited("iperf3-up.json", misspell),
            "start has no key 'test_start'; the most similar key is 'test_star'",
        ),
        ("e.flent", '{"metadata": {}, "raw_values": {"Page load": []}}', "there is no TCP download"),
        ("f.json", '{"version": {"irtt": "0.9.0"}, "round_trips": []}', "round_trips is empty"),
        ("g.txt", "PING a\n\n3 packets transmitted, 3 received, 0% packet loss", "run it without -q"),
        ("h.txt", "Once upon a time", "not a measurement in a supported format"),
    ],
)  # fmt: skip
def test_what_is_damaged_or_foreign_is_refused_with_place_and_reason(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    file = tmp_path / name
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read(file)
    assert str(file) in str(refused.value)
    assert said in str(refused.value)


def read_or_refused(file: Path) -> Measurement | None:
    """What was measured, or None after a clear error; any other exception fails the test."""
    try:
        return read(file)
    except InputError as error:
        return None if str(file) in str(error) else pytest.fail(f"no place in: {error}")


MEASURED = sorted(file.name for file in FILES.iterdir())
WORDS = b"0 -1 1e999 null [] {} true NaN 999999999999999999999999999999".split()
PIECES = st.one_of(st.sampled_from([*WORDS, b"", b'""', b'"streams"', b"\xff"]), st.binary(max_size=6))
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(MEASURED), edits=EDITS)
def test_mutated_files_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, edits: list[tuple[float, int, bytes]]
) -> None:
    content = (FILES / name).read_bytes()
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    for place, length, piece in edits:
        # Next to a digit or a quote, where a value is, rather than in white space.
        at = int(place * len(content))
        at = next((i for i in range(at, len(content)) if content[i : i + 1] in b'0123456789"'), at)
        content = content[:at] + piece + content[at + length :]
    file = tmp_path_factory.getbasetemp() / name.removesuffix(".gz")
    file.write_bytes(content)
    measured = read_or_refused(file)
    if measured is None:
        return
    for one in measured.transfers:
        assert len(one.time_s) == len(one.bytes)
        assert np.isfinite(one.bytes).all()
        assert (np.diff(one.bytes) >= 0).all()
    if measured.delays is not None:
        assert len(measured.delays.time_s) == len(measured.delays.rtt_ms)


STRANGE = [None, -1, "x", [], {}, 1e300, 10**40, True]


def replaced(value: object, draw: Random) -> object:
    """The same document with some of its values replaced by what does not belong there."""
    if draw.random() < 0.015:
        return draw.choice(STRANGE)
    if isinstance(value, dict):
        return {key: replaced(part, draw) for key, part in value.items() if draw.random() > 0.005}
    if isinstance(value, list):
        return [replaced(part, draw) for part in value[: draw.randint(0, len(value) + 5)]]
    return value


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from([one for one in MEASURED if "json" in one or "flent" in one]),
    seed=st.integers(0, 1 << 32),
)
def test_documents_with_other_values_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int
) -> None:
    content = (FILES / name).read_bytes()
    made = json.loads(gzip.decompress(content) if name.endswith(".gz") else content)
    file = tmp_path_factory.getbasetemp() / name.removesuffix(".gz")
    file.write_text(json.dumps(replaced(made, Random(seed))), encoding="utf-8")
    read_or_refused(file)
