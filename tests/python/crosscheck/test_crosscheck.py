"""Engines against each other: where a flow's histories first differ, and how far its metrics lie apart."""

from __future__ import annotations

import hashlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import comb
from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.common.version import commit
from lasthop.crosscheck.align import State, history, parting
from lasthop.crosscheck.cause import TIES, Kind, cause, differences, steps
from lasthop.crosscheck.compare import COUNTS, Distance, FlowComparison
from lasthop.crosscheck.tell import tell_all
from lasthop.engines.engine import Recording, Request
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel
from long_tests import ENGINE, GUEST
from observing import traced

ROOT = Path(__file__).resolve().parents[3]
Main = Callable[..., int]
COVERS = ("python/lasthop/crosscheck", *GUEST, *ENGINE)


def state(ack: int | None, cwnd: int = 10, *sent: tuple[int, int]) -> State:
    return State(0, ack, "", cwnd, None, 0, list(sent))


def test_histories_part_at_the_first_ack_that_finds_another_state() -> None:
    same = [state(None), state(1001), state(2001, 11, (5001, 6001))]
    assert parting(same, same) is None
    for other, what in (
        ([same[0], same[1], state(3001, 11, (5001, 6001))], ["ack"]),
        ([same[0], same[1], state(2001, 12, (5001, 6001))], ["cwnd"]),
        ([same[0], same[1], state(2001, 11)], ["sent"]),
        (same[:2], ["ends"]),
    ):
        found = parting(same, other)
        assert found is not None
        assert (found.ack_number, found.what) == (2, what)


def test_a_state_that_one_engine_has_not_told_is_no_difference() -> None:
    assert parting([State(0, None, "", None)], [State(0, None, "", 10)]) is None


@pytest.mark.parametrize(("data", "acks", "sender"), [("down", "up", "server"), ("up", "down", "client")])
def test_a_history_is_what_the_sender_saw_and_did_in_the_order_of_events(
    data: str, acks: str, sender: str
) -> None:
    packet = {
        "order": [0, 2, 3, 5], "time_ns": [0, 20, 20, 40_000],
        "event": ["sent", "delivered", "sent", "delivered"],
        "flow": [0] * 4, "direction": [data, acks, data, acks],
        "seq": [1, 1, 101, 1], "end": [101, 1, 201, 1],
        "ack": [None, 101, None, 201], "sack": ["", "", "", "301-401"],
    }  # fmt: skip
    tcp = {
        "order": [1, 4, 6], "time_ns": [0, 20, 40_000], "flow": [0, 0, 0], "host": [sender] * 3,
        "event": ["window", "window", "recovery-entered"], "cwnd": [1, 2, None], "ssthresh": [None] * 3,
        "in_flight": [1, 2, None],
    }  # fmt: skip
    states = history(
        Recording(
            packets=packet,
            transport=tcp,
            objects={},
            flows={"direction": [data]},
            bad_periods={},
            left_out={},
            series={},
            delays={},
        ),
        0,
    )
    assert [(s.ack, s.cwnd, s.sent, s.sack, s.happened) for s in states] == [
        (None, 1, [(1, 101)], "", []),
        (101, 2, [(101, 201)], "", []),
        (201, 2, [], "301-401", ["recovery-entered"]),
    ]


def run(events: list[tuple[int, str, int]], windows: Sequence[tuple[int, int]] = ()) -> Recording:
    """One flow: events of packets (ns, what, first byte; ACKs go up), then windows (ns, segments) by time."""
    rows = sorted(
        [(ns, 0, event, seq) for ns, event, seq in events] + [(ns, 1, "window", c) for ns, c in windows]
    )
    packets, tcp = [[(order, *row) for order, row in enumerate(rows) if row[1] == table] for table in (0, 1)]
    up = [event.endswith("up") for _, _, _, event, _ in packets]
    same = {"flow": 0, "serial": 0, "flags": 16, "payload_bytes": 100, "sack": "", "queue_packets": None}
    return Recording(
        packets={
            **{name: [value] * len(packets) for name, value in same.items()},
            "order": [row[0] for row in packets],
            "time_ns": [row[1] for row in packets],
            "event": [row[3].removesuffix(" up") for row in packets],
            "direction": ["up" if way else "down" for way in up],
            "place": [int(way) for way in up],
            "seq": [1 if way else row[4] for way, row in zip(up, packets, strict=True)],
            "end": [1 if way else row[4] + 100 for way, row in zip(up, packets, strict=True)],
            "ack": [row[4] if way else 1 for way, row in zip(up, packets, strict=True)],
        },
        transport={
            **{
                name: [value] * len(tcp)
                for name, value in {"flow": 0, "host": "server", "event": "window"}.items()
            },
            "order": [row[0] for row in tcp],
            "time_ns": [row[1] for row in tcp],
            "cwnd": [row[4] for row in tcp],
            "ssthresh": [None] * len(tcp),
        },
        objects={},
        flows={"direction": ["down", "down"]},
        bad_periods={},
        left_out={},
        series={},
        delays={},
    )


MS = 1_000_000
SENT = [(0, "sent", 1), (0, "enqueued", 1), (9 * MS, "dequeued", 1)]


@pytest.mark.parametrize(
    ("kernel", "model", "kind"),
    [
        # The second packet finds the place of the first just free, or not yet.
        ([(9 * MS + 2000, "enqueued", 101)], [(9 * MS - 1000, "dropped-queue", 101)], Kind.TIE),
        ([(5 * MS, "enqueued", 101)], [(5 * MS, "dropped-queue", 101)], Kind.QUEUE),
        ([(5 * MS, "enqueued", 101)], [(5 * MS, "dropped-red", 101)], Kind.RED),
        ([(20 * MS, "dropped-error", 1)], [(20 * MS, "delivered", 1)], Kind.LOSS),
        ([(5 * MS, "enqueued", 101), (6 * MS, "enqueued", 201)], [(5 * MS, "enqueued", 201)], Kind.ORDER),
        ([(20 * MS, "delivered", 1), (20 * MS, "sent up", 101)], [(20 * MS, "delivered", 1)], Kind.RECEIVER),
        (
            [(20 * MS, "delivered", 1), (60 * MS, "sent up", 101)],
            [(20 * MS, "delivered", 1)],
            Kind.DELAYED_ACK,
        ),
        (
            [(20 * MS, "delivered up", 101), (20 * MS, "sent", 101)],
            [(20 * MS, "delivered up", 101)],
            Kind.SENT,
        ),
        (
            [(20 * MS, "delivered up", 101), (60 * MS, "sent", 1)],
            [(20 * MS, "delivered up", 101)],
            Kind.TIMER,
        ),
    ],
)
def test_the_cause_is_the_earliest_step_that_was_taken_differently(
    kernel: list[tuple[int, str, int]], model: list[tuple[int, str, int]], kind: Kind
) -> None:
    later = [(100 * MS, "delivered up", 901)]
    found = cause(differences((steps(run(SENT + kernel + later)), steps(run(SENT + model)))), 0)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(
    ("event", "kinds"),
    [("dropped-codel", (Kind.AQM, Kind.AQM_TIE)), ("dropped-red", (Kind.RED, Kind.RED_TIE))],
)
def test_another_decision_after_a_tie_is_its_effect(event: str, kinds: tuple[Kind, Kind]) -> None:
    before = [(0, "sent", 1), (0, "sent", 101), (MS, "enqueued", 1)]
    for queued, kind in zip((1, 2), kinds, strict=True):
        kernel, model = run([*before, (2 * MS, event, 101)]), run([*before, (2 * MS, "enqueued", 101)])
        # Another packet had just left the model's queue, or was still in it.
        model.packets["queue_packets"] = [None, None, queued, 1]
        kernel.packets["queue_packets"] = [None, None, 1, 1]
        found = cause(differences((steps(kernel), steps(model))), 0)
        assert found is not None
        assert found.kind == kind


def test_a_switch_tells_drops_only_and_another_packet_of_it_is_a_cause() -> None:
    sent = [(0, "sent", 1), (0, "sent", 101)]
    for event in ("dropped-epd", "dropped-selective", "dropped-queue"):
        kernel, model = (
            [(5 * MS, event, 101), (9 * MS, "delivered", 1)],
            [(5 * MS, event, 1), (9 * MS, "delivered", 101)],
        )
        found = cause(differences((steps(run(sent + kernel)), steps(run(sent + model)))), 0)
        assert found is not None
        assert (found.kind, found.place.kind) == (Kind.SWITCH, "queue")


def test_drops_of_every_cause_count() -> None:
    (cell,) = _core.load(str(ROOT / "examples" / "first.toml")).cells
    assert {name for name in cell.run(1, 1, 1).flows if name.startswith("data_drops_")} < set(COUNTS)


def test_a_window_comes_before_what_it_allows_and_another_flow_feels_only_that() -> None:
    ack = [*SENT, (20 * MS, "delivered up", 101)]
    kernel, model = run([*ack, (20 * MS, "sent", 101)], [(20 * MS, 2)]), run(ack, [(20 * MS, 1)])
    found = differences((steps(kernel), steps(model)))
    own, other = cause(found, 0), cause(found, 1)
    assert own is not None
    assert other is not None
    assert (own.kind, other.kind) == (Kind.WINDOW, Kind.WINDOW)
    silent = steps(run(ack, [(20 * MS, 2)]))
    assert cause(differences((silent, steps(model))), 1) is None
    assert cause(differences((silent, silent)), 0) is None


def test_acks_that_arrive_at_once_are_one_state() -> None:
    acks = [*SENT, (20 * MS, "delivered up", 101), (20 * MS + 3000, "delivered up", 201)]
    assert [state.ack for state in history(run(acks), 0)] == [None, 201]


def test_each_difference_is_told_with_both_stories(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "flows.csv"
    # The kernel is no Linux 2.4: they must differ, and soon.
    assert (
        lasthop_main(
            "crosscheck", ROOT / "examples" / "two-flows.toml", "--only", "memory=none", "--out", out
        )
        == 0
    )
    text = capsys.readouterr().out
    assert "model compared with kernel" in text
    assert "the same up to ACK" in text
    for engine in ("kernel ", "model  "):
        assert f"    {engine}" in text
    rows = pl.read_csv(out)
    assert rows["flow"].to_list() == ["tcp-1", "tcp-2"]
    assert rows["same_acks"].max() < rows["acks"].min()  # type: ignore[operator]
    assert set(rows["cause"]) <= set(Kind)
    assert f"  cause: {rows['cause'][0]}" in text
    assert "after a timer" in text


def fresh_seed() -> int:
    """Return a seed that changes with each commit, so that no code is fitted to its scenarios."""
    return int.from_bytes(hashlib.sha256(commit().removesuffix("-dirty").encode()).digest()[:4])


def compare_random(folder: Path, lasthop_main: Main, seed: int, count: int, *options: str) -> pl.DataFrame:
    """Compare the engines on random scenarios; return a row for each TCP flow."""
    make = [sys.executable, ROOT / "scripts" / "random_scenarios.py", "--count", str(count)]
    file, out = folder / "random.toml", folder / "flows.csv"
    made = subprocess.run([*make, "--seed", str(seed), *options], capture_output=True, text=True, check=True)
    file.write_text(made.stdout)
    assert lasthop_main("crosscheck", file, "--quiet", "--out", out) == 0
    return pl.read_csv(out).filter(pl.col("elapsed_distance").is_not_null())


def probability(rows: pl.DataFrame, within: float, share: float) -> float:
    """Return how probable so few agreeing scenarios are, or fewer, if this share of all scenarios agree.

    The flows of a scenario are no independent draws, so all of them must agree.
    """
    agree = rows.group_by("cell").agg((pl.col("elapsed_distance").abs() <= within).all())
    hits, count = agree["elapsed_distance"].sum(), agree.height
    return sum(comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(hits + 1))


def without_ties(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(~pl.col("cause").fill_null("").is_in(list(TIES)))


def test_a_share_below_the_expected_one_is_improbable() -> None:
    rows = pl.DataFrame({"cell": ["a", "a", "b", "c"], "elapsed_distance": [0.0, 0.1, 0.0, -0.001]})
    assert probability(rows, 0.005, 0.9) == pytest.approx(1 - 0.9**3)
    assert probability(rows.filter(pl.col("cell") == "a"), 0.005, 0.9) == pytest.approx(0.1)
    rows = rows.with_columns(cause=pl.Series([None, *map(str, (Kind.TIE, Kind.WINDOW, Kind.RED_TIE))]))
    assert without_ties(rows)["cell"].to_list() == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "shares"),
    [((), (0.85, 0.97)), (("--errors",), (0.80, 0.94))],
    ids=["clean", "errors"],
)
@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.long(covers=COVERS, seconds=75))])
def test_the_model_of_linux_6_follows_the_kernel_on_scenarios_that_are_new_with_each_commit(
    tmp_path: Path,
    lasthop_main: Main,
    options: tuple[str, ...],
    shares: tuple[float, float],
    count: int,
) -> None:
    """Expect somewhat smaller shares than `docs/validation/linux.md` has, with ties and without."""
    seed = fresh_seed()
    rows = compare_random(tmp_path, lasthop_main, seed, count, *options)
    assert rows.height >= count
    for flows, share in zip((rows, without_ties(rows)), shares, strict=True):
        assert probability(flows, 0.005, share) > 1e-4, f"seed {seed}"


@pytest.mark.parametrize(
    ("algorithms", "count"),
    [
        ("vegas,westwood,dctcp", 9),
        *(
            pytest.param(algorithm, 100, marks=pytest.mark.long(covers=COVERS, seconds=18))
            for algorithm in ("vegas", "westwood", "dctcp")
        ),
    ],
)
def test_the_models_of_other_controls_follow_the_kernel_on_scenarios_that_are_new_with_each_commit(
    tmp_path: Path, lasthop_main: Main, algorithms: str, count: int
) -> None:
    seed = fresh_seed()
    rows = compare_random(tmp_path, lasthop_main, seed, count, "--algorithms", algorithms)
    assert rows.height >= count
    # A tie at a full queue separates some flows.
    assert probability(rows, 0.01, 0.85) > 1e-4, f"seed {seed}"


@pytest.mark.parametrize(
    ("count", "replications"),
    [
        pytest.param(4, 3, marks=pytest.mark.long(covers=COVERS, seconds=3)),
        pytest.param(100, 8, marks=pytest.mark.long(by_hand="takes five minutes of a processor or more")),
    ],
    ids=["few", "many"],
)
def test_the_model_of_bbr_follows_the_kernel_over_its_random_phases(
    tmp_path: Path, lasthop_main: Main, count: int, replications: int
) -> None:
    make = [sys.executable, ROOT / "scripts" / "random_scenarios.py", "--count", str(count), "--seed", "7"]
    file, out = tmp_path / "random.toml", tmp_path / "flows.csv"
    made = subprocess.run([*make, "--algorithms", "bbr"], capture_output=True, text=True, check=True)
    file.write_text(made.stdout)
    assert lasthop_main("crosscheck", file, "--replications", replications, "--quiet", "--out", out) == 0
    rows = pl.read_csv(out)
    flows = rows.group_by("cell", "flow").agg(pl.col("elapsed_s", "elapsed_reference_s").mean())
    assert flows.height >= count
    assert (flows["elapsed_s"] / flows["elapsed_reference_s"] - 1).abs().median() < 0.03  # type: ignore[operator]
    # Nobody draws a phase before the path is full.
    assert rows["same_acks"].min() > 5  # type: ignore[operator]


def _drops(file: Path) -> pl.DataFrame:
    """Return the queue losses of all flows in each replication."""
    return (
        pl.read_parquet(file)
        .group_by("link", "replication")
        .agg(pl.col("data_drops_queue").sum().alias("drops"))
    )


@pytest.mark.long(covers=COVERS, seconds=8)
@pytest.mark.parametrize("link", ["constant", "bursts"])
def test_three_flows_of_bbr_lose_as_much_in_the_kernel_as_in_the_model_over_their_draws(
    kernel: Kernel, tmp_path: Path, lasthop_main: Main, link: str
) -> None:
    """Single runs of one engine differ several times over: only their distributions can be compared."""
    run = (
        "run",
        ROOT / "docs" / "reference" / "kernel-bbr.toml",
        "--only",
        f"count=3,control=bbr,link={link}",
    )
    assert lasthop_main(*run, "--out", tmp_path / "model") == 0
    options = ("--engine", "kernel", "--kernel", kernel.name, "--replications", 4)
    assert lasthop_main(*run, *options, "--out", tmp_path / "kernel") == 0
    model, guest = (_drops(tmp_path / name / "flows.parquet")["drops"] for name in ("model", "kernel"))
    assert (model.len(), guest.len()) == (40, 4)
    low, high = (model.quantile(share) for share in (0.05, 0.95))
    assert low < guest.median() < high  # type: ignore[operator]
    assert (0.7 * model.min() < guest).all()  # type: ignore[operator]
    assert (guest < 1.3 * model.max()).all()  # type: ignore[operator]


@pytest.mark.parametrize("options", [(), ("--errors",)], ids=["clean", "errors"])
@pytest.mark.parametrize(
    "count",
    [4, pytest.param(100, marks=pytest.mark.long(covers=("crates/lasthop-quic", *COVERS), seconds=40))],
)
def test_quic_takes_as_long_over_real_sockets_of_the_guest_as_in_the_model(
    tmp_path: Path, lasthop_main: Main, options: tuple[str, ...], count: int
) -> None:
    make = [
        sys.executable,
        ROOT / "scripts" / "random_scenarios.py",
        "--quic",
        "--count",
        str(count),
        "--seed",
        "7",
    ]
    file, out = tmp_path / "random.toml", tmp_path / "flows.csv"
    file.write_text(subprocess.run([*make, *options], capture_output=True, text=True, check=True).stdout)
    assert lasthop_main("crosscheck", file, "--quiet", "--out", out) == 0
    rows = pl.read_csv(out)
    assert rows.height >= count
    assert rows["outcome"].to_list() == rows["outcome_reference"].to_list()
    assert statistics.median(rows["elapsed_distance"].abs()) < 0.0001
    # A tie at a full queue separates some flows.
    assert (rows["elapsed_distance"].abs() < 0.01).mean() > 0.8  # type: ignore[operator]
    assert rows["acks"].min() > 5  # type: ignore[operator]
    assert (rows["same_acks"] / rows["acks"]).mean() > 0.5  # type: ignore[operator]


def test_paced_senders_of_the_model_follow_those_of_the_kernel(tmp_path: Path, lasthop_main: Main) -> None:
    file, out = tmp_path / "paced.toml", tmp_path / "flows.csv"
    file.write_text(
        '[down.link]\nrate = "2 Mbit/s"\ndelay = "40 ms"\n[down]\nqueue.limit = "20 packets"\n'
        "[tcp]\ninitial_window = 20\n"
        '[[flow]]\nkind = "bulk-tcp"\nbytes = "500 kB"\n'
        "[factor.pacing]\noff = {}\non.tcp.pacing = true\nfq.tcp.pacing = 'fq'\n"
        "[factor.pacing.bursts]\ntcp.pacing = true\n"
        'flow = [{ kind = "bulk-tcp", bytes = "500 kB", write = "64 kB" }]\n'
        '[factor.control.cubic]\n[factor.control.reno]\ntcp.congestion_control = "reno"\n'
    )
    assert lasthop_main("crosscheck", file, "--quiet", "--out", out) == 0
    rows = pl.read_csv(out)
    # The kernel defers some bursts.
    bound = pl.when(pl.col("cell").str.contains("bursts")).then(0.02).otherwise(0.001)
    assert rows.select((pl.col("elapsed_distance").abs() < bound).all()).item()
    assert (rows["same_acks"] / rows["acks"]).min() > 0.03  # type: ignore[operator]
    of = {name: rows.filter(pl.col("cell").str.contains(f"pacing={name}")) for name in ("off", "on", "fq")}
    assert of["fq"].select((pl.col("same_acks") == pl.col("acks")).all()).item()
    off, on, fq = (cells["elapsed_s"].to_list() for cells in of.values())
    assert off != on != fq, "who paces makes a difference"


def test_nagle_of_the_model_holds_what_that_of_the_kernel_holds(tmp_path: Path, lasthop_main: Main) -> None:
    file, out = tmp_path / "nagle.toml", tmp_path / "flows.csv"
    file.write_text(
        'mtu = "576 B"\n[down.link]\nrate = "1 Mbit/s"\ndelay = "50 ms"\n[[flow]]\nkind = "bulk-tcp"\n'
        'bytes = "20 kB"\n'
        '[factor.write.small]\nflow = [{ kind = "bulk-tcp", bytes = "20 kB", write = "100 B" }]\n'
        '[factor.write.large]\nflow = [{ kind = "bulk-tcp", bytes = "20 kB", write = "700 B" }]\n'
        '[factor.write.few]\nflow = [{ kind = "bulk-tcp", bytes = "900 B", write = "150 B" }]\n'
        "[factor.nagle]\noff = {}\non.tcp.nagle = true\n"
    )
    assert lasthop_main("crosscheck", file, "--quiet", "--out", out) == 0
    rows = pl.read_csv(out)
    held, sent = (rows.filter(pl.col("cell").str.contains(f"nagle={name}")) for name in ("on", "off"))
    assert held.select((pl.col("same_acks") == pl.col("acks")).all()).item()
    assert held.select((pl.col("elapsed_distance").abs() < 0.001).all()).item()
    # Six writes of 150 bytes leave in six segments, or the first alone and the others together.
    assert held["acks"].sum() < sent["acks"].sum()


@pytest.mark.long(covers=COVERS, seconds=220)
@pytest.mark.parametrize(
    "discipline", ["drop-head", "codel", "fq_codel", "sfq", "cake", "pie", "fq_pie", "red", "adaptive-red"]
)
def test_the_models_of_queues_follow_those_of_linux_on_random_scenarios(
    tmp_path: Path, lasthop_main: Main, discipline: str
) -> None:
    make = [sys.executable, ROOT / "scripts" / "random_scenarios.py", "--count", "100", "--seed", "7"]
    file, out = tmp_path / "random.toml", tmp_path / "flows.csv"
    made = subprocess.run([*make, "--discipline", discipline], capture_output=True, text=True, check=True)
    file.write_text(made.stdout)
    assert lasthop_main("crosscheck", file, "--router", "linux", "--quiet", "--out", out) == 0
    rows = pl.read_csv(out)
    assert rows.height > 150
    # Some disciplines draw random numbers, each engine its own. So single runs differ, and only the medians
    # agree, and the tails as far as chance lets them (1.8 % in one draw of FQ-PIE).
    draws = "pie" in discipline or "red" in discipline
    most = {"elapsed": 0.01, "queue_delay_median": 0.01, "queue_delay_p95": 0.03} if draws else {}
    for metric in ("elapsed", "queue_delay_median", "queue_delay_p95"):
        assert abs(statistics.median(rows[f"{metric}_distance"].drop_nulls())) < most.get(metric, 0.001)


def test_timeouts_come_at_the_same_time_through_all_their_backoffs(tmp_path: Path, kernel: Kernel) -> None:
    file = tmp_path / "outages.toml"
    # Most of the time nothing passes.
    file.write_text(
        f'extends = "{ROOT / "examples" / "modern.toml"}"\n'
        'errors = { good = "300 ms", bad = "900 ms", packet_error_probability = 1.0 }\n'
    )
    study = _core.load(str(file))
    plan = Plan(study=study, cells=study.cells, seed=study.seed, replications=2)

    def timeouts(plan: Plan, replication: int) -> list[int]:
        trace = ChosenRun(plan, study.cells[0], 1, replication).trace()
        tcp = pl.DataFrame(trace.transport)
        return tcp.filter(pl.col("event") == "timeout")["time_ns"].to_list()

    seen = []
    for replication in (1, 2):
        model, guest = (
            timeouts(each, replication) for each in (plan, replace(plan, engine=KernelEngine(kernel)))
        )
        assert len(model) > 5
        assert model == pytest.approx(guest, rel=0, abs=5_000)
        seen.append(model)
    # The phase of the timers is random.
    assert seen[0] != pytest.approx(seen[1], rel=0, abs=100_000)


def test_a_receiver_of_the_model_acknowledges_as_seldom_as_one_of_the_kernel(kernel: Kernel) -> None:
    """Senders write long stretches, so every second segment is acknowledged, except behind a gap."""
    (cell,) = _core.load(str(ROOT / "docs" / "reference" / "kernel-acks.toml")).cells
    acks = []
    for trace in (traced(cell, 1, 1, 1), traced(cell, 1, 1, 1, engine=KernelEngine(kernel))):
        sent = pl.DataFrame(trace.packets).filter(pl.col("event") == "sent")
        up, down = (sent.filter(pl.col("direction") == way).height for way in ("up", "down"))
        assert 13_000 < down < 15_000
        assert up < 0.6 * down
        acks.append(up)
    assert acks[0] == pytest.approx(acks[1], rel=0.02)


def test_a_connection_that_never_opens_is_given_up_after_as_many_syns(tmp_path: Path, kernel: Kernel) -> None:
    file = tmp_path / "deaf.toml"
    file.write_text(
        'time_limit = "300 s"\n[down.link]\nrate = "1 Mbit/s"\ndelay = "10 ms"\nloss = 1.0\n'
        '[[flow]]\nkind = "bulk-tcp"\nbytes = "10 kB"\n'
    )
    (cell,) = _core.load(str(file)).cells
    model, guest = (
        pl.DataFrame(run.flows)
        for run in (cell.run(1, 1, 1), KernelEngine(kernel).run_cell(cell, Request(1, 1, 1)))
    )
    told = ["outcome", "data_drops_error"]
    # Six retries, and the four a second apart before them (`tcp_syn_linear_timeouts`).
    assert model.select(told).row(0) == guest.select(told).row(0) == ("aborted", 11)


def test_nothing_to_compare_with_is_an_error(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("crosscheck", ROOT / "examples" / "modern.toml", "--no-model") == 2
    assert "leaves no engine to compare" in capsys.readouterr().err


def test_the_example_runs_on_the_model_and_follows_the_kernel(tmp_path: Path, lasthop_main: Main) -> None:
    file, out = ROOT / "examples" / "modern.toml", tmp_path / "flows.csv"
    assert lasthop_main("run", file, "--out", tmp_path / "modern", "--quiet") == 0
    assert lasthop_main("crosscheck", file, "--quiet", "--out", out) == 0
    rows = pl.read_csv(out)
    assert rows["cell"].n_unique() == 4
    assert statistics.median(rows["elapsed_distance"].abs()) < 0.01


def test_medians_over_replications_are_compared_too() -> None:
    # One of three runs is far off, by chance; the medians are not.
    comparisons = [
        FlowComparison(
            cell="a",
            replication=number,
            flow="download",
            protocol="udp",
            engines=("kernel", "live"),
            outcomes=("closed", "closed"),
            distances=[Distance("elapsed_s", values)],
            acks=0,
            parting=None,
            cause=None,
        )
        for number, values in enumerate([(10.0, 10.0), (10.0, 15.0), (10.02, 10.02)], start=1)
    ]
    lines = list(tell_all(comparisons))
    assert "within 0.5 % for 2 of 3" in lines[1]
    assert (
        lines[2]
        == "  medians over replications: median distance 0.200%, greatest 0.200%, within 0.5 % for 1 of 1"
    )
    assert not any("medians" in line for line in tell_all(comparisons[:1]))
