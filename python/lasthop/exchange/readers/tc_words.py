"""The words of a command of tc: rates, times, sizes and percentages, as iproute2 reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from lasthop.exchange.place import Place, shown
from lasthop.exchange.quantities import split_number

_SIZES = {
    "": 1,
    "b": 1,
    "k": 2**10,
    "kb": 2**10,
    "m": 2**20,
    "mb": 2**20,
    "g": 2**30,
    "gb": 2**30,
    "kbit": 2**7,
    "mbit": 2**17,
    "gbit": 2**27,
}
TIMES = {
    **dict.fromkeys(("s", "sec", "secs"), 10**9),
    **dict.fromkeys(("ms", "msec", "msecs"), 10**6),
    **dict.fromkeys(("", "us", "usec", "usecs"), 10**3),
    **dict.fromkeys(("ns", "nsec", "nsecs"), 1),
}
_BITS = {
    "": 1,
    "bit": 1,
    "kbit": 10**3,
    "mbit": 10**6,
    "gbit": 10**9,
    "tbit": 10**12,
    "kibit": 2**10,
    "mibit": 2**20,
    "gibit": 2**30,
    "tibit": 2**40,
}
_RATES = _BITS | {
    f"{unit}": 8 * size
    for unit, size in {
        "bps": 1,
        "kbps": 10**3,
        "mbps": 10**6,
        "gbps": 10**9,
        "tbps": 10**12,
        "kibps": 2**10,
        "mibps": 2**20,
        "gibps": 2**30,
        "tibps": 2**40,
    }.items()
}


class Words:
    """Takes the words of a command one by one. Raises InputError with its place."""

    def __init__(self, words: Sequence[str], place: Place) -> None:
        self.words = list(words)
        self.place = place

    def next(self, what: str) -> str:
        if not self.words:
            raise self.place.fault(f"the command ends where {what} is expected")
        return self.words.pop(0)

    def quantity(self, what: str, units: Mapping[str, int], example: str) -> Fraction:
        word = self.next(what)
        number = split_number(word)
        if number is None or number[1].lower() not in units or number[0] > 10**18:
            hint = "; its value is not known here" if "$" in word else ""
            raise self.place.fault(f"{shown(word)} is not {what}{hint}; write for example {example}")
        value = number[0] * units[number[1].lower()]
        if value >= 2**62:
            raise self.place.fault(f"{shown(word)} is too large")
        return value

    def optional(self, units: Mapping[str, int]) -> Fraction | None:
        """Return the next word as a quantity, if it is one."""
        number = split_number(self.words[0]) if self.words else None
        if number is None or number[1].lower() not in units or number[0] > 10**12:
            return None
        self.words.pop(0)
        return number[0] * units[number[1].lower()]

    def time(self, what: str) -> int:
        return math.floor(self.quantity(what, TIMES, "20ms"))

    def rate(self, what: str) -> int:
        rate = math.floor(self.quantity(what, _RATES, "10mbit"))
        if not 0 < rate <= 10**15:
            raise self.place.fault(f"a rate of {rate} bit/s is out of range; write for example 10mbit")
        return rate

    def size(self, what: str, *, cell: bool = False) -> int:
        if cell and self.words:
            self.words[0] = self.words[0].partition("/")[0]
        return math.floor(self.quantity(what, _SIZES, "1540"))

    def count(self, what: str) -> int:
        word = self.next(what)
        if not (word.isascii() and word.isdigit() and len(word) <= 9):
            raise self.place.fault(f"{shown(word)} is not {what}; write a whole number")
        return int(word)

    def percentage(self, what: str) -> Fraction:
        word = self.words[0] if self.words else ""
        if (share := self.optional_percentage()) is None:
            if not word:
                raise self.place.fault(f"the command ends where {what} is expected")
            raise self.place.fault(f"{shown(word)} is not {what}; write for example 1%")
        return share

    def optional_percentage(self) -> Fraction | None:
        """Return the next word as a share; tc takes a number as percent with or without its sign."""
        share = self.optional({"": 1, "%": 1})
        if share is not None and share > 100:
            raise self.place.fault(f"{float(share):g} % is not a probability; write at most 100%")
        return None if share is None else share / 100
