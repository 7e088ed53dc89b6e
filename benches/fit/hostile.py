#!/usr/bin/env python3
"""Fit captures that the model of a line does not describe, and count wrong intervals without a warning.

    .venv/bin/python benches/fit/hostile.py [--lines 100] [--from 0] [--out results/fit]

The causes of `CAUSES` take turns: damaged captures, several clients, cross traffic, policers of any ratio of
the line's rate to theirs, other disciplines and congestion controls, Wi-Fi and cells. Each capture is one of
the model with a known truth. A value is wrong if its interval excludes the truth, or if a name is another
one. It is wrong without a warning if no note names the parameter, or all intervals. The program adds a row
per capture and parameter to `hostile.csv`, and prints a table per parameter and the wrong values.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from calibrate import arguments, completed
from lines import HOST, PACKET, SNAPLEN, lasthop

from lasthop.common.errors import InputError
from lasthop.fit.fit import fit
from lasthop.fit.posterior import Fit, Parameter
from lasthop.fit.sources import read

COLUMNS = ["line", "cause", "parameter", "true", "estimate", "low", "high", "state", "notes"]
SECONDS = 6
RECORD, SECTION = 6, 0x0A0D0D0A
# The direction of each number is part of its key, so a download that is taken for an upload has none.
NAMES = {"rate": "rate", "delay": "round trip", "buffer": "buffer", "loss": "loss", "jitter": "jitter"}
WORDS = {"control": "congestion control", "queue": "kind of queue"}


@dataclass
class Case:
    """A capture and the truth about it: numbers, and names by parameter; `None` has no true value."""

    rng: np.random.Generator
    rate: float
    rtt: float
    buffer: int | None
    queue: str = "drop-tail"
    control: str = "cubic"
    down: dict[str, str] = field(default_factory=dict)
    """Other text for the keys `link` and `queue` of the direction down."""
    hop: str = ""
    """The whole hop, if it is not a usual one."""
    flows: list[str] = field(default_factory=list)
    extends: str = ""
    end: str = "server"
    snaplen: int = SNAPLEN
    damage: Callable[[bytes], bytes] = bytes
    unknown: tuple[str, ...] = ()
    """Parameters without a true value."""
    loss: float = 0.0
    jitter: float = 0.0

    @classmethod
    def drawn(cls, number: int) -> Case:
        rng = np.random.default_rng([7, number])
        rate, rtt = float(rng.uniform(2, 12)), float(rng.uniform(15, 80))
        buffer = max(12, round(rng.uniform(0.7, 2) * rate * rtt / 12))
        case = cls(rng, round(rate, 2), round(rtt, 1), buffer, end=str(rng.choice(["server", "client"])))
        case.control = str(rng.choice(["cubic", "cubic", "bbr", "reno"]))
        CAUSES[cause_of(number)](case)
        return case

    def true(self) -> dict[str, object]:
        every: dict[str, object] = {
            "rate": self.rate,
            "delay": self.rtt,
            "buffer": self.buffer,
            "loss": self.loss,
            "jitter": self.jitter,
            "control": self.control,
            "queue": self.queue,
        }
        return {name: value for name, value in every.items() if name not in self.unknown}

    def text(self) -> str:
        link = self.down.get("link", f'rate = "{self.rate} Mbit/s"')
        queue = self.down.get("queue", f'queue.limit = "{self.buffer} packets"')
        hop = self.hop or (
            f'[down]\nlink = {{ {link}, delay = "{self.rtt / 2} ms" }}\n{queue}\n'
            f'[up]\nlink = {{ rate = "{self.rate} Mbit/s", delay = "{self.rtt / 2} ms" }}\n'
            'queue.limit = "1000 packets"\n'
        )
        tcp = f'[tcp]\nprofile = "linux-6"\ncongestion_control = "{self.control}"\n'
        flows = self.flows or [bulk("transfer")]
        return f'{self.extends}time_limit = "60 s"\n{hop}{tcp}{"".join(flows)}'

    def captured(self, folder: Path, number: int) -> Path:
        (folder / "line.toml").write_text(self.text(), encoding="utf-8")
        seed = str(1000 + number)
        words = ["--as", "pcapng", "--out", str(folder / "out"), "--quiet", "--seed", seed]
        lasthop("export", str(folder / "line.toml"), *words, "--snaplen", str(self.snaplen))
        file = folder / "out" / f"{self.end}.pcapng"
        file.write_bytes(self.damage(file.read_bytes()))
        return file


def bulk(name: str, more: str = "", start: float = 0.0, seconds: float = SECONDS) -> str:
    return (
        f'[[flow]]\nkind = "bulk-tcp"\nname = "{name}"\nstart = "{start} s"\nduration = "{seconds} s"\n{more}'
    )


def blocks(file: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of a pcapng file and their types."""
    at = 0
    while at < len(file):
        kind, length = struct.unpack_from("<II", file, at)
        yield kind, file[at : at + length]
        at += length


def without(file: bytes, lacks: Callable[[int, bytes], bool]) -> bytes:
    """Remove the packets for which `lacks` is true, by their number and block."""
    kept, number = [], 0
    for kind, block in blocks(file):
        if kind == RECORD:
            number += 1
            if lacks(number, block):
                continue
        kept.append(block)
    return b"".join(kept)


def gaps(case: Case) -> None:
    """Gaps of 20 to 80 packets, as a full kernel buffer causes them."""
    starts = case.rng.uniform(300, 3500, 5).astype(int)
    lengths = case.rng.integers(20, 80, 5)
    ends = list(zip(starts, starts + lengths, strict=True))
    case.damage = lambda file: without(file, lambda number, _: any(a <= number < b for a, b in ends))


def thinned(case: Case) -> None:
    """One packet of 50 to 500 is missing, at random."""
    share = 1 / float(case.rng.uniform(50, 500))
    lost = case.rng.random(200_000) < share
    case.damage = lambda file: without(file, lambda number, _: bool(lost[number]))


def snapped(case: Case) -> None:
    """The snap length cuts options of TCP, or more."""
    case.snaplen = int(case.rng.choice([36, 40, 44, 48]))


def _hosts(case: Case, names: Sequence[str]) -> None:
    case.hop = (
        f'[hop.line]\ndown = {{ link = {{ rate = "{case.rate} Mbit/s", delay = "{case.rtt / 2} ms" }}, '
        f'queue.limit = "{case.buffer} packets" }}\n'
        f'up = {{ link = {{ rate = "{case.rate} Mbit/s", delay = "{case.rtt / 2} ms" }} }}\n'
        + "".join(f'[host.{name}]\nbehind = "line"\n' for name in names)
    )


def clients(case: Case) -> None:
    """Two or three hosts download at once."""
    names = ["one", "two", "three"][: int(case.rng.integers(2, 4))]
    _hosts(case, names)
    case.flows = [
        bulk(name, f'host = "{name}"\n', round(float(case.rng.uniform(0, 1)), 2), SECONDS - 1)
        for name in names
    ]
    case.end = "server"


def flows(case: Case) -> None:
    """One host downloads over two to four connections."""
    count = int(case.rng.integers(2, 5))
    case.flows = [
        bulk(f"t{n}", "", round(float(case.rng.uniform(0, 2)), 2), SECONDS - 2) for n in range(count)
    ]


def _udp(case: Case, low: float, high: float) -> str:
    rate = case.rate * float(case.rng.uniform(low, high))
    on, off = case.rng.uniform(0.2, 1.5, 2)
    return (
        f'[[flow]]\nkind = "on-off"\nname = "others"\npayload = "1000 B"\nrate = "{rate:.3f} Mbit/s"\n'
        f'on = "{on:.2f} s"\noff = "{off:.2f} s"\nduration = "{SECONDS} s"\n'
    )


def others(case: Case) -> None:
    """Cross traffic on and off, which the capture does not contain."""
    case.flows = [bulk("transfer"), _udp(case, 0.2, 0.8)]
    # Protocol 17 of an IPv4 packet behind an Ethernet or no header.
    case.damage = lambda file: without(file, lambda _, block: _protocol(block) == 17)


def _protocol(block: bytes) -> int:
    packet = block[28:]
    return packet[9] if packet[0] >> 4 == 4 else packet[14 + 9]


def datagrams(case: Case) -> None:
    """UDP on and off, in the capture itself."""
    case.flows = [bulk("transfer"), _udp(case, 0.1, 0.6)]


def policer(case: Case) -> None:
    """A policer of 1/20 to 1/2 of the line's rate."""
    ratio = float(np.exp(case.rng.uniform(np.log(2), np.log(20))))
    case.queue = "policer"
    case.buffer = max(8, case.buffer or 8)
    case.down = {
        "link": f'rate = "{case.rate * ratio:.3f} Mbit/s"',
        "queue": f'queue.limit = "1000 packets"\npolicer = {{ rate = "{case.rate} Mbit/s", '
        f'burst = "{(case.buffer + 1) * PACKET} B" }}',
    }


def disciplines(case: Case) -> None:
    """PIE, FQ-CoDel, CoDel and RED; and drop-tail that is too long to drop."""
    kind = str(case.rng.choice(["pie", "fq_codel", "codel", "red", "deep"]))
    # With one flow, FQ-CoDel is CoDel.
    case.queue, case.buffer = kind.removeprefix("fq_"), None
    case.down["queue"] = f'queue = {{ discipline = "{kind}", limit = "1000 packets" }}'
    if kind == "red":
        case.down["queue"] = (
            'queue = { limit = "200 packets", red = { min = "8 packets", max = "30 packets", '
            'max_probability = 0.1, weight = 0.01, avpkt = "1500 B", gentle = true } }'
        )
    if kind == "deep":
        case.queue, case.control = "drop-tail", str(case.rng.choice(["cubic", "bbr", "vegas"]))
        case.down["queue"] = 'queue.limit = "4000 packets"'


def controls(case: Case) -> None:
    """Vegas, Westwood, and Reno with jitter."""
    case.control = str(case.rng.choice(["vegas", "westwood", "reno"]))
    if case.control == "reno":
        case.jitter = round(float(case.rng.uniform(1, 4)), 1)
        case.down["link"] = (
            f'rate = "{case.rate} Mbit/s", jitter = {{ distribution = "uniform", min = "0 ms", '
            f'max = "{case.jitter} ms" }}'
        )


def media(case: Case) -> None:
    """Wi-Fi or a cell, whose rate varies and has no single true value."""
    kind = str(case.rng.choice(["lte-cell", "wifi"]))
    case.unknown = ("rate", "delay", "buffer", "jitter", "queue")
    if kind == "lte-cell":
        case.extends = f'extends = "{kind}"\n'
        case.hop = "\n"
        case.flows = [bulk("transfer", 'host = "phone"\n')]
        case.end = "server"
    else:
        case.hop = (
            '[medium]\nkind = "wifi"\nstandard = "n"\nqueue = "fifo"\nlimit = "100 packets"\n'
            '[host.client]\nwifi = { rate = "26 Mbit/s", error = "5 %" }\n'
        )


CAUSES: dict[str, Callable[[Case], None]] = {
    "gaps": gaps,
    "missing packets": thinned,
    "snap length": snapped,
    "several clients": clients,
    "several connections": flows,
    "unseen cross traffic": others,
    "UDP in the capture": datagrams,
    "policer": policer,
    "discipline": disciplines,
    "control": controls,
    "medium": media,
}


def cause_of(number: int) -> str:
    return list(CAUSES)[number % len(CAUSES)]


def fitted(number: int, jobs: int) -> Iterator[dict[str, object]]:
    """Yield a row for each parameter of a capture."""
    case = Case.drawn(number)
    with tempfile.TemporaryDirectory(prefix="lasthop-fit-") as name:
        file = case.captured(Path(name), number)
        try:
            found = fit([read(file, HOST)], jobs=jobs)
        except InputError as error:
            notes = str(error).replace(name, "")
            yield {"line": number, "cause": cause_of(number), "state": "refused", "notes": notes}
            return
    for parameter, true in case.true().items():
        for one in found.parameters:
            if one.name == parameter:
                numbers = {"estimate": one.value, "low": one.low, "high": one.high}
                state = _state(one, true, found)
                row = {"line": number, "cause": cause_of(number), "parameter": parameter, "true": true}
                yield {**row, **numbers, "state": state, "notes": " | ".join(warnings(found))}


def warnings(found: Fit) -> list[str]:
    """Return the notes that are not on every fit."""
    return [note for note in found.notes if "The round trip is divided evenly" not in note]


def _state(one: Parameter, true: object, found: Fit) -> str:
    if one.value is None:
        return "not identified"
    # These transfers are downloads.
    wrong = one.key.startswith("up.")
    if isinstance(one.value, str):
        wrong |= one.value != true
        word = WORDS[one.name]
    else:
        word = NAMES[one.name]
        assert one.low is not None
        assert one.high is not None
        # Without a true length, any length is wrong.
        wrong |= not isinstance(true, int | float) or not one.low <= true <= one.high
    if not wrong:
        return "right"
    warned = any(word in note or "intervals" in note for note in warnings(found))
    return "warned" if warned else "wrong"


def summary(rows: list[dict[str, str]]) -> Iterator[str]:
    captures = {row["line"]: row for row in rows}
    refused = sum(row["state"] == "refused" for row in captures.values())
    yield f"{len(captures)} captures, {refused} of them refused"
    yield f"{'parameter':9} {'given':>6} {'right':>6} {'warned':>7} {'wrong without a warning':>24}"
    for name in (*NAMES, *WORDS):
        states = [row["state"] for row in rows if row["parameter"] == name]
        given = [state for state in states if state != "not identified"]
        right, warned, wrong = (given.count(state) for state in ("right", "warned", "wrong"))
        share = f"{wrong} ({100 * wrong / max(len(states), 1):.0f} % of {len(states)})"
        yield f"{name:9} {len(given):6} {right:6} {warned:7} {share:>24}"
    for cause in CAUSES:
        own = {row["line"] for row in rows if row["cause"] == cause}
        bad = {row["line"] for row in rows if row["cause"] == cause and row["state"] == "wrong"}
        yield f"{cause}: {len(bad)} of {len(own)} captures with a wrong value without a warning"
    for row in rows:
        if row["state"] == "wrong":
            ends = f" [{row['low']}, {row['high']}]" if row["low"] else ""
            wrong_one = f"{row['parameter']} {row['estimate']}{ends}"
            yield f"{row['line']} {row['cause']}: {wrong_one} for {row['true']}"


def main() -> None:
    """Fit the captures that are missing, then summarise all."""
    asked = arguments(__doc__, lines=100).parse_args()
    rows = completed(asked, "hostile.csv", COLUMNS, lambda number: fitted(number, asked.jobs))
    print("\n".join(summary(rows)))


if __name__ == "__main__":
    main()
