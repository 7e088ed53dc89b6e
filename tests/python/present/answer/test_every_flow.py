"""No flow of a scenario is missing from what a run prints, from its summary and from its report."""

from __future__ import annotations

import io
import itertools
import re
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lasthop.commands.cli import main

HEAD = """
replications = 2
time_limit = "20 s"
http = { protocol = "http1.0", connections = 2, request = "300 B", response_header = "200 B" }

[hop.land.down]
link = { rate = "20 Mbit/s", delay = "5 ms" }
queue.limit = "100 kB"

[hop.sky]
behind = "land"
down = { link = { rate = "2 Mbit/s", delay = "20 ms", loss = "0.5 %" }, queue.limit = "50 kB" }

[host.ship]
behind = "sky"
"""
UDP = 'payload = "200 B", duration = "500 ms"'
KINDS = {
    "bulk-tcp": 'bytes = "20 kB"',
    "constant-udp": f'rate = "50 kbit/s", {UDP}',
    "on-off": f'rate = "50 kbit/s", on = "100 ms", off = "100 ms", {UDP}',
    "voip": 'duration = "1 s"',
    "request-response": 'response = "5 kB", requests = 2, think = "10 ms"',
    "coap": 'request = "100 B", response = "50 B", requests = 3, interval = "200 ms"',
    "video": 'duration = "8 s", bitrates = ["200 kbit/s", "400 kbit/s"]',
    "http-page": 'main = "5 kB", inline = "3 kB", inline_count = 2',
    "short-flows": 'packets = 3, request = "100 B", arrivals = { model = "sequential", gap = "300 ms" }, '
    'hosts = [{ name = "NAME", initial_window = 3, receive_window_initial = 4 }]',
}
RELAYED = ("bulk-tcp", "request-response", "video", "http-page")

Flow = tuple[str, int, bool]
"""Kind, count, and whether it goes through a relay."""
FLOWS = st.tuples(st.sampled_from(sorted(KINDS)), st.integers(1, 3), st.booleans())
MIXTURES = st.lists(FLOWS, min_size=1, max_size=4)


def is_relayed(flow: Flow) -> bool:
    return flow[2] and flow[0] in RELAYED


def written(name: str, flow: Flow) -> str:
    kind, count, _ = flow
    keys = [f'kind = "{kind}", name = "{name}"', KINDS[kind].replace("NAME", name)]
    keys += [f"count = {count}"] if count > 1 and kind != "short-flows" else []
    keys += ['relay.at = "sky"'] if is_relayed(flow) else []
    return f"{{ {', '.join(keys)} }}"


def title(kind: str) -> str:
    return {"http-page": "Page loads", "short-flows": "Short flows"}.get(kind, "Flows")


def rows_of(mixtures: dict[str, list[Flow]]) -> dict[str, set[tuple[str, str]]]:
    """Return level and flow of the rows of each table. The flows of an entry share a row."""
    rows: dict[str, set[tuple[str, str]]] = {}
    for level, flows in mixtures.items():
        for place, (kind, _, _) in enumerate(flows):
            rows.setdefault(title(kind), set()).add((level, f"f{place}"))
    return rows


def labels(rows: set[tuple[str, str]]) -> set[tuple[str, ...]]:
    """Return what tells the rows of a table apart: level, flow or both."""
    levels, names = map(set, zip(*rows, strict=True))
    kept = [len(levels) > 1, len(names) > 1 or len(levels) == 1]
    return {tuple(itertools.compress(row, kept)) for row in rows}


def tables_of(text: str) -> dict[str, str]:
    """Return the tables of an answer by their titles."""
    whole = text.partition("Differences between levels")[0]
    parts = re.split(
        r"^([A-Z][a-z ]+)(?: \(group means\))?: median of 2 replications", whole, flags=re.MULTILINE
    )
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def said(*arguments: object) -> str:
    with redirect_stdout(io.StringIO()) as output:
        assert main(list(map(str, arguments))) == 0
    return output.getvalue()


@settings(max_examples=8, derandomize=True)
@given(MIXTURES, MIXTURES)
@example([("http-page", 1, False), ("bulk-tcp", 3, False)], [("http-page", 1, False), ("voip", 2, False)])
@example([("bulk-tcp", 2, True), ("http-page", 2, True)], [("bulk-tcp", 1, True), ("video", 1, False)])
def test_every_flow_is_in_the_answer_the_summary_and_the_report(p: list[Flow], q: list[Flow]) -> None:
    mixtures = {"p": p, "q": q}  # a name may stand for another kind at the other level
    factor = [
        f"{level}.flow = [{', '.join(written(f'f{place}', flow) for place, flow in enumerate(flows))}]\n"
        for level, flows in mixtures.items()
    ]
    with TemporaryDirectory() as folder:
        file, out = Path(folder) / "mix.toml", Path(folder) / "out"
        file.write_text(f"{HEAD}\n[factor.mix]\n{''.join(factor)}", encoding="utf-8")
        answers = [said("run", file, "--out", out), said("results", "show", out)]
        report = (out / "report.html").read_text(encoding="utf-8")
    relayed = any(map(is_relayed, p + q))
    for table, rows in rows_of(mixtures).items():
        for answer in answers:
            text = tables_of(answer)[table]
            lines = [line.split() for line in text.splitlines() if line[:1].strip()]
            for own in labels(rows):
                # A run prints a screen, and names the rest.
                assert re.search("more rows?: lasthop results show", text) or own in {
                    tuple(line[: len(own)]) for line in lines
                }, (own, answer)
        assert "more rows" not in answers[1]
        for level, name in rows:
            assert f"<td>{level}</td><td>{name}</td>" in report
    for text in (*answers, report):
        assert ("Not shown: connections that carry parts of flows (" in text) == relayed
        assert not re.search(r"-side(</td>|\s+-?\d)", text)
