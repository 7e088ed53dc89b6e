"""Page loads as waterfalls: the phases of each object."""

from __future__ import annotations

import polars as pl

from lasthop.present.pictures import marks
from lasthop.present.pictures.marks import Mark
from lasthop.present.pictures.shapes import Layer, Panel

# Start and end of each phase; an object that did not complete lacks the later times.
_PHASES = (
    (marks.CONNECTING, "t_connect_s", "t_request_s"),
    (marks.WAITING, "t_request_s", "t_first_byte_s"),
    (marks.RECEIVING, "t_first_byte_s", "t_last_byte_s"),
    (marks.ENDING, "t_last_byte_s", "t_end_s"),
)


def waterfall_panels(objects: pl.DataFrame) -> list[Panel]:
    """Return a panel for each page, with a row per object in the order of the requests.

    Columns of `objects`: `page`, `object`, `connection`; `t_connect_s` (SYN sent), `t_request_s`,
    `t_first_byte_s`, `t_last_byte_s`, `t_end_s`, in seconds, null if it did not happen. Only the first object
    of a connection waits for the handshake.
    """
    if objects.is_empty():
        return []
    pages = objects.sort("t_request_s", nulls_last=True, maintain_order=True).partition_by(
        "page", maintain_order=True
    )
    return [_panel(page) for page in sorted(pages, key=lambda page: str(page["page"][0]))]


def _panel(page: pl.DataFrame) -> Panel:
    rows = page.with_row_index("row").with_columns(
        pl.when(pl.col("connection").is_first_distinct()).then("t_connect_s").alias("t_connect_s")
    )
    labels = [
        f"{name}, connection {connection}"
        for name, connection in rows.select("object", "connection").iter_rows()
    ]
    layers = [_spans(mark, rows, start, stop) for mark, start, stop in _PHASES]
    nonempty = [layer for layer in layers if layer.x]
    return Panel("waterfall", "", "", nonempty, str(page["page"][0]), labels, of_flows=True)


def _spans(mark: Mark, rows: pl.DataFrame, start: str, stop: str) -> Layer:
    complete = rows.drop_nulls([start, stop])
    return Layer(
        mark, complete[start].to_list(), [float(row) for row in complete["row"]], complete[stop].to_list()
    )
