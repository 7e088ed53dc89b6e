"""Lines drawn at random within stated ranges, and captures of transfers over them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

RANGES = {
    "rate": "2 to 20 Mbit/s, logarithmic",
    "rtt": "10 to 150 ms, logarithmic",
    "buffer": "0.4 to 3 round trips of packets, logarithmic, 8 at least",
    "loss": "none for two of three lines, else 0.01 to 1 %, logarithmic",
    "jitter": "none for three of four lines, else uniform up to 0.5 to 3 ms",
    "queue": "drop-tail for seven of ten lines, CoDel for two, a policer for one",
    "control": "CUBIC, BBR or Reno",
    "seen_at": "the sender's or the receiver's end",
    "up": "0.05 to 2 times as fast as down, logarithmic, and never full",
    "up, of lines with two ways": "1 to 5 Mbit/s, 0.4 to 3 round trips",
}
SECONDS = 10
SNAPLEN = 120
HOST = "10.0.1.1"
"""The user's end in captures of lasthop."""
PACKET = 1500


@dataclass(frozen=True)
class Line:
    """What is true. Delays in ms, the buffer in packets."""

    number: int
    rate: float
    rtt: float
    buffer: int
    loss: float
    jitter: float
    queue: str
    control: str
    seen_at: str
    up_rate: float
    up_buffer: int = 1000

    @classmethod
    def drawn(cls, number: int, seed: int) -> Line:
        """Draw the line with this number."""
        rng = np.random.default_rng([seed, number])
        rate = float(np.exp(rng.uniform(np.log(2), np.log(20))))
        rtt = float(np.exp(rng.uniform(np.log(10), np.log(150))))
        trips = float(np.exp(rng.uniform(np.log(0.4), np.log(3))))
        loss = float(np.exp(rng.uniform(np.log(1e-4), np.log(1e-2)))) if rng.random() < 1 / 3 else 0.0
        jitter = float(rng.uniform(0.5, 3)) if rng.random() < 1 / 4 else 0.0
        return cls(
            number,
            round(rate, 3),
            round(rtt, 2),
            max(8, round(trips * rate * rtt / 12)),
            round(loss, 6),
            round(jitter, 2),
            str(rng.choice(["drop-tail", "codel", "policer"], p=[0.7, 0.2, 0.1])),
            str(rng.choice(["cubic", "bbr", "reno"])),
            str(rng.choice(["sender", "receiver"])),
            round(rate * float(np.exp(rng.uniform(np.log(1 / 20), np.log(2)))), 3),
        )

    def two_ways(self, seed: int) -> Line:
        """The same with a way up that is worth a transfer."""
        rng = np.random.default_rng([seed, self.number, 1])
        rate, trips = (float(np.exp(rng.uniform(np.log(a), np.log(b)))) for a, b in ((1, 5), (0.4, 3)))
        return replace(self, up_rate=round(rate, 3), up_buffer=max(8, round(trips * rate * self.rtt / 12)))

    @property
    def hop(self) -> str:
        """The hop as a scenario has it."""
        rate, queue = self.rate, f'queue.limit = "{self.buffer} packets"'
        if self.queue == "codel":
            queue = 'queue = { discipline = "codel", limit = "1000 packets" }'
        elif self.queue == "policer":
            burst = (self.buffer + 1) * PACKET
            queue = (
                f'queue.limit = "1000 packets"\npolicer = {{ rate = "{rate} Mbit/s", burst = "{burst} B" }}'
            )
            rate = round(10 * rate, 3)
        more = f', loss = "{100 * self.loss:.4f} %"' if self.loss else ""
        if self.jitter:
            jitter = f'{{ distribution = "uniform", min = "0 ms", max = "{self.jitter} ms" }}'
            more += f", jitter = {jitter}"
        return f"""
[down]
link = {{ rate = "{rate} Mbit/s", delay = "{self.rtt / 2} ms"{more} }}
{queue}
[up]
link = {{ rate = "{self.up_rate} Mbit/s", delay = "{self.rtt / 2} ms" }}
queue.limit = "{self.up_buffer} packets"
"""

    def scenario(self, direction: str) -> str:
        """A transfer that lasts ten seconds."""
        return f"""time_limit = "60 s"
{self.hop}
[tcp]
profile = "linux-6"
congestion_control = "{self.control}"
[[flow]]
kind = "bulk-tcp"
name = "transfer"
direction = "{direction}"
duration = "{SECONDS} s"
"""


def captured(line: Line, folder: Path, engine: str, direction: str = "down") -> Path:
    """Run a transfer and return its capture."""
    folder.mkdir(parents=True, exist_ok=True)
    scenario = folder / "line.toml"
    scenario.write_text(line.scenario(direction), encoding="utf-8")
    end = "server" if (line.seen_at == "sender") == (direction == "down") else "client"
    run = [
        "trace",
        str(scenario),
        "--out",
        str(folder / "captures"),
        "--engine",
        engine,
        "--quiet",
        "--seed",
    ]
    lasthop(*run, str(1000 + line.number), "--snaplen", str(SNAPLEN))
    return folder / "captures" / f"{end}.pcapng"


def lasthop(*words: str) -> None:
    """Run a command; its error is ours."""
    done = subprocess.run(
        [sys.executable, "-m", "lasthop.commands.cli", *words], check=False, text=True, capture_output=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"lasthop {' '.join(words)}: {done.stderr.strip()}")
