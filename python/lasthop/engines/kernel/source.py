"""Kernel sources: the distribution's package, or a path that the user gives."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lasthop.errors import InputError, nearest

_INSTALLED = Path("/usr/src")
_PACKAGE = "linux-source-"
_RELEASE = re.compile(r"\d+\.\d+")
# From this release on, User-Mode Linux can follow its processes by seccomp.
_SECCOMP_SINCE = (6, 16)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a kernel's source lies, a tree or an archive of one."""

    path: Path
    origin: str
    sha256: str | None
    release: str | None
    """Version of the distribution's package, if it is one."""
    choice: str
    """Why this source was chosen."""


def find_source(wanted: str | None, folder: Path) -> Source:
    """Find the source of a release such as 6.12, or at a path; by default, of the newest release to be had.

    A package is fetched into `folder`. Raises `InputError` if there is none.
    """
    if wanted is None:
        return _of_release(*_newest(), folder)
    choice = "named with --source"
    path = Path(wanted)
    if path.is_dir() and (path / "arch" / "um").is_dir():
        return Source(path.resolve(), str(path.resolve()), None, None, choice)
    if path.is_file():
        return Source(path, str(path.resolve()), _sha256(path), None, choice)
    if not _RELEASE.fullmatch(wanted):
        raise InputError(
            f"--source {wanted}: this is not a release such as 6.12, a kernel's source tree, or an archive "
            "of one."
        )
    return _of_release(wanted, choice, folder)


def _newest() -> tuple[str, str]:
    """Return the newest release whose source is installed or known to apt, and the reason for choosing it.

    A newer release can do whatever an older one can: if any has seccomp, the newest has it.
    """
    installed = [
        file.name.removeprefix(_PACKAGE).partition(".tar.")[0] for file in _INSTALLED.glob(f"{_PACKAGE}*")
    ]
    releases = sorted({*filter(_RELEASE.fullmatch, installed), *_known_releases()}, key=_numbers)
    if not releases:
        raise InputError(
            f"No kernel's source is known here (a package {_PACKAGE}RELEASE). On a Debian-like system, "
            "refresh apt's lists with 'apt-get update' as root. Elsewhere, unpack a source, for example "
            "from kernel.org, and give its folder with --source PATH."
        )
    release = releases[-1]
    has = _numbers(release) >= _SECCOMP_SINCE
    seccomp = "has seccomp" if has else "lacks seccomp, which begins with {}.{}".format(*_SECCOMP_SINCE)
    return release, f"the newest of the releases here ({', '.join(releases)}); it {seccomp}"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _of_release(release: str, choice: str, folder: Path) -> Source:
    package = _PACKAGE + release
    installed = _archive(_INSTALLED, release)
    if installed is None:
        _fetch(package, folder)
        installed = _archive(folder / "usr" / "src", release)
    if installed is None:
        raise InputError(f"The package {package} has no archive of a kernel's source.")
    return Source(installed, package, _sha256(installed), release, choice)


def _archive(folder: Path, release: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{_PACKAGE}{release}.tar.*"))), None)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(package: str, folder: Path) -> None:
    """Fetch a package without installing it, which needs no root; apt checks its signature and checksum."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise InputError(
            f"This is not a Debian-like system, so lasthop cannot fetch {package}. Unpack a kernel's source, "
            "for example from kernel.org, and give its folder with --source PATH."
        )
    releases = _known_releases()
    release = package.removeprefix(_PACKAGE)
    if release not in releases:
        others = (
            f"it knows {', '.join(releases)}; the nearest is {nearest(release, releases)}"
            if releases
            else "nor any other"
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


def _known_releases() -> list[str]:
    """Return the releases whose source apt can fetch, oldest first."""
    if shutil.which("apt-cache") is None:
        return []
    done = subprocess.run(
        ["apt-cache", "search", "--names-only", rf"^{_PACKAGE}[0-9.]+$"],
        capture_output=True,
        text=True,
        check=False,
    )
    releases = [line.split()[0].removeprefix(_PACKAGE) for line in done.stdout.splitlines() if line.strip()]
    return sorted(filter(_RELEASE.fullmatch, releases), key=_numbers)
