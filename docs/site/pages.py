"""Pages that are made of the program itself: the gallery of examples, and the references of keys and metrics."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from lasthop import _core
from lasthop.metrics.dictionary import dictionary

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "generated"
EXAMPLES = sorted((ROOT / "examples").glob("*.toml")) + sorted((ROOT / "examples" / "algorithms").glob("*.toml"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
# What the gallery runs. Other commands need real time.
RUN = ("run", "plot", "explain", "sensitivity", "validate")


def _generate(app: Sphinx) -> None:
    del app
    pages = {
        "gallery/index.md": _gallery(),
        **{f"gallery/{file.stem}.md": _example(file) for file in EXAMPLES},
        **{f"gallery/{file.name}": file.read_text(encoding="utf-8").splitlines() for file in NOTEBOOKS},
        "keys.md": _keys(json.loads(_core.schema())),
        "metrics.md": _metrics(),
    }
    for name, lines in pages.items():
        page, text = GENERATED / name, "\n".join(lines) + "\n"
        page.parent.mkdir(parents=True, exist_ok=True)
        # A page that stays the same keeps its time, so that Sphinx does not make it again.
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


# --- Gallery


def _comment(file: Path) -> list[str]:
    """Return the lines of the comment that the file begins with, without their marks."""
    lines = file.read_text(encoding="utf-8").splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return [line.removeprefix("#").removeprefix(" ") for line in lines[:end]]


def _question(file: Path) -> str:
    """Return the first question of the comment's first paragraph, or its first sentence."""
    lines = _comment(file)
    paragraph = " ".join(lines[: lines.index("")] if "" in lines else lines)
    sentences = re.split(r"(?<=[.?])\)? (?=[A-Z`])", paragraph)
    question = next((sentence for sentence in sentences if sentence.endswith("?")), sentences[0])
    return _literal(question.strip().rstrip("."))


def _literal(text: str) -> str:
    """Return text, with code in backquotes, as Markdown that shows it as it is."""
    return re.sub(r"`[^`]*`|[\\<&|\[\]*_]", lambda found: found[0] if found[0][0] == "`" else f"\\{found[0]}", text)


def _commands(file: Path) -> Iterator[list[str]]:
    """Yield the commands of the comment that the gallery runs; a picture of the results, if they draw nothing."""
    found = [match[1] for line in _comment(file) if (match := re.match(r"(?:.*:)?\s+(lasthop .*)", line))]
    commands = [shlex.split(command) for command in found]
    commands = [words for words in commands if words[1] in RUN and "live" not in words]
    yield from commands
    run = next((words for words in commands if words[1] == "run"), None)
    if run is not None and not any(words[1] == "plot" for words in commands):
        folder = run[run.index("--out") + 1] if "--out" in run else f"results/{file.stem}"
        yield ["lasthop", "plot", folder]


def _example(file: Path) -> Iterator[str]:
    question = _question(file)
    yield from (f"# {question}", "", "## Scenario", "", *_included(file))
    for module in sorted(file.parent.glob("*.py")):
        yield from ("", f"`{module.name}` beside it:", "", *_included(module))
    yield from ("", "## Answer", "", "```{lasthop}", f":alt: A picture of the runs of {file.name}", ":lines: 60")
    yield from (shlex.join(words) for words in _commands(file))
    yield "```"


def _included(file: Path) -> Iterator[str]:
    language = {".toml": "toml", ".py": "python"}[file.suffix]
    yield from (f":::{{literalinclude}} ../../../{file.relative_to(ROOT)}", f":language: {language}", ":::")


def _title(notebook: Path) -> str:
    """Return the heading that a notebook begins with."""
    first = json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"]
    return _literal(str(first[0]).removeprefix("#").strip())


def _gallery() -> Iterator[str]:
    yield from (
        "# Gallery",
        "",
        "Each example is a question, a scenario, and what came out when this site was built.",
        "",
    )
    yield from ("| question | example |", "| --- | --- |")
    yield from (f"| [{_question(file)}]({file.stem}.md) | `{file.name}` |" for file in EXAMPLES)
    yield from (f"| [{_title(file)}]({file.name}) | `{file.name}`, a notebook |" for file in NOTEBOOKS)
    files = (f"{file.stem} <{file.stem}>" for file in (*EXAMPLES, *NOTEBOOKS))
    yield from ("", "```{toctree}", ":hidden:", "", *files, "```")


# --- Keys of scenarios


def _keys(schema: Mapping[str, Any]) -> Iterator[str]:
    """A table of keys for each table of a scenario; `Partial...` repeats what stands elsewhere."""
    yield from ("# Keys of scenarios", "")
    yield "Made of the JSON Schema that `lasthop schema` prints. A name in the column *value* leads to its table below."
    yield from ("", "## The file", "", *_table(schema))
    for name, part in sorted(schema["$defs"].items()):
        if not name.startswith("Partial"):
            yield from (
                "",
                f"({_anchor(name)})=",
                f"## {name}",
                "",
                _prose(part.get("description", "")),
                "",
                *_variants(part),
            )


def _anchor(name: str) -> str:
    return f"key-{name.lower()}"


def _variants(part: Mapping[str, Any]) -> Iterator[str]:
    yield from _table(part)
    for variant in part.get("oneOf", part.get("anyOf", ())):
        values = [variant["const"]] if "const" in variant else variant.get("enum", ())
        said = _prose(variant.get("description", ""))
        if values:
            yield f"- {', '.join(f'`{value}`' for value in values)}{': ' if said else ''}{said}"
        elif "properties" in variant:
            yield from ("", said, "", *_table(variant), "")
        else:
            yield f"- {_value(variant)}{': ' if said else ''}{said}"
    if "enum" in part:
        yield " | ".join(f"`{value}`" for value in part["enum"])
    if "pattern" in part and "examples" in part:
        yield f'Example: `"{part["examples"][0]}"`'


def _table(part: Mapping[str, Any]) -> Iterator[str]:
    if "properties" not in part:
        return
    yield from ("| key | value | default | meaning |", "| --- | --- | --- | --- |")
    needed = part.get("required", ())
    for key, value in part["properties"].items():
        default = "*needed*" if key in needed else f"`{json.dumps(value['default'])}`" if "default" in value else ""
        yield f"| `{key}` | {_value(value)} | {default} | {_prose(value.get('description', ''))} |"


def _prose(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _value(value: Mapping[str, Any]) -> str:
    """Return what a key takes: links to other tables, values, types."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[-1]
        return f"[{name.removeprefix('Partial')}](#{_anchor(name.removeprefix('Partial'))})"
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in value["enum"])
    for several in ("anyOf", "oneOf"):
        if several in value:
            return " or ".join(_value(choice) for choice in value[several] if choice.get("type") != "null")
    if value.get("type") == "array":
        return f"list of {_value(value.get('items', {}))}"
    kinds = value.get("type", "any")
    named = {"object": "table", "integer": "whole number"}
    return " or ".join(
        named.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"
    )


# --- Metrics


def _metrics() -> Iterator[str]:
    yield from ("# Metrics", "", "Every column of every table of results, as `lasthop metrics` tells them.")
    for table, metrics in dictionary().items():
        yield from ("", f"## {table}", "", "| column | unit | meaning |", "| --- | --- | --- |")
        yield from (f"| `{metric.name}` | {metric.unit} | {_prose(metric.definition)} |" for metric in metrics.values())


def setup(app: Sphinx) -> dict[str, Any]:
    """Make it known to Sphinx."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
