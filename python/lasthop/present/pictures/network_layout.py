"""The layout of a network: boxes, lines and texts, in inches from the upper left corner.

The root is on the left, with a column for each further hop. A hop is a horizontal band between two nodes. A
flow runs along the bands, and through each node on a separate track.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from lasthop._core import Cell
from lasthop.campaign.plan import ChosenRun
from lasthop.engines.resolved import resolved
from lasthop.present.pictures import marks
from lasthop.present.pictures.marks import FLOW_COLORS, OTHERS_COLOR
from lasthop.present.pictures.network import NETWORK, Arrow, Host, Network, Node, network_of
from lasthop.present.pictures.sheet import LINE, Box, ScenarioPicture, Sheet, SheetPanel, Stroke, Text, svg
from lasthop.present.pictures.static import wrapped
from lasthop.scenario.facts import Facts

_TRACK = 0.07
"""Distance between two flows."""
_PAD = 0.07
_STUB = 0.28
"""Distance from a node to its hosts."""
_HOST = (0.95, 0.26)
_ROW_GAP = 0.1
_HOP_LEAST, _HOP_MOST = 1.4, 2.4
_LEGEND_COLUMN = 2.2
_NAME, _NAME_WIDTH = "internet", 0.42
"""The name of the root, and its width."""
_SEVERAL, _SVG_IN = 2, 8.0
_NODE_FILL, _BAND_FILL, _HOST_FILL = "#e3e7ea", "#f2f4f5", "#ffffff"


def picture_network(run: ChosenRun) -> ScenarioPicture:
    """Return the network of a run's cell."""
    network = network_of(Facts.of(run.cell), resolved(run.cell)["flow"])
    title = "The network: hops with their rates, delays and queues, hosts, and flows as arrows"
    panel = SheetPanel(NETWORK, "network", "", [], lay_out=partial(lay_out, network))
    return ScenarioPicture([panel], title, run.cell.key or "its only cell", run.plan)


def network_svg(cell: Cell) -> str:
    """Return the network of a cell as SVG for report and lab; empty unless it has several hops."""
    facts = Facts.of(cell)
    if len(facts.hops) < _SEVERAL:
        return ""
    return svg(lay_out(network_of(facts, resolved(cell)["flow"]), _SVG_IN), "The network")


def lay_out(network: Network, width_in: float) -> Sheet:
    """Lay a network out in a width or, if this does not suffice, in a larger one, to be scaled down."""
    return _Layout(network, width_in).draw()


@dataclass(slots=True)
class _Position:
    """The position of a node (its middle) or a host (the edge of its box)."""

    x: float
    y: float
    parent: _Position | None = None
    flows: list[int] = field(default_factory=list)
    """The flows on the band to the node, or at the host."""

    def track(self, flow: int) -> float:
        """Return the vertical position of a flow's line."""
        return self.y + (self.flows.index(flow) - (len(self.flows) - 1) / 2) * _TRACK


class _Layout:
    def __init__(self, network: Network, width: float) -> None:
        self.network = network
        self.arrows = [*network.arrows, *network.others]
        self.tracks = len(network.arrows) + bool(network.others)
        self.node_width = max(0.14, self.tracks * _TRACK + 0.1)
        self.hosts: dict[tuple[str, str | None], tuple[_Position, _Position]] = {}
        """By name and way: the host, and its node."""
        left = _HOST[0] + _STUB if network.root.hosts else _NAME_WIDTH
        self.root_x = left + self.node_width / 2
        depth = max(_depth(network.root), 1)
        beside = left + self.node_width + _STUB + _HOST[0] + 0.01
        self.hop = min(_HOP_MOST, max(_HOP_LEAST, (width - beside) / depth))
        self.sheet = Sheet(max(width, beside + depth * self.hop))
        self.bands: list[tuple[_Position, Node, float]] = []

    def draw(self) -> Sheet:
        root = _Position(self.root_x, 0.0)
        top = LINE + _PAD
        ends, bottom = self._below(self.network.root, root, top)
        bottom = max(bottom, top + len(self.network.root.hosts) * (_HOST[1] + _ROW_GAP))
        root.y = (ends[0] + ends[-1]) / 2 if ends else (top + bottom) / 2
        self._at_root(root, ends)
        for number, arrow in enumerate(self.arrows):
            self._announce(number, arrow)
        self._draw_bands()
        for number, arrow in enumerate(self.arrows):
            self._draw_arrow(number, arrow)
        self.sheet.bottom = self._legend(bottom + _PAD)
        tops = [box.corner[1] for box in self.sheet.boxes] + [text.at[1] for text in self.sheet.texts]
        self.sheet.top = min(tops) - 0.02
        return self.sheet

    def _track(self, number: int) -> float:
        """Return the horizontal offset of a flow within a node; `others` share a track."""
        own = min(number, self.tracks - 1)
        return (own - (self.tracks - 1) / 2) * _TRACK

    def _host_height(self, host: Host) -> float:
        own = sum(host.names[0] in arrow.ends for arrow in self.arrows)
        lines = len(self._host_lines(host))
        return max(_HOST[1], own * _TRACK + 0.06, lines * LINE + 0.1)

    def _host_lines(self, host: Host) -> list[str]:
        return wrapped([host.title], _HOST[0] - 0.06)

    def _half(self, node: Node) -> float:
        """Return half the height of a hop's band."""
        return max(sum(self._crosses(arrow, node) for arrow in self.arrows) * _TRACK, 0.1) / 2 + 0.03

    def _measure(self, node: Node) -> tuple[float, float, float]:
        """Return the distances from the upper end of a hop to its band, its lower end, and its children."""
        ends, end = [], 0.0
        for host in node.hosts:
            height = self._host_height(host)
            ends.append(end + height / 2)
            end += height + _ROW_GAP
        for child in node.children:
            middle, height, _ = self._measure(child)
            ends.append(end + middle)
            end += height
        middle = (ends[0] + ends[-1]) / 2 if ends else 0.0
        half = self._half(node)
        lowered = max(0.0, len(self._label_lines(node)) * LINE + half + _PAD - middle)
        middle += lowered
        return middle, max(end + lowered, middle + half + _ROW_GAP), lowered

    def _below(self, node: Node, at: _Position, top: float) -> tuple[list[float], float]:
        """Place the parts behind a node below `top`; return their vertical positions, and the lower end."""
        ends = []
        for host in () if node is self.network.root else node.hosts:
            height = self._host_height(host)
            ends.append(top + height / 2)
            self._place_host(host, at, ends[-1], node.names[0], is_right=True)
            top += height + _ROW_GAP
        for child in node.children:
            middle, height, lowered = self._measure(child)
            placed = _Position(at.x + self.hop, top + middle, at)
            below, _ = self._below(child, placed, top + lowered)
            self._node(placed, [*below, placed.y])
            self.bands.append((placed, child, self._half(child)))
            ends.append(placed.y)
            top += height
        return ends, top

    def _at_root(self, root: _Position, ends: Sequence[float]) -> None:
        hosts = self.network.root.hosts
        heights = [self._host_height(host) for host in hosts]
        top = max(root.y - (sum(heights) + _ROW_GAP * (len(heights) - 1)) / 2, LINE + _PAD)
        beside = []
        for host, height in zip(hosts, heights, strict=True):
            beside.append(top + height / 2)
            self._place_host(host, root, beside[-1], None, is_right=False)
            top += height + _ROW_GAP
        self._node(root, [*ends, *beside, root.y])
        low = self.sheet.boxes[-1].corner[1]
        # On the left, because the labels of hops are on the right.
        middle = root.x + self.node_width / 2 - _NAME_WIDTH / 2
        self.sheet.texts.append(Text((middle, low - LINE - 0.03), _NAME, is_centred=True))

    def _node(self, at: _Position, ends: Sequence[float]) -> None:
        beyond = max(0.13, self.tracks * _TRACK / 2 + 0.03)
        low, high = min(ends) - beyond, max(ends) + beyond
        corner = at.x - self.node_width / 2, low
        self.sheet.boxes.append(Box(corner, (self.node_width, high - low), _NODE_FILL))

    def _place_host(self, host: Host, node: _Position, y: float, way: str | None, *, is_right: bool) -> None:
        side = 1 if is_right else -1
        edge = node.x + side * (self.node_width / 2 + _STUB)
        height = self._host_height(host)
        corner = (edge if is_right else edge - _HOST[0]), y - height / 2
        box = Box(corner, (_HOST[0], height), _HOST_FILL, is_dashed=host.is_further_way)
        self.sheet.boxes.append(box)
        lines = self._host_lines(host)
        for number, line in enumerate(lines):
            at = corner[0] + _HOST[0] / 2, y + (number - len(lines) / 2) * LINE
            self.sheet.texts.append(Text(at, line, is_centred=True))
        placed = _Position(edge, y)
        if host.is_further_way or not any(host.names[0] in arrow.ends for arrow in self.arrows):
            stub = [(node.x + side * self.node_width / 2, y), (edge, y)]
            self.sheet.strokes.append(Stroke(stub, marks.PALE))
        self.hosts[host.names[0], way] = placed, node
        if not host.is_further_way:
            self.hosts[host.names[0], None] = placed, node

    def _label_lines(self, node: Node) -> list[str]:
        room = self.hop - self.node_width - 0.04
        return [line for text in (node.title, *node.remarks) for line in wrapped([text], room)]

    def _crosses(self, arrow: Arrow, node: Node) -> bool:
        """Return whether exactly one end of a flow is behind a hop."""
        return self._is_behind(arrow.ends[0], None, node) != self._is_behind(arrow.ends[1], arrow.via, node)

    def _is_behind(self, name: str, via: str | None, node: Node) -> bool:
        here = any(
            name == host.names[0] and (via in node.names if via else not host.is_further_way)
            for host in node.hosts
        )
        return here or any(self._is_behind(name, via, child) for child in node.children)

    def _ends(self, arrow: Arrow) -> tuple[tuple[_Position, _Position], tuple[_Position, _Position]]:
        peer, host = arrow.ends
        return self.hosts[peer, None], self.hosts.get((host, arrow.via)) or self.hosts[host, None]

    def _ways(self, arrow: Arrow) -> tuple[list[_Position], list[_Position]]:
        """Return the nodes from each end up to the common node, which both ways include."""
        ways = []
        for _, node in self._ends(arrow):
            way = [node]
            while (parent := way[-1].parent) is not None:
                way.append(parent)
            ways.append(way)
        first, second = ways
        while len(first) > 1 and len(second) > 1 and first[-2] is second[-2]:
            first.pop()
            second.pop()
        return first, second

    def _announce(self, number: int, arrow: Arrow) -> None:
        first, second = self._ways(arrow)
        for placed in (*first[:-1], *second[:-1], *(end for end, _ in self._ends(arrow))):
            placed.flows.append(number)

    def _draw_bands(self) -> None:
        for placed, node, half in self.bands:
            assert placed.parent is not None
            left, right = placed.parent.x + self.node_width / 2, placed.x - self.node_width / 2
            size = right - left, 2 * half
            self.sheet.boxes.append(Box((left, placed.y - half), size, _BAND_FILL, marks.GREY))
            lines = self._label_lines(node)
            top = placed.y - half - len(lines) * LINE - 0.02
            for number, line in enumerate(lines):
                at = left + 0.03, top + number * LINE
                self.sheet.texts.append(Text(at, line, is_bold=line in wrapped([node.title], size[0])))

    def _draw_arrow(self, number: int, arrow: Arrow) -> None:
        (start, first), (end, last) = self._ends(arrow)
        way_up, way_down = self._ways(arrow)
        aside = self._track(number)
        y = start.track(number)
        points = [(start.x, y), (first.x + aside, y)]
        steps = [*itertools.pairwise(way_up), *((node, node) for node in reversed(way_down[:-1]))]
        for band, target in steps:
            height = band.track(number)
            points += [(points[-1][0], height), (target.x + aside, height)]
        y = end.track(number)
        points += [(last.x + aside, y), (end.x, y)]
        heads = {"down": {"end"}, "up": {"start"}}.get(arrow.direction, {"start", "end"})
        self.sheet.strokes.append(Stroke(points, self._color(number), frozenset(heads)))

    def _color(self, number: int) -> str:
        return FLOW_COLORS[number] if number < len(self.network.arrows) else OTHERS_COLOR

    def _legend(self, top: float) -> float:
        """Add a legend of flows below the tree; return the total height."""
        named = [(self._color(number), arrow.label) for number, arrow in enumerate(self.network.arrows)]
        if self.network.others:
            named.append((OTHERS_COLOR, f"{len(self.network.others)} others"))
        columns = max(1, int(self.sheet.width / _LEGEND_COLUMN))
        rows = math.ceil(len(named) / columns)
        for number, (color, label) in enumerate(named):
            x, y = (number // rows) * _LEGEND_COLUMN, top + (number % rows) * (LINE + 0.03)
            self.sheet.strokes.append(Stroke([(x, y + LINE / 2), (x + 0.25, y + LINE / 2)], color))
            self.sheet.texts.append(Text((x + 0.32, y), label))
        return top + rows * (LINE + 0.03) + 0.03


def _depth(node: Node) -> int:
    return max((1 + _depth(child) for child in node.children), default=0)
