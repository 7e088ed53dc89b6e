"""`lasthop check` finds changes that make quic-go worse, and raises no alarm if nothing has changed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from commands import ROOT

Main = Callable[..., int]
SCENARIO = Path("docs/reference/stacks-regressions.toml")
MODULE = "github.com/quic-go/quic-go@v0.59.1"
BUILDS = Path("results/builds")
COMPARISONS = 30


class Change(NamedTuple):
    """A planted regression: an assignment in a file, its new value, and a claim that must fail."""

    file: str
    before: str
    value: str
    claim: str


CHANGES = {
    # Packets of the initial window.
    "window": Change("congestion/cubic_sender.go", "initialCongestionWindow    = 32", "10", "alone"),
    # The receiver acknowledges every 20th packet.
    "acks": Change("ackhandler/received_packet_tracker.go", "packetsBeforeAck = 2", "20", "losses"),
    # Milliseconds before it acknowledges a lone packet; its peer waits as long for a probe (RFC 9002, 6.2.1).
    "timer": Change("protocol/params.go", "const MaxAckDelay = 25", "250", "gap"),
    # The share of the window that is left after a loss.
    "reduction": Change("congestion/cubic_sender.go", "renoBeta                   = 0.7", "0.95", "queue"),
}

pytestmark = pytest.mark.long(by_hand="fetches quic-go from Go's proxy; all comparisons take half an hour")


def build(source: Path, change: Change | None, out: Path) -> None:
    """Build client and server with a change."""
    copy = out.with_name(f"{out.name}-source")
    shutil.copytree(source, copy)
    subprocess.run(["chmod", "-R", "u+w", copy], check=True)
    if change is not None:
        file = copy / "internal" / change.file
        text = file.read_text(encoding="utf-8")
        assert text.count(change.before) == 1
        changed = change.before.rpartition(" ")[0] + f" {change.value}"
        file.write_text(text.replace(change.before, changed), encoding="utf-8")
    go = ["go", "build", "-trimpath", "-o", f"{out}/", "./interop/client", "./interop/server"]
    subprocess.run(go, cwd=copy, check=True)


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a build of each version."""
    download = ["go", "mod", "download", "-json", MODULE]
    told = subprocess.run(download, check=True, capture_output=True, cwd="/")
    source = Path(json.loads(told.stdout)["Dir"])
    folder = tmp_path_factory.mktemp("builds")
    for name in ("old", *CHANGES):
        build(source, CHANGES.get(name), folder / name)
    return folder


def check(main: Main, file: Path, json_file: Path, *words: object) -> tuple[int, dict[str, str]]:
    """Check a file; return the exit code and the verdicts by claim."""
    json_file.parent.mkdir(parents=True, exist_ok=True)
    code = main("check", file, "--engine", "kernel", "--json", json_file, "--quiet", *words)
    (told,) = json.loads(json_file.read_text(encoding="utf-8"))
    return code, {claim["id"]: claim["verdict"] for claim in told["claims"]}


def prepare(builds: Path, new: str) -> None:
    """Put the scenario and two versions where the scenario looks for them."""
    SCENARIO.parent.mkdir(parents=True)
    shutil.copy(ROOT / SCENARIO, SCENARIO)
    shutil.copytree(builds / "old", BUILDS / "old")
    shutil.copytree(builds / new, BUILDS / "new")


@pytest.mark.parametrize("change", CHANGES)
def test_a_planted_regression_is_found_within_ten_replications(
    change: str, builds: Path, lasthop_main: Main
) -> None:
    prepare(builds, change)
    code, verdicts = check(lasthop_main, SCENARIO, Path("verdicts/paired.json"), "--out", "results/new")
    assert code == 4
    assert verdicts[CHANGES[change].claim] == "not upheld"


def test_thirty_comparisons_of_a_version_with_itself_raise_no_alarm(builds: Path, lasthop_main: Main) -> None:
    prepare(builds, "old")
    # The same claims, about a baseline from other seeds in place of the old version.
    claims = "[[claim]]" + SCENARIO.read_text(encoding="utf-8").partition("[[claim]]")[2]
    about_baseline = claims.replace("(version=old", "(baseline, version=old")
    head = f'extends = "{SCENARIO}"\nname = "{SCENARIO.stem}"\n'
    Path("baseline.toml").write_text(head + about_baseline, encoding="utf-8")
    for seed in range(1, COMPARISONS + 1):
        runs = ("--seed", seed, "--out", f"results/{seed}")
        code, verdicts = check(lasthop_main, SCENARIO, Path(f"verdicts/{seed}-paired.json"), *runs)
        # Virtual time: the same version and the same seed give the same packets.
        assert (code, set(verdicts.values())) == (0, {"upheld"})
    for seed in range(1, COMPARISONS + 1):
        baseline = f"results/{seed % COMPARISONS + 1}"
        runs = ("--seed", seed, "--out", f"results/{seed}")
        json_file = Path(f"verdicts/{seed}-baseline.json")
        _, verdicts = check(lasthop_main, Path("baseline.toml"), json_file, *runs, "--baseline", baseline)
        assert "not upheld" not in verdicts.values()
