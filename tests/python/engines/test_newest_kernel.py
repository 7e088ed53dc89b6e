"""The newest release that lasthop builds, from Debian's other suites."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.engines.engine import Request
from lasthop.engines.kernel.build import Wanted, build
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel, save
from test_kernel import DOWNLOAD, command, scenario
from test_linux_router import both_routers, stream
from test_live import program
from test_programs import run_guest

pytestmark = pytest.mark.long(by_hand="compiles a kernel of its own")

RELEASE = "7.3"
# Measures how far the processor's counter advances in a second, in milliseconds.
COUNTER = r"""
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>
int main(void)
{
    struct timespec second = {1, 0};
    unsigned long long before = __rdtsc();
    unsigned int processor;
    nanosleep(&second, 0);
    printf("%llu", (__rdtscp(&processor) - before) / 1000000);
}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A separate cache, so that the default kernel of this machine stays unchanged."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def seccomp(cache: Path) -> Kernel:
    assert cache
    return build(Wanted(RELEASE), os.cpu_count() or 1, lambda _stage, _files: None)


@pytest.fixture(scope="module")
def traced(seccomp: Kernel) -> Kernel:
    """The same kernel, tracing its processes with ptrace."""
    return save("traced", seccomp.program, seccomp.options, replace(seccomp.info, seccomp=False))


def test_it_says_what_it_can_do(seccomp: Kernel) -> None:
    assert seccomp.info.version.startswith(f"{RELEASE}.")
    assert seccomp.info.seccomp
    assert json.loads((seccomp.folder / "info.json").read_text()) == asdict(seccomp.info)


def test_results_are_the_same_to_the_byte_in_every_boot_by_seccomp_and_by_ptrace(
    seccomp: Kernel, traced: Kernel, tmp_path: Path
) -> None:
    levels = '[factor.control.cubic]\n[factor.control.bbr]\ntcp.congestion_control = "bbr"\n'
    file = scenario(tmp_path, DOWNLOAD, levels)
    records = set()
    for number, kernel in enumerate((seccomp, traced, seccomp, traced)):
        out = tmp_path / f"out{number}"
        done = command("run", file, "--engine", "kernel", "--kernel", kernel.name, "--out", out, "--quiet")
        assert done.returncode == 0, done.stderr
        records.add((out / "flows.parquet").read_bytes())
    assert len(records) == 1


@pytest.mark.parametrize("name", [RELEASE, "traced"])
def test_programs_see_virtual_time_and_are_ended_if_they_compute_without_end(
    traced: Kernel, tmp_path: Path, name: str
) -> None:
    assert traced
    counter = tmp_path / "counter"
    subprocess.run(["gcc", "-O2", "-x", "c", "-", "-o", counter], input=COUNTER, text=True, check=True)
    timed = run_guest("--kernel", name, "--link", "lte", "--", str(counter))
    assert timed.stdout in ("1000", "1001", "1002", "1003", "1004"), timed.stderr
    spun = run_guest("--kernel", name, "--link", "lte", "--", "sh", "-c", "while :; do :; done")
    assert spun.returncode == 2
    assert "sh (process 2) has computed for 10 s without a system call" in spun.stderr
    spins = "import time\nend = time.monotonic() + 0.2\nwhile time.monotonic() < end: pass\nprint('end')"
    costly = run_guest("--kernel", name, "--link", "lte", "--cpu-cost", "1", "--", *program(spins))
    assert "end" in costly.stdout, costly.stderr


def test_dualpi2_of_linux_and_of_the_model_hold_the_same_delay(seccomp: Kernel, tmp_path: Path) -> None:
    queue = 'discipline = "dualpi2", limit = "1000 packets"'
    linux, model = both_routers(seccomp, tmp_path, queue, stream("6 Mbit/s", "5 s"))
    sent, excess = linux["sent_packets"][0], 1 - 4 / 6
    chance = (sent * excess * (1 - excess)) ** 0.5
    assert linux["data_drops_aqm"][0] == pytest.approx(model["data_drops_aqm"][0], abs=4 * chance)
    assert linux["data_drops_aqm"][0] == pytest.approx(sent * excess, rel=0.2)
    assert linux["queue_delay_median_s"][0] == pytest.approx(model["queue_delay_median_s"][0], rel=0.1)


@pytest.mark.parametrize("option", ["false", "true"])
def test_accurate_ecn_of_linux_and_of_the_model_take_the_same_marks(
    seccomp: Kernel, tmp_path: Path, option: str
) -> None:
    """CoDel is deterministic."""
    queue = 'discipline = "codel", limit = "1000 packets", ecn = true'
    tcp = f"tcp.ecn = true\ntcp.accurate_ecn = true\ntcp.accurate_ecn_option = {option}\n"
    linux, model = both_routers(seccomp, tmp_path, queue, tcp, DOWNLOAD)
    counts = ["data_marks_ecn", "retransmitted_packets", "sent_packets"]
    assert linux.select(counts).equals(model.select(counts))
    assert linux["data_marks_ecn"].sum() > 0
    cell = _core.load(str(tmp_path / "both.toml")).cells[0]
    plain = pl.DataFrame(KernelEngine(seccomp).run_cell(cell, Request(1, 1, 1)).flows)
    assert plain["elapsed_s"].to_list() == pytest.approx(model["elapsed_s"].to_list(), rel=0.005)
