"""Stories of flows: golden texts, counts that equal the records', and traces made by hand."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from conftest import STUDY
from counted_flows import datagram_counts, tcp_counts
from lasthop import _core
from lasthop.analysis.explain import follow, stories
from lasthop.analysis.explain.facts import IDLE, PHASES, SET_UP, SLOW_START, TcpFacts, gather
from lasthop.analysis.explain.packets import Packets
from lasthop.analysis.explain.tell import tell_tcp
from lasthop.analysis.explain.tell_udp import tell_udp
from lasthop.analysis.explain.udp import MOST_EPISODES, Heard, UdpFacts, gather_udp
from lasthop.analysis.explain.words import WIDTH, Story, length
from lasthop.engines.rows import rows
from lasthop.scenario.facts import Facts
from long_tests import ENGINE
from made_facts import one_hop
from observing import traced

Main = Callable[..., int]
Row = dict[str, Any]

EXAMPLES = STUDY.parents[1] / "examples"
GOLDEN = Path(__file__).parents[2] / "golden"
MS = 1_000_000
# The measured counts that the facts of a TCP flow must have, and that make no sense for UDP.
COUNTS = (
    "sent_packets", "received_packets", "sent_bytes", "retransmitted_packets", "unnecessary_retransmissions",
    "timeouts", "spurious_timeouts", "fast_retransmits", "tail_loss_probes", "undone", "duplicate_acks",
    "triple_duplicate_acks", "sack_blocks", "sack_blocks_total",
    "data_drops_queue", "data_drops_red", "data_drops_error", "data_marks_ecn",
    "ack_drops_queue", "ack_drops_red", "ack_drops_error", "ack_marks_ecn",
)  # fmt: skip
UDP_COUNTS = (
    "sent_packets",
    "received_packets",
    "sent_bytes",
    "data_drops_queue",
    "data_drops_red",
    "data_drops_error",
)


def flat(text: str) -> str:
    return " ".join(text.split())


def cell_of(key: str) -> tuple[_core.Study, _core.Cell]:
    study = _core.load(str(STUDY / "study.toml"))
    return study, next(cell for cell in study.cells if cell.key == key)


def told(key: str, replication: int, flow: str) -> str:
    study, cell = cell_of(key)
    trace = traced(cell, study.seed, 1, replication)
    return "\n\n".join(map(str, stories(trace, Facts.of(cell), flow))) + "\n"


@pytest.mark.parametrize(
    ("name", "key", "replication", "flow"),
    [
        ("e0-baseline", "link=e0,workload=2tcp0udp,variant=baseline", 1, "tcp-1"),
        ("r6-baseline", "link=r6,workload=2tcp0udp,variant=baseline", 12, "tcp-1"),
        ("r6-frto", "link=r6,workload=2tcp0udp,variant=frto", 12, "tcp-1"),
        ("r1-ecn-udp", "link=r1,workload=2tcp1udp,variant=eifel+cbi+ecn", 3, "udp"),
    ],
)
def test_golden_stories(name: str, key: str, replication: int, flow: str) -> None:
    """After a change of results or wording, read the new text before it replaces the golden one."""
    assert told(key, replication, flow) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def compare(study: _core.Study, replications: Iterable[int], wanted: str = "") -> Counter[str]:
    """Hold the facts of every flow against its record; return the sums of all counts.

    Cells whose key has `wanted`.
    """
    totals: Counter[str] = Counter()
    for cell in (cell for cell in study.cells if wanted in cell.key):
        for replication in replications:
            trace = traced(cell, study.seed, 1, replication)
            packets = Packets(trace.packets, Facts.of(cell))
            for number, record in enumerate(rows(trace.flows)):
                if record["start_s"] is None:
                    continue  # a connection of a page load that was never opened
                place = (cell.key, replication, record["flow"])
                totals[record["outcome"]] += 1
                if record["protocol"] == "udp":
                    udp = datagram_counts(packets, number, record["direction"])
                    assert {name: udp[name] for name in UDP_COUNTS} == {
                        name: record[name] for name in UDP_COUNTS
                    }, place
                else:
                    facts = gather(packets, trace.transport, record, number, trace.bad_periods)
                    counts = tcp_counts(packets, trace.transport, number, facts)
                    compare_tcp(facts, counts, record, place)
                    totals.update(counts)
    return totals


def compare_tcp(facts: TcpFacts, counts: Counter[str], record: Row, place: object) -> None:
    assert {name: counts[name] for name in COUNTS} == {name: record[name] for name in COUNTS}, place
    assert sum(timeout.spurious for timeout in facts.timeouts) == record["spurious_timeouts"], place
    assert len(facts.recoveries) == record["fast_retransmits"], place
    assert len(facts.probes) == record["tail_loss_probes"], place
    told_again = [item for e in (*facts.recoveries, *facts.timeouts) for item in e.retransmissions]
    told_again += [probe.again for probe in facts.probes if probe.again is not None]
    assert len(told_again) + len(facts.stray) == record["retransmitted_packets"], place
    elapsed_s = (facts.end_ns - facts.start_ns) / 1e9
    if record["elapsed_s"] is not None:
        assert elapsed_s == pytest.approx(record["elapsed_s"], rel=0, abs=1e-9), place
    shares = facts.seconds_by_phase()
    assert min(shares.values()) >= 0, place
    assert sum(shares.values()) == pytest.approx(elapsed_s, rel=0, abs=1e-6), place


@pytest.mark.long(covers=("python/lasthop/analysis/explain", *ENGINE), seconds=6)
def test_counts_verdicts_and_times_equal_the_records() -> None:
    totals = compare(_core.load(str(STUDY / "study.toml")), range(1, 5))
    for name in set(COUNTS) - {"ack_drops_queue", "ack_drops_red", "ack_marks_ecn", "tail_loss_probes"}:
        assert totals[name] > 0, name


PROBING = """
extends = "EXAMPLE"
name = "probing"

[flow.download]
bytes = "15 kB"

[factor.link.lossy]
errors = { good = "0 s", bad = "1000 s", packet_error_probability = 0.2 }
"""


def test_counts_equal_the_records_of_linux_6_which_probes_the_tail(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "probing.toml"
    file.write_text(PROBING.replace("EXAMPLE", str(EXAMPLES / "modern.toml")), encoding="utf-8")
    totals = compare(_core.load(str(file)), range(1, 31), "link=lossy")
    for name in ("tail_loss_probes", "fast_retransmits", "timeouts"):
        assert totals[name] > 5, name
    assert lasthop_main("explain", file, "--only", "control=cubic,link=lossy", "--replication", 1) == 0
    assert "Tail loss probe (RFC 8985, section 7)" in flat(capsys.readouterr().out)


def test_counts_equal_the_records_of_page_loads() -> None:
    totals = compare(
        _core.load(str(STUDY.parent / "iip2004" / "study.toml")), [1, 2], "workload=m+8m,variant=frto,"
    )
    assert totals["timeouts"] > 0
    assert totals["retransmitted_packets"] > 0


def test_a_page_load_is_told_by_its_objects_then_by_its_connections(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = "link=e0,protocol=http1.0,workload=s+2s,variant=baseline,queue=fifo"
    assert lasthop_main("explain", "iip2004", "--cell", cell, "--replication", 1, "--flow", "page") == 0
    told = capsys.readouterr().out
    assert "page: page load, 3 objects requested over 3 connections." in told
    assert told.count("Requests ") == 3
    for name in ("main", "inline-1", "inline-2"):
        assert f"page/{name}: TCP, server to client, segments of at most 536 bytes." in told
    assert told.count("The client's SYN arrived; SYN-ACK sent.") == 3
    assert lasthop_main("explain", "iip2004", "--cell", cell, "--replication", 1, "--flow", "page/main") == 0
    assert "inline" not in capsys.readouterr().out


LOSSY = """
name = "lossy"
title = "Links that lose nearly everything"
seed = 7
replications = 8
mtu = "576 B"
time_limit = "200 s"
lan = { rate = "100 Mbit/s", delay = "0.15 ms" }

[down]
queue.limit = "10 packets"
link = { rate = "64 kbit/s", delay = "300 ms", send_buffer = "4800 B", release = "acknowledged" }

[up]
queue.limit = "1 packet"
link = { rate = "9600 bit/s", delay = "300 ms", send_buffer = "1200 B", release = "acknowledged" }

[errors]
good = { distribution = "exponential", mean = "3 s", min = "1 s", max = "20 s", cut = "redraw" }
bad = { distribution = "uniform", min = "0.2 s", max = "4 s" }
packet_error_probability = 0.8

[tcp]
profile = "linux-2.4"

[[flow]]
kind = "bulk-tcp"
name = "tcp-1"
bytes = "60000 B"
start = "0 s"

[[flow]]
kind = "bulk-tcp"
name = "tcp-2"
bytes = "60000 B"
start = "1 s"

[factor.link.no-arq]

[factor.link.arq.errors]
packet_error_probability = 0.95
arq = { retransmissions = 3, delay = "700 ms" }

[factor.link.dead.errors]
good = { distribution = "uniform", min = "0.2 s", max = "4 s" }
bad = { distribution = "uniform", min = "50 s", max = "90 s" }
packet_error_probability = 1.0

[factor.variant.reno]
tcp = { sack = false, retries = 3, syn_retries = 1 }

[factor.variant.frto]
tcp = { frto = "rfc4138", dsack = true }

[factor.variant.eifel]
tcp = { dsack = true, timestamps = true, ecn = true, recovery = "rfc3517-rate-halving" }

[factor.variant.tahoe]
tcp = { profile = "ns-1998", recovery = "tahoe" }

[factor.variant.pipe]
tcp = { profile = "ns-1998", recovery = "sack-pipe", sack = true, retries = 4 }
"""


def test_counts_equal_the_records_where_everything_is_lost(tmp_path: Path) -> None:
    """Lost SYNs and ACKs, timers that expire again and again, connections that are given up or never end."""
    file = tmp_path / "lossy.toml"
    file.write_text(LOSSY, encoding="utf-8")
    study = _core.load(str(file))
    totals = compare(study, range(1, 9))
    for name in (
        "aborted",
        "unfinished",
        "closed",
        "ack_drops_error",
        "data_drops_error",
        "spurious_timeouts",
    ):
        assert totals[name] > 20, name
    story = "\n".join(
        text
        for cell in study.cells
        for replication in range(1, 9)
        for text in map(str, stories(traced(cell, study.seed, 1, replication), Facts.of(cell)))
    )
    assert max(map(len, story.splitlines())) <= WIDTH
    for said in (
        "Timeout of the SYN",
        "because a SYN was lost",
        "expiry 3 in a row",
        "The sender gave up the connection.",
        "the connection was still open",
        "The next ACK that was not lost",
        "The timer expired again",
        "when duplicate ACKs started a fast recovery",
    ):
        assert said in flat(story), said


class Tape:
    """A trace written by hand: data goes down, times are in milliseconds."""

    def __init__(self) -> None:
        self.packets: list[Row] = []
        self.tcp: list[Row] = []
        self._packet: dict[int, Row] = {}

    def _order(self) -> int:
        return len(self.packets) + len(self.tcp)

    def sent(
        self,
        ms: int,
        serial: int,
        seq: int,
        size: int,
        *,
        up: bool = False,
        ack: int = 1,
        flags: int = 0x10,
        sack: str = "",
        flow: int = 0,
        window: int = 9999,
    ) -> None:
        length = size + bool(flags & 0x02) + bool(flags & 0x01)
        self._packet[serial] = {
            "flow": flow, "direction": "up" if up else "down", "place": int(up), "serial": serial, "seq": seq,
            "end": seq + length, "ack": ack, "payload_bytes": size, "ip_bytes": 40 + size, "flags": flags,
            "ce": 0, "sack": sack, "window_bytes": window, "queue_packets": None, "queue_average": None,
        }  # fmt: skip
        self.event(ms, serial, "sent")

    def event(self, ms: int, serial: int, *events: str) -> None:
        for event in events:
            self.packets.append(
                {"order": self._order(), "time_ns": ms * MS, "event": event} | self._packet[serial]
            )

    def sender(self, ms: int, event: str, **values: int | None) -> None:
        empty = dict.fromkeys(("seq", "backoff", "cwnd", "ssthresh", "in_flight", "rtt_ns", "rto_ns"))
        row = {"order": self._order(), "time_ns": ms * MS, "flow": 0, "host": "server", "event": event}
        self.tcp.append(row | empty | values)

    def facts(self, bad_periods: dict[str, list[float]] | None = None) -> tuple[TcpFacts, Packets]:
        packets = Packets(_columns(self.packets), one_hop("tcp", retry_delay_ns=700 * MS))
        record = {
            "flow": "tcp",
            "application": "tcp",
            "host": "client",
            "peer": "server",
            "direction": "down",
            "outcome": "closed",
            "throughput_Bps": 100.0,
        }
        states = bad_periods or {"start_s": [], "end_s": [], "hop": [], "direction": []}
        tcp = _columns(self.tcp)
        facts = gather(packets, tcp, record, 0, states)
        record |= dict.fromkeys(COUNTS, 0) | tcp_counts(packets, tcp, 0, facts)
        return facts, packets


def _columns(table: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in table] for name in table[0]}


def handshake() -> Tape:
    """SYN, SYN-ACK, established at 200 ms with a window of two segments."""
    tape = Tape()
    tape.sent(0, 0, 0, 0, flags=0x02)
    tape.event(1, 0, "enqueued", "dequeued")
    tape.event(100, 0, "delivered")
    tape.sent(100, 1, 0, 0, up=True, flags=0x12)
    tape.event(200, 1, "delivered")
    tape.sender(200, "rtt-sample", rtt_ns=200 * MS, rto_ns=600 * MS)
    tape.sender(200, "established")
    tape.sender(200, "window", cwnd=2, ssthresh=None, in_flight=2)
    return tape


SWITCHES = {
    "syn_timeout_cuts_window": True,
    "cached_metrics": False,
    "dupack_threshold": 3,
    "sack": True,
    "frto": "off",
    "ecn": False,
    "tail_loss_probe": False,
}


@pytest.mark.parametrize(
    ("life", "verdict"),
    [
        ([], "was on its way to the router and arrived"),
        ([(201, "enqueued")], "was waiting in the router queue and arrived"),
        ([(201, "enqueued", "dequeued")], "was in the link and arrived"),
        (
            [(201, "enqueued", "dequeued"), (300, "link-retry")],
            "was held by the link's ARQ after 1 failed try",
        ),
    ],
)
def test_a_late_original_makes_a_timeout_spurious_and_is_found(
    life: list[tuple[Any, ...]], verdict: str
) -> None:
    tape = handshake()
    tape.sent(200, 2, 1, 500)
    for ms, *events in life:
        tape.event(ms, 2, *events)
    tape.sender(800, "timeout", seq=1, backoff=1)
    tape.sender(800, "retransmitted-timeout", seq=1)
    tape.sender(800, "window", cwnd=1, ssthresh=2, in_flight=1)
    tape.sent(800, 3, 1, 500)
    tape.event(1500, 2, "delivered")
    tape.event(1600, 3, "delivered")
    facts, packets = tape.facts()
    (timeout,) = facts.timeouts
    assert timeout.spurious
    assert [item.unnecessary for item in timeout.retransmissions] == [True]
    text = flat(str(tell_tcp(facts, packets, SWITCHES)))
    assert "Verdict: spurious: the original, sent at 0.200000, " + verdict in text
    assert "arrived 700 ms later" in text
    assert "cwnd 2 -> 1, ssthresh infinite -> 2" in text
    assert "unnecessary, because an earlier copy arrived" in text


def test_a_packet_waits_behind_one_that_arq_holds() -> None:
    tape = handshake()
    tape.sent(200, 2, 1, 500, flow=1)
    tape.event(202, 2, "enqueued", "dequeued", "link-retry")
    tape.sent(210, 3, 1, 500)
    tape.event(211, 3, "enqueued", "dequeued")
    tape.sender(850, "timeout", seq=1, backoff=1)
    tape.sent(850, 4, 1, 500)
    tape.event(901, 2, "delivered")
    tape.event(901, 3, "delivered")
    facts, packets = tape.facts()
    text = flat(str(tell_tcp(facts, packets, SWITCHES)))
    assert "was in the link, behind a packet held by ARQ and arrived 51 ms later" in text


def test_a_packet_dropped_out_of_the_queue_is_no_longer_in_it() -> None:
    tape = handshake()
    for serial, seq in ((2, 1), (3, 501), (4, 1001)):
        tape.sent(200, serial, seq, 500)
    tape.event(201, 2, "enqueued", "dropped-error")
    tape.event(201, 3, "enqueued")
    tape.event(201, 4, "dropped-queue")
    _, packets = tape.facts()
    assert packets.queue_at_drop[2].packets == 0
    assert packets.queue_at_drop[4].packets == 1


def test_a_lost_original_makes_a_timeout_real() -> None:
    tape = handshake()
    tape.sent(200, 2, 1, 500)
    tape.event(201, 2, "dropped-queue")
    tape.sender(800, "timeout", seq=1, backoff=1)
    tape.sender(800, "retransmitted-timeout", seq=1)
    tape.sender(800, "window", cwnd=1, ssthresh=2, in_flight=1)
    tape.sent(800, 3, 1, 500)
    tape.event(900, 3, "delivered")
    tape.sent(900, 4, 1, 0, up=True, ack=501)
    tape.event(1000, 4, "delivered")
    tape.sender(1000, "recovery-left")
    tape.sender(1000, "window", cwnd=2, ssthresh=2, in_flight=0)
    tape.sent(1000, 5, 501, 0, flags=0x11)
    tape.event(1100, 5, "delivered")
    tape.sent(1100, 6, 1, 0, up=True, ack=502)
    tape.event(1200, 6, "delivered")
    facts, packets = tape.facts({"start_s": [0.5], "end_s": [0.7], "hop": ["last-hop"], "direction": [""]})
    (timeout,) = facts.timeouts
    assert not timeout.spurious
    assert facts.record["unnecessary_retransmissions"] == 0
    expected = dict(zip(PHASES, (0.2, 0.0, 0.2, 0.0, 0.2, 0.6, 0.0), strict=True))
    assert facts.seconds_by_phase() == pytest.approx(expected)
    text = flat(str(tell_tcp(facts, packets, SWITCHES)))
    assert "0.201000 Loss: router queue full, 1 packet: bytes 1-500. The queue then held 0 packets" in text
    assert (
        "Verdict: real: the original, sent at 0.200000, had been lost at 0.201000 (router queue full)."
        in text
    )
    assert (
        "Ended at 1.000000, after 200 ms, when everything outstanding was acknowledged: cwnd 2, ssthresh 2."
        in text
    )
    assert (
        "0.500000 Link bad for 200 ms, until 0.700000: no packet of this flow had to be repeated by ARQ."
        in text
    )
    assert "Summary: closed after 1.200000 s" in text
    assert "waiting for the timer 50.0 % (0.600 s)" in text


def test_a_closed_window_is_no_idle_time_and_a_pause_is() -> None:
    tape = handshake()
    data = itertools.count(1, 500)
    for sent, window in ((200, 0), (900, 9999), (3100, 9999)):
        serial, seq = sent, next(data)
        tape.sent(sent, serial, seq, 500)
        tape.event(sent + 100, serial, "delivered")
        tape.sent(sent + 100, serial + 1, 1, 0, up=True, ack=seq + 500, window=window)
        tape.event(sent + 200, serial + 1, "delivered")
        if not window:
            tape.sent(800, serial + 2, 1, 0, up=True, ack=seq + 500)
            tape.event(900, serial + 2, "delivered")
    facts, packets = tape.facts()
    expected = {SET_UP: 0.2, SLOW_START: 1.1, IDLE: 2.0}
    assert {kind: s for kind, s in facts.seconds_by_phase().items() if s} == pytest.approx(expected)
    text = flat(str(tell_tcp(facts, packets, SWITCHES)))
    assert "There was nothing to send and nothing in flight for 2.000 s." in text
    assert "idle 60.6 % (2.000 s)" in text


ONE_WAY = """
mtu = "576 B"
down.link = { rate = "100 kbit/s", delay = "20 ms", errors = DOWN }
up.link = { rate = "100 kbit/s", delay = "20 ms", errors = UP }

[[flow]]
kind = "bulk-tcp"
name = "download"
bytes = "60 kB"

[[flow]]
kind = "constant-udp"
name = "stream"
rate = "10 kbit/s"
payload = "100 B"
duration = "5 s"
"""
ERRORS = (
    '{ good = "1 s", bad = "500 ms", packet_error_probability = 1, arq = { retransmissions = 5, delay = '
    '"DELAY" } }'
)


@pytest.mark.parametrize("bad", ["down", "up"])
def test_a_link_that_is_bad_in_one_direction_is_told(tmp_path: Path, bad: str) -> None:
    """The other direction's ARQ waits for another time, and no try in that direction fails."""
    good = "up" if bad == "down" else "down"
    never = ERRORS.replace("packet_error_probability = 1", "packet_error_probability = 0").replace(
        "DELAY", "1 ms"
    )
    scenario = ONE_WAY.replace(bad.upper(), ERRORS.replace("DELAY", "70 ms")).replace(good.upper(), never)
    (tmp_path / "one-way.toml").write_text(scenario, encoding="utf-8")
    cell = _core.load(str(tmp_path / "one-way.toml")).cells[0]
    sides = Facts.of(cell).hops[0].sides
    assert {way: side["retry_delay_ns"] for way, side in sides.items()} == {bad: 70 * MS, good: MS}
    trace = traced(cell, 1, 1, 1)
    text = flat("\n".join(map(str, stories(trace, Facts.of(cell), "download"))))
    periods = re.findall(r"Link (\w+) bad for \d+ ms, until [\d.]+: (\d+ tries|1 try|no packet)", text)
    retries = sum(
        event == "link-retry" and flow == 0
        for event, flow in zip(trace.packets["event"], trace.packets["flow"], strict=True)
    )
    told = {
        way: sum(int(n) for w, what in periods if w == way and (n := what.split()[0]) != "no")
        for way in ("down", "up")
    }
    assert told == {bad: retries, good: 0}
    assert retries
    heard = flat("\n".join(map(str, stories(trace, Facts.of(cell), "stream"))))
    assert f"Link {bad} bad for" in heard


CALLS = """
replications = 2
down.link = { rate = "300 kbit/s", delay = "15 ms", loss = "2 %" }
up.link = { rate = "200 kbit/s", delay = "15 ms" }
up.queue.limit = "20 packets"

[[flow]]
kind = "voip"
name = "call"
direction = "both"
codec = "CODEC"
jitter_buffer = "40 ms"
duration = "8 s"
start = "1 s"

[[flow]]
kind = "bulk-tcp"
name = "upload"
direction = "up"
bytes = "100 kB"

[factor.stack]
udp = {}
quic.flow.call.stack = "quic"

[factor.link]
plain = {}
arq.errors.arq = { retransmissions = 2, delay = "80 ms" }
arq.errors.good = "1 s"
arq.errors.bad = "500 ms"
arq.errors.packet_error_probability = 0.7
jittery.down.link.jitter = { distribution = "uniform", min = "0 ms", max = "90 ms" }
twofold.down.link.duplicate = "20 %"
twofold.down.link.jitter = { distribution = "uniform", min = "0 ms", max = "90 ms" }
twofold.down.link.reorder = true
dead.down.link.errors = { good = "0 s", bad = "1000 s", packet_error_probability = 1 }
"""


def calls(tmp_path: Path, codec: str) -> Iterator[tuple[Row, UdpFacts, str]]:
    """Yield the record, the facts and the story of every call of the scenario above."""
    file = tmp_path / "calls.toml"
    file.write_text(CALLS.replace("CODEC", codec), encoding="utf-8")
    study = _core.load(str(file))
    for cell, replication in itertools.product(study.cells, range(1, study.replications + 1)):
        facts, trace = Facts.of(cell), traced(cell, study.seed, 1, replication)
        packets = follow(trace, facts)
        for number, record in enumerate(rows(trace.flows)):
            if record["application"].startswith("call") and record["mos"] is not None:
                voice = facts.applications[record["application"]].voice
                told = gather_udp(packets, trace.transport, record, number, trace.bad_periods, voice=voice)
                yield record, told, flat(str(tell_udp(told, packets, trace.flows["flow"])))


def mos(heard: Heard) -> float:
    """The mean opinion score by the definitions of the E-model (G.107, sections 7.4 and 7.5, and Annex B)."""
    voice, delay_ns = heard.voice, heard.delay_ns
    if delay_ns is None:
        return 1.0
    x = math.log2(delay_ns / 1e8) if delay_ns > 1e8 else 0.0
    own, third = (math.pow(1 + math.pow(x / by, 6), 1 / 6) for by in (1, 3))
    percent = 100 * (heard.lost + len(heard.late_ns)) / heard.frames
    missing = (95 - voice["impairment"]) * percent / (percent / heard.burst_ratio + voice["loss_robustness"])
    r = min(93.2 - 25 * (own - 3 * third + 2) - voice["impairment"] - missing, 100.0)
    assert r == pytest.approx(heard.rating, rel=1e-9)
    return 1.0 if r <= 0 else max(1.0, 1 + 0.035 * r + 7e-6 * r * (r - 60) * (100 - r))


@pytest.mark.parametrize("codec", ["G.711", "Opus"])
def test_what_is_heard_of_a_call_equals_the_record_to_the_digit(tmp_path: Path, codec: str) -> None:
    """Both have the jitter buffer: the crate lasthop-trace as packets come, the story at the end."""
    seen: Counter[str] = Counter()
    for record, facts, story in calls(tmp_path, codec):
        heard, place = facts.heard, (record["flow"], record["protocol"])
        assert heard is not None
        assert heard.lost / heard.frames == record["voice_loss"], place
        assert len(heard.late_ns) / heard.frames == record["voice_late"], place
        assert (heard.delay_ns is None) == (record["voice_delay_s"] is None), place
        assert (heard.delay_ns or 0) / 1e9 == pytest.approx(record["voice_delay_s"] or 0, rel=1e-12), place
        assert mos(heard) == pytest.approx(record["mos"], rel=1e-9), place
        assert f"Verdict: MOS {record['mos']:.2f}, " in story, place
        assert sum(len(gap.datagrams) for gaps in facts.gaps for gap in gaps) == heard.lost + len(
            heard.late_ns
        ), place
        assert f"{heard.lost} lost ({100 * record['voice_loss']:.2f} %)" in story, place
        assert f"{len(heard.late_ns)} late ({100 * record['voice_late']:.2f} %)" in story, place
        seen.update(
            lost=heard.lost > 0,
            late=len(heard.late_ns) > 0,
            silent=heard.delay_ns is None,
            bursts=heard.burst_ratio > 1,
            delayed=heard.delay_cost > 1,
            good=record["mos"] > 4,
            quic=facts.handshake is not None,
        )
    assert all(seen[what] > 0 for what in ("lost", "late", "bursts", "delayed", "good", "quic", "silent")), (
        seen
    )


STREAM = ("--only", "queue=long", "--flow", "call")


def stream(
    delays_ms: Sequence[int | None], every_ms: int = 20, *, silent_after: int = 10_000
) -> tuple[UdpFacts, Story]:
    """Return the story of datagrams with these delays, 5 ms of them on the link.

    `None` stands for a lost datagram. A second of silence follows one of them.
    """
    tape = Tape()
    events: list[tuple[int, int, str]] = []
    for number, delay in enumerate(delays_ms):
        at = number * every_ms + 1000 * (number > silent_after)
        events += [(at, number, "sent"), (at, number, "enqueued" if delay is not None else "dropped-queue")]
        events += (
            [] if delay is None else [(at + delay - 5, number, "dequeued"), (at + delay, number, "delivered")]
        )
    for ms, number, event in sorted(events, key=lambda event: event[0]):
        if event == "sent":
            tape.sent(ms, number, number, 1)  # its number stands in place of the one byte
        else:
            tape.event(ms, number, event)
    packets = Packets(_columns(tape.packets), one_hop("stream"))
    record: Row = dict.fromkeys(
        ("one_way_delay_p50_s", "spacing_p50_ms", "jitter_p50_ms", "throughput_Bps"), None
    ) | {
        "flow": "stream",
        "application": "stream",
        "host": "client",
        "peer": "server",
        "protocol": "udp",
        "direction": "down",
        "outcome": "closed",
    }
    record |= datagram_counts(packets, 0, "down")
    facts = gather_udp(
        packets, {"flow": []}, record, 0, {"start_s": [], "end_s": [], "hop": [], "direction": []}
    )
    return facts, tell_udp(facts, packets, ["stream"])


def test_the_delay_of_a_stream_rises_and_falls_and_gaps_are_told_in_order() -> None:
    # 100 datagrams in 2 s; a quarter of the greatest rise, 120 ms, is 30 ms.
    delays: list[int | None] = [10] * 100
    delays[20:31] = [15, 30, 50, 90, 130, 110, 90, 70, 50, 30, 24]
    delays[60:63] = [None] * 3
    facts, story = stream(delays)
    assert [(entry.ns // MS, flat(entry.text)) for entry in story.entries] == [
        (0, "Datagram 0 sent. The fastest datagram takes 10 ms, 120 ms less than the slowest: 5 ms in the "
        "router queue, until the link had room."),
        (440, "Delay rises: 7 of 7 datagrams take 40 ms or more, the last sent at 0.560000. Datagram 24, "
        "sent at 0.480000, takes longest, 130 ms: 125 ms in the router queue, behind 2 packets of its own "
        "flow. Delay has fallen to 24 ms by datagram 30, sent at 0.600000."),
        (1200, "Gap of 60 ms: datagrams 60-62, 3 lost (router queue full). The queue held 0 packets."),
        (1980, "Last datagram, number 99, sent."),
    ]  # fmt: skip
    assert [rise.worst.number for rise in facts.rises] == [24]
    assert "Verdict" not in str(story)


def test_silence_is_no_gap() -> None:
    delays: list[int | None] = [10, 10, 10, None, 10, 10]
    for silent_after in (2, 3, 10):
        facts, story = stream(delays, silent_after=silent_after)
        assert [gap.lasted_ns for (gap,) in facts.gaps] == [20 * MS]
        assert "Gap of 20 ms: datagram 3, 1 lost" in str(story)


def test_many_episodes_are_told_as_few() -> None:
    delays: list[int | None] = [10, 10, 60, 10, None] * 1000
    _, close = stream(delays)
    assert len(close.entries) == 4  # the first, one rise, one episode of gaps, the last
    assert "1000 gaps, to 99.980000: 1000 of 4996 datagrams, 1000 lost (router queue full)." in flat(
        str(close)
    )
    _, apart = stream(delays, every_ms=2000)
    assert len(apart.entries) == 2 + 2 * MOST_EPISODES
    told = [int(found) for found in re.findall(r"(\d+) gaps, to", str(apart))]
    assert sum(told) + flat(str(apart)).count(" Gap of ") == 1000
    assert "Gaps by length: 1000 of 1." in str(apart)


def test_the_story_of_a_call_says_whose_packets_stood_before_its_own() -> None:
    cell = _core.load(str(EXAMPLES / "bufferbloat.toml")).cells[0]
    trace = traced(cell, 1, 1, 1)
    (story,) = stories(trace, Facts.of(cell), "voip")
    number, wait, others, own = next(
        (int(found[1]), found[2], int(found[3]), int(found[4]))
        for entry in story.entries
        if (found := re.search(
            r"Frame (\d+),.* takes longest, [^:]*: ([\d.]+ m?s) in the router queue, behind (\d+) packets of "
            r"upload "
            r"and (\d+) of its own flow", flat(entry.text)))
    )  # fmt: skip
    events = list(rows(trace.packets))
    flow = trace.flows["flow"].index("voip")
    (entered,) = [
        row for row in events if row["flow"] == flow and row["seq"] == number and row["event"] == "enqueued"
    ]
    (left,) = [row for row in events if row["serial"] == entered["serial"] and row["event"] == "dequeued"]
    assert others + own == entered["queue_packets"] - 1  # first in, first out
    assert length(left["time_ns"] - entered["time_ns"]) == wait
    ahead = [row["flow"] for row in events if row["event"] == "dequeued" and row["direction"] == "up"
             and entered["order"] < row["order"] < left["order"]]  # fmt: skip
    assert Counter(ahead) == {flow: own, trace.flows["flow"].index("upload"): others}


def test_a_stream_is_no_call_and_has_no_verdict(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("explain", EXAMPLES / "queue.toml", *STREAM) == 0
    told = flat(capsys.readouterr().out)
    for said in (
        "Delay rises:",
        "One-way delay: median",
        "Jitter: median",
        "Gap of " if "Gap of" in told else " gaps, to",
    ):
        assert said in told
    assert "MOS" not in told
    assert "jitter buffer" not in told


def test_a_fast_recovery_names_its_cause_and_a_dsack_its_verdict() -> None:
    tape = handshake()
    for serial, seq in zip(range(2, 6), range(1, 2001, 500), strict=True):
        tape.sent(200, serial, seq, 500)
    for serial, ms in ((3, 300), (4, 301), (5, 302), (2, 500)):
        tape.event(ms, serial, "delivered")
    for serial, ms, sack in ((6, 300, "501-1001"), (7, 301, "501-1501"), (8, 302, "501-2001")):
        tape.sent(ms, serial, 1, 0, up=True, ack=1, sack=sack)
        tape.event(ms + 100, serial, "delivered")
    tape.sender(402, "recovery-entered", seq=2001)
    tape.sender(402, "retransmitted-fast", seq=1)
    tape.sender(402, "window", cwnd=2, ssthresh=2, in_flight=1)
    tape.sent(402, 9, 1, 500)
    tape.event(502, 9, "delivered")
    tape.sent(502, 10, 1, 0, up=True, ack=2001, sack="1-501")
    tape.event(602, 10, "delivered")
    tape.sender(602, "undone-dsack")
    tape.sender(602, "recovery-left")
    tape.sender(602, "window", cwnd=4, ssthresh=2, in_flight=0)
    facts, packets = tape.facts()
    (recovery,) = facts.recoveries
    assert (recovery.duplicates, recovery.sacked, recovery.dsacks) == (3, 3, 1)
    assert facts.record["unnecessary_retransmissions"] == 1
    text = flat(str(tell_tcp(facts, packets, SWITCHES)))
    assert "0.402000 Fast recovery: 3 duplicate ACKs for byte 1, 3 segments SACKed (threshold 3)." in text
    assert "cwnd 2 -> 2, ssthresh infinite -> 2" in text
    assert "Retransmitted: 1 segment (bytes 1-500); unnecessary, because an earlier copy arrived." in text
    assert "1 D-SACK block reported data that arrived twice." in text
    assert "Undone at 0.602000 by D-SACK blocks" in text
    assert "Ended at 0.602000, after 200 ms, when an ACK reached byte 2001: cwnd 4, ssthresh 2." in text


def test_an_ack_with_data_ends_a_row_of_duplicates_as_in_the_records() -> None:
    tape = handshake()
    for serial, seq in zip(range(2, 6), range(1, 2001, 500), strict=True):
        tape.sent(200, serial, seq, 500)
    for serial, payload in zip(range(6, 11), (0, 0, 0, 10, 0), strict=True):
        tape.sent(300 + serial, serial, 1, payload, up=True, ack=1)
        tape.event(400 + serial, serial, "delivered")
    facts, _ = tape.facts()
    # The first repeats the SYN-ACK's number; the record of the same events is in the crate lasthop-trace.
    assert (facts.record["duplicate_acks"], facts.record["triple_duplicate_acks"]) == (4, 1)
    tape = handshake()
    for serial, payload in zip(range(6, 10), (0, 0, 10, 0), strict=True):
        tape.sent(300 + serial, serial, 1, payload, up=True, ack=1)
        tape.event(400 + serial, serial, "delivered")
    facts, _ = tape.facts()
    assert (facts.record["duplicate_acks"], facts.record["triple_duplicate_acks"]) == (3, 0)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_tail_loss_probe_is_told_as_such(*, is_new: bool) -> None:
    tape = handshake()
    tape.sent(200, 2, 1, 500)
    tape.event(201, 2, "dropped-queue")
    tape.sender(700, "tail-loss-probe", seq=501 if is_new else 1)
    if not is_new:
        tape.sender(700, "retransmitted-probe", seq=1)
    tape.sent(700, 3, 501 if is_new else 1, 500)
    tape.event(800, 3, "delivered")
    facts, packets = tape.facts()
    (probe,) = facts.probes
    assert (probe.again is None) == is_new
    assert facts.record["tail_loss_probes"] == 1
    assert facts.record["retransmitted_packets"] == (not is_new)
    assert not facts.stray
    text = flat(str(tell_tcp(facts, packets, {**SWITCHES, "tail_loss_probe": True})))
    done = "new data is sent" if is_new else "the last segment is retransmitted"
    assert (
        "0.700000 Tail loss probe (RFC 8985, section 7): nothing was sent or received for 500 ms; "
        f"{done} to elicit an ACK"
    ) in text
    assert ("It arrived." if is_new else "It was needed: no earlier copy arrived.") in text
    assert "0 timeouts (0 spurious), 1 tail loss probe," in text


ONE_RUN = ("--only", "link=r1,workload=2tcp1udp,variant=eifel+ecn", "--replication", "1")


def test_the_command_tells_every_flow_in_plain_narrow_text(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("explain", "kulve2003", *ONE_RUN) == 0
    text = capsys.readouterr().out
    assert text.startswith("kulve2003, link=r1,workload=2tcp1udp,variant=eifel+ecn, replication 1 of set 1")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.isascii()
    assert "\x1b" not in text
    order = [text.index(f"\n{name}: ") for name in ("tcp-1", "tcp-2", "udp")]
    assert order == sorted(order)
    assert lasthop_main("explain", "kulve2003", *ONE_RUN) == 0
    assert capsys.readouterr().out == text
    assert lasthop_main("explain", "kulve2003", *ONE_RUN, "--flow", "tcp-2") == 0
    only = capsys.readouterr().out
    assert "\ntcp-2: " in only
    assert "\ntcp-1: " not in only
    assert only.split("\n\n", 1)[1].strip() in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([*ONE_RUN, "--flow", "tpc-1"], "did you mean 'tcp-1'? Flows: tcp-1, tcp-2, udp."),
        (["--replication", "1"], "48 cells match"),
        ([*ONE_RUN[:-1], "99"], "has 20 replications"),
    ],
)
def test_bad_requests_end_with_2(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert lasthop_main("explain", "kulve2003", *arguments) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""


def test_a_flow_that_never_started_is_told_so() -> None:
    tape = handshake()
    trace = {"packets": _columns(tape.packets), "tcp": _columns(tape.tcp)}
    flows = {
        "flow": ["tcp", "late"],
        "application": ["tcp", "late"],
        "host": ["client"] * 2,
        "peer": ["server"] * 2,
        "protocol": ["tcp", "tcp"],
        "direction": ["down", "down"],
        "outcome": ["unfinished"] * 2,
        "throughput_Bps": [None, None],
        **{name: [0, 0] for name in COUNTS},
    }

    class Trace:
        packets = trace["packets"]
        transport = trace["tcp"]
        bad_periods: dict[str, list[float]] = {"start_s": [], "end_s": [], "hop": [], "direction": []}  # noqa: RUF012

    Trace.flows = flows  # type: ignore[attr-defined]
    facts = one_hop("tcp", "late", tcp=SWITCHES)
    text = list(map(str, stories(cast("_core.Trace", Trace), facts)))
    assert text[1] == "late: the run ended before its first packet."
    assert "The run ended here; the connection was still open." in flat(text[0])
