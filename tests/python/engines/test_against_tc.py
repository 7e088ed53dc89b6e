"""Slots and policers compared with those of Linux: the same datagrams pass a hop, or `tc` in a guest.

Time is virtual, so both meet the same packets at the same microsecond, whatever this machine does. `tc` is
this machine's, the kernel is the guest.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test_live import program
from test_programs import run_guest

DATAGRAMS = 500
HOP = 'queue.limit = "1000 packets"\nlink.rate = "100 Gbit/s"\nlink.delay = "10 ms"\n'
# Sends at times that follow from a seed, and prints when each datagram left.
SENDER = f"""
import random, socket, struct, time
chance = random.Random(SEED)
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.connect(("server", 9))
due = (time.monotonic_ns() // 10**9 + 3) * 10**9
for number in range({DATAGRAMS}):
    due += chance.randrange(10_000_000)
    time.sleep((due - time.monotonic_ns()) / 1e9)
    out.send(struct.pack("!IQ", number, time.monotonic_ns()) + bytes(chance.randrange(100, 1400)))
time.sleep(1)
"""
RECEIVER = """
import json, socket, struct, sys, time
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(("", 9))
while True:
    number, left = struct.unpack("!IQ", listener.recv(2000)[:12])
    print(json.dumps([number, left, time.monotonic_ns()]), flush=True)
"""


def passed(folder: Path, seed: int, hop: str = "", linux: str = "true") -> dict[int, tuple[int, int]]:
    """Send datagrams up a hop after shell commands; return when those that arrived were sent and received."""
    file, receiver = folder / "hop.toml", folder / "receiver.py"
    text = f'name = "hop"\ntitle = "A hop"\nmtu = "1500 B"\n[down]\n{HOP}[up]\n{HOP}{hop}'
    file.write_text(text, encoding="utf-8")
    receiver.write_text(RECEIVER, encoding="utf-8")
    (folder / "sender.py").write_text(SENDER.replace("SEED", str(seed)), encoding="utf-8")
    python = program("")[0]
    done = run_guest(
        *("--link", str(file), "--server", f"exec {python} {receiver}", "--"),
        *("sh", "-ec", f"{linux}; exec {python} {folder}/sender.py"),
    )
    assert done.returncode == 0, done.stderr
    lines = (
        line.removeprefix("server: ") for line in done.stderr.splitlines() if line.startswith("server: ")
    )
    rows = map(json.loads, lines)
    return {number: (left, came) for number, left, came in rows}


def times(packets: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    assert list(packets) == list(range(DATAGRAMS)), "all arrive, in order"
    return list(packets.values())


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("seed", [1, 2])
def test_slots_deliver_when_those_of_netem_do(tmp_path: Path, seed: int) -> None:
    linux = times(passed(tmp_path, seed, linux="tc qdisc add dev hop root netem slot 4ms"))
    model = times(passed(tmp_path, seed, 'link.slots = { every = "4 ms" }\n'))
    waits = [[came - left - 10_000_000 for left, came in run] for run in (linux, model)]
    off = max(abs(left_s - other) for left_s, other in zip(*waits, strict=True))
    assert off < 10_000, "a datagram that joins another slot is 4 ms off"
    # Some opened a slot, others joined it.
    assert min(waits[0]) < 1_000_000
    assert 4_000_000 <= max(waits[0]) < 4_010_000


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("seed", [1, 2])
def test_a_policer_drops_what_that_of_linux_drops(tmp_path: Path, seed: int) -> None:
    """Both have a token bucket that must contain enough for a packet's IP bytes."""
    police = (
        "tc qdisc replace dev hop root handle 1: htb; tc filter add dev hop parent 1: protocol all u32 "
        "match u32 0 0 action police rate 1mbit burst 10000 conform-exceed drop/pass"
    )
    linux = passed(tmp_path, seed, linux=police)
    model = passed(tmp_path, seed, 'policer = { rate = "1 Mbit/s", burst = "10 kB" }\n')
    assert DATAGRAMS / 2 < len(model) < DATAGRAMS - 20, "it drops some"
    assert linux.keys() == model.keys()
