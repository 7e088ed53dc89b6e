"""A line with certain properties, and a run of the model on it, captured where the data were measured."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from lasthop.engines.engine import CaptureTarget, Observation, Request
from lasthop.fit.measurement import PACKET, Delays, Direction, End, Measurement, Transfer
from lasthop.fit.observed import Observed
from lasthop.fit.sources import capture
from lasthop.fit.way_back import Shares, usual
from lasthop.scenario.points import parse_study
from lasthop.scenario.toml import to_toml

# Captured bytes of a packet: headers with all options.
SNAP = 120
OTHER: dict[str, Direction] = {"down": "up", "up": "down"}
# Inference extends its ranges if the best value lies at an edge; with more loss no transfer is possible.
MOST_LOSS = 0.5
NOTHING = Observed()
# The rate of the link behind a policer relative to the policer's, if counters do not show it.
COUNTED_LINE = 10

# A direction of a hop: its parts (`link`, `queue`, ...) with their keys.
Way = dict[str, dict[str, object]]


@dataclass(frozen=True)
class Model:
    """A model of a line: congestion control, queue, and the properties that the line has."""

    control: str
    queue: str
    lossy: bool = False
    """Whether the link has random loss."""
    jittery: bool = False
    """Whether the link has jitter."""
    endless: bool = False
    """Whether the queue never overflowed, so that its limit has no effect on the data."""

    def __str__(self) -> str:
        words = (("random loss", self.lossy), ("jitter", self.jittery), ("no limit", self.endless))
        more = [word for word, has in words if has]
        return f"{self.control} through {self.queue}{', with ' if more else ''}{' and '.join(more)}"


@dataclass(frozen=True)
class Setting:
    """The common properties of all runs."""

    transfers: tuple[Transfer, ...]
    direction: Direction
    seen_at: End
    until_s: float
    """The duration of runs, and of the part of the measurement that is compared with them."""
    observed: Observed = NOTHING
    back: Shares = (1.0, 1.0)
    """The range of the rate of the ACKs' direction."""

    def shift_s(self, rtt_ms: float) -> float:
        """Return the shift between the times of the data and of events at the link of a run.

        A run begins with a SYN. A sender first sees an answer, after a round trip, and sees packets a round
        trip after they left the link. A receiver first sees data after three one-way delays, and sees packets
        one delay after they left the link.
        """
        return rtt_ms / 1e3 if self.seen_at == "receiver" else 0.0

    def keys(self, values: Mapping[str, float], model: Model) -> dict[str, object]:
        """Return the scenario of a line with these values, in Mbit/s, ms and packets."""
        return {
            "time_limit": "10 min",
            **line_keys(values, model, self.direction, self.observed),
            **self._traffic(values, model),
        }

    def _traffic(self, values: Mapping[str, float], model: Model) -> dict[str, object]:
        first = self.transfers[0]
        tcp: dict[str, object] = {"profile": "linux-6", "congestion_control": model.control}
        tcp["initial_window"] = first.initial_window or 10
        window = max((transfer.receive_window or 0) for transfer in self.transfers)
        tcp["receive_window_max"] = max(64, min(30_000, -(-window // first.payload))) if window else 30_000
        if first.overhead < 52:
            tcp["timestamps"] = False
        rtt_s = values["rtt"] / 1e3
        flows = [self._flow(number, transfer, rtt_s) for number, transfer in enumerate(self.transfers, 1)]
        flows += self.observed.flows(self.direction, self.shift_s(values["rtt"]))
        return {"mtu": f"{max(first.packet, 296)} B", "tcp": tcp, "flow": flows}

    def _flow(self, number: int, transfer: Transfer, rtt_s: float) -> dict[str, object]:
        """Return a flow with the bytes of a transfer that ended, or one that goes on as it did."""
        first, last = float(transfer.time_s[0]), float(transfer.time_s[-1])
        flow: dict[str, object] = {"kind": "bulk-tcp", "name": f"transfer-{number}"}
        flow |= {"direction": self.direction, "start": f"{max(0.0, first):.6f} s"}
        if last < self.until_s:
            flow["bytes"] = f"{max(1, round(float(transfer.bytes[-1])))} B"
        else:
            flow["duration"] = f"{max(0.05, self.until_s - first) + 2 * rtt_s + 1:.6f} s"
        return flow


def line_keys(
    values: Mapping[str, float], model: Model, direction: Direction, observed: Observed = NOTHING
) -> dict[str, Way]:
    """Return the keys of the last hop. The round trip is divided evenly between both directions.

    A policer has the rate `rate`, and the link behind it the rate `line`.
    The other direction has the rate `back`, if given. `with_course` adds the file of a course.
    """
    delay = f"{values['rtt'] / 2:.4f} ms"
    rate = f"{values['rate'] * 1e3:.3f} kbit/s"
    link: dict[str, object] = (
        {"delay": delay} if observed.course is not None else {"rate": rate, "delay": delay}
    )
    if values.get("loss", 0.0) > 0:
        link["loss"] = f"{100 * min(values['loss'], MOST_LOSS):.5f} %"
    if values.get("jitter", 0.0) > 0:
        link["jitter"] = {"distribution": "uniform", "min": "0 ms", "max": f"{values['jitter']:.4f} ms"}
    link |= observed.link(values)
    way: Way = {"link": link}
    packets = max(1, round(values["buffer"]))
    way["queue"] = {"limit": f"{packets} packets"}
    discipline = observed.discipline(model.queue)
    if model.queue == "codel":
        way["queue"] = {"discipline": discipline, "limit": "1000 packets"}
    elif model.queue == "policer":
        way["queue"] = {"limit": "1000 packets"}
        way["policer"] = {"rate": rate, "burst": f"{(packets + 1) * PACKET} B"}
        line = values.get("line") or COUNTED_LINE * values["rate"]
        link["rate"] = f"{line * 1e3:.3f} kbit/s"
    elif discipline != "drop-tail":
        way["queue"]["discipline"] = discipline
    back_rate = values.get("back", usual(values["rate"]))
    back: Way = {"link": {"rate": f"{back_rate * 1e3:.3f} kbit/s", "delay": delay}}
    back["queue"] = {"limit": "1000 packets"}
    return {direction: way, OTHER[direction]: back}


def with_course(keys: Mapping[str, object], direction: str, file: str) -> dict[str, object]:
    way = cast("Way", keys[direction])
    return {**keys, direction: {**way, "link": way["link"] | {"course": file}}}


def simulate(setting: Setting, values: Mapping[str, float], model: Model, seed: int) -> Measurement:
    """Run the line once and read its capture."""
    keys = setting.keys(values, model)
    # If possible in memory, because each run writes a few MB, which are then deleted.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="lasthop-fit-", dir=memory) as name:
        folder = Path(name)
        if setting.observed.course is not None:
            file = folder / "course.csv"
            course = setting.observed.course.shifted(setting.shift_s(values["rtt"]))
            file.write_text(course.text(), encoding="utf-8")
            keys = with_course(keys, setting.direction, str(file))
        if setting.observed.known is not None:
            file = folder / "captured.csv"
            file.write_text(setting.observed.known.text(), encoding="utf-8")
            flow = setting.observed.known.flow(setting.direction, values["rtt"] / 1e3, str(file))
            keys = {**keys, "flow": [*cast("list[object]", keys["flow"]), flow]}
        cell = parse_study(to_toml(keys)).cells[0]
        at_server = (setting.seen_at == "sender") == (setting.direction == "down")
        point = "server" if at_server else "client"
        request = Request.of_one(seed, 0, 0, Observation(capture=CaptureTarget(folder, "fit", SNAP, point)))
        cell.run(seed, 0, 1, json.dumps(request.messages()), records=False)
        return capture.read(folder / f"{point}.pcapng")


Seen = tuple[tuple[Transfer, ...], Delays | None]


def cut(transfers: tuple[Transfer, ...], delays: Delays | None, until_s: float) -> Seen:
    parts = []
    for transfer in transfers:
        chosen = transfer.time_s <= until_s
        if chosen.sum() >= 2:
            lost = transfer.lost_s[transfer.lost_s <= until_s]
            parts.append(
                replace(transfer, time_s=transfer.time_s[chosen], bytes=transfer.bytes[chosen], lost_s=lost)
            )
    if delays is not None:
        chosen = delays.time_s <= until_s
        delays = Delays(delays.time_s[chosen], delays.rtt_ms[chosen], smoothed=delays.smoothed)
    return tuple(parts), delays


def from_start(transfers: tuple[Transfer, ...], delays: Delays | None) -> Seen:
    """Shift times to the start of the first transfer, and omit probes before it."""
    start = min(float(transfer.time_s[0]) for transfer in transfers)
    later = tuple(
        replace(transfer, time_s=transfer.time_s - start, lost_s=transfer.lost_s - start)
        for transfer in transfers
    )
    if delays is not None:
        chosen = delays.time_s >= start
        delays = Delays(delays.time_s[chosen] - start, delays.rtt_ms[chosen], smoothed=delays.smoothed)
    return later, delays
