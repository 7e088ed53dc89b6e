"""Packages that only some commands need. The plain install leaves them out; `lasthop[all]` has them all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from lasthop.common.errors import InputError

ANOVA = "anova"
CLUSTER = "cluster"
LAB = "lab"
SQL = "sql"


@contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Say how to install a missing package if an import within this context fails.

    `name` is the extra in `pyproject.toml`, `purpose` is the user's request.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "lasthop":
            raise
        raise _missing(package, name, purpose) from error


def require(package: str, name: str, purpose: str) -> None:
    """Raise `InputError` unless a package is installed, before work that would fail without it."""
    if find_spec(package) is None:
        raise _missing(package, name, purpose)


def tools_missing(purpose: str, packages: Iterable[str]) -> InputError:
    """Return the error for programs of the system that are not there, by Debian's packages."""
    return InputError(
        f"Packages for {purpose} are missing. As root, run 'apt-get install {' '.join(packages)}' (Debian's "
        "names), then try again."
    )


def _missing(package: str, name: str, purpose: str) -> InputError:
    return InputError(
        f"{purpose} needs packages that are not installed ({package}): pip install 'lasthop[{name}]'"
    )
