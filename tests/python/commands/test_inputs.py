"""The files that the command lines of real programs name, by their contents."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lasthop.campaign import inputs
from lasthop.campaign.inputs import inputs_of
from lasthop.campaign.results.store import Store
from lasthop.common.errors import InputError

ALWAYS = "other files that they read"
FILES = ("get.py", "page", "a.pem", "b.pem", "www/index.html", "data/deep/values")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name, encoding="utf-8")
    return tmp_path


def program(command: Sequence[str] = ("true",), server: str = "", **others: object) -> dict[str, object]:
    return {"command": command, **({"servers": [{"command": server}]} if server else {}), **others}


def named(here: Path, **what: object) -> set[str]:
    """Return the files that are taken in: their paths from `here`, or names of programs."""
    digests = inputs_of(program(**what)).digests  # type: ignore[arg-type]
    for path, digest in digests.items():
        if Path(path).is_file():
            assert digest == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return {
        str(Path(path).relative_to(here)) if path.startswith(str(here)) else Path(path).name
        for path in digests
    }


@pytest.mark.parametrize(
    ("command", "taken"),
    [
        (["python3", "get.py", "page"], {"python3", "get.py", "page"}),
        (["./get.py"], {"get.py"}),
        (["timeout", "5", "curl", "--cacert=a.pem", "-Eb.pem"], {"timeout", "curl", "a.pem", "b.pem"}),
        (["curl", "--data", "@page", "-F", "file=@get.py"], {"curl", "page", "get.py"}),
        (["curl", "http://server/page", "no-such-file", "www"], {"curl"}),
        (
            ["/bin/sh", "-c", "cat page|python3 get.py >a.pem 2>&1"],
            {"sh", "cat", "python3", "page", "get.py"},
        ),
        (["sh", "-ec", "cd data; exec cat deep/values"], {"sh", "cat", "data/deep/values"}),
        (["sh", "-c", "cat *.pem; bash -c 'cat page'"], {"sh", "bash", "cat", "a.pem", "b.pem", "page"}),
        (["python3", "-c", "import time; open('page')"], {"python3", "page"}),
        (["sh", "-c", "echo it's"], {"sh", "echo"}),
        (["curl", "\0", "x" * 5000, "~nobody-here/x", ""], {"curl"}),
    ],
)
def test_programs_and_files_are_found_among_words_options_and_in_shell_lines(
    here: Path, command: list[str], taken: set[str]
) -> None:
    assert all(shutil.which(name) for name in taken if "." not in name and not (here / name).exists())
    assert named(here, command=command) == taken


def test_servers_lines_are_read_from_the_working_folder_on(here: Path) -> None:
    lines = ["cd www; cat index.html", "cat page # 'tis a comment"]
    servers = [{"command": line} for line in lines]
    assert named(here, command=["true"], servers=servers) == {"true", "cat", "www/index.html", "page"}


@pytest.mark.parametrize(
    ("what", "unseen"),
    [
        ({"command": ["curl", "http://server/"]}, [ALWAYS]),
        ({"server": "python3 -m http.server 80 -d www"}, [ALWAYS, "the contents of www"]),
        (
            {"server": "serve $PORT ${NAME} $(date) `date` '$quoted' \\$quoted"},
            [ALWAYS, *(f"the value of {text}" for text in ("$PORT", "${NAME}", "$(", "`"))],
        ),
        ({"command": ["echo", "$PORT"]}, [ALWAYS]),
        ({"command": ["ls", "data", "www"], "input": ["data"]}, ["the contents of www"]),
        ({"command": ["ls", "data/deep"], "input": ["data"]}, []),
    ],
)
def test_what_is_not_seen_is_told(here: Path, what: dict[str, object], unseen: list[str]) -> None:
    if "input" in what:
        what = {**what, "input": [str(here / "data")]}
    assert inputs_of(program(**what)).unseen == unseen  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: (data / "deep" / "values").write_text("other"),
        lambda data: (data / "deep" / "more").touch(),
        lambda data: (data / "deep" / "values").rename(data / "values"),
        lambda data: (data / "link").symlink_to("nowhere"),
        lambda data: (data / "folder").symlink_to("deep"),
    ],
)
def test_a_folder_is_known_by_the_names_and_contents_of_its_files(
    here: Path, change: Callable[[Path], None]
) -> None:
    data = here / "data"

    def digest() -> str:
        return inputs_of(program(input=[str(data)])).digests[str(data)]

    before = digest()
    (data / "empty").mkdir()
    (data / "results").mkdir()
    with Store(data / "results"):
        pass  # files that lasthop makes there are no input
    assert digest() == before
    change(data)
    assert digest() != before


def test_what_programs_may_write_to_is_no_input(here: Path) -> None:
    assert named(here, command=["cat", "page", "data/deep/values"], write=[str(here / "data")]) == {
        "cat",
        "page",
    }


def test_an_input_that_cannot_be_read_or_is_too_large_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="--input /nowhere: cannot read /nowhere: No such file"):
        inputs_of(program(input=["/nowhere"]))
    monkeypatch.setattr(inputs, "_MOST_FILES", 1)
    assert inputs_of(program(input=[str(here / "data")])).digests
    with pytest.raises(InputError, match=r"contains more than 1 files or 1 GiB\. Name only the files"):
        inputs_of(program(input=[str(here)]))
