"""Claims as tests: every claim of a file is a test item, and one check judges all of them."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lasthop import _core
from lasthop.analysis.checks import AT_MOST
from lasthop.analysis.claims import UNCOMPUTABLE
from lasthop.api.testing.options import Options, check_names, options_of
from lasthop.campaign.limits import read_size
from lasthop.campaign.results.folder import locked
from lasthop.common.errors import InputError, InUseError
from lasthop.studies.catalogue import find_scenario
from lasthop.studies.claims.file import Claim, Claims, line_of
from lasthop.studies.loading import load

if TYPE_CHECKING:
    from lasthop.analysis.checks.judge import Checked

_DEFAULTS: Options = {
    "engine": "model",
    "kernel": None,
    "replications": None,
    "until_decided": False,
    "at_most": AT_MOST,
    "seed": None,
    "baseline": None,
    "jobs": None,
    "anyway": False,
    "limit_memory": None,
}
"""Options of `lasthop check` that a marker can set."""
_RESULTS = Path("results")


class ClaimFailedError(Exception):
    """The text is what `lasthop check` prints about a claim."""


class ClaimsFile(pytest.File):
    """A scenario with claims: `NAME.claims.toml` next to `NAME.toml`, or a file with both."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the claims."""
        try:
            claims = self._claims()
        except (InputError, _core.ScenarioError) as error:
            raise self.CollectError(str(error)) from error
        self._checked: dict[tuple[tuple[str, object], ...], Checked] = {}
        for claim in claims.claims:
            item: ClaimItem = ClaimItem.from_parent(self, name=claim.id, claim=claim, file=claims.file)
            yield item

    def _claims(self) -> Claims:
        if not self._scenario.is_file():
            raise InputError(f"{self.path} is about {self._scenario.name}, which is not in its folder.")
        claims = load(self._scenario).claims
        if claims is None:
            raise InputError(f"{self.path} contains no claims: add [[claim]] with id, text and holds to it.")
        return claims

    @property
    def _scenario(self) -> Path:
        return find_scenario(str(self.path))

    def checked(self, options: Options) -> Checked:
        """Return the verdicts under these options, computed once in each process."""
        key = tuple(sorted(options.items()))
        if key not in self._checked:
            check_names(options, _DEFAULTS)
            shared = hasattr(self.config, "workerinput")
            self._checked[key] = checked(Path(os.path.relpath(self._scenario)), options, shared=shared)
            for warning in self._checked[key].warnings:
                warnings.warn(warning, stacklevel=1)
        return self._checked[key]


class ClaimItem(pytest.Item):
    """A claim. It passes if it is upheld, and is skipped if no number answers it."""

    parent: ClaimsFile

    def __init__(self, *, claim: Claim, file: Path, **more: Any) -> None:  # noqa: ANN401
        """Take a claim and the file that contains it."""
        super().__init__(**more)
        self._claim = claim
        self._file = file

    def runtest(self) -> None:
        """Check the scenario, and fail unless the claim is upheld."""
        from lasthop.analysis.checks.tell import failure

        options = options_of(self)
        checked = self.parent.checked(options)
        judged = next(each for each in checked.judged if each.outcome.claim.id == self._claim.id)
        if (text := failure(checked, judged, until_decided=options.get("until_decided", False))) is not None:
            raise ClaimFailedError(text)
        if judged.outcome.verdict == UNCOMPUTABLE:
            pytest.skip(judged.outcome.reason)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ANN401
        """Return the text of an error that is no fault of the code."""
        if isinstance(excinfo.value, ClaimFailedError | InputError | _core.ScenarioError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the line of the claim."""
        return self._file, line_of(self._file, self._claim.id) - 1, f"{self._claim.id}: {self._claim.text}"


def checked(scenario: Path, options: Options, *, shared: bool) -> Checked:
    """Check a scenario as `lasthop check` does; if `shared`, one process at a time."""
    from lasthop.analysis.checks.judge import Ways, check_file
    from lasthop.campaign.simulate import Asked

    wanted = _DEFAULTS | options
    memory = None if wanted["limit_memory"] is None else read_size(wanted["limit_memory"])
    asked = Asked(
        only=(),
        replications=wanted["replications"],
        until=(),
        sets=1,
        seed=wanted["seed"],
        engine=wanted["engine"],
        kernel=wanted["kernel"],
        anyway=wanted["anyway"],
        limit_memory=memory,
    )
    ways = Ways(
        out=None,
        baseline=None if wanted["baseline"] is None else Path(wanted["baseline"]),
        at_most=wanted["at_most"] if wanted["until_decided"] else None,
        jobs=wanted["jobs"],
        quiet=True,
    )
    if not shared:
        return check_file(scenario, asked, ways)
    with _alone():
        return check_file(scenario, asked, ways)


@contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other process of pytest-xdist checks; each check uses all cores anyway.

    Claims of one file may be tests in several processes. The first runs the scenario, the others read its
    results, and these must not change meanwhile.
    """
    with ExitStack() as lock:
        while True:
            try:
                lock.enter_context(locked(_RESULTS))
                break
            except InUseError:
                time.sleep(0.1)
        yield
