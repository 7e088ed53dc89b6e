from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import polars as pl
import pytest

from lasthop.analysis.findings.findings import Findings, informative, timed
from lasthop.analysis.statistics.summary import generic_summary
from lasthop.campaign import progress
from lasthop.present.answer.differences import Difference
from lasthop.present.report.boxes import BoxAxes, BoxPanel, box_figure
from lasthop.present.report.comparisons import against_references, forests, place
from lasthop.present.report.distributions import box_sections
from lasthop.present.report.scatter import published_figure
from lasthop.present.report.study_tables import study_tables
from lasthop.present.report.table_views import generic_table, number, unfinished_table
from lasthop.studies.catalogue import Assets
from lasthop.studies.presentation.spec import CompareSpec, Presentation, TableSpec

FACTORS = ["link", "variant"]


def flows(times: dict[tuple[str, str], list[float | None]]) -> pl.DataFrame:
    rows = [
        {
            "link": link,
            "variant": variant,
            "set": 1,
            "replication": replication,
            "role": "tcp-faster",
            "protocol": "tcp",
            "flow": "tcp-1",
            "application": "tcp-1",
            "outcome": "aborted" if value is None else "closed",
            "elapsed_s": value,
        }
        for (link, variant), values in times.items()
        for replication, value in enumerate(values, 1)
    ]
    return pl.DataFrame(rows)


def compared(table: pl.DataFrame, *references: str) -> list[Difference]:
    presentation = Presentation(compare=CompareSpec("variant", references))
    return against_references(timed(table, None), FACTORS, presentation)


def test_each_group_is_compared_with_the_first_reference_that_it_has() -> None:
    table = flows(
        {
            ("e0", "baseline"): [10.0, 20.0, 30.0],
            ("e0", "eifel"): [9.0, 19.0, 29.0],
            ("r1", "eifel"): [10.0, 20.0, 30.0],
            ("r1", "red"): [12.0, 22.0, 32.0],
            ("r6", "red"): [1.0, 1.0, 1.0],
        }
    )
    actual = compared(table, "baseline", "eifel")
    assert [(place(entry), entry.level, entry.reference, entry.pairs) for entry in actual] == [
        ("link = e0 · tcp-faster", "eifel", "baseline", 3),
        ("link = r1 · tcp-faster", "red", "eifel", 3),
    ]
    assert [(entry.factor, entry.metric, entry.mean, entry.significant) for entry in actual] == [
        ("variant", "elapsed_s", -1.0, True),
        ("variant", "elapsed_s", 2.0, True),
    ]
    (forest,) = forests(actual, seed=1)
    assert [(group.title, group.reference) for group in forest.groups] == [
        ("link = e0 · tcp-faster", "variant = baseline: 20.0 s"),
        ("link = r1 · tcp-faster", "variant = eifel: 20.0 s"),
    ]
    rows = [row for group in forest.groups for row in group.rows]
    # Three pairs that differ the same way: 2 of 8 signs are as extreme.
    assert [row.ranks_p for row in rows] == ["0.250", "0.250"]
    assert rows[0].median == "Median of the pairs −1.00 s, 95 % bootstrap interval −1.00 … −1.00"
    assert [(row.difference, row.share, row.css) for row in rows] == [
        ("−1.00", "−5 %", "less"),
        ("+2.00", "+10 %", "more"),
    ]
    # One axis for both: faster is left of zero, slower is right of it.
    assert rows[0].bar.estimate < forest.axis.zero < rows[1].bar.estimate


def test_pairs_are_matched_by_replication_not_by_position() -> None:
    table = flows({("e0", "a"): [10.0, 20.0, 30.0], ("e0", "b"): [None, 21.0, 31.0]})
    shuffled = table.sample(fraction=1, shuffle=True, seed=3)
    (actual,) = compared(shuffled, "a")
    assert (actual.pairs, actual.mean) == (2, 1.0)


def test_without_a_compared_factor_there_are_no_pairs() -> None:
    assert against_references(timed(flows({("e0", "a"): [1.0]}), None), FACTORS, Presentation()) == []


def test_unfinished_flows_are_counted_not_hidden() -> None:
    actual = unfinished_table(
        flows({("e0", "a"): [1.0, None, None], ("r1", "a"): [1.0]}).lazy(), None, FACTORS
    )
    assert actual is not None
    assert [(labels, cells[0].measured) for labels, cells in actual.rows] == [
        (("e0", "a", "tcp-faster", "aborted"), "2")
    ]
    assert unfinished_table(flows({("e0", "a"): [1.0]}).lazy(), None, FACTORS) is None


def pages(times: dict[tuple[str, str], list[float | None]]) -> pl.DataFrame:
    return flows(times).select(
        *FACTORS,
        "set",
        "replication",
        "outcome",
        pl.col("elapsed_s").alias("response_time_s"),
        page=pl.lit("home"),
        role=pl.lit("home"),
    )


def test_unfinished_page_loads_are_listed_as_well() -> None:
    loads = pages({("e0", "a"): [1.0, None], ("r1", "b"): [1.0]})
    actual = unfinished_table(flows({("e0", "a"): [1.0]}).lazy(), loads.lazy(), FACTORS)
    assert actual is not None
    assert [labels for labels, _ in actual.rows] == [("e0", "a", "home (page load)", "aborted")]


def test_page_loads_are_compared_in_pairs_but_not_their_connections() -> None:
    loads = pages({("e0", "a"): [10.0, 20.0, 30.0], ("e0", "b"): [12.0, 22.0, 32.0]})
    connections = flows({("e0", "a"): [1.0], ("e0", "b"): [2.0]}).with_columns(
        flow=pl.lit("home/main"), application=pl.lit("home")
    )
    things = timed(connections, loads)
    assert [thing.metric for thing in things] == ["response_time_s"]
    actual = against_references(things, FACTORS, Presentation(compare=CompareSpec("variant", ("a",))))
    assert [(place(entry), entry.level, entry.mean) for entry in actual] == [("home", "b", 2.0)]


def test_a_factor_that_another_determines_splits_nothing() -> None:
    rows = [("e0", "a", "fifo"), ("e0", "b", "fifo"), ("e0", "b+red", "red"), ("r1", "a", "fifo")]
    frame = pl.DataFrame(rows, schema=["link", "variant", "queue"], orient="row").with_columns(
        mtu=pl.lit("576 B")
    )
    assert informative(frame, ["link", "variant", "queue", "mtu"]) == ["link", "variant"]
    assert informative(frame, ["link", "queue"], ["variant"]) == ["link"]


KEYS = ["study", "table", "workload", "variant", "flow", "metric", "statistic"]


def page_assets(kind: str, rows: list[tuple[object, ...]], **more: object) -> Assets:
    """Published numbers: workload, variant, flow, metric, statistic, value, note."""
    published = pl.DataFrame(
        [("s", "T1", *row) for row in rows],
        schema=[*KEYS, "value", "note"],
        orient="row",
        infer_schema_length=None,
    )
    spec = TableSpec(kind=kind, ids=("T1",), title="Pages", **more)  # type: ignore[arg-type]
    tables = published.select("study", "table", "workload", "variant").unique(maintain_order=True)
    return Assets(Path(), published, tables, Presentation(misprints=("suspect",), tables=(spec,)))


def measured(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    """Measured numbers: workload, variant, flow, metric, statistic, value, unit."""
    return pl.DataFrame(
        [("s", "T1", *row) for row in rows],
        schema=[*KEYS, "value", "unit"],
        orient="row",
        infer_schema_length=None,
    )


def test_a_page_table_has_a_row_per_cell_and_the_metrics_side_by_side() -> None:
    assets = page_assets(
        "page",
        [
            ("m+8m", "baseline", "all", "response_time_s", "median", 15.0, None),
            ("m+8m", "baseline", "main", "throughput_Bps", "median", 2000.0, "main object only"),
            ("m+8m", "baseline", "all", "throughput_Bps", "max", 2500.0, "suspect: a copy"),
            ("s+2s", "baseline", "all", "response_time_s", "median", 4.0, None),
        ],
    )
    summary = measured(
        [
            (workload, "baseline", flow, metric, statistic, value, unit)
            for workload in ("m+8m", "s+2s")
            for flow, metric, statistic, value, unit in (
                ("all", "response_time_s", "median", 15.5, "s"),
                ("main", "throughput_Bps", "median", 2400.0, "B/s"),
                ("all", "throughput_Bps", "max", 9000.0, "B/s"),
            )
        ]
    )
    (group,) = study_tables(summary, assets)
    (view,) = group.tables
    assert view.title == "T1 · baseline"
    assert view.over == [("response time (s)", 1), ("throughput (B/s)", 2)]
    assert view.head == ["workload", "median", "median", "max"]
    first, second = view.rows
    assert [(c.measured, c.published, c.css, c.note) for c in first[1]] == [
        ("15.50", "15.00", "met", ""),
        ("2400", "2000", "missed", "main object only"),
        ("9000", "2500", "misprint", "suspect: a copy"),
    ]
    assert second[0] == ("s+2s",)
    assert [(c.published, c.css) for c in second[1]] == [("4.00", "missed"), ("", ""), ("", "")]
    assert (view.met, view.compared) == (1, 3)  # the misprint is not compared


def test_a_mixture_table_has_a_row_per_flow() -> None:
    assets = page_assets("mixture", [("3tcp", "a", "fastest", "elapsed_s", "min", 60.0, None)])
    summary = measured(
        [
            ("3tcp", variant, flow, "elapsed_s", statistic, 61.0, "s")
            for variant in "ab"
            for flow in ("fastest", "slowest")
            for statistic in ("min", "mean")
        ]
    )
    view = study_tables(summary, assets)[0].tables[0]
    assert view.head == ["variant", "flow", "min (s)", "mean (s)"]
    assert [labels for labels, _ in view.rows] == [
        ("a", "fastest"),
        ("a", "slowest"),
        ("b", "fastest"),
        ("b", "slowest"),
    ]
    assert view.rows[0][1][0].published == "60.00"


def test_changes_are_next_to_their_reference() -> None:
    assets = page_assets(
        "page-change",
        [("s+2s", "iw4", "all", "response_time_change_percent", "not stated", -28.8, None)],
        reference={"variant": "bl"},
    )
    summary = measured(
        [
            (workload, *row)
            for workload in ("s+2s", "m+8m")
            for row in (
                ("iw4", "all", "response_time_change_percent", "not stated", -25.0, "percent"),
                ("bl", "all", "response_time_s", "not stated", 6.5, "s"),
            )
        ]
    )
    view = study_tables(summary, assets)[0].tables[0]
    assert view.head == ["workload", "bl (s)", "iw4 (%)"]
    assert [(c.measured, c.published, c.within) for c in view.rows[0][1]] == [
        ("6.50", "", None),
        ("−25.0", "−28.8", True),
    ]


def test_the_scatter_has_a_panel_per_kind_of_number_and_no_misprints() -> None:
    rows = [
        ("T1", "e0", "all", "response_time_s", "median", 15.0, 16.0, None),
        ("T1", "e0", "all", "response_time_s", "median", 20.0, 21.0, "suspect: a copy"),
        ("T1", "e0", "all", "response_time_change_percent", "not stated", -5.0, 3.0, None),
        ("T1", "e0", "main", "throughput_Bps", "median", 2000.0, 2100.0, None),
        ("T1", "e0", "all", "drops_error", "median", 0.0, 2.0, None),
        ("T1", "e0", "all", "throughput_Bps", "max", 1.0, 2.0, None),
    ]
    schema = ["table", "link", "flow", "metric", "statistic", "published", "measured", "note"]
    figure = published_figure(pl.DataFrame(rows, schema=schema, orient="row"), ["suspect"])
    assert figure is not None
    assert [(trace["x"], trace["y"]) for trace in figure["data"]] == [
        ([15.0], [16.0]),
        ([-5.0], [3.0]),
        ([16.0], [16.8]),
        ([0.5], [2.0]),
    ]
    titles = [figure["layout"][f"xaxis{n}"]["title"]["text"] for n in ("", 2, 3, 4)]
    assert titles == [
        "published response time (s)",
        "published change of response time (%)",
        "published throughput (kbit/s)",
        "published counts (packets, ACKs)",
    ]
    assert "type" not in figure["layout"]["xaxis2"]  # changes may be negative
    assert published_figure(pl.DataFrame(rows[1:2], schema=schema, orient="row"), ["suspect"]) is None


def test_page_loads_stand_in_the_summary_and_the_table_of_a_plain_scenario() -> None:
    connections = flows({("e0", "a"): [1.0, 2.0, 4.0]}).with_columns(role=pl.lit("main"))
    summary = generic_summary(connections.lazy(), pages({("e0", "a"): [3.0, 5.0, 4.0]}).lazy(), FACTORS)
    actual = summary.filter(flow="home", metric="response_time_s", statistic="median")
    assert actual.select("link", "variant", "value", "replications", "unit").rows() == [
        ("e0", "a", 4.0, 3, "s")
    ]
    (view,) = generic_table(summary, FACTORS).tables
    assert view.head == ["link", "variant", "flow", "response time (s)", "elapsed time (s)"]
    assert [(labels, [c.measured for c in cells]) for labels, cells in view.rows] == [
        (("e0", "a", "home"), ["4.00", "–"]),
        (("e0", "a", "main"), ["–", "2.00"]),
    ]


def test_what_is_zero_throughout_has_no_column_in_the_table_of_a_plain_scenario() -> None:
    rows = flows({("e0", "a"): [1.0, 2.0, 4.0]}).with_columns(
        timeouts=pl.lit(0), retransmitted_packets=pl.lit(3)
    )
    (view,) = generic_table(generic_summary(rows.lazy(), None, FACTORS), FACTORS).tables
    assert view.head == ["link", "variant", "flow", "elapsed time (s)", "retransmissions"]
    assert view.title == "Medians; always zero: timeouts"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (-5.25, "percent", "−5.2"),
        (-0.04, "percent", "0.0"),
        (32.004, "s", "32.00"),
        (5893.4, "B/s", "5893"),
        (18.0, "packets", "18"),
        (2.45, "acks", "2.5"),
        (None, "s", "–"),
    ],
)
def test_numbers_are_short(value: float | None, unit: str, text: str) -> None:
    assert number(value, unit) == text


def test_boxes_span_the_stated_quartiles() -> None:
    panel = BoxPanel(
        "tcp",
        {"a": np.array([1.0, 2.0, 3.0, 10.0])},
        {"a": dict.fromkeys(["min", "p25", "median", "p75", "max"], 5.0)},
    )
    measured, points, published = box_figure(
        [panel], BoxAxes(["a", "b"], "variant", "elapsed time (s)"), "lower"
    )["data"]
    actual = [measured[key] for key in ("lowerfence", "q1", "median", "q3", "upperfence")]
    assert actual == [[1.0], [1.0], [2.0], [3.0], [10.0]]
    assert points["y"] == [1.0, 2.0, 3.0, 10.0]
    assert published["median"] == [5.0]


def test_a_box_of_many_replications_has_as_many_dots_as_can_be_distinguished() -> None:
    panel = BoxPanel("tcp", {"a": np.arange(50_000.0)})
    box, dots = box_figure([panel], BoxAxes(["a"], "variant", "s"), "linear")["data"]
    assert (box["lowerfence"], box["upperfence"]) == ([0.0], [49_999.0])
    assert len(dots["x"]) == len(dots["y"]) == 1000
    assert (dots["y"][0], dots["y"][-1]) == (0.0, 49_999.0)


def test_a_published_median_alone_is_a_line_and_panels_wrap() -> None:
    panel = BoxPanel("s+2s", {"a": np.array([4.0, 5.0])}, {"a": {"median": 4.4}})
    figure = box_figure([panel] * 4, BoxAxes(["a"], "variant", "response time (ms)", 1000.0), "linear")
    lines = [trace for trace in figure["data"] if trace["name"] == "published median"]
    assert [line["y"] for line in lines] == [[4400.0]] * 4
    assert [line["showlegend"] for line in lines] == [True, False, False, False]
    layout = figure["layout"]
    assert layout["yaxis"]["domain"] == layout["yaxis2"]["domain"] != layout["yaxis3"]["domain"]
    assert all(layout[f"yaxis{n}"]["matches"] == "y" for n in (2, 3, 4))


def test_a_published_mean_alone_is_a_line_of_its_own_name() -> None:
    panel = BoxPanel("s+2s", {"a": np.array([4.0, 5.0])}, {"a": {"mean": 4.6}})
    figure = box_figure([panel], BoxAxes(["a"], "variant", "s"), "linear")
    (line,) = [trace for trace in figure["data"] if "published" in trace["name"]]
    assert (line["name"], line["y"]) == ("published mean", [4.6])


def test_what_never_ended_has_no_panel() -> None:
    cut = flows({("e0", "a"): [None, None], ("e0", "b"): [None, None]}).with_columns(
        role=pl.lit("tcp-slower")
    )
    table = pl.concat(
        [flows({("e0", "a"): [1.0, 2.0], ("e0", "b"): [3.0, None]}), cut], how="vertical_relaxed"
    )
    (section,) = box_sections(results(table, None, link=["e0"], variant=["a", "b"]))
    ((_, figure),) = section.figures
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["tcp-faster"]
    low, high = figure["layout"]["yaxis"]["range"]
    assert low < 1.0
    assert high > 3.0


def results(
    flows: pl.DataFrame, pages: pl.DataFrame | None, assets: Assets | None = None, **levels: list[str]
) -> Findings:
    presentation = Presentation(compare=CompareSpec("variant", ("a",)))
    records = SimpleNamespace(
        tables=SimpleNamespace(flows=flows.lazy()),
        things=timed(flows, pages),
        factors=levels,
        presentation=presentation,
        assets=assets,
    )
    return cast("Findings", records)


def test_box_plots_of_page_loads_have_a_panel_per_page_and_know_the_published_median() -> None:
    times = {(page, variant): [1.0, 2.0] for page in ("m+8m", "s+2s") for variant in ("a", "b")}
    loads = pages({**times, ("l+8m", "a"): [3.0]}).rename({"link": "workload"})
    connections = flows(times).rename({"link": "workload"})
    connections = connections.with_columns(flow=pl.lit("home/main"), application=pl.lit("home"))
    rows: list[tuple[object, ...]] = [
        ("s+2s", "b", "all", "response_time_s", "median", 1.75, None),
        ("s+2s", "a", "all", "response_time_s", "median", 99.0, "suspect"),
    ]
    assets = page_assets("page", rows)
    records = results(connections, loads, assets, workload=["m+8m", "s+2s", "l+8m"], variant=["a", "b"])
    (section,) = box_sections(records)
    assert section.title == "Page loads"
    # Panels with the same variants are grouped, figures with published numbers first.
    titles = [[note["text"] for note in figure["layout"]["annotations"]] for _, figure in section.figures]
    assert titles == [["workload = m+8m · home", "workload = s+2s · home"], ["workload = l+8m · home"]]
    lines = [trace for trace in section.figures[0][1]["data"] if trace["name"] == "published median"]
    assert [(line["y"], line["xaxis"]) for line in lines] == [([1.75], "x2")]


def test_box_plots_of_transfers_have_a_panel_per_role_and_the_words_of_the_study() -> None:
    table = flows({("e0", "a"): [10.0, 20.0], ("e0", "b"): [11.0, 21.0]}).rename({"link": "workload"})
    five = zip(["min", "p25", "median", "p75", "max"], [9.0, 10.0, 12.0, 20.0, 21.0], strict=True)
    rows = [("e0", "a", "fastest", "elapsed_s", statistic, value, None) for statistic, value in five]
    assets = page_assets("mixture", rows, roles={"tcp-faster": "fastest"})
    records = results(table, None, assets, workload=["e0"], variant=["a", "b"])
    (section,) = box_sections(records)
    ((title, figure),) = section.figures
    assert (title, section.left_out) == ("Transfers: elapsed time, by variant", 0)
    published = next(trace for trace in figure["data"] if trace["name"] == "published")
    assert (published["lowerfence"], published["median"]) == ([9.0], [12.0])


def test_progress_says_now_and_then_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = itertools.count(step=2)
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    with progress.progress(100, 10, quiet=False) as advance:
        for _ in range(7):
            advance(10)
    # A line every three calls, two seconds apart each: after 6 s 30 of 90 runs, after 12 s 60.
    assert capsys.readouterr().err.splitlines() == [
        "40 of 100 runs, 6 s elapsed, about 12 s left",
        "70 of 100 runs, 12 s elapsed, about 6 s left",
    ]
