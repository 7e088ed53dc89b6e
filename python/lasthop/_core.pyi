"""The Rust engine: scenario files, cells of the factor matrix, runs and traces."""

from collections.abc import Callable
from typing import Any, Literal, Self, TypeAlias, TypedDict

_Columns: TypeAlias = dict[str, list[Any]]
"""A table: its columns by name. Their cells are text, numbers or None."""

VERSION: str
RULES: str
"""Digest of the engines' source, which decides results."""
CAPTURE_FILES: list[str]
"""Names of a capture's files: a pcapng for each capture point, and last the table of drops."""
DROP_CAUSES: list[dict[str, str]]
"""The causes of lost packets; see `lasthop.common.metrics.labels.DropCause` for the keys."""
EVENT_KINDS: list[dict[str, str]]
"""The kinds of events in a run, without drops; see `lasthop.common.metrics.labels.EventKind` for the keys."""
PROTOCOLS: dict[str, bool]
"""The transport protocols by name, and whether their flows are transfers, not streams."""
SNAP_LENGTH: int
"""Default and largest number of bytes captured per packet."""

MEANINGS: dict[str, list[tuple[str, str, str, str]]]
"""Name, label, unit and definition of the columns of each table of results."""

class ScenarioError(ValueError):
    """A scenario file is wrong. The text has a line for each error: file, line, reason and suggestion."""

class LiveError(RuntimeError):
    """This machine cannot run the live engine. The text gives the reason and a remedy."""

class CaptureError(ValueError):
    """A capture file cannot be analysed.

    The text says what is wrong, at which byte, and how many packets came before it.
    """

class UserCodeError(RuntimeError):
    """A user's algorithm failed or broke a rule.

    The text names the cell, the replication, the virtual time and the fault. If the algorithm raised an
    exception, that is the cause of this one.
    """

class Ack:
    """What a congestion control learns from an ACK."""

    @property
    def now_s(self) -> float:
        """When the ACK arrived, in seconds since the start of the run."""
    @property
    def acked(self) -> int:
        """Number of segments that this ACK reports as newly arrived."""
    @property
    def window_limited(self) -> bool:
        """Whether the sender used its whole window. Only then may the window grow (RFC 7661)."""
    @property
    def delivery_rate_Bps(self) -> float | None:  # noqa: N802  the unit
        """Rate of delivery in bytes per second, if `rate_based` (draft-ietf-ccwg-bbr, section 4.1)."""
    @property
    def app_limited(self) -> bool:
        """Whether the sender had too little to send. The path may then be faster than this rate."""

class Packet:
    """What a queue discipline may know about a packet."""

    @property
    def number(self) -> int:
        """Unique in the run."""
    @property
    def flow(self) -> int:
        """Number of its flow, in the order of the scenario."""
    @property
    def direction(self) -> str:
        """`down` or `up`."""
    @property
    def bytes(self) -> int:
        """Length of the IP packet."""
    @property
    def ecn(self) -> str:
        """ECN field: `not-ect`, `ect0`, `ect1` or `ce`."""
    @property
    def dscp(self) -> int:
        """Code point of the DS field."""
    @property
    def arrived_s(self) -> float:
        """When it arrived at the queue, in seconds since the start of the run."""

def analyze(path: str) -> list[_Columns]:
    """Analyse a pcap or pcapng file. Returns four tables as columns.

    The first has a row per flow and direction, the second a single row about the file, the third a row per
    protocol, the fourth a row per range of lengths. The row about the file has `packets`, `tcp_packets`,
    `udp_packets`, `other_packets`, `fragments`, `incomplete_packets` and `cut_at`. If the file ends within a
    record, `cut_at` is the byte at which that record begins; otherwise it is None. Raises `CaptureError`.
    Releases the GIL.
    """

def packets(path: str) -> dict[str, Any]:
    """Read the TCP and UDP packets of a pcap or pcapng file as columns, a few dozen bytes for each.

    A column is a type code of `struct` and the numbers as bytes in native order: `time_ns`, `flow`,
    `reverse`, `seq`, `ack`, `bytes`, `digest`, `flags`, `window`, `stamp`, `echo`, `sack_from`, `sack_to`.
    `digest` identifies a UDP datagram in several captures; it is 0 for TCP. `flows` has, for each flow,
    source, port, destination and port of its first packet, whether it is TCP, and the two ends' MSS and
    window scale, if their SYNs are there. `left_out` counts other packets; `cut_at` is that of
    `analyze`. Raises `CaptureError`. Releases the GIL.
    """

def e_model(
    impairment: float, loss_robustness: float, loss: float, burst_ratio: float, delay_s: float
) -> tuple[float, float, float]:
    """Return the rating R of ITU-T G.107, and how much the delay and the missing frames lower it.

    `impairment` and `loss_robustness` are Ie and Bpl of the codec. `loss` is the share of frames that are not
    played, `burst_ratio` the mean length of their gaps over that of independent losses, `delay_s` the delay
    from mouth to ear.
    """

def initial_file_system(init: bytes, spec: str) -> bytes:
    """Return a guest kernel's boot archive (cpio): program `init`, `spec` as `/spec.json`, and a console."""

def live_run(spec: str) -> str:
    """Run replications with this machine's TCP. `spec` is `RunSpec` of crates/lasthop-host as JSON.

    Returns JSON. It has the tables of `Results` and of its `trace`, as columns by name, and `facts`:

    - `runs`: lateness and counters of each run
    - `differences` between the scenario's TCP and that of Linux, each with its likely effect
    - `priority`: what the emulator was permitted to be punctual

    The process must have a single thread. The call moves it to other namespaces. Raises `LiveError`.
    """

def live_shell(spec: str) -> int:
    """Run a program behind the last hop and return its exit code.

    `spec` is `ShellSpec` of crates/lasthop-host as JSON. The process must have a single thread. The call
    moves it to other namespaces. Raises `LiveError`.
    """

def load(
    path: str,
    points: int | None = None,
    draw: Callable[[str, int, int, int], list[list[float]]] | None = None,
    for_link: bool = False,
) -> Study:
    """Read, validate and expand a scenario file. Raises `ScenarioError`.

    If a factor is a range, `draw` is called like `lasthop.scenario.points.draw`, and `points` replaces the
    file's number of points. `lasthop.scenario.points.read_study` passes both, so use that. With `for_link`, a
    scenario without flows is assumed to have a download.
    """

def packetdrill(
    text: str, files: dict[str, str], stack: str, tolerance_us: int | None
) -> tuple[
    list[tuple[int, str]],
    tuple[int, str] | None,
    list[tuple[int, str, dict[str, int]]],
    int,
]:
    """Run a script of packetdrill on the model's TCP with the profile `stack`.

    `files` holds the shell scripts that it calls, by the paths in it. `tolerance_us` replaces its own
    tolerance. Returns, each with its line:

    - what the script needs and the model lacks; if there is anything, it did not run
    - the first difference, which may be in the script's language, or None
    - the Python code that was reached, with the fields of `tcp_info` at that time
    - the virtual time that passed, in microseconds

    Raises `ValueError` if there is no such profile.
    """

def to_toml(json: str) -> str:
    """Return a JSON object as the text of a TOML file, in its order.

    Raises `ValueError` if TOML cannot hold it.
    """

def parse(
    text: str,
    name: str,
    draw: Callable[[str, int, int, int], list[list[float]]] | None = None,
    files: list[str] | None = None,
) -> Study:
    """Read, validate and expand the text of a scenario, as `load` does. Errors call the text `name`.

    The text may extend only presets, and must name files of traces and courses by absolute paths. With
    `files`, the text stands for the file `name`. It may then name exactly these files, as they are spelled
    here, and paths are relative to the folder of `name`.
    """

def read_file(path: str) -> bytes:
    """Read a regular file of a few MB at most, such as a scenario. Raises `ScenarioError` for other files."""

def schema() -> str:
    """JSON Schema of scenario files."""

# Only for type checkers: a range, its ends in its unit, whether every whole number is a level, and the
# scenario's keys that it sets.
RangeFacts = TypedDict(
    "RangeFacts",
    {
        "unit": str,
        "from": float,
        "to": float,
        "counts": bool,
        "scale": Literal["linear", "log"],
        "sets": list[str],
    },
)

class SpaceFacts(TypedDict):
    """How the points of a space are drawn, how many there are, and the ranges by their factors."""

    method: str
    points: int
    ranges: dict[str, RangeFacts]

class Study:
    """A scenario file with its factor matrix expanded into cells."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def description(self) -> str | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def replications(self) -> int: ...
    @property
    def factors(self) -> dict[str, list[str]]:
        """Names of the factors with named levels in file order, each with its levels."""
    @property
    def space(self) -> SpaceFacts | None:
        """The sample of the factors that are ranges; `None` if no factor is one."""
    @property
    def cells(self) -> list[Cell]: ...
    @property
    def digest(self) -> str:
        """Hash of the resolved scenario."""
    @property
    def code(self) -> list[tuple[str, str]]:
        """Key and name of every algorithm of the user's own in its cells, each once."""
    @property
    def assumed(self) -> list[tuple[str, str, str]]:
        """Assumptions for the study as a whole where the file says nothing: key, value, reason."""
    @property
    def notes(self) -> list[str]:
        """Remarks on what can run but is probably a mistake, such as a flow that never starts."""
    def check_hosts(self, keys: list[str], *, real_hosts: bool, linux_router: bool) -> None:
        """Raise `ScenarioError` if the hosts cannot run the cells called `keys`.

        The hosts are real ones or those of the model. `linux_router` says whether Linux can be the router.
        """

class Cell:
    """One combination of factor levels."""

    def __new__(cls, levels: list[tuple[str, str]], scenario: str) -> Self:
        """Make a cell from its levels and its resolved scenario. It has no assumptions.

        Nothing checks whether the model engine can run it. Raises `ValueError`.
        """
    @property
    def key(self) -> str:
        """For example `link=e0,workload=2tcp0udp,variant=eifel`."""
    @property
    def capture_files(self) -> list[str]:
        """Names of the files of a capture: a pcapng for each capture point, and last the table of drops."""
    @property
    def levels(self) -> dict[str, str]: ...
    @property
    def point(self) -> dict[str, float]:
        """The levels of the factors that are ranges: in bit/s, s, B or packets, or as pure numbers."""
    @property
    def kernel(self) -> str | None:
        """Name or source of the guest kernel, if the cell has one of its own."""
    @property
    def sequential(self) -> bool:
        """Whether a replication starts with the caches of the previous one."""
    @property
    def flows(self) -> int:
        """Number of flows that are known before a run."""
    @property
    def time_limit_s(self) -> float:
        """Latest end of a run."""
    @property
    def estimate(self) -> tuple[float, float]:
        """Rough upper bounds for one replication: packets sent, and bytes of memory."""
    @property
    def assumed(self) -> list[tuple[str, str, str]]:
        """Assumptions for the cell where the file says nothing: key, value, reason."""
    @property
    def scenario(self) -> str:
        """The resolved scenario as JSON."""
    @property
    def facts(self) -> str:
        """What stories and pictures have to know of the scenario, as JSON: see `lasthop.scenario.facts`."""
    def transfers(self, seed: int, replication: int) -> list[tuple[float, int | None]]:
        """Return each real transfer's start in seconds in one replication, and the size of its file.

        The size is None unless the transfer has a duration.
        """
    def course(self, hop: str, direction: str, seed: int, replication: int) -> str | None:
        """Return the course of a direction of a hop in one replication, as the CSV file of a `course`.

        None if the link has no course. Raises `ValueError` if there is no such hop.
        """
    @property
    def digest(self) -> str:
        """Hash of the resolved scenario, without the code that it names."""
    @property
    def code(self) -> list[tuple[str, str]]:
        """Key and name of every algorithm of the user's own in it."""
    def run(
        self,
        seed: int,
        first: int,
        count: int,
        observations: str = ...,
        *,
        records: bool = ...,
        memory: str | None = ...,
        stop: Callable[[], bool] | None = ...,
    ) -> Results:
        """Run replications `first` .. `first + count - 1`. A sequential cell runs them as a chain.

        `memory` is that of the results of the replications before them; without it, the hosts remember
        nothing. Raises `ValueError` if it is none.

        Releases the GIL. Without `records` the tables of the results are empty. `stop` is called now and
        then. Once it returns true, this call raises `KeyboardInterrupt`, as after Ctrl-C in the main thread.

        `observations` says what to keep of some replications besides records: `Observation` of
        crates/lasthop-trace by the number of the replication, as JSON. Captures and time series are new
        files. Raises `OSError` if a file exists or cannot be written, or if a packet does not fit its
        headers.

        An overview takes bounded memory. For each short stretch of a long run, it keeps the first, last,
        least and greatest segments, ACKs, windows, samples and queue lengths. It keeps up to 20 000 drops,
        timeouts, retransmissions and the like. Within its span it keeps as much of everything as fits.
        `packets` has a further column, `fresh_bytes`: the payload that reached the receiver for the first
        time since the flow's last row. `flows` has `flow`, `application`, `protocol` and the data's
        `direction` for the first 2000 flows.
        """

def gather(
    results: list[Results], position: str
) -> dict[str, dict[str, list[str] | tuple[Literal["Q", "d"], bytes, bytes]]]:
    """Stack the tables of several results. Returns the columns of each table by name.

    A column of text is a list. A column of numbers is a type code of `struct`, the numbers as bytes in native
    order, and a byte per row, 1 if the row has a value. The column named `position` has the place of a row's
    results in `results`. Releases the GIL.
    """

class Results:
    """Columns by name, made anew at each access. All tables have `replication`; `flows` has `role`, too."""

    @property
    def flows(self) -> _Columns: ...
    @property
    def pages(self) -> _Columns: ...
    @property
    def shorts(self) -> _Columns: ...
    @property
    def hops(self) -> _Columns: ...
    @property
    def stations(self) -> _Columns: ...
    @property
    def runs(self) -> _Columns: ...
    @property
    def trace(self) -> Trace | None:
        """What was kept of the last replication with a trace or an overview."""
    @property
    def memory(self) -> str | None:
        """What the hosts of a sequential cell remember after the last replication, as JSON."""

class Trace:
    """Columns by name. `time_ns` counts from the start of the run; `flow` is the index of a row of `flows`.

    `order` is the place of an event among all events of `packets` and `transport`.
    """

    def buffers(self, table: str) -> dict[str, list[str] | tuple[Literal["Q", "d"], bytes, bytes]] | None:
        """Return a table's columns in the form of `gather`, or `None` if they were read as lists before."""
    @property
    def packets(self) -> _Columns: ...
    @property
    def transport(self) -> _Columns: ...
    @property
    def objects(self) -> _Columns:
        """Objects of page loads: `flow`, `object`, `bytes`, and times in `_ns` since the start of the run."""
    @property
    def flows(self) -> _Columns: ...
    @property
    def bad_periods(self) -> _Columns:
        """`start_s`, `end_s`, `hop` and `direction` of the bad periods; no direction stands for both."""
    @property
    def left_out(self) -> dict[str, int]:
        """How many `points`, `marks` and `flows` an overview lacks. A whole recording lacks none."""
    @property
    def series(self) -> _Columns:
        """In an overview: the run in up to 160 steps, with the columns `MEANINGS["series"]` and `step_s`."""
    @property
    def delays(self) -> _Columns:
        """In an overview: the distribution functions of the one-way delays: `flow`, `share`, `delay_s`."""
