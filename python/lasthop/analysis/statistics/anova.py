"""Analysis of variance of a full-factorial design with first-order interactions.

Source: R. Jain, The Art of Computer Systems Performance Analysis, Wiley 1991, chapters 17, 18 and 20 to 23. A
response is the sum of effects; for factors A, B, C with levels i, j, k and replication r

    y_ijkr = mu + a_i + b_j + c_k + ab_ij + ac_ik + bc_jk + rest_ijkr

where the effects of a factor sum to zero over its levels, and the effects of an interaction over the levels
of either factor. As each cell has the same number of values, the terms are orthogonal and their sums of
squares add up:

    SSY = sum of y^2 = SS0 + SST        SS0 = N mu^2        SST = SSA + SSB + SSC + SSAB + SSAC + SSBC + rest

A term's share of the variation is 100 SSA / SST per cent. The rest depends on the number of replications.
With one replication, it consists of the interactions of three and more factors, which count as error. With
several, it is the error within the cells, and the higher interactions are a separate component. Let the
rest have v degrees of freedom. Its mean square is MSE, and the standard error is s_e = sqrt(MSE). A term with
MSA = SSA / df has F = MSA / MSE. An effect, a contrast sum(h y) of the N values, has the standard error s_e
sqrt(sum(h^2)) and the interval effect +- t[(1 + confidence) / 2; v] standard error. Without degrees of
freedom there is no estimate of the error, and no F, p or interval.

Replications count as independent. In a campaign, replications of the same number have the same link states in
every cell. This common component is part of the error here, so F tends to be too small and the intervals of
effects too wide.

statsmodels fits the model by least squares on sum contrasts.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lasthop.campaign.results.folder import (
    FLOWS,
    HOPS,
    PAGES,
    RUNS,
    SHORTS,
    STATIONS,
    read_manifest,
    read_rows,
    scan_rows,
)
from lasthop.campaign.results.hops import PLACE
from lasthop.campaign.results.manifest import looks_of
from lasthop.campaign.results.space import read_space
from lasthop.campaign.results.tables import factor_column, whole_flows, with_derived
from lasthop.common.errors import InputError, nearest
from lasthop.common.extras import ANOVA, extra
from lasthop.common.metrics.units import counted
from lasthop.common.statistics.quantiles import shared
from lasthop.scenario.selection import select_cells

if TYPE_CHECKING:
    from rich.table import Table as RichTable

REPLICATION_COLUMNS = ("set", "replication")
_WHO = {RUNS: "", PAGES: "role", SHORTS: "application", FLOWS: "role", HOPS: PLACE, STATIONS: PLACE}
"""The tables in which a response is searched, in order, and the column that identifies a run's rows."""
_ROWS = {PAGES: "page loads", SHORTS: "short flows", FLOWS: "flows", HOPS: "hops", STATIONS: "stations"}
_NAMED_AT_MOST = 5
_NOT_METRICS = frozenset({"start_s"})
_KINDS = ("overall mean", "main effect", "interaction")
TIMES = " x "
"""Joins the factors of an interaction."""
_ROUNDING = 1e-12
"""Relative size of values that may be rounding errors."""

Term = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Values of a response, one per row.

    `candidates` are the columns that may be factors; their values are text. `advice` completes the error
    about a missing value. `ranges` are factors that are not compared: their points count as replications.
    """

    frame: pl.DataFrame
    response: str
    candidates: list[str]
    advice: str = ""
    ranges: tuple[str, ...] = ()
    looks: int = 1
    """See `Tables`."""


@dataclass(frozen=True, slots=True)
class Design:
    """A balanced full-factorial design: every combination of levels has the same number of values."""

    frame: pl.DataFrame
    response: str
    factors: dict[str, list[str]]
    replications: int
    looks: int = 1
    """See `Tables`."""

    @property
    def cells(self) -> int:
        return math.prod(map(len, self.factors.values()))


@dataclass(frozen=True, slots=True)
class Component:
    """A component of the variation; the sum of squares is in the response's unit squared.

    `kind` is `individual values`, `overall mean`, `total variation`, `main effect`, `interaction`,
    `higher interactions` or `rest`; `term` names the factors. `percent` is the share of the total variation.
    """

    kind: str
    term: str
    sum_of_squares: float
    percent: float | None = None
    degrees_of_freedom: int | None = None
    mean_square: float | None = None
    f: float | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect in the response's unit, with standard error and interval if the error is estimated.

    `kind` is `overall mean`, `main effect` or `interaction`; `level` names the level of each factor of the
    `term`.
    """

    kind: str
    term: str
    level: str
    effect: float
    standard_error: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None


@dataclass(frozen=True, slots=True)
class Analysis:
    """All numbers of an analysis.

    `standard_error` is s_e, in the response's unit; `None` without an estimate.
    """

    design: Design
    confidence: float
    components: list[Component]
    effects: list[Effect]
    standard_error: float | None

    def frame(self) -> pl.DataFrame:
        """Return a row per component of the variation, the standard error s_e, and a row per effect."""
        parts = [
            pl.DataFrame([asdict(component) for component in self.components], infer_schema_length=None),
            pl.DataFrame({"kind": ["standard error"], "term": [""], "standard_error": [self.standard_error]}),
            pl.DataFrame([asdict(effect) for effect in self.effects], infer_schema_length=None).with_columns(
                confidence=pl.lit(self.confidence)
            ),
        ]
        first = pl.lit(self.design.response).alias("response"), "kind", "term", "level"
        return pl.concat(parts, how="diagonal_relaxed").select(*first, pl.exclude("kind", "term", "level"))


def read_table(source: Path, response: str, only: Sequence[str] = (), role: str | None = None) -> Table:
    """Read a response from a results folder or a CSV file.

    In a folder it is a column of the first table of `_WHO` that has it. Except for runs, it is the mean over
    each run's rows, or over the rows named `role`: the name of a page load, of short flows' hosts or of a
    hop, or the role of a flow. `only` are filters as for `select_cells`, on any column that may be a factor.
    Raises InputError if there is no such response or no row remains.
    """
    if source.is_dir():
        table = from_folder(source, response, role)
        space = read_space(source)
        folded = space.folded(table.frame.lazy(), scan_rows(source / RUNS)).collect()
        candidates = [name for name in table.candidates if name not in space.ranges]
        names = tuple(range_.name for range_ in space.ranges.values())
        table = replace(table, frame=folded, candidates=candidates, ranges=names)
    elif role is not None:
        raise InputError(
            f"--role {role} requires a results folder, which {source} is not; select rows with --only."
        )
    else:
        table = _from_csv(source, response)
    table = keep(table, only)
    looks = looks_of(read_manifest(source)) if source.is_dir() else 1
    return replace(balanced(table), looks=looks) if looks > 1 else table


def balanced(table: Table) -> Table:
    """Return the table without the replications that some cells lack."""
    keys = [name for name in REPLICATION_COLUMNS if name in table.frame.columns]
    cells = table.frame.select(table.candidates).unique().height
    return replace(table, frame=table.frame.filter(pl.len().over(keys) == cells))


def from_folder(folder: Path, response: str, role: str | None) -> Table:
    """Read a response from a results folder. In a space, every point is a cell."""
    absent = [name for name in (RUNS, FLOWS) if not (folder / name).is_file()]
    if absent:
        raise InputError(
            f"{folder} contains no {' and no '.join(absent)}: give a folder written by 'lasthop run' or "
            "'lasthop study run'. To complete an interrupted run, repeat its command."
        )
    tables = {
        name: with_derived(name, _read_parquet(folder / name).lazy()).collect()
        for name in _WHO
        if (folder / name).is_file()
    }
    if role is None:
        tables[FLOWS] = whole_flows(tables[FLOWS].lazy()).collect()
    runs = tables[RUNS]
    factors = runs.columns[: runs.columns.index("set")]
    keys = [*factors, *REPLICATION_COLUMNS]
    having = [name for name, table in tables.items() if response in _metrics(table, keys)]
    if not having:
        metrics = dict.fromkeys(metric for table in tables.values() for metric in _metrics(table, keys))
        raise InputError(_no_response(folder, response, list(metrics)))
    name = having[0] if role is None else _having_role(tables, having, response, role)
    if name == RUNS:
        return Table(runs.select(*keys, response), response, factors)
    rows = tables[name] if role is None else tables[name].filter(pl.col(_WHO[name]) == role)
    # A mean over some of the rows would look like the mean over all.
    whole = pl.col(response).is_not_null().all()
    frame = rows.group_by(keys, maintain_order=True).agg(pl.when(whole).then(pl.col(response).mean()))
    what = _ROWS[name]
    advice = f"A run has a value only if all its {what} " + (
        f"named {role} have one." if role else f"have one; --role selects {what}."
    )
    return Table(frame, response, factors, advice)


def _having_role(tables: Mapping[str, pl.DataFrame], having: Sequence[str], response: str, role: str) -> str:
    """Return the first table with rows of this role."""
    named = [name for name in having if name != RUNS]
    if not named:
        raise InputError(f"--role {role}: {response} is a metric of runs, not of flows; omit --role.")
    roles = [who for name in named for who in tables[name][_WHO[name]].unique(maintain_order=True)]
    for name in named:
        if role in tables[name][_WHO[name]]:
            return name
    raise InputError(
        f"--role {role}: no row has this role; did you mean '{nearest(role, roles)}'? Roles: "
        f"{', '.join(roles)}."
    )


def _read_parquet(file: Path) -> pl.DataFrame:
    frame = read_rows(file)
    absent = [name for name in REPLICATION_COLUMNS if name not in frame.columns]
    if absent:
        raise InputError(f"{file} has no column {' and no '.join(absent)}: lasthop did not write it.")
    return frame


def _metrics(frame: pl.DataFrame, keys: Sequence[str]) -> list[str]:
    return [
        name
        for name, dtype in frame.schema.items()
        if (dtype.is_numeric() or dtype == pl.Boolean) and name not in keys and name not in _NOT_METRICS
    ]


def _from_csv(file: Path, response: str) -> Table:
    if not file.is_file():  # reading from a pipe may block
        raise InputError(
            f"{file} is not a regular file; if it is a pipe or a device, save its output and give that file."
        )
    try:
        frame = pl.read_csv(file, infer_schema=False, glob=False)
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror or error}.") from error
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"{file} is not a CSV table with a header line: {str(error).splitlines()[0]}"
        ) from error
    if response not in frame.columns or response in REPLICATION_COLUMNS:
        columns = [name for name in frame.columns if name not in REPLICATION_COLUMNS]
        raise InputError(_no_response(file, response, columns))
    return Table(
        frame, response, [n for n in frame.columns if n != response and n not in REPLICATION_COLUMNS]
    )


def _no_response(source: Path, response: str, columns: Sequence[str]) -> str:
    return (
        f"--metric {response}: {source} has no column of this name; did you mean "
        f"'{nearest(response, columns)}'? "
        f"Columns: {', '.join(columns)}."
    )


@dataclass(frozen=True, slots=True)
class _Labels:
    """A row in a form that `select_cells` accepts."""

    row: int
    levels: dict[str, str]

    @property
    def key(self) -> str:
        return _cell(self.levels)


def keep(table: Table, only: Sequence[str]) -> Table:
    """Return the rows that pass the filters (see `select_cells`), with the candidates' levels as text."""
    frame = table.frame.with_columns(pl.col(table.candidates).cast(pl.String).fill_null(""))
    if only:
        levels = {name: frame[name].unique(maintain_order=True).to_list() for name in table.candidates}
        rows = [
            _Labels(row, labels)
            for row, labels in enumerate(frame.select(table.candidates).iter_rows(named=True))
        ]
        frame = frame[[labels.row for labels in select_cells(rows, levels, only)]]
    return replace(table, frame=frame)


def _cell(levels: Mapping[str, object]) -> str:
    return ",".join(f"{name}={level}" for name, level in levels.items())


def varied(table: Table) -> list[str]:
    """Return the factors with several levels; raise InputError if there are none."""
    names = [name for name in table.candidates if table.frame[name].n_unique() > 1]
    if not names:
        raise InputError("No factor has several levels, so there is nothing to compare.")
    return names


def full_factorial(table: Table, factors: Sequence[str]) -> Design:
    """Return the design that the table forms in these factors.

    The columns `set` and `replication`, if any, identify a cell's replications. Raises InputError if a cell
    or a replication is missing, occurs twice or has no number, or if a factor does not vary.
    """
    columns = [_factor(table, factor) for factor in factors]
    if len(set(columns)) < len(columns):
        raise InputError(f"--factors {','.join(factors)}: a factor occurs twice.")
    levels = {name: table.frame[name].unique(maintain_order=True).to_list() for name in columns}
    for name, values in levels.items():
        if len(values) < 2:
            raise InputError(
                f"--factors: '{name}' is '{values[0]}' in every row and explains nothing; omit it."
            )
    keys = [name for name in REPLICATION_COLUMNS if name in table.frame.columns]
    _check_duplicates(table, columns, keys)
    _check_missing(table.frame, levels, keys)
    frame = table.frame.select(*columns, *keys, numbers_of(table, [*columns, *keys]))
    return Design(
        frame, table.response, levels, frame.height // math.prod(map(len, levels.values())), table.looks
    )


def _factor(table: Table, factor: str) -> str:
    if factor in table.ranges:
        raise InputError(
            f"--factors: '{factor}' is a range and has no levels to compare; without --factors, "
            "lasthop computes its influence."
        )
    column = factor if factor in table.candidates else factor_column(factor)
    if column not in table.candidates:
        raise InputError(
            f"--factors: unknown factor '{factor}'; did you mean '{nearest(factor, table.candidates)}'? "
            f"Factors: {', '.join(table.candidates)}."
        )
    return column


def _check_duplicates(table: Table, columns: Sequence[str], keys: Sequence[str]) -> None:
    frame = table.frame
    twice = frame.filter(frame.select(*columns, *keys).is_duplicated())
    if twice.is_empty():
        return
    first = twice.select(*columns, *keys).row(0, named=True)
    same = frame.filter(pl.all_horizontal(pl.col(name) == value for name, value in first.items()))
    differing = [name for name in table.candidates if name not in columns and same[name].n_unique() > 1]
    advice = (
        f"The rows differ in {', '.join(differing)}: select a level with --only {differing[0]}="
        f"{same[differing[0]][0]}, or add it to --factors."
        if differing
        else f"To distinguish replications, add columns named {' and '.join(REPLICATION_COLUMNS)}."
    )
    raise InputError(f"Cell {_cell(first)} occurs {same.height} times. {advice}")


def _check_missing(frame: pl.DataFrame, levels: dict[str, list[str]], keys: Sequence[str]) -> None:
    present = set(frame.select(*levels).iter_rows())
    cells = math.prod(map(len, levels.values()))
    if len(present) < cells:
        absent = (
            combination for combination in itertools.product(*levels.values()) if combination not in present
        )
        named = [
            _cell(dict(zip(levels, combination, strict=True)))
            for combination in itertools.islice(absent, _NAMED_AT_MOST)
        ]
        missing = cells - len(present)
        more = f" and {missing - len(named)} more" if missing > len(named) else ""
        raise InputError(
            f"The design is not a full factorial: it lacks {missing} of {cells} cells: "
            f"{'; '.join(named)}{more}. Use --only to select levels that occur in all combinations."
        )
    if not keys:
        return
    occurring = set(frame.select(*levels, *keys).iter_rows())
    replications = frame.select(*keys).unique(maintain_order=True).rows()
    for combination, replication in itertools.product(itertools.product(*levels.values()), replications):
        if (*combination, *replication) not in occurring:
            names = dict(zip([*levels, *keys], (*combination, *replication), strict=True))
            raise InputError(f"The design is not balanced: it lacks {_cell(names)}.")


def numbers_of(table: Table, names: Sequence[str]) -> pl.Series:
    """Return the response. Raises InputError if a row has none, and identifies it by the columns `names`."""
    column = table.frame[table.response]
    numbers = column.cast(pl.Float64, strict=False)
    bad = (~numbers.is_finite()).fill_null(value=True)
    if rows := bad.arg_true().to_list():
        row = table.frame.row(rows[0], named=True)
        place = _cell({name: row[name] for name in names})
        value = row[table.response]
        what = "no value" if value in (None, "") else f"the value '{value}', which is not a finite number,"
        others = f" (and in {counted(len(rows) - 1, 'other row')})" if len(rows) > 1 else ""
        raise InputError(f"{table.response} has {what} in {place}{others}. {table.advice}".rstrip())
    return numbers


def analyse(design: Design, confidence: float = 0.90) -> Analysis:
    """Fit the model and allocate the variation. Raises InputError if the response does not vary.

    Intervals, with this `confidence`, and p values hold over all looks of the design.
    """
    fit = _Fit(design)
    if not fit.is_more_than_rounding(fit.model.centered_tss):
        raise InputError(f"{design.response} is equal in all rows: there is no variation to analyse.")
    return Analysis(design, confidence, _components(fit), _effects(fit, confidence), fit.standard_error)


class _Fit:
    """A fit by statsmodels. In its formula, f<i> is factor number i; a term is the numbers of its factors."""

    def __init__(self, design: Design) -> None:
        with extra(ANOVA, "The analysis of variance"):
            import pandas as pd
            from statsmodels.regression.linear_model import OLS

        self.design = design
        factors = len(design.factors)
        codes = {
            f"f{number}": design.frame[name].replace_strict(levels, range(len(levels))).to_numpy()
            for number, (name, levels) in enumerate(design.factors.items())
        }
        data = pd.DataFrame({"y": design.frame[design.response].to_numpy(), **codes})
        # With replications, the error is separate from all interactions. Without them, interactions of three
        # and more factors are the rest.
        order = factors if design.replications > 1 else min(2, factors)
        formula = f"y ~ ({' + '.join(f'C({name}, Sum)' for name in codes)})**{order}"
        with np.errstate(divide="ignore", invalid="ignore"):  # there may be no degrees of freedom left
            self.model = OLS.from_formula(formula, data).fit()
        self.codes = np.column_stack(list(codes.values()))
        self.columns = [term_of(name) for name in self.model.model.exog_names]
        self.rest_df = round(self.model.df_resid)
        # A rest of rounding errors is no estimate of the error.
        self.has_error = self.rest_df > 0 and self.is_more_than_rounding(self.model.ssr)
        self.standard_error = math.sqrt(self.model.mse_resid) if self.has_error else None
        numbers = range(factors)
        self.terms = [*itertools.combinations(numbers, 1), *itertools.combinations(numbers, 2)]

    def is_more_than_rounding(self, sum_of_squares: float) -> bool:
        return bool(sum_of_squares > (_ROUNDING**2) * self.model.uncentered_tss)

    def name(self, term: Term) -> str:
        names = list(self.design.factors)
        return TIMES.join(names[number] for number in term)


def term_of(name: str) -> Term:
    """Return the term of a column or a row of statsmodels."""
    return tuple(int(number) for number in re.findall(r"C\(f(\d+)", name))


def _components(fit: _Fit) -> list[Component]:
    from statsmodels.stats.anova import anova_lm

    model, values = fit.model, fit.design.frame.height
    total = float(model.centered_tss)
    with np.errstate(divide="ignore", invalid="ignore"):  # there may be no degrees of freedom left
        rows = {term_of(name): row for name, row in anova_lm(model, typ=1).iterrows()}

    def component(kind: str, name: str, terms: Sequence[Term]) -> Component:
        squares = float(sum(rows[term]["sum_sq"] for term in terms))
        df = round(sum(rows[term]["df"] for term in terms))
        f = p = None
        if fit.has_error:
            test = model.f_test(np.eye(len(fit.columns))[[column in terms for column in fit.columns]])
            f, p = float(test.fvalue), min(1.0, fit.design.looks * float(test.pvalue))
        return Component(kind, name, squares, 100 * squares / total, df, squares / df, f, p)

    mean = float(model.params.iloc[0])
    components = [
        Component("individual values", "", float(model.uncentered_tss), degrees_of_freedom=values),
        Component("overall mean", "", values * mean**2, degrees_of_freedom=1),
        Component("total variation", "", total, 100.0, values - 1),
        *(component(_KINDS[len(term)], fit.name(term), [term]) for term in fit.terms),
    ]
    higher = [term for term in rows if len(term) > 2]
    if higher:
        components.append(component("higher interactions", "", higher))
    rest = float(model.ssr)
    mean_square = rest / fit.rest_df if fit.rest_df else None
    return [*components, Component("rest", "", rest, 100 * rest / total, fit.rest_df, mean_square)]


def _effects(fit: _Fit, confidence: float) -> list[Effect]:
    levels = list(fit.design.factors.values())
    exog: NDArray[np.float64] = fit.model.model.exog
    labels, contrasts = [], []
    for term in [(), *fit.terms]:
        # With sum contrasts, a cell's row of the design matrix, restricted to a term's columns, is the
        # contrast of its effect.
        columns = np.array([column == term for column in fit.columns])
        for combination in itertools.product(*(range(len(levels[number])) for number in term)):
            row = np.argmax((fit.codes[:, list(term)] == combination).all(axis=1))
            named = [levels[number][code] for number, code in zip(term, combination, strict=True)]
            labels.append((_KINDS[len(term)], fit.name(term), TIMES.join(named)))
            contrasts.append(np.where(columns, exog[row], 0.0))
    matrix = np.array(contrasts)
    if not fit.has_error:
        return [
            Effect(*label, float(effect))
            for label, effect in zip(labels, matrix @ fit.model.params, strict=True)
        ]
    test = fit.model.t_test(matrix)
    ends = test.conf_int(alpha=1 - shared(confidence, fit.design.looks)).T
    numbers = zip(test.effect, test.sd.flat, *ends, strict=True)
    return [Effect(*label, *map(float, row)) for label, row in zip(labels, numbers, strict=True)]


def show(analysis: Analysis) -> None:
    from rich.console import Console

    # Wider than any terminal, so that the terminal wraps long lines and no number is truncated.
    console = Console(width=1000, highlight=False)
    design = analysis.design
    shape = " x ".join(f"{name} ({len(levels)})" for name, levels in design.factors.items())
    times = f"{design.replications} replications" if design.replications > 1 else "one replication"
    console.print(
        f"Analysis of variance of {design.response}: {shape}, {design.cells} cells, {times}\n", markup=False
    )
    console.print(_variation_table(analysis))
    mean, *effects = analysis.effects
    decimals = _decimals(max(analysis.standard_error or 0.0, *(abs(effect.effect) for effect in effects)))
    console.print(
        f"\nOverall mean {mean.effect:.{decimals}f}; {_error_text(analysis, decimals)}", markup=False
    )
    if design.looks > 1:
        console.print(
            f"The campaign had a stopping rule: p and intervals hold over its {design.looks} looks."
        )
    for kind, title in (("main effect", "Main effects"), ("interaction", "First-order interactions")):
        chosen = [effect for effect in effects if effect.kind == kind]
        if chosen:
            console.print()
            console.print(_effects_table(title, chosen, analysis, decimals))


def _error_text(analysis: Analysis, decimals: int) -> str:
    rest = analysis.components[-1]
    if analysis.standard_error is not None:
        freedom = f"{rest.degrees_of_freedom} degrees of freedom"
        return f"standard error {analysis.standard_error:.{decimals}f} with {freedom}."
    if rest.degrees_of_freedom:
        return "the effects explain every value, so there is no error to test them against."
    return "no degrees of freedom are left to estimate the error; replications or a third factor add some."


def _variation_table(analysis: Analysis) -> RichTable:
    from rich.markup import escape

    decimals = _decimals(analysis.components[2].sum_of_squares)
    numbers = ["sum of squares", "%", "d.f.", "mean square", "F", "p"]
    table = _rich_table("Allocation of variation", ["component"], numbers)
    higher = "rest (higher interactions)" if len(analysis.design.factors) > 2 else "rest"
    names = {"rest": "error" if analysis.design.replications > 1 else higher}
    for component in analysis.components:
        table.add_row(
            escape(component.term or names.get(component.kind, component.kind)),
            f"{component.sum_of_squares:.{decimals}f}",
            _text(component.percent, ".2f"),
            _text(component.degrees_of_freedom, "d"),
            _text(component.mean_square, ".4g"),
            _text(component.f, ".4g"),
            "<0.0001" if component.p is not None and component.p < 0.0001 else _text(component.p, ".4f"),
        )
    return table


def _effects_table(title: str, effects: Sequence[Effect], analysis: Analysis, decimals: int) -> RichTable:
    from rich.markup import escape

    percent = f"{100 * analysis.confidence:g} %"
    table = _rich_table(title, ["factor", "level"], ["effect", "std. error", f"{percent} from", "to"])
    for effect in effects:
        numbers = (effect.effect, effect.standard_error, effect.ci_low, effect.ci_high)
        table.add_row(
            escape(effect.term), escape(effect.level), *(_text(number, f".{decimals}f") for number in numbers)
        )
    return table


def _rich_table(title: str, words: Sequence[str], numbers: Sequence[str]) -> RichTable:
    from rich.table import Table as RichTable

    table = RichTable(title=title, title_justify="left", box=None, pad_edge=False)
    for word in words:
        table.add_column(word, no_wrap=True)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _decimals(largest: float) -> int:
    """Return the number of decimals that shows four digits of the largest number."""
    return max(0, 3 - math.floor(math.log10(largest))) if largest > 0 else 0
