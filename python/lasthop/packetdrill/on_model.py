"""Scripts of packetdrill on the model's TCP."""

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
_LACKS_AT_MOST = 3
# The name that errors give to the code of a script.
_CODE = "code of the script"

# A word of a shell command that names a script.
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
        return Verdict(script, _FAMILY, State.FAILED, None, f"it is no text in UTF-8: {error.reason}")
    missing, difference, codes, elapsed_us = _core.packetdrill(
        text, _files(script, text), stack, tolerance_us
    )
    if not missing:
        missing = [(line, lack) for line, code, info in codes for lack in _unknown(code, info)]
    if missing:
        lacks = list(dict.fromkeys(lack for _, lack in missing))
        more = f" and {len(lacks) - _LACKS_AT_MOST} more" if len(lacks) > _LACKS_AT_MOST else ""
        message = ", ".join(lacks[:_LACKS_AT_MOST]) + more
        return Verdict(script, _FAMILY, State.NOT_RUNNABLE, missing[0][0], message)
    difference = _first_wrong(codes) or difference
    if difference is not None:
        return Verdict(script, _FAMILY, State.FAILED, *difference, elapsed_us / 1e6)
    return Verdict(script, _FAMILY, State.PASSED, duration_s=elapsed_us / 1e6)


def _files(script: Path, text: str) -> dict[str, str]:
    """Return the shell scripts that a script calls, by the names in it."""
    files = {}
    for name in set(_SHELL_SCRIPT.findall(text)):
        path = script.parent / name
        if path.is_file():
            files[name] = path.read_text(encoding="utf-8", errors="replace")
    return files


def _unknown(code: str, info: Mapping[str, int]) -> list[str]:
    """Return the fields of tcp_info that some code asks for and the model does not have."""
    try:
        tree = ast.parse(code.strip())
    except SyntaxError:
        return []
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    wanted = {name for name in names if name.startswith(("tcpi_", "TCPI_"))}
    return sorted(wanted - info.keys())


def _first_wrong(codes: list[tuple[int, str, dict[str, int]]]) -> tuple[int, str] | None:
    """Run the code of a script, one piece after the other; return where it fails first, and how."""
    namespace: dict[str, object] = dict(_CONSTANTS)
    for line, code, info in codes:
        namespace.update(info)
        lines = code.strip().splitlines()
        try:
            with redirect_stdout(io.StringIO()):
                exec(compile(code.strip(), _CODE, "exec"), namespace)
        except AssertionError as error:
            wrong = lines[_failed_at(error) - 1].strip()
            return line, f"it does not hold that {wrong}; came: {str(error) or _values(wrong, info)}"
        except Exception as error:
            return line, f"Python: {type(error).__name__}: {error}"
    return None


def _failed_at(error: Exception) -> int:
    """Return the line of a script's code at which it failed."""
    return next(
        frame.lineno or 1 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _CODE
    )


def _values(code: str, info: Mapping[str, int]) -> str:
    """Return what the names in some code stand for."""
    return ", ".join(
        f"{name} = {value}" for name, value in sorted(info.items()) if re.search(rf"\b{name}\b", code)
    )
