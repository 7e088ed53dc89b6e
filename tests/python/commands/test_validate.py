"""`lasthop validate`: what would run, what is assumed, and everything that is wrong; `run` refuses the
same.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import ROOT

Main = Callable[..., int]

FIRST = ROOT / "examples" / "first.toml"
WRONG = """sed = 3
[down.link]
rate = "1 Mbps"
delay = "50 ms"
[[flow]]
kind = "bulk-tcp"
bytes = "0 B"
"""


def test_the_shortest_file_is_whole_and_shows_what_is_assumed(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        line for line in FIRST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    assert len(lines) == 6
    assert lasthop_main("validate", FIRST) == 0
    out = capsys.readouterr().out
    assert "first, 1 cell x 1 replication = 1 run on the model engine" in out
    for assumed in (
        "seed = 1",
        "tcp.profile = linux-6",
        "down.queue.limit = 10 packets",
        "time_limit = 142 s",
    ):
        assert assumed in out


def test_the_manifest_says_what_was_assumed(lasthop_main: Main) -> None:
    assert lasthop_main("run", FIRST, "--quiet") == 0
    manifest = json.loads(Path("results/first/manifest.json").read_text(encoding="utf-8"))
    assumed = {each["key"]: each for each in manifest["assumed"]}
    assert assumed["down.queue.limit"]["value"] == "10 packets"
    assert "1 Mbit/s x 100 ms" in assumed["down.queue.limit"]["why"]
    assert assumed["replications"]["cells"] == 1


def test_every_study_and_example_is_valid_and_all_wrong_ones_are_told(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = sorted((ROOT / "examples").glob("*.toml"))
    # The model has no MPTCP.
    (multipath,) = (file for file in examples if file.stem == "multipath")
    examples.remove(multipath)
    assert lasthop_main("validate", "kulve2003", "atmf1998", *examples) == 0
    assert "kulve2003, 48 cells x 20 replications = 960 runs" in capsys.readouterr().out
    assert lasthop_main("validate", "--engine", "kernel", multipath) == 0
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(WRONG, encoding="utf-8")
    assert lasthop_main("validate", wrong, FIRST, "kulve2004") == 2
    captured = capsys.readouterr()
    assert "first, 1 cell" in captured.out
    errors = captured.err.splitlines()
    assert [error.startswith("Error: ") for error in errors] == [True] * 4
    for error, part in zip(
        errors, [":1: unknown key `sed`", ":3: ", ":7: `flow[0].bytes`", "'kulve2003'"], strict=True
    ):
        assert part in error


@pytest.mark.parametrize(
    "refused",
    [
        ("model", 'tcp.profile = "linux-2.4"\ntcp.congestion_control = "bbr"\n', "`tcp.congestion_control`"),
        ("live", 'router.implementation = "linux"\n', "runs on the kernel engine only"),
        ("live", 'tcp.profile = "ns-1998"\n', 'no switch for recovery = "reno" and clocks of "100 ms"'),
    ],
)
def test_it_refuses_what_run_refuses(
    refused: tuple[str, str, str], lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, text, reason = refused
    file = tmp_path / "refused.toml"
    levels = "[factor.a.x]\n[factor.a.y]\n"
    file.write_text(text + FIRST.read_text(encoding="utf-8") + levels, encoding="utf-8")
    assert lasthop_main("validate", "--engine", engine, file) == 2
    told = capsys.readouterr().err
    assert reason in told
    assert "(in all 2 cells)" in told
    assert lasthop_main("run", "--engine", engine, file) == 2
    assert capsys.readouterr().err == told
    assert not Path("results").exists()


def test_a_flow_without_a_packet_is_noted_and_its_run_ends_well(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "late.toml"
    file.write_text(
        'time_limit = "1 s"\n' + FIRST.read_text(encoding="utf-8") + 'start = "2 s"\n', encoding="utf-8"
    )
    assert lasthop_main("validate", file) == 0
    assert "bulk-tcp sends nothing" in capsys.readouterr().out
    assert lasthop_main("run", file) == 0
    assert "Note: " in capsys.readouterr().out


def test_run_points_to_studies_and_to_the_nearest_file(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text(FIRST.read_text(encoding="utf-8"), encoding="utf-8")
    for name, remedy in [
        ("kulve2003", "run it with 'lasthop study run kulve2003'"),
        ("kulve2004", "did you mean the study: 'lasthop study run kulve2003'"),
        (tmp_path / "mime.toml", f"did you mean {tmp_path / 'mine.toml'}?"),
    ]:
        assert lasthop_main("run", name) == 2
        assert remedy in capsys.readouterr().err


@pytest.mark.parametrize(
    "damaged",
    [
        ("published.csv", "T7", b"T\xff", ":2: this line contains a byte that is not UTF-8"),
        ("published.csv", "55.4", b"nine", ":2: `value`: 'nine' is not a number"),
        ("published.csv", "table,", b"", ":1: the column 'table' is missing"),
        ("published.csv", ",s,", b",s,,", ":2: the row has "),
        ("tables.csv", "table,", b"tafel,", ":1: the column 'table' is missing"),
        ("report.toml", "[", b"\xe4[", ": this line contains a byte that is not UTF-8"),
        ("claims.toml", "[[claim]]", b"\xe4", ": this line contains a byte that is not UTF-8"),
        ("statements.csv", "id,", b"id,\xe4", ":1: this line contains a byte that is not UTF-8"),
    ],
)
def test_a_damaged_file_of_a_study_is_told_with_its_line(
    damaged: tuple[str, str, bytes, str],
    lasthop_main: Main,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, before, after, said = damaged
    study = tmp_path / "study"
    shutil.copytree(ROOT / "studies" / "kulve2003", study)
    file = study / name
    whole = file.read_bytes()
    file.write_bytes(whole.replace(before.encode(), after, 1))
    assert file.read_bytes() != whole
    assert lasthop_main("validate", study / "study.toml") == 2
    assert said in capsys.readouterr().err.removeprefix(f"Error: {file}")


def test_an_old_tcp_is_told_wherever_a_scenario_is_shown(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = "the TCP is linux-2.4, while today's is linux-6 (tcp.profile)"
    (tmp_path / "geo.toml").write_text('extends = "geo"\n', encoding="utf-8")
    (tmp_path / "both.toml").write_text(
        'extends = "geo"\n[factor.tcp]\nold = {}\nnew.tcp.profile = "linux-6"\n', encoding="utf-8"
    )
    for command in ("validate", "run"):
        assert lasthop_main(command, tmp_path / "geo.toml") == 0
        assert old in capsys.readouterr().out
    assert lasthop_main("validate", tmp_path / "both.toml") == 0
    assert "linux-2.4 in 1 of 2 cells and linux-6 in 1 of 2 cells" in capsys.readouterr().out
    assert lasthop_main("validate", FIRST) == 0
    assert "linux-2" not in capsys.readouterr().out
    udp = FIRST.read_text(encoding="utf-8").partition("[[flow]]")[0]
    udp += '[tcp]\nprofile = "linux-2.4"\n[[flow]]\nkind = "voip"\nduration = "1 s"\n'
    (tmp_path / "udp.toml").write_text(udp, encoding="utf-8")
    assert lasthop_main("validate", tmp_path / "udp.toml") == 0
    assert "while today's" not in capsys.readouterr().out


def test_scenarios_with_tcp_and_quic_state_handshakes_and_initial_windows(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stacks.toml"
    text = FIRST.read_text(encoding="utf-8").partition("[[flow]]")[0]
    bulk = '[[flow]]\nkind = "bulk-tcp"\nbytes = "1 MB"\n'
    levels = "[factor.control.cubic]\n[factor.control.bbr]\n"
    quic = f'{bulk}name = "quic"\nstack = "quic"\n'
    bbr = 'flow.quic.quic.congestion_control = "bbr"\n'
    file.write_text(f"{text}{bulk}{quic}{levels}{bbr}", encoding="utf-8")
    assert lasthop_main("validate", file) == 0
    told = capsys.readouterr().out
    assert "TCP flows start with TCP's handshake and do not use TLS" in told
    assert "Initial windows: TCP 14.5 kB, QUIC 12.0 kB or 240.0 kB" in told
    file.write_text(f"{text}{quic}", encoding="utf-8")
    assert lasthop_main("validate", file) == 0
    assert "Initial windows" not in capsys.readouterr().out


def test_round_trips_products_and_queues_are_shown_in_time(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("validate", FIRST, ROOT / "examples" / "parking-lot.toml") == 0
    first, several = capsys.readouterr().out.split("parking-lot.toml: ")
    assert (
        "round trip 100.0 ms without queueing; x 1.00 Mbit/s down = 12.5 kB, full queue 120.0 ms; "
        "x 1.00 Mbit/s up = 12.5 kB, full queue 120.0 ms\n" in first
    )
    assert "long: 180.0 ms without queueing; x 10.0 Mbit/s down = 225.0 kB" in several
    assert "short-1, short-2 and short-3: 60.0 ms" in several


def test_claims_are_read_and_a_file_of_claims_stands_for_its_scenario(
    lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    claim = '[[claim]]\nid = "c"\ntext = "t"\nholds = "elapsed_s < 5"\n'
    Path("up.toml").write_text('extends = "gprs"\n', encoding="utf-8")
    Path("up.claims.toml").write_text(claim, encoding="utf-8")
    assert lasthop_main("validate", "up.claims.toml") == 0
    assert capsys.readouterr().out.startswith("up.toml: up, 1 cell x 1 replication")
    Path("up.claims.toml").write_text(claim.replace("< 5", "<"), encoding="utf-8")
    assert lasthop_main("validate", "up.claims.toml") == 2
    assert "Error: up.claims.toml:2: claim c: holds: " in capsys.readouterr().err
