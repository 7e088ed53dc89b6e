"""Refusals before a start: endless files, excessive counts, and runs that need too much."""

from __future__ import annotations

import json
import math
import os
import random
import re
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lasthop
from commands import ROOT
from forked import Forked
from lasthop import _core
from lasthop.campaign.limits import PACKETS_MAX, Limits, read_size, size
from lasthop.scenario.points import parse_study, read_study
from long_tests import ENGINE

Run = Callable[..., int]

LINK = """
[down.link]
rate = "1 Mbit/s"
delay = "50 ms"
"""
DOWNLOAD = f"""{LINK}
[[flow]]
kind = "bulk-tcp"
bytes = "100 kB"
"""
ENDLESS = """
time_limit = "1000000 s"
[down.link]
rate = "10 Gbit/s"
delay = "1 ms"
[[flow]]
kind = "bulk-tcp"
bytes = "1000000 GB"
"""
WIDE = """
time_limit = "1 s"
tcp.receive_window_max = 1000000
down.queue.limit = "1000000 packets"
[down.link]
rate = "100 Gbit/s"
delay = "50 s"
[[flow]]
kind = "bulk-tcp"
bytes = "1000000 GB"
count = 1000
"""


def written(folder: Path, text: str, name: str = "study.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "PIPE"],
        ["run", "PIPE"],
        ["run", "/dev/zero"],
        ["shell", "--link", "umts", "--down", "PIPE", "true"],
        ["run", "FILE", "--cluster", "slurm:PIPE", "--dry-run"],
        ["run", "FILE", "--cluster", "slurm:/dev/zero", "--dry-run"],
        ["analyze", "PIPE"],
        ["results", "factors", "PIPE", "--metric", "x", "--factors", "a,b"],
    ],
    ids=" ".join,
)
def test_a_pipe_or_a_device_is_no_file(words: list[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    names = {"PIPE": str(tmp_path / "pipe.toml"), "FILE": str(written(tmp_path, DOWNLOAD))}
    whole = [re.sub("PIPE|FILE", lambda place: names[place[0]], word) for word in words]
    with Forked("lasthop", *whole) as process:
        try:
            _, error = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 2
    assert "a pipe or a device" in error or "is a character device" in error, error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sets", "999999999999"], "999999999999 is not in the range 1<=x<=4294967295"),
        (["--sets", "999999999"], "are 999999999 runs, more than the limit of 10000000"),
        (["--replications", "99999999999999999999"], "not in the range 1<=x<=4294967295"),
        (["--replications", "4294967295", "--sets", "4294967295"], "runs, more than the limit of 10000000"),
    ],
)
def test_more_runs_than_anybody_waits_for_are_refused_by_their_number(
    words: list[str], message: str, lasthop_main: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "replications = 1\n" + DOWNLOAD)
    assert lasthop_main("run", file, *words) == 2
    assert message in capsys.readouterr().err


def test_python_refuses_counts_as_the_command_line_does(tmp_path: Path) -> None:
    scenario = lasthop.Scenario.parse(DOWNLOAD)
    with pytest.raises(
        lasthop.InputError, match="replications=99999999999999999999: give a number from 1 to"
    ):
        lasthop.run(scenario, replications=99999999999999999999, progress=False)
    with pytest.raises(lasthop.InputError, match=r"may send .* million packets"):
        lasthop.run(lasthop.Scenario.parse(ENDLESS), progress=False)
    with pytest.raises(lasthop.InputError, match="half of this machine's"):
        lasthop.run(lasthop.Scenario.parse(WIDE), anyway=True, progress=False)
    with pytest.raises(lasthop.InputError, match="more than your limit"):
        lasthop.run(scenario, limit_memory="1 kB", out=tmp_path / "out", progress=False)


def test_steps_that_are_too_many_are_refused_with_the_nearest_length(
    lasthop_main: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, 'time_limit = "60 s"\n' + DOWNLOAD)
    assert lasthop_main("export", file, "--step", "1us", "--out", "series.csv") == 2
    message = capsys.readouterr().err
    assert "with 1 us there may be 6e+07 steps up to the time limit, more than 10000000" in message
    assert "Use --step 10us, or lower time_limit" in message
    assert lasthop_main("export", file, "--step", "1us", "--out", "series.csv", "--over", "replications") == 2
    assert "with 1 us there may be 6e+07 steps" in capsys.readouterr().err
    assert lasthop_main("export", file, "--step", "10us", "--out", "series.csv") == 0


@pytest.mark.parametrize("command", ["run", "validate", "explain", "plot", "export", "crosscheck"])
def test_every_command_refuses_a_run_that_takes_too_much(
    command: str, lasthop_main: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = {"export": ["--out", "x.csv"], "crosscheck": ["--live", "--no-model"]}
    assert lasthop_main(command, written(tmp_path, ENDLESS, "endless.toml"), *out.get(command, [])) == 2
    message = capsys.readouterr().err
    assert "Error: endless: a run may send " in message, message
    assert "more than the limit of 1 000 million" in message


def test_validate_prints_the_estimate_and_what_exceeds_the_limits(
    lasthop_main: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("validate", written(tmp_path, DOWNLOAD)) == 0
    assert re.search(r"estimate +at most \d+ packets and \d+ kB of memory per run", capsys.readouterr().out)
    endless = written(tmp_path, ENDLESS)
    assert lasthop_main("validate", endless) == 2
    assert "run it with --anyway" in capsys.readouterr().err
    assert lasthop_main("validate", endless, "--anyway") == 0
    wide = written(tmp_path, WIDE)
    assert lasthop_main("validate", wide, "--anyway") == 2
    allows = re.search(r"or allow it with --limit-memory '([^']+)'", capsys.readouterr().err)
    assert allows is not None
    assert lasthop_main("validate", wide, "--anyway", "--limit-memory", allows[1]) == 0
    assert lasthop_main("validate", wide, "--limit-memory", "much") == 2
    assert "'much' is not a size. Give a number and a unit, such as '8 GB'" in capsys.readouterr().err


def test_a_chain_that_a_replication_needs_counts_as_a_whole(
    lasthop_main: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "replications = 4294967295\ntcp.cached_metrics = true\n" + DOWNLOAD)
    assert lasthop_main("explain", file, "--replication", "4000000000") == 2
    assert "a chain of 4000000000 runs may send" in capsys.readouterr().err


def test_bursts_that_never_get_on_are_refused(
    lasthop_main: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = 'on = { distribution = "uniform", min = "0 s", max = "1 ns" }\noff = "0 s"\nduration = "3600 s"\n'
    file = written(tmp_path, f'{LINK}[[flow]]\nkind = "on-off"\nrate = "100 kbit/s"\n{times}')
    assert lasthop_main("run", file) == 2
    assert "a run may send" in capsys.readouterr().err


def test_what_is_recorded_needs_memory_for_every_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lasthop.campaign.limits.machine_memory", lambda: 8e9)
    (cell,) = parse_study(DOWNLOAD.replace("100 kB", "10 GB")).cells
    Limits().check("x", [cell])
    with pytest.raises(
        lasthop.InputError, match=r"of memory, more than half of this machine's memory \(4 GB\)"
    ):
        Limits().check("x", [cell], recorded=True)


def test_sizes_are_read_as_they_are_written() -> None:
    assert read_size("8 GB") == 8e9
    assert read_size("1.5MiB") == 1.5 * 2**20
    assert [size(number) for number in (950, 1.2e6, 15.4e9)] == ["0.95 kB", "1.2 MB", "15 GB"]


def scenarios() -> Iterator[Path]:
    for pattern in ("examples/*.toml", "benches/scenarios/*.toml", "studies/*/*.toml"):
        files = sorted(ROOT.glob(pattern))
        yield from (
            file for file in files if file.name not in ("claims.toml", "readings.toml", "report.toml")
        )


@pytest.mark.long(covers=("studies", "examples", "benches", "python/lasthop/campaign", *ENGINE), seconds=20)
def test_nothing_that_the_project_runs_comes_near_the_bounds() -> None:
    for file in scenarios():
        for cell in read_study(file).cells:
            packets, memory = cell.estimate
            assert packets < PACKETS_MAX / 4, (file, cell.key, packets)
            assert memory < 3e9, (file, cell.key, memory)


# A number in a value, not in a name or key.
_NUMBER = re.compile(r"(?<![\w.\-])(\d+(?:\.\d+)?)")
_FIXED = re.compile(r"\s*(name|title|description|kind|seed|replications|extends|profile|trace|course)\b")
_FACTORS = [10**power for power in (-6, -4, -3, -2, -1, 1, 2, 3, 4, 6)]
# The model, which this test uses, does not support MPTCP.
_MUTATED = [
    file for file in scenarios() if file.parent.name in ("examples", "scenarios") and file.stem != "multipath"
]
_PACKETS, _MEMORY = 400_000, 300e6


def mutated(file: Path, chance: random.Random) -> str:
    """Return a scenario in which some numbers are far from their original values."""
    lines = file.read_text(encoding="utf-8").split("\n")
    places = [
        (index, number.start(1), number.end(1))
        for index, line in enumerate(lines)
        if not _FIXED.match(line) and "=" in line.split("#")[0]
        for number in _NUMBER.finditer(line.split("#")[0], line.index("="))
    ]
    for index, start, end in sorted(
        chance.sample(places, min(len(places), chance.randint(1, 4))), reverse=True
    ):
        value = float(lines[index][start:end]) * chance.choice(_FACTORS)
        text = str(round(value)) if value >= 1 else f"{value:.9f}".rstrip("0").rstrip(".")
        lines[index] = lines[index][:start] + text + lines[index][end:]
    return "\n".join(lines)


def ran(cell: _core.Cell, seed: int, memory: float) -> dict[str, float] | None:
    """Run a replication in a process with limited memory; return `None` if it dies."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            most = pages * os.sysconf("SC_PAGE_SIZE") + int(memory)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            runs = cell.run(seed, 1, 1).runs
            os.write(writing, json.dumps({"packets": runs["packets_sent"][0]}).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        content = answer.read()
    os.waitpid(child, 0)
    return json.loads(content) if content else None


@pytest.mark.long(covers=("python/lasthop/campaign", *ENGINE), seconds=5)
@settings(max_examples=200, deadline=None)
@given(st.sampled_from(_MUTATED), st.integers(0, 2**32))
def test_what_is_accepted_takes_no_more_than_was_estimated(file: Path, number: int) -> None:
    chance = random.Random(number)
    place = file.with_name(f".mutated-{os.getpid()}.toml")
    place.write_text(mutated(file, chance), encoding="utf-8")
    try:
        study = read_study(place)
    except (_core.ScenarioError, lasthop.InputError):
        return
    finally:
        place.unlink()
    cell = chance.choice(study.cells)
    packets, memory = cell.estimate
    assert math.isfinite(packets)
    assert math.isfinite(memory)
    if packets > _PACKETS or memory > _MEMORY:
        return
    # The base cost of any run.
    least = 64e6
    answer = ran(cell, study.seed, memory + least)
    assert answer is not None, (cell.key, packets, memory)
    assert answer["packets"] <= packets, (cell.key, packets)
