"""Where lasthop keeps files that it can make again."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder of this name in the user's cache; it need not exist."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "lasthop" / name
