"""The picture of a network: what is drawn as one, how flows run, and that nothing overlaps or is cut off."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lasthop import _core
from lasthop.commands.cli import main
from lasthop.present.pictures.network import Network, network_of
from lasthop.present.pictures.network_layout import lay_out
from lasthop.present.pictures.sheet import Box, svg
from lasthop.scenario.facts import Facts
from paths_examples import HOME, PARKING_LOT, backhaul

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
Piece = tuple[tuple[float, float], tuple[float, float]]
TWO_WAYS = """
[hop.lte]
down = { link = { rate = "20 Mbit/s", delay = "25 ms" } }
[hop.wifi]
down = { link = { rate = "40 Mbit/s", delay = "1 ms" } }
[host.phone]
behind = ["lte", "wifi"]
[host.nas]
[[flow]]
kind = "bulk-tcp"
host = "phone"
bytes = "1 kB"
[[flow]]
kind = "bulk-tcp"
name = "backup"
host = "phone"
via = "wifi"
peer = "nas"
direction = "up"
bytes = "1 kB"
"""


def network(file: Path) -> Network:
    cell = _core.load(str(file)).cells[0]
    return network_of(Facts.of(cell), json.loads(cell.scenario)["flow"])


@pytest.fixture(params=["home", "parking-lot", "backhaul", "two-ways", "one hop"])
def drawn(request: pytest.FixtureRequest, tmp_path: Path) -> Network:
    files = {"home": HOME, "parking-lot": PARKING_LOT, "one hop": EXAMPLES / "bufferbloat.toml"}
    texts = {"backhaul": backhaul(40), "two-ways": TWO_WAYS}
    if request.param in texts:
        file = tmp_path / "network.toml"
        file.write_text(texts[request.param], encoding="utf-8")
        return network(file)
    return network(files[request.param])


def test_a_home_has_its_hops_hosts_and_flows() -> None:
    home = network(HOME)
    assert [host.title for host in home.root.hosts] == ["servers"]
    (cable,) = home.root.children
    assert (cable.title, [host.title for host in cable.hosts]) == ("cable", ["tv"])
    assert cable.remarks == ["↓ 50 Mbit/s, 8 ms, drop-tail, 256 kB", "↑ 10 Mbit/s, 8 ms, drop-tail, 256 kB"]
    (wifi,) = cable.children
    assert (wifi.title, [host.title for host in wifi.hosts]) == ("wifi", ["laptop", "phone"])
    assert wifi.remarks == ["↕ 60 Mbit/s, 1 ms, drop-tail, 90 packets"]
    assert [(arrow.label, arrow.ends, arrow.direction) for arrow in home.arrows] == [
        ("photos (bulk-tcp)", ("server", "laptop"), "up"),
        ("game (bulk-tcp)", ("server", "tv"), "down"),
        ("share (bulk-tcp)", ("phone", "tv"), "down"),
        ("call (voip)", ("server", "phone"), "both"),
    ]


@pytest.mark.parametrize(("subscribers", "lines"), [(2, 2), (3, 1), (40, 1)])
def test_many_hops_that_look_alike_are_one(tmp_path: Path, subscribers: int, lines: int) -> None:
    file = tmp_path / "backhaul.toml"
    file.write_text(backhaul(subscribers), encoding="utf-8")
    drawn = network(file)
    (shared,) = drawn.root.children
    assert len(shared.children) == lines
    if lines == 1:
        (line,) = shared.children
        assert line.title == f"line-01 … line-{subscribers:02} ({subscribers} equal)"
        assert line.hosts[0].title == f"home-01 … home-{subscribers:02} ({subscribers} equal)"
        assert [arrow.label for arrow in drawn.arrows] == [f"{subscribers} × bulk-tcp"]


def test_two_flows_between_the_same_ends_keep_their_names(tmp_path: Path) -> None:
    twin = '[[flow]]\nkind = "bulk-tcp"\nname = "again"\nhost = "tv"\nbytes = "1 kB"\n'
    file = tmp_path / "home.toml"
    file.write_text(HOME.read_text(encoding="utf-8") + twin, encoding="utf-8")
    assert "game, again (bulk-tcp)" in {arrow.label for arrow in network(file).arrows}


def test_a_hop_that_differs_stays_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "backhaul.toml"
    text = backhaul(5).replace(
        'down = { link = { rate = "50 Mbit/s"', 'down = { link = { rate = "9 Mbit/s"', 1
    )
    file.write_text(text, encoding="utf-8")
    (shared,) = network(file).root.children
    assert [line.title for line in shared.children] == ["line-01", "line-02 … line-05 (4 equal)"]


def test_a_further_way_to_a_host_is_dashed_and_taken_only_by_its_flows(tmp_path: Path) -> None:
    file = tmp_path / "two-ways.toml"
    file.write_text(TWO_WAYS, encoding="utf-8")
    sheet = lay_out(network(file), 7.0)
    (dashed,) = [box for box in sheet.boxes if box.is_dashed]
    tops = {stroke.color: stroke.points for stroke in sheet.strokes if stroke.heads}
    ends = [points[-1][1] for points in tops.values()]
    inside = [dashed.corner[1] <= y <= dashed.corner[1] + dashed.size[1] for y in ends]
    assert inside == [False, True]


def test_mptcp_takes_every_way_of_its_host(tmp_path: Path) -> None:
    file = tmp_path / "two-ways.toml"
    home, _, flow = TWO_WAYS.partition("[[flow]]")
    one = "[[flow]]" + flow.partition("[[flow]]")[0]
    file.write_text(f'{home}{one}stack = "mptcp"\n', encoding="utf-8")
    labels = {arrow.via: arrow.label for arrow in network(file).arrows}
    assert len(labels) == 2
    assert all(label.endswith(f"/{way} (bulk-tcp)") for way, label in labels.items())


@pytest.mark.parametrize("width", [3.3, 7.0, 9.0])
def test_flows_never_run_on_the_same_line(drawn: Network, width: float) -> None:
    sheet = lay_out(drawn, width)
    pieces = [
        (stroke.color, piece)
        for stroke in sheet.strokes
        if stroke.heads
        for piece in itertools.pairwise(stroke.points)
    ]
    for (one, first), (other, second) in itertools.combinations(pieces, 2):
        if one != other:
            assert not overlaps(first, second), (one, other, first, second)


def overlaps(first: Piece, second: Piece) -> bool:
    for axis in (0, 1):
        across = 1 - axis
        ends = [sorted(point[axis] for point in piece) for piece in (first, second)]
        level = [{round(point[across], 6) for point in piece} for piece in (first, second)]
        if level[0] == level[1] and len(level[0]) == 1:
            return min(ends[0][1], ends[1][1]) - max(ends[0][0], ends[1][0]) > 1e-6
    return False


@pytest.mark.parametrize("width", [3.3, 7.0, 9.0])
def test_each_arrow_goes_from_host_to_host_within_the_sheet(drawn: Network, width: float) -> None:
    sheet = lay_out(drawn, width)
    arrows = [stroke for stroke in sheet.strokes if stroke.heads]
    assert len(arrows) == len(drawn.arrows) + len(drawn.others)
    hosts = [box for box in sheet.boxes if box.fill == "#ffffff"]
    for arrow in arrows:
        for tip in (arrow.points[0], arrow.points[-1]):
            assert sum(touches(host, tip) for host in hosts) == 1
    for box in sheet.boxes:
        assert box.corner[0] >= -1e-9
        assert box.corner[0] + box.size[0] <= sheet.width + 1e-9
        assert sheet.top <= box.corner[1]
        assert box.corner[1] + box.size[1] <= sheet.bottom


def touches(box: Box, point: tuple[float, float]) -> bool:
    (x, y), (width, height) = box.corner, box.size
    beside = min(abs(point[0] - x), abs(point[0] - x - width)) < 1e-9
    return beside and y < point[1] < y + height


def test_boxes_of_hosts_and_texts_do_not_overlap(drawn: Network) -> None:
    sheet = lay_out(drawn, 7.0)
    hosts = [box for box in sheet.boxes if box.fill == "#ffffff"]
    for one, other in itertools.combinations(hosts, 2):
        assert apart(one, other), (one, other)


def apart(one: Box, other: Box) -> bool:
    return any(
        one.corner[axis] + one.size[axis] <= other.corner[axis] + 1e-9
        or other.corner[axis] + other.size[axis] <= one.corner[axis] + 1e-9
        for axis in (0, 1)
    )


def test_pages_have_every_part_of_the_sheet(drawn: Network) -> None:
    sheet = lay_out(drawn, 8.0)
    drawing = ElementTree.fromstring(svg(sheet, "The network"))
    parts = Counter(part.tag for part in drawing)
    assert (parts["rect"], parts["polyline"]) == (len(sheet.boxes), len(sheet.strokes))
    assert parts["polygon"] == sum(len(stroke.heads) for stroke in sheet.strokes)
    assert [part.text for part in drawing.iter("text")] == [text.text for text in sheet.texts]


def test_the_command_draws_it_without_a_run_and_refuses_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for width in ("column", "page"):
        out = f"{width}.svg"
        assert main(["plot", str(HOME), "--kind", "network", "--width", width, "--out", out]) == 0
        assert Path(out).stat().st_size > 1000
    assert main(["plot", str(HOME), "--kind", "network", "--from", "1"]) == 2
    assert "--kind network shows the network, not a run; omit --from." in capsys.readouterr().err
