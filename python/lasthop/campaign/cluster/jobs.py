"""Workers as jobs of a batch system, through dask-jobqueue."""

import inspect
import logging
import shutil
import signal
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
from dask.config import collect_yaml

from lasthop import _core
from lasthop.common.errors import InputError, nearest

SYSTEMS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}
"""dask-jobqueue's class for each batch system."""
_JOBS = "jobs"
# Parameters that are not options of a job, or that lasthop sets.
_OURS = {
    "self", "args", "kwargs", "job_kwargs", "base_class_kwargs", "job_cls", "n_workers", "loop",
    "asynchronous", "silence_logs", "scheduler", "scheduler_cls", "name", "config_name", "dashboard_address",
    "host",
}  # fmt: skip


def _class(system: str) -> Any:  # noqa: ANN401  dask-jobqueue has no types
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    import dask_jobqueue

    for number, handler in handlers.items():  # importing dask-jobqueue replaces these handlers
        signal.signal(number, handler)
    return getattr(dask_jobqueue, SYSTEMS[system])


@dataclass(frozen=True, slots=True)
class Submitted:
    """A cluster of jobs, and how many there should be."""

    cluster: Any
    jobs: int

    def renew(self) -> None:
        """Replace jobs that have ended."""
        self.cluster.scale(jobs=self.jobs)


@contextmanager
def submitted(system: str, file: Path) -> Iterator[Submitted]:
    """Submit the jobs that a file describes, and cancel them at the end; raise `InputError` on failure."""
    options = _options(system, file)
    count = options.pop(_JOBS)
    command = _class(system).job_cls.submit_command.split()[0]
    if shutil.which(command) is None:
        raise InputError(
            f"--cluster {system}:{file}: this machine has no command {command}. Run lasthop on a machine "
            "that submits jobs, or print the script with --dry-run."
        )
    with _without_jobs(system, file, options) as cluster:
        batch = Submitted(cluster, count)

        async def submit() -> None:
            batch.renew()
            await cluster._correct_state()  # raises if the job is refused, which Dask would only log

        try:
            cluster.sync(submit)
        except (RuntimeError, ValueError) as error:
            raise InputError(f"{system} refused the job of {file}: {' '.join(str(error).split())}") from error
        yield batch


def script(system: str, file: Path) -> str:
    """Return the script of a job that a file describes."""
    options = _options(system, file)
    options.pop(_JOBS)
    with _without_jobs(system, file, options) as cluster:
        return str(cluster.job_script())


@contextmanager
def _without_jobs(system: str, file: Path, options: dict[str, object]) -> Iterator[Any]:
    """Yield a cluster without jobs."""
    # -P: do not import modules from the folder where the job runs.
    python = options.pop("python", None) or dask.config.get(f"jobqueue.{system}.python") or sys.executable
    try:
        cluster = _class(system)(**options, python=f"{python} -P", silence_logs=logging.CRITICAL)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{file}: {error}") from error
    try:
        yield cluster
    finally:
        with suppress(AssertionError):  # Dask expects that jobs ended, but refused jobs never started
            cluster.close()


def _options(system: str, file: Path) -> dict[str, Any]:
    """Read the options of a cluster, by dask-jobqueue's names, and lasthop's own option `jobs`."""
    content = _content(file)
    if isinstance(content.get("jobqueue"), dict):  # as in dask-jobqueue's own files
        sections = content["jobqueue"]
        if not isinstance(sections.get(system), dict):
            raise InputError(
                f"{file} has no section jobqueue.{system}. Its sections: {', '.join(sections) or 'none'}."
            )
        content = sections[system]
    options = {str(key).replace("-", "_"): value for key, value in content.items()}
    names = _option_names(system)
    for key in options:
        if key not in names:
            raise InputError(
                f"{file}: '{key}' is not an option of dask-jobqueue's {SYSTEMS[system]}; did you mean "
                f"'{nearest(key, names)}'?"
            )
    if type(options.get(_JOBS)) is not int or options[_JOBS] < 1:
        raise InputError(
            f"{file}: the number of jobs is missing or invalid. Write it as {_JOBS} = 10 (in YAML {_JOBS}: "
            "10)."
        )
    return options


def _content(file: Path) -> dict[str, Any]:
    try:
        text = _core.read_file(str(file))
    except _core.ScenarioError as error:
        raise InputError(f"Cannot read {error}.") from error
    try:
        content: object
        if file.suffix in (".yaml", ".yml"):
            content = next(iter(collect_yaml([str(file)])), {})
        else:
            content = tomllib.loads(text.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(
            f"{file} is not valid TOML: {error}. A file of options is TOML, or YAML if its name ends in "
            ".yaml or .yml."
        ) from error
    except ValueError as error:
        raise InputError(str(error)) from error
    if not isinstance(content, dict):
        raise InputError(f"{file} contains no options: write one per line, as in cores = 8.")
    return content


def _option_names(system: str) -> set[str]:
    cluster = _class(system)
    names = {_JOBS}
    for base in (*cluster.__mro__, *cluster.job_cls.__mro__):
        if base.__module__.startswith("dask_jobqueue"):
            names |= inspect.signature(base.__init__).parameters.keys()
    return names - _OURS
