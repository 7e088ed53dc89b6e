"""Logs that QUIC stacks write about themselves: qlog, as JSON (`.qlog`) and JSON-SEQ (`.sqlog`, RFC 7464).

The drafts are those since 2020: draft-marx-qlog-main-schema-01 and -02, whose events are arrays, and
draft-ietf-quic-qlog-main-schema with draft-ietf-quic-qlog-quic-events, which moved events from the namespaces
`transport` and `recovery` to `quic` and renamed some. Stacks follow a draft in part, so this reads what an
event has, not what the version in the header promises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from lasthop.common.errors import InputError

SUFFIXES = (".qlog", ".sqlog")
INITIAL, APPLICATION = "initial", "application"
# Packet number spaces (RFC 9000, section 12.3) by the names of packet types in the drafts.
_SPACES = {
    "initial": INITIAL,
    "handshake": "handshake",
    "0rtt": APPLICATION,
    "zerortt": APPLICATION,
    "1rtt": APPLICATION,
    "onertt": APPLICATION,
}
# Canonical names of events, without namespace.
_NAMES = {
    "metric_update": "metrics_updated",
    "recovery_metrics_updated": "metrics_updated",
    "marked_for_retransmission": "marked_for_retransmit",
}
METRICS = {
    "congestion_window": "cwnd_bytes",
    "cwnd": "cwnd_bytes",
    "bytes_in_flight": "in_flight_bytes",
    "ssthresh": "ssthresh_bytes",
    "smoothed_rtt": "srtt_ms",
    "latest_rtt": "latest_rtt_ms",
    "min_rtt": "min_rtt_ms",
    "rtt_variance": "rtt_var_ms",
}
"""Columns by the names of metrics in the drafts."""
# What stacks write for "not known": the greatest number of a type.
_UNKNOWN = 2**32 - 1
# Frames after which no acknowledgment is expected (RFC 9002, section 2).
_NOT_ELICITING = {"ack", "padding", "connection_close"}
_RECORD = "\x1e"
_UNITS_NS = {"ms": 1e6, "us": 1e3}


class Sent(NamedTuple):
    """A packet that the stack sent."""

    time_ns: int
    space: str
    number: int | None
    bytes: int | None
    eliciting: bool
    """Whether the peer has to acknowledge it."""


class Received(NamedTuple):
    """A packet that the stack received, and the packets that it acknowledges, as ranges with both ends."""

    time_ns: int
    space: str
    bytes: int | None
    acked: tuple[tuple[int, int], ...]


class Lost(NamedTuple):
    """A packet that the stack declared lost."""

    time_ns: int
    space: str
    number: int
    trigger: str


class Update(NamedTuple):
    """New values of some of the `METRICS`."""

    time_ns: int
    values: Mapping[str, float]


class State(NamedTuple):
    """The congestion state that the stack entered."""

    time_ns: int
    name: str


@dataclass
class Log:
    """What one end of a connection said, in the order of its events."""

    file: Path
    stack: str = ""
    """The name that the stack gives itself; empty if it gives none."""
    end: str = ""
    """`client`, `server`, or empty."""
    sent: list[Sent] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    marked_ns: list[int] = field(default_factory=list)
    """When the stack marked frames for retransmission."""
    notes: list[str] = field(default_factory=list)
    """What the file lacks."""


def read_logs(file: Path) -> list[Log]:
    """Read the connections of a file, in its order. Raise `InputError`, with file and line, if it is damaged.

    A file that ends within an event, because its stack was killed, is read up to there, with a note.
    """
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: byte {error.start} is not UTF-8: this is no qlog file.") from error
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror}.") from error
    return _Reader(file, text).read()


class _Reader:
    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._text = text
        self._decoder = json.JSONDecoder(parse_constant=self._refuse_constant)
        self._note: str | None = None

    def read(self) -> list[Log]:
        start = self._text[:1]
        is_sequence = start == _RECORD or self._has_lines()
        traces = list(self._sequence() if is_sequence else self._whole())
        logs = [log for trace, events in traces for log in self._trace(trace, events)]
        if not logs:
            raise InputError(f"{self._file}: there are no events of a connection.")
        for log in logs:
            log.notes += [self._note] if self._note else []
        return logs

    def _has_lines(self) -> bool:
        """Whether records stand on lines of their own, without the separators that RFC 7464 requires."""
        first, _, rest = self._text.partition("\n")
        return first.rstrip().endswith("}") and rest.lstrip().startswith("{")

    def _sequence(self) -> Iterator[tuple[Mapping[str, Any], list[tuple[int, Any]]]]:
        records = []
        line = 1
        parts = self._text.split(_RECORD) if self._text.startswith(_RECORD) else self._text.split("\n")
        newlines = 0 if self._text.startswith(_RECORD) else 1
        for index, part in enumerate(parts):
            if part.strip():
                value = self._record(part, line, is_last=not any(map(str.strip, parts[index + 1 :])))
                if value is not None:
                    records.append((line, value))
            line += part.count("\n") + newlines
        if not records:
            self._refuse(1, "it has no complete record")
        header = self._object(*records[0], "the first record")
        trace = self._object(1, header.get("trace", {}), "'trace'")
        yield {"title": header.get("title", ""), **trace}, records[1:]

    def _record(self, text: str, line: int, *, is_last: bool) -> object:
        try:
            return self._decode(text)
        except json.JSONDecodeError as error:
            # A record is complete if a line feed follows it (RFC 7464, section 2.4).
            if is_last and not text.endswith("\n"):
                self._note = f"{self._file} ends within a record, at line {line}, and is read up to there."
                return None
            self._refuse(line + error.lineno - 1, f"{error.msg}, at column {error.colno}")

    def _whole(self) -> Iterator[tuple[Mapping[str, Any], list[tuple[int, Any]]]]:
        try:
            document = self._decode(self._text)
        except json.JSONDecodeError as error:
            document = self._cut(error)
        traces = self._object(1, document, "the file").get("traces", [])
        if not isinstance(traces, list):
            self._refuse(1, "'traces' is not an array")
        for trace in traces:
            own = self._object(1, trace, "a trace")
            events = own.get("events", [])
            if not isinstance(events, list):
                self._refuse(1, "'events' is not an array")
            yield own, [(0, event) for event in events]

    def _cut(self, error: json.JSONDecodeError) -> object:
        """Return what an incomplete file has; raise `InputError` if it is damaged before its end."""
        start = re.search(r'"events"\s*:\s*\[', self._text)
        if start is None:
            self._refuse(error.lineno, f"{error.msg}, at column {error.colno}")
        events, at = [], start.end()
        blank = re.compile(r"[\s,]*")
        while (found := blank.match(self._text, at)) and found.end() < len(self._text):
            try:
                event, at = self._decoder.raw_decode(self._text, found.end())
            except json.JSONDecodeError as reason:
                rest = self._text[found.end() :]
                if not _closers(self._text if rest.startswith("]") else rest):
                    self._refuse(reason.lineno, f"{reason.msg}, at column {reason.colno}")
                break
            except RecursionError:
                self._refuse(error.lineno, "its arrays are nested too deeply")
            events.append(event)
        head = self._text[: start.end()]
        try:
            trace = self._decode(head + "]" + "".join(_closers(head[:-1])))
        except json.JSONDecodeError as reason:
            self._refuse(reason.lineno, f"{reason.msg}, at column {reason.colno}")
        for own in trace.get("traces", []) if isinstance(trace, dict) else []:
            own["events"] = events
        line = self._text.count("\n", 0, at) + 1
        self._note = f"{self._file} ends within an event, at line {line}, and is read up to there."
        return trace

    def _decode(self, text: str) -> object:
        try:
            return self._decoder.decode(text)
        except RecursionError:
            self._refuse(1, "its arrays are nested too deeply")

    def _trace(self, trace: Mapping[str, Any], events: Sequence[tuple[int, Any]]) -> Iterator[Log]:
        common = _mapping(trace.get("common_fields"))
        point = _mapping(trace.get("vantage_point"))
        settings = _mapping(trace.get("configuration"))
        stack = str(point.get("name") or trace.get("title", "")).removesuffix(" qlog")
        unit = str(settings.get("time_units", common.get("time_units", "ms")))
        if unit not in _UNITS_NS:
            self._refuse(1, f"time_units is {unit!r}, not ms or us")
        names = trace.get("event_fields")
        clock = _Clock(_UNITS_NS[unit], common)
        logs: dict[str, Log] = {}
        for number, (line, event) in enumerate(events, 1):
            where = line, number
            own = self._named(names, event, where) if isinstance(event, list) else event
            if not isinstance(own, dict):
                self._refuse(line, "an event is not an object", number)
            group = str(own.get("group_id", ""))
            if group not in logs:
                logs[group] = Log(self._file, stack, str(point.get("type", "")))
            self._add(logs[group], own, self._time(clock, own, where), _UNITS_NS[unit] / 1e6)
        yield from (log for log in logs.values() if log.sent or log.received or log.updates)

    def _named(self, names: object, event: Sequence[Any], where: tuple[int, int]) -> dict[str, Any]:
        if not isinstance(names, list) or len(names) != len(event):
            self._refuse(where[0], "an event is an array that 'event_fields' does not describe", where[1])
        values = {str(name).lower(): value for name, value in zip(names, event, strict=True)}
        kind = values.get("event", values.get("event_type", ""))
        return {**values, "name": f"{values.get('category', '')}:{kind}"}

    def _time(self, clock: _Clock, event: Mapping[str, Any], where: tuple[int, int]) -> int:
        try:
            return clock.time_ns(event)
        except (ValueError, OverflowError) as error:
            self._refuse(where[0], str(error), where[1])

    def _add(self, log: Log, event: Mapping[str, Any], time_ns: int, scale: float) -> None:
        kind = str(event.get("name", "")).rpartition(":")[2]
        data = _mapping(event.get("data"))
        match _NAMES.get(kind, kind):
            case "packet_sent":
                log.sent.append(_sent(time_ns, data))
            case "packet_received":
                log.received.append(_received(time_ns, data))
            case "packet_lost" if (lost := _lost(time_ns, data)) is not None:
                log.lost.append(lost)
            case "metrics_updated":
                log.updates.append(Update(time_ns, _metrics(data, scale)))
            case "congestion_state_updated":
                log.states.append(State(time_ns, str(data.get("new", data.get("new_state", "")))))
            case "marked_for_retransmit":
                log.marked_ns.append(time_ns)

    def _object(self, line: int, value: object, what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self._refuse(line, f"{what} is not an object")
        return value

    def _refuse_constant(self, text: str) -> NoReturn:
        raise InputError(f"{self._file}: {text} is not a number in JSON.")

    def _refuse(self, line: int, why: str, event: int | None = None) -> NoReturn:
        place = f"line {line}" if line else f"event {event}"
        raise InputError(f"{self._file}, {place}: {why}. This is no qlog that lasthop can read.")


class _Clock:
    """The times of a trace's events, in nanoseconds since any moment."""

    def __init__(self, unit_ns: float, common: Mapping[str, Any]) -> None:
        self._unit_ns = unit_ns
        style = common.get("time_format")
        self._is_delta = style in {"delta", "relative_to_previous_event"}
        self._last = 0.0

    def time_ns(self, event: Mapping[str, Any]) -> int:
        """Return the time of the next event. Raise `ValueError` if it has none."""
        names = ("time", "relative_time", "delta_time")
        name = next((name for name in names if name in event), None)
        if name is None:
            raise ValueError("an event has no time")
        value = _number(event[name])
        if value is None:
            raise ValueError(f"an event's time is {event[name]!r}")
        if self._is_delta or name == "delta_time":
            value += self._last
            self._last = value
        return round(value * self._unit_ns)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    """Return a finite number; the first drafts write some as texts."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if abs(value) < 2**64 else math.inf
    return number if math.isfinite(number) else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None or number < 0 else int(number)


def _packet(data: Mapping[str, Any]) -> tuple[str, int | None, int | None]:
    """Return a packet's number space, number and size; the drafts have them at different places."""
    header, raw = _mapping(data.get("header")), _mapping(data.get("raw"))
    kind = header.get("packet_type", data.get("packet_type", data.get("type", "")))
    places = (raw.get("length"), header.get("packet_size"), header.get("length"), data.get("packet_size"))
    size = next((size for size in map(_whole, places) if size), None)
    number = _whole(header.get("packet_number", data.get("packet_number")))
    return _SPACES.get(str(kind).lower().replace("_", ""), str(kind)), number, size


def _frames(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    frames = data.get("frames")
    return [_mapping(frame) for frame in frames] if isinstance(frames, list) else []


def _sent(time_ns: int, data: Mapping[str, Any]) -> Sent:
    space, number, size = _packet(data)
    kinds = {str(frame.get("frame_type")) for frame in _frames(data)}
    return Sent(time_ns, space, number, size, not kinds or bool(kinds - _NOT_ELICITING))


def _received(time_ns: int, data: Mapping[str, Any]) -> Received:
    space, _, size = _packet(data)
    ranges: list[tuple[int, int]] = []
    for frame in _frames(data):
        acked = frame.get("acked_ranges")
        if frame.get("frame_type") == "ack" and isinstance(acked, list):
            ranges += filter(None, map(_range, acked))
    return Received(time_ns, space, size, tuple(ranges))


def _range(ends: object) -> tuple[int, int] | None:
    """Return a range of packet numbers; a single one may stand alone."""
    numbers = list(map(_whole, ends if isinstance(ends, list) else [ends]))
    first, last = (numbers[0], numbers[-1]) if numbers else (None, None)
    return None if first is None or last is None else (min(first, last), max(first, last))


def _lost(time_ns: int, data: Mapping[str, Any]) -> Lost | None:
    space, number, _ = _packet(data)
    return None if number is None else Lost(time_ns, space, number, str(data.get("trigger", "")))


def _metrics(data: Mapping[str, Any], scale: float) -> dict[str, float]:
    """Return the known values by column; times in milliseconds."""
    values = {}
    for name, column in METRICS.items():
        value = _number(data.get(name))
        if value is not None and 0 <= value < _UNKNOWN:
            values[column] = value * (scale if column.endswith("_ms") else 1)
    return values


def _closers(text: str) -> list[str]:
    """Return the brackets that close what is open at the end of a text, the innermost first."""
    stack: list[str] = []
    is_text = is_escaped = False
    for character in text:
        if is_text:
            is_text = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            is_text = True
        elif character in "[{":
            stack.append("]" if character == "[" else "}")
        elif character in "]}" and stack:
            stack.pop()
    return (['"'] if is_text else []) + stack[::-1]
