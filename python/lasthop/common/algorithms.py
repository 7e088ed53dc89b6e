"""Base classes for your own algorithms: congestion control, queues, losses and traffic.

A scenario names a class by its module, which is in the folder of the scenario or in Python's search path:

    tcp.congestion_control = "python:my_module.Mine"
    down.queue.discipline = "python:my_module.Mine"
    down.link.error_model = "python:my_module.Mine"

A flow of `kind = "own"` names it by `code = "python:my_module.Mine"`. A scenario that is built in Python can
contain the class itself. In every replication, each end of a connection, each queue, each direction and each
flow has its own instance. Times are in seconds of virtual time since the start of the run.

`self.random` is a `random.Random`, seeded by the run. Use no other random numbers, so that equal seeds give
equal results. A class that overrides nothing behaves like its base class: `CongestionControl` is Reno,
`QueueDiscipline` is drop-tail.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import importlib
import inspect
import itertools
import secrets
import symtable
import sys
import traceback
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from random import Random
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, ClassVar, Literal

from lasthop.common.errors import InputError, nearest

if TYPE_CHECKING:
    from lasthop._core import Ack, Packet

PREFIX = "python:"
_SHIPPED = __name__.partition(".")[0]


class _Algorithm:
    """The common part of all algorithms."""

    random: Random
    """Random numbers, seeded by the run."""
    _optional: ClassVar[frozenset[str]] = frozenset()
    """Methods without effect, which are called only if a class overrides them."""


class CongestionControl(_Algorithm):
    """A congestion control, with an instance at each end of a connection. This class is Reno (RFC 5681).

    The stack `linux-6` detects losses, retransmits and runs the timers. The algorithm may set `window` and
    `ssthresh` in every call. Both are in segments and may be fractional; the stack rounds them down. During
    recovery the stack reduces the window to `ssthresh` by proportional rate reduction (RFC 6937).
    """

    window: float
    """Congestion window in segments, at least 1."""
    ssthresh: float
    """Slow-start threshold in segments, 4294967295 before the first sign of congestion."""
    pacing_rate_Bps: float | None = None
    """Pacing rate in bytes per second; `None` if only ACKs clock the sender."""
    state: str | None = None
    """Name of the current state of a state machine; traces have an event for each change. Use few names."""
    segment_bytes: int
    """Payload of a full segment."""
    rate_based: ClassVar[bool] = False
    """Whether the algorithm models the path. If true, every ACK has a delivery rate, and the algorithm also
    sets the window during recovery (Linux: `cong_control`).
    """
    _counted: int = 0
    _optional = frozenset({"on_start", "on_rtt"})

    def on_start(self, now_s: float) -> None:
        """Start after the handshake."""

    def on_rtt(self, now_s: float, rtt_s: float) -> None:
        """Process a round-trip sample, before the stack checks its ACK for losses."""

    def on_ack(self, ack: Ack) -> None:
        """Process an ACK of new data outside recovery; if `rate_based`, any ACK."""
        if not ack.window_limited:
            return
        left = ack.acked
        if self.window < self.ssthresh:
            window = min(self.window + left, self.ssthresh)
            left -= int(window - self.window)
            self.window = window
        if left > 0:
            per_segment = int(self.window)
            if self._counted >= per_segment:
                self._counted = 0
                self.window += 1
            more, self._counted = divmod(self._counted + left, per_segment)
            self.window += more

    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        """Set `ssthresh` after a loss or an ECN echo, at most once per window of data.

        `in_use` is the used part of the window, in segments.
        """
        self.ssthresh = max(in_use // 2, 2)
        self._counted = 0

    def on_timeout(self, now_s: float, in_use: int) -> None:
        """Set `ssthresh` after the first timeout of an episode. The sender continues with `window`."""
        self.on_congestion("loss", in_use)

    def on_repeated_timeout(self, now_s: float) -> None:
        """Process another timeout. The sender continues with `window`."""
        self._counted = 0

    def on_spurious(self, window: int, ssthresh: int) -> None:
        """Undo the last reduction, which was spurious; the arguments are the previous values."""
        self.window = max(self.window, window)
        self.ssthresh = max(self.ssthresh, ssthresh)


class QueueDiscipline(_Algorithm):
    """A queue of the router, with an instance for each direction or class. This class is drop-tail.

    Each packet that `enqueue` accepts leaves the queue once, by `dequeue` or by `drop`.
    """

    limit_packets: int | None
    """`queue.limit` of the scenario, if it counts packets."""
    limit_bytes: int | None
    """`queue.limit` of the scenario, if it counts bytes."""
    rate_Bps: float
    """Rate of the link behind the queue at the start of the run, in bytes per second."""
    mtu_bytes: int
    """Length of the longest packet."""
    _verdicts: list[tuple[str, Packet]]

    def __init__(self) -> None:
        """Create an empty queue."""
        self.packets: deque[Packet] = deque()
        """The queued packets, head first. A subclass that stores packets elsewhere leaves it empty."""
        self.bytes = 0
        """The length of all packets in `packets`."""

    def enqueue(self, now_s: float, packet: Packet) -> bool:
        """Enqueue an arriving packet; return false if the queue is full."""
        full = (
            len(self.packets) >= self.limit_packets
            if self.limit_packets is not None
            else self.bytes + packet.bytes > (self.limit_bytes or 0)
        )
        if full:
            return False
        self.packets.append(packet)
        self.bytes += packet.bytes
        return True

    def peek(self) -> Packet | None:
        """Return the next packet, which `dequeue` may still drop; `None` if there is none."""
        return self.packets[0] if self.packets else None

    def dequeue(self, now_s: float) -> Packet | None:
        """Return and remove the next packet; the link can send it."""
        if not self.packets:
            return None
        packet = self.packets.popleft()
        self.bytes -= packet.bytes
        return packet

    def drop(self, packet: Packet) -> None:
        """Drop a queued or arriving packet. If it is in `packets`, remove it there, too."""
        self._verdicts.append(("drop", packet))

    def mark(self, packet: Packet) -> None:
        """Set the congestion-experienced mark of a queued or arriving packet (RFC 3168)."""
        self._verdicts.append(("mark", packet))


class ErrorModel(_Algorithm):
    """Losses on a link, with an instance for each direction. This class loses no packets."""

    def loses(self, now_s: float, packet_bytes: int) -> bool:
        """Return whether the link loses a packet that it has sent; called once per packet, in order."""
        return False


class Traffic(_Algorithm):
    """An application with one flow. Over TCP the sender connects, and the receiver closes after it."""

    flow: str
    """Name of the flow."""
    segment_bytes: int
    """Payload of a full segment, and the maximum of a datagram's."""
    _wanted: list[tuple[str, float]]
    _requests = 0
    _optional = frozenset({"on_received"})

    def on_start(self, now_s: float) -> None:
        """Start the application."""
        raise NotImplementedError("a class of traffic must implement on_start")

    def on_wakeup(self, now_s: float) -> None:
        """Continue at the time set by `wake_at`."""

    def on_received(self, now_s: float, received_bytes: int, is_answer: bool) -> None:
        """Process `received_bytes` more bytes at the receiver, or at the sender if they are an answer."""

    def send(self, length: int) -> None:
        """Let the sender write `length` bytes, which are a single datagram over UDP."""
        self._wanted.append(("send", length))

    def answer(self, length: int) -> None:
        """Let the receiver write `length` bytes."""
        self._wanted.append(("answer", length))

    def request(self) -> int:
        """Begin a request, whose completion time is to be measured; return its number."""
        self._wanted.append(("request", 0))
        self._requests += 1
        return self._requests - 1

    def complete(self, request: int) -> None:
        """Complete the request with this number, which `request` returned."""
        if request not in range(self._requests):
            raise ValueError(f"complete({request}): pass the number of a request that is not complete")
        self._wanted.append(("complete", request))

    def close(self) -> None:
        """End the flow: the sender sends no more data."""
        self._wanted.append(("close", 0))

    def wake_at(self, time_s: float) -> None:
        """Schedule a call of `on_wakeup`, which replaces an earlier one."""
        self._wanted.append(("wake_at", time_s))


_BASES: dict[str, type[_Algorithm]] = {
    base.__name__: base for base in (CongestionControl, QueueDiscipline, ErrorModel, Traffic)
}


def find(name: str, base: str) -> type[_Algorithm]:
    """Return the class `python:MODULE.CLASS`; raise `InputError` if it is missing or not a `base`."""
    place, _, wanted = name.removeprefix(PREFIX).rpartition(".")
    module = _module(place, name)
    value = getattr(module, wanted, None)
    kind = _BASES[base]
    if not (isinstance(value, type) and issubclass(value, kind)):
        own = [
            key for key, other in vars(module).items() if isinstance(other, type) and issubclass(other, kind)
        ]
        raise _no_class(name, f" that derives from lasthop.{base}", own)
    return value


def _no_class(name: str, deriving: str, own: Sequence[str]) -> InputError:
    place, _, wanted = name.removeprefix(PREFIX).rpartition(".")
    guess = f"; did you mean '{PREFIX}{place}.{nearest(wanted, own)}'?" if own else ""
    return InputError(f"{name}: {place} has no class '{wanted}'{deriving}{guess}")


_OF_KEYS = {"congestion_control": CongestionControl, "discipline": QueueDiscipline, "error_model": ErrorModel}
_folders: dict[str, None] = {}
"""The folders of the scenarios that were read, in which code is searched first, as in the folder of a
program. It is imported only when a run needs it."""


def _check(key: str, name: str, folder: Path | None) -> str | None:
    """Return the reason why this code is invalid for a scenario's key, or `None`.

    With the `folder` of the scenario, the code is searched but not executed, unless its module is already
    loaded. Without it, the code is imported.
    """
    if not name.startswith(PREFIX):
        guide = "docs/guides/congestion-control.md"
        return f"{name} is code of a Rust program, which must run the scenario itself ({guide})."
    try:
        if folder is not None and name.removeprefix(PREFIX).rpartition(".")[0] not in sys.modules:
            _look_up(name, str(folder.resolve()))
        else:
            find(name, _OF_KEYS.get(key.rpartition(".")[2], Traffic).__name__)
    except InputError as error:
        return str(error) if str(error).endswith("?") else f"{error}."
    return None


def check_all(code: Iterable[tuple[str, str]], scenario: str, folder: Path | None = None) -> None:
    """Raise `InputError` with a line for each key of a scenario whose code is missing or invalid."""
    errors = [
        f"{scenario}: `{key}`: {reason}"
        for key, name in code
        if (reason := _check(key, name, folder)) is not None
    ]
    if errors:
        raise InputError("\n".join(errors))


def _look_up(name: str, folder: str) -> None:
    """Raise `InputError` unless a module defines the name of the class; import nothing."""
    _folders[folder] = None
    place, _, wanted = name.removeprefix(PREFIX).rpartition(".")
    spec = _spec(place, [folder, *sys.path])
    if spec is None:
        raise InputError(f"{name}: {_no_module(place)}")
    try:
        source = getattr(spec.loader, "get_source", lambda _: None)(place)
        if source is None:  # compiled
            return
        tree = ast.parse(source)
        table = symtable.symtable(source, place, "exec")
    except (SyntaxError, ValueError, ImportError) as error:  # including null bytes and invalid encodings
        reason = (
            f"{Path(spec.origin or place).name}, line {error.lineno}: {error.msg}"
            if isinstance(error, SyntaxError)
            else str(error)
        )
        raise InputError(f"{name}: {place} is not valid Python: {reason}") from error
    kinds = {each.get_name(): each.get_type() for each in table.get_children()}
    named = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    imports_all = any(
        isinstance(each, ast.ImportFrom) and each.names[0].name == "*" for each in ast.walk(tree)
    )
    if kinds.get(wanted) == "function" or not (wanted in named or imports_all):
        raise _no_class(name, "", [own for own, kind in kinds.items() if kind != "function"])


def _spec(place: str, path: Sequence[str]) -> ModuleSpec | None:
    """Find a module without importing its parent packages, unlike `importlib.util.find_spec`."""
    spec = None
    for module in itertools.accumulate(place.split("."), "{}.{}".format):
        specs = (finder.find_spec(module, path) for finder in sys.meta_path)
        spec = next((each for each in specs if each is not None), None)
        if spec is None or module == place:
            break
        path = spec.submodule_search_locations or []
    return spec


def _no_module(place: str) -> str:
    return f"there is no module {place} in the folder of the scenario or in Python's search path"


def _module(place: str, name: str) -> ModuleType:
    sys.path[:0] = [folder for folder in reversed(_folders) if folder not in sys.path]
    try:
        return importlib.import_module(place)
    except BaseException as error:  # importing a user's module may do anything, even exit
        if is_interrupt(error, error.__traceback__):
            raise
        if isinstance(error, ModuleNotFoundError) and place.startswith(error.name or " "):
            reason = _no_module(place)
        else:
            reason = f"{place} raised {type(error).__name__}: {error}{place_of(error.__traceback__)}"
        raise InputError(f"{name}: {reason}") from error


def make(kind: type[_Algorithm], seed: int, facts: Mapping[str, object]) -> tuple[_Algorithm, list[str]]:
    """Create an instance with `facts` as attributes; return it and its optional methods."""
    instance = kind.__new__(kind)
    instance.random = Random(seed)
    for fact, value in facts.items():
        setattr(instance, fact, value)
    instance.__init__()  # type: ignore[misc]
    base = next(base for base in _BASES.values() if issubclass(kind, base))
    return instance, [hook for hook in base._optional if getattr(kind, hook) is not getattr(base, hook)]


def name_of(kind: type) -> str:
    """Return the name of a class for scenarios; raise `InputError` if it has none."""
    if not issubclass(kind, _Algorithm):
        raise InputError(
            f"{kind.__qualname__} must derive from one of lasthop's classes: {', '.join(_BASES)}."
        )
    if "." in kind.__qualname__:
        raise InputError(
            f"{kind.__qualname__} is defined within a function or class, where scenarios cannot refer to it: "
            "define it at the top level of a module or of a notebook's cell."
        )
    return f"{PREFIX}{kind.__module__}.{kind.__qualname__}"


def code_digest(name: str) -> str:
    """Return the digest of the sources of a class's module and its base classes' modules.

    It does not cover modules that these import.
    """
    place, _, wanted = name.removeprefix(PREFIX).rpartition(".")
    kind = getattr(_module(place, name), wanted)
    own = [
        each
        for each in inspect.getmro(kind)
        if each.__module__.partition(".")[0] not in (_SHIPPED, "builtins")
    ]
    return hashlib.sha256("\0".join(_source(each) for each in own).encode()).hexdigest()


def _source(kind: type) -> str:
    module = sys.modules[kind.__module__]
    file = getattr(module, "__file__", None)
    if file is not None:
        return Path(file).read_text(encoding="utf-8")
    try:
        return inspect.getsource(kind)  # a class in a notebook's cell
    except OSError:
        return secrets.token_hex()  # typed interactively: it may differ next time


def is_interrupt(error: BaseException, trace: TracebackType | None) -> bool:
    """Whether an exception is due to Ctrl-C, not to the code that was running."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    # Python raises Ctrl-C between instructions, while code raises the exception by a raise instruction.
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] != "RAISE_VARARGS"


def place_of(trace: TracebackType | None) -> str:
    """Return the file and line of a user's code in which an exception was raised, if known."""
    frames = traceback.extract_tb(trace)
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith((str(Path(__file__).parents[1]), "<frozen"))
    ]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
