"""The live engine's shell: real programs behind the emulated last hop."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from lasthop import _core
from lasthop.engines.live.child import child_arguments
from lasthop.engines.live.presets import presets
from long_tests import GUEST

MAIN = "import sys; from lasthop.commands.cli import main; sys.exit(main())"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NOBODY = 65534
MARK = "LASTHOP_TEST_MARK"
DEADLINE_S = 10.0


def run_shell(
    *arguments: str,
    python: str = sys.executable,
    prefix: tuple[str, ...] = (),
    timeout_s: float = 60.0,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    command = [*prefix, python, "-c", MAIN, "shell", *arguments]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=env, check=False)


def program(source: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", source)


def fetch(port: int, attempts: int = 100) -> str:
    """Source of a client that prints what the server sends on `port`, and the seconds from connecting to the
    end.
    """
    return f"""
import socket, time
for attempt in range({attempts}):
    try:
        start = time.monotonic()
        connection = socket.create_connection(("server", {port}))
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
received = b""
while data := connection.recv(65536):
    received += data
print(len(received), time.monotonic() - start, received[:80].decode())
"""


def serve(port: int, reply: str) -> str:
    """Command line of a server that sends the value of the Python expression `reply` to each client."""
    source = (
        f"import socket; listener = socket.create_server((str(), {port}));\n"
        f"while True:\n connection = listener.accept()[0]; connection.sendall({reply}); connection.close()"
    )
    return f"exec {sys.executable} -c '{source}'"


def with_etc(folder: Path) -> tuple[str, ...]:
    """Return the prefix of a command that sees a folder as /etc, in a user namespace, where it may mount."""
    mounts = ("unshare", "--user", "--map-root-user", "--mount")
    return (*mounts, "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', str(folder))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def counts(summary: str, way: str) -> list[int]:
    """Return the numbers of the summary's line of a direction: sent, delivered, bytes, drops by cause,
    marks.
    """
    line = next(line for line in summary.splitlines() if line.startswith(way + " "))
    return [int(number) for number in re.findall(r"\d+", line)]


def test_the_exit_code_is_that_of_the_command() -> None:
    assert run_shell("--link", "lte", "--quiet", "--", "sh", "-c", "exit 7").returncode == 7
    assert (
        run_shell("--link", "lte", "--quiet", "--", "sh", "-c", "kill -TERM $$").returncode
        == 128 + signal.SIGTERM
    )
    missing = run_shell("--link", "lte", "--quiet", "--", "no-such-program")
    assert missing.returncode == 127
    assert "no-such-program" in missing.stderr


def test_quiet_prints_nothing() -> None:
    done = run_shell("--link", "lte", "--quiet", "--", "true")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_a_download_takes_as_long_as_the_link_needs() -> None:
    server = serve(8000, "bytes(200_000)")
    done = run_shell("--link", "umts", "--server", server, "--", *program(fetch(8000)))
    assert done.returncode == 0, done.stderr
    received, seconds, *_ = done.stdout.split()
    assert received == "200000"
    # 139 full packets of 1500 bytes or less at 1.6 Mbit/s, and at least two round trips of 300 ms.
    assert 200_000 * 8 / 1.6e6 + 0.6 < float(seconds) < 5
    sent, delivered, delivered_bytes, *drops = counts(done.stderr, "down")
    assert sent == delivered > 138
    assert delivered_bytes > 200_000 + 40 * 138
    assert not any(drops)


def test_both_versions_of_ip_cross_unless_the_mtu_is_too_small_for_ipv6() -> None:
    listen = (
        f"exec {sys.executable} -c 'import socket; s = socket.create_server((str(), 7), "
        "family=socket.AF_INET6, dualstack_ipv6=True);\nwhile True: s.accept()[0].close()'"
    )
    connect = """
import socket, sys, time
for address in sys.argv[1:]:
    for attempt in range(100):
        try:
            socket.create_connection((address, 7)).close()
            print(address, "reached")
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
        except OSError:
            print(address, "unreachable")
            break
"""
    for link, sixth in (("lte", "reached"), ("congested-64k", "unreachable")):
        done = run_shell(
            "--link", link, "--quiet", "--server", listen, "--", *program(connect), "10.0.0.1", "fd00::1"
        )
        assert done.stdout == f"10.0.0.1 reached\nfd00::1 {sixth}\n", done.stderr


@pytest.mark.parametrize("link", [("none", "--down", "slow.trace"), ("traced.toml",)])
def test_a_mahimahi_trace_sets_the_pace(tmp_path: Path, link: tuple[str, ...]) -> None:
    (tmp_path / "slow.trace").write_text("10\n")  # 1500 bytes every 10 ms: 1.2 Mbit/s
    scenario = 'down.link = { trace = "slow.trace", delay = "0 ms" }\nup.link.rate = "1 Gbit/s"\n'
    (tmp_path / "traced.toml").write_text(scenario + '[[flow]]\nkind = "bulk-tcp"\nbytes = "1 kB"\n')
    server = serve(8000, "bytes(150_000)")
    options = [str(tmp_path / word) if "." in word else word for word in link]
    done = run_shell("--link", *options, "--server", server, "--", *program(fetch(8000)))
    assert done.returncode == 0, done.stderr
    received, seconds, *_ = done.stdout.split()
    assert received == "150000"
    # 104 segments of 1448 bytes, one in 10 ms each; the SYN-ACK takes another one.
    assert 1.03 < float(seconds) < 1.3
    _, delivered, delivered_bytes, *_ = counts(done.stderr, "down")
    assert delivered >= 105
    assert delivered_bytes <= 1500 * (float(seconds) / 0.01 + 5)


def test_errors_are_one_paragraph(tmp_path: Path) -> None:
    trace = tmp_path / "bad.trace"
    trace.write_text("5\n4\n")
    changing = str(EXAMPLES / "handover.toml"), "--only", "handover=slow-in-between,frto=off"
    for arguments, text in (
        (("--link", *changing, "--down", str(trace), "--", "true"), "leave out one of the two"),
        (("--link", "grps", "--", "true"), "did you mean 'gprs'"),
        (("--", "true"), "--list lists the presets"),
        (("--link", "none", "--up", str(trace), "--", "true"), "bad.trace: line 2"),
        (("--link", "none", "--quiet", "--status", "--", "true"), "contradict"),
    ):
        done = run_shell(*arguments)
        assert done.returncode == 2
        assert text in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_every_preset_is_a_scenario_with_its_source() -> None:
    expected = {"gprs", "edge", "umts", "lte", "5g", "leo", "geo", "dsl", "congested-64k", "wifi-lossy"}
    assert expected | {"starlink"} <= presets().keys()
    listed = run_shell("--list").stdout.splitlines()
    end = listed.index("")
    assert [line.split()[0] for line in listed[:end]] == list(presets())
    assert "the TCP of the model is linux-2.4, while today's is linux-6" in listed[end + 1]
    for file in presets().values():
        assert len(_core.load(str(file)).cells) == 1
        assert file.read_text().startswith("# "), f"{file.name} does not say where its numbers come from"


def test_a_link_needs_no_flow(tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.write_text("extends = 'starlink'\n", encoding="utf-8")
    alone = tmp_path / "alone.toml"
    alone.write_text("down.link = { rate = '1 Mbit/s', delay = '5 ms' }\n", encoding="utf-8")
    for named in (str(link), str(alone), "starlink"):
        done = run_shell("--link", named, "--quiet", "--", "true")
        assert (done.returncode, done.stderr) == (0, "")


def test_two_emulations_at_once_do_not_meet() -> None:
    processes = []
    for name in ("one", "two"):
        command = [sys.executable, "-c", MAIN, "shell", "--link", "lte", "--quiet"]
        server = serve(8000, f'b"{name}"')
        client = fetch(8000) + "\ntime.sleep(1)"
        processes.append(
            subprocess.Popen(
                [*command, "--server", server, "--", *program(client)], stdout=subprocess.PIPE, text=True
            )
        )
    for name, process in zip(("one", "two"), processes, strict=True):
        output, _ = process.communicate(timeout=60)
        assert output.split()[-1] == name


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on(number: signal.Signals) -> None:
    mark = str(uuid.uuid4())
    with Emulator(mark, ["sleep", "1000"]) as emulator:
        wait_until(lambda: len(emulator.processes()) >= 3, "the command did not start")
        emulator.process.send_signal(number)
        assert emulator.process.wait(DEADLINE_S) == 128 + number
        wait_until(lambda: not emulator.processes(), "processes are left")


def test_a_background_program_ends_with_the_command() -> None:
    mark = str(uuid.uuid4())
    stubborn = "trap '' TERM HUP INT; while :; do sleep 1; done"
    with Emulator(mark, ["sh", "-c", f'setsid sh -c "{stubborn}" & sleep 0.2']) as emulator:
        assert emulator.process.wait(DEADLINE_S) == 0
        wait_until(lambda: not emulator.processes(), "processes are left")


GREET = """
import socket
print(socket.create_connection(("server", 8000)).recv(99).decode(), end="")
"""
LISTENS = (
    f"exec {sys.executable} -c 'import socket, time; s = socket.create_server((str(), 7)); time.sleep(1000)'"
)


@pytest.mark.parametrize("kills", [20, pytest.param(50, marks=pytest.mark.long(covers=GUEST, seconds=12))])
def test_sigkill_of_any_process_leaves_nothing(kills: int) -> None:
    before = host_state()
    chance = random.Random(2026)
    most = 0
    for _ in range(kills):
        mark = str(uuid.uuid4())
        with Emulator(mark, ["sh", "-c", "setsid sleep 1000 & sleep 1000"], server=LISTENS) as emulator:
            time.sleep(chance.uniform(0, 0.4))
            processes = emulator.processes() or [emulator.process.pid]
            most = max(most, len(processes))
            victim = chance.choice(processes)
            bystander = "lasthop" not in Path(f"/proc/{victim}/cmdline").read_text()
            os.kill(victim, signal.SIGKILL)
            if bystander:  # a sleeper, whose death ends the others only if it is the command itself
                emulator.process.kill()
            emulator.process.wait(DEADLINE_S)
            wait_until(lambda emulator=emulator: not emulator.processes(), "processes are left")
    assert most >= 4, "no emulation was ever under way"
    assert host_state() == before


def test_the_program_starts_when_the_server_listens_and_only_it_writes_to_standard_output() -> None:
    server = "echo out; echo err >&2; printf rest; sleep 1; " + serve(8000, 'b"hello"')
    done = run_shell("--link", "none", "--quiet", "--server", server, "--", *program(GREET))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello"
    assert sorted(done.stderr.splitlines()) == ["server: err", "server: out", "server: rest"]


def test_a_server_that_cannot_start_is_an_error() -> None:
    done = run_shell("--link", "none", "--quiet", "--server", "echo no such file >&2; exit 3", "--", "true")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "server: no such file",
        "Error: the command of server ended with exit code 3 before it accepted connections",
    ]


def test_without_a_file_for_the_names_of_hosts_no_program_starts(tmp_path: Path) -> None:
    prefix = with_etc(tmp_path)
    arguments = ("--link", "none", "--quiet", "--server", serve(8000, 'b"hello"'), "--")
    done = run_shell(*arguments, "echo", "started", prefix=prefix)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no /etc/hosts" in done.stderr
    (tmp_path / "hosts").touch()
    # There is no resolv.conf either, which names in `hosts` do not need.
    done = run_shell(*arguments, *program(fetch(8000)), prefix=prefix)
    assert done.stdout.endswith("hello\n"), done.stderr
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("hosts", "")]


def test_an_ordinary_user_can_use_it() -> None:
    if os.geteuid() != 0:
        done = run_shell("--link", "lte", "--", "id", "-u")
    else:
        python = python_for_everyone()
        drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all")
        server = serve(80, 'b"hello"').replace(sys.executable, python)
        client = (python, "-c", fetch(80) + "\nimport os; print(os.getuid())")
        arguments = ("--link", "lte", "--server", server, "--", *client)
        done = run_shell(*arguments, python=python, prefix=drop, HOME="/tmp")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) != 0
    assert "no real-time priority" in done.stderr


def test_damaged_packets_are_counted_and_stop_nothing() -> None:
    source = r"""
import random, socket, struct
chance = random.Random(1)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
packet6 = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
packet6.bind(("hop", 0x86DD))
packet4 = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
packet4.bind(("hop", 0x0800))
header = struct.pack("!BBHHHBBH4s4s", 0x45, 2, 60, 1, 0, 64, 6, 0, bytes([10, 0, 1, 1]), bytes([10, 0, 0, 1]))
for number in range(2000):
    damaged = bytearray(header + chance.randbytes(40))
    for _ in range(chance.randrange(6)):
        damaged[chance.randrange(60)] = chance.randrange(256)
    sender = chance.choice([packet4, packet6])
    sender.send(bytes(damaged[: chance.randrange(1, 61)]))
    sender.send(chance.randbytes(chance.randrange(1, 1500)))
big = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
big.sendto(bytes(8000), ("10.0.0.1", 9))
""" + fetch(8000)
    server = serve(8000, 'b"still here"')
    done = run_shell("--link", "none", "--server", server, "--", *program(source))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("still here\n")
    malformed = re.search(r"(\d+) malformed packets refused", done.stderr)
    assert malformed is not None
    assert int(malformed[1]) > 1000
    assert re.search(r"\d+ fragments passed", done.stderr), done.stderr


class Emulator:
    """The emulator's process without the command line."""

    def __init__(self, mark: str, command: list[str], server: str | None = None) -> None:
        study = _core.load(str(presets()["lte"]))
        request = {
            "scenario": json.loads(study.cells[0].scenario),
            "seed": 1,
            "down": None,
            "up": None,
            "command": command,
            "servers": [{"name": "server", "command": server}],
            "status": "none",
            "summary": False,
            "spin_us": 0,
        }
        self._mark = f"{MARK}={mark}".encode()
        arguments, descriptor = child_arguments({"shell": request})
        # Whatever started the tests may ignore signals (nohup), and its children do, too, if they are not
        # told.
        arguments = ["env", "--default-signal=HUP,INT,TERM", *arguments]
        self.process = subprocess.Popen(arguments, pass_fds=[descriptor], env={**os.environ, MARK: mark})
        os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def processes(self) -> list[int]:
        """Return the processes that have the mark in their environment, wherever they are; no zombies."""
        numbers = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if self._mark in environment.split(b"\0"):
                numbers.append(int(folder.name))
        return sorted(numbers)


def host_state() -> dict[str, object]:
    """Return the state that an emulator could change: links, routes, named namespaces, sysctls."""

    def output(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def sysctls() -> Iterator[tuple[str, str]]:
        for file in sorted(Path("/proc/sys/net").rglob("*")):
            if file.is_file() and os.access(file, os.R_OK):
                try:
                    yield str(file), file.read_text()
                except OSError:  # some need a value first
                    continue

    return {
        "links": output("ip", "-o", "link"),
        "routes": output("ip", "route", "show", "table", "all"),
        "netns": output("ip", "netns", "list"),
        "sysctls": dict(sysctls()),
    }


def python_for_everyone() -> str:
    """Return an interpreter that an ordinary user can start and that can load the extension."""
    for candidate in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if candidate is None:
            continue
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
        check = [*command, "sh", "-c", f"exec {candidate} -c 'import click, lasthop._core'"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        if subprocess.run(check, env=env, capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.fail(
        f"no Python that user {NOBODY} may start; install one in /usr/bin, with which the extension loads"
    )
