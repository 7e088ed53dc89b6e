"""Wi-Fi against Bianchi's model of saturated stations (JSAC 2000), and the claims of its examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from scipy.optimize import brentq

from claims_tools import verdicts
from commands import ROOT
from lasthop.analysis.claims.records import Records
from long_tests import ENGINE

Main = Callable[..., int]

SLOT, SIFS, DIFS = 9.0, 16.0, 34.0
"""Microseconds of 802.11a (IEEE 802.11-2020, table 17-21)."""
W, STAGES = 16, 6
"""Contention windows: 16 slots, doubled up to six times."""
PACKET, DATA, ACK, EIFS_ACK, RTS, CTS = 1500, 248.0, 28.0, 44.0, 28.0, 28.0
"""An IP packet in bytes; the times of its frame at 54 Mbit/s, and of answers."""


def _tau(collision: float) -> float:
    """Return the probability that a station sends in a slot (Bianchi, equation 7)."""
    p = collision
    return 2 * (1 - 2 * p) / ((1 - 2 * p) * (W + 1) + p * W * (1 - (2 * p) ** STAGES))


def saturation(stations: int, *, rts: bool, data: float = DATA, idle: float = DIFS) -> float:
    """Return the throughput of IP packets in Mbit/s: the fixed point, and equation 13.

    After a collision, stations wait for EIFS, which the standard prescribes and Bianchi leaves out.
    """

    def off(p: float) -> float:
        return float(1 - (1 - _tau(p)) ** (stations - 1) - p)

    p = brentq(off, 0, 0.999) if stations > 1 else 0.0
    tau = _tau(p)
    some = 1 - (1 - tau) ** stations
    single = stations * tau * (1 - tau) ** (stations - 1)
    handshake = RTS + SIFS + CTS + SIFS if rts else 0.0
    success = handshake + data + SIFS + ACK + idle
    collision = (RTS if rts else data) + SIFS + EIFS_ACK + idle
    return single * PACKET * 8 / ((1 - some) * SLOT + single * success + (some - single) * collision)


def _scenario(stations: int, keys: str, rate: str = "54 Mbit/s") -> str:
    hosts = "\n".join(f'[host.s{n}]\nbehind = "air"\nwifi.rate = "{rate}"' for n in range(stations))
    flows = "\n".join(
        f'[[flow]]\nkind = "constant-udp"\nname = "s{n}"\nhost = "s{n}"\ndirection = "up"\n'
        f'rate = "{60 / stations + 1:.3f} Mbit/s"\npayload = "1472 B"\nduration = "10 s"'
        for n in range(stations)
    )
    return (
        'time_limit = "11 s"\n[hop.air]\n'
        f'medium = {{ kind = "wifi", queue = "fifo", retries = 255, {keys} }}\n'
        f"{hosts}\n{flows}\n"
    )


@pytest.mark.parametrize("rts", [False, True], ids=["basic", "rts"])
@pytest.mark.parametrize("stations", [1, 2, 5, 10, 20, 50])
def test_saturated_stations_get_what_bianchis_model_says(
    lasthop_main: Main, tmp_path: Path, stations: int, rts: bool
) -> None:
    """The model is an approximation: it lets each backoff count the slot in which another station sends."""
    keys = 'standard = "a"' + (', rts_threshold = "0 B"' if rts else "")
    measured = _throughput(lasthop_main, tmp_path, _scenario(stations, keys))
    assert measured == pytest.approx(saturation(stations, rts=rts), rel=0.02)


@pytest.mark.parametrize("stations", [2, 10, 50])
def test_saturated_stations_of_ax_get_what_bianchis_model_says(
    lasthop_main: Main, tmp_path: Path, stations: int
) -> None:
    """MCS 11 at 20 MHz without aggregates: frames of 139.2 us, and best effort, which waits for 43 us."""
    keys = 'standard = "ax", max_mpdus = 1'
    measured = _throughput(lasthop_main, tmp_path, _scenario(stations, keys, "143.4 Mbit/s"))
    assert measured == pytest.approx(saturation(stations, rts=False, data=139.2, idle=43.0), rel=0.01)


def _throughput(main: Main, folder: Path, scenario: str) -> float:
    (folder / "saturated.toml").write_text(scenario, encoding="utf-8")
    assert main("run", folder / "saturated.toml", "--out", folder / "out", "--quiet") == 0
    hops = pl.read_parquet(folder / "out" / "hops.parquet").filter(direction="up")
    runs = pl.read_parquet(folder / "out" / "runs.parquet")
    return float(hops["bytes_out"][0] * 8 / 1e6 / runs["duration_s"][0])


def _run(main: Main, name: str, out: Path) -> dict[str, pl.DataFrame]:
    assert main("run", ROOT / "examples" / f"{name}.toml", "--out", out, "--quiet") == 0
    return {table: pl.read_parquet(out / f"{table}.parquet") for table in ("flows", "stations")}


def test_shares_of_the_air_end_the_anomaly(lasthop_main: Main, tmp_path: Path) -> None:
    """The claims of examples/wifi-anomaly.toml, and that a turn of the phone takes twice as long."""
    tables = _run(lasthop_main, "wifi-anomaly", tmp_path / "out")
    air = {
        key: rows.group_by("replication").agg(pl.sum("airtime_share"))["airtime_share"].mean()
        for key, rows in tables["stations"].group_by("queue", "station")
    }
    assert air["fq_codel", "phone"] == pytest.approx(2 * air["fq_codel", "laptop"], rel=0.2)
    assert air["airtime", "tablet"] == pytest.approx(air["airtime", "phone"], rel=0.15)
    assert verdicts(tmp_path / "out") == dict.fromkeys(["anomaly", "turns", "airtime"], "upheld")
    _told(tmp_path / "out", tables["stations"])


def _told(out: Path, stations: pl.DataFrame) -> None:
    """Summary, report and claims contain the stations by name."""
    own = stations.filter(queue="fifo", station="phone", direction="down")["airtime_share"]
    rows = pl.read_csv(out / "summary.csv").filter(
        queue="fifo", flow="wifi phone down", metric="airtime_share", statistic="median"
    )
    assert rows["value"].item() == pytest.approx(own.median(), abs=1e-6)
    records = Records.read(out, ["queue"])
    assert records.values("airtime_share", ("wifi phone down",), ("fifo",)).tolist() == own.to_list()
    assert "<h3>Stations</h3>" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.long(covers=("examples", *ENGINE), seconds=4)
def test_the_queue_of_the_bottleneck_decides_about_a_call(lasthop_main: Main, tmp_path: Path) -> None:
    """The claims of examples/wifi-bufferbloat.toml."""
    _run(lasthop_main, "wifi-bufferbloat", tmp_path / "out")
    assert verdicts(tmp_path / "out") == dict.fromkeys(["near", "near-wifi", "far"], "upheld")
