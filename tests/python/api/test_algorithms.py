"""Custom algorithms in Python: the same records as the built-in ones, and clear errors."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lasthop
import user_algorithms

Keys = dict[str, Any]
LINK = {"rate": "1 Mbit/s", "delay": "20 ms"}
BULK = {
    "kind": "bulk-tcp",
    "bytes": "300 kB",
    "start": {"distribution": "uniform", "min": "0 s", "max": "1 s"},
}


def keys(**more: object) -> Keys:
    """Return a scenario with many kinds of loss: two downloads share a short queue."""
    return {
        "name": "own",
        "replications": 3,
        "down": {"link": LINK | {"loss": "1 %"}, "queue": {"limit": "12 packets"}},
        "flow": [BULK | {"name": "a"}, BULK | {"name": "b"}],
        **copy.deepcopy(more),
    }


def records(scenario: Keys) -> list[pl.DataFrame]:
    results = lasthop.run(lasthop.Scenario(scenario), progress=False)
    return [results.flows, results.runs]


def assert_same(left: Keys, other: Keys) -> None:
    for mine, theirs in zip(records(left), records(other), strict=True):
        assert_frame_equal(mine, theirs)
        assert mine.height


@pytest.mark.parametrize("kind", [user_algorithms.Reno, user_algorithms.Inherited])
@pytest.mark.parametrize("more", [{"ecn": True}, {"sack": False}, {"initial_window": 2}])
def test_reno_in_python_leaves_the_records_of_the_built_in_one(kind: type, more: Keys) -> None:
    red = {
        "red": {
            "min": "3 packets",
            "max": "9 packets",
            "max_probability": 0.1,
            "weight": 0.1,
            "ecn": True,
            "idle_packet_time": "12 ms",
        }
    }
    down = {
        "link": LINK | {"loss": "1 %"},
        "queue": {"limit": "12 packets", **(red if "ecn" in more else {})},
    }
    built_in, own = (
        keys(down=down, tcp={"congestion_control": control, **more}) for control in ("reno", kind)
    )
    assert_same(own, built_in)
    assert records(built_in)[0]["retransmitted_packets"].sum() > 5


@pytest.mark.parametrize("kind", [user_algorithms.DropTail, user_algorithms.Plain])
def test_drop_tail_in_python_leaves_the_records_of_the_built_in_one(kind: type) -> None:
    def scenario(queue: Keys) -> Keys:
        return keys(down={"link": LINK, "queue": {"limit": "12 packets", **queue}})

    assert_same(scenario({"discipline": kind}), scenario({}))
    assert records(scenario({}))[0]["data_drops_queue"].sum() > 20


def test_a_queue_counts_bytes_and_stands_in_classes() -> None:
    def scenario(queue: Keys) -> Keys:
        classes = [
            {
                "name": "all",
                "rate": "900 kbit/s",
                "ceil": "900 kbit/s",
                "default": True,
                "queue": {"limit": "9 kB", **queue},
            }
        ]
        return keys(down={"link": LINK, "queue": {"limit": "9 kB"}, "htb": {"class": classes}})

    assert_same(scenario({"discipline": user_algorithms.Plain}), scenario({}))


def test_draws_come_from_the_seed() -> None:
    def scenario(seed: int) -> Keys:
        return keys(seed=seed, down={"link": LINK | {"error_model": user_algorithms.Bernoulli}})

    first, again, other = (records(scenario(seed))[0] for seed in (1, 1, 2))
    assert_frame_equal(first, again)
    assert not first.equals(other)
    packets, lost = first["sent_packets"].sum(), first["data_drops_error"].sum()
    assert 0.01 < lost / packets < 0.04


def test_traffic_in_python_is_that_of_the_built_in_one() -> None:
    built_in = {
        "kind": "constant-udp",
        "rate": "200 kbit/s",
        "payload": "500 B",
        "duration": "2 s",
        "name": "stream",
    }
    own = {
        "kind": "own",
        "code": user_algorithms.Steady,
        "protocol": "udp",
        "duration": "2 s",
        "name": "stream",
    }
    columns = ["sent_packets", "one_way_delay_p95_s", "data_drops_queue"]
    mine, theirs = (records(keys(flow=[flow, BULK | {"name": "a"}]))[0] for flow in (own, built_in))
    stream = pl.col("flow") == "stream"
    assert_frame_equal(mine.filter(stream).select(columns), theirs.filter(stream).select(columns))


def test_traffic_asks_and_answers_over_a_connection() -> None:
    """Its requests take as long as those of the built-in kind, whose data are the responses."""
    flow = {"kind": "own", "code": user_algorithms.Dialogue, "name": "talk"}
    asking = {"kind": "request-response", "requests": 10, "response": "1000 B", "name": "talk"}
    links = {"down": {"link": LINK}, "up": {"link": LINK}}
    flows, theirs = (records(keys(flow=[own], **links))[0] for own in (flow, asking | {"direction": "up"}))
    assert flows["outcome"].unique().to_list() == ["closed"]
    assert flows["sent_bytes"].unique().to_list() == [2000]
    columns = ["requests", "requests_completed", *(f"completion_{name}_s" for name in ("mean", "p50", "max"))]
    assert_frame_equal(flows.select(columns), theirs.select(columns))
    assert flows["requests_completed"].unique().to_list() == [10]


def test_a_file_names_a_class_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text(
        "import lasthop\nclass Mine(lasthop.CongestionControl):\n    pass\n", encoding="utf-8"
    )
    text = lasthop.Scenario(keys()).text
    file = tmp_path / "mine.toml"
    file.write_text(f'tcp.congestion_control = "python:beside_it.Mine"\n{text}', encoding="utf-8")
    results = lasthop.run(file, progress=False)
    assert_frame_equal(results.flows, records(keys(tcp={"congestion_control": "reno"}))[0])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("python:nowhere.Mine", "there is no module nowhere in the folder of the scenario"),
        ("python:user_algorithms.Renoo", "did you mean 'python:user_algorithms.Reno'"),
        ("python:user_algorithms.Plain", "no class 'Plain' that derives from lasthop.CongestionControl"),
        ("python:user_algorithms.NotAnAlgorithm", "no class 'NotAnAlgorithm'"),
        ("rust:mine", "code of a Rust program"),
    ],
)
def test_a_wrong_name_is_an_error_before_the_run(name: str, message: str) -> None:
    with pytest.raises(lasthop.InputError) as error:
        lasthop.Scenario(keys(tcp={"congestion_control": name}))
    assert "`tcp.congestion_control`" in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [("python:Mine", "is incomplete"), ("ruby:mine.Mine", "does not name custom code"), ("cubix", "cubic")],
)
def test_what_is_no_name_is_an_error_of_the_scenario(name: str, message: str) -> None:
    with pytest.raises(lasthop.ScenarioError, match=message):
        lasthop.Scenario(keys(tcp={"congestion_control": name}))


def test_a_class_that_no_name_leads_to_is_refused() -> None:
    class Hidden(lasthop.CongestionControl):
        pass

    with pytest.raises(lasthop.InputError, match="at the top level of a module"):
        lasthop.Scenario(keys(tcp={"congestion_control": Hidden}))
    with pytest.raises(lasthop.InputError, match="must derive from one of lasthop's classes"):
        lasthop.Scenario(keys(tcp={"congestion_control": int}))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (user_algorithms.Shut, "would stop the sender"),
        (user_algorithms.Negative, "window = -3 is not a number of segments; set it to 1 or more"),
        (user_algorithms.Uncounted, "window = nan is not a number of segments"),
        (user_algorithms.Endless, "window = inf is not a number of segments"),
        (user_algorithms.Enormous, "set an infinite window"),
        (user_algorithms.Backwards, "would stop the sender"),
    ],
)
def test_an_invalid_window_or_rate_is_an_error(kind: type, message: str) -> None:
    with pytest.raises(lasthop.UserCodeError, match=rf"replication \d, at .*{message}"):
        records(keys(tcp={"congestion_control": kind}))


def test_an_exception_names_cell_replication_time_and_line() -> None:
    scenario = keys(factor={"control": {"faulty": {"tcp": {"congestion_control": user_algorithms.Faulty}}}})
    with pytest.raises(lasthop.UserCodeError) as error:
        records(scenario)
    message = str(error.value)
    for part in (
        "cell control=faulty, replication ",
        "at ",
        " s: ",
        "user_algorithms.Faulty.on_congestion raised",
    ):
        assert part in message
    assert "ValueError: no idea what to do (user_algorithms.py, line " in message
    assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (user_algorithms.Quits, "SystemExit: no more"),
        (user_algorithms.Cancels, "GeneratorExit: no more"),
        (user_algorithms.Odd, "OddError: no more"),
        (user_algorithms.ActsAsCtrlC, "KeyboardInterrupt: no more"),
    ],
)
def test_whatever_an_algorithm_raises_is_its_fault(
    kind: type, message: str, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = lasthop.Scenario(keys(tcp={"congestion_control": kind}))
    file = Path("own.toml")
    file.write_text(scenario.text, encoding="utf-8")
    for command in (["run", file, "--jobs", "2"], ["explain", file]):  # in threads, and in the main thread
        assert lasthop_main(*command) == 2
        error = capsys.readouterr().err
        assert f"user_algorithms.{kind.__name__}.on_congestion raised " in error
        assert f"{message} (user_algorithms.py, line " in error
        assert " s: " in error


def test_a_module_that_exits_is_an_error_before_the_run(
    tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(5)\n", encoding="utf-8")
    file = tmp_path / "mine.toml"
    text = lasthop.Scenario(keys()).text
    file.write_text(f'tcp.congestion_control = "python:exits.Mine"\n{text}', encoding="utf-8")
    assert lasthop_main("run", file) == 2


CLAIM = """
[[claim]]
id = "all"
text = "every transfer ends"
holds = "max(elapsed_s) < 600"
"""


def test_only_a_run_executes_the_code_of_a_scenario(
    tmp_path: Path, lasthop_main: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "executed"
    (tmp_path / "trapped.py").write_text(
        f"import lasthop\nopen({str(trap)!r}, 'w').close()\nclass Mine(lasthop.CongestionControl): ...\n",
        encoding="utf-8",
    )
    file = tmp_path / "trapped.toml"
    text = lasthop.Scenario(keys(replications=1)).text
    file.write_text(f'tcp.congestion_control = "python:trapped.Mine"\n{text}{CLAIM}', encoding="utf-8")
    assert lasthop_main("validate", file) == 0
    assert lasthop_main("plot", file, "--kind", "network", "--out", tmp_path / "network.svg") == 0
    assert not trap.exists()
    assert lasthop_main("run", file, "--out", tmp_path / "results") == 0
    trap.unlink()
    monkeypatch.delitem(sys.modules, "trapped")
    assert lasthop_main("check", "results", tmp_path / "results", "--scenario", file) == 0
    assert not trap.exists()


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("\nclass Mien: pass\n", "looked_up has no class 'Mine'; did you mean 'python:looked_up.Mien'?\n"),
        ("\ndef Mine():\n    class Mine: pass\n", "looked_up has no class 'Mine'"),
        ("\nclass Mine(:\n", "looked_up is not valid Python: looked_up.py, line 2: "),
        ("\0", "looked_up is not valid Python: "),
        (None, "there is no module absent in the folder of the scenario"),
    ],
)
def test_a_class_that_is_not_in_its_file_is_an_error_without_executing_it(
    module: str | None,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    lasthop_main: Callable[..., int],
) -> None:
    place = "absent" if module is None else "looked_up"
    if module is not None:
        (tmp_path / "looked_up.py").write_text(f"raise SystemExit; {module}", encoding="utf-8")
    file = tmp_path / "mine.toml"
    text = lasthop.Scenario(keys()).text
    file.write_text(f'tcp.congestion_control = "python:{place}.Mine"\n{text}', encoding="utf-8")
    assert lasthop_main("validate", file) == 2
    assert f"{file}: `tcp.congestion_control`: python:{place}.Mine: {message}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "module",
    [
        "from user_algorithms import *\n",
        "import user_algorithms\nMine = user_algorithms.Reno\n",
        "if True:\n    class Mine: pass\n",
    ],
)
def test_a_class_may_come_from_elsewhere(
    module: str, tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    package = tmp_path / "in_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit\n", encoding="utf-8")
    (package / "inner.py").write_text(f"raise SystemExit\n{module}", encoding="utf-8")
    file = tmp_path / "mine.toml"
    text = lasthop.Scenario(keys()).text
    file.write_text(f'tcp.congestion_control = "python:in_package.inner.Mine"\n{text}', encoding="utf-8")
    assert lasthop_main("validate", file) == 0


def test_ctrl_c_is_no_fault_of_the_code_that_happens_to_run(lasthop_main: Callable[..., int]) -> None:
    scenario = lasthop.Scenario(keys(tcp={"congestion_control": user_algorithms.Interrupted}))
    with pytest.raises(KeyboardInterrupt):
        lasthop.run(scenario, progress=False)
    file = Path("own.toml")
    file.write_text(scenario.text, encoding="utf-8")
    assert lasthop_main("run", file) == 130
    assert lasthop_main("explain", file) == 130


def test_the_error_of_a_class_that_cannot_be_instantiated_gives_the_reason() -> None:
    with pytest.raises(lasthop.UserCodeError, match=r"cannot create .*\.Unmade: KeyError: 'configuration'"):
        records(keys(tcp={"congestion_control": user_algorithms.Unmade}))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (user_algorithms.Twice, "dequeue handed back packet .* which is not in the queue"),
        (user_algorithms.Necromancer, "packet .* which is not in the queue"),
        (user_algorithms.Vague, "Vague.enqueue raised TypeError: it returned None; return True"),
    ],
)
def test_a_packet_that_is_not_there_is_an_error(kind: type, message: str) -> None:
    with pytest.raises(lasthop.UserCodeError, match=message):
        records(keys(down={"link": LINK, "queue": {"limit": "12 packets", "discipline": kind}}))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (user_algorithms.Past, "the time is not in the future"),
        (user_algorithms.Huge, "carries at most 1472"),
        (user_algorithms.Unasked, r"complete\(1\): pass the number of a request that is not complete"),
    ],
)
def test_wishes_that_cannot_be_granted_are_errors(kind: type, message: str) -> None:
    flow = {"kind": "own", "code": kind, "protocol": "udp", "name": "own"}
    with pytest.raises(lasthop.UserCodeError, match=message):
        records(keys(flow=[flow], down={"link": LINK}))


@pytest.mark.parametrize("engine", ["live", "kernel"])
def test_engines_with_real_tcp_refuse(engine: str) -> None:
    scenario = lasthop.Scenario(keys(tcp={"congestion_control": user_algorithms.Reno}))
    with pytest.raises((lasthop.ScenarioError, lasthop.InputError), match="model engine only"):
        lasthop.run(scenario, engine=engine, progress=False)


def test_other_stacks_and_links_with_other_losses_refuse() -> None:
    with pytest.raises(lasthop.ScenarioError, match="error_model"):
        lasthop.Scenario(
            keys(down={"link": LINK | {"loss": "1 %", "error_model": user_algorithms.Bernoulli}})
        )
    scenario = lasthop.Scenario(
        keys(tcp={"profile": "linux-2.6", "congestion_control": user_algorithms.Reno})
    )
    with pytest.raises(lasthop.ScenarioError, match="linux-6"):
        lasthop.run(scenario, progress=False)


def test_edited_code_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module, out = tmp_path / "edited_later.py", tmp_path / "out"
    head = "import lasthop\nclass Mine(lasthop.CongestionControl):\n"
    text = head + "    def on_start(self, now_s):\n        self.window = {}\n"
    sent = []
    for window in (2, 20, 20):
        module.write_text(text.format(window), encoding="utf-8")
        monkeypatch.delitem(__import__("sys").modules, "edited_later", raising=False)
        scenario = lasthop.Scenario(
            keys(replications=1, tcp={"congestion_control": "python:edited_later.Mine"})
        )
        results = lasthop.run(scenario, out=out, progress=False)
        sent.append((results.flows["elapsed_s"].to_list(), results._campaign.simulated.runs))
    assert sent[0][0] != sent[1][0] == sent[2][0]
    assert [runs for _, runs in sent] == [1, 2, 2]
