"""Time series over the replications of each cell: the median and a band in every step."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from lasthop.campaign.plan import ChosenRun
from lasthop.campaign.series import TABLE, check_steps, scan_steps, with_labels, write_steps
from lasthop.common.errors import InputError
from lasthop.common.files import replace_atomically, writing
from lasthop.common.metrics.dictionary import dictionary
from lasthop.scenario.points import factors_of

BAND_WORDS = "10th to 90th percentile"
_QUANTILES = {"median": 0.5, "low": 0.1, "high": 0.9}
_OF = ("flow", "direction", "time_s")
_SOURCE = "source"
"""The column that only the steps of real programs' transfers have."""
_NOTHING_IS_ZERO = (
    "goodput_Bps",
    "lost_packets",
    "marks_ecn",
    "queue_mean_packets",
    "queue_max_packets",
    "sending_flows",
)
"""Columns that are 0 in a step without a row, in which nothing was sent or queued."""
_METRICS = tuple(name for name in dictionary()[TABLE] if name not in (*_OF, _SOURCE, "set", "replication"))
MEANINGS = {
    "metric": {
        "unit": "",
        "description": "The column of the time series that this row summarizes; its name ends in the unit.",
    },
    "replications": {"unit": "", "description": "How many replications have a value in this step."},
    "median": {"unit": "", "description": "Median over these replications, in the unit of the metric."},
    "low": {
        "unit": "",
        "description": "10th percentile over these replications, interpolated between values.",
    },
    "high": {
        "unit": "",
        "description": "90th percentile over these replications, interpolated between values.",
    },
}
"""Descriptions of the columns of a folded table."""


def _every_replication(run: ChosenRun) -> list[ChosenRun]:
    """Return all replications of a run's cell and set; raise `InputError` if their number varies by cell."""
    if run.plan.until:
        raise InputError(
            f"The cells of '{run.plan.study.name}' have different numbers of replications, as it was run "
            "with --until. Run it again without --until."
        )
    return [replace(run, replication=number) for number in range(1, run.plan.replications + 1)]


def fold(run: ChosenRun, step_ns: int) -> pl.DataFrame:
    """Run all replications of a run's cell and set in sequence, and fold their time series.

    The table has a row for each step, flow or hop, and metric.
    """
    runs = _every_replication(run)
    check_steps([run], step_ns)
    with TemporaryDirectory(prefix="lasthop-") as folder:
        files = [Path(folder) / f"{number}.csv" for number in range(len(runs))]
        for replication, file in zip(runs, files, strict=True):
            replication.series(file, step_ns)
        rows = _fold_steps(pl.concat(map(scan_steps, files)), len(runs))
        return with_labels(run, rows).drop("replication").collect()


def write_folded(runs: Sequence[ChosenRun], step_ns: int, out: Path) -> int:
    """Fold the time series of each run's cell into the new file `out`; return the number of rows."""
    plan = runs[0].plan
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        frame = folds(runs, step_ns)
        replace_atomically(
            out, lambda path: write_steps(frame.lazy(), path, out.suffix, (plan, step_ns), MEANINGS)
        )
    return frame.height


def folds(runs: Sequence[ChosenRun], step_ns: int) -> pl.DataFrame:
    """Fold the time series of each run's cell into one table."""
    clashes = [factor for factor in factors_of(runs[0].plan.cells) if factor in MEANINGS]
    if clashes:
        raise InputError(f"The factor '{clashes[0]}' has the name of a column of this table: rename it.")
    return pl.concat([fold(run, step_ns) for run in runs], how="diagonal")


def _fold_steps(steps: pl.LazyFrame, replications: int) -> pl.LazyFrame:
    """Fold the rows of `replications` runs: the median and the band of each metric in each step."""
    # Fairness is undefined while a single flow sends.
    shared = pl.when(pl.col("sending_flows") > 1).then("fairness_jain").alias("fairness_jain")
    columns = steps.collect_schema().names()
    of = [*_OF, *([_SOURCE] if _SOURCE in columns else [])]
    metrics = [name for name in _METRICS if name in columns]
    long = steps.with_columns(shared).unpivot(metrics, index=of, variable_name="metric").drop_nulls("value")
    grouped = long.group_by(*of, "metric").agg(pl.col("value").sort().alias("values"))
    present = pl.col("values").list.len().cast(pl.Int64)
    zero = pl.col("metric").is_in(_NOTHING_IS_ZERO)
    counted = grouped.with_columns(pl.when(zero).then(replications).otherwise(present).alias("replications"))
    bounds = [
        _quantile(share, pl.col("replications") - present).alias(name) for name, share in _QUANTILES.items()
    ]
    order = pl.col("metric").cast(pl.Enum(_METRICS))
    return counted.sort("time_s", *(name for name in of if name != "time_s"), order, nulls_last=True).select(
        *of, "metric", "replications", *bounds
    )


def _quantile(share: float, zeros: pl.Expr) -> pl.Expr:
    """Interpolate a quantile of `replications` values: `zeros` zeros followed by the sorted `values`."""
    last = pl.col("replications") - 1
    rank = share * last
    below = rank.floor().cast(pl.Int64)

    def at(place: pl.Expr) -> pl.Expr:
        value = pl.col("values").list.get((place - zeros).clip(lower_bound=0), null_on_oob=True)
        return pl.when(place < zeros).then(0.0).otherwise(value)

    return at(below) + (rank - below) * (at(pl.min_horizontal(below + 1, last)) - at(below))
