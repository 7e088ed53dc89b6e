#!/usr/bin/env python3
"""Measure what opening a report costs the browser: processor time of the page's main thread, in seconds.

    .venv/bin/python benches/report.py results/kulve2003/report.html [...]

Debian's chromium opens each report three times with an empty profile, so that nothing is compiled or cached
yet. "open" is until the page is there, "drawn" until the first figure of the agreement with the published
numbers is as well. It needs the packages that `make test` installs.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

REPETITIONS = 3
PATIENCE_S = 60


def browser() -> webdriver.Chrome:
    """Return a browser with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1000"):
        options.add_argument(flag)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # chromium refuses to run as root with it
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def cost(driver: webdriver.Chrome) -> float:
    """Return the processor time that the page's main thread has taken, in seconds."""
    metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")


def opened(report: Path) -> tuple[float, float]:
    """Return the seconds until the report is open, and until its first figure of agreement is drawn."""
    with browser() as driver:
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        driver.get(report.resolve().as_uri())
        there = cost(driver)
        plot = driver.find_element(By.CSS_SELECTOR, "#agreement .plot")
        driver.execute_script("arguments[0].scrollIntoView({block: 'start', behavior: 'instant'})", plot)
        WebDriverWait(driver, PATIENCE_S).until(lambda _: plot.find_elements(By.CSS_SELECTOR, ".nsewdrag"))
        return there, cost(driver)


def main() -> None:
    """Measure each report that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT", help="report.html of a study")
    reports = parser.parse_args().reports
    print(f"{'report':40} {'MB':>5} {'open':>6} {'drawn':>6}   median of {REPETITIONS}, processor seconds")
    for report in reports:
        there, drawn = zip(*(opened(report) for _ in range(REPETITIONS)), strict=True)
        megabytes = report.stat().st_size / 1e6
        print(
            f"{report!s:40} {megabytes:5.1f} {statistics.median(there):6.2f} {statistics.median(drawn):6.2f}"
        )


if __name__ == "__main__":
    main()
