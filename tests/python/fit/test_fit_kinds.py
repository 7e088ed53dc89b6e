"""Controls and queues: which kinds are compared, and which the data do not identify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made import CUBIC_LINE, LINE, captured, is_udp, without

from lasthop.fit.estimate import Estimate
from lasthop.fit.fit import fit, ways_of
from lasthop.fit.infer import Box, Mixture, rival_of
from lasthop.fit.line import Model, line_keys
from lasthop.fit.posterior import Fit
from lasthop.fit.sources import read
from long_tests import ENGINE

HOST = "10.0.1.1"
CUBIC = Model("cubic", "drop-tail")


def test_the_best_of_the_other_kinds_stays_if_all_kept_have_the_same_control_and_queue() -> None:
    models = [
        CUBIC,
        Model("cubic", "drop-tail", lossy=True),
        Model("reno", "drop-tail"),
        Model("cubic", "codel"),
    ]
    assert rival_of(models, [0, 1], [0.5, 0.4, 0.1, 0.3]) == [3]
    assert rival_of(models, [0, 2], [0.5, 0.4, 0.1, 0.3]) == []
    # Of 32 runs none or one deviates as much as the measurement.
    assert rival_of(models, [0, 1], [0.5, 0.4, 0.03, 0.0]) == []
    assert rival_of(models[:2], [0, 1], [0.5, 0.4]) == []


def test_a_measurement_that_few_runs_resemble_is_probably_of_another_kind() -> None:
    shares = [Mixture((), {}, 1, likeness).explained for likeness in (0.0, 0.01, 0.05, 0.6)]
    assert shares == pytest.approx([0.0, 0.2, 1.0, 1.0])


def test_a_queue_that_dropped_nothing_has_no_kind(tmp_path: Path) -> None:
    for limit, identified in (("4000 packets", False), ("30 packets", True)):
        text = f'{LINE.replace("30 packets", limit)}duration = "6 s"\n'
        (way,) = ways_of([read(captured(tmp_path / limit, text, "server"), HOST)])
        assert (way.first.losses > 0) == identified
        assert ("queue" not in way.first.refused) == identified


@pytest.mark.parametrize("line", [12.0, 36.0, 120.0])
def test_a_policer_may_stand_before_a_line_of_2_to_20_times_its_rate(line: float) -> None:
    # Trains of three packets that a bucket lets pass leave at the line's rate.
    box = Box.around(Estimate(6.0, 40.0, 1.0, 0.02, 0.0, 4000, 80, pace=line), ["line"], "policer")
    assert box.low[0] <= np.log(line) <= box.high[0]
    values = {"rate": 6.0, "rtt": 40.0, "buffer": 20.0, "line": line}
    way = line_keys(values, Model("cubic", "policer"), "down")["down"]
    assert way["link"]["rate"] == f"{line * 1000:.3f} kbit/s"
    assert way["policer"]["rate"] == "6000.000 kbit/s"


def fitted(folder: Path, text: str, end: str) -> Fit:
    return fit([read(without(captured(folder / "made", text, end), is_udp), HOST)], jobs=2)


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=25)
def test_the_rate_of_a_policer_is_found_whatever_the_rate_of_its_line(tmp_path: Path) -> None:
    text = (
        CUBIC_LINE.format(link="")
        .replace("8 Mbit/s", "36 Mbit/s")
        .replace(
            'limit = "60 packets"',
            'limit = "1000 packets"\n[down.policer]\nrate = "6 Mbit/s"\nburst = "40 kB"',
        )
    )
    rate = fitted(tmp_path, text, "server").parameter("rate")
    assert rate is not None
    assert rate.low is not None
    assert rate.high is not None
    assert rate.value == pytest.approx(6.0, rel=0.03)
    assert rate.low <= 6.0 <= rate.high


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=25)
def test_a_control_that_is_not_compared_is_not_taken_for_another(tmp_path: Path) -> None:
    text = CUBIC_LINE.format(link="").replace("[tcp]", '[tcp]\ncongestion_control = "vegas"')
    rate, control, queue = map(fitted(tmp_path, text, "server").parameter, ("rate", "control", "queue"))
    assert control is not None
    assert queue is not None
    assert rate is not None
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= 8.0 <= rate.high
    assert control.value is None or (control.probability or 1.0) < 0.9
    assert queue.value is None
