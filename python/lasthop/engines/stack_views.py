"""What the stacks of a run's transfers say in their logs: views and metrics of flows, series, keys."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.common.metrics.dictionary import MISSING_LOG
from lasthop.engines.engine import CaptureTarget, Observation, Request, SeriesTarget
from lasthop.engines.records import Columns
from lasthop.stacks.transfers import hosts_of

if TYPE_CHECKING:
    from lasthop.stacks.view import View

_SNAP_LENGTH = 128
"""Headers, and what tells datagrams apart."""


@contextmanager
def captured(request: Request) -> Iterator[Request]:
    """Yield a request that captures its only replication."""
    wanted = request.observations.get(request.first, Observation())
    if wanted.capture is not None:
        yield request
        return
    with tempfile.TemporaryDirectory(prefix="lasthop-") as folder:
        target = CaptureTarget(Path(folder), "", _SNAP_LENGTH)
        observations = {**request.observations, request.first: wanted._replace(capture=target)}
        yield replace(request, observations=observations)


def views_in(transfers: Sequence[Mapping[str, Any]], request: Request) -> dict[str, View | str]:
    """Return the view of the sender of each transfer, or why there is none, by the names of their flows."""
    from lasthop.stacks.view import sender_view

    target, logs = request.captures[request.first], _logs(request)
    views = {}
    for own in transfers:
        name = str(own["name"])
        # Hosts at the far end share a capture.
        files = {end: "server" if host == name else host for end, host in hosts_of(own).items()}
        ends = {end: target.folder / f"{file}.pcapng" for end, file in files.items()}
        views[name] = sender_view(logs / name, ends)
    return views


def of_flows(flows: Columns, views: Mapping[str, View | str]) -> dict[str, View]:
    """Return the views by their flows: of a transfer's connections, the one that began with the log."""
    found = {}
    for name, view in views.items():
        if isinstance(view, str):
            continue
        starts = {
            str(flow): abs(start_s - view.span_s[0])
            for flow, start_s in zip(flows["flow"], flows["start_s"], strict=True)
            if re.fullmatch(rf"{re.escape(name)}(-[0-9]+)?", str(flow))
        }
        if starts:
            found[min(starts, key=starts.__getitem__)] = view
    return found


def with_metrics(flows: Columns, views: Mapping[str, View | str]) -> Columns:
    """Return the flows of a replication with the metrics of their stacks' logs.

    Of a flow over UDP without a view, the column `MISSING_LOG` says why.
    """
    columns: dict[str, list[Any]] = {name: list(cells) for name, cells in flows.items()}
    names = list(flows["flow"])
    for name, view in views.items():
        if name not in names:
            continue
        row = names.index(name)
        if not isinstance(view, str):
            values: Mapping[str, Any] = view.metrics()
        else:
            values = {MISSING_LOG: view} if flows["protocol"][row] == "udp" else {}
        for column, value in values.items():
            if value is not None:
                columns.setdefault(column, [None] * len(names))[row] = value
    return columns


def add_series(target: SeriesTarget, views: Mapping[str, View]) -> None:
    """Divide a time series into what the stacks say and what the network does, in the column `source`."""
    import polars as pl

    from lasthop.stacks.steps import with_sources

    with_sources(pl.read_csv(target.file, infer_schema=False), views, target.step_ns).write_csv(target.file)


def add_logs(request: Request) -> None:
    """Put the logs of the stacks next to the captures of a replication, and their keys into these."""
    from lasthop.common.captures import add_secrets_to_all
    from lasthop.stacks.qlog import SUFFIXES

    folder, keys = request.captures[request.first].folder, dict[bytes, None]()
    for end in sorted(_logs(request).glob("*/*")):
        if (file := end / "keys.log").is_file():
            keys |= dict.fromkeys(file.read_bytes().splitlines(keepends=True))
        written = [log for log in sorted((end / "qlog").glob("*")) if log.suffix in SUFFIXES]
        for number, log in enumerate(written, 1):
            which = f"-{number}" if number > 1 else ""
            shutil.copy(log, folder / f"{end.parent.name}.{end.name}{which}{log.suffix}")
    add_secrets_to_all(folder, b"".join(keys))


def _logs(request: Request) -> Path:
    assert request.logs is not None
    return request.logs / f"replication-{request.first}"
