"""Starting the process that becomes the emulator."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

SPIN_US = 20
"""Default of the busy loop before a deadline: it starts closer to it than a timer could wake the emulator."""


def child_arguments(request: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return the command line of a process for a request, and the descriptor from which it reads the request.

    The descriptor is open and inheritable. The request is no argument, so that `ps` stays readable.
    """
    descriptor = os.memfd_create("request", 0)
    os.write(descriptor, json.dumps(request).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return [sys.executable, "-P", "-m", "lasthop.engines.live.child", str(descriptor)], descriptor
