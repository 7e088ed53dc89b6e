"""Standard tools that check captures: editcap, tcptrace, tshark."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

TOOLS = ("tshark", "editcap", "mergecap", "tcptrace")
CHECKSUMS = [word for proto in ("ip", "tcp", "udp") for word in ("-o", f"{proto}.check_checksum:TRUE")]
# Otherwise tshark 4.0 calls a retransmission malformed if it overlaps an incomplete object.
IN_ORDER = ("-o", "tcp.reassemble_out_of_order:TRUE")

Pair = tuple[int, int]
Packets = list[tuple[int, int, int, bytes]]  # seconds, fraction, wire length, what was captured


def require_tools() -> None:
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        pytest.fail(f"{', '.join(missing)} not found: run 'scripts/setup-system --test' as root.")


def tool(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read_pcap(file: Path) -> Packets:
    """Return the packets of a little-endian pcap file."""
    data = file.read_bytes()
    packets, at = [], 24
    while at < len(data):
        seconds, fraction, captured, length = struct.unpack_from("<4I", data, at)
        packets.append((seconds, fraction, length, data[at + 16 : at + 16 + captured]))
        at += 16 + captured
    return packets


def write_pcap(
    file: Path, packets: Packets, link: int = 101, order: str = "<", magic: int = 0xA1B2C3D4
) -> Path:
    head = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65_535, link)
    records = (struct.pack(order + "4I", s, f, len(data), length) + data for s, f, length, data in packets)
    file.write_bytes(head + b"".join(records))
    return file


def tshark(file: Path, fields: tuple[str, ...], *options: str) -> list[list[str]]:
    """Return the fields of the packets."""
    wanted = [word for field in fields for word in ("-e", field)]
    text = tool("tshark", "-n", "-r", file, *CHECKSUMS, *options, "-T", "fields", *wanted)
    return [line.split("\t") for line in text.splitlines()]


def tcptrace(pcap: Path) -> list[dict[str, Pair]]:
    """Return tcptrace's numbers of each connection, a -> b and b -> a; `elapsed_us` and `port` are the same
    twice.
    """
    matches = []
    for part in re.split(
        r"^TCP connection \d+:", tool("tcptrace", "-l", "-r", "-n", pcap), flags=re.MULTILINE
    )[1:]:
        elapsed = re.search(r"elapsed time:\s+(\d+):(\d+):(\d+)\.(\d{6})", part)
        port = re.search(r"host \w+:\s+\S+:(\d+)", part)
        assert elapsed, part
        assert port, part
        hours, minutes, seconds, micros = (int(text) for text in elapsed.groups())
        elapsed_us = ((hours * 60 + minutes) * 60 + seconds) * 10**6 + micros
        pairs = re.findall(r"^ +(\S.*?): +(\d+)\b.*?\1: +(\d+)\b", part, re.MULTILINE)
        matches.append(
            {
                "elapsed_us": (elapsed_us, elapsed_us),
                "port": (int(port[1]), int(port[1])),
                **{label: (int(left), int(right)) for label, left, right in pairs},
            }
        )
    return matches
