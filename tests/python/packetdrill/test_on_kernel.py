"""packetdrill's scripts on guest kernels: families, verdicts, guests."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lasthop.common.errors import InputError
from lasthop.engines.kernel.guest_programs import Command, start_commands
from lasthop.engines.kernel.store import Kernel, find_kernel, kernels
from lasthop.packetdrill import on_kernel
from lasthop.packetdrill.on_kernel import FAMILIES, Result, Task, families_of, run_on_kernel
from lasthop.packetdrill.program import VARIABLE, find_program
from lasthop.packetdrill.verdict import State
from long_tests import GUEST

Main = Callable[..., int]

# Written for this project, from RFC 9293, sections 3.5 and 3.10.7.4.
_HANDSHAKE = """`sysctl -q net.ipv4.tcp_timestamps=0 net.ipv4.tcp_window_scaling=0 net.ipv4.tcp_sack=0`

0   socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0  bind(3, ..., ...) = 0
+0  listen(3, 1) = 0
+0  < S 0:0(0) win 20000 <mss 1000>
+0  > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 20000
+0  accept(3, ..., ...) = 4
+0  < P. 1:1001(1000) ack 1 win 20000
+0  > . 1:1(0) ack {ack}
+0  %{{ assert tcpi_state == TCP_ESTABLISHED, tcpi_state }}%
"""
_RUNS = """#!/bin/sh
# Stands in for packetdrill: says which script, family and network it has.
for script; do :; done
. "./$script"
"""


def write(folder: Path, name: str, text: str = "") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def stand_in(folder: Path) -> Path:
    program = write(folder, "packetdrill", _RUNS)
    program.chmod(0o755)
    return program


def run(kernel: Kernel, program: Path, *tasks: Task, jobs: int = 1) -> list[Result]:
    return run_on_kernel(kernel, program, tasks, jobs, lambda _: None)


def test_a_script_says_its_families_itself_or_by_its_name(tmp_path: Path) -> None:
    assert families_of(write(tmp_path, "a.pkt")) == [*FAMILIES]
    assert families_of(write(tmp_path, "mtu-v4.pkt")) == ["ipv4", "ipv4-mapped-ipv6"]
    assert families_of(write(tmp_path, "mtu-v6.pkt")) == ["ipv6"]
    assert families_of(write(tmp_path, "c.pkt", "--local_ip=192.168.0.2\n")) == ["ipv4", "ipv4-mapped-ipv6"]
    assert families_of(write(tmp_path, "b.pkt", "// text\n--ip_version=ipv4\n--mss=9\n")) == ["ipv4"]


@pytest.mark.parametrize(
    ("code", "output", "state", "line", "message"),
    [
        (0, "a warning", State.PASSED, None, ""),
        (
            1,
            "outbound sniffed packet: 0.1 S 0:0(0)\n"
            "slow.pkt:12: error handling packet: live packet: bad window\n",
            State.FAILED,
            12,
            "error handling packet: live packet: bad window",
        ),
        (
            1,
            "./defaults.sh: line 63: tc: command not found\nslow.pkt: error executing init command: 1\n",
            State.NOT_RUNNABLE,
            None,
            "this machine has no command 'tc'",
        ),
        (
            1,
            "slow.pkt:9: error in Python code\n"
            'Traceback (most recent call last):\n  File "/tmp/code_1", line 9, in <module>\n'
            "    assert tcpi_snd_cwnd == 11, tcpi_snd_cwnd\n           ^^^^\nAssertionError: 10\n"
            "slow.pkt: error executing code: 'python3 /tmp/code_1' returned non-zero status 1\n",
            State.FAILED,
            9,
            "assert tcpi_snd_cwnd == 11, tcpi_snd_cwnd: AssertionError: 10",
        ),
        (124, "", State.FAILED, None, "it did not finish within 180 s"),
        (139, "", State.FAILED, None, "exit code 139: no output"),
    ],
)
def test_a_verdict_has_packetdrills_own_line_and_message(
    code: int, output: str, state: State, line: int | None, message: str
) -> None:
    verdict = on_kernel._verdict(Task(Path("slow.pkt"), "ipv4", 0), code, output, 0.25)
    assert (verdict.state, verdict.line, verdict.message) == (state, line, message)
    assert verdict.duration_s == 0.25


def test_commands_of_a_guest_have_networks_of_their_own_and_exact_sleeps(kernel: Kernel) -> None:
    commands = [
        Command(["sh", "-c", "sysctl -qw net.ipv4.tcp_sack=0; ip -br link; sleep 99 & exit 3"], Path("/")),
        Command(["sh", "-c", "sysctl net.ipv4.tcp_sack; kill -9 $$"], Path("/")),
        Command(["sleep", "0.25"], Path("/")),
    ]
    environment = {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
    with start_commands(kernel, commands, core=0, seed=1, environment=environment) as guest:
        guest.answer()
        first, second, third, _ = map(json.loads, guest.lines())
    assert first["code"] == 3
    assert first["output"].split()[:2] == ["lo", "UNKNOWN"]
    assert (second["code"], second["output"]) == (137, "net.ipv4.tcp_sack = 1\n")
    assert 250_000_000 <= third["elapsed_ns"] < 250_100_000


@pytest.mark.long(covers=("python/lasthop/packetdrill", *GUEST), seconds=6)
def test_a_script_that_ends_the_guest_leaves_the_others_their_verdicts(
    tmp_path: Path, kernel: Kernel
) -> None:
    scripts = [
        write(tmp_path, "1.pkt", "echo 1.pkt:7: wrong; exit 1"),
        write(tmp_path, "2.pkt", "exec python3 -c 'import os\nwhile True: os.getppid()'"),
        write(tmp_path, "3.pkt", "sleep 1"),
        write(tmp_path, "4.pkt", "exec sleep 999"),
    ]
    tasks = [Task(script, "ipv4", 0) for script in scripts]
    first, spun, last, long = (ran.verdict for ran in run(kernel, stand_in(tmp_path), *tasks))
    assert (first.state, first.line, first.message) == (State.FAILED, 7, "wrong")
    assert spun.state is State.FAILED
    assert "has made the same few system calls 1000000 times" in spun.message
    assert last.state is State.PASSED
    assert last.duration_s == pytest.approx(1, abs=0.01)
    assert long.message == "it did not finish within 180 s"


def test_the_command_shows_verdicts_and_keeps_what_failed(
    tmp_path: Path, kernel: Kernel, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path, "good.pkt", "echo $*")
    send = "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(8), ('127.0.0.1', 9))"
    bad = write(tmp_path, "bad.pkt", f'python3 -c "{send}"; echo bad.pkt:3: wrong $*; exit 1')
    junit, kept = tmp_path / "verdicts.xml", tmp_path / "kept"
    code = lasthop_main(
        *("packetdrill", good, bad, "--kernel", kernel.name, "--packetdrill", stand_in(tmp_path)),
        *("--family", "ipv6", "--repeat", 2, "--tolerance", 0, "--junit", junit, "--output", kept),
    )
    said = capsys.readouterr().out.splitlines()
    assert code == 4
    assert said[0] == f"passed        ipv6              {good}"
    assert said[1].startswith(f"failed        ipv6              {bad}:3: wrong --ip_version=ipv6")
    assert "--tolerance_usecs=0 --tolerance_percent=0" in said[1]
    assert said[2].startswith("2 passed, 2 failed, 0 not runnable, on Linux ")
    assert said[3] == "The verdict differs between repetitions for 0 of 2."
    assert junit.read_text(encoding="utf-8").count("<failure") == 2
    names = {file.name.removeprefix(tmp_path.name) for file in kept.iterdir()}
    assert names == {f"-bad-ipv6-{run}.{ending}" for run in (1, 2) for ending in ("txt", "pcap")}
    # The datagram, and the ICMP message that nobody listens.
    tshark = ["tshark", "-r", kept / f"{tmp_path.name}-bad-ipv6-1.pcap", "-T", "fields", "-e", "ip.proto"]
    assert subprocess.run(tshark, check=True, capture_output=True, text=True).stdout.split() == ["17", "1,17"]


def test_captures_need_tcpdump(tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_kernel, "_SYSTEM", "/nowhere")
    task = Task(write(tmp_path, "a.pkt"), "ipv4", 0)
    with pytest.raises(InputError, match="tcpdump"):
        run_on_kernel(kernel, stand_in(tmp_path), [task], 1, lambda _: None, output=tmp_path / "kept")


def test_options_of_kernels_are_refused_for_the_model(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write(tmp_path, "a.pkt")
    assert lasthop_main("packetdrill", script, "--stack", "linux-6", "--repeat", "2") == 2
    assert "--repeat is for kernels" in capsys.readouterr().err


def test_a_kernel_with_other_ticks_has_its_own_name(kernel: Kernel) -> None:
    assert find_kernel(None).info.hz == 250
    if not any(other.info.hz == 1000 for other in kernels()):
        with pytest.raises(InputError, match=r"To build one: lasthop kernel build --hz 1000"):
            find_kernel(None, 1000)
    assert kernel.info.hz == 250


@pytest.fixture(scope="module")
def packetdrill() -> Path:
    """The real program; no package index of ours has it."""
    if VARIABLE not in os.environ:
        pytest.fail(f"This needs packetdrill: set {VARIABLE} to a checkout of github.com/google/packetdrill.")
    return find_program(None)


@pytest.mark.long(by_hand=f"needs {VARIABLE}, a checkout of packetdrill, which CI has not")
def test_the_scripts_of_the_project_pass_on_a_kernel(kernel: Kernel, packetdrill: Path) -> None:
    scripts = sorted((Path(__file__).parents[2] / "packetdrill").glob("*.pkt"))
    tasks = [Task(script, "ipv4", 0) for script in scripts]
    verdicts = [ran.verdict for ran in run(kernel, packetdrill, *tasks, jobs=2)]
    failed = {verdict.script.stem for verdict in verdicts if verdict.state is not State.PASSED}
    assert not failed


@pytest.mark.long(by_hand=f"needs {VARIABLE}, a checkout of packetdrill, which CI has not")
def test_packetdrill_agrees_with_a_handshake_of_the_rfc_and_finds_a_wrong_number(
    tmp_path: Path, kernel: Kernel, packetdrill: Path
) -> None:
    right = write(tmp_path, "right.pkt", _HANDSHAKE.format(ack=1001))
    wrong = write(tmp_path, "wrong.pkt", _HANDSHAKE.format(ack=1002))
    tasks = [Task(script, family, n) for n in range(3) for script in (right, wrong) for family in FAMILIES]
    for ran in run(kernel, packetdrill, *tasks, jobs=2):
        if ran.task.script == right:
            assert ran.verdict.state is State.PASSED, ran.verdict.message
        else:
            assert (ran.verdict.state, ran.verdict.line) == (State.FAILED, 11), ran.verdict.message
