"""Running a campaign on a Dask cluster.

`place` hands out work, `worker` runs it, `where` and `jobs` find workers. Dask is an optional dependency,
which is imported only when it is needed.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType

from lasthop.campaign.runner import Place
from lasthop.common.errors import InputError
from lasthop.common.extras import CLUSTER, extra
from lasthop.engines.engine import Engine


def _where() -> ModuleType:
    """Return the module that needs Dask."""
    with extra(CLUSTER, "--cluster"):
        from lasthop.campaign.cluster import where
    return where


def check_cluster(
    where: str, *, engine: Engine, jobs: int | None, captures: bool, code: Iterable[str] = ()
) -> None:
    """Raise `InputError` for runs that are impossible on the cluster that `--cluster` names."""
    _where().check(where)
    if not engine.repeatable:
        raise InputError(
            f"--engine {engine.name} does not run on a cluster: its results depend on the timing of the "
            "machine, which workers share. Omit --cluster, or use --engine kernel."
        )
    for name in code:
        raise InputError(
            f"--cluster: the scenario uses your own code {name}, which the workers may not have. Omit "
            "--cluster."
        )
    if captures:
        raise InputError(
            "--pcap does not work with --cluster, as captures are written on this machine. Omit --pcap: "
            "'lasthop export' captures single runs, and the same command without --cluster captures all."
        )
    if jobs is not None:
        raise InputError(
            "--jobs sets the number of threads of this process, but --cluster runs elsewhere: omit one of "
            "them."
        )


@contextmanager
def opened(where: str, say: Callable[[str], object]) -> Iterator[Place]:
    """Connect to the cluster that `--cluster` names, as the place where a campaign runs."""
    with _where().cluster(where, say) as place:
        yield place


def job_script(where: str | None) -> str:
    """Return the job script for the batch system that `--cluster` names."""
    if where is None:
        raise InputError("--dry-run prints the job script of a batch system: give --cluster slurm:FILE.")
    return str(_where().script(where))
