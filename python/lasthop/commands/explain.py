"""The command `lasthop explain`."""

import click

from lasthop.commands.one_run import OneRunOptions, one_run_options


@click.command("explain")
@one_run_options()
@click.option("--flow", metavar="NAME", help="Explain only this flow.  [default: all]")
@click.pass_context
def explain_command(context: click.Context, /, *, flow: str | None, **_: object) -> None:
    """Describe in words what happened in one run.

    FILE is a scenario file or the name of a study. The story of a TCP flow follows time: connection set-up,
    slow start and what ended it, every loss with its cause, every fast recovery, and every timeout with its
    verdict. A timeout is spurious if a copy of the segment arrived after all. A summary comes last.

    The story of a flow of datagrams tells when their delay rises, whose packets are queued before them, and
    which datagrams are missing. For a call it adds which frames come too late for the jitter buffer, what
    delay and missing frames cost by the E-model, and a verdict.

    Example: lasthop explain kulve2003 --only link=r6,variant=baseline --replication 12 --flow tcp-1

    Example: lasthop explain examples/bufferbloat.toml --only queue=codel --flow voip
    """
    from lasthop.analysis.explain import explain

    run = OneRunOptions.of(context).choose()
    for number, text in enumerate(explain(run, flow)):
        click.echo(f"\n{text}" if number else text)
