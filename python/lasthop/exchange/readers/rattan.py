"""Rattan: its configuration, and the rates, delays and losses over time of netem-trace that it names.

Rattan's left side is lasthop's client: the path from `left` to `right` is the direction up.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from lasthop.common.errors import nearest
from lasthop.exchange.line import UNLIMITED, Direction, Line, State
from lasthop.exchange.place import Place, shown, text_of
from lasthop.exchange.quantities import split_number, time_text
from lasthop.exchange.readers.mahimahi import add_trace

_LAST_NS = 600 * 10**9
"""The time until which repeated patterns are written out."""
_STATES_MAX = 100_000
_LINK_LAYER_BYTES = 38
"""What `LinkLayer` adds to an IP packet: Ethernet with preamble, checksum and gap."""
_RATES = {
    "gbps": 10**9,
    "mbps": 10**6,
    "kbps": 10**3,
    "bps": 1,
    "gibps": 2**30,
    "mibps": 2**20,
    "kibps": 2**10,
}
_TIMES = {
    **dict.fromkeys(("ns", "nsec"), 1),
    **dict.fromkeys(("us", "usec", "µs"), 10**3),
    **dict.fromkeys(("ms", "msec"), 10**6),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 10**9),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 10**9),
}
_QUEUES = {"Infinite": None, "DropTail": "drop-tail", "DropHead": "drop-head", "CoDel": "codel", "Pie": "pie"}
_WITHOUT_EFFECT = ("Shadow", "Spy")
_PART = re.compile(r"\s*([\d.]+\s*[A-Za-zµ]+)")


def is_config(text: str) -> bool:
    return re.search(r"^\s*\[(cells|links)[.\]]", text, re.MULTILINE) is not None


@dataclass(frozen=True)
class Table:
    """A table of a configuration, with the line of each key."""

    values: dict[str, object]
    text: str
    file: Path
    header: str

    def place(self, key: str = "") -> Place:
        """Return the line of a key of this table, or that of its header."""
        lines = self.text.splitlines()
        header = re.compile(rf"\s*\[\s*{self.header}\s*\]\s*(#.*)?")
        start = next((at for at, line in enumerate(lines, 1) if header.fullmatch(line)), 0)
        wanted = re.compile(rf"\s*\"?{re.escape(key)}\"?\s*[=.]") if key else None
        for number, line in enumerate(lines[start:], start + 1):
            if wanted is None or line.lstrip().startswith("["):
                break
            if wanted.match(line):
                return Place(self.file, number)
        return Place(self.file, start)

    def fault(self, key: str, message: str) -> Exception:
        return self.place(key).fault(message)

    def word(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.fault(key, f"{key} is {shown(str(value))}, but must be a string")
        return value

    def required(self, key: str, example: str) -> str:
        if (value := self.word(key)) is None:
            raise self.fault(key, f"{key} is missing; add for example {key} = {example}")
        return value

    def count(self, values: dict[str, object], key: str, at: str) -> int | None:
        value = values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**40:
            raise self.fault(at, f"{key} is {shown(str(value))}, but must be a whole number")
        return value


def read(line: Line, text: str, file: Path) -> None:
    """Read a configuration: the cells on both ways between `left` and `right`."""
    try:
        config = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"\(at line (\d+)", str(error))
        reason = str(error).partition(" (at")[0]
        raise Place(file, int(found[1]) if found else 0).fault(f"invalid TOML: {reason}") from error
    cells = {}
    for name, cell in _table(config, "cells", file).items():
        header = rf"cells\.\"?{re.escape(name)}\"?"
        if not isinstance(cell, dict):
            raise Place(file).fault(f"cells.{name} is not a table")
        cells[name] = Table(cell, text, file, header)
    links = Table(_table(config, "links", file), text, file, "links")
    for way, start, end in (("up", "left", "right"), ("down", "right", "left")):
        for name in _path(links, cells, start, end):
            Cell(line, way, name, cells[name]).read()
    for way, direction in line.directions.items():
        if "rate" not in direction.link and direction.trace is None and not direction.states:
            raise links.fault("", f"no cell limits the rate of the way {way}; add one of the type Bw")


def _table(config: dict[str, object], key: str, file: Path) -> dict[str, object]:
    value = config.get(key)
    if not isinstance(value, dict):
        raise Place(file).fault(f"the table [{key}] is missing")
    return value


def _path(links: Table, cells: dict[str, Table], start: str, end: str) -> Iterator[str]:
    """Yield the cells from one side to the other."""
    at, seen = start, set()
    while True:
        after = links.word(at)
        if after is None:
            near = nearest(at, links.values)
            hint = f"; the most similar key is '{near}'" if near else ""
            raise links.fault(
                at, f"the way from '{start}' to '{end}' ends at '{at}', which links to nothing{hint}"
            )
        if after == end:
            return
        if after not in cells:
            near = nearest(after, [*cells, end])
            raise links.fault(
                at, f"'{at}' links to '{after}', which is no cell; the most similar is '{near}'"
            )
        if after in seen:
            raise links.fault(at, f"the way from '{start}' meets '{after}' twice; it must lead to '{end}'")
        seen.add(after)
        yield after
        at = after


class Cell:
    """Reads a cell of one direction."""

    def __init__(self, line: Line, way: str, name: str, table: Table) -> None:
        self.line = line
        self.way = way
        self.name = name
        self.table = table
        self.direction: Direction = line.directions[way]

    def read(self) -> None:
        kind = self.table.required("type", '"Delay"')
        readers: dict[str, Callable[[], None]] = {
            "Bw": self._rate,
            "BwReplay": self._rates,
            "Delay": self._delay,
            "DelayReplay": self._delays,
            "Loss": self._loss,
            "LossReplay": self._losses,
            "TokenBucket": self._bucket,
        }
        if kind in readers:
            readers[kind]()
        elif kind not in _WITHOUT_EFFECT:
            near = nearest(kind, [*readers, *_WITHOUT_EFFECT])
            raise self.table.fault(
                "type",
                f"lasthop does not read cells of the type {shown(kind)}; the most "
                f"similar that it reads is '{near}'",
            )

    def _place(self, key: str = "") -> Place:
        return self.table.place(key)

    def _rate(self) -> None:
        place = self._place("bandwidth")
        self.direction.set("rate", rate(self.table.required("bandwidth", '"12Mbps"'), place), place)
        self._queue()

    def _rates(self) -> None:
        file, place = self._file()
        if file.suffix in (".json", ".toml"):
            states = [State(at, rate=int(value)) for at, value in self._trace(file, place, "Bw")]
            if states[-1].rate == 0:
                states.append(State(_LAST_NS, rate=next((s.rate for s in states if s.rate), 1)))
            self.direction.add_states("rate", states, place)
        else:
            add_trace(self.direction, file, text_of(file, place), place)
        self._queue()

    def _delay(self) -> None:
        place = self._place("delay")
        self.direction.add_delay(duration(self.table.required("delay", '"10ms"'), place), place)

    def _delays(self) -> None:
        file, place = self._file()
        states = [State(at, delay_ns=int(value)) for at, value in self._trace(file, place, "Delay")]
        self.direction.add_states("delay", states, place)

    def _losses(self) -> None:
        file, place = self._file()
        states = [State(at, loss=float(value)) for at, value in self._trace(file, place, "Loss")]
        self.direction.add_states("loss", states, place)

    def _loss(self) -> None:
        place = self._place("pattern")
        loss = pattern(self.table.values.get("pattern", []), place)
        if loss > 0:
            self.direction.set("loss", loss, place)

    def _bucket(self) -> None:
        place = self._place("rate")
        self.direction.set("rate", rate(self.table.required("rate", '"12Mbps"'), place), place)
        self.line.note(place, "a link has no token bucket: it never sends a burst faster than its rate")
        limit = self.table.count(self.table.values, "limit", "limit")
        self.direction.set_queue({"limit": f"{limit} B" if limit else UNLIMITED}, self._place("limit"))

    def _queue(self) -> None:
        place = self._place("queue")
        kind = self.table.word("queue") or "Infinite"
        if kind not in _QUEUES:
            near = nearest(kind, _QUEUES)
            raise place.fault(f"lasthop does not read the queue {shown(kind)}; the most similar is '{near}'")
        if self.table.word("bw_type") == "LinkLayer":
            self.direction.set("framing", f"{_LINK_LAYER_BYTES} B", self._place("bw_type"))
        config = self.table.values.get("queue_config", {})
        at = self._place("queue_config")
        if at.line == self._place().line:
            nested = Table({}, self.table.text, self.table.file, rf"{self.table.header}\.queue_config")
            at = nested.place() if nested.place().line else at
        if not isinstance(config, dict):
            raise at.fault("queue_config is not a table")
        discipline = _QUEUES[kind]
        queue: dict[str, object] = {} if discipline in (None, "drop-tail") else {"discipline": discipline}
        packets, size = (
            self.table.count(config, key, "queue_config") for key in ("packet_limit", "byte_limit")
        )
        if packets and size:
            self.line.note(at, f"the queue {self.way} has two limits; lasthop uses that in packets")
        if 0 in (packets, size):
            raise at.fault("a queue with a limit of 0 drops everything; write at least one packet")
        queue["limit"] = f"{packets} packets" if packets else f"{size} B" if size else UNLIMITED
        if packets is None and size is None:
            self.line.note(at, f"the queue {self.way} has no limit in rattan; here it has {UNLIMITED}")
        if kind == "CoDel":
            for key in ("target", "interval"):
                if isinstance(text := config.get(key), str):
                    queue[key] = time_text(duration(text, at))
        self.direction.set_queue(queue, place)

    def _file(self) -> tuple[Path, Place]:
        place = self._place("trace")
        return place.other(self.table.required("trace", '"rate.trace"')), place

    def _trace(self, file: Path, named_at: Place, quantity: str) -> list[tuple[int, Fraction]]:
        """Return times and values of a trace of netem-trace."""
        trace = Trace(file, text_of(file, named_at), quantity)
        parts, complete = trace.read()
        if not complete:
            self.line.note(
                named_at,
                f"the pattern is repeated until {_LAST_NS // 10**9} s; its last value holds from then on",
            )
        return parts


class Trace:
    """Reads a trace of netem-trace with constant parts and repetitions."""

    def __init__(self, file: Path, text: str, quantity: str) -> None:
        self.file = file
        self.text = text
        self.quantity = quantity
        self.key = {"Bw": "bw", "Delay": "delay", "Loss": "loss"}[quantity]

    def read(self) -> tuple[list[tuple[int, Fraction]], bool]:
        """Return start and value of each part, and whether no repetition was cut."""
        try:
            value = json.loads(self.text) if self.file.suffix == ".json" else tomllib.loads(self.text)
        except json.JSONDecodeError as error:
            raise Place(self.file, error.lineno).fault(f"invalid JSON: {error.msg}") from error
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"\(at line (\d+)", str(error))
            raise Place(self.file, int(found[1]) if found else 0).fault("invalid TOML") from error
        except (RecursionError, ValueError) as error:
            raise Place(self.file).fault(f"unusable: {error}") from error
        parts: list[tuple[int, Fraction]] = []
        now, complete = 0, True
        for length, part in self._parts(value, 0):
            if now >= _LAST_NS or len(parts) >= _STATES_MAX:
                complete = False
                break
            parts.append((now, part))
            now += length
        if not parts:
            raise self._place("pattern").fault("the trace has no parts")
        return parts, complete

    def _place(self, word: str) -> Place:
        at = self.text.find(word)
        return Place(self.file, self.text.count("\n", 0, at) + 1 if at >= 0 else 0)

    def _parts(self, value: object, depth: int) -> Iterator[tuple[int, Fraction]]:
        static, repeated = f"Static{self.quantity}Config", f"Repeated{self.quantity}PatternConfig"
        traced = f"Trace{self.quantity}Config"
        if not isinstance(value, dict) or len(value) != 1 or depth > 8:
            raise self._place(static).fault(f"expected one table {static} or {repeated}")
        ((kind, config),) = value.items()
        if not isinstance(config, dict):
            raise self._place(kind).fault(f"{kind} is not a table")
        if kind == static:
            yield self._length(config.get("duration"), kind), self._value(config.get(self.key), kind)
        elif kind == repeated:
            yield from self._repeated(config, depth)
        elif kind == traced and self.quantity != "Loss":
            for group in self._list(config.get("pattern"), kind):
                match group:
                    case [length, [*values]]:
                        for each in values:
                            yield self._length(length, kind), self._value(each, kind)
                    case _:
                        raise self._place(kind).fault("expected a duration and a list of values")
        else:
            near = nearest(kind, [static, repeated, traced])
            raise self._place(kind).fault(
                f"lasthop does not read {shown(kind)}; the most similar is '{near}'"
            )

    def _repeated(self, config: dict[str, object], depth: int) -> Iterator[tuple[int, Fraction]]:
        pattern = self._list(config.get("pattern"), "pattern")
        count = config.get("count", 0)
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise self._place("count").fault("count is not a whole number; 0 repeats for ever")
        rounds = 0
        while count == 0 or rounds < count:
            lasts = 0
            for value in pattern:
                for length, part in self._parts(value, depth + 1):
                    lasts += length
                    yield length, part
            if lasts == 0:
                raise self._place("pattern").fault("the pattern lasts no time")
            rounds += 1

    def _list(self, value: object, near: str) -> list[object]:
        if not isinstance(value, list) or len(value) > _STATES_MAX:
            raise self._place(near).fault("expected a list")
        return value

    def _length(self, value: object, near: str) -> int:
        place = self._place(near)
        if isinstance(value, dict):
            value = f"{value.get('secs', 0)}s {value.get('nanos', 0)}ns"
        if not isinstance(value, str):
            raise place.fault(f'{near} has no duration; add for example duration = "1s"')
        return duration(value, place)

    def _value(self, value: object, near: str) -> Fraction:
        place = self._place(near)
        if self.quantity == "Loss":
            return Fraction(pattern(value, place))
        if isinstance(value, dict):
            value = (
                f"{value.get('secs', 0)}s {value.get('nanos', 0)}ns"
                if self.quantity == "Delay"
                else f"{value.get('gbps', 0)}Gbps {value.get('bps', 0)}bps"
            )
        if not isinstance(value, str):
            raise place.fault(f"{near} has no {self.key}")
        return Fraction((rate if self.quantity == "Bw" else duration)(value, place))


def rate(text: str, place: Place) -> int:
    """Return a rate such as "1Gbps 200Mbps" in bit/s."""
    return _sum(text, _RATES, place, "a rate", "12Mbps")


def duration(text: str, place: Place) -> int:
    """Return a duration such as "1s 500ms" in nanoseconds."""
    return _sum(text, _TIMES, place, "a duration", "10ms")


def pattern(value: object, place: Place) -> float:
    """Return the loss of a pattern of probabilities, of which lasthop has one."""
    if not isinstance(value, list) or not all(
        isinstance(loss, int | float) and not isinstance(loss, bool) and 0 <= loss <= 1 for loss in value
    ):
        raise place.fault("the loss is not a list of probabilities; write for example [0.01]")
    if len(set(value)) > 1:
        raise place.fault(
            "losses that depend on earlier losses have no counterpart; write a list of one number"
        )
    return float(value[0]) if value else 0.0


def _sum(text: str, units: dict[str, int], place: Place, what: str, example: str) -> int:
    parts = _PART.findall(text[:200])
    rest = _PART.sub("", text)
    total = Fraction(0)
    for part in parts:
        number = split_number(part.replace("µ", "u"))
        if number is None or number[1].lower() not in units or number[0] > 10**15:
            parts = []
            break
        total += number[0] * units[number[1].lower()]
    if not parts or rest.strip() or total > 2**60:
        raise place.fault(f'{shown(text)} is not {what}; write for example "{example}"')
    return round(total)
