"""Options of commands that run scenarios and check claims."""

from dataclasses import replace
from pathlib import Path

import click

from lasthop.campaign.simulate import Asked, asked_of
from lasthop.commands.basic import FILE, seed_option
from lasthop.commands.options import (
    anyway_option,
    each_of,
    engine_option,
    is_given,
    jobs_option,
    kernel_option,
    limit_memory_option,
    quiet_option,
)
from lasthop.common.errors import InputError
from lasthop.engines.kernel.kernel_engine import KernelEngine

judging_options = each_of(
    seed_option,
    engine_option,
    kernel_option,
    click.option(
        "--module",
        type=FILE,
        metavar="FILE",
        help="C file with a congestion control, tcp_NAME.c, or a queue discipline. lasthop builds it into "
        "the guest kernel, once per version of the file, and runs everything on that kernel.",
    ),
    jobs_option,
    anyway_option,
    limit_memory_option,
    quiet_option,
)


def asked_of_judge(context: click.Context) -> Asked:
    """Return the request in a command's options; with --module, for the kernel with the module."""
    asked = asked_of(context.params)
    module: Path | None = context.params["module"]
    if module is None:
        return asked
    if is_given(context, "engine") and asked.engine != KernelEngine.name:
        raise InputError(f"--module requires the kernel engine; leave out --engine {asked.engine}.")
    from lasthop.engines.kernel.wanted import kernel_with

    return replace(asked, engine=KernelEngine.name, kernel=kernel_with(module, asked.kernel).name)
