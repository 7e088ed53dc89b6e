"""Any program of this machine in a guest kernel's virtual time: `lasthop shell --engine kernel`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from forked import Forked
from lasthop.common.errors import InputError
from lasthop.engines.kernel import guest_programs
from lasthop.engines.kernel.store import Kernel
from long_tests import GUEST
from test_kernel import assert_no_guests, guests, own_kernel  # noqa: F401
from test_live import NOBODY, fetch, program, python_for_everyone, run_shell, serve, wait_until, with_etc


def run_guest(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # A busy machine needs long to detect an endless computation in a guest.
    return run_shell("--engine", "kernel", *arguments, timeout_s=180.0, **environment)


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "page").write_bytes(bytes(20_000))
    return folder


@pytest.mark.usefixtures("kernel")
def test_a_download_takes_no_longer_than_it_must_and_the_same_seed_gives_the_same_bytes(
    tmp_path: Path, files: Path
) -> None:
    server = f"cd {files}; exec python3 -m http.server 80 2>&1"
    runs = []
    for number, seed in enumerate((1, 1, 2)):
        capture = tmp_path / str(number)
        done = run_guest(
            *("--link", "gprs", "--seed", str(seed), "--server", server, "--pcap", str(capture), "--"),
            *("curl", "-s", "-o", "/dev/null", "-w", "%{time_total} %{size_download}", "http://server/page"),
        )
        assert done.returncode == 0, done.stderr
        runs.append((done.stdout, digests(capture)))
    assert runs[0] == runs[1]
    assert set(runs[0][1]) == {
        "server.pcapng",
        "client.pcapng",
        "router-in.pcapng",
        "router-out.pcapng",
        "drops.csv",
    }
    assert runs[0] != runs[2]
    assert runs[0][1]["client.pcapng"] != runs[2][1]["client.pcapng"]
    seconds, size = runs[0][0].split()[-2:]
    assert size == "20000"
    # 15 packets at 50 kbit/s and at least two round trips of more than half a second.
    assert 20_000 * 8 / 50_000 < float(seconds) < 10


@pytest.mark.usefixtures("kernel")
def test_whatever_draws_a_number_or_looks_at_a_clock_gets_the_same() -> None:
    source = """
import os, random, ssl, time, uuid
print(os.getpid(), uuid.uuid4(), random.random(), ssl.RAND_bytes(8), os.urandom(8), hash("a"), id(object()))
print(open("/dev/urandom", "rb").read(8), time.time(), time.monotonic(), time.strftime("%Y-%m-%d"))
"""
    first, second, other = (
        run_guest("--link", "lte", "--quiet", "--seed", seed, "--", *program(source)).stdout
        for seed in ("1", "1", "2")
    )
    assert "2026-01-01" in first
    assert first == second
    assert first != other


@pytest.mark.usefixtures("kernel")
def test_the_exit_code_the_streams_and_the_surroundings_are_those_of_the_command() -> None:
    line = 'cat; echo "$HOME $(id -u) $(pwd) $MARK"; echo wrong >&2; exit 7'
    command = [
        sys.executable,
        "-c",
        "import sys; from lasthop.commands.cli import main; sys.exit(main())",
        "shell",
    ]
    done = subprocess.run(
        [*command, "--engine", "kernel", "--link", "lte", "--quiet", "--", "bash", "-c", line],
        input="typed\n",
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "MARK": "a mark"},
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout == f"typed\n{os.environ['HOME']} {os.getuid()} {Path.cwd()} a mark\n"
    assert done.stderr == "wrong\n"
    killed = run_guest("--link", "lte", "--quiet", "--", "sh", "-c", "kill -TERM $$")
    assert killed.returncode == 128 + signal.SIGTERM
    missing = run_guest("--link", "lte", "--quiet", "--", "no-such-program")
    assert missing.returncode == 127
    assert "no-such-program" in missing.stderr


@pytest.mark.usefixtures("kernel")
def test_files_of_programs_persist_only_in_writable_folders(tmp_path: Path) -> None:
    own, lost = tmp_path / "kept", tmp_path / "lost"
    for folder in (own, lost):
        folder.mkdir()
        (folder / "old").write_text("as it was")
    line = (
        f"for d in {own} {lost}; do echo new > $d/new; echo changed > $d/old; cat $d/old; done; rm -r {lost}"
    )
    done = run_guest("--link", "lte", "--quiet", "--write", str(own), "--", "bash", "-c", line)
    assert (done.returncode, done.stdout) == (0, "changed\nchanged\n"), done.stderr
    assert {file.name: file.read_text() for file in own.iterdir()} == {"old": "changed\n", "new": "new\n"}
    assert {file.name: file.read_text() for file in lost.iterdir()} == {"old": "as it was"}


def state(folders: Iterable[Path]) -> str:
    """Return a digest of the contents and attributes of folders, except access times."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted([folder, *folder.rglob("*")]):
            facts = file.lstat()
            entry = (
                file,
                facts.st_mode,
                facts.st_uid,
                facts.st_gid,
                facts.st_size,
                facts.st_mtime_ns,
                facts.st_ino,
            )
            digest.update(repr(entry).encode())
            digest.update(bytes(file.readlink()) if file.is_symlink() else b"")
            digest.update(file.read_bytes() if stat.S_ISREG(facts.st_mode) else b"")
    return digest.hexdigest()


WRITES = """
import os, shutil, sys
for folder in sys.argv[1:]:
    old = os.path.join(folder, "old")
    for change in (
        lambda: open(old, "a").write("more"), lambda: os.chmod(old, 0o600), lambda: os.utime(old, (0, 0)),
        lambda: os.truncate(old, 1), lambda: os.rename(old, old + "er"),
        lambda: os.mkdir(os.path.join(folder, "new")),
        lambda: os.symlink("/", os.path.join(folder, "link")),
        lambda: os.mkfifo(os.path.join(folder, "pipe")),
        lambda: open(os.path.join(folder, "passwd"), "w").write("gone"),
        lambda: shutil.rmtree(folder + "/inner"),
    ):
        try:
            change()
        except OSError as error:
            print(folder, error)
    print(folder, sorted(os.listdir(folder)))
"""


@pytest.mark.parametrize("written", [None, "work"])
def test_programs_that_write_everywhere_change_nothing_but_the_folders_named(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str | None
) -> None:
    """As root, who may write anywhere, this says most: home, working folder, a tree beside, /etc and
    programs' own.
    """
    own = {name: tmp_path / name for name in ("home", "work", "tree")}
    for folder in own.values():
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "deep").write_text("deep")
        (folder / "old").write_text("as it was")
    monkeypatch.setenv("XDG_CACHE_HOME", str(kernel.folder.parents[2]))
    monkeypatch.chdir(own["work"])
    watched = [*own.values(), Path("/etc"), Path(sys.prefix, "bin")]
    unnamed = [folder for folder in watched if written is None or folder != own[written]]
    before, named = state(unnamed), state([own["work"]])
    options = () if written is None else ("--write", str(own[written]))
    command = program(WRITES) + tuple(map(str, reversed(watched)))
    done = run_guest("--link", "lte", "--quiet", *options, "--", *command, HOME=str(own["home"]))
    assert done.returncode == 0, done.stderr
    assert f"{own['work']} ['link', 'new', 'older', 'passwd', 'pipe']" in done.stdout
    assert state(unnamed) == before
    assert (state([own["work"]]) == named) is (written is None)


@pytest.mark.usefixtures("kernel")
def test_several_servers_have_names_and_addresses_and_reach_each_other_without_the_last_hop() -> None:
    relay = (
        f"exec {sys.executable} -c 'import socket; listener = socket.create_server((str(), 7));\n"
        'there = socket.create_connection(("origin", 7)); text = there.recv(99);\n'
        "here = listener.accept()[0]; here.sendall(text + there.getsockname()[0].encode())'"
    )
    origin = serve(7, 'b"from the origin to "')
    done = run_guest(
        *("--link", "gprs", "--server", f"origin={origin}", "--server", f"proxy={relay}"),
        *("--", *program(fetch(7).replace('"server"', '"proxy"'))),
    )
    assert "from the origin to 10.0.0.2" in done.stdout, done.stderr
    sent = re.search(r"^down +(\d+)", done.stderr, re.MULTILINE)
    assert sent is not None
    assert int(sent[1]) < 8, "only the client's connection crosses the last hop"


@pytest.mark.usefixtures("kernel")
def test_each_of_many_servers_has_its_address_of_ipv6() -> None:
    server = program(
        "import socket\nlistener = socket.create_server(('::', 7), family=socket.AF_INET6)\nlistener.accept()"
    )
    names = [f"server-{number}" for number in range(1, 41)]
    reach = (
        "import socket, sys\nfor name in sys.argv[1:]:\n"
        "    socket.socket(socket.AF_INET6).connect((name, 7))\n    print(name)"
    )
    servers = [word for name in names for word in ("--server", f"{name}={shlex.join(server)}")]
    done = run_guest("--link", "lte", "--quiet", *servers, "--", *program(reach), *names)
    assert done.stdout.split() == names, done.stderr


@pytest.mark.usefixtures("kernel")
def test_names_resolve_in_a_root_file_system_without_a_file_for_them(tmp_path: Path) -> None:
    done = run_shell(
        *("--engine", "kernel", "--link", "none", "--quiet", "--server", serve(80, 'b"hello"'), "--"),
        *program(fetch(80)),
        prefix=with_etc(tmp_path),
    )
    assert done.stdout.endswith("hello\n"), done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.long(covers=GUEST, seconds=14)
@pytest.mark.usefixtures("kernel")
def test_a_program_that_computes_without_end_is_named_unless_computing_takes_time() -> None:
    spins = (
        "import time\nend = time.monotonic() + 0.2\nn = 0\n"
        "while n < 10**7 and time.monotonic() < end: n += 1\nprint(n)"
    )
    freely = run_guest("--link", "lte", "--", "sh", "-c", "while :; do :; done")
    assert freely.returncode == 2
    assert "sh (process 2) has computed for 10 s without a system call" in freely.stderr
    assert "--cpu-cost 1" in freely.stderr
    timed = run_guest("--link", "lte", "--cpu-cost", "1", "--", *program(spins))
    assert timed.returncode == 0, timed.stderr
    assert "not repeatable" in timed.stderr


@pytest.mark.usefixtures("kernel")
def test_a_full_overlay_is_reported() -> None:
    full = run_guest(
        "--link", "lte", "--quiet", "--", "dd", "if=/dev/zero", "of=/tmp/large", "bs=1M", "count=1100"
    )
    assert full.returncode == 1
    assert "No space left on device" in full.stderr
    assert "with --write DIR" in full.stderr


@pytest.mark.usefixtures("kernel")
def test_a_program_that_takes_all_memory_is_named() -> None:
    takes = "taken = []\nwhile True: taken.append(b'x' * 2**20)"
    done = run_guest("--link", "lte", "--quiet", "--memory", "192M", "--", *program(takes))
    assert done.returncode == 128 + signal.SIGKILL
    assert re.fullmatch(
        r"Warning: the guest ran out of memory and killed python\S*\. Give it more, for example .*\n",
        done.stderr,
    ), done.stderr


@pytest.mark.long(covers=GUEST, seconds=6)
@pytest.mark.usefixtures("kernel")
def test_a_fork_bomb_is_ended_and_named_and_many_processes_are_none() -> None:
    run = ("--link", "lte", "--quiet", "--", "sh", "-c")
    many = run_guest(*run, "for i in $(seq 200); do sleep 9 & done; wait; echo end")
    assert (many.returncode, many.stdout) == (0, "end\n"), many.stderr
    bomb = run_guest(*run, "b() { b | b & }; b; sleep 600")
    assert bomb.returncode == 2
    assert "The programs started more than 1000 processes, perhaps a fork bomb" in bomb.stderr


@pytest.mark.usefixtures("kernel")
def test_packets_leave_the_hop_at_its_rate_exactly(tmp_path: Path) -> None:
    """A hundred datagrams at once; each uses 1028 bytes on the link, and the clock has steps of 256 ns."""
    link = tmp_path / "link.toml"
    hop = (
        'down.link = { rate = "777 kbit/s", delay = "50 ms" }\n'
        'up.link = { rate = "1 Mbit/s", delay = "50 ms" }\n'
    )
    flow = '[[flow]]\nkind = "constant-udp"\nrate = "1 kbit/s"\npayload = "100 B"\nduration = "1 s"\n'
    link.write_text(f'{hop}down.queue.limit = "200 packets"\n{flow}')
    server = f"""exec {sys.executable} -c 'import socket
sender = socket.socket(type=socket.SOCK_DGRAM)
sender.bind((str(), 7))
there = sender.recvfrom(9)[1]
for _ in range(100): sender.sendto(bytes(1000), there)'"""
    receives = """
import socket, time
receiver = socket.socket(type=socket.SOCK_DGRAM)
receiver.sendto(b"go", ("server", 7))
times = [(len(receiver.recv(2000)), time.monotonic_ns())[1] for _ in range(100)]
print(*[after - before for before, after in zip(times, times[1:])])
"""
    done = run_guest("--link", str(link), "--server", server, "--", *program(receives))
    assert done.returncode == 0, done.stderr
    gaps = [int(gap) for gap in done.stdout.split()]
    expected = 1028 * 8 / 777e3 * 1e9
    assert len(gaps) == 99
    assert abs(sum(gaps) - 99 * expected) < 2000, "over a second, two microseconds"
    assert all(abs(gap - expected) < 2000 for gap in gaps)
    latest = re.search(r"^late .* max (\d+) us", done.stderr, re.MULTILINE)
    assert latest is not None
    assert int(latest[1]) <= 1


@pytest.mark.usefixtures("kernel")
def test_stalled_programs_and_unsupported_options_are_errors(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for arguments, message in (
        (("--spin", "5"), "--spin needs --engine live"),
        (("--pcap", str(there)), "already exists"),
        (("--server", "a=true", "--server", "true"), "each needs a name"),
        (("--server", "client=true"), "choose another name"),
        (("--kernel", "9.99"), "There is no kernel '9.99'"),
        (("--memory", "64M"), "at least 128M"),
        (("--memory", "lots"), "such as 512M or 4G"),
    ):
        done = run_guest("--link", "lte", *arguments, "--", "true")
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    live = run_shell("--link", "lte", "--write", str(there), "--", "true")
    assert (live.returncode, "--write needs --engine kernel" in live.stderr) == (2, True), live.stderr


def shell(kernel: Kernel, *command: str) -> tuple[str, ...]:
    """Return the arguments of `lasthop` that run a command in this kernel."""
    return (
        "shell",
        "--engine",
        "kernel",
        "--link",
        "lte",
        "--quiet",
        "--kernel",
        kernel.name,
        "--",
        *command,
    )


def start(kernel: Kernel, *command: str) -> subprocess.Popen[str]:
    """Start a command and wait until it reports that it runs."""
    main = [sys.executable, "-c", "import sys; from lasthop.commands.cli import main; sys.exit(main())"]
    process = subprocess.Popen([*main, *shell(kernel, *command)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    return process


WAITS = """
import signal, socket, sys
print('runs', flush=True)
sender = socket.socket(type=socket.SOCK_DGRAM)
while signal.sigtimedwait([], 1) is None: sender.sendto(b'hello', ('server', 7))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on(own_kernel: Kernel, number: signal.Signals) -> None:  # noqa: F811
    tells = WAITS.replace("print", f"signal.signal({number}, lambda *_: sys.exit(9))\nprint", 1)
    with start(own_kernel, *program(tells)) as process:
        process.send_signal(number)
        assert process.wait(60) == 9


def _mounts_but_of_other_tests(own: Path) -> list[str]:
    lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "/pytest-of-" not in line or str(own) in line]


@pytest.mark.parametrize(
    "kills",
    [
        4,
        pytest.param(
            int(os.environ.get("LASTHOP_KILLS", "12")), marks=pytest.mark.long(covers=GUEST, seconds=9)
        ),
    ],
)
def test_sigkill_of_any_process_leaves_nothing(own_kernel: Kernel, tmp_path: Path, kills: int) -> None:  # noqa: F811
    """At random moments, from the start of the command on; what a guest has open has no name in any file
    system.
    """
    mounts = _mounts_but_of_other_tests(tmp_path)
    places = [*map(Path, ("/dev/shm", "/tmp", "~/.uml")), tmp_path]
    chance = random.Random(2026)
    own_files = {file for place in places for file in place.expanduser().glob("*vm_file*")}
    start = time.monotonic()
    with Forked("lasthop", *shell(own_kernel, *program(WAITS))) as process:
        wait_until(lambda: len(guests(own_kernel)) >= 3, "no program runs")
        takes = time.monotonic() - start
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
    for number in range(kills):
        with Forked("lasthop", *shell(own_kernel, *program(WAITS))) as process:
            if number % 4 == 0:  # On a machine that became busier, the random delay may be too long.
                wait_until(lambda: len(guests(own_kernel)) >= 3, "no program runs")
            else:
                time.sleep(chance.uniform(0, 1.5 * takes))
            # Killing a process of the guest that was about to end has no effect, so kill another one.
            for _ in range(3):
                victim = chance.choice([process.pid, *guests(own_kernel)])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                with contextlib.suppress(AssertionError):
                    process.wait(20)
                    break
                assert not Path(f"/proc/{victim}").exists(), "nobody has noticed its death"
            process.wait(0)
        assert_no_guests(own_kernel)
    assert _mounts_but_of_other_tests(tmp_path) == mounts
    assert {file for place in places for file in place.expanduser().glob("*vm_file*")} <= own_files


def test_a_command_that_is_killed_before_its_guest_is_tied_to_it_leaves_nothing(
    own_kernel: Kernel,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late, started, go = (tmp_path / name for name in ("setpriv", "started", "go"))
    late.write_text(
        f"#!/bin/sh\necho $$ > {started}.new\nmv {started}.new {started}\n"
        f'while [ ! -e {go} ]; do sleep 0.05; done\nexec {shutil.which("setpriv")} "$@"\n',
        encoding="utf-8",
    )
    late.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Forked("lasthop", *shell(own_kernel, *program(WAITS))) as process:
        wait_until(started.exists, "no guest was started")
        process.kill()
    guest = Path("/proc", started.read_text(encoding="ascii").strip())
    assert guest.exists()
    go.touch()
    wait_until(lambda: not guest.exists(), "the guest outlives the command")


def test_a_guest_that_does_not_notice_a_killed_process_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_programs, "_LOOK_S", 0.05)
    with subprocess.Popen(["sh", "-c", "sleep 0 & exec sleep 60"]) as unaware:
        with pytest.raises(InputError, match="was killed from outside"):
            guest_programs.Guest(unaware.pid, {}, {}, 0).answer()
        unaware.kill()


def test_an_ordinary_user_without_capabilities_can_use_it(kernel: Kernel, tmp_path: Path) -> None:
    line = "id -u; cat /etc/shadow; echo hello > /dev/udp/10.0.0.1/7; ip -brief address show hop"
    arguments = ("--engine", "kernel", "--link", "gprs", "--quiet", "--pcap")
    if os.geteuid() != 0:
        done = run_shell(*arguments, str(tmp_path / "own"), "--", "bash", "-c", line)
        assert done.stdout.startswith(f"{os.geteuid()}\n"), done.stderr
        return
    # The kernel is in root's home: give the user a readable copy and a writable folder.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        shutil.copytree(kernel.folder, folder / "lasthop" / "kernels" / kernel.name)
        done = run_shell(
            *(*arguments, str(folder / "user"), "--", "bash", "-c", line),
            python=python_for_everyone(),
            prefix=("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"),
            HOME=name,
            XDG_CACHE_HOME=name,
        )
        assert done.stdout.startswith(f"{NOBODY}\n"), done.stderr
        assert "10.0.1.1/24" in done.stdout
        assert "Permission denied" in done.stderr
