"""Control characters in texts from users, for example in the name of a flow."""

import re

CHARACTERS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
"""A regular expression, which includes those for text direction, but not tabs and ends of lines."""


def escape(control: re.Match[str]) -> str:
    """Return a character as its number in hexadecimal, and longer texts as they are."""
    text = control[0]
    return f"\\u{ord(text):04x}" if len(text) == 1 else text
