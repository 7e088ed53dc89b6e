"""Descriptions of the paths and transports of a scenario, which its file may leave implicit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lasthop import _core
from lasthop.common.metrics.units import listed, scale
from lasthop.scenario.facts import DIRECTIONS, Application, Facts

_TODAY = "linux-6"
"""The default profile."""
_MOST_NAMES = 3


def profiles(cells: Iterable[_core.Cell]) -> str:
    """Return the profiles of TCP in these cells; empty if all are the default, or if there is no TCP."""
    return _profiles([_applications(cell) for cell in cells])


def transport_lines(cells: Iterable[_core.Cell]) -> Iterator[str]:
    """Yield notes on old TCP profiles, and on the different starts of TCP and QUIC flows."""
    of_cells = [_applications(cell) for cell in cells]
    if old := _profiles(of_cells):
        yield f"the TCP is {old} (tcp.profile)"
    windows: dict[str, set[int]] = {"TCP": set(), "QUIC": set()}
    for app in (app for cell in of_cells for app in cell if app.initial_window_bytes):
        windows["TCP" if _is_tcp(app) else "QUIC"].add(app.initial_window_bytes)
    if all(windows.values()):
        texts = (
            f"{name} {listed([scale('B', [size]).text(size) for size in sorted(sizes)], 'or')}"
            for name, sizes in windows.items()
        )
        yield (
            "TCP flows start with TCP's handshake and do not use TLS; QUIC's handshake includes TLS 1.3. "
            f"Initial windows: {', '.join(texts)}"
        )


def _profiles(of_cells: Sequence[Sequence[Application]]) -> str:
    cells = [frozenset(app.tcp["profile"] for app in cell if _is_tcp(app)) for cell in of_cells]
    counts = Counter(profile for cell in cells for profile in sorted(cell))
    if set(counts) <= {_TODAY}:
        return ""
    texts = [
        profile if count == len(cells) else f"{profile} in {count} of {len(cells)} cells"
        for profile, count in counts.items()
    ]
    return f"{listed(texts)}, while today's is {_TODAY}"


def path_lines(cell: _core.Cell) -> list[str]:
    """Describe each path of a cell's flows: round-trip time, bandwidth-delay products and full queues."""
    facts = Facts.of(cell)
    names: dict[str, list[str]] = {}
    for name, app in facts.applications.items():
        if "/" not in name:  # not a side of a relay
            names.setdefault(_path(facts, app), []).append(name)
    if len(names) == 1:
        return list(names)
    return [f"{_names(own)}: {path}" for path, own in names.items()]


def _path(facts: Facts, app: Application) -> str:
    round_trip_s = app.round_trip_ns / 1e9
    parts = [f"{scale('s', [round_trip_s]).text(round_trip_s)} without queueing"]
    for way in DIRECTIONS:
        sides = [facts.sides[place] for place in app.routes[way] if facts.sides[place]["ip_rate_bps"]]
        if not sides:
            continue
        narrow = min(sides, key=lambda side: side["ip_rate_bps"])
        rate, queue_s = narrow["ip_rate_bps"], narrow["queue_s"]
        product = rate * round_trip_s / 8
        part = f"x {scale('bit/s', [rate]).text(rate)} {way} = {scale('B', [product]).text(product)}"
        parts.append(part if queue_s is None else f"{part}, full queue {scale('s', [queue_s]).text(queue_s)}")
    return "; ".join(parts)


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return listed([*names[:_MOST_NAMES], *([f"{more} more"] if more > 0 else [])])


def _applications(cell: _core.Cell) -> Sequence[Application]:
    return list(Facts.of(cell).applications.values())


def _is_tcp(app: Application) -> bool:
    return app.protocol == "tcp"
