"""Rates, times, sizes and probabilities as integers or exact decimals, and as text of a scenario."""

import re
from decimal import Decimal
from fractions import Fraction

RATE_UNITS = {"Gbit/s": 10**9, "Mbit/s": 10**6, "kbit/s": 10**3, "bit/s": 1}
TIME_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NUMBER = re.compile(r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)\s*(?P<unit>.*)", re.IGNORECASE)


def split_number(text: str) -> tuple[Fraction, str] | None:
    """Return a number of at least 0 and what follows it; `None` if `text` does not begin with one."""
    if len(text) > 60 or not text.isascii() or (match := _NUMBER.fullmatch(text.strip())) is None:
        return None
    return Fraction(match["number"]), match["unit"].strip()


def rate_text(bits_per_second: int) -> str:
    return _text(bits_per_second, RATE_UNITS)


def time_text(nanoseconds: int) -> str:
    return _text(nanoseconds, TIME_UNITS)


def _text(value: int, units: dict[str, int]) -> str:
    if value == 0:
        return f"0 {next(iter(units))}"
    unit = next(unit for unit, size in units.items() if value % size == 0)
    return f"{value // units[unit]} {unit}"


def scenario_rate(text: str) -> int:
    """Return a rate of a resolved scenario in bit/s."""
    number, _, unit = text.partition(" ")
    return round(Fraction(number) * RATE_UNITS[unit])


def scenario_time(text: str) -> int:
    """Return a time of a resolved scenario in nanoseconds."""
    number, _, unit = text.partition(" ")
    return round(Fraction(number) * TIME_UNITS[unit])


def scenario_bytes(text: str) -> int:
    return int(text.removesuffix(" B"))


def seconds(nanoseconds: int) -> str:
    """Return a time as a plain decimal number of seconds."""
    return _plain(Decimal(nanoseconds) / 10**9)


def percent(share: float) -> str:
    """Return a probability as a plain decimal number of percent."""
    return f"{_plain(Decimal(repr(share)) * 100)}%"


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
