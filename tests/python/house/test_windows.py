"""The Python files for Windows, with a model of what Python has there: nothing here runs Windows."""

import subprocess
import sys
from pathlib import Path

_RUNS = """
import contextlib, fcntl, os, signal, sys, types
from lasthop.commands.cli import main

def lasthop(*words):
    try:
        return main(list(words)) or 0
    except SystemExit as end:
        return end.code or 0

# Loads what is not lasthop's own, which must keep to this system.
assert lasthop("run", "scenario.toml", "--quiet", "--out", "here") == 0

def locking(descriptor, mode, size):
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError from None

class Memory:
    @staticmethod
    def GetPhysicallyInstalledSystemMemory(place):
        place._obj.value = 1 << 23

import ctypes
ctypes.windll = types.SimpleNamespace(kernel32=Memory)
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
for name in list(sys.modules):
    if name.startswith("lasthop.") and name != "lasthop._core":
        del sys.modules[name]
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for name in ("geteuid", "getuid", "killpg", "memfd_create", "nice", "sched_getaffinity", "sysconf"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGQUIT", "SIGWINCH"):
    delattr(signal, name)
sys.platform = "win32"
from lasthop.commands.cli import main
assert lasthop("run", "scenario.toml", "--out", "there") == 0

from pathlib import Path
from lasthop.campaign.results.folder import locked
with locked(Path("there")):
    assert lasthop("run", "scenario.toml", "--out", "there") == 2
"""


def test_the_model_engine_needs_nothing_that_windows_lacks(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text('extends = "gprs"\nreplications = 1\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _RUNS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there/flows.parquet").read_bytes() == (tmp_path / "here/flows.parquet").read_bytes()
    assert "there is in use by process" in done.stderr
    assert not (tmp_path / "there/.lock").exists()
