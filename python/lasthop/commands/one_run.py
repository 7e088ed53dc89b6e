"""The commands that look at one run: `lasthop trace` and `lasthop explain`."""

from pathlib import Path

import click

from lasthop import _core
from lasthop.commands.basic import PATH
from lasthop.commands.options import OneRunOptions, list_files, one_run_options, quiet_option, snaplen_option


@click.command("trace")
@one_run_options()
@click.option("--out", type=PATH, required=True, metavar="DIR", help="New folder for the captures.")
@snaplen_option
@quiet_option
@click.pass_context
def trace_command(
    context: click.Context, /, *, out: Path, snaplen: int | None, quiet: bool, **_: object
) -> None:
    """Write the packets of one replication as pcapng files.

    They open in Wireshark, tshark and tcptrace. FILE is a scenario file or the name of a study. DIR gets
    these files:

    \b
      server.pcapng, client.pcapng  what the host sent and received
      router-in.pcapng              arrivals at the router queue; comments mark drops and marks
      router-out.pcapng             departures into the link
      HOST.pcapng                   with named hops: what each host sent and received
      HOP-down-in.pcapng, -out      with named hops: what arrives at a hop's queue, and
                                    what has crossed its link; -up-in and -up-out likewise
      drops.csv                     every drop with its cause; ip_id is the packet's IP identification
      flow-0.server.sqlog, ...      logs of both ends of each QUIC connection, for qvis

    Example: lasthop trace kulve2003 --only link=r1,workload=2tcp0udp,variant=dsack --replication 3
    --out /tmp/r1
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.campaign.capture import write_captures

    run = OneRunOptions.of(context).choose()
    files = write_captures(run, out, snaplen or _core.SNAP_LENGTH)
    if not quiet:
        list_files(run.title, files)


@click.command("explain")
@one_run_options()
@click.option("--flow", metavar="NAME", help="Explain only this flow.  [default: all]")
@click.pass_context
def explain_command(context: click.Context, /, *, flow: str | None, **_: object) -> None:
    """Tell in words what happened to the flows of one replication.

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
