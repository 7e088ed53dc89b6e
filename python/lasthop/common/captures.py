"""Packet captures (pcap, pcapng) as columns of their packets, and secrets to decrypt them."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.common.files import replace_atomically

Columns = dict[str, Any]
_KINDS = {"Q": np.uint64, "I": np.uint32, "H": np.uint16, "B": np.uint8}


def packets_of(path: Path) -> tuple[Columns, dict[str, Any]]:
    """Return the packets of a capture as columns, and its other data. Raises InputError if it is damaged."""
    try:
        table = _core.packets(str(path))
    except _core.CaptureError as error:
        raise InputError(f"{path}: {error}. The file was not used.") from error
    columns = {
        name: np.frombuffer(cells[1], _KINDS[cells[0]]) for name, cells in table.items() if _is_column(cells)
    }
    return columns, table


def _is_column(cells: object) -> bool:
    return isinstance(cells, tuple) and len(cells) == 2


# Blocks of pcapng (draft-ietf-opsawg-pcapng, sections 4.1 and 4.7), and the type of a TLS key log.
_SECTION = 0x0A0D0D0A
_BYTE_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_DECRYPTION_SECRETS = 0x0000000A
_TLS_KEY_LOG = 0x544C534B


def add_secrets_to_all(folder: Path, key_log: bytes) -> None:
    """Put a TLS key log, unless it is empty, into each pcapng file of a folder."""
    for capture in folder.glob("*.pcapng") if key_log else ():
        add_secrets(capture, key_log)


def add_secrets(capture: Path, key_log: bytes) -> None:
    """Put a TLS key log (`SSLKEYLOGFILE`) into a pcapng file, so that Wireshark decrypts its packets.

    The secrets come before the packets, where also a reader that passes once finds them.
    """
    content = capture.read_bytes()
    order = _BYTE_ORDERS.get(content[8:12])
    if order is None or struct.unpack_from(f"{order}I", content)[0] != _SECTION:
        raise InputError(f"{capture} is no pcapng file, and no other holds secrets.")
    (length,) = struct.unpack_from(f"{order}I", content, 4)
    padded = key_log + bytes(-len(key_log) % 4)
    size = 20 + len(padded)
    head = struct.pack(f"{order}IIII", _DECRYPTION_SECRETS, size, _TLS_KEY_LOG, len(key_log))
    block = head + padded + struct.pack(f"{order}I", size)
    replace_atomically(capture, lambda path: path.write_bytes(content[:length] + block + content[length:]))
