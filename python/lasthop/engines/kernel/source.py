"""Kernel sources: the distribution's package, or a path that the user gives."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lasthop.errors import InputError, nearest

DEFAULT_RELEASE = "6.12"
_INSTALLED = Path("/usr/src")
_PACKAGE = "linux-source-"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a kernel's source lies, a tree or an archive of one."""

    path: Path
    origin: str
    sha256: str | None


def find_source(wanted: str, folder: Path) -> Source:
    """Find the source of a release such as 6.12, or at a path; a package is fetched into `folder`.

    Raises `InputError` if there is none.
    """
    path = Path(wanted)
    if path.is_dir() and (path / "arch" / "um").is_dir():
        return Source(path.resolve(), str(path.resolve()), None)
    if path.is_file():
        return Source(path, str(path.resolve()), _sha256(path))
    if not re.fullmatch(r"\d+\.\d+", wanted):
        raise InputError(
            f"--source {wanted}: this is not a release such as {DEFAULT_RELEASE}, a kernel's source tree, or an "
            "archive of one."
        )
    package = _PACKAGE + wanted
    installed = _archive(_INSTALLED, wanted)
    if installed is None:
        _fetch(package, folder)
        installed = _archive(folder / "usr" / "src", wanted)
    if installed is None:
        raise InputError(f"The package {package} has no archive of a kernel's source.")
    return Source(installed, package, _sha256(installed))


def _archive(folder: Path, release: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{_PACKAGE}{release}.tar.*"))), None)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(package: str, folder: Path) -> None:
    """Fetch a package without installing it, which needs no root; apt checks its signature and checksum."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise InputError(
            f"This is not a Debian-like system, so lasthop cannot fetch {package}. Unpack a kernel's source, for "
            "example from kernel.org, and give its folder with --source PATH."
        )
    known = _known_packages()
    if package not in known:
        releases = [name.removeprefix(_PACKAGE) for name in known]
        release = package.removeprefix(_PACKAGE)
        others = (
            f"it knows {', '.join(releases)}; the nearest is {nearest(release, releases)}" if known else "nor any other"
        )
        raise InputError(
            f"apt knows no package {package} ({others}). Choose one of these, refresh apt's lists with "
            "'apt-get update' as root, or give an unpacked source with --source PATH."
        )
    done = subprocess.run(
        ["apt-get", "download", "--quiet=2", package], cwd=folder, capture_output=True, text=True, check=False
    )
    packages = list(folder.glob(f"{package}_*.deb"))
    if done.returncode != 0 or not packages:
        raise InputError(f"apt-get cannot fetch {package}: {done.stderr.strip()}")
    subprocess.run(["dpkg-deb", "--extract", packages[0], folder], check=True)
    packages[0].unlink()


def _known_packages() -> list[str]:
    done = subprocess.run(
        ["apt-cache", "search", "--names-only", rf"^{_PACKAGE}[0-9.]+$"], capture_output=True, text=True, check=False
    )
    return sorted(line.split()[0] for line in done.stdout.splitlines() if line.strip())
