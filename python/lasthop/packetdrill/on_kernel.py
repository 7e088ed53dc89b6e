"""packetdrill scripts on Linux guest kernels, in virtual time."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from lasthop.common.errors import InputError
from lasthop.common.extras import tools_missing
from lasthop.engines.kernel.boot import claimed_cores
from lasthop.engines.kernel.guest_programs import Command, start_commands
from lasthop.engines.kernel.store import Kernel
from lasthop.packetdrill.verdict import State, Verdict

HZ = 1000
"""Ticks per second of the kernels for which the scripts are written."""

_IPV4 = (
    *("--local_ip=192.168.0.1", "--gateway_ip=192.168.0.1", "--netmask_ip=255.255.0.0"),
    *("--remote_ip=192.0.2.1", "--define=CODE=host_unreachable"),
    # From the key in the suites' defaults.sh, for the addresses above.
    *("--define=TFO_COOKIE=3021b9d889017eeb", "--define=TFO_COOKIE_ZERO=b7c12350a90dc8f5"),
)
_IPV6 = (
    *("--mtu=1520", "--local_ip=fd3d:0a0b:17d6::1", "--gateway_ip=fd3d:0a0b:17d6:8888::1"),
    *("--remote_ip=fd3d:fa7b:d17d::1",),
    *("--define=TFO_COOKIE=c1d1e9742a47a9bc", "--define=TFO_COOKIE_ZERO=82af1a8f9a205c34"),
)
_OF_IPV4 = ("--define=CMSG_LEVEL_IP=SOL_IP", "--define=CMSG_TYPE_RECVERR=IP_RECVERR")
_OF_IPV6 = ("--define=CMSG_LEVEL_IP=SOL_IPV6", "--define=CMSG_TYPE_RECVERR=IPV6_RECVERR")
# As in the runners of packetdrill's own test suite and of the kernel's.
FAMILIES = {"ipv4": (*_IPV4, *_OF_IPV4), "ipv6": (*_IPV6, *_OF_IPV6), "ipv4-mapped-ipv6": (*_IPV4, *_OF_IPV6)}
"""packetdrill's arguments for each address family."""

# A boot takes as long as some scripts. If a guest fails, its remaining scripts need another boot.
_SCRIPTS_A_BOOT = 20
# Of virtual time, as in packetdrill's own runner.
_LIMIT_S = 180
_TOO_LONG = 124  # exit code of timeout(1)
_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
# By default, packetdrill also allows a share of the time since the previous event.
_EXACTLY = "--tolerance_percent=0"
# Scripts expect sh to be bash, as on some machines. Changes to the guest's files are not kept.
_SET_UP = Command(("ln", "-sf", "bash", "/bin/sh"), Path("/"))
# Runs "$@" while tcpdump writes all packets of its network to $0.
_CAPTURE = """
tcpdump -i any -n -U --immediate-mode -Z root -w "$0" 2>/dev/null &
while kill -0 $! && [ "$(wc -l </proc/net/packet)" -lt 2 ]; do sleep 0.01; done
"$@"
code=$?
sleep 0.1
kill -INT $! && wait
exit $code
"""
_OWN_OPTION = re.compile(r"(?m)^[ \t]*--(\w+)(?:=(\S+))?")
_PLACE = re.compile(r"(?m)^\S*?\.pkt:(\d+): (.*)$")
_NO_COMMAND = re.compile(r"(?m)(\S+): (?:command )?not found$")
_ASSERTION = re.compile(r"(?m)^(?: {4}(.*)\n(?: +[~^]+\n)?)?(\w+Error\b.*)$")


@dataclass(frozen=True, slots=True)
class Task:
    script: Path
    family: str
    repetition: int
    tolerance_us: int | None = None
    """Replaces the script's own tolerance."""

    def file(self, folder: Path, ending: str) -> Path:
        name = f"{self.script.parent.name}-{self.script.stem}-{self.family}-{self.repetition + 1}"
        return folder / f"{name}.{ending}"


@dataclass(frozen=True, slots=True)
class Result:
    task: Task
    verdict: Verdict
    output: str
    """Everything that packetdrill wrote."""


def families_of(script: Path) -> Sequence[str]:
    """Return the address families that a script is for, according to its options or its name."""
    own = _own_options(script)
    if (family := own.get("ip_version")) is not None:
        return [family]
    addresses = [own[option] for option in ("local_ip", "remote_ip") if option in own]
    if script.name.endswith("v6.pkt") or any(":" in address for address in addresses):
        return ["ipv6"]
    ipv4_only = script.name.endswith("v4.pkt") or addresses
    return [family for family in FAMILIES if family != "ipv6" or not ipv4_only]


def _own_options(script: Path) -> dict[str, str]:
    """Return the packetdrill options in a script."""
    return dict(_OWN_OPTION.findall(script.read_text(encoding="utf-8", errors="replace")))


def run_on_kernel(
    kernel: Kernel,
    program: Path,
    tasks: Sequence[Task],
    jobs: int,
    advance: Callable[[int], None],
    *,
    output: Path | None = None,
) -> list[Result]:
    """Run scripts in several guests at a time; return the results in the order of the tasks.

    `output` is a folder for packetdrill's output and the packets of each script that does not pass.
    """
    if output is not None:
        if shutil.which("tcpdump", path=_SYSTEM) is None:
            raise tools_missing("capturing the packets of scripts", ["tcpdump"])
        output.mkdir(parents=True, exist_ok=True)
    cores: SimpleQueue[int] = SimpleQueue()
    for core in (claims := claimed_cores(jobs)):
        cores.put(core)

    def run_some(group: Sequence[Task]) -> list[Result]:
        core = cores.get()
        try:
            results: list[Result] = []
            while len(results) < len(group):
                new = list(_boot(kernel, program, group[len(results) :], core, output))
                if output is not None:
                    for result in new:
                        _save(result, output)
                results += new
                advance(len(new))
            return results
        finally:
            cores.put(core)

    try:
        with ThreadPoolExecutor(len(claims)) as pool:
            groups = [tasks[at : at + _SCRIPTS_A_BOOT] for at in range(0, len(tasks), _SCRIPTS_A_BOOT)]
            return [result for group in pool.map(run_some, groups) for result in group]
    finally:
        for claim in claims.values():
            claim.close()


def _save(result: Result, folder: Path) -> None:
    """Save packetdrill's output, and keep the capture, unless the script passed."""
    if result.verdict.state is State.PASSED:
        result.task.file(folder, "pcap").unlink(missing_ok=True)
    else:
        result.task.file(folder, "txt").write_text(result.output, encoding="utf-8")


def _boot(
    kernel: Kernel, program: Path, tasks: Sequence[Task], core: int, output: Path | None
) -> Iterator[Result]:
    """Run scripts in one guest; if the guest fails during a script, its result is the last."""
    runs = [Command(_arguments(program, task, output), task.script.resolve().parent) for task in tasks]
    environment = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:{_SYSTEM}", "LC_ALL": "C.UTF-8"}
    seed = tasks[0].repetition
    failure = None
    write = [] if output is None else [output]
    with start_commands(
        kernel, [_SET_UP, *runs], core=core, seed=seed, environment=environment, write=write
    ) as guest:
        try:
            guest.answer()
        except InputError as error:
            failure = str(error)
        lines = guest.lines()
    _, *answers = [json.loads(line) for line in lines if line.startswith(b'{"code"')] or [None]
    for task, answer in zip(tasks, answers, strict=False):
        verdict = _verdict(task, answer["code"], answer["output"], answer["elapsed_ns"] / 1e9)
        yield Result(task, verdict, answer["output"])
    if failure is not None:
        if len(answers) == len(tasks):
            raise InputError(failure)
        task = tasks[len(answers)]
        yield Result(task, Verdict(task.script, task.family, State.FAILED, None, failure), "")


def _arguments(program: Path, task: Task, output: Path | None) -> list[str]:
    capture = [] if output is None else ["sh", "-c", _CAPTURE, str(task.file(output.resolve(), "pcap"))]
    limit = ["timeout", "--kill-after=1", str(_LIMIT_S)]
    # The command line would override the script's own options.
    own = _own_options(task.script)
    of_family = [option for option in FAMILIES[task.family] if option[2:].partition("=")[0] not in own]
    always = (f"--ip_version={task.family}", "--send_omit_free", "--verbose")
    tolerance = () if task.tolerance_us is None else (f"--tolerance_usecs={task.tolerance_us}", _EXACTLY)
    return [*capture, *limit, str(program), *always, *tolerance, *of_family, task.script.name]


def _verdict(task: Task, code: int, output: str, duration_s: float) -> Verdict:
    def verdict(state: State, line: int | None, message: str) -> Verdict:
        return Verdict(task.script, task.family, state, line, message, duration_s)

    if code == 0:
        return verdict(State.PASSED, None, "")
    if missing := _NO_COMMAND.search(output):
        return verdict(State.NOT_RUNNABLE, None, f"this machine has no command '{missing[1]}'")
    if code == _TOO_LONG:
        return verdict(State.FAILED, None, f"it did not finish within {_LIMIT_S} s")
    if place := _PLACE.search(output):
        assertion = _ASSERTION.search(output)
        message = ": ".join(filter(None, assertion.groups())) if assertion else place[2]
        return verdict(State.FAILED, int(place[1]), message)
    last = next(reversed(output.strip().splitlines()), "no output")
    return verdict(State.FAILED, None, f"exit code {code}: {last}")
