"""Readers of measurements, a module for each format.

The module of a format has `claims(head: bytes, path: Path) -> bool`, which checks the start of a file
(decompressed if it is gzip), and `read(path: Path) -> Measurement`, which raises InputError with place and
reason.
"""

import gzip
from importlib import import_module
from pathlib import Path

from lasthop.common.errors import InputError
from lasthop.fit.measurement import Measurement

# In the order of the checks; each has a module here.
FORMATS = {
    "capture": "a packet capture (pcap, pcapng)",
    "iperf3": "iperf3 -J",
    "flent": "flent (.flent, .flent.gz)",
    "irtt": "irtt client -o file.json",
    "ping": "the output of ping",
}
HEAD = 4096


def head(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed if it is gzip. Raises InputError if this fails."""
    try:
        with path.open("rb") as file:
            content = file.read(HEAD)
        if content.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                content = file.read(HEAD)
    except (OSError, EOFError) as error:
        raise InputError(f"Cannot read {path}: {error}") from error
    return content


def read(path: Path, host: str | None = None) -> Measurement:
    """Read a file, whose format is detected by its first bytes. Raises InputError.

    `host` is the address of the user's end, if it cannot be derived from a capture's connections.
    """
    start = head(path)
    for name in FORMATS:
        module = import_module(f"{__name__}.{name}")
        if module.claims(start, path):
            measurement: Measurement = module.read(path, host) if name == "capture" else module.read(path)
            return measurement
    formats = "; ".join(FORMATS.values())
    raise InputError(f"{path} is not a measurement in a supported format (supported: {formats}).")
