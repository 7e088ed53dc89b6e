"""What decides the results of a scenario although its file may not say it: paths and transports in words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lasthop import _core
from lasthop.common.metrics.units import listed, scale
from lasthop.scenario.facts import DIRECTIONS, Application, Facts

_TODAY = "linux-6"
"""The profile of a scenario that states none."""
_NAMES_AT_MOST = 3


def profiles(cells: Iterable[_core.Cell]) -> str:
    """Name the profiles of TCP in these cells; nothing if all are today's, or if there is no TCP."""
    return _profiles([_applications(cell) for cell in cells])


def transport_lines(cells: Iterable[_core.Cell]) -> Iterator[str]:
    """Say what the model's transports begin with, if that may surprise."""
    of_cells = [_applications(cell) for cell in cells]
    if old := _profiles(of_cells):
        yield f"the TCP is {old} (tcp.profile)"
    windows: dict[str, set[int]] = {"TCP": set(), "QUIC": set()}
    for app in (app for found in of_cells for app in found if app.initial_window_bytes):
        windows["TCP" if _is_tcp(app) else "QUIC"].add(app.initial_window_bytes)
    if all(windows.values()):
        told = (
            f"{name} {listed([scale('B', [size]).text(size) for size in sorted(sizes)], 'or')}"
            for name, sizes in windows.items()
        )
        yield (
            "TCP flows begin with TCP's handshake and have no TLS; QUIC's handshake has TLS 1.3 in it. "
            f"Initial windows: {', '.join(told)}"
        )


def _profiles(of_cells: Sequence[Sequence[Application]]) -> str:
    found = [frozenset(app.tcp["profile"] for app in cell if _is_tcp(app)) for cell in of_cells]
    counts = Counter(profile for cell in found for profile in sorted(cell))
    if set(counts) <= {_TODAY}:
        return ""
    told = [
        profile if count == len(found) else f"{profile} in {count} of {len(found)} cells"
        for profile, count in counts.items()
    ]
    return f"{listed(told)}, where today's is {_TODAY}"


def path_lines(cell: _core.Cell) -> list[str]:
    """Say for each path of a cell's flows its round trip, what that holds, and how long its queues are."""
    facts = Facts.of(cell)
    names: dict[str, list[str]] = {}
    for name, app in facts.applications.items():
        if "/" not in name:  # the sides of a relay
            names.setdefault(_path(facts, app), []).append(name)
    if len(names) == 1:
        return list(names)
    return [f"{_named(of)}: {path}" for path, of in names.items()]


def _path(facts: Facts, app: Application) -> str:
    round_trip_s = app.round_trip_ns / 1e9
    told = [f"{scale('s', [round_trip_s]).text(round_trip_s)}, the delays of both ways"]
    for way in DIRECTIONS:
        sides = [facts.sides[place] for place in app.routes[way] if facts.sides[place]["ip_rate_bps"]]
        if not sides:
            continue
        narrow = min(sides, key=lambda side: side["ip_rate_bps"])
        rate, queue_s = narrow["ip_rate_bps"], narrow["queue_s"]
        product = rate * round_trip_s / 8
        line = f"x {scale('bit/s', [rate]).text(rate)} {way} = {scale('B', [product]).text(product)}"
        told.append(line if queue_s is None else f"{line}, full queue {scale('s', [queue_s]).text(queue_s)}")
    return "; ".join(told)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_AT_MOST
    return listed([*names[:_NAMES_AT_MOST], *([f"{more} more"] if more > 0 else [])])


def _applications(cell: _core.Cell) -> Sequence[Application]:
    return list(Facts.of(cell).applications.values())


def _is_tcp(app: Application) -> bool:
    return app.protocol == "tcp"
