"""A line with unknown properties, and what the model makes of it: one run, seen from where the data were."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from lasthop.engines.engine import CaptureTarget, Observation, Request
from lasthop.fit.known import Known
from lasthop.fit.measurement import PACKET, Delays, Direction, End, Measurement, Transfer
from lasthop.fit.sources import capture
from lasthop.fit.way_back import Shares, usual
from lasthop.scenario.points import parse_study
from lasthop.scenario.toml import to_toml

# Bytes kept of a packet: headers with all options.
SNAP = 120
OTHER: dict[str, Direction] = {"down": "up", "up": "down"}
# Inference widens its ranges where the best lies at an edge; no transfer lives on a line that loses more.
MOST_LOSS = 0.5
NOTHING = Known()

# A direction of a hop: its parts (`link`, `queue`, ...) with their keys.
Way = dict[str, dict[str, object]]


@dataclass(frozen=True)
class Model:
    """The names that a fit chooses among."""

    control: str
    queue: str
    lossy: bool = False
    """Whether the link also loses packets at random."""
    jittery: bool = False
    """Whether packets also wait at random."""
    endless: bool = False
    """Whether the queue never overflowed, so that its limit is no property of what was seen."""

    def __str__(self) -> str:
        words = (("random loss", self.lossy), ("jitter", self.jittery), ("no limit", self.endless))
        more = [word for word, has in words if has]
        return f"{self.control} through {self.queue}{', with ' if more else ''}{' and '.join(more)}"


@dataclass(frozen=True)
class Setting:
    """What is the same in all runs: the transfers and where they were seen."""

    transfers: tuple[Transfer, ...]
    direction: Direction
    seen_at: End
    until_s: float
    """The runs last as long, and so much of the measurement is compared with them."""
    known: Known = NOTHING
    back: Shares = (1.0, 1.0)
    """What the rate of the ACKs' way may be."""

    def shift_s(self, rtt_ms: float) -> float:
        """How much later than in the data something happens at the link of a run, which begins with a SYN.

        The first that a sender sees is an answer, after a round trip, and what left the link then is seen as
        much later. A receiver sees data first, after three ways, and what leaves the link after one.
        """
        return rtt_ms / 1e3 if self.seen_at == "receiver" else 0.0

    def keys(self, values: Mapping[str, float], model: Model) -> dict[str, object]:
        """The scenario of a line with these values: Mbit/s, ms and packets."""
        return {
            "time_limit": "10 min",
            **line_keys(values, model, self.direction, self.known),
            **self._traffic(values, model),
        }

    def _traffic(self, values: Mapping[str, float], model: Model) -> dict[str, object]:
        first = self.transfers[0]
        tcp: dict[str, object] = {"profile": "linux-6", "congestion_control": model.control}
        tcp["initial_window"] = first.initial_window or 10
        window = max((one.receive_window or 0) for one in self.transfers)
        tcp["receive_window_max"] = max(64, min(30_000, -(-window // first.payload))) if window else 30_000
        if first.overhead < 52:
            tcp["timestamps"] = False
        flows = [self._flow(number, one, values["rtt"] / 1e3) for number, one in enumerate(self.transfers, 1)]
        flows += self.known.flows(self.direction, self.shift_s(values["rtt"]))
        return {"mtu": f"{max(first.packet, 296)} B", "tcp": tcp, "flow": flows}

    def _flow(self, number: int, one: Transfer, rtt_s: float) -> dict[str, object]:
        """A flow from its first delivery on: two round trips go before it, and what comes late is cut off."""
        first, last = float(one.time_s[0]), float(one.time_s[-1])
        more = 2 * rtt_s if last < 0.98 * self.until_s else 2 * rtt_s + 1
        return {
            "kind": "bulk-tcp",
            "name": f"transfer-{number}",
            "direction": self.direction,
            "start": f"{max(0.0, first):.6f} s",
            "duration": f"{max(0.05, min(self.until_s, last) - first) + more:.6f} s",
        }


def line_keys(
    values: Mapping[str, float], model: Model, direction: Direction, known: Known = NOTHING
) -> dict[str, Way]:
    """The keys of the last hop. The round trip is shared evenly between both directions.

    The way back has the rate `back` if it is among the values. A course is a file, so it has no place here:
    `with_course` names it.
    """
    delay = f"{values['rtt'] / 2:.4f} ms"
    rate = f"{values['rate'] * 1e3:.3f} kbit/s"
    link: dict[str, object] = {"delay": delay} if known.course is not None else {"rate": rate, "delay": delay}
    if values.get("loss", 0.0) > 0:
        link["loss"] = f"{100 * min(values['loss'], MOST_LOSS):.5f} %"
    if values.get("jitter", 0.0) > 0:
        link["jitter"] = {"distribution": "uniform", "min": "0 ms", "max": f"{values['jitter']:.4f} ms"}
    link |= known.link(values)
    way: Way = {"link": link}
    packets = max(1, round(values["buffer"]))
    way["queue"] = {"limit": f"{packets} packets"}
    discipline = known.discipline(model.queue)
    if model.queue == "codel":
        way["queue"] = {"discipline": discipline, "limit": "1000 packets"}
    elif model.queue == "policer":
        way["queue"] = {"limit": "1000 packets"}
        way["policer"] = {"rate": rate, "burst": f"{(packets + 1) * PACKET} B"}
        link["rate"] = f"{values['rate'] * 1e4:.3f} kbit/s"
    elif discipline != "drop-tail":
        way["queue"]["discipline"] = discipline
    back_rate = values.get("back", usual(values["rate"]))
    back: Way = {"link": {"rate": f"{back_rate * 1e3:.3f} kbit/s", "delay": delay}}
    back["queue"] = {"limit": "1000 packets"}
    return {direction: way, OTHER[direction]: back}


def with_course(keys: Mapping[str, object], direction: str, file: str) -> dict[str, object]:
    """The same keys with the file of a course."""
    way = cast("Way", keys[direction])
    return {**keys, direction: {**way, "link": way["link"] | {"course": file}}}


def simulate(setting: Setting, values: Mapping[str, float], model: Model, seed: int) -> Measurement:
    """Run the line once and read the capture of it as the measured one was read."""
    keys = setting.keys(values, model)
    # In memory, where there is such a folder: each run writes a few MB that live for a moment.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="lasthop-fit-", dir=memory) as name:
        folder = Path(name)
        if setting.known.course is not None:
            file = folder / "course.csv"
            course = setting.known.course.shifted(setting.shift_s(values["rtt"]))
            file.write_text(course.text(), encoding="utf-8")
            keys = with_course(keys, setting.direction, str(file))
        cell = parse_study(to_toml(keys)).cells[0]
        at_server = (setting.seen_at == "sender") == (setting.direction == "down")
        point = "server" if at_server else "client"
        request = Request.of_one(seed, 0, 0, Observation(capture=CaptureTarget(folder, "fit", SNAP, point)))
        cell.run(seed, 0, 1, json.dumps(request.messages()), records=False)
        return capture.read(folder / f"{point}.pcapng")


Seen = tuple[tuple[Transfer, ...], Delays | None]


def cut(transfers: tuple[Transfer, ...], delays: Delays | None, until_s: float) -> Seen:
    """The part before a time."""
    parts = []
    for one in transfers:
        chosen = one.time_s <= until_s
        if chosen.sum() >= 2:
            lost = one.lost_s[one.lost_s <= until_s]
            parts.append(replace(one, time_s=one.time_s[chosen], bytes=one.bytes[chosen], lost_s=lost))
    if delays is not None:
        chosen = delays.time_s <= until_s
        delays = Delays(delays.time_s[chosen], delays.rtt_ms[chosen], smoothed=delays.smoothed)
    return tuple(parts), delays


def begun(transfers: tuple[Transfer, ...], delays: Delays | None) -> Seen:
    """The same in seconds since the first transfer began; probes before it are left out."""
    start = min(float(one.time_s[0]) for one in transfers)
    later = tuple(replace(one, time_s=one.time_s - start, lost_s=one.lost_s - start) for one in transfers)
    if delays is not None:
        chosen = delays.time_s >= start
        delays = Delays(delays.time_s[chosen] - start, delays.rtt_ms[chosen], smoothed=delays.smoothed)
    return later, delays
