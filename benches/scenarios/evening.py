#!/usr/bin/env python3
"""Print a scenario: the evening of 200 homes behind one backhaul, each with a line of its own.

    benches/scenarios/evening.py [--homes 200] [--seconds 300] > evening.toml
    /usr/bin/time -v lasthop run evening.toml --jobs 1

Each home has a line of 50 Mbit/s down and 10 up, and the backhaul 2.5 Mbit/s for each home, both with
FQ-CoDel. Everybody reads pages: a request every ten seconds or so. Three in five watch a video of up to
5 Mbit/s, one in ten is in a call, and one in twenty downloads as fast as it goes.
"""

from __future__ import annotations

import argparse


def link(rate_mbit: float, delay_ms: float) -> str:
    """A direction of a hop."""
    queue = '{ discipline = "fq_codel" }'
    return f'{{ link = {{ rate = "{rate_mbit:g} Mbit/s", delay = "{delay_ms:g} ms" }}, queue = {queue} }}'


def flow(kind: str, name: str, home: int, *keys: str) -> str:
    """A flow between a server and a home."""
    stated = (f'kind = "{kind}"', f'name = "{name}-{home}"', f'host = "home-{home}"', *keys)
    return "\n".join(["[[flow]]", *stated, ""])


def traffic(home: int, seconds: int) -> list[str]:
    """What a home does: the parts of ten and twenty are spread over the numbers of the homes."""
    start = 'start = { distribution = "uniform", min = "0 s", max = "10 s" }'
    duration = f'duration = "{seconds - 20} s"'
    pages = (
        'response = { distribution = "exponential", mean = "1 MB", min = "1 kB" }',
        'think = { distribution = "exponential", mean = "10 s" }',
        "requests = 100000",
    )
    video = ('bitrates = ["500 kbit/s", "1 Mbit/s", "2 Mbit/s", "3 Mbit/s", "5 Mbit/s"]', 'buffer = "30 s"')
    adapts = ('reservoir = "8 s"', 'cushion = "18 s"')
    flows = [flow("request-response", "pages", home, start, *pages)]
    if home % 5 < 3:
        flows.append(flow("video", "video", home, start, duration, *video, *adapts))
    if home % 10 == 3:
        flows.append(flow("voip", "call", home, start, duration, 'direction = "both"'))
    if home % 20 == 4:
        flows.append(flow("bulk-tcp", "bulk", home, start, duration))
    return flows


def main() -> None:
    """Print the scenario."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--homes", type=int, default=200, help="default %(default)s")
    parser.add_argument("--seconds", type=int, default=300, help="virtual seconds; default %(default)s")
    options = parser.parse_args()
    homes = range(options.homes)
    print(f'name = "evening"\nreplications = 1\ntime_limit = "{options.seconds} s"\n')
    print(f"[hop.backhaul]\ndown = {link(2.5 * options.homes, 10)}\n\n[hop]")
    line = f'{{ behind = "backhaul", down = {link(50, 2)}, up = {link(10, 2)} }}'
    print("\n".join(f"line-{home} = {line}" for home in homes))
    print("\n[host]")
    print("\n".join(f'home-{home}.behind = "line-{home}"' for home in homes))
    print()
    print("\n".join(part for home in homes for part in traffic(home, options.seconds)))


if __name__ == "__main__":
    main()
