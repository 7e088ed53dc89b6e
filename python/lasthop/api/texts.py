"""Arguments that are one text or several."""

from collections.abc import Sequence


def texts(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)
