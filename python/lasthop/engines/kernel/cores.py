"""The cores of this machine, which processes of lasthop share among each other."""

from __future__ import annotations

import os
import socket


def claimed_cores(count: int) -> dict[int, socket.socket]:
    """Return cores of this machine that no other worker of lasthop has claimed.

    Each is free when its socket closes.

    A guest runs on one core, and worker processes side by side must not all choose the same core.
    """
    claims: dict[int, socket.socket] = {}
    cores = sorted(os.sched_getaffinity(0))
    for core in cores:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0lasthop-core-{core}")
        except OSError:
            claim.close()
        else:
            claims[core] = claim
        if len(claims) == count:
            break
    return claims or {core: socket.socket() for core in cores[:count]}  # more workers than cores
