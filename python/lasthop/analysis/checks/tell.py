"""Verdicts as text and in the formats of test services."""

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from lasthop.analysis.checks.judge import Checked, Judged
from lasthop.analysis.checks.power import detects, uses_baseline
from lasthop.analysis.claims import NOT_RUN, NOT_UPHELD, UNCOMPUTABLE, UNDECIDED, UPHELD, VERDICTS
from lasthop.analysis.claims.verdicts import INDENT, claim_lines, claims_frame, numbers
from lasthop.common import junit as files
from lasthop.common.metrics.units import counted
from lasthop.studies.claims.file import line_of


def head(checked: Checked) -> str:
    """Return the line above the verdicts on a file: replications, seed, engine and baseline."""
    plan = checked.plan
    runs = counted(plan.replications, "replication")
    against = "" if checked.baseline is None else f", baseline {checked.baseline}"
    return f"{checked.file}: {runs}, seed {plan.seed}, {plan.engine.title}{against}"


def lines(checked: Checked, judged: Judged) -> Iterator[str]:
    """Yield the verdict on a claim with its numbers, and the command that explains the run behind it.

    A comparison with a baseline also has the smallest change that it detects.
    """
    yield from claim_lines(judged.outcome)
    part = judged.outcome.decisive
    if part is not None and uses_baseline(judged.outcome) and (text := detects(part)):
        yield f"{INDENT}{text}"
    if (command := command_of(checked, judged)) is not None:
        yield f"{INDENT}{command}"


def failure(checked: Checked, judged: Judged, *, until_decided: bool = False) -> str | None:
    """Return why a claim fails as a test; `None` if it does not fail. Test runners quote the first line."""
    verdict = judged.outcome.verdict
    if checked.late is None and verdict in (UPHELD, UNCOMPUTABLE):
        return None
    hints = advice([checked], until_decided=until_decided) if verdict == UNDECIDED else []
    late = [] if checked.late is None else [checked.late]
    return "\n".join([*lines(checked, judged), *hints, *late, head(checked), *checked.warnings])


def command_of(checked: Checked, judged: Judged) -> str | None:
    """Return the command that explains the run behind a verdict; `None` if the run cannot be repeated."""
    run, plan = judged.telling, checked.plan
    if run is None or not plan.repeatable:
        return None
    words = ["lasthop", "explain", str(checked.file)]
    if run.levels:
        words += ["--only", ",".join(f"{factor}={level}" for factor, level in run.levels.items())]
    words += ["--replication", str(run.replication)]
    if run.set_number > 1:
        words += ["--set", str(run.set_number)]
    if plan.replications != plan.study.replications:
        words += ["--replications", str(plan.replications)]
    if plan.seed != plan.study.seed:
        words += ["--seed", str(plan.seed)]
    return shlex.join([*words, *plan.engine.options])


def totals(checked: Sequence[Checked]) -> str:
    counts = Counter(judged.outcome.verdict for file in checked for judged in file.judged)
    named = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    return f"claims: {named} of {counts.total()}"


def advice(checked: Sequence[Checked], *, until_decided: bool) -> list[str]:
    """Return a hint on how to decide undecided claims, if there are any."""
    if not any(file.any(UNDECIDED) for file in checked):
        return []
    more = "give a larger --at-most" if until_decided else "--until-decided adds as many as necessary"
    return [f"  More replications may decide the undecided claims: {more}."]


def as_json(checked: Sequence[Checked]) -> str:
    return json.dumps([_facts(file) for file in checked], indent=2) + "\n"


def _facts(checked: Checked) -> dict[str, object]:
    rows = claims_frame([judged.outcome for judged in checked.judged]).to_dicts()
    commands = [command_of(checked, judged) for judged in checked.judged]
    return {
        "file": str(checked.file),
        "seed": checked.plan.seed,
        "replications": checked.plan.replications,
        "engine": checked.plan.engine.name,
        **checked.plan.engine.identity,
        "baseline": None if checked.baseline is None else str(checked.baseline),
        "invalid": checked.late,
        "claims": [
            {
                **row,
                "replication": judged.telling and judged.telling.replication,
                "cell": judged.telling and dict(judged.telling.levels),
                "command": command,
            }
            for row, judged, command in zip(rows, checked.judged, commands, strict=True)
        ],
    }


_JUNIT = {UPHELD: "", NOT_UPHELD: "failure", UNDECIDED: "error", NOT_RUN: "error", UNCOMPUTABLE: "skipped"}


def as_junit(checked: Sequence[Checked]) -> bytes:
    """Return a JUnit file: a claim is a test, and an undecided claim an error."""
    return files.junit(
        (
            files.Case(
                str(file.file),
                f"{judged.outcome.claim.id}: {judged.outcome.claim.text}",
                _JUNIT[judged.outcome.verdict],
                "\n".join(filter(None, (numbers(judged.outcome), command_of(file, judged)))),
            )
            for file in checked
            for judged in file.judged
        ),
        "lasthop check",
    )


_GITHUB = {NOT_UPHELD: "error", UNDECIDED: "warning", NOT_RUN: "warning"}


def as_github(checked: Checked) -> Iterator[str]:
    """Yield annotations in the format that GitHub reads from a job's output.

    Their files are relative to the root of the checkout, where GitHub's runner says that it is.
    """
    file = os.path.relpath(checked.claims.file, os.environ.get("GITHUB_WORKSPACE", "."))
    for judged in checked.judged:
        outcome = judged.outcome
        if (level := _GITHUB.get(outcome.verdict)) is None:
            continue
        parts = filter(None, (outcome.claim.text, numbers(outcome), command_of(checked, judged)))
        message = _data("\n".join(parts))
        place = f"file={_property(file)},line={line_of(checked.claims.file, outcome.claim.id)}"
        title = _property(f"claim {outcome.claim.id}: {outcome.verdict}")
        yield f"::{level} {place},title={title}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
