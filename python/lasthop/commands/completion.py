"""Shell completion of studies, examples, presets, scenario files, factors and their levels.

Every command imports this module, so it loads what it needs only when it completes.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

from lasthop.common.errors import InputError
from lasthop.engines.live.presets import find_link, presets

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _or_files(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return matching names and scenario files, or let the shell complete any path."""
    files = sorted(str(file) for file in Path().glob("*.toml"))
    matches = [CompletionItem(name) for name in (*names, *files) if name.startswith(incomplete)]
    return matches or [CompletionItem(incomplete, type="file")]


def _completing(names: Callable[[], Iterable[str]], *, files: bool) -> Complete:
    """Return a function that completes names and, with `files`, scenario files."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del context, parameter
        if files:
            return _or_files(names(), incomplete)
        return [CompletionItem(name) for name in names() if name.startswith(incomplete)]

    return complete


def _studies() -> Iterable[str]:
    from lasthop.studies.catalogue import list_studies

    return list_studies()


def _examples() -> Iterable[str]:
    from lasthop.scenario.examples import list_examples

    return list_examples()


complete_studies = _completing(_studies, files=False)
complete_examples = _completing(_examples, files=False)
complete_files = _completing(lambda: (), files=True)
complete_scenarios = _completing(_studies, files=True)
complete_links = _completing(presets, files=True)


def complete_only(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete FACTOR=LEVEL,... for the scenario or results folder earlier in the line."""
    del parameter
    before, comma, last = incomplete.rpartition(",")
    factor, equals, _ = last.partition("=")
    factors = _factors(context)
    words = (
        [f"{factor}={level}" for level in factors.get(factor, ())]
        if equals
        else [f"{name}=" for name in factors]
    )
    return [CompletionItem(before + comma + word) for word in words if word.startswith(last)]


def _factors(context: click.Context) -> dict[str, list[str]]:
    from lasthop import _core
    from lasthop.scenario.points import read_study
    from lasthop.studies.catalogue import find_scenario

    try:
        if (link := context.params.get("link")) is not None:
            return read_study(find_link(link), for_link=True).factors
        # The line ends in an option without its value, so click has not parsed the arguments.
        if context.args:
            source = Path(context.args[0])
            return _factors_in(source) if source.is_dir() else read_study(find_scenario(str(source))).factors
    except (InputError, _core.ScenarioError):
        pass  # running the command will report the error
    return {}


def _factors_in(folder: Path) -> dict[str, list[str]]:
    from lasthop.campaign.results.folder import read_manifest

    factors: dict[str, dict[str, None]] = {}
    for cell in (read_manifest(folder) or {"identity": {"cells": []}})["identity"]["cells"]:
        for word in filter(None, cell.split(",")):
            factor, _, level = word.partition("=")
            factors.setdefault(factor, {})[level] = None
    return {factor: list(levels) for factor, levels in factors.items()}


@add_completion_class
class _Bash(BashComplete):
    """Bash splits words at `=`: join FACTOR=LEVEL again, and return the part after `=`."""

    name = "bash"
    _prefix = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor and the word under it."""
        words = split_arg_string(os.environ["COMP_WORDS"])
        cursor = int(os.environ["COMP_CWORD"])
        typed = [*words[1:cursor], words[cursor] if cursor < len(words) else ""]
        joined: list[str] = []
        for number, word in enumerate(typed):
            if joined and (word == "=" or typed[number - 1] == "="):
                joined[-1] += word
            else:
                joined.append(word)
        incomplete = joined.pop() if joined else ""
        self._prefix = incomplete[: incomplete.rindex("=") + 1] if "=" in incomplete else ""
        return joined, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return the completion that replaces the word under the cursor."""
        return f"{item.type},{item.value.removeprefix(self._prefix)}"
