"""The command `lasthop explain`."""

import click

from lasthop.commands.one_run import OneRunOptions, one_run_options


@click.command("explain")
@one_run_options()
@click.option("--flow", metavar="NAME", help="Describe only this flow.  [default: all]")
@click.pass_context
def explain_command(context: click.Context, /, *, flow: str | None, **_: object) -> None:
    """Describe in words what happened in one run.

    FILE is a scenario file or the name of a study. For a TCP flow, lasthop describes, in order of time,
    connection set-up, slow start and its end, every loss with its cause, every fast recovery, and every
    timeout: it is spurious if a copy of the segment arrived after all. A summary comes last.

    For a flow of datagrams, lasthop describes when the delay rises, whose packets are ahead in the queue, and
    which datagrams are missing. For a call, it also lists the frames that are too late for the jitter buffer,
    the loss of quality through delay and missing frames (E-model), and a verdict.

    For a transfer by a QUIC stack that writes a log (qlog), it also lists what the stack declared lost and
    whether it was lost, its congestion states, and how far its RTT was from the actual one.

    Example: lasthop explain kulve2003 --only link=r6,variant=baseline --replication 12 --flow tcp-1

    Example: lasthop explain examples/bufferbloat.toml --only queue=codel --flow voip
    """
    from lasthop.analysis.explain import explain

    run = OneRunOptions.of(context).choose()
    for number, text in enumerate(explain(run, flow)):
        click.echo(f"\n{text}" if number else text)
