"""Laws of congestion control: windows that follow from a rate of losses or marks, and shares that follow from
a cap.

The model is held against formulas that others derived; nothing is fitted.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import polars as pl
import pytest

import lasthop
from lasthop.campaign.results.tables import with_computed

RATE_BPS, RTT_S = 10e6, 0.04
PACKETS_PER_S = RATE_BPS / 12_000
BDP = PACKETS_PER_S * RTT_S


def ware(flows: int, queue_packets: float) -> float:
    """Share of `flows` BBR flows with loss-based ones: Ware et al. (IMC 2019), equations 9 to 11."""
    p = max(0.0, 0.5 - BDP / (2 * queue_packets) - 4 * flows / queue_packets)
    probing = (queue_packets / PACKETS_PER_S + 0.2 + RTT_S) / 10
    return (1 - p) * (1 - probing)


SEGMENT_BYTES = 1448
ALONE = """
time_limit = "70 s"
mtu = "1500 B"
up = { link = { rate = "100 Mbit/s", delay = "20 ms" }, queue.limit = "1000 packets" }
flow = [{ kind = "bulk-tcp", name = "flow", duration = "40 s" }]
"""


def _windows(flows: pl.DataFrame) -> pl.Series:
    """Return the mean window of each flow in segments, by Little's law."""
    return flows["throughput_Bps"] / SEGMENT_BYTES * flows["rtt_median_s"]


@pytest.mark.parametrize("loss", [0.0003, 0.003])
def test_renos_window_is_1_31_over_the_root_of_the_loss_rate(tmp_path: Path, loss: float) -> None:
    """Losses are independent (Ott, Kemperman, Mathis 1996); regular ones would give the root of 3/2, 1.22.

    There are some 20 and 70 losses in each of four runs: the standard error is 4 and 2 %.
    """
    text = f"""
replications = 4
tcp.congestion_control = "reno"
down = {{ link = {{ rate = "100 Mbit/s", delay = "20 ms", loss = {loss} }}, queue.limit = "1000 packets" }}
{ALONE}"""
    flows = _flows(text, tmp_path).collect()
    measured = flows["data_drops_error"] / flows["sent_packets"]
    assert cast("float", (_windows(flows) * measured.sqrt()).mean()) == pytest.approx(1.31, rel=0.08)


@pytest.mark.parametrize("control", ["dctcp", "prague"])
def test_the_window_of_dctcp_and_prague_is_two_over_the_share_of_marks(tmp_path: Path, control: str) -> None:
    """The window grows by a segment per round trip, and loses half of that share of itself.

    See RFC 9332, appendix, and Alizadeh et al. 2011.

    The product of window and share is 2 if every round trip has a mark. At two marks a round trip, one round
    trip in seven has none, which gives 2.2. DCTCP does not grow in the round trip after a mark, so it has
    less.
    """
    text = f"""
tcp = {{ congestion_control = "{control}", ecn = true }}
down.link = {{ rate = "100 Mbit/s", delay = "20 ms" }}
down.queue = {{ discipline = "python:user_algorithms.Marks", limit = "1000 packets" }}
{ALONE}"""
    flows = _flows(text, tmp_path).collect()
    assert flows["data_drops_queue"].sum() == 0
    marked = flows["data_marks_ecn"] / flows["sent_packets"]
    assert (_windows(flows) * marked).item() == pytest.approx(2, rel=0.25)


def test_wares_formula_is_that_of_the_paper() -> None:
    # A deep buffer: half of the link, less the cost of probing for the round-trip time.
    assert ware(1, 1000 * BDP) == pytest.approx(0.5 * (1 - (40 + 0.24) / 10), abs=0.01)
    assert ware(1, BDP) == pytest.approx(1 - 0.28 / 10)


def test_shares_of_bbr_with_reno_are_as_near_to_wares_formula_as_its_authors_state(tmp_path: Path) -> None:
    """They state a median error of 8 % against Reno, over 1 to 32 BBR flows and buffers of 1 to 64."""
    counts, buffers = (1, 2, 4, 8, 16, 32), (33, 133, 533)
    text = f"""
replications = 1
time_limit = "70 s"
mtu = "1500 B"
down.link = {{ rate = "{RATE_BPS:.0f} bit/s", delay = "20 ms" }}
up.link.rate = "{RATE_BPS:.0f} bit/s"
up.link.delay = "20 ms"
up.link.jitter = {{ distribution = "uniform", min = "0 ms", max = "1.2 ms" }}
up.queue.limit = "1000 packets"
[[flow]]
kind = "bulk-tcp"
name = "one"
duration = "60 s"
start = {{ distribution = "uniform", min = "0 s", max = "1 s" }}
tcp.congestion_control = "bbr"
[[flow]]
kind = "bulk-tcp"
name = "other"
duration = "60 s"
start = {{ distribution = "uniform", min = "0 s", max = "1 s" }}
tcp.congestion_control = "reno"
[factor.count]
{"".join(f"{n}.flow.one.count = {n}" + chr(10) for n in counts)}
[factor.buffer]
{"".join(f'{n}.down.queue.limit = "{n} packets"' + chr(10) for n in buffers)}
"""
    flows = with_computed(_flows(text, tmp_path)).filter(pl.col("application") == "one")
    shares = flows.group_by("count", "buffer").agg(pl.col("throughput_share").sum()).collect()
    assert shares.height == len(counts) * len(buffers)
    errors = [abs(share / ware(int(count), float(buffer)) - 1) for count, buffer, share in shares.iter_rows()]
    assert cast("float", pl.Series(errors).median()) < 0.08


def _flows(text: str, folder: Path) -> pl.LazyFrame:
    lasthop.run(lasthop.Scenario.parse(text), out=folder / "out")
    return pl.scan_parquet(folder / "out" / "flows.parquet")
