"""Reading qlog: the forms of its drafts, the logs of real stacks, and files that are damaged or end early."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasthop.common.errors import InputError
from lasthop.stacks.qlog import Log, Received, Sent, State, Update, read_logs

DATA = Path(__file__).parent / "data"
SENT = {"header": {"packet_type": "1RTT", "packet_number": 7}, "raw": {"length": 1200}}
ACK = {
    "header": {"packet_type": "1RTT", "packet_number": 3},
    "raw": {"length": 30},
    "frames": [{"frame_type": "ack", "acked_ranges": [[4], [6, 7]]}],
}
LOST = {"header": {"packet_type": "1RTT", "packet_number": 5}, "trigger": "time_threshold"}
METRICS = {"congestion_window": 12000, "smoothed_rtt": 50.5, "ssthresh": 2**64 - 1}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.qlog"


def events(*, prefix: str = "", metrics: str = "recovery:metrics_updated") -> list[dict[str, Any]]:
    names = prefix or "transport", prefix or "recovery"
    return [
        {"time": 1.5, "name": f"{names[0]}:packet_sent", "data": SENT},
        {"time": 51.5, "name": f"{names[0]}:packet_received", "data": ACK},
        {"time": 51.5, "name": f"{names[1]}:packet_lost", "data": LOST},
        {"time": 51.5, "name": metrics, "data": METRICS},
        {"time": 52, "name": f"{names[1]}:congestion_state_updated", "data": {"new": "recovery"}},
    ]


def write_json(file: Path, own: list[Any], **trace: object) -> Path:
    point = {"name": "x", "type": "server"}
    traces = [{"vantage_point": point, **trace, "events": own}]
    file.write_text(json.dumps({"qlog_version": "0.3", "qlog_format": "JSON", "traces": traces}))
    return file


def write_sequence(file: Path, own: list[Any]) -> Path:
    head = {"qlog_format": "JSON-SEQ", "title": "x qlog", "trace": {"vantage_point": {"type": "server"}}}
    file.write_text("".join(f"\x1e{json.dumps(record)}\n" for record in [head, *own]))
    return file


def only(file: Path) -> Log:
    (log,) = read_logs(file)
    return log


def check(log: Log) -> None:
    assert (log.stack, log.end, log.notes) == ("x", "server", [])
    assert log.sent == [Sent(1_500_000, "application", 7, 1200, True)]
    assert log.received == [Received(51_500_000, "application", 30, ((4, 4), (6, 7)))]
    assert [(lost.number, lost.trigger) for lost in log.lost] == [(5, "time_threshold")]
    assert log.updates == [Update(51_500_000, {"cwnd_bytes": 12000, "srtt_ms": 50.5})]
    assert log.states == [State(52_000_000, "recovery")]


def test_json_and_json_seq_have_the_same_events(file: Path) -> None:
    check(only(write_json(file, events())))
    check(only(write_sequence(file, events())))


def test_the_newer_namespace_names_the_same_events(file: Path) -> None:
    check(only(write_sequence(file, events(prefix="quic", metrics="quic:recovery_metrics_updated"))))


def test_the_arrays_of_the_first_drafts_name_the_same_events(file: Path) -> None:
    old = [[str(round(own["time"] * 1000)), *own["name"].split(":"), own["data"]] for own in events()]
    old[0][3] = {"packet_type": "1RTT", "header": {"packet_number": "7", "packet_size": 1200}}
    old[3][3] = {"cwnd": 12000, "smoothed_rtt": 50500}
    check(
        only(
            write_json(
                file,
                old,
                event_fields=["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"],
                configuration={"time_units": "us"},
            )
        )
    )


def test_differences_of_times_add_up(file: Path) -> None:
    own = events()
    for event, time in zip(own, (1.5, 50, 0, 0, 0.5), strict=True):
        event["time"] = time
    check(only(write_json(file, own, common_fields={"time_format": "relative_to_previous_event"})))


def test_connections_of_a_trace_are_told_apart_by_their_group(file: Path) -> None:
    own = [{**event, "group_id": group} for event in events() for group in ("a", "b")]
    for log in read_logs(write_json(file, own)):
        check(log)
    assert len(read_logs(file)) == 2


def test_packets_that_only_acknowledge_need_no_acknowledgment(file: Path) -> None:
    own = events()
    own[0]["data"] = ACK
    assert not only(write_json(file, own)).sent[0].eliciting


@pytest.mark.parametrize("write", [write_json, write_sequence])
def test_a_file_that_ends_within_an_event_is_read_up_to_there(
    write: Callable[[Path, list[Any]], Path], file: Path
) -> None:
    whole = only(write(file, events()))
    text = file.read_text()
    cut = text[: text.index("congestion_state_updated") - 5]
    file.write_text(cut)
    log = only(file)
    assert (log.sent, log.received, log.lost) == (whole.sent, whole.received, whole.lost)
    assert (log.updates, log.states) == (whole.updates, [])
    assert "is read up to there" in log.notes[0]


def test_damage_before_the_end_is_an_error_with_its_line(file: Path) -> None:
    text = write_sequence(file, events()).read_text()
    file.write_text(text.replace('"time": 51.5', '"time": 51.5.1', 1))
    with pytest.raises(InputError, match=r"a\.qlog, line 3: Expecting ',' delimiter"):
        read_logs(file)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"name": "transport:packet_sent"}, "line 3: an event has no time"),
        ({"time": "soon", "name": "x"}, "line 3: an event's time is 'soon'"),
        (7, "line 3: an event is not an object"),
        ([1, 2], "line 3: an event is an array that 'event_fields' does not describe"),
    ],
)
def test_an_event_without_its_parts_is_an_error(event: object, why: str, file: Path) -> None:
    with pytest.raises(InputError, match=why):
        read_logs(write_sequence(file, [events()[0], event]))


@pytest.mark.parametrize("text", ["", "[]", "{}", "\x1e\n", "hello", '{"traces": [{"events": []}]}'])
def test_what_is_no_log_is_an_error(text: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=r"a\.qlog"):
        read_logs(file)


@pytest.mark.parametrize(
    ("name", "stack", "is_cut", "first_lost"),
    [
        ("aioquic-draft01.qlog", "aioquic", False, 12),
        ("aioquic.qlog", "aioquic", False, 160),
        ("quic-go.sqlog", "quic-go", True, 148),
        ("ngtcp2.sqlog", "ngtcp2", True, 168),
    ],
)
def test_the_logs_of_real_stacks_are_read(name: str, stack: str, is_cut: bool, first_lost: int) -> None:
    log = only(DATA / name)
    assert (log.stack, log.end, bool(log.notes)) == (stack, "server", is_cut)
    assert log.lost[0].number == first_lost
    assert all(packet.bytes is not None and packet.number is not None for packet in log.sent)
    assert any(received.acked for received in log.received)
    assert {"cwnd_bytes", "in_flight_bytes", "srtt_ms"} <= {
        name for own in log.updates for name in own.values
    }
    assert [own.time_ns for own in log.sent] == sorted(own.time_ns for own in log.sent)


REAL = [own for own in sorted(DATA.iterdir()) if own.suffix != ".md"]


@given(st.sampled_from(REAL), st.data())
def test_any_beginning_of_a_real_log_is_read_or_refused_as_a_whole(source: Path, data: st.DataObject) -> None:
    whole = source.read_bytes()
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    logs = outcome(source, cut)
    if logs:
        complete = only(source)
        for name in ("sent", "received", "lost", "updates", "states"):
            values = getattr(logs[0], name)
            assert values == getattr(complete, name)[: len(values)]


@given(st.sampled_from(REAL), st.data())
def test_random_changes_of_a_real_log_are_read_or_refused_in_words(source: Path, data: st.DataObject) -> None:
    changed = bytearray(source.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(changed)))
        end = min(len(changed), start + data.draw(st.integers(0, 30)))
        changed[start:end] = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"[", b"{", b"1e999", b"null", b"\x1e"])
        )
    outcome(source, bytes(changed))


KEYS = [
    *("traces", "trace", "events", "event_fields", "time", "name", "data", "header", "raw", "length"),
    *("frames", "acked_ranges", "frame_type", "packet_number", "common_fields", "vantage_point"),
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.sampled_from(["ack", "1RTT", "transport:packet_sent"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.lists(JSON, max_size=3))
def test_any_json_is_read_or_refused_in_words(first: object, rest: list[object]) -> None:
    outcome(DATA / "aioquic.qlog", json.dumps(first).encode())
    outcome(DATA / "aioquic.qlog", "".join(f"\x1e{json.dumps(own)}\n" for own in [first, *rest]).encode())


def outcome(like: Path, content: bytes) -> list[Log] | None:
    """Read a file with this content; `None` if it is refused with its name."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / like.name
        file.write_bytes(content)
        try:
            return read_logs(file)
        except InputError as error:
            text = str(error)
    assert str(file) in text
    return None
