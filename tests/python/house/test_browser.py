"""The report in a real browser: Debian's chromium, driven by its chromedriver.

Without them these tests fail.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from browser import PATIENCE_S, requested, start_chrome, window
from lasthop import _core
from lasthop.commands.cli import main
from lasthop.present.answer.differences import differences
from lasthop.present.answer.folder import read_sections
from lasthop.present.pictures import marks
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.panels import sequence_panel
from lasthop.present.pictures.trace_tables import TraceTables
from lasthop.scenario.facts import Facts
from observing import overviewed

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
EXAMPLE = EXAMPLES / "two-flows.toml"

Range = tuple[float, float]


def long(seconds: float) -> pytest.MarkDecorator:
    """Return the mark of a long test of reports."""
    return pytest.mark.long(
        covers=(
            "python/lasthop/present/report",
            "python/lasthop/common/html",
            "python/lasthop/present/pictures",
            "requirements.lock",
        ),
        seconds=seconds,
    )


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with start_chrome(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def browser(chrome: webdriver.Chrome) -> webdriver.Chrome:
    """Return the browser as it was when it started: an empty page, the window of `FLAGS`, nothing in the
    logs.
    """
    chrome.get("about:blank")
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    for log in ("browser", "performance"):
        chrome.get_log(log)
    return chrome


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where every report lies while it is shown."""
    return tmp_path_factory.mktemp("shown") / "report.html"


@pytest.fixture
def open_report(browser: webdriver.Chrome, address: Path) -> Callable[[Path], None]:
    """Return a function that shows a report, ready to draw its figures.

    All reports have one address. So the browser knows plotly.js again, and compiles it once: that takes
    longer than all the rest of opening a report.
    """

    def open_at_address(report: Path) -> None:
        shutil.copyfile(report, address)
        browser.get(address.as_uri())
        ready = "return document.documentElement.dataset.ready"
        WebDriverWait(browser, PATIENCE_S).until(lambda _: browser.execute_script(ready))

    return open_at_address


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("two-flows") / "out"
    assert main(["run", str(EXAMPLE), "--replications", "2", "--out", str(out), "--quiet"]) == 0
    return out / "report.html"


@pytest.fixture
def tables() -> TraceTables:
    """Return the contents of the report's first picture: the first replication of the first cell."""
    study = _core.load(str(EXAMPLE))
    return TraceTables.of(overviewed(study.cells[0], study.seed, 1, 1), Facts.of(study.cells[0]))


@pytest.fixture
def trace_plot(browser: webdriver.Chrome, open_report: Callable[[Path], None], report: Path) -> WebElement:
    """Return the first time-sequence plot of the report, drawn and in view."""
    open_report(report)
    plot = browser.find_element(By.CSS_SELECTOR, "#traces .plot")
    browser.execute_script("arguments[0].scrollIntoView({block: 'start', behavior: 'instant'})", plot)
    WebDriverWait(browser, PATIENCE_S).until(lambda _: plot.find_elements(By.CSS_SELECTOR, ".nsewdrag"))
    return plot


WIDER = """
    const width = document.documentElement.clientWidth, wider = [];
    const scrolls = element => ["auto", "scroll", "hidden"].includes(getComputedStyle(element).overflowX);
    for (const element of document.body.querySelectorAll("*:not(#js-plotly-tester, #js-plotly-tester *)")) {
      const box = element.getBoundingClientRect();
      if (box.width === 0 || (box.left >= -0.5 && box.right <= width + 0.5)) { continue; }
      let parent = element.parentElement;
      while (parent !== document.body && !scrolls(parent)) { parent = parent.parentElement; }
      if (parent === document.body) { wider.push(element.outerHTML.slice(0, 80)); }
    }
    return [document.documentElement.scrollWidth - width, wider];
"""
"""How far the page exceeds the window, and which elements reach out of it, except a scroller's contents."""


SCROLLED = """
    return [...document.querySelectorAll(".scroll")]
      .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.innerText.slice(0, 80));
"""
"""Elements that scroll sideways within the page, because they have no room."""


def axis_ranges(browser: webdriver.Chrome, plot: WebElement) -> tuple[Range, Range]:
    """Return the ranges of the first panel's axes: seconds, and kilobytes."""
    x, y = browser.execute_script(
        "return ['xaxis', 'yaxis'].map(name => arguments[0]._fullLayout[name].range)", plot
    )
    return (x[0], x[1]), (y[0], y[1])


def test_report_draws_offline_and_asks_for_itself_alone(
    browser: webdriver.Chrome, trace_plot: WebElement, address: Path
) -> None:
    names = browser.execute_script("return arguments[0].data.map(trace => trace.name)", trace_plot)
    dropped = "dropped: router queue full"
    assert {"segment sent", "acknowledged", "advertised window", "SACK block", dropped} <= set(names)
    assert len(trace_plot.find_elements(By.CSS_SELECTOR, ".scatterlayer .trace")) >= 4
    assert browser.get_log("browser") == []
    assert requested(browser) == [address.as_uri()]


def test_dragging_zooms_and_a_double_click_goes_back(
    browser: webdriver.Chrome, trace_plot: WebElement
) -> None:
    whole = axis_ranges(browser, trace_plot)
    panel = trace_plot.find_element(By.CSS_SELECTOR, ".nsewdrag")
    # Offsets count from the panel's centre: from there to the middle of its upper right quarter.
    right, up = panel.size["width"] // 4, panel.size["height"] // 4
    ActionChains(browser).move_to_element(panel).click_and_hold().move_by_offset(
        right, -up
    ).release().perform()
    WebDriverWait(browser, PATIENCE_S).until(lambda _: axis_ranges(browser, trace_plot) != whole)
    for before, after in zip(whole, axis_ranges(browser, trace_plot), strict=True):
        span = before[1] - before[0]
        assert after[0] == pytest.approx(before[0] + span / 2, abs=span / 50)
        assert after[1] == pytest.approx(before[0] + span * 3 / 4, abs=span / 50)

    def is_back(_: webdriver.Chrome) -> bool:
        if axis_ranges(browser, trace_plot) == whole:
            return True
        # A busy page sees the two clicks too far apart; then the test clicks again.
        ActionChains(browser).move_to_element(panel).double_click().perform()
        return False

    WebDriverWait(browser, PATIENCE_S).until(is_back)
    assert browser.get_log("browser") == []


def place_of(browser: webdriver.Chrome, plot: WebElement, name: str, index: int) -> dict[str, Any]:
    """Return the label, the time in seconds, the first panel's pixels of a bar's ends, and the panel's
    size.
    """
    return browser.execute_script(
        """
        const [plot, name, index] = arguments, {xaxis, yaxis} = plot._fullLayout;
        const trace = plot.data.find(trace => trace.name === name);
        const half = trace.error_y.array[index];
        return {label: trace.customdata[index], time: trace.x[index], x: xaxis.d2p(trace.x[index]),
                low: yaxis.d2p(trace.y[index] - half), high: yaxis.d2p(trace.y[index] + half),
                width: xaxis._length, height: yaxis._length};
        """,
        plot,
        name,
        index,
    )


def drag(
    browser: webdriver.Chrome, panel: WebElement, start: tuple[float, float], end: tuple[float, float]
) -> None:
    """Drag from one place in the panel to another, in pixels from its upper left corner."""
    centre = panel.size["width"] / 2, panel.size["height"] / 2
    actions = ActionChains(browser)
    actions.move_to_element_with_offset(panel, round(start[0] - centre[0]), round(start[1] - centre[1]))
    actions.click_and_hold().move_by_offset(
        round(end[0] - start[0]), round(end[1] - start[1])
    ).release().perform()


def test_a_segment_grows_with_the_zoom_and_says_what_it_is(
    browser: webdriver.Chrome, trace_plot: WebElement, tables: TraceTables
) -> None:
    flow = tables.flows[0]
    panel = sequence_panel(tables, flow, Cast.of(tables).looks[flow.number])
    segments = next(layer for layer in panel.layers if layer.mark.name == marks.SEGMENT.name)
    index = len(segments.x) // 2
    panel = trace_plot.find_element(By.CSS_SELECTOR, ".nsewdrag")
    before = place_of(browser, trace_plot, "segment sent", index)
    assert before["low"] - before["high"] < 3  # a speck, in pixels

    middle = (before["low"] + before["high"]) / 2
    drag(browser, panel, (before["x"] - 40, middle - 15), (before["x"] + 40, middle + 15))
    WebDriverWait(browser, PATIENCE_S).until(
        lambda _: place_of(browser, trace_plot, "segment sent", index)["x"] != before["x"]
    )
    after = place_of(browser, trace_plot, "segment sent", index)
    length = after["low"] - after["high"]
    assert length == pytest.approx((before["low"] - before["high"]) * before["height"] / 30, rel=0.1)
    bars = browser.execute_script(
        "return [...arguments[0].querySelectorAll('.errorbar path.yerror')].map(bar => bar.getBBox().height)",
        trace_plot,
    )
    assert any(bar == pytest.approx(length, abs=0.5) for bar in bars)

    assert not trace_plot.find_elements(By.CSS_SELECTOR, ".hoverlayer .hovertext")
    centre = after["x"] - after["width"] / 2, (after["low"] + after["high"] - after["height"]) / 2
    ActionChains(browser).move_to_element_with_offset(panel, round(centre[0]), round(centre[1])).perform()
    label = WebDriverWait(browser, PATIENCE_S).until(
        lambda _: trace_plot.find_elements(By.CSS_SELECTOR, ".hoverlayer .hovertext")
    )
    # What the engine recorded of this segment.
    assert segments.labels is not None
    seq, end = (int(number) for number in segments.labels[index].split()[0].split(":"))
    sent = tables.packets.filter(
        pl.col("flow") == flow.number, pl.col("event") == "sent", pl.col("seq") == seq
    )
    assert end in sent["end"]
    said = label[0].text
    assert f"{sent['time_s'][0]:.3f} s" in said
    assert f"bytes {seq}:{end} ({end - seq})" in said
    assert "segment sent" in said
    assert browser.get_log("browser") == []


def test_the_legend_hides_and_shows_a_kind_in_every_panel(
    browser: webdriver.Chrome, trace_plot: WebElement
) -> None:
    def shown(name: str) -> set[bool]:
        script = (
            "return arguments[0]._fullData.filter(t => t.name === arguments[1]).map(t => t.visible === true)"
        )
        return set(browser.execute_script(script, trace_plot, name))

    def bars() -> int:
        return len(trace_plot.find_elements(By.CSS_SELECTOR, ".errorbar path.yerror"))

    def click(name: str) -> None:
        (entry,) = [
            entry
            for entry in trace_plot.find_elements(By.CSS_SELECTOR, ".legend .traces")
            if entry.find_element(By.CSS_SELECTOR, ".legendtext").text == name
        ]
        was = shown(name)
        # Plotly's tip for the first click covers the legend for a while.
        WebDriverWait(browser, PATIENCE_S).until(
            lambda _: not browser.find_elements(By.CSS_SELECTOR, ".notifier-note")
        )
        ActionChains(browser).move_to_element(
            entry.find_element(By.CSS_SELECTOR, ".legendtoggle")
        ).click().perform()
        WebDriverWait(browser, PATIENCE_S).until(lambda _: shown(name) != was)

    assert (shown("segment sent"), shown("segment arrived")) == ({True}, {False})
    whole = bars()
    click("segment sent")
    assert shown("segment sent") == {False}
    assert 0 < bars() < whole
    click("segment sent")
    assert shown("segment sent") == {True}
    assert bars() == whole
    click("segment arrived")
    assert bars() > whole
    assert browser.get_log("browser") == []


@long(14)
def test_the_figures_of_a_factorial_study_are_drawn_without_errors(
    browser: webdriver.Chrome, open_report: Callable[[Path], None], study_results: Callable[..., Path]
) -> None:
    open_report(study_results("atmf1998") / "report.html")
    plots = browser.find_elements(By.CSS_SELECTOR, ".plot")
    assert len(plots) == 4
    for plot in plots:
        browser.execute_script("arguments[0].scrollIntoView({block: 'start', behavior: 'instant'})", plot)
        WebDriverWait(browser, PATIENCE_S).until(
            lambda _, plot=plot: plot.find_elements(By.CSS_SELECTOR, ".nsewdrag")
        )
    efficiency = plots[0]
    # Three paths, two drop policies: a line per flavour in each panel, and hollow marks in those of wan.
    assert len(efficiency.find_elements(By.CSS_SELECTOR, ".scatterlayer .trace")) == 3 * 2 * 4 + 2 * 4 + 1
    named = [entry.text for entry in efficiency.find_elements(By.CSS_SELECTOR, ".legendtext")]
    assert named == ["Vanilla", "Reno", "NewReno", "SACK", "published"]
    for width in (1400, 500):
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(width))
        assert browser.execute_script(WIDER) == [0, []]
    assert browser.get_log("browser") == []


REPORTS = {
    "kulve2003": ["study", "run", "kulve2003", "--only", "link=e0", "--replications", 2],
    "balekaki2012": None,  # the part that the tests run anyway
    "iip2004": ["study", "run", "iip2004", "--only", "link=r2", "--replications", 2],
    "page": ["run", EXAMPLES / "web-page.toml"],
    "one-cell": ["run", EXAMPLES / "two-flows.toml", "--only", "memory=cbi"],
    "no-factors": ["run", "plain.toml"],
    "nothing-sent": ["run", "silent.toml"],
}


STUDIES = {"kulve2003", "balekaki2012", "iip2004"}


@pytest.fixture
def make_report(
    tmp_path: Path, lasthop_main: Callable[..., int], study_results: Callable[..., Path]
) -> Callable[[str], Path]:
    """Return a function that makes one of `REPORTS`."""
    plain = EXAMPLE.read_text(encoding="utf-8").split("# --- Factors")[0]
    Path("plain.toml").write_text(plain, encoding="utf-8")
    silent = plain.replace('time_limit = "10 min"', 'time_limit = "1 ms"').replace(
        'start = "0 s"', 'start = "1 s"'
    )
    Path("silent.toml").write_text(silent, encoding="utf-8")

    def made(name: str) -> Path:
        arguments, out = REPORTS[name], tmp_path / "out"
        if arguments is None:
            out = study_results(name)
        else:
            assert lasthop_main(*arguments, "--out", out, "--quiet") == 0
        return out / "report.html"

    return made


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one == "one-cell" else long(10)) for one in REPORTS]
)
def test_no_element_is_wider_than_the_window(
    browser: webdriver.Chrome,
    open_report: Callable[[Path], None],
    make_report: Callable[[str], Path],
    name: str,
) -> None:
    report = make_report(name)
    for width in (1400, 700, 500):
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(width))
        open_report(report)
        for plot in browser.find_elements(By.CSS_SELECTOR, ".plot"):
            browser.execute_script("arguments[0].scrollIntoView({block: 'start', behavior: 'instant'})", plot)
            if plot.is_displayed():  # or it is folded away
                drawn = lambda _, plot=plot: plot.find_elements(By.CSS_SELECTOR, ".main-svg")  # noqa: E731
                WebDriverWait(browser, PATIENCE_S).until(drawn)
        assert browser.execute_script(WIDER) == [0, []]
        # Unfolded, it is no wider either.
        browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert browser.execute_script(WIDER) == [0, []]
    headings = [heading.text for heading in browser.find_elements(By.CSS_SELECTOR, "h1, h2")]
    assert headings[-1] == "Provenance"
    assert ("Claims" in headings) == (name in STUDIES)
    assert ("No packet was sent" in browser.find_element(By.ID, "answer").text) == (name == "nothing-sent")
    assert browser.get_log("browser") == []


def test_the_filter_hides_tables_and_nothing_else(
    browser: webdriver.Chrome, open_report: Callable[[Path], None], study_results: Callable[..., Path]
) -> None:
    open_report(study_results("kulve2003") / "report.html")
    field = browser.find_element(By.ID, "filter")

    def shown(selector: str) -> list[str]:
        visible = "[...document.querySelectorAll(arguments[0])].filter(element => element.checkVisibility())"
        return browser.execute_script(
            f"return {visible}.map(element => element.innerText.split('\\n')[0])", selector
        )

    claims, groups = shown("#claims article"), shown("#tables h3")
    assert len(claims) == pl.read_csv(study_results("kulve2003") / "claims.csv").height
    assert len(groups) == 3
    field.send_keys("T34")
    assert len(shown("#tables details")) == 2  # the table, and the rules
    assert shown("#tables h3") == ["Per-flow statistics"]
    field.send_keys("x")
    assert shown("#tables .group") == []
    assert shown("#no-match") == ["No table matches \u201cT34x\u201d."]
    assert shown("#claims article") == claims
    assert len(shown("section")) == len(browser.find_elements(By.CSS_SELECTOR, "section"))
    browser.execute_script("arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input'))", field)
    assert shown("#tables h3") == groups
    assert shown("#no-match") == []


def test_on_paper_everything_is_open_and_as_wide_as_the_paper(
    browser: webdriver.Chrome, open_report: Callable[[Path], None], report: Path
) -> None:
    open_report(report)
    folded = len(browser.find_elements(By.CSS_SELECTOR, "details:not([open])"))
    assert folded
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(718))  # A4 within margins of 1 cm
    assert not browser.find_elements(By.CSS_SELECTOR, "details:not([open])")
    plots = browser.find_elements(By.CSS_SELECTOR, ".plot")
    assert all(plot.find_elements(By.CSS_SELECTOR, ".main-svg") for plot in plots)
    assert browser.execute_script(WIDER) == [0, []]
    compared = differences(read_sections(report.parent))
    assert len(browser.find_elements(By.CSS_SELECTOR, "#pairs .ci")) == len(compared) > 2
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert len(browser.find_elements(By.CSS_SELECTOR, "details:not([open])")) == folded
    assert browser.get_log("browser") == []


@pytest.mark.parametrize(
    "study",
    [("kulve2003",), pytest.param(("iip2004", "--sets", "2"), marks=long(20))],
    ids=["kulve2003", "iip2004"],
)
def test_the_report_of_a_whole_study_is_small_and_opens_at_once(
    browser: webdriver.Chrome,
    open_report: Callable[[Path], None],
    address: Path,
    study_results: Callable[..., Path],
    study: tuple[str, ...],
) -> None:
    report = study_results(*study) / "report.html"
    assert report.stat().st_size < 3_000_000
    open_report(report)
    # Why it opens at once (`benches/report.py` measures how soon): few elements, and nothing out of view is
    # drawn.
    assert len(browser.find_elements(By.CSS_SELECTOR, "*")) < 30_000
    distant = browser.find_elements(By.CSS_SELECTOR, ".plot")[1:]
    assert len(distant) > 10
    assert not any(figure.find_elements(By.CSS_SELECTOR, ".main-svg") for figure in distant)
    plot = browser.find_element(By.CSS_SELECTOR, "#agreement .plot")
    browser.execute_script("arguments[0].scrollIntoView({block: 'start', behavior: 'instant'})", plot)
    WebDriverWait(browser, PATIENCE_S).until(lambda _: plot.find_elements(By.CSS_SELECTOR, ".nsewdrag"))
    assert browser.get_log("browser") == []
    assert requested(browser) == [address.as_uri()]


def test_a_browser_that_cannot_unpack_says_so(browser: webdriver.Chrome, report: Path) -> None:
    old = {"source": "delete window.DecompressionStream"}
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", old)
    browser.get(report.as_uri())
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    told = {plot.text for plot in browser.find_elements(By.CSS_SELECTOR, ".plot") if plot.is_displayed()}
    assert told == {"This browser is too old to draw the figure."}
    assert browser.get_log("browser") == []


@long(10)
def test_seven_hundred_pixels_show_the_report_of_a_study_whole(
    browser: webdriver.Chrome, open_report: Callable[[Path], None], study_results: Callable[..., Path]
) -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(700))
    open_report(study_results("kulve2003") / "report.html")
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for plot in browser.find_elements(By.CSS_SELECTOR, ".plot"):
        browser.execute_script("arguments[0].scrollIntoView({block: 'start', behavior: 'instant'})", plot)
        WebDriverWait(browser, PATIENCE_S).until(
            lambda _, plot=plot: plot.find_elements(By.CSS_SELECTOR, ".nsewdrag")
        )
    assert browser.execute_script(WIDER) == [0, []]
    assert browser.execute_script(SCROLLED) == []
    # Every level of a figure has its name, and no name covers another.
    plot = browser.find_element(By.CSS_SELECTOR, "#times .plot")
    names = [tick.text for tick in plot.find_elements(By.CSS_SELECTOR, ".xaxislayer-above .xtick text")]
    levels = ["baseline", "frto", "dsack", "eifel", "eifel+red", "eifel+ecn", "eifel+cbi", "eifel+cbi+ecn"]
    assert names == levels
    turned = plot.find_element(By.CSS_SELECTOR, ".xaxislayer-above .xtick text").get_attribute("transform")
    assert "rotate(-30" in turned


TWENTY = """
    [down.link]
    rate = "10 Mbit/s"
    delay = "20 ms"
    [[flow]]
    name = "file"
    kind = "bulk-tcp"
    bytes = "300 kB"
    count = 20
    start = { distribution = "uniform", min = "0 s", max = "2 s" }
"""


@pytest.fixture
def crowd_plot(
    browser: webdriver.Chrome,
    open_report: Callable[[Path], None],
    tmp_path: Path,
    lasthop_main: Callable[..., int],
) -> WebElement:
    """Return the picture of twenty flows, drawn and in view."""
    (tmp_path / "twenty.toml").write_text(TWENTY, encoding="utf-8")
    assert lasthop_main("run", tmp_path / "twenty.toml", "--out", tmp_path / "out", "--quiet") == 0
    open_report(tmp_path / "out" / "report.html")
    plot = browser.find_element(By.CSS_SELECTOR, "#traces .plot")
    browser.execute_script("arguments[0].scrollIntoView({block: 'end', behavior: 'instant'})", plot)
    WebDriverWait(browser, PATIENCE_S).until(lambda _: plot.find_elements(By.CSS_SELECTOR, ".nsewdrag"))
    return plot


def highlighted(browser: webdriver.Chrome, plot: WebElement) -> set[str]:
    """Return the flows whose lines and areas are black in the page, while those of all others are faint."""
    script = """
        const found = new Set(), wrong = [], black = "rgb(0, 0, 0)";
        for (const group of arguments[0].querySelectorAll(".scatterlayer .trace")) {
          const trace = group.__data__[0].trace, line = group.querySelector(".js-line");
          if (!trace.meta || !line || trace.fill === "toself") { continue; }
          const style = getComputedStyle(line);
          if (style.stroke === black) { found.add(trace.meta); }
          const bright = group.style.opacity === "" || Number(group.style.opacity) === 1;
          if ((style.stroke === black) !== bright) { wrong.push(trace.name); }
        }
        return [[...found], wrong];
    """
    found, wrong = browser.execute_script(script, plot)
    assert not found or not wrong
    return set(found)


def test_each_of_many_flows_can_be_highlighted(browser: webdriver.Chrome, crowd_plot: WebElement) -> None:
    def until(flows: set[str]) -> None:
        WebDriverWait(browser, PATIENCE_S).until(lambda _: highlighted(browser, crowd_plot) == flows)

    select = crowd_plot.find_element(By.XPATH, "ancestor::figure").find_element(By.TAG_NAME, "select")
    names = [option.text for option in select.find_elements(By.TAG_NAME, "option")]
    assert names == ["no flow", *(f"file-{number}" for number in range(1, 21))]
    assert highlighted(browser, crowd_plot) == set()

    # By keyboard: the tenth choice, whether it has a colour or not.
    ActionChains(browser).move_to_element(select).perform()
    select.send_keys("file-10")
    until({"file-10"})

    entries = {
        entry.find_element(By.TAG_NAME, "text").get_attribute("data-unformatted"): entry
        for entry in crowd_plot.find_elements(By.CSS_SELECTOR, ".scrollbox .traces")
    }
    coloured = next(name for name in entries if name.startswith("goodput of file-"))
    ActionChains(browser).move_to_element(entries[coloured]).perform()
    until({coloured.removeprefix("goodput of ")})
    ActionChains(browser).move_to_element(entries["goodput of 13 other flows"]).perform()
    WebDriverWait(browser, PATIENCE_S).until(lambda _: len(highlighted(browser, crowd_plot)) == 13)
    ActionChains(browser).move_to_element(select).perform()  # leaving the figure brings the chosen flow back
    until({"file-10"})

    # A click on a line keeps its flow, even after the pointer has left; a second click lets it go. The line
    # is apart from others where it is highest.
    place = """
        const [plot, name] = arguments;
        plot.scrollIntoView({block: "end", behavior: "instant"});
        const trace = plot._fullData.find(
            trace => trace.meta === name && trace.name.startsWith("goodput of"));
        const {xaxis} = plot._fullLayout, yaxis = plot._fullLayout[trace.yaxis.replace("y", "yaxis")];
        const top = trace.y.indexOf(Math.max(...trace.y)), box = plot.getBoundingClientRect();
        return [box.left + xaxis._offset + xaxis.d2p(trace.x[top]) + 1,
                box.top + yaxis._offset + yaxis.d2p(trace.y[top])];
    """
    for keeps in (True, False):
        x, y = browser.execute_script(place, crowd_plot, coloured.removeprefix("goodput of "))
        pointer = ActionChains(browser)
        pointer.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        pointer.perform()
        WebDriverWait(browser, PATIENCE_S).until(
            lambda _: crowd_plot.find_elements(By.CSS_SELECTOR, ".hovertext")
        )
        pointed = highlighted(browser, crowd_plot)
        assert len(pointed) == 1
        ActionChains(browser).click().perform()
        until(pointed if keeps else set())
        ActionChains(browser).move_to_element(select).perform()
        until(pointed if keeps else set())
        assert {select.get_property("value")} == (pointed if keeps else {""})
    assert browser.get_log("browser") == []
