"""The user's terminal while a guest uses it."""

from __future__ import annotations

import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def settings_of(terminal: int) -> dict[str, Any]:
    """Return how an open terminal treats keys and output, as `Settings` of crates/lasthop-host."""
    *modes, _, _, characters = termios.tcgetattr(terminal)
    numbers = [character if isinstance(character, int) else ord(character) for character in characters]
    return {**dict(zip(("input", "output", "control", "local"), modes, strict=True)), "characters": numbers}


@contextmanager
def untreated(terminal: int) -> Iterator[None]:
    """Pass keys and output of an open terminal through unchanged, up to the end of the context."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
