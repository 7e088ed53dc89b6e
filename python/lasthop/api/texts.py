"""One text, or several."""

from collections.abc import Sequence


def texts(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return one text or several as a tuple, like the options of the command line."""
    return (given,) if isinstance(given, str) else tuple(given)
