"""A shell script for Linux: network namespaces, and htb and netem at two routers between the hosts.

    server -- router-1 -- router-2 -- client

The queue and the rate of a direction are htb and a discipline where it enters the hop; its delay and its
impairments are netem at the other router. netem repeats the rate: htb lets a packet pass when its turn
begins, and a link delivers it when its last bit has passed. With a rate, netem also keeps packets in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lasthop.exchange.quantities import percent, scenario_bytes, scenario_rate, scenario_time, seconds
from lasthop.exchange.readers.tc import ATM_BYTES, ETHERNET_BYTES
from lasthop.exchange.writers.hop import Hop, Side, packet_loss

SERVER, ROUTERS, CLIENT = "lasthop-server", ("lasthop-r1", "lasthop-r2"), "lasthop-client"
LINKS = (
    (SERVER, "server0", ROUTERS[0], "up-link", "10.73.1"),
    (ROUTERS[0], "down-queue", ROUTERS[1], "up-queue", "10.73.2"),
    (ROUTERS[1], "down-link", CLIENT, "client0", "10.73.3"),
)
"""Both ends of each wire: host, device; and the network's address."""
QUEUE_AT = {"down": (ROUTERS[0], "down-queue"), "up": (ROUTERS[1], "up-queue")}
LINK_AT = {"down": (ROUTERS[1], "down-link"), "up": (ROUTERS[0], "up-link")}
_BURST_S = 0.0005
"""What htb may send at once, as time at the rate: timers of a machine are late by about a tenth of it."""

_SMALLEST_PACKET = 40
_NETEM_SPARE, _NETEM_MAX = 1000, 10_000_000


@dataclass(frozen=True)
class Shaping:
    """The commands of a direction: after `tc qdisc add dev DEVICE root`, and changes over time."""

    way: str
    queue: list[str]
    """Commands for the device with the queue, with `{dev}` in place of `dev DEVICE`."""
    link: list[str]
    changes: list[tuple[int, list[str], list[str]]]
    """Times, and the commands for the two devices then."""


def write(hop: Hop) -> str:
    """Return the script; what it cannot express is noted in the hop."""
    shapings = [shaping(side) for side in hop.sides.values()]
    missing = hop.missing()
    lines = [
        "#!/bin/sh",
        f"# {hop.title}, by 'lasthop export --as tc'. Run it as root on Linux; it needs iproute2.",
        "#",
        f"#   ip netns exec {SERVER} iperf3 -s -D",
        f"#   ip netns exec {CLIENT} iperf3 -R -c {LINKS[0][4]}.1",
        f"#   for host in {SERVER} {' '.join(ROUTERS)} {CLIENT}; do ip netns delete $host; done",
        "#",
        *missing_lines(missing),
        "set -e",
        "",
        *_network(hop.mtu),
    ]
    for each in shapings:
        lines += ["", f"# The way {each.way}: first the queue and the rate, then the link."]
        lines += [command_at(QUEUE_AT[each.way], command) for command in each.queue]
        lines += [command_at(LINK_AT[each.way], command) for command in each.link]
    lines += _background(shapings)
    return "\n".join(lines) + "\n"


def missing_lines(missing: Sequence[str]) -> list[str]:
    if not missing:
        return ["# Nothing of the link is left out."]
    return ["# Not expressed here:", *(f"#   {text}" for text in missing)]


def command_at(place: tuple[str, str], command: str) -> str:
    host, device = place
    return f"tc -n {host} {command.format(dev=f'dev {device}')}"


def _network(mtu: int) -> Iterator[str]:
    for host in (SERVER, *ROUTERS, CLIENT):
        yield f"ip netns add {host}"
        yield f"ip -n {host} link set lo up"
    for left, left_device, right, right_device, _ in LINKS:
        yield f"ip link add {left_device} netns {left} type veth peer name {right_device} netns {right}"
    for host, command in addresses(mtu):
        yield f"ip -n {host} {command}"
    for host in ROUTERS:
        yield f"ip netns exec {host} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'"
    for host, command in routes():
        yield f"ip -n {host} {command}"


def addresses(mtu: int) -> Iterator[tuple[str, str]]:
    """Yield hosts and commands of `ip` for the addresses of both ends of each wire.

    Hosts know each other's hardware addresses: netem would delay the answers of ARP, too.
    """
    for wire, (left, left_device, right, right_device, network) in enumerate(LINKS, 1):
        for host, device, own, other in ((left, left_device, 1, 2), (right, right_device, 2, 1)):
            yield host, f"address add {network}.{own}/24 dev {device}"
            # Offloading would hand over packets of 64 KiB, which count as one in queues.
            hardware = f"address 02:00:00:00:{wire:02}:{own:02}"
            yield host, f"link set dev {device} {hardware} mtu {mtu} gso_max_segs 1 up"
            neighbour = f"02:00:00:00:{wire:02}:{other:02}"
            yield host, f"neighbour replace {network}.{other} lladdr {neighbour} dev {device}"


def routes() -> Iterator[tuple[str, str]]:
    """Yield hosts and commands of `ip` for routes beyond neighbours."""
    (*_, first), (*_, middle), (*_, last) = LINKS
    yield SERVER, f"route replace default via {first}.2"
    yield ROUTERS[0], f"route replace {last}.0/24 via {middle}.2"
    yield ROUTERS[1], f"route replace {first}.0/24 via {middle}.1"
    yield CLIENT, f"route replace default via {last}.1"


def _background(shapings: Sequence[Shaping]) -> Iterator[str]:
    """Yield the changes of both directions, in the background."""
    changes = sorted(
        (
            at,
            [
                *(command_at(QUEUE_AT[each.way], command) for command in queue),
                *(command_at(LINK_AT[each.way], command) for command in link),
            ],
        )
        for each in shapings
        for at, queue, link in each.changes
    )
    if not changes:
        return
    yield from ("", "# Changes over time, from now on.", "(")
    now = 0
    for at, commands in changes:
        if at > now:
            yield f"sleep {seconds(at - now)}"
        now = at
        yield from commands
    yield ") &"


def shaping(side: Side) -> Shaping:
    """Return the commands of a direction; notes what they cannot express."""
    stab = _size_table(side)
    rate = _rate(side)
    netem = _netem(side)
    discipline = _discipline(side)
    queue = [
        f"qdisc add {{dev}} root handle 1: {stab}htb default 1",
        f"class add {{dev}} parent 1: classid 1:1 {_htb(rate, side.mtu)}",
        f"qdisc add {{dev}} parent 1:1 handle 10: {discipline}",
    ]
    link = [f"qdisc add {{dev}} root handle 1: {stab}{netem(rate, side.delay_ns, None)}"]
    return Shaping(side.way, queue, link, list(_changes(side, stab, netem, rate)))


def _changes(side: Side, stab: str, netem: _Netem, rate: int) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield times, and the commands for both devices then. A discipline that changes loses its size table."""
    delay_ns, loss = side.delay_ns, None
    ends = [state.at_ns for state in side.states if state.rate]
    for state in side.states:
        shaped = state.rate
        if state.rate == 0:
            lasts_ns = next((end for end in ends if end > state.at_ns), 2 * state.at_ns + 1) - state.at_ns
            shaped = min(outage_rate(lasts_ns, side.mtu), rate)
        elif state.rate is not None:
            rate = state.rate
        delay_ns = delay_ns if state.delay_ns is None else state.delay_ns
        loss = loss if state.loss is None else state.loss
        shaper = (
            [] if shaped is None else [f"class change {{dev}} parent 1: classid 1:1 {_htb(shaped, side.mtu)}"]
        )
        yield (
            state.at_ns,
            shaper,
            [f"qdisc change {{dev}} root handle 1: {stab}{netem(rate, delay_ns, loss)}"],
        )


def outage_rate(lasts_ns: int, mtu: int) -> int:
    """Return the rate that lets one packet pass in an outage.

    htb has no rate of 0, and remembers what a packet costs at the present rate: at a lower one, the packet
    would block the link beyond the outage.
    """
    return max(-(-8 * mtu * 10**9 // lasts_ns), 8)


def _rate(side: Side) -> int:
    """Return the rate at the start."""
    if side.take("link.trace") is not None:
        side.lacks("link.trace", f"a constant rate, the trace's mean of {side.rate} bit/s")
    if any(state.rate == 0 for state in side.states):
        side.lacks("link.course", "one packet passes in an outage")
    if side.states:
        side.lacks("link", "changes come at the times of 'sleep', a few milliseconds late")
    return side.rate


def _size_table(side: Side) -> str:
    """Return a size table by which disciplines count IP packets, or those with the stated framing."""
    framing = side.take("link.framing")
    if framing == "atm":
        return f"stab linklayer atm overhead {ATM_BYTES - ETHERNET_BYTES} "
    overhead = scenario_bytes(str(framing)) if framing is not None else 0
    if overhead and side.limit()[1] == "B":
        side.lacks("queue.limit", f"counts the framing of {framing} too")
    return f"stab overhead {overhead - ETHERNET_BYTES} "


def _htb(rate: int, mtu: int) -> str:
    burst = max(mtu + ETHERNET_BYTES, round(rate / 8 * _BURST_S))
    return f"htb rate {rate}bit burst {burst}b cburst {burst}b quantum {mtu}"


class _Netem:
    """The arguments of netem for a rate, a delay and a loss, with constant other impairments."""

    def __init__(
        self, before: str, after: str, *, in_order: bool, base_ns: int, jitter_ns: int, loss: float | None
    ) -> None:
        self.before = before
        self.after = after
        self.in_order = in_order
        self.base_ns = base_ns
        self.jitter_ns = jitter_ns
        self.loss = loss

    def __call__(self, rate: int, delay_ns: int, loss: float | None) -> str:
        delay = delay_ns + self.base_ns
        lasts_ns = delay + self.jitter_ns
        limit = min(rate * lasts_ns // (8 * _SMALLEST_PACKET * 10**9) + _NETEM_SPARE, _NETEM_MAX)
        words = ["netem", f"limit {limit}", f"delay {_time(delay)}"]
        if self.jitter_ns:
            words.append(_time(self.jitter_ns))
        share = self.loss if loss is None else loss
        if share is not None and share > 0:
            words.append(f"loss {percent(share)}")
        words += [self.before] if self.before else []
        if self.in_order:
            words.append(f"rate {rate}bit")
        return " ".join([*words, *([self.after] if self.after else [])])


def _netem(side: Side) -> _Netem:
    base_ns, jitter_ns = _jitter(side)
    in_order = side.take("link.reorder") is not True
    if not in_order:
        side.lacks("link.reorder", "a packet arrives earlier, by the time that it takes on the link")
    loss = side.take("link.loss")
    if (bits := side.take("link.bit_error_rate")) is not None:
        loss = packet_loss(float(str(bits)), side.mtu)
        side.lacks("link.bit_error_rate", "short packets are lost as often as full ones")
    words = []
    chain = side.take("link.gilbert_elliott")
    if isinstance(chain, dict):
        chances = (chain["p"], chain["r"], chain["loss_bad"], chain["loss_good"])
        words.append("loss gemodel " + " ".join(percent(chance) for chance in chances))
    shares = {key: side.take(f"link.{key}") for key in ("corrupt", "duplicate")}
    words += [f"{key} {percent(float(str(share)))}" for key, share in shares.items() if share is not None]
    slots = side.take("link.slots")
    after = ""
    if isinstance(slots, dict):
        after = f"slot {_time(scenario_time(slots['every']))}"
    share = float(str(loss)) if loss is not None else None
    return _Netem(" ".join(words), after, in_order=in_order, base_ns=base_ns, jitter_ns=jitter_ns, loss=share)


def _jitter(side: Side) -> tuple[int, int]:
    """Return what jitter adds to the delay on average, and its greatest deviation."""
    jitter = side.take("link.jitter")
    if jitter is None:
        return 0, 0
    if isinstance(jitter, str):
        return scenario_time(jitter), 0
    assert isinstance(jitter, dict)
    kind = jitter["distribution"]
    if kind == "uniform":
        least, most = scenario_time(jitter["min"]), scenario_time(jitter["max"])
        return (least + most) // 2, (most - least) // 2
    mean = scenario_time(jitter["mean"]) if kind == "exponential" else None
    if mean is None:
        values = [scenario_time(str(value)) for value in jitter["values"]]
        mean = sum(values) // len(values)
    side.lacks("link.jitter", f"a constant delay instead of the distribution '{kind}', its mean")
    return mean, 0


def _discipline(side: Side) -> str:
    """Return the discipline of the queue with its options."""
    kind = side.take("queue.discipline") or "drop-tail"
    limit, unit = side.limit()
    if kind in ("drop-tail", "random-drop"):
        if kind == "random-drop":
            side.lacks("queue.discipline", "the arrival is dropped, not a packet at random")
        return f"bfifo limit {limit}b" if unit == "B" else f"pfifo limit {limit}"
    if unit == "B":
        packets = max(limit // side.mtu, 1)
        side.lacks("queue.limit", f"{packets} packets instead of {limit} bytes")
        limit = packets
    if kind == "drop-head":
        return f"pfifo_head_drop limit {limit}"
    if kind == "cake":
        return _cake(side)
    if kind not in ("codel", "fq_codel", "pie", "fq_pie", "sfq", "dualpi2"):
        side.lacks("queue.discipline", f"a queue that drops only when it is full, instead of {kind!r}")
        return f"pfifo limit {limit}"
    words = [str(kind), f"limit {limit}"]
    for key, name in (
        ("target", "target"),
        ("interval", "interval"),
        ("tupdate", "tupdate"),
        ("ce_threshold", "ce_threshold"),
        ("step_threshold", "step_thresh"),
    ):
        if (value := side.take(f"queue.{key}")) is not None:
            words.append(f"{name} {_time(scenario_time(str(value)))}")
    if kind in ("fq_codel", "fq_pie", "sfq"):
        quantum = side.take("queue.quantum")
        words.append(f"quantum {side.mtu if quantum is None else scenario_bytes(str(quantum))}")
        if (flows := side.take("queue.flows")) is not None:
            words.append(f"{'divisor' if kind == 'sfq' else 'flows'} {flows}")
    if (shortest := side.take("queue.min_qlen_step")) is not None:
        words.append(f"min_qlen_step {shortest}")
    marks = side.take("queue.ecn")
    if marks is not None and kind != "dualpi2":
        words.append("ecn" if marks else "noecn")
    return " ".join(words)


def _cake(side: Side) -> str:
    side.lacks("queue.limit", "CAKE sets its own limit")
    rate, rtt = side.take("queue.rate"), side.take("queue.rtt")
    tins, isolation = side.take("queue.tins"), side.take("queue.isolation")
    acks = side.take("queue.ack_filter")
    words = ["cake", "unlimited" if rate is None else f"bandwidth {scenario_rate(str(rate))}bit"]
    words.append(str(tins or "diffserv3"))
    words.append({"none": "flowblind"}.get(str(isolation), str(isolation or "triple-isolate")))
    words += {"on": ["ack-filter"], "aggressive": ["ack-filter-aggressive"]}.get(str(acks), [])
    if rtt is not None:
        words.append(f"rtt {_time(scenario_time(str(rtt)))}")
    return " ".join(words)


def _time(nanoseconds: int) -> str:
    """Return a time for tc, in the largest unit without a fraction."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds % size == 0 and nanoseconds:
            return f"{nanoseconds // size}{unit}"
    return f"{nanoseconds}ns" if nanoseconds else "0ms"
