"""Impairments of packets on a link: loss, bursts, corruption, jitter and reordering."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.engines.engine import Observation, Request
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel
from lasthop.engines.live.live_engine import LiveEngine
from observing import traced

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "lossy.toml"

RENO = """
time_limit = "300 s"

[down.link]
rate = "100 Mbit/s"
delay = "50 ms"
{loss}

[up.link]
delay = "50 ms"

[tcp]
profile = "ns-1998"
recovery = "sack-pipe"
silly_window_avoidance = true
sack = true
receive_window_initial = 100000
receive_window_max = 100000

[[flow]]
kind = "bulk-tcp"
bytes = "10 GB"
"""


def equation(loss: float, rtt_s: float, segment: int) -> float:
    """The throughput of RFC 5348, section 3.1, in bytes per second: every segment acknowledged, t_RTO = 4
    R.
    """
    recoveries = rtt_s * math.sqrt(2 * loss / 3)
    timeouts = 4 * rtt_s * 3 * math.sqrt(3 * loss / 8) * loss * (1 + 32 * loss**2)
    return segment / (recoveries + timeouts)


def only_cell(file: Path, text: str) -> _core.Cell:
    file.write_text(text, encoding="utf-8")
    (cell,) = _core.load(str(file)).cells
    return cell


@pytest.mark.parametrize("loss", [0.001, 0.003, 0.01])
@pytest.mark.parametrize("key", ["loss", "bit_error_rate"])
def test_reno_follows_the_equation_of_rfc_5348_under_random_loss(
    tmp_path: Path, key: str, loss: float
) -> None:
    # Packets of 1500 bytes, in which each bit may be wrong.
    value = loss if key == "loss" else -math.expm1(math.log1p(-loss) / (8 * 1500))
    cell = only_cell(tmp_path / "reno.toml", RENO.format(loss=f"{key} = {value:.12f}"))
    actual = cell.run(1, 1, 5).flows["throughput_Bps"]
    assert sum(actual) / 5 == pytest.approx(equation(loss, 0.1, 1460), rel=0.1)


SLOTS = """
mtu = "296 B"

[down.link]
{headers}
rate = "{rate}"
delay = "100 ms"

[tcp]
profile = "linux-2.4"

[[flow]]
kind = "bulk-tcp"
bytes = "200 kB"
"""


def test_a_transfer_takes_the_time_of_its_slots_and_headers(tmp_path: Path) -> None:
    """A packet of 296 bytes has a payload of 256, and with compressed headers 259 of its bytes cross the
    link.
    """

    def goodput(rate: str, headers: str = "") -> float:
        cell = only_cell(tmp_path / "slots.toml", SLOTS.format(rate=rate, headers=headers))
        rows = pl.DataFrame(cell.run(1, 1, 1).flows)
        return float(200_000 / rows["data_transmit_s"].item())

    vj = 'header_compression = "vj"'
    for slots, bits in (("1 CS-1", 9_050), ("4 CS-2", 53_600), ("3 TCH/F14.4", 43_200)):
        # The first and last round trips reduce it.
        assert goodput(slots) == pytest.approx(bits / 8 * 256 / 296, rel=0.1)
    assert goodput("1 CS-1", vj) / goodput("1 CS-1") == pytest.approx(296 / 259, rel=0.01)


def cells() -> dict[str, _core.Cell]:
    return {cell.levels["link"]: cell for cell in _core.load(str(EXAMPLE)).cells}


COLUMNS = ("outcome", "sent_packets", "data_drops_error", "elapsed_s")


def test_each_link_of_the_example_does_what_it_says() -> None:
    flows = {level: pl.DataFrame(cell.run(1, 1, 10).flows).select(COLUMNS) for level, cell in cells().items()}
    assert all(set(rows["outcome"]) == {"closed"} for rows in flows.values())
    share = {
        level: rows["data_drops_error"].sum() / rows["sent_packets"].sum() for level, rows in flows.items()
    }
    assert share["clean"] == share["jitter"] == share["reordering"] == share["duplicates"] == 0
    for level, margin in (("random", 0.003), ("corrupt", 0.003), ("bursts", 0.006)):
        assert share[level] == pytest.approx(0.01, abs=margin), level
    time = {level: rows["elapsed_s"].median() for level, rows in flows.items()}
    assert time["random"] > 2 * time["clean"]
    # Fewer bursts than single losses, so fewer times the window is halved.
    assert time["clean"] < time["bursts"] < time["random"]
    assert time["reordering"] < 1.1 * time["jitter"]
    assert time["duplicates"] == pytest.approx(time["clean"], rel=0.01)


def test_corrupt_and_lost_packets_are_distinguished() -> None:
    events = traced(cells()["corrupt"], 1, 1, 1).packets["event"]
    assert "dropped-corrupt" in events
    assert "dropped-error" not in events


def test_a_copy_arrives_behind_its_packet_and_is_in_the_trace() -> None:
    packets = pl.DataFrame(traced(cells()["duplicates"], 1, 1, 1).packets)
    copies = packets.filter(pl.col("event") == "duplicated")
    assert 20 < copies.height < 60
    delivered = packets.filter(pl.col("event") == "delivered").select("serial", "time_ns")
    assert copies.join(delivered, on=["serial", "time_ns"], how="semi").height == copies.height


@pytest.mark.parametrize("level", ["random", "bursts", "corrupt", "duplicates", "jitter", "reordering"])
def test_real_tcp_meets_the_same_links(kernel: Kernel, level: str) -> None:
    cell = cells()[level]
    guest, model = KernelEngine(kernel).run_cell(cell, Request(1, 1, 1)).flows, cell.run(1, 1, 1).flows
    assert guest["outcome"] == ["closed"]
    # The same packets are affected, as long as both have sent the same number.
    if level in ("random", "bursts", "corrupt"):
        assert guest["data_drops_error"][0] == pytest.approx(model["data_drops_error"][0], rel=0.25)
    assert guest["elapsed_s"][0] == pytest.approx(model["elapsed_s"][0], rel=0.1)


TRACED = """
time_limit = "10 s"
[down]
queue.limit = "60 packets"
link = { trace = "link.trace", delay = "20 ms" }
[up.link]
rate = "10 Mbit/s"
delay = "20 ms"
[[flow]]
kind = "constant-udp"
rate = "9 Mbit/s"
payload = "PAYLOAD B"
duration = "4 s"
"""
# 2, 6 and 2 Mbit/s, then a pause of 100 ms; a second in all.
OPPORTUNITIES = sorted([at for at in range(1, 900, 6) for _ in range(1 + (at // 300) % 2 * 2)] + [1000])


def recorded_at(folder: Path, payload: int) -> _core.Cell:
    (folder / "link.trace").write_text("".join(f"{at}\n" for at in OPPORTUNITIES), encoding="utf-8")
    file = folder / "traced.toml"
    file.write_text(TRACED.replace("PAYLOAD", str(payload)), encoding="utf-8")
    (cell,) = _core.load(str(file)).cells
    return cell


def permitted_and_delivered(trace: _core.Trace) -> tuple[list[int], list[int]]:
    """Return the milliseconds of opportunities to send, and of departures of full packets, in two seconds."""
    start, end = 1_500, 3_500
    permitted = [at + second * 1000 for second in range(5) for at in OPPORTUNITIES]
    arrived = pl.DataFrame(trace.packets).filter(pl.col("event") == "delivered")["time_ns"]
    left = [ns // 1_000_000 - 20 for ns in arrived]
    return [at for at in permitted if start < at <= end], [at for at in left if start < at <= end]


def test_a_trace_delivers_what_it_permits_on_every_engine(tmp_path: Path, kernel: Kernel) -> None:
    cell = recorded_at(tmp_path, 1472)
    model = traced(cell, 1, 1, 1)
    permitted, delivered = permitted_and_delivered(model)
    assert delivered == permitted
    for engine in (LiveEngine(), KernelEngine(kernel)):
        trace = engine.run_cell(cell, Request.of_one(1, 1, 1, Observation(trace=True))).trace
        assert trace is not None
        assert permitted_and_delivered(trace) == (permitted, permitted)


def test_small_packets_share_an_opportunity_of_a_trace(tmp_path: Path) -> None:
    # Five packets of 300 bytes each time.
    permitted, delivered = permitted_and_delivered(traced(recorded_at(tmp_path, 272), 1, 1, 1))
    assert delivered == [at for at in permitted for _ in range(5)]


def test_dualpi2_keeps_a_call_that_is_ect1_from_the_queue_of_the_others() -> None:
    examples = _core.load(str(EXAMPLE.parent / "disciplines.toml")).cells
    by_discipline = {cell.levels["discipline"]: cell for cell in examples}
    flows = {
        level: pl.DataFrame(by_discipline[level].run(1, 1, 3).flows)
        for level in ("drop-tail", "pie", "dualpi2")
    }
    delay = {
        level: rows.filter(pl.col("flow") == "call")["queue_delay_p95_s"].median()
        for level, rows in flows.items()
    }
    # A full packet of the download takes 6 ms, and the call waits for the one on the link and for a tenth of
    # the bytes.
    assert delay["dualpi2"] < 0.015
    assert 3 * delay["dualpi2"] < delay["pie"] < delay["drop-tail"] / 4
    call, download = (flows["dualpi2"].filter(pl.col("flow") == flow) for flow in ("call", "download"))
    assert call["data_drops_aqm"].sum() == 0
    assert download["data_drops_aqm"].sum() > 10


def test_a_larger_initial_window_helps_as_its_example_claims() -> None:
    cells = _core.load(str(EXAMPLE.parent / "initial-window.toml")).cells
    flows = {
        (cell.levels["link"], cell.levels["window"]): pl.DataFrame(cell.run(1, 1, 5).flows) for cell in cells
    }
    time = {levels: rows["elapsed_s"].median() for levels, rows in flows.items()}
    drops = {levels: rows["data_drops_queue"].sum() for levels, rows in flows.items()}
    assert time["fast", "iw40"] == pytest.approx(0.75 * time["fast", "iw10"], rel=0.05)
    assert time["middle", "iw40"] == pytest.approx(1.5 * time["middle", "iw10"], rel=0.05)
    assert min(("iw3", "iw10", "iw20", "iw40"), key=lambda window: time["middle", window]) == "iw20"
    slow = [("slow", window) for window in ("iw3", "iw10", "iw20", "iw40")]
    assert min(time[level] for level in slow) == time["slow", "iw3"]
    assert [drops[level] for level in slow] == sorted({drops[level] for level in slow})


def test_latecomers_on_a_cellular_link_find_what_the_example_claims() -> None:
    cells = _core.load(str(EXAMPLE.parent / "cellular.toml")).cells
    rows = {cell.levels["queue"]: pl.DataFrame(cell.run(1, 1, 5).flows) for cell in cells}
    actual = {}
    for queue, flows in rows.items():
        assert set(flows["outcome"]) == {"closed"}
        assert flows.height == 5 * 25
        late = flows.filter(pl.col("flow").str.starts_with("late"))
        resent = flows["retransmitted_packets"].sum() / flows["sent_packets"].sum()
        end = (flows["start_s"] + flows["elapsed_s"]).max()
        actual[queue] = late["elapsed_s"].median(), flows["queue_delay_median_s"].median(), resent, end
    assert actual["drop-tail"][:3] == pytest.approx((13.3, 1.1, 0.08), rel=0.1)
    assert actual["fq_codel"][:3] == pytest.approx((8.4, 0.036, 0.3), rel=0.1)
    assert actual["fq_codel"][3] == pytest.approx(actual["drop-tail"][3], rel=0.05)
