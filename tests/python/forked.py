"""Programs in processes of their own, forked from one that has loaded their modules: that takes longer than a
test.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["lasthop.commands.cli", "lasthop.commands.run", "lasthop.present.report.page", "distributed.cli"]
)


def _become(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], output: Path, error: Path
) -> None:
    """Do what the command line does in a process group of its own."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    for stream, file in ((1, output), (2, error)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), stream)
    sys.argv = [program, *arguments]
    if program == "dask":
        os.environ["POLARS_MAX_THREADS"] = "1"
        from dask.__main__ import main as dask

        dask()
    else:
        from lasthop.commands.cli import main

        sys.exit(main())


class Forked:
    """`dask` or `lasthop` at work, with the part of subprocess.Popen that our tests use."""

    def __init__(
        self,
        program: str,
        *arguments: str | Path,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        """Start it, with more in its environment; what it writes goes to `log` if there is one."""
        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder)
        self._output, self._error = (log or Path(folder, name) for name in ("output", "error"))
        for file in (self._output, self._error):
            file.touch()
        words, whole = [str(each) for each in arguments], {**os.environ, **(environment or {})}
        settings = (program, words, whole, self._output, self._error)
        self._process = _FORKS.Process(target=_become, args=settings, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error:
            self.kill()  # or the end of the block could wait for ever
        self.wait()

    @property
    def returncode(self) -> int | None:
        """The exit code once it has ended; negative if a signal killed it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        assert self.returncode is not None, "it still runs"
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; return standard output and standard error."""
        self.wait(timeout)
        return self._output.read_text(encoding="utf-8"), self._error.read_text(encoding="utf-8")

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen[str] | Forked


def ended(process: Process) -> tuple[int, str, str]:
    """Wait for its end; return exit code, standard output and standard error."""
    output, error = process.communicate(timeout=180)
    assert process.returncode is not None
    return process.returncode, output, error
