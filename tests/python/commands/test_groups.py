"""Commands in groups: their number, default subcommands, old and misspelt names, options with lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from commands import commands_of
from conftest import EXAMPLE
from lasthop.commands.cli import cli

Main = Callable[..., int]


@pytest.fixture(scope="module")
def finished(shared_folder: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    from lasthop.commands.cli import main

    arguments = ["run", str(EXAMPLE.with_name("queue.toml")), "--replications", "6", "--quiet", "--out"]
    return shared_folder("queue-of-six", lambda folder: main([*arguments, str(folder)]))


@pytest.fixture
def out(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*arguments: object) -> str:
        assert lasthop_main(*arguments) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


def test_the_overview_fits_on_a_screen(out: Callable[..., str]) -> None:
    assert len(out("--help").splitlines()) <= 40
    assert len(commands_of(cli)) <= 18


def test_a_group_with_a_folder_or_file_runs_its_default_command(
    out: Callable[..., str], finished: Path, tmp_path: Path
) -> None:
    assert out("results", finished) == out("results", "show", finished)
    claimed = tmp_path / "claimed.toml"
    base = EXAMPLE.with_name("queue.toml")
    claimed.write_text(
        f'extends = "{base}"\n[[claim]]\nid = "fast"\ntext = "Downloads are fast."\n'
        "holds = \"elapsed_s(flow='download') < 20\"\n",
        encoding="utf-8",
    )
    results = tmp_path / "results"
    assert "1 upheld" in out("check", "--replications", 3, claimed, "--out", results)
    assert "upheld" in out("check", results)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("summary FOLDER", "results show FOLDER"),
        ("query FOLDER", "results query FOLDER"),
        ("metrics elapsed_s", "results metrics elapsed_s"),
        ("schema", "validate --schema"),
        (
            "compare FOLDER --reference queue=short --metric throughput_Bps",
            "results compare FOLDER --reference queue=short --metric throughput_Bps",
        ),
        (
            "anova FOLDER --response throughput_Bps --factors queue --role call",
            "results factors FOLDER --metric throughput_Bps --factors queue --role call",
        ),
    ],
)
def test_an_old_name_works_and_prints_the_new_one(
    old: str, new: str, finished: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for words in (old, new):
        assert lasthop_main(*(finished if word == "FOLDER" else word for word in words.split())) == 0
        printed.append(capsys.readouterr())
    assert printed[0].out == printed[1].out
    names = [words.split(maxsplit=1)[0] for words in (old, new)]
    assert "'lasthop {}' is now 'lasthop {} ".format(*names) in printed[0].err


def test_old_names_are_hidden(out: Callable[..., str]) -> None:
    assert "summary" not in commands_of(cli)
    assert "\n  anova" not in out("--help")


@pytest.mark.parametrize(
    ("words", "near"),
    [(["rum", "x.toml"], "run"), (["results", "comapre"], "compare"), (["check", "baselin"], "baseline")],
)
def test_a_misspelt_command_names_the_nearest_one(
    words: list[str], near: str, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main(*words) == 2
    assert f"did you mean '{near}'?" in capsys.readouterr().err


def test_a_list_is_separated_by_commas_or_given_in_several_options(
    out: Callable[..., str], finished: Path
) -> None:
    metrics = ("--metric", "throughput_Bps", "--metric", "rtt_median_s")
    listed = out("results", finished, "--metric", "throughput_Bps,rtt_median_s")
    assert listed == out("results", finished, *metrics)
    assert "throughput" in listed
    assert "median round-trip" in listed


@pytest.mark.parametrize(
    ("words", "option", "values"),
    [
        (["plot", "SOURCE"], "--kind", "rtt,queue"),
        (["plot", "SOURCE"], "--flow", "tcp-1,tcp-2"),
        (["plot", "SOURCE"], "--x", "link,variant"),
        (["evaluate", "bbr3"], "--against", "reno,cubic"),
        (["packetdrill", "."], "--family", "ipv4,ipv6"),
    ],
)
def test_an_option_for_names_accepts_commas_and_repetition(
    words: list[str], option: str, values: str
) -> None:
    command = commands_of(cli)[words[0]]
    repeated = [word for value in values.split(",") for word in (option, value)]
    listed, same = (
        command.make_context("", [*words[1:], *more]).params for more in ([option, values], repeated)
    )
    assert listed == same
    assert tuple(values.split(",")) in listed.values()


def test_plots_accept_repeated_names(finished: Path, out: Callable[..., str]) -> None:
    words = ("plot", EXAMPLE.with_name("queue.toml"), "--only", "queue=short")
    out(*words, "--kind", "rtt", "--kind", "queue", "--flow", "call", "--flow", "download", "--out", "a.svg")
    out(*words, "--kind", "rtt,queue", "--flow", "call,download", "--out", "b.svg")
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()
    assert "x.png" in out("plot", finished, "--x", "queue", "--x", "role", "--out", "x.png")


def test_factors_without_names_are_those_with_several_levels(out: Callable[..., str], finished: Path) -> None:
    words = ("results", "factors", finished, "--metric", "throughput_Bps", "--role", "call")
    assert out(*words) == out(*words, "--factors", "queue")


def test_an_export_is_of_the_kind_that_is_named(
    lasthop_main: Main, out: Callable[..., str], capsys: pytest.CaptureFixture[str], finished: Path
) -> None:
    queue = EXAMPLE.with_name("queue.toml")
    out("export", queue, "--as", "csv")
    assert Path("queue.csv").is_file()
    out("export", queue, "--as", "pcapng", "--only", "queue=short")
    out("export", finished, "--as", "pcapng", "--only", "queue=short", "--out", "from-results")
    names = sorted(file.name for file in Path("queue-pcapng").iterdir())
    assert "server.pcapng" in names
    assert names == sorted(file.name for file in Path("from-results").iterdir())
    for words, part in [
        (["--as", "pcapng", "--step", "1s"], "--step is for tables"),
        (["--as", "csv", "--snaplen", "96"], "--snaplen is for packets"),
        (["--as", "csv", "--out", "x.parquet"], "did you mean 'x.csv'"),
        (["--as", "parquet", "--course", "down"], "--course writes a CSV file"),
        (["--out", "run.pcap"], "several .pcapng files in a new folder; did you mean 'run'?"),
        (["--as", "pcap"], "Did you mean 'pcapng'?"),
    ]:
        assert lasthop_main("export", queue, "--only", "queue=short", *words) == 2
        assert part in capsys.readouterr().err
