"""A line that was read from other tools' files, and its scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap

from lasthop.exchange.place import Place
from lasthop.exchange.quantities import rate_text, seconds, time_text
from lasthop.scenario.toml import to_toml

WAYS = ("down", "up")
UNLIMITED = "1000 MB"
"""The limit of a queue that has none in the other tool."""
_WIDTH = 108
_CHANGES_MAX = 20
"""More changes are written to a file, unless there is a trace, which goes with changes only."""


@dataclass(frozen=True, slots=True)
class State:
    """What holds from a time on; `None` leaves a quantity as it is. A rate of 0 is an outage."""

    at_ns: int
    rate: int | None = None
    delay_ns: int | None = None
    loss: float | None = None


@dataclass
class Direction:
    """One direction, as its keys below `link`, its queue, and its course."""

    link: dict[str, object] = field(default_factory=dict)
    queue: dict[str, object] = field(default_factory=dict)
    trace: str | None = None
    """A Mahimahi trace."""
    states: list[State] = field(default_factory=list)
    """In any order; those of one time are merged."""
    set_at: dict[str, Place] = field(default_factory=dict)

    def set(self, key: str, value: object, place: Place) -> None:
        """Set a key of the link, once."""
        self._once(key, place)
        self.link[key] = value

    def set_queue(self, queue: Mapping[str, object], place: Place) -> None:
        self._once("queue", place)
        self.queue |= queue

    def set_trace(self, text: str, place: Place) -> None:
        self._once("rate", place)
        self.trace = text

    def add_states(self, key: str, states: list[State], place: Place) -> None:
        """Add the course of one quantity: `rate`, `delay` or `loss`."""
        self._once(key, place)
        self.states += states

    def add_delay(self, nanoseconds: int, place: Place) -> None:
        """Add to the delay, of which a path may have several parts."""
        if self.states and any(state.delay_ns is not None for state in self.states):
            raise place.fault("a delay over time and a fixed one do not go together; keep one of them")
        self.set_at.setdefault("delay", place)
        self.link["delay_ns"] = self.delay_ns + nanoseconds

    @property
    def delay_ns(self) -> int:
        value = self.link.get("delay_ns", 0)
        return value if isinstance(value, int) else 0

    def _once(self, key: str, place: Place) -> None:
        if (before := self.set_at.get(key)) is not None:
            raise place.fault(f"this sets the {key} of the direction again, after {before}; keep one of them")
        self.set_at[key] = place

    def timeline(self) -> list[State]:
        """Return the states in order of time, each with all quantities that vary."""
        merged: list[State] = []
        for state in sorted(self.states, key=lambda state: state.at_ns):
            now = merged[-1] if merged else State(0, loss=None)
            now = State(
                state.at_ns,
                now.rate if state.rate is None else state.rate,
                now.delay_ns if state.delay_ns is None else state.delay_ns,
                now.loss if state.loss is None else state.loss,
            )
            if merged and merged[-1].at_ns == now.at_ns:
                merged.pop()
            if not merged or State(merged[-1].at_ns, now.rate, now.delay_ns, now.loss) != merged[-1]:
                merged.append(now)
        return merged


@dataclass
class Line:
    """A line: its directions, and what of the files has no counterpart here."""

    source: str
    """The format, for the head of the scenario."""
    directions: dict[str, Direction] = field(default_factory=lambda: {way: Direction() for way in WAYS})
    notes: list[str] = field(default_factory=list)
    data: str = "down"
    """The direction of the transfer in the scenario."""

    def note(self, place: Place, message: str) -> None:
        text = f"{place}: {message}."
        if text not in self.notes:
            self.notes.append(text)


def files_of(line: Line, out: Path, sources: list[Path]) -> dict[Path, str]:
    """Return the text of the scenario, and those of its recordings, by file."""
    files: dict[Path, str] = {}
    tables = {}
    for way, direction in line.directions.items():
        tables[way], recording = _tables(direction, f"{out.stem}-{way}")
        files |= {out.with_name(name): text for name, text in recording.items()}
    head = [
        *wrap(f"A line from {line.source}: {', '.join(map(str, sources))}.", _WIDTH),
        *[part for note in line.notes for part in wrap(f"Note: {note}", _WIDTH)],
    ]
    flow = {"kind": "bulk-tcp", "direction": line.data, "duration": "30 s"}
    body = to_toml({"name": _name(out), "title": f"A line from {line.source}", **tables, "flow": [flow]})
    files[out] = "".join([*(f"# {part}\n" for part in head), "\n", body])
    return files


def _name(out: Path) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in out.stem).strip("-").lower() or "line"


def _tables(direction: Direction, stem: str) -> tuple[dict[str, object], dict[str, str]]:
    """Return the keys of a direction, and its recording by name."""
    link: dict[str, object] = {}
    recording: dict[str, str] = {}
    for key, value in direction.link.items():
        match key, value:
            case "rate", int():
                link["rate"] = rate_text(value)
            case "delay_ns", _:
                pass
            case _:
                link[key] = value
    link["delay"] = time_text(direction.delay_ns)
    timeline = direction.timeline()
    in_file = len(timeline) > _CHANGES_MAX or any(
        state.loss is not None or state.rate == 0 for state in timeline
    )
    if direction.trace is not None:
        name = f"{stem}.trace"
        link["trace"], recording[name] = name, direction.trace
    if in_file and direction.trace is None:
        name = f"{stem}.csv"
        link["course"], recording[name] = name, _course(direction, timeline)
        link.pop("rate", None)
    elif timeline:
        link |= _changes(timeline)
    table: dict[str, object] = {"link": link}
    if direction.queue:
        table["queue"] = direction.queue
    return table, recording


def _changes(timeline: list[State]) -> dict[str, object]:
    """Return the state at the start, and the changes after it."""
    start, changes = (timeline[0], timeline[1:]) if timeline[0].at_ns == 0 else (State(0), timeline)
    before = start
    rows = []
    for state in changes:
        keys = _keys(state, before)
        before = state
        if keys:
            rows.append({"at": time_text(state.at_ns), **keys})
    return _keys(start, State(0)) | ({"change": rows} if rows else {})


def _keys(state: State, before: State) -> dict[str, object]:
    keys: dict[str, object] = {}
    if state.rate is not None and state.rate != before.rate:
        keys["rate"] = rate_text(state.rate)
    if state.delay_ns is not None and state.delay_ns != before.delay_ns:
        keys["delay"] = time_text(state.delay_ns)
    return keys


def _course(direction: Direction, timeline: list[State]) -> str:
    """Return the course as CSV; a quantity that does not vary has the same value in each row."""
    rate = direction.link.get("rate")
    loses = any(state.loss is not None for state in timeline)
    if timeline[0].at_ns > 0:
        timeline = [State(0), *timeline]
    rows = ["time_s,rate_bps,delay_s,loss" if loses else "time_s,rate_bps,delay_s"]
    for state in timeline:
        cells = [
            seconds(state.at_ns),
            str(rate if state.rate is None else state.rate),
            seconds(direction.delay_ns if state.delay_ns is None else state.delay_ns),
        ]
        rows.append(
            ",".join([*cells, *([f"{state.loss or 0:.10f}".rstrip("0").rstrip(".")] if loses else [])])
        )
    return "\n".join(rows) + "\n"


def described(line: Line) -> Iterator[str]:
    """Yield a description of each direction."""
    for way, direction in line.directions.items():
        table, _ = _tables(direction, way)
        link = table["link"]
        assert isinstance(link, dict)
        words = [f"{key} {value}" for key, value in link.items() if isinstance(value, str | float)]
        queue = table.get("queue")
        if isinstance(queue, dict):
            words += [f"queue {queue.get('discipline', 'drop-tail')}, {queue.get('limit', 'default limit')}"]
        yield f"{way:5} {', '.join(words)}"
