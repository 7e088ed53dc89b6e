"""Scripts of packetdrill on the model's TCP: those of the project, wrong ones, and changed ones."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lasthop.packetdrill.on_model import run_on_model
from lasthop.packetdrill.verdict import State, Verdict, junit

SCRIPTS = sorted((Path(__file__).parents[2] / "packetdrill").glob("*.pkt"))

SERVER = """\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 257
+0 accept(3, ..., ...) = 4
"""


def run(folder: Path, text: str, stack: str = "linux-6", tolerance_us: int | None = None) -> Verdict:
    script = folder / "script.pkt"
    script.write_text(text, encoding="utf-8")
    return run_on_model(script, stack, tolerance_us)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_of_the_project_passes(script: Path) -> None:
    verdict = run_on_model(script, "linux-6", None)
    assert verdict.state is State.PASSED, f"{verdict.line}: {verdict.message}"


def test_times_of_scripts_hold_without_tolerance(tmp_path: Path) -> None:
    text = SERVER + "+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n"
    assert run(tmp_path, text, tolerance_us=0).state is State.PASSED
    late = text.replace("+0 > P.", "+0.000001 > P.")
    assert run(tmp_path, late, tolerance_us=1).state is State.PASSED
    assert run(tmp_path, late, tolerance_us=0).state is State.FAILED


def test_what_fails_is_told_with_its_line(tmp_path: Path) -> None:
    verdict = run(tmp_path, SERVER + "+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1002(1001) ack 1\n")
    assert (verdict.state, verdict.line) == (State.FAILED, 9)
    verdict = run(tmp_path, SERVER + "+0 write(4, ..., 1000) = 1000\n+0 > . 1:1001(1000) ack 1\n")
    assert verdict.message == "expected another packet; got at 0.100000 s: > [noecn] P. 1:1001(1000) ack 1"
    verdict = run(tmp_path, SERVER + "+0 read(4, ..., 1000) = 5\n")
    assert verdict.message == "read should return 5; it would wait"
    verdict = run(tmp_path, SERVER + "+0 %{\nassert tcpi_snd_cwnd == 10\nassert tcpi_snd_cwnd == 9 }%\n")
    assert (verdict.line, verdict.message) == (
        8,
        "failed: assert tcpi_snd_cwnd == 9; actual: tcpi_snd_cwnd = 10",
    )


def test_a_word_that_is_not_of_the_language_fails_with_its_line(tmp_path: Path) -> None:
    verdict = run(tmp_path, SERVER + "+0 > Q. 1:1001(1000) ack 1\n")
    assert (verdict.state, verdict.line) == (State.FAILED, 8)
    assert verdict.message.startswith('"Q" is not a flag: use F, S,')


@pytest.mark.parametrize(
    ("text", "line", "lack"),
    [
        ("+0 > . 1:1(0) ack 1 <FO 0123456789abcdef>\n", 8, "the TCP option FO"),
        ("+0 > . 1:1(0) ack 1 win 400\n", 8, "windows that depend on socket memory (win)"),
        ("+0 < icmp unreachable frag_needed mtu 1200 [1:1461(1460)]\n", 8, "packets of icmp"),
        ("+0 epoll_create(1) = 5\n", 8, "the call epoll_create"),
        (
            "+0 `sysctl -q net.ipv4.tcp_sack=0`\n+0 close(4) = 0\n",
            8,
            "a change of the setting tcp_sack during the script",
        ),
        ("+0 %{ assert tcpi_reord_seen == 2 }%\n", 8, "tcpi_reord_seen"),
        ("+0 write(4, ..., 1000) = 400\n", 8, "a socket with full memory"),
    ],
)
def test_what_the_model_lacks_is_named_and_the_script_does_not_run(
    tmp_path: Path, text: str, line: int, lack: str
) -> None:
    verdict = run(tmp_path, SERVER + text)
    assert (verdict.state, verdict.line, verdict.message) == (State.NOT_RUNNABLE, line, lack)


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    verdict = run(tmp_path, "`sysctl -q net.ipv4.tcp_mtu_probing=1`\n" + SERVER)
    assert (verdict.state, verdict.message) == (State.NOT_RUNNABLE, "the setting tcp_mtu_probing = 1")


def test_the_older_stacks_run_too(tmp_path: Path) -> None:
    # They do not scale windows, and begin with two segments.
    text = SERVER.replace("win 257", "win 32000") + "+0 write(4, ..., 3000) = 3000\n"
    text += "+0 > . 1:2001(2000) ack 1\n+0 %{ assert tcpi_snd_cwnd == 2 }%\n"
    assert run(tmp_path, text, "linux-2.4").state is State.PASSED
    assert run(tmp_path, text, "linux-6").state is State.FAILED


# A marked segment out of order, one that is not marked, and an option in the other order from the peer. As
# Linux 7.3 answers, except that its ACKs are ECN-capable.
ECN_OPTION = """\
`sysctl -q net.ipv4.tcp_ecn=3 net.ipv4.tcp_ecn_option=2`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < [noecn] SEWA 0:0(0) win 32792 <mss 1000,nop,nop,sackOK,nop,wscale 7>
+0 > [noecn] SW. 0:0(0) ack 1 <mss 1460,ECN e1b 1 ceb 0 e0b 1,nop,nop,nop,sackOK,nop,wscale 5>
+.05 < [ect0] W. 1:1(0) ack 1 win 257 <ECN e0b 1 ceb 0 e1b 1,nop>
+0 accept(3, ..., ...) = 4
+.05 < [ce] EAP. 1001:2001(1000) ack 1 win 257 <ECN e0b 1 ceb 0 e1b 1,nop>
+0 > WA. 1:1(0) ack 1 <ECN e1b 1 ceb 1000 e0b 1,nop,nop,nop,sack 1001:2001>
+.05 < [ect0] EAP. 1:1001(1000) ack 1 win 257 <ECN e0b 1 ceb 0 e1b 1,nop>
+0 > WA. 1:1(0) ack 2001 <ECN e1b 1 ceb 1000 e0b 1001,nop>
+.05 write(4, ..., 1000) = 1000
+0 > WAP. 1:1001(1000) ack 2001 <ECN e1b 1 ceb 1000 e0b 1001,nop>
"""


def test_the_option_of_accurate_ecn_is_told_and_read(tmp_path: Path) -> None:
    verdict = run(tmp_path, ECN_OPTION)
    assert verdict.state is State.PASSED, f"{verdict.line}: {verdict.message}"
    changed = ECN_OPTION.replace("ceb 1000 e0b 1001", "ceb 1001 e0b 1001", 1)
    verdict = run(tmp_path, changed)
    assert (verdict.state, verdict.line) == (State.FAILED, 12)
    without = ECN_OPTION.replace("ecn_option=2", "ecn_option=0")
    assert run(tmp_path, without).state is State.FAILED


def test_junit_counts_what_failed_and_what_did_not_run() -> None:
    verdicts = [
        Verdict(Path("a.pkt"), "ipv4", State.PASSED, duration_s=1.5),
        Verdict(Path("b.pkt"), "ipv4", State.FAILED, 3, "<nothing>"),
        Verdict(Path("c.pkt"), "ipv4", State.NOT_RUNNABLE, 4, "epoll"),
    ]
    root = ElementTree.fromstring(junit(verdicts, "suite"))
    assert [root.get(key) for key in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    failure = root.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "line 3: <nothing>"


# Mutants: each changes a number or a flag of one expectation.

FIELDS = [
    r"(?<=ack )\d+",
    r"(?<=mss )\d+",
    r"(?<=wscale )\d+",
    r"(?<=ecr )\d+",
    r"(?<=sack )\d+",
    r"(?<=== )\d+\b(?!x)",
]


def mutants(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is changed, and the changed text."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        for changed in _changed(line):
            yield f"{number + 1}: {changed}", "\n".join([*lines[:number], changed, *lines[number + 1 :], ""])


def _changed(line: str) -> Iterator[str]:
    expects = re.match(r"\s*\+\S+\s+> ", line)
    if expects:
        # Its place in the stream, its length, PSH, and ECN-Echo.
        yield _range(line, lambda start, end: (start + 1, end + 1))
        yield _range(line, lambda start, end: (start, end + 1))
        flags = re.search(r"> +(?:\[\w+\] +)?([A-Z]*)", line)
        assert flags
        for letter in "PE":
            kept = flags[1].replace(letter, "") if letter in flags[1] else flags[1] + letter
            yield line[: flags.start(1)] + kept + line[flags.end(1) :]
    if expects or "assert" in line:
        for field in FIELDS:
            for found in re.finditer(field, line):
                yield line[: found.start()] + str(int(found[0]) + 1) + line[found.end() :]
    if result := re.search(r"\) = (\d+)$", line):
        is_new = re.search(r"socket|accept", line)
        if not is_new:
            yield line[: result.start(1)] + str(int(result[1]) + 1)
    for old, new in (("[ect0]", "[noecn]"), ("[noecn]", "[ect0]")):
        if expects and old in line:
            yield line.replace(old, new)


def _range(line: str, change: Callable[[int, int], tuple[int, int]]) -> str:
    found = re.search(r"(\d+):(\d+)\(\d+\)", line)
    assert found
    start, end = change(int(found[1]), int(found[2]))
    return line.replace(found[0], f"{start}:{end}({end - start})", 1)


def passed_mutants(scripts: list[Path]) -> tuple[int, list[str]]:
    """Run all mutants of scripts; return their number, and those that pass."""
    count, passed = 0, []
    for script in scripts:
        copy = script.parent / f".mutant-{os.getpid()}-{script.name}"
        try:
            for changed, text in mutants(script.read_text(encoding="utf-8")):
                copy.write_text(text, encoding="utf-8")
                count += 1
                if run_on_model(copy, "linux-6", None).state is State.PASSED:
                    passed.append(f"{script.name}:{changed}")
        finally:
            copy.unlink(missing_ok=True)
    return count, passed


def test_a_script_with_a_changed_number_or_flag_fails(tmp_path: Path) -> None:
    copies = [tmp_path / script.name for script in SCRIPTS]
    for script, copy in zip(SCRIPTS, copies, strict=True):
        copy.write_bytes(script.read_bytes())
    count, passed = passed_mutants(copies)
    assert count >= 200
    assert passed == []
