"""The lab for a class: its limits, its refusals, its sheet, and its page in a real browser."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from browser import PATIENCE_S, start_chrome, window
from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.present.lab.classroom import students as students_module
from lasthop.present.lab.classroom.key import Key, check_name, seed_of
from lasthop.present.lab.classroom.listen import Listen
from lasthop.present.lab.classroom.pool import Pool
from lasthop.present.lab.classroom.sheet import Question, read_sheet
from lasthop.present.lab.classroom.students import Students
from lasthop.present.lab.keeper import Lost, Overtaken
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.picture import split
from test_lab import EXAMPLES, NAMELESS, SCENARIO, errors, wait, wider

SHEET = """\
[[question]]
text = "How long does the second download take?"
metric = "elapsed_s"
flow = "second"

[[question]]
text = "How many timeouts are there?"
metric = "timeouts"
"""
KEY = Key(bytes(32))
QUESTIONS = [Question("How long?", "elapsed_s", "second"), Question("How many?", "timeouts")]


# ---- Key and names ----


def test_a_seed_depends_on_the_class_and_the_name_only(tmp_path: Path) -> None:
    key = Key.read_or_create(tmp_path / "class.key")
    again = Key.read_or_create(tmp_path / "class.key")
    other = Key.read_or_create(tmp_path / "other.key")
    assert (key.token, seed_of(key.token, "Ada")) == (again.token, seed_of(again.token, "ada"))
    assert len({seed_of(token, name) for token in (key.token, other.token) for name in ("Ada", "Bob")}) == 4
    # Written down, so that a teacher can compute it anywhere: HMAC-SHA256 of the name by the token.
    assert seed_of("abcdefghijkl", "Ada") == 460156820
    assert stat.S_IMODE((tmp_path / "class.key").stat().st_mode) == 0o600
    (tmp_path / "other.key").write_text("no key", encoding="utf-8")
    with pytest.raises(InputError, match=r"other\.key: this is not the key of a class"):
        Key.read(tmp_path / "other.key")


@pytest.mark.parametrize("name", ["", "  ", "a" * 61, "a\u202eb", "\ud800", 7, None])
def test_what_is_not_a_name_is_refused(name: object) -> None:
    with pytest.raises(InputError, match="Enter a name or number of 1 to 60 characters"):
        check_name(name)
    assert check_name("  Ada   Lovelace ") == "Ada Lovelace"


# ---- Where the class may come from ----


@pytest.mark.parametrize(
    ("text", "header", "expected"),
    [
        ("0.0.0.0:8000", "192.0.2.7:8000", True),
        ("0.0.0.0:8000", "[2001:db8::7]:8000", True),
        ("127.0.0.1", "localhost:9000", True),  # through a tunnel
        ("lab.example.org:8000", "lab.example.org:8000", True),
        ("Lab.example.org", "lab.example.org", True),
        ("lab.example.org:8000", "evil.example:8000", False),
        ("0.0.0.0:8000", "evil.example:8000", False),
        ("0.0.0.0:8000", "192.0.2.7.evil.example", False),
        ("0.0.0.0:8000", "evil.example@192.0.2.7", False),
        ("0.0.0.0:8000", "192.0.2.7/evil.example", False),
        ("0.0.0.0:8000", "192.0.2.7:port", False),
        ("0.0.0.0:8000", "", False),
    ],
)
def test_only_addresses_and_the_name_of_the_lab_are_hosts(text: str, header: str, expected: bool) -> None:
    assert Listen.parse(text).accepts(header) is expected


@pytest.mark.parametrize(
    "text", ["", ":8000", "0.0.0.0:http", "0.0.0.0:70000", "http://a", "a/b", "::1:80:90:x"]
)
def test_what_is_not_a_host_and_a_port_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"write a host and a port, such as 0\.0\.0\.0:8000"):
        Listen.parse(text)


def test_the_class_gets_an_address_that_other_machines_can_use() -> None:
    with Listen.parse("lab.example.org:0").open() as listening:
        assert listening.getsockname()[0] == "0.0.0.0"
        assert Listen.parse("lab.example.org").name(listening).startswith("lab.example.org:")
    with Listen.parse("0.0.0.0:0").open() as listening:
        assert not Listen.parse("0.0.0.0").name(listening).startswith("0.0.0.0")
        port = listening.getsockname()[1]
        with pytest.raises(
            InputError, match=f"--listen 127.0.0.1:{port}: cannot listen there: Address already"
        ):
            Listen.parse(f"127.0.0.1:{port}").open()


# ---- The pool ----

QUICK = SCENARIO.replace("400 kB", "20 kB")
SLOW = SCENARIO.replace('bytes = "400 kB"', 'duration = "60 s"').replace("1 Mbit/s", "100 Mbit/s")


def pooled(use: Callable[[Pool], Any]) -> None:
    """Use a pool of one process."""

    async def run() -> None:
        pool = Pool(Opened(SCENARIO), 1)
        await pool.start()
        try:
            await use(pool)
        finally:
            await pool.close()

    asyncio.run(run())


def ask(text: str) -> dict[str, object]:
    return {"ask": "measure", "text": text}


def test_a_student_with_slow_runs_does_not_starve_the_others() -> None:
    order: list[str] = []

    async def work(pool: Pool, name: str, text: str, count: int) -> None:
        for _ in range(count):
            await pool.ask(name, ask(text))
            order.append(name)

    async def use(pool: Pool) -> None:
        # "slow" asks first and asks again at once; a turn by turn order would serve it every third time.
        slow = asyncio.create_task(work(pool, "slow", SLOW, 3))
        await asyncio.gather(*(work(pool, name, QUICK, 6) for name in ("first", "second")))
        await slow

    pooled(use)
    assert order[0] == "slow"
    assert order[-2:] == ["slow", "slow"]
    assert sorted(order[1:3]) == ["first", "second"]


def test_a_newer_question_replaces_only_those_of_the_same_student() -> None:
    async def use(pool: Pool) -> None:
        loop = asyncio.get_running_loop()
        running = asyncio.create_task(pool.ask("Ada", ask(QUICK)))
        older = asyncio.create_task(pool.ask("Bob", {"ask": "look", "text": QUICK}))
        story = asyncio.create_task(pool.ask("Bob", {"ask": "story", "text": QUICK}))
        await asyncio.sleep(0)
        newer = await pool.ask("Bob", {"ask": "look", "text": QUICK, "replication": 2})
        assert split(newer)[0]["replication"] == 2
        for replaced in (older, story):
            with pytest.raises(Overtaken):
                await replaced
        assert split(await running)[0]["replication"] == 1

        started = loop.time()
        computed = asyncio.create_task(
            pool.ask("Ada", {"ask": "look", "text": SLOW.replace("60 s", "60 min")})
        )
        await asyncio.sleep(0.3)
        await pool.ask("Ada", {"ask": "look", "text": QUICK})
        with pytest.raises(Overtaken):
            await computed
        assert "errors" not in split(await pool.ask("Bob", ask(QUICK)))[0]
        assert loop.time() - started < 6  # the slow run would take 8 s of processor time

    pooled(use)


def test_runs_come_before_the_stories_of_other_students() -> None:
    order: list[str] = []

    async def one(pool: Pool, name: str, kind: str) -> None:
        await pool.ask(name, {"ask": kind, "text": QUICK})
        order.append(f"{name} {kind}")

    async def use(pool: Pool) -> None:
        await asyncio.gather(
            one(pool, "Ada", "measure"),
            one(pool, "Bob", "story"),
            one(pool, "Cleo", "look"),
            one(pool, "Ada", "look"),
        )

    pooled(use)
    assert order == ["Ada measure", "Cleo look", "Ada look", "Bob story"]


def test_a_process_that_ends_loses_one_answer_only() -> None:
    async def use(pool: Pool) -> None:
        process = await pool._keepers[0].start()
        lost = asyncio.create_task(pool.ask("Ada", ask(SLOW)))
        waiting = asyncio.create_task(pool.ask("Bob", ask(QUICK)))
        await asyncio.sleep(0.2)
        process.kill()
        with pytest.raises(Lost, match="The run's process ended"):
            await lost
        assert "errors" not in split(await waiting)[0]

    pooled(use)


# ---- The sheet ----


def test_a_prediction_is_a_number_with_a_unit_of_the_metric() -> None:
    seconds, count = QUESTIONS
    assert seconds.value("120 ms") == pytest.approx(0.12)
    assert seconds.value("1.5s") == 1.5
    assert Question("", "throughput_Bps").value("8 kbit/s") == pytest.approx(1000)
    assert Question("", "utilisation").value("0.9") == 0.9
    assert count.value("3") == 3
    for text in ("12", "1 kg", "soon", "1e999 s", None):
        with pytest.raises(InputError, match=r"Predict elapsed time as a number and a unit \(s, ms"):
            seconds.value(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", "sheet.toml: "),
        ("", r"write 1 to 50 questions, each as a table \[\[question\]\]"),
        ("question = 5", "write 1 to 50 questions"),
        ("question = [5]", r"question 1: write a table \[\[question\]\]"),
        ("[[questions]]", r"unknown key `questions`; did you mean `question`\?"),
        (
            '[[question]]\ntext = "?"\nmetrics = "mos"',
            r"question 1: unknown key `metrics`; did you mean `metric`\?",
        ),
        ('[[question]]\ntext = "?"\nmetric = 5', "question 1: `metric` must be a string"),
        ('[[question]]\nmetric = "mos"', "question 1: `text` is missing"),
        ('[[question]]\ntext = "?"\nmetric = "mos"', "question 1: The run has no mos; did you mean"),
        (SHEET.replace("second", "secnd"), "The run has no 'secnd'; did you mean 'second'?"),
        (
            SHEET.replace("elapsed_s", "elapsed"),
            "The run has no elapsed of second; did you mean 'elapsed_s'?",
        ),
    ],
)
def test_a_faulty_sheet_is_refused_before_the_class(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "sheet.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=expected):
        read_sheet(file, Opened(SCENARIO))


def test_the_lab_answers_the_sheet_of_the_guide(tmp_path: Path) -> None:
    guide = (EXAMPLES.parent / "docs/start/class.md").read_text(encoding="utf-8")
    sheet = guide.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "sheet.toml").write_text(sheet, encoding="utf-8")
    questions = read_sheet(tmp_path / "sheet.toml", Opened.named(str(EXAMPLES / "bufferbloat.toml")))
    assert [question.metric for question in questions] == ["mos", "elapsed_s"]


def test_the_first_prediction_counts_and_a_restart_keeps_it() -> None:
    class_ = Students(KEY, QUESTIONS)
    ada = class_.join("Ada", "")
    assert class_.open_metrics(ada) == ["elapsed_s", "timeouts"]
    first = class_.predict(ada, 0, "3 s")
    assert class_.predict(ada, 0, "4 s") == first
    assert class_.open_metrics(ada) == ["timeouts"]
    restarted = Students(KEY, QUESTIONS)
    ada = restarted.join("Ada", ada.ticket)
    assert restarted.record_to_measure(ada, 0, first)[1]["prediction"] == 3
    assert restarted.predict(ada, 0, "4 s") == first


def test_nothing_is_measured_without_the_students_own_prediction() -> None:
    class_ = Students(KEY, QUESTIONS)
    ada, bob = (class_.join(name, "") for name in ("Ada", "Bob"))
    own = class_.predict(ada, 0, "3 s")
    changed = {**own, "record": own["record"] | {"prediction": 4.0}}
    for student, number, answer in [
        (bob, 0, own),
        (ada, 1, own),
        (ada, 0, changed),
        (ada, 0, None),
        (ada, 0, {}),
    ]:
        with pytest.raises(InputError, match="Predict first, then measure"):
            class_.record_to_measure(student, number, answer)
    for number in (2, -1, "0", None):
        with pytest.raises(InputError, match="no such question"):
            class_.predict(ada, number, "3 s")


def test_a_name_belongs_to_the_browser_that_took_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(students_module, "MOST_STUDENTS", 2)
    class_ = Students(KEY, [])
    ada = class_.join("Ada", "")
    assert class_.join("ADA", ada.ticket) is ada
    with pytest.raises(InputError, match="ada has joined in another browser"):
        class_.join("ada", "")
    bob = class_.join("Bob", ada.ticket)
    assert bob.ticket != ada.ticket
    with pytest.raises(InputError, match="The class is full: it has 2 students"):
        class_.join("Cleo", "")


def test_a_signature_survives_the_page_and_detects_changes() -> None:
    record = {"prediction": 1.0, "small": 1e-7, "large": 1e21, "seed": 7, "levels": {"queue": "ü"}}
    signature = KEY.signature(record)
    of_page = json.loads('{"levels":{"queue":"ü"},"prediction":1,"small":1e-7,"large":1e+21,"seed":7}')
    assert KEY.has_signed(of_page, signature)
    assert not KEY.has_signed(of_page | {"seed": 8}, signature)
    assert not KEY.has_signed(of_page, signature[:-1])
    assert not KEY.has_signed(of_page, "\ud800")
    assert not Key(bytes(31) + b"1").has_signed(of_page, signature)


# ---- The server ----


@dataclass(frozen=True)
class Class:
    """A lab that serves a class."""

    address: str
    folder: Path
    printed: str
    tickets: dict[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        return self.address.partition("?")[0]

    @property
    def token(self) -> str:
        return self.address.rpartition("=")[2]

    def post(self, path: str, question: object, ticket: str = "", **headers: str) -> tuple[int, bytes]:
        own = {"x-lasthop-token": self.token, "x-lasthop-student": ticket}
        own |= {name.replace("_", "-"): text for name, text in headers.items()}
        request = urllib.request.Request(self.base + path, json.dumps(question).encode(), own)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def join(self, name: str) -> dict[str, Any]:
        status, answer = self.post("join", {"name": name, "ticket": self.tickets.get(name)})
        assert status == 200, answer
        student: dict[str, Any] = json.loads(answer)
        self.tickets[name] = student["ticket"]
        return student

    def look(self, ticket: str, text: str, **more: object) -> dict[str, Any]:
        status, answer = self.post("ask", {"ask": "look", "text": text, **more}, ticket)
        assert status == 200, answer
        return split(answer)[0]


@pytest.fixture(scope="module")
def class_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    folder = tmp_path_factory.mktemp("secret-folder")
    (folder / "lab.toml").write_text(SCENARIO, encoding="utf-8")
    (folder / "other.toml").write_text("secret = 7", encoding="utf-8")
    (folder / "sheet.toml").write_text(SHEET, encoding="utf-8")
    command = [sys.executable, "-m", "lasthop.commands.cli", "lab", str(folder / "lab.toml"), "--no-browser"]
    command += ["--listen", "127.0.0.1:0", "--sheet", "sheet.toml"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        address = lines[0].strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[a-z2-7]{12}", address)
        yield Class(address, folder, "".join(lines))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) in (0, 130)


def test_the_command_says_what_it_opens_to_whom(class_: Class) -> None:
    assert "The connection is not encrypted (HTTP)" in class_.printed
    assert "anyone with the address can run simulations on this machine" in class_.printed
    assert "The key of the class is in class.key" in class_.printed
    assert Key.read(class_.folder / "class.key").token == class_.token


def test_only_those_who_joined_under_the_classs_address_are_answered(class_: Class) -> None:
    ticket = class_.join("guest")["ticket"]
    question = {"ask": "look", "text": SCENARIO}
    port = class_.base.rstrip("/").rpartition(":")[2]
    for headers in (
        {"x_lasthop_token": ""},
        {"x_lasthop_token": class_.token[:-1]},
        {"host": f"evil.example:{port}"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"host": f"192.0.2.7:{port}", "origin": class_.base.rstrip("/")},
    ):
        for path in ("ask", "join", "predict", "measure"):
            assert class_.post(path, question, ticket, **headers) == (403, b""), (path, headers)
    host = f"192.0.2.7:{port}"  # as through a router
    assert class_.post("ask", question, ticket, host=host, origin=f"http://{host}")[0] == 200
    for path in ("ask", "predict", "measure"):
        assert class_.post(path, question, "guess")[0] == 401
    assert class_.post("ask", {"ask": "measure", "text": SCENARIO}, ticket)[0] == 400
    assert class_.post("results", {}, ticket)[0] == 404
    assert class_.post("join", {"name": {}}, "")[0] == 400


LINK = '[down.link]\nrate = "1 Mbit/s"\ndelay = "1 ms"\n'
DOWNLOAD = LINK + '[[flow]]\nkind = "bulk-tcp"\nbytes = "10 kB"\n'
PROGRAM = LINK + '[[flow]]\nkind = "program"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('extends = "/etc/passwd"\n', "is not one of the files"),
        ('extends = "other.toml"\n', "is not one of the files"),
        ('extends = "lab.toml"\n', "is not one of the files"),
        ('[down.link]\ntrace = "/etc/passwd"\n', "is not one of the files"),
        ('[down.link]\ncourse = "../other.csv"\n', "is not one of the files"),
        (LINK + '[[flow]]\nkind = "replay"\nfile = "class.key"\n', "is not one of the files"),
        (DOWNLOAD + '[tcp]\ncongestion_control = "python:antigravity.Fly"\n', "is not code of the scenario"),
        (LINK + '[[flow]]\nkind = "own"\ncode = "python:os.path"\n', "is not code of the scenario"),
        ('kernel = "/"\n' + DOWNLOAD, "no kernel"),
        (PROGRAM + 'command = ["cat", "/etc/passwd"]\n', "kernel"),
        (PROGRAM + 'command = ["true"]\ninput = ["/etc/shadow"]\nwrite = ["/"]\n', "kernel"),
    ],
)
def test_a_text_of_a_student_reaches_nothing_else(class_: Class, text: str, expected: str) -> None:
    header = class_.look(class_.join("guest")["ticket"], text)
    assert expected in errors(header)
    assert "secret" not in json.dumps(header)  # neither contents nor the folder's name
    assert "root:" not in json.dumps(header)


def test_a_student_has_the_runs_of_his_or_her_seed(class_: Class) -> None:
    ada, bob = class_.join("Ada of seeds"), class_.join("Bob of seeds")
    assert ada["seed"] == seed_of(class_.token, "Ada of seeds") != bob["seed"]
    runs = [class_.look(each["ticket"], SCENARIO, seed=7, first=1) for each in (ada, bob, ada)]
    resolved = [[part["metrics"] for part in run["measures"]] for run in runs]
    assert resolved[0] == resolved[2] != resolved[1]
    study = _core.parse(SCENARIO, "scenario")
    expected = study.cells[0].run(ada["seed"], 1, 1).flows["throughput_Bps"][1]
    second = next(part for part in runs[0]["measures"] if part["of"] == "second")
    assert next(m["value"] for m in second["metrics"] if m["name"] == "throughput_Bps") == expected


def names_of(header: dict[str, Any]) -> set[str]:
    return {metric["name"] for part in header["measures"] for metric in part["metrics"]}


def answered(class_: Class, name: str) -> dict[str, Any]:
    """Predict and measure as a student; return the file that the page downloads."""
    student = class_.join(name)
    ticket = student["ticket"]
    answers = []
    for number, prediction in enumerate(("5 s", "2")):
        _, predicted = class_.post("predict", {"number": number, "prediction": prediction}, ticket)
        question = {"number": number, "answer": json.loads(predicted), "text": SCENARIO, "replication": 2}
        status, measured = class_.post("measure", question, ticket)
        assert status == 200, measured
        answers.append(json.loads(measured) | {"notes": "=1+1"})
    return {"student": name, "seed": student["seed"], "answers": answers}


def test_a_metric_is_hidden_until_it_is_predicted(class_: Class) -> None:
    ticket = class_.join("Ada of metrics")["ticket"]
    assert not {"elapsed_s", "timeouts"} & names_of(class_.look(ticket, SCENARIO, withheld=[]))
    status, answer = class_.post("predict", {"number": 0, "prediction": "soon"}, ticket)
    assert status == 400
    assert b"Predict elapsed time as a number and a unit" in answer
    assert class_.post("measure", {"number": 0, "text": SCENARIO}, ticket)[0] == 400
    assert class_.post("predict", {"number": 0, "prediction": "5 s"}, ticket)[0] == 200
    assert {"elapsed_s", "timeouts"} & names_of(class_.look(ticket, SCENARIO)) == {"elapsed_s"}


# ---- Collecting ----


@pytest.fixture
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_teacher_gets_a_table_and_sees_what_was_changed(
    class_: Class, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sheet = answered(class_, "Ada of answers")
    honest, tampered, broken = (tmp_path / f"{name}.json" for name in ("honest", "tampered", "broken"))
    honest.write_text(json.dumps(sheet), encoding="utf-8")
    sheet["answers"][0]["record"]["prediction"] = sheet["answers"][0]["record"]["measured"]
    sheet["answers"][1]["record"]["student"] = "[red]Eve\x1b[2J"
    tampered.write_text(json.dumps(sheet), encoding="utf-8")
    broken.write_text('{"answers": [5]}', encoding="utf-8")
    key, out = class_.folder / "class.key", tmp_path / "answers.csv"
    assert lasthop_main("lab", "--collect", honest, tampered, "--key", key, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "[red]Eve\\u001b[2J" in printed
    table = pl.read_csv(out)
    assert table["verified"].to_list() == [True, True, False, False]
    assert table["student"].to_list()[:3] == ["Ada of answers"] * 3
    study = _core.parse(SCENARIO, "scenario")
    measured = study.cells[0].run(seed_of(class_.token, "Ada of answers"), 2, 1).flows["elapsed_s"][1]
    assert table["measured"][0] == measured
    assert table["error"][0] == pytest.approx((5 - measured) / measured)
    assert table["scenario"][0] == SCENARIO
    assert table["notes"][0] == "'=1+1"  # no formula in a spreadsheet
    assert lasthop_main("lab", "--collect", broken, honest, tmp_path / "missing", "--key", key) == 2
    captured = capsys.readouterr()
    assert "Ada of answers" in captured.out
    assert "broken.json: answer 1 has no record" in captured.err
    assert "missing: cannot be read as JSON" in captured.err


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff", "cannot be read as JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"5", "this is not a file of answers"),
        (b'{"answers": [{}]}', "answer 1 has no record"),
        (b'{"answers": [{"record": {"prediction": 1' + b"0" * 400 + b"}}]}", ""),
        (b'{"answers": [{"record": {"student": "\\ud800", "levels": [NaN]}, "signature": 5}]}', ""),
    ],
)
def test_no_file_of_a_student_breaks_the_table(
    content: bytes,
    expected: str,
    lasthop_main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    in_empty_folder: Path,
) -> None:
    Key.read_or_create(in_empty_folder / "class.key")
    (in_empty_folder / "a.json").write_bytes(content)
    assert lasthop_main("lab", "--collect", "a.json", "--out", "out.csv") == (2 if expected else 0)
    assert expected in capsys.readouterr().err
    if not expected:
        assert pl.read_csv("out.csv")["verified"].to_list() == [False]


# ---- The command ----


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--sheet", "sheet.toml"], "--sheet needs --listen"),
        (["--key", "x"], "--key needs --listen or --collect"),
        (["--out", "x.csv"], "--out needs --collect"),
        (["--collect"], "--collect: name the files that students downloaded"),
        (["--collect", "a.json", "--listen", "0.0.0.0"], "--listen and --collect exclude each other"),
        (["--export", "x.html", "--listen", "0.0.0.0"], "--export and --listen exclude each other"),
        (["umts", "lte"], "The lab opens one scenario, not 2"),
        (["--collect", "a.json"], "--key class.key: cannot read the key of the class"),
        (["--listen", "a b"], "--listen a b: write a host and a port"),
        (["--listen", "192.0.2.254:0"], "--listen 192.0.2.254:0: cannot listen there: Cannot assign"),
        (["OWN", "--listen", "127.0.0.1:0"], "the lab of a class runs no Python code"),
    ],
)
def test_the_command_refuses_what_a_class_cannot_use(
    arguments: list[str],
    expected: str,
    lasthop_main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    in_empty_folder: Path,
) -> None:
    (in_empty_folder / "sheet.toml").write_text(SHEET, encoding="utf-8")
    places = {"OWN": EXAMPLES / "algorithms" / "own.toml"}
    assert lasthop_main("lab", *(places.get(each, each) for each in arguments), "--no-browser") == 2
    assert expected in " ".join(capsys.readouterr().err.split())


# ---- The page ----


@pytest.fixture
def page(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    with start_chrome(tmp_path / "profile") as driver:
        driver.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
        )
        yield driver


def in_sheet(page: webdriver.Chrome, selector: str) -> WebElement:
    return page.find_element(By.CSS_SELECTOR, f"#sheet {selector}")


def focused(page: webdriver.Chrome) -> WebElement:
    return page.switch_to.active_element


def wait_for_focus(page: webdriver.Chrome, tag: str, text: str) -> None:
    """Wait until an element of this kind, with this text or label, has the focus."""
    script = (
        "const each = document.activeElement; return [each.tagName, (each.labels?.[0] ?? each).textContent]"
    )
    wait(page, lambda: page.execute_script(script) == [tag, text])


def test_a_student_joins_predicts_measures_and_downloads_by_keyboard(
    page: webdriver.Chrome, class_: Class, tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    for width in (1400, 500):
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window(width))
        page.get(class_.address)
        if width == 1400:
            assert not page.find_element(By.ID, "panels").is_displayed()
            focused(page).send_keys("Grace Hopper", Keys.ENTER)
        wait(page, lambda: page.execute_script("return lab.shown && document.querySelector('#story li')"))
        seed = seed_of(class_.token, "Grace Hopper")
        assert f"Grace Hopper, seed {seed}" in page.find_element(By.ID, "student").text
        box = in_sheet(page, "input")
        if width == 500:
            assert "the prediction is off by" in in_sheet(page, "li:first-child").text  # after a reload
        assert wider(page) == [0, []]
        assert page.execute_script(NAMELESS) == []
        box.send_keys("5 s" if width == 1400 else "2", Keys.ENTER)
        wait_for_focus(page, "BUTTON", "Measure the run that is shown")
        focused(page).send_keys(Keys.ENTER)
        wait_for_focus(page, "TEXTAREA", "Notes ")
        focused(page).send_keys("because")
    assert "2 of 2 measured" in in_sheet(page, "[role=status]").text
    in_sheet(page, "#download").send_keys(Keys.ENTER)
    file = tmp_path / "answers Grace Hopper.json"
    wait(page, file.exists)
    out = tmp_path / "out.csv"
    assert lasthop_main("lab", "--collect", file, "--key", class_.folder / "class.key", "--out", out) == 0
    table = pl.read_csv(out)
    assert table["verified"].to_list() == [True, True]
    assert table["notes"].to_list() == ["because", "because"]
    assert table["prediction"].to_list() == [5, 2]
    assert page.get_log("browser") == []


def test_a_browser_keeps_its_students_apart(page: webdriver.Chrome, class_: Class) -> None:
    page.get(class_.address)
    class_.join("Taken")
    focused(page).send_keys("taken", Keys.ENTER)
    alert = page.find_element(By.CSS_SELECTOR, "#join [role=alert]")
    wait(page, lambda: "taken has joined in another browser" in alert.text)
    for name, answer in (("Mary", "5 s"), ("Edith", ""), (" mary ", "")):
        box = page.find_element(By.NAME, "student")
        box.clear()
        box.send_keys(name, Keys.ENTER)
        wait(
            page, lambda name=name: page.find_element(By.ID, "student").text.startswith(name.strip().title())
        )
        if answer:
            in_sheet(page, "input").send_keys(answer, Keys.ENTER)
        has_predicted = name != "Edith"
        wait(page, lambda has=has_predicted: ("Predicted" in in_sheet(page, "li").text) is has)
        page.find_element(By.CSS_SELECTOR, "#student button").click()
        wait(page, lambda: page.find_element(By.NAME, "student").is_displayed())
