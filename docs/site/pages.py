"""Pages made of the program itself: the gallery of examples, and the references of keys and metrics."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from keys import Reference, prose
from PIL import Image, ImageOps
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from lasthop import _core
from lasthop.common.metrics.dictionary import dictionary
from lasthop.scenario.examples import comment, list_examples, title

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "generated"
# Those in `check` are tests, without a picture; docs/guides/ci.md tells of them.
EXAMPLES = [
    file.resolve()
    for file in list_examples().values()
    if file.suffix == ".toml" and file.parent.name != "check"
]
NOTEBOOKS = [file.resolve() for file in list_examples().values() if file.suffix == ".ipynb"]
THUMBNAIL = (240, 125)
"""Width and height. The files have twice as many pixels, for fine screens."""
# What the gallery runs. Other commands need real time.
RUN = ("run", "plot", "explain", "results factors", "validate")


def _generate(app: Sphinx) -> None:
    del app
    pages = {
        "gallery/index.md": _gallery(),
        **{f"gallery/{file.stem}.md": _example(file) for file in EXAMPLES},
        **{f"gallery/{file.name}": file.read_text(encoding="utf-8").splitlines() for file in NOTEBOOKS},
        "keys.md": Reference(json.loads(_core.schema())).page(),
        "metrics.md": _metrics(),
    }
    for name, lines in pages.items():
        page, text = GENERATED / name, "\n".join(lines) + "\n"
        page.parent.mkdir(parents=True, exist_ok=True)
        # A page that stays the same keeps its time, so that Sphinx does not make it again.
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


# --- Gallery


def _literal(text: str) -> str:
    """Return text, with code in backquotes, as Markdown that shows it as it is."""
    return re.sub(
        r"`[^`]*`|[\\<&|\[\]*_]", lambda found: found[0] if found[0][0] == "`" else f"\\{found[0]}", text
    )


def _commands(file: Path) -> Iterator[list[str]]:
    """Yield the commands of the comment that the gallery runs.

    If they draw nothing, it is a picture of the results.
    """
    found = [match[1] for line in comment(file) if (match := re.match(r"(?:.*:)?\s+(lasthop .*)", line))]
    commands = [shlex.split(command) for command in found]
    commands = [words for words in commands if " ".join(words[1:]).startswith(RUN) and "live" not in words]
    yield from commands
    run = next((words for words in commands if words[1] == "run"), None)
    if run is not None and not any(words[1] == "plot" for words in commands):
        folder = run[run.index("--out") + 1] if "--out" in run else f"results/{file.stem}"
        yield ["lasthop", "plot", folder]


def _example(file: Path) -> Iterator[str]:
    yield from (f"# {_literal(title(file))}", "", "## Scenario", "", *_included(file))
    for module in sorted(file.parent.glob("*.py")):
        yield from ("", f"`{module.name}` beside it:", "", *_included(module))
    yield from (
        "",
        "## Answer",
        "",
        "```{lasthop}",
        f":alt: A picture of the runs of {file.name}",
        ":lines: 60",
    )
    yield from (shlex.join(words) for words in _commands(file))
    yield "```"


def _included(file: Path) -> Iterator[str]:
    language = {".toml": "toml", ".py": "python"}[file.suffix]
    yield from (f":::{{literalinclude}} ../../../{file.relative_to(ROOT)}", f":language: {language}", ":::")


def _gallery() -> Iterator[str]:
    yield from (
        "# Gallery",
        "",
        "Each example is a question, a scenario, and what came out when this site was built.",
        "`lasthop example copy queue` writes the file of one, `queue`.",
        "",
    )
    yield from ("```{raw} html", '<div class="gallery">')
    yield from map(_card, (*EXAMPLES, *NOTEBOOKS))
    yield from ("</div>", "```")
    files = (f"{file.stem} <{file.stem}>" for file in (*EXAMPLES, *NOTEBOOKS))
    yield from ("", "```{toctree}", ":hidden:", "", *files, "```")


def _card(file: Path) -> str:
    """Return a link to an example's page, with a picture."""
    width, height = THUMBNAIL
    return (
        f'<a href="{file.stem}.html">'
        f'<img src="../../{_thumbnail(file)}" alt="" loading="lazy" width="{width}" height="{height}">'
        f"<span>{escape(title(file))}</span><code>{file.name}</code></a>"
    )


def _thumbnail(file: Path) -> str:
    return f"_images/thumbnail-{file.stem}.webp"


def _draw_thumbnails(app: Sphinx, exception: Exception | None) -> None:
    """Make a small copy of the first picture of each page of the gallery."""
    for file in (*EXAMPLES, *NOTEBOOKS) if exception is None and app.builder.format == "html" else ():
        page = app.outdir / "generated" / "gallery" / f"{file.stem}.html"
        found = re.search(r'src="([^"]*/_images/[^"]+\.png)"', page.read_text(encoding="utf-8"))
        if found is None:
            raise ExtensionError(f"{page} has no picture for the gallery")
        with Image.open(page.parent / found[1]) as picture:
            height = picture.width * THUMBNAIL[1] // THUMBNAIL[0]  # of several panels, the first
            top = picture.convert("RGB").crop((0, 0, picture.width, min(height, picture.height)))
            small = ImageOps.pad(top, (2 * THUMBNAIL[0], 2 * THUMBNAIL[1]), color="white")
        small.save(app.outdir / _thumbnail(file))


# --- Metrics


def _metrics() -> Iterator[str]:
    yield from (
        "# Metrics",
        "",
        "Every column of every table of results, as `lasthop results metrics` prints them.",
    )
    for table, metrics in dictionary().items():
        yield from ("", f"## {table}", "", "| column | unit | meaning |", "| --- | --- | --- |")
        yield from (
            f"| `{metric.name}` | {metric.unit} | {prose(metric.definition)} |" for metric in metrics.values()
        )


def setup(app: Sphinx) -> dict[str, Any]:
    """Make it known to Sphinx."""
    app.connect("builder-inited", _generate)
    app.connect("build-finished", _draw_thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
