"""The child process that becomes the emulator.

It must have a single thread to create a user namespace, so it imports only the extension.
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
"""Default duration of the busy loop before a deadline, as timers are less precise."""


def child_arguments(request: Mapping[str, object]) -> tuple[list[str], int]:
    """Return the command line of the process, and the inheritable descriptor of its request.

    The request is not an argument, so that `ps` stays readable.
    """
    descriptor = os.memfd_create("request", 0)
    os.write(descriptor, json.dumps(request).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return [sys.executable, "-P", "-m", "lasthop.engines.live.child", str(descriptor)], descriptor


def main() -> int:
    """Execute the request in the file descriptor in the command line; return the exit code."""
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
