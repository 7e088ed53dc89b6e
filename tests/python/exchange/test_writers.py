"""Links for live tools: what is written, what is listed as missing, and the way back by the readers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.exchange.line import files_of
from lasthop.exchange.place import Place
from lasthop.exchange.readers.mahimahi import read_trace
from lasthop.exchange.readers.reading import read, source
from lasthop.exchange.writers.files import write_line
from lasthop.exchange.writers.mahimahi import constant
from lasthop.scenario.points import read_study
from lasthop.scenario.toml import to_toml

PLAIN = """
down.link.rate = "8 Mbit/s"
down.link.delay = "20 ms"
up.link.rate = "1 Mbit/s"
up.link.delay = "20 ms"
"""


def chosen(file: Path) -> ChosenRun:
    study = read_study(file, for_link=True)
    plan = Plan(study=study, cells=study.cells, seed=1, replications=1)
    return ChosenRun(plan, study.cells[0], 1, 1)


def exported(folder: Path, text: str, style: str) -> tuple[dict[str, str], list[str]]:
    """Return the files of a scenario's export by name, and what they do not express."""
    scenario = folder / "line.toml"
    scenario.write_text(text, encoding="utf-8")
    out = folder / f"out-{style}"
    for file in out.glob("*") if out.is_dir() else [out]:
        file.unlink(missing_ok=True)
    if out.is_dir():
        out.rmdir()
    files, missing = write_line(chosen(scenario), style, out)
    return {file.name: file.read_text(encoding="utf-8") for file in files}, missing


def hop(file: Path) -> dict[str, Any]:
    """Return both directions of a resolved scenario, without keys that the readers state and others imply."""
    resolved = json.loads(read_study(file, for_link=True).cells[0].scenario)
    directions = {way: resolved[way] for way in ("down", "up")}
    for direction in directions.values():
        if direction["queue"].get("quantum") == resolved["mtu"]:
            del direction["queue"]["quantum"]  # the default, which the script states
        if "trace" in direction["link"]:
            del direction["link"]["rate"]  # nominal
    return directions


def test_a_script_shapes_where_packets_enter_and_delays_where_they_leave(tmp_path: Path) -> None:
    files, missing = exported(tmp_path, PLAIN, "tc")
    lines = [line for line in files["out-tc"].splitlines() if line.startswith("tc ")]
    assert missing == []
    assert lines[:4] == [
        "tc -n lasthop-r1 qdisc add dev down-queue root handle 1: stab overhead -14 htb default 1",
        "tc -n lasthop-r1 class add dev down-queue parent 1: classid 1:1 htb rate 8000000bit burst 1514b "
        "cburst 1514b quantum 1500",
        "tc -n lasthop-r1 qdisc add dev down-queue parent 1:1 handle 10: pfifo limit 27",
        "tc -n lasthop-r2 qdisc add dev down-link root handle 1: stab overhead -14 netem limit 1500 "
        "delay 20ms rate 8000000bit",
    ]
    done = subprocess.run(["sh", "-n"], input=files["out-tc"], text=True, check=False)
    assert done.returncode == 0


MISSING = """
errors = { good = "10 s", bad = "1 s", packet_error_probability = 0.5 }
down.policer = { rate = "4 Mbit/s", burst = "30 kB" }
down.blackhole = { at = "5 s", for = "2 s" }
down.queue = { discipline = "random-drop" }
down.link.rate = "8 Mbit/s"
down.link.delay = "20500 us"
down.link.bit_error_rate = 1e-6
down.link.jitter = { distribution = "exponential", mean = "2 ms" }
down.link.receive_buffer = "30 kB"
up.link = { rate = "1 Mbit/s", delay = "20 ms", release = "acknowledged", send_buffer = "9 kB" }
up.grant = { interval = "2 ms", delay = "4 ms" }
up.queue = { discipline = "fq_codel" }
"""
OF_ALL = [
    "errors: no bad periods and no ARQ",
    "down.policer: no policer",
    "down.blackhole: no packets are lost then",
    "down.link.receive_buffer: no limit at the far side",
    "down.link.bit_error_rate: short packets are lost as often as full ones",
    "up.grant: packets leave without a request",
    "up.link.release: a packet leaves its buffer when it was sent",
    "up.link.send_buffer: packets leave the queue one at a time",
]
OF_TC = [
    "down.queue.discipline: the arrival is dropped, not a packet at random",
    "down.link.jitter: a constant delay instead of the distribution 'exponential', its mean",
]
OF_MAHIMAHI = [
    "down.link.delay: 20 ms in both directions",
    "down.link.jitter: no counterpart",
    "up.queue.discipline: a queue that drops only when it is full, instead of 'fq_codel'",
    "down.queue.discipline: a queue that drops only when it is full, instead of 'random-drop'",
]


@pytest.mark.parametrize(
    ("style", "own"), [("tc", OF_TC), ("containerlab", OF_TC), ("mahimahi", OF_MAHIMAHI)]
)
def test_everything_that_is_not_expressed_is_listed_and_in_the_file(
    tmp_path: Path, style: str, own: list[str]
) -> None:
    files, missing = exported(tmp_path, MISSING, style)
    assert sorted(missing) == sorted([*OF_ALL, *own])
    head = next(text for name, text in files.items() if not name.endswith(".trace"))
    assert all(f"#   {text}\n" in head for text in missing)


def test_a_network_of_hops_is_refused(
    tmp_path: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.toml"
    file.write_text('[hop]\na.down.link = { rate = "1 Mbit/s", delay = "1 ms" }\n')
    assert lasthop_main("export", file, "--as", "tc", "--out", tmp_path / "o") == 2
    assert "--as tc writes one hop" in capsys.readouterr().err


def test_the_command_lists_on_standard_error_and_overwrites_nothing(
    tmp_path: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "line.toml", tmp_path / "line.sh"
    file.write_text(PLAIN + 'down.link.receive_buffer = "30 kB"\n')
    assert lasthop_main("export", file, "--as", "tc", "--out", out) == 0
    printed = capsys.readouterr()
    assert printed.err == "Not expressed: down.link.receive_buffer: no limit at the far side\n"
    assert str(out) in printed.out
    assert os.access(out, os.X_OK)
    assert lasthop_main("export", file, "--as", "tc", "--out", out) == 2
    assert "already exists" in capsys.readouterr().err
    assert lasthop_main("export", file, "--as", "tc", "--step", "1s") == 2
    assert "--step is for packets or tables" in capsys.readouterr().err


def test_containers_get_the_commands_of_the_script(tmp_path: Path) -> None:
    script = exported(tmp_path, PLAIN, "tc")[0]["out-tc"]
    topology = yaml.safe_load(exported(tmp_path, PLAIN, "containerlab")[0]["out-containerlab"])
    nodes = topology["topology"]["nodes"]
    shaping = {word for node in nodes.values() for word in node["exec"] if word.startswith("tc ")}
    expected = {f"tc {line.split(' ', 3)[3]}" for line in script.splitlines() if line.startswith("tc ")}
    assert shaping == expected
    ends = {end.split(":")[0] for link in topology["topology"]["links"] for end in link["endpoints"]}
    assert ends == nodes.keys()


def test_changes_come_in_order_of_time(tmp_path: Path) -> None:
    text = (
        PLAIN + 'down.link.change = [{ at = "10 s", rate = "2 Mbit/s" }, { at = "12 s", delay = "50 ms" }]\n'
    )
    text += 'up.link.change = [{ at = "11 s", rate = "2 Mbit/s" }]\n'
    files, missing = exported(tmp_path, text, "tc")
    lines = files["out-tc"].splitlines()
    sleeps = [line for line in lines if line.startswith("sleep")]
    assert sleeps == ["sleep 10", "sleep 1", "sleep 1"]
    assert "delay 50ms rate 2000000bit" in lines[-2]
    assert [text.partition(":")[0] for text in missing] == ["down.link", "up.link"]


def test_the_trace_of_a_course_has_its_opportunities(tmp_path: Path) -> None:
    """12 Mbit/s for 4 ms, nothing for 4 ms, then 6 Mbit/s: a packet takes 1 ms, then 2 ms."""
    (tmp_path / "c.csv").write_text("time_s,rate_bps\n0,12000000\n0.004,0\n0.008,6000000\n")
    text = (
        'down.link = { course = "c.csv", delay = "5 ms" }\nup.link = { rate = "3 Mbit/s", delay = "5 ms" }\n'
    )
    files, missing = exported(tmp_path, text, "mahimahi")
    assert files["down.trace"].split()[:6] == ["1", "2", "3", "4", "10", "12"]
    assert files["up.trace"].split() == ["4"]
    assert missing == ["down.link: the trace repeats after 60.008 s"]


@settings(max_examples=30)
@given(rate=st.integers(8_000, 10_000_000))
def test_a_constant_trace_has_its_rate_at_all_times(rate: int) -> None:
    times, exact = constant(rate)
    assert times == [int(time) for time in read_trace("\n".join(map(str, times)), Place(Path("t"))).split()]
    mean = len(times) * 12_000_000 / times[-1]
    assert mean == rate if exact else abs(mean / rate - 1) < 0.0001
    assert exact or rate % 1000
    # Each opportunity is in the millisecond in which its last bit passes.
    assert all(abs(time - number * 12_000_000 / mean) < 1.001 for number, time in enumerate(times, 1))


def share(low: float = 0.0001, high: float = 0.5) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda value: round(value, 4))


def even_ms(most: int) -> st.SearchStrategy[str]:
    return st.integers(0, most).map(lambda value: f"{2 * value} us")


LIMITS = st.integers(2, 5000).map(lambda number: f"{number} packets")
QUEUES = st.one_of(
    st.builds(dict, limit=LIMITS),
    st.builds(dict, limit=st.integers(1500, 10**6).map(lambda number: f"{number} B")),
    st.builds(dict, discipline=st.just("drop-head"), limit=LIMITS),
    st.builds(dict, discipline=st.just("codel"), limit=LIMITS, target=st.just("7 ms"), ecn=st.booleans()),
    st.builds(
        dict, discipline=st.just("fq_codel"), limit=LIMITS, interval=st.just("50 ms"), ecn=st.booleans()
    ),
    st.builds(dict, discipline=st.just("pie"), limit=LIMITS, tupdate=st.just("30 ms")),
    st.builds(dict, discipline=st.just("fq_pie"), limit=LIMITS, flows=st.integers(1, 1024)),
    st.builds(dict, discipline=st.just("dualpi2"), limit=LIMITS, step_threshold=st.just("2 ms")),
    st.builds(dict, discipline=st.just("sfq"), limit=LIMITS, flows=st.sampled_from([64, 1024])),
)


@st.composite
def tc_directions(draw: st.DrawFn) -> dict[str, object]:
    """A direction that tc can express."""
    link: dict[str, object] = {
        "rate": f"{draw(st.integers(8, 1_000_000))} kbit/s",
        "delay": draw(even_ms(1_000_000)),
    }
    losses = {"loss": share(), "gilbert_elliott": st.builds(dict, p=share(), r=share(), loss_bad=share())}
    optional: dict[str, st.SearchStrategy[Any]] = {
        "corrupt": share(),
        "duplicate": share(),
        "framing": st.sampled_from(["atm", "8 B", "40 B"]),
    }
    if (kind := draw(st.sampled_from(["", *losses]))) != "":
        link[kind] = draw(losses[kind])
    for key in draw(st.sets(st.sampled_from(sorted(optional)))):
        link[key] = draw(optional[key])
    if draw(st.booleans()):
        link["jitter"] = {"distribution": "uniform", "min": "0 s", "max": draw(st.just("6 ms"))}
        if draw(st.booleans()):
            link["reorder"] = True
    if "reorder" not in link and draw(st.booleans()):
        link["slots"] = {"every": "4 ms"}
    queue = draw(QUEUES)
    if draw(st.booleans()) and "jitter" not in link:
        change = {"at": "3 s", "rate": "3 Mbit/s", "delay": draw(st.sampled_from(["1 ms", "333333 ns"]))}
        link["change"] = [change]
    return {"link": link, "queue": queue}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(down=tc_directions(), up=tc_directions())
def test_tc_there_and_back_gives_the_same_hop(
    tmp_path: Path, down: dict[str, Any], up: dict[str, Any]
) -> None:
    files, missing = exported(tmp_path, to_toml({"down": down, "up": up}), "tc")
    written = {text.partition(":")[0] for text in missing}
    assert written <= {
        f"{way}.{key}" for way in ("down", "up") for key in ("link", "link.reorder", "queue.limit")
    }
    script, back = tmp_path / "back.sh", tmp_path / "back.toml"
    script.write_text(files["out-tc"], encoding="utf-8")
    for path, text in files_of(read([source(str(script))]), back, [script]).items():
        path.write_text(text, encoding="utf-8")
    assert hop(back) == hop(tmp_path / "line.toml")


@st.composite
def mahimahi_directions(draw: st.DrawFn, delay_ms: int) -> tuple[dict[str, object], str]:
    """A direction that Mahimahi can express, and its trace."""
    times = sorted(draw(st.lists(st.integers(0, 500), min_size=1, max_size=30)))
    link: dict[str, object] = {"delay": f"{delay_ms} ms"}
    if draw(st.booleans()):
        link["loss"] = draw(share())
    periods: list[object] = ["2 s", "500 ms"]
    if draw(st.booleans()):
        periods = [{"distribution": "exponential", "mean": length} for length in periods]
    if draw(st.booleans()):
        link["errors"] = {"good": periods[0], "bad": periods[1], "packet_error_probability": 1.0}
    codel = {"discipline": "codel", "target": "5 ms", "interval": "100 ms"}
    queue: dict[str, object] = {
        **draw(st.sampled_from([{}, {"discipline": "drop-head"}, codel])),
        "limit": draw(LIMITS),
    }
    return {"link": link, "queue": queue}, "".join(f"{time}\n" for time in [*times, times[-1] + 1])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), delay_ms=st.integers(0, 500))
def test_mahimahi_there_and_back_gives_the_same_hop(
    tmp_path: Path, data: st.DataObject, delay_ms: int
) -> None:
    directions: dict[str, Any] = {}
    for way in ("down", "up"):
        directions[way], trace = data.draw(mahimahi_directions(delay_ms))
        (tmp_path / f"{way}.trace").write_text(trace)
        directions[way]["link"]["trace"] = f"{way}.trace"
    files, missing = exported(tmp_path, to_toml(directions), "mahimahi")
    assert missing == []
    assert files["run.sh"].startswith("#!/bin/sh\n")
    script, back = tmp_path / "out-mahimahi" / "run.sh", tmp_path / "back.toml"
    for path, text in files_of(read([source(str(script))]), back, [script]).items():
        path.write_text(text, encoding="utf-8")
    assert hop(back) == hop(tmp_path / "line.toml")


def test_an_outage_is_a_rate_at_which_one_packet_passes(tmp_path: Path) -> None:
    """1500 bytes take one second at 12 kbit/s. netem has packets that left the queue, and keeps its rate."""
    (tmp_path / "c.csv").write_text(
        "time_s,rate_bps,delay_s,loss\n0,8000000,0.02,0\n5,0,0.02,0\n6,4000000,0.03,0.1\n"
    )
    text = 'down.link = { course = "c.csv" }\nup.link = { rate = "1 Mbit/s", delay = "20 ms" }\n'
    files, missing = exported(tmp_path, text, "tc")
    assert "down.link.course: one packet passes in an outage" in missing
    lines = files["out-tc"].splitlines()
    outage = lines[lines.index("sleep 5") + 1 : lines.index("sleep 1")]
    assert ["htb rate 12000bit" in line or "delay 20ms rate 8000000bit" in line for line in outage] == [
        True
    ] * 2
    assert lines[-2].endswith("delay 30ms loss 10% rate 4000000bit")
