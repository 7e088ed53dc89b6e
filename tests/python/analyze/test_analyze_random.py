"""`lasthop analyze` against tcptrace on random conversations: what hosts do not do, but captures show."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from lasthop import _core
from tools import require_tools, tcptrace

CONVERSATIONS = 200
FIN, SYN, RST, ACK = 1, 2, 4, 16
A_ISN, B_ISN = 100, 500
AGREE = (
    "packets total packets", "sent_packets actual data pkts", "sent_bytes actual data bytes",
    "out_of_order_packets outoforder pkts", "duplicate_acks duplicate acks", "triple_duplicate_acks triple "
    "dupacks",
    "zero_window_probes zwnd probe pkts", "rtt_samples RTT samples", "retransmitted rexmt data pkts",
)  # fmt: skip


class Conversation:
    """A sends data, repeats some and leaves some out; B acknowledges as it likes. One packet every 10 ms."""

    def __init__(self, rng: random.Random) -> None:
        self.packets: list[bytes] = []
        self.rng = rng
        self.top, self.b_next, self.acked, self.window = 1, 1, 1, 5000
        for flags, from_a, seq, ack in ((SYN, True, 0, -B_ISN), (SYN | ACK, False, 0, 1), (ACK, True, 1, 1)):
            self.send(from_a, seq, ack, flags)
            if rng.random() < 0.1:
                self.send(from_a, seq, ack, flags)
        for _ in range(rng.randint(5, 60)):
            rng.choices([self.data, self.gap, self.again, self.answer, self.last], [35, 5, 10, 40, 2])[0]()

    def send(self, from_a: bool, seq: int, ack: int, flags: int = ACK, size: int = 0) -> None:
        ports, numbers = ((1000, 2000), (A_ISN, B_ISN)) if from_a else ((2000, 1000), (B_ISN, A_ISN))
        window = 65_535 if from_a or flags & SYN else self.window
        tcp = struct.pack("!HHIIBBHHH", *ports, numbers[0] + seq, numbers[1] + ack, 0x50, flags, window, 0, 0)
        hosts = bytes([10, 0, 0, 1, 10, 0, 0, 2] if from_a else [10, 0, 0, 2, 10, 0, 0, 1])
        head = struct.pack("!BBHHHBBH", 0x45, 0, 40 + size, len(self.packets), 0, 64, 6, 0)
        self.packets.append(head + hosts + tcp + bytes(size))

    def data(self) -> None:
        size = self.rng.choice([50, 100])
        self.send(True, self.top, self.b_next, size=size)
        self.top += size

    def gap(self) -> None:
        self.top += 100

    def again(self) -> None:
        size, seq = self.rng.choice([50, 100, 200]), 1 + 50 * self.rng.randint(0, self.top // 50)
        self.send(True, seq, self.b_next, size=size)
        self.top = max(self.top, seq + size)

    def answer(self) -> None:
        if self.rng.random() < 0.4:
            self.acked = min(self.top, self.acked + self.rng.choice([100, 200]))
        if self.rng.random() < 0.1:
            self.window = self.rng.choice([0, 5000, 6000])
        size = self.rng.choice([0, 0, 0, 0, 10])
        late = self.rng.random() < 0.1
        self.send(False, self.b_next, max(1, self.acked - 100) if late else self.acked, size=size)
        self.b_next += size

    def last(self) -> None:
        self.send(False, self.b_next, self.acked, self.rng.choice([FIN, RST]) | ACK)

    def write(self, file: Path) -> None:
        head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101)
        times = (divmod(10_000 * number, 10**6) for number in range(len(self.packets)))
        records = (
            struct.pack("<4I", 1000 + seconds, micros, len(packet), len(packet)) + packet
            for (seconds, micros), packet in zip(times, self.packets, strict=True)
        )
        file.write_bytes(head + b"".join(records))


def test_random_conversations_agree_with_tcptrace(tmp_path: Path) -> None:
    require_tools()
    file = tmp_path / "conversation.pcap"
    totals = dict.fromkeys(AGREE, 0)
    for seed in range(CONVERSATIONS):
        Conversation(random.Random(seed)).write(file)
        found: dict[str, list[Any]] = _core.analyze(str(file))[0]
        repeated = zip(found["retransmitted_packets"], found["retransmitted_syns_fins"], strict=True)
        found["retransmitted"] = [data + flags for data, flags in repeated]
        (seen,) = tcptrace(file)
        assert found["span_s"][0] == pytest.approx(seen["elapsed_us"][0] / 1e6, abs=1e-9)
        for pair in AGREE:
            ours, label = pair.split(" ", 1)
            assert tuple(found[ours]) == seen[label], (seed, ours)
            totals[pair] += sum(found[ours])
    assert all(totals.values())
