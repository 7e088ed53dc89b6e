"""Errors that a user can correct. Their texts are full sentences; `lasthop --help` lists the exit codes."""

from collections.abc import Iterable


class InputError(Exception):
    """The request is invalid or cannot be fulfilled."""


class InUseError(InputError):
    """Another process is using the results folder."""


class BuildError(InputError):
    """The code to test cannot be built, so that there is neither success nor failure."""


class InterruptedCampaignError(Exception):
    """The user stopped the campaign; the text describes the stored results and how to continue."""


class PlaceLostError(Exception):
    """The place where a campaign runs has disappeared; the text names it."""


class OutputError(Exception):
    """Standard output cannot be written."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return the choice that is most similar to `word`; empty without choices."""
    import difflib

    ranked = sorted(choices, key=lambda c: (-difflib.SequenceMatcher(None, word, c).ratio(), c))
    return ranked[0] if ranked else ""
