#!/usr/bin/env python3
"""Measure how long a class waits for the lab: wall time of the answers to many students, in milliseconds.

    .venv/bin/python benches/lab_class.py [--students 60] [--seconds 60] [--think 5]

It starts `lasthop lab examples/bufferbloat.toml --listen 127.0.0.1:PORT`. Each student changes the limit of
the queue, waits for the run, asks for its story 0.35 s later as the page does, and thinks for a random time
around --think (half to one and a half times as long). Then all students ask for a run at the same moment,
five times. No browser draws. The students' requests use the same cores as the lab.

The processor time of a run includes the lab's server, and depends less than the waits on other programs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from lasthop.common.processes import process_of

SCENARIO = Path(__file__).resolve().parent.parent / "examples" / "bufferbloat.toml"
BEFORE_STORY_S = 0.35
ROUNDS = 5
OVERTAKEN = 409


class Student:
    """A session of the lab's page."""

    def __init__(self, address: str, number: int) -> None:
        parts = urlsplit(address)
        self._host = parts.netloc
        self._headers = {
            "content-type": "application/json",
            "x-lasthop-token": parse_qs(parts.query)["token"][0],
        }
        self._text = SCENARIO.read_text(encoding="utf-8")
        self._random = random.Random(number)
        _, joined = self._post("/join", {"name": f"student {number}"})
        self._headers["x-lasthop-student"] = json.loads(joined)["ticket"]

    def _post(self, path: str, question: dict[str, object]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._host, timeout=300)
        connection.request("POST", path, json.dumps(question), self._headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    def look(self) -> float:
        """Change the limit of the queue; return the milliseconds until the run has arrived."""
        limit = f'limit = "{self._random.randint(5, 200)} packets"'
        self._text = self._text.replace('limit = "100 packets"', limit)
        began = time.perf_counter()
        status, _ = self._post("/ask", {"ask": "look", "text": self._text})
        assert status == 200, status
        return 1000 * (time.perf_counter() - began)

    def story(self) -> bool:
        """Ask for the story; return whether it arrived before the next run made it useless."""
        status, _ = self._post("/ask", {"ask": "story", "text": self._text})
        assert status in (200, OVERTAKEN), status
        return status == 200

    def work(self, until: float, think_s: float) -> tuple[list[float], list[bool]]:
        """Change, look and think until a time; return the milliseconds of runs, and whether stories came."""
        times: list[float] = []
        stories: list[bool] = []
        time.sleep(self._random.uniform(0, think_s))
        threads = []
        while time.monotonic() < until:
            times.append(self.look())
            think = self._random.uniform(0.5, 1.5) * think_s
            time.sleep(min(BEFORE_STORY_S, think))
            threads.append(threading.Thread(target=lambda: stories.append(self.story())))
            threads[-1].start()
            time.sleep(max(think - BEFORE_STORY_S, 0))
        for thread in threads:
            thread.join()
        return times, stories


def shown(name: str, times: Sequence[float]) -> None:
    """Print a line with the quantiles of times."""
    ordered = statistics.quantiles(times, n=20)
    print(f"{name:24} {statistics.median(times):7.0f} {ordered[-1]:7.0f} {max(times):7.0f}   of {len(times)}")


def processor_s(server: int) -> float:
    """Return the processor time of the lab's processes so far."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text(encoding="ascii").split()
    return sum(each.processor_s for each in map(process_of, [server, *map(int, children)]) if each)


def measured(server: int, address: str, count: int, seconds: float, think_s: float) -> None:
    """Measure a lesson, and a class that asks at once."""
    with ThreadPoolExecutor(count) as class_:

        def all_of(action: Callable[[Student], float]) -> list[float]:
            return list(class_.map(action, students))

        students = list(class_.map(lambda number: Student(address, number), range(count)))
        until = time.monotonic() + seconds
        work = list(class_.map(lambda student: student.work(until, think_s), students))
        times = [each for own, _ in work for each in own]
        stories = [each for _, own in work for each in own]
        print(f"{'ms until a run arrives':24} {'median':>7} {'p95':>7} {'most':>7}")
        shown(f"{think_s:g} s between changes", times)
        print(f"{'':24} {len(times) / seconds:.1f} runs/s, {sum(stories)} of {len(stories)} stories arrived")
        before = processor_s(server)
        times = [each for _ in range(ROUNDS) for each in all_of(Student.look)]
        shown("all at the same moment", times)
        print(f"processor time of a run: {1000 * (processor_s(server) - before) / len(times):.0f} ms")


def main() -> None:
    """Start the lab and measure it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--students", type=int, default=60, help="default %(default)s")
    parser.add_argument("--seconds", type=float, default=60, help="duration; default %(default)g")
    parser.add_argument(
        "--think", type=float, default=5, help="mean time between changes; default %(default)g"
    )
    options = parser.parse_args()
    print("load average before:", *(f"{load:.1f}" for load in os.getloadavg()))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "lasthop.commands.cli", "lab", str(SCENARIO), "--no-browser"]
        command += ["--listen", "127.0.0.1:0", "--key", str(Path(folder, "class.key"))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                address = server.stdout.readline().strip()
                measured(server.pid, address, options.students, options.seconds, options.think)
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
