"""Optional packages, which only some commands need; `lasthop[all]` installs them all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from lasthop.common.errors import InputError

ANOVA = "anova"
CLUSTER = "cluster"
LAB = "lab"
SQL = "sql"
STACKS = "stacks"


@contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Raise `InputError` with the command to install the extra `name` if an import in this context fails.

    `purpose` is the user's request.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "lasthop":
            raise
        raise _missing(package, name, purpose) from error


def require(package: str, name: str, purpose: str) -> None:
    """Raise `InputError` if a package is not installed."""
    if find_spec(package) is None:
        raise _missing(package, name, purpose)


def tools_missing(purpose: str, packages: Iterable[str]) -> InputError:
    """Return the error for missing programs of the system; `packages` are Debian's."""
    return InputError(
        f"Packages for {purpose} are missing. Run 'apt-get install {' '.join(packages)}' as root (Debian's "
        "names), then try again."
    )


def _missing(package: str, name: str, purpose: str) -> InputError:
    return InputError(
        f"{purpose} needs packages that are not installed ({package}). Run: pip install 'lasthop[{name}]'"
    )
