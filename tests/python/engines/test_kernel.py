"""The kernel engine: a guest kernel's TCP in virtual time, the same to the byte every time."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
import pytest

from clusters import Cluster
from forked import Forked
from lasthop import _core
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.campaign.runner import Threads
from lasthop.common.errors import InputError, InterruptedCampaignError
from lasthop.engines.engine import Request
from lasthop.engines.kernel import boot, kernel_engine, source
from lasthop.engines.kernel.apt import Apt, other_suites
from lasthop.engines.kernel.build import Wanted, build
from lasthop.engines.kernel.changes import _replace
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.source import find_source
from lasthop.engines.kernel.store import Info, Kernel, find_kernel, kernels, recipe, save, store
from long_tests import GUEST
from test_live_run import ATM, DOWNLOAD, PAGE, SCENARIO, STREAM
from tools import require_tools, tshark

Main = Callable[..., int]

LASTHOP = Path(sys.executable).with_name("lasthop")
ROOT = Path(__file__).resolve().parents[3]


def scenario(folder: Path, *parts: str) -> Path:
    file = folder / "small.toml"
    file.write_text(SCENARIO + "".join(parts), encoding="utf-8")
    return file


def command(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [LASTHOP, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300, **options
    )


@pytest.fixture
def own_kernel(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The guest kernel under a path of the test, which distinguishes its guests from those of other tests."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    store().mkdir(parents=True)
    (store() / kernel.name).symlink_to(kernel.folder)
    return find_kernel(kernel.name)


def guests(kernel: Kernel) -> list[int]:
    """Every process that runs this kernel, and every process within it.

    From 7.2 on the latter have another name; those whose kernel has ended are counted for any kernel.
    """
    processes, inner = [], []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes()
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            head, _, rest = stat.rpartition(")")
            state, parent, *_ = rest.split()
            if state == "Z":
                continue
            if arguments.startswith(bytes(kernel.program)):
                processes.append(int(entry.name))
            elif head.endswith("(uml-userspace"):
                inner.append((int(entry.name), int(parent)))
    return [*processes, *(process for process, parent in inner if parent in (1, *processes))]


def assert_no_guests(kernel: Kernel) -> None:
    deadline = (
        time.monotonic() + 10
    )  # the signal has been sent; the last of their processes may still be ending
    while guests(kernel) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert guests(kernel) == []


def memory_files() -> set[Path]:
    """The files that contain the memory of guests."""
    return set(Path("/dev/shm").glob("vm_file-*"))


def test_the_same_seed_gives_the_same_records_byte_for_byte_on_one_instance_and_on_two(
    kernel: Kernel, tmp_path: Path, lasthop_main: Main
) -> None:
    """Two of the runs have separate processes, with other addresses and hashes."""
    assert kernel
    levels = '[factor.control.reno]\n[factor.control.bbr]\ntcp.congestion_control = "bbr"\n'
    file = scenario(tmp_path, DOWNLOAD, STREAM, levels)
    records = set()
    for number, jobs in enumerate((1, 2) * 3):
        out = tmp_path / f"out{number}"
        run = ("run", file, "--engine", "kernel", "--jobs", jobs, "--out", out, "--quiet")
        assert (command(*run).returncode if number < 2 else lasthop_main(*run)) == 0
        records.add((out / "flows.parquet").read_bytes() + (out / "runs.parquet").read_bytes())
    assert len(records) == 1
    flows = pl.read_parquet(tmp_path / "out0" / "flows.parquet")
    assert flows.height == 2 * 2 * 2
    assert set(flows.filter(pl.col("protocol") == "tcp")["outcome"]) == {"closed"}
    other = tmp_path / "other"
    assert lasthop_main("run", file, "--engine", "kernel", "--seed", 2, "--out", other, "--quiet") == 0
    assert (other / "flows.parquet").read_bytes() != (tmp_path / "out0" / "flows.parquet").read_bytes()


def test_a_stopped_campaign_goes_on_with_the_next_boot(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_engine, "_BOOT_REPLICATIONS", 3)
    study = _core.load(str(scenario(tmp_path, DOWNLOAD)))
    engine = KernelEngine(kernel)
    assert engine.stretch(study.cells[0]) == 3
    plan = Plan(study, study.cells, 1, 8, sets=2, engine=engine)
    whole, out = tmp_path / "whole", tmp_path / "out"
    Campaign(plan, whole).run(Threads(2), lambda _: None)

    def stop(runs: int) -> None:
        if runs:
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(InterruptedCampaignError):
            Campaign(plan, out).run(Threads(1), stop)
    again = Campaign(plan, out)
    assert again.outlook().stored >= 6
    assert again.outlook().again == 0
    again.run(Threads(2), lambda _: None)
    assert again.simulated.runs == plan.runs
    for table in ("flows.parquet", "runs.parquet"):
        assert (out / table).read_bytes() == (whole / table).read_bytes()
    # Replication 5 of set 2 is the second of its boot.
    flows = again.finished.flows().filter(set=2, replication=13)
    traced = ChosenRun(plan, study.cells[0], 2, 5).trace()
    assert traced.flows["elapsed_s"] == flows["elapsed_s"].to_list()
    # Of the boot that ended with replication 8, two run again.
    longer = Campaign(dataclasses.replace(plan, replications=10, sets=1), out)
    assert longer.outlook().again == 2
    longer.run(Threads(1), lambda _: None)
    before = pl.read_parquet(whole / "flows.parquet").filter(set=1)
    assert longer.finished.flows().filter(pl.col("replication") <= 8).equals(before)


def test_what_else_the_process_has_open_changes_nothing(kernel: Kernel, tmp_path: Path) -> None:
    """On a busy machine, threads that start guests open their files in another order.

    BBR draws a number per run.
    """
    file = scenario(
        tmp_path, DOWNLOAD.replace("100 kB", "1 MB"), '[factor.control.bbr]\ntcp.congestion_control = "bbr"\n'
    )
    cell = _core.load(str(file)).cells[0]
    first = KernelEngine(kernel).run_cell(cell, Request(1, 1, 1)).flows
    with ExitStack() as files:
        for _ in range(3):
            files.enter_context(Path(os.devnull).open("rb"))
            assert KernelEngine(kernel).run_cell(cell, Request(1, 1, 1)).flows == first


def test_workers_of_a_cluster_make_the_same_bytes_and_need_the_same_kernel(
    kernel: Kernel, tmp_path: Path
) -> None:
    file = scenario(tmp_path, DOWNLOAD)
    run = ("run", file, "--engine", "kernel", "--replications", "2", "--quiet")
    assert command(*run, "--out", tmp_path / "threads").returncode == 0
    with Cluster(tmp_path / "log") as cluster:
        cluster.start_worker()
        cluster.wait_for_workers(1)
        done = command(*run, "--cluster", cluster.address, "--out", tmp_path / "dask")
        assert (done.returncode, done.stderr) == (0, "")
        for table in ("flows.parquet", "runs.parquet"):
            assert (tmp_path / "dask" / table).read_bytes() == (tmp_path / "threads" / table).read_bytes()
        cluster.start_worker(environment={"XDG_CACHE_HOME": str(tmp_path)})
        cluster.wait_for_workers(2)
        done = command(*run, "--cluster", cluster.address, "--out", tmp_path / "refused")
    assert done.returncode == 2
    assert re.search(
        rf"Worker \S+ cannot be used: it needs the guest kernel with digest {kernel.digest[:8]}, but its "
        rf"kernels are: none\. "
        rf"Copy {kernel.folder} to the same place there\.",
        done.stderr,
    )


@pytest.mark.long(covers=("python/lasthop/campaign/cluster", *GUEST), seconds=8)
def test_the_workers_of_a_cluster_share_the_cells(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel
    levels = "".join(f'[factor.seconds.{n}]\ntime_limit = "{n} s"\n' for n in range(20, 28))
    file = scenario(tmp_path, DOWNLOAD, levels)
    done = command(
        "run", file, "--engine", "kernel", "--sets", 3, "--cluster", "local:2", "--out", tmp_path / "dask"
    )
    assert done.returncode == 0
    assert len(re.findall(r"tcp://\S+: 1 thread, [1-9]\d* runs", done.stdout)) == 2


def test_deliveries_are_punctual_to_the_microsecond_and_agree_with_the_model_on_a_link_without_tcp(
    kernel: Kernel, tmp_path: Path
) -> None:
    cell = _core.load(str(scenario(tmp_path, STREAM))).cells[0]
    guest = KernelEngine(kernel).run_cell(cell, Request(1, 1, 1))
    assert guest.runs["valid"] == [True]
    assert guest.runs["lateness_max_us"][0] < 5.0
    model = cell.run(1, 1, 1)
    for column, (value,) in model.flows.items():
        if isinstance(value, float):
            assert guest.flows[column] == [pytest.approx(value, rel=1e-4, abs=1e-5)], column
        else:
            assert guest.flows[column] == [value], column


def test_a_page_is_loaded_and_captured_as_in_the_model(
    kernel: Kernel, tmp_path: Path, lasthop_main: Main
) -> None:
    require_tools()
    assert kernel
    file = scenario(tmp_path, PAGE)
    out = tmp_path / "out"
    run = ("run", file, "--engine", "kernel", "--replications", 1, "--pcap", "--out", out, "--quiet")
    assert lasthop_main(*run) == 0
    captures = list(out.rglob("*.pcapng"))
    assert {capture.name for capture in captures} <= set(_core.CAPTURE_FILES)
    assert len(captures) == 4
    requests = tshark(captures[0], ("http.request.method",), "-Y", "http.request")
    assert requests
    assert all(request == ["GET"] for request in requests)
    assert pl.read_parquet(out / "pages.parquet").height == 1


def test_short_flows_come_and_go_with_windows_of_their_own(kernel: Kernel) -> None:
    cell = next(
        cell for cell in _core.load(str(ROOT / "examples" / "short-flows.toml")).cells if "half" in cell.key
    )
    guest, model = KernelEngine(kernel).run_cell(cell, Request(1, 1, 1)).shorts, cell.run(1, 1, 1).shorts
    assert guest["application"] == model["application"] == ["iw10", "iw3"]
    for column in ("flows", "completed"):
        assert guest[column] == pytest.approx(model[column], abs=2), column
    # Twelve segments in two round trips, and in three.
    assert guest["fct_median_s"] == pytest.approx(model["fct_median_s"], rel=0.2)
    assert guest["fct_median_s"][0] < guest["fct_median_s"][1]


def test_an_ordinary_user_without_capabilities_gets_the_same_bytes(kernel: Kernel, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("this whole run is an ordinary user's")
    cell = _core.load(str(scenario(tmp_path, DOWNLOAD))).cells[0]
    program = (
        "import json, sys\nfrom lasthop import _core\nfrom lasthop.engines.engine import Request\n"
        "from lasthop.engines.kernel.kernel_engine import KernelEngine\n"
        "from lasthop.engines.kernel.store import Info, Kernel\nfrom pathlib import Path\n"
        "name, folder, info, file = json.load(sys.stdin)\n"
        "kernel = Kernel(name, Path(folder), Info(**info))\n"
        "print(json.dumps(KernelEngine(kernel).run_cell(_core.load(file).cells[0], "
        "Request(1, 1, 2)).flows))\n"
    )
    # The kernel and perhaps this tree are in root's home, which the user cannot read: copy them.
    home = Path("/tmp") / f"lasthop-user-{os.getpid()}"
    shutil.copytree(kernel.folder, home / "kernel")
    shutil.copytree(Path(_core.__file__).parent, home / "site" / "lasthop", symlinks=False)
    shutil.copy(tmp_path / "small.toml", home)
    for path in [home, *home.rglob("*")]:
        path.chmod(0o755)
    try:
        arguments = [kernel.name, str(home / "kernel"), asdict(kernel.info), str(home / "small.toml")]
        done = subprocess.run(
            ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all",
             "--bounding-set=-all", sys.executable, "-c", program],
            input=json.dumps(arguments), capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, "PYTHONPATH": str(home / "site"), "HOME": str(home)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == KernelEngine(kernel).run_cell(cell, Request(1, 1, 2)).flows
    finally:
        shutil.rmtree(home)


@pytest.mark.parametrize("moments", [4, pytest.param(8, marks=pytest.mark.long(covers=GUEST, seconds=8))])
def test_killed_at_any_moment_nothing_stays(own_kernel: Kernel, tmp_path: Path, moments: int) -> None:
    file = scenario(tmp_path, DOWNLOAD, STREAM)
    before = memory_files()
    for moment in range(moments):
        run = ("run", file, "--engine", "kernel", "--replications", "40", "--out", tmp_path / "killed")
        process = Forked("lasthop", *run)
        deadline = time.monotonic() + 30
        while not guests(own_kernel) and time.monotonic() < deadline:
            time.sleep(0.005)
        assert guests(own_kernel), "no guest was started"
        # At its start a guest tests ptrace with a child that would survive a kill (LIMITATIONS.md).
        time.sleep(0.2 + 0.01 * moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert_no_guests(own_kernel)
    left = memory_files() - before
    time.sleep(0.2)  # guests of concurrent tests unlink their files at once
    assert not left & memory_files()
    done = command(
        "run", file, "--engine", "kernel", "--replications", 2, "--out", tmp_path / "after", "--quiet"
    )
    assert done.returncode == 0, done.stderr


def test_a_guest_that_dies_is_reported_with_its_console(
    own_kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = _core.load(str(scenario(tmp_path, DOWNLOAD))).cells[0]
    init = tmp_path / "init"
    init.write_bytes(b"#!/nothing/here\n")
    monkeypatch.setattr(boot, "_GUEST", init)
    with pytest.raises(InputError, match=r"(?s)failed twice .*Kernel panic"):
        KernelEngine(own_kernel).run_cell(cell, Request(1, 1, 1))
    assert_no_guests(own_kernel)


def test_a_system_without_ptrace_is_told_what_to_allow() -> None:
    with boot.memory_file("console", b"ptrace: Operation not permitted\n") as console:
        reason = boot.with_console("it ended with code 1", console)
    assert "ptrace: Operation not permitted" in reason
    assert "kernel.yama.ptrace_scope must be 0 or 1" in reason


BATCH = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct call { long number, arguments[6], result; unsigned next, next_if_empty; };

static long between(struct timespec a, struct timespec b) { return b.tv_nsec - a.tv_nsec; }

int main(void)
{
    struct timespec a, b, c, d;
    struct call calls[] = {
        { SYS_clock_gettime, { CLOCK_MONOTONIC, (long)&c }, 7, 1 },
        { SYS_read, { -1 }, 7, 1 },
        { SYS_clock_gettime, { CLOCK_MONOTONIC, (long)&d }, 7, 1 },
    };
    long made, word = 5;
    int empty[2], failed = pipe2(empty, O_NONBLOCK);
    struct call ways[] = {
        { SYS_read, { empty[0], (long)&word, 1 }, 7, 0, 2 },
        { SYS_getpid, { 0 }, 7, 1 },
        { 401, { (long)&word, 5 }, 7, 1 },
        { 402, { (long)&a, (long)&b }, 7, 1 },
        { SYS_getpid, { 0 }, 7, 1 },
        { 402, { (long)&b, (long)&b }, 7, 1 },
        { SYS_getpid, { 0 }, 7, 1 },
    };

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &a);
    syscall(SYS_read, -1, 0, 0);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b);
    made = syscall(400, calls, 3);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &d);
    printf("%ld made: %ld, %ld, %ld\n", made, calls[0].result, calls[1].result, calls[2].result);
    made = syscall(400, ways, 7);
    printf("%d, then %ld made:", failed, made);
    for (int i = 0; i < 7; i++)
        printf(" %ld", ways[i].result);
    printf("\\nalone %ld ns, together %ld ns\n", between(a, b), between(c, d));
}
"""


def test_batched_system_calls_continue_and_cost_as_much_as_single_ones(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = _core.load(str(scenario(tmp_path, DOWNLOAD))).cells[0]
    init = tmp_path / "init"
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", init], input=BATCH, text=True, check=True)
    monkeypatch.setattr(boot, "_GUEST", init)
    with pytest.raises(InputError) as failure:
        KernelEngine(kernel).run_cell(cell, Request(1, 1, 1))
    console = str(failure.value)
    assert "2 made: 0, -9, 7" in console
    assert "0, then 4 made: -11 7 0 0 1 7 7" in console
    assert re.search(r"alone ([1-9]\d{3}) ns, together \1 ns", console), console


@pytest.mark.parametrize("body", ["for (;;) pause();", "for (;;);"], ids=["waits", "spins"])
def test_a_guest_that_hangs_is_ended_and_reported(
    own_kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    cell = _core.load(str(scenario(tmp_path, DOWNLOAD))).cells[0]
    init = tmp_path / "init"
    source = f"#include <unistd.h>\nint main(void) {{ {body} }}\n"
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", init], input=source, text=True, check=True)
    monkeypatch.setattr(boot, "_GUEST", init)
    monkeypatch.setattr(kernel_engine, "_IDLE_LIMIT_S", 0.5)
    monkeypatch.setattr(kernel_engine, "_REPLICATION_LIMIT_S", 1.0)
    with pytest.raises(InputError, match=r"failed twice .*it hung"):
        KernelEngine(own_kernel).run_cell(cell, Request(1, 1, 1))
    assert_no_guests(own_kernel)


def test_an_atm_switch_treats_real_tcp_as_the_model_treats_its_own(kernel: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "atm.toml"
    file.write_text(ATM, encoding="utf-8")
    (cell,) = _core.load(str(file)).cells
    guest, model = KernelEngine(kernel).run_cell(cell, Request(1, 1, 1)), cell.run(1, 1, 1)
    assert sum(guest.flows["data_drops_selective"]) > 0
    for column in ("outcome", "sent_packets", "received_packets", "data_drops_selective", "data_drops_queue"):
        assert guest.flows[column] == model.flows[column], column
    assert guest.flows["elapsed_s"] == pytest.approx(model.flows["elapsed_s"], rel=1e-3)


def test_scenarios_that_a_guest_cannot_run_are_errors(kernel: Kernel) -> None:
    study = Path(_core.__file__).parent / "studies" / "published" / "atmf1998" / "study.toml"
    cell = _core.load(str(study)).cells[0]
    with pytest.raises(InputError, match='stack = "classic" runs on the model engine only'):
        KernelEngine(kernel).run_cell(cell, Request(1, 1, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "x.toml", "--kernel", "6.12"], "--kernel selects the guest kernel"),
        (["run", "x.toml", "--engine", "kernel", "--kernel", "6.21"], "did you mean"),
        (["kernel", "info", "6.21"], "There is no kernel '6.21'"),
        (["kernel", "remove", "6.21"], "There is no kernel '6.21'"),
        (["kernel", "build", "--source", "neither"], "neither a release such as 6.12"),
    ],
)
def test_bad_requests_are_answered_in_a_sentence(
    kernel: Kernel, lasthop_main: Main, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert kernel
    scenario(Path(), DOWNLOAD).rename("x.toml")
    assert lasthop_main(*arguments) == 2
    assert message in capsys.readouterr().err


def test_without_a_kernel_the_error_explains_how_to_build_it(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    assert lasthop_main("run", scenario(tmp_path, DOWNLOAD), "--engine", "kernel") == 2
    assert "lasthop kernel build" in capsys.readouterr().err


def test_missing_build_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match=r"apt-get install make gcc binutils flex bison"):
        build(Wanted("6.12"), 1, lambda _stage, _files: None)


def test_a_source_that_cannot_be_changed_names_the_releases_that_can(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Build one of these, 6\.1, 6\.12, 7\.2 or 7\.3, with"):
        _replace(tmp_path / "util.c", "getrandom", "seeded_random")


def apt_says(folder: Path, releases: tuple[str, ...], mirror: str = "") -> None:
    """Put fake apt commands into a folder: they list these releases, and Debian's archive at this address."""
    listed = "".join(f"linux-source-{release} - a kernel\\n" for release in releases)
    for name, answer in (("apt-cache", f"{listed}linux-source-6.12-rt - none\\n"), ("apt-get", mirror)):
        (folder / name).write_text(f"#!/bin/sh\nprintf '{answer}'\n")
        (folder / name).chmod(0o755)


def test_a_release_that_apt_does_not_know_names_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt_says(tmp_path, ("6.1", "6.12"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    missing = r"apt does not find the package linux-source-6\.99 \(available: 6\.1, 6\.12; "
    with pytest.raises(InputError, match=missing):
        find_source("6.99", tmp_path)


def test_a_release_that_apt_does_not_know_is_sought_in_debians_other_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake apt-cache lists 7.3 only with the private configuration."""
    apt_says(tmp_path, ("6.12",), "Debian http://mirror.example/debian/\\n")
    log = tmp_path / "asked"
    (tmp_path / "apt-get").write_text(
        f"#!/bin/sh\necho \"$@\" >>{log}\nprintf 'Debian http://mirror.example/debian/\\n'\n"
    )
    (tmp_path / "apt-cache").write_text(
        '#!/bin/sh\ncase "$*" in *Dir::State::Lists=*) echo linux-source-7.3 - new;; esac\n'
        "echo linux-source-6.12 - old\n"
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(InputError, match=r"not even in Debian's other suites \(available: 6\.12, 7\.3; "):
        find_source("7.4", tmp_path)
    (source_file,) = (tmp_path / "apt" / "sources").iterdir()
    assert "URIs: http://mirror.example/debian/\n" in source_file.read_text()
    update = next(line for line in log.read_text().splitlines() if "update" in line)
    for folder in ("Dir::Etc::sourceparts", "Dir::State::Lists", "Dir::State::status", "Dir::Cache"):
        assert f"{folder}={tmp_path}/" in update


@pytest.mark.long(by_hand="asks Debian's servers for the packages of other suites")
def test_debians_other_suites_have_the_newest_release_and_leave_apt_as_it_is(tmp_path: Path) -> None:
    before = Apt().releases()
    lists = sorted(Path("/var/lib/apt/lists").iterdir())
    others = other_suites(tmp_path)
    assert others is not None
    assert "7.3" in others.releases()
    assert (Apt().releases(), sorted(Path("/var/lib/apt/lists").iterdir())) == (before, lists)


@pytest.mark.parametrize(
    ("available", "chosen", "why"),
    [
        (
            ("6.1", "6.12", "6.9"),
            "6.12",
            "the newest available release (6.1, 6.9, 6.12); it lacks seccomp, new in",
        ),
        (("6.12", "6.17", "7.2"), "7.2", "the newest available release (6.12, 6.17, 7.2); it has seccomp"),
        (("6.12", "7.3"), "7.3", "the newest available release (6.12, 7.3); it has seccomp"),
    ],
)
def test_the_newest_source_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: tuple[str, ...], chosen: str, why: str
) -> None:
    """Fake programs print what apt would print; the sources count as installed."""
    apt_says(tmp_path, available, "Debian http://mirror.example/debian/\\n")
    (tmp_path / f"linux-source-{chosen}.tar.xz").write_bytes(b"")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(source, "_INSTALLED", tmp_path)
    choice = find_source(None, tmp_path)
    assert (choice.release, choice.origin) == (chosen, f"linux-source-{chosen}")
    assert choice.choice.startswith(why)
    assert ("with --source 7.3" in choice.choice) == (chosen != "7.3")
    assert find_source(chosen, tmp_path).choice == "named with --source"


def test_without_any_source_the_error_explains_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(source, "_INSTALLED", tmp_path)
    with pytest.raises(InputError, match=r"apt-get update.* --source PATH"):
        find_source(None, tmp_path)


def test_a_listed_kernel_can_be_described(
    kernel: Kernel, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("kernel", "list") == 0
    assert kernel.name in capsys.readouterr().out
    assert kernel in kernels()
    assert kernel.folder.parent == store()
    assert lasthop_main("kernel", "info", kernel.name) == 0
    output = capsys.readouterr().out
    assert kernel.info.version in output
    assert kernel.digest in output
    assert kernel.info.choice in output


def test_kernels_of_versions_that_say_more_of_them_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = store() / "9.1"
    folder.mkdir(parents=True)
    (folder / "linux").touch()
    info = Info("9.1.1", "linux-source-9.1", None, "a digest", "gcc", 1.0, seccomp=True)
    (folder / "info.json").write_text(json.dumps({**asdict(info), "colour": "blue"}), encoding="utf-8")
    (kernel,) = (one for one in kernels() if not one.is_installed)
    assert kernel.info == info


def packaged(folder: Path, release: str, recipe: str) -> Path:
    """A kernel as scripts/kernel-wheel packs it, in an environment of its own."""
    place = folder / "lasthop_kernels" / release
    place.mkdir(parents=True)
    (place / "linux").touch()
    info = Info(f"{release}.1", f"linux-source-{release}", None, recipe, "gcc", 1.0, seccomp=True)
    (place / "info.json").write_text(json.dumps(asdict(info)), encoding="utf-8")
    return place


def test_kernels_of_several_packages_and_the_store_are_found_and_the_store_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for release in ("9.1", "9.2"):
        packaged(tmp_path / release, release, recipe())
        monkeypatch.syspath_prepend(tmp_path / release)
    installed = kernels()
    assert [(kernel.name, kernel.is_installed) for kernel in installed] == [("9.1", True), ("9.2", True)]
    built = save("9.1", installed[0].program, installed[0].folder / "info.json", installed[0].info)
    assert find_kernel("9.1") == built
    assert not built.is_installed
    # Out of date, the kernel of the store serves no longer, but the package's does.
    save("9.1", installed[0].program, built.options, replace(built.info, recipe="older"))
    assert find_kernel("9.1") == installed[0]


def test_an_installed_kernel_is_not_removed_but_named_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = packaged(tmp_path, "9.1", "older")
    monkeypatch.syspath_prepend(tmp_path)
    assert lasthop_main("kernel", "list") == 0
    assert "9.1         Linux 9.1.1  (from an installed package)  (" in capsys.readouterr().out
    assert lasthop_main("kernel", "remove", "9.1") == 2
    assert "pip uninstall" in capsys.readouterr().err
    assert (place / "linux").is_file()
    assert lasthop_main("kernel", "info", "9.1") == 2
    assert "pip install --upgrade 'lasthop[kernel]'" in capsys.readouterr().err
