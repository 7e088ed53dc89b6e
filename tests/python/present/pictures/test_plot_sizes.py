"""Histograms of packet sizes, checked against the packets of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from conftest import STUDY
from lasthop import _core
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.panels import panels
from lasthop.present.pictures.shapes import Layer
from lasthop.present.pictures.sizes import _width
from lasthop.present.pictures.trace_tables import TraceTables
from lasthop.scenario.facts import Facts
from observing import traced
from test_plot import assert_nothing_is_cut_off

EXAMPLES = STUDY.parents[1] / "examples"


def tables_of(file: str, key: str) -> TraceTables:
    study = _core.load(str(EXAMPLES / f"{file}.toml"))
    (cell,) = [cell for cell in study.cells if cell.key == key]
    return TraceTables.of(traced(cell, study.seed, 1, 1), Facts.of(cell))


def counts(layer: Layer) -> dict[float, float]:
    """Return how many packets a layer has in each bin, by its upper edge."""
    heights = [high - (low or 0) for low, high in zip(layer.y, layer.far or (), strict=True)]
    return {edge: height for edge, height in zip(layer.x[1:], heights, strict=False) if height}


def test_a_bin_has_its_upper_edge_and_every_packet_is_in_one() -> None:
    tables = tables_of("diffserv", "router=classes,queue=red")
    down, up = panels(tables, ["sizes"])
    assert (down.across, down.label, up.label) == (
        "size of IP packets (B), in bins of 20 B",
        "down packets",
        "up packets",
    )
    sent = tables.packets.filter(event="sent")
    for panel in (down, up):
        for layer in panel.layers:
            own = [flow.number for flow in tables.flows if flow.name == layer.mark.owner]
            sizes = sent.filter(pl.col("flow").is_in(own), direction=panel.subject)["ip_bytes"]
            assert counts(layer) == Counter(-(-size // 20) * 20 for size in sizes)
    assert counts(down.layers[1]) == {160: 1819}  # 132 B, UDP and IP: 28 B; 4000 B/s for 60 s
    assert down.layers[0].x == up.layers[0].x


@pytest.mark.parametrize("largest", [1, 40, 50, 51, 576, 1500, 9180, 65535])
def test_bins_are_round_and_not_too_many(largest: int) -> None:
    width = _width(largest)
    assert str(width)[0] in "125"
    assert int(str(width)[1:] or 0) == 0
    assert largest / 50 <= width <= max(largest / 20, 1)


def test_flows_without_a_colour_are_one_band_and_nothing_is_cut_off() -> None:
    tables = tables_of("web-page", "protocol=http1.0,window=iw2")
    drawn = panels(tables, ["sizes"])
    assert [layer.mark.owner for layer in drawn[0].layers][-1] == "2 other flows together"
    sizes = tables.packets.filter(event="sent", direction="down")["ip_bytes"]
    assert max(drawn[0].layers[-1].far or ()) == max(Counter((size - 1) // 20 for size in sizes).values())
    assert_nothing_is_cut_off(tables.picture(drawn, notes=Cast.of(tables).notes(drawn)), "column")


def test_a_part_is_counted_alone(
    lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    one = ("plot", EXAMPLES / "first.toml", "--kind", "sizes")
    assert lasthop_main(*one, "--to", 0.05, "--caption", "sizes.txt", "--out", "sizes.svg") == 0
    assert "Down packets against size of IP packets" in Path("sizes.txt").read_text(encoding="utf-8")
    assert lasthop_main(*one, "--from", 0.06, "--to", 0.08) == 2
    assert "sends none; draw goodput" in capsys.readouterr().err
