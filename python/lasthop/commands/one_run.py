"""Options of commands that show single runs of a scenario or of finished results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

import click

from lasthop import _core
from lasthop.campaign.limits import Limits
from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.commands.basic import only_option, seed_option
from lasthop.commands.completion import complete_scenarios
from lasthop.commands.options import (
    COUNT,
    REPLICATIONS,
    anyway_option,
    each_of,
    engine_option,
    is_given,
    kernel_option,
    limit_memory_option,
    points_option,
)
from lasthop.common.errors import InputError
from lasthop.engines.registry import ENGINES
from lasthop.scenario.points import read_study
from lasthop.scenario.selection import all_levels, select_cell, select_cells
from lasthop.studies.catalogue import find_scenario

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class OneRunOptions:
    scenario: str
    key: str | None
    only: tuple[str, ...]
    points: int | None
    replication: int
    set_number: int
    replications: int | None
    seed: int | None
    engine: str
    kernel: str | None
    anyway: bool
    limit_memory: float | None

    @classmethod
    def of(cls, context: click.Context) -> OneRunOptions:
        return cls(**{field.name: context.params[field.name] for field in fields(cls)})

    def choose(self, otherwise: str = "", *, for_link: bool = False) -> ChosenRun:
        """Load the scenario and return the selected run; `otherwise` as in `select_cell`.

        With `for_link`, the scenario needs no flows.
        """
        study = read_study(find_scenario(self.scenario), self.points, for_link=for_link)
        cell = select_cell(study.cells, all_levels(study), self.key, self.only, otherwise)
        return self._runs(study, [cell])[0]

    def choose_all(self) -> list[ChosenRun]:
        """Load the scenario and return the selected run in each selected cell, by default in all cells."""
        study = read_study(find_scenario(self.scenario), self.points)
        if self.key is not None:
            return self._runs(study, [select_cell(study.cells, all_levels(study), self.key, self.only)])
        return self._runs(study, select_cells(study.cells, all_levels(study), self.only))

    @property
    def limits(self) -> Limits:
        return Limits(self.anyway, self.limit_memory)

    def _runs(self, study: _core.Study, cells: Sequence[_core.Cell]) -> list[ChosenRun]:
        plan = Plan(
            study=study,
            cells=cells,
            seed=study.seed if self.seed is None else self.seed,
            replications=self.replications or study.replications,
            sets=self.set_number,
            engine=ENGINES[self.engine].choose(self.kernel),
            limits=self.limits,
        )
        return [ChosenRun(plan, cell, self.set_number, self.replication) for cell in cells]


_ONE_CELL = "Choose the cell (combination of factor levels) by some levels, unless there is only one cell."
_CELLS = "Choose cells (combinations of factor levels) by some levels. Repeat for more cells.  [default: all]"


def one_run_options(source: str = "FILE", *, many: bool = False) -> Callable[[F], F]:
    """Add the options of `OneRunOptions` to a command; `source` is the name of the argument in its help.

    With `many`, the command accepts several cells.
    """
    return each_of(
        click.argument("scenario", metavar=source, shell_complete=complete_scenarios),
        click.option(
            "--cell",
            "key",
            metavar="KEY",
            help="Choose the cell by its full key, such as link=e0,variant=eifel.",
        ),
        only_option(_CELLS if many else _ONE_CELL),
        points_option,
        click.option(
            "--replication",
            type=COUNT,
            default=1,
            show_default=True,
            metavar="N",
            help="Number of the replication, starting at 1 in each set.",
        ),
        click.option(
            "--set",
            "set_number",
            type=COUNT,
            default=1,
            show_default=True,
            metavar="S",
            help="Number of the set, if you ran several with --sets.",
        ),
        click.option(
            "--replications",
            type=COUNT,
            metavar="N",
            help="Replications per set, if you ran with this option.  [default: the scenario's]",
        ),
        seed_option,
        engine_option,
        kernel_option,
        anyway_option,
        limit_memory_option,
    )


def runs_of_source(context: click.Context) -> list[ChosenRun]:
    """Return one run of each selected cell of a scenario or results folder.

    With `--over replications`, each represents all replications of its cell and set.
    """
    from lasthop.campaign.results.folder import is_results

    options = OneRunOptions.of(context)
    if context.params["over"] == REPLICATIONS and is_given(context, "replication"):
        raise InputError(
            "--replication chooses one run, --over replications all of them; leave out one of the two."
        )
    folder = Path(options.scenario)
    if not is_results(folder):
        return options.choose_all()
    from lasthop.campaign.again import runs_of

    for name in ("points", "replications", "seed", "engine", "kernel"):
        if is_given(context, name):
            raise InputError(
                f"--{name}: the results folder {folder} already determines this; leave out --{name}."
            )
    if options.key is not None:
        raise InputError("--cell is for scenario files; choose the cells of a results folder with --only.")
    return runs_of(folder, options.only, options.replication, options.set_number, options.limits)


def list_files(title: str, files: Sequence[Path], notes: Sequence[str] = ()) -> None:
    """Print the files written for a run, and remarks."""
    click.echo("\n".join([f"{title}:", *(f"  {path}" for path in files), *notes]))
