"""Transfers by real programs, in a guest kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import lasthop.stacks
from lasthop.common.errors import InputError
from lasthop.stacks.adapter import adapter_of, names

Main = Callable[..., int]
TCP = Path(lasthop.stacks.__file__).parent / "tcp.py"
LINK = """
[down]
queue.limit = "50 packets"
link = { rate = "10 Mbit/s", delay = "5 ms", loss = 0.01 }
"""
TRANSFERS = f"""
[[flow]]
kind = "transfer"
name = "mine"
stack = "own"
objects = ["100 kB", "1 B"]

[[flow]]
kind = "transfer"
name = "other"
stack = "tcp"
bytes = "50 kB"
start = "200 ms"
tcp.congestion_control = "reno"

[stack.own]
endpoint = "exec {sys.executable} -I {TCP}"
"""
CLAIMS = """
[[claim]]
id = "in-time"
text = "the second takes less than half a second"
holds = "fraction(elapsed_s(flow=other) < 0.5) >= 1"

[[claim]]
id = "own-time"
text = "so it does by its client's clock"
holds = "fraction(printed_other_program_s < 0.5) >= 1"
"""


def test_transfers_run_side_by_side_and_agree_in_each_execution(lasthop_main: Main) -> None:
    Path("own.toml").write_text(LINK + TRANSFERS + CLAIMS, encoding="utf-8")
    once = ("check", "own.toml", "--engine", "kernel", "--replications", 2, "--quiet")
    tables = []
    for out in ("first", "again"):
        assert lasthop_main(*once, "--out", out) == 0
        tables.append([pl.read_parquet(Path(out, f"{table}.parquet")) for table in ("flows", "runs")])
    (flows, runs), (again, _) = tables
    assert flows.equals(again)
    # The second file of the first transfer has its own connection.
    assert flows["flow"].to_list() == ["mine", "mine-2", "other"] * 2
    assert runs["exit_code"].to_list() == [0, 0]
    assert runs["printed_mine_matches"].to_list() == [1, 1]
    assert runs["printed_mine_received_bytes"].to_list() == [100_001, 100_001]
    starts = flows.filter(pl.col("flow") == "other")["start_s"]
    assert starts.is_between(0.2, 0.22).all()
    assert Path("first/stacks/cell/replication-2/mine/server/qlog").is_dir()


def test_two_versions_of_a_stack_are_compared_and_only_the_changed_one_runs_again(lasthop_main: Main) -> None:
    versions = f"""
[[flow]]
kind = "transfer"
name = "mine"
stack = "mine"
bytes = "200 kB"

[stack.mine]
endpoint = "exec {sys.executable} -I new.py"

[factor.version]
new = {{}}
old.stack.mine.endpoint = "exec {sys.executable} -I old.py"

[[claim]]
id = "no-slower"
text = "the new version is not slower"
holds = "elapsed_s(version=new) <= 1.1 * elapsed_s(version=old)"
"""
    Path("own.toml").write_text(LINK + versions, encoding="utf-8")
    program = TCP.read_text(encoding="utf-8")
    sending = "connection.sendfile(file)"
    late = f"__import__('time').sleep(0.1)\n{' ' * 20}{sending}"
    Path("old.py").write_text(program, encoding="utf-8")
    walls = {}
    for text, code in ((program, 0), (program.replace(sending, late), 4)):
        Path("new.py").write_text(text, encoding="utf-8")
        assert lasthop_main("check", "own.toml", "--engine", "kernel", "--replications", 3, "--quiet") == code
        runs = pl.read_parquet("results/own/runs.parquet").sort("replication")
        walls[code] = {name: runs.filter(version=name)["wall_s"].to_list() for name in ("old", "new")}
    assert walls[0]["old"] == walls[4]["old"]
    assert set(walls[0]["new"]).isdisjoint(walls[4]["new"])


def test_each_transfer_has_its_own_host(lasthop_main: Main) -> None:
    hop = '[hop.dsl]\ndown.link = { rate = "10 Mbit/s", delay = "5 ms" }\n'
    hosts = hop + "".join(f'[host.{name}]\nbehind = "dsl"\n' for name in ("tv", "pc"))
    flows = TRANSFERS.replace('name = "mine"', 'name = "mine"\nhost = "tv"')
    flows = flows.replace('name = "other"', 'name = "other"\nhost = "pc"\ndirection = "up"')
    Path("home.toml").write_text(hosts + flows, encoding="utf-8")
    assert lasthop_main("run", "home.toml", "--engine", "kernel", "--out", "home", "--quiet") == 0
    found = pl.read_parquet("home/flows.parquet")
    assert dict(zip(found["flow"], found["host"], strict=True)) == {
        "mine": "tv",
        "mine-2": "tv",
        "other": "pc",
    }
    assert dict(found["flow", "direction"].filter(pl.col("flow") != "mine-2").rows()) == {
        "mine": "down",
        "other": "up",
    }
    assert pl.read_parquet("home/runs.parquet")["printed_other_matches"].to_list() == [1]


def test_computing_takes_time_on_request(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    for number, cost in enumerate(("", "cpu_cost = 0.1\n")):
        Path("own.toml").write_text(LINK + TRANSFERS.replace("tcp.c", f"{cost}tcp.c"), encoding="utf-8")
        # 3: the emulator computes, too, and on a busy machine it is late.
        assert lasthop_main("run", "own.toml", "--engine", "kernel", "--out", str(number)) in (0, 3)
        said = "computation takes time in these runs (cpu_cost)" in capsys.readouterr().out
        assert said is bool(cost)
    # The cost applies to all programs.
    free, costly = (pl.read_parquet(f"{number}/runs.parquet") for number in range(2))
    for name in ("mine", "other"):
        column = f"printed_{name}_program_s"
        assert costly[column][0] > free[column][0] + 0.01


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (('stack = "own"', 'stack = "own"\ntestcase = "http3"'), "exit code 127"),
        (("endpoint =", "client ="), "[stack.own] has no `server`"),
        (('stack = "own"', 'stack = "quicgo"'), "did you mean quic-go?"),
        (("-I ", "-I /nowhere"), "before it accepted connections"),
        (('name = "', 'cpu_cost = "much"\nname = "'), 'found the string "much"; write a number'),
        (
            ("]\n\n[[flow]]", "]\ncpu_cost = 1\n[[flow]]\ncpu_cost = 2"),
            "`flow[1].cpu_cost`: another transfer has a different one",
        ),
    ],
)
def test_what_cannot_run_is_named(
    change: tuple[str, str], reason: str, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.toml").write_text(LINK + TRANSFERS.replace(*change), encoding="utf-8")
    assert lasthop_main("run", "own.toml", "--engine", "kernel") == 2
    assert reason in capsys.readouterr().err


def test_the_model_names_the_engine_that_runs_programs(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.toml").write_text(LINK + TRANSFERS, encoding="utf-8")
    assert lasthop_main("run", "own.toml") == 2
    assert '`flow[0].stack`: "own"' in (text := capsys.readouterr().err)
    assert "--engine kernel" in text


def test_adapters_are_whole(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    for name in names():
        own = adapter_of(name)
        assert own.title
        assert own.license
        assert own.install
        assert lasthop_main("stack", "show", name) == 0
    assert lasthop_main("stack", "list") == 0
    out = capsys.readouterr().out
    assert all(f"{adapter_of(name).title} {adapter_of(name).version} (" in out for name in names())


def test_a_users_adapter_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('title = "Mine"\nclient = "./c"\nserver = "./s"\n', encoding="utf-8")
    own = adapter_of(str(file))
    assert (own.name, own.is_installed, own.client) == ("mine", True, "./c")
    for text, reason in [
        ('title = "Mine"\nclient = "./c"\n', "`server` is missing"),
        ('titel = "Mine"\n', "did you mean `title`?"),
        ('title = ["Mine"]\n', "must be of type str"),
    ]:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError) as error:
            adapter_of(str(file))
        assert reason in str(error.value)


@pytest.mark.long(by_hand="fetches packages from PyPI, Go's proxy and Debian")
@pytest.mark.parametrize("name", names())
def test_stacks_of_the_catalogue_work(name: str, lasthop_main: Main) -> None:
    assert lasthop_main("stack", "try", name, "--install") == 0


@pytest.mark.parametrize("engine", ["kernel", "live"])
def test_a_nat_changes_the_port_that_the_server_sees(lasthop_main: Main, engine: str) -> None:
    scenario = f"""
down.link = {{ rate = "10 Mbit/s", delay = "5 ms" }}

[[flow]]
kind = "transfer"
name = "mine"
stack = "mine"
bytes = "1 B"
rebind = {{ at = "1.05 s", every = "1 s" }}

[stack.mine]
endpoint = "exec {sys.executable} -I {Path(__file__).with_name("port_stack.py")}"
"""
    Path("own.toml").write_text(scenario, encoding="utf-8")
    lasthop_main("run", "own.toml", "--engine", engine, "--out", "out", "--quiet")
    logs = Path("out/stacks/cell/replication-1/mine")
    ports, answers = ((logs / name).read_text("utf-8").split() for name in ("server/ports", "client/answers"))
    assert list(dict.fromkeys(ports))[1:] == ["1024", "1025"]
    flows = pl.read_parquet("out/flows.parquet")
    assert flows["flow"].to_list() == ["mine"]
    lost = set(range(15)) - {int(number) for number in answers}
    assert flows["data_drops_error"].to_list() == [len(lost)]
    if engine == "live":  # a busy machine starts the client late
        return
    assert ports == [ports[0]] * 6 + ["1024"] * 5 + ["1025"] * 4
    # The answers to numbers 5 and 10 were on the way to a port that the NAT then gave up.
    assert lost == {5, 10}
