"""The process that becomes the emulator.

It must have only one thread, because a process with more threads cannot create a user namespace. So it is a
process of its own and imports nothing but the extension.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from lasthop import _core

EXIT_INPUT = 2


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
