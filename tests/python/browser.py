"""Debian's chromium, driven by its chromedriver. Without them the tests that need them fail."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

from selenium import webdriver

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
# A test that reaches this limit fails.
PATIENCE_S = 60


def start_chrome(profile: Path) -> webdriver.Chrome:
    """Start the browser with an empty profile; it quits at the end of a `with`."""
    for program in (BROWSER, DRIVER):
        assert program.exists(), f"{program} is missing: install the packages chromium and chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # chromium refuses to run as root with it
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))


def window(width: int) -> dict[str, object]:
    """Return the option that sets the size of the window.

    The browser's own is never narrower than 500 pixels.
    """
    return {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}


def requested(browser: webdriver.Chrome) -> list[str]:
    """Return the addresses requested since the last call, without contents of the page itself."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    addresses = [
        m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"
    ]
    return [address for address in addresses if urlsplit(address).scheme not in ("data", "blob")]
