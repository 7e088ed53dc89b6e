"""The story of a flow through a relay, from end to end. Its packets belong to its connections."""

from lasthop.analysis.explain.words import Story, ends_of
from lasthop.engines.rows import Record


def tell_relayed(record: Record) -> Story:
    name = record["flow"]
    ends = ends_of(record, record["direction"])
    sides = f"{name}/peer-side and {name}/host-side"
    if record["start_s"] is None:
        return Story(name, f"{name}: the run ended before its first packet.")
    if record["elapsed_s"] is not None:
        how = f"The transfer began at {record['start_s']:.3f} s and took {record['elapsed_s']:.3f} s."
    else:
        how = f"The transfer began at {record['start_s']:.3f} s and is {record['outcome']}."
    return Story(name, f"{name}: data from {ends} through a relay. {how} Its connections are {sides}.")
