"""Rust sources as the checks read them: without comments, literals and tests; `use` trees leaf by leaf."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TOKENS_TO_BLANK = re.compile(
    r"""
    //[^\n]*                                  # line comment
    | \bb?r(?P<hashes>\#*)".*?"(?P=hashes)    # raw string
    | \b[bc]?"(?:\\.|[^"\\])*"                # string after a prefix
    | "(?:\\.|[^"\\])*"                       # string
    | '(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\])'     # character, not a lifetime
    """,
    re.VERBOSE | re.DOTALL,
)
USE = re.compile(r"\buse\s+(?P<tree>[^;]+);")
PATH = re.compile(r"(?<![\w:])(?:::\s*)?[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*")
TEST_MODULE = re.compile(
    r"#\s*\[\s*cfg\s*\(\s*test\s*\)\s*\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(?P<name>\w+)\s*;"
)
CFG_TEST = re.compile(r"#\s*!?\s*\[\s*cfg\s*\(\s*test\s*\)\s*\]")


def blank(text: str) -> str:
    """Replace all but line ends by spaces, so that positions and line numbers stay."""
    return re.sub(r"[^\n]", " ", text)


def strip_comments_and_literals(source: str) -> str:
    """Blank comments (block comments nest), strings and characters."""
    pieces: list[str] = []
    position = 0
    while position < len(source):
        if source.startswith("/*", position):
            end = end_of_block_comment(source, position)
        elif match := TOKENS_TO_BLANK.match(source, position):
            end = match.end()
        else:
            pieces.append(source[position])
            position += 1
            continue
        pieces.append(blank(source[position:end]))
        position = end
    return "".join(pieces)


def end_of_block_comment(source: str, start: int) -> int:
    """Return the position after the block comment that starts at `start`."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(source, start):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    return len(source)


def strip_tests(code: str) -> str:
    """Blank every item under `#[cfg(test)]`; a `#![cfg(test)]` blanks the whole file."""
    while match := CFG_TEST.search(code):
        end = len(code) if "!" in match.group() else end_of_item(code, match.end())
        code = code[: match.start()] + blank(code[match.start() : end]) + code[end:]
    return code


def end_of_item(code: str, start: int) -> int:
    """Return the position after the item at `start`: its `;`, or the brace that closes it."""
    depth = 0
    for match in re.compile(r"[{}();\[\]]").finditer(code, start):
        char = match.group()
        depth += (char in "{([") - (char in "})]")
        if depth == 0 and char in ";}":
            return match.end()
    return len(code)


def expand_use_tree(tree: str, prefix: str = "") -> Iterator[str]:
    """Yield the full path of every leaf of a `use` tree; `self` stands for its module, `*` stays."""
    tree = tree.strip()
    if "{" not in tree:
        path = re.split(r"\s+as\s+", tree)[0]
        yield re.sub(r"\s+", "", prefix + path).removesuffix("::self").removeprefix("::")
        return
    head, _, rest = tree.partition("{")
    inside = rest[: rest.rindex("}")]
    depth, start = 0, 0
    for position, char in enumerate(inside + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if leaf := inside[start:position].strip():
                yield from expand_use_tree(leaf, prefix + head)
            start = position + 1


def test_modules(path: Path, code: str) -> Iterator[Path]:
    """Yield the places of the modules that a file declares under `#[cfg(test)]`: a file or a folder."""
    folder = path.parent if path.name in {"lib.rs", "mod.rs"} else path.with_suffix("")
    for match in TEST_MODULE.finditer(code):
        yield folder / f"{match['name']}.rs"
        yield folder / match["name"]
