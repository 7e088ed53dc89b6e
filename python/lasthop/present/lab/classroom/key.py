"""The key of a class, from which its token, its students' seeds, and signatures are derived.

Only the teacher has the key. All students know the token, which is in the address of the class, so it cannot
sign answers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lasthop.common.errors import InputError

_BYTES = 32
_LONGEST_NAME = 60


def check_name(text: object) -> str:
    """Return the name of a student without superfluous spaces. Raises `InputError` if it is not a name."""
    name = " ".join(unicodedata.normalize("NFC", text).split()) if isinstance(text, str) else ""
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InputError(f"Enter a name or number of 1 to {_LONGEST_NAME} characters.")
    return name


def identity(name: str) -> str:
    """Return the name that stands for all its spellings: `ada` for `Ada`."""
    return unicodedata.normalize("NFKC", name).casefold()


def seed_of(token: str, name: str) -> int:
    """Return the seed of a student: four bytes of the HMAC-SHA256 (RFC 2104) of the name by the token."""
    return int.from_bytes(_hmac(token.encode(), identity(name))[:4], "big")


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), hashlib.sha256)


class Key:
    """The key of a class."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        # Twelve characters, or 60 bits, which students can type.
        self.token = base64.b32encode(self._derived("token")).decode().lower()[:12]

    @classmethod
    def read(cls, file: Path) -> Key:
        """Read a key. Raises `InputError` if the file does not contain one."""
        try:
            text = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--key {file}: cannot read the key of the class: {error}.") from error
        if not re.fullmatch(f"[0-9a-f]{{{2 * _BYTES}}}", text):
            raise InputError(f"--key {file}: this is not the key of a class. Name another file.")
        return cls(bytes.fromhex(text))

    @classmethod
    def read_or_create(cls, file: Path) -> Key:
        """Read a key; if there is no such file, create it with a new key, readable by its owner only."""
        try:
            with suppress(FileExistsError), open(file, "x", opener=_private, encoding="ascii") as new:
                new.write(secrets.token_bytes(_BYTES).hex() + "\n")
        except OSError as error:
            raise InputError(f"--key {file}: cannot write the key of the class: {error.strerror}.") from error
        return cls.read(file)

    def ticket(self, name: str) -> str:
        """Return the secret of a student's browser, which proves that it joined under this name."""
        return self._derived(f"ticket {identity(name)}").hex()

    def signature(self, record: Mapping[str, object]) -> str:
        # JavaScript writes 1.0 as 1, and both languages write floats in the shortest form.
        numbers = json.loads(json.dumps(record), parse_int=float)
        return self._derived(f"record {json.dumps(numbers, sort_keys=True)}").hex()

    def has_signed(self, record: Mapping[str, object], signature: object) -> bool:
        own = self.signature(record).encode()
        return isinstance(signature, str) and hmac.compare_digest(own, signature.encode(errors="replace"))

    def _derived(self, text: str) -> bytes:
        return _hmac(self._key, text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
