"""The report in a real browser: Debian's chromium, driven by its chromedriver. Without them these tests fail."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "two-flows.toml"
BROWSER = Path("/usr/bin/chromium")
DRIVER = Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1280,1000",
)
# A limit, not a goal: a test that meets it has waited in vain.
PATIENCE_S = 60

Range = tuple[float, float]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    for program in (BROWSER, DRIVER):
        assert program.exists(), f"{program} is missing: install the packages chromium and chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # chromium refuses to run as root with it
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def report(tmp_path: Path, lasthop_main: Callable[..., int]) -> Path:
    out = tmp_path / "out"
    assert lasthop_main("run", EXAMPLE, "--replications", 2, "--out", out, "--quiet") == 0
    return out / "report.html"


@pytest.fixture
def trace_plot(browser: webdriver.Chrome, report: Path) -> WebElement:
    """Return the first time-sequence plot of the report, drawn and in view."""
    browser.get("about:blank")  # in place of the new tab, whose own requests are none of the report's
    browser.get_log("performance")
    browser.get(report.as_uri())
    plot = browser.find_element(By.CSS_SELECTOR, "#traces .plot")
    browser.execute_script("arguments[0].scrollIntoView({block: 'start', behavior: 'instant'})", plot)
    WebDriverWait(browser, PATIENCE_S).until(lambda _: plot.find_elements(By.CSS_SELECTOR, ".nsewdrag"))
    return plot


def axis_ranges(browser: webdriver.Chrome, plot: WebElement) -> tuple[Range, Range]:
    """Return the ranges of the first panel's axes: seconds, and kilobytes."""
    x, y = browser.execute_script("return ['xaxis', 'yaxis'].map(name => arguments[0]._fullLayout[name].range)", plot)
    return (x[0], x[1]), (y[0], y[1])


def requested(browser: webdriver.Chrome) -> list[str]:
    """Return the addresses asked for since the last call, without what the page holds itself."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    addresses = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [address for address in addresses if urlsplit(address).scheme not in ("data", "blob")]


def test_report_draws_offline_and_asks_for_itself_alone(
    browser: webdriver.Chrome, trace_plot: WebElement, report: Path
) -> None:
    names = browser.execute_script("return arguments[0].data.map(trace => trace.name)", trace_plot)
    assert {"segment sent", "acknowledged", "SACK block", "dropped: queue full"} <= set(names)
    assert len(trace_plot.find_elements(By.CSS_SELECTOR, ".scatterlayer .trace")) >= 4
    assert browser.get_log("browser") == []
    assert requested(browser) == [report.as_uri()]


def test_dragging_zooms_and_a_double_click_goes_back(browser: webdriver.Chrome, trace_plot: WebElement) -> None:
    whole = axis_ranges(browser, trace_plot)
    panel = trace_plot.find_element(By.CSS_SELECTOR, ".nsewdrag")
    # Offsets count from the panel's centre: from there to the middle of its upper right quarter.
    right, up = panel.size["width"] // 4, panel.size["height"] // 4
    ActionChains(browser).move_to_element(panel).click_and_hold().move_by_offset(right, -up).release().perform()
    WebDriverWait(browser, PATIENCE_S).until(lambda _: axis_ranges(browser, trace_plot) != whole)
    for before, after in zip(whole, axis_ranges(browser, trace_plot), strict=True):
        span = before[1] - before[0]
        assert after[0] == pytest.approx(before[0] + span / 2, abs=span / 50)
        assert after[1] == pytest.approx(before[0] + span * 3 / 4, abs=span / 50)

    ActionChains(browser).move_to_element(panel).double_click().perform()
    WebDriverWait(browser, PATIENCE_S).until(lambda _: axis_ranges(browser, trace_plot) == whole)
    assert browser.get_log("browser") == []


def test_pointing_at_a_mark_shows_a_label(browser: webdriver.Chrome, trace_plot: WebElement) -> None:
    panel = trace_plot.find_element(By.CSS_SELECTOR, ".nsewdrag")
    # A segment in the middle of the first flow, as an offset in pixels from the panel's centre.
    x, y = browser.execute_script(
        """
        const [plot, panel] = arguments, {xaxis, yaxis} = plot._fullLayout;
        const sent = plot.data.findIndex(trace => trace.name === "segment sent");
        const point = plot.calcdata[sent][Math.floor(plot.calcdata[sent].length / 2)];
        const box = panel.getBoundingClientRect();
        return [xaxis.c2p(point.x) - box.width / 2, yaxis.c2p(point.y) - box.height / 2];
        """,
        trace_plot,
        panel,
    )
    assert not trace_plot.find_elements(By.CSS_SELECTOR, ".hoverlayer .hovertext")
    ActionChains(browser).move_to_element_with_offset(panel, round(x), round(y)).perform()
    label = WebDriverWait(browser, PATIENCE_S).until(
        lambda _: trace_plot.find_elements(By.CSS_SELECTOR, ".hoverlayer .hovertext")
    )
    assert label[0].text
    assert browser.get_log("browser") == []
