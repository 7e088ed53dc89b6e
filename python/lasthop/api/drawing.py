"""A picture that notebooks display and that can be saved for a paper."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lasthop.present.pictures.files import check_caption, picture_file, write_captions, write_picture
from lasthop.present.pictures.static import parse_numbers, save, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text


class Drawing:
    """A figure of `Results.plot`, which notebooks display.

    `save` writes it to a file. `figure` is matplotlib's figure; your changes to it are displayed and saved.
    """

    def __init__(self, make: Callable[[bool], Figure], notes: list[str], caption: str) -> None:
        """`make` creates the figure, with its notes if the argument is true."""
        self._make = make
        self.notes = notes
        """Notes on how to read it, and on omitted data."""
        self.caption = caption
        """A description of its contents, the runs, and how to read it."""

    @functools.cached_property
    def figure(self) -> Figure:
        """The matplotlib figure, which you can change."""
        with styled():
            figure = self._make(True)
            parse_numbers(figure)
            return figure

    def save(self, file: str | PathLike[str], *, caption: str | PathLike[str] | None = None) -> Path:
        """Write it to a new file that ends in .png, .svg or .pdf; return the file. Nothing is overwritten.

        With `caption`, a new text file, the notes are written there instead of below the picture.
        """
        path, apart = Path(file), None if caption is None else Path(caption)
        suffix = picture_file(path, "save")
        check_caption(apart, path)
        with nullcontext() if apart is None else self._without_notes():
            write_picture(path, lambda temporary: self._write(temporary, suffix))
        write_captions(apart, {path: self.caption})
        return path

    def _write(self, target: Path | BinaryIO, file_format: str) -> None:
        save(lambda: self.figure, target, file_format)
        parse_numbers(self.figure)  # drawing may have added ticks

    @contextmanager
    def _without_notes(self) -> Iterator[None]:
        """Give the figure the texts and the height that it has without notes, within the context."""
        with styled():
            whole, bare = self._make(True), self._make(False)
        texts, height = self.figure.texts, self.figure.get_figheight()
        previous = [text.get_text() for text in texts]
        for mine, noted, plain in zip(texts, whole.texts, bare.texts, strict=False):
            if noted.get_text() != plain.get_text():
                mine.set_text(plain.get_text())
        notes = texts[len(bare.texts) : len(whole.texts)]
        _set_visible(notes, visible=False)
        self._cut(height - whole.get_figheight() + bare.get_figheight())
        try:
            yield
        finally:
            self._cut(height)
            _set_visible(notes, visible=True)
            for text, before in zip(texts, previous, strict=True):
                text.set_text(before)

    def _cut(self, height_in: float) -> None:
        """Set the height by changing the space at the bottom."""
        figure, before = self.figure, self.figure.get_figheight()
        figure.set_figheight(height_in)
        if figure.get_layout_engine() is None:
            places = [axes.get_position(original=True) for axes in figure.axes]
            for axes, place in zip(figure.axes, places, strict=True):
                bottom = (place.y0 * before + height_in - before) / height_in
                axes.set_position((place.x0, bottom, place.width, place.height * before / height_in))

    def _repr_png_(self) -> bytes:
        target = io.BytesIO()
        self._write(target, "png")
        return target.getvalue()

    def __repr__(self) -> str:
        return "<Drawing: write it with save(FILE), or display it in a notebook>"


def _set_visible(notes: Sequence[Text], *, visible: bool) -> None:
    for note in notes:
        note.set_visible(visible)
        note.set_in_layout(visible)
