"""Theory: the formulas against numbers computed by hand, and theory in pictures of runs and results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import STUDY
from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.commands.cli import main
from lasthop.present.pictures.charts import chart_figure
from lasthop.present.pictures.files import PictureRequest, picture_run
from lasthop.present.pictures.of_results import Chart, ResultRequest, read_chart
from lasthop.present.pictures.shapes import Layer
from lasthop.present.pictures.theory import Share, aimd_sawtooth, mathis_rate, max_min_shares
from lasthop.scenario.points import read_study

EXAMPLES = STUDY.parents[1] / "examples"
Main = Callable[..., int]

RENO = """
down.link = { rate = "10 Mbit/s", delay = "40 ms" }
up.link = { rate = "10 Mbit/s", delay = "40 ms" }
down.queue.limit = "40 packets"
tcp.congestion_control = "reno"
flow = [{ kind = "bulk-tcp", name = "download", duration = "20 s" }]
"""
LOSSY = """
replications = 3
down.link = { rate = "100 Mbit/s", delay = "25 ms" }
up.link = { rate = "100 Mbit/s", delay = "25 ms" }
down.queue.limit = "1000 packets"
tcp.congestion_control = "reno"
flow = [{ kind = "bulk-tcp", name = "download", duration = "20 s" }]
"""
LEVELS = """
[factor.loss]
"0.3%".down.link.loss = "0.3 %"
"1%".down.link.loss = "1 %"
"3%".down.link.loss = "3 %"
[factor.delay]
short.down.link.delay = "25 ms"
long.down.link.delay = "75 ms"
"""


# Formulas


def test_mathis_one_loss_in_a_hundred_packets() -> None:
    """1448 B in 50 ms are 28 960 B/s; times 1.2247, over the root of 0.01."""
    assert mathis_rate(1448, 0.05, 0.01) == pytest.approx(354_686, abs=1)
    assert mathis_rate(1448, 0.05, 0.04) == pytest.approx(354_686 / 2, abs=1)


def test_a_sawtooth_of_eight_segments() -> None:
    """Path: five segments in a round trip of a second. From the sixth on, the queue makes it longer."""
    tooth = [(1.0, 4.0), (2.0, 5.0), (3.0, 6.0), (4.2, 7.0), (5.6, 8.0)]
    points = aimd_sawtooth((1.0, 4.0), 9.0, 8.0, 1.0, 5.0)
    assert [(round(time, 9), window) for time, window in points] == [*tooth, (7.2, 4.0), (8.2, 5.0)]


def test_a_window_above_path_and_queue_is_halved_at_once() -> None:
    assert aimd_sawtooth((0.0, 20.0), 1.5, 8.0, 1.0, 5.0) == [(0.0, 4.0), (1.0, 5.0)]


@pytest.mark.parametrize(
    ("flows", "shares"),
    [
        ([Share((0,)), Share((0,)), Share((0,))], [3, 3, 3]),  # 3 1/3 each
        ([Share((0, 1)), Share((0,)), Share((1,))], [5, 5, 15]),
        ([Share((0, 1)), Share((0,), 2), Share((1,))], [8, 2, 12]),  # the second leaves 3 to the first
        ([Share((), 7), Share((0,), 11)], [7, 10]),
    ],
)
def test_max_min_shares_of_links_of_10_and_20(flows: list[Share], shares: list[int]) -> None:
    assert max_min_shares({0: 10, 1: 20}, flows) == shares


@given(
    st.lists(st.integers(1, 10**9), min_size=3, max_size=3),
    st.lists(
        st.tuples(st.sets(st.integers(0, 2), min_size=1), st.none() | st.integers(1, 10**9)), min_size=1
    ),
)
def test_a_flow_without_its_demand_has_a_full_link_on_which_it_is_one_of_the_largest(
    rates: list[int], drawn: list[tuple[set[int], int | None]]
) -> None:
    """This is the definition of max-min fairness. Rounding takes less than one from each flow."""
    flows = [Share(sorted(links), demand) for links, demand in drawn]
    shares = max_min_shares(dict(enumerate(rates)), flows)
    on = [[own for own, flow in zip(shares, flows, strict=True) if link in flow.links] for link in range(3)]
    assert all(sum(own) <= rate for own, rate in zip(on, rates, strict=True))
    for share, flow in zip(shares, flows, strict=True):
        full = [link for link in flow.links if sum(on[link]) > rates[link] - len(on[link])]
        assert share == flow.demand or any(share >= max(on[link]) - 1 for link in full)


# One run


def shown(text: str, tmp_path: Path, **request: str) -> dict[str, Layer]:
    """Return the layers of a picture of one panel, by their names."""
    file = tmp_path / "one.toml"
    file.write_text(text, encoding="utf-8")
    study = read_study(file)
    run = ChosenRun(Plan(study, study.cells[:1], study.seed, 1), study.cells[0], 1, 1)
    picture = picture_run(run, PictureRequest(**request))
    (panel,) = picture.panels
    return {layer.mark.name: layer for layer in panel.layers}


def test_reno_turns_where_path_and_queue_are_full(tmp_path: Path) -> None:
    """The path holds 80 ms at 10 Mbit/s, 66.7 packets, the queue 40, the send buffer 1."""
    layers = shown(RENO, tmp_path, kinds="cwnd", theory="aimd")
    aimd = layers["AIMD"]
    assert aimd.peak() == pytest.approx(107.67, abs=1)
    assert aimd.y[0] == layers["cwnd of download"].within(0, aimd.x[0]).y[-1]
    after_slow_start = layers["cwnd of download"].within(5, 20)
    assert after_slow_start.peak() == pytest.approx(107.67, abs=2)


def test_a_stream_keeps_its_rate_and_transfers_share_the_rest(tmp_path: Path) -> None:
    """Of 10 Mbit/s, a stream takes 1, and 28 B of headers for 972 B. Transfers have 1448 B in 1500."""
    stream = (
        '{ kind = "constant-udp", name = "call", rate = "0.972 Mbit/s", payload = "972 B", duration = "2 s" }'
    )
    two = RENO.replace("flow = [{", f"flow = [{stream}, {{").replace('"20 s"', '"2 s", count = 2')
    layers = shown(two, tmp_path, kinds="goodput", theory="max-min")
    assert layers["max-min share of call"].y == pytest.approx([0.972, 0.972])
    assert layers["max-min share"].y == pytest.approx([4.5 * 1448 / 1500] * 2)


# Results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("theory")
    (place / "lossy.toml").write_text(LOSSY + LEVELS, encoding="utf-8")
    assert main(["run", str(place / "lossy.toml"), "--out", str(place / "out"), "--quiet"]) == 0
    return place / "out"


def theory(chart: Chart) -> dict[tuple[str, str], float]:
    return {(group.x, group.hue): group.values[0] for panel in chart.theory for group in panel.groups}


def test_mathis_over_the_loss_probability(results: Path) -> None:
    request = ResultRequest(x="loss", y="throughput_Bps", hue="delay", theory="mathis", log="xy")
    chart = read_chart(results, request)
    values = theory(chart)
    assert values["1%", "short"] == pytest.approx(354_686, abs=1)
    assert values["1%", "long"] == pytest.approx(354_686 / 2, abs=1)  # 100 ms
    assert values["3%", "short"] == pytest.approx(354_686 / 3**0.5, abs=1)
    measured = {(group.x, group.hue): np.mean(group.values) for group in chart.panels[0].groups}
    assert measured["1%", "short"] == pytest.approx(values["1%", "short"], rel=0.25)
    assert "Mathis, Semke, Mahdavi, Ott 1997" in chart.caption
    dashed = [
        line for line in chart_figure(chart, "column").axes[0].get_lines() if len(line.get_xdata()) == 3
    ]
    drawn = {round(float(y), 4) for line in dashed for y in np.asarray(line.get_ydata())}
    assert {round(value * 8e-6, 4) for value in values.values()} <= drawn


def test_mathis_over_a_sampled_range(tmp_path: Path, lasthop_main: Main) -> None:
    sampled = '[factor.loss]\nfrom = 0.003\nto = 0.03\nsets = "down.link.loss"\n[sample]\npoints = 4\n'
    file = tmp_path / "range.toml"
    file.write_text(LOSSY.replace("replications = 3\n", "") + sampled, encoding="utf-8")
    assert lasthop_main("run", file, "--out", "out", "--quiet") == 0
    chart = read_chart(Path("out"), ResultRequest(y="throughput_Bps", theory="mathis"))
    (group,) = chart.theory[0].groups
    assert list(group.values) == pytest.approx([mathis_rate(1448, 0.05, loss) for loss in group.at])
    assert list(group.at) == sorted(group.at)
    chart_figure(chart, "page")


def test_max_min_shares_of_each_role(lasthop_main: Main) -> None:
    """The long transfer crosses three hops, with another at each, so all get half of 10 Mbit/s."""
    cells = ("--only", "rtts=1,tcp=reno", "--replications", 1)
    assert lasthop_main("run", EXAMPLES / "parking-lot.toml", *cells, "--out", "out", "--quiet") == 0
    chart = read_chart(Path("out"), ResultRequest(y="throughput_Bps", theory="max-min", kind="bar"))
    assert len(theory(chart)) == 8
    assert set(theory(chart).values()) == {5e6 * 1448 / 1500 / 8}
    chart_figure(chart, "column")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--theory", "matis"), ["did you mean 'mathis'", "aimd, mathis, max-min"]),
        (("--theory", "aimd"), ["the cwnd of one run"]),
        (("--theory", "mathis", "--y", "rtt_median_s"), ["--y throughput_Bps"]),
        (("--theory", "mathis", "--y", "throughput_Bps", "--kind", "cdf"), ["the kind cdf", "line"]),
        (("--theory", "mathis", "--y", "throughput_Bps", "--x", "delay"), ["loss probability", "--x"]),
    ],
)
def test_what_theory_cannot_say_of_results_is_said(
    results: Path,
    options: tuple[str, ...],
    words: list[str],
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lasthop_main("plot", results, *options) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("file", "options", "words"),
    [
        ("first", ("--theory", "mathis"), ["results over a loss probability"]),
        ("first", ("--theory", "aimd", "--kind", "rtt"), ["--kind cwnd"]),
        ("first", ("--theory", "aimd"), ["uses cubic"]),
        ("first", ("--theory", "aimd", "--over", "tcp.congestion_control=reno,cubic"), ["omit --over"]),
        ("coexistence", ("--theory", "aimd", "--kind", "cwnd"), ["choose one with --flow"]),
        ("short-flows", ("--theory", "max-min", "--kind", "goodput"), ["bulk-tcp and constant-udp"]),
        ("home", ("--theory", "max-min", "--kind", "goodput"), ["call is voip"]),
        ("trace", ("--theory", "max-min", "--kind", "goodput"), ["constant rate", "down (drop-tail"]),
        (
            "short-flows",
            ("--theory", "aimd", "--kind", "cwnd", "--flow", "iw3-2"),
            ["this is for a transfer"],
        ),
        ("wifi", ("--theory", "max-min", "--kind", "goodput"), ["Wi-Fi", "one queue each"]),
    ],
)
def test_what_theory_cannot_say_of_a_run_is_said(
    file: str,
    options: tuple[str, ...],
    words: list[str],
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = read_study(EXAMPLES / f"{file}.toml")
    cell = ("--cell", study.cells[0].key) if study.cells[0].key else ()
    assert lasthop_main("plot", EXAMPLES / f"{file}.toml", *cell, *options) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert not list(Path().iterdir())
