"""Whole dossiers of the quick set: the verdict, numbers in each section, and the page in a real browser."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from browser import requested, start_chrome
from lasthop.evaluate import rows
from lasthop.evaluate.rows import Row
from lasthop.scenario.examples import find_example
from long_tests import ENGINE

Main = Callable[..., int]
OWN = f"{find_example('own').with_name('own.py')}:Gentle"
# The exit code, and the processor seconds that it takes.
VERDICTS = {
    "reno": (0, 18),
    "prague": (4, 30),
    OWN: (4, 36),
    "cubic": (0, 18),
    "bbr": (4, 32),
    "bbr3": (4, 34),
    "vegas": (5, 26),
}
COVERS = (
    "python/lasthop/evaluate",
    "python/lasthop/studies/claims",
    "python/lasthop/analysis/claims",
    *ENGINE,
)


def check_page(page: Path, name: str, shown: Sequence[Row], profile: Path) -> None:
    """Check that the page shows a picture and a table of each row, and that none is lost beyond its edge."""
    (law,) = [row for row in shown if row.laws]
    lines = len(law.laws) * len(law.scenario["factor"]["loss"])
    with start_chrome(profile) as browser:
        browser.get("about:blank")
        for log in ("browser", "performance"):  # forget what the browser's own first page asked for
            browser.get_log(log)
        browser.get(page.as_uri())
        assert name in browser.find_element(By.TAG_NAME, "h1").text
        assert [len(browser.find_elements(By.CSS_SELECTOR, one)) for one in ("h3", "svg", "div.scroll")] == [
            len(shown)
        ] * 3
        assert len(browser.find_elements(By.CSS_SELECTOR, "svg line[stroke-dasharray]")) == lines
        width = browser.execute_script("return document.documentElement.clientWidth")
        for element in browser.find_elements(By.CSS_SELECTOR, "svg, div.scroll"):
            box = element.rect
            assert box["width"] > 100
            assert box["height"] > 20
            assert box["x"] + box["width"] <= width
        assert requested(browser) == [page.as_uri()]
        assert browser.get_log("browser") == []


def check_dossier(control: str, code: int, lasthop_main: Main, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert lasthop_main("evaluate", control, "--out", str(out), "--quiet") == code
    chosen = rows.read_set("quick")
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in csv.DictReader((out / "dossier.csv").read_text(encoding="utf-8").splitlines()):
        if row["value"]:
            found[row["section"], row["scenario"]].add(row["tested"] + row["control"])
    name = control.rpartition(":")[2]
    controls = {f"True{name}", "Falsereno", "Falsecubic"}
    each = [(section.id, row) for section in chosen.sections for row in section.rows]
    assert found == {(section, row.name): controls for section, row in each}
    check_page(out / "dossier.html", name, [row for _, row in each], tmp_path / "profile")


@pytest.mark.parametrize(
    ("control", "code"),
    [
        pytest.param(control, code, marks=pytest.mark.long(covers=COVERS, seconds=seconds))
        for control, (code, seconds) in VERDICTS.items()
    ],
    ids=[control.rpartition(":")[2] for control in VERDICTS],
)
def test_a_dossier_has_numbers_in_each_section_and_its_page_shows_them(
    control: str, code: int, lasthop_main: Main, tmp_path: Path
) -> None:
    check_dossier(control, code, lasthop_main, tmp_path)


@pytest.mark.long(covers=COVERS, seconds=35)
def test_a_dossier_of_two_replications_has_them_too_and_is_undecided(
    lasthop_main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = rows.read_set

    def of_two(row: rows.Row) -> rows.Row:
        return replace(row, scenario={**row.scenario, "replications": 2})

    def short(name: str) -> rows.Set:
        chosen = whole(name)
        sections = [replace(one, rows=[*map(of_two, one.rows)]) for one in chosen.sections]
        return replace(chosen, sections=sections)

    monkeypatch.setattr(rows, "read_set", short)
    check_dossier("reno", 5, lasthop_main, tmp_path)
