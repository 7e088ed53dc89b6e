"""The guest's own queue disciplines as router: the stated rate, delay, queue and losses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.engines.engine import Observation, Request
from lasthop.engines.hosts import HostResults
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel
from lasthop.engines.live.live_engine import LiveEngine
from test_kernel import command

SCENARIO = """
name = "small"
title = "Queue disciplines of Linux"
seed = 1
replications = 2
mtu = "1500 B"
time_limit = "600 s"
router.implementation = "linux"
lan = { rate = "100 Mbit/s", delay = "0 s" }
down.queue.limit = "40 packets"
down.link = { rate = "1 Mbit/s", delay = "50 ms", send_buffer = "1500 B", release = "serialised" }
up.queue.limit = "40 packets"
up.link = { rate = "1 Mbit/s", delay = "50 ms", send_buffer = "1500 B", release = "serialised" }
tcp.profile = "linux-6"
tcp.congestion_control = "CONTROL"
"""
LOSSES = 'errors = { good = "0 s", bad = "1 s", packet_error_probability = 0.05 }\n'
DOWNLOAD = '[[flow]]\nkind = "bulk-tcp"\nname = "download"\nbytes = "300 kB"\nstart = "100 ms"\n'
# A packet of 1500 bytes at 100 Mbit/s.
LAN_NS = 120_000


def stream(rate: str, duration: str) -> str:
    return (
        f'[[flow]]\nkind = "constant-udp"\nname = "stream"\nrate = "{rate}"\npayload = "1472 B"\n'
        f'duration = "{duration}"\nstart = "0 s"\n'
    )


def scenario(folder: Path, *parts: str, control: str = "reno", **replaced: str) -> Path:
    text = SCENARIO.replace("CONTROL", control)
    for old, new in replaced.items():
        text = text.replace({"rate": "1 Mbit/s", "delay": "50 ms", "limit": "40 packets"}[old], new)
    file = folder / "router.toml"
    file.write_text("".join([text, *parts]), encoding="utf-8")
    return file


def recorded(kernel: Kernel, file: Path, seed: int = 1) -> tuple[HostResults, pl.DataFrame]:
    """Run the only cell once; return its records and its packets, in order."""
    results = KernelEngine(kernel).run_cell(
        _core.load(str(file)).cells[0], Request.of_one(seed, 1, 1, Observation(trace=True))
    )
    assert results.trace is not None
    return results, pl.DataFrame(results.trace.packets)


def times(packets: pl.DataFrame, event: str) -> pl.Series:
    return packets.filter((pl.col("event") == event) & (pl.col("direction") == "down"))["time_ns"]


def test_the_same_seed_gives_the_same_records_byte_for_byte_with_losses_and_bbr(
    kernel: Kernel, tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    """Two of the runs have separate processes, with other addresses and hashes."""
    assert kernel
    file = scenario(tmp_path, LOSSES, DOWNLOAD, control="bbr")
    records = []
    for number, (seed, jobs) in enumerate([(1, 1), (1, 2), (1, 1), (2, 1)]):
        out = tmp_path / f"out{number}"
        run = ("run", file, "--engine", "kernel", "--seed", seed, "--jobs", jobs, "--out", out, "--quiet")
        assert (command(*run).returncode if number < 2 else lasthop_main(*run)) == 0
        records.append((out / "flows.parquet").read_bytes() + (out / "runs.parquet").read_bytes())
    assert records[0] == records[1] == records[2] != records[3]
    flows = pl.read_parquet(tmp_path / "out0" / "flows.parquet")
    assert flows["outcome"].to_list() == ["closed"] * 2
    assert flows["data_drops_error"].min() > 0  # type: ignore[operator]
    assert flows["elapsed_s"].n_unique() == 2, "each replication draws losses of its own"


def test_a_lone_packet_takes_the_stated_delay(kernel: Kernel, tmp_path: Path) -> None:
    results, packets = recorded(kernel, scenario(tmp_path, stream("100 kbit/s", "10 s"), delay="33.333 ms"))
    sent, delivered = times(packets, "sent"), times(packets, "delivered")
    assert sent.len() == delivered.len() == 85
    # Its own transmission time does not count: HTB releases packets that fit its bucket.
    late = delivered - sent - LAN_NS - 33_333_000
    assert 0 <= late.min() <= late.max() < 5000  # type: ignore[operator]
    assert results.runs["lateness_max_us"][0] < 5.0
    assert packets["time_ns"].is_sorted()


@pytest.mark.parametrize("rate_bits", [64_000, 1_000_000, 20_000_000])
@pytest.mark.parametrize("overhead", [0, 14])
def test_a_saturating_flow_leaves_at_the_stated_rate(
    kernel: Kernel, tmp_path: Path, rate_bits: int, overhead: int
) -> None:
    classes = f'[{{ name = "all", rate = "{rate_bits} bit/s", default = true }}]'
    htb = f'down.htb = {{ overhead = "{overhead} B", class = {classes} }}\n'
    # The delay is short enough that netem's limit, which counts delayed packets, does not hold the flow back.
    load = stream(f"{2 * rate_bits} bit/s", f"{4_000_000 / rate_bits} s")
    file = scenario(tmp_path, htb, load, rate="100 Mbit/s", delay="5 ms")
    results, packets = recorded(kernel, file)
    delivered = times(packets, "delivered")
    # The second packet may leave at once with the first, from the bucket.
    steady = delivered[10:]
    measured = (steady.len() - 1) * (1500 + overhead) * 8e9 / (steady[-1] - steady[0])
    assert measured == pytest.approx(rate_bits, rel=1e-4)
    assert results.flows["data_drops_queue"][0] == times(packets, "dropped-queue").len() > 100
    depths = packets.filter(pl.col("event") == "enqueued")["queue_packets"]
    assert depths.max() == 40, "netem's limit"


def test_losses_are_as_likely_as_stated_and_not_counted_for_the_queue(kernel: Kernel, tmp_path: Path) -> None:
    count = 4246
    file = scenario(tmp_path, LOSSES, stream("500 kbit/s", "100 s"))
    results, packets = recorded(kernel, file)
    assert results.flows["sent_packets"] == [count]
    lost, expected = results.flows["data_drops_error"][0], 0.05 * count
    # Four standard deviations of the binomial distribution.
    assert abs(lost - expected) < 4 * (expected * 0.95) ** 0.5
    assert results.flows["data_drops_queue"] == [0]
    assert results.flows["received_packets"] == [count - lost]
    other = recorded(kernel, file, seed=2)[1]
    hit = [run.filter(pl.col("event") == "dropped-error")["serial"].to_list() for run in (packets, other)]
    assert len(hit[0]) == lost
    assert hit[0] != hit[1]


def test_the_queue_counts_the_packets_that_are_delayed(kernel: Kernel, tmp_path: Path) -> None:
    # In 50 ms at 800 kbit/s come 3.3 packets, of which the queue holds three.
    results, packets = recorded(kernel, scenario(tmp_path, stream("800 kbit/s", "10 s"), limit="3 packets"))
    assert results.flows["data_drops_queue"][0] > 50
    assert results.flows["data_drops_error"] == [0]
    assert packets["queue_packets"].max() == 3
    roomy, _ = recorded(kernel, scenario(tmp_path, stream("800 kbit/s", "10 s"), limit="4 packets"))
    assert roomy.flows["data_drops_queue"] == [0]


def test_what_has_entered_the_router_leaves_it_in_order_or_is_dropped(kernel: Kernel, tmp_path: Path) -> None:
    _, packets = recorded(kernel, scenario(tmp_path, LOSSES, DOWNLOAD, stream("600 kbit/s", "5 s")))
    for direction in ("down", "up"):
        of = {
            event: packets.filter((pl.col("event") == event) & (pl.col("direction") == direction))[
                "serial"
            ].to_list()
            for event in ("sent", "enqueued", "dequeued", "delivered", "dropped-error")
        }
        assert of["delivered"] == of["dequeued"] == sorted(of["delivered"])
        assert sorted(of["delivered"] + of["dropped-error"]) == of["sent"] == of["enqueued"]
        assert of["dropped-error"]


def test_a_packet_that_comes_out_while_losses_are_looked_for_is_not_lost(
    kernel: Kernel, tmp_path: Path
) -> None:
    download = DOWNLOAD.replace("300 kB", "1 MB").replace("100 ms", "0 s")
    file = scenario(tmp_path, download, delay="200 ms", limit="80 packets")
    results, packets = recorded(kernel, file)
    assert results.flows["outcome"] == ["closed"]
    assert packets.filter(pl.col("event").str.starts_with("dropped-")).height > 50


def test_the_other_engines_refuse_netem_and_say_who_has_it(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel
    cell = _core.load(str(scenario(tmp_path, DOWNLOAD))).cells[0]
    with pytest.raises(
        _core.ScenarioError, match=r"router\.toml:8: `router\.implementation`.*--engine kernel"
    ):
        cell.run(1, 1, 1)
    with pytest.raises(InputError, match="runs on the kernel engine only"):
        LiveEngine().run_cell(cell, Request(1, 1, 1))


CLASS = """
down.link = { rate = "4 Mbit/s", delay = "20 ms" }
down.queue = { QUEUE }
up.link = { rate = "1 Gbit/s", delay = "20 ms" }
up.queue = { discipline = "codel", limit = "1000 packets" }
"""


def both_routers(kernel: Kernel, folder: Path, queue: str, *parts: str) -> list[pl.DataFrame]:
    """Run a scenario with Linux' discipline and with its model; return the flows of each."""
    head = SCENARIO[: SCENARIO.index("down.queue")] + SCENARIO[SCENARIO.index("tcp.profile") :].replace(
        "CONTROL", "cubic"
    )
    file = folder / "both.toml"
    file.write_text("".join([head, CLASS.replace("QUEUE", queue), *parts]), encoding="utf-8")
    (cell,) = _core.load(str(file)).cells
    return [
        pl.DataFrame(run.flows)
        for run in (KernelEngine(kernel).run_cell(cell, Request(1, 1, 1)), cell.run(1, 1, 1))
    ]


def red(low: int, high: int, probability: float, *keys: str) -> str:
    rest = "".join(f", {key} = true" for key in keys)
    return (
        f'limit = "400 kB", red = {{ min = "{low} B", max = "{high} B", max_probability = {probability}, '
        f'weight = 0.0078125, avpkt = "1500 B"{rest} }}'
    )


@pytest.mark.parametrize(
    ("queue", "ecn", "drops"),
    [
        # Adjacent thresholds make drops deterministic.
        (red(29_999, 30_000, 1), False, "data_drops_red"),
        (red(29_999, 30_000, 1, "ecn"), True, "data_drops_red"),
        (red(29_999, 30_000, 0.5, "adaptive"), False, "data_drops_red"),
        (red(399_999, 400_000, 1).replace("400 kB", "30 kB"), False, "data_drops_queue"),
        ('discipline = "drop-head", limit = "40 packets"', False, "data_drops_queue"),
        ('discipline = "codel", limit = "1000 packets"', False, "data_drops_aqm"),
        ('discipline = "codel", limit = "1000 packets", ecn = true', True, "data_marks_ecn"),
        ('discipline = "codel", limit = "1000 packets", ce_threshold = "10 ms"', True, "data_marks_ecn"),
        ('discipline = "fq_codel", limit = "1000 packets", ecn = false', False, "data_drops_aqm"),
        ('discipline = "fq_codel", limit = "1000 packets", ce_threshold = "10 ms"', True, "data_marks_ecn"),
        ('discipline = "fq_codel", limit = "1000 packets"', True, "data_marks_ecn"),
        ('discipline = "sfq", limit = "40 packets"', False, "data_drops_queue"),
        ('discipline = "cake", limit = "4 MB"', False, "data_drops_aqm"),
        ('discipline = "cake", limit = "4 MB"', True, "data_marks_ecn"),
        ('discipline = "cake", limit = "4 MB", rate = "3 Mbit/s"', False, "data_drops_aqm"),
        (
            'discipline = "cake", limit = "4 MB", rate = "3 Mbit/s", tins = "diffserv4", overhead = "atm"',
            True,
            "data_marks_ecn",
        ),
    ],
)
def test_linux_and_the_model_drop_and_mark_the_same_packets(
    kernel: Kernel, tmp_path: Path, queue: str, ecn: bool, drops: str
) -> None:
    # Not at 433 ms: fq_codel marks other packets, as a departure and an arrival meet within a microsecond
    # there.
    two = DOWNLOAD + DOWNLOAD.replace("download", "later").replace("100 ms", "441 ms")
    linux, model = both_routers(kernel, tmp_path, queue, f"tcp.ecn = {str(ecn).lower()}\n", two)
    counts = [
        name
        for name in linux.columns
        if "drops_" in name or name in ("data_marks_ecn", "retransmitted_packets")
    ]
    assert linux.select(counts).equals(model.select(counts))
    if drops in counts:
        assert linux[drops].sum() > 0, "it was felt"
    for metric in ("elapsed_s", "queue_delay_median_s", "queue_delay_p95_s"):
        # In an empty queue, a packet waits only for the guest's system calls; those of 7.3 take longer.
        assert linux[metric].to_list() == pytest.approx(model[metric].to_list(), rel=0.01, abs=6e-6)


@pytest.mark.parametrize(
    ("queue", "drops", "load_mbit"),
    [
        *(
            (f'discipline = "{pie}", limit = "1000 packets", tupdate = "16 ms"', "aqm", 6)
            for pie in ("pie", "fq_pie")
        ),
        (red(15_000, 90_000, 1), "red", 4.4),
        # It has to raise the probability first.
        (red(15_000, 90_000, 0.02, "adaptive"), "red", 4.4),
    ],
)
def test_linux_and_the_model_hold_the_same_delay_with_as_many_drops_by_chance(
    kernel: Kernel, tmp_path: Path, queue: str, drops: str, load_mbit: float
) -> None:
    drops = f"data_drops_{drops}"
    linux, model = both_routers(kernel, tmp_path, queue, stream(f"{load_mbit} Mbit/s", "5 s"))
    sent, excess = linux["sent_packets"][0], 1 - 4 / load_mbit
    # Standard deviation of independent drops; both engines spread them more evenly.
    chance = (sent * excess * (1 - excess)) ** 0.5
    assert linux[drops][0] == pytest.approx(model[drops][0], abs=4 * chance)
    assert linux[drops][0] == pytest.approx(sent * excess, rel=0.2)
    assert linux["queue_delay_median_s"][0] == pytest.approx(model["queue_delay_median_s"][0], rel=0.1)


def test_a_kernel_without_dualpi2_says_where_it_is(kernel: Kernel, tmp_path: Path) -> None:
    if tuple(map(int, kernel.info.version.split(".")[:2])) >= (6, 17):
        pytest.skip("this kernel has it")
    with pytest.raises(InputError, match=r"sch_dualpi2, which Linux has since 6\.17.*--kernel 7\.3"):
        both_routers(kernel, tmp_path, 'discipline = "dualpi2", limit = "9 packets"', DOWNLOAD)


@pytest.mark.parametrize(
    ("queue", "parts", "place"),
    [
        ('discipline = "codel", limit = "9 packets"', LOSSES, r"queue\.discipline.*has no netem"),
        ('discipline = "fq_codel", limit = "9 packets", quantum = "100 B"', "", r"queue\.quantum.*\"256 B\""),
        ('discipline = "sfq", limit = "9 packets", flows = 100', "", r"queue\.flows.*write 128"),
        (
            'discipline = "random-drop", limit = "9 packets"',
            "",
            r"queue\.discipline.*no random drop; write \"drop-head\"",
        ),
        (
            'discipline = "pie", limit = "9 kB"',
            "",
            r"queue\.limit.*Linux counts packets; write for example \"6 packets\"",
        ),
        ('discipline = "cake", limit = "9 packets"', "", r"queue\.limit.*CAKE counts bytes"),
        (
            red(1, 2, 1).replace("400 kB", "9 packets"),
            "",
            r"queue\.limit.*RED counts bytes; write for example \"13500 B\"",
        ),
        (
            red(1, 2, 1).replace("1 B", "1 packets").replace("2 B", "2 packets"),
            "",
            r"red\.max.*write for example \"3000 B\"",
        ),
        (red(1, 2, 1, "gentle"), "", r"red\.gentle.*no gentle variant"),
        (red(1, 2, 1).replace("0.0078125", "0.002"), "", r"red\.weight.*write 0\.001953125 \(2\^-9\)"),
        (
            red(1, 70_000, 1).replace("0.0078125", "0.0000001"),
            "",
            r"red\.weight.*write 0\.00006103515625 or more",
        ),
        (red(1, 2, 1), LOSSES, r"queue\.red.*has no netem"),
    ],
)
def test_what_a_discipline_of_linux_cannot_be_is_refused_with_the_reason(
    tmp_path: Path, queue: str, parts: str, place: str
) -> None:
    file = scenario(tmp_path, parts, DOWNLOAD)
    text = file.read_text(encoding="utf-8").replace(
        'down.queue.limit = "40 packets"', f"down.queue = {{ {queue} }}"
    )
    file.write_text(text, encoding="utf-8")
    with pytest.raises(_core.ScenarioError, match=place):
        _core.load(str(file))


NESTED = """
mtu = "1500 B"
router.implementation = "linux"
tcp.congestion_control = "reno"
[down]
queue.limit = "40 packets"
link = { rate = "10 Mbit/s", delay = "20 ms", send_buffer = "3000 B", release = "serialised" }
[down.htb]
rate = "2 Mbit/s"
class = [
  { name = "home", rate = "1 Mbit/s", ceil = "2 Mbit/s" },
  { name = "web", parent = "home", rate = "600 kbit/s", ceil = "2 Mbit/s", match = [{ port = 80 }] },
  { name = "mail", parent = "home", rate = "400 kbit/s", ceil = "1 Mbit/s", match = [{ dscp = "AF11" }] },
  { name = "other", rate = "1 Mbit/s", ceil = "2 Mbit/s", default = true },
]
[up]
queue = { discipline = "codel", limit = "100 packets" }
link = { rate = "10 Mbit/s", delay = "20 ms", send_buffer = "3000 B", release = "serialised" }
[[flow]]
kind = "bulk-tcp"
name = "web"
bytes = "1 MB"
port = 80
[[flow]]
kind = "bulk-tcp"
name = "mail"
bytes = "1 MB"
dscp = "AF11"
start = "1 s"
[[flow]]
kind = "bulk-tcp"
name = "other"
bytes = "1 MB"
start = "2 s"
"""


def test_the_model_sends_packets_of_classes_in_each_other_when_linux_does(
    kernel: Kernel, tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    assert kernel
    file, out = tmp_path / "nested.toml", tmp_path / "flows.csv"
    file.write_text(NESTED)
    assert lasthop_main("crosscheck", file, "--quiet", "--out", out) == 0
    rows = pl.read_csv(out)
    assert rows.height == 3
    assert rows["elapsed_distance"].abs().max() < 1e-5  # type: ignore[operator]
    assert rows["queue_delay_median_distance"].abs().max() < 1e-4  # type: ignore[operator]
    assert rows["data_drops_queue_more"].to_list() == [0] * 3
    assert rows["same_acks"].equals(rows["acks"])


HOSTS = {"a": 1, "b": 2, "c": 4, "d": 8}
"""Number of flows of each host."""


@pytest.mark.parametrize(
    ("isolation", "direction", "shares"),
    [
        ("triple-isolate", "down", [1, 1, 1, 1]),
        ("dual-dsthost", "down", [1, 1, 1, 1]),
        ("dual-srchost", "down", [1, 2, 4, 8]),
        ("dual-srchost", "up", [1, 1, 1, 1]),
        ("flows", "down", [1, 2, 4, 8]),
    ],
)
def test_cake_of_linux_and_of_the_model_share_alike_among_hosts(
    kernel: Kernel, tmp_path: Path, isolation: str, direction: str, shares: list[int]
) -> None:
    cake = (
        f'queue = {{ discipline = "cake", limit = "32 MB", rate = "2 Mbit/s", isolation = "{isolation}" }}\n'
    )
    link = 'link = { rate = "1 Gbit/s", delay = "10 ms", send_buffer = "3000 B", release = "serialised" }\n'
    flows = (
        f'[host.{name}]\n[[flow]]\nkind = "constant-udp"\nname = "{name}"\nhost = "{name}"\n'
        f'rate = "1 Mbit/s"\npayload = "1000 B"\ncount = {count}\ndirection = "{direction}"\n'
        'duration = "5 s"\nstart = { distribution = "uniform", min = "0 s", max = "0.2 s" }\n'
        for name, count in HOSTS.items()
    )
    file = tmp_path / "hosts.toml"
    file.write_text(
        'seed = 1\ntime_limit = "5 s"\nmeasure = { from = "1 s", until = "5 s" }\n'
        'router.implementation = "linux"\ntcp.profile = "linux-6"\n'
        f"[down]\n{cake}{link}[up]\n{cake}{link}" + "".join(flows)
    )
    (cell,) = _core.load(str(file)).cells
    rates = [
        pl.DataFrame(records).group_by("host").agg(pl.col("throughput_Bps").sum()).sort("host")
        for records in (cell.run(1, 1, 1).flows, KernelEngine(kernel).run_cell(cell, Request(1, 1, 1)).flows)
    ]
    model, linux = (rate["throughput_Bps"].to_list() for rate in rates)
    assert model == pytest.approx(linux, rel=0.02)
    total = sum(linux)
    assert [rate / total for rate in linux] == pytest.approx([s / sum(shares) for s in shares], rel=0.02)
