"""`lasthop shell`: replications of real programs behind the last hop, as a normal results folder."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from forked import Forked
from lasthop import _core
from lasthop.campaign.results.store import STORE, Store
from lasthop.common.errors import InputError
from lasthop.engines.programs import printed_numbers
from test_live import wait_until

Main = Callable[..., int]

LINK = """
time_limit = "20 s"
down.link = { rate = "4 Mbit/s", delay = "20 ms" }

[[flow]]
kind = "bulk-tcp"
bytes = "1 kB"

[factor.rate.slow]
down.link.rate = "2 Mbit/s"

[factor.rate.fast]
"""
TWICE = ("shell", "--repeated", "--engine", "live", "--only", "rate=fast", "--replications", 2)
BYTES = 100_000
GET = """
import sys, time, urllib.error, urllib.request
start = time.monotonic()
while True:
    try:
        body = urllib.request.urlopen("http://server/" + sys.argv[1]).read()
        break
    except urllib.error.HTTPError:
        sys.exit(22)
    except OSError:  # the server does not listen yet
        time.sleep(0.2)
print('{"bytes": %d, "took": {"all_s": %f}}' % (len(body), time.monotonic() - start))
"""
RECEIVE = """
import socket
connection, _ = socket.create_server(("", 9)).accept()
while connection.recv(10_000):
    pass
"""
SEND = """
import socket, time
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(50), ("server", 7))
while True:
    try:
        connection = socket.create_connection(("server", 9))
        break
    except OSError:  # the server does not listen yet
        time.sleep(0.1)
connection.sendall(bytes(60_000))
connection.close()
time.sleep(9)
"""

ORIGIN = """
import socket
listener = socket.create_server(("", 7))
while True:
    connection, _ = listener.accept()
    connection.sendall(bytes(30_000))
    connection.close()
"""
RELAY = """
import socket
listener = socket.create_server(("", 8))
client, _ = listener.accept()
while True:
    try:
        origin = socket.create_connection(("origin", 7))
        break
    except OSError:  # the origin does not listen yet
        pass
while data := origin.recv(10_000):
    client.sendall(data)
"""
THROUGH_THE_RELAY = """
import socket, sys, time
for name, port in (("relay", 8), ("origin", 7)):
    while True:
        try:
            connection = socket.create_connection((name, port))
            break
        except OSError:  # the server does not listen yet
            time.sleep(0.1)
    while connection.recv(10_000):
        pass
with open(sys.argv[1], "a") as kept:
    kept.write("fetched ")
"""
PROGRAM = '[[flow]]\nkind = "program"\nname = "p"\ncommand = ["true"]\n'


@pytest.fixture
def link(tmp_path: Path) -> Path:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "page").write_bytes(bytes(BYTES))
    file = tmp_path / "link.toml"
    file.write_text(LINK, encoding="utf-8")
    return file


def test_programs_over_the_levels_of_factors_are_results_as_all_others(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    repeat = [*TWICE, "--link", link, "--jobs", 2]
    repeat += ["--out", out, "--json"]
    repeat += ["--server", f"python3 -m http.server 80 -d {tmp_path / 'www'}"]
    (tmp_path / "get.py").write_text(GET, encoding="utf-8")
    get = f"python3 {tmp_path / 'get.py'}"
    repeat += ["--command", f"whole={get} page", "--command", f"missing={get} nothing"]
    assert lasthop_main(*repeat) in (0, 3)  # 3 on a machine too busy to be punctual
    output = capsys.readouterr().out
    assert "The program failed in 2 of 4 runs (exit code 22)." in output
    assert re.search(r"Programs: median of .*\n\n.*program time", output)

    runs = pl.read_parquet(out / "runs.parquet")
    assert runs["command"].to_list() == ["whole"] * 2 + ["missing"] * 2
    assert runs["program"].to_list() == runs["command"].to_list()
    assert runs["exit_code"].to_list() == [0, 0, 22, 22]
    whole = runs.filter(command="whole")
    # Connecting may need several tries; the last one takes two round trips and the transmission time.
    least_s = 2 * 0.04 + BYTES * 8 / 4e6
    assert (whole["printed_took_all_s"] > least_s).all()
    assert (whole["printed_bytes"] == BYTES).all()
    assert (whole["program_s"] >= whole["printed_took_all_s"]).all()
    assert (whole["wall_s"] > whole["program_s"]).all()

    flows = pl.read_parquet(out / "flows.parquet")
    pages = flows.filter(pl.col("sent_bytes") >= BYTES)
    assert pages.height == 2
    assert set(pages["application"]) == {"whole"}
    for row in pages.iter_rows(named=True):
        assert (row["protocol"], row["direction"], row["outcome"]) == ("tcp", "down", "closed")
        assert row["role"] == row["flow"]
        assert row["rtt_min_s"] >= 0.04
        assert row["one_way_delay_p50_s"] >= 0.02
        assert row["cwnd_max"] > 10
        assert row["elapsed_s"] < 2

    # No TCP of the scenario is compared with that of Linux, so the report has no part on engines.
    report = (out / "report.html").read_text(encoding="utf-8")
    assert 'id="engines"' not in report
    assert "<title>whole and missing behind link" in report
    rows = pl.read_csv(out / "summary.csv").filter(metric="printed_took_all_s", statistic="median")
    assert dict(rows.select("flow", "replications").iter_rows())["whole"] == 2

    # Nothing runs again; another command reads the folder; 'run' accepts the scenario.
    assert lasthop_main(*repeat) in (0, 3)
    assert "is complete: 4 runs" in capsys.readouterr().out
    assert lasthop_main("results", "show", out, "--metric", "program_s") == 0
    assert "whole" in capsys.readouterr().out
    assert lasthop_main("validate", f"{out}.toml", "--engine", "live") == 0
    assert lasthop_main("run", f"{out}.toml", "--out", tmp_path / "model") == 2
    assert "a real program needs real hosts" in capsys.readouterr().err


def test_only_an_edited_program_or_file_runs_again(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out, data, stored = tmp_path / "out", tmp_path / "data", tmp_path / "kept"
    data.mkdir()
    stored.mkdir()
    (data / "number").write_text("1", encoding="utf-8")
    edited, other = tmp_path / "edited.py", tmp_path / "other.py"
    # Their imports are not detected, except in the folder of --input.
    edited.write_text(f"print(open({str(data / 'number')!r}).read(), 1)", encoding="utf-8")
    other.write_text("print('other')", encoding="utf-8")
    repeat = [*TWICE, "--link", link, "--out", out]
    repeat += ["--input", data, "--write", stored]
    for file in (edited, other):
        repeat += [
            "--command",
            f"{file.stem}=python3 {file} >> {stored}/{file.stem}; cat {stored}/{file.stem} >/dev/null",
        ]

    def ran() -> tuple[int, int]:
        return tuple(
            len((stored / file.stem).read_text(encoding="utf-8").splitlines()) for file in (edited, other)
        )

    def repeated() -> str:
        assert lasthop_main(*repeat) in (0, 3)
        return capsys.readouterr().out

    repeated()
    assert ran() == (2, 2)
    assert "is complete: 4 runs" in repeated()
    before = pl.read_parquet(out / "runs.parquet")
    first = edited.read_text(encoding="utf-8")
    edited.write_text(first.replace("1)", "2)"), encoding="utf-8")
    output = repeated()
    assert (
        f"These files have changed since the results in {out}: {edited}. Runs that use them are run again."
        in output
    )
    assert "2 of 4 runs are stored" in output
    assert ran() == (4, 2)
    after = pl.read_parquet(out / "runs.parquet")
    assert after.filter(command="other").equals(before.filter(command="other"))
    assert not after.filter(command="edited").equals(before.filter(command="edited"))
    # Results are found by their content.
    edited.write_text(first, encoding="utf-8")
    output = repeated()
    assert "Resuming" in output
    assert "4 of 4 runs are stored" in output
    assert pl.read_parquet(out / "runs.parquet").equals(before)
    (data / "number").write_text("2", encoding="utf-8")
    assert f"{data}. Runs that use them are run again" in repeated()
    assert ran() == (6, 4)
    inputs = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["identity"]["inputs"]
    assert inputs[str(edited)] == hashlib.sha256(edited.read_bytes()).hexdigest()
    assert {str(other), str(data), shutil.which("python3"), "/bin/sh"} < inputs.keys()
    assert not any(path.startswith(str(stored)) for path in inputs)


def test_other_influences_on_results_are_reported(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    repeat = [
        "shell",
        "--repeated",
        "--engine",
        "live",
        "--link",
        link,
        "--only",
        "rate=fast",
        "--out",
        tmp_path / "out",
    ]
    command = [*repeat, "--server", f"python3 -m http.server $PORT -d {tmp_path / 'www'}", "--", "true"]
    assert lasthop_main(*command) in (0, 3)
    assert (
        "Note: these results are for the current true and python3. lasthop cannot detect changes in other "
        f"files that they read, the value of $PORT and the contents of {tmp_path / 'www'}: use --input "
        "('input' in a scenario), or run all again with --overwrite.\n"
    ) in capsys.readouterr().out
    assert lasthop_main(*repeat, "--input", link, "--", "true") in (0, 3)
    assert "lasthop cannot detect" not in capsys.readouterr().out


SAYS = r"""
echo out
echo start >&2
head -c 5000 /dev/zero | tr '\0' x >&2
printf '\n\033[1mno \303such page\n' >&2
exit 7
"""


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("engine", ["live", "kernel"])
def test_a_program_that_fails_has_its_own_words_and_may_give_an_exit_code(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    out = tmp_path / "out"
    repeat = ["shell", "--repeated", "--engine", engine, "--link", link, "--replications", 2, "--out", out]
    repeat += ["--server", "echo of the server; echo of the server >&2"]
    command = [*repeat, "--", "sh", "-c", SAYS]
    assert lasthop_main(*command) in (0, 3)
    output = capsys.readouterr().out
    assert (
        "The program failed in 4 of 4 runs (exit code 7). The end of its standard error in the first of them"
        in output
    )
    assert "in the first of them, rate=slow, replication 1:\n  xxx" in output
    assert "\n  no \N{REPLACEMENT CHARACTER}such page\n" in output
    assert output.count("such page") == 1
    query = re.search(r"^To list them all: lasthop (results query .*)", output, re.MULTILINE)
    assert query is not None
    assert lasthop_main(*shlex.split(query[1])) == 0
    assert capsys.readouterr().out.count("such page") == 4
    for own in pl.read_parquet(out / "runs.parquet")["stderr_end"]:
        assert own.endswith("x\n\033[1mno \N{REPLACEMENT CHARACTER}such page")
        assert len(own) == 4095
    assert lasthop_main(*command[:-4], "--fail", *command[-4:]) in (3, 4)
    assert lasthop_main(*command[:-4], "--fail", "--quiet", *command[-4:]) in (3, 4)
    message = capsys.readouterr().err
    assert "INVALID" in message or "The program failed in 4 of 4 runs" in message
    assert lasthop_main(*repeat, "--fail", "--", "sh", "-c", "echo well >&2") in (0, 3)
    assert pl.read_parquet(out / "runs.parquet")["stderr_end"].to_list() == ["well"] * 4


def test_a_server_that_is_slow_to_start_is_waited_for(link: Path, tmp_path: Path, lasthop_main: Main) -> None:
    out = tmp_path / "out"
    server = f"sleep 1; exec python3 -m http.server 80 -d {tmp_path / 'www'}"
    get = "import urllib.request; urllib.request.urlopen('http://server/page').read()"
    command = [*TWICE, "--link", link, "--out", out, "--quiet", "--jobs", 2, "--server", server]
    assert lasthop_main(*command, "--", "python3", "-c", get) in (0, 3)
    runs = pl.read_parquet(out / "runs.parquet")
    assert runs["exit_code"].to_list() == [0, 0]
    assert (runs["packets_sent"] > 0).all()


def test_packets_of_a_refused_connection_were_sent(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    get = "import socket; socket.create_connection(('10.0.0.1', 80))"
    assert lasthop_main(*TWICE, "--link", link, "--out", out, "--", "python3", "-c", get) in (0, 3)
    assert "No packet was sent" not in capsys.readouterr().out
    runs = pl.read_parquet(out / "runs.parquet")
    assert runs.select("exit_code", "packets_sent", "packets_delivered").rows() == [(1, 2, 2)] * 2


def test_a_server_that_fails_ends_the_runs_with_its_words(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    fails = "echo no such page >&2; exit 3"
    assert lasthop_main(*TWICE, "--link", link, "--out", out, "--server", fails, "--", "true") == 2
    message = "the command of server ended with exit code 3 before it accepted connections: no such page"
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("kernel")
def test_a_server_that_never_listens_is_an_error(link: Path, tmp_path: Path, lasthop_main: Main) -> None:
    out = tmp_path / "out"
    command = ["shell", "--repeated", "--link", link, "--only", "rate=fast", "--out", out, "--quiet"]
    assert lasthop_main(*command, "--server", "sleep 999", "--", "sh", "-c", "echo words >&2") == 0
    (errors,) = pl.read_parquet(out / "runs.parquet")["stderr_end"].to_list()
    assert errors == "lasthop: server did not listen within 30 s\nwords"


def test_uploads_and_datagrams_are_flows_and_a_limit_ends_the_program(
    link: Path, tmp_path: Path, lasthop_main: Main
) -> None:
    (tmp_path / "receive.py").write_text(RECEIVE, encoding="utf-8")
    (tmp_path / "send.py").write_text(SEND, encoding="utf-8")
    link.write_text(LINK.replace("20 s", "3 s"), encoding="utf-8")
    out = tmp_path / "out"
    options = ["--engine", "live", "--link", link, "--only", "rate=fast", "--out", out, "--quiet"]
    server = f"python3 {tmp_path / 'receive.py'}"
    code = lasthop_main(
        "shell", "--repeated", *options, "--server", server, "--", "python3", tmp_path / "send.py"
    )
    assert code in (0, 3)
    flows = {row["flow"]: row for row in pl.read_parquet(out / "flows.parquet").iter_rows(named=True)}
    assert set(flows) == {"tcp-1", "udp-1"}
    assert (flows["tcp-1"]["direction"], flows["tcp-1"]["outcome"]) == ("up", "closed")
    assert flows["tcp-1"]["sent_bytes"] >= 60_000
    assert (
        flows["udp-1"]["direction"],
        flows["udp-1"]["sent_packets"],
        flows["udp-1"]["received_packets"],
    ) == (
        "up",
        1,
        1,
    )
    (run,) = pl.read_parquet(out / "runs.parquet").iter_rows(named=True)
    assert (run["exit_code"], run["program_s"]) == (124, 3.0)


def test_several_servers_have_names_and_what_they_say_to_each_other_is_no_flow(
    link: Path, tmp_path: Path, lasthop_main: Main
) -> None:
    sources = {"origin": ORIGIN, "relay": RELAY, "client": THROUGH_THE_RELAY}
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    out = tmp_path / "out"
    command = [
        "shell",
        "--repeated",
        "--engine",
        "live",
        "--link",
        link,
        "--only",
        "rate=fast",
        "--out",
        out,
        "--quiet",
    ]
    for name in ("relay", "origin"):
        command += ["--server", f"{name}=exec python3 {tmp_path / name}.py"]
    # On the live engine programs can write anywhere: the option is for the kernel engine.
    command += ["--write", tmp_path, "--", "python3", tmp_path / "client.py", tmp_path / "kept"]
    assert lasthop_main(*command) in (0, 3)
    assert (tmp_path / "kept").read_text(encoding="utf-8") == "fetched "
    flows = pl.read_parquet(out / "flows.parquet").filter(pl.col("sent_bytes") > 0)
    assert flows["direction"].to_list() == ["down"] * 2
    assert (flows["sent_bytes"] >= 30_000).all()
    # Each server's kernel has its connection.
    assert (flows["rtt_min_s"] >= 0.04).all()
    assert (flows["cwnd_max"] > 10).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing COMMAND: give the command to repeat"),
        (["--command", "curl"], "--command curl: write NAME=COMMAND"),
        (["--command", "a=true", "--command", "a=false"], "two commands are called a"),
        (["--command", "a=true", "--", "true"], "leave out the command at the end"),
        (["--cluster", "local:1", "--", "true"], "Programs run on this machine"),
        (["--server", "a=true", "--server", "true", "--", "true"], "each needs a name"),
        (["--server", "a=true", "--server", "a=true", "--", "true"], "a host a already exists"),
        (["--write", "nowhere", "--", "true"], "'nowhere' does not exist"),
        (
            ["--server", "true", "--json", "--", "echo", "no"],
            "the program printed text that is not JSON: 'no'",
        ),
        (["--", "no-such-program"], "no-such-program cannot be run (exit code 127)"),
        (["--", "sh", "-c", "no-such"], "sh cannot be run (exit code 127): sh: 1: no-such: not found"),
        (
            ["--json", "--", "sh", "-c", "yes [ | head -c 100000"],
            "the program printed JSON that is nested too deeply",
        ),
        (["--input", "nowhere", "--", "true"], "'nowhere' does not exist"),
    ],
)
def test_commands_that_cannot_be_repeated_are_errors(
    link: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    options = ["--engine", "live", "--link", link, "--only", "rate=fast", "--out", "out", "--quiet"]
    assert lasthop_main("shell", "--repeated", *options, *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_factor_of_commands_needs_an_unused_name(
    link: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    link.write_text(LINK.replace("factor.rate", "factor.command"), encoding="utf-8")
    compared = ["--command", "a=true", "--command", "b=true"]
    assert lasthop_main("shell", "--repeated", "--engine", "live", "--link", link, *compared) == 2
    assert "already has a factor 'command'" in capsys.readouterr().err


def test_a_link_needs_no_flow(link: Path, tmp_path: Path, lasthop_main: Main) -> None:
    link.write_text("down.link = { rate = '4 Mbit/s', delay = '1 ms' }\n", encoding="utf-8")
    out = tmp_path / "out"
    assert (
        lasthop_main(
            "shell", "--repeated", "--engine", "live", "--link", link, "--out", out, "--quiet", "--", "true"
        )
        == 0
    )
    assert pl.read_parquet(out / "runs.parquet")["exit_code"].to_list() == [0]


def test_a_file_of_somebody_else_is_not_written_over(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        lasthop_main(
            "shell",
            "--repeated",
            "--engine",
            "live",
            "--link",
            link,
            "--out",
            tmp_path / "link",
            "--",
            "true",
        )
        == 2
    )
    assert "link.toml exists and was not written by 'lasthop shell'" in capsys.readouterr().err
    assert link.read_text(encoding="utf-8") == LINK


def test_a_program_has_the_last_hop_for_itself(link: Path) -> None:
    link.write_text(LINK + PROGRAM + 'access = { delay = "1 ms" }\n', encoding="utf-8")
    with pytest.raises(_core.ScenarioError, match="a real program must be the only flow"):
        _core.load(str(link))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (PROGRAM.replace('["true"]', "[]"), r"flow\[0\].command`: contains no program"),
        (
            PROGRAM + 'servers = [{ name = "Origin", command = "true" }]',
            r"servers\[0\].name`: is not a host name",
        ),
        (
            PROGRAM + 'servers = [{ name = "client", command = "true" }]',
            '"client" is already the name of a host',
        ),
        (
            PROGRAM + 'servers = [{ command = "a" }, { command = "b" }]',
            r'servers\[1\].name`: "server" is already the name of a host',
        ),
        (PROGRAM + 'servers = [{ command = " " }]', r"servers\[0\].command`: contains no program"),
        (PROGRAM + 'write = ["here"]', r'write\[0\]`: "here" is not an absolute path'),
        (PROGRAM + 'input = ["here"]', r'input\[0\]`: "here" is not an absolute path'),
        (PROGRAM + 'cpu_cost = "much"', 'cpu_cost`: found the string "much"; write a number'),
        (PROGRAM + "keep_servers = 0", "keep_servers`: 0 is out of range; write from 1 to 1000"),
        (PROGRAM + "cpu_cost = -1", "cpu_cost`: -1 is out of range; write from 0 to 1000"),
    ],
)
def test_invalid_programs_are_errors(link: Path, program: str, message: str) -> None:
    link.write_text(
        LINK.replace('[[flow]]\nkind = "bulk-tcp"\nbytes = "1 kB"\n', program + "\n"), encoding="utf-8"
    )
    with pytest.raises(_core.ScenarioError, match=message):
        _core.load(str(link))


def test_numbers_are_found_by_their_paths() -> None:
    text = '{"end": {"sum sent": {"bits/s": 1.5}, "cpu": [1, 2]}, "ok": true, "name": "x", "n": 3}'
    assert printed_numbers(text, 0) == {"printed_end_sum_sent_bits_s": 1.5, "printed_n": 3.0}
    assert printed_numbers("no", 7) == {}
    with pytest.raises(InputError, match="printed text that is not JSON: 'no'"):
        printed_numbers("no", 0)
    assert printed_numbers("[1" + "0" * 5000 + "]", 0) == {}
    assert printed_numbers('{"n": 1' + "0" * 5000 + "}", 0) == {"printed_n": float("inf")}
    deep = '{"a":' * 100_000
    assert printed_numbers(deep, 1) == {}
    with pytest.raises(InputError, match=r"printed JSON that is nested too deeply: '\{\"a\":"):
        printed_numbers(deep, 0)


@pytest.mark.usefixtures("kernel")
def test_the_same_command_line_in_virtual_time_and_live_gives_the_same_tables(
    link: Path, tmp_path: Path, lasthop_main: Main
) -> None:
    """In a guest the same seed gives the same rows; a capture contains what the program sent."""
    page = tmp_path / "www" / "page"
    command = ["shell", "--repeated", "--link", link, "--only", "rate=fast", "--quiet", "--pcap", "--json"]
    command += ["--server", f"cd {page.parent}; exec python3 -m http.server 80"]
    fetch = [
        "curl",
        "-s",
        "--retry",
        9,
        "--retry-connrefused",
        "-o",
        "/dev/null",
        "-w",
        "%{json}",
        "http://server/page",
    ]
    folders = {"first": "kernel", "second": "kernel", "live": "live"}
    for name, engine in folders.items():
        code = lasthop_main(*command, "--engine", engine, "--out", tmp_path / name, "--", *fetch)
        assert code == 0 or (engine == "live" and code == 3)
    flows, runs = (
        {name: pl.read_parquet(tmp_path / name / f"{table}.parquet") for name in folders}
        for table in ("flows", "runs")
    )
    assert flows["first"].equals(flows["second"])
    assert runs["first"].drop("wall_s").equals(runs["second"].drop("wall_s"))
    assert flows["first"].schema == flows["live"].schema
    assert runs["first"].columns == runs["live"].columns
    assert runs["first"]["lateness_max_us"][0] < 10
    assert all(own["printed_time_total"][0] > 2 * 0.04 + BYTES * 8 / 4e6 for own in runs.values())
    for own in (flows["first"], flows["live"]):
        (row,) = own.filter(pl.col("sent_bytes") >= BYTES).iter_rows(named=True)
        assert (row["direction"], row["outcome"], row["timeouts"]) == ("down", "closed", 0)
        assert row["elapsed_s"] == pytest.approx(BYTES * 8 / 4e6 + 0.12, rel=0.2)
    capture = next((tmp_path / "first").rglob("client.pcapng"))
    assert b"GET /page HTTP/1.1" in capture.read_bytes()


@pytest.mark.usefixtures("kernel")
def test_writable_folders_keep_files_and_cpu_cost_is_noted(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    stored, out = tmp_path / "kept", tmp_path / "out"
    stored.mkdir()
    line = (
        f"echo $$ > {stored}/own; echo $$ > {tmp_path}/lost; n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done"
    )
    options = ["--link", link, "--only", "rate=fast", "--out", out, "--write", stored, "--cpu-cost", 1]
    assert lasthop_main("shell", "--repeated", *options, "--", "sh", "-c", line) == 0
    assert (
        "computation takes time in these runs (cpu_cost), so they are not repeatable"
        in capsys.readouterr().out
    )
    assert (stored / "own").is_file()
    assert not (tmp_path / "lost").exists()
    # In a guest computing takes no time otherwise, and its calls a few microseconds each.
    assert pl.read_parquet(out / "runs.parquet")["program_s"][0] > 0.005
    assert json.loads((out / "manifest.json").read_text(encoding="utf-8"))["repeatable"] is False
    assert "not repeatable, because computations take time" in (out / "report.html").read_text(
        encoding="utf-8"
    )
    assert lasthop_main("export", out, "--step", "100ms", "--out", "series.csv") == 2
    assert "ran with cpu_cost, so their runs cannot be repeated" in capsys.readouterr().err

    stored.rename(tmp_path / "elsewhere")
    assert lasthop_main("run", f"{out}.toml", "--only", "rate=slow", "--engine", "kernel") == 2
    assert f"The folder {stored}, to which programs may write, does not exist" in capsys.readouterr().err


@pytest.mark.usefixtures("kernel")
def test_a_program_without_memory_is_the_programs_failure_in_its_own_words(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    repeat = ["shell", "--repeated", "--link", link, "--only", "rate=fast", "--out", out]
    assert lasthop_main(*repeat, "--", "python3", "-c", "bytearray(10**11)") == 0
    output = capsys.readouterr()
    assert "The program failed in 1 of 1 runs (exit code 1)." in output.out
    assert "\n  MemoryError\n" in output.out
    assert "Error" not in output.err


@pytest.mark.usefixtures("kernel")
def test_a_killed_repeat_resumes_to_the_same_rows_until_the_program_changes(
    link: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "send.sh"
    send = "for i in 1 2 3; do head -c $(od -An -N1 -tu1 /dev/urandom) /dev/zero >/dev/udp/server/7; done\n"
    script.write_text(send, encoding="utf-8")
    options = ["--link", link, "--only", "rate=fast", "--replications", 9, "--jobs", 1, "--quiet"]
    command = ["--", "bash", script]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert lasthop_main("shell", "--repeated", *options, "--out", whole, *command) == 0
    with Forked(
        "lasthop", "shell", "--repeated", *map(str, (*options, "--out", killed, *command))
    ) as process:
        wait_until(lambda: _stored(killed) > 0, "no run is kept")
        process.kill()
    assert 0 < _stored(killed) < 9
    assert lasthop_main("shell", "--repeated", *options, "--out", killed, *command) == 0
    for table in ("flows", "runs"):
        ours, theirs = (pl.read_parquet(folder / f"{table}.parquet") for folder in (killed, whole))
        assert ours.drop("wall_s", strict=False).equals(theirs.drop("wall_s", strict=False))
    assert pl.read_parquet(whole / "flows.parquet")["sent_bytes"].n_unique() > 9

    series = ["export", killed, "--replication", 2, "--step", "100ms", "--out"]
    assert lasthop_main(*series, "made.csv") == 0
    capsys.readouterr()
    script.write_text(send * 2, encoding="utf-8")
    assert lasthop_main(*series, "refused.csv") == 2
    assert f"{script} has changed since the results in {killed}: run" in capsys.readouterr().err


def _stored(folder: Path) -> int:
    """Return how many runs are stored in a folder."""
    if not (folder / STORE).exists():
        return 0
    with Store(folder) as store:
        return sum(piece.count for piece in store.pieces())
