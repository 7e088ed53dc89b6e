"""Reading files of other tools, whose formats are detected by content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lasthop.common.errors import InputError
from lasthop.exchange.line import WAYS, Line
from lasthop.exchange.place import Place, text_of
from lasthop.exchange.readers import mahimahi, pantheon, rattan, tc
from lasthop.exchange.readers.shell import commands

FORMATS = (
    "a Mahimahi trace, or commands of its shells",
    "commands of tc",
    "a test of Pantheon",
    "a configuration of rattan",
    "delays of LeoReplayer",
)
_ARGUMENT = re.compile(r"(?P<role>down|up|delay)(?::(?P<device>[^=/]{1,30}))?=(?P<file>.+)", re.DOTALL)
_OTHER_RATE = 10**9
_HEAD = 65_536


@dataclass(frozen=True, slots=True)
class Source:
    """A file, and its role if the user stated one: a direction, with a device of tc, or `delay`."""

    file: Path
    role: str | None = None
    device: str = ""


def source(argument: str) -> Source:
    """Return the file of an argument such as `my.trace`, `down=my.trace` or `down:eth0=shape.sh`."""
    match = _ARGUMENT.fullmatch(argument)
    if match is None or Path(argument).exists():
        return Source(Path(argument))
    return Source(Path(match["file"]), match["role"], match["device"] or "")


def is_line(source: Source) -> bool:
    """Return whether a file describes a line, instead of measuring one."""
    if source.role is not None:
        return True
    try:
        with source.file.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    if b"\0" in head or head.startswith(b"\x1f\x8b"):
        return False
    try:
        return _format(head.decode("utf-8", errors="replace"), source.file) is not None
    except InputError:
        return False


def _format(text: str, file: Path) -> str | None:
    if mahimahi.is_numbers(text):
        return "numbers"
    if pantheon.is_json(text):
        return "pantheon-json"
    if rattan.is_config(text):
        return "rattan"
    if pantheon.is_yaml(text):
        return "pantheon-yaml"
    try:
        found = list(commands(text, file))
    except InputError:
        return "script" if re.search(r"^\s*(sudo )?(tc|mm-\w+) ", text, re.MULTILINE) else None
    if any(pantheon.is_command(command) or tc.is_command(command) for command in found) or mahimahi.chains(
        found
    ):
        return "script"
    return None


def read(sources: Sequence[Source]) -> Line:
    """Read a line from its files. Raises InputError with file and line."""
    texts = {source: text_of(source.file) for source in sources}
    formats = {source: _format(text, source.file) for source, text in texts.items()}
    for each, form in formats.items():
        if form is None:
            raise InputError(
                f"{each.file} does not describe a link in a supported format ({'; '.join(FORMATS)})."
            )
    if "numbers" in formats.values():
        return _numbers(sources, texts, formats)
    by_file: dict[Path, list[Source]] = {}
    for each in sources:
        by_file.setdefault(each.file, []).append(each)
    if len(by_file) > 1:
        first, second = list(by_file)[:2]
        raise InputError(f"{second}: {first} describes a whole line; give one such file.")
    for each in sources:
        if each.role == "delay":
            raise InputError(f"delay={each.file}: delays are a line per interval, each a whole number.")
    line = Line("")
    _whole(line, sources, texts[sources[0]], formats[sources[0]])
    _complete(line, Place(sources[0].file))
    return line


def _numbers(
    sources: Sequence[Source], texts: Mapping[Source, str], formats: Mapping[Source, str | None]
) -> Line:
    """Read traces and delays, each from a file of numbers."""
    line = Line("a Mahimahi trace")
    for each in sources:
        place = Place(each.file)
        if formats[each] != "numbers":
            raise InputError(f"{each.file} describes a whole line; give it alone, without traces.")
        if each.device:
            raise InputError(
                f"{each.role}:{each.device}={each.file}: a trace has no devices; leave out the device."
            )
        role = each.role or _role(each.file)
        if role == "delay":
            line.source = "a trace and delays of LeoReplayer"
            mahimahi.add_delays(line, texts[each], place)
        else:
            mahimahi.add_trace(line.directions[role], each.file, texts[each], place)
    if all(direction.trace is None for direction in line.directions.values()):
        raise Place(sources[0].file).fault(
            "there are delays, but no rates; also give a trace, as in down=FILE"
        )
    mahimahi.without_queue(line, Place(sources[0].file))
    _complete(line, Place(sources[0].file))
    return line


def _role(file: Path) -> str:
    """Return the role that a file's name states."""
    name = file.name.lower()
    roles = [role for role in ("delay", *WAYS) if role in name]
    if "delay" in roles:
        return "delay"
    if len(roles) != 1:
        raise Place(file).fault(
            f"the name states no direction; write down={file}, up={file}, or both, or delay={file} for delays"
        )
    return roles[0]


def _whole(line: Line, sources: Sequence[Source], text: str, form: str | None) -> None:
    file = sources[0].file
    named = {each.role: each.device for each in sources if each.role is not None}
    if form == "pantheon-json":
        line.source = "a test of Pantheon"
        pantheon.read_json(line, text, file)
    elif form == "pantheon-yaml":
        line.source = "a test of Pantheon"
        pantheon.read_yaml(line, text, file)
    elif form == "rattan":
        line.source = "a configuration of rattan"
        rattan.read(line, text, file)
    else:
        found = list(commands(text, file))
        of_tests = [command for command in found if pantheon.is_command(command)]
        chains = mahimahi.chains(found)
        if of_tests:
            line.source = "a test of Pantheon"
            _only([command.place for command in of_tests])
            pantheon.read_command(line, of_tests[0])
        elif chains:
            line.source = "commands of Mahimahi"
            _only([command.place for command, _ in chains])
            mahimahi.Shells(line, chains[0][0]).read(chains[0][1])
        else:
            line.source = "commands of tc"
            script = tc.Script(line)
            script.read(found)
            tc.assign(script, named, Place(file))
            return
    if named:
        raise InputError(f"{file} states its directions; leave out '{next(iter(named))}='.")


def _only(places: Sequence[Place]) -> None:
    if len(places) > 1:
        raise places[1].fault(f"this describes another line, after {places[0]}; give a file with one of them")


def _complete(line: Line, place: Place) -> None:
    """Give a direction that nothing limits a fast link."""
    for way, direction in line.directions.items():
        limited = "rate" in direction.link or direction.trace is not None
        if not limited and all(state.rate is None for state in direction.states):
            direction.link["rate"] = _OTHER_RATE
            line.note(place, f"nothing limits the rate of the way {way}; here it has 1 Gbit/s")
