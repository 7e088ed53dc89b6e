"""The classes of a router (HTB) as a tree: who lends to whom, rates, filters and queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError
from lasthop.engines.resolved import WAYS, Hop, HtbClass, Queue, Side, resolved
from lasthop.present.pictures.marks import DARK
from lasthop.present.pictures.shapes import Panel
from lasthop.present.pictures.sheet import LINE, Box, ScenarioPicture, Sheet, SheetPanel, Stroke, Text
from lasthop.present.pictures.static import wrapped

CLASSES = "classes"
_ROOT = "root"
_PAD = 0.06
_BETWEEN = 0.1
"""Vertical distance between boxes."""
_EDGE = 0.35
"""Horizontal distance between boxes."""
_WIDEST = 2.4
_HOLDS, _LENDS = "#ffffff", "#eceff1"
"""Fills of classes with a queue, and of classes that only lend."""


@dataclass(frozen=True, slots=True)
class Node:
    """A class, or the root: its name, remarks, and the nodes that borrow from it."""

    name: str
    remarks: Sequence[str]
    children: Sequence[Node] = ()


def picture_classes(run: ChosenRun) -> ScenarioPicture:
    """Return the trees of a run's cell. Raises `InputError` if its routers have no classes."""
    scenario = resolved(run.cell)
    hops: dict[str, Hop] = {"": {"down": scenario.get("down"), "up": scenario.get("up")}}
    hops |= {f"{name} ": hop for name, hop in (scenario.get("hop") or {}).items()}
    sides = {
        f"{name}{way}": side
        for name, hop in hops.items()
        for way in WAYS
        if (side := hop.get(way)) and side.get("htb")
    }
    where = run.cell.key or run.plan.study.name
    if not sides:
        raise InputError(
            f"--kind {CLASSES}: no router of {where} has classes ([[down.htb.class]]); select another cell "
            "with --only."
        )
    panels = [tree_panel(_tree(side), way if len(sides) > 1 else "") for way, side in sides.items()]
    return ScenarioPicture(panels, "Classes of the router", where, run.plan)


def tree_panel(root: Node, subject: str) -> Panel:
    """Return the drawing of a tree, with its root on the left, and a row for each leaf."""
    return SheetPanel(CLASSES, "classes", "", [], subject, lay_out=partial(_lay_out, root))


def _lay_out(root: Node, width_in: float) -> Sheet:
    depth = _depth(root)
    sheet = Sheet(width_in)
    _, sheet.bottom = _draw(sheet, root, (0.0, 0.0), min(_WIDEST, (width_in - (depth - 1) * _EDGE) / depth))
    return sheet


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node.children), default=0)


def _draw(sheet: Sheet, node: Node, corner: tuple[float, float], width: float) -> tuple[float, float]:
    """Draw a node and its descendants below a corner; return the node's middle and the lower end."""
    left, top = corner
    lines = [node.name, *(line for remark in node.remarks for line in wrapped([remark], width - 2 * _PAD))]
    height = len(lines) * LINE + 2 * _PAD
    middles = []
    end = top
    for child in node.children:
        middle, end = _draw(sheet, child, (left + width + _EDGE, end), width)
        middles.append(middle)
        end += _BETWEEN
    end = max(end - _BETWEEN if middles else top, top + height)
    middle = max((middles[0] + middles[-1]) / 2 if middles else top, top + height / 2)
    low = middle - height / 2
    sheet.boxes.append(Box((left, low), (width, height), _LENDS if middles else _HOLDS))
    for number, line in enumerate(lines):
        sheet.texts.append(Text((left + _PAD, low + _PAD + number * LINE), line, is_bold=not number))
    right, turn = left + width, left + width + _EDGE / 2
    for other in middles:
        path = [(right, middle), (turn, middle), (turn, other), (right + _EDGE, other)]
        sheet.strokes.append(Stroke(path, DARK, width_pt=0.8))
    return middle, end


def _tree(side: Side) -> Node:
    """Return the tree of one direction's router, from its resolved configuration."""
    htb = side["htb"]
    assert htb is not None
    rate = htb.get("rate")
    remarks = [f"rate {rate}" if rate else "no rate to lend"]
    if str(htb.get("overhead", "0 B")) != "0 B":
        remarks.append(f"overhead of {htb['overhead']} per packet")
    link = side.get("link", {}).get("rate")
    remarks += [f"before a link of {link}"] if isinstance(link, str) else []
    return Node(_ROOT, remarks, _below(None, htb["class"], side.get("queue", {})))


def _below(parent: str | None, classes: Sequence[HtbClass], queue: Queue) -> list[Node]:
    """Return the nodes below a class, or below the root; `queue` is the default queue."""
    nodes = []
    for htb_class in classes:
        if htb_class.get("parent") != parent:
            continue
        children = _below(htb_class["name"], classes, queue)
        remarks = [_rates(htb_class)]
        if not children:  # only leaves hold packets
            own_queue = _queue_text(htb_class.get("queue") or queue)
            remarks = [f"{remarks[0]}, {_priority(htb_class)}", f"takes {_rules(htb_class)}", own_queue]
        nodes.append(Node(htb_class["name"], remarks, children))
    return nodes


def _rates(htb_class: HtbClass) -> str:
    return f"rate {htb_class['rate']}" + (f", ceiling {htb_class['ceil']}" if htb_class.get("ceil") else "")


def _priority(htb_class: HtbClass) -> str:
    quantum = f", quantum {htb_class['quantum']}" if htb_class.get("quantum") else ""
    return f"priority {htb_class['priority']}{quantum}"


def _rules(htb_class: HtbClass) -> str:
    """Describe the packets that belong to a class."""
    words = {"dscp": "{}", "port": "port {}", "protocol": "{}"}
    rules = [
        " and ".join(words[key].format(value) for key, value in rule.items() if value is not None)
        for rule in htb_class.get("match", ())
    ]
    return " or ".join([*rules, *(["all others"] if htb_class.get("default") else [])])


def _queue_text(queue: Queue) -> str:
    red = queue.get("red")
    if red:
        return f"RED from {red['min']} to {red['max']}, at most {queue['limit']}"
    return f"{queue.get('discipline', 'tail drop')}, at most {queue['limit']}"
