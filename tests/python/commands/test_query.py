"""`lasthop results query`: SQL over finished results, and the one-liners of docs/guides/results.md."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import fake_core
from commands import ROOT, documents
from conftest import copy_study, replace_table
from lasthop import _core
from lasthop.commands.cli import main

Main = Callable[..., int]
Ask = Callable[..., tuple[int, str, str]]
OUT = Path("results/kulve2003")
DOCUMENT = ROOT / "docs" / "guides" / "results.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make results of the stand-in, once for all tests."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_core, "load", fake_core.Engine().load)
        assert main(["run", str(copy_study(place)), "--quiet", "--out", str(place / "out")]) == 0
    return place / "out"


@pytest.fixture
def ask(made: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Copy results into the working folder; return a function that queries them, or the folders it is given
    first.
    """
    shutil.copytree(made, OUT)

    def ask(*arguments: object) -> tuple[int, str, str]:
        own_folders = bool(arguments) and isinstance(arguments[0], Path)
        capsys.readouterr()
        code = lasthop_main("results", "query", *(arguments if own_folders else (OUT, *arguments)))
        out, err = capsys.readouterr()
        return code, out, err

    return ask


def refusal(ask: Ask, *arguments: object) -> str:
    code, out, err = ask(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("Error: ")
    assert len(err.splitlines()) == 1, err
    return err


def test_a_command_of_its_own_prints_the_answer_and_nothing_else(made: Path) -> None:
    # DuckDB may have more to say when the interpreter ends.
    command = [sys.executable, "-c", "from lasthop.commands.cli import main; raise SystemExit(main())"]
    done = subprocess.run(
        [*command, "results", "query", str(made), "SELECT 1 AS one"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.split(), done.stderr) == (["one", "1"], "")


def test_an_answer_is_what_polars_computes(ask: Ask) -> None:
    sql = "SELECT link, median(elapsed_s) AS m, sum(timeouts) AS n FROM flows GROUP BY link ORDER BY link"
    assert ask(sql, "--out", "answer.parquet")[0] == 0
    flows = pl.read_parquet(OUT / "flows.parquet")
    expected = flows.group_by("link").agg(m=pl.median("elapsed_s"), n=pl.sum("timeouts")).sort("link")
    assert_frame_equal(pl.read_parquet("answer.parquet"), expected)
    code, out, err = ask(sql)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["link", "m", "n"]
    for line, (link, middle, count) in zip(lines[1:], expected.iter_rows(), strict=True):
        assert line.split() == [link, f"{middle:.6g}", str(count)]


def test_a_whole_table_comes_out_as_it_went_in(ask: Ask) -> None:
    code, out, _ = ask("FROM flows", "--out", "flows.parquet", "--quiet")
    assert (code, out) == (0, "")
    flows = pl.read_parquet(OUT / "flows.parquet")
    assert_frame_equal(pl.read_parquet("flows.parquet"), flows)
    _, out, _ = ask("FROM flows")
    assert len(out.splitlines()) == 102
    assert out.endswith(f"... and {flows.height - 100} more rows; --out FILE writes all of them.\n")


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_every_format_takes_every_type(ask: Ask, suffix: str) -> None:
    sql = (
        "SELECT 1.5 AS d, sum(1) AS n, [1, 2] AS l, NULL AS nothing, true AS b, DATE '2003-04-01' AS day, "
        "INTERVAL 2 days AS i, {'a': 1} AS s, 'it''s' AS \"a \"\"name\""
    )
    assert ask(sql, "--out", f"x.{suffix}")[0] == 0
    read = {"csv": pl.read_csv, "json": pl.read_json, "parquet": pl.read_parquet}[suffix]
    assert read(f"x.{suffix}").row(0) == (
        1.5,
        1,
        "[1, 2]",
        None,
        True,
        "2003-04-01",
        "2 days",
        "{'a': 1}",
        "it's",
    )


def test_a_query_may_be_long(ask: Ask) -> None:
    assert ask(f"SELECT 1 AS n /* {'long ' * 2000} */")[:2] == (0, "n\n1\n")


def test_numbers_keep_their_digits_before_the_point(ask: Ask) -> None:
    _, out, _ = ask("SELECT 1234567.8 AS a, 0.000123456789 AS b, 12.5 AS c, 1e20::DOUBLE AS d, NULL AS e")
    assert out.splitlines()[1].split() == ["1234568", "0.000123457", "12.5", "1e+20", "-"]


def test_without_a_query_the_tables_are_listed(ask: Ask) -> None:
    code, out, _ = ask()
    assert code == 0
    flows, runs = (pl.read_parquet(OUT / f"{table}.parquet") for table in ("flows", "runs"))
    assert out.startswith(f"flows: {flows.height} rows\n  column ")
    assert f"\nruns: {runs.height} rows\n" in out
    assert re.search(r"^  elapsed_s +DOUBLE +elapsed time$", out, re.MULTILINE)
    assert "pages" not in out
    assert ask("--out", "columns.csv")[0] == 0
    listed = pl.read_csv("columns.csv")
    for table, frame in (("flows", flows), ("runs", runs)):
        assert listed.filter(pl.col("table") == table)["column"].to_list() == frame.columns


def test_tables_of_several_folders_are_put_together(ask: Ask) -> None:
    other = Path("results/rate=5 [1] it's")  # neither a pattern nor a column called rate
    shutil.copytree(OUT, other)
    decoy = Path("results/rate=5 1 it's")
    shutil.copytree(OUT, decoy)
    runs = pl.read_parquet(OUT / "runs.parquet")
    replace_table(other / "runs.parquet", runs.rename({"variant": "folder"}).head(7))
    sql = (
        "SELECT folder, count(*) AS n, count(variant) AS v, count(factor_folder) AS f FROM runs GROUP BY ALL"
    )
    assert ask(OUT, other, f"{sql} ORDER BY n", "--out", "n.csv")[0] == 0
    found = pl.read_csv("n.csv").rows()
    assert found == [(str(other), 7, 0, 7), (str(OUT), runs.height, runs.height, 0)]
    assert "rate" not in pl.read_csv("n.csv").columns
    assert ask(other, "FROM runs", "--out", "own.csv", "--quiet")[0] == 0
    own = pl.read_csv("own.csv")
    assert own.height == 7
    assert own.columns == runs.rename({"variant": "folder"}).columns
    assert "appears twice" in refusal(ask, OUT, Path("results/../results/kulve2003"), "FROM runs")


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT elapsed FROM flows", "there is no column 'elapsed' here; did you mean 'elapsed_s'?"),
        ("SELECT f.timeout FROM flows f", "there is no column 'timeout' here; did you mean 'timeouts'?"),
        ('FROM flows WHERE link = "e0"', "Text takes single quotes: 'e0'."),
        ("FROM flow", "there is no table 'flow'; did you mean 'flows'? Tables: flows, runs."),
        ("FROM pages", "there is no table 'pages'; did you mean 'runs'? Tables: flows, runs."),
        ("SELCT * FROM flows", 'syntax error at or near "SELCT"'),
        ("SELECT sum(variant) FROM flows", "'sum(VARCHAR)'. You might need to add explicit type casts."),
        ("SELECT link, elapsed_s FROM flows GROUP BY link", "must appear in the GROUP BY clause"),
        ("SELECT CAST(variant AS INT) FROM flows", "Could not convert string"),
        ("SELECT 170141183460469231731687303715884105727 AS n", "out of range"),
        ("SELECT link, link FROM flows", "two columns are called 'link'"),
        ("SELECT 1; SELECT 2", "give one query that only reads"),
        ("", "give one query that only reads"),
        ("DELETE FROM flows", "give one query that only reads"),
        ("SET threads = 1", "give one query that only reads"),
    ],
)
def test_what_is_wrong_with_a_query_is_one_line(ask: Ask, sql: str, told: str) -> None:
    assert told in refusal(ask, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "COPY flows TO 'new.csv'",
        "WITH x AS (COPY (SELECT 1) TO 'new.csv') FROM x",
        "WITH x AS (COPY (SELECT 1) TO 'results/kulve2003/flows.parquet' (FORMAT parquet, USE_TMP_FILE "
        "false)) FROM x",
        "COPY (PIVOT flows ON link USING count(*)) TO 'new.csv'",
        "ATTACH 'new.db'",
        "EXPORT DATABASE 'new'",
        "FROM read_parquet('results/kulve2003/flows.parquet')",
        "FROM 'small.csv' WHERE true",
        "FROM read_text('small.csv')",
        "FROM glob('*')",
        "FROM read_csv('http://127.0.0.1:9/x.csv')",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "FROM frame WHERE true",
    ],
)
def test_a_query_reaches_nothing_but_its_tables(ask: Ask, sql: str) -> None:
    frame = pl.DataFrame({"of_python": [1]})
    Path("small.csv").write_text("a\n1\n", encoding="utf-8")
    before = {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()}
    refusal(ask, sql)
    assert {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()} == before
    assert frame.height == 1


def test_words_that_are_no_query_and_folders_without_results_are_refused(ask: Ask, tmp_path: Path) -> None:
    assert "'results/kulve2004' is not a folder" in refusal(ask, OUT, "results/kulve2004", "FROM flows")
    assert "one query in quotes" in refusal(ask, OUT, "SELECT", "link", "FROM", "flows")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "To finish a run that was stopped, repeat its command." in refusal(ask, empty, "FROM flows")
    assert "did you mean 'x.csv'?" in refusal(ask, "FROM flows", "--out", "x.cvs")
    (OUT / "runs.parquet").write_bytes(b"PAR1 and no more")
    assert "runs.parquet is damaged (" in refusal(ask, "FROM flows")
    (OUT / "manifest.json").unlink()
    assert "contains no manifest.json" in refusal(ask, "FROM flows")


def test_nothing_is_said_beside_the_answer_without_pyarrow(ask: Ask) -> None:
    del ask
    code = (
        "import sys; sys.modules['pyarrow'] = None; from lasthop.commands.cli import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    sql = "SELECT count(*) AS n FROM runs"
    done = subprocess.run(
        [sys.executable, "-c", code, "results", "query", OUT, sql], check=True, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["n", "192"]


ANNOUNCED = """
import sys
from lasthop.commands import cli, query
def announced(*arguments, answer=query._answer):
    print("asked", flush=True)
    return answer(*arguments)
query._answer = announced
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_query_can_be_stopped(ask: Ask) -> None:
    del ask
    # It would run for days.
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"
    command = [sys.executable, "-c", ANNOUNCED, "results", "query", OUT, sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "asked\n"
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (-signal.SIGINT, "", "")  # which a shell calls 130


def _blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_lines_of_python_in_the_document_work(lasthop_main: Main) -> None:
    run = ["run", ROOT / "examples/two-flows.toml", "--replications", "2", "--quiet"]
    assert lasthop_main(*run) == 0
    assert lasthop_main(*run, "--seed", "2", "--out", "results/again") == 0
    flows = pl.read_parquet("results/two-flows/flows.parquet")
    medians = flows.group_by("memory", "flow").agg(pl.median("elapsed_s")).sort("memory", "flow")
    known: dict[str, object] = {}
    answers = []
    for block in _blocks("python"):
        head, body = block.split("\n\n")
        exec(head, known)
        answers += [eval(line, known) for line in body.splitlines()]
    of_polars, files, of_pandas, described, of_duckdb, of_column = answers
    assert_frame_equal(of_polars.sort("memory", "flow"), medians)
    names = [f"results/{name}/flows.parquet" for name in ("again", "two-flows")]
    assert files.sort("file").rows() == [(name, flows.height) for name in names]
    assert of_pandas.tolist() == medians["elapsed_s"].to_list()
    assert described.loc["count", "elapsed_s"] == flows.height
    assert sorted(of_duckdb) == flows.group_by("memory").agg(pl.median("elapsed_s")).sort("memory").rows()
    assert of_column[b"unit"] == b"s"


def test_the_lines_of_r_name_files_and_columns_that_are_there(lasthop_main: Main) -> None:
    """R is not run: no test machine has it."""
    run = ["run", ROOT / "examples/two-flows.toml", "--replications", "1", "--quiet"]
    assert lasthop_main(*run) == 0
    (block,) = _blocks("r")
    files = re.findall(r'"(results/.*?)"', block)
    assert len(files) == 2
    columns = {name for file in files for name in pl.read_parquet(file).columns}
    assert set(re.findall(r"(?:group_by|filter|median)\((\w+)", block)) | {"flow"} <= columns


def test_the_commands_of_the_document_are_run_by_the_test_of_commands() -> None:
    words = [command.words[:2] for command in documents()["docs/guides/results.md"]]
    assert words.count(("results", "query")) >= 5
