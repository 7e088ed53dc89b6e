"""The directive `lasthop`: commands that run when the site is built, with what they print and draw."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from lasthop import _core

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "docs" / "generated" / "runs"
LIMIT_S = 300
PICTURES = (".png", ".svg")


class Commands(SphinxDirective):
    """Run commands one after the other; show them, what they print, and the pictures that they write.

    All commands of a page share a folder, in which examples, docs and studies lie as in a checkout. A command
    that fails is an error of the build.
    """

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "alt": directives.unchanged_required,
        "caption": directives.unchanged_required,
        "files": directives.unchanged_required,  # of the checkout, which the reader has by their names alone
        "lines": directives.positive_int,  # most lines of what a command prints
        "hide-output": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Return the nodes that take the directive's place."""
        folder = self._folder()
        self.env.note_dependency(_core.__file__)
        for file in self.options.get("files", "").split():
            self.env.note_dependency(str(ROOT / file))
            (folder / Path(file).name).symlink_to(ROOT / file)
        made: list[nodes.Node] = []
        text = "\n".join(self.content).replace("\\\n", " ")
        for line in filter(None, map(str.strip, text.splitlines())):
            words = shlex.split(line)
            for word in words:
                if (ROOT / word).is_file():
                    self.env.note_dependency(str(ROOT / word))
            if words[0] != "lasthop":
                raise self.error(f"not a lasthop command: {line}")
            before = set(folder.rglob("*"))
            done = subprocess.run(
                [sys.executable, "-m", "lasthop.commands.cli", *words[1:]],
                cwd=folder,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=LIMIT_S,
                env=self._environment(),
                check=False,
            )
            if done.returncode != 0:
                raise self.error(f"{line}\nexit code {done.returncode}: {done.stderr.strip()}")
            printed = "" if "hide-output" in self.options else self._cut(done.stdout)
            made.append(nodes.literal_block("", f"$ {line}\n{printed}".rstrip(), language="text"))
            written = sorted(file for file in set(folder.rglob("*")) - before if file.suffix in PICTURES)
            made.extend(self._figure(file) for file in written)
        return made

    def _folder(self) -> Path:
        folder = RUNS / self.env.docname.replace("/", "-")
        if not folder.exists():
            folder.mkdir(parents=True)
            for name in ("examples", "docs", "studies"):
                (folder / name).symlink_to(ROOT / name)
        return folder

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "COLUMNS": "100", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def _cut(self, text: str) -> str:
        lines = text.rstrip().splitlines()
        most = self.options.get("lines", len(lines))
        return "\n".join([*lines[:most], *(["..."] if len(lines) > most else [])])

    def _figure(self, picture: Path) -> nodes.Node:
        alt = self.options.get("alt")
        if not alt:
            raise self.error(f"{picture.name} has no `:alt:`")
        figure = nodes.figure("", nodes.image("", uri=f"/{picture.relative_to(ROOT / 'docs')}", alt=alt))
        if caption := self.options.get("caption"):
            parsed, _ = self.state.inline_text(caption, self.lineno)
            figure += nodes.caption(caption, "", *parsed)
        return figure


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    del app, env
    shutil.rmtree(RUNS / docname.replace("/", "-"), ignore_errors=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Make it known to Sphinx."""
    app.add_directive("lasthop", Commands)
    app.connect("env-purge-doc", _purge)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
