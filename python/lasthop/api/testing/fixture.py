"""The fixture `lasthop`."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.api.run import run
from lasthop.api.run_results import Results
from lasthop.api.scenario import Scenario
from lasthop.api.testing.options import Options, check_names
from lasthop.common.errors import InputError
from lasthop.common.files import write_text
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.live.presets import find_link
from lasthop.scenario.toml import to_toml

if TYPE_CHECKING:
    from lasthop.analysis.checks.judge import Checked

_SERVER = "server"


class LasthopFixture:
    """The pytest fixture `lasthop`. Its runs have the options of the marker `lasthop` by default."""

    def __init__(self, options: Options, folder: Path) -> None:
        """Take default options, and a folder for the scenarios of programs."""
        self._options = options
        self._folder = folder
        self._last: Results | None = None

    def run(self, scenario: Scenario | str | PathLike[str], **options: Any) -> Results:  # noqa: ANN401
        """Run a scenario, and return its results.

        Args:
            scenario: A scenario, a scenario file, or the name of a published study.
            options: Keyword arguments of `lasthop.run`.
        """
        return self._run(scenario, options)

    def shell(
        self,
        command: str | Sequence[str],
        *,
        link: str | PathLike[str],
        servers: str | Mapping[str, str] | None = None,
        flow: Mapping[str, object] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> Results:
        """Run a program behind a link, as `lasthop shell --replications` does, and return the results.

        The engine is `kernel` unless an option, the marker or the setting `lasthop_engine` names another one.

        Args:
            command: The program with its arguments, or a command line for the shell.
            link: A preset, or a scenario file, whose flows do not start.
            servers: The command line of the server, or the command lines of several servers by name.
            flow: More keys of the program's flow, such as `{"json": True}`.
            options: Keyword arguments of `lasthop.run`, such as `replications=20`.
        """
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        name = Path((shlex.split(command) if isinstance(command, str) else words)[0]).name
        lines = {_SERVER: servers} if isinstance(servers, str) else servers or {}
        keys = {
            "kind": "program",
            "name": name,
            "command": words,
            "servers": [{"name": server, "command": line} for server, line in lines.items()],
            **(flow or {}),
        }
        base = find_link(str(link)).resolve()
        others = len(list(self._folder.glob("*.toml")))
        file = self._folder / f"{base.stem}-{keys['name']}{f'-{others + 1}' if others else ''}.toml"
        write_text(file, to_toml({"extends": str(base), "flow": [keys]}))
        return self._run(file, {"engine": KernelEngine.name, **self._options, **options})

    def assert_claim(
        self,
        holds: str | Sequence[str],
        *,
        results: Results | None = None,
        baseline: Results | str | PathLike[str] | None = None,
        **keys: object,
    ) -> None:
        """Fail unless the results uphold a claim, as `lasthop check` judges it.

        Args:
            holds: The claim in the language of claims, such as `"p95(program_s) < 4"`.
            results: The results to judge, by default those of the last run in this test.
            baseline: The results that the claim calls `baseline`: other results, or a folder. By default the
                folder `baselines/NAME`, if it exists.
            keys: More keys of a claim, such as `text` and `within=0.1`.

        Raises:
            AssertionError: The claim is not upheld, or undecided.
            InputError: The claim cannot be read, or no metric has this name.
        """
        __tracebackhide__ = True
        from lasthop.analysis.checks.tell import failure

        chosen = self._last if results is None else results
        if chosen is None:
            raise InputError("There are no results: call lasthop.run or lasthop.shell before assert_claim.")
        checked = _checked(chosen, {"id": "claim", "text": str(holds), "holds": holds, **keys}, baseline)
        if (text := failure(checked, checked.judged[0])) is not None:
            raise AssertionError(text)

    def _run(self, scenario: Scenario | str | PathLike[str], options: Options) -> Results:
        wanted = {"progress": False, **self._options, **options}
        check_names(wanted, inspect.signature(run).parameters)
        self._last = run(scenario, **wanted)
        return self._last


def _checked(
    results: Results, claim: Mapping[str, object], baseline: Results | str | PathLike[str] | None
) -> Checked:
    """Judge a claim on results."""
    from lasthop.analysis.checks import baselines
    from lasthop.analysis.checks.judge import Checked, check_baseline, judge
    from lasthop.analysis.claims.records import Records
    from lasthop.campaign.simulate import lateness, warnings_of
    from lasthop.studies.claims.file import claim_in_code

    scenario, campaign = results.scenario, results._campaign
    claims = claim_in_code(claim, scenario.study)
    file = scenario.file or Path(scenario.name)
    if isinstance(baseline, Results):
        earlier: Path | None = baseline.folder
    else:
        earlier = baselines.find(None if baseline is None else Path(baseline), scenario.name)
        if earlier is not None:
            check_baseline(earlier, scenario.name, file)
    judged = judge(claims, Records.read(results.folder, claims.factors), earlier)
    return Checked(
        file=file,
        claims=claims,
        campaign=campaign,
        baseline=earlier,
        # No command can run a scenario that is only in code.
        judged=[replace(each, telling=None) for each in judged] if scenario.file is None else judged,
        warnings=warnings_of(campaign),
        late=lateness(campaign),
    )
