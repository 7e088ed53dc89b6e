"""The options of a test: the setting `lasthop_engine`, then its markers, the closest last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lasthop.common.errors import InputError, nearest

if TYPE_CHECKING:
    import pytest

Options = dict[str, Any]
"""Keyword arguments of `lasthop.run`; for claims files, those of `lasthop.api.testing.items.checked`."""


def options_of(node: pytest.Item) -> Options:
    """Return the options that apply to a test."""
    engine = node.config.getini("lasthop_engine")
    options: Options = {"engine": engine} if engine else {}
    for mark in reversed(list(node.iter_markers("lasthop"))):
        if mark.args:
            raise InputError(f"The marker lasthop takes options by name: write engine={mark.args[0]!r}.")
        options |= mark.kwargs
    return options


def check_names(options: Options, known: Iterable[str]) -> None:
    """Raise `InputError` if an option is unknown."""
    known = list(known)
    for name in options:
        if name not in known:
            raise InputError(f"There is no option '{name}'; did you mean '{nearest(name, known)}'?")
