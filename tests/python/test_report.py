from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import pytest

import fake_core

MEGABYTE = 1_000_000


class Page(HTMLParser):
    """Collects what a browser would fetch, and the figures."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self._json: list[str] = []
        self.text: list[str] = []
        self.policy = ""
        self._tag = "text"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "action", "data") and v is not None]
        self._tag = "json" if values.get("type") == "application/json" else tag
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"] or ""

        if self._tag == "json":
            self._json.append("")

    @property
    def figures(self) -> list[dict[str, object]]:
        return [json.loads(text) for text in self._json]

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._tag = "text"

    def handle_data(self, data: str) -> None:
        if self._tag == "json":
            self._json[-1] += data
        elif self._tag not in ("script", "style"):
            self.text.append(data)


def read(report: Path) -> Page:
    page = Page()
    page.feed(report.read_text(encoding="utf-8"))
    return page


@pytest.fixture
def study_report(engine: fake_core.Engine, study_file: Path, tmp_path: Path, lasthop_main: Callable[..., int]) -> Path:
    del engine
    assert lasthop_main("run", study_file, "--out", tmp_path / "out", "--quiet") == 0
    return tmp_path / "out" / "report.html"


def test_report_asks_for_nothing_from_outside(study_report: Path) -> None:
    page = read(study_report)
    assert page.addresses
    assert all(re.match(r"#|data:", address) for address in page.addresses)
    assert "default-src 'none'" in page.policy
    assert study_report.stat().st_size < 15 * MEGABYTE


def test_every_figure_is_valid_plotly(study_report: Path) -> None:
    figures = read(study_report).figures
    # All changes, one scatter, eight groups of box plots; of the illustrated replications the five that were run.
    assert len(figures) == 1 + 1 + 8 + 5
    for figure in figures:
        drawn = go.Figure(figure)
        assert drawn.data
        assert all(trace.type != "scattergl" for trace in drawn.data)


def test_report_shows_every_table_and_the_agreement(study_report: Path) -> None:
    text = "".join(read(study_report).text)
    for table in ("T7 · e0", "T34 · e0 · 2tcp0udp5s · eifel", "T72 · r6"):
        assert table in text
    assert "Agreement with the published numbers" in text
    assert "Some flows did not complete" in text
    assert "192 runs" in text


def test_trace_figure_has_the_marks_of_a_loss_and_its_repair(study_report: Path) -> None:
    trace = read(study_report).figures[-1]
    names = {entry["name"] for entry in trace["data"]}  # type: ignore[attr-defined, index]
    assert {
        "segment sent",
        "acknowledged",
        "SACK block",
        "fast retransmission",
        "dropped: queue full",
        "packets in the router queue",
        "RED's average queue",
        "bad link period",
        "advertised window",
        "cwnd of tcp1",
        "ssthresh of tcp1",
        "RTT of tcp1",
        "RTO of tcp1",
        "goodput of tcp2",
    } <= names
    shapes = trace["layout"]["shapes"]  # type: ignore[index]
    assert [(shape["x0"], shape["x1"]) for shape in shapes] == [(5.0, 7.5)]


@pytest.mark.parametrize("word", ["small", "single"])
def test_a_scenario_without_published_numbers_has_a_report(
    engine: fake_core.Engine, tmp_path: Path, lasthop_main: Callable[..., int], word: str
) -> None:
    del engine
    file = tmp_path / "any.toml"
    file.write_text(word, encoding="utf-8")
    assert lasthop_main("run", file, "--out", tmp_path / "out", "--quiet") == 0
    page = read(tmp_path / "out" / "report.html")
    assert len(page.figures) == 2
    assert "Agreement" not in "".join(page.text)
    assert not (tmp_path / "out" / "comparison.csv").exists()
