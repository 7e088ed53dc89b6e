"""A picture that shows itself in a notebook and can be saved for a paper."""

from __future__ import annotations

import io
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from lasthop.pictures.files import picture_file, write_picture
from lasthop.pictures.static import save, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Drawing:
    """A figure of `Results.plot`. In a notebook it is shown; `save` writes it, `figure` is matplotlib's own."""

    def __init__(self, make: Callable[[], Figure], notes: list[str]) -> None:
        """Keep what makes the figure; `notes` say how to read it, and what it leaves out."""
        self._make = make
        self.notes = notes
        """How to read it, and what it leaves out."""

    @property
    def figure(self) -> Figure:
        """A new matplotlib figure, to be changed at will."""
        with styled():
            return self._make()

    def save(self, file: str | PathLike[str]) -> Path:
        """Write it into a new file that ends in .png, .svg or .pdf; return the file. Nothing is overwritten."""
        path = Path(file)
        suffix = picture_file(path, "save")
        write_picture(path, lambda temporary: save(self._make, temporary, suffix))
        return path

    def _repr_png_(self) -> bytes:
        target = io.BytesIO()
        save(self._make, target, "png")
        return target.getvalue()

    def __repr__(self) -> str:
        """Say what it is where it cannot be shown."""
        return "<Drawing: save(FILE) writes it, and a notebook shows it>"
