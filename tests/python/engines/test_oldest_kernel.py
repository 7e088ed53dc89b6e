"""The oldest release that lasthop builds, with other ticks. Its code for pages and processes differs most."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lasthop.engines.kernel.build import Wanted, build
from lasthop.engines.kernel.changes import BUILT
from test_newest_kernel import COUNTER
from test_programs import run_guest

pytestmark = pytest.mark.long(by_hand="compiles a kernel of its own")


def test_programs_start_and_see_virtual_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel = build(Wanted(BUILT[0], hz=1000), os.cpu_count() or 1, lambda _stage, _files: None)
    assert kernel.name == f"{BUILT[0]}-1000hz"
    counter = tmp_path / "counter"
    subprocess.run(["gcc", "-O2", "-x", "c", "-", "-o", counter], input=COUNTER, text=True, check=True)
    timed = run_guest("--kernel", kernel.name, "--link", "lte", "--", str(counter))
    assert timed.stdout in ("1000", "1001", "1002"), timed.stderr
