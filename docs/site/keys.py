"""The reference of keys: every key of a scenario by its path, in the order of a scenario file.

It is made of the JSON Schema. What stands at several places of a file (the queue of `down`, of `up` and of
each class) has one table, which names all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lasthop import _core

Schema = Mapping[str, Any]

INTRODUCTION = """\
Every key by its path, in the order of a scenario file. `down.queue.limit` may be written so, or as `limit`
below `[down.queue]`. `[]` stands for each entry of a list: `flow[]` for a `[[flow]]`, `flow[voip]` for one of
this kind. What is *needed* has no default. What is *assumed* if it is left out, `lasthop validate FILE`
shows, with the rule. `lasthop validate --schema` prints the JSON Schema, of which this page is made.
"""
LATE = ("factor", "sample", "matrix")
"""Keys of a file that stand behind what they vary."""
OF_PROFILE = "tcp"
"""The table whose keys a profile sets."""
MOST = 3
"""Names that a heading may have."""
SHORTEST = """\
down.link = { rate = "1 Mbit/s", delay = "50 ms" }
flow = [{ kind = "bulk-tcp", bytes = "1 MB", access.delay = "1 ms" }]
"""
"""A scenario that leaves out whatever may be left out."""


@dataclass(slots=True)
class Table:
    """Keys that stand together, and the places of a file where they do: below other tables."""

    properties: Mapping[str, Schema]
    required: Sequence[str] = ()
    description: str = ""
    above: list[tuple[Table, str]] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return the paths of all its places, the shortest first; none for the file as a whole."""
        names = [
            f"{name}.{below}".lstrip(".") for table, below in self.above for name in table.names() or [""]
        ]
        return sorted(names, key=lambda name: name.count("."))

    def anchor(self) -> str:
        """Return where the page has it."""
        return "keys-" + re.sub(r"\W+", "-", self.names()[0]).strip("-").lower()


class Reference:
    """The tables of a schema in the order of a file, and the kinds of values that their keys take."""

    def __init__(self, schema: Schema) -> None:
        self.definitions: Mapping[str, Schema] = schema["$defs"]
        self.tables: dict[str, Table] = {}
        """By the definition or, where a schema has no name, by the path."""
        self.values: dict[str, None] = {}
        """Definitions of texts and numbers, in the order in which a file needs them."""
        self.choices: dict[str, tuple[Table, str]] = {}
        """Of each definition that lists what may be chosen, the first key that takes it."""
        properties = schema["properties"]
        order = [key for key in properties if key not in LATE] + list(LATE)
        self.file = Table({key: properties[key] for key in order})
        self._enter(self.file)
        (cell,) = _core.parse(SHORTEST, "shortest").cells
        self.assumed = {_anywhere(key) for key, *_ in cell.assumed}
        self.profile: Mapping[str, object] = json.loads(cell.scenario)[OF_PROFILE]

    def _enter(self, table: Table) -> None:
        for key, value in table.properties.items():
            self._look(table, key, value)

    def _look(self, above: Table, below: str, value: Schema) -> None:
        """Find the tables and kinds of values that a key takes."""
        for choice in (*value.get("anyOf", ()), *value.get("oneOf", ())):
            self._look(above, below, choice)
        if "items" in value:
            self._look(above, f"{below}[]", value["items"])
        if isinstance(value.get("additionalProperties"), Mapping):
            self._look(
                above, f"{below}.{'LEVEL' if 'NAME' in below else 'NAME'}", value["additionalProperties"]
            )
        if "properties" in value:
            self._add(
                f"{above.names()[:1]}.{below}", Table(value["properties"], (), _said(value)), above, below
            )
        if "$ref" in value:
            self._follow(above, below, _definition(value))

    def _follow(self, above: Table, below: str, name: str) -> None:
        """Find what there is behind a reference to a definition."""
        found = self.definitions[name]
        if name == "Flow":
            self._flows(above, found)
        elif name == "Level":
            own = {"when": found["properties"]["when"]}
            self._add(name, Table(own, (), f"{_said(found)}, with all keys from `mtu` on"), above, below)
        elif name == "Part":
            pass  # what a level has
        elif "properties" in found:
            self._add(name, Table(found["properties"], found.get("required", ()), _said(found)), above, below)
        elif _is_choice(found):
            self.choices.setdefault(name, (above, below))
            for choice in _choices(found):
                for key, inner in choice.get("properties", {"": choice}).items():
                    self._look(above, f"{below}.{key}" if key else below, inner)
        elif name not in self.values:
            self.values[name] = None
            self._look(above, below, {"anyOf": _choices(found)[:1]})

    def _flows(self, above: Table, flow: Schema) -> None:
        """Enter the keys that all kinds of flows have, then the others of each kind."""
        kinds: list[Schema] = flow["oneOf"]
        first = kinds[0]["properties"]
        common = {
            key: value
            for key, value in first.items()
            if all(k["properties"].get(key) == value for k in kinds)
        }
        self._add("Flow", Table(common, (), "Keys of every flow, whatever its `kind`."), above, "flow[]")
        for kind in kinds:
            name = kind["properties"]["kind"]["const"]
            own = {key: value for key, value in kind["properties"].items() if key not in common}
            self._add(name, Table(own, kind.get("required", ()), _said(kind)), above, f"flow[{name}]")

    def _add(self, name: str, table: Table, above: Table, below: str) -> None:
        known = self.tables.get(name)
        if known is None:
            table.above.append((above, below))
            self.tables[name] = table
            self._enter(table)
        else:
            known.above.append((above, below))

    # --- The page

    def page(self) -> Iterator[str]:
        """Yield the lines of the page."""
        yield from (
            *("---", "myst:", "  enable_extensions: [deflist]", "---", ""),
            "# Keys of scenarios",
            "",
            INTRODUCTION,
            "## The file",
            "",
            *self._rows(self.file, ""),
        )
        place = list(self.file.properties).index
        for table in sorted(
            self.tables.values(), key=lambda table: place(re.split(r"\W", table.names()[0])[0])
        ):
            names = [f"`{name}`" for name in table.names()]
            shown = len(names) if len(names) <= MOST else 1
            yield from ("", f"({table.anchor()})=", f"## {', '.join(names[:shown])}", "")
            if names[shown:]:
                yield from (f"The same keys: {', '.join(names[shown:])}.", "")
            yield from (prose(table.description), "", *self._rows(table, f"{table.names()[0]}."))
        yield from ("", "## Values")
        for definition in self.values:
            yield from ("", f"({_value_anchor(definition)})=", f"### {_words(definition).capitalize()}", "")
            found = self.definitions[definition]
            example = f' Example: `"{found["examples"][0]}"`' if "examples" in found else ""
            yield from (f"{prose(_said(found)).rstrip('.')}.{example}", "", *self._kind(found))

    def _rows(self, table: Table, before: str) -> Iterator[str]:
        for key, value in table.properties.items():
            path = before + key
            below = next((t for t in self.tables.values() if {path, f"{path}.NAME"} & {*t.names()}), None)
            taken = f"[table](#{below.anchor()})" if below else self._value(value)
            default = "" if below else self._default(table, key, path)
            yield from (f"`{path}`", f": {taken}{'; ' if default else ''}{default}", "")
            yield from (f": {prose(_said(value))}", "") if _said(value) else ()
        for name, (owner, key) in self.choices.items():
            if owner is table:
                said = prose(_said(self.definitions[name]))
                yield from ("", f"({_value_anchor(name)})=", f"`{before}{key}`: {said}", "")
                yield from self._kind(self.definitions[name])

    def _default(self, table: Table, key: str, path: str) -> str:
        default = table.properties[key].get("default")
        if default is not None:
            return f"default `{json.dumps(default)}`"
        if any(_anywhere(f"{name}.{key}".lstrip(".")) in self.assumed for name in table.names() or [""]):
            return "*assumed*"
        if path.startswith(f"{OF_PROFILE}.") and key in self.profile:
            return f"default `{json.dumps(self.profile[key])}`"
        return "*needed*" if key in table.required else ""

    def _value(self, value: Schema) -> str:
        """Return what a key takes: links to tables and kinds of values, words to choose from, types."""
        if "$ref" in value:
            return self._named(_definition(value))
        if "const" in value:
            return f"`{json.dumps(value['const'])}`"
        if "enum" in value:
            return ", ".join(f"`{json.dumps(choice)}`" for choice in value["enum"])
        for several in ("anyOf", "oneOf"):
            if several in value:
                return " or ".join(
                    self._value(choice) for choice in value[several] if choice.get("type") != "null"
                )
        if "properties" in value:
            return f"`{{ {', '.join(map(_pair, value['properties'].items()))} }}`"
        if "items" in value:
            return f"list of {self._value(value['items'])}"
        kinds = value.get("type", "any")
        named = {"object": "table", "integer": "whole number", "string": "text", "boolean": "`true`, `false`"}
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return " or ".join(named.get(kind, kind) for kind in kinds if kind != "null")

    def _named(self, name: str) -> str:
        found = self.definitions[name]
        if name in self.choices:
            choices = ", ".join(self._value(choice) for choice in _choices(found))
            return f"[one of](#{_value_anchor(name)}) {choices}"
        if name in self.values:
            example = f', such as `"{found["examples"][0]}"`' if "examples" in found else ""
            return f"[{_words(name)}](#{_value_anchor(name)}){example}"
        return f"[table](#{self.tables[name].anchor()})" if name in self.tables else "table"

    def _kind(self, found: Schema) -> Iterator[str]:
        """Yield what there is to choose from."""
        for choice in _choices(found):
            said = prose(_said(choice))
            keys = choice.get("properties", {}).items()
            meanings = ((key, prose(self._meaning(value))) for key, value in keys)
            of_keys = [f"`{key}`: {meaning}" for key, meaning in meanings if meaning]
            yield f"- {self._value(choice)}{': ' if said else ''}{'. '.join([said.rstrip('.'), *of_keys])}"

    def _meaning(self, value: Schema) -> str:
        """Return what is said of a key in a choice, with the words to choose from that have no own place."""
        name = _definition(value) if "$ref" in value else ""
        if not _is_choice(self.definitions.get(name, {})) or name in self.choices:
            return _said(value)
        words = (f"{self._value(word)} ({_said(word)})" for word in _choices(self.definitions[name]))
        return f"{_said(self.definitions[name])} {', '.join(words)}"


def _pair(entry: tuple[str, Schema]) -> str:
    key, value = entry
    return f'{key} = "{value["const"]}"' if "const" in value else f"{key} = ..."


def _definition(value: Schema) -> str:
    """Return the name of what a schema refers to; `Partial...` is the same with nothing needed."""
    return str(value["$ref"]).rsplit("/", 1)[-1].removeprefix("Partial")


def _choices(found: Schema) -> Sequence[Schema]:
    several: Sequence[Schema] = found.get("anyOf", found.get("oneOf", ()))
    return several


def _is_choice(found: Schema) -> bool:
    """Say whether a definition lists words, or tables that a word tells apart; distributions are values."""
    tables = [choice["properties"] for choice in _choices(found) if "properties" in choice]
    if any("distribution" in table for table in tables):
        return False
    return len(tables) > 1 or sum("const" in choice for choice in _choices(found)) > 1


def _anywhere(path: str) -> str:
    return re.sub(r"\[[^]]*\]", "[]", path)


def _value_anchor(definition: str) -> str:
    return f"value-{_words(definition).replace(' ', '-')}"


def _words(definition: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])", " ", definition).lower()


def _said(part: Schema) -> str:
    return str(part.get("description", ""))


def prose(text: str) -> str:
    """Return a text in one line, as a cell of a table holds it."""
    return " ".join(text.split()).replace("|", "\\|")
