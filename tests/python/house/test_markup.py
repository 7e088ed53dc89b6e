"""Texts of users that look like markup: every page shows them as they are, and runs nothing that they
hold.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

from browser import PATIENCE_S, start_chrome
from lasthop.commands.cli import main
from lasthop.scenario.toml import to_toml

SITE = Path(__file__).resolve().parents[3] / "docs" / "site"
# Names of factors and levels have no blanks and no equals signs.
NAME = "</script><script>window.pwned++</script>\"'><b>bold</b>&lt;i&gt;"
TEXT = (
    f"{NAME} <img src=x onerror=window.pwned=1> <a href='javascript:window.pwned=1'>link</a> {{{{ 7 * 7 }}}} "
    f"${{7}}"
)
FILE = "<img src=x onerror=window.pwned=1><b>bold<b>&lt;i&gt;"


def a(where: str) -> str:
    """Return a text that says where it was written."""
    return f"{where} {TEXT}"


SCENARIO = {
    "title": a("title"),
    "description": a("description"),
    "replications": 6,
    "down": {"link": {"delay": "20 ms", "trace": f"{FILE}.trace"}, "queue": {"limit": "10 packets"}},
    "up": {"link": {"rate": "256 kbit/s", "delay": "20 ms"}},
    "flow": [
        {"kind": "bulk-tcp", "name": a("bulk"), "bytes": "60 kB"},
        {
            "kind": "constant-udp",
            "name": a("call"),
            "rate": "50 kbit/s",
            "payload": "200 B",
            "duration": "2 s",
        },
    ],
    "factor": {
        "queue": {"short": {}, "long": {"down": {"queue": {"limit": "30 packets"}}}},
        f"factor{NAME}": {
            f"level{NAME}": {},
            f"other{NAME}": {"up": {"link": {"delay": "30 ms"}}},
        },
    },
}
MAP = {
    "title": a("map"),
    "caption": a("legend"),
    "rows": "queue",
    "columns": f"factor{NAME}",
    "metric": "elapsed_s",
}
CLAIM = {
    "id": "one",
    "text": a("claim"),
    "holds": "elapsed_s(queue=short) < 0.1 * elapsed_s(queue=long)",
    "reading": a("reading"),
    "explanation": a("explanation"),
}

PAGE = """
    for (const each of document.querySelectorAll("details")) each.open = true;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = [];
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      if (!parent.closest("script, style, textarea")) texts.push(walker.currentNode.data);
    }
    const bold = [...document.querySelectorAll("b, i")].filter(each => each.textContent.startsWith("bold"));
    const thick = [...document.querySelectorAll("tspan")].filter(each => each.textContent === "bold");
    const made = [...document.querySelectorAll("img[src='x'], a[href^='javascript:']"), ...bold, ...thick];
    return ["pwned" in window, made.map(each => each.outerHTML), texts.join(" ").replace(/\\s+/g, " ")];
"""
"""What a page has run and made of the texts, and what it shows."""


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with start_chrome(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def wait(browser: webdriver.Chrome, script: str) -> None:
    WebDriverWait(browser, PATIENCE_S, poll_frequency=0.05).until(
        lambda _: browser.execute_script(f"return {script}")
    )


def assert_shown(browser: webdriver.Chrome, *texts: str) -> None:
    """Check that a page shows the texts as they are."""
    pwned, made, shown = browser.execute_script(PAGE)
    assert not pwned
    assert made == []
    assert {text[:20] for text in texts if " ".join(text.split()) not in shown} == set()
    assert [entry for entry in browser.get_log("browser") if "Refused" not in entry["message"]] == []


def made(file: Path, **beside: object) -> Path:
    """Write the scenario, its trace and other files beside it; return where its results are."""
    file.parent.mkdir()
    for name, content in {
        file.name: SCENARIO,
        **{f"{name}.toml": own for name, own in beside.items()},
    }.items():
        file.with_name(name).write_text(to_toml(content), encoding="utf-8")
    file.with_name(f"{FILE}.trace").write_text(
        "".join(f"{ms}\n" for ms in range(1, 2000, 30)), encoding="utf-8"
    )
    out = file.with_name("results")
    assert main(["run", str(file), "--out", str(out), "--quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return results of a study with a claim that does not hold."""
    file = tmp_path_factory.mktemp("markup") / "study" / "study.toml"
    return made(file, claims={"claim": [CLAIM]})


def test_the_report_of_a_study_shows_them(chrome: webdriver.Chrome, results: Path) -> None:
    open_report(chrome, results)
    places = ("title", "description", "bulk", "call", "claim", "reading", "explanation")
    assert_shown(chrome, *map(a, places), f"factor{NAME}", f"level{NAME}")


def test_a_heat_map_and_names_of_files_show_them(chrome: webdriver.Chrome, tmp_path: Path) -> None:
    folder = tmp_path / FILE
    out = made(folder / f"{FILE}.toml", report={"heatmap": [MAP | {"flow": a("bulk")}]})
    open_report(chrome, out)
    assert_shown(chrome, *map(a, ("title", "map", "legend")), f"factor{NAME}", f"level{NAME}")


def open_report(browser: webdriver.Chrome, out: Path) -> None:
    browser.get((out / "report.html").as_uri())
    count = browser.execute_script("return document.querySelectorAll('.plot').length")
    assert count
    for place in range(count):  # they are drawn when they come into view
        browser.execute_script(
            f"document.querySelectorAll('.plot')[{place}].scrollIntoView({{behavior: 'instant'}})"
        )
        wait(browser, f"document.querySelectorAll('.plot')[{place}].querySelector('.main-svg')")


def test_the_report_of_programs_shows_them(
    chrome: webdriver.Chrome, lasthop_main: Callable[..., int], tmp_path: Path
) -> None:
    printed = tmp_path / "printed.json"
    printed.write_text(json.dumps({a("key"): 5}), encoding="utf-8")
    options = (
        "--link",
        "umts",
        "--engine",
        "live",
        "--replications",
        "6",
        "--json",
        "--out",
        tmp_path / "out",
    )
    assert (
        lasthop_main("shell", "--repeated", *options, "--", "sh", "-c", 'cat "$0"', printed, a("word")) == 0
    )
    chrome.get((tmp_path / "out" / "report.html").as_uri())
    wait(chrome, "document.readyState === 'complete'")
    assert_shown(chrome, json.dumps(a("word"))[1:-1])  # the report has a program's words as JSON


def test_the_lab_shows_them(chrome: webdriver.Chrome, results: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lasthop.commands.cli", "lab", "--no-browser", str(results)]
    shown = "lab.shown && document.querySelector('#story li')"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            chrome.get(process.stdout.readline().strip())
            wait(chrome, shown)
            wait(chrome, "document.querySelector('#results tbody tr')")
            assert_shown(chrome, *map(a, ("title", "bulk", "call")), f"factor{NAME}", f"level{NAME}")
        finally:
            process.terminate()
    page = tmp_path / "lab.html"
    assert main(["lab", str(results.with_name("study.toml")), "--export", str(page)]) == 0
    chrome.get(page.as_uri())
    wait(chrome, shown)
    assert_shown(chrome, *map(a, ("title", "bulk", "call")), f"factor{NAME}", f"level{NAME}")


@pytest.mark.long(covers=("docs/site", "requirements.lock"), seconds=5)
def test_the_gallery_shows_them(
    chrome: webdriver.Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = f"Is {TEXT} shown, and `<b>code</b>`?"
    file = tmp_path / f"{FILE}.toml"
    file.write_text(
        f"# {question}\n#\n#     lasthop validate examples/x.toml\nname = 'x'\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(SITE))
    pages = runpy.run_path(str(SITE / "pages.py"))
    pages["_example"].__globals__["ROOT"] = tmp_path
    source = tmp_path / "docs" / "generated" / "gallery"
    source.mkdir(parents=True)
    lines = [line for line in pages["_example"](file) if line]
    (source / "index.md").write_text("\n".join(lines[:1]) + "\n", encoding="utf-8")
    (source / "conf.py").write_text("extensions = ['myst_parser']\nsmartquotes = False\n", encoding="utf-8")
    built = tmp_path / "built"
    subprocess.run([sys.executable, "-m", "sphinx", "-q", str(source), str(built)], check=True)
    chrome.get((built / "index.html").as_uri())
    assert_shown(chrome, *question.split("`"))


def test_a_dollar_sign_begins_no_formula(lasthop_main: Callable[..., int]) -> None:
    name = "$\\frac{"
    file = Path("dollars.toml")
    flow = {"kind": "bulk-tcp", "name": f"{name}$", "bytes": "30 kB"}
    factors = {f"{name}$": {f"{name}$": {}, "other": {"down": {"link": {"delay": "30 ms"}}}}}
    link = {"rate": "256 kbit/s", "delay": "20 ms"}
    scenario = {
        "title": f"$1 {name} $2",
        "down": {"link": link, "queue": {"limit": "9 packets"}},
        "up": {"link": link},
    }
    file.write_text(
        to_toml({**scenario, "replications": 6, "flow": [flow], "factor": factors}), encoding="utf-8"
    )
    assert lasthop_main("plot", file, "--only", f"{name}$=other", "--out", "run.svg") == 0
    assert lasthop_main("run", file, "--quiet", "--out", "out") == 0
    assert lasthop_main("plot", "out", "--out", "results.svg") == 0
