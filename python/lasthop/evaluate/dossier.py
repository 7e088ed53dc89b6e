"""Build the dossier of a congestion control: write the scenarios, run them, judge and measure."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from lasthop import _core
from lasthop.analysis.checks.judge import Checked, complete, exit_code, judge
from lasthop.analysis.claims import NOT_RUN, NOT_UPHELD, UNDECIDED, UPHELD
from lasthop.analysis.claims.evaluate import estimate
from lasthop.analysis.claims.records import Records
from lasthop.campaign import runner
from lasthop.campaign.simulate import Asked, lateness
from lasthop.common.errors import InputError
from lasthop.common.files import write_text
from lasthop.common.statistics.estimates import Interval
from lasthop.engines.model_engine import ModelEngine
from lasthop.engines.registry import ENGINES
from lasthop.evaluate.bbr import CaseResult, Cases, read_cases, run_cases, run_cases_of_stack
from lasthop.evaluate.controls import Control
from lasthop.evaluate.rows import FACTOR, TESTED, Number, Row, Section, Set
from lasthop.evaluate.transfers import EvaluatedStack
from lasthop.studies.claims.design import Design, Place
from lasthop.studies.claims.file import CLAIMS_FILE, Claims
from lasthop.studies.claims.language import ClaimError, Parser, Vocabulary
from lasthop.studies.loading import load

Subject: TypeAlias = Control | EvaluatedStack
NUMBERS_ONLY = "numbers only"
_WORST_FIRST = (NOT_UPHELD, UNDECIDED, NOT_RUN, UPHELD)
SCENARIOS, RESULTS = "scenarios", "results"


@dataclass(frozen=True)
class Value:
    """A number in a cell: its mean over replications with the 95 % interval, if it has a value."""

    place: Place
    control: str
    interval: Interval | None


@dataclass(frozen=True)
class Measured:
    """A number of the dossier in all cells of its row."""

    number: Number
    values: Sequence[Value]


@dataclass(frozen=True)
class Ran:
    """A row after its run; `checked` has the verdicts on its claims.

    If the engine or the tested stack cannot run it, `refused` is the reason.
    """

    row: Row
    file: Path
    checked: Checked | None
    measured: Sequence[Measured]
    refused: str = ""


@dataclass(frozen=True)
class Judgement:
    """A section with its rows, or the test cases of BBR. Its verdict is the worst of its claims'."""

    section: Section
    rows: Sequence[Ran]
    cases: Sequence[CaseResult] = ()

    @property
    def refusals(self) -> list[str]:
        """Why rows were not run."""
        return list(dict.fromkeys(ran.refused for ran in self.rows if ran.refused))

    @property
    def verdict(self) -> str:
        if self.rows and all(ran.refused for ran in self.rows):
            return NOT_RUN
        verdicts = [
            judged.outcome.verdict for ran in self.rows if ran.checked for judged in ran.checked.judged
        ]
        verdicts += [NOT_UPHELD if case.faults else UPHELD for case in self.cases if not case.refused]
        return next((verdict for verdict in _WORST_FIRST if verdict in verdicts), NUMBERS_ONLY)


@dataclass(frozen=True)
class Dossier:
    subject: Subject
    against: Sequence[str]
    set: Set
    engine: str
    judgements: Sequence[Judgement]
    late: str | None

    @property
    def is_stack(self) -> bool:
        return isinstance(self.subject, EvaluatedStack)

    @property
    def controls(self) -> dict[str, str]:
        """The levels of the factor `control` with their display names."""
        return {TESTED: self.subject.name, **{name: name for name in self.against}}

    @property
    def exit_code(self) -> int:
        """As for `lasthop check`: 3 if runs are invalid, 4 if a section is not upheld, 5 if undecided."""
        return exit_code((judgement.verdict for judgement in self.judgements), late=self.late is not None)


def build(
    subject: Subject,
    levels: Mapping[str, Mapping[str, object]],
    chosen: Set,
    asked: Asked,
    *,
    out: Path,
    place: runner.Place,
    quiet: bool,
    say: Callable[[Judgement], object],
) -> Dossier:
    """Write the scenarios of the set to `out`, run what is missing, and `say` each section's judgement.

    `levels` are those of the factor `control`: `TESTED`, and the controls to compare with.
    """
    _check_folder(out)
    files = _write(subject, chosen, levels, out / SCENARIOS)
    judgements = []
    for section in chosen.sections:
        rows = [_run(row, files[row.name], asked, out / RESULTS, place, quiet=quiet) for row in section.rows]
        judgements.append(Judgement(section, rows))
        say(judgements[-1])
    cases = read_cases()
    if results := _run_cases(cases, subject, levels[TESTED], asked, out / SCENARIOS):
        judgements.append(Judgement(cases.section, (), results))
        say(judgements[-1])
    ran = [row for judgement in judgements for row in judgement.rows]
    if all(row.refused for row in ran):
        raise InputError(ran[0].refused)
    late = next((row.checked.late for row in ran if row.checked and row.checked.late), None)
    against = [name for name in levels if name != TESTED]
    return Dossier(subject, against, chosen, asked.engine, judgements, late)


def _run_cases(
    cases: Cases, subject: Subject, level: Mapping[str, object], asked: Asked, folder: Path
) -> list[CaseResult]:
    """Run the test cases of BBR, if they are about this control, or about that of this stack."""
    if isinstance(subject, Control):
        # Only the model reports the states of a control.
        return run_cases(cases, subject.tcp, folder) if asked.engine == ModelEngine.name else []
    if not subject.control.startswith("bbr"):
        return []
    return run_cases_of_stack(cases, level, ENGINES[asked.engine].choose(asked.kernel), folder)


def _check_folder(out: Path) -> None:
    """Raise InputError if `out` is not a folder, or contains anything but a dossier."""
    if out.is_file():
        raise InputError(f"{out} is a file, not a folder; choose another folder with --out DIR.")
    if out.is_dir() and any(out.iterdir()) and not (out / SCENARIOS).is_dir():
        raise InputError(
            f"{out} exists and does not contain a dossier; nothing was changed. "
            "Choose another folder with --out DIR."
        )


def _write(
    subject: Subject, chosen: Set, levels: Mapping[str, Mapping[str, object]], folder: Path
) -> dict[str, Path]:
    """Write each row as a self-contained scenario, with the files that it uses."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for section in chosen.sections:
        for row in section.rows:
            files[row.name] = folder / f"{row.name}.toml"
            if row.refused:
                continue
            head = (
                f"# {section.title} (RFC 9743): {section.criterion}\n"
                f"# Written by 'lasthop evaluate', {chosen.name} set, version {chosen.version}.\n\n"
            )
            write_text(files[row.name], head + row.file_text(levels))
            claims = files[row.name].with_suffix(f".{CLAIMS_FILE}")
            if text := row.claims_text([name for name in levels if name != TESTED]):
                write_text(claims, head + text)
            else:
                claims.unlink(missing_ok=True)
            for file in (*row.files(), *filter(None, [subject.file])):
                if folder / file.name != file:
                    shutil.copyfile(file, folder / file.name)
    return files


def _run(row: Row, file: Path, asked: Asked, results: Path, place: runner.Place, *, quiet: bool) -> Ran:
    if row.refused:
        return Ran(row, file, None, (), row.refused)
    loaded = load(file)
    try:
        plan, _ = asked.plan(loaded.study, file)
    except (InputError, _core.ScenarioError) as error:
        if asked.engine == "model":
            raise
        return Ran(row, file, None, (), str(error))
    out = results / row.name
    out.mkdir(parents=True, exist_ok=True)
    campaign = complete(plan, out, place, quiet=quiet)
    factors = list(loaded.study.factors)
    claims = loaded.claims or Claims(file, (), factors=factors)
    records = Records.read(out, factors)
    checked = Checked(file, claims, campaign, None, judge(claims, records), (), lateness(campaign))
    measured = list(_measure(row, file, loaded.study, records))
    return Ran(row, file, checked, measured)


def _measure(row: Row, file: Path, study: _core.Study, records: Records) -> Iterator[Measured]:
    """Compute each number in each cell, with its confidence interval."""
    design = Design.of(study)
    parser = Parser(Vocabulary(design.factors))
    for number in row.numbers:
        try:
            estimates = estimate(parser.alone(number.formula), design, records)
        except ClaimError as error:
            raise InputError(f"{file}: {number.name}: {error}") from None
        values = []
        for place, interval in estimates:
            cell = dict(place)
            control = cell.pop(FACTOR)
            values.append(Value(cell, control, interval))
        yield Measured(number, values)
