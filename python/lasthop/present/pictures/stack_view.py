"""The picture of a QUIC stack's view next to the network's: windows, round-trip times, losses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lasthop.present.pictures.marks import BLACK, BLUE, GREY, ORANGE, SKY, VERMILLION, Mark, Shape
from lasthop.present.pictures.shapes import Layer, Panel, Picture, filled, scaled
from lasthop.present.pictures.static import PAGE, figure_of, save
from lasthop.stacks.qlog import APPLICATION

if TYPE_CHECKING:
    from lasthop.stacks.view import View

_CWND = Mark("cwnd, by the stack", BLUE, Shape.STEPS, width=1.6)
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
    panels = [scaled(panel) for panel in (loss_panel(view), window_panel(view), trip_panel(view))]
    picture = Picture([panel for panel in panels if panel.layers], *view.span_s, [], [_note(view)])
    save(lambda: figure_of(picture, PAGE), file, file.suffix.removeprefix("."))


def loss_panel(view: View) -> Panel:
    """Return packet numbers over time: sent, lost on the network, and declared lost, when this happened."""
    packets = [
        (view.sent_s(index), float(packet.number), datagram)
        for index, (packet, datagram) in enumerate(zip(view.log.sent, view.datagram_of, strict=True))
        if packet.space == APPLICATION and packet.number is not None
    ]
    lost = [own for own in packets if view.arrived(own[2]) is False]
    declared = [own for own in view.declared if own.space == APPLICATION]
    real = [own for own in declared if not own.arrived]
    spurious = [own for own in declared if own.arrived]
    layers = [
        Layer(_SENT, [own[0] for own in packets], [own[1] for own in packets]),
        Layer(_LOST, [own[0] for own in lost], [own[1] for own in lost]),
        *(
            Layer(mark, [own.declared_s for own in chosen], [float(own.number) for own in chosen])
            for mark, chosen in ((_DECLARED, real), (_SPURIOUS, spurious))
        ),
    ]
    return Panel("sequence", "packet number", "", filled(layers))


def window_panel(view: View) -> Panel:
    """Return the window and the bytes in flight by the stack, and the bytes on the way in the network."""
    end = view.span_s[1]
    layers = [
        Layer(mark, [*times.tolist(), max(end, times[-1])], [*values.tolist(), values[-1]])
        for mark, (times, values) in (
            (_ON_THE_WAY, view.on_the_way),
            (_IN_FLIGHT, view.series_of("in_flight_bytes")),
            (_CWND, view.series_of("cwnd_bytes")),
        )
        if len(times)
    ]
    return Panel("cwnd", "window", "B", filled(layers))


def trip_panel(view: View) -> Panel:
    """Return the smoothed round-trip time that the stack believes, and each actual one."""
    believed = [(own.time_s, own.smoothed_ms / 1e3) for own in view.trips if own.smoothed_ms is not None]
    layers = [
        Layer(_ACTUAL, [own.time_s for own in view.trips], [own.actual_ms / 1e3 for own in view.trips]),
        Layer(_SMOOTHED, [time for time, _ in believed], [value for _, value in believed]),
    ]
    return Panel("rtt", "round-trip time", "s", filled(layers))


def _note(view: View) -> str:
    name = " ".join(filter(None, (view.log.stack, view.log.end))) or view.log.file.name
    return f"{name}: its log, and captures at {'both ends' if view.has_far_end else 'its end'}."
