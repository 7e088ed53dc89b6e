from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import polars as pl
import pytest

import fake_core
from conftest import EXAMPLE
from lasthop import _core
from lasthop.campaign.results.sections import sections
from lasthop.campaign.results.tables import Tables
from lasthop.present.answer.differences import Difference, differences
from lasthop.present.answer.words import sentences
from lasthop.present.report.changes import change_chart
from lasthop.present.report.levels import level_views
from lasthop.scenario.recordings import recorded

ROOT = Path(__file__).resolve().parents[4]

MEGABYTE = 1_000_000


class Page(HTMLParser):
    """Collects what a browser would fetch, and the figures."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self._packed = ""
        self.text: list[str] = []
        self.policy = ""
        self._tag = "text"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "action", "data") and v is not None]
        self._tag = "json" if values.get("id") == "figures" else tag
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"] or ""

    @property
    def figures(self) -> list[dict[str, object]]:
        alphabet = str.maketrans(",./", "<>&")  # as RFC 1924 has it
        found: list[dict[str, object]]
        found = json.loads(zlib.decompress(base64.b85decode(self._packed.translate(alphabet))))
        return found

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._tag = "text"

    def handle_data(self, data: str) -> None:
        if self._tag == "json":
            self._packed += data
        elif self._tag not in ("script", "style"):
            self.text.append(data)


def read(report: Path) -> Page:
    page = Page()
    page.feed(report.read_text(encoding="utf-8"))
    return page


@pytest.fixture
def study_report(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path, lasthop_main: Callable[..., int]
) -> Path:
    del engine
    assert lasthop_main("run", study_file, "--out", tmp_path / "out", "--quiet") == 0
    return tmp_path / "out" / "report.html"


def test_report_asks_for_nothing_from_outside(study_report: Path) -> None:
    page = read(study_report)
    assert page.addresses
    assert all(re.match(r"#|data:", address) for address in page.addresses)
    assert "default-src 'none'" in page.policy
    assert study_report.stat().st_size < 3 * MEGABYTE


@pytest.mark.parametrize("cache", ["/dev/null", "damaged"])
def test_a_report_needs_no_cache(
    cache: str, tmp_path: Path, lasthop_main: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    reports = []
    for _ in range(2):
        assert (
            lasthop_main(
                "run", EXAMPLE.parent / "first.toml", "--quiet", "--overwrite", "--out", tmp_path / "out"
            )
            == 0
        )
        reports.append((tmp_path / "out" / "report.html").stat().st_size)
        for file in tmp_path.glob("damaged/lasthop/templates/*"):
            file.write_bytes(file.read_bytes()[:1000])
    for name in ("templates", "plotly"):
        assert len(list(tmp_path.glob(f"damaged/lasthop/{name}/*"))) == (cache == "damaged")
    assert min(reports) > 1.9 * MEGABYTE


def test_every_figure_is_valid_plotly(study_report: Path) -> None:
    figures = read(study_report).figures
    # All changes, one scatter, eight groups of box plots; of the illustrated replications the five that were
    # run.
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
        "dropped: router queue full",
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


def test_levels_are_told_by_what_they_set_in_the_scenario() -> None:
    def told(name: str) -> dict[str, dict[str, str]]:
        study = _core.load(str(ROOT / name))
        views = level_views(study.cells, study.factors)
        return {factor: {view.name: view.meaning for view in levels} for factor, levels in views.items()}

    kulve = told("studies/kulve2003/study.toml")
    assert kulve["link"]["e0"] == "no errors"
    # What tells the links with errors apart comes first.
    assert kulve["link"]["r6"].startswith("errors with bad.min = 500 ms, bad.max = 4 s")
    assert kulve["variant"]["baseline"].startswith("tcp.frto = off; tcp.dsack = false")
    assert kulve["variant"]["frto"] == "tcp.frto = 2002"
    assert (
        kulve["variant"]["eifel+cbi"] == "tcp.timestamps = true; tcp.eifel = true; tcp.cached_metrics = true"
    )
    assert told("examples/two-flows.toml") == {
        "memory": {"none": "tcp.cached_metrics = false", "cbi": "tcp.cached_metrics = true"}
    }
    # No cell with this workload is otherwise like one with the first workload, a page load.
    workload = told("studies/iip2004/study.toml")["workload"]
    assert workload["3tcp5s"].startswith("as 3tcp, but flow.tcp-3.start.min = 5 s")
    assert workload["3tcp"] == "only with protocol none"
    # A scenario of the source has rates of its own.
    assert told("studies/l4s2020/study.toml")["scenario"]["3"] == "only with rate 100-5"


def test_the_first_screen_answers_and_provenance_comes_last(
    tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    assert (
        lasthop_main("run", ROOT / "examples" / "two-flows.toml", "--out", tmp_path / "out", "--quiet") == 0
    )
    text = " ".join("".join(read(tmp_path / "out" / "report.html").text).split())
    said = sentences(differences(sections(Tables.read(tmp_path / "out"))))
    assert said
    places = [
        text.index(words)
        for words in (
            "How does memory (2 levels) change the elapsed time? 2 combinations, each run 5 times.",
            *said,
            "Factors and levels",
            "tcp.cached_metrics = true",
            "Each replication is compared",
            "A typical replication of the first cell",
            "Provenance Scenario",
        )
    ]
    assert places == sorted(places)


def test_the_median_replication_is_drawn_packet_by_packet(
    tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    file = ROOT / "examples" / "two-flows.toml"
    assert lasthop_main("run", file, "--only", "memory=cbi", "--out", tmp_path / "out", "--quiet") == 0
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    means = flows.group_by("replication").agg(pl.col("elapsed_s").mean()).sort("elapsed_s")
    number, elapsed = means.row(2)
    assert means["elapsed_s"].n_unique() > 2
    text = " ".join("".join(read(tmp_path / "out" / "report.html").text).split())
    assert (
        f"This is the median of 5 replications: its elapsed time (mean over its flows) is {elapsed:.1f} s."
        in text
    )
    assert f"Cell memory=cbi, replication {number}." in text


RADIO = """
down.link.delay = "30 ms"
up.link = { trace = "slow.trace", delay = "30 ms" }
[[flow]]
kind = "bulk-tcp"
bytes = "40 kB"
[factor.radio]
steady.down.link.rate = "2 Mbit/s"
trace.down.link.trace = "radio.trace"
course.down.link.course = "tunnel.csv"
"""


def test_a_recording_is_shown_by_its_name_length_and_rate_not_by_its_text(
    tmp_path: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    # 50 000 opportunities in 30 s: 20 Mbit/s, at first and at last twice as many as in between.
    fast, slow = [n for n in range(10_000) for _ in range(2)], list(range(10_000, 20_000))
    lines = [str(time) for time in (*fast, *slow, *(20_000 + time for time in fast[:-1]), 30_000)]
    (tmp_path / "radio.trace").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "slow.trace").write_text("10\n20\n", encoding="utf-8")
    (tmp_path / "tunnel.csv").write_text("time_s,rate_bps\n0,8000000\n12.5,0\n25,4000000\n", encoding="utf-8")
    # The names are found in what a scenario extends, too.
    (tmp_path / "base.toml").write_text(RADIO, encoding="utf-8")
    (tmp_path / "own.toml").write_text('extends = "base.toml"\n', encoding="utf-8")
    assert lasthop_main("run", tmp_path / "own.toml", "--out", tmp_path / "out") == 0
    for command in (
        ["summary", tmp_path / "out"],
        ["results", tmp_path / "out"],
        ["validate", tmp_path / "own.toml"],
    ):
        assert lasthop_main(*command) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) < 200
    source = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    text = " ".join("".join(read(tmp_path / "out" / "report.html").text).split())
    assert "down.link.trace = radio.trace (30.0 s, mean 20.0 Mbit/s)" in text
    assert "down.link.course = tunnel.csv (25.0 s, mean 4.00 Mbit/s)" in text
    # What all levels have stands behind, and in the resolved scenario.
    assert "up.link.traceslow.trace (20.0 ms, mean 1.20 Mbit/s)" in text
    assert '"trace": "slow.trace (20.0 ms' in text
    assert source.count('<svg class="spark"') == 3
    assert "10000 10001" not in text
    assert len(text) < 40_000


def test_a_recording_is_read_as_its_link_and_its_flow_read_it() -> None:
    trace = recorded("0\n0\n0\n10\n40\n")
    assert trace is not None
    assert (trace.seconds, trace.rate) == (0.04, pytest.approx(5 * 12_000 / 0.04))
    assert [round(rate) for rate in trace.curve if rate] == [54_000_000, 18_000_000, 18_000_000]
    course = recorded("time_s,rate_bps,delay_s\n0,1000,0.1\n30,3000,0.2\n60,500,0.1\n")
    assert course is not None
    assert (course.seconds, course.rate) == (60.0, 2000.0)
    assert (course.curve[0], course.curve[31], course.curve[-1]) == (1000.0, 3000.0, 500.0)
    steady = recorded("time_s,rate_bps\n0,1000\n")
    assert steady is not None
    assert (steady.seconds, steady.rate, set(steady.curve)) == (0.0, 1000.0, {1000.0})
    packets = recorded("time_s,bytes\n0,100\n2,150\n")
    assert packets is not None
    assert (packets.seconds, packets.rate) == (2.0, 1000.0)
    assert str(packets) == "a recording (2.00 s, mean 1.00 kbit/s)"
    assert recorded("two lines\nof a text") is None
    assert recorded("1500 B") is None


def test_scores_change_by_points_on_an_axis_of_their_own() -> None:
    one = Difference("queue", "short", "long", "elapsed_s", (), 9, -1.0, -1.1, -0.9, 10.0, 0.001)
    mos, rate = (
        replace(one, metric="mos", mean=2.2, reference_mean=1.9),
        replace(one, metric="throughput_Bps"),
    )
    figure = change_chart([mos, one, rate])
    assert [trace["y"] for trace in figure["data"]] == [[2.2], [-10.0], [-10.0]]
    axes = [figure["layout"][name] for name in ("yaxis", "yaxis2", "yaxis3")]
    assert [axis.get("title", {}).get("text") for axis in axes] == ["change (points)", "change (%)", None]
    assert [axis.get("matches") for axis in axes] == [None, None, "y2"]
    assert go.Figure(figure).data[0].hovertemplate.endswith("points<extra></extra>")
