"""`irtt client -o FILE`: round trips of small datagrams at even times, and one-way delays by both clocks."""

from pathlib import Path

import numpy as np

from lasthop.common.errors import InputError
from lasthop.fit.measurement import Delays, Measurement
from lasthop.fit.sources.document import Part, document

_NS_IN_MS = 1e6
_NO_RATE = "No rate and no buffer: small packets at even times do not fill a line."
_ONE_WAY = "No check of the clocks: the one-way delays are as good as both hosts' clocks agree."
_CLOCKS = "No one-way delays: the clocks of the two hosts differ by more than the delay."


def claims(head: bytes, path: Path) -> bool:
    del path
    return head.lstrip().startswith(b"{") and b'"irtt"' in head


def read(path: Path) -> Measurement:
    whole = document(path)
    probes = list(whole["round_trips"].items())
    if not probes:
        raise InputError(f"{path}: round_trips: none is there; no probe was sent")
    sent_ns = [_sent_ns(probe) for probe in probes]
    ways = np.array([[_delay_ms(probe, way) for way in ("rtt", "receive", "send")] for probe in probes])
    rtt_ms, down_ms, up_ms = ways.T
    if np.isnan(rtt_ms).all():
        raise InputError(f"{path}: round_trips: all {len(probes)} probes were lost")
    notes = [_NO_RATE]
    one_way = ~np.isnan(down_ms) & ~np.isnan(up_ms)
    known = bool(one_way.any())
    if known and min(down_ms[one_way].min(), up_ms[one_way].min()) <= 0:
        known = False
        notes.append(_CLOCKS)
    elif known:
        notes.append(_ONE_WAY)
    delays = Delays(
        (np.array(sent_ns) - min(sent_ns)) / 1e9,
        rtt_ms,
        down_ms if known else None,
        up_ms if known else None,
        lost=int(np.isnan(rtt_ms).sum()),
        sent=len(probes),
    )
    walls = [probe["timestamps"]["client"]["send"].get("wall") for probe in probes]
    start_s = None if None in walls else min(wall.number() for wall in walls if wall is not None) / 1e9
    return Measurement(path, "irtt", delays=delays, start_s=start_s, notes=tuple(notes))


def _sent_ns(probe: Part) -> float:
    sent = probe["timestamps"]["client"]["send"]
    return (sent.get("monotonic") or sent["wall"]).number()


def _delay_ms(probe: Part, way: str) -> float:
    """Return a delay, or NaN for a lost probe and for what the server was not asked."""
    delay = probe.get("delay")
    found = delay.get(way) if delay else None
    lost = probe.get("lost")
    if found is None or (lost is not None and lost.word() != "false"):
        return float("nan")
    return (found.amount() if way == "rtt" else found.number()) / _NS_IN_MS
