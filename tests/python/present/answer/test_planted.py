"""How often findings are false or missing: planted effects in the noise of a hundred random scenarios.

`pytest -m long -s tests/python/present/answer/test_planted.py` prints the numbers of
docs/validation/statistics.md.
"""

from __future__ import annotations

import random

import click
import polars as pl
import pytest
from scipy import stats

from lasthop.campaign.results.sections import Compared, Section
from lasthop.commands.cli import main
from lasthop.present.answer.differences import differences
from lasthop.present.answer.words import sentences
from long_tests import ENGINE

SCENARIOS, FACTORS, REPLICATIONS = 100, (1.0, 1.1, 2.0, 20.0), (2, 3, 5, 10, 20)
MOST_LEVELS = 7


def scenario(draw: random.Random) -> str:
    """Draw a last hop that loses or delays packets at random, and a flow."""
    rate, delay = round(10 ** draw.uniform(5.7, 7.3)), round(10 ** draw.uniform(0.5, 2.2), 1)
    noise = draw.choice(
        [
            f'loss = "{draw.uniform(0.1, 5):.2f} %"',
            f'gilbert_elliott = {{ p = "{draw.uniform(0.02, 1):.3f} %", r = "25 %" }}',
            f'jitter = {{ distribution = "uniform", min = "0 ms", max = "{delay / 2 + 1:.1f} ms" }}',
        ]
    )
    flow = draw.choice(
        [
            f'kind = "bulk-tcp", bytes = "{round(10 ** draw.uniform(4.3, 6.3))} B"',
            'kind = "bulk-tcp", duration = "5 s"',
            'kind = "request-response", requests = 10, think = "50 ms", '
            'response = { distribution = "exponential", mean = "20 kB", min = "1 B" }',
        ]
    )
    control = draw.choice(["cubic", "reno", "bbr"])
    return (
        f'down.link = {{ rate = "{rate} bit/s", delay = "{delay} ms", {noise} }}\n'
        f'down.queue.limit = "{draw.choice([10, 30, 100])} packets"\n'
        f'tcp.congestion_control = "{control}"\n'
        f'flow = [{{ name = "flow", {flow}, '
        'start = { distribution = "uniform", min = "0 s", max = "1 s" } }]\n'
    )


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, list[float]]]:
    """Return a metric of each random scenario, and its values in many replications."""
    folder = tmp_path_factory.mktemp("planted")
    draw = random.Random(66)
    levels = "".join(f"[factor.scenario.s{number}]\n{scenario(draw)}" for number in range(SCENARIOS))
    (folder / "random.toml").write_text(f'time_limit = "60 s"\n{levels}', encoding="utf-8")
    count = MOST_LEVELS * REPLICATIONS[-1]
    arguments = [str(folder / "random.toml"), "--replications", str(count), "--out", str(folder / "out")]
    assert main(["run", *arguments, "--quiet"]) == 0
    found = []
    for flows in pl.read_parquet(folder / "out" / "flows.parquet").partition_by(
        "scenario", maintain_order=True
    ):
        having = [
            metric
            for metric in ("completion_p50_s", "elapsed_s", "throughput_Bps")
            if flows[metric].null_count() == 0 and flows[metric].n_unique() > 1
        ]
        if having:  # without noise there is nothing to test
            found.append((having[0], flows[having[0]].to_list()))
    return found


def planted(
    metric: str, values: list[float], factor: float, replications: int, draw: random.Random
) -> tuple[Section, set[str]]:
    """Return a section whose levels differ by a factor at most, and the names of those that differ.

    Each level has replications of its own, so pairs share no conditions, which makes it harder than a
    campaign. Numbers rise step by step; of levels with names, one differs.
    """
    count = draw.randint(2, MOST_LEVELS)
    numbers = draw.random() < 0.5
    names = [str(number) for number in range(count)] if numbers else [f"level-{c}" for c in "abcdefg"[:count]]
    one, dealt = draw.randrange(1, count), draw.sample(values, count * replications)
    steps = [place / (count - 1) if numbers else float(place == one) for place in range(count)]
    rows = pl.DataFrame(
        [
            {"f": name, "set": 1, "replication": number, "flow": "flow"}
            | {metric: dealt[place * replications + number] * factor**step}
            for place, (name, step) in enumerate(zip(names, steps, strict=True))
            for number in range(replications)
        ]
    )
    section = Section("Flows", rows, {"f": "f"}, [metric], [Compared(metric, rows)])
    return section, {name for name, step in zip(names, steps, strict=True) if step and factor != 1}


@pytest.mark.long(
    covers=(
        "python/lasthop/present/answer",
        "python/lasthop/analysis/statistics",
        "python/lasthop/common/statistics",
        *ENGINE,
    ),
    seconds=35,
)
def test_false_and_missed_findings_on_random_scenarios(noise: list[tuple[str, list[float]]]) -> None:
    draw = random.Random(1)
    click.echo(f"\n{len(noise)} scenarios\n\n| factor | replications | found | undecided | missed | false |")
    click.echo("| --- | --- | --- | --- | --- | --- |")
    counts = {}
    for factor in FACTORS:
        for replications in REPLICATIONS:
            found = undecided = false = 0
            for metric, values in noise:
                section, differ = planted(metric, values, factor, replications, draw)
                told = differences([section])
                sure = {one.level for one in told if one.significant}
                trend = any(one.trend_is_significant for one in told)
                false += bool(sure - differ) or (trend and not differ)
                found += bool(sure & differ) or (trend and bool(differ))
                undecided += not sure and not trend and "may differ" in " ".join(sentences(told))
            missed = len(noise) - found - undecided if factor != 1 else 0
            counts[factor, replications] = (found, undecided, missed, false)
            click.echo(f"| {factor:g} | {replications} | {found} | {undecided} | {missed} | {false} |")
    allowed = stats.binom.ppf(0.999, len(noise), 0.05)
    assert max(false for *_, false in counts.values()) <= allowed
    for (factor, replications), (found, _, missed, _) in counts.items():
        if factor == FACTORS[-1]:
            assert missed <= 2
            assert replications < 5 or found >= len(noise) - 2
