"""The figure of a picture of one run: panels over an axis of time, or a layout of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lasthop.pictures.classes import CLASSES
from lasthop.pictures.ladder import LADDER
from lasthop.pictures.ladder_figure import ladder_figure
from lasthop.pictures.network import NETWORK
from lasthop.pictures.shapes import Picture
from lasthop.pictures.sheet import sheet_figure
from lasthop.pictures.static import figure_of, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OWN: dict[str, Callable[[Picture, str], Figure]] = {
    LADDER: ladder_figure,
    CLASSES: sheet_figure,
    NETWORK: sheet_figure,
}
"""Kinds of pictures with a layout of their own, and the functions that draw them."""


def run_figure(picture: Picture, width: str) -> Figure:
    """Return the matplotlib figure of a picture, as wide as a column or a page of a paper."""
    return _OWN.get(picture.panels[0].kind, figure_of)(picture, width)


def draw(picture: Picture, path: Path, file_format: str, width: str) -> None:
    """Draw a picture into the file `path`, as wide as a column or a page of a paper."""
    save(lambda: run_figure(picture, width), path, file_format)
