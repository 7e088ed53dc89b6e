"""A sender's history as a list of states, one per ACK, and the first difference between two histories."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lasthop.engines.engine import Trace
from lasthop.engines.rows import PacketRow, TransportRow, merged, packet_rows, transport_rows

AT_ONCE_NS = 20_000
"""Packets closer than this count as simultaneous: engines differ on which of them a host responds to."""

SENDERS = {"down": "server", "up": "client"}
"""The host that sends a flow's data, by the direction of the data."""


@dataclass(slots=True)
class State:
    """A sender's state from one ACK to the next."""

    time_ns: int
    ack: int | None
    """Next byte that the receiver expects; `None` before the first ACK."""
    sack: str
    cwnd: int | None = None
    """Congestion window in segments; `None` until an engine reports it."""
    ssthresh: int | None = None
    """Slow-start threshold in segments; `None` while infinite."""
    in_flight: int | None = None
    sent: list[tuple[int, int]] = field(default_factory=list)
    """First byte and end (exclusive) of each segment sent before the next ACK."""
    happened: list[str] = field(default_factory=list)
    """Timeouts, recoveries and undos before the next ACK."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first difference between two histories: the number of the ACK, and the fields that differ."""

    ack_number: int
    what: Sequence[str]
    states: tuple[State | None, State | None]
    """The states on both engines; `None` for a history that has already ended."""


def history(trace: Trace, flow: int) -> list[State]:
    """Return the states of a flow's sender; the first is the state before any ACK.

    Simultaneous ACKs, such as those that ARQ releases together, count as one.
    """
    states = [State(0, None, "")]
    data = trace.flows["direction"][flow]
    packets = (row for row in packet_rows(trace) if row["flow"] == flow)
    transport = (
        row for row in transport_rows(trace.transport) if row["flow"] == flow and row["host"] == SENDERS[data]
    )
    for row in merged(packets, transport):
        if "direction" in row:
            _add_packet(states, row, data)
        else:
            _add_event(states, row)
    return states


def _add_packet(states: list[State], row: PacketRow, data: str) -> None:
    state = states[-1]
    match row["event"]:
        case "delivered" | "duplicated" if row["direction"] != data and row["ack"] is not None:
            latest = replace(state, time_ns=row["time_ns"], ack=row["ack"], sack=row["sack"])
            if state.ack is not None and row["time_ns"] - state.time_ns <= AT_ONCE_NS:
                states[-1] = latest
            else:
                states.append(replace(latest, sent=[], happened=[]))
        case "sent" if row["direction"] == data and row["end"] > row["seq"]:
            state.sent.append((row["seq"], row["end"]))


def _add_event(states: list[State], row: TransportRow) -> None:
    state = states[-1]
    match row["event"]:
        case "window":
            state.cwnd, state.ssthresh, state.in_flight = row["cwnd"], row["ssthresh"], row["in_flight"]
        case "established":
            # After a repeated SYN, Linux starts again with a smaller window.
            for before in states[:-1]:
                before.cwnd = before.ssthresh = None
        case "closed":
            # A closed socket no longer has a window.
            state.cwnd = state.ssthresh = None
        case "timeout" | "tail-loss-probe" | "recovery-entered" | "recovery-left" | "ecn-reduction":
            state.happened.append(row["event"])
        case str(event) if event.startswith("undone-"):
            state.happened.append(event)


def parting(left: Sequence[State], right: Sequence[State]) -> Parting | None:
    """Return the first difference between two histories; `None` if there is none."""
    for number in range(max(len(left), len(right))):
        a = left[number] if number < len(left) else None
        b = right[number] if number < len(right) else None
        what = _differences(a, b)
        if what:
            return Parting(number, what, (a, b))
    return None


def _differences(a: State | None, b: State | None) -> list[str]:
    if a is None or b is None:
        return ["ends"]
    names = [
        name
        for name in ("ack", "sack", "cwnd", "ssthresh")
        if None not in (getattr(a, name), getattr(b, name)) and getattr(a, name) != getattr(b, name)
    ]
    if a.sent != b.sent:
        names.append("sent")
    return names
