"""The values of `--cluster`: a running scheduler, workers on this machine, or the jobs of a batch system."""

import logging
import os
import signal
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import dask
from distributed import Client, LocalCluster

from lasthop.campaign.cluster import jobs
from lasthop.campaign.cluster.place import DaskPlace
from lasthop.common.errors import InputError, nearest

_PORT = 8786
_CONNECT_S = 5
# A terminal sends Ctrl-C to all its processes, but workers should end with the process that started them.
_IGNORE_CTRL_C = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
_FORMS = ("tcp", "tls", "local", *jobs.SYSTEMS)


@contextmanager
def cluster(where: str, say: Callable[[str], object]) -> Iterator[DaskPlace]:
    """Connect to the cluster that `--cluster` names; raise `InputError` if it cannot be used."""
    _quieten()
    kind, rest = _parsed(where)
    with dask.config.set({"distributed.comm.timeouts.connect": _CONNECT_S}), ExitStack() as stack:
        renew = None
        if kind in jobs.SYSTEMS:
            batch = stack.enter_context(jobs.submitted(kind, Path(rest)))
            client, renew = Client(batch.cluster, timeout=_CONNECT_S), batch.renew
        elif kind == "local":
            client = Client(stack.enter_context(_local(int(rest))), timeout=_CONNECT_S)
        else:
            client = _connected(where)
        stack.enter_context(client)
        say(f"cluster {where}, dashboard {client.dashboard_link}")
        yield DaskPlace(client, where, renew)


def check(where: str) -> None:
    """Raise `InputError` for an invalid value of `--cluster`."""
    _parsed(where)


def script(where: str) -> str:
    """Return the job script for the batch system that `--cluster` names."""
    kind, rest = _parsed(where)
    if kind not in jobs.SYSTEMS:
        raise InputError(
            "--dry-run prints the job script of a batch system: give --cluster slurm:FILE (or pbs, sge, "
            "lsf), or omit it."
        )
    _quieten()
    return jobs.script(kind, Path(rest))


def _quieten() -> None:
    """Silence Dask's own messages; lasthop reports the same errors in its own words."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", message="Port .* is already in use")  # by another dashboard


def _parsed(where: str) -> tuple[str, str]:
    """Return the kind of cluster and its argument."""
    kind, colon, rest = where.partition(":")
    if not colon or kind not in _FORMS:
        near = nearest(kind, _FORMS)
        forms = {"tcp": "tcp://HOST:8786", "tls": "tls://HOST:8786", "local": "local:4"}
        raise InputError(
            f"--cluster {where}: did you mean {forms.get(near, f'{near}:FILE')}? Give tcp://HOST:PORT or "
            "tls://HOST:PORT for a running scheduler, local:N for N processes on this machine, or "
            f"{', '.join(jobs.SYSTEMS)} with a file of options, as in slurm:FILE."
        )
    if kind == "local" and not (rest.isdecimal() and int(rest) > 0):
        raise InputError(f"--cluster {where}: give the number of processes, as in local:4.")
    return kind, rest


def _connected(address: str) -> Client:
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:  # the port is not a number
        host, port = None, _PORT
    if not host:
        raise InputError(f"--cluster {address}: write the scheduler's address like tcp://HOST:8786.")
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_S) as probe:
            # A scheduler greets each client. Dask's client would wait forever for any other server.
            silent = parts.scheme == "tcp" and not probe.recv(1)
    except TimeoutError as error:
        raise InputError(f"No Dask scheduler answers at {address} within {_CONNECT_S} s.") from error
    except OSError as error:
        raise InputError(
            f"Cannot reach a scheduler at {address}: {error}. Start one with 'dask scheduler', or correct "
            "the address."
        ) from error
    if silent:
        raise InputError(f"The server at {address} is not a Dask scheduler: it closes the connection.")
    try:
        return Client(f"{parts.scheme}://{parts.netloc}", timeout=_CONNECT_S)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"The server at {address} is not a usable Dask scheduler: {error}.") from error


@contextmanager
def _safe_path() -> Iterator[None]:
    """Prevent new Python processes from importing modules from the current folder."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _local(processes: int) -> Iterator[LocalCluster]:
    # A process per worker: short runs spend some of their time in Python, where threads wait for each other,
    # and a killed worker must not affect others.
    with (
        _safe_path(),
        LocalCluster(
            n_workers=processes,
            threads_per_worker=1,
            silence_logs=logging.CRITICAL,
            env={"POLARS_MAX_THREADS": "1"},
            preload=_IGNORE_CTRL_C,
        ) as cluster,
    ):
        try:
            yield cluster
        except BaseException:
            # Otherwise closing would wait for runs in progress.
            for nanny in cluster.workers.values():
                nanny.auto_restart = False
                if (worker := nanny.pid) is not None:
                    with suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
            raise
