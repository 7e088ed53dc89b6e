"""The process that becomes the emulator, and how to start it.

It must have only one thread, because a process with more threads cannot create a user namespace. So it is a
process of its own and imports nothing but the extension.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from lasthop import _core

EXIT_INPUT = 2
SPIN_US = 20
"""Default of the busy loop before a deadline: it starts closer to it than a timer could wake the emulator."""


def child_arguments(request: Mapping[str, object]) -> tuple[list[str], int]:
    """Return the command line of the process, and the descriptor from which it reads the request.

    The descriptor is open and inheritable. The request is no argument, so that `ps` stays readable.
    """
    descriptor = os.memfd_create("request", 0)
    os.write(descriptor, json.dumps(request).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return [sys.executable, "-P", "-m", "lasthop.engines.live.child", str(descriptor)], descriptor


def main() -> int:
    """Carry out the request in the file descriptor that the command line names; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    request = json.loads(Path(f"/proc/self/fd/{int(sys.argv[1])}").read_text(encoding="utf-8"))
    try:
        if "shell" in request:
            return _core.live_shell(json.dumps(request["shell"]))
        sys.stdout.write(_core.live_run(json.dumps(request["run"])))
    except _core.LiveError as error:
        sys.stderr.write(f"Error: {error}\n")
        return EXIT_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
