"""Packages of kernel sources: apt fetches them without installing them, which needs no root."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lasthop.common.errors import InputError

PACKAGE = "linux-source-"
RELEASE = re.compile(r"\d+\.\d+")
# Debian's suites with newer kernels.
_SUITES = ("trixie-backports", "sid")
_SOURCE_PACKAGE = "--showformat=${source:Package} ${source:Version}"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True, slots=True)
class Apt:
    """apt with these options, by default with the machine's configuration."""

    options: tuple[str, ...] = ()

    def releases(self) -> list[str]:
        """Return the releases whose source is available, oldest first."""
        if shutil.which("apt-cache") is None:
            return []
        done = self._run("apt-cache", "search", "--names-only", rf"^{PACKAGE}[0-9.]+$")
        names = [line.split()[0].removeprefix(PACKAGE) for line in done.stdout.splitlines() if line.strip()]
        return sorted(filter(RELEASE.fullmatch, names), key=numbers)

    def fetch(self, package: str, folder: Path) -> str:
        """Fetch a package and unpack it into a folder; apt checks its signature and checksum.

        Return the name and the version of its source package.
        """
        done = self._run("apt-get", "download", "--quiet=2", package, folder=folder)
        packages = list(folder.glob(f"{package}_*.deb"))
        if done.returncode != 0 or not packages:
            raise InputError(f"apt-get cannot fetch {package}: {done.stderr.strip()}")
        subprocess.run(["dpkg-deb", "--extract", packages[0], folder], check=True)
        command = ["dpkg-deb", "--show", _SOURCE_PACKAGE, str(packages[0])]
        source: str = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        packages[0].unlink()
        return source

    def update(self) -> None:
        done = self._run("apt-get", "update", "--quiet=2")
        if done.returncode != 0:
            raise InputError(f"apt-get cannot read Debian's other suites: {done.stderr.strip()}")

    def mirror(self) -> str | None:
        """Return the address of Debian's archive on this machine; `None` if it does not run Debian."""
        if shutil.which("apt-get") is None:
            return None
        query = ("indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages")
        lines = (line.split() for line in self._run("apt-get", *query).stdout.splitlines())
        return next((words[1] for words in lines if len(words) == 2 and words[0] == "Debian"), None)

    def _run(
        self, program: str, *arguments: str, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        options = (part for option in self.options for part in ("-o", option))
        return subprocess.run(
            [program, *options, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )


def numbers(release: str) -> tuple[int, ...]:
    """Return the sort key of a release."""
    return tuple(map(int, release.split(".")))


def source_package(package: str) -> str:
    """Return the name and the version of an installed package's source; "" if dpkg does not know it."""
    if shutil.which("dpkg-query") is None:
        return ""
    command = ["dpkg-query", "--show", _SOURCE_PACKAGE, package]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def other_suites(folder: Path) -> Apt | None:
    """Return apt for Debian's other suites on the machine's mirror; `None` if it does not run Debian.

    Its configuration, lists and cache are in `folder`; those of the machine are neither read nor changed.
    """
    mirror = Apt().mirror()
    if mirror is None:
        return None
    own = folder / "apt"
    sources, preferences, lists, cache = (own / name for name in ("sources", "preferences", "lists", "cache"))
    for new in (sources, preferences, lists / "partial", cache / "archives" / "partial"):
        new.mkdir(parents=True)
    status = own / "status"
    status.touch()
    source = ["Types: deb", f"URIs: {mirror}", f"Suites: {' '.join(_SUITES)}", "Components: main"]
    if _KEYRING.is_file():
        source.append(f"Signed-By: {_KEYRING}")
    (sources / "debian.sources").write_text("\n".join(source) + "\n", encoding="utf-8")
    apt = Apt(
        (
            "Dir::Etc::sourcelist=/dev/null",
            f"Dir::Etc::sourceparts={sources}",
            "Dir::Etc::preferences=/dev/null",
            f"Dir::Etc::preferencesparts={preferences}",
            f"Dir::State::Lists={lists}",
            f"Dir::State::status={status}",
            f"Dir::Cache={cache}",
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        )
    )
    apt.update()
    return apt
