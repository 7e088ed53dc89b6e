#!/usr/bin/env python3
"""Write a scenario file of random scenarios for the profile linux-6, to compare engines on.

    scripts/random_scenarios.py --count 200 --errors > random.toml
    lasthop crosscheck random.toml --quiet --out random.csv

The file has one factor, whose levels are the scenarios.
"""

from __future__ import annotations

import argparse
import random
import sys

HEAD = """name = "random"
title = "Random scenarios"
seed = {seed}
replications = 1
mtu = "1500 B"
time_limit = "{limit} s"
{between}
[tcp]
profile = "linux-6"
tick = "{tick}"
# All hosts of a guest share one tick.
common_clock = true

[[flow]]
kind = "bulk-tcp"
name = "tcp-1"
bytes = "100 kB"
start = "0 s"

[factor.scenario]
"""

LAST_HOP = """
[lan]
rate = "100 Mbit/s"
delay = "0.15 ms"

[down]
queue.limit = "20 packets"
[down.link]
rate = "1 Mbit/s"
delay = "10 ms"
send_buffer = "3000 B"
release = "serialised"

[up]
queue.limit = "100 packets"
[up.link]
rate = "1 Mbit/s"
delay = "10 ms"
send_buffer = "3000 B"
release = "serialised"
"""

# In trees: the depth, and the share of flows that go to another host in place of a server.
HOPS_DEEP = 4
PEERS = 0.3

# Each level states its hops.
TREE = """
[hop.h0.down.link]
rate = "1 Mbit/s"
delay = "10 ms"

[host.c0]
behind = "h0"
"""

SWITCH = """
[atm]
access_rate = "10 Mbit/s"
access_delay = "5 us"
rate = "1 Mbit/s"
delay = "10 ms"
buffer_cells = 600
threshold = 0.8
overhead = "16 B"
discard = { policy = "early-packet" }
"""


def scenario(
    draw: random.Random,
    algorithms: list[str],
    *,
    errors: bool,
    atm: bool,
    quic: bool = False,
    accurate_ecn: bool = False,
    ecn_option: bool = False,
    discipline: str | None = None,
) -> list[str]:
    """Draw a scenario: the lines of a level."""
    rate = round(10 ** draw.uniform(4.8, 6.9))
    delay = round(10 ** draw.uniform(0.7, 2.5))
    mtu = draw.choice([1280 if quic else 576, 1500])
    seconds = draw.uniform(3, 12)
    size = int(max(10 * mtu, min(rate * seconds / 8, 1500 * mtu)))
    queue = draw.choice([5, 10, 20, 50, 100])
    between = unshaped if discipline == "cake" else shaped if discipline else switch if atm else last_hop
    lines = [f'mtu = "{mtu} B"', *between(draw, rate, delay, mtu, queue)]
    algorithm = draw.choice(algorithms)
    if not quic:
        lines += tcp(draw, algorithm)
    elif not (atm or discipline):
        lines.append(f'up.queue.limit = "{queue} packets"')
    if discipline:
        lines += queue_of(draw, rate, mtu, discipline)
    elif not atm and (accurate_ecn or algorithm == "dctcp"):
        # CoDel's times must be no multiples of a packet's: a queue of many packets would judge in a tie.
        lines += early_marks(draw, rate, mtu, draw.uniform(1.5, 2.5) if accurate_ecn else 1.5)
        lines += ["tcp.accurate_ecn = true"] if accurate_ecn else []
        lines += ["tcp.accurate_ecn_option = true"] if accurate_ecn and ecn_option else []
    elif not atm and draw.random() < 0.2:
        lines += [] if quic else [f"tcp.ecn = {draw.choice(['true', 'false'])}"]
        lines.append(f"down.queue.red = {red(queue, mtu, ecn=quic)}")
    alone = draw.random() < (0.2 if discipline else 0.7)
    sizes = [size] if alone else [size // 3, size // 2]
    lines.append("flow = [")
    for number, part in enumerate(sizes, start=1):
        start = (number - 1) * round(draw.uniform(0, 3), 3)
        name = "quic" if quic else "tcp"
        flow = f'kind = "bulk-tcp", name = "{name}-{number}", bytes = "{part} B", start = "{start} s"'
        flow += f', dscp = "{draw.choice(["BE", "BE", "CS1", "AF41", "EF"])}"' if discipline == "cake" else ""
        flow += over_quic(draw, algorithm, ["down"] if atm else ["down", "up"]) if quic else ""
        lines.append(f"  {{ {flow} }},")
    if discipline == "dualpi2":
        lines.append(call(draw, rate, seconds))
    lines.append("]")
    if errors:
        lines.append(f"errors = {{ {error_process(draw)} }}")
    return lines


def tcp(draw: random.Random, algorithm: str) -> list[str]:
    """Switches of TCP."""
    lines = [f'tcp.congestion_control = "{algorithm}"']
    stamps = draw.random() < 0.7
    lines += [f"tcp.timestamps = {str(stamps).lower()}", f"tcp.eifel = {str(stamps).lower()}"]
    lines.append(f"tcp.initial_window = {draw.choice([2, 3, 10])}")
    if draw.random() < 0.2:
        lines += ["tcp.sack = false", "tcp.dsack = false", 'tcp.frto = "off"']
    return lines


def over_quic(draw: random.Random, algorithm: str, ways: list[str]) -> str:
    """Keys of a flow over QUIC, one of these ways."""
    keys = [
        f'congestion_control = "{algorithm}"',
        f"ecn = {draw.choice(['true', 'false'])}",
        f"mtu_discovery = {draw.choice(['true', 'false'])}",
        f'crypto = "{draw.choice(["tls", "null"])}"',
    ]
    if draw.random() < 0.3:
        keys.append(f"ack_eliciting_threshold = {draw.choice([1, 4, 10])}")
    return f', direction = "{draw.choice(ways)}", stack = "quic", quic = {{ {", ".join(keys)} }}'


def last_hop(draw: random.Random, rate: int, delay: int, mtu: int, queue: int) -> list[str]:
    """A path of this rate and delay, and a slower one back."""
    lines = [f'down.queue.limit = "{queue} packets"']
    for way, share in (("down", 1), ("up", draw.choice([1, 2, 4]))):
        lines += [
            f'{way}.link.rate = "{max(rate // share, 20_000)} bit/s"',
            f'{way}.link.delay = "{delay} ms"',
            f'{way}.link.send_buffer = "{2 * mtu} B"',
        ]
    return lines


def switch(draw: random.Random, rate: int, delay: int, mtu: int, queue: int) -> list[str]:
    """An ATM switch whose buffer holds `queue` packets, with one policy or the other."""
    cells = -(-(mtu + 16) // 48)
    policy = draw.choice(['policy = "early-packet"', 'policy = "selective", share = 0.8'])
    return [
        f'atm.access_rate = "{rate * draw.choice([1, 2, 10])} bit/s"',
        f'atm.rate = "{rate} bit/s"',
        f'atm.delay = "{delay} ms"',
        f"atm.buffer_cells = {cells * queue}",
        f"atm.threshold = {draw.choice([0.5, 0.8, 0.9])}",
        f"atm.discard = {{ {policy} }}",
    ]


def queue_of(draw: random.Random, rate: int, mtu: int, discipline: str) -> list[str]:
    """A queue of Linux' with random parameters."""
    if "red" in discipline:
        return red_of_linux(draw, rate, mtu, adaptive=discipline.startswith("adaptive"))
    if discipline == "cake":
        return cakes(draw, rate)
    packet_ms = mtu * 8e3 / rate
    target = round(max(draw.choice([5, 15, 30]), 1.5 * packet_ms), 3)
    queue = [f'discipline = "{discipline}"', 'limit = "1000 packets"']
    if discipline == "dualpi2":
        step = round(max(draw.choice([1, 2, 5]), packet_ms), 3)
        queue += [f'target = "{target} ms"', 'tupdate = "16 ms"', f'step_threshold = "{step} ms"']
        queue.append(f"min_qlen_step = {draw.choice([0, 1, 2])}")
    elif discipline in ("sfq", "drop-head"):
        queue[1] = f'limit = "{draw.choice([20, 60, 127])} packets"'
    else:
        queue += [f'target = "{target} ms"', f"ecn = {draw.choice(['true', 'false'])}"]
    if "codel" in discipline:
        queue.append(f'interval = "{round(max(draw.choice([50, 100, 200]), 3 * target), 3)} ms"')
    if discipline in ("pie", "fq_pie"):
        queue.append('tupdate = "16 ms"')
    return [f"tcp.ecn = {draw.choice(['true', 'false'])}", f"down.queue = {{ {', '.join(queue)} }}"]


def cakes(draw: random.Random, rate: int) -> list[str]:
    """CAKE both ways, with random parameters; ACKs may fill the way up."""
    lines = [f"tcp.ecn = {draw.choice(['true', 'false'])}"]
    for way, share in (("down", 1), ("up", draw.choice([1, 20, 50]))):
        keys = [
            'discipline = "cake"',
            'limit = "4 MB"',
            f'rate = "{max(rate // share // 8 * 8, 16_000)} bit/s"',
            f'tins = "{draw.choice(["besteffort", "diffserv3", "diffserv4"])}"',
            f'isolation = "{draw.choice(["triple-isolate", "dual-srchost", "flows", "none"])}"',
            f'ack_filter = "{draw.choice(["off", "on", "aggressive"])}"',
            f'overhead = "{draw.choice(["0 B", "18 B", "44 B", "atm"])}"',
            f'mpu = "{draw.choice([0, 84])} B"',
            f'rtt = "{draw.choice([20, 100, 300])} ms"',
        ]
        lines.append(f"{way}.queue = {{ {', '.join(keys)} }}")
    return lines


def call(draw: random.Random, rate: int, seconds: float) -> str:
    """Draw a flow of UDP for the queue of low latency, up to three quarters of the rate."""
    keys = [
        f'rate = "{round(rate * draw.uniform(0.05, 0.75))} bit/s"',
        f'payload = "{draw.choice([100, 300, 500])} B"',
        f'duration = "{round(seconds, 1)} s"',
    ]
    return f'  {{ kind = "constant-udp", name = "call", start = "0.5 s", ecn = "ect1", {", ".join(keys)} }},'


def red_of_linux(draw: random.Random, rate: int, mtu: int, *, adaptive: bool) -> list[str]:
    """Draw a RED that Linux has too: in bytes, and the weight a power of a half."""
    low = mtu * max(draw.choice([2, 5, 15]), round(draw.choice([0.02, 0.05, 0.1]) * rate / 8 / mtu))
    keys = [
        f'min = "{low} B"',
        f'max = "{low * draw.choice([2, 3, 5])} B"',
        f"max_probability = {draw.choice([0.02, 0.1, 0.3])}",
        f"weight = {draw.choice([2**-9, 2**-7, 2**-5])}",
        f'avpkt = "{mtu} B"',
        f"ecn = {draw.choice(['true', 'false'])}",
        f"adaptive = {str(adaptive).lower()}",
    ]
    return [
        f"tcp.ecn = {draw.choice(['true', 'false'])}",
        f'down.queue = {{ limit = "{20 * low} B", red = {{ {", ".join(keys)} }} }}',
    ]


def shaped(draw: random.Random, rate: int, delay: int, mtu: int, queue: int) -> list[str]:
    """A class of HTB each way, as Linux' router has it, in front of links that are never felt."""
    del draw, queue
    lines = ['up.queue = { discipline = "codel", limit = "1000 packets" }']
    for way, speed in (("down", rate // 8 * 8), ("up", 1_000_000_000)):
        lines += [
            f'{way}.link = {{ rate = "10 Gbit/s", delay = "{delay} ms", send_buffer = "{2 * mtu} B" }}',
            f'{way}.htb.class = [{{ name = "all", rate = "{speed} bit/s", default = true }}]',
        ]
    return lines


def unshaped(draw: random.Random, rate: int, delay: int, mtu: int, queue: int) -> list[str]:
    """Links for disciplines that have a rate of their own."""
    del draw, rate, queue
    link = f'rate = "1 Gbit/s", delay = "{delay} ms", send_buffer = "{2 * mtu} B"'
    return [f"{way}.link = {{ {link} }}" for way in ("down", "up")]


def tree(draw: random.Random, rate: int, delay: int, mtu: int) -> tuple[list[str], list[int]]:
    """Classes of HTB down, some within others, and the ports of those that hold packets."""
    lines = [line for line in shaped(draw, rate, delay, mtu, 0) if not line.startswith("down.htb")]
    part = max(rate // 8 // 8 * 8, 8000)
    inner = [f"inner-{number}" for number in range(draw.randint(0, 3))]
    ports = [8001 + number for number in range(draw.randint(max(2, len(inner)), 5))]
    classes = []
    for number, name in enumerate([*inner, *ports]):
        # Something is in each inner class.
        into = [*inner[:number], *([] if inner else [None]), *([] if number == 0 else [None])] or [None]
        last = number - len(inner)
        parent = inner[last] if 0 <= last < len(inner) else draw.choice(into)
        own = round(part * draw.uniform(0.5, 3)) // 8 * 8
        most = round(own * draw.uniform(1, 8)) // 8 * 8
        keys = [f'name = "{name}"', f'rate = "{own} bit/s"', f'ceil = "{most} bit/s"']
        keys += [f'parent = "{parent}"'] if parent else []
        keys += [
            f'burst = "{draw.choice([1, 2, 5]) * mtu} B"',
            f'cburst = "{draw.choice([1, 2, 5]) * mtu} B"',
        ]
        if name not in inner:
            keys += [
                f"priority = {draw.choice([0, 0, 1, 2])}",
                f'quantum = "{draw.choice([1, 2, 5]) * mtu} B"',
            ]
            keys += [f"match = [{{ port = {name} }}]", f"default = {str(name == ports[-1]).lower()}"]
            codel = 'discipline = "codel", limit = "1000 packets"'
            queue = draw.choice(['limit = "20 packets"', f'limit = "{30 * mtu} B"', codel])
            keys.append(f"queue = {{ {queue} }}")
        classes.append(f"  {{ {', '.join(keys)} }},")
    if draw.random() < 0.8:
        lines.append(f'down.htb.rate = "{round(part * draw.uniform(3, 9)) // 8 * 8} bit/s"')
    return [*lines, "down.htb.class = [", *classes, "]"], ports


def of_classes(draw: random.Random, algorithm: str) -> list[str]:
    """Draw a scenario with a flow or two for each class: the lines of a level."""
    rate = round(10 ** draw.uniform(5.3, 6.9))
    mtu = draw.choice([576, 1500])
    classes, ports = tree(draw, rate, round(10 ** draw.uniform(0.7, 2)), mtu)
    lines = [f'mtu = "{mtu} B"', *classes, *tcp(draw, algorithm), "flow = ["]
    flows = [port for port in ports for _ in range(draw.choice([1, 1, 2]))]
    for number, port in enumerate(flows, start=1):
        size = int(rate * draw.uniform(2, 6) / 8 / len(flows))
        start = round(draw.choice([0, draw.uniform(0, 3)]), 3)
        keys = f'name = "tcp-{number}", bytes = "{size} B", start = "{start} s", port = {port}'
        lines.append(f'  {{ kind = "bulk-tcp", {keys} }},')
    return [*lines, "]"]


def of_tree(draw: random.Random, algorithm: str) -> list[str]:
    """Draw a tree of hops with hosts on it, and a few flows between them: the lines of a level."""
    mtu = draw.choice([576, 1500])
    lines = [f'mtu = "{mtu} B"', *tcp(draw, algorithm)]
    depths: list[int] = []
    rates: list[int] = []
    for number in range(draw.randint(1, 5)):
        shallow = [behind for behind, depth in enumerate(depths) if depth < HOPS_DEEP]
        behind = draw.choice([None, *shallow, *shallow])
        depths.append(1 if behind is None else depths[behind] + 1)
        rates.append(round(10 ** draw.uniform(5.3, 6.9)))
        delay = round(10 ** draw.uniform(0, 2), 3)
        lines += [f'hop.h{number}.behind = "h{behind}"'] if behind is not None else []
        for way, share in (("down", 1), ("up", draw.choice([1, 2, 4]))):
            link = f'rate = "{rates[-1] // share} bit/s", delay = "{delay} ms", send_buffer = "{2 * mtu} B"'
            queue = draw.choice([10, 20, 50, 100])
            lines.append(
                f'hop.h{number}.{way} = {{ link = {{ {link}, release = "serialised" }}, '
                f'queue = {{ limit = "{queue} packets" }} }}'
            )
    behind_of = [draw.randrange(len(rates)) for _ in range(draw.randint(1, 20))]
    lines += [f'host.c{number}.behind = "h{hop}"' for number, hop in enumerate(behind_of)]
    lines.append("flow = [")
    for number in range(1, draw.randint(1, 4) + 1):
        host = draw.randrange(len(behind_of))
        # Between hosts behind the same hop there is only a LAN: its time is less than that of system calls.
        peers = [peer for peer, hop in enumerate(behind_of) if hop != behind_of[host]]
        peer = f', peer = "c{draw.choice(peers)}"' if peers and draw.random() < PEERS else ""
        size = int(min(rates) * draw.uniform(1, 6) / 8)
        keys = f'name = "tcp-{number}", bytes = "{size} B", start = "{round(draw.uniform(0, 2), 3)} s"'
        way = draw.choice(["down", "up"])
        lines.append(f'  {{ kind = "bulk-tcp", {keys}, host = "c{host}", direction = "{way}"{peer} }},')
    return [*lines, "]"]


def early_marks(draw: random.Random, rate: int, mtu: int, packets: float) -> list[str]:
    """A queue that marks soon and often, as DCTCP wants it: CoDel with times of so many packets or more."""
    target = round(max(draw.choice([1, 2, 5]), packets * 8e3 * mtu / rate), 3)
    return [
        "tcp.ecn = true",
        'down.queue.discipline = "codel"',
        f'down.queue.target = "{target} ms"',
        f'down.queue.interval = "{4 * target:.3f} ms"',
        "down.queue.ecn = true",
    ]


def red(queue: int, mtu: int, *, ecn: bool) -> str:
    """RED within a queue of `queue` packets."""
    low = max(queue // 4, 1)
    thresholds = f'min = "{low} packets", max = "{max(queue // 2, low + 1)} packets"'
    thresholds += ", ecn = true" if ecn else ""
    return f'{{ {thresholds}, max_probability = 0.1, weight = 0.02, avpkt = "{mtu} B" }}'


def error_process(draw: random.Random) -> str:
    """Lost packets, bursts of them, or packets that ARQ delays."""
    chance = round(10 ** draw.uniform(-2.7, -1.3), 4)
    kind = draw.random()
    if kind < 0.6:
        return f'good = "0 s", bad = "1000 s", packet_error_probability = {chance}'
    states = 'good = "3 s", bad = "0.3 s", packet_error_probability = 0.5'
    if kind < 0.8:
        return states
    return (
        f'{states}, arq = {{ retransmissions = {draw.choice([1, 3, 6])}, delay = "{draw.choice([50, 700])} '
        f'ms" }}'
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--errors", action="store_true", help="every scenario has a lossy link")
    kind.add_argument(
        "--discipline",
        help="a queue discipline of Linux' or 'red', 'adaptive-red'; for 'lasthop crosscheck --router linux'",
    )
    kind.add_argument(
        "--classes",
        action="store_true",
        help="classes of HTB, some within others; for 'lasthop crosscheck --router linux'",
    )
    kind.add_argument("--atm", action="store_true", help="an ATM switch in place of the last hop")
    kind.add_argument(
        "--trees", action="store_true", help="a tree of hops with hosts in place of the last hop"
    )
    kind.add_argument(
        "--accurate-ecn", action="store_true", help="accurate ECN, and queues that mark soon and often"
    )
    parser.add_argument("--ecn-option", action="store_true", help="with --accurate-ecn: its option, too")
    parser.add_argument("--quic", action="store_true", help="QUIC carries the flows, in either direction")
    parser.add_argument(
        "--algorithms", help="congestion controls; default: reno,cubic, over QUIC newreno,cubic"
    )
    parser.add_argument("--tick", default="4 ms", help="of the real kernel's timers")
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    algorithms = arguments.algorithms or ("newreno,cubic" if arguments.quic else "reno,cubic")
    between = SWITCH if arguments.atm else TREE if arguments.trees else LAST_HOP
    head = {
        "seed": arguments.seed,
        "tick": arguments.tick,
        "limit": 300,
        "between": between,
    }
    sys.stdout.write(HEAD.format(**head))
    for number in range(1, arguments.count + 1):
        if arguments.classes or arguments.trees:
            draw_level = of_classes if arguments.classes else of_tree
            lines = draw_level(draw, draw.choice(algorithms.split(",")))
            sys.stdout.write(f"\n[factor.scenario.s{number:03}]\n" + "\n".join(lines) + "\n")
            continue
        lines = scenario(
            draw,
            algorithms.split(","),
            errors=arguments.errors,
            atm=arguments.atm,
            quic=arguments.quic,
            accurate_ecn=arguments.accurate_ecn,
            ecn_option=arguments.ecn_option,
            discipline=arguments.discipline,
        )
        sys.stdout.write(f"\n[factor.scenario.s{number:03}]\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
