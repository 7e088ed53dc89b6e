#!/usr/bin/env python3
"""Measure how long the lab takes from a knob to its picture: wall time in the browser, in milliseconds.

    .venv/bin/python benches/lab.py [--turns 50]

A slider of the lab's page moves to another place, again and again; each time counts until the new picture is
drawn. The first scenario is a minute of one download over the link of the preset `umts`, the second has 20
flows on 20 Mbit/s. It needs the packages that `make test` installs.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from report import browser

SCENARIOS = {
    "umts, 60 s": """
        [down]
        link = { rate = "1600 kbit/s", delay = "150 ms" }
        queue.limit = "100 kB"
        [up]
        link = { rate = "768 kbit/s", delay = "150 ms" }
        queue.limit = "50 kB"
        [[flow]]
        kind = "bulk-tcp"
        duration = "60 s"
    """,
    "20 flows, 20 Mbit/s": """
        time_limit = "20 s"
        [down.link]
        rate = "20 Mbit/s"
        delay = "20 ms"
        [[flow]]
        kind = "bulk-tcp"
        count = 20
        duration = "10 s"
    """,
}
# Resolves to the milliseconds until the page has drawn once more. A frame later it is on the screen.
TURN = """
const [path, place, done] = arguments;
const slider = document.querySelector(`[data-path="${path}"] input[type=range]`);
const drawn = lab.shown, since = performance.now();
slider.value = place;
slider.dispatchEvent(new Event("input", {bubbles: true}));
const wait = () => lab.shown > drawn ? done(performance.now() - since) : requestAnimationFrame(wait);
requestAnimationFrame(wait);
"""
KNOB = """
const row = [...document.querySelectorAll("[data-path]")].find(one => one.dataset.path.includes("limit"));
const slider = row.querySelector("input[type=range]");
return [row.dataset.path, Number(slider.min), Number(slider.max)];
"""
FIRST_TURNS = 5
PAUSE = "setTimeout(arguments[0], 450)"


def turned(scenario: str, turns: int) -> list[float]:
    """Return the milliseconds of each turn of the knob for the queue's limit."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scenario.toml")
        file.write_text(scenario, encoding="utf-8")
        command = [sys.executable, "-m", "lasthop.commands.cli", "lab", str(file), "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, browser() as driver:
            assert server.stdout is not None
            driver.get(server.stdout.readline().strip())
            driver.set_script_timeout(60)
            driver.execute_async_script(
                "const wait = () => lab.shown ? arguments[0]() : setTimeout(wait, 50); wait();"
            )
            path, least, most = driver.execute_script(KNOB)
            times = []
            for number in range(FIRST_TURNS + turns):
                place = least + (most - least) * (0.3 + 0.4 * (number % 7) / 7)
                times.append(float(driver.execute_async_script(TURN, path, round(place))))
                driver.execute_async_script(PAUSE)  # meanwhile the story is told, as for a person who looks
            server.terminate()
    return times[FIRST_TURNS:]


def main() -> None:
    """Measure both scenarios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=50, help="turns of the knob; default %(default)s")
    turns = parser.parse_args().turns
    print(f"{'scenario':20} {'median':>7} {'least':>6} {'most':>6}   of {turns}, ms")
    for name, scenario in SCENARIOS.items():
        times = turned(scenario, turns)
        print(f"{name:20} {statistics.median(times):7.0f} {min(times):6.0f} {max(times):6.0f}")


if __name__ == "__main__":
    main()
