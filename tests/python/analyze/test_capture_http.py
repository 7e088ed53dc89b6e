"""Page loads in captures: tshark reads their requests and responses, and puts the objects together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import STUDY
from lasthop import _core
from lasthop.engines.engine import CaptureTarget, Observation
from observing import observe
from tools import IN_ORDER, require_tools, tshark

FIELDS = (
    "_ws.malformed", "ip.checksum.status", "tcp.checksum.status", "tcp.stream", "http.request.full_uri",
    "http.request.version", "http.response.version", "http.response.code", "http.content_length",
    "tcp.analysis.retransmission",
)  # fmt: skip
CELLS = [
    f"link={link},protocol={protocol},workload={workload},variant=baseline,queue=fifo"
    for link in ("e0", "r2")
    for protocol in ("http1.0", "http1.1")
    for workload in ("s+2s", "l+8m")
]
CARVED_HEADER = 100


@dataclass(frozen=True)
class Page:
    """A captured page load as tshark reads it, and what it should be."""

    key: str
    rows: list[dict[str, str]]
    objects: dict[str, bytes]
    sizes: dict[str, int]
    version: str


def capture(study: _core.Study, cell: _core.Cell, folder: Path) -> Page:
    folder.mkdir()
    observe(cell, study.seed, 1, 2, Observation(capture=CaptureTarget(folder, "a test", _core.SNAP_LENGTH)))
    file = folder / "server.pcapng"
    exported = ("--export-objects", f"http,{folder / 'objects'}")
    rows = [dict(zip(FIELDS, row, strict=True)) for row in tshark(file, FIELDS, *IN_ORDER, *exported)]
    objects = {path.name: path.read_bytes() for path in (folder / "objects").iterdir()}
    scenario: dict[str, Any] = json.loads(cell.scenario)
    page = scenario["flow"][0]
    carved = CARVED_HEADER if size(scenario["http"]["response_header"]) == 0 else 0
    sizes = {"main": size(page["main"]) - carved}
    sizes |= {
        f"inline-{number}": size(page["inline"]) - carved for number in range(1, page["inline_count"] + 1)
    }
    version = "HTTP/1.0" if scenario["http"]["protocol"] == "http1.0" else "HTTP/1.1"
    return Page(cell.key, rows, objects, sizes, version)


def size(text: str) -> int:
    number, unit = text.split()
    assert unit == "B", text
    return int(number)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Page]:
    require_tools()
    study = _core.load(str(STUDY.parent / "iip2004" / "study.toml"))
    cells = {cell.key: cell for cell in study.cells}
    root = tmp_path_factory.mktemp("pages")
    return [capture(study, cells[key], root / str(number)) for number, key in enumerate(CELLS)]


def test_every_packet_is_well_formed_retransmissions_too(pages: list[Page]) -> None:
    retransmissions = 0
    for page in pages:
        for row in page.rows:
            assert row["_ws.malformed"] == "", page.key
            assert (row["ip.checksum.status"], row["tcp.checksum.status"]) == ("1", "1"), page.key
            retransmissions += row["tcp.analysis.retransmission"] == "1"
    assert retransmissions > 20


def test_there_is_a_request_and_a_response_for_every_object(pages: list[Page]) -> None:
    for page in pages:
        requests = [row for row in page.rows if row["http.request.version"]]
        uris = [row["http.request.full_uri"].removeprefix("http://server/") for row in requests]
        assert sorted(uris) == sorted(page.sizes), page.key
        assert {row["http.request.version"] for row in requests} == {page.version}, page.key
        responses = [row for row in page.rows if row["http.response.code"]]
        codes = [code for row in responses for code in row["http.response.code"].split(",")]
        assert codes == ["200"] * len(page.sizes), page.key
        assert {word for row in responses for word in row["http.response.version"].split(",")} == {
            page.version
        }
        lengths = [int(length) for row in responses for length in row["http.content_length"].split(",")]
        assert sorted(lengths) == sorted(page.sizes.values()), page.key
        connections = len({row["tcp.stream"] for row in requests})
        assert connections == (len(page.sizes) if page.version == "HTTP/1.0" else 1), page.key


def test_the_objects_that_tshark_puts_together_are_whole(pages: list[Page]) -> None:
    """tshark names pipelined objects after the latest request, so the text tells them apart."""
    for page in pages:
        found = {}
        for content in page.objects.values():
            lines = content.decode("ascii").splitlines()
            name = lines[0].split(",")[0]
            found[name] = len(content)
            for number, line in enumerate(lines):
                expected = f"{name}, byte {64 * number} ".ljust(63, ".")
                assert expected.startswith(line), (page.key, line)
        assert found == page.sizes, page.key
