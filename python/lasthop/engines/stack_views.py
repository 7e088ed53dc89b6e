"""What the stacks of a run's transfers say in their logs, as metrics of flows, and their keys in captures."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lasthop.common.errors import InputError
from lasthop.engines.engine import CaptureTarget, Observation, Request
from lasthop.engines.records import Columns

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


def with_metrics(flows: Columns, transfers: Sequence[Mapping[str, Any]], request: Request) -> Columns:
    """Return the flows of a replication with the metrics of their stacks' logs.

    They are missing for a flow whose stack wrote no log, or one that cannot be found in the captures.
    """
    from lasthop.stacks.view import flow_metrics

    target, logs = request.captures[request.first], _logs(request)
    columns: dict[str, list[Any]] = {name: list(cells) for name, cells in flows.items()}
    names = list(flows["flow"])
    for own in transfers:
        name, host = str(own["name"]), own.get("host") or "client"
        ends = {"client": target.folder / f"{host}.pcapng", "server": target.folder / "server.pcapng"}
        try:
            metrics = flow_metrics(logs / name, ends)
        except InputError:
            continue
        for metric, value in metrics.items():
            if value is not None and name in names:
                columns.setdefault(metric, [None] * len(names))[names.index(name)] = value
    return columns


def add_keys(request: Request) -> None:
    """Put the keys that the stacks have logged into the captures of a replication."""
    from lasthop.common.captures import add_secrets_to_all

    logs = sorted(_logs(request).glob("*/*/keys.log"))
    lines = dict.fromkeys(line for file in logs for line in file.read_bytes().splitlines(keepends=True))
    add_secrets_to_all(request.captures[request.first].folder, b"".join(lines))


def _logs(request: Request) -> Path:
    assert request.logs is not None
    return request.logs / f"replication-{request.first}"
