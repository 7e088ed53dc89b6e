"""The documentation site that `make docs` has built: every link leads somewhere, and a browser shows it, offline."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from browser import PATIENCE_S, requested, start_chrome, window

pytestmark = pytest.mark.site

SITE = Path(__file__).resolve().parents[2] / "results" / "site" / "html"
PAGES = (
    "index",
    "tutorial",
    "concepts/pacing",
    "generated/gallery/bufferbloat",
    "generated/gallery/queue-length",
    "generated/keys",
    "help",
    "validation",
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
        unseen = "return [...document.images].filter(image => image.loading !== 'lazy' && !image.naturalWidth).length"
        assert chrome.execute_script(unseen) == 0
    assert chrome.get_log("browser") == []
    assert [address for address in requested(chrome) if not address.startswith(SITE.as_uri())] == []


def test_the_notebook_has_run_and_shows_progress_pictures_and_tables(chrome: webdriver.Chrome) -> None:
    chrome.get((SITE / "generated/gallery/queue-length.html").as_uri())
    cells = chrome.find_elements(By.CSS_SELECTOR, ".cell_output")
    bars = [bar.get_attribute("value") for bar in chrome.find_elements(By.CSS_SELECTOR, ".cell_output progress")]
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
