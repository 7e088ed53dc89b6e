"""Pictures of runs as files: a single file, or a folder with a file per panel."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lasthop.analysis.explain.words import plain
from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError, nearest
from lasthop.common.files import replace_atomically
from lasthop.present.answer.paired import Compare
from lasthop.present.pictures.cast import Cast, check_flows
from lasthop.present.pictures.charts import draw_chart
from lasthop.present.pictures.classes import CLASSES, picture_classes
from lasthop.present.pictures.forest import draw_forest
from lasthop.present.pictures.ladder import LADDER
from lasthop.present.pictures.ladder_figure import ladder_figure
from lasthop.present.pictures.logarithmic import check_log
from lasthop.present.pictures.network import NETWORK
from lasthop.present.pictures.network_layout import picture_network
from lasthop.present.pictures.of_results import RESULT_KINDS, ResultRequest, read_chart
from lasthop.present.pictures.over import OverPicture
from lasthop.present.pictures.overlays import SOURCES, check_theory_of_run, with_theory
from lasthop.present.pictures.panels import KINDS, OF_EVERY_PACKET, USUAL_KINDS, panels
from lasthop.present.pictures.phases import with_phases
from lasthop.present.pictures.shapes import Panel, Picture, caption, check_span, made_by
from lasthop.present.pictures.sheet import ScenarioPicture, sheet_figure
from lasthop.present.pictures.static import FORMATS, PAGE, figure_of, save
from lasthop.present.pictures.trace_tables import FlowOf, TraceTables
from lasthop.scenario.facts import Facts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OF_SCENARIO: Mapping[str, tuple[str, Callable[[ChosenRun], Shown]]] = {
    CLASSES: ("the router", picture_classes),
    NETWORK: ("the network", picture_network),
}
"""Kinds of pictures that need the scenario only, and their subjects. Each is drawn alone."""
_OWN: dict[str, Callable[[Picture, str], Figure]] = {
    LADDER: ladder_figure,
    CLASSES: sheet_figure,
    NETWORK: sheet_figure,
}
"""Kinds of pictures with a special layout, and the functions that draw them."""
_NEEDS = {
    "waterfall": ("page loads", "belongs to none"),
    "fairness": ("flows that share the link at the same time", "does not share it"),
    "delay": ("packets that arrived", "has none"),
    "sizes": ("packets sent in a part of the run", "sends none"),
}
"""For kinds of pictures not about TCP: the subject, and the reason why a flow has no such picture."""


@dataclass(frozen=True, slots=True)
class PictureRequest:
    """The picture to draw; by default all kinds and all flows of the whole run. Times are in seconds.

    Without `out`, the picture is a file in the working folder with the name of the scenario.
    """

    out: Path | None = None
    kinds: str | None = None
    flows: tuple[str, ...] = ()
    start: float | None = None
    stop: float | None = None
    file_format: str | None = None
    width: str = PAGE
    caption: Path | None = None
    """A new file for the captions, which are then omitted from the pictures."""
    log: str | None = None
    """The logarithmic axes: `x`, `y`, `xy`, or `None`."""
    theory: str | None = None
    """A key of `lasthop.present.pictures.overlays.SOURCES`."""


def _kinds(text: str | None) -> list[str]:
    if text is None:
        return list(USUAL_KINDS)
    kinds = [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind in RESULT_KINDS:
            raise InputError(
                f"--kind {text}: '{kind}' is a picture of results; give their folder instead of a scenario."
            )
        if kind not in (known_kinds := (*KINDS, *_OF_SCENARIO)):
            raise InputError(
                f"--kind {text}: unknown kind '{kind}'; did you mean '{nearest(kind, known_kinds)}'? "
                f"Kinds: {', '.join(known_kinds)}."
            )
    if len(kinds) > 1 and (alone := [kind for kind in kinds if kind in (*OF_EVERY_PACKET, *_OF_SCENARIO)]):
        raise InputError(f"--kind {text}: '{alone[0]}' cannot be combined with other kinds; draw it alone.")
    return list(dict.fromkeys(kinds))


def file_suffix(out: Path) -> str:
    """Return the extension of `out` if it is a file; an empty text for a folder."""
    suffix = out.suffix.lower().removeprefix(".")
    return suffix if suffix.isalpha() else ""


def choose_out(out: Path | None, file_format: str | None, name: str, option: str = "--out") -> Path:
    """Return the new file or folder: `out`, or else `name` with an extension, and a number if it exists.

    Raises InputError, about `option`, if `out` exists, is not a picture, or a file of another format.
    """
    if out is None:
        ending = file_format or FORMATS[0]
        names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        return next(path for path in (Path(f"{name}.{ending}") for name in names) if not path.exists())
    suffix = file_suffix(out)
    if suffix and suffix not in FORMATS:
        raise InputError(
            f"{option} {out}: pictures are {', '.join(FORMATS)}, not '{suffix}'; did you mean "
            f"'{out.with_suffix('.' + nearest(suffix, FORMATS))}'? The name of a folder has no extension."
        )
    if suffix and file_format not in (None, suffix):
        raise InputError(
            f"--format {file_format}: the extension of --out {out} already determines the format; give a "
            "folder, or omit --format."
        )
    if out.exists():
        raise InputError(f"{out} already exists and is not overwritten; choose another name for {option}.")
    return out


def _named(names: Sequence[str], flows: Sequence[FlowOf]) -> list[FlowOf]:
    """Return the flows with these names; the name of a page load selects all its connections."""
    names_of_flows = list(dict.fromkeys(name for flow in flows for name in (flow.name, flow.application)))
    check_flows(names, names_of_flows)
    return [flow for flow in flows if flow.name in names or flow.application in names]


def _panels(request: PictureRequest, tables: TraceTables, cast: Cast) -> list[Panel]:
    kinds = _kinds(request.kinds)
    drawn = panels(tables, kinds, cast)
    missing = [kind for kind in kinds if kind not in {panel.kind for panel in drawn}]
    if request.kinds is not None and missing:
        shows, lack = _NEEDS.get(missing[0], ("TCP", "is UDP"))
        raise InputError(
            f"--kind {request.kinds}: '{missing[0]}' shows {shows}, but "
            f"{', '.join(flow.name for flow in cast.flows)} {lack}; draw goodput or queue."
        )
    return drawn


def _span(request: PictureRequest, tables: TraceTables, named: Sequence[FlowOf]) -> tuple[float, float]:
    """Return the times to draw: those of the request, of the chosen flows, or of the run."""
    end = tables.end_s()
    first, last = tables.span_s(named) if named else (0.0, end)
    start = first if request.start is None else request.start
    stop = max(last, start) if request.stop is None else request.stop
    return check_span(start, stop, end)


def _name(panel: Panel) -> str:
    words = [panel.kind, *re.findall(r"[\w.-]+", panel.subject)]
    return "-".join(words)


def write_chart(folder: Path, request: ResultRequest, drawn: PictureRequest) -> tuple[list[Path], list[str]]:
    """Draw the results in a folder as a new file; return the file and its notes. A failure leaves no file."""
    chart = read_chart(folder, request)
    path = choose_out(drawn.out, drawn.file_format, chart.file_name)
    suffix = picture_file(path, "--out")
    check_caption(drawn.caption, path)
    drawable = chart if drawn.caption is None else replace(chart, notes=[])
    write_picture(path, lambda temporary: draw_chart(drawable, temporary, suffix, drawn.width))
    return [path, *write_captions(drawn.caption, {path: chart.caption})], chart.notes


def check_caption(path: Path | None, picture: Path) -> None:
    """Raise `InputError` if the caption's file exists, or is the picture."""
    if path is not None and (path.exists() or path == picture):
        raise InputError(
            f"{path} already exists, or is the picture, and is not overwritten; choose another --caption."
        )


def write_captions(path: Path | None, captions: Mapping[Path, str]) -> list[Path]:
    """Write the captions of pictures, with file names if there are several, to a new text file; return it."""
    if path is None:
        return []
    several = len(captions) > 1
    texts = [plain(f"{file.name}: {text}" if several else text) for file, text in captions.items()]
    write_picture(path, lambda temporary: temporary.write_text("\n\n".join(texts) + "\n", encoding="utf-8"))
    return [path]


def picture_file(path: Path, option: str = "--plot") -> str:
    """Return the format of the new file in an option. Raises InputError if it exists or is no picture."""
    choose_out(path, None, "", option)
    suffix = file_suffix(path)
    if not suffix:
        raise InputError(f"{option} {path}: give the name of a file that ends in .{', .'.join(FORMATS)}.")
    return suffix


def write_picture(path: Path, make: Callable[[Path], object]) -> None:
    """Write a new picture, or its caption. A failure leaves no file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, make)
    except OSError as error:
        raise InputError(f"Cannot write to {path}: {error}.") from error


def write_forest(compared: Compare, path: Path) -> None:
    """Draw comparisons as a new file."""
    suffix = picture_file(path)
    write_picture(path, lambda temporary: draw_forest(compared, temporary, suffix))


@dataclass(frozen=True, slots=True)
class RunPicture:
    """The panels of a run between two times."""

    run: ChosenRun
    tables: TraceTables
    panels: list[Panel]
    span: tuple[float, float]
    cast: Cast
    log: str = ""
    theory: str | None = None
    unshaded: str = ""
    """The reason why phases are not shaded, if any."""

    def of(self, panels: Sequence[Panel]) -> Picture:
        notes = self.cast.notes(panels) + ([SOURCES[self.theory]] if self.theory else [])
        picture = self.tables.picture(panels, *self.span, notes, self.cast.flows)
        return replace(picture, log=self.log)

    def remarks(self) -> list[str]:
        """Return remarks on flows that are missing or grey, and on parts that are not drawn."""
        remarks = [f"{note} Choose others with --flow." for note in self.cast.notes(self.panels)]
        remarks += [self.unshaded] if self.unshaded else []
        if self.tables.left_out and not all(panel.is_whole for panel in self.panels):
            remarks.append(
                f"{self.tables.left_out} To see them, draw a part of the run with --from and --to."
            )
        return remarks

    def caption(self, panels: Sequence[Panel]) -> str:
        return caption(panels, f"{self.run.title}, {made_by(self.run.plan)}", self.of(panels).notes)


Shown: TypeAlias = RunPicture | OverPicture | ScenarioPicture


def picture_run(run: ChosenRun, request: PictureRequest) -> Shown:
    """Return the picture of a run. It is run only if the picture needs more than the scenario."""
    kinds = _kinds(request.kinds)  # reports errors before the run, which may be long
    log = _log(request.log, kinds)
    if request.theory is not None:
        check_theory_of_run(request.theory, kinds)
    if kinds[0] in _OF_SCENARIO:
        shows, picture = _OF_SCENARIO[kinds[0]]
        options = {
            "--flow": request.flows,
            "--from": request.start is not None,
            "--to": request.stop is not None,
        }
        if unfit := [option for option, is_given in options.items() if is_given]:
            raise InputError(f"{unfit[0]}: --kind {kinds[0]} shows {shows}, not a run; omit {unfit[0]}.")
        return picture(run)
    every_packet = kinds[0] in OF_EVERY_PACKET
    trace = run.trace() if every_packet else run.overview(request.start, request.stop)
    tables = TraceTables.of(trace, Facts.of(run.cell))
    named = _named(request.flows, tables.flows)
    span = _span(request, tables, named)
    tables = tables.sent_between(*span) if every_packet else tables
    cast = Cast.of(tables, named)
    events = tables.packets.height + trace.left_out["points"] + trace.left_out["marks"]
    drawn, unshaded = with_phases(run, tables, _panels(request, tables, cast), cast, events)
    if request.theory is not None:
        drawn = with_theory(request.theory, run, drawn, cast, span[1])
    return RunPicture(run, tables, drawn, span, cast, log, request.theory, unshaded)


def _log(log: str | None, kinds: Sequence[str]) -> str:
    """Return the logarithmic axes. Raises `InputError` for kinds of pictures that have none."""
    if log is not None and kinds[0] in _OWN:
        raise InputError(f"--log {log}: --kind {kinds[0]} has no axes with numbers; omit --log.")
    return check_log(log)


def write_pictures(
    make: Callable[[], Shown], request: PictureRequest, name: str
) -> tuple[list[Path], list[str]]:
    """Make panels and draw them into a file, by default `name`, or into a new folder with a file for each.

    Return the files and the picture's remarks. A failure leaves no file, and nothing is overwritten.
    """
    out = choose_out(request.out, request.file_format, name)
    check_caption(request.caption, out)
    picture = make()
    suffix = file_suffix(out)
    if suffix:
        write_picture(out, lambda path: _draw(picture, picture.panels, path, suffix, request))
        return [
            out,
            *write_captions(request.caption, {out: picture.caption(picture.panels)}),
        ], picture.remarks()
    file_format = request.file_format or FORMATS[0]
    captions = {out / f"{_name(panel)}.{file_format}": picture.caption([panel]) for panel in picture.panels}
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"Cannot write to {out}: {error}.") from error
    try:
        for file, panel in zip(captions, picture.panels, strict=True):
            _draw(picture, [panel], file, file_format, request)
    except BaseException as error:
        shutil.rmtree(out)
        if isinstance(error, OSError):
            raise InputError(f"Cannot write the pictures to {out}: {error}.") from error
        raise
    return [*captions, *write_captions(request.caption, captions)], picture.remarks()


def run_figure(picture: Picture, width: str) -> Figure:
    """Return the matplotlib figure of a picture, as wide as a column or a page of a paper."""
    return _OWN.get(picture.panels[0].kind, figure_of)(picture, width)


def draw(picture: Picture, path: Path, file_format: str, width: str) -> None:
    """Draw a picture into the file `path`, as wide as a column or a page of a paper."""
    save(lambda: run_figure(picture, width), path, file_format)


def _draw(
    picture: Shown, panels: Sequence[Panel], path: Path, file_format: str, request: PictureRequest
) -> None:
    whole = picture.of(panels)
    draw(whole if request.caption is None else replace(whole, notes=()), path, file_format, request.width)
