"""The story of a page load: its objects in the order of the requests."""

from lasthop.analysis.explain.words import Entry, Story, length
from lasthop.common.metrics.units import counted
from lasthop.engines.engine import Trace
from lasthop.engines.rows import object_rows, rows


def tell_page(trace: Trace, name: str) -> Story:
    """Describe when each object was requested, over which connection, and when it arrived."""
    flows = list(rows(trace.flows))
    objects = [row for row in object_rows(trace) if flows[row["flow"]]["application"] == name]
    connections = {row["flow"] for row in objects}
    head = (
        f"{name}: page load, {counted(len(objects), 'object')} requested over "
        f"{counted(len(connections), 'connection')}."
    )
    entries = []
    for row in objects:
        what = "main" if row["object"] == 0 else f"inline-{row['object']}"
        text = f"Requests {what} over {flows[row['flow']]['flow']}."
        if row["first_byte_ns"] is None:
            text += " No byte of it arrived."
        else:
            text += f" First byte {length(row['first_byte_ns'] - row['request_ns'])} later"
            whole = row["last_byte_ns"]
            text += (
                "; the last did not arrive."
                if whole is None
                else f", the last {length(whole - row['request_ns'])} later."
            )
        entries.append(Entry(row["request_ns"], text))
    return Story(name, head, entries)
