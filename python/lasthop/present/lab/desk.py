"""The answers to the page's questions, computed in a separate process, which may be killed at any time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from lasthop import _core
from lasthop.common.algorithms import code_digest
from lasthop.common.errors import InputError
from lasthop.engines.engine import WHOLE, Observation, Outcome, Request
from lasthop.engines.model_engine import ModelEngine
from lasthop.present.lab.controls import controls
from lasthop.present.lab.editing import edit
from lasthop.present.lab.measures import main_flow, measures
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.picture import Numbers, picture
from lasthop.present.lab.tale import Tale, check_length
from lasthop.present.pictures.network_layout import network_svg
from lasthop.present.pictures.trace_tables import TraceTables
from lasthop.scenario.facts import Facts

Question = Mapping[str, Any]
MOST_SECONDS = 8.0
"""The longest processor time of a run."""
TOO_LARGE = "The run was stopped: it exceeded the lab's memory limit. Use fewer flows or packets."
MOST_REPLICATION = 10_000
_MOST_SEED = 2**64 - 1
_LONGEST_SHOWN = 200
_ENGINE = ModelEngine()
_ERROR_LINE = re.compile(r"^(?P<file>.*?):(?:(?P<line>\d+):)? (?P<text>.*)$")


class Desk:
    """Answers the page's questions about the opened scenario."""

    def __init__(self, opened: Opened, stopped: Callable[[], bool]) -> None:
        """Answer for an opened scenario; `stopped` returns whether the answer is no longer needed."""
        self._opened = opened
        self._stopped = stopped
        self._tale: tuple[object, Tale] | None = None
        """The last story with the key of its run, because the reader may request another part of it."""

    def answer(self, question: Question) -> bytes:
        """Return the answer, which may be an error in the question."""
        numbers = Numbers()
        handlers = {"look": self._look, "story": self._story, "measure": self._measure}
        text = str(question.get("text", ""))
        header: dict[str, object] = {"text": text}
        try:
            for change in question.get("changes") or ():
                # The text is changed even if the value is wrong, so that the error has a line.
                text = edit(text, str(change["path"]), change["value"], question.get("levels") or {})
            header["text"] = text
            header |= handlers[question["ask"]](text, question, numbers)
        except _core.ScenarioError as error:
            header["errors"] = [_error_line(line) for line in str(error).splitlines()]
        except (InputError, _core.UserCodeError) as error:
            header["errors"] = [{"line": None, "text": line} for line in str(error).splitlines()]
        except MemoryError:
            header["errors"] = [{"line": None, "text": TOO_LARGE}]
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # not a question of the page
            header["errors"] = [{"line": None, "text": f"The lab cannot parse this question: {error!r}."}]
        return numbers.after(header)

    def _look(self, text: str, question: Question, numbers: Numbers) -> dict[str, object]:
        study, cell, seed, replication, first = self._parse(text, question)
        started = time.perf_counter()
        outcome = self._run(cell, seed, first, replication)
        scenario = json.loads(cell.scenario)
        tables, measured = _measured(cell, outcome, replication, question.get("withheld") or ())
        return {
            "title": study.title or study.name,
            "factors": study.factors,
            "notices": list(study.notes),
            "network": network_svg(cell),
            "controls": controls(scenario),
            "resolved": dict(_flat(scenario)),
            **measured,
            **picture(tables, numbers),
            "computed_s": time.perf_counter() - started,
        }

    def _measure(self, text: str, question: Question, numbers: Numbers) -> dict[str, object]:
        del numbers
        _, cell, seed, replication, first = self._parse(text, question)
        return _measured(cell, self._run(cell, seed, first, replication), replication)[1]

    def _story(self, text: str, question: Question, numbers: Numbers) -> dict[str, object]:
        del numbers
        _, cell, seed, replication, first = self._parse(text, question)
        run = (cell.digest, [code_digest(name) for _, name in cell.code], seed, first, replication)
        if self._tale is None or self._tale[0] != run:
            self._tale = None  # frees memory for the next story
            outcome = self._run(cell, seed, first, replication)
            check_length(int(outcome.results.runs["packets_sent"][0]))
            whole = _ENGINE.run(cell, Request.of_one(seed, first, replication, Observation(trace=True)))
            assert whole.trace is not None
            self._tale = run, Tale.of(whole.trace, Facts.of(cell))
        return self._tale[1].within(question.get("span"))

    def _parse(self, text: str, question: Question) -> tuple[_core.Study, _core.Cell, int, int, int]:
        """Return scenario, cell, seed, replication, and the first replication of its chain."""
        study = self._opened.parse(text)
        replication = _whole("Replication", question.get("replication") or 1, MOST_REPLICATION)
        cell = _nearest(study, question.get("levels") or {}, question.get("chosen"))
        _ENGINE.check(study, [cell])
        seed = (
            study.seed
            if question.get("seed") is None
            else _whole("Seed", question["seed"], _MOST_SEED, least=0)
        )
        first = (
            _whole("The chain's start", question.get("first") or 1, replication)
            if cell.sequential
            else replication
        )
        return study, cell, seed, replication, first

    def _run(self, cell: _core.Cell, seed: int, first: int, replication: int) -> Outcome:
        end = time.process_time() + MOST_SECONDS
        late = False

        def stop() -> bool:
            nonlocal late
            late = time.process_time() > end
            return late or self._stopped()

        try:
            wanted = Request(seed, first, replication - first + 1, {replication: Observation(overview=WHOLE)})
            return _ENGINE.run(cell, wanted, stop=stop)
        except KeyboardInterrupt:
            if not late:
                raise
            raise InputError(
                f"The run was stopped after {MOST_SECONDS:g} s of processor time. Shorten the flows, or "
                "reduce the rate of the link."
            ) from None


def _measured(
    cell: _core.Cell, outcome: Outcome, replication: int, withheld: Collection[str] = ()
) -> tuple[TraceTables, dict[str, object]]:
    """Return the tables of a run, and its metrics without those withheld, with the flow of most interest."""
    assert outcome.trace is not None
    facts = Facts.of(cell)
    tables = TraceTables.of(outcome.trace, facts)
    return tables, {
        "levels": cell.levels,
        "replication": replication,
        "measures": measures(outcome.results, replication, withheld),
        "flow": main_flow(tables.flows, facts),
    }


def _whole(what: str, value: object, most: int, least: int = 1) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{what} {value}: must be a whole number from {least} to {most}.")
    return value


def _error_line(line: str) -> dict[str, object]:
    match = _ERROR_LINE.match(line)
    if match is None:
        return {"line": None, "text": line}
    number = match["line"]
    return {"line": None if number is None else int(number), "file": match["file"], "text": match["text"]}


def _nearest(study: _core.Study, levels: Mapping[str, str], chosen: str | None) -> _core.Cell:
    """Return the cell with these levels, or else the most similar cell with the last level chosen."""
    if not study.cells:
        raise InputError("The scenario has no cells.")

    def fit(cell: _core.Cell) -> tuple[bool, int]:
        own = cell.levels
        same = sum(own.get(factor) == level for factor, level in levels.items())
        return chosen in levels and own.get(str(chosen)) == levels[str(chosen)], same

    return max(study.cells, key=fit)


def _flat(node: object, path: str = "") -> list[tuple[str, object]]:
    """Return the values of a resolved scenario by their paths, without long texts."""
    if isinstance(node, Mapping):
        return [
            pair
            for key, value in node.items()
            for pair in _flat(value, f"{path}.{key}" if path else str(key))
        ]
    if isinstance(node, list):
        return [pair for place, value in enumerate(node) for pair in _flat(value, f"{path}.{place}")]
    return [(path, node[:_LONGEST_SHOWN] if isinstance(node, str) else node)]
