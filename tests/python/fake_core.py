"""A stand-in for `lasthop._core`: same shapes, made-up but reproducible numbers."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lasthop._core import ScenarioError

COUNTS = [
    "sent_packets",
    "received_packets",
    "sent_bytes",
    "retransmitted_packets",
    "unnecessary_retransmissions",
    "timeouts",
    "spurious_timeouts",
    "fast_retransmits",
    "undone",
    "duplicate_acks",
    "triple_duplicate_acks",
    "sack_blocks",
    "sack_blocks_total",
    "data_drops_queue",
    "data_drops_red",
    "data_drops_error",
    "data_marks_ecn",
    "ack_drops_queue",
    "ack_drops_red",
    "ack_drops_error",
    "ack_marks_ecn",
]
SPACING = ["spacing_p50_ms", "spacing_p75_ms", "spacing_p90_ms", "spacing_max_ms"]
VARIANTS = ["baseline", "frto", "dsack", "eifel", "eifel+red", "eifel+ecn", "eifel+cbi", "eifel+cbi+ecn"]
KULVE = {
    "link": ["e0", "r1", "r3", "r6"],
    "workload": ["2tcp0udp", "2tcp0udp5s", "2tcp1udp"],
    "variant": VARIANTS,
}
SMALL = {"queue": ["5 packets", "20 packets"]}


@dataclass
class Results:
    """Columns by name."""

    flows: dict[str, list[Any]]
    pages: dict[str, list[Any]]
    shorts: dict[str, list[Any]]
    hops: dict[str, list[Any]]
    stations: dict[str, list[Any]]
    runs: dict[str, list[Any]]
    trace: Trace | None
    memory: str | None


@dataclass
class Trace:
    """Columns by name."""

    packets: dict[str, list[Any]]
    transport: dict[str, list[Any]]
    objects: dict[str, list[Any]]
    flows: dict[str, list[Any]]
    bad_periods: dict[str, list[Any]]
    left_out: dict[str, int]
    series: dict[str, list[Any]]
    delays: dict[str, list[Any]]


_SIDE = {
    "rate": "1 Mbit/s",
    "delay": "10 ms",
    "queue": "drop-tail, 10 packets",
    "ip_rate_bps": 1e6,
    "queue_s": 0.12,
    "retry_delay_ns": 0,
    "queues": [{"name": "", "red_in_bytes": False}],
}
_APPLICATION = {
    "kind": "bulk-tcp",
    "tcp": {"profile": "linux-6"},
    "voice": None,
    "host": "client",
    "peer": "server",
    "routes": [[0], [1]],
    "moves": [],
    "protocol": "tcp",
    "initial_window_bytes": 14_480,
    "round_trip_ns": 20_000_000,
}
FACTS = json.dumps(
    {
        "applications": dict.fromkeys(
            (f"{name}{number}" for name in ("tcp", "udp") for number in range(1, 9)), _APPLICATION
        ),
        "hops": [
            {
                "name": "last-hop",
                "behind": None,
                "down": {"place": 0, **_SIDE},
                "up": {"place": 1, **_SIDE},
            }
        ],
        "hosts": {"client": ["last-hop"]},
        "bottlenecks": [0, 1],
    }
)


@dataclass
class Cell:
    """A cell whose runs take no time."""

    levels: dict[str, str]
    roles: str
    on_run: Callable[[str, int], None]
    sequential: bool = False
    scenario: str = '{"mtu": "576 B", "flow": []}'
    facts: str = FACTS
    assumed: Sequence[tuple[str, str, str]] = ()
    code: Sequence[tuple[str, str]] = ()
    point: dict[str, float] = field(default_factory=dict)
    estimate: tuple[float, float] = (100.0, 1e6)

    @property
    def digest(self) -> str:
        """Return a digest of the cell's contents; cells with other levels have another digest."""
        return hashlib.sha256(f"{self.scenario} {self.levels}".encode()).hexdigest()

    @property
    def key(self) -> str:
        """Return the cell's key."""
        return ",".join(f"{k}={v}" for k, v in self.levels.items())

    @property
    def flows(self) -> int:
        """Return how many flows it has."""
        return len(self._protocols())

    def _protocols(self) -> list[str]:
        return ["tcp", "tcp", "udp"] if self.levels.get("workload") == "2tcp1udp" else ["tcp", "tcp"]

    def _flow(self, seed: int, replication: int, index: int, protocol: str) -> dict[str, Any]:
        draw = random.Random(f"{seed} {self.key} {replication} {index}")
        aborted = protocol == "tcp" and self.levels.get("link") == "r6" and replication == 2 and index == 0
        row: dict[str, Any] = {
            "replication": replication,
            "flow": f"{protocol}{index + 1}",
            "application": f"{protocol}{index + 1}",
            "protocol": protocol,
            "outcome": "aborted" if aborted else "closed",
            "start_s": 0.03 * index,
            "elapsed_s": None if aborted else round(draw.uniform(40, 60), 6),
            "throughput_Bps": None if aborted else round(draw.uniform(3000, 5000), 3),
        }
        row |= {name: draw.randrange(20) for name in COUNTS}
        row |= {name: draw.uniform(100, 400) if protocol == "udp" else None for name in SPACING}
        return row

    def _roles(self, rows: Sequence[dict[str, Any]], replication: int) -> list[str]:
        own = [row for row in rows if row["replication"] == replication]
        if self.roles == "by-name":
            return [row["flow"] for row in own]
        transfers = [row for row in own if row["protocol"] == "tcp"]
        names = ["tcp-first", "tcp-second"]
        if self.roles == "by-elapsed":
            transfers.sort(key=lambda row: (row["elapsed_s"] is None, row["elapsed_s"]))
            names = ["tcp-faster", "tcp-slower"]
        roles = {row["flow"]: name for row, name in zip(transfers, names, strict=True)}
        return [roles.get(row["flow"], "udp") for row in own]

    def run(
        self,
        seed: int,
        first: int,
        count: int,
        observations: str = "{}",
        *,
        records: bool = True,
        memory: str | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Results:
        """Make up rows, an overview, a memory, and captures that say what they should hold."""
        del stop
        assert memory in (None, f"{self.key} before {first}"), memory
        remembered = f"{self.key} before {first + count}" if self.sequential else None
        wanted = json.loads(observations).values()
        for capture in [each["capture"] for each in wanted if "capture" in each]:
            file = Path(capture["folder"]) / "server.pcapng"
            file.write_text(f"{capture['comment']} {capture['snap_length']}", encoding="utf-8")
        trace = self._overview() if any("overview" in each for each in wanted) else None
        if not records:
            return Results({}, {}, {}, {}, {}, {}, trace, remembered)
        for replication in range(first, first + count):
            self.on_run(self.key, replication)
        rows = [
            self._flow(seed, replication, index, protocol)
            for replication in range(first, first + count)
            for index, protocol in enumerate(self._protocols())
        ]
        flows = {name: [row[name] for row in rows] for name in rows[0]}
        flows["role"] = [
            role for replication in range(first, first + count) for role in self._roles(rows, replication)
        ]
        replications = list(range(first, first + count))
        runs = {"replication": replications, "duration_s": [60.0] * count, "efficiency": [None] * count}
        pages, shorts = {"replication": [], "page": []}, {"replication": [], "application": []}
        hops: dict[str, list[Any]] = {"replication": [], "hop": [], "direction": []}
        stations: dict[str, list[Any]] = {"replication": [], "hop": [], "station": [], "direction": []}
        return Results(flows, pages, shorts, hops, stations, runs, trace, remembered)

    def _overview(self) -> Trace:
        """Make up a transfer of 40 segments with one loss and a bad period."""
        packets: list[dict[str, Any]] = []
        protocols = self._protocols()
        for flow, number in itertools.product(range(len(protocols)), range(40)):
            packets += _packet_life(flow, number)
        transport: dict[str, list[Any]] = {
            "time_ns": [2_000_000_000, 2_000_000_000, 4_100_000_000, 4_100_000_000],
            "flow": [0] * 4,
            "host": ["server"] * 4,
            "event": ["rtt-sample", "window", "retransmitted-fast", "window"],
            "seq": [None, None, 5 * 524, None],
            "cwnd": [None, 4, None, 2],
            "ssthresh": [None, None, None, 2],
            "rtt_ns": [600_000_000, None, None, None],
            "rto_ns": [1_800_000_000, None, None, None],
        }
        names = [f"{protocol}{i + 1}" for i, protocol in enumerate(protocols)]
        return Trace(
            {name: [packet[name] for packet in packets] for name in packets[0]},
            transport,
            {"flow": [], "object": []},
            {"flow": names, "application": names, "protocol": protocols, "direction": ["down"] * len(names)},
            {"start_s": [5.0], "end_s": [7.5], "hop": ["last-hop"], "direction": [""]},
            {"points": 0, "marks": 0, "flows": 0},
            _shared(names),
            {"flow": [0, 0], "share": [0.0, 1.0], "delay_s": [0.3, 0.9]},
        )


def _shared(names: Sequence[str]) -> dict[str, list[Any]]:
    """Return two steps, in which all flows get the same."""
    rows = [(time, name) for time in (0.0, 10.0) for name in (*names, "")]
    of_hop = [not name for _, name in rows]
    return {
        "time_s": [time for time, _ in rows],
        "flow": [name for _, name in rows],
        "direction": ["down"] * len(rows),
        "goodput_Bps": [1000.0 * (len(names) if hop else 1) for hop in of_hop],
        "sending_flows": [len(names) if hop else None for hop in of_hop],
        "fairness_jain": [1.0 if hop else None for hop in of_hop],
        "capacity_Bps": [8000.0 if hop else None for hop in of_hop],
        "step_s": [10.0] * len(rows),
    }


def _packet_life(flow: int, number: int) -> list[dict[str, Any]]:
    base = {
        "flow": flow,
        "fresh_bytes": 0,
        "queue_average": None,
        "queue_packets": None,
        "queue_class": 0,
        "window_bytes": 32_000,
    }
    data = base | {
        "direction": "down",
        "place": 0,
        "seq": number * 524,
        "end": number * 524 + 524,
        "payload_bytes": 524,
        "ack": 0,
        "sack": "",
    }
    ack = base | {
        "direction": "up",
        "place": 1,
        "seq": 0,
        "end": 0,
        "ack": number * 524 + 524,
        "payload_bytes": 0,
    }
    time = 500_000_000 * number
    if number == 5:
        return [
            data | {"time_ns": time, "event": "sent"},
            data | {"time_ns": time, "event": "dropped-queue"},
            data | {"time_ns": 4_100_000_000, "event": "sent"},
        ]
    blocks = f"{6 * 524}-{7 * 524} {7 * 524}-{8 * 524}" if number == 7 else ""
    return [
        data | {"time_ns": time, "event": "sent"},
        data | {"time_ns": time, "event": "enqueued", "queue_packets": number % 20, "queue_average": 3.5},
        data | {"time_ns": time + 300_000_000, "event": "delivered", "fresh_bytes": 524},
        ack | {"time_ns": time + 600_000_000, "event": "delivered", "sack": blocks},
    ]


@dataclass
class Study:
    """A study with its cells."""

    name: str
    factors: dict[str, list[str]]
    cells: list[Cell]
    digest: str
    title: str = "A made-up study"
    description: str | None = "Numbers drawn at random."
    seed: int = 1
    replications: int = 4
    assumed: Sequence[tuple[str, str, str]] = ()
    notes: Sequence[str] = ()
    code: Sequence[tuple[str, str]] = ()
    space: dict[str, Any] | None = None

    def check_hosts(self, keys: Sequence[str], *, real_hosts: bool, linux_router: bool) -> None:
        """Accept any scenario."""


@dataclass
class Engine:
    """Loads stand-in studies; counts what is run."""

    ran: list[tuple[str, int]] = field(default_factory=list)
    before_run: Callable[[int], None] = lambda _: None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def _on_run(self, key: str, replication: int) -> None:
        with self._lock:
            self.ran.append((key, replication))
            number = len(self.ran)
        self.before_run(number)

    def load(
        self, path: str, points: int | None = None, draw: object = None, for_link: bool = False
    ) -> Study:
        """Load by the word that is the file's contents."""
        del points, draw, for_link
        file = Path(path)
        if not file.is_file():
            raise ScenarioError(f"{path}: no such file; give a scenario file (TOML).")
        word = file.read_text(encoding="utf-8").strip()
        if word == "kulve2003":
            return Study("kulve2003", KULVE, self._kulve_cells(), digest="d" * 32)
        if word == "small":
            cells = [Cell({"queue": level}, "by-name", self._on_run) for level in SMALL["queue"]]
            return Study("small", SMALL, cells, digest="e" * 32)
        if word == "single":
            return Study("single", {}, [Cell({}, "by-name", self._on_run)], digest="f" * 32)
        raise ScenarioError(f"{path}:1: unknown key '{word}'; did you mean 'link'?")

    def _kulve_cells(self) -> list[Cell]:
        cells = []
        for link, workload, variant in itertools.product(*KULVE.values()):
            combined = variant.startswith("eifel")
            if workload == "2tcp0udp":
                wanted = link != "r6" or VARIANTS.index(variant) < 4
            else:
                wanted = combined and link in ("e0", "r1")
            if wanted:
                levels = {"link": link, "workload": workload, "variant": variant}
                roles = "by-start" if workload == "2tcp0udp5s" else "by-elapsed"
                cells.append(Cell(levels, roles, self._on_run, sequential="cbi" in variant))
        return cells
