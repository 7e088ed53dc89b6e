"""The opened scenario: its text, and the files and algorithms to which texts from the page are limited."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.engines.live.presets import presets
from lasthop.scenario.named import named_files
from lasthop.scenario.points import parse_in_place, read_study
from lasthop.studies.catalogue import find_scenario

_PLAIN = "scenario"
FIRST_SCENARIO = """\
# A download over a mobile network. Move a control, or edit this text.
title = "A download over UMTS"

[down.link]
rate = "1600 kbit/s"
delay = "150 ms"

[down.queue]
limit = "100 kB"

[up.link]
rate = "768 kbit/s"
delay = "150 ms"

[[flow]]
kind = "bulk-tcp"
name = "download"
duration = "60 s"
"""
"""The lab's default scenario: the link of the preset `umts`."""
_DOWNLOAD = """
# The file describes a link without flows, so the lab adds a flow.
[[flow]]
kind = "bulk-tcp"
name = "download"
bytes = "1 MB"
"""


@dataclass(frozen=True, slots=True)
class Opened:
    """A scenario as it was opened. Texts from the page replace its text, and may use the same files."""

    text: str
    file: str = _PLAIN
    files: Sequence[str] = ()
    code: Sequence[str] = ()

    @classmethod
    def named(cls, source: str | None) -> Opened:
        """Read a scenario file, a study or a preset; by default, return the first scenario."""
        if source is None:
            return cls(FIRST_SCENARIO)
        file = presets().get(source) or find_scenario(source)
        study = read_study(file, for_link=True)
        text = file.read_text(encoding="utf-8")
        if any(key == "flow" for cell in study.cells for key, *_ in cell.assumed):
            text += _DOWNLOAD
        return cls(text, str(file), tuple(_files(text)), tuple(dict.fromkeys(name for _, name in study.code)))

    def parse(self, text: str) -> _core.Study:
        """Parse a text of the page. Raises `InputError` or `ScenarioError` if it is invalid."""
        return parse_in_place(text, Path(self.file), list(self.files), self.code)

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def _files(text: str) -> list[str]:
    try:
        return named_files(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The lab cannot read this file as TOML 1.0: {error}.") from error
