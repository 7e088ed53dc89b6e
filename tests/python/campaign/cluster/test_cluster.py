"""Campaigns on a Dask cluster: real schedulers and workers on the loopback, killed and replaced."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from distributed import Client

import lasthop as package
from clusters import PATIENCE_S, Cluster, free_port, lasthop
from conftest import EXAMPLE
from forked import Process, ended
from lasthop import _core
from lasthop.campaign.cluster import jobs, where
from lasthop.campaign.cluster.place import DaskPlace
from lasthop.campaign.plan import Unit
from lasthop.campaign.progress import progress
from lasthop.campaign.runner import Agenda, Work
from lasthop.common.errors import InputError, PlaceLostError
from lasthop.evaluate import rows

Main = Callable[..., int]

COVERS = ("python/lasthop/campaign", "python/lasthop/common/processes.py")
TABLES = ("flows.parquet", "runs.parquet")
RUNS = 4000
LONG = ("--only", "memory=none", "--replications", str(RUNS), "--quiet")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a scheduler with two workers; a test that kills one starts another."""
    with Cluster(tmp_path_factory.mktemp("cluster") / "log") as running:
        running.start_worker()
        running.start_worker()
        running.wait_for_workers(2)
        yield running


@pytest.fixture(scope="session")  # so that other tests can run in other processes
def whole(shared_folder: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Return the results of an undisturbed run of `LONG` on threads."""

    def run(out: Path) -> None:
        assert ended(lasthop("run", EXAMPLE, *LONG, "--out", out)) == (0, "", "")

    return shared_folder("whole", run)


def equal(left: Path, other: Path) -> bool:
    return all((left / table).read_bytes() == (other / table).read_bytes() for table in TABLES)


def wait_for_results(process: Process, out: Path) -> None:
    """Wait until some results are in the store."""
    deadline = time.monotonic() + PATIENCE_S
    batches: list[tuple[int]] = []
    while not batches:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
        with (
            suppress(sqlite3.OperationalError),
            closing(sqlite3.connect(f"file:{out}/store.sqlite?mode=ro", uri=True)) as store,
        ):
            batches = store.execute("SELECT batch FROM piece").fetchall()


def test_the_records_are_those_of_threads_to_the_byte(cluster: Cluster, tmp_path: Path) -> None:
    options = ("--replications", "60")
    assert ended(lasthop("run", EXAMPLE, *options, "--out", tmp_path / "threads"))[0] == 0
    code, output, error = ended(
        lasthop("run", EXAMPLE, *options, "--cluster", cluster.address, "--out", tmp_path / "dask")
    )
    assert code == 0, error
    assert f"cluster {cluster.address}, dashboard http://127.0.0.1:" in output
    shares = [
        int(runs)
        for runs in re.findall(r"^tcp://127\.0\.0\.1:\d+: 1 thread, (\d+) runs", output, re.MULTILINE)
    ]
    assert sum(shares) == 120
    assert equal(tmp_path / "threads", tmp_path / "dask")
    summaries = [(tmp_path / name / "summary.csv").read_bytes() for name in ("threads", "dask")]
    assert summaries[0] == summaries[1]


@pytest.mark.long(covers=("python/lasthop/campaign/cluster", "python/lasthop/evaluate"), seconds=10)
def test_a_dossier_is_that_of_threads_to_the_byte(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    # A scenario with recordings of a link, which workers do not have, and one without.
    quick = rows.read_set("quick")
    some = [section for section in quick.sections if section.id in ("wireless", "low-rate")]
    monkeypatch.setattr(rows, "read_set", lambda _: replace(quick, sections=some))
    assert lasthop_main("evaluate", "reno", "--out", "threads", "--quiet") == 0
    assert lasthop_main("evaluate", "reno", "--out", "dask", "--cluster", cluster.address) == 0
    printed = capsys.readouterr().out
    assert printed.count(f"cluster {cluster.address}, dashboard") == 1
    shares = re.findall(r"^tcp://127\.0\.0\.1:\d+: 1 thread, (\d+) runs", printed, re.MULTILINE)
    runs = 0
    for folder in Path("threads/results").iterdir():
        assert equal(folder, Path("dask/results") / folder.name)
        runs += json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["simulation"]["runs"]
    assert sum(map(int, shares)) == runs > 0
    assert Path("threads/dossier.csv").read_bytes() == Path("dask/dossier.csv").read_bytes()


def test_cells_are_precise_after_as_many_replications_as_on_threads(cluster: Cluster, tmp_path: Path) -> None:
    options = ("--until", "median(elapsed_s) of tcp-second within 0.02 %", "--replications", "63", "--quiet")
    assert ended(lasthop("run", EXAMPLE, *options, "--out", tmp_path / "threads"))[0] == 0
    assert (
        ended(lasthop("run", EXAMPLE, *options, "--cluster", cluster.address, "--out", tmp_path / "dask"))[0]
        == 0
    )
    assert equal(tmp_path / "threads", tmp_path / "dask")
    counts = [
        json.loads((tmp_path / name / "manifest.json").read_text(encoding="utf-8"))["until"]["replications"]
        for name in ("threads", "dask")
    ]
    assert counts[0] == counts[1]
    assert max(counts[0]) > 10


def test_others_take_the_work_of_a_worker_that_is_killed(
    cluster: Cluster, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = lasthop("run", EXAMPLE, *LONG[:-1], "--cluster", cluster.address, "--out", out)
    wait_for_results(process, out)
    cluster.kill_worker(cluster.workers[0])
    cluster.start_worker()
    code, output, error = ended(process)
    assert code == 0, error
    assert re.findall("Lost .*", output) == ["Lost 1 worker; their tasks were repeated by others."]
    assert equal(out, whole)


def test_ctrl_c_keeps_finished_runs_and_frees_the_workers(cluster: Cluster, tmp_path: Path) -> None:
    cluster.wait_for_workers(2)
    out = tmp_path / "out"
    process = lasthop("run", EXAMPLE, *LONG, "--cluster", cluster.address, "--out", out)
    wait_for_results(process, out)
    process.send_signal(signal.SIGINT)
    code, output, error = ended(process)
    assert (code, output) == (130, "")
    assert re.fullmatch(
        rf"Stopped: [1-9]\d* of {RUNS} runs are stored in {out}\. Repeat the command .*\n", error
    )
    # The workers are free: another campaign gets all of them, and the folder can be resumed elsewhere.
    code, _, error = ended(
        lasthop("run", EXAMPLE, "--replications", "2", "--cluster", cluster.address, "--out", tmp_path / "x")
    )
    assert (code, error) == (0, "")
    resumed = lasthop("run", EXAMPLE, *LONG[:-1], "--out", out)
    assert "Resuming" in ended(resumed)[1]


def other_version(folder: Path) -> Path:
    """Copy the package, change the rules it was built with, and return its path."""
    copy = folder / "lasthop"
    shutil.copytree(
        Path(package.__file__).parent, copy, ignore=shutil.ignore_patterns("published", "__pycache__")
    )
    extension = next(copy.glob("_core*.so"))
    code = extension.read_bytes()
    assert code.count(_core.RULES.encode()) == 1
    extension.write_bytes(code.replace(_core.RULES.encode(), b"0123abcd" * 8))
    return folder


def test_a_worker_of_another_version_is_refused_with_both_versions(cluster: Cluster, tmp_path: Path) -> None:
    place = other_version(tmp_path / "other")
    worker = cluster.start_worker(environment={"PYTHONPATH": str(place)})
    cluster.wait_for_workers(3)
    out = tmp_path / "out"
    code, _, error = ended(lasthop("run", EXAMPLE, "--cluster", cluster.address, "--out", out))
    cluster.kill_worker(worker)
    assert code == 2
    assert re.fullmatch(
        rf"Error: Worker tcp://127\.0\.0\.1:\d+ cannot be used: it has lasthop {_core.VERSION} \(rules "
        rf"0123abcd\), but "
        rf"this is lasthop {_core.VERSION} \(rules {_core.RULES[:8]}\)\. Install the same version there\.\n",
        error,
    )
    cluster.wait_for_workers(2)


@pytest.mark.long(covers=COVERS, seconds=4)
def test_a_worker_of_another_version_that_comes_later_is_refused_too(
    cluster: Cluster, tmp_path: Path
) -> None:
    place = other_version(tmp_path / "other")
    out = tmp_path / "out"
    # Far more runs than can be done before a worker has started.
    process = lasthop(
        "run", EXAMPLE, "--replications", "100000", "--quiet", "--cluster", cluster.address, "--out", out
    )
    wait_for_results(process, out)
    worker = cluster.start_worker(environment={"PYTHONPATH": str(place)})
    code, _, error = ended(process)
    cluster.kill_worker(worker)
    assert code == 2
    assert "(rules 0123abcd), but this is" in error
    assert "Traceback" not in error


DEADLY = """
import contextlib
import os
import time
from pathlib import Path
from lasthop.campaign.cluster.worker import Simulator

def dask_setup(worker):
    run, deaths = Simulator.__call__, map(Path({deaths!r}).joinpath, map(str, range({most})))

    def run_or_die(self, pieces):
        if any(self._cells[number].key == "queue=q3" for number, *_ in pieces):
            for death in deaths:
                with contextlib.suppress(FileExistsError):
                    # two workers that start at the same time do not both take the last death
                    death.touch(exist_ok=False)
                    # a worker that comes and goes between two looks, a second apart, is not counted
                    time.sleep(3)
                    os._exit(1)
        return run(self, pieces)

    Simulator.__call__ = run_or_die
"""
BLAMES_AT_ONCE = "def dask_setup(scheduler):\n    scheduler.allowed_failures = 0\n"


def run_with_deaths(most: int, tmp_path: Path) -> tuple[int, str, str]:
    """Run six cells, one of which kills its worker that many times, where Dask blames a task for one
    death.
    """
    deadly, blames, deaths = (tmp_path / name for name in ("deadly.py", "blames.py", "deaths"))
    deaths.mkdir()
    deadly.write_text(DEADLY.format(deaths=str(deaths), most=most), encoding="utf-8")
    blames.write_text(BLAMES_AT_ONCE, encoding="utf-8")
    with Cluster(tmp_path / "log", "--preload", str(blames)) as cluster:
        process = lasthop(
            "run", six_cells(tmp_path), "--cluster", cluster.address, "--out", tmp_path / "dask"
        )
        while process.poll() is None:
            cluster.workers = [worker for worker in cluster.workers if worker.poll() is None]
            while len(cluster.workers) < 2:
                cluster.start_worker("--preload", str(deadly))
            time.sleep(0.1)
        return ended(process)


def six_cells(tmp_path: Path) -> Path:
    file = tmp_path / "six.toml"
    levels = "".join(f'[factor.queue.q{n}]\ndown.queue.limit = "{5 * n} packets"\n' for n in range(1, 7))
    file.write_text(
        f"replications = 40\n{(EXAMPLE.parent / 'first.toml').read_text('utf-8')}{levels}", encoding="utf-8"
    )
    return file


@pytest.mark.long(covers=COVERS, seconds=8)
def test_work_that_kills_its_workers_is_named_and_nothing_else(tmp_path: Path) -> None:
    code, _, error = run_with_deaths(1000, tmp_path)
    assert code == 2
    assert re.fullmatch(
        r"Error: 1 worker died while running only queue=q3, replications \d+ to \d+; "
        r"the last was tcp://[\d.:]+\. Its log shows the reason, which is often a lack of memory\.",
        error.splitlines()[-1],  # on a slow machine stderr also has progress
    )


@pytest.mark.long(covers=COVERS, seconds=8)
def test_deaths_that_are_not_the_fault_of_the_work_end_nothing(tmp_path: Path) -> None:
    code, output, _ = run_with_deaths(1, tmp_path)
    assert code == 0
    assert re.findall("Lost .*", output) == ["Lost 1 worker; their tasks were repeated by others."]
    assert ended(lasthop("run", tmp_path / "six.toml", "--quiet", "--out", tmp_path / "threads"))[0] == 0
    assert equal(tmp_path / "threads", tmp_path / "dask")


def test_a_folder_goes_on_here_when_the_scheduler_has_died(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Cluster(tmp_path / "log") as cluster:
        cluster.start_worker()
        cluster.wait_for_workers(1)
        process = lasthop("run", EXAMPLE, *LONG, "--cluster", cluster.address, "--out", out)
        wait_for_results(process, out)
        cluster.scheduler.kill()
        code, _, error = ended(process)
    assert code == 2
    assert re.fullmatch(
        rf"Error: The scheduler at {cluster.address} has disappeared\. "
        rf"[1-9]\d* of {RUNS} runs are stored in {out}\. Repeat .*\n",
        error,
    )
    assert ended(lasthop("run", EXAMPLE, *LONG, "--out", out)) == (0, "", "")
    assert equal(out, whole)


@pytest.mark.parametrize("ask", [Client.nthreads, partial(Client.gather, futures=[])])
def test_a_scheduler_that_dasks_client_gave_up_is_an_error(
    cluster: Cluster, ask: Callable[[Client], object]
) -> None:
    client = Client(cluster.address)
    client.close()
    place = DaskPlace(client, cluster.address)
    with (
        pytest.raises(PlaceLostError, match=f"The scheduler at {cluster.address} has disappeared"),
        place.using_scheduler(),
    ):
        ask(client)


@pytest.mark.long(covers=COVERS, seconds=12)
def test_local_processes_run_it_and_leave_nothing_behind(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = lasthop("run", EXAMPLE, *LONG, "--cluster", "local:2", "--out", out)
    wait_for_results(process, out)
    children = [int(child) for child in children_of(process.pid)]
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    code, _, error = ended(process)
    assert code == 130, error
    assert error.startswith("Stopped: ")
    assert error.count("\n") == 1
    deadline = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ended(lasthop("run", EXAMPLE, *LONG, "--cluster", "local:2", "--out", out))[0] == 0
    assert equal(out, whole)


def children_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()


def survive(count: int, replications: int, tmp_path: Path) -> None:
    """Kill runner, workers and scheduler at random moments; every folder that is finished equals an
    undisturbed one.
    """
    options = ("--only", "memory=none", "--replications", str(replications), "--quiet")
    whole = tmp_path / "whole"
    assert ended(lasthop("run", EXAMPLE, *options, "--out", whole)) == (0, "", "")
    moments = random.Random(2003)
    folders = (tmp_path / f"out-{number}" for number in itertools.count())
    out, runner = next(folders), None
    with Cluster(tmp_path / "log") as cluster:
        cluster.restart()
        started = time.monotonic()
        assert (
            ended(
                lasthop("run", EXAMPLE, *options, "--cluster", cluster.address, "--out", tmp_path / "first")
            )[0]
            == 0
        )
        undisturbed_s = time.monotonic() - started  # on this machine, at the moment
        for _ in range(count):
            cluster.restart()
            if runner is None or runner.poll() is not None:
                if runner is not None:
                    code, _, error = ended(runner)
                    assert "Traceback" not in error
                    if code == 0:
                        assert equal(out, whole)
                        out = next(folders)
                runner = lasthop("run", EXAMPLE, *options, "--cluster", cluster.address, "--out", out)
            time.sleep(moments.uniform(0.0, 1.2 * undisturbed_s))
            victim = moments.choice([runner, cluster.scheduler, *cluster.workers])
            victim.kill()
            victim.communicate()
        runner.kill()
        runner.communicate()
    code, output, _ = ended(lasthop("run", EXAMPLE, *options[:-1], "--out", out))
    assert code == 0
    assert "Resuming" in output or next(folders).name != "out-1"  # killed while running
    assert equal(out, whole)


@pytest.mark.long(covers=COVERS, seconds=12)
def test_random_kills_of_runner_workers_and_scheduler_change_nothing(tmp_path: Path) -> None:
    survive(8, 1500, tmp_path)


@pytest.mark.long(by_hand="a night of kills")
def test_a_night_of_random_kills_changes_nothing(tmp_path: Path) -> None:
    survive(int(os.environ.get("LASTHOP_KILLS", "1000")), RUNS, tmp_path)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--engine", "live"), "--engine live does not run on a cluster: its results depend on the timing"),
        (("--pcap",), "--pcap does not work with --cluster, as captures are written on this machine"),
        (("--jobs", "2"), "--jobs sets the number of threads of this process"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused(
    options: tuple[str, ...], reason: str, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", EXAMPLE, "--cluster", "local:2", *options) == 2
    assert reason in capsys.readouterr().err
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("slrum:jobs.toml", "--cluster slrum:jobs.toml: did you mean slurm:FILE?"),
        ("4", "--cluster 4: did you mean "),
        ("local:none", "--cluster local:none: give the number of processes, as in local:4."),
        ("local:0", "--cluster local:0: give the number of processes, as in local:4."),
        ("tcp://", "--cluster tcp://: write the scheduler's address like tcp://HOST:8786."),
        (
            "tcp://host:port",
            "--cluster tcp://host:port: write the scheduler's address like tcp://HOST:8786.",
        ),
    ],
)
def test_what_names_no_cluster_is_refused(
    named: str, reason: str, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", EXAMPLE, "--cluster", named) == 2
    assert reason in capsys.readouterr().err


def test_a_scheduler_that_is_not_there_is_named(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    assert lasthop_main("run", EXAMPLE, "--cluster", address) == 2
    error = capsys.readouterr().err
    assert f"Cannot reach a scheduler at {address}: [Errno 111] Connection refused" in error
    assert error.count("\n") == 1


def test_something_silent_is_no_scheduler(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, "_CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert lasthop_main("run", EXAMPLE, "--cluster", address) == 2
    assert f"No Dask scheduler answers at {address} within 1 s." in capsys.readouterr().err


def test_without_dask_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = 'raise ModuleNotFoundError("No module named \'distributed\'", name="distributed")'
    (tmp_path / "distributed.py").write_text(missing, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    code, _, error = ended(lasthop("run", EXAMPLE, "--cluster", "local:2", "--out", tmp_path / "out"))
    assert code == 2
    assert error == (
        "Error: --cluster needs packages that are not installed (distributed). Run: pip install "
        "'lasthop[cluster]'\n"
    )


JOB = {"cores": 4, "memory": "8 GB", "processes": 4, "walltime": "01:00", "queue": "short", "jobs": 10}


@pytest.mark.parametrize(
    ("system", "directive"),
    [
        ("slurm", "#SBATCH -p short"),
        ("pbs", "#PBS -q short"),
        ("sge", "#$ -q short"),
        ("lsf", "#BSUB -q short"),
    ],
)
def test_a_dry_run_shows_the_job_script(system: str, directive: str, tmp_path: Path) -> None:
    if system == "slurm":  # as in the files of dask-jobqueue
        file = tmp_path / "jobs.yaml"
        lines = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in JOB.items())
        file.write_text(
            f"jobqueue:\n  {system}:\n{lines}    job-extra-directives: ['--exclusive']\n", encoding="utf-8"
        )
    else:
        file = tmp_path / "jobs.toml"
        file.write_text(
            "".join(f"{key} = {json.dumps(value)}\n" for key, value in JOB.items()), encoding="utf-8"
        )
    code, script, error = ended(lasthop("run", EXAMPLE, "--cluster", f"{system}:{file}", "--dry-run"))
    assert (code, error) == (0, "")
    assert directive in script.splitlines()
    assert ("#SBATCH --exclusive" in script.splitlines()) == (system == "slurm")
    assert " -P -m distributed.cli.dask_worker " in script
    assert re.search(r"dask_worker tcp://\S+ .*--nthreads 1 .*--nworkers 4 ", script)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of a cluster that Dask did not make
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cores = 4\nmemory = '8 GB'\n", r"the number of jobs is missing or invalid\. Write it as jobs = 10"),
        (
            "jobs = 1\nqeue = 'short'\n",
            r"'qeue' is not an option of dask-jobqueue's SLURMCluster; did you mean 'queue'\?",
        ),
        ("jobs = 1\n", r"You must specify how much cores and memory"),
        ("jobs: 1\n", r"jobs.toml is not valid TOML: .* or YAML if its name ends in"),
        ("[jobqueue.pbs]\njobs = 1\n", r"jobs.toml has no section jobqueue.slurm\. Its sections: pbs\."),
        (None, r"Cannot read .*jobs.toml: there is no such file\."),
    ],
)
def test_a_file_of_options_that_is_wrong_is_refused(text: str | None, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        jobs.script("slurm", file)


def test_a_machine_without_the_batch_system_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text("jobs = 1\ncores = 1\nmemory = '1 GB'\n", encoding="utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="this machine has no command qsub"), jobs.submitted("pbs", file):
        pass


def test_a_job_that_is_refused_is_an_error(tmp_path: Path) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n", encoding="utf-8")
    sbatch.chmod(0o755)
    file = tmp_path / "jobs.toml"
    file.write_text("jobs = 1\ncores = 1\nmemory = '1 GB'\n", encoding="utf-8")
    where = ("--cluster", f"slurm:{file}", "--out", tmp_path / "out")
    code, _, error = ended(
        lasthop("run", EXAMPLE, *where, environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    )
    assert code == 2
    assert f"slurm refused the job of {file}: " in error
    assert "invalid partition" in error
    assert "Traceback" not in error


def test_a_dry_run_needs_a_batch_system(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ((), ("--cluster", "local:2")):
        assert lasthop_main("run", EXAMPLE, "--dry-run", *options) == 2
        assert "give --cluster slurm:FILE" in capsys.readouterr().err


def work(cell: int, count: int, *, step: int = 1, chained: bool = False) -> Work:
    return Work(
        Unit(1, cell), f"source {cell}", 1, count, record=True, capture=False, step=step, chained=chained
    )


def test_a_bundle_takes_about_the_requested_time() -> None:
    agenda = Agenda([work(0, 1000), work(1, 10), work(2, 10), work(3, 5, step=5), work(4, 5)])
    [first] = agenda.bundle(1.0)
    assert first.count == 1  # no durations yet
    agenda.complete(first, 0.01, None)
    assert agenda.left_s() == pytest.approx(10.29)
    assert [(each.first, each.count) for each in agenda.bundle(1.0)] == [(2, 100)]
    assert sum(each.count for each in agenda.bundle(8.0)) == 800
    bundle = agenda.bundle(
        1.1
    )  # 99 left of the first cell, then one of each cell of unknown cost, and a chain of five
    assert [(each.unit.cell, each.count) for each in bundle] == [(0, 99), (1, 1), (2, 1), (3, 5), (4, 1)]
    agenda.complete(bundle[1], 1.0, None)
    assert [(each.unit.cell, each.count) for each in agenda.bundle(3.0)] == [(1, 3)]
    left = [each for bundle in iter(lambda: agenda.bundle(60.0), []) for each in bundle]
    assert sum(each.count for each in left) == 6 + 9 + 4
    assert not agenda.left()


def test_the_rest_of_a_chain_waits_for_the_memory_of_its_slice() -> None:
    agenda = Agenda([work(0, 7, step=2, chained=True), work(1, 1)])
    first, other = agenda.take(), agenda.take()
    assert first is not None
    assert other is not None
    assert (first.first, first.count, first.memory, other.unit.cell) == (1, 2, None, 1)
    assert not agenda.left()
    agenda.complete(first, 2.0, "after two")
    [second] = agenda.bundle(5.0)
    assert (second.first, second.count, second.memory) == (3, 4, "after two")
    last = agenda.take_after(second, 4.0, "after six")
    assert last is not None
    assert (last.first, last.count, last.memory) == (7, 1, "after six")
    assert agenda.take_after(last, 1.0, "the end") is None


def test_a_bundle_contains_few_cells_of_unknown_cost() -> None:
    agenda = Agenda([work(cell, 2) for cell in range(200)])
    [first] = agenda.bundle(1.0)
    agenda.complete(first, 0.001, None)
    assert len(agenda.bundle(1.0)) == 51


def test_progress_shows_what_workers_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lasthop.campaign.progress._LINE_EVERY_S", 0.0)
    with progress(4, 1, quiet=False, detail=lambda: ["2 workers, 2 threads"]) as advance:
        advance(1)
    assert re.fullmatch(r"2 of 4 runs, .* left\n2 workers, 2 threads\n", capsys.readouterr().err)
