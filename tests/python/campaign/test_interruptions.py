"""Real campaigns in separate processes: killed, stopped, on a full disk, and in the same folder."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import polars as pl
import pytest

from conftest import EXAMPLE
from forked import Forked, Process, ended
from lasthop.common.files import write_parquet
from lasthop.common.processes import sigterm_as_ctrl_c

TABLES = ("flows.parquet", "runs.parquet")
COVERS = ("python/lasthop/campaign",)
KILLS = int(os.environ.get("LASTHOP_KILLS", "1000"))


def start(out: Path, *options: str, file: Path = EXAMPLE) -> Process:
    arguments = ("run", str(file), "--out", str(out), *options)
    if "LD_PRELOAD" not in os.environ:
        return Forked("lasthop", *arguments)
    command = [sys.executable, "-m", "lasthop.commands.cli", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for_start(process: Process, out: Path) -> None:
    """Wait until the process has locked the folder or ended."""
    while process.poll() is None and not (out / ".lock").exists():
        time.sleep(0.005)


def run(out: Path, *options: str, file: Path = EXAMPLE) -> tuple[int, str, str]:
    return ended(start(out, *options, file=file))


@pytest.mark.parametrize(
    ("kills", "replications"),
    # Half of the runs are a chain of cached metrics.
    [
        (3, 1000),
        pytest.param(8, 1000, marks=pytest.mark.long(covers=COVERS, seconds=8)),
        pytest.param(KILLS, 50_000, marks=pytest.mark.long(by_hand="a night of kills")),
    ],
)
def test_a_campaign_that_is_killed_again_and_again_ends_with_the_rows_of_an_undisturbed_one(
    tmp_path: Path, kills: int, replications: int
) -> None:
    options = ("--replications", str(replications), "--quiet")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run(whole, *options) == (0, "", "")
    moments = random.Random(2003)
    for _ in range(kills):
        (killed / ".lock").unlink(missing_ok=True)  # so that the test notices when it is created again
        with start(killed, *options) as process:
            wait_for_start(process, killed)
            time.sleep(moments.uniform(0.0, 0.6))
            process.kill()
    assert run(killed, *options) == (0, "", "")
    for table in TABLES:
        assert (killed / table).read_bytes() == (whole / table).read_bytes()
    assert not list(killed.glob("*.tmp"))
    assert not list(killed.glob("*-wal"))
    assert not (killed / ".merging").exists()


JUMPING_CLOCK = """
#define _GNU_SOURCE
#include <time.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static long years(void) { static long calls; return (calls++ % 7 - 3) * 31536000; }
int clock_gettime(clockid_t id, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += years();
    return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
    long failed = syscall(SYS_gettimeofday, now, zone);
    now->tv_sec += years();
    return failed;
}
time_t time(time_t *now) {
    time_t read = syscall(SYS_time, 0) + years();
    if (now) *now = read;
    return read;
}
"""


def test_a_clock_that_jumps_by_years_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--replications", "300", "--quiet")
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert run(whole, *options) == (0, "", "")
    source, library = tmp_path / "jumps.c", tmp_path / "jumps.so"
    source.write_text(JUMPING_CLOCK, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    process = subprocess.run(
        [sys.executable, "-c", "import time; print(len({time.time() // 10**6 for _ in range(7)}))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(process.stdout) == 7
    with start(out, *options) as process:
        wait_for_start(process, out)
        time.sleep(0.3)
        process.kill()
    assert run(out, *options) == (0, "", "")
    for table in TABLES:
        assert (out / table).read_bytes() == (whole / table).read_bytes()
    took = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["simulation"]
    assert took["runs"] == 600
    assert 0 < took["wall_s"] < 600


def test_a_lock_that_a_killed_process_left_behind_does_not_hold(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with start(out, "--replications", "2000", "--quiet") as process:
        wait_for_start(process, out)
        process.kill()
    assert (out / ".lock").exists()
    assert run(out, "--quiet") == (0, "", "")
    assert not (out / ".lock").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_do_not_wait_for_a_long_run(
    tmp_path: Path, endless: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    with start(out, file=endless) as process:
        wait_for_start(process, out)
        while not (out / "store.sqlite").exists() and process.poll() is None:
            time.sleep(0.005)
        time.sleep(0.5)
        process.send_signal(number)
        output, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert error.splitlines()[-1].startswith(f"Stopped: 0 of 10 runs are stored in {out}.")
    assert "Traceback" not in error + output


def stored_runs(out: Path) -> int:
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{out}/store.sqlite?mode=ro", uri=True)) as store,
    ):
        return int(store.execute("SELECT coalesce(sum(count), 0) FROM piece").fetchone()[0])
    return 0


def test_a_chain_of_cached_metrics_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    options = ("--replications", "6000", "--only", "memory=cbi", "--quiet")
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert run(whole, *options) == (0, "", "")
    stored = [0]
    for jobs in ("1", "2", "1"):
        with start(out, *options, "--jobs", jobs) as process:
            while process.poll() is None and stored_runs(out) <= stored[-1]:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=20)
        assert process.returncode == 130
        last_line = re.fullmatch(r"Stopped: (\d+) of 6000 runs are stored in .*", error.splitlines()[-1])
        assert last_line is not None
        stored.append(int(last_line[1]))
    assert stored == sorted(set(stored))
    assert run(out, *options) == (0, "", "")
    for table in TABLES:
        assert (out / table).read_bytes() == (whole / table).read_bytes()
    simulated = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["simulation"]["runs"]
    assert simulated == 6000, "no run is made twice"


def test_sigterm_stops_every_command_as_ctrl_c_does(tmp_path: Path) -> None:
    """Here `lasthop explain`, in the middle of its run."""
    (tmp_path / "stops.py").write_text(
        "import os, signal, lasthop\n"
        "class Mine(lasthop.CongestionControl):\n"
        "    def on_ack(self, ack): os.kill(os.getpid(), signal.SIGTERM)\n"
        "    def on_congestion(self, sign, in_use): ...\n",
        encoding="utf-8",
    )
    (tmp_path / "it.toml").write_text(
        'down.link = { rate = "1 Mbit/s", delay = "10 ms" }\n'
        'flow = [{ kind = "bulk-tcp", bytes = "10 kB" }]\n'
        'tcp.congestion_control = "python:stops.Mine"\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "lasthop.commands.cli", "explain", tmp_path / "it.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "Stopped.")


def test_sigterm_stops_what_ignores_ctrl_c() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), sigterm_as_ctrl_c():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("gone", ["folder", "store"])
def test_a_folder_that_disappears_ends_the_run(tmp_path: Path, endless: Path, gone: str) -> None:
    out = tmp_path / "out"
    with start(out, file=endless) as process:
        wait_for_start(process, out)
        while not (out / "store.sqlite").exists() and process.poll() is None:
            time.sleep(0.005)
        time.sleep(0.5)
        if gone == "folder":
            shutil.rmtree(out)
        else:
            (out / "store.sqlite").unlink()
        output, error = process.communicate(timeout=20)
    assert process.returncode == 2
    missing = out if gone == "folder" else out / "store.sqlite"
    assert (
        f"Error: {missing} was removed, renamed or replaced during the run, so the results are lost" in error
    )
    assert "Traceback" not in error + output


def test_a_missing_store_is_an_error(tmp_path: Path) -> None:
    assert run(tmp_path, "--replications", "2", "--quiet") == (0, "", "")
    (tmp_path / "store.sqlite").unlink()
    code, output, _ = run(tmp_path, "--replications", "2")
    assert code == 0
    assert f"{tmp_path / 'store.sqlite'} is missing" in output


def test_a_second_process_is_refused_and_the_first_named(tmp_path: Path, endless: Path) -> None:
    out = tmp_path / "out"
    with start(out, file=endless) as process:
        wait_for_start(process, out)
        code, output, error = run(out, "--quiet")
        process.kill()
    assert (code, output) == (2, "")
    assert f"{out} is in use by process {process.pid} on " in error


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return the root of a file system that the runs of the test do not fit into."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def run_as_root(test: str, tmp_path: Path) -> None:
    """Run a test of this file in a user namespace, where an ordinary user may mount."""
    namespace = ("unshare", "--user", "--map-root-user", "--mount")
    pytest_ = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", tmp_path / "inside")
    done = subprocess.run(
        [*namespace, *pytest_, f"{__file__}::{test}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def remount(disk: Path, options: str) -> None:
    # The present options name a user whom a user namespace does not know.
    command = ["mount", "--options-mode", "ignore", "-t", "tmpfs", "-o", f"remount,{options}", "tmpfs", disk]
    subprocess.run(command, check=True)


def test_a_table_that_does_not_fit_is_an_error_of_the_disk() -> None:
    with pytest.raises(OSError, match="No space left"):
        write_parquet(pl.DataFrame({"a": range(100_000)}), Path("/dev/full"))


def test_a_disk_error_is_reported_wherever_in_a_table_it_occurs(tmp_path: Path) -> None:
    frame, file = (
        pl.DataFrame({f"column_{number}": [number] for number in range(100)}),
        tmp_path / "table.parquet",
    )
    write_parquet(frame, file)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for size in range(0, file.stat().st_size, 997):  # so that data, then the footer do not fit
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
            with pytest.raises(OSError, match="File too large"):
                write_parquet(frame, file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_and_a_read_only_folder_lose_nothing_that_was_done(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if os.geteuid() != 0:
        run_as_root(request.node.name, tmp_path)
        return
    small_disk = request.getfixturevalue("small_disk")
    options = ("--replications", "1500", "--only", "memory=none")
    whole, out = tmp_path / "whole", small_disk / "out"
    assert run(whole, *options)[0] == 0
    code, _, error = run(out, *options, "--quiet")
    assert code == 2
    assert "disk is full" in error or "No space left" in error
    assert error.count("\n") == 1
    remount(small_disk, "size=100m")
    remount(small_disk, "ro")
    code, _, error = run(out, *options, "--quiet")
    assert (code, error.count("\n")) == (2, 1)
    assert "Read-only file system" in error
    remount(small_disk, "rw")
    code, output, _ = run(out, *options)
    assert code == 0
    assert "Resuming" in output
    for table in TABLES:
        assert (out / table).read_bytes() == (whole / table).read_bytes()
    remount(small_disk, "ro")
    assert "1500 requested, 1500 stored, 0 missing" in show(out)[1]
    assert pl.read_parquet(out / "runs.parquet").height == 1500
    remount(small_disk, "rw")
    with start(out, *options[2:], "--replications", "100000", "--quiet") as process:
        wait_for_start(process, out)
        while not (out / "store.sqlite-wal").exists() and process.poll() is None:
            time.sleep(0.005)
        process.kill()
    remount(small_disk, "ro")
    code, _, error = show(out)
    assert (code, error.count("\n")) == (2, 1)
    assert f"The process that wrote {out / 'store.sqlite'} was killed." in error
    assert f"cannot write to {out}: Read-only file system. Nothing is lost: copy the folder" in error
    remount(small_disk, "rw")
    assert show(out)[0] == 0


def show(out: Path) -> tuple[int, str, str]:
    return ended(Forked("lasthop", "results", "size", out))
