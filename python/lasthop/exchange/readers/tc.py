"""tc: the queue disciplines of a script's commands, as in iproute2 and the kernel's `sch_*.c`.

A discipline shapes what leaves a device. A device whose name contains `down` or `up` is that direction;
otherwise the user names the device of each direction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from lasthop.common.errors import InputError, nearest
from lasthop.exchange.line import Direction, Line, State
from lasthop.exchange.place import Place, shown
from lasthop.exchange.quantities import rate_text, split_number, time_text
from lasthop.exchange.readers.shell import Command
from lasthop.exchange.readers.tc_words import TIMES, Words

ETHERNET_BYTES = 14
"""The header that disciplines count on devices such as Ethernet and veth."""
ATM_BYTES = 16
"""The overhead of lasthop's framing "atm" (RFC 2684)."""
_NETEM_LIMIT = 1000
_TXQUEUELEN = 1000
_PREFIXES = ("sudo", "exec", "env", "then", "do", "else", "command")
_DISTRIBUTIONS = ("uniform", "normal", "pareto", "paretonormal")
_AQMS: dict[str, dict[str, str]] = {
    "codel": {
        "limit": "limit",
        "target": "target",
        "interval": "interval",
        "ce_threshold": "ce_threshold",
        "ecn": "+ecn",
        "noecn": "-ecn",
    },
    "fq_codel": {
        "limit": "limit",
        "flows": "flows",
        "quantum": "quantum",
        "target": "target",
        "interval": "interval",
        "ce_threshold": "ce_threshold",
        "ecn": "+ecn",
        "noecn": "-ecn",
        "memory_limit": "",
        "drop_batch": "",
    },
    "pie": {
        "limit": "limit",
        "target": "target",
        "tupdate": "tupdate",
        "ecn": "+ecn",
        "noecn": "-ecn",
        "alpha": "",
        "beta": "",
        "bytemode": "0",
        "nobytemode": "0",
    },
    "fq_pie": {
        "limit": "limit",
        "flows": "flows",
        "quantum": "quantum",
        "target": "target",
        "tupdate": "tupdate",
        "ecn": "+ecn",
        "noecn": "-ecn",
        "alpha": "",
        "beta": "",
        "memory_limit": "",
        "ecn_prob": "",
    },
    "dualpi2": {
        "limit": "limit",
        "target": "target",
        "tupdate": "tupdate",
        "step_thresh": "step_threshold",
        "min_qlen_step": "min_qlen_step",
    },
    "sfq": {
        "limit": "limit",
        "divisor": "flows",
        "quantum": "quantum",
        "flows": "",
        "perturb": "",
        "depth": "",
    },
}
"""Options and lasthop's keys: "" has a value that is left out, "0" has none; "+" and "-" are flags."""
_LIMITS = {"codel": 1000, "fq_codel": 10240, "pie": 1000, "fq_pie": 10240, "sfq": 127, "dualpi2": 10000}
_FIFOS = {"pfifo": "packets", "bfifo": "B", "pfifo_head_drop": "packets"}


@dataclass
class Netem:
    """What a netem discipline does; rates and probabilities are exact."""

    place: Place
    limit: int = _NETEM_LIMIT
    delay_ns: int = 0
    jitter_ns: int = 0
    loss: Fraction = Fraction(0)
    keys: dict[str, object] = field(default_factory=dict)
    rate: int | None = None


@dataclass
class Device:
    """The disciplines of a device."""

    name: str
    place: Place
    framing: str | None = f"{ETHERNET_BYTES} B"
    netem: Netem | None = None
    rate: int | None = None
    rate_at: Place | None = None
    queue: dict[str, object] = field(default_factory=dict)
    queue_at: Place | None = None
    states: list[State] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)


def is_command(command: Command) -> bool:
    return _arguments(command) is not None


def _arguments(command: Command) -> list[str] | None:
    """Return the words after `tc` and its options, if the command runs tc."""
    words = list(command.words)
    while words and (words[0] in _PREFIXES or re.fullmatch(r"\w+=.*", words[0])):
        words.pop(0)
    if words[:3] == ["ip", "netns", "exec"]:
        words = words[4:]
    elif words[:1] == ["nsenter"] and "tc" in words:
        words = words[words.index("tc") :]
    if not words or words[0].rsplit("/", 1)[-1] != "tc":
        return None
    words = words[1:]
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in ("-n", "-net", "-netns") else 1 :]
    return words


class Script:
    """Reads the commands of a script; `sleep` between them moves the time of later changes."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.devices: dict[str, Device] = {}
        self.now_ns = 0

    def read(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if command.words[:1] == ["sleep"] and len(command.words) > 1:
                self.now_ns += _sleep(command)
            elif (words := _arguments(command)) is not None:
                self._command(words, command.place)

    def _command(self, words: list[str], place: Place) -> None:
        kind, action = [*words, "", ""][:2]
        if action in ("del", "delete", "show", "ls", "list", "get") or kind in ("-s", "monitor"):
            return
        if kind == "filter":
            if "mirred" not in words:
                raise place.fault("lasthop does not read filters; give a script with one class per direction")
            return
        if kind not in ("qdisc", "class"):
            near = nearest(kind, ["qdisc", "class"])
            raise place.fault(f"lasthop does not read 'tc {kind}'; the most similar command is 'tc {near}'")
        if action not in ("add", "replace", "change"):
            near = nearest(action, ["add", "replace", "change"])
            raise place.fault(f"lasthop does not read 'tc {kind} {action}'; the most similar is '{near}'")
        Discipline(self, place, words[2:], changes=action == "change").read(is_class=kind == "class")


class Discipline(Words):
    """Reads one command that adds or changes a discipline or a class."""

    def __init__(self, script: Script, place: Place, words: Sequence[str], *, changes: bool) -> None:
        super().__init__(words, place)
        self.script = script
        self.changes = changes
        self.device = Device("", place)

    def read(self, *, is_class: bool) -> None:
        kind, framing = self._head()
        if kind in ("ingress", "clsact"):
            return
        if framing is not None:
            self.device.framing = framing
        readers: dict[str, Callable[[], None]] = {
            "netem": self._netem,
            "tbf": self._tbf,
            "htb": self._htb_class if is_class else self._htb,
            "cake": self._cake,
            **dict.fromkeys(_FIFOS, lambda: self._fifo(kind)),
            **dict.fromkeys(_AQMS, lambda: self._aqm(kind)),
        }
        if kind not in readers:
            near = nearest(kind, readers)
            raise self.place.fault(
                f"lasthop does not read the discipline {shown(kind)}; the most similar is '{near}'"
            )
        readers[kind]()

    def _head(self) -> tuple[str, str | None]:
        """Read the place of the discipline; return its kind, and the framing of a size table."""
        name, framing, index = "", None, 0
        while self.words:
            word = self.next("a discipline")
            if word == "dev":
                name = self.next("a device")
            elif word in ("parent", "handle", "classid"):
                self.next(f"the value of {word}")
            elif word == "stab":
                framing = self._size_table()
            elif word != "root":
                if not name:
                    raise self.place.fault("the device is missing; write dev NAME before the discipline")
                if name not in self.script.devices:
                    self.script.devices[name] = Device(name, self.place)
                self.device = self.script.devices[name]
                return word, framing
            index += 1
        raise self.place.fault("the discipline is missing; write for example netem delay 20ms")

    def _size_table(self) -> str | None:
        overhead, layer = 0, "ethernet"
        while self.words and self.words[0] in ("overhead", "linklayer", "mpu", "mtu", "tsize"):
            option = self.next("an option")
            if option == "overhead":
                word = self.next("an overhead")
                if not re.fullmatch(r"-?\d{1,5}", word):
                    raise self.place.fault(f"{shown(word)} is not an overhead; write a number of bytes")
                overhead = int(word)
            elif option == "linklayer":
                layer = self.next("a link layer")
            else:
                self.next(f"the value of {option}")
                self._left_out(option)
        return self._framing(ETHERNET_BYTES + overhead, layer)

    def _framing(self, overhead: int, layer: str) -> str:
        if layer in ("atm", "adsl"):
            if overhead != ATM_BYTES:
                self._note(f'{overhead} bytes before cells; lasthop\'s framing "atm" has {ATM_BYTES}')
            return "atm"
        if overhead < 0:
            self._note(f"an overhead of {overhead} bytes per IP packet is taken as 0")
        return f"{max(overhead, 0)} B"

    def _netem(self) -> None:
        before = self.device.netem
        netem = Netem(self.place)
        options: dict[str, Callable[[], None]] = {
            "limit": lambda: setattr(netem, "limit", self.count("a limit")),
            **dict.fromkeys(("delay", "latency"), lambda: self._delay(netem)),
            **dict.fromkeys(("loss", "drop"), lambda: self._loss(netem)),
            "rate": lambda: self._netem_rate(netem),
            "duplicate": lambda: self._share(netem, "duplicate"),
            "corrupt": lambda: self._share(netem, "corrupt"),
            "slot": lambda: self._slot(netem),
            "distribution": lambda: self._distribution(netem),
            "reorder": self._reorder,
            "gap": lambda: self._skip("gap", 1),
            "seed": lambda: self._skip("seed", 1),
            "ecn": lambda: self._skip("ecn", 0),
        }
        self._options("netem", options)
        if netem.jitter_ns:
            self._jitter(netem)
        if self.changes and self.script.now_ns:
            if before is None:
                raise self.place.fault("this changes a netem that was not added before")
            if before.keys != netem.keys:
                self._note("of later changes lasthop reads rate, delay and loss only")
            at = self.script.now_ns
            self.device.states.append(State(at, netem.rate, netem.delay_ns, float(netem.loss)))
        else:
            self.device.netem = netem

    def _delay(self, netem: Netem) -> None:
        netem.delay_ns = self.time("a delay")
        if (jitter := self.optional(TIMES)) is not None:
            netem.jitter_ns = math.floor(jitter)
            self._correlation("the delay")

    def _distribution(self, netem: Netem) -> None:
        name = self.next("a distribution")
        if name not in _DISTRIBUTIONS:
            raise self.place.fault(
                f"lasthop does not read the distribution {shown(name)}; the most similar is "
                f"'{nearest(name, _DISTRIBUTIONS)}'"
            )
        if name != "uniform":
            # A table of netem has the standard deviation 1; a uniform distribution has width / sqrt(12).
            netem.jitter_ns = round(netem.jitter_ns * math.sqrt(3))
            self._note(f"the distribution {name} is taken as a uniform one of the same standard deviation")

    def _jitter(self, netem: Netem) -> None:
        """State the jitter as lasthop does: upwards from the least delay."""
        if netem.jitter_ns > netem.delay_ns:
            netem.jitter_ns = netem.delay_ns
            self._note("the jitter is larger than the delay; it is taken to be as large")
        netem.delay_ns -= netem.jitter_ns
        netem.keys["jitter"] = {
            "distribution": "uniform",
            "min": "0 s",
            "max": time_text(2 * netem.jitter_ns),
        }
        # netem sends packets in the order of their times, unless a rate makes each wait for the one before.
        if netem.rate is None:
            netem.keys["reorder"] = True

    def _loss(self, netem: Netem) -> None:
        kind = self.words[0] if self.words else ""
        if kind == "gemodel":
            self.words.pop(0)
            p = self.percentage("a probability")
            rest = [self.optional_percentage() for _ in range(3)]
            r, bad, good = (
                share if share is not None else default
                for share, default in zip(rest, (1 - p, Fraction(1), Fraction(0)), strict=True)
            )
            netem.keys["gilbert_elliott"] = {
                "p": float(p),
                "r": float(r),
                "loss_bad": float(bad),
                "loss_good": float(good),
            }
            return
        if kind == "state":
            raise self.place.fault(
                "lasthop does not read the loss model 'state'; the most similar is 'gemodel'"
            )
        if kind == "random":
            self.words.pop(0)
        netem.loss = self.percentage("a probability")
        self._correlation("the loss")

    def _share(self, netem: Netem, key: str) -> None:
        if (share := self.percentage("a probability")) > 0:
            netem.keys[key] = float(share)
        self._correlation(key)

    def _slot(self, netem: Netem) -> None:
        if self.words and self.words[0] == "distribution":
            raise self.place.fault("lasthop has slots of equal length; write slot TIME")
        least = self.time("the length of a slot")
        most = self.optional(TIMES)
        if most is not None and most != least:
            self._note("slots have the least length; lasthop's are equally long")
        for option in ("packets", "bytes"):
            if self.words and self.words[0] == option:
                self._skip(option, 1, leading=True)
        netem.keys["slots"] = {"every": time_text(least)}

    def _reorder(self) -> None:
        self.percentage("a probability")
        self._correlation("the reordering")
        self._left_out("reorder")

    def _netem_rate(self, netem: Netem) -> None:
        netem.rate = self.rate("a rate")
        for _ in range(3):
            if self.words and re.fullmatch(r"-?\d+", self.words[0]) and self.words.pop(0) != "0":
                self._left_out("the overhead of rate")

    def _tbf(self) -> None:
        values: dict[str, int] = {}
        options: dict[str, Callable[[], None]] = {
            "rate": lambda: values.update(rate=self.rate("a rate")),
            "limit": lambda: values.update(limit=self.size("a limit")),
            "latency": lambda: values.update(latency=self.time("a time")),
            **dict.fromkeys(
                ("burst", "buffer", "maxburst"), lambda: values.update(burst=self.size("a size", cell=True))
            ),
            "overhead": self._overhead,
            "linklayer": lambda: self._skip("linklayer", 1),
            **{word: partial(self._skip, word, 1) for word in ("mpu", "peakrate", "mtu", "minburst")},
        }
        self._options("tbf", options)
        for key, example in (("rate", "rate 1mbit"), ("burst", "burst 1540")):
            if key not in values:
                raise self.place.fault(f"tbf needs a {key}; add for example {example}")
        if "limit" not in values and "latency" not in values and not self.changes:
            raise self.place.fault("tbf needs a limit or a latency; add for example latency 50ms")
        self._set_rate(values["rate"])
        waits = values.get("latency", 0) * values["rate"] // (8 * 10**9) + values["burst"]
        if not self.device.queue:
            self._set_queue({"limit": f"{max(values.get('limit', waits), 1)} B"})
        self._bucket(values["burst"], values["rate"])

    def _overhead(self) -> None:
        self.device.framing = f"{ETHERNET_BYTES + self.count('an overhead')} B"

    def _bucket(self, burst: int, rate: int) -> None:
        """Note a bucket that fills a link for more than two packets or a millisecond."""
        if burst > max(2 * 1600, rate // 8000):
            self._note(f"a link has no token bucket: bursts of {burst} bytes cross it at its rate")

    def _htb(self) -> None:
        self._options(
            "htb",
            {
                word: partial(self._skip, word, 1, quiet=True)
                for word in ("default", "r2q", "direct_qlen", "debug")
            },
        )

    def _htb_class(self) -> None:
        values: dict[str, int] = {}
        quiet = {
            word: partial(self._skip, word, 1, quiet=True)
            for word in ("cburst", "quantum", "prio", "mtu", "cell")
        }
        self._options(
            "htb",
            quiet
            | {
                "rate": lambda: values.update(rate=self.rate("a rate")),
                "ceil": lambda: values.update(ceil=self.rate("a rate")),
                **dict.fromkeys(
                    ("burst", "buffer", "maxburst"),
                    lambda: values.update(burst=self.size("a size", cell=True)),
                ),
                "overhead": self._overhead,
                "mpu": lambda: self._skip("mpu", 1),
                "linklayer": lambda: self._skip("linklayer", 1),
            },
        )
        if "rate" not in values:
            raise self.place.fault("a class of htb needs a rate; add for example rate 1mbit")
        if not self.changes and self.device.rate_at is not None:
            raise self.place.fault(
                f"'{self.device.name}' has a rate since {self.device.rate_at}; lasthop reads one class per "
                "device, and states classes in [down.htb]"
            )
        rate = values.get("ceil", values["rate"])
        self._set_rate(rate)
        self._bucket(values.get("burst", 0), rate)

    def _cake(self) -> None:
        queue: dict[str, object] = {"discipline": "cake"}
        flags = {
            **{tins: ("tins", tins) for tins in ("besteffort", "diffserv3", "diffserv4")},
            **{
                word: ("isolation", word)
                for word in ("triple-isolate", "dual-srchost", "dual-dsthost", "flows")
            },
            "flowblind": ("isolation", "none"),
            "ack-filter": ("ack_filter", "on"),
            "ack-filter-aggressive": ("ack_filter", "aggressive"),
            "no-ack-filter": ("ack_filter", "off"),
        }
        options: dict[str, Callable[[], None]] = {
            "bandwidth": lambda: self._cake_rate(queue),
            "rtt": lambda: queue.update(rtt=time_text(self.time("a time"))),
            **{word: partial(self._skip, word, 1) for word in ("overhead", "mpu", "memlimit")},
            **dict.fromkeys(
                ("unlimited", "raw", "nonat", "nowash", "no-split-gso", "split-gso", "noatm"), lambda: None
            ),
            **{word: partial(queue.update, [pair]) for word, pair in flags.items()},
        }
        self._options("cake", options)
        self._set_queue(queue)

    def _cake_rate(self, queue: dict[str, object]) -> None:
        """Read CAKE's rate, which is that of the link unless there is another shaper."""
        rate = self.rate("a rate")
        if self.device.rate_at is None:
            self._set_rate(rate)
        else:
            queue["rate"] = rate_text(rate)

    def _fifo(self, kind: str) -> None:
        limit: list[int] = []
        read = self.size if kind == "bfifo" else self.count
        self._options(kind, {"limit": lambda: limit.append(read("a limit"))})
        count = limit[-1] if limit else _TXQUEUELEN * (1 if kind != "bfifo" else 1500)
        queue: dict[str, object] = {"limit": f"{max(count, 1)} {_FIFOS[kind]}"}
        self._set_queue(queue | ({"discipline": "drop-head"} if kind == "pfifo_head_drop" else {}))

    def _aqm(self, kind: str) -> None:
        queue: dict[str, object] = {"discipline": kind, "limit": f"{_LIMITS[kind]} packets"}

        def read(word: str, key: str) -> None:
            if key.startswith(("+", "-")):
                queue[key[1:]] = key.startswith("+")
            elif key in ("target", "interval", "tupdate", "ce_threshold", "step_threshold"):
                queue[key] = time_text(self.time("a time"))
            elif key == "limit":
                queue[key] = f"{self.count('a limit')} packets"
            elif key == "quantum":
                queue[key] = f"{self.size('a size')} B"
            elif key in ("flows", "min_qlen_step"):
                queue[key] = self.count("a whole number")
            else:
                self._skip(word, 1 if key == "" else 0)

        self._options(kind, {word: partial(read, word, key) for word, key in _AQMS[kind].items()})
        self._set_queue(queue)

    def _options(self, kind: str, options: Mapping[str, Callable[[], None]]) -> None:
        while self.words:
            word = self.words.pop(0)
            if word not in options:
                near = nearest(word, options)
                raise self.place.fault(
                    f"{kind} has no option {shown(word)} that lasthop reads; the most similar is '{near}'"
                )
            options[word]()

    def _set_rate(self, rate: int) -> None:
        if self.changes and self.script.now_ns:
            self.device.states.append(State(self.script.now_ns, rate=rate))
        else:
            self.device.rate, self.device.rate_at = rate, self.place

    def _set_queue(self, queue: dict[str, object]) -> None:
        self.device.queue, self.device.queue_at = queue, self.place

    def _correlation(self, of: str) -> None:
        if self.optional_percentage():
            self._left_out(f"the correlation of {of}")

    def _skip(self, option: str, values: int, *, leading: bool = False, quiet: bool = False) -> None:
        if leading:
            self.words.pop(0)
        for _ in range(values):
            self.next(f"the value of {option}")
        if not quiet:
            self._left_out(option)

    def _left_out(self, what: str) -> None:
        self._note(f"{what} is left out")

    def _note(self, message: str) -> None:
        self.script.line.note(self.place, message)


def _sleep(command: Command) -> int:
    number = split_number(command.words[1])
    if number is None or number[1] not in ("", "s", "m", "h") or number[0] > 10**6:
        raise command.place.fault(
            f"{shown(command.words[1])} is not a time that lasthop reads; write seconds"
        )
    return round(number[0] * 10**9 * {"": 1, "s": 1, "m": 60, "h": 3600}[number[1]])


def assign(script: Script, named: Mapping[str, str], file: Place) -> None:
    """Give directions their devices. `named` has directions that the user stated, with a device or ""."""
    if not script.devices:
        raise file.fault("there is no command of tc that adds a discipline")
    chosen = {way: _devices(script, way, named.get(way), file) for way in named or script.line.directions}
    if not any(chosen.values()):
        raise _unclear(script, next(iter(named), "down"), file)
    for way, devices in chosen.items():
        if devices:
            merge(script, script.line.directions[way], devices)


def _devices(script: Script, way: str, name: str | None, file: Place) -> list[Device]:
    devices = script.devices
    if name:
        if name not in devices:
            near = nearest(name, devices)
            raise file.fault(f"there is no device '{name}'; the most similar is '{near}'")
        return [devices[name]]
    found = [device for device in devices.values() if way in device.name.lower()]
    if not found and name is not None:
        if len(devices) > 1:
            raise _unclear(script, way, file)
        return list(devices.values())
    return found


def _unclear(script: Script, way: str, file: Place) -> InputError:
    names = " and ".join(f"'{name}'" for name in list(script.devices)[:4])
    first = next(iter(script.devices))
    return file.fault(
        f"it is not clear which direction {names} is; name the device of a direction, as in "
        f"{way}:{first}={file.file}"
    )


def merge(script: Script, direction: Direction, devices: Sequence[Device]) -> None:
    """Describe a direction by the disciplines of the devices on its path."""
    netems = [device.netem for device in devices if device.netem is not None]
    shaped = [device for device in devices if device.rate is not None]
    if len(shaped) > 1:
        raise _at(shaped[1].rate_at).fault(
            f"the direction has a rate since {shaped[0].rate_at}; lasthop has one per hop"
        )
    rated = [device for device in devices if device.netem is not None and device.netem.rate is not None]
    for device in shaped or rated[:1]:
        rate = device.rate if device.rate is not None else device.netem.rate if device.netem else None
        direction.set("rate", rate, device.rate_at or device.place)
        if device.framing not in (None, "0 B"):
            direction.set("framing", device.framing, device.place)
    loss = Fraction(1)
    for netem in netems:
        direction.add_delay(netem.delay_ns, netem.place)
        loss *= 1 - netem.loss
        for key, value in netem.keys.items():
            direction.set(key, value, netem.place)
    if loss < 1:
        direction.set("loss", float(1 - loss), netems[-1].place)
    _queue(script, direction, devices, shaped)
    states = [state for device in devices for state in device.states]
    if states:
        direction.states = _changes(direction, states, shaped=bool(shaped))


def _queue(script: Script, direction: Direction, devices: Sequence[Device], shaped: Sequence[Device]) -> None:
    queued = [device for device in devices if device.queue]
    if queued:
        direction.set_queue(queued[0].queue, _at(queued[0].queue_at))
        return
    netem = next((device.netem for device in [*shaped, *devices] if device.netem is not None), None)
    if netem is not None and (not shaped or netem in [device.netem for device in shaped]):
        direction.set_queue({"limit": f"{max(netem.limit, 1)} packets"}, netem.place)
        script.line.note(
            netem.place, "netem's limit counts delayed packets, too; here it is that of the packets that wait"
        )
    else:
        direction.set_queue({"limit": f"{_TXQUEUELEN} packets"}, devices[0].place)


def _changes(direction: Direction, states: Sequence[State], *, shaped: bool) -> list[State]:
    """Return the states from the start on. Of two rates, that of the shaper counts."""
    loss = direction.link.get("loss", 0.0)
    loses = any(state.loss is not None and state.loss != loss for state in states)
    if loses:
        direction.link.pop("loss", None)
    rate = direction.link.get("rate")
    assert isinstance(loss, float)
    changes = [State(0, rate if isinstance(rate, int) else None, direction.delay_ns, loss if loses else None)]
    for state in states:
        of_netem = shaped and state.delay_ns is not None
        changes.append(
            State(
                state.at_ns, None if of_netem else state.rate, state.delay_ns, state.loss if loses else None
            )
        )
    return changes


def _at(place: Place | None) -> Place:
    assert place is not None
    return place
