"""Captures of lines that are known, made by the model."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from lasthop.engines.engine import CaptureTarget, Observation
from lasthop.fit.line import Model, Setting, simulate
from lasthop.fit.measurement import End, Measurement, Transfer
from lasthop.scenario.points import parse_study
from observing import observe

ENHANCED_PACKET = 6
LINE = """
[tcp]
profile = "linux-6"
[down.link]
rate = "5 Mbit/s"
delay = "20 ms"
[down.queue]
limit = "30 packets"
[[flow]]
kind = "bulk-tcp"
name = "download"
"""


def captured(
    folder: Path, text: str = LINE + 'duration = "6 s"\n', end: str = "client", snaplen: int = 120
) -> Path:
    """Run a scenario and return the capture of one end."""
    folder.mkdir(exist_ok=True)
    cell = parse_study(text).cells[0]
    observe(cell, 1, 1, 1, Observation(capture=CaptureTarget(folder, "made", snaplen)))
    return folder / f"{end}.pcapng"


def without(file: Path, lacks: Callable[[int, bytes], bool]) -> Path:
    """Remove the packets for which `lacks` is true, by their number and IP packet."""
    content, kept, number, at = file.read_bytes(), b"", 0, 0
    while at < len(content):
        kind, length = struct.unpack_from("<II", content, at)
        block = content[at : at + length]
        at += length
        number += kind == ENHANCED_PACKET
        if kind != ENHANCED_PACKET or not lacks(number, block[28:]):
            kept += block
    file.write_bytes(kept)
    return file


def is_udp(_: int, packet: bytes) -> bool:
    return packet[9] == 17


def measured(values: dict[str, float], model: Model, seed: int, *, end: End = "sender") -> Measurement:
    """Eight seconds of a download over a line, as its capture tells them."""
    whole = Transfer(
        "whole", "down", np.array([0.0, 8.0]), np.array([0.0, 1e6]), mss=1448, overhead=52, initial_window=10
    )
    made = simulate(Setting((whole,), "down", end, 8.0), values, model, seed)
    return replace(made, transfers=tuple(replace(one, direction="down") for one in made.transfers))


CUBIC_LINE = """
[tcp]
profile = "linux-6"
[down.link]
rate = "8 Mbit/s"
delay = "20 ms"
{link}
[down.queue]
limit = "60 packets"
[up.link]
rate = "10 Mbit/s"
delay = "20 ms"
[up.queue]
limit = "1000 packets"
[[flow]]
kind = "bulk-tcp"
name = "download"
duration = "10 s"
"""
