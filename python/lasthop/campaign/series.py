"""Time series of some runs as one table."""

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.campaign.results.tables import factor_column, height
from lasthop.common.errors import InputError
from lasthop.common.files import replace_atomically, write_parquet, writing
from lasthop.common.metrics.dictionary import dictionary
from lasthop.common.metrics.units import units_for
from lasthop.scenario.points import factors_of, level_column

TABLE = "series"
_STEPS_MAX = 10_000_000
_PLACE = ("set", "replication")
_TEXT = ("flow", "direction", "source")
_COUNTS = ("lost_packets", "marks_ecn", "queue_max_packets", "cwnd", "sending_flows")


def write_series(runs: Sequence[ChosenRun], step_ns: int, out: Path) -> int:
    """Run `runs` and write their time series, in order, into the new file `out`; return the number of rows.

    Temporary files keep memory bounded. A failure leaves nothing behind.
    """
    check_steps(runs, step_ns)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
            parts = []
            for number, run in enumerate(runs):
                part = Path(folder) / f"{number}.csv"
                run.series(part, step_ns)
                parts.append(with_labels(run, scan_steps(part)))
            frame = pl.concat(parts, how="diagonal")
            replace_atomically(
                out, lambda path: write_steps(frame, path, out.suffix, (runs[0].plan, step_ns))
            )
            return height(frame)


def series_of(runs: Sequence[ChosenRun], step_ns: int) -> pl.DataFrame:
    """Run `runs` and return their time series, as `write_series` writes them."""
    with tempfile.TemporaryDirectory(prefix="lasthop-") as folder:
        file = Path(folder) / f"{TABLE}.parquet"
        write_series(runs, step_ns, file)
        return pl.read_parquet(file, memory_map=False)


def read_step(text: str) -> int:
    """Read a duration with its unit, such as `100ms` or `0.5 s`; return nanoseconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([^\s\d.]*)\s*", text)
    units = units_for("time_s")
    if match is None or match[2] not in units:
        raise InputError(
            f"{text!r} is not a duration. Give a number and a unit, such as 100ms. "
            f"Units: {', '.join(sorted(units))}."
        )
    nanoseconds = round(float(match[1]) * units[match[2]] * 1e9)
    if nanoseconds < 1 or not math.isfinite(nanoseconds):
        raise InputError(f"{text!r} is too short: a step is at least 1 µs long.")
    return nanoseconds


def check_steps(runs: Sequence[ChosenRun], step_ns: int) -> None:
    """Raise `InputError` if there may be too many steps to write."""
    longest_s = sum(run.cell.time_limit_s for run in runs)
    steps = longest_s / step_ns * 1e9
    if steps > _STEPS_MAX:
        least_s = longest_s / _STEPS_MAX
        digits = 10.0 ** math.floor(math.log10(least_s))
        nearest_s = next(each * digits for each in (1, 2, 5, 10) if each * digits >= least_s)
        unit = next((unit for unit in ("s", "ms") if nearest_s >= units_for("time_s")[unit]), "us")
        nearest = f"{nearest_s / units_for('time_s')[unit]:g}{unit}"
        raise InputError(
            f"--step: with {step_ns / 1e3:g} us there may be {steps:.3g} steps up to the time limit, more "
            f"than {_STEPS_MAX}. Use --step {nearest}, or lower time_limit."
        )


def _schema() -> dict[str, pl.DataType]:
    def kind(name: str) -> pl.DataType:
        return pl.String() if name in _TEXT else pl.Int64() if name in _COUNTS else pl.Float64()

    return {name: kind(name) for name in dictionary()[TABLE] if name not in _PLACE}


def scan_steps(file: Path) -> pl.LazyFrame:
    """Open a time series that a run wrote."""
    with file.open(encoding="utf-8") as lines:
        names = next(lines).rstrip("\n").split(",")
    return pl.scan_csv(file, schema={name: kind for name, kind in _schema().items() if name in names})


def with_labels(run: ChosenRun, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Prepend the columns of the cell's levels, the set and the replication."""
    cells = run.plan.cells
    levels = [
        pl.lit(
            level_column("level", factor, [run.cell])[0], dtype=level_column("level", factor, cells).dtype
        ).alias(factor_column(factor))
        for factor in factors_of(cells)
    ]
    place = [pl.lit(run.set_number).alias("set"), pl.lit(run.number).alias("replication")]
    return rows.select(*levels, *place, pl.all())


def write_steps(
    frame: pl.LazyFrame,
    path: Path,
    suffix: str,
    origin: tuple[Plan, int],
    meanings: Mapping[str, dict[str, str]] | None = None,
) -> None:
    """Write a table of the steps of runs; `origin` is their plan and the length of a step in nanoseconds.

    `meanings` describes columns that are not in the dictionary.
    """
    if suffix == ".csv":
        frame.sink_csv(path)
        return
    plan, step_ns = origin
    facts = {**plan.facts(), "lasthop.step_s": str(step_ns / 1e9)}
    write_parquet(frame, path, facts, {**plan.meanings(TABLE), **(meanings or {})})
