"""The pytest plugin: claims as tests, and the fixture `lasthop`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import ROOT
from lasthop import InputError, LasthopFixture, Scenario
from lasthop.commands.cli import main
from lasthop.engines.kernel.store import Kernel

pytest_plugins = ["pytester"]

SCENARIO = """
replications = 100

[down]
queue.limit = "50 packets"
link = { rate = "2 Mbit/s", delay = "40 ms", loss = 0.01 }

[[flow]]
kind = "bulk-tcp"
name = "download"
bytes = "500 kB"
"""
CLAIMS = """
[[claim]]
id = "five"
text = "95 % of the downloads take less than 5 s"
holds = "p95(elapsed_s) < 5"

[[claim]]
id = "two"
text = "95 % of the downloads take less than 2 s"
holds = "p95(elapsed_s) < 2"

[[claim]]
id = "between"
text = "95 % of the downloads take less than 3.2 s"
holds = "p95(elapsed_s) < 3.2"

[[claim]]
id = "taste"
text = "nobody is annoyed"
uncomputable = "annoyance is no metric"
"""
SLOWER = SCENARIO.replace("2 Mbit/s", "1 Mbit/s")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Load what a check needs: pytester forgets what it loads, and numpy refuses to be loaded again."""
    file = tmp_path_factory.mktemp("libraries") / "up.toml"
    file.write_text(SCENARIO + CLAIMS, encoding="utf-8")
    assert main(["check", str(file), "--out", str(file.with_suffix("")), "--quiet"]) == 4


@pytest.fixture
def folder(libraries: None, pytester: pytest.Pytester) -> Path:
    """Return the working folder, with a scenario and its claims."""
    del libraries
    (pytester.path / "up.toml").write_text(SCENARIO, encoding="utf-8")
    (pytester.path / "up.claims.toml").write_text(CLAIMS, encoding="utf-8")
    return pytester.path


@pytest.fixture
def fixture(tmp_path: Path) -> LasthopFixture:
    return LasthopFixture({}, tmp_path)


def test_each_claim_is_a_test_that_fails_with_what_check_prints(
    folder: Path, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    del folder
    result = pytester.runpytest("-v", "-rN")
    result.assert_outcomes(passed=1, failed=2, skipped=1)
    names = ["five PASSED", "two FAILED", "between FAILED", "taste SKIPPED (annoyance is no metric)"]
    result.stdout.fnmatch_lines([f"up.claims.toml::{name.replace('(', '[(]')}*" for name in names])
    capsys.readouterr()
    assert main(["check", "up.toml", "--quiet"]) == 4
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 6
    assert [line for line in result.stdout.lines if line in said] == said


def test_a_summary_names_the_verdict(folder: Path, pytester: pytest.Pytester) -> None:
    del folder
    result = pytester.runpytest("--tb=no", "-k", "two")
    result.stdout.fnmatch_lines(["FAILED up.claims.toml::two - not upheld  two: 95 % of the downloads*"])


def test_a_scenario_with_claims_of_its_own_is_collected_if_it_is_named(
    folder: Path, pytester: pytest.Pytester
) -> None:
    (folder / "up.claims.toml").unlink()
    (folder / "own.toml").write_text(SCENARIO + CLAIMS, encoding="utf-8")
    assert pytester.runpytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED
    pytester.runpytest("own.toml", "-k", "five").assert_outcomes(passed=1, deselected=3)
    pytester.runpytest("up.toml").stdout.fnmatch_lines(["*up.toml contains no claims: add*"])


def test_a_file_that_cannot_be_read_is_an_error_with_its_place(
    folder: Path, pytester: pytest.Pytester
) -> None:
    (folder / "up.claims.toml").write_text(
        CLAIMS.replace("p95(elapsed_s) < 5", "p95(elapsed_s) <"), encoding="utf-8"
    )
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*up.claims.toml:3: claim five: holds: *"])
    (folder / "up.toml").unlink()
    pytester.runpytest().stdout.fnmatch_lines(
        ["*up.claims.toml is about up.toml, which is not in its folder."]
    )


def test_a_setting_names_the_engine_and_a_marker_overrides_it(
    folder: Path, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\nlasthop_engine = modell\n")
    result = pytester.runpytest("-k", "five")
    result.assert_outcomes(failed=1, deselected=3)
    result.stdout.fnmatch_lines(["There is no engine 'modell'; did you mean 'model'?*"])
    pytester.runpytest("-k", "five", "-o", "lasthop_engine=model").assert_outcomes(passed=1, deselected=3)
    pytester.makeconftest(
        """
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                if item.path.name == "up.claims.toml":
                    item.add_marker(pytest.mark.lasthop(engine="model", replications=12))
        """
    )
    result = pytester.runpytest("-k", "five", "--strict-markers")
    result.assert_outcomes(failed=1, deselected=3)
    result.stdout.fnmatch_lines(
        ["undecided   five: *", "up.toml: 12 replications, seed 1, model (virtual time)"]
    )
    text = (folder / "conftest.py").read_text(encoding="utf-8")
    (folder / "conftest.py").write_text(text.replace("replications=", "replication="), encoding="utf-8")
    pytester.runpytest("-k", "five").stdout.fnmatch_lines(
        ["There is no option 'replication'; did you mean 'replications'?"]
    )


def test_until_decided_adds_replications(folder: Path, pytester: pytest.Pytester) -> None:
    del folder
    pytester.makeconftest(
        """
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.lasthop(until_decided=True, at_most=160))
        """
    )
    result = pytester.runpytest("-k", "five or between")
    result.assert_outcomes(passed=1, failed=1, deselected=2)
    result.stdout.fnmatch_lines(
        ["undecided   between: *", "*: give a larger --at-most.", "*: 160 replications, *"]
    )


def test_the_fixture_runs_with_the_options_of_the_closest_marker(
    folder: Path, pytester: pytest.Pytester
) -> None:
    del folder
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.lasthop(replications=3, seed=5)

        @pytest.mark.lasthop(replications=2)
        def test_values(lasthop):
            results = lasthop.run("up.toml")
            assert results.flows["replication"].to_list() == [1, 2]
            assert lasthop.run("up.toml", replications=1, seed=1).runs.height == 1

        @pytest.mark.lasthop("kernel")
        def test_position(lasthop):
            pass
        """
    )
    result = pytester.runpytest("test_the_fixture_runs_with_the_options_of_the_closest_marker.py")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*The marker lasthop takes options by name: write engine='kernel'."])


def test_a_claim_is_asserted_on_the_last_results(fixture: LasthopFixture) -> None:
    with pytest.raises(InputError, match=r"There are no results: call lasthop.run or lasthop.shell"):
        fixture.assert_claim("p95(elapsed_s) < 5")
    fixture.run(Scenario.parse(SCENARIO))
    fixture.assert_claim("p95(elapsed_s) < 5")
    fixture.assert_claim(["p95(elapsed_s) < 5", "timeouts < 3"])
    fixture.assert_claim("median(elapsed_s) == 2.5", within=0.2)
    with pytest.raises(AssertionError) as raised:
        fixture.assert_claim("p95(elapsed_s) < 2", text="95 % take less than 2 s")
    first, second, third = str(raised.value).splitlines()
    assert first == "not upheld  claim: 95 % take less than 2 s"
    assert second.strip().startswith("p95(elapsed_s) < 2: 3.028 versus 2; difference 1.028 [")
    assert third == "scenario: 100 replications, seed 1, model (virtual time)"
    with pytest.raises(AssertionError, match=r"^undecided .*\n.*\n  More replications may decide"):
        fixture.assert_claim("p95(elapsed_s) < 3.2")


def test_a_claim_that_cannot_be_read_is_an_error(fixture: LasthopFixture) -> None:
    fixture.run(Scenario.parse(SCENARIO), replications=2)
    with pytest.raises(InputError, match="assert_claim: claim claim: holds: "):
        fixture.assert_claim("p95(elapsed_s)")
    with pytest.raises(InputError, match="there is no key 'withn'; did you mean 'within'"):
        fixture.assert_claim("elapsed_s < 5", withn=0.1)
    with pytest.raises(Exception, match="has a metric 'elapsd_s'; did you mean 'elapsed_s'"):
        fixture.assert_claim("elapsd_s < 5")
    with pytest.raises(InputError, match="no option 'engin'; did you mean 'engine'"):
        fixture.run(Scenario.parse(SCENARIO), engin="model")


def test_a_baseline_is_other_results_or_a_folder(
    fixture: LasthopFixture, lasthop_main: Callable[..., int]
) -> None:
    claim = "p95(elapsed_s) <= 1.1 * p95(elapsed_s, baseline)"
    Path("up.toml").write_text(SCENARIO, encoding="utf-8")
    old = fixture.run("up.toml", out="results/up")
    with pytest.raises(AssertionError, match="there is no baseline"):
        fixture.assert_claim(claim)
    assert lasthop_main("check", "baseline", "save", "up") == 0
    fixture.assert_claim(claim)
    Path("up.toml").write_text(SLOWER, encoding="utf-8")
    new = fixture.run("up.toml")
    for baseline in (None, old, "baselines", Path("baselines/up")):
        with pytest.raises(AssertionError, match=r"^not upheld"):
            fixture.assert_claim(claim, baseline=baseline)
    fixture.assert_claim(claim, results=old, baseline=new)
    fixture.run(Scenario.parse(SCENARIO), replications=2)
    with pytest.raises(InputError, match="belongs to the scenario 'up', not to scenario"):
        fixture.assert_claim(claim, baseline="baselines/up")


def test_a_program_runs_behind_a_link(fixture: LasthopFixture, kernel: Kernel, tmp_path: Path) -> None:
    del kernel
    code = "import urllib.request as u; print('{\"status\": %d}' % u.urlopen('http://server/').status)"
    client = ["python3", "-c", code]
    servers = {"server": "exec python3 -m http.server 80"}
    results = fixture.shell(client, link="umts", servers=servers, replications=2, flow={"json": True})
    assert results.runs["printed_status"].to_list() == [200, 200]
    fixture.assert_claim("printed_status == 200", within=0.01)
    fixture.shell("curl -s http://server/none", link="umts", servers=servers["server"], replications=2)
    with pytest.raises(AssertionError, match=r"lasthop explain \S+/umts-curl-2.toml .*--engine kernel"):
        fixture.assert_claim("program_s < 0.01")
    assert sorted(file.name for file in tmp_path.glob("*.toml")) == ["umts-curl-2.toml", "umts-python3.toml"]


@pytest.mark.long(covers=("python/lasthop/api/testing", "python/lasthop/analysis/checks"), seconds=15)
def test_processes_of_xdist_share_the_results(folder: Path, pytester: pytest.Pytester) -> None:
    del folder
    result = pytester.runpytest_subprocess("-n", "3", timeout=200)
    result.assert_outcomes(passed=1, failed=2, skipped=1)


def test_the_guide_is_right(folder: Path, pytester: pytest.Pytester) -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/guides/ci.md").read_text(), re.DOTALL | re.MULTILINE
    )
    tests, hook = blocks
    pytester.makepyfile(tests)
    pytester.makeconftest(hook.replace("upload.claims.toml", "up.claims.toml").replace("kernel", "modell"))
    (folder / "queue.toml").write_text((ROOT / "examples/queue.toml").read_text(), encoding="utf-8")
    result = pytester.runpytest("-k", "short_queue or five")
    result.assert_outcomes(passed=1, failed=1, deselected=4)
    result.stdout.fnmatch_lines(["There is no engine 'modell'*"])


def test_pytest_loads_nothing_more_of_lasthop_if_no_test_uses_it() -> None:
    code = (
        "import pytest, sys, lasthop.api.testing.plugin; print(*(m for m in sys.modules if 'lasthop' in m))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == [
        "lasthop",
        "lasthop.api",
        "lasthop.api.testing",
        "lasthop.api.testing.plugin",
    ]
