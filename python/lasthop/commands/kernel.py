"""The command `lasthop kernel`."""

import os
from pathlib import Path

import click

from lasthop.commands.basic import FILE
from lasthop.common.errors import InputError
from lasthop.engines.kernel.store import HZ, find_kernel, kernels, recipe, remove, store


@click.group("kernel")
def kernel_group() -> None:
    """Build and list the guest kernels of the kernel engine.

    '--engine kernel' runs scenarios with the real TCP of a Linux kernel, in virtual time. The guest is
    User-Mode Linux, an ordinary program without privileges. Build a kernel once, from the distribution's
    source package.

    Example: lasthop kernel build
    """


@kernel_group.command("build")
@click.option(
    "--source",
    metavar="RELEASE|PATH",
    help="A release that is packaged as linux-source-RELEASE, by this machine's package sources or by "
    "Debian's newer suites, or the path of a kernel's source: an unpacked tree or an archive.  [default: the "
    "newest release that apt knows or /usr/src has]",
)
@click.option(
    "--hz",
    type=click.Choice(["100", "250", "300", "1000"]),
    default=str(HZ),
    show_default=True,
    help="Timer ticks in a second. They set results, so a kernel with other ticks than the default has a "
    "name of its own, such as 6.12-1000hz.",
)
@click.option(
    "--module",
    "modules",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="A C file with a congestion control or a queue discipline to build in. It replaces the kernel's own "
    "file of the same name, such as tcp_cubic.c. The kernel is called after it, with a digest. Repeat the "
    "option for more.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Compilers to run at once.  [default: one per core]",
)
@click.option("--quiet", is_flag=True, help="Print only errors.")
def build_command(
    *, source: str | None, hz: str, modules: tuple[Path, ...], jobs: int | None, quiet: bool
) -> None:
    """Build a kernel and keep it for all scenarios.

    This takes two and a half minutes of processor time and 1 GB of disk, of which 8 MB remain. It needs no
    root: apt fetches and checks the source package, and lasthop unpacks but does not install it.

    Kernels from Linux 6.16 on have seccomp, which makes system calls cheaper. The command says which release
    it took and why, and which newer ones there are; 'lasthop kernel info' repeats it.

    Example: lasthop kernel build --source 6.12
    """
    from lasthop.campaign.progress import progress
    from lasthop.engines.kernel.build import STEPS, Wanted, build

    stages = []
    with progress(STEPS, 0, quiet=quiet, doing="compiling", what="files") as advance:

        def come_on(stage: str, files: int) -> None:
            if stage not in stages:
                stages.append(stage)
                if not quiet:
                    click.echo(f"Guest kernel: {stage}", err=True)
            if files:
                advance(files)

        kernel = build(Wanted(source, int(hz), modules), jobs or os.cpu_count() or 1, come_on)
    if not quiet:
        click.echo(
            f"Built {kernel.name} (Linux {kernel.info.version}) in {kernel.info.build_s:.0f} s: "
            f"{kernel.folder}"
        )


@kernel_group.command("list")
def list_command() -> None:
    """List the kernels that you have built; the default one comes last.

    Example: lasthop kernel list
    """
    for kernel in kernels():
        state = (
            ""
            if kernel.info.recipe == recipe()
            else "  (built for another version of lasthop: build it again)"
        )
        click.echo(f"{kernel.name:<11} Linux {kernel.info.version}{state}")
    if not kernels():
        click.echo(f"None in {store()}; 'lasthop kernel build' builds one.", err=True)


@kernel_group.command("info")
@click.argument("name", required=False)
def info_command(name: str | None) -> None:
    """Show what the kernel NAME was built from. Without NAME, show the default one.

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
        "ticks": f"{info.hz} in a second",
        "compiler": info.compiler,
        "built in": f"{info.build_s:.0f} s",
        "seccomp": "yes" if info.seccomp else "no: system calls take longer",
    }
    for key, value in facts.items():
        click.echo(f"{key:<14} {value}")


@kernel_group.command("remove")
@click.argument("name")
def remove_command(name: str) -> None:
    """Remove the kernel NAME.

    Example: lasthop kernel remove 6.12
    """
    # Even one that is out of date.
    kernel = next((one for one in kernels() if one.name == name), None) or find_kernel(name)
    remove(kernel)
    click.echo(f"Removed {kernel.folder}")


# `make kernel` starts this while the extension, which the command `lasthop` needs, is still being compiled.
if __name__ == "__main__":
    try:
        kernel_group()
    except InputError as error:
        raise SystemExit(f"lasthop: {error}") from None
