"""Rendering pages from templates.

This module is loaded late, as loading Jinja takes longer than a short run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, FunctionLoader, StrictUndefined
from jinja2.bccache import Bucket

from lasthop.common.cache import cache_folder
from lasthop.common.control_characters import CHARACTERS, escape


class _Compiled(FileSystemBytecodeCache):
    """Caches compiled templates in the user's cache if possible: compiling takes a tenth of a second."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):  # the disk is full or read-only, or there is no home
            cache_folder("templates").mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().load_bytecode(bucket)


def text(name: str) -> str:
    """Return the contents of a file in this folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def page(template: Path, context: Mapping[str, object]) -> str:
    """Return the page of a template as HTML, in which control characters are escaped."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(lambda name: template.with_name(name).read_text(encoding="utf-8")),
        bytecode_cache=_Compiled(str(cache_folder("templates"))),
    )
    return re.sub(CHARACTERS, escape, environment.get_template(template.name).render(context))
