"""Light dataclasses behave as those of the standard library do."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from lasthop import light


def packet(decorated: Callable[[type], type]) -> Any:  # noqa: ANN401  a class made at run time
    class Packet:
        size: int
        flow: str = "down"
        seen: tuple[int, ...] = field(default=(), repr=False, compare=False)

    return decorated(Packet)


@pytest.mark.parametrize(
    "options", [{"frozen": True, "slots": True}, {"frozen": True}, {"slots": True, "kw_only": True}]
)
def test_shows_and_compares_as_the_standard_library_does(options: dict[str, bool]) -> None:
    ours, standard = packet(light.dataclass(**options)), packet(dataclasses.dataclass(**options))
    for kind in (ours, standard):
        one, seen, other = kind(size=1), kind(size=1, seen=(5,)), kind(size=1, flow="up")
        assert one == seen
        assert one != other
        assert repr(seen).endswith("Packet(size=1, flow='down')")
        assert dataclasses.replace(one, flow="up") == other
        assert dataclasses.asdict(one) == {"size": 1, "flow": "down", "seen": ()}
        assert (kind.__hash__ is None) == (not options.get("frozen"))
        assert hasattr(one, "__dict__") == (not options.get("slots"))
    assert repr(ours(size=1)) == repr(standard(size=1))
    assert ours(size=1) != standard(size=1)


def test_equal_ones_are_one_key() -> None:
    kind = packet(light.dataclass(frozen=True, slots=True))
    assert {kind(1): "first", kind(1, seen=(5,)): "second", kind(2): "third"} == {kind(1): "second", kind(2): "third"}


@light.dataclass(frozen=True, slots=True)
class Place:
    link: str
    hop: int = 1


@light.dataclass(frozen=True, slots=True)
class Router(Place):
    queues: int = 2


def test_is_inherited_and_pickled() -> None:
    router = Router("last", queues=3)
    assert repr(router) == "Router(link='last', hop=1, queues=3)"
    assert pickle.loads(pickle.dumps(router)) == router
    assert Place("last") != router
