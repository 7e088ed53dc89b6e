"""The story of a flow that goes through a relay: what it took from end to end."""

from lasthop.analysis.explain.words import Story, ends_of
from lasthop.engines.rows import Record


def tell_relayed(record: Record) -> Story:
    """Tell what a flow took from end to end. Its packets belong to its connections."""
    name = record["flow"]
    way = ends_of(record, record["direction"])
    sides = f"{name}/peer-side and {name}/host-side"
    if record["start_s"] is None:
        return Story(name, f"{name}: the run ended before its first packet.")
    if record["elapsed_s"] is not None:
        how = f"took {record['elapsed_s']:.3f} s from {record['start_s']:.3f} s on"
    else:
        how = f"began at {record['start_s']:.3f} s and is {record['outcome']}"
    return Story(
        name, f"{name}: data from {way}, through a relay. End to end it {how}. Its connections are {sides}."
    )
