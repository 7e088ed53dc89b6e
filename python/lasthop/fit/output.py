"""The fitted scenario as a file: what was found, what was assumed, and a factor of draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lasthop.errors import InputError
from lasthop.fit.posterior import Fit, Parameter
from lasthop.results.atomic import replace_atomically
from lasthop.scenario.toml import to_toml

WIDTH = 110


def text_of(fit: Fit, name: str) -> str:
    """The text of the scenario."""
    return "\n".join([*_head(fit), *_scenario(fit, name), *_levels(fit)]) + "\n"


def said(parameter: Parameter) -> str:
    """A parameter in one line."""
    label = parameter.name.replace("_", " ")
    if parameter.reason is not None:
        instead = f" (assumed: {parameter.assumed})" if parameter.assumed else ""
        return f"{label}: not identified by these data, because {parameter.reason}{instead}"
    if isinstance(parameter.value, str):
        chance = "" if parameter.probability is None else f", probability {parameter.probability:.2f}"
        return f"{label}: {parameter.value}{chance}"
    value, low, high = (
        _number(parameter, number) for number in (parameter.value, parameter.low, parameter.high)
    )
    unit = "%" if parameter.name == "loss" else parameter.unit
    interval = "" if low == high else f", 90 % interval {low} to {high} {unit}"
    return f"{label}: {value} {unit}{interval}"


def _number(parameter: Parameter, value: float | None) -> str:
    scaled = (value or 0.0) * (100 if parameter.name == "loss" else 1)
    return f"{scaled:.4g}"


def _wrapped(text: str) -> Iterator[str]:
    from textwrap import wrap

    yield from (f"# {line}" for line in wrap(text, WIDTH - 2))


def _head(fit: Fit) -> Iterator[str]:
    files = ", ".join(str(one.file) for one in fit.measurements)
    yield from _wrapped(f"A line that behaves like the one of {files}, as 'lasthop fit' found it.")
    yield "#"
    yield from _wrapped(
        "Each line below is an estimate with its source. The delay is of a round trip. The factor 'line' "
        "has the best estimate and draws from what else the data allow; a conclusion that holds for all of "
        "them does not hang on what is not known. Change the queue, and run the file."
    )
    yield "#"
    for parameter in fit.parameters:
        yield from _wrapped(f"{parameter.key}: {said(parameter)} [{parameter.source}]")
    for note in fit.notes:
        yield from _wrapped(note)
    yield ""


def _scenario(fit: Fit, name: str) -> Iterator[str]:
    yield to_toml({"name": name, "title": f"A fitted line: {name}", "replications": 1}).strip()
    yield ""
    control = fit.parameter("control")
    window = fit.parameter("initial_window")
    tcp: dict[str, object] = {"profile": "linux-6"}
    if control is not None:
        tcp["congestion_control"] = control.value or control.assumed or "cubic"
    if window is not None and window.value is not None:
        tcp["initial_window"] = round(float(window.value))
    best = _nested(fit.best)
    yield to_toml({"tcp": tcp, **best, "flow": _flows(fit)}).strip()


def _flows(fit: Fit) -> list[dict[str, object]]:
    """A transfer in each direction that was measured."""
    ways = dict.fromkeys(check.direction for check in fit.checks)
    return [
        {
            "kind": "bulk-tcp",
            "name": "download" if way == "down" else "upload",
            "direction": way,
            "duration": "10 s",
        }
        for way in ways
    ]


def _levels(fit: Fit) -> Iterator[str]:
    yield ""
    levels = {"best": _nested(fit.best)}
    levels |= {f"draw-{number:02}": _nested(draw.overrides) for number, draw in enumerate(fit.draws, 1)}
    yield to_toml({"factor": {"line": levels}}).strip()


def _nested(flat: Mapping[str, object]) -> dict[str, object]:
    keys: dict[str, object] = {}
    for path, value in flat.items():
        *tables, last = path.split(".")
        table = keys
        for part in tables:
            inside = table.setdefault(part, {})
            assert isinstance(inside, dict)
            table = inside
        table[last] = value
    return keys


def write_text(out: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises InputError."""
    try:
        replace_atomically(out, lambda path: path.write_text(text, encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot write {out}: {error}.") from error
