"""Flows of kind `transfer` that real programs carry: their command lines, and their results."""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from lasthop.common.errors import InputError
from lasthop.common.metrics.dictionary import PRINTED, in_column
from lasthop.stacks.adapter import Adapter, adapter_of, check_installed
from lasthop.stacks.material import material_of

Program: TypeAlias = Mapping[str, Any]
"""The flow of a resolved scenario that stands for its transfers."""
_PYTHON = (str(Path(sys.executable).resolve()), "-I", "-S")
"""The interpreter, by the same path however it was started: a program's times depend on how it is called."""
_TIME_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_ROLES = {
    "goodput": ("transfer", "transfer"),
    "crosstraffic": ("transfer", "transfer"),
    "transferloss": ("transfer", "transfer"),
    "transfercorruption": ("transfer", "transfer"),
    "amplificationlimit": ("transfer", "transfer"),
    "blackhole": ("transfer", "transfer"),
    "keyupdate": ("keyupdate", "transfer"),
    "longrtt": ("handshake", "handshake"),
    "handshakeloss": ("multiconnect", "multiconnect"),
    "handshakecorruption": ("multiconnect", "multiconnect"),
}
"""What the runner calls its test cases for client and server, where it differs."""
_UNSUPPORTED = 127
"""Exit code of an endpoint for a test case that it does not support."""
_TCP = "tcp"
_EDGE = "client"
"""The host at the edge of a scenario that names none."""


def with_commands(program: Program) -> dict[str, Any]:
    """Return the program with its stacks' command lines and the files that these need, as its inputs."""
    transfers = program["transfers"]
    inputs = [*program.get("input", ()), str(Path(__file__).parent)]
    lines: dict[str, list[dict[str, str]]] = {"client": [], "server": []}
    for own in transfers:
        client, server, adapter = _lines(own)
        if adapter is not None:
            client, server = (_known(line, adapter) for line in (client, server))
        hosts = hosts_of(own)
        lines["client"].append({"name": hosts["client"], "command": client})
        lines["server"].append({"name": hosts["server"], "command": server})
        if adapter is not None:
            inputs += map(str, adapter.files)
    own = {"hosts": lines["client"], "servers": lines["server"], "input": list(dict.fromkeys(inputs))}
    return {**program, **own}


def expanded(
    program: Program, seed: int, plan: Sequence[tuple[float, int | None]], logs: Path | None
) -> dict[str, Any]:
    """Return the flow that an engine runs: lasthop's own program on each host, which starts the stacks.

    `plan` has the start of each transfer, and the size of its file if that follows from its duration.
    `logs` is an existing folder for the logs of the stacks.
    """
    here = Path(__file__).parent
    run = [*_PYTHON, str(here / "endpoint.py")]
    servers: list[dict[str, str]] = []
    clients: dict[str, list[str]] = {}
    for own, (start, size) in zip(program["transfers"], plan, strict=True):
        spec = {**_specification(own, seed, size, logs), "start": start}
        line = shlex.join([*run, "server", json.dumps(spec)])
        servers.append({"name": spec["host"], "command": f"exec {line}"})
        clients.setdefault(hosts_of(own)["client"], []).append(json.dumps(spec))
    flow: dict[str, Any] = {**program, "servers": servers}
    if list(clients) == [_EDGE]:
        flow["command"] = [*run, "client", *clients[_EDGE]]
    else:
        flow["hosts"] = [
            {"name": host, "command": f"exec {shlex.join([*run, 'client', *specs])}"}
            for host, specs in clients.items()
        ]
    if logs is not None:
        flow["write"] = [*program.get("write", ()), str(logs)]
    return flow


def hosts_of(own: Mapping[str, Any]) -> dict[str, str]:
    """Return the hosts of a transfer's client and server. Only the client of an upload is at the far end."""
    edge, far = str(own.get("host") or _EDGE), str(own["name"])
    is_upload = own.get("direction") == "up"
    return {"client": far, "server": edge} if is_upload else {"client": edge, "server": far}


def new_folder(folder: Path) -> Path:
    """Return an empty folder for the logs of a replication, instead of those of an earlier run of it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder.resolve()


def _lines(own: Mapping[str, Any]) -> tuple[str, str, Adapter | None]:
    """Return the command lines of client and server, and the adapter that they come from, if any."""
    if own["stack"] == _TCP:
        line = shlex.join([*_PYTHON, str(Path(__file__).parent / "tcp.py")])
        return line, line, None
    client, server = own.get("client"), own.get("server")
    if client and server:
        return client, server, None
    try:
        adapter = adapter_of(own["stack"])
    except InputError:
        if not client and not server:
            raise
        missing = "server" if client else "client"
        raise InputError(
            f"[stack.{own['stack']}] has no `{missing}`. Add it, or write `endpoint` for both."
        ) from None
    check_installed(adapter, own["stack"])
    return client or adapter.client, server or adapter.server, adapter


def _specification(own: Mapping[str, Any], seed: int, size: int | None, logs: Path | None) -> dict[str, Any]:
    """Return the argument of `endpoint.py` for a transfer, without its start."""
    client, server, adapter = _lines(own)
    name, case, host = str(own["name"]), str(own["testcase"]), hosts_of(own)["server"]
    if size is not None:
        made = material_of(host, [size], seed, hollow=True)
    else:
        sizes = [int(size.removesuffix(" B")) for size in own.get("objects") or [own["bytes"]]]
        made = material_of(host, sizes, seed)
    env = {**(adapter.environment if adapter else {}), **own.get("env", {})}
    if control := own.get("congestion_control"):
        env["LASTHOP_CONTROL"] = control
    return {
        "name": name,
        "host": host,
        "testcase": dict(zip(("client", "server"), _ROLES.get(case, (case, case)), strict=True)),
        "client": client,
        "server": server,
        "env": env,
        "duration": None if size is None else _seconds(own["duration"]),
        "files": made.files,
        "www": str(made.www),
        "certs": str(made.certs),
        "logs": None if logs is None else str(logs / name),
        "verify": adapter is None or adapter.verify,
    }


def _known(line: str, adapter: Adapter) -> str:
    """Return a command line with the places of its adapter, without what else follows from the scenario."""
    for name, value in adapter.environment.items():
        line = line.replace(f"${name}", value)
    return re.sub(r"\$(\{[^}]*\}|\w+)", "", line)


def _seconds(text: str) -> float:
    number, _, unit = text.partition(" ")
    return float(number) / _TIME_UNITS[unit]


def results_of(program: Program, printed: str) -> dict[str, dict[str, float]]:
    """Return the facts of each transfer that has ended, by name; `InputError` if a test case is missing."""
    facts: dict[str, dict[str, float]] = {}
    for line in printed.splitlines():
        facts |= json.loads(line)
    for own in program["transfers"]:
        name = str(own["name"])
        if facts.get(name, {}).get("exit_code") == _UNSUPPORTED:
            raise InputError(
                f"The client of {own['stack']!r} does not support the test case {own['testcase']!r}, or it "
                f"cannot be run (exit code {_UNSUPPORTED}, flow {name})."
            )
    return facts


def columns_of(facts: Mapping[str, Mapping[str, float]]) -> dict[str, object]:
    """Return the columns of `runs.parquet` for the transfers of a run."""
    return {
        f"{PRINTED}{in_column(name)}_{key}": float(value)
        for name, own in facts.items()
        for key, value in own.items()
    }
