"""`irtt client -o FILE`: round trips and one-way delays of small datagrams at regular intervals."""

from pathlib import Path

import numpy as np

from lasthop.common.errors import InputError
from lasthop.fit.measurement import Delays, Measurement
from lasthop.fit.sources.document import Part, document

_NS_IN_MS = 1e6
_NO_RATE = "No rate and no buffer: small packets at regular intervals do not fill a line."
_ONE_WAY = "No check of the clocks: the one-way delays are only as accurate as the clocks of both hosts."
_CLOCKS = "No one-way delays: the clocks of the two hosts differ by more than the delay."


def claims(head: bytes, path: Path) -> bool:
    del path
    return head.lstrip().startswith(b"{") and b'"irtt"' in head


def read(path: Path) -> Measurement:
    whole = document(path)
    probes = list(whole["round_trips"].items())
    if not probes:
        raise InputError(f"{path}: round_trips is empty; no probe was sent")
    sent_ns = [_sent_ns(probe) for probe in probes]
    ways = np.array([[_delay_ms(probe, way) for way in ("rtt", "receive", "send")] for probe in probes])
    rtt_ms, down_ms, up_ms = ways.T
    if np.isnan(rtt_ms).all():
        raise InputError(f"{path}: round_trips: all {len(probes)} probes were lost")
    notes = [_NO_RATE]
    one_way = ~np.isnan(down_ms) & ~np.isnan(up_ms)
    has_one_way = bool(one_way.any())
    if has_one_way and min(down_ms[one_way].min(), up_ms[one_way].min()) <= 0:
        has_one_way = False
        notes.append(_CLOCKS)
    elif has_one_way:
        notes.append(_ONE_WAY)
    delays = Delays(
        (np.array(sent_ns) - min(sent_ns)) / 1e9,
        rtt_ms,
        down_ms if has_one_way else None,
        up_ms if has_one_way else None,
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
    """Return a delay, or NaN if the probe was lost or the server does not report this delay."""
    delay = probe.get("delay")
    value = delay.get(way) if delay else None
    lost = probe.get("lost")
    if value is None or (lost is not None and lost.word() != "false"):
        return float("nan")
    return (value.amount() if way == "rtt" else value.number()) / _NS_IN_MS
