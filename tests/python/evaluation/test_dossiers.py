"""Whole dossiers of the quick set: the verdict, numbers in each section, and the page in a real browser."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from browser import requested, start_chrome
from lasthop.evaluation.rows import read_set
from lasthop.scenario.examples import find_example

Main = Callable[..., int]
OWN = f"{find_example('own').with_name('own.py')}:Gentle"
VERDICTS = {"reno": 0, "prague": 4, OWN: 4, "cubic": 0, "bbr": 4, "bbr3": 4, "vegas": 5}
IN_CI = ("reno", "prague", OWN)


def lies_in_page(browser: webdriver.Chrome, within: str) -> None:
    """Check that each picture and table is seen: it has a size, and is no wider than the page."""
    width = browser.execute_script("return document.documentElement.clientWidth")
    for element in browser.find_elements(By.CSS_SELECTOR, within):
        box = element.rect
        assert box["width"] > 100
        assert box["height"] > 20
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize(
    ("control", "code"),
    [
        pytest.param(control, code, marks=() if control in IN_CI else pytest.mark.long)
        for control, code in VERDICTS.items()
    ],
    ids=[control.rpartition(":")[2] for control in VERDICTS],
)
def test_a_dossier_has_numbers_in_each_section_and_its_page_shows_them(
    control: str, code: int, lasthop_main: Main, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert lasthop_main("evaluate", control, "--out", str(out), "--quiet") == code
    chosen = read_set("quick")
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in csv.DictReader((out / "dossier.csv").read_text(encoding="utf-8").splitlines()):
        if row["value"]:
            found[row["section"], row["scenario"]].add(row["tested"] + row["control"])
    name = control.rpartition(":")[2]
    controls = {f"True{name}", "Falsereno", "Falsecubic"}
    rows = [(section, row) for section in chosen.sections for row in section.rows]
    assert found == {(section.id, row.name): controls for section, row in rows}

    with start_chrome(tmp_path / "profile") as browser:
        browser.get((out / "dossier.html").as_uri())
        assert name in browser.find_element(By.TAG_NAME, "h1").text
        assert len(browser.find_elements(By.CSS_SELECTOR, "section[id] > h2")) == len(chosen.sections)
        assert len(browser.find_elements(By.TAG_NAME, "svg")) == len(rows)
        (law,) = [row for _, row in rows if row.laws]
        lines = len(law.laws) * len(law.scenario["factor"]["loss"])
        assert len(browser.find_elements(By.CSS_SELECTOR, "svg line[stroke-dasharray]")) == lines
        lies_in_page(browser, "svg, div.scroll")
        assert requested(browser) == [(out / "dossier.html").as_uri()]
        assert browser.get_log("browser") == []
