"""What is tested as a factor: programs, kernels, and commits by `git bisect run`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from commands import ROOT
from lasthop.campaign.results.manifest import finished
from lasthop.engines.kernel.store import find_kernel
from long_tests import GUEST

Main = Callable[..., int]
EXAMPLES = ROOT / "examples" / "check"
PROGRAMS = """
extends = "lte"
replications = 2

[[flow]]
kind = "program"
name = "client"
command = ["true"]

[factor.build]
old.command = "sleep 0.2"
new.command = "sleep 0.3; exit 3"

[[claim]]
id = "no-slower"
text = "the new one is not slower"
holds = "p95(program_s, build=new) <= 1.1 * p95(program_s, build=old)"

[[claim]]
id = "ends-well"
text = "the old one ends well"
holds = "fraction(exit_code(build=old) == 0) >= 1"
"""


def test_the_command_lines_of_two_versions_are_levels_of_a_factor(lasthop_main: Main) -> None:
    Path("two.toml").write_text(PROGRAMS, encoding="utf-8")
    assert lasthop_main("check", "two.toml", "--engine", "kernel", "--json", "two.json", "--quiet") == 4
    verdicts = json.loads(Path("two.json").read_text(encoding="utf-8"))[0]["claims"]
    assert [claim["verdict"] for claim in verdicts] == ["not upheld", "upheld"]
    runs = pl.read_parquet("results/two/runs.parquet")
    assert runs.group_by("build").agg(pl.col("exit_code").max()).sort("build").rows() == [
        ("new", 3),
        ("old", 0),
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (('kind = "program"', 'kind = "bulk-tcp"\nbytes = "1 MB"'), "exactly one [[flow]] of kind"),
        (('old.command = "sleep 0.2"', "old.command = 3"), "write a string in quotation marks"),
    ],
)
def test_a_command_line_without_its_program_is_explained(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], change: tuple[str, str], reason: str
) -> None:
    text = PROGRAMS.replace('command = ["true"]\n', "").replace(*change)
    Path("two.toml").write_text(text, encoding="utf-8")
    assert lasthop_main("check", "two.toml", "--engine", "kernel") == 2
    assert reason in capsys.readouterr().err


def test_each_level_may_have_a_kernel_of_its_own(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    name = find_kernel(None).name
    text = (EXAMPLES / "kernel.toml").read_text(encoding="utf-8")
    Path("kernel.toml").write_text(text.replace('"6.12"', f'"{name}"'), encoding="utf-8")
    once = ("check", "kernel.toml", "--engine", "kernel", "--replications", 4, "--quiet")
    assert lasthop_main(*once) == 0
    flows = pl.read_parquet("results/kernel/flows.parquet").drop("build")
    assert flows[:4].equals(flows[4:]), "it is the same kernel twice"
    Path("kernel.toml").write_text(text.replace('"6.12"', '"none"'), encoding="utf-8")
    assert lasthop_main(*once) == 2
    assert "There is no kernel 'none'" in capsys.readouterr().err
    assert lasthop_main("check", "kernel.toml") == 2
    assert "the model engine has no kernel" in capsys.readouterr().err


def test_a_kernel_that_cannot_be_built_is_no_verdict(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "linux" / "arch" / "um").mkdir(parents=True)
    (tmp_path / "linux" / "Makefile").write_text("kernelversion:\n\tfalse\n", encoding="utf-8")
    options = ("--engine", "kernel", "--kernel", tmp_path / "linux", "--quiet")
    text = (EXAMPLES / "kernel.toml").read_text(encoding="utf-8")
    Path("kernel.toml").write_text(text.partition("[factor.build]")[0] + LIMIT, encoding="utf-8")
    assert lasthop_main("check", "kernel.toml", *options) == 125
    assert "make kernelversion failed" in capsys.readouterr().err


SLOWER = """
[[claim]]
id = "no-slower"
text = "a download takes at most 10 % longer than before"
holds = "elapsed_s <= 1.1 * elapsed_s(baseline)"
"""
LIMIT = '\n[[claim]]\nid = "limit"\ntext = "it ends"\nholds = "elapsed_s < 60"\n'


def _git(*words: str) -> str:
    own = {
        **{f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["git", *words], env={**os.environ, **own}, check=True, capture_output=True, text=True
    )
    return done.stdout


def _history(file: Path, change: tuple[str, str], at: int, notes: Path | None = None) -> str:
    """Commit a folder eight times, the file changed from commit `at` on; return that commit.

    Each commit adds a line to the file, or to `notes`.
    """
    notes = notes or file
    _git("init", "-q", ".")
    for number in range(1, 9):
        if number == at:
            file.write_text(file.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
        with notes.open("a", encoding="utf-8") as opened:
            opened.write(f"# {number}\n")
        _git("add", ".")
        _git("commit", "-qm", str(number))
    return _git("rev-parse", f"HEAD~{8 - at}").strip()


@pytest.mark.usefixtures("lasthop_main")
def test_git_finds_the_commit_that_made_a_control_worse() -> None:
    for name in ("control.toml", "mine.py"):
        shutil.copyfile(EXAMPLES / name, name)
    Path("control.toml").write_text(
        Path("control.toml").read_text(encoding="utf-8").replace("replications = 20", "replications = 4"),
        encoding="utf-8",
    )
    planted = _history(Path("mine.py"), ("0.7", "0.1"), at=6)
    _git("bisect", "start", "HEAD", "HEAD~7")
    found = _git("bisect", "run", "lasthop", "check", "control.toml", "--out", "../results", "--quiet")
    assert f"{planted} is the first bad commit" in found


@pytest.mark.long(covers=("python/lasthop/analysis/checks", *GUEST), seconds=45)
def test_git_finds_the_commit_that_doubled_a_retry_timer(lasthop_main: Main) -> None:
    for name in ("upload.toml", "client.py", "server.py"):
        shutil.copyfile(EXAMPLES / name, name)
    scenario = Path("upload.toml").read_text(encoding="utf-8")
    # 20 replications decide on a median, not on the 95 % quantile.
    for before, after in (("replications = 100", "replications = 20"), ("p95(", "median(")):
        scenario = scenario.replace(before, after)
    Path("upload.toml").write_text(scenario, encoding="utf-8")
    planted = _history(Path("client.py"), ("else 1.5", "else 3.0"), at=5)
    _git("checkout", "-q", "HEAD~7")
    assert lasthop_main("check", "upload.toml", "--engine", "kernel", "--out", "../good", "--quiet") == 5
    assert (
        lasthop_main("check", "baseline", "save", "upload", "--from", "../good", "--in", "../kept", "--quiet")
        == 0
    )
    _git("checkout", "-q", "-")
    _git("bisect", "start", "HEAD", "HEAD~7")
    options = ("--engine", "kernel", "--baseline", "../kept/upload", "--out", "../results", "--quiet")
    found = _git("bisect", "run", "lasthop", "check", "upload.toml", *options)
    assert f"{planted} is the first bad commit" in found


@pytest.mark.long(by_hand="fetches packages from PyPI")
def test_git_finds_the_commit_after_which_a_quic_client_asks_in_turn(
    lasthop_main: Main, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "quic"], check=True)
    own = tmp_path / "quic" / "bin"
    subprocess.run([own / "pip", "install", "--quiet", "aioquic==1.2.0"], check=True)
    for name in ("quic-client.toml", "quic_client.py", "quic_server.py"):
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        Path(name).write_text(text.replace("python3", str(own / "python3")), encoding="utf-8")
    change = "asyncio.gather(*(fetch(connection) for _ in range(PARTS)))", "in_turn(connection)"
    client = Path("quic_client.py")
    both = "async def in_turn(connection):\n    for _ in range(PARTS):\n        await fetch(connection)\n\n\n"
    text = client.read_text(encoding="utf-8")
    assert change[0] in text
    client.write_text(text.replace("async def download", f"{both}async def download"), encoding="utf-8")
    planted = _history(client, change, at=4)
    once = ("check", "quic-client.toml", "--engine", "kernel", "--replications", "10", "--quiet")
    _git("checkout", "-q", "HEAD~7")
    assert lasthop_main(*once, "--out", "../good") == 5  # nothing to compare with
    _git("checkout", "-q", "-")
    _git("bisect", "start", "HEAD", "HEAD~7")
    found = _git("bisect", "run", "lasthop", *once, "--baseline", "../good", "--out", "../results")
    assert f"{planted} is the first bad commit" in found


def test_kernels_with_code_of_a_users_own_are_no_default(
    lasthop_main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = find_kernel(None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("6.12", "6.12+tcp_cubic-12345678", "tree-123456789abc"):
        shutil.copytree(usual.folder, tmp_path / "cache" / "lasthop" / "kernels" / name)
    assert find_kernel(None).name == "6.12"
    text = (EXAMPLES / "kernel.toml").read_text(encoding="utf-8")
    Path("kernel.toml").write_text(text.partition("[factor.build]")[0] + LIMIT, encoding="utf-8")
    once = ("check", "kernel.toml", "--engine", "kernel", "--replications", 2)
    assert lasthop_main(*once) == 0
    assert capsys.readouterr().out.count(" --replications 2 --engine kernel\n") == 1
    assert lasthop_main(*once, "--kernel", "tree-123456789abc") == 0
    assert " --engine kernel --kernel tree-123456789abc\n" in capsys.readouterr().out
    with (tmp_path / "cache" / "lasthop" / "kernels" / "6.12" / "linux").open("ab") as program:
        program.write(b"another")
    assert lasthop_main(*once) == 0, "results of another kernel make way"
    assert finished(Path("results/kernel"))["identity"]["kernel"] == find_kernel(None).digest


@pytest.mark.long(by_hand="compiles kernels of its own")
def test_git_finds_the_commit_that_changed_the_beta_of_a_kernel_module(
    lasthop_main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = find_kernel(None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(usual.folder, tmp_path / "cache" / "lasthop" / "kernels" / usual.name)
    own = _source(usual.info.source.partition(" ")[0], tmp_path) / "net" / "ipv4" / "tcp_cubic.c"
    shutil.copyfile(own, "tcp_cubic.c")
    beta = "static int beta __read_mostly = "
    assert f"{beta}717;" in Path("tcp_cubic.c").read_text(encoding="utf-8")
    scenario = (EXAMPLES / "kernel.toml").read_text(encoding="utf-8").partition("[factor.build]")[0] + LIMIT
    scenario += SLOWER
    Path("kernel.toml").write_text(scenario, encoding="utf-8")
    planted = _history(Path("tcp_cubic.c"), (f"{beta}717;", f"{beta}300;"), at=3, notes=Path("notes.txt"))
    _git("checkout", "-q", "HEAD~7")
    once = ("check", "kernel.toml", "--module", "tcp_cubic.c", "--quiet")
    assert lasthop_main(*once, "--out", "../good") == 5  # nothing to compare with
    _git("checkout", "-q", "-")
    _git("bisect", "start", "HEAD", "HEAD~7")
    found = _git("bisect", "run", "lasthop", *once, "--baseline", "../good", "--out", "../results")
    assert f"{planted} is the first bad commit" in found
    names = sorted(folder.name for folder in (tmp_path / "cache" / "lasthop" / "kernels").iterdir())
    assert [name.partition("-")[0] for name in names] == ["6.12", "6.12+tcp_cubic", "6.12+tcp_cubic"]


def _source(package: str, folder: Path) -> Path:
    """Unpack the source package that the usual kernel was built from."""
    subprocess.run(["apt-get", "download", package], cwd=folder, check=True, capture_output=True)
    (archive,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, folder / "package"], check=True)
    (source,) = (folder / "package" / "usr" / "src").glob("linux-source-*.tar.xz")
    (folder / "source").mkdir()
    subprocess.run(["tar", "-xf", source, "-C", folder / "source", "--strip-components=1"], check=True)
    return folder / "source"
