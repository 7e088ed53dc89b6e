"""The fitted scenario as a file: estimates, assumptions, and a factor of draws."""

from collections.abc import Iterator
from textwrap import wrap

from lasthop.fit.line import with_course
from lasthop.fit.posterior import Fit, Parameter
from lasthop.scenario.toml import to_toml

WIDTH = 110


def text_of(fit: Fit, name: str) -> str:
    """Return the text of the scenario, which uses the files of `files_of`."""
    return "\n".join([*_head(fit), *_scenario(fit, name), *_levels(fit)]) + "\n"


def files_of(fit: Fit, name: str) -> dict[str, str]:
    """Return names and texts of the files in the scenario's folder."""
    courses = {course_name(name, way): course.text() for way, course in fit.courses.items()}
    return courses | {recording_name(name, way): known.text() for way, (known, _) in fit.recordings.items()}


def recording_name(name: str, way: str) -> str:
    return f"{name}-{way}-captured.csv"


def course_name(name: str, way: str) -> str:
    return f"{name}-{way}.csv"


def said(parameter: Parameter) -> str:
    label = parameter.name.replace("_", " ")
    if parameter.reason is not None:
        instead = f" (assumed: {parameter.assumed})" if parameter.assumed else ""
        return f"{label}: not identified by these data: {parameter.reason}{instead}"
    value, behind = parameter.texts()
    kind = "" if isinstance(parameter.value, str) else "90 % interval "
    return f"{label}: {value}{f', {kind}{behind}' if behind else ''}"


def _wrapped(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in wrap(text, WIDTH - 2))


def _head(fit: Fit) -> Iterator[str]:
    files = ", ".join(str(measurement.file) for measurement in fit.measurements)
    yield from _wrapped(f"A line fitted to {files} by 'lasthop fit'.")
    yield "#"
    yield from _wrapped(
        "Each line below is an estimate with its source. The factor 'line' has the best estimate and draws "
        "from the posterior; a conclusion that holds for all of them does not depend on the uncertainty of "
        "the data. Change the queue, and run the file."
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
    best = fit.best
    for way in fit.courses:
        best = with_course(best, way, course_name(name, way))
    recorded = [{**flow, "file": recording_name(name, way)} for way, (_, flow) in fit.recordings.items()]
    yield to_toml({"tcp": tcp, **best, "flow": [*_flows(fit), *fit.others, *recorded]}).strip()


def _flows(fit: Fit) -> list[dict[str, object]]:
    """Return a transfer in each direction that was measured."""
    ways = dict.fromkeys(check.direction for check in fit.checks)
    lasts = max([10.0, *(course.until_s for course in fit.courses.values())])
    return [
        {
            "kind": "bulk-tcp",
            "name": "download" if way == "down" else "upload",
            "direction": way,
            "duration": f"{lasts:.4g} s",
        }
        for way in ways
    ]


def _levels(fit: Fit) -> Iterator[str]:
    yield ""
    levels = {"best": fit.best}
    levels |= {f"draw-{number:02}": draw for number, draw in enumerate(fit.draws, 1)}
    yield to_toml({"factor": {"line": levels}}).strip()
