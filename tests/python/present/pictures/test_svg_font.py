"""The text of SVG pictures in a real browser: selectable, and in the embedded font."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from browser import start_chrome
from conftest import STUDY
from lasthop.present.pictures.static import STYLE, save

EXAMPLE = STUDY.parents[1] / "examples" / "bufferbloat.toml"
_SVG = "{http://www.w3.org/2000/svg}"


def test_text_is_selectable_and_has_the_embedded_font(
    tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    drawn = ("--only", "queue=drop-tail", "--kind", "cwnd,queue")
    assert lasthop_main("plot", EXAMPLE, *drawn, "--out", "picture.svg") == 0
    texts = [str(text.text) for text in ElementTree.parse("picture.svg").iter(f"{_SVG}text")]
    assert {"time (s)", "dropped: router queue full", "router queue (packets)", "100"} <= set(texts)
    measure = """
        const texts = [...document.querySelectorAll('text')];
        getSelection().selectAllChildren(document.documentElement);
        return [getSelection().toString(), [...document.fonts].map(font => font.family + ' ' + font.status),
                texts.map(text => [text.textContent, text.getComputedTextLength()])]
    """
    with start_chrome(tmp_path / "profile") as chrome:
        chrome.get(Path("picture.svg").resolve().as_uri())
        chrome.execute_async_script("document.fonts.ready.then(arguments[0])")
        selected, fonts, lengths = chrome.execute_script(measure)
    assert all(text in selected for text in texts)
    assert [font.replace('"', "") for font in fonts] == ["STIXGeneral loaded"]
    # In points, as in the other formats, in which the letters are those of the same font.
    with mpl.rc_context({**STYLE, "figure.dpi": 72}):
        figure = Figure()
        FigureCanvasAgg(figure)
        expected = figure.text(0, 0, "router queue (packets)").get_window_extent().width
    assert abs(dict(lengths)["router queue (packets)"] - expected) < 2


def test_letters_that_svg_writes_as_entities_are_in_the_font(tmp_path: Path) -> None:
    def figure() -> Figure:
        made = Figure()
        made.text(0.5, 0.5, "a & b < \u221ap")
        return made

    file = tmp_path / "entities.svg"
    save(figure, file, "svg")
    save(figure, tmp_path / "again.svg", "svg")
    assert file.read_bytes() == (tmp_path / "again.svg").read_bytes()
    (text,) = ElementTree.parse(file).iter(f"{_SVG}text")
    assert text.text == "a & b < \u221ap"
    style = next(iter(ElementTree.parse(file).iter(f"{_SVG}style")))
    assert "font/woff;base64" in str(style.text)
