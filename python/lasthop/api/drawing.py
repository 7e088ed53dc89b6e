"""A picture that shows itself in a notebook and can be saved for a paper."""

from __future__ import annotations

import io
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from lasthop.pictures.files import check_caption, picture_file, write_captions, write_picture
from lasthop.pictures.static import save, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Drawing:
    """A figure of `Results.plot`.

    In a notebook it is shown; `save` writes it, `figure` is matplotlib's own.
    """

    def __init__(self, make: Callable[[bool], Figure], notes: list[str], caption: str) -> None:
        """Keep the function that makes the figure, with or without its notes."""
        self._make = make
        self.notes = notes
        """Notes on how to read it, and on what it leaves out."""
        self.caption = caption
        """What it shows, of which runs, and how to read it."""

    @property
    def figure(self) -> Figure:
        """A new matplotlib figure, for you to change."""
        with styled():
            return self._make(True)

    def save(self, file: str | PathLike[str], *, caption: str | PathLike[str] | None = None) -> Path:
        """Write it into a new file that ends in .png, .svg or .pdf; return the file. Nothing is overwritten.

        With `caption`, a new text file, the notes go there instead of under the picture.
        """
        path, apart = Path(file), None if caption is None else Path(caption)
        suffix = picture_file(path, "save")
        check_caption(apart, path)
        write_picture(path, lambda temporary: save(lambda: self._make(apart is None), temporary, suffix))
        write_captions(apart, {path: self.caption})
        return path

    def _repr_png_(self) -> bytes:
        target = io.BytesIO()
        save(lambda: self._make(True), target, "png")
        return target.getvalue()

    def __repr__(self) -> str:
        """Describe the picture where it cannot be shown."""
        return "<Drawing: save(FILE) writes it, and a notebook shows it>"
