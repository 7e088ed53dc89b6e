"""Reading `claims.toml` from the folder of a study's scenario. `docs/reference/claims.md` describes it."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from lasthop import _core
from lasthop.common.errors import InputError, nearest
from lasthop.studies.catalogue import SCENARIO_FILE
from lasthop.studies.claims.design import Design, Laid, Scenario, lay_out
from lasthop.studies.claims.language import (
    FLOW,
    WEAK,
    ClaimError,
    Comparison,
    Levels,
    Parser,
    Vocabulary,
    parse_metric,
)
from lasthop.studies.claims.sentences import STATEMENTS_FILE, Sentence, read_sentences
from lasthop.studies.text import read_text

CLAIMS_FILE = "claims.toml"
_CLAIM = "claim"
_TOP = ("where", "select", "metrics", "elsewhere", _CLAIM)
_TEXTS = ("id", "text", "section", "reading", "explanation", "uncomputable", "story", "contradicts_source")
_QUANTIFIERS = ("every", "most", "some")
_KEYS = (*_TEXTS, *_QUANTIFIERS, "at_least", "holds", "where", "within", "contradicts", "statements")
_STORY = "lasthop explain "


@dataclass(frozen=True)
class Claim:
    """A claim of a study.

    All comparisons in `holds` must hold, on the mean over the cells: at each level of the factors `every`,
    and there at four fifths of the levels of the factors `most`, or at one level (or at least `at_least`) of
    the factors `some`. `where` restricts the claim to levels. `within` is the tolerance of `==`, `<=` and
    `>=`, a share of the right side. `reading` is our interpretation of the source, `explanation` the reason
    why the records do not support the claim, and `contradicts_source` the part of the source that the claim
    contradicts. `story` is a command that explains a run. `statements` are the ids of the sentences that the
    claim covers. `uncomputable` is the reason why a claim without `holds` cannot be tested.
    """

    id: str
    text: str
    section: str = ""
    holds: tuple[Laid, ...] = ()
    every: tuple[str, ...] = ()
    most: tuple[str, ...] = ()
    some: tuple[str, ...] = ()
    at_least: int = 1
    within: float = 0.0
    contradicts: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    where: str = ""
    reading: str = ""
    explanation: str = ""
    uncomputable: str = ""
    story: str = ""
    contradicts_source: str = ""


@dataclass(frozen=True)
class Claims:
    """All claims of a study, in the order of the file.

    `elsewhere` are ids of claims of the source that are not in the file. `sentences` are the source's
    statements, if a file in the same folder lists them.
    """

    file: Path
    claims: tuple[Claim, ...]
    elsewhere: tuple[str, ...] = ()
    factors: Sequence[str] = field(default_factory=list)
    sentences: tuple[Sentence, ...] = ()
    by_means: bool = False
    """Means decide, regardless of their intervals."""


@dataclass(frozen=True)
class Changes:
    """The changes in another reading of the source: levels of claims, formulas of metrics, the decision."""

    where: Mapping[str, object] = field(default_factory=dict)
    metrics: Mapping[str, object] = field(default_factory=dict)
    by_means: bool = False


def claims_file(scenario_file: Path) -> Path:
    """Return the path of the claims on a study."""
    return scenario_file.resolve().parent / CLAIMS_FILE


def find_claims(scenario_file: Path, study: Scenario) -> Claims | None:
    """Read the claims on a scenario: its own, those of `NAME.claims.toml` next to it, or a study's.

    Raises `InputError` as `load_claims` does, and if a scenario has claims in two files.
    """
    beside = scenario_file.with_suffix(f".{CLAIMS_FILE}")
    own = _own_claims(scenario_file, study)
    if own is not None and beside.is_file():
        raise InputError(
            f"Both {scenario_file} and {beside.name} contain claims: put all of them into one of these files."
        )
    if own is None and not beside.is_file() and scenario_file.name == SCENARIO_FILE:
        beside = claims_file(scenario_file)
    return load_claims(beside, study) if own is None and beside.is_file() else own


def _own_claims(file: Path, study: Scenario) -> Claims | None:
    """Read the claims in a scenario file itself; `None` if there are none."""
    if _CLAIM.encode() not in _core.read_file(str(file)):
        return None
    text, data = read_toml(file)
    if _CLAIM not in data:
        return None
    return _Reader(file, text, Design.of(study), ()).read({_CLAIM: data[_CLAIM]}, Changes())


def claim_in_code(entry: Mapping[str, object], study: Scenario) -> Claims:
    """Read a claim that is in no file, given by the keys of `[[claim]]`; raise `InputError`."""
    return _Reader(Path("assert_claim"), "", Design.of(study), ()).read({_CLAIM: [entry]}, Changes())


def load_claims(file: Path, study: Scenario, changes: Changes | None = None) -> Claims:
    """Read a file of claims on a scenario; raise `InputError`."""
    text, data = read_toml(file)
    return _Reader(file, text, Design.of(study), read_sentences(file.parent)).read(data, changes or Changes())


def read_toml(file: Path) -> tuple[str, dict[str, object]]:
    """Return the text of a TOML file and its contents; raise `InputError`."""
    text = read_text(file)
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: {error}.") from error


def error_at(file: Path, text: str, pattern: str, what: str, reason: str) -> InputError:
    """Return an error on the first line that begins with the pattern, or on the file without such a line."""
    line = _first_line(text, pattern) if pattern else None
    return InputError(": ".join(filter(None, (f"{file}:{line}" if line else str(file), what, reason))))


def line_of(file: Path, name: str) -> int:
    """Return the line of a file with the id `name`."""
    text, _ = read_toml(file)
    return _first_line(text, id_pattern(name)) or 1


def _first_line(text: str, pattern: str) -> int | None:
    return next((n for n, line in enumerate(text.splitlines(), 1) if re.match(pattern, line)), None)


def id_pattern(name: str) -> str:
    """Return the pattern of a line with the id `name`."""
    return rf"\s*id\s*=\s*[\"']{re.escape(name)}[\"']"


class _Reader:
    def __init__(self, file: Path, text: str, design: Design, sentences: tuple[Sentence, ...]) -> None:
        self._file = file
        self._text = text
        self._design = design
        self._sentences = sentences
        self._where: Levels = {}
        self._words = Vocabulary(design.factors)

    def read(self, data: Mapping[str, object], changes: Changes) -> Claims:
        for key in data:
            if key not in _TOP:
                raise self._error("", f"there is no key '{key}'; did you mean '{nearest(key, _TOP)}'?")
        entries = data.get(_CLAIM, [])
        if (
            not isinstance(entries, list)
            or not entries
            or not all(isinstance(entry, dict) for entry in entries)
        ):
            raise self._error("", "there are no claims: each must begin with a line [[claim]].")
        metrics = {}
        for name, formula in {**self._table(data, "metrics"), **changes.metrics}.items():
            with self._reading("[metrics]", name):
                metrics[name] = parse_metric(name, _text(formula))
        selections = {}
        for name, levels in self._table(data, "select").items():
            selections[name] = self._levels("[select]", name, levels)
        self._where = self._levels("[where]", "", {**self._table(data, "where"), **changes.where})
        self._words = Vocabulary(self._design.factors, metrics, selections)
        claims = tuple(self._claim(number, entry) for number, entry in enumerate(entries, 1))
        elsewhere = self._list("", "elsewhere", data.get("elsewhere", []))
        self._check_ids(claims, elsewhere)
        factors = list(self._design.factors)
        return Claims(self._file, claims, elsewhere, factors, self._sentences, by_means=changes.by_means)

    def _error(self, place: str, reason: str) -> InputError:
        """Return an error on `place`, which is a table or the id of a claim."""
        if place[:1] in ("", "["):
            return error_at(self._file, self._text, re.escape(place), place, reason)
        return error_at(self._file, self._text, id_pattern(place), f"claim {place}", reason)

    @contextmanager
    def _reading(self, place: str, key: str) -> Iterator[None]:
        """Add the place to errors raised within this context."""
        try:
            yield
        except ClaimError as error:
            reason = str(error)
        except RecursionError:
            reason = "the expression is nested too deeply."
        else:
            return
        raise self._error(place, ": ".join(filter(None, (key, reason))))

    def _table(self, data: Mapping[str, object], key: str) -> Mapping[str, object]:
        table = data.get(key, {})
        if not isinstance(table, dict):
            raise self._error("", f"{key} is not a table.")
        return table

    def _levels(self, place: str, name: str, levels: object) -> Levels:
        with self._reading(place, name):
            if not isinstance(levels, dict):
                raise ClaimError('write a table such as { window = "iw10" }.')
            return self._words.selection(levels)

    def _list(self, place: str, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error(place, f"{key} is not a list of texts.")
        return tuple(value)

    def _claim(self, number: int, entry: Mapping[str, object]) -> Claim:
        name = entry.get("id")
        if not isinstance(name, str) or not name or name.startswith("["):
            raise self._error("", f'[[claim]] number {number} has no id: add one, such as id = "C{number}".')
        for key in entry:
            if key not in _KEYS:
                raise self._error(name, f"there is no key '{key}'; did you mean '{nearest(key, _KEYS)}'?")
        for key in _TEXTS:
            if not isinstance(entry.get(key, ""), str):
                raise self._error(name, f"{key} is not a text.")
        if not entry.get("text"):
            raise self._error(name, "text, the statement in the words of its source, is missing.")
        if ("holds" in entry) == bool(entry.get("uncomputable")):
            raise self._error(
                name,
                "give either holds, the comparisons that must hold, or uncomputable, the reason why there "
                "are none.",
            )
        texts: dict[str, Any] = {key: str(entry.get(key, "")) for key in _TEXTS}
        if "story" in entry and not texts["story"].startswith(_STORY):
            raise self._error(name, f"story must be a command that begins with '{_STORY}'.")
        claim = Claim(
            **texts,
            contradicts=self._list(name, "contradicts", entry.get("contradicts", [])),
            statements=self._statements(name, entry),
        )
        if "holds" not in entry:
            return claim
        holds = self._holds(name, entry)
        quantified: dict[str, Any] = {key: self._quantified(name, key, entry, holds) for key in _QUANTIFIERS}
        factors = [factor for own in quantified.values() for factor in own]
        twice = next((factor for factor in factors if factors.count(factor) > 1), None)
        if twice is not None:
            raise self._error(name, f"{twice} occurs twice in {', '.join(_QUANTIFIERS)}.")
        if quantified["most"] and quantified["some"]:
            raise self._error(name, "give either most or some.")
        within = self._within(name, entry, holds)
        return replace(
            claim,
            holds=holds,
            **quantified,
            at_least=self._at_least(name, entry, quantified, holds),
            within=within,
            where=_levels_text(cast("Mapping[str, object]", entry.get("where", {}))),
        )

    def _statements(self, name: str, entry: Mapping[str, object]) -> tuple[str, ...]:
        ids = self._list(name, "statements", entry.get("statements", []))
        listed = [sentence.id for sentence in self._sentences]
        for own in ids:
            if not listed:
                raise self._error(
                    name, f"statements: {STATEMENTS_FILE} is missing in the folder of {self._file.name}."
                )
            if own not in listed:
                reason = f"there is no '{own}' in {STATEMENTS_FILE}; did you mean '{nearest(own, listed)}'?"
                raise self._error(name, f"statements: {reason}")
        return ids

    def _holds(self, name: str, entry: Mapping[str, object]) -> tuple[Laid, ...]:
        where = {**self._where, **self._levels(name, "where", entry.get("where", {}))}
        holds = entry["holds"]
        parser = Parser(self._words)
        layouts = []
        for text in [holds] if isinstance(holds, str) else self._list(name, "holds", holds):
            with self._reading(name, "holds"):
                layouts += [lay_out(statement, where, self._design) for statement in parser.statements(text)]
        if not layouts:
            raise self._error(name, "holds is empty.")
        return tuple(layouts)

    def _quantified(
        self, name: str, key: str, entry: Mapping[str, object], statements: Sequence[Laid]
    ) -> tuple[str, ...]:
        factors = self._list(name, key, entry.get(key, []))
        valid = [*self._design.factors, FLOW]
        for factor in factors:
            if factor not in valid:
                raise self._error(
                    name, f"{key}: there is no factor '{factor}'; did you mean '{nearest(factor, valid)}'?"
                )
            fixed = next((laid for laid in statements if factor not in laid.dimensions), None)
            if fixed is not None:
                reason = "it is not in where" if factor == FLOW else "its terms select the level"
                raise self._error(name, f"{key}: '{fixed.statement.text}' does not vary {factor}: {reason}.")
        return factors

    def _at_least(
        self,
        name: str,
        entry: Mapping[str, object],
        quantified: Mapping[str, tuple[str, ...]],
        holds: Sequence[Laid],
    ) -> int:
        if "at_least" not in entry:
            return 1
        least = entry["at_least"]
        if not quantified["some"]:
            raise self._error(name, "at_least is a number of levels of some: add some.")
        most = min(
            len(laid.groups(quantified["some"], members))
            for laid in holds
            for _, members in laid.groups(quantified["every"])
        )
        if isinstance(least, bool) or not isinstance(least, int) or not 1 <= least <= most:
            raise self._error(
                name, f"at_least is '{least}' but must be from 1 to {most}, the number of levels of some."
            )
        return least

    def _within(self, name: str, entry: Mapping[str, object], statements: Sequence[Laid]) -> float:
        relations = {laid.statement.relation for laid in statements if isinstance(laid.statement, Comparison)}
        within = entry.get("within")
        if within is None:
            if "==" in relations:
                raise self._error(
                    name, "== needs a tolerance, such as within = 0.1 for 10 % of the right side."
                )
            return 0.0
        if isinstance(within, bool) or not isinstance(within, int | float) or not 0 < within < 1:
            raise self._error(
                name, f"within is '{within}' but must be a share of the right side, between 0 and 1."
            )
        if not relations & set(WEAK):
            raise self._error(name, "within is the tolerance of ==, <= and >=, but holds has none of them.")
        return float(within)

    def _check_ids(self, claims: Sequence[Claim], elsewhere: Sequence[str]) -> None:
        ids = [claim.id for claim in claims]
        twice = next((name for name in ids if ids.count(name) > 1 or name in elsewhere), None)
        if twice is not None:
            raise self._error(twice, "the id is not unique.")
        valid = {*ids, *elsewhere}
        for claim in claims:
            for other in claim.contradicts:
                if other not in valid:
                    raise self._error(
                        claim.id,
                        f"contradicts: there is no claim '{other}'; did you mean '{nearest(other, valid)}'? "
                        "Add claims of the source that are not in this file to elsewhere.",
                    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ClaimError("write a text such as 'lost_packets / sent_packets'.")
    return value


def _levels_text(where: Mapping[str, object]) -> str:
    """Format levels as on the command line."""
    return ",".join(
        f"{factor}={level}"
        for factor, levels in where.items()
        for level in (levels if isinstance(levels, list) else [levels])
    )
