"""The picture of a QUIC stack's view next to the network's: windows, round-trip times, losses."""

from __future__ import annotations

from pathlib import Path

from lasthop.present.pictures.marks import BLACK, BLUE, GREY, ORANGE, SKY, VERMILLION, Mark, Shape
from lasthop.present.pictures.panels import scaled
from lasthop.present.pictures.shapes import Layer, Panel, Picture, filled
from lasthop.present.pictures.static import PAGE, figure_of, save
from lasthop.stacks.qlog import APPLICATION
from lasthop.stacks.view import NEVER, View

_CWND = Mark("cwnd", BLUE, Shape.STEPS, width=1.6)
_IN_FLIGHT = Mark("in flight, by the stack", SKY, Shape.STEPS, width=1.1)
_ON_THE_WAY = Mark("on the way, by the network", GREY, Shape.STEPS, width=1.1)
_SMOOTHED = Mark("smoothed RTT of the stack", BLUE, Shape.STEPS, width=1.6)
_ACTUAL = Mark("actual RTT", ORANGE, symbol="circle", size=2.6)
_SENT = Mark("sent", GREY, symbol="circle", size=2.2)
_LOST = Mark("lost on the network", BLACK, symbol="x-thin-open", size=6)
_DECLARED = Mark("declared lost", VERMILLION, symbol="circle", size=4)
_SPURIOUS = Mark("declared lost, but arrived", BLUE, symbol="triangle-up-open", size=7)


def draw_view(view: View, file: Path) -> None:
    """Draw a view into a picture file."""
    panels = [panel for panel in (_window(view), _rtt(view), _losses(view)) if panel.layers]
    times = view.out.time_ns / 1e9
    start, stop = float(times[0]), float(times[-1])
    picture = Picture(panels, start, stop, [], [_note(view)])
    save(lambda: figure_of(picture, PAGE), file, file.suffix.removeprefix("."))


def _window(view: View) -> Panel:
    layers = [
        Layer(mark, times.tolist(), values.tolist())
        for mark, (times, values) in (
            (_ON_THE_WAY, view.on_the_way),
            (_IN_FLIGHT, view.series_of("in_flight_bytes")),
            (_CWND, view.series_of("cwnd_bytes")),
        )
    ]
    return scaled(Panel("window", "window", "B", filled(layers)))


def _rtt(view: View) -> Panel:
    believed = [(trip.time_s, trip.smoothed_ms) for trip in view.trips if trip.smoothed_ms is not None]
    layers = [
        Layer(_ACTUAL, [trip.time_s for trip in view.trips], [trip.actual_ms for trip in view.trips]),
        Layer(_SMOOTHED, [time for time, _ in believed], [value for _, value in believed]),
    ]
    return Panel("round-trip", "round-trip time", "ms", filled(layers))


def _losses(view: View) -> Panel:
    packets = [
        (view.sent_s(index), float(packet.number), datagram)
        for index, (packet, datagram) in enumerate(zip(view.log.sent, view.datagram_of, strict=True))
        if packet.space == APPLICATION and packet.number is not None and datagram != NEVER
    ]
    lost = [own for own in packets if view.arrived(own[2]) is False]
    declared = [own for own in view.declared if own.space == APPLICATION]
    spurious = [own for own in declared if own.arrived]
    layers = [
        Layer(_SENT, [own[0] for own in packets], [own[1] for own in packets]),
        Layer(_LOST, [own[0] for own in lost], [own[1] for own in lost]),
        *(
            Layer(mark, [own.declared_s for own in chosen], [float(own.number) for own in chosen])
            for mark, chosen in ((_DECLARED, [o for o in declared if not o.arrived]), (_SPURIOUS, spurious))
        ),
    ]
    return Panel("losses", "packet number", "", filled(layers))


def _note(view: View) -> str:
    name = " ".join(filter(None, (view.log.stack, view.log.end))) or view.log.file.name
    return f"{name}: its log, and captures at {'both ends' if view.has_far_end else 'its end'}."
