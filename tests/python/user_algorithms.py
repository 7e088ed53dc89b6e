"""Algorithms that scenarios of tests use: copies of built-in ones, and some that fail."""

from __future__ import annotations

import signal
import sys
from collections import deque
from typing import Literal

import lasthop


class Reno(lasthop.CongestionControl):
    """RFC 5681 in full, without using the base class."""

    def __init__(self) -> None:
        self.counted = 0

    def on_ack(self, ack: lasthop.Ack) -> None:
        if not ack.window_limited:
            return
        left = ack.acked
        if self.window < self.ssthresh:
            grown = min(self.window + left, self.ssthresh)
            left -= int(grown - self.window)
            self.window = grown
        if left:
            segments = int(self.window)
            if self.counted >= segments:
                self.counted = 0
                self.window += 1
            self.counted += left
            self.window += self.counted // segments
            self.counted %= segments

    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        self.ssthresh = max(in_use // 2, 2)
        self.counted = 0

    def on_repeated_timeout(self, now_s: float) -> None:
        self.counted = 0

    def on_spurious(self, window: int, ssthresh: int) -> None:
        self.window = max(self.window, window)
        self.ssthresh = max(self.ssthresh, ssthresh)


class Inherited(lasthop.CongestionControl):
    """The base class, which is Reno."""


class DropTail(lasthop.QueueDiscipline):
    """A FIFO without using the base class."""

    def __init__(self) -> None:
        self.waiting: deque[lasthop.Packet] = deque()

    def enqueue(self, now_s: float, packet: lasthop.Packet) -> bool:
        if self.limit_packets is None or len(self.waiting) >= self.limit_packets:
            return False
        self.waiting.append(packet)
        return True

    def peek(self) -> lasthop.Packet | None:
        return self.waiting[0] if self.waiting else None

    def dequeue(self, now_s: float) -> lasthop.Packet | None:
        return self.waiting.popleft()


class Plain(lasthop.QueueDiscipline):
    """The base class, which is drop-tail."""


class Marks(lasthop.QueueDiscipline):
    """Drop-tail that marks one packet in twenty, at random."""

    def enqueue(self, now_s: float, packet: lasthop.Packet) -> bool:
        if self.random.random() < 0.05:
            self.mark(packet)
        return super().enqueue(now_s, packet)


class Bernoulli(lasthop.ErrorModel):
    """Sends each packet separately."""

    def loses(self, now_s: float, packet_bytes: int) -> bool:
        return self.random.random() < 0.02


class Steady(lasthop.Traffic):
    """A datagram of 500 bytes every 20 ms."""

    def on_start(self, now_s: float) -> None:
        self.next_s = now_s
        self.on_wakeup(now_s)

    def on_wakeup(self, now_s: float) -> None:
        self.send(500)
        self.next_s += 0.02
        self.wake_at(self.next_s)


class Dialogue(lasthop.Traffic):
    """Ten requests, each after the previous response."""

    def on_start(self, now_s: float) -> None:
        self.asked = 0
        self.answered = 0
        self.ask()

    def ask(self) -> None:
        self.asked += 1
        self.open = self.request()
        self.send(200)

    def on_received(self, now_s: float, received_bytes: int, is_answer: bool) -> None:
        if not is_answer:
            self.answer(1000)
            return
        self.answered += received_bytes
        if self.answered < 1000 * self.asked:
            return
        self.complete(self.open)
        if self.asked < 10:
            self.ask()
        else:
            self.close()


class Shut(lasthop.CongestionControl):
    def on_ack(self, ack: lasthop.Ack) -> None:
        self.window = 0


class Negative(lasthop.CongestionControl):
    def on_ack(self, ack: lasthop.Ack) -> None:
        self.window = -3


class Endless(lasthop.CongestionControl):
    def on_ack(self, ack: lasthop.Ack) -> None:
        self.window = float("inf")


class Enormous(lasthop.CongestionControl):
    def on_ack(self, ack: lasthop.Ack) -> None:
        self.window = 1e300


class Uncounted(lasthop.CongestionControl):
    def on_ack(self, ack: lasthop.Ack) -> None:
        self.window = float("nan")


class Backwards(lasthop.CongestionControl):
    def on_start(self, now_s: float) -> None:
        self.pacing_rate_Bps = -1.0


class Faulty(lasthop.CongestionControl):
    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        raise ValueError("no idea what to do")


class Interrupted(lasthop.CongestionControl):
    """Interrupts itself as Ctrl-C would."""

    def on_start(self, now_s: float) -> None:
        signal.raise_signal(signal.SIGINT)


class Quits(lasthop.CongestionControl):
    def on_congestion(self, sign: str, in_use: int) -> None:
        sys.exit("no more")


class Cancels(lasthop.CongestionControl):
    def on_congestion(self, sign: str, in_use: int) -> None:
        raise GeneratorExit("no more")


class Odd(lasthop.CongestionControl):
    def on_congestion(self, sign: str, in_use: int) -> None:
        class OddError(BaseException):
            pass

        raise OddError("no more")


class ActsAsCtrlC(lasthop.CongestionControl):
    def on_congestion(self, sign: str, in_use: int) -> None:
        raise KeyboardInterrupt("no more")


class Unmade(lasthop.CongestionControl):
    def __init__(self) -> None:
        raise KeyError("configuration")


class Twice(lasthop.QueueDiscipline):
    """Returns its first packet again and again."""

    def enqueue(self, now_s: float, packet: lasthop.Packet) -> bool:
        self.first = getattr(self, "first", packet)
        return super().enqueue(now_s, packet)

    def dequeue(self, now_s: float) -> lasthop.Packet | None:
        super().dequeue(now_s)
        return self.first


class Necromancer(lasthop.QueueDiscipline):
    """Drops a packet and returns it, too."""

    def enqueue(self, now_s: float, packet: lasthop.Packet) -> bool:
        if len(self.packets) == 3:
            self.drop(packet)
        return super().enqueue(now_s, packet)


class Vague(lasthop.QueueDiscipline):
    def enqueue(self, now_s: float, packet: lasthop.Packet) -> bool:
        return None  # type: ignore[return-value]


class Past(lasthop.Traffic):
    def on_start(self, now_s: float) -> None:
        self.wake_at(now_s)


class Huge(lasthop.Traffic):
    def on_start(self, now_s: float) -> None:
        self.send(100_000)


class Unasked(lasthop.Traffic):
    def on_start(self, now_s: float) -> None:
        self.complete(self.request() + 1)


NotAnAlgorithm = 3


class Stateful(lasthop.CongestionControl):
    """Reno that reports which of its two states it is in."""

    def on_ack(self, ack: lasthop.Ack) -> None:
        super().on_ack(ack)
        self.state = "slow start" if self.window < self.ssthresh else "avoidance"


class Numbered(lasthop.CongestionControl):
    """A state must be a name."""

    def on_ack(self, ack: lasthop.Ack) -> None:
        super().on_ack(ack)
        self.state = 3  # type: ignore[assignment]
