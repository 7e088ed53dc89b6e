"""The lab: its answers, its refusals, and its page in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from browser import PATIENCE_S, requested, start_chrome, window
from lasthop import _core
from lasthop.commands.cli import main
from lasthop.common.errors import InputError
from lasthop.present.lab import desk as desk_module
from lasthop.present.lab import tale as tale_module
from lasthop.present.lab.controls import controls
from lasthop.present.lab.desk import Desk
from lasthop.present.lab.editing import edit
from lasthop.present.lab.keeper import Keeper, Lost
from lasthop.present.lab.lessons import Lesson, lessons
from lasthop.present.lab.opened import FIRST_SCENARIO, Opened
from lasthop.present.lab.picture import split
from lasthop.scenario.toml import to_toml
from observing import traced

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
SCENARIO = """\
# What does a longer queue do?
title = "A short queue and a long one"
replications = 3

[down.link]
rate = "1 Mbit/s"  # slow
delay = "50 ms"

[[flow]]
kind = "bulk-tcp"
name = "first"
bytes = "400 kB"

[[flow]]
kind = "bulk-tcp"
name = "second"
bytes = "400 kB"
start = { distribution = "uniform", min = "0 s", max = "1 s" }

[factor.queue]
short.down.queue.limit = "10 packets"
long.down.queue.limit = "60 packets"
"""


def look(text: str, opened: Opened | None = None, **question: object) -> dict[str, Any]:
    """Return the header of the answer to a question of the page."""
    desk = Desk(opened or Opened(text), lambda: False)
    return split(desk.answer({"ask": "look", "text": text, **question}))[0]


def errors(header: dict[str, Any]) -> str:
    return " ".join(error["text"] for error in header["errors"])


# ---- Controls and text ----


def test_every_control_says_what_the_text_says_and_can_be_set_to_that() -> None:
    for name in ("bufferbloat", "web-page", "diffserv"):
        text = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8")
        study = _core.parse(text, name)
        cell = study.cells[-1]
        found = controls(json.loads(cell.scenario))
        assert {"down.link.rate", "tcp.congestion_control", "tcp.pacing"} <= {
            control["path"] for control in found
        }
        for control in found:
            assert control["help"], control
            changed = edit(text, control["path"], control["value"], cell.levels)
            if control["path"].endswith((".count", ".profile")):
                continue  # a count of one numbers the flow; a profile turns nothing off unless it is stated
            again = next(each for each in _core.parse(changed, name).cells if each.key == cell.key)
            values = {each["path"]: each["value"] for each in controls(json.loads(again.scenario))}
            assert values[control["path"]] == control["value"]


def test_a_control_changes_the_level_that_states_its_value() -> None:
    text = edit(SCENARIO, "down.queue.limit", "20 packets", {"queue": "long"})
    assert text == SCENARIO.replace("60 packets", "20 packets")
    assert edit(SCENARIO, "down.link.rate", "2 Mbit/s", {"queue": "long"}) == SCENARIO.replace(
        '"1 Mbit/s"  # slow', '"2 Mbit/s"  # slow'
    )


def test_a_control_of_the_only_hop_changes_the_keys_at_the_top() -> None:
    text = (
        '[down.link]\nrate = "1 Mbit/s"\ndelay = "1 ms"\n'
        '[[flow]]\nkind = "bulk-tcp"\nbytes = "1 MB"\nrelay = {}\n'
    )
    (cell,) = _core.parse(text, "relay").cells
    path = "hop.last-hop.down.link.rate"
    assert path in {control["path"] for control in controls(json.loads(cell.scenario))}
    assert edit(text, path, "2 Mbit/s", {}) == text.replace("1 Mbit/s", "2 Mbit/s")


LAYOUTS = (
    '# a comment\ndown.link = {{ rate = "{rate}", delay = "1 ms" }}\n',
    '[down.link]\nrate = "{rate}"   # a comment\ndelay = "1 ms"\n',
    '[down]\nlink.rate = "{rate}" # a comment\nlink.delay = "1 ms"\n',
)


@given(
    layout=st.sampled_from(LAYOUTS),
    kbits=st.integers(1, 10**6),
    path=st.sampled_from(["down.link.rate", "down.queue.limit", "tcp.congestion_control", "flow.0.bytes"]),
)
def test_any_layout_keeps_its_comments_and_gets_the_value(layout: str, kbits: int, path: str) -> None:
    text = layout.format(rate=f"{kbits} kbit/s") + '[[flow]]\nkind = "bulk-tcp"\nbytes = "1 MB"\n'
    value = {"down.link.rate": "7 kbit/s", "down.queue.limit": "7 packets", "flow.0.bytes": "7 kB"}.get(
        path, "reno"
    )
    changed = edit(text, path, value, {})
    found: Any = tomlkit.parse(changed)
    for key in path.split("."):
        found = found[int(key) if key.isdigit() else key]
    assert found == value
    assert "# a comment" in changed
    assert _core.parse(changed, "changed").cells


def test_what_is_not_in_the_text_is_not_changed() -> None:
    with pytest.raises(InputError, match=r"`flow.3.bytes` is not set in this text"):
        edit(SCENARIO, "flow.3.bytes", "1 kB", {})
    with pytest.raises(InputError, match="not valid TOML"):
        edit("[", "mtu", "1500 B", {})


def test_an_error_has_its_line_and_the_text_follows_the_control() -> None:
    header = look(SCENARIO, changes=[{"path": "down.link.rate", "value": "fast"}])
    assert header["text"] == SCENARIO.replace("1 Mbit/s", "fast")
    assert header["errors"][0]["line"] == 6
    assert "fast" in errors(header)


# ---- Runs ----


def test_a_run_is_that_of_the_cell_and_replication_with_all_its_numbers() -> None:
    study = _core.parse(SCENARIO, "scenario")
    header, numbers = split(
        Desk(Opened(SCENARIO), lambda: False).answer(
            {"ask": "look", "text": SCENARIO, "levels": {"queue": "long"}, "replication": 2}
        )
    )
    cell = next(cell for cell in study.cells if cell.levels == {"queue": "long"})
    flows = cell.run(study.seed, 2, 1).flows
    told = {part["of"]: {m["name"]: m["value"] for m in part["metrics"]} for part in header["measures"]}
    assert told["second"]["elapsed_s"] == flows["elapsed_s"][1]
    assert [panel["kind"] for panel in header["panels"]] == [
        "sequence",
        "sequence",
        "cwnd",
        "queue",
        "goodput",
        "rtt",
    ]
    places = [
        layer[axis] for panel in header["panels"] for layer in panel["layers"] for axis in ("x", "y", "far")
    ]
    assert len(numbers) == 4 * sum(length for _, length in filter(None, places))
    drops = [
        layer
        for panel in header["panels"]
        for layer in panel["layers"]
        if header["marks"][layer["mark"]]["about"]
    ]
    assert drops


def test_a_story_knows_the_times_of_its_drops_and_the_lives_of_the_packets() -> None:
    header, _ = split(Desk(Opened(SCENARIO), lambda: False).answer({"ask": "story", "text": SCENARIO}))
    drops = [life for life in header["lives"] if life["about"] == "drop"]
    assert drops
    for drop in drops:
        story = next(story for story in header["stories"] if story["of"] == drop["flow"])
        spoken = [entry for entry in story["entries"] if any(abs(at - drop["at"]) < 1e-9 for at in entry[2])]
        assert any("loss" in entry[1].lower() for entry in spoken), drop
        assert drop["life"]["steps"][-1][2].startswith("dropped")


def told(desk: Desk, span: object = None, text: str = SCENARIO) -> dict[str, Any]:
    """Return the desk's story, or its part between two times."""
    return split(desk.answer({"ask": "story", "text": text, **({} if span is None else {"span": span})}))[0]


MIXED = (
    SCENARIO.partition("[factor")[0]
    + """
[[flow]]
kind = "bulk-tcp"
name = "third"
stack = "quic"
bytes = "200 kB"

[[flow]]
kind = "voip"
name = "call"
duration = "5 s"
"""
)


def test_the_parts_of_a_story_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = told(Desk(Opened(MIXED), lambda: False), text=MIXED)
    assert set(whole) == {"text", "stories", "lives"}
    monkeypatch.setattr(tale_module, "MOST_PACKETS", 400)
    desk = Desk(Opened(MIXED), lambda: False)
    parts, start, end = [], 0.0, 1e9
    while start < end:
        parts.append(told(desk, (start, 1e9), MIXED))
        part = parts[-1]["part"]
        assert part["start"] == start
        assert part["is_cut"] == (part["stop"] < part["end"])
        start, end = part["stop"], part["end"]
    assert len(parts) > 4
    for number, story in enumerate(whole["stories"]):
        mine = [part["stories"][number] for part in parts]
        assert [entry for each in mine for entry in each["entries"]] == story["entries"]
        for place, each in enumerate(mine):
            known = [entry for earlier in mine[:place] for entry in earlier["entries"]]
            assert each.pop("before", []) == known[-1:]
            assert each | {"entries": []} == story | {"entries": []}
    lives = [life for part in parts for life in part["lives"]]
    assert sorted(lives, key=lambda life: life["at"]) == sorted(whole["lives"], key=lambda life: life["at"])


def test_a_long_run_is_told_from_its_start_and_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tale_module, "MOST_PACKETS", 400)
    runs: list[object] = []
    run = Desk._run
    monkeypatch.setattr(Desk, "_run", lambda *given: runs.append(given) or run(*given))
    desk = Desk(Opened(SCENARIO), lambda: False)
    first = told(desk)
    assert first["part"]["start"] == 0
    assert first["part"]["is_cut"]
    assert first == told(desk, (0.0, first["part"]["end"] * 1.01))
    inside = told(desk, (2.0, 2.5))
    assert inside["part"] == {"start": 2.0, "stop": 2.5, "end": first["part"]["end"], "is_cut": False}
    assert all(2 <= entry[0] < 2.5 for story in inside["stories"] for entry in story["entries"])
    assert len(runs) == 1
    again = told(desk, text=SCENARIO.replace("400 kB", "500 kB"))
    assert len(runs) == 2
    assert again["part"]["end"] > first["part"]["end"]


@pytest.mark.parametrize("span", [(float("nan"), 1.0), (1.0,), "ab", ("1", "2"), (-1e300, float("inf"))])
def test_no_span_harms_the_desk(span: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tale_module, "MOST_PACKETS", 400)
    header = told(Desk(Opened(SCENARIO), lambda: False), span)
    assert "cannot parse" in errors(header) if "errors" in header else header["part"]["start"] == 0


def test_a_run_that_nobody_can_follow_in_time_has_no_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tale_module, "MOST_PACKETS_OF_STORY", 1_000)
    assert "the lab has stories for runs of up to 1,000" in errors(
        told(Desk(Opened(SCENARIO), lambda: False))
    )


@pytest.mark.parametrize(
    ("kinds", "flow"),
    [
        (["bulk-tcp", "request-response", "http-page", "video", "voip"], "own-5"),
        (["bulk-tcp", "video", "http-page"], "own-2"),
        (["bulk-tcp", "request-response", "http-page"], "own-3/main"),
        (["bulk-tcp", "request-response"], "own-2"),
        (["constant-udp", "bulk-tcp", "bulk-tcp"], "own-2"),
        (["constant-udp"], "own-1"),
    ],
)
def test_the_flow_that_the_question_is_about_is_chosen_first(kinds: list[str], flow: str) -> None:
    more: dict[str, dict[str, object]] = {
        "bulk-tcp": {"bytes": "10 kB"},
        "constant-udp": {"rate": "10 kbit/s", "payload": "100 B", "duration": "1 s"},
        "http-page": {"main": "1 kB", "inline": "1 kB", "inline_count": 1},
        "request-response": {"response": "1 kB", "requests": 2},
        "video": {"bitrates": ["100 kbit/s"], "duration": "4 s"},
        "voip": {"duration": "1 s"},
    }
    own = [{"kind": kind, "name": f"own-{number}", **more[kind]} for number, kind in enumerate(kinds, 1)]
    link = {"rate": "4 Mbit/s", "delay": "10 ms"}
    http = {"protocol": "http1.0", "connections": 1, "request": "300 B", "response_header": "200 B"}
    pages = {"http": http} if "http-page" in kinds else {}
    text = to_toml({"down": {"link": link}, "up": {"link": link}, "flow": own, **pages})
    assert look(text)["flow"] == flow


def test_a_change_of_factor_finds_a_cell_that_has_it() -> None:
    text = (
        SCENARIO
        + '[factor.cc]\nreno.tcp.congestion_control = "reno"\ncubic = {}\n[[matrix]]\nqueue = ["short"]\n'
    )
    text += 'cc = ["reno"]\n[[matrix]]\nqueue = ["long"]\ncc = ["cubic"]\n'
    header = look(text, levels={"queue": "long", "cc": "reno"}, chosen="queue")
    assert header["levels"] == {"queue": "long", "cc": "cubic"}


# ---- Bounds ----


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('[down.link]\ntrace = "/etc/passwd"\n', "trace"),
        ('[down.link]\ncourse = "/etc/passwd"\n', "course"),
        ('extends = "/etc/passwd"\n', "extends"),
        ('[[flow]]\nkind = "replay"\nfile = "/etc/passwd"\n', "file"),
    ],
)
def test_a_text_reads_no_file_that_the_scenario_does_not_name(line: str, expected: str) -> None:
    header = look(line)
    assert f'`{expected}`: "/etc/passwd" is not one of the files that the opened scenario names' in errors(
        header
    )
    assert "root" not in json.dumps(header)


def test_a_text_names_no_code_that_the_scenario_does_not_name() -> None:
    header = look(SCENARIO, changes=[{"path": "tcp.congestion_control", "value": "python:antigravity.Fly"}])
    assert "'python:antigravity.Fly' is not code of the scenario that was opened" in errors(header)
    assert "antigravity" not in sys.modules


def test_the_files_and_code_of_the_opened_scenario_may_be_named() -> None:
    opened = Opened.named(str(EXAMPLES / "coexistence-bbr.toml"))
    assert opened.files == ("coexistence.toml",)
    assert len(look(opened.text, opened)["flows"]) == 4
    opened = Opened.named(str(EXAMPLES / "algorithms" / "own.toml"))
    assert "errors" not in look(opened.text, opened)


def test_a_link_without_flows_is_opened_with_a_download_and_may_extend_a_preset(tmp_path: Path) -> None:
    file = tmp_path / "link.toml"
    file.write_text("[down.link]\nrate = '1 Mbit/s'\ndelay = '10 ms'\n", encoding="utf-8")
    opened = Opened.named(str(file))
    assert [flow["name"] for flow in look(opened.text, opened)["flows"]] == ["download"]
    assert "errors" not in look(opened.text + "\n[tcp]\necn = true", opened)
    assert "errors" not in look('extends = "lte"\n', opened)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("flow.0.count", 10**9), "out of range; write from 1 to 1000"),
        (("time_limit", "9000000 h"), "too large for a duration"),
        (("replications", 10**12), "out of range"),
    ],
)
def test_what_nobody_can_compute_is_an_error(change: tuple[str, Any], expected: str) -> None:
    started = time.process_time()
    header = look(SCENARIO, changes=[{"path": change[0], "value": change[1]}])
    assert expected in errors(header)
    assert time.process_time() - started < 2


def test_a_run_that_computes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "MOST_SECONDS", 0.1)
    text = SCENARIO.replace('bytes = "400 kB"', 'duration = "10 min"').replace("1 Mbit/s", "100 Gbit/s")
    assert "The run was stopped after 0.1 s of processor time" in errors(look(text))


def test_a_worker_that_takes_too_long_is_replaced() -> None:
    async def ask() -> None:
        keeper = Keeper(Opened(SCENARIO), most_seconds=30)
        try:
            assert split(await keeper.ask({"ask": "look", "text": SCENARIO}))[0]["title"]
            first = await keeper.start()
            keeper._most_seconds = 0
            with pytest.raises(Lost, match="stopped after 0 s of processor time"):
                await keeper.ask({"ask": "look", "text": SCENARIO})
            await first.wait()
            keeper._most_seconds = 30
            assert (await keeper.start()).pid != first.pid
        finally:
            await keeper.close()

    asyncio.run(ask())


def test_a_worker_that_gets_no_processor_is_waited_for() -> None:
    async def ask() -> None:
        keeper = Keeper(Opened(SCENARIO), most_seconds=30)
        question = {"ask": "look", "text": SCENARIO}
        try:
            await keeper.ask(question)
            keeper._most_seconds = 1
            process = await keeper.start()
            process.send_signal(signal.SIGSTOP)
            answer = asyncio.create_task(keeper.ask(question))
            await asyncio.sleep(1.5)
            process.send_signal(signal.SIGCONT)
            assert split(await answer)[0]["title"]
        finally:
            await keeper.close()

    asyncio.run(ask())


# ---- Lessons ----


def of_lesson(lesson: Lesson, replication: int = 1, **changes: object) -> dict[str, dict[str, Any]]:
    """Return the flow records of a lesson's run by flow; changes by path, with two underscores for a dot."""
    text = lesson["scenario"]
    for path, value in changes.items():
        text = edit(text, path.replace("__", "."), value, {})  # type: ignore[arg-type]
    study = _core.parse(text, "lesson")
    flows = study.cells[0].run(study.seed, replication, 1).flows
    return {name: {key: flows[key][row] for key in flows} for row, name in enumerate(flows["flow"])}


def test_lessons_are_whole_and_their_knobs_are_controls() -> None:
    assert len(lessons()) == 6
    for lesson in lessons():
        header = look(lesson["scenario"])
        assert set(lesson["knobs"]) <= {control["path"] for control in header["controls"]}, lesson["title"]
        assert header["panels"]
        assert lesson["look_for"]
        assert lesson["questions"]


def test_slow_start_loses_half_of_its_last_round_trip() -> None:
    lesson = lessons()[0]
    study = _core.parse(lesson["scenario"], "lesson")
    trace = traced(study.cells[0], study.seed, 1, 1)
    drops = [
        ns
        for event, ns in zip(trace.packets["event"], trace.packets["time_ns"], strict=True)
        if "drop" in event
    ]
    early = [ns for ns in drops if ns < drops[0] + 2e9]
    sent = [
        ns
        for event, ns, way in zip(
            *(trace.packets[key] for key in ("event", "time_ns", "direction")), strict=True
        )
        if event == "sent" and way == "down" and early[0] <= ns <= early[-1]
    ]
    assert 0.4 < len(early) / len(sent) < 0.6
    assert len(drops) - len(early) <= 4
    assert of_lesson(lesson, down__queue__limit="120 packets")["download"]["data_drops_queue"] > 1.5 * len(
        drops
    )
    assert of_lesson(lesson, tcp__hystart_plus_plus=True)["download"]["data_drops_queue"] < len(drops) / 2


def test_the_late_flow_is_locked_out() -> None:
    lesson = lessons()[1]
    flows = of_lesson(lesson)
    assert flows["first"]["elapsed_s"] == pytest.approx(32, rel=0.05)
    assert flows["second"]["elapsed_s"] == pytest.approx(51, rel=0.05)
    fair = of_lesson(lesson, down__queue__discipline="fq_codel")
    assert fair["first"]["elapsed_s"] == pytest.approx(fair["second"]["elapsed_s"], rel=0.1)


def test_frto_saves_what_a_spurious_timeout_sends_again() -> None:
    lesson = lessons()[2]
    off, on = (of_lesson(lesson, tcp__frto=mode)["download"] for mode in ("off", "rfc4138"))
    assert off["spurious_timeouts"] >= 1
    assert off["unnecessary_retransmissions"] == pytest.approx(50, abs=3)
    assert on["unnecessary_retransmissions"] == 1
    assert on["elapsed_s"] < 0.7 * off["elapsed_s"]


def test_persistent_arq_loses_nothing_but_stalls() -> None:
    lesson = lessons()[3]
    for replication in (1, 2, 3):
        persistent = of_lesson(lesson, replication)["download"]
        assert persistent["data_drops_error"] == 0
        assert persistent["timeouts"] / 2 < persistent["spurious_timeouts"]
        weak = of_lesson(lesson, replication, errors__arq__retransmissions=1)["download"]
        assert weak["data_drops_error"] > 20
        assert weak["elapsed_s"] > persistent["elapsed_s"]


def test_fq_codel_saves_the_call_and_the_upload_pays_nothing() -> None:
    lesson = lessons()[4]
    bloated, saved = (of_lesson(lesson, up__queue__discipline=name) for name in ("drop-tail", "fq_codel"))
    assert bloated["call"]["mos"] < 2
    assert saved["call"]["mos"] > 4.3
    assert saved["upload"]["throughput_Bps"] == pytest.approx(bloated["upload"]["throughput_Bps"], rel=0.01)
    assert of_lesson(lesson, up__queue__limit="5 packets")["call"]["mos"] > 4.2
    short, long = (
        of_lesson(lesson, up__link__rate="20 Mbit/s", up__queue__limit=n)["upload"]
        for n in ("5 packets", "100 packets")
    )
    assert short["throughput_Bps"] < 0.95 * long["throughput_Bps"]


def test_the_queue_decides_between_bbr_and_cubic() -> None:
    lesson = lessons()[5]
    short, long = (of_lesson(lesson, down__queue__limit=limit) for limit in ("40 packets", "1000 packets"))
    assert short["bbr"]["throughput_Bps"] > 3 * short["cubic"]["throughput_Bps"]
    assert long["cubic"]["throughput_Bps"] > 3 * long["bbr"]["throughput_Bps"]
    fair = of_lesson(lesson, down__queue__discipline="fq_codel")
    assert fair["cubic"]["throughput_Bps"] == pytest.approx(fair["bbr"]["throughput_Bps"], rel=0.2)


# ---- The server ----


@dataclass(frozen=True)
class Server:
    """A lab that runs."""

    address: str
    results: Path
    process: subprocess.Popen[str]

    @property
    def base(self) -> str:
        return self.address.partition("?")[0]

    @property
    def token(self) -> str:
        return self.address.rpartition("=")[2]

    def ask(self, path: str, data: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        request = urllib.request.Request(
            self.base + path, data, {name.replace("_", "-"): text for name, text in headers.items()}
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("lab")
    file, results = folder / "lab.toml", folder / "results"
    file.write_text(SCENARIO, encoding="utf-8")
    assert main(["run", str(file), "--out", str(results), "--quiet"]) == 0
    command = [sys.executable, "-m", "lasthop.commands.cli", "lab", "--no-browser", str(results)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", address)
        yield Server(address, results, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) in (0, 130)


def test_nobody_gets_anything_without_the_token(server: Server) -> None:
    question = json.dumps({"ask": "look", "text": SCENARIO}).encode()
    own, host = server.token, server.base.removeprefix("http://").rstrip("/")
    for path, data, headers in [
        ("", None, {}),
        ("?token=", None, {}),
        ("?token=" + own[:-1], None, {}),
        ("ask", question, {}),
        ("ask", question, {"x_lasthop_token": "guess"}),
        (f"ask?token={own}", question, {}),
        ("ask", question, {"x_lasthop_token": own, "host": "localhost:80"}),
        ("ask", question, {"x_lasthop_token": own, "host": f"evil.example:{host.rpartition(':')[2]}"}),
        ("ask", question, {"x_lasthop_token": own, "origin": "http://evil.example"}),
        ("results", b"{}", {}),
        ("nothing", None, {}),
    ]:
        assert server.ask(path, data, **headers) == (403, b""), (path, headers)
    assert server.ask("ask", question, x_lasthop_token=own, origin=f"http://{host}")[0] == 200
    assert server.ask(f"?token={own}")[0] == 200


def test_the_server_lives_on_after_bad_questions(server: Server) -> None:
    own = {"x_lasthop_token": server.token}
    long = json.dumps({"ask": "look", "text": SCENARIO + "#" * 2**20}).encode()
    status, said = server.ask("ask", long, **own)
    assert (status, b"too large" in said) == (413, True)
    assert server.ask("ask", json.dumps({"ask": "shutdown"}).encode(), **own)[0] == 400
    assert server.ask("ask", b"[" * 100_000, **own)[0] == 400
    odd = {"ask": "look", "text": SCENARIO, "levels": 5, "changes": [{"value": 1}], "replication": "many"}
    status, answer = server.ask("ask", json.dumps(odd).encode(), **own)
    assert "cannot parse this question" in errors(split(answer)[0])
    status, answer = server.ask("ask", json.dumps({"ask": "look", "text": SCENARIO}).encode(), **own)
    assert status == 200
    assert split(answer)[0]["title"] == "A short queue and a long one"


# ---- The page ----


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with start_chrome(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def wait(browser: webdriver.Chrome, until: Callable[[], object]) -> None:
    WebDriverWait(browser, PATIENCE_S, poll_frequency=0.05).until(lambda _: until())


def opened(browser: webdriver.Chrome, address: str) -> None:
    browser.get("about:blank")
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(address)
    wait(browser, lambda: browser.execute_script("return lab.shown && document.querySelector('#story li')"))


@pytest.fixture
def page(chrome: webdriver.Chrome, server: Server) -> webdriver.Chrome:
    """Return the browser with the lab open, as it is at first."""
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(1400))
    opened(chrome, server.address)
    return chrome


def after(page: webdriver.Chrome, action: Callable[[], object]) -> None:
    """Do something, and wait until the page shows another run."""
    before = page.execute_script("return lab.shown")
    action()
    wait(
        page,
        lambda: page.execute_script(
            "return lab.shown > arguments[0] && !document.querySelector('#story.old')", before
        ),
    )


def text_of(page: webdriver.Chrome) -> str:
    return str(page.find_element(By.ID, "text").get_property("value"))


RETYPE = """
    const area = lab.byId("text");
    area.value = area.value.replace(...arguments);
    area.dispatchEvent(new Event("input"));
"""


def control(page: webdriver.Chrome, path: str) -> WebElement:
    return page.find_element(By.CSS_SELECTOR, f'[data-path="{path}"]')


def test_every_control_changes_the_text_and_follows_it(page: webdriver.Chrome) -> None:
    page.execute_script("for (const each of document.querySelectorAll('#controls details')) each.open = true")
    after(
        page,
        lambda: (
            control(page, "down.link.rate")
            .find_element(By.CSS_SELECTOR, "input[type=range]")
            .send_keys(Keys.ARROW_RIGHT * 12)
        ),
    )
    wait(page, lambda: 'rate = "1 Mbit/s"  # slow' not in text_of(page))
    assert "# slow" in text_of(page)
    box = control(page, "down.queue.limit").find_element(By.CSS_SELECTOR, "input[type=text]")
    box.clear()
    after(page, lambda: box.send_keys("25 packets", Keys.ENTER))
    assert 'short.down.queue.limit = "25 packets"' in text_of(page)
    after(
        page,
        lambda: Select(
            control(page, "down.queue.discipline").find_element(By.TAG_NAME, "select")
        ).select_by_value("codel"),
    )
    assert 'discipline = "codel"' in text_of(page)
    after(page, lambda: control(page, "tcp.sack").find_element(By.TAG_NAME, "input").click())
    assert "sack = false" in text_of(page)
    area = page.find_element(By.ID, "text")
    area.click()
    after(page, lambda: area.send_keys(Keys.CONTROL, Keys.HOME, Keys.NULL, 'mtu = "1000 B"', Keys.ENTER))
    page.execute_script(RETYPE, "sack = false", "sack = true")
    wait(page, lambda: control(page, "tcp.sack").find_element(By.TAG_NAME, "input").is_selected())
    assert page.get_log("browser") == []


def test_errors_stand_at_their_lines_and_the_last_good_picture_stays(page: webdriver.Chrome) -> None:
    page.execute_script(RETYPE, "50 ms", "50 parsecs")
    wait(page, lambda: page.find_elements(By.CSS_SELECTOR, "#errors li"))
    assert page.find_element(By.CSS_SELECTOR, "#numbers .wrong").text == "7"
    assert "parsecs" in page.find_element(By.CSS_SELECTOR, "#errors li").text
    assert page.find_elements(By.CSS_SELECTOR, "#panels canvas")
    page.find_element(By.CSS_SELECTOR, "#errors button").click()
    assert page.execute_script("return getSelection().toString()") == 'delay = "50 parsecs"'
    after(
        page,
        lambda: page.execute_script(RETYPE, "parsecs", "ms"),
    )
    assert not page.find_elements(By.CSS_SELECTOR, "#errors li, #numbers .wrong")


def test_a_pinned_run_is_drawn_and_named_beside_the_next(page: webdriver.Chrome) -> None:
    page.find_element(By.ID, "pin").click()
    assert "No changes since the pinned run" in page.find_element(By.CLASS_NAME, "changed").text
    after(
        page,
        lambda: Select(page.find_element(By.CSS_SELECTOR, "[data-factor=queue]")).select_by_value("long"),
    )
    assert "down.queue.limit: 10 packets → 60 packets" in page.find_element(By.CLASS_NAME, "changed").text
    changes = [cell.text for cell in page.find_elements(By.CSS_SELECTOR, "#measures .change")]
    assert any(re.fullmatch(r"[+−][\d.]+ %", change) for change in changes)
    after(page, lambda: page.find_element(By.CSS_SELECTOR, "[aria-label='Next replication']").click())
    assert "replication: 1 → 2" in page.find_element(By.CLASS_NAME, "changed").text
    page.find_element(By.ID, "pin").click()
    assert not page.find_elements(By.CLASS_NAME, "changed")


def drop_of(page: webdriver.Chrome) -> dict[str, Any]:
    """Return the place on the screen of the first visible drop in the queue's panel, and its time."""
    found: dict[str, Any] = page.execute_script(
        "const panel = lab.chart.panels.find(each => each.panel.kind === 'queue');"
        "const box = panel.canvas.getBoundingClientRect();"
        "const hit = panel.hits.find(each => each.mark.about === 'drop' && each.time >= lab.chart.view[0]);"
        "return {x: Math.round(box.x + hit.x), y: Math.round(box.y + hit.y), time: hit.time}"
    )
    return found


def click_at(page: webdriver.Chrome, place: dict[str, Any]) -> None:
    actions = ActionChains(page)
    actions.w3c_actions.pointer_action.move_to_location(place["x"], place["y"]).click()
    actions.perform()


def test_sentences_move_the_cursor_and_drops_open_sentence_and_packet(page: webdriver.Chrome) -> None:
    entries = page.find_elements(By.CSS_SELECTOR, "#story ol button")
    entries[2].click()
    seconds = float(entries[2].find_element(By.TAG_NAME, "time").text.split()[0])
    assert float(page.find_element(By.ID, "at").text.split()[0]) == pytest.approx(seconds, abs=0.002)
    drop = drop_of(page)
    click_at(page, drop)
    assert page.find_element(By.ID, "packet").is_displayed()
    assert "dropped: router queue full" in page.find_element(By.ID, "packet").text
    assert "Loss: router queue full" in page.find_element(By.CSS_SELECTOR, "#story [aria-current]").text
    slider = page.find_element(By.ID, "cursor")
    slider.send_keys(Keys.ARROW_RIGHT)
    assert "s: " in str(slider.get_attribute("aria-valuetext"))
    page.find_element(By.CSS_SELECTOR, "[aria-label='Zoom in']").click()
    assert page.execute_script("return lab.chart.view[1] - lab.chart.view[0] < lab.chart.end * 0.6")
    page.find_element(By.CSS_SELECTOR, "[aria-label='Show the whole run']").click()
    page.find_element(By.CSS_SELECTOR, "#flows button:nth-child(2)").click()
    assert page.find_element(By.CSS_SELECTOR, "#story h2").text == "The story of second"


def part_of(page: webdriver.Chrome) -> str:
    """Return what part of its run the story says that it is of; "" if it is of the whole run."""
    return str(page.execute_script("return document.querySelector('#story .part')?.textContent ?? ''"))


def times_of(page: webdriver.Chrome) -> list[float]:
    return [float(each.text.split()[0]) for each in page.find_elements(By.CSS_SELECTOR, "#story ol time")]


def test_the_story_of_a_long_run_follows_the_pictures(page: webdriver.Chrome) -> None:
    assert not part_of(page)
    # Runs of a text before or between the changes may still be shown; their stories are whole.
    page.execute_script(RETYPE, "1 Mbit/s", "20 Mbit/s")
    page.execute_script(RETYPE, "400 kB", "80 MB")
    wait(page, lambda: part_of(page))
    first = re.fullmatch(
        r"From 0 to ([\d.]+) s of ([\d.]+) s; zoom in to about \1 s to read another part\.", part_of(page)
    )
    assert first
    stretch, end = map(float, first.groups())
    assert max(times_of(page)) <= stretch < end
    late = end - stretch / 2
    page.execute_script("lab.chart.zoom(arguments[0], arguments[1])", late, end + 1)
    wait(page, lambda: "zoom to read another part" in part_of(page))
    assert min(times_of(page)) >= late
    assert "Before this part, at " in page.find_element(By.ID, "story").text
    assert page.find_element(By.CSS_SELECTOR, "#story summary").text == "Summary of the whole run"
    page.execute_script(
        "lab.chart.panels.find(each => each.panel.kind === 'queue').canvas.scrollIntoView({block: 'center'})"
    )
    click_at(page, drop_of(page))
    wait(page, lambda: "dropped: router queue full" in page.find_element(By.ID, "packet").text)
    page.find_element(By.CSS_SELECTOR, "[aria-label='Show the whole run']").click()
    wait(page, lambda: part_of(page) == first.group())
    assert page.get_log("browser") == []


def test_from_the_results_to_the_packet_in_two_clicks(page: webdriver.Chrome) -> None:
    wait(page, lambda: page.execute_script("return lab.hitsOfResults().length") == 6)
    row = page.find_element(By.CSS_SELECTOR, "#results tbody tr:nth-child(2) button")
    after(page, row.click)
    assert page.execute_script("return lab.state.levels.queue") == "long"
    page.execute_script("lab.byId('results').scrollIntoView()")
    place = page.execute_script(
        "const hit = lab.hitsOfResults()[1], box = document.querySelector('.strip "
        "canvas').getBoundingClientRect();return {x: Math.round(box.x + hit.x), y: Math.round(box.y + hit.y)}"
    )
    after(page, lambda: click_at(page, place))
    state = page.execute_script(
        "return [lab.state.levels.queue, lab.state.replication, lab.state.run.measures]"
    )
    assert state[:2] == ["short", 2]
    page.execute_script(
        "lab.chart.panels.find(each => each.panel.kind === 'queue').canvas.scrollIntoView({block: 'center'})"
    )
    click_at(page, drop_of(page))
    wait(page, lambda: "dropped" in page.find_element(By.ID, "packet").text)


def test_a_lesson_opens_and_a_link_brings_its_scenario_back(page: webdriver.Chrome, server: Server) -> None:
    after(page, lambda: Select(page.find_element(By.ID, "lessons")).select_by_index(2))
    assert "Lock-out" in page.find_element(By.CSS_SELECTOR, "#lesson h2").text
    assert len(page.find_elements(By.CSS_SELECTOR, "#flows button")) == 2
    button = page.find_element(By.ID, "link")
    button.click()
    wait(page, lambda: button.text != "Copy link")
    link = page.current_url
    opened(page, link)
    assert text_of(page) == lessons()[1]["scenario"]
    addresses = {address.partition("#")[0].partition("?")[0] for address in requested(page)}
    assert addresses == {server.base, server.base + "ask", server.base + "results"}
    assert page.get_log("browser") == []


NAMELESS = """
    const named = each => each.labels?.length || each.getAttribute("aria-label") || each.textContent.trim();
    const all = [...document.querySelectorAll("input, select, textarea, button")];
    return all.filter(each => !named(each)).map(each => each.outerHTML);
"""


def wider(browser: webdriver.Chrome) -> object:
    from test_browser import WIDER

    return browser.execute_script(WIDER)


@pytest.mark.parametrize("width", [1400, 700])
def test_nothing_overflows_and_everything_has_a_name(page: webdriver.Chrome, width: int) -> None:
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(width))
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    after(page, lambda: Select(page.find_element(By.ID, "lessons")).select_by_index(4))
    page.find_element(By.ID, "pin").click()
    assert wider(page) == [0, []]
    assert page.execute_script(NAMELESS) == []


@pytest.mark.parametrize("pinned", [False, True])
def test_the_metrics_of_the_chosen_flow_are_seen_without_scrolling(
    page: webdriver.Chrome, *, pinned: bool
) -> None:
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(1400) | {"height": 900})
    if pinned:
        page.find_element(By.ID, "pin").click()
    caption, bottom, end, right, width = page.execute_script("""
        const box = document.querySelector("#measures"), table = box.querySelector("table");
        const [own, frame] = [table.getBoundingClientRect(), box.getBoundingClientRect()];
        return [table.caption.textContent, own.bottom, Math.min(frame.bottom, innerHeight),
            own.right, frame.right];
    """)
    assert caption == page.execute_script("return lab.state.flow")
    assert bottom < end
    assert right < width


def test_an_exported_page_works_without_a_server(
    chrome: webdriver.Chrome, lasthop_main: Callable[..., int], tmp_path: Path
) -> None:
    scenario, file = tmp_path / "small.toml", tmp_path / "lab.html"
    scenario.write_text(FIRST_SCENARIO.replace('"60 s"', '"5 s"'), encoding="utf-8")
    assert lasthop_main("lab", scenario, "--export", file) == 0
    assert lasthop_main("lab", scenario, "--export", file) == 2  # nothing is overwritten
    opened(chrome, file.as_uri())
    assert len(chrome.find_elements(By.CSS_SELECTOR, "#controls input[type=range]")) == 2
    slider = control(chrome, "down.queue.limit").find_element(By.TAG_NAME, "input")
    after(chrome, lambda: slider.send_keys(Keys.ARROW_RIGHT))
    assert 'limit = "400000 B"' in text_of(chrome)
    assert chrome.find_elements(By.CSS_SELECTOR, "#story li")
    assert requested(chrome) == [file.as_uri()]
    assert chrome.get_log("browser") == []


def test_an_exported_page_has_the_first_part_of_a_long_story_and_says_so(
    chrome: webdriver.Chrome,
    lasthop_main: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(tale_module, "MOST_PACKETS", 400)
    scenario, file = tmp_path / "long.toml", tmp_path / "lab.html"
    scenario.write_text(SCENARIO, encoding="utf-8")
    assert lasthop_main("lab", scenario, "--export", file) == 0
    opened(chrome, file.as_uri())
    said = part_of(chrome)
    assert re.fullmatch(
        r"From 0 to [\d.]+ s of [\d.]+ s: this page does not contain the rest of the story\.", said
    )
    chrome.find_element(By.CSS_SELECTOR, "[aria-label='Zoom in']").click()
    time.sleep(1)
    assert part_of(chrome) == said
    assert chrome.get_log("browser") == []


def test_the_command_refuses_what_it_cannot_show(
    lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert lasthop_main("lab", "kulve2004", "--no-browser") == 2
    assert "did you mean 'kulve2003'" in capsys.readouterr().err
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("nonsense = 1", encoding="utf-8")
    assert lasthop_main("lab", wrong, "--export", tmp_path / "x.html") == 2
    assert "wrong.toml:1" in capsys.readouterr().err
    assert not os.path.lexists(tmp_path / "x.html")
