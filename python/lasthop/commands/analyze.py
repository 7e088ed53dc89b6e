"""Flow metrics of packet captures, as a table to read and a file of every column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import polars as pl

from lasthop import _core
from lasthop.commands.options import quiet_option, table_out_option
from lasthop.commands.table_file import check_output, write_output
from lasthop.errors import InputError
from lasthop.metrics.units import scale_of

# What of a capture was not analysed: its column, and what to call it.
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


@click.command("analyze")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@table_out_option
@quiet_option
def analyze_command(*, files: tuple[Path, ...], out: Path | None, quiet: bool) -> None:
    """Compute flow metrics from packet captures.

    FILE is a pcap or pcapng file from any tool. Each file is analysed on its own. A flow has one line per direction,
    with the sender's data and retransmissions, and the duplicate ACKs, SACKs and round-trip times that came back to it.
    lasthop counts as tcptrace does. If a capture ends inside its last packet, it is analysed up to there, with a
    warning. If it is damaged elsewhere, that is an error.

    Example: lasthop analyze server.pcapng --out flows.csv
    """
    if out is not None:
        check_output(out)
    frame, remarks = analyze(files)
    if out is not None:
        write_output(frame, out)
    if not quiet:
        show(frame)
    for remark in remarks:
        click.echo(f"Note: {remark}", err=True)


def analyze(files: Sequence[Path]) -> tuple[pl.DataFrame, list[str]]:
    """Analyse captures, each on its own; return one row per file, flow and direction, and what there is to say.

    The columns are those of `_core.analyze` after the `file`, and last `capture_cut`: 1 if the file ended within a
    packet. Raises InputError for the first file that cannot be read or is damaged.
    """
    frames, remarks = [], []
    for file in files:
        try:
            columns, capture = _core.analyze(str(file))
        except _core.CaptureError as error:
            raise InputError(f"{file}: {error}. None of it was analysed.") from error
        found = {name: cells[0] for name, cells in capture.items()}
        cut = found["cut_at"] is not None
        frame = pl.DataFrame(columns, schema_overrides=_kinds(columns), infer_schema_length=None)
        ends = pl.lit(str(file)).alias("file"), pl.lit(int(cut)).alias("capture_cut")
        frames.append(frame.select(ends[0], pl.all(), ends[1]))
        remarks += _remarks(file, found)
    return pl.concat(frames), remarks


def _kinds(columns: dict[str, list[Any]]) -> dict[str, Any]:
    """Give columns without any value the type that their unit implies."""
    floats = ("_s", "_ms", "_Bps")
    empty = {name for name, cells in columns.items() if all(cell is None for cell in cells)}
    return {name: pl.Float64 if name.endswith(floats) else pl.Int64 for name in empty}


def _remarks(file: Path, found: dict[str, Any]) -> list[str]:
    remarks = []
    left_out = [f"{found[column]} {name}" for column, name in LEFT_OUT.items() if found[column]]
    if left_out:
        remarks.append(f"{file}: of {found['packets']} packets not analysed: {', '.join(left_out)}.")
    if found["cut_at"] is not None:
        remarks.append(
            f"{file} was cut short within a packet at byte {found['cut_at']}; the results are those of the "
            f"{found['packets']} packets before, and flows may go on behind."
        )
    return remarks


def show(frame: pl.DataFrame) -> None:
    """Print the columns that matter most, one line per flow and direction."""
    from rich.console import Console
    from rich.table import Table

    several = frame["file"].n_unique() > 1
    rate = scale_of("throughput_Bps", frame["throughput_Bps"])
    shown = Table(box=None, pad_edge=False)
    for title in [*(["file"] if several else []), "flow", "from", "to", "outcome"]:
        shown.add_column(title, no_wrap=True)
    for title in (*(title for title, *_ in SHOWN), rate.unit):
        shown.add_column(title, justify="right", no_wrap=True)
    for row in frame.iter_rows(named=True):
        shown.add_row(
            *([row["file"]] if several else []),
            f"{row['connection']} {row['protocol']}",
            _endpoint(row["source"], row["source_port"]),
            _endpoint(row["destination"], row["destination_port"]),
            row["outcome"],
            *(_number(row[column], factor, decimals) for _, column, factor, decimals in SHOWN),
            rate.number(row["throughput_Bps"]),
        )
    # Wider than any terminal: half a number is none, and a line that is too long for the terminal wraps.
    Console(width=1000, highlight=False).print(shown)


def _endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _number(value: float | None, factor: int, decimals: int) -> str:
    return "-" if value is None else f"{value * factor:.{decimals}f}"
