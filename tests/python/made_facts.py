"""Facts of a scenario, made by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from lasthop.scenario.facts import Application, Facts, Hop, Side


def side(place: int, queues: Sequence[str] = ("",), retry_delay_ns: int = 0) -> Side:
    """Return a direction of a hop with queues of these names."""
    return {
        "place": place,
        "rate": "1 Mbit/s",
        "delay": "10 ms",
        "queue": "drop-tail, 10 packets",
        "ip_rate_bps": 1e6,
        "queue_s": 0.12,
        "retry_delay_ns": retry_delay_ns,
        "queues": [{"name": name, "red_in_bytes": False} for name in queues],
        "changes": [],
    }


def one_hop(
    *applications: str,
    queues: Sequence[str] = ("",),
    retry_delay_ns: int = 0,
    tcp: Mapping[str, Any] | None = None,
) -> Facts:
    """Return the facts of a scenario with a single hop, whose router has these queues on the way down."""
    ways = {"down": [0], "up": [1]}
    hop = Hop(
        "last-hop",
        None,
        {"down": side(0, queues, retry_delay_ns), "up": side(1, retry_delay_ns=retry_delay_ns)},
    )
    app = Application("bulk-tcp", tcp or {}, None, "client", "server", ways, (), "tcp", 14_480, 20_000_000)
    return Facts(
        dict.fromkeys(applications, app),
        [hop],
        {"client": ["last-hop"]},
        {"down": 0, "up": 1},
    )
