"""The command `lasthop kernel`."""

import os
from pathlib import Path

import click

from lasthop.commands.basic import FILE, Choice
from lasthop.common.errors import InputError
from lasthop.engines.kernel.store import HZ, find_kernel, kernels, recipe, remove, store


@click.group("kernel")
def kernel_group() -> None:
    """Build and list guest kernels for the kernel engine.

    '--engine kernel' runs scenarios with the TCP of a Linux kernel, in virtual time. The guest is User-Mode
    Linux, an ordinary program without privileges. Install a kernel with pip install 'lasthop[kernel]', or
    build one from the distribution's source package.

    Example: lasthop kernel build
    """


@kernel_group.command("build")
@click.option(
    "--source",
    metavar="RELEASE|PATH",
    help="Release of a package linux-source-RELEASE, from this machine's package sources or Debian's newer "
    "suites, or path of kernel source: an unpacked tree or an archive.  [default: the newest release that "
    "apt or /usr/src offers]",
)
@click.option(
    "--hz",
    type=Choice(["100", "250", "300", "1000"]),
    default=str(HZ),
    show_default=True,
    help="Timer ticks per second. They affect results, so a value other than the default is part of the "
    "kernel's name, such as 6.12-1000hz.",
)
@click.option(
    "--module",
    "modules",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="C file with a congestion control or a queue discipline to build in. It replaces the kernel's file "
    "of the same name, such as tcp_cubic.c. The kernel's name contains its name and a digest. Repeat the "
    "option for more files.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of parallel compilers.  [default: one per core]",
)
@click.option("--quiet", is_flag=True, help="Print only errors.")
def build_command(
    *, source: str | None, hz: str, modules: tuple[Path, ...], jobs: int | None, quiet: bool
) -> None:
    """Build a guest kernel for all scenarios.

    This takes two and a half minutes of processor time and 1 GB of disk space, of which 8 MB remain in use.
    It needs no root privileges: apt fetches and verifies the source package, and lasthop unpacks it without
    installing it.

    From Linux 6.16 on, seccomp makes system calls cheaper. The command prints which release it chose and why,
    and newer releases; 'lasthop kernel info' prints this again.

    Example: lasthop kernel build --source 6.12
    """
    from lasthop.campaign.progress import progress
    from lasthop.engines.kernel.build import STEPS, Wanted, build

    stages = []
    with progress(STEPS, 0, quiet=quiet, doing="compiling", what="files") as advance:

        def report(stage: str, files: int) -> None:
            if stage not in stages:
                stages.append(stage)
                if not quiet:
                    click.echo(f"Guest kernel: {stage}", err=True)
            if files:
                advance(files)

        kernel = build(Wanted(source, int(hz), modules), jobs or os.cpu_count() or 1, report)
    if not quiet:
        click.echo(
            f"Built {kernel.name} (Linux {kernel.info.version}) in {kernel.info.build_s:.0f} s: "
            f"{kernel.folder}"
        )


@kernel_group.command("list")
def list_command() -> None:
    """List the kernels that you have installed or built; the last one is the default.

    Example: lasthop kernel list
    """
    for kernel in kernels():
        state = (
            ""
            if kernel.info.recipe == recipe()
            else "  (built for another version of lasthop; build it again)"
        )
        place = "  (from an installed package)" if kernel.is_installed else ""
        click.echo(f"{kernel.name:<11} Linux {kernel.info.version}{place}{state}")
    if not kernels():
        click.echo(
            f"No kernel is installed or in {store()}. Install one with pip install 'lasthop[kernel]', or "
            "build one with 'lasthop kernel build'.",
            err=True,
        )


@kernel_group.command("info")
@click.argument("name", required=False)
def info_command(name: str | None) -> None:
    """Show how the kernel NAME was built; NAME defaults to the default kernel.

    Example: lasthop kernel info 6.12
    """
    kernel = find_kernel(name)
    info = kernel.info
    facts = {
        "name": kernel.name,
        "version": info.version,
        "program": str(kernel.program),
        "sha256": kernel.digest,
        "source": info.source,
        "chosen": info.choice,
        "source sha256": info.source_sha256 or "none: an unpacked tree",
        "ticks": f"{info.hz} per second",
        "compiler": info.compiler,
        "built in": f"{info.build_s:.0f} s",
        "seccomp": "yes" if info.seccomp else "no; system calls take longer",
    }
    for key, value in facts.items():
        click.echo(f"{key:<14} {value}")


@kernel_group.command("remove")
@click.argument("name")
def remove_command(name: str) -> None:
    """Remove the kernel NAME that you have built.

    Example: lasthop kernel remove 6.12
    """
    # Also outdated kernels, which `find_kernel` refuses.
    kernel = next((kernel for kernel in kernels() if kernel.name == name), None) or find_kernel(name)
    remove(kernel)
    click.echo(f"Removed {kernel.folder}")


# `make kernel` runs this module while the extension, which `lasthop` needs, is still being compiled.
if __name__ == "__main__":
    try:
        kernel_group()
    except InputError as error:
        raise SystemExit(f"lasthop: {error}") from None
