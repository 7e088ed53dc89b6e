"""The command `lasthop shell`."""

from collections.abc import Sequence
from pathlib import Path

import click

from lasthop.commands.basic import FILE, Choice
from lasthop.commands.completion import complete_links
from lasthop.commands.options import is_given, run_options
from lasthop.commands.programs import cpu_cost_option, hosts_option, servers_option, write_option
from lasthop.common.errors import InputError
from lasthop.engines.live.child import SPIN_US

_SPIN_MAX_US = 1000
_ONCE = {
    "key": "--cell",
    "down": "--down",
    "up": "--up",
    "memory": "--memory",
    "spin_us": "--spin",
    "status": "--status",
}
_MANY = {
    "replications": "--replications",
    "until": "--until",
    "sets": "--sets",
    "points": "--points",
    "jobs": "--jobs",
    "out": "--out",
    "overwrite": "--overwrite",
    "snaplen": "--snaplen",
    "cluster": "--cluster",
    "dry_run": "--dry-run",
    "beside": "--beside",
    "anyway": "--anyway",
    "limit_memory": "--limit-memory",
    "commands": "--command",
    "prints_json": "--json",
    "inputs": "--input",
    "keep_servers": "--keep-servers",
    "fail": "--fail",
}


class _Command(click.Command):
    """A command whose help groups options by mode."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "A single run": [], "Repeated runs": []}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None:
                title = {**dict.fromkeys(_ONCE, "A single run"), **dict.fromkeys(_MANY, "Repeated runs")}
                sections[title.get(str(parameter.name), "Options")].append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


_engine_option = click.option(
    "--engine",
    type=Choice(["live", "kernel"]),
    help="Where programs run. live: on this machine's kernel, in real time. kernel: on a guest kernel, in "
    "virtual time; the same seed gives the same run.  [default: live for a single run, else kernel]",
)

_pcap_option = click.option(
    "--pcap",
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    help="Capture the packets at both hosts and before and after the router queue: for a single run, in the "
    "new folder DIR; for repeated runs, in the results, without DIR.",
)


@click.command("shell", cls=_Command, context_settings={"allow_interspersed_args": False})
@click.option(
    "--link",
    metavar="PRESET|FILE",
    shell_complete=complete_links,
    help="Last hop: a preset (see --list) or a scenario file, which needs no flows. Repeated runs vary its "
    "factors.",
)
@servers_option
@hosts_option
@write_option
@cpu_cost_option
@click.option("--list", "list_presets", is_flag=True, help="List the presets.")
@click.option(
    "--cell", "key", metavar="KEY", help="Choose the cell of FILE by its full key, such as link=e0."
)
@click.option(
    "--down",
    type=FILE,
    metavar="TRACE",
    help="Replace the rate of the link to the client by a Mahimahi trace; delay, queue and errors stay.",
)
@click.option("--up", type=FILE, metavar="TRACE", help="As --down, for the link to the server.")
@click.option(
    "--memory",
    metavar="SIZE",
    help="For --engine kernel: maximum memory of the guest, such as 512M or 4G; half of it is for files.  "
    "[default: 2G]",
)
@click.option(
    "--spin",
    "spin_us",
    type=click.IntRange(min=0, max=_SPIN_MAX_US),
    metavar="MICROSECONDS",
    help="For --engine live: time in microseconds to busy-wait before each delivery, which makes deliveries "
    f"more punctual but costs processor time.  [default: {SPIN_US}]",
)
@click.option(
    "--status",
    is_flag=True,
    help="Print rate, queue, drops and lateness every second, even if standard error is not a terminal.",
)
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="NAME=COMMAND",
    help="Shell command, as a level of the factor 'command'; replaces COMMAND. Repeat the option to compare "
    "several commands.",
)
@click.option(
    "--json",
    "prints_json",
    is_flag=True,
    help="Read the command's output as JSON; its numbers become columns of runs.parquet.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE|DIR",
    help="File or folder that results depend on, in addition to the programs and files in the commands; if "
    "it changes, everything runs again. Repeat the option for more.",
)
@click.option(
    "--keep-servers",
    type=click.IntRange(min=1, max=1000),
    metavar="N",
    help="For --engine kernel: start the servers only once per N replications, if starting is slow. "
    "Replications are counted and stored N at a time.",
)
@click.option("--fail", is_flag=True, help="Return exit code 4 if the program failed in any run.")
@click.option("--repeated", is_flag=True, hidden=True)
@run_options(_engine_option, _pcap_option)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def shell_command(
    context: click.Context,
    /,
    *,
    link: str | None,
    engine: str | None,
    pcap: str | None,
    list_presets: bool,
    repeated: bool,
    **_: object,
) -> None:
    """Run a program behind an emulated last hop, once or many times.

    COMMAND, by default a shell, runs on the client: a network namespace connected only to the last hop. At
    the other end is the server, another namespace, called 'server' or 10.0.0.1 (fd00::1), where --server
    starts programs. The client can reach nothing else. COMMAND begins at the first word that is not an
    option, or after --.

    A single run ends with COMMAND, and lasthop returns its exit code. --replications, or any other option
    listed under 'Repeated runs', repeats it with different random numbers. The flows of the results are the
    programs' TCP connections, and their datagrams between two ports; runs.parquet contains the exit code and
    run time of the program. Read them with 'lasthop results', 'plot' and 'explain'.

    With --engine live, programs use this machine's TCP in real time. This needs Linux, and either root or
    permission to create user namespaces. With --engine kernel, they run on a guest kernel whose clock stops
    during computation: a transfer of minutes takes seconds, and the same seed gives the same packets. This
    needs a guest kernel ('lasthop kernel build'), but no privileges.

    Example: lasthop shell --link gprs --server 'nginx -g "daemon off;"' -- curl http://server/

    Example: lasthop shell --link gprs --replications 20 --server 'python3 -m http.server 80'
    -- curl -s http://server/

    Example: lasthop shell --link umts --replications 20 --json --server 'iperf3 -s'
    -- iperf3 -J -c server -t 5
    """
    if list_presets:
        from lasthop.commands.once import list_presets as print_presets

        print_presets()
        return
    if link is None:
        raise InputError("Missing --link: give a preset or a scenario file; --list lists the presets.")
    many = [option for parameter, option in _MANY.items() if is_given(context, parameter)]
    if many or repeated:
        _refuse(context, _ONCE, many)
        if pcap:
            raise InputError(
                f"--pcap {pcap}: repeated runs store captures in the results; give --pcap without a folder."
            )
        context.params.update(engine=engine or "kernel", pcap=pcap is not None)
        from lasthop.commands.repeat import run_repeatedly

        run_repeatedly(context)
        return
    if pcap == "":
        raise InputError("--pcap: a single run needs a new folder for the captures; give --pcap=DIR.")
    from lasthop.commands.once import run_once

    run_once(
        **{**context.params, "engine": engine or "live", "pcap": None if pcap is None else Path(pcap)},
    )


def _refuse(context: click.Context, options: dict[str, str], many: Sequence[str]) -> None:
    for parameter, option in options.items():
        if is_given(context, parameter):
            raise InputError(f"{option} is for a single run; leave out {option}, or {' and '.join(many)}.")
