#!/usr/bin/env python3
"""Random scenarios for two engines, and how far their records lie apart.

    scripts/crosscheck_random.py make --count 200 --errors > random.toml
    lasthop run random.toml --engine model --out a
    lasthop run random.toml --engine live --out b          # or kernel
    scripts/crosscheck_random.py compare a b

A scenario file has one factor, whose levels are the scenarios. `compare` prints the distance of each flow's metrics,
the worst first, and their median. Counts differ by what one has more than the other, times relatively.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import polars as pl

COUNTS = ["data_drops_queue", "data_drops_error", "retransmitted_packets", "timeouts", "sent_packets"]
HEAD = """name = "random"
title = "Random scenarios"
seed = {seed}
replications = 1
mtu = "1500 B"
time_limit = "{limit} s"

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

[tcp]
profile = "linux-6"
tick = "{tick}"

[[flow]]
kind = "bulk-tcp"
name = "tcp-1"
bytes = "100 kB"
start = "0 s"

[factor.scenario]
"""


def scenario(draw: random.Random, algorithms: list[str], *, errors: bool) -> list[str]:
    """Draw a scenario: the lines of a level."""
    rate = round(10 ** draw.uniform(4.8, 6.9))
    delay = round(10 ** draw.uniform(0.7, 2.5))
    mtu = draw.choice([576, 1500])
    seconds = draw.uniform(3, 12)
    size = int(max(10 * mtu, min(rate * seconds / 8, 1500 * mtu)))
    queue = draw.choice([5, 10, 20, 50, 100])
    lines = [f'mtu = "{mtu} B"', f'down.queue.limit = "{queue} packets"']
    for way, share in (("down", 1), ("up", draw.choice([1, 2, 4]))):
        lines += [
            f'{way}.link.rate = "{max(rate // share, 20_000)} bit/s"',
            f'{way}.link.delay = "{delay} ms"',
            f'{way}.link.send_buffer = "{2 * mtu} B"',
        ]
    lines.append(f'tcp.congestion_control = "{draw.choice(algorithms)}"')
    stamps = draw.random() < 0.7
    lines += [f"tcp.timestamps = {str(stamps).lower()}", f"tcp.eifel = {str(stamps).lower()}"]
    lines.append(f"tcp.initial_window = {draw.choice([2, 3, 10])}")
    if draw.random() < 0.2:
        lines += ["tcp.sack = false", "tcp.dsack = false", 'tcp.frto = "off"']
    if draw.random() < 0.2:
        lines += [f"tcp.ecn = {draw.choice(['true', 'false'])}", f"down.queue.red = {red(queue, mtu)}"]
    sizes = [size] if draw.random() < 0.7 else [size // 3, size // 2]
    lines.append("flow = [")
    for number, part in enumerate(sizes, start=1):
        start = (number - 1) * round(draw.uniform(0, 3), 3)
        flow = f'kind = "bulk-tcp", name = "tcp-{number}", bytes = "{part} B", start = "{start} s"'
        lines.append(f"  {{ {flow} }},")
    lines.append("]")
    if errors:
        lines.append(f"errors = {{ {error_process(draw)} }}")
    return lines


def red(queue: int, mtu: int) -> str:
    """RED within a queue of so many packets."""
    low = max(queue // 4, 1)
    thresholds = f'min = "{low} packets", max = "{max(queue // 2, low + 1)} packets"'
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
    return f'{states}, arq = {{ retransmissions = {draw.choice([1, 3, 6])}, delay = "{draw.choice([50, 700])} ms" }}'


def make(arguments: argparse.Namespace) -> None:
    """Write a scenario file to standard output."""
    draw = random.Random(arguments.seed)
    sys.stdout.write(HEAD.format(seed=arguments.seed, tick=arguments.tick, limit=300))
    for number in range(1, arguments.count + 1):
        lines = scenario(draw, arguments.algorithms.split(","), errors=arguments.errors)
        sys.stdout.write(f"\n[factor.scenario.s{number:03}]\n" + "\n".join(lines) + "\n")


def compare(arguments: argparse.Namespace) -> None:
    """Print the distances of two results."""
    keys = ["scenario", "set", "replication", "flow"]
    columns = [*keys, "elapsed_s", "outcome", *COUNTS]
    first, second = (pl.read_parquet(Path(folder) / "flows.parquet").select(columns) for folder in arguments.results)
    both = first.join(second, on=keys, suffix="_2")
    if both.height != first.height or both.height != second.height:
        sys.exit(f"{first.height} and {second.height} flows have {both.height} in common: compare whole results")
    distance = ((pl.col("elapsed_s_2") - pl.col("elapsed_s")) / pl.col("elapsed_s") * 100).alias("elapsed_%")
    table = both.with_columns(distance, *((pl.col(f"{name}_2") - pl.col(name)).alias(name) for name in COUNTS))
    table = table.sort(pl.col("elapsed_%").abs(), descending=True)
    with pl.Config(tbl_rows=arguments.rows, tbl_cols=20, tbl_width_chars=200, tbl_hide_dataframe_shape=True):
        print(
            table.select("scenario", "elapsed_s", "elapsed_s_2", "elapsed_%", *COUNTS, "outcome_2").head(arguments.rows)
        )
    size = table["elapsed_%"].abs()
    same = table.filter(pl.all_horizontal(pl.col(name) == 0 for name in COUNTS)).height
    print(
        f"{table.height} flows: elapsed time differs by {size.median():.3f} % in the median, "
        f"{size.quantile(0.9):.2f} % at p90, {size.max():.2f} % at most; all counts equal in {same}"
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make", help="write a scenario file")
    making.add_argument("--count", type=int, default=200)
    making.add_argument("--seed", type=int, default=1)
    making.add_argument("--errors", action="store_true", help="every scenario has a lossy link")
    making.add_argument("--algorithms", default="reno,cubic")
    making.add_argument("--tick", default="4 ms", help="of the real kernel's timers")
    making.set_defaults(run=make)
    comparing = commands.add_parser("compare", help="compare two results")
    comparing.add_argument("results", nargs=2, metavar="FOLDER")
    comparing.add_argument("--rows", type=int, default=20)
    comparing.set_defaults(run=compare)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
