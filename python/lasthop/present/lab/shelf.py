"""Finished results: a figure with a point for every run, which the page can open."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lasthop.campaign.again import runs_of
from lasthop.campaign.results.sections import REPLICATION, WHO, Section
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import axis_title, scale_of
from lasthop.present.answer.folder import read_sections
from lasthop.present.lab.opened import Opened

_MOST_POINTS = 6000
"""The largest number of points that the page draws fast; of more points, it gets a sample."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The records of a results folder."""

    folder: Path
    opened: Opened
    seed: int
    chains: Mapping[int, int]
    """For each set, the replication that starts its chain of cached metrics."""
    sections: Sequence[Section]

    @classmethod
    def read(cls, folder: Path) -> Shelf:
        """Read finished results. Raises `InputError` if their runs cannot be repeated."""
        plan = runs_of(folder, (), 1, 1)[0].plan
        if plan.study.space is not None:
            raise InputError(f"{folder} samples a space, which the lab cannot show; use 'lasthop plot'.")
        if plan.engine.name != "model":
            raise InputError(
                f"{folder} contains results of the {plan.engine.name} engine, but the lab needs those of the "
                "model engine."
            )
        chains = {number: plan.first(number) for number in range(1, plan.sets + 1)}
        sections = [section for section in read_sections(folder) if section.metrics]
        return cls(folder, Opened.named(str(plan.file)), plan.seed, chains, sections)

    def choices(self) -> list[dict[str, object]]:
        """Return the choices for figures: for each table the names of its rows, and its metrics."""
        return [
            {
                "title": section.title,
                "who": section.rows[WHO].unique(maintain_order=True).to_list(),
                "metrics": [
                    {"name": metric, "label": axis_title(metric, scale_of(metric, section.rows[metric]))}
                    for metric in section.metrics
                ],
            }
            for section in self.sections
        ]

    def figure(self, question: Mapping[str, object]) -> dict[str, object]:
        """Return the points of a metric: levels, median and runs of every cell."""
        section = next(
            (section for section in self.sections if section.title == question.get("title")), self.sections[0]
        )
        metric = next(
            (name for name in section.metrics if name == question.get("metric")), section.metrics[0]
        )
        rows = section.rows.filter(pl.col(WHO) == question.get("who"), pl.col(metric).is_not_null())
        scale = scale_of(metric, rows[metric])
        chosen = rows.select(*section.factors, *REPLICATION, pl.col(metric).cast(pl.Float64) * scale.factor)
        left_out = max(chosen.height - _MOST_POINTS, 0)
        cells: dict[tuple[str, ...], list[list[float]]] = {}
        for *levels, set_number, replication, value in chosen.iter_rows():
            first = self.chains.get(set_number, 1)
            cells.setdefault(tuple(map(str, levels)), []).append([value, replication, first])
        share = 1 - left_out / chosen.height if chosen.height else 1.0
        draw = random.Random(1)
        return {
            "axis": axis_title(metric, scale),
            "left_out": left_out,
            "seed": self.seed,
            "cells": [
                {
                    "levels": dict(zip(section.factors.values(), levels, strict=True)),
                    **_median(points),
                    "points": [point for point in points if share == 1 or draw.random() < share],
                }
                for levels, points in cells.items()
            ],
        }


def _median(points: Sequence[Sequence[float]]) -> dict[str, object]:
    """Return the median, and the run at or just above the median."""
    ordered = sorted(points, key=tuple)
    middle = len(ordered) // 2
    low = ordered[(len(ordered) - 1) // 2][0]
    return {"median": (low + ordered[middle][0]) / 2, "nearest": ordered[middle]}
