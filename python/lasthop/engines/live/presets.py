"""Named last hops: scenario files that come with lasthop."""

from pathlib import Path

from lasthop.common.errors import InputError, nearest

_FOLDER = Path(__file__).resolve().parent / "presets"
_COMMON = "base"


def presets() -> dict[str, Path]:
    """Return the scenario files of the presets by name."""
    return {file.stem: file for file in sorted(_FOLDER.glob("*.toml")) if file.stem != _COMMON}


def find_link(link: str) -> Path:
    """Return the scenario file for a preset's name or a path."""
    available = presets()
    if link in available:
        return available[link]
    file = Path(link)
    if file.suffix == ".toml" or file.exists():
        return file
    raise InputError(
        f"--link {link}: there is no preset or file of this name; did you mean '{nearest(link, available)}'? "
        f"Presets: {', '.join(available)}."
    )
