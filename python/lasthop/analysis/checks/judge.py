"""Run the missing replications of a scenario with claims, then judge the claims."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lasthop.analysis.checks import baselines
from lasthop.analysis.checks.power import uses_baseline
from lasthop.analysis.claims import NOT_RUN, NOT_UPHELD, UNDECIDED, UPHELD
from lasthop.analysis.claims.evaluate import Outcome, evaluate
from lasthop.analysis.claims.records import Records
from lasthop.analysis.claims.telling import Telling, telling_run
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.inventory import OtherKernelError
from lasthop.campaign.plan import Plan
from lasthop.campaign.results.folder import check_folder, empty, locked
from lasthop.campaign.results.manifest import finished
from lasthop.campaign.runner import Place
from lasthop.campaign.simulate import Asked, lateness, place_of, simulate_at, warnings_of
from lasthop.campaign.until.looks import LOOKS, looks_up_to
from lasthop.common.errors import InputError
from lasthop.studies.claims.file import Claims
from lasthop.studies.loading import load


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict, and the run that illustrates it best."""

    outcome: Outcome
    telling: Telling | None


@dataclass(frozen=True)
class Checked:
    """A scenario file, its runs, and the verdicts on its claims."""

    file: Path
    claims: Claims
    campaign: Campaign
    baseline: Path | None
    judged: Sequence[Judged]
    warnings: Sequence[str]
    late: str | None
    """The reason if its runs are invalid."""

    @property
    def plan(self) -> Plan:
        return self.campaign.plan

    def any(self, *verdicts: str) -> bool:
        return any(judged.outcome.verdict in verdicts for judged in self.judged)


@dataclass(frozen=True)
class Ways:
    """How to check. `at_most` limits the replications if their number depends on the verdicts."""

    out: Path | None
    baseline: Path | None
    at_most: int | None
    jobs: int | None
    quiet: bool


def check_file(file: Path, asked: Asked, ways: Ways) -> Checked:
    """Run the missing replications of a scenario, and judge its claims.

    With `at_most`, replications are added look by look until no claim is undecided. The error probability
    over all looks is that of a single test (see `lasthop.campaign.until.looks`).
    """
    loaded = load(file)
    if (claims := loaded.claims) is None:
        raise InputError(
            f"{file} contains no claims: add [[claim]] with id, text and holds to it, or to "
            f"{file.with_suffix('.claims.toml').name} in the same folder. docs/guides/ci.md has examples."
        )
    baseline = baselines.find(ways.baseline, loaded.study.name)
    if baseline is not None:
        check_baseline(baseline, loaded.study.name, file)
    out = ways.out or Path("results") / loaded.study.name
    check_folder(out)

    limit = ways.at_most
    kept = None if baseline is None else _replications(baseline)

    def look(replications: int | None) -> Checked:
        plan, _ = replace(asked, replications=replications).plan(loaded.study, file)
        with place_of(None, ways.jobs, lambda _: None) as place:
            campaign = complete(plan, out, place, quiet=ways.quiet)
        records = Records.read(out, claims.factors, 1 if limit is None else len(LOOKS))
        judged = judge(claims, records, baseline)
        warnings = [*warnings_of(campaign), *_beyond(kept, plan.runs // len(plan.cells))]
        return Checked(file, claims, campaign, baseline, judged, warnings, lateness(campaign))

    if limit is None:
        return look(asked.replications)
    looks = looks_up_to(limit)
    if kept is not None and kept < limit:
        looks = sorted({*looks, kept})
    *early, last = looks
    for replications in early:
        checked = look(replications)
        undecided = [own.outcome for own in checked.judged if own.outcome.verdict == UNDECIDED]
        # More replications than the baseline has decide nothing about claims that compare with it.
        if not undecided or (kept == replications and all(map(uses_baseline, undecided))):
            return checked
    return look(last)


def _replications(baseline: Path) -> int:
    identity = finished(baseline)["identity"]
    return identity["replications"] * identity["sets"]


def _beyond(kept: int | None, replications: int) -> list[str]:
    """Return a warning if there are more replications than the baseline has."""
    if kept is None or replications <= kept:
        return []
    return [
        f"Warning: the baseline has {kept} of the {replications} replications, and claims that compare with "
        "it use only these. Save a baseline with more replications."
    ]


def complete(plan: Plan, out: Path, place: Place, *, quiet: bool) -> Campaign:
    """Run the missing replications of a plan; return the campaign.

    Results of another kernel are deleted, as those of another version of a program are: both are under test.
    """
    with locked(out):
        try:
            campaign = Campaign(plan, out)
        except OtherKernelError:
            empty(out)
            campaign = Campaign(plan, out)
        simulate_at(place, campaign, quiet=quiet)
    return campaign


def judge(claims: Claims, records: Records, baseline: Path | None = None) -> list[Judged]:
    """Judge claims on records, and on those in the folder of a baseline."""
    earlier = None if baseline is None else Records.read(baseline, claims.factors, beside=records)
    outcomes = map(_doubted, evaluate(claims, records, earlier))
    return [Judged(outcome, telling_run(outcome, records)) for outcome in outcomes]


def _doubted(outcome: Outcome) -> Outcome:
    """Return the outcome, but undecided if it was upheld without some replications.

    Replications without a value are left out of a study's claims. In a test, a transfer that never ends has
    no transfer time, and must not pass.
    """
    left_out = max((part.left_out for part in outcome.cells), default=0)
    if outcome.verdict != UPHELD or not left_out:
        return outcome
    what = "1 replication has" if left_out == 1 else f"{left_out} replications have"
    return replace(outcome, verdict=UNDECIDED, reason=f"{what} no value, because a flow did not finish")


def check_baseline(baseline: Path, name: str, file: Path) -> None:
    """Raise `InputError` if a baseline belongs to a scenario of another name."""
    scenario = finished(baseline)["identity"]["scenario"]
    if scenario != name:
        raise InputError(f"The baseline {baseline} belongs to the scenario '{scenario}', not to {file}.")


def exit_code(verdicts: Iterable[str], *, late: bool) -> int:
    """Return the exit code: 3 if runs are invalid, 4 if a claim is not upheld, 5 if one is undecided."""
    occurring = set(verdicts)
    if late:
        return 3
    return 4 if NOT_UPHELD in occurring else 5 if occurring & {UNDECIDED, NOT_RUN} else 0
