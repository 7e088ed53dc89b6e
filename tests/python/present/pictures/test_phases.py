"""The phases of a connection, shaded in the picture of its window."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import pytest

from conftest import STUDY
from lasthop.analysis.explain import facts, follow
from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.engines.rows import rows
from lasthop.present.pictures import phases
from lasthop.present.pictures.files import PictureRequest, RunPicture, picture_run
from lasthop.present.pictures.marks import PHASES
from lasthop.present.pictures.phases import phases_of
from lasthop.present.pictures.static import STYLE, figure_of
from lasthop.scenario.facts import Facts
from lasthop.scenario.points import read_study
from lasthop.scenario.selection import select_cell
from lasthop.studies.catalogue import find_scenario

EXAMPLES = STUDY.parents[1] / "examples"
TIMEOUT = ("link=r6,workload=2tcp0udp,variant=frto", 12, "tcp-1")
S = 1_000_000_000


def run_of(source: str, only: str, replication: int = 1) -> ChosenRun:
    study = read_study(find_scenario(source))
    cell = select_cell(study.cells, study.factors, None, [only] if only else [])
    return ChosenRun(Plan(study, [cell], study.seed, study.replications), cell, 1, replication)


def picture_of(run: ChosenRun, *flows: str, log: str | None = None) -> RunPicture:
    shown = picture_run(run, PictureRequest(kinds="cwnd", flows=flows, log=log))
    assert isinstance(shown, RunPicture)
    return shown


def test_waiting_for_the_timer_cuts_other_phases() -> None:
    """The sender waits from 3 s on; the timer expires at 5 s, when recovery begins."""
    made: Any = SimpleNamespace(
        phases=[
            facts.Phase(facts.SET_UP, 0, S, 0, 0),
            facts.Phase(facts.SLOW_START, S, 5 * S, 10, 40),
            facts.Phase(facts.AFTER_TIMEOUT, 5 * S, 8 * S, 1, 20),
        ],
        waits=[(3 * S, 5 * S), (6 * S, 7 * S)],
    )
    assert [(phase.kind, phase.start, phase.stop) for phase in phases_of(made)] == [
        ("connection set-up", 0, 1),
        ("slow start", 1, 3),
        ("waiting for the timer", 3, 5),
        ("recovery after a timeout", 5, 6),
        ("waiting for the timer", 6, 7),
        ("recovery after a timeout", 7, 8),
    ]


def test_the_picture_has_the_phases_of_the_story() -> None:
    only, replication, name = TIMEOUT
    run = run_of("kulve2003", only, replication)
    (panel,) = picture_of(run, name).panels
    trace = run.trace()
    number = trace.flows["flow"].index(name)
    record = list(rows(trace.flows))[number]
    story = facts.gather(
        follow(trace, Facts.of(run.cell)), trace.transport, record, number, trace.bad_periods
    )
    total = Counter[str]()
    for phase in panel.phases:
        total[phase.kind] += phase.stop - phase.start  # type: ignore[assignment]
    assert total == pytest.approx({kind: s for kind, s in story.seconds_by_phase().items() if s})
    assert set(total) >= {facts.WAITING, facts.AFTER_TIMEOUT, facts.RECOVERY}
    assert all(before.stop == after.start for before, after in itertools.pairwise(panel.phases))


def test_only_a_single_connection_has_phases() -> None:
    coexistence = run_of(str(EXAMPLES / "coexistence.toml"), "")
    assert not picture_of(coexistence).panels[0].phases
    assert picture_of(coexistence, "reno-1").panels[0].phases
    quic = run_of(str(EXAMPLES / "quic.toml"), "neighbour=tcp")
    assert not picture_of(quic, "quic").panels[0].phases
    assert picture_of(quic, "neighbour").panels[0].phases


def test_a_run_of_many_events_says_that_it_has_no_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "_MOST_EVENTS", 1000)
    picture = picture_of(run_of(str(EXAMPLES / "modern.toml"), "control=reno,link=clean"))
    assert not picture.panels[0].phases
    assert "Phases are not shaded, because the run has more than 1,000 events." in picture.remarks()


@pytest.mark.parametrize("width", ["column", "page"])
@pytest.mark.parametrize("log", [None, "xy"])
@pytest.mark.parametrize(
    ("chosen", "flows"),
    [
        (("kulve2003", *TIMEOUT[:2]), TIMEOUT[2:]),  # with bad periods
        ((str(EXAMPLES / "bufferbloat.toml"), "queue=drop-tail"), ()),
    ],
)
def test_labels_lie_in_their_bands_and_the_legend_has_the_others(
    chosen: tuple[Any, ...], flows: tuple[str, ...], width: str, log: str | None
) -> None:
    shown = picture_of(run_of(*chosen), *flows, log=log)
    picture = shown.of(shown.panels)
    with mpl.rc_context(STYLE):
        figure = figure_of(picture, width)
        figure.draw_without_rendering()
        axes = figure.axes[0]
        labels = [(text.get_text(), text.get_window_extent()) for text in axes.texts]
        inside = axes.get_window_extent()
        lines = [
            line.get_window_extent().y1 for line in axes.get_lines() if line.get_drawstyle() != "default"
        ]
    assert labels
    for (_, one), (_, other) in itertools.combinations(labels, 2):
        assert not one.overlaps(other)
    words = {word for kind in PHASES for word in kind.split()}
    for text, box in labels:
        assert set(text.split()) <= words
        assert inside.x0 <= box.x0
        assert box.x1 <= inside.x1
        assert box.y1 <= inside.y1
        assert box.y0 > min(max(lines), inside.y1) - 1  # above the lines
    legend = {entry.get_text() for entry in axes.get_legend().get_texts()}
    labelled = " ".join(text for text, _ in labels)
    visible = {phase.kind for phase in shown.panels[0].phases if phase.stop > picture.stop * 1e-3}
    unlabelled = {kind for kind in visible if kind.split()[0] not in labelled.split()}
    assert unlabelled <= legend
