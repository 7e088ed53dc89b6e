"""Facts about the machine that ran a campaign, without names of users or hosts."""

import os
import platform
from pathlib import Path


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def host_facts() -> dict[str, str | int]:
    """Return operating system, processor, number of usable cores and Python version."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _cpu_model(),
        "cores": usable_cores(),
        "python": platform.python_version(),
    }


def usable_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
