"""The cache of files that lasthop can create again."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder of this name in the user's cache, which may not exist."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "lasthop" / name
