"""The command `lasthop stack`."""

import os
import subprocess
from typing import TYPE_CHECKING

import click

from lasthop.common.errors import InputError
from lasthop.stacks.adapter import BUILT_IN, Adapter, adapter_of, names

if TYPE_CHECKING:
    from lasthop import _core
    from lasthop.engines.kernel.kernel_engine import KernelEngine

_FAILED = 4
_TRIED = {"handshake": "1 kB"}
"""Sizes of the file in a trial, by test case; `_USUAL` for others."""
_USUAL = "1 MB"
_PACKAGES = "apt-get install"
_OF_BUILT_IN = {"quinn": "lasthop's QUIC, on each engine", "tcp": "the TCP of the engine"}


@click.group("stack")
def stack_group() -> None:
    """List, show and try implementations of QUIC and TCP.

    Any implementation with an endpoint for the QUIC interop runner can carry flows of kind "transfer" without
    changes. The catalogue has adapters for some that package registries offer.

    Example: lasthop stack try ngtcp2 --install
    """


@stack_group.command("list")
def list_command() -> None:
    """List the stacks of the catalogue, and those that lasthop has.

    Example: lasthop stack list
    """
    for name in BUILT_IN:
        click.echo(f"{name:<12} {_OF_BUILT_IN[name]}")
    for name in names():
        own = adapter_of(name)
        state = "installed" if own.is_installed else "not installed"
        click.echo(f"{name:<12} {own.title} {own.version} ({own.protocol}, {own.language}; {state})")


@stack_group.command("show")
@click.argument("name")
def show_command(name: str) -> None:
    """Show the adapter NAME, from the catalogue or a .toml file.

    Copy its file to write your own adapter.

    Example: lasthop stack show aioquic
    """
    if name in BUILT_IN:
        click.echo(f"{name} is built in: {_OF_BUILT_IN[name]}.")
        return
    own = adapter_of(name)
    facts = {
        "file": str(own.file),
        "title": f"{own.title} {own.version}",
        "protocol": own.protocol,
        "language": own.language,
        "control": own.control,
        "licence": own.license,
        "test cases": ", ".join(own.testcases),
        "note": own.note,
        "folder": f"{own.place} ($STACK; {'installed' if own.is_installed else 'not installed'})",
        "install": "; ".join(own.install),
        "client": own.client.strip(),
        "server": own.server.strip(),
    }
    for key, value in facts.items():
        if value:
            click.echo(f"{key:<11} {value}")


@stack_group.command("try")
@click.argument("name")
@click.option(
    "--install", is_flag=True, help="Install the stack first, with the commands that `show` prints."
)
@click.option("--kernel", metavar="NAME", help="Guest kernel to use.  [default: the newest]")
def try_command(*, name: str, install: bool, kernel: str | None) -> None:
    """Run each test case of a stack over a clean link in virtual time, and print what works.

    NAME is an adapter of the catalogue or a .toml file. The exit code is 4 if a test case failed. Adapters of
    packages of the distribution need root for --install, unless the packages are there.

    Example: lasthop stack try aioquic --install
    """
    own = adapter_of(name)
    if install:
        _install(own)
    from lasthop.engines.kernel.kernel_engine import KernelEngine

    engine = KernelEngine.choose(kernel)
    failed = False
    for case in own.testcases:
        works, text = _trial(engine, name, case)
        failed |= not works
        click.echo(f"{case:<12} {text}")
    if failed:
        raise SystemExit(_FAILED)


def _install(own: Adapter) -> None:
    """Run the commands of an adapter; raise `InputError` if one fails."""
    own.place.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **own.environment}
    for line in own.install:
        click.echo(f"+ {line}", err=True)
        done = subprocess.run(["/bin/sh", "-c", line], env=environment, stdout=2, check=False)
        if done.returncode != 0:
            raise InputError(_not_installed(own.name, line, done.returncode))
    (own.place / ".installed").touch()


def _not_installed(name: str, line: str, code: int) -> str:
    """Return why a line of an adapter's `install` failed."""
    _, packages, rest = line.partition(_PACKAGES)
    if packages and os.geteuid() != 0:
        return (
            f"Cannot install {name}: only root can install packages of the distribution. Run 'sudo "
            f"{packages}{rest}' once, then this command again."
        )
    return f"Cannot install {name}: {line!r} ended with exit code {code}."


def _trial(engine: "KernelEngine", name: str, case: str) -> tuple[bool, str]:
    """Run a test case; return whether it works, and the outcome in words."""
    from lasthop.engines.engine import Request

    cell = _scenario(name, case)
    try:
        runs = engine.run(cell, Request(1, 1, 1)).results.runs
    except InputError as error:
        return False, f"failed: {error}"
    code = int(runs["exit_code"][0])
    if code != 0:
        errors = str(runs["stderr_end"][0]).strip().splitlines() or ["it printed nothing"]
        return False, f"failed with exit code {code}: {errors[-1]}"
    elapsed = float(runs["program_s"][0])
    return True, f"works: {_TRIED.get(case, _USUAL)} in {elapsed:.3f} s of virtual time"


def _scenario(name: str, case: str) -> "_core.Cell":
    """Return the scenario of a trial: a clean link of 10 Mbit/s and 20 ms."""
    from lasthop import _core
    from lasthop.scenario.toml import to_toml

    link = {"rate": "10 Mbit/s", "delay": "10 ms"}
    flow = {
        "kind": "transfer",
        "name": "server",
        "stack": name,
        "testcase": case,
        "bytes": _TRIED.get(case, _USUAL),
    }
    text = to_toml({"down": {"link": link, "queue": {"limit": "100 packets"}}, "flow": [flow]})
    return _core.parse(text, f"the trial of {name}").cells[0]
