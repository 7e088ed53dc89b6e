"""Error rates and detection rates of the verdicts of `lasthop check` against a baseline.

Times of 100 000 simulated downloads over a lossy link are drawn into pairs of samples: the baseline, and a
version that is equal or slower by a factor. With the same seed, both have the same times but for the factor.

    .venv/bin/python benches/verdicts.py
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import lasthop
from lasthop.analysis.claims.evaluate import evaluate
from lasthop.analysis.claims.records import Records
from lasthop.scenario.points import read_study
from lasthop.studies.claims.file import load_claims

SCENARIO = """
replications = 100_000
down.queue.limit = "50 packets"
down.link = { rate = "2 Mbit/s", delay = "40 ms", loss = 0.01 }
flow = [{ kind = "bulk-tcp", name = "download", bytes = "500 kB" }]
"""
STATISTICS = ("median", "p95", "mean")
COUNTS = (5, 10, 20, 30, 100)
SLOWER = (1.05, 1.1, 1.25)

Times = NDArray[np.float64]


def verdicts(folder: Path, holds: str, pairs: Iterator[tuple[Times, Times]]) -> Counter[str]:
    """Count the verdicts on a claim over pairs of version and baseline."""
    file = folder / "scenario.claims.toml"
    file.write_text(f'[[claim]]\nid = "C"\ntext = "C"\nholds = "{holds}"\n', encoding="utf-8")
    claims = load_claims(file, read_study(folder / "scenario.toml"))
    counts: Counter[str] = Counter()
    for version, baseline in pairs:
        records = Records({"flows": flows(version)}, [])
        earlier = Records({"flows": flows(baseline)}, [], beside=records)
        counts[evaluate(claims, records, earlier)[0].verdict] += 1
    return counts


def flows(times: Times) -> pl.DataFrame:
    rows = {"set": 1, "role": "download", "replication": range(1, times.size + 1), "elapsed_s": times}
    return pl.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=500, help="pairs of versions per entry (default 500)")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
        results = lasthop.run(folder / "scenario.toml", out=folder / "out")
        times = results.flows["elapsed_s"].to_numpy()
        print_table(folder, times, pairs)


def print_table(folder: Path, times: Times, pairs: int) -> None:
    random = np.random.default_rng(1)

    def drawn(count: int, factor: float, *, same: bool) -> Iterator[tuple[Times, Times]]:
        for _ in range(pairs):
            baseline = random.choice(times, count)
            yield factor * (baseline if same else random.choice(times, count)), baseline

    def share(counts: Counter[str], verdict: str) -> str:
        return f"{100 * counts[verdict] / counts.total():.1f}"

    print("| statistic | replications | false alarms | wrongly upheld | 5 % | 10 % | 25 % | same seed: 5 % |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for statistic in STATISTICS:
        at_most = f"{statistic}(elapsed_s) <= {statistic}(elapsed_s, baseline)"
        faster = f"{statistic}(elapsed_s) < {statistic}(elapsed_s, baseline)"
        for count in COUNTS:
            row = [
                share(verdicts(folder, at_most, drawn(count, 1.0, same=False)), "not upheld"),
                share(verdicts(folder, faster, drawn(count, 1.0, same=False)), "upheld"),
                *(
                    share(verdicts(folder, at_most, drawn(count, own, same=False)), "not upheld")
                    for own in SLOWER
                ),
                share(verdicts(folder, at_most, drawn(count, SLOWER[0], same=True)), "not upheld"),
            ]
            print(f"| {statistic} | {count} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
