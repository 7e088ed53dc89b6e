"""The results of a finished campaign: its tables, and warnings about its runs."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lasthop import _core
from lasthop.campaign.results.folder import FLOWS, RUNS, STACKS, TRACES, read_rows, scan_rows
from lasthop.campaign.results.manifest import Difference, differences_of
from lasthop.campaign.results.shapes import Manifest
from lasthop.campaign.results.tables import factor_column
from lasthop.common.metrics.dictionary import MISSING_LOG
from lasthop.engines.programs import ERRORS, last_lines
from lasthop.scenario.points import factors_of


@dataclass(frozen=True)
class Finished:
    """The results of `cells` in the folder `out`."""

    out: Path
    cells: Sequence[_core.Cell]
    manifest: Manifest

    def live_differences(self) -> list[Difference]:
        """Return where Linux differed from the scenario's TCP settings; nothing for the model."""
        return differences_of(self.manifest)

    def late_runs(self) -> int:
        """Return the number of runs that are invalid because packets were late."""
        return int(scan_rows(self.out / RUNS).select((~pl.col("valid")).sum()).collect().item())

    def flows(self) -> pl.DataFrame:
        return read_rows(self.out / FLOWS)

    def optional(self, file: str) -> pl.DataFrame | None:
        """Return the table in `file`, or `None` if the scenario produced none."""
        return read_rows(self.out / file) if (self.out / file).is_file() else None

    def traces_bytes(self) -> int:
        return sum(file.stat().st_size for file in (self.out / TRACES).rglob("*") if file.is_file())

    def silent(self) -> str | None:
        """Return a warning with the number of runs that sent no packet; `None` if every run sent packets."""
        rows = scan_rows(self.out / RUNS)
        columns = rows.collect_schema()
        sent = pl.col("packets_sent") if "packets_sent" in columns else pl.lit(1)
        silent, every = (
            rows.select((sent == 0).sum().alias("silent"), pl.len().alias("runs")).collect().row(0)
        )
        if not silent:
            return None
        count = f"any of the {every} runs" if silent == every else f"{silent} runs"
        hint = (
            "Does the program use the network?"
            if "exit_code" in columns
            else "Do the flows start before time_limit?"
        )
        return f"No packet was sent in {count}. {hint}"

    def failed(self) -> str | None:
        """Return a warning with the number of runs in which a program failed, and the first one's output."""
        rows = scan_rows(self.out / RUNS)
        if "exit_code" not in rows.collect_schema():
            return None
        factors = [factor_column(factor) for factor in factors_of(self.cells)]
        every = rows.select(*factors, "replication", "exit_code", ERRORS).collect()
        failures = every.filter(pl.col("exit_code") != 0)
        if failures.is_empty():
            return None
        codes = ", ".join(map(str, failures["exit_code"].unique().sort()[:5]))
        first = failures.row(0, named=True)
        which = ", ".join(
            [*(f"{name}={first[name]}" for name in factors), f"replication {first['replication']}"]
        )
        levels = "".join(f'"{name}", ' for name in factors)
        query = f"SELECT {levels}replication, exit_code, {ERRORS} FROM runs WHERE exit_code <> 0"
        return "\n".join(
            [
                f"The program failed in {len(failures)} of {len(every)} runs (exit code {codes}). "
                f"The end of its standard error in the first of them, {which}:",
                *(f"  {line}" for line in last_lines(first[ERRORS])),
                f"To list them all: lasthop results query {shlex.quote(str(self.out))} {shlex.quote(query)}",
            ]
        )

    def unlogged(self) -> Iterator[str]:
        """Yield how many runs lack the metrics of a stack's log, for each flow and reason."""
        rows = scan_rows(self.out / FLOWS)
        if MISSING_LOG not in rows.collect_schema():
            return
        from lasthop.stacks.view import NO_LOG, REASONS

        runs = pl.len().over("flow").alias("runs")
        missing = rows.select("flow", MISSING_LOG, runs).drop_nulls(MISSING_LOG).collect()
        counts = missing.group_by("flow", MISSING_LOG, "runs", maintain_order=True).len("count")
        for flow, reason, every, count in counts.iter_rows():
            why = REASONS[reason] + ("" if reason == NO_LOG else f" (it is below {self.out / STACKS})")
            yield f"{flow} has no values of stack_... and wire_... in {count} of {every} runs: {why}."

    def run_rows(self) -> pl.DataFrame:
        return read_rows(self.out / RUNS)
