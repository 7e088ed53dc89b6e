"""The classes of a router (HTB) as a tree: which lends to which, at what rates, and what its queue holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lasthop.campaign.plan import ChosenRun
from lasthop.errors import InputError
from lasthop.pictures.captions import made_by
from lasthop.pictures.shapes import Panel, ScenarioPicture
from lasthop.scenario.resolved import WAYS, Hop, HtbClass, Queue, Side, resolved

CLASSES = "classes"
_ROOT = "root"


@dataclass(frozen=True, slots=True)
class Node:
    """A class, or the root: its name, the remarks on it, and the nodes that borrow from it."""

    name: str
    said: Sequence[str]
    children: Sequence[Node] = ()


@dataclass(frozen=True, slots=True)
class TreePanel(Panel):
    """A tree, from its root on."""

    root: Node = Node("", ())


@dataclass(frozen=True, slots=True)
class ClassPicture(ScenarioPicture):
    """The trees of a cell's routers."""

    def caption(self, panels: Sequence[Panel]) -> str:
        """Return the caption of some of the trees."""
        ways = "".join(f", {panel.subject}" for panel in panels if panel.subject)
        return f"Classes of the router{ways}. {self.source}."


def picture_classes(run: ChosenRun) -> ClassPicture:
    """Return the trees of a run's cell; raise `InputError` if its routers have no classes."""
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
            f"--kind {CLASSES}: no router of {where} has classes ([[down.htb.class]]); choose another cell "
            "with --only."
        )
    panels: list[Panel] = [
        TreePanel(CLASSES, "classes", "", [], way if len(sides) > 1 else "", root=_tree(side))
        for way, side in sides.items()
    ]
    return ClassPicture(panels, f"{run.plan.study.name}, {where}, {made_by(run.plan)}")


def _tree(side: Side) -> Node:
    """Return the tree of one direction's router, from its resolved configuration."""
    htb = side["htb"]
    assert htb is not None
    rate = htb.get("rate")
    said = [f"rate {rate}" if rate else "lends nothing"]
    if str(htb.get("overhead", "0 B")) != "0 B":
        said.append(f"packets count {htb['overhead']} more")
    link = side.get("link", {}).get("rate")
    said += [f"before a link of {link}"] if isinstance(link, str) else []
    return Node(_ROOT, said, _below(None, htb["class"], side.get("queue", {})))


def _below(parent: str | None, classes: Sequence[HtbClass], queue: Queue) -> list[Node]:
    """Return the nodes below a class, or below the root.

    Classes without a queue of their own have `queue`.
    """
    nodes = []
    for one in classes:
        if one.get("parent") != parent:
            continue
        children = _below(one["name"], classes, queue)
        said = [_rates(one)]
        if not children:  # only leaves hold packets
            said = [f"{said[0]}, {_turns(one)}", f"takes {_matched(one)}", _queued(one.get("queue") or queue)]
        nodes.append(Node(one["name"], said, children))
    return nodes


def _rates(one: HtbClass) -> str:
    return f"rate {one['rate']}" + (f", ceiling {one['ceil']}" if one.get("ceil") else "")


def _turns(one: HtbClass) -> str:
    return f"priority {one['priority']}" + (f", quantum {one['quantum']}" if one.get("quantum") else "")


def _matched(one: HtbClass) -> str:
    """Say which packets belong to a class."""
    words = {"dscp": "{}", "port": "port {}", "protocol": "{}"}
    rules = [
        " and ".join(words[key].format(value) for key, value in rule.items() if value is not None)
        for rule in one.get("match", ())
    ]
    return " or ".join([*rules, *(["all others"] if one.get("default") else [])])


def _queued(queue: Queue) -> str:
    """Name the discipline of a queue, and its limit."""
    red = queue.get("red")
    if red:
        return f"RED from {red['min']} to {red['max']}, at most {queue['limit']}"
    return f"{queue.get('discipline', 'tail drop')}, at most {queue['limit']}"
