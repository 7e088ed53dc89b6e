from __future__ import annotations

import itertools

import polars as pl
import pytest

from lasthop import progress
from lasthop.catalogue import Presentation
from lasthop.report.boxes import BoxPanel, box_figure
from lasthop.report.tables import number, paired_table, unfinished_table

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
            "outcome": "aborted" if value is None else "closed",
            "elapsed_s": value,
        }
        for (link, variant), values in times.items()
        for replication, value in enumerate(values, 1)
    ]
    return pl.DataFrame(rows)


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
    found = paired_table(table, FACTORS, Presentation(factor="variant", references=("baseline", "eifel")), seed=1)
    assert found is not None
    rows = [(labels, [cell.measured for cell in cells[:2]]) for labels, cells in found.rows]
    assert rows == [
        (("e0", "tcp-faster", "eifel", "baseline"), ["3", "−1.00"]),
        (("r1", "tcp-faster", "red", "eifel"), ["3", "+2.00"]),
    ]


def test_pairs_are_matched_by_replication_not_by_position() -> None:
    table = flows({("e0", "a"): [10.0, 20.0, 30.0], ("e0", "b"): [None, 21.0, 31.0]})
    shuffled = table.sample(fraction=1, shuffle=True, seed=3)
    found = paired_table(shuffled, FACTORS, Presentation(factor="variant", references=("a",)), seed=1)
    assert found is not None
    assert [cell.measured for cell in found.rows[0][1][:2]] == ["2", "+1.00"]


def test_without_a_compared_factor_there_are_no_pairs() -> None:
    assert paired_table(flows({("e0", "a"): [1.0]}), FACTORS, Presentation(), seed=1) is None


def test_unfinished_flows_are_counted_not_hidden() -> None:
    found = unfinished_table(flows({("e0", "a"): [1.0, None, None], ("r1", "a"): [1.0]}), FACTORS)
    assert found is not None
    assert [(labels, cells[0].measured) for labels, cells in found.rows] == [
        (("e0", "a", "tcp-faster", "aborted"), "2")
    ]
    assert unfinished_table(flows({("e0", "a"): [1.0]}), FACTORS) is None


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(32.004, "s", "32.00"), (5893.4, "B/s", "5893"), (18.0, "packets", "18"), (2.45, "acks", "2.5"), (None, "s", "–")],
)
def test_numbers_are_short(value: float | None, unit: str, text: str) -> None:
    assert number(value, unit) == text


def test_boxes_span_the_stated_quartiles() -> None:
    panel = BoxPanel(
        "tcp", {"a": [1.0, 2.0, 3.0, 10.0]}, {"a": dict.fromkeys(["min", "p25", "median", "p75", "max"], 5.0)}
    )
    measured, points, published = box_figure([panel], ["a", "b"], "elapsed time (s)", "lower")["data"]
    found = [measured[key] for key in ("lowerfence", "q1", "median", "q3", "upperfence")]
    assert found == [[1.0], [1.0], [2.0], [3.0], [10.0]]
    assert points["y"] == [1.0, 2.0, 3.0, 10.0]
    assert published["median"] == [5.0]


def test_progress_says_now_and_then_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = itertools.count(step=2)
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    with progress.progress(100, 10, quiet=False) as advance:
        for _ in range(7):
            advance(10)
    # A line every three calls, two seconds apart each: after 6 s 30 of 90 runs, after 12 s 60.
    assert capsys.readouterr().err.splitlines() == ["40 of 100 runs, about 12 s left", "70 of 100 runs, about 6 s left"]
