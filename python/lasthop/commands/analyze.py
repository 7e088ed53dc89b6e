"""The command `lasthop analyze`."""

from collections.abc import Sequence
from pathlib import Path

import click
import polars as pl

from lasthop import _core
from lasthop.commands.basic import PATH, Choice
from lasthop.commands.options import quiet_option, table_out_option
from lasthop.commands.table_file import check_output, write_output
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import scale_of

# Packets that were not analysed: column and description.
LEFT_OUT = {
    "other_packets": "neither TCP nor UDP",
    "fragments": "IP fragments",
    "incomplete_packets": "too short for their headers",
}

# Columns of the printed table: title, column of the frame, factor, decimals.
SHOWN = [
    ("elapsed s", "elapsed_s", 1, 6),
    ("packets", "packets", 1, 0),
    ("data", "sent_packets", 1, 0),
    ("bytes", "unique_bytes", 1, 0),
    ("rexmt", "retransmitted_packets", 1, 0),
    ("dupacks", "duplicate_acks", 1, 0),
    ("triple", "triple_duplicate_acks", 1, 0),
    ("sacks", "sack_blocks", 1, 0),
    ("RTT ms", "rtt_median_s", 1000, 1),
]


# Names of the tables, and their positions in the results of `_core.analyze`.
TABLES = {"flows": 0, "protocols": 2, "sizes": 3}
# Names of the tables of the logs of stacks, the default first.
OF_LOGS = ("stack", "series", "events")


@click.command("analyze")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@click.option(
    "--table",
    type=Choice([*TABLES, *OF_LOGS]),
    help="Table to print. flows: metrics per flow and direction; protocols: packets and bytes per protocol; "
    "sizes: histogram of packet sizes. With --qlog, stack: metrics of the connection; series: values over "
    "time; events: losses and congestion states.  [default: flows, with --qlog stack]",
)
@click.option(
    "--qlog",
    "logs",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="Compare the log of a QUIC stack with its connection in the captures: first FILE at the end that "
    "wrote the log, then FILE at the other end. Repeat the option for more logs.",
)
@click.option(
    "--figure",
    type=PATH,
    metavar="FILE",
    help="With --qlog: draw windows, round-trip times and losses, as stack and network saw them, into this "
    "new .png, .svg or .pdf file.",
)
@table_out_option
@quiet_option
def analyze_command(
    *,
    files: tuple[Path, ...],
    table: str | None,
    logs: tuple[Path, ...],
    figure: Path | None,
    out: Path | None,
    quiet: bool,
) -> None:
    """Compute flow metrics from packet captures.

    FILE is a pcap or pcapng file from any tool. Each file is analysed separately. Each flow has one line per
    direction, with the sender's data and retransmissions, and the duplicate ACKs, SACKs and round-trip times
    in return. Counting follows tcptrace. A capture that ends within its last packet is analysed up to that
    point, with a warning; any other damage is an error.

    The other tables count all packets, including link-layer headers, like tshark -z io,phs and -z plen,tree.

    With --qlog, lasthop finds the packets of a log in the captures. It reports which losses the stack
    declared and which were real, how long it took to notice them, the error of its round-trip times, the
    bytes in flight by log and network, and the size of bursts.

    Example: lasthop analyze server.pcapng --out flows.csv

    Example: lasthop analyze server.pcapng client.pcapng --qlog server.sqlog --figure view.png
    """
    if logs:
        if table in TABLES:
            raise InputError(f"--table {table} is without --qlog; choose one of {', '.join(OF_LOGS)}.")
        from lasthop.commands.stack_logs import compare_logs

        compare_logs(files, logs, table or OF_LOGS[0], out, figure, quiet=quiet)
        return
    if figure is not None or table in OF_LOGS:
        raise InputError(
            f"--{'figure' if figure else f'table {table}'} needs the log of a stack: add --qlog."
        )
    table = table or "flows"
    if out is not None:
        check_output(out)
    frame, remarks = analyze(files, table)
    if out is not None:
        write_output(frame, out)
    if not quiet:
        {"flows": show_flows, "protocols": show_protocols, "sizes": show_sizes}[table](frame)
    for remark in remarks:
        click.echo(f"Note: {remark}", err=True)


def analyze(files: Sequence[Path], table: str) -> tuple[pl.DataFrame, list[str]]:
    """Analyse captures separately; return one of the tables, and remarks for the user.

    The columns are `file`, those of `_core.analyze`, and `capture_cut`: 1 if the file ends within a packet.
    Raises `InputError` for the first file that cannot be read or is damaged.
    """
    frames, remarks = [], []
    for file in files:
        try:
            tables = _core.analyze(str(file))
        except _core.CaptureError as error:
            raise InputError(f"{file}: {error}. None of it was analysed.") from error
        columns, counts = tables[TABLES[table]], {name: cells[0] for name, cells in tables[1].items()}
        cut = counts["cut_at"] is not None
        frame = pl.DataFrame(columns, schema_overrides=_kinds(columns), infer_schema_length=None)
        ends = pl.lit(str(file)).alias("file"), pl.lit(int(cut)).alias("capture_cut")
        frames.append(frame.select(ends[0], pl.all(), ends[1]))
        remarks += _remarks(file, counts, is_complete=table != "flows")
    return pl.concat(frames), remarks


def _kinds(columns: dict[str, list[object]]) -> dict[str, type[pl.DataType]]:
    """Return the types of columns without values, as their units imply."""
    floats, texts = ("_s", "_ms", "_Bps"), ("protocol", "source", "destination", "outcome")
    empty = {name for name, cells in columns.items() if all(cell is None for cell in cells)}
    numbers = {name: pl.Float64 if name.endswith(floats) else pl.Int64 for name in empty}
    return numbers | dict.fromkeys(empty.intersection(texts), pl.String)


def _remarks(file: Path, counts: dict[str, object], *, is_complete: bool) -> list[str]:
    remarks = []
    left_out = [f"{counts[column]} {name}" for column, name in LEFT_OUT.items() if counts[column]]
    if left_out and not is_complete:
        remarks.append(f"{file}: not analysed, of {counts['packets']} packets: {', '.join(left_out)}.")
    if counts["cut_at"] is not None:
        remarks.append(
            f"{file} ends within a packet, at byte {counts['cut_at']}; the results cover the "
            f"{counts['packets']} packets before it, and flows may continue after it."
        )
    return remarks


def show_flows(frame: pl.DataFrame) -> None:
    """Print the most important columns, one line per flow and direction."""
    rate = scale_of("throughput_Bps", frame["throughput_Bps"])
    rows = [
        (
            f"{row['connection']} {row['protocol']}",
            _endpoint(row["source"], row["source_port"]),
            _endpoint(row["destination"], row["destination_port"]),
            row["outcome"],
            *(_number(row[column], factor, decimals) for _, column, factor, decimals in SHOWN),
            rate.number(row["throughput_Bps"]),
        )
        for row in frame.iter_rows(named=True)
    ]
    numbers = [*(title for title, *_ in SHOWN), rate.unit]
    _show(frame["file"], ["flow", "from", "to", "outcome"], numbers, rows)


def show_protocols(frame: pl.DataFrame) -> None:
    """Print a line per protocol, indented below the protocol that carries it."""
    lowest = frame.filter(~pl.col("protocol").str.contains(":"))
    whole = {str(file): (packets, size) for file, packets, size in _totals(lowest)}
    rows = []
    for row in frame.iter_rows(named=True):
        *below, name = row["protocol"].split(":")
        packets, size = whole[row["file"]]
        shares = _percent(row["packets"], packets), _percent(row["bytes"], size)
        mean = f"{row['bytes'] / row['packets']:.1f}"
        rows.append(
            ("  " * len(below) + name, str(row["packets"]), shares[0], str(row["bytes"]), shares[1], mean)
        )
    _show(frame["file"], ["protocol"], ["packets", "%", "bytes", "%", "bytes/packet"], rows)


def show_sizes(frame: pl.DataFrame) -> None:
    whole = {str(file): packets for file, packets, _ in _totals(frame)}
    upto: dict[str, int] = dict.fromkeys(whole, 0)
    rows = []
    for row in frame.iter_rows(named=True):
        file, packets = row["file"], row["packets"]
        upto[file] += packets
        ends = (_number(row[column], 1, 0) for column in ("min_bytes", "max_bytes"))
        mean = f"{row['bytes'] / packets:.1f}" if packets else "-"
        to = "or more" if row["to_bytes"] is None else f"to {row['to_bytes']}"
        shares = (_percent(count, whole[file]) for count in (packets, upto[file]))
        rows.append((f"{row['from_bytes']} {to}", str(packets), *shares, mean, *ends))
    _show(frame["file"], ["bytes"], ["packets", "%", "% up to here", "mean", "least", "most"], rows)


def _totals(frame: pl.DataFrame) -> list[tuple[str, int, int]]:
    return frame.group_by("file", maintain_order=True).agg(pl.col("packets", "bytes").sum()).rows()


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}"


def _show(files: pl.Series, names: list[str], numbers: list[str], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table: the file if there are several, then columns of names, then of numbers."""
    from rich.console import Console
    from rich.table import Table

    several = files.n_unique() > 1
    shown = Table(box=None, pad_edge=False)
    for title in [*(["file"] if several else []), *names]:
        shown.add_column(title, no_wrap=True)
    for title in numbers:
        shown.add_column(title, justify="right", no_wrap=True)
    for file, row in zip(files, rows, strict=True):
        shown.add_row(*([file] if several else []), *row)
    # Wider than any terminal, so that numbers are never truncated: long lines wrap.
    Console(width=1000, highlight=False).print(shown)


def _endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _number(value: float | None, factor: int, decimals: int) -> str:
    return "-" if value is None else f"{value * factor:.{decimals}f}"
