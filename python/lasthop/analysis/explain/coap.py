"""The story of CoAP requests: what each expired timer meant for its request."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from lasthop.analysis.explain.facts import table_of
from lasthop.analysis.explain.packets import Moment, Packet, Packets
from lasthop.analysis.explain.udp import episodes
from lasthop.analysis.explain.words import Entry, Story, clock, ends_of, length
from lasthop.common.metrics.labels import DROP_CAUSES
from lasthop.common.metrics.units import counted, listed
from lasthop.engines.records import Columns
from lasthop.engines.rows import Record, TransportRow


@dataclass(slots=True)
class Transmission:
    """A transmission of a request, and the responses to it: several if the network made copies of it."""

    packet: Packet
    responses: list[Packet] = field(default_factory=list)

    @property
    def answered(self) -> Moment | None:
        """When the first response arrived at the client."""
        arrivals = [response.delivered for response in self.responses if response.delivered is not None]
        return min(arrivals, default=None)


@dataclass(slots=True)
class Request:
    number: int
    transmissions: list[Transmission] = field(default_factory=list)
    expiries: list[Moment] = field(default_factory=list)

    @property
    def sent_ns(self) -> int:
        return self.transmissions[0].packet.sent.ns

    @property
    def answered(self) -> Moment | None:
        """When the first response to any transmission arrived at the client."""
        arrivals = [each.answered for each in self.transmissions if each.answered is not None]
        return min(arrivals, default=None)

    def before(self, expiry: Moment) -> list[Transmission]:
        """Return the transmissions that had left when the timer expired."""
        return [each for each in self.transmissions if each.packet.sent < expiry]

    def is_spurious(self, expiry: Moment) -> bool:
        """Whether a response was still to come without a further transmission."""
        return any(each.answered is not None for each in self.before(expiry))


def requests_of(packets: Packets, events: Sequence[TransportRow], flow: int, down: bool) -> list[Request]:
    """Assign the datagrams of a flow to its requests, which travel down if `down`.

    The client reports each retransmission before it sends the datagram. All other datagrams of the client are
    new requests, in the order of their numbers. The server answers a request when it arrives.
    """
    again = [row for row in events if row["event"] == "retransmitted-timeout"]
    requests: list[Request] = []
    arrived: list[tuple[Moment, Transmission]] = []
    for packet in packets.of_flow(flow):
        if (packet.direction == "down") != down:
            before = bisect_left(arrived, packet.sent, key=itemgetter(0))
            if before:
                arrived[before - 1][1].responses.append(packet)
            continue
        if again and again[0]["order"] < packet.sent.order:
            request = requests[again.pop(0)["seq"]]
        else:
            requests.append(request := Request(len(requests)))
        request.transmissions.append(Transmission(packet))
        if packet.delivered is not None:
            insort(arrived, (packet.delivered, request.transmissions[-1]), key=itemgetter(0))
    for row in events:
        if row["event"] == "timeout":
            requests[row["seq"]].expiries.append(Moment(row["order"], row["time_ns"]))
    return requests


def tell_coap(packets: Packets, tcp: Columns, record: Record, flow: int) -> Story:
    name = record["flow"]
    requests = requests_of(packets, table_of(tcp, flow), flow, record["direction"] == "down")
    sizes = _sizes([each.packet for request in requests for each in request.transmissions])
    head = (
        f"{name}: CoAP over UDP, {ends_of(record, record['direction'])}, "
        f"{counted(len(requests), 'request')} of {sizes} bytes, numbered from 0."
    )
    entries = [Entry(requests[0].sent_ns, _first(requests[0]))]
    late = [request for request in requests if request.expiries]
    spans = episodes(late, lambda request: (request.sent_ns, request.expiries[-1].ns))
    entries += [_episode(episode, packets) for episode in spans]
    entries.append(Entry(requests[-1].sent_ns, f"Request {requests[-1].number}, the last, sent."))
    return Story(name, head, sorted(entries, key=lambda entry: entry.ns), [*_summary(requests, record)])


def _sizes(sent: Sequence[Packet]) -> str:
    least, most = (pick(packet.payload_bytes for packet in sent) for pick in (min, max))
    return str(least) if least == most else f"{least} to {most}"


def _first(request: Request) -> str:
    return f"Request {request.number} sent.{_took(request)}"


def _took(request: Request) -> str:
    if request.answered is None:
        return " No response arrived."
    return f" The first response arrived {length(request.answered.ns - request.sent_ns)} later."


def _episode(requests: Sequence[Request], packets: Packets) -> Entry:
    """Describe a request whose timer expired, or several that are near to each other."""
    times = [expiry.ns for request in requests for expiry in request.expiries]
    if len(requests) == 1:
        return Entry(requests[0].sent_ns, _one(requests[0], packets), times)
    spurious = sum(request.is_spurious(expiry) for request in requests for expiry in request.expiries)
    worst = max(requests, key=_lasted)
    text = (
        f"{len(requests)} requests from {requests[0].number} to {requests[-1].number}: the timer expired "
        f"{counted(len(times), 'time')}, {spurious} of them spuriously, until {clock(max(times))}. The "
        f"slowest: {_one(worst, packets)}"
    )
    return Entry(requests[0].sent_ns, text, times)


def _lasted(request: Request) -> int:
    last = request.answered or request.expiries[-1]
    return max(last.ns, request.expiries[-1].ns) - request.sent_ns


def _one(request: Request, packets: Packets) -> str:
    text = f"Request {request.number}, sent at {clock(request.sent_ns)}."
    started = request.sent_ns
    for number, expiry in enumerate(request.expiries, 1):
        earlier = request.before(expiry)
        text += f" The timer expired after {length(expiry.ns - started)}"
        started = expiry.ns
        text += f", as {_why(earlier, expiry, packets)}"
        if number == len(request.transmissions):
            text += "; the client gave the request up."
        elif request.is_spurious(expiry):
            text += "; sent again, unnecessarily."
        else:
            text += "; sent again."
    return text + _took(request)


def _why(earlier: Sequence[Transmission], expiry: Moment, packets: Packets) -> str:
    """Say why no response to the transmissions so far had arrived when the timer expired."""
    coming = [each for each in earlier if each.answered is not None]
    if coming:
        first = min(coming, key=lambda each: each.answered or expiry)
        arrived = [response for response in first.responses if response.delivered == first.answered]
        on_its_way = arrived[0].sent < expiry
        what, packet = ("response", arrived[0]) if on_its_way else ("request", first.packet)
        return f"the {what} was {packets.place(packet, expiry).value}{_at(packet, expiry, packets)}"
    each = earlier[-1]
    if not each.responses:
        return f"the request {_fate(each.packet, packets)}"
    return f"the response {_fate(each.responses[-1], packets)}"


def _at(packet: Packet, now: Moment, packets: Packets) -> str:
    crossing = packet.crossing(now)
    return packets.at_hop(crossing.place if crossing else None)


def _fate(packet: Packet, packets: Packets) -> str:
    if packet.cause is None:
        return "was still on its way when the run ended"
    return f"was lost ({DROP_CAUSES[packet.cause].words}{packets.at_hop(packet.dropped_at)})"


def _summary(requests: Sequence[Request], record: Record) -> Iterator[str]:
    made, completed = record["requests"], record["requests_completed"]
    by_response: dict[bool, int] = defaultdict(int)
    for request in requests:
        for expiry in request.expiries:
            if not request.is_spurious(expiry):
                by_response[bool(request.before(expiry)[-1].responses)] += 1
    yield f"Summary: {completed} of {counted(made, 'request')} completed, {made - completed} did not."
    if record["timeouts"]:
        causes = [f"{record['spurious_timeouts']} spurious (a response to an earlier copy was still to come)"]
        causes += [f"{by_response[False]} after a lost request"] if by_response[False] else []
        causes += [f"{by_response[True]} after a lost response"] if by_response[True] else []
        yield f"The timer expired {counted(record['timeouts'], 'time')}: {listed(causes)}."
        yield (
            f"Retransmissions: {record['retransmitted_packets']}, {record['unnecessary_retransmissions']} of "
            "them unnecessary."
        )
    if completed:
        quantiles = [("median", "p50"), ("95 %", "p95"), ("99 %", "p99"), ("longest", "max")]
        times = ", ".join(f"{label} {record[f'completion_{name}_s']:.3f} s" for label, name in quantiles)
        yield f"Completion time: {times}."
