"""Links of other tools: what is read, and errors with file and line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lasthop.common.errors import InputError
from lasthop.exchange.line import files_of
from lasthop.exchange.readers.reading import FORMATS, is_line, read, source
from lasthop.scenario.points import read_study

Files = dict[str, str]
TRACE = "0\n3\n3\n10\n"
RATTAN = """[links]
left = "up_bw"
up_bw = "up_delay"
up_delay = "right"
right = "down_bw"
down_bw = "left"

[cells.up_bw]
type = "Bw"
bandwidth = "1Gbps 200Mbps"
queue = "DropTail"
queue_config = { packet_limit = 60 }

[cells.up_delay]
type = "Delay"
delay = "10ms"

[cells.down_bw]
type = "BwReplay"
trace = "rate.json"
queue = "CoDel"
"""
RATES = json.dumps(
    {
        "RepeatedBwPatternConfig": {
            "pattern": [
                {"StaticBwConfig": {"bw": "12Mbps", "duration": "1s"}},
                {"StaticBwConfig": {"bw": {"gbps": 0, "bps": 24000000}, "duration": {"secs": 2, "nanos": 0}}},
            ],
            "count": 2,
        }
    },
    indent=1,
)


def scenario(folder: Path, files: Files, *arguments: str) -> dict[str, Any]:
    """Read files as a line, and return its resolved scenario."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    given_files = [
        argument.replace("=", f"={folder}/", 1) if "=" in argument else str(folder / argument)
        for argument in arguments or [next(iter(files))]
    ]
    sources = [source(argument) for argument in given_files]
    assert all(map(is_line, sources))
    out = folder / "out.toml"
    for file, text in files_of(read(sources), out, [each.file for each in sources]).items():
        file.write_text(text, encoding="utf-8")
    resolved: dict[str, Any] = json.loads(read_study(out).cells[0].scenario)
    return resolved


def test_a_pair_of_traces_says_its_directions_by_name(tmp_path: Path) -> None:
    both = scenario(tmp_path, {"lte.down": TRACE, "lte.up": "5\n"}, "lte.down", "lte.up")
    assert (both["down"]["link"]["trace"], both["up"]["link"]["trace"]) == (TRACE, "5\n")
    assert both["down"]["link"]["delay"] == "0 s"
    stated = scenario(tmp_path, {"one.txt": TRACE}, "down=one.txt", "up=one.txt")
    assert stated["up"]["link"]["trace"] == TRACE


def test_shells_of_mahimahi_nest(tmp_path: Path) -> None:
    script = """#!/bin/sh
QUEUE="packets=60, target=5, interval=100"
mm-delay 20 mm-loss downlink 0.01 \\
  mm-onoff uplink 10 0.5 mm-link up.trace $HERE/down.trace --downlink-queue=codel \\
  --downlink-queue-args="$QUEUE" --uplink-queue droptail --uplink-queue-args=bytes=30000 -- iperf3 -s
"""
    line = scenario(tmp_path, {"run.sh": script, "up.trace": "4\n", "down.trace": TRACE})
    down, up = line["down"], line["up"]
    assert (down["link"]["delay"], down["link"]["loss"], down["link"]["trace"]) == ("20 ms", 0.01, TRACE)
    assert down["queue"]["discipline"] == "codel"
    assert (down["queue"]["target"], down["queue"]["limit"]) == ("5 ms", "60 packets")
    assert (up["link"]["delay"], up["queue"]["limit"], up["link"]["trace"]) == ("20 ms", "30000 B", "4\n")
    assert up["link"]["errors"]["bad"]["mean"] == "500 ms"
    assert up["link"]["errors"]["packet_error_probability"] == 1.0


def test_delays_of_leoreplayer_change_every_interval(tmp_path: Path) -> None:
    script = (
        "mm-delay 10 delay.txt mm-link bw.txt bw.txt --uplink-queue droptail --uplink-queue-args packets=50\n"
    )
    files = {"run.sh": script, "delay.txt": "12\n12\n16\n", "bw.txt": TRACE}
    for arguments in (["run.sh"], ["down=bw.txt", "up=bw.txt", "delay.txt"]):
        line = scenario(tmp_path, files, *arguments)
        for way in ("down", "up"):
            link = line[way]["link"]
            assert (link["delay"], link["change"]) == (
                "12 ms",
                [{"at": "20 ms", "rate": None, "delay": "16 ms"}],
            )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "pantheon_metadata.json",
            json.dumps(
                {
                    "mode": "local",
                    "uplink_trace": "a.trace",
                    "downlink_trace": "b.trace",
                    "prepend_mm_cmds": "mm-delay 30",
                    "extra_mm_link_args": "--uplink-queue=droptail --uplink-queue-args=packets=512",
                }
            ),
        ),
        (
            "test.yml",
            "test-name: x\nuplink-trace: a.trace\ndownlink-trace: 'b.trace'\nprepend_mm_cmds: mm-delay 30\n"
            "extra_mm_link_args: --uplink-queue=droptail --uplink-queue-args=packets=512\nflows:\n"
            "  - scheme: bbr\n",
        ),
        (
            "test.sh",
            "src/experiments/test.py local --schemes cubic --uplink-trace a.trace --downlink-trace=b.trace "
            "--prepend-mm-cmds 'mm-delay 30' --extra-mm-link-args "
            "'--uplink-queue=droptail --uplink-queue-args=packets=512'\n",
        ),
    ],
)
def test_a_test_of_pantheon_has_its_sender_at_the_uplink(tmp_path: Path, name: str, text: str) -> None:
    line = scenario(tmp_path, {name: text, "a.trace": TRACE, "b.trace": "1\n"})
    assert line["flow"][0]["direction"] == "up"
    assert (line["up"]["link"]["trace"], line["down"]["link"]["trace"]) == (TRACE, "1\n")
    assert (line["up"]["link"]["delay"], line["up"]["queue"]["limit"]) == ("30 ms", "512 packets")


def test_rattan_goes_up_from_left_to_right(tmp_path: Path) -> None:
    line = scenario(tmp_path, {"rattan.toml": RATTAN, "rate.json": RATES})
    up, down = line["up"], line["down"]
    assert (up["link"]["rate"], up["link"]["delay"], up["queue"]["limit"]) == (
        "1200 Mbit/s",
        "10 ms",
        "60 packets",
    )
    assert (down["link"]["rate"], down["queue"]["discipline"]) == ("12 Mbit/s", "codel")
    changes = [(change["at"], change["rate"]) for change in down["link"]["change"]]
    assert changes == [("1 s", "24 Mbit/s"), ("3 s", "12 Mbit/s"), ("4 s", "24 Mbit/s")]


def test_losses_over_time_become_a_course(tmp_path: Path) -> None:
    cells = RATTAN.replace('down_bw = "left"', 'down_bw = "l"\nl = "left"') + (
        '[cells.l]\ntype = "LossReplay"\ntrace = "loss.toml"\n'
    )
    loss = (
        "[RepeatedLossPatternConfig]\ncount = 1\n"
        '[[RepeatedLossPatternConfig.pattern]]\nStaticLossConfig = { loss = [0.0], duration = "1s" }\n'
        '[[RepeatedLossPatternConfig.pattern]]\nStaticLossConfig = { loss = [0.5], duration = "1s" }\n'
    )
    line = scenario(tmp_path, {"rattan.toml": cells, "rate.json": RATES, "loss.toml": loss})
    rows = line["down"]["link"]["course"].splitlines()
    assert rows[:3] == ["time_s,rate_bps,delay_s,loss", "0,12000000,0,0", "1,24000000,0,0.5"]


def test_units_of_tc_are_those_of_iproute2(tmp_path: Path) -> None:
    script = """
IF=eth0
sudo tc qdisc add dev $IF root handle 1: htb default 12   # a comment
tc class add dev eth0 parent 1: classid 1:12 htb rate 128kbps burst 1600
tc -s qdisc show dev eth0
tc qdisc add dev eth0 parent 1:12 handle 20: netem delay 5000 loss 0.5 duplicate 1% limit 50 2>/dev/null
"""
    up = scenario(tmp_path, {"shape.sh": script}, "up=shape.sh")["up"]
    assert (up["link"]["rate"], up["link"]["delay"]) == ("1024 kbit/s", "5 ms")
    assert (up["link"]["loss"], up["link"]["duplicate"], up["queue"]["limit"]) == (0.005, 0.01, "50 packets")
    assert up["link"]["framing"] == "14 B"  # Ethernet's header, which tc counts


def test_tbf_after_netem_and_two_devices(tmp_path: Path) -> None:
    script = """tc qdisc add dev eth0 root handle 1: netem delay 50ms 10ms
tc qdisc add dev eth0 parent 1:1 handle 10: tbf rate 1mbit burst 1540 latency 100ms
tc qdisc add dev eth1 root tbf rate 5mbit burst 1540 limit 30k
tc qdisc add dev eth1 parent 1:1 fq_codel limit 100 noecn target 10ms
"""
    line = scenario(tmp_path, {"s.sh": script}, "down:eth1=s.sh", "up:eth0=s.sh")
    down, up = line["down"], line["up"]
    assert (down["link"]["rate"], down["queue"]["discipline"]) == ("5 Mbit/s", "fq_codel")
    assert (down["queue"]["ecn"], down["queue"]["target"]) == (False, "10 ms")
    assert (up["link"]["delay"], up["link"]["jitter"]["max"], up["link"]["reorder"]) == (
        "40 ms",
        "20 ms",
        True,
    )
    assert up["queue"]["limit"] == "14040 B"  # 1 Mbit/s x 100 ms, and the bucket


FAULTS: list[tuple[Files, str]] = [
    ({"a.down": "1\nx\n"}, r"a\.down:2: 'x' is not a time; .* such as 20"),
    ({"a.down": "1\n5\n4\n"}, r"a\.down:3: 4 comes after 5"),
    ({"a.down": "0\n0\n"}, r"a\.down:2: the last time is the length of the trace"),
    ({"a.trace": "1\n"}, r"a\.trace: the name states no direction; write down="),
    ({"delay.txt": "1\n"}, r"delay\.txt: there are delays, but no rates"),
    ({"a.sh": "\nmm-delay x mm-link a b\n"}, r"a\.sh:2: 'x' is not a delay"),
    ({"a.sh": "mm-link no.trace no.trace\n"}, r"a\.sh:1: Cannot read .*no\.trace: No such file"),
    ({"a.sh": "mm-loss sideways 0.1 mm-link a b\n"}, r"a\.sh:1: 'sideways' is not a direction"),
    ({"a.sh": "mm-loss uplink 1.1 mm-link a b\n"}, r"a\.sh:1: a loss rate of 1\.1 is above 1"),
    (
        {"a.sh": "mm-link t t --uplink-queue=codell\n", "t": TRACE},
        r"a\.sh:1: .*'codell'; the most similar is 'codel'",
    ),
    (
        {"a.sh": "mm-link t t --uplink-queue=droptail\n", "t": TRACE},
        r"a\.sh:1: the queue 'droptail' needs a limit",
    ),
    (
        {"a.sh": "mm-link t t\nmm-link t t\n", "t": TRACE},
        r"a\.sh:2: this describes another line, after .*a\.sh:1",
    ),
    ({"a.sh": "mm-delay 5 mm-link t\n", "t": TRACE}, r"a\.sh:1: the command ends after 't'"),
    ({"a.sh": "tc qdisc add dev down0 root netem delay 20mz\n"}, r"a\.sh:1: '20mz' is not a delay; .* 20ms"),
    (
        {"a.sh": "\ntc qdisc add dev down0 root netem dely 1ms\n"},
        r"a\.sh:2: netem has no option 'dely'.*'delay'",
    ),
    ({"a.sh": "tc qdisc add dev down0 root netem loss 120%\n"}, r"a\.sh:1: 120 % is not a probability"),
    ({"a.sh": "tc qdisc add dev down0 root hfsc default 1\n"}, r"a\.sh:1: .*the discipline 'hfsc'"),
    (
        {"a.sh": "tc qdisc add dev down0 root netem delay $D\n"},
        r"a\.sh:1: '\$D' is not a delay; its value is not known",
    ),
    (
        {"a.sh": "tc qdisc add dev eth0 root netem delay 1ms\n"},
        r"a\.sh: it is not clear which direction 'eth0' is",
    ),
    (
        {"a.sh": "tc qdisc add dev down0 root tbf rate 1mbit burst 1k\n"},
        r"a\.sh:1: tbf needs a limit or a latency",
    ),
    (
        {"a.sh": "tc qdisc add dev down0 root netem delay\n"},
        r"a\.sh:1: the command ends where a delay is expected",
    ),
    ({"a.sh": "tc qdisc add dev down0 root 'netem\n"}, r"a\.sh:1: a quotation is not closed"),
    (
        {"a.sh": "tc filter add dev down0 parent 1: u32 match ip dport 80 0xffff flowid 1:1\n"},
        r"a\.sh:1: .*filters",
    ),
    ({"p.json": '{"mode": "local",\n "uplink_trace": 3}'}, r"p\.json:2: uplink_trace is not a string"),
    ({"p.json": '{"uplink_trace": "a",\n}'}, r"p\.json:2: invalid JSON"),
    ({"p.json": '{"cc_schemes": [],\n"mode": "remote"}'}, r"p\.json:2: the test ran over a real network"),
    (
        {
            "p.yml": "test-name: x\nextra_mm_link_args: --uplink-qeue=codel\n"
            "uplink_trace: t\ndownlink_trace: t\n",
            "t": TRACE,
        },
        r"p\.yml:2: mm-link has no option '--uplink-qeue'",
    ),
    ({"p.yml": "test-name: x\n"}, r"p\.yml: uplink_trace is missing"),
    ({"r.toml": "[cells]\n[links]\nleft = 'a'\n"}, r"r\.toml:3: 'left' links to 'a', which is no cell"),
    ({"r.toml": "[links]\nleft = \n[cells]"}, r"r\.toml:2: invalid TOML"),
    ({"r.toml": RATTAN.replace('"10ms"', '"10 parsecs"')}, r"r\.toml:16: '10 parsecs' is not a duration"),
    ({"r.toml": RATTAN.replace('"Delay"', '"Dellay"')}, r"r\.toml:15: .*'Dellay'; .* 'Delay'"),
    ({"r.toml": RATTAN}, r"r\.toml:20: Cannot read .*rate\.json"),
    ({"r.toml": RATTAN, "rate.json": "{\n]"}, r"rate\.json:2: invalid JSON"),
    (
        {"r.toml": RATTAN, "rate.json": RATES.replace("Static", "Normalized")},
        r"rate\.json:5: .*'NormalizedBwConfig'",
    ),
    ({"r.toml": RATTAN, "rate.json": RATES.replace("12Mbps", "fast")}, r"rate\.json:5: 'fast' is not a rate"),
]


@pytest.mark.parametrize(("files", "message"), FAULTS, ids=[str(number) for number in range(len(FAULTS))])
def test_errors_name_file_line_and_remedy(tmp_path: Path, files: Files, message: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario(tmp_path, files)
    assert re.search(message, str(caught.value)), caught.value
    assert str(caught.value).endswith(".")


def test_what_is_left_out_is_noted(tmp_path: Path) -> None:
    file = tmp_path / "a.sh"
    file.write_text("tc qdisc add dev down0 root netem rate 1mbit delay 10ms 2ms 25% reorder 5% 50%\n")
    notes = "\n".join(read([source(str(file))]).notes)
    for text in ("a.sh:1: the correlation of the delay is left out", "a.sh:1: reorder is left out"):
        assert text in notes


SEEDS = [
    "tc qdisc add dev down0 root handle 1: stab overhead -14 linklayer atm htb default 1\n",
    "tc class add dev down0 parent 1: classid 1:1 htb rate 1mbit ceil 2mbit burst 15k\n",
    "tc qdisc add dev up0 root netem delay 10ms 5ms 25% distribution normal "
    "loss gemodel 1% 2% 3% slot 4ms rate 1mbit 5\n",
    "tc qdisc change dev up0 root netem delay 10ms\nsleep 5\ntc qdisc change dev up0 root netem loss 1%\n",
    "tc qdisc add dev down0 root tbf rate 1mbit burst 10kb/8 latency 50ms\n",
    "tc qdisc add dev down0 root cake bandwidth 1mbit besteffort flows rtt 10ms\n",
    "mm-delay 10 mm-loss uplink 0.1 mm-link t t --uplink-queue=droptail "
    '--uplink-queue-args="packets=5" -- sh\n',
    "test.py local --uplink-trace t --downlink-trace t --extra-mm-link-args='--uplink-queue=infinite'\n",
    "test-name: a\nuplink_trace: t\ndownlink_trace: t\nprepend_mm_cmds: mm-delay 3\n",
    '{"mode": "local", "uplink_trace": "t", "downlink_trace": "t"}\n',
    RATTAN,
    RATES,
    TRACE,
]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A file of one of the formats, with pieces of it and of others removed, repeated or inserted."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 4))):
        first, last = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        other = draw(
            st.one_of(
                st.just(""),
                st.text(max_size=6),
                st.sampled_from(
                    [
                        "$X",
                        "\\\n",
                        "'",
                        '"',
                        "-1",
                        "1e400",
                        "9" * 30,
                        "nan",
                        "\n",
                        "%",
                        "\0",
                        "down",
                        "delay",
                        *SEEDS,
                    ]
                ),
            )
        )
        text = text[:first] + other + draw(st.sampled_from([text[first:last], ""])) + text[last:]
    return text


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=damaged(), role=st.sampled_from(["", "down=", "up=", "delay=", "down:down0="]))
@example(text="tc qdisc add dev down0 root netem delay 1e3s\n", role="")
def test_a_damaged_file_is_read_or_refused_with_its_name(tmp_path: Path, text: str, role: str) -> None:
    file = tmp_path / "down-link.txt"
    file.write_text(text, encoding="utf-8", errors="replace", newline="")
    (tmp_path / "t").write_text(TRACE)
    (tmp_path / "rate.json").write_text(text, encoding="utf-8", newline="")
    each = source(f"{role}{file}")
    refused, line = "", None
    try:
        line = read([each])
    except InputError as error:
        refused = str(error)
    if line is None:
        assert str(tmp_path) in refused, "the error names a file"
    else:
        tables = tomllib.loads(files_of(line, tmp_path / "out.toml", [file])[tmp_path / "out.toml"])
        assert {"down", "up", "flow"} <= tables.keys()


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "a.sh"
    file.write_bytes(b"tc qdisc add dev down0 root netem delay 1ms\n\xff\n")
    with pytest.raises(InputError, match=r"a\.sh:2: the text is not UTF-8"):
        read([source(str(file))])


def test_an_unknown_format_lists_those_that_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("nothing of the kind\n")
    assert not is_line(source(str(file)))
    with pytest.raises(InputError, match=re.escape(FORMATS[0])):
        read([source(f"down={file}")])


def test_the_command_writes_a_scenario_and_its_recordings(
    tmp_path: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lte.down").write_text(TRACE)
    (tmp_path / "lte.up").write_text("5\n")
    out = tmp_path / "lte.toml"
    arguments = ("fit", tmp_path / "lte.down", tmp_path / "lte.up", "--out", out)
    assert lasthop_main(*arguments) == 0
    assert "from a Mahimahi trace" in capsys.readouterr().out
    assert (tmp_path / "lte-down.trace").read_text() == TRACE
    assert lasthop_main(*arguments) == 2
    assert "already exists" in capsys.readouterr().err
    other = tmp_path / "other.toml"
    assert lasthop_main("fit", tmp_path / "lte.down", "--out", other, "--seed", "3") == 2
    assert "--seed is for measurements" in capsys.readouterr().err
