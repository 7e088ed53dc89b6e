"""Errors that a user can correct. Each is one finished paragraph; `lasthop --help` lists the exit codes."""

from collections.abc import Iterable


class InputError(Exception):
    """The request cannot be carried out as given."""


class InUseError(InputError):
    """Another process works in the results folder."""


class BuildError(InputError):
    """What is to be tested cannot be built: neither a success nor a failure."""


class InterruptedCampaignError(Exception):
    """The user stopped the campaign; the text says what is kept and how to go on."""


class PlaceLostError(Exception):
    """The place where a campaign runs is gone; the text says which."""


class OutputError(Exception):
    """Standard output cannot be written."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return the choice most like `word`; an empty text if there are no choices."""
    import difflib

    ranked = sorted(choices, key=lambda c: (-difflib.SequenceMatcher(None, word, c).ratio(), c))
    return ranked[0] if ranked else ""
