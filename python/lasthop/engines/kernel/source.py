"""Kernel sources: a package of the distribution, or the user's path."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from lasthop.common.errors import InputError, nearest
from lasthop.engines.kernel.apt import PACKAGE, RELEASE, Apt, numbers, other_suites, source_package
from lasthop.engines.kernel.changes import BUILT

_INSTALLED = Path("/usr/src")
# The first release whose User-Mode Linux can control its processes by seccomp.
_SECCOMP_SINCE = (6, 16)


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel's source: a tree or an archive."""

    path: Path
    origin: str
    sha256: str | None
    release: str | None
    """The version of the distribution's package, if it is one."""
    choice: str
    """The reason for choosing this source."""


def find_source(wanted: str | None, folder: Path) -> Source:
    """Return the source of a release such as 6.12, or at a path; by default of the newest available release.

    A package is fetched into `folder`. Raises `InputError` if the source does not exist.
    """
    if wanted is None:
        return _of_release(*_newest(), folder)
    choice = "named with --source"
    path = Path(wanted)
    if path.is_dir() and (path / "arch" / "um").is_dir():
        return Source(path.resolve(), str(path.resolve()), None, None, choice)
    if path.is_file():
        return Source(path, str(path.resolve()), _sha256(path), None, choice)
    if not RELEASE.fullmatch(wanted):
        raise InputError(
            f"--source {wanted} is neither a release such as 6.12, nor a kernel's source tree or an archive "
            "of it."
        )
    return _of_release(wanted, choice, folder)


def _newest() -> tuple[str, str]:
    """Return the newest release whose source is installed or available to apt, and the reason for it."""
    installed = [
        file.name.removeprefix(PACKAGE).partition(".tar.")[0] for file in _INSTALLED.glob(f"{PACKAGE}*")
    ]
    releases = sorted({*filter(RELEASE.fullmatch, installed), *Apt().releases()}, key=numbers)
    if not releases:
        raise InputError(
            f"No kernel source is available (a package {PACKAGE}RELEASE). On a Debian-like system, refresh "
            "apt's lists with 'apt-get update' as root. On other systems, unpack a source, for example from "
            "kernel.org, and give its folder with --source PATH."
        )
    release = releases[-1]
    has_seccomp = numbers(release) >= _SECCOMP_SINCE
    seccomp = "has seccomp" if has_seccomp else "lacks seccomp, new in {}.{}".format(*_SECCOMP_SINCE)
    return release, f"the newest available release ({', '.join(releases)}); it {seccomp}{_newer(release)}"


def _newer(release: str) -> str:
    """Return a hint on newer releases in Debian's other suites, if any."""
    newer = [other for other in BUILT if numbers(other) > numbers(release)]
    if not newer or Apt().mirror() is None:
        return ""
    return f"; newer: {', '.join(newer)}, from Debian's other suites with --source {newer[-1]}"


def _of_release(release: str, choice: str, folder: Path) -> Source:
    package = PACKAGE + release
    archive = _archive(_INSTALLED, release)
    if archive is None:
        source = _apt_with(release, folder).fetch(package, folder)
        archive = _archive(folder / "usr" / "src", release)
    else:
        source = source_package(package)
    if archive is None:
        raise InputError(f"The package {package} contains no archive of a kernel's source.")
    origin = f"{package} (source package {source})" if source else package
    return Source(archive, origin, _sha256(archive), release, choice)


def _apt_with(release: str, folder: Path) -> Apt:
    """Return apt, if necessary with Debian's other suites, so that it can fetch a release."""
    package = PACKAGE + release
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise InputError(
            f"This is not a Debian-like system, so lasthop cannot fetch {package}. Unpack a kernel's source, "
            "for example from kernel.org, and give its folder with --source PATH."
        )
    releases = Apt().releases()
    if release in releases:
        return Apt()
    others = other_suites(folder)
    if others is not None:
        if release in (elsewhere := others.releases()):
            return others
        releases = sorted({*releases, *elsewhere}, key=numbers)
    available = (
        f"available: {', '.join(releases)}; the nearest is {nearest(release, releases)}"
        if releases
        else "no release is available"
    )
    where = "" if others is None else ", not even in Debian's other suites"
    raise InputError(
        f"apt does not find the package {package}{where} ({available}). Choose another release, refresh "
        "apt's lists with 'apt-get update' as root, or give an unpacked source with --source PATH."
    )


def _archive(folder: Path, release: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{PACKAGE}{release}.tar.*"))), None)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
