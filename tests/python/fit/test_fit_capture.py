"""What a capture tells of a transfer, against the scenario that it was made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made import LINE, captured

from lasthop.commands.cli import main
from lasthop.common.errors import InputError
from lasthop.fit.sources import read


@pytest.mark.parametrize("end", ["server", "client"])
def test_a_capture_of_either_end_tells_bytes_round_trips_losses_and_the_first_flight(
    tmp_path: Path, end: str
) -> None:
    text = LINE + 'bytes = "3 MB"\n'
    found = read(captured(tmp_path / "made", text, end), "10.0.1.1")
    (transfer,) = found.transfers
    assert found.seen_at == ("sender" if end == "server" else "receiver")
    assert (transfer.direction, transfer.mss, transfer.initial_window) == ("down", 1448, 10)
    assert transfer.bytes[-1] == pytest.approx(3e6, abs=2)
    assert not transfer.app_limited
    # Its receiver accepted the connection, with a window of 40 packets that no scale applies to, and offers
    # 1000 later, in steps of 64 bytes.
    assert transfer.receive_window == pytest.approx(1000 * 1448, abs=64)
    assert found.delays is not None
    # 40 ms there and back, and 2.4 ms for a packet of 1500 bytes; a queue of 30 packets adds 72 ms.
    assert found.delays.rtt_ms.min() == pytest.approx(42.5, abs=0.5)
    assert 100 < found.delays.rtt_ms.max() < 40 + 2.4 * 33
    assert len(transfer.lost_s) > 0
    # Once the queue stands, packets leave at the rate of the line.
    late = transfer.time_s > 2
    pace = np.polyfit(transfer.time_s[late], transfer.bytes[late], 1)[0] * 8 / 1e6
    assert pace == pytest.approx(5 * 1448 / 1500, rel=0.03)


def test_without_an_address_the_users_end_is_lasthops_or_opened_the_connection(tmp_path: Path) -> None:
    own, foreign = captured(tmp_path / "made"), tmp_path / "foreign.pcapng"
    assert read(own).transfers[0].direction == "down"
    foreign.write_bytes(own.read_bytes().replace(bytes([10, 0, 1, 1]), bytes([192, 0, 2, 1])))
    # A bulk transfer of a scenario is opened by its sender.
    assert read(foreign).transfers[0].direction == "up"
    assert read(foreign, "192.0.2.1").transfers[0].direction == "down"


def test_what_is_damaged_foreign_or_one_sided_is_refused_and_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = captured(tmp_path / "made").read_bytes()
    damaged, foreign = tmp_path / "damaged.pcapng", tmp_path / "foreign.txt"
    # The length of a block in the middle.
    at = whole.index((6).to_bytes(4, "little"), len(whole) // 2) + 4
    damaged.write_bytes(whole[:at] + b"\xff\xff\xff\x7f" + whole[at + 4 :])
    foreign.write_text("nothing that a program measured\n", encoding="utf-8")
    for file, reason in ((damaged, "byte"), (foreign, "not a measurement in a supported format")):
        assert main(["fit", str(file), "--out", str(tmp_path / "my-line.toml"), "--quiet"]) == 2
        assert reason in capsys.readouterr().err
    assert not (tmp_path / "my-line.toml").exists()


def test_a_capture_that_ends_within_a_packet_is_used_with_a_note(tmp_path: Path) -> None:
    file = captured(tmp_path / "made")
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(file.read_bytes()[:-7])
    assert any("truncated" in note for note in read(cut).notes)
    cut.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(InputError, match="contains no usable transfer"):
        read(cut)
