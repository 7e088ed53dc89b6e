"""The commands `lasthop example`."""

import re
import shlex
from pathlib import Path

import click

from lasthop.commands.completion import complete_examples
from lasthop.common.errors import InputError
from lasthop.scenario.examples import cells, comment, find_example, list_examples, needed_files, title


@click.group("example")
def example_group() -> None:
    """List, show and copy example scenarios.

    Each example answers a question. Most are scenario files; one is a notebook.

    Example: lasthop example list
    """


@example_group.command("list")
def example_list() -> None:
    """List the examples: name and question.

    Example: lasthop example list
    """
    examples = list_examples()
    width = max(map(len, examples))
    for name, file in examples.items():
        click.echo(f"{name:<{width}}  {title(file)}")


@example_group.command("show")
@click.argument("name", shell_complete=complete_examples)
def example_show(name: str) -> None:
    """Print example NAME; for a notebook, print the text of its cells.

    Example: lasthop example show queue
    """
    file = find_example(name)
    text = file.read_text(encoding="utf-8") if file.suffix == ".toml" else "\n\n".join(cells(file)) + "\n"
    click.echo(text, nl=False)


@example_group.command("copy")
@click.argument("name", shell_complete=complete_examples)
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(file_okay=False, path_type=Path))
def example_copy(name: str, folder: Path) -> None:
    """Copy example NAME, and the files that it needs, to the folder DIR.

    DIR defaults to the current folder. No file is overwritten. Commands in comments name the copy.

    Example: lasthop example copy queue
    """
    files = {file: folder / file.name for file in needed_files(find_example(name))}
    contents = {target: _copied(file, folder) for file, target in files.items()}
    conflict = next(
        (target for target, new in contents.items() if target.exists() and target.read_bytes() != new), None
    )
    if conflict is not None:
        raise InputError(
            f"{conflict} already exists and differs; choose another folder: lasthop example copy {name} DIR"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for target, content in contents.items():
            target.write_bytes(content)
            click.echo(target)
    except OSError as error:
        raise InputError(f"Cannot write to {folder}: {error}.") from error
    first = next(iter(contents))
    if first.suffix == ".toml":
        click.echo(f"\nRun it with: {_command(first)}")


def _copied(file: Path, folder: Path) -> bytes:
    """Return the contents of a file of an example; commands in its comments name `folder` as its place."""
    content = file.read_bytes()
    if file.suffix != ".toml":
        return content
    there = "" if folder == Path() else f"{shlex.quote(str(folder))}/"
    named = re.compile(r"examples/(?:\w+/)?(?=[\w-]+\.)")
    text = re.sub(
        r"^#.*$", lambda line: named.sub(lambda _: there, line[0]), content.decode(), flags=re.MULTILINE
    )
    enter = re.compile(r"^(#.*\bcd )examples/\w+\n", re.MULTILINE)
    return enter.sub(lambda match: there and f"{match[1]}{there}\n", text).encode()


def _command(file: Path) -> str:
    """Return the command that runs a copied example, after installing the packages that its header names."""
    from lasthop import _core
    from lasthop.engines.kernel.kernel_engine import KernelEngine
    from lasthop.engines.model_engine import ModelEngine
    from lasthop.engines.programs import program_of
    from lasthop.studies.loading import load

    loaded = load(file)
    steps = [line.strip() for line in comment(file) if line.strip().startswith("pip install ")]
    if file.parent != Path() and any(program_of(cell) for cell in loaded.study.cells):
        steps.append(shlex.join(["cd", str(file.parent)]))  # programs start in the current folder
        file = Path(file.name)
    words = ["lasthop", "run" if loaded.claims is None else "check", str(file)]
    try:
        ModelEngine.check(loaded.study, loaded.study.cells)
    except _core.ScenarioError:
        words += ["--engine", KernelEngine.name]
    return " && ".join([*steps, shlex.join(words)])
