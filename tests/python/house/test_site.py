"""The documentation site that `make docs` has built: every link leads somewhere, and a browser shows it,
offline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from browser import PATIENCE_S, requested, start_chrome, window
from lasthop.scenario.examples import list_examples, title
from lasthop.scenario.points import parse_study

SHORT = """
down.link = { rate = "1 Mbit/s", delay = "50 ms" }
down.queue.red = { min = "2 packets", max = "7 packets", max_probability = 0.1, \
weight = 0.002, avpkt = "1000 B" }
errors = { good = "1 s", bad = "1 s", packet_error_probability = 0.5, \
arq = { retransmissions = 1, delay = "1 s" } }
[[flow]]
kind = "bulk-tcp"
bytes = "1 MB"
"""

pytestmark = pytest.mark.site

SITE = Path(__file__).resolve().parents[3] / "results" / "site" / "html"
PAGES = (
    "index",
    "start/tutorial",
    "start/concepts/pacing",
    "guides/queues",
    "reference/links",
    "generated/gallery/index",
    "generated/gallery/bufferbloat",
    "generated/gallery/queue-length",
    "generated/keys",
    "reference/help",
    "validation/index",
)


class Page(HTMLParser):
    """The links of a page, and the places in it that links may lead to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.places.add(value)


def leads(file: Path, link: str, pages: dict[Path, Page]) -> bool:
    """Say whether the link of a file leads to a file, and to a place in it if it names one."""
    parts = urlsplit(link)
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not parts.fragment or target not in pages:
        return target.is_file()
    return unquote(parts.fragment) in pages[target].places


def test_every_link_leads_somewhere() -> None:
    pages = {file: Page(file) for file in SITE.rglob("*.html")}
    assert len(pages) > 60
    broken = [
        f"{file.relative_to(SITE)}: {link}"
        for file, page in pages.items()
        for link in page.links
        if not urlsplit(link).scheme and link != "#" and not leads(file, link, pages)
    ]
    assert broken == []


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with start_chrome(tmp_path_factory.mktemp("profile")) as driver:
        driver.get("about:blank")
        requested(driver)  # by the browser itself, when it started
        yield driver


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_the_window_and_asks_for_nothing_elsewhere(chrome: webdriver.Chrome, page: str) -> None:
    for width in (1400, 500):
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(width))
        chrome.get((SITE / f"{page}.html").as_uri())
        assert chrome.execute_script("return document.documentElement.scrollWidth - window.innerWidth") <= 0
        unseen = (
            "return [...document.images].filter(image => image.loading !== 'lazy' && "
            "!image.naturalWidth).length"
        )
        assert chrome.execute_script(unseen) == 0
    assert chrome.get_log("browser") == []
    assert [address for address in requested(chrome) if not address.startswith(SITE.as_uri())] == []


def test_the_gallery_has_a_picture_of_every_example(chrome: webdriver.Chrome) -> None:
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(1400))
    chrome.get((SITE / "generated/gallery/index.html").as_uri())
    cards = chrome.find_elements(By.CSS_SELECTOR, ".gallery a")
    shown = [file for file in list_examples().values() if file.parent.name != "check"]
    assert [card.find_element(By.TAG_NAME, "span").text for card in cards] == list(map(title, shown))
    for card in cards:
        picture = card.find_element(By.TAG_NAME, "img")
        assert picture.get_attribute("loading") == "lazy"
        chrome.execute_script("arguments[0].scrollIntoView()", picture)
        WebDriverWait(chrome, PATIENCE_S).until(
            lambda _, picture=picture: picture.get_property("naturalWidth")
        )
    pictures = list((SITE / "_images").glob("thumbnail-*"))
    assert len(pictures) == len(cards)
    assert max(picture.stat().st_size for picture in pictures) < 40_000


def test_the_landing_page_says_how_to_install(chrome: webdriver.Chrome) -> None:
    chrome.get((SITE / "index.html").as_uri())
    said = chrome.find_element(By.CSS_SELECTOR, ".highlight-console").text
    assert "pip install" in said
    assert "lasthop example copy queue" in said


def test_the_reference_of_keys_goes_through_a_file_by_its_names(chrome: webdriver.Chrome) -> None:
    chrome.get((SITE / "generated/keys.html").as_uri())
    headings = [heading.text.rstrip("#¶") for heading in chrome.find_elements(By.TAG_NAME, "h2")]
    wanted = [
        "The file",
        "lan",
        "down",
        "down.queue",
        "down.link",
        "hop.NAME",
        "tcp",
        "flow[bulk-tcp]",
        "sample",
    ]
    assert [heading for heading in headings if heading in wanted] == wanted
    takes = {
        term.text: term.find_element(By.XPATH, "following-sibling::dd").text
        for term in chrome.find_elements(By.TAG_NAME, "dt")
    }
    assert takes["down.link.rate"] == 'rate, such as "64 kbit/s"; needed'
    assert takes["down.queue.limit"] == 'queue size, such as "20 packets"; assumed'
    assert takes["seed"] == "whole number; default 1"
    assert takes["tcp.sack"] == "true, false; default true"
    assert "fq_codel" in takes["down.queue.discipline"]
    assert takes["flow[bulk-tcp].bytes"].startswith("bytes")
    (cell,) = parse_study(SHORT).cells
    unknown = [path for path in _paths(json.loads(cell.scenario)) if path not in takes]
    assert unknown == []
    assert "Config" not in chrome.find_element(By.TAG_NAME, "article").text


def _paths(scenario: object, before: str = "") -> Iterator[str]:
    """Yield the paths of a scenario's keys, those of `up` by those of `down`, and of flows by their kind."""
    if isinstance(scenario, list):
        for flow in scenario:
            yield from (f"{before}[{flow['kind']}].{key}" for key in flow)
    elif isinstance(scenario, dict):
        for key, value in scenario.items():
            if key != "up":
                yield f"{before}.{key}".lstrip(".")
                yield from _paths(value, f"{before}.{key}".lstrip("."))


def test_the_notebook_has_run_and_shows_progress_pictures_and_tables(chrome: webdriver.Chrome) -> None:
    chrome.get((SITE / "generated/gallery/queue-length.html").as_uri())
    cells = chrome.find_elements(By.CSS_SELECTOR, ".cell_output")
    bars = [
        bar.get_attribute("value") for bar in chrome.find_elements(By.CSS_SELECTOR, ".cell_output progress")
    ]
    assert bars == ["60", "20"]
    assert len(chrome.find_elements(By.CSS_SELECTOR, ".cell_output img")) == 4
    assert len(chrome.find_elements(By.CSS_SELECTOR, ".cell_output table")) == 3
    for words in ("Flows: median of 10 replications", "Slow start, cwnd 10", "factor"):
        assert any(words in cell.text for cell in cells), words


def test_the_search_finds_pages_offline(chrome: webdriver.Chrome) -> None:
    chrome.get((SITE / "search.html").as_uri() + "?q=lock-out")
    found = WebDriverWait(chrome, PATIENCE_S).until(
        lambda _: chrome.find_elements(By.CSS_SELECTOR, "#search-results li a")
    )
    assert any("lock-out" in str(link.get_attribute("href")) for link in found)
    assert chrome.get_log("browser") == []
