"""Mahimahi: traces, and commands of its shells; the delays over time of LeoReplayer, which extends it.

As in the source of mm-link, mm-delay, mm-loss, mm-onoff and mm-intermittent. `uplink` leads out of the shell,
to lasthop's server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from lasthop.common.errors import nearest
from lasthop.exchange.line import UNLIMITED, Direction, Line, State
from lasthop.exchange.place import Place, shown, text_of
from lasthop.exchange.quantities import split_number, time_text
from lasthop.exchange.readers.shell import Command, path_of

MS = 10**6
LEO_INTERVAL_MS = 10
"""The interval of LeoReplayer's delays in its example; a command of mm-delay states another."""
_WAYS = {"uplink": "up", "downlink": "down"}
_MILLISECONDS_MAX = 2**32 - 1
_LENGTHS_MAX = 100_000
_FLAGS = {"--once", "--meter-all"}
_QUEUES = {
    "infinite": None,
    "droptail": "drop-tail",
    "drophead": "drop-head",
    "codel": "codel",
    "pie": "pie",
}


def is_numbers(text: str) -> bool:
    """Return whether the first line of a text is a number, as in traces and delays."""
    return re.match(r"\s*\d+\s*(\n|$)", text) is not None


def read_numbers(text: str, place: Place) -> list[int]:
    """Return the whole numbers of a text, one per line."""
    numbers = []
    for line, text_of_line in enumerate(text.splitlines(), 1):
        word = text_of_line.strip()
        if not (word.isascii() and word.isdigit() and len(word) <= 10 and int(word) <= _MILLISECONDS_MAX):
            at = Place(place.file, line)
            raise at.fault(f"{shown(word)} is not a time; write a whole number of milliseconds, such as 20")
        numbers.append(int(word))
    if not numbers:
        raise place.fault("the file is empty; write a line for each time, in milliseconds")
    return numbers


def read_trace(text: str, place: Place) -> str:
    """Check a trace and return its text: times of opportunities to deliver 1500 bytes."""
    times = read_numbers(text, place)
    for line, (time, before) in enumerate(zip(times[1:], times, strict=False), 2):
        if time < before:
            at = Place(place.file, line)
            raise at.fault(f"{time} comes after {before}; times of a trace must not decrease")
    if times[-1] == 0:
        raise Place(place.file, len(times)).fault(
            "the last time is the length of the trace and must be above 0"
        )
    return "".join(f"{time}\n" for time in times)


def read_delays(text: str, place: Place, interval_ms: int = LEO_INTERVAL_MS) -> list[State]:
    """Return LeoReplayer's delays: a line per interval, each a one-way delay in milliseconds."""
    delays = read_numbers(text, place)
    if len(delays) > _LENGTHS_MAX:
        raise place.fault(f"there are {len(delays)} delays; give at most {_LENGTHS_MAX}")
    return [State(at * interval_ms * MS, delay_ns=delay * MS) for at, delay in enumerate(delays)]


def add_delays(line: Line, text: str, place: Place, interval_ms: int = LEO_INTERVAL_MS) -> None:
    """Add LeoReplayer's delays to both directions, as its mm-delay does."""
    states = read_delays(text, place, interval_ms)
    for direction in line.directions.values():
        direction.add_states("delay", states, place)
    line.note(
        place,
        f"the delays are one per {interval_ms} ms, one way. The last one holds from "
        f"{len(states) * interval_ms / 1000:g} s on, where LeoReplayer starts again; packets never overtake "
        "others, as they do there when a delay drops",
    )


def add_trace(direction: Direction, file: Path, text: str, named_at: Place | None = None) -> None:
    direction.set_trace(read_trace(text, Place(file)), named_at or Place(file))


def without_queue(line: Line, place: Place) -> None:
    """Give directions without a queue that of mm-link, which has no limit by default."""
    for way, direction in line.directions.items():
        if not direction.queue:
            direction.set_queue({"limit": UNLIMITED}, place)
            line.note(place, f"the queue {way} has no limit in Mahimahi; here it has {UNLIMITED}")


class Shells:
    """Reads a chain of Mahimahi's shells, each of which runs the next."""

    def __init__(self, line: Line, command: Command) -> None:
        self.line = line
        self.command = command
        self.at = 0

    def read(self, words_from: int = 0) -> None:
        """Read the shells from a word of the command on, up to the program inside."""
        self.at = words_from
        readers: dict[str, Callable[[], None]] = {
            "mm-delay": self._delay,
            "mm-loss": self._loss,
            "mm-link": self._link,
            "mm-onoff": lambda: self._on_off(exponential=True),
            "mm-intermittent": lambda: self._on_off(exponential=False),
        }
        while self.at < len(self.command.words):
            shell = Path(self.command.words[self.at]).name
            if shell in readers:
                self.at += 1
                readers[shell]()
            elif shell == "mm-meter":
                self.at += 1
            elif shell.startswith("mm-"):
                near = nearest(shell, readers)
                raise self.place.fault(f"lasthop does not read '{shell}'; the most similar shell is '{near}'")
            else:
                return

    @property
    def place(self) -> Place:
        return self.command.place

    def _next(self) -> str:
        word = self.command[self.at]
        self.at += 1
        return word

    def _number(self, what: str) -> float:
        word = self._next()
        number = split_number(word)
        if number is None or number[1] or number[0] > 10**9:
            raise self.place.fault(f"{shown(word)} is not {what}; write a plain number")
        return float(number[0])

    def _whole(self, what: str) -> int:
        word = self._next()
        if not (word.isascii() and word.isdigit() and len(word) <= 8):
            raise self.place.fault(f"{shown(word)} is not {what}; write a whole number of milliseconds")
        return int(word)

    def _way(self) -> Direction:
        word = self._next()
        if word not in _WAYS:
            raise self.place.fault(f"{shown(word)} is not a direction; write uplink or downlink")
        return self.line.directions[_WAYS[word]]

    def _delay(self) -> None:
        """Read the argument of Mahimahi, a delay, or those of LeoReplayer, an interval and a file."""
        milliseconds = self._whole("a delay")
        word = self.command.words[self.at] if self.at < len(self.command.words) else ""
        file = self.place.other(path_of(word))
        if word and not Path(word).name.startswith("mm-") and word != "--" and file.is_file():
            text = text_of(file, self.place)
            if is_numbers(text):
                self.at += 1
                if milliseconds == 0:
                    raise self.place.fault("the interval of the delays is 0; write at least 1")
                add_delays(self.line, text, Place(file), milliseconds)
                return
        for direction in self.line.directions.values():
            direction.add_delay(milliseconds * MS, self.place)

    def _loss(self) -> None:
        direction, loss = self._way(), self._number("a loss rate")
        if loss > 1:
            raise self.place.fault(f"a loss rate of {loss:g} is above 1; write a share, such as 0.01")
        if loss > 0:
            direction.set("loss", loss, self.place)

    def _on_off(self, *, exponential: bool) -> None:
        """Read periods in which a direction loses everything, as bad periods."""
        direction = self._way()
        lengths = [time_text(round(self._number("a time in seconds") * 10**9)) for _ in range(2)]
        periods: list[object] = [*lengths]
        if exponential:
            periods = [{"distribution": "exponential", "mean": length} for length in lengths]
        errors = {"good": periods[0], "bad": periods[1], "packet_error_probability": 1.0}
        if "0 s" in lengths:
            raise self.place.fault("a period of 0 s has no effect; leave out the shell")
        direction.set("errors", errors, self.place)

    def _link(self) -> None:
        traces = {"up": self._next(), "down": self._next()}
        options = {way: ["infinite", ""] for way in _WAYS.values()}
        while self.at < len(self.command.words) and self.command.words[self.at].startswith("--"):
            word = self._next()
            if word == "--":
                break
            self._option(word, options)
        for way, name in traces.items():
            file = self.place.other(path_of(name))
            direction = self.line.directions[way]
            add_trace(direction, file, text_of(file, self.place), self.place)
            direction.set_queue(self._queue(way, *options[way]), self.place)

    def _option(self, word: str, options: dict[str, list[str]]) -> None:
        name, equals, value = word.partition("=")
        if name in _FLAGS or name.startswith("--meter-"):
            if name == "--once":
                self.line.note(self.place, "the traces repeat, although the command has --once")
            return
        link, _, what = name.removeprefix("--").partition("-")
        if link not in _WAYS or what not in ("queue", "queue-args", "log"):
            known = [f"--{way}-{key}" for way in _WAYS for key in ("queue", "queue-args", "log")]
            near = nearest(name, known)
            raise self.place.fault(f"mm-link has no option {shown(name)}; the most similar is '{near}'")
        if not equals:
            value = self._next()
        if what != "log":
            options[_WAYS[link]][what == "queue-args"] = value

    def _queue(self, way: str, kind: str, text: str) -> dict[str, object]:
        if kind not in _QUEUES:
            near = nearest(kind, _QUEUES)
            raise self.place.fault(f"mm-link has no queue {shown(kind)}; the most similar is '{near}'")
        arguments = self._arguments(text)
        discipline = _QUEUES[kind]
        if discipline is None:
            self.line.note(self.place, f"the queue {way} has no limit in Mahimahi; here it has {UNLIMITED}")
            return {"limit": UNLIMITED}
        queue: dict[str, object] = {} if discipline == "drop-tail" else {"discipline": discipline}
        packets, size = arguments.get("packets", 0), arguments.get("bytes", 0)
        if not packets and not size:
            raise self.place.fault(f"the queue '{kind}' needs a limit; write packets=N or bytes=N")
        if packets and size:
            self.line.note(self.place, f"the queue {way} has two limits; lasthop uses that in packets")
        queue["limit"] = f"{packets} packets" if packets else f"{size} B"
        for name, key in {
            "codel": {"target": "target", "interval": "interval"},
            "pie": {"qdelay_ref": "target"},
        }.get(kind, {}).items():
            if not arguments.get(name):
                raise self.place.fault(f"the queue '{kind}' needs {name}, in milliseconds")
            queue[key] = time_text(arguments[name] * MS)
        if kind == "pie":
            self.line.note(
                self.place, "PIE is that of Linux here: updates every 15 ms, and its own burst allowance"
            )
        return queue

    def _arguments(self, text: str) -> dict[str, int]:
        arguments = {}
        for part in text.replace(",", " ").split():
            name, _, value = part.partition("=")
            if not (value.isascii() and value.isdigit() and len(value) <= 9):
                raise self.place.fault(f"{shown(part)} is not an argument of a queue; write NAME=NUMBER")
            arguments[name] = int(value)
        return arguments


def chains(commands: Sequence[Command]) -> list[tuple[Command, int]]:
    """Return the commands with Mahimahi's shells, and where in each the first one is."""
    found = []
    for command in commands:
        names = [Path(word).name for word in command.words]
        first = next((at for at, name in enumerate(names) if re.fullmatch(r"mm-[a-z]+", name)), None)
        if first is not None:
            found.append((command, first))
    return found
