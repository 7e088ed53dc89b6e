"""The classes of a router as a tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import STUDY
from lasthop.present.pictures.classes import Node, _tree, tree_panel
from lasthop.present.pictures.shapes import Picture
from lasthop.present.pictures.sheet import sheet_figure
from lasthop.present.pictures.static import STYLE

EXAMPLE = STUDY.parents[1] / "examples" / "diffserv.toml"
Main = Callable[..., int]

NESTED = {
    "queue": {"limit": "40 packets", "red": None},
    "link": {"rate": "1 Mbit/s"},
    "htb": {
        "rate": "1 Mbit/s",
        "overhead": "14 B",
        "class": [
            {"name": "home", "rate": "600 kbit/s", "ceil": "1 Mbit/s", "priority": 0},
            {
                "name": "voice",
                "parent": "home",
                "rate": "100 kbit/s",
                "ceil": None,
                "priority": 0,
                "match": [{"dscp": "EF", "port": None}, {"port": 5060, "protocol": "udp"}],
                "queue": {"limit": "9000 B", "red": {"min": "2000 B", "max": "6000 B"}},
            },
            {"name": "guests", "rate": "400 kbit/s", "priority": 2, "default": True, "quantum": "1500 B"},
            {
                "name": "web",
                "parent": "home",
                "rate": "500 kbit/s",
                "priority": 1,
                "match": [{"port": 80}],
                "queue": {"limit": "200 packets", "discipline": "fq_codel"},
            },
        ],
    },
}


def test_a_tree_says_who_lends_to_whom_and_what_queues_take() -> None:
    voice = Node(
        "voice",
        [
            "rate 100 kbit/s, priority 0",
            "takes EF or port 5060 and udp",
            "RED from 2000 B to 6000 B, at most 9000 B",
        ],
        [],
    )
    web = Node("web", ["rate 500 kbit/s, priority 1", "takes port 80", "fq_codel, at most 200 packets"], [])
    guests = Node(
        "guests",
        ["rate 400 kbit/s, priority 2, quantum 1500 B", "takes all others", "tail drop, at most 40 packets"],
        [],
    )
    home = Node("home", ["rate 600 kbit/s, ceiling 1 Mbit/s"], [voice, web])
    root = ["rate 1 Mbit/s", "overhead of 14 B per packet", "before a link of 1 Mbit/s"]
    assert _tree(NESTED) == Node("root", root, [home, guests])


@pytest.mark.parametrize("width", ["column", "page"])
def test_boxes_stand_apart_and_nothing_is_cut_off(width: str) -> None:
    import matplotlib as mpl

    root = _tree(NESTED)
    trees = [tree_panel(root, way) for way in ("down", "up")]
    with mpl.rc_context(STYLE):
        figure = sheet_figure(Picture(trees, 0.0, 0.0, []), width)
        drawn = figure.get_tightbbox()
        boxes = [patch.get_window_extent() for patch in figure.axes[0].patches]
        names = [text for text in figure.axes[0].texts if text.get_weight() == "bold"]
        texts = [text.get_window_extent() for text in figure.axes[0].texts]
    right, top = figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) >= 0
    assert (drawn.x1 <= right, drawn.y1 <= top) == (True, True)
    assert sorted(name.get_text() for name in names) == ["guests", "home", "root", "voice", "web"]
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])
    inside = [any(box.x0 <= text.x0 and text.x1 <= box.x1 for box in boxes) for text in texts]
    assert inside.count(False) <= 1  # the direction stands above its tree


def test_no_run_is_made_for_it(lasthop_main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a run was made")

    monkeypatch.setattr("lasthop.campaign.plan.ChosenRun.overview", refuse)
    monkeypatch.setattr("lasthop.campaign.plan.ChosenRun.trace", refuse)
    one = ("plot", EXAMPLE, "--only", "router=classes,queue=red", "--kind", "classes")
    assert lasthop_main(*one, "--out", "classes.svg", "--caption", "classes.txt") == 0
    told = " ".join(Path("classes.txt").read_text(encoding="utf-8").split())
    assert told.startswith("Classes of the router. diffserv, router=classes,queue=red, seed 1, model engine")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--only", "router=one-queue,queue=red"),
            ["no router of router=one-queue,queue=red has classes", "--only"],
        ),
        (("--only", "router=classes,queue=red", "--from", "1"), ["--from", "shows the router"]),
        (("--only", "router=classes,queue=red", "--flow", "stream"), ["--flow", "shows the router"]),
    ],
)
def test_what_has_no_classes_is_said(
    options: tuple[str, ...], words: list[str], lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("plot", EXAMPLE, "--kind", "classes", *options) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert list(Path().iterdir()) == []
