"""The fit finds lines that are known, and refuses what data do not tell."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made import LINE, captured, measured

from lasthop.common.errors import InputError
from lasthop.fit.abc import Posterior, likeness, posterior, probabilities
from lasthop.fit.estimate import Estimate, estimate
from lasthop.fit.fit import far_from, fit, overlap, unidentified, ways_of
from lasthop.fit.infer import (
    Box,
    Inference,
    Mixture,
    Part,
    likely_models,
    twins_of,
    with_whole_packets,
    without_unlikely,
)
from lasthop.fit.line import Model, Setting, line_keys, simulate
from lasthop.fit.measurement import Delays, Measurement, Transfer
from lasthop.fit.output import said, text_of
from lasthop.fit.posterior import Check, Fit, Parameter, Series, Source
from lasthop.fit.sources import read
from lasthop.fit.summary import at_first, summarise, unevenness
from lasthop.scenario.points import parse_study
from long_tests import ENGINE

TRUE = {"rate": 4.0, "rtt": 40.0, "buffer": 30.0}
LONG = pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=9)
CUBIC, BBR = Model("cubic", "drop-tail"), Model("bbr", "drop-tail")


@pytest.fixture(scope="module")
def cubic() -> tuple[Measurement, Fit]:
    seen = measured(TRUE, CUBIC, 11)
    return seen, fit([seen], jobs=2)


def covers(found: Fit, true: dict[str, float]) -> dict[str, bool]:
    covered = {}
    for name, value in true.items():
        parameter = found.parameter({"rtt": "delay"}.get(name, name))
        assert parameter is not None
        if parameter.low is not None and parameter.high is not None:
            covered[name] = parameter.low <= value <= parameter.high
    return covered


@LONG
def test_a_known_line_is_found_within_its_intervals(cubic: tuple[Measurement, Fit]) -> None:
    _, found = cubic
    assert covers(found, TRUE) == {"rate": True, "rtt": True, "buffer": True}
    control, queue, buffer = map(found.parameter, ("control", "queue", "buffer"))
    assert control is not None
    assert queue is not None
    assert buffer is not None
    assert (control.value, queue.value) == ("cubic", "drop-tail")
    # An interval that holds everything would cover, too.
    assert buffer.low is not None
    assert buffer.high is not None
    assert buffer.high < 1.3 * buffer.low


@LONG
def test_the_scenario_has_the_estimate_and_its_draws_as_levels(cubic: tuple[Measurement, Fit]) -> None:
    text = text_of(cubic[1], "my-line")
    study = parse_study(text)
    assert [*study.factors] == ["line"]
    assert study.factors["line"][:2] == ["best", "draw-01"]
    assert len(study.cells) == 21
    assert "90 % interval" in text
    assert "assumed" in text


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=190)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("model", "more"), [(CUBIC, {}), (BBR, {}), (CUBIC, {"loss": 0.002}), (BBR, {"loss": 0.01})]
)
def test_most_known_lines_are_found(model: Model, more: dict[str, float], seed: int) -> None:
    true = {"rate": 6.0 + seed, "rtt": 30.0 * seed, "buffer": 40.0} | more
    found = fit([measured(true, model, seed, end="receiver")], jobs=2)
    covered = covers(found, true)
    assert covered["rate"]
    assert covered["rtt"]
    assert sum(covered.values()) >= len(covered) - 1


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=16)
def test_the_same_seed_gives_the_same_fit_whatever_the_jobs(cubic: tuple[Measurement, Fit]) -> None:
    seen, found = cubic
    assert text_of(fit([seen], jobs=1), "a") == text_of(found, "a")
    assert text_of(fit([seen], jobs=1, seed=2), "a") != text_of(found, "a")


def test_a_simulated_capture_is_read_as_the_file_of_the_same_run(tmp_path: Path) -> None:
    text = LINE + 'duration = "6 s"\n'
    text = text.replace("5 Mbit/s", "5000.000 kbit/s").replace("20 ms", "20.0000 ms")
    seen = simulate(Setting((transfer(),), "down", "receiver", 6.0), TRUE | {"rate": 5.0}, CUBIC, 1)
    kept = captured(tmp_path / "made", text)
    of_file = read(kept).transfers[0]
    size = min(len(of_file.bytes), len(seen.transfers[0].bytes)) // 2
    assert np.array_equal(of_file.bytes[:size], seen.transfers[0].bytes[:size])
    assert np.allclose(of_file.time_s[:size], seen.transfers[0].time_s[:size], atol=1e-6)


@pytest.mark.parametrize("end", ["server", "client"])
def test_the_true_line_run_again_is_seen_as_it_was_measured(tmp_path: Path, end: str) -> None:
    # Nothing is random here, so what differs would be the fit's own fault.
    text = LINE.replace("[tcp]", '[tcp]\ncongestion_control = "reno"') + 'duration = "6 s"\n'
    (one,) = ways_of([read(captured(tmp_path / "made", text, end), "10.0.1.1")])
    at = one.measurement.seen_at
    assert at in {"sender", "receiver"}
    setting = Setting(one.transfers, "down", at, one.until_s)
    again = Inference(setting, one.delays, one.first, fine=True, seed=1, jobs=1, advance=lambda _: None)
    seen = again.simulated({"rate": 5.0, "rtt": 40.0, "buffer": 30.0}, Model("reno", "drop-tail"), 1)
    assert summarise(*seen, again.view) == pytest.approx(again.observed, abs=1e-6)


SECOND = '[[flow]]\nkind = "bulk-tcp"\nname = "second"\nstart = "1 s"\nduration = "5 s"\n'


@pytest.mark.parametrize("end", ["server", "client"])
def test_a_transfer_that_ended_before_another_ends_in_runs_with_as_many_bytes(
    tmp_path: Path, end: str
) -> None:
    text = f'{LINE}duration = "3 s"\n{SECOND}'
    (one,) = ways_of([read(captured(tmp_path / "made", text, end), "10.0.1.1")])
    setting = Setting(one.transfers, "down", one.measurement.seen_at, one.until_s)  # type: ignore[arg-type]
    runs = [simulate(setting, TRUE | {"rate": rate}, CUBIC, 1).transfers for rate in (4.0, 5.0, 6.0)]
    assert [float(run[0].bytes[-1]) for run in runs] == pytest.approx([one.transfers[0].bytes[-1]] * 3, abs=1)
    ends = [float(run[0].time_s[-1]) for run in runs]
    assert ends[0] > ends[1] > ends[2]
    assert ends[1] == pytest.approx(one.transfers[0].time_s[-1], abs=0.1)
    assert all(run[1].time_s[-1] > one.until_s for run in runs)


def test_transfers_overlap_if_one_begins_before_another_ends() -> None:
    first, second = (replace(transfer(), time_s=np.array(times)) for times in ([0.0, 3.0], [2.0, 4.0]))
    assert overlap([second, first])
    assert not overlap([first, replace(second, time_s=second.time_s + 1)])
    assert not overlap([first])


def test_losses_of_another_cause_leave_room_for_a_queue_that_never_overflowed() -> None:
    lossy = Model("reno", "drop-tail", lossy=True)
    assert twins_of(lossy) == [replace(lossy, endless=True)]
    # Only an overflow explains losses here, and CoDel has no length anyway.
    assert not twins_of(replace(lossy, lossy=False))
    assert not twins_of(replace(lossy, queue="codel"))
    # The first guess of jitter may be wrong, too.
    assert replace(lossy, endless=True) in twins_of(replace(lossy, jittery=True))
    assert twins_of(Model("bbr", "codel", jittery=True)) == [Model("bbr", "codel")]
    learnt = Posterior(np.log([[5.0, 40.0]]), np.ones(1))
    parts = [Part(model, ("rate", "rtt"), learnt, 0.5, np.zeros(2)) for model in (lossy, *twins_of(lossy))]
    first = Estimate(5.0, 40.0, 24.0, 0.01, 0.0, 2000, 20)
    assert "buffer" not in unidentified(first, Mixture(tuple(parts[:1]), {}, 1))
    assert unidentified(first, Mixture(tuple(parts), {}, 1))["buffer"].endswith(
        "the queue may never have been full"
    )
    # A queue that never dropped does not show what it drops by either.
    assert "queue" not in unidentified(first, Mixture(tuple(parts), {}, 1))
    assert "queue" in unidentified(first, Mixture(tuple(reversed(parts)), {}, 1))
    codel = replace(parts[0], model=Model("reno", "codel", lossy=True))
    assert "queue" in unidentified(first, Mixture((codel, *parts), {}, 1))
    assert "queue" not in unidentified(first, Mixture((codel, parts[0]), {}, 1))


def test_a_queue_that_may_have_overflowed_is_compared_to_the_end_with_one_that_never_did() -> None:
    # Sixteenths are what 32 runs of each model tell. No queue overflowed where these come from.
    codel = Model("cubic", "codel", lossy=True)
    cubic, reno = Model("cubic", "drop-tail", lossy=True), Model("reno", "drop-tail", lossy=True)
    endless = replace(cubic, endless=True)
    models = [codel, replace(codel, lossy=False), cubic, endless, replace(reno, endless=True), reno]
    chances = np.array([9, 1, 4, 1, 1, 0]) / 16
    assert likely_models(models, chances, 2, 0.05) == [0, 2, 3]
    # Both ways, and a kind that is probable only by both together stays, too.
    assert likely_models([codel, endless, cubic], np.array([0.9, 0.1, 0.0]), 3, 0.05) == [0, 1, 2]
    assert likely_models([codel, endless, cubic], np.array([0.92, 0.04, 0.04]), 3, 0.05) == [0, 1, 2]
    assert likely_models([codel, endless, cubic], np.array([1.0, 0.0, 0.0]), 3, 0.05) == [0]


def test_the_nearest_kind_of_line_counts_for_nothing_if_only_others_are_like_the_measured_one() -> None:
    # Queues of 25 packets lost 38 each. What was measured lost 8, as lines without a limit do.
    assert without_unlikely(np.array([0.5, 0.43, 0.07]), [0.17, 0.0, 0.19]) == pytest.approx(
        [0.877, 0, 0.123], abs=1e-3
    )
    # If none is like it, the nearest is the best there is.
    assert without_unlikely(np.array([0.6, 0.4, 0.0]), [0.0, 0.0, 0.5]) == pytest.approx([0.6, 0.4, 0.0])


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=4)
def test_a_queue_that_never_overflowed_has_no_length(tmp_path: Path) -> None:
    # Random losses keep Reno's window at ten packets or so, and 200 never wait.
    text = LINE.replace("30 packets", "200 packets").replace('"20 ms"', '"20 ms"\nloss = "1 %"')
    text = text.replace("[tcp]", '[tcp]\ncongestion_control = "reno"').replace("5 Mbit/s", "2 Mbit/s")
    (one,) = ways_of([read(captured(tmp_path / "made", text + 'duration = "6 s"\n', "server"), "10.0.1.1")])
    setting = Setting(one.transfers, "down", "sender", one.until_s, one.observed)
    inference = Inference(setting, one.delays, one.first, fine=True, seed=1, jobs=2, advance=lambda _: None)
    found = inference.run([Model("reno", "drop-tail", lossy=True), Model("reno", "drop-tail")])
    assert any(part.model.endless for part in found.parts)
    assert "random losses alone" in unidentified(one.first, found)["buffer"]


def test_a_policers_bucket_is_looked_for_whatever_packets_wait() -> None:
    # 15 Mbit/s and 34 ms: the bucket of 65 packets is one and a half round trips, and nothing waits there.
    first = Estimate(15.0, 34.0, 4.0, 0.02, 2.0, 11_000, 230)
    for queue, held in (("policer", True), ("drop-tail", False)):
        box = Box.around(first, ["buffer"], queue)
        assert (box.low[0] <= np.log(65) <= box.high[0]) == held


def test_queues_are_drawn_in_whole_packets_and_not_fewer_than_three() -> None:
    # 7.4 packets are run as 7. On a slow line the rest is a millisecond, which the delay would make up for.
    first = Estimate(4.0, 15.0, 24.0, 0.01, 0.0, 3000, 30)
    box = Box.around(first, ["rate", "buffer"], "drop-tail")
    drawn = np.exp(box.points(32, 1))
    assert np.allclose(drawn[:, 1], np.round(drawn[:, 1]))
    assert not np.allclose(drawn[:, 0], np.round(drawn[:, 0]))
    sure = Posterior(np.log([[4.0, 8.0]] * 4), np.ones(4))
    assert {7, 8, 9} <= {round(packets) for packets in np.exp(box.narrowed(sure).points(32, 1))[:, 1]}


def test_round_trips_far_from_those_of_the_simulated_transfers_are_noticed() -> None:
    # Unseen traffic on a short queue looks like a policer, but a quarter of the packets waited for it.
    def series(*trips: float) -> Series:
        none = np.empty(0)
        return Series(none, none, none, np.repeat(trips, 10))

    simulated = tuple(series(76, 77 + more, 78 + more, 79 + more, 80 + more) for more in (0.0, 1.0, 2.0))
    for trips, far in (
        ((76, 78, 79, 80, 81), False),
        ((76, 79, 80, 90, 120), True),
        ((70, 71, 72, 73, 74), True),
    ):
        assert far_from(Check("line.pcap", "down", series(*trips), simulated), 3.0) == far
    # A packet's time more or less is a queue of one packet more or less.
    assert not far_from(Check("line.pcap", "down", series(70, 71, 72, 73, 74), simulated), 12.0)


def test_no_queue_is_longer_than_the_packets_that_are_compared() -> None:
    # While the data do not limit it, each round may make it many times as long; runs refuse millions.
    first = Estimate(18.0, 68.0, 1096.0, 0.07, 0.0, 6400, 439)
    box = Box.around(first, ["rate", "buffer"], "drop-tail")
    endless = Posterior(np.log([[18.0, 1e9]] * 4), np.ones(4))
    for _ in range(5):
        box = box.narrowed(endless)
    assert np.exp(box.points(32, 1))[:, 1].max() == pytest.approx(20_000)


def test_a_wait_for_a_repair_is_no_wait_in_the_queue() -> None:
    # A queue of 60 ms overflows at 1 s. ACKs after the repair come late, by up to 300 ms.
    times = np.linspace(0.05, 6, 120)
    trips = np.where(times < 1.02, 40 + 60 * times, np.where(times < 1.3, 300.0, 40.0))
    one = replace(transfer(), lost_s=np.array([1.02, 1.1, 4.0]))
    assert at_first((one,), times, trips) == pytest.approx(100)
    # Without a loss it is the greatest of all.
    assert at_first((transfer(),), times, trips) == 300


def test_a_queue_of_seven_and_a_half_packets_is_one_of_seven_or_eight() -> None:
    # 3 ms a packet: what the queue is longer, the delay is shorter, in sum 36 ms.
    lengths = np.array([7.3, 7.4, 7.5001, 7.6])
    found = Posterior(np.log(np.stack([36 - 3 * lengths, lengths], axis=1)), np.ones(4))
    delays, packets = np.exp(with_whole_packets(found, ("rtt", "buffer")).draws).T
    assert packets == pytest.approx([7, 7, 8, 8])
    assert delays == pytest.approx([15, 15, 12, 12], rel=0.02)
    alone = Posterior(np.log([[13.5], [14.0]]), np.ones(2))
    assert with_whole_packets(alone, ("rtt",)) is alone


def test_a_line_that_losses_kept_empty_is_as_fast_as_its_trains() -> None:
    # Four packets together every 40 ms, at 19 Mbit/s: 1.2 Mbit/s in all, and none waits.
    times = (0.04 * np.arange(150)[:, None] + 12 / 19e3 * np.arange(4)).ravel()
    one = replace(transfer(), time_s=times, bytes=1448.0 * np.arange(1, 601), lost_s=np.linspace(0.5, 5, 10))
    first = estimate((one,), Delays(times, np.full(600, 40.0)), 6.0)
    assert not first.filled
    assert first.pace == pytest.approx(19, rel=0.01)
    box = Box.around(first, ["rate"], "drop-tail")
    assert box.low[0] <= np.log(19) <= box.high[0]


def transfer() -> Transfer:
    """A transfer that takes the whole time."""
    ends = np.array([0.0, 6.0])
    return Transfer("whole", "down", ends, ends * 1e6, mss=1448, overhead=52, initial_window=10)


def test_what_is_short_or_limited_by_the_application_is_refused() -> None:
    seen = measured(TRUE, CUBIC, 11)
    (transfer,) = seen.transfers
    limited = replace(seen, transfers=(replace(transfer, app_limited=True),))
    with pytest.raises(InputError, match="application limited"):
        ways_of([limited])
    early = transfer.time_s < 0.2
    start = replace(transfer, time_s=transfer.time_s[early], bytes=transfer.bytes[early], sent=90)
    with pytest.raises(InputError, match="too short"):
        ways_of([replace(seen, transfers=(start,))])
    with pytest.raises(InputError, match="no transfer"):
        ways_of([replace(seen, transfers=())])


def test_a_transfer_that_fills_nothing_tells_no_rate(tmp_path: Path) -> None:
    text = LINE + 'duration = "6 s"\ntcp.receive_window_max = 8\ntcp.receive_window_initial = 8\n'
    with pytest.raises(InputError, match="window limited"):
        ways_of([read(captured(tmp_path / "made", text))])


def test_regression_adjustment_finds_the_posterior_of_a_linear_model() -> None:
    """A normal mean with known variance: its posterior has the sample mean and a variance of 1/n."""
    rng = np.random.default_rng(3)
    parameters = rng.uniform(-2, 2, (600, 1))
    summaries = parameters + rng.normal(0, 0.1, (600, 1))
    found = posterior(
        parameters, np.hstack([summaries, rng.normal(0, 1, (600, 3))]), np.array([0.5, 0, 0, 0])
    )
    low, middle, high = found.quantiles((0.05, 0.5, 0.95))[:, 0]
    assert middle == pytest.approx(0.5, abs=0.02)
    assert high - low == pytest.approx(2 * 1.645 * 0.1, rel=0.15)


def test_what_no_simulation_explains_is_unlike_them_all() -> None:
    """Four numbers that all follow one parameter: an observation in which one goes the other way is odd."""
    rng = np.random.default_rng(3)
    parameters = rng.uniform(-2, 2, (128, 1))
    summaries = np.repeat(parameters, 4, axis=1) + rng.normal(0, 0.1, (128, 4))
    assert likeness(parameters, summaries, np.array([0.55, 0.4, 0.5, 0.6])) > 0.1
    assert likeness(parameters, summaries, np.array([0.5, 0.5, 0.5, -0.5])) == 0


def test_the_model_whose_simulations_lie_nearest_is_the_probable_one() -> None:
    rng = np.random.default_rng(3)
    near, far = rng.normal(0, 1, (64, 4)), rng.normal(4, 1, (64, 4))
    assert probabilities([far, near], np.zeros(4))[1] > 0.95


def test_a_range_that_grew_beyond_any_loss_still_makes_a_line() -> None:
    values = {"rate": 4.0, "rtt": 30.0, "buffer": 20.0, "loss": 1.08}
    assert line_keys(values, Model("cubic", "drop-tail"), "down")["down"]["link"]["loss"] == "50.00000 %"


def test_packets_that_come_at_once_have_no_pace() -> None:
    times = np.repeat([0.0, 1.0, 2.0], 40)
    at_once = replace(transfer(), time_s=times, bytes=np.arange(0.0, 120 * 1448, 1448))
    assert unevenness((at_once,)) == 0


def test_what_is_said_of_a_delay_is_what_the_key_has() -> None:
    delay = Parameter("delay", "down.link.delay", "ms", 50.0, 48.0, 53.0, source=Source(Path("p"), "ping"))
    assert said(delay) == "delay: 25 ms each way (round trip 50 ms), 90 % interval 24 to 26.5 ms"


def test_the_head_of_a_fitted_scenario_agrees_with_its_keys(cubic: tuple[Measurement, Fit]) -> None:
    text = text_of(cubic[1], "line")
    (told,) = re.findall(r"^# down\.link\.delay: delay: (\S+) ms each way", text, re.MULTILINE)
    delay, unit = tomllib.loads(text)["down"]["link"]["delay"].split()
    assert float(delay) == pytest.approx(float(told), rel=0.05)
    assert unit == "ms"
