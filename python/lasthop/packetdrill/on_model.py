"""packetdrill scripts on the model's TCP."""

import ast
import io
import re
import traceback
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

from lasthop import _core
from lasthop.packetdrill.verdict import State, Verdict

STACKS = ("linux-6", "linux-2.6", "linux-2.4", "ns-1998")
"""The profiles of the model's TCP."""

_FAMILY = "ipv4"
_MAX_MISSING = 3
# The file name of a script's code in tracebacks.
_CODE = "code of the script"

_SHELL_SCRIPT = re.compile(r"[\w./-]+\.sh\b")

# Constants of Linux' headers that scripts use (include/net/tcp_states.h, include/uapi/linux/tcp.h).
_CONSTANTS = {
    **{
        f"TCP_CA_{name}": number
        for number, name in enumerate(["Open", "Disorder", "CWR", "Recovery", "Loss"])
    },
    "TCP_ESTABLISHED": 1,
    "TCP_SYN_SENT": 2,
    "TCP_SYN_RECV": 3,
    "TCP_FIN_WAIT1": 4,
    "TCP_FIN_WAIT2": 5,
    "TCP_TIME_WAIT": 6,
    "TCP_CLOSE": 7,
    "TCP_CLOSE_WAIT": 8,
    "TCP_LAST_ACK": 9,
    "TCP_LISTEN": 10,
    "TCP_CLOSING": 11,
}


def run_on_model(script: Path, stack: str, tolerance_us: int | None) -> Verdict:
    """Run a script on a TCP of the model.

    `tolerance_us` replaces the script's own tolerance. Python code in the script runs in this process.
    """
    try:
        text = script.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        return Verdict(script, _FAMILY, State.FAILED, None, f"the file is not UTF-8 text: {error.reason}")
    missing, difference, codes, elapsed_us = _core.packetdrill(
        text, _files(script, text), stack, tolerance_us
    )
    if not missing:
        missing = [(line, item) for line, code, info in codes for item in _unknown(code, info)]
    if missing:
        items = list(dict.fromkeys(item for _, item in missing))
        more = f" and {len(items) - _MAX_MISSING} more" if len(items) > _MAX_MISSING else ""
        message = ", ".join(items[:_MAX_MISSING]) + more
        return Verdict(script, _FAMILY, State.NOT_RUNNABLE, missing[0][0], message)
    difference = _first_failure(codes) or difference
    if difference is not None:
        return Verdict(script, _FAMILY, State.FAILED, *difference, elapsed_us / 1e6)
    return Verdict(script, _FAMILY, State.PASSED, duration_s=elapsed_us / 1e6)


def _files(script: Path, text: str) -> dict[str, str]:
    """Return the shell scripts that a packetdrill script calls, by the names in it."""
    files = {}
    for name in set(_SHELL_SCRIPT.findall(text)):
        path = script.parent / name
        if path.is_file():
            files[name] = path.read_text(encoding="utf-8", errors="replace")
    return files


def _unknown(code: str, info: Mapping[str, int]) -> list[str]:
    """Return the fields of tcp_info that the code reads and the model does not have."""
    try:
        tree = ast.parse(code.strip())
    except SyntaxError:
        return []
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    fields = {name for name in names if name.startswith(("tcpi_", "TCPI_"))}
    return sorted(fields - info.keys())


def _first_failure(codes: list[tuple[int, str, dict[str, int]]]) -> tuple[int, str] | None:
    """Run the pieces of a script's code in turn; return the line and the message of the first failure."""
    namespace: dict[str, object] = dict(_CONSTANTS)
    for line, code, info in codes:
        namespace.update(info)
        lines = code.strip().splitlines()
        try:
            with redirect_stdout(io.StringIO()):
                exec(compile(code.strip(), _CODE, "exec"), namespace)
        except AssertionError as error:
            statement = lines[_failed_line(error) - 1].strip()
            return line, f"failed: {statement}; actual: {str(error) or _values(statement, info)}"
        except Exception as error:
            return line, f"Python: {type(error).__name__}: {error}"
    return None


def _failed_line(error: Exception) -> int:
    return next(
        frame.lineno or 1 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _CODE
    )


def _values(code: str, info: Mapping[str, int]) -> str:
    """Return the values of the names in some code."""
    return ", ".join(
        f"{name} = {value}" for name, value in sorted(info.items()) if re.search(rf"\b{name}\b", code)
    )
