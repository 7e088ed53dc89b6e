"""A shell with a terminal in a guest kernel: `lasthop shell --engine kernel` without a command."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

import pytest

from lasthop.engines.kernel.store import Kernel
from test_kernel import assert_no_guests, guests, own_kernel  # noqa: F401
from test_live import MAIN

CTRL_C, CTRL_D, CTRL_Z, RUBOUT, UP = "\x03", "\x04", "\x1a", "\x7f", "\x1b[A"
PROMPT = "ready> "
# Only a program that hangs takes so long.
_LIMIT_S = 60.0
_SCREENFUL = 10_000


class Session:
    """`lasthop shell` on a terminal of its own, whose keyboard and screen we are."""

    def __init__(self, kernel: Kernel, home: Path, *arguments: str, size: tuple[int, int] = (24, 80)) -> None:
        """Start it. The shell is bash, and `home` its home, where it finds its prompt."""
        (home / ".bashrc").write_text(f"PS1='{PROMPT}'\n")
        self.keyboard, self.terminal = os.openpty()
        self.resize(size)
        self.before = termios.tcgetattr(self.terminal)
        self._seen = ""
        self.process = subprocess.Popen(
            [*(sys.executable, "-c", MAIN, "shell", "--engine", "kernel", "--link", "lte"), *arguments],
            stdin=self.terminal,
            stdout=self.terminal,
            stderr=self.terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 (we have no threads)
            env={
                **os.environ,
                "SHELL": "/bin/bash",
                "HOME": str(home),
                "TERM": "xterm",
                "XDG_CACHE_HOME": str(kernel.folder.parents[2]),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Close the window."""
        for file in filter(lambda file: file >= 0, (self.keyboard, self.terminal)):
            os.close(file)
        self.keyboard = self.terminal = -1

    def resize(self, size: tuple[int, int]) -> None:
        """Give the window so many rows and columns."""
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def types(self, keys: str) -> None:
        """Press keys."""
        os.write(self.keyboard, keys.encode())

    def shows(self, pattern: str) -> re.Match[str]:
        """Wait until the screen shows something, and look behind it from then on."""
        end = time.monotonic() + _LIMIT_S
        while (found := re.search(pattern, self._seen)) is None:
            self._seen = self._seen[-_SCREENFUL:]  # a program may flood it
            rest_s = end - time.monotonic()
            assert rest_s > 0, (pattern, self._seen)
            assert select.select([self.keyboard], [], [], rest_s)[0], (pattern, self._seen)
            self._seen += os.read(self.keyboard, 65536).decode(errors="replace")
        self._seen = self._seen[found.end() :]
        return found

    def runs(self, line: str) -> None:
        """Type a command line when the shell is ready for it."""
        self.shows(PROMPT)
        self.types(f"{line}\r")

    def end(self) -> int:
        """Return the exit code once it has ended, reading what it still shows."""
        while self.process.poll() is None:
            if select.select([self.keyboard], [], [], 0.05)[0]:
                self._seen += os.read(self.keyboard, 65536).decode(errors="replace")
        return self.process.wait()


def test_a_shell_edits_lines_and_knows_its_terminal_and_leaves_the_users_as_it_was(
    kernel: Kernel, tmp_path: Path
) -> None:
    with Session(kernel, tmp_path, size=(30, 100)) as shell:
        shell.shows("Type exit to leave")
        shell.runs("stty size; tty; cat /dev/null > /dev/tty && echo of $((40 + 2))")
        shell.shows("30 100\r\n/dev/pts/0\r\nof 42\r\n")
        shell.runs(f"echo $((40 + 34{RUBOUT}))")
        shell.shows("43\r\n")
        shell.runs(UP)
        shell.shows("43\r\n")
        # Blocked, so that it waits for the signal even if that comes first.
        waits = (
            "from signal import *; s = [SIGWINCH]; pthread_sigmask(SIG_BLOCK, s); print(42, flush=True); "
            "sigwait(s)"
        )
        shell.runs(f"python3 -c '{waits}; import os; print(os.get_terminal_size())'")
        shell.shows("42\r\n")
        shell.resize((40, 120))
        shell.shows(re.escape("columns=120, lines=40"))
        shell.runs("exit 7")
        assert shell.end() == 7
        assert "time " in shell._seen
        assert termios.tcgetattr(shell.terminal) == shell.before


def test_keys_interrupt_stop_and_end_programs(kernel: Kernel, tmp_path: Path) -> None:
    with Session(kernel, tmp_path, "--quiet") as shell:
        shell.runs("echo $((40 + 2)); cat")
        shell.shows("42\r\n")
        shell.types("a line\r")
        shell.shows("a line\r\na line\r\n")
        shell.types(CTRL_C)
        shell.runs("echo code $?")
        shell.shows("code 130")
        sleeps = "python3 -c 'import time; print(60 + 2, flush=True); [time.sleep(1) for _ in iter(int, 1)]'"
        floods = "yes 'on and on'"
        for program, output in [(sleeps, "62\r\n"), *[(floods, "on and on\r\non and on\r\n")] * 3]:
            shell.runs(program)
            shell.shows(output)
            shell.types(CTRL_C)
        shell.runs("echo $((50 + 2)); cat")
        shell.shows("52\r\n")
        shell.types(CTRL_Z)
        shell.shows("Stopped")
        shell.runs("jobs; kill %1; fg; wait; exec cat")
        shell.shows("Terminated")
        shell.types(CTRL_D)
        assert shell.end() == 0


def test_time_leaps_while_a_program_runs_and_follows_the_users_clock_while_one_waits_for_a_key(
    kernel: Kernel, tmp_path: Path
) -> None:
    """The kernel's clock would leap over a day while nobody types, if it did not wait for us."""

    def date(shell: Session) -> float:
        shell.types("date +is:%s.%N\r")
        return float(shell.shows(r"is:(\d+\.\d+)\r\n")[1])

    with Session(kernel, tmp_path, "--quiet") as shell:
        shell.shows(PROMPT)
        start = date(shell)
        shell.runs("sleep 2000")
        shell.shows(PROMPT)
        assert date(shell) - start >= 2000
        for reader in ("", "sh\r", "cat\r"):
            shell.shows(PROMPT)
            begun, before = time.monotonic(), date(shell)
            shell.types(reader)
            time.sleep(0.3)
            shell.types(CTRL_D if reader else "")
            shell.types("\r")
            shell.shows(PROMPT)
            elapsed = date(shell) - before
            assert elapsed < time.monotonic() - begun + 0.5, reader


@pytest.mark.parametrize("victim", ["window", "lasthop", "guest", "program"])
def test_nothing_is_left_of_a_shell_however_it_ends(
    own_kernel: Kernel,  # noqa: F811
    tmp_path: Path,
    victim: str,
) -> None:
    with Session(own_kernel, tmp_path, "--quiet") as shell:
        shell.shows(PROMPT)
        if victim == "window":
            shell.close()
        else:
            killed = {
                "lasthop": shell.process.pid,
                "guest": min(guests(own_kernel)),
                "program": max(guests(own_kernel)),
            }
            os.kill(killed[victim], signal.SIGKILL)
        if victim == "program":
            shell.types("\r")  # it waits for a key, and nobody looks at it before one comes
        shell.process.wait(_LIMIT_S)
        assert_no_guests(own_kernel)
