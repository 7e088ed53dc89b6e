"""Flent's data files: the raw values of each series, as printed by the programs that flent started."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lasthop.common.errors import InputError
from lasthop.fit.measurement import Delays, Direction, Floats, Measurement, Transfer
from lasthop.fit.sources.document import Part, document

_DIRECTIONS: dict[str, Direction] = {"download": "down", "upload": "up"}
_COMPUTED = re.compile(r"\b(sum|avg|totals?|mean|min|max)\b", re.IGNORECASE)
"""Series that flent computes from others."""
_TIMESTAMPS = 52
_RATES = {"Mbits/s": 1e6, "Kbits/s": 1e3, "bits/s": 1.0}
_SMOOTH = "No packets: netperf counts bytes about once per step."
_NO_LOSSES = "No times of losses: flent records only the number of retransmissions."
_NO_TRANSFER = "No rate and no buffer: the file contains no transfer."
_NO_DELAYS = "No delays: the file contains no series of pings."


def claims(head: bytes, path: Path) -> bool:
    named = path.name.endswith((".flent", ".flent.gz"))
    return named or (head.lstrip().startswith(b"{") and b'"metadata"' in head and b"FLENT" in head)


def read(path: Path) -> Measurement:
    whole = document(path)
    raw = whole["raw_values"]
    if not raw.table():
        raise InputError(f"{path}: raw_values is empty; the series have been removed from the file")
    series = {name: list(raw[name].items()) for name in raw.table() if raw.get(name) is not None}
    about = whole["metadata"].get("SERIES_META") or Part(path, "metadata.SERIES_META", {})
    zero_s = min((value["t"].amount() for values in series.values() for value in values), default=0.0)
    transfers = tuple(_transfers(series, about, zero_s))
    delays = _delays(series, transfers, zero_s)
    if not transfers and delays is None:
        names = ", ".join(f"'{name}'" for name in series)
        raise InputError(
            f"{path}: raw_values: there is no TCP download or upload and no ping among {names}; lasthop "
            "supports series such as those of flent's tests tcp_download, tcp_upload, rrul and ping"
        )
    notes = [_SMOOTH, _NO_LOSSES] if transfers else [_NO_TRANSFER]
    return Measurement(path, "flent", transfers, delays, notes=(*notes, *([] if delays else [_NO_DELAYS])))


def _transfers(series: dict[str, list[Part]], about: Part, zero_s: float) -> Iterator[Transfer]:
    for name, values in series.items():
        direction = next((way for word, way in _DIRECTIONS.items() if word in name.lower()), None)
        if direction is None or "TCP" not in name or _COMPUTED.search(name) or "::" in name:
            continue
        points = [value for value in values if value.get("val") is not None]
        if len(points) < 2:
            continue
        facts = about.get(name) or Part(about.file, f"{about.place}.{name}", {})
        unit = facts.get("UNITS")
        factor = _RATES.get(unit.word()) if unit else 1e6
        if factor is None and unit:
            raise unit.fault(f"one of {', '.join(_RATES)}")
        time_s, delivered = _volumes(points, factor or 1e6, zero_s)
        mss, control = int(facts.amount_of("TCP_MSS")), facts.get("CONG_CONTROL")
        again = facts.get("TCP_RETRANSMIT")
        repeated = int(float(str(again.value))) if again and _digits(again) else None
        yield Transfer(
            name,
            direction,
            time_s,
            delivered,
            timed=False,
            repeated=repeated,
            sent=int(delivered[-1] / mss) + (repeated or 0) if mss else None,
            mss=mss or None,
            app_limited=False,
            control=control.word() if control else None,
            overhead=_TIMESTAMPS,
        )


def _digits(part: Part) -> bool:
    """Return whether a value is a whole number, which is a string in some files."""
    return re.fullmatch(r"\d{1,12}", str(part.value)) is not None


def _volumes(points: list[Part], factor: float, zero_s: float) -> tuple[Floats, Floats]:
    """Return times and cumulative bytes from rates, each over an interval that ends at its time."""
    end_s = np.array([point["t"].amount() for point in points]) - zero_s
    rates = np.array([point["val"].amount() for point in points]) * factor / 8
    if (steps := np.diff(end_s)).min() < 0:
        place = points[int(np.argmin(steps)) + 1]["t"]
        raise place.fault("a time after the previous one")
    spans = [point.amount_of("dur") for point in points]
    before = np.concatenate([[steps[0]], steps])
    durations = np.where(np.array(spans) > 0, spans, before)
    delivered = np.concatenate([[0.0], np.cumsum(rates * durations)])
    return np.concatenate([[end_s[0] - durations[0]], end_s]), delivered


def _delays(series: dict[str, list[Part]], transfers: tuple[Transfer, ...], zero_s: float) -> Delays | None:
    pings = {name: values for name, values in series.items() if name.startswith("Ping") and values}
    samples = [
        (value["t"].amount() - zero_s, value["val"].amount())
        for name, values in pings.items()
        if not _COMPUTED.search(name)
        for value in values
        if value.get("val") is not None
    ]
    if not samples:
        return None
    time_s, rtt_ms = np.array(sorted(samples)).T
    loaded = np.zeros(len(time_s), dtype=np.bool_)
    for transfer in transfers:
        loaded |= (time_s >= transfer.time_s[0]) & (time_s <= transfer.time_s[-1])
    sent = _sent(pings)
    return Delays(time_s, rtt_ms, loaded=loaded, lost=max((sent or 0) - len(time_s), 0), sent=sent)


def _sent(pings: dict[str, list[Part]]) -> int | None:
    """Return the number of probes sent, if there are sequence numbers."""
    numbers = [[value.amount_of("seq") for value in values] for values in pings.values()]
    if not all(min(own) > 0 for own in numbers):
        return None
    return int(sum(max(own) - min(own) + 1 for own in numbers))
