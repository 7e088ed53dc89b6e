"""The report of a fit: parameters, simulated transfers over the measured one, and how to ask what-if."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lasthop.common.html import style, template
from lasthop.common.html.figures import FigureView, PackedFigures
from lasthop.common.html.packed import plotly_js
from lasthop.common.html.style import Figure, Part
from lasthop.common.version import version
from lasthop.fit.measurement import Measurement
from lasthop.fit.posterior import Check, Fit, Parameter, Series

_MEASURED, _SIMULATED = style.INK, "#c8553d"
_HEIGHT_PX, _ROW_PX = 520, 0.46
_KINDS = {"capture": "a packet capture", "iperf3": "iperf3", "flent": "flent", "irtt": "irtt", "ping": "ping"}
_WAYS = {"down": "download", "up": "upload"}


def page(fit: Fit, scenario: Path) -> str:
    """Return the page as HTML; it loads nothing from anywhere else."""
    context = {
        "fit": fit,
        "scenario": scenario.name,
        "files": [one.file.name for one in fit.measurements],
        "version": version(),
        "rows": [_Row.of(one) for one in fit.parameters],
        "views": list(_views(fit)),
        "said": [_Said.of(one) for one in fit.measurements],
        "what_if": what_if(fit, scenario),
        "figures": PackedFigures(),
        "css": template.text("report.css"),
        "script": template.text("report.js"),
        "plotly": plotly_js().decode(),
    }
    return template.page(Path(__file__).with_name("page.html.j2"), context)


@dataclass(frozen=True)
class _Row:
    name: str
    key: str
    value: str
    interval: str
    source: str
    reason: str | None
    assumed: str | None

    @classmethod
    def of(cls, one: Parameter) -> _Row:
        value, interval = one.texts() if one.reason is None else ("", "")
        name = one.name.replace("_", " ")
        return cls(name, one.key, value, interval, one.source.short, one.reason, one.assumed)


@dataclass(frozen=True)
class _Said:
    """A file, and what it told."""

    file: str
    kind: str
    transfers: list[str]
    delays: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, one: Measurement) -> _Said:
        transfers = []
        for each in one.transfers:
            took = max(float(each.time_s[-1] - each.time_s[0]), 1e-9)
            megabytes = float(each.bytes[-1] - each.bytes[0]) / 1e6
            way = _WAYS[each.direction]
            transfers.append(f"{way}, {megabytes:.3g} MB in {took:.3g} s, {len(each.lost_s)} losses")
        delays = "none"
        if one.delays is not None and len(known := one.delays.known[1]):
            delays = f"{len(known)}, from {known.min():.4g} ms to {known.max():.4g} ms"
        kind = _KINDS[one.kind] + (f" at the {one.seen_at}'s end" if one.kind == "capture" else "")
        return cls(one.file.name, kind, transfers, delays, one.notes)


def _views(fit: Fit) -> Iterator[FigureView]:
    for check in fit.checks:
        way = _WAYS[check.direction]
        title = f"The {way} in {Path(check.name).name}"
        caption = f"Goodput and round-trip times: measured, and {len(check.simulated)} simulated transfers."
        yield FigureView(title, caption, _overlay(check))


def _overlay(check: Check) -> Figure:
    """Goodput above round trips, over one axis of time."""
    data: list[Part] = []
    for number, one in enumerate(check.simulated):
        data += _lines(one, "simulated", _SIMULATED, first=number == 0)
    data += _lines(check.measured, "measured", _MEASURED, first=True)
    end = float(check.measured.time_s[-1]) * 1.02
    axes = {
        "xaxis": style.axis("time (s)", range=[0, round(end, 3)], anchor="y2"),
        "yaxis": style.axis("goodput (Mbit/s)", domain=[1 - _ROW_PX, 1], rangemode="tozero"),
        "yaxis2": style.axis("round trip (ms)", domain=[0, _ROW_PX], rangemode="tozero"),
    }
    return {"data": data, "layout": style.layout(_HEIGHT_PX, **axes)}


def _lines(one: Series, name: str, colour: str, *, first: bool) -> Iterator[Part]:
    """Goodput as a line, round trips as dots."""
    measured = name == "measured"
    common = {"type": "scatter", "name": name, "legendgroup": name, "opacity": 1 if measured else 0.45}
    yield common | {
        "x": style.rounded(one.time_s.tolist(), 3),
        "y": style.rounded(one.goodput_mbps.tolist(), 3),
        "mode": "lines",
        "line": {"color": colour, "width": 2 if measured else 1},
        "showlegend": first,
        "hovertemplate": "%{x:.2f} s\n%{y:.4~r} Mbit/s",
    }
    yield common | {
        "x": style.rounded(one.rtt_time_s.tolist(), 3),
        "y": style.rounded(one.rtt_ms.tolist(), 2),
        "yaxis": "y2",
        "mode": "markers",
        "marker": {"color": colour, "size": 3},
        "showlegend": False,
        "hovertemplate": "%{x:.2f} s\n%{y:.4~r} ms",
    }


def what_if(fit: Fit, scenario: Path) -> str:
    """Return a scenario that puts other queues before the same line, and what it claims of all draws."""
    way = fit.checks[0].direction if fit.checks else "down"
    return f"""extends = "{scenario.name}"
name = "what-if"
replications = 5

[factor.queue.as-fitted]

[factor.queue.codel]
{way}.queue = {{ discipline = "codel", limit = "1000 packets" }}

[factor.queue.fq-codel]
{way}.queue = {{ discipline = "fq_codel", limit = "1000 packets" }}

[[claim]]
id = "shorter"
text = "with fq_codel, 95 % of the round trips take less time, on each line that the data allow"
holds = "rtt_p95_s(queue='fq-codel') < rtt_p95_s(queue='as-fitted')"
every = ["line"]

[[claim]]
id = "no-less"
text = "with fq_codel, as much arrives but for a twentieth, on each line that the data allow"
holds = "throughput_Bps(queue='fq-codel') >= 0.95 * throughput_Bps(queue='as-fitted')"
every = ["line"]
"""
