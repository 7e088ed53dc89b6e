"""The report of a fit: parameters, simulated and measured transfers, and a what-if scenario."""

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
    """Return the page as self-contained HTML."""
    context = {
        "fit": fit,
        "scenario": scenario.name,
        "files": [item.file.name for item in fit.measurements],
        "version": version(),
        "rows": [_Row.of(item) for item in fit.parameters],
        "views": list(_views(fit)),
        "sources": [_SourceView.of(item) for item in fit.measurements],
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
    def of(cls, parameter: Parameter) -> _Row:
        value, interval = parameter.texts() if parameter.reason is None else ("", "")
        name = parameter.name.replace("_", " ")
        return cls(
            name, parameter.key, value, interval, parameter.source.short, parameter.reason, parameter.assumed
        )


@dataclass(frozen=True)
class _SourceView:
    """A measurement file and its contents."""

    file: str
    kind: str
    transfers: list[str]
    delays: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, measurement: Measurement) -> _SourceView:
        transfers = []
        for transfer in measurement.transfers:
            took = max(float(transfer.time_s[-1] - transfer.time_s[0]), 1e-9)
            megabytes = float(transfer.bytes[-1] - transfer.bytes[0]) / 1e6
            way = _WAYS[transfer.direction]
            transfers.append(f"{way}, {megabytes:.3g} MB in {took:.3g} s, {len(transfer.lost_s)} losses")
        delays = "none"
        if measurement.delays is not None and len(rtt := measurement.delays.answered[1]):
            delays = f"{len(rtt)}, from {rtt.min():.4g} ms to {rtt.max():.4g} ms"
        end = f" at the {measurement.seen_at}'s end" if measurement.kind == "capture" else ""
        kind = _KINDS[measurement.kind] + end
        return cls(measurement.file.name, kind, transfers, delays, measurement.notes)


def _views(fit: Fit) -> Iterator[FigureView]:
    for check in fit.checks:
        way = _WAYS[check.direction]
        title = f"The {way} in {Path(check.name).name}"
        caption = f"Goodput and round-trip times: measured, and {len(check.simulated)} simulated transfers."
        yield FigureView(title, caption, _overlay(check))


def _overlay(check: Check) -> Figure:
    """Return goodput above round trips, over a common time axis."""
    data: list[Part] = []
    for number, series in enumerate(check.simulated):
        data += _lines(series, "simulated", _SIMULATED, first=number == 0)
    data += _lines(check.measured, "measured", _MEASURED, first=True)
    end = float(check.measured.time_s[-1]) * 1.02
    axes = {
        "xaxis": style.axis("time (s)", range=[0, round(end, 3)], anchor="y2"),
        "yaxis": style.axis("goodput (Mbit/s)", domain=[1 - _ROW_PX, 1], rangemode="tozero"),
        "yaxis2": style.axis("round trip (ms)", domain=[0, _ROW_PX], rangemode="tozero"),
    }
    return {"data": data, "layout": style.layout(_HEIGHT_PX, **axes)}


def _lines(series: Series, name: str, colour: str, *, first: bool) -> Iterator[Part]:
    """Yield goodput as a line, round trips as dots."""
    measured = name == "measured"
    common = {"type": "scatter", "name": name, "legendgroup": name, "opacity": 1 if measured else 0.45}
    yield common | {
        "x": style.rounded(series.time_s.tolist(), 3),
        "y": style.rounded(series.goodput_mbps.tolist(), 3),
        "mode": "lines",
        "line": {"color": colour, "width": 2 if measured else 1},
        "showlegend": first,
        "hovertemplate": "%{x:.2f} s\n%{y:.4~r} Mbit/s",
    }
    yield common | {
        "x": style.rounded(series.rtt_time_s.tolist(), 3),
        "y": style.rounded(series.rtt_ms.tolist(), 2),
        "yaxis": "y2",
        "mode": "markers",
        "marker": {"color": colour, "size": 3},
        "showlegend": False,
        "hovertemplate": "%{x:.2f} s\n%{y:.4~r} ms",
    }


def what_if(fit: Fit, scenario: Path) -> str:
    """Return a scenario with other queues on the same line, and with claims on all draws."""
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
text = "with fq_codel, the 95th percentile of round trips is lower, on each line that the data allow"
holds = "rtt_p95_s(queue='fq-codel') < rtt_p95_s(queue='as-fitted')"
every = ["line"]

[[claim]]
id = "no-less"
text = "with fq_codel, the throughput is at most 5 % lower, on each line that the data allow"
holds = "throughput_Bps(queue='fq-codel') >= 0.95 * throughput_Bps(queue='as-fitted')"
every = ["line"]
"""
