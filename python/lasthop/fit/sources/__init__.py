"""Readers of what programs measured: one file a format.

A format's module has `claims(head: bytes, path: Path) -> bool`, which looks at the start of a file (already
unpacked if it is gzip), and `read(path: Path) -> Measurement`, which raises InputError with place and reason.
"""

import gzip
from importlib import import_module
from pathlib import Path

from lasthop.common.errors import InputError
from lasthop.fit.measurement import Measurement

# In the order in which they are asked; each has a module here.
FORMATS = {
    "capture": "a packet capture (pcap, pcapng)",
    "iperf3": "iperf3 -J",
    "flent": "flent (.flent, .flent.gz)",
    "irtt": "irtt client -o file.json",
    "ping": "the output of ping",
}
HEAD = 4096


def head(path: Path) -> bytes:
    """The first bytes of a file, unpacked if it is gzip. Raises InputError if it cannot be read."""
    try:
        with path.open("rb") as file:
            found = file.read(HEAD)
        if found.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                found = file.read(HEAD)
    except (OSError, EOFError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    return found


def read(path: Path, host: str | None = None) -> Measurement:
    """Read a file of a format that is known by its first bytes. Raises InputError.

    `host` is the address of the user's end, where a capture's connections do not tell it.
    """
    start = head(path)
    for name in FORMATS:
        module = import_module(f"{__name__}.{name}")
        if module.claims(start, path):
            measurement: Measurement = module.read(path, host) if name == "capture" else module.read(path)
            return measurement
    known = "; ".join(FORMATS.values())
    raise InputError(f"{path}: not a measurement that lasthop reads (accepted: {known})")
