"""The figures of a page."""

import json
from dataclasses import dataclass

from lasthop.common.html import style
from lasthop.common.html.packed import packed
from lasthop.common.html.style import Figure

_ONE_PANEL_PX, _PANEL_PX = 420, 260


@dataclass(frozen=True, slots=True)
class FigureView:
    """A figure with its words."""

    title: str
    caption: str
    figure: Figure

    @property
    def width(self) -> int:
        """The least width in pixels at which it is readable; in a narrower window it scrolls."""
        layout = self.figure["layout"]
        axes = [axis for name, axis in layout.items() if name.startswith("xaxis") and isinstance(axis, dict)]
        columns = len({tuple(axis["domain"]) for axis in axes if "domain" in axis})
        margin = layout["margin"]
        assert isinstance(margin, dict)
        right: int = margin["r"]
        return (_PANEL_PX * columns if columns > 1 else _ONE_PANEL_PX) + right

    @property
    def flows(self) -> list[str]:
        """The flows that the reader may highlight."""
        meta = self.figure["layout"].get("meta")
        return meta["flows"] if isinstance(meta, dict) else []

    @property
    def json(self) -> str:
        """The figure as JSON."""
        return json.dumps(style.literal(self.figure), separators=(",", ":"), ensure_ascii=False)


class PackedFigures:
    """The figures of a page, in the order in which it shows them; common parts are stored once."""

    def __init__(self) -> None:
        """Begin without figures."""
        self._figures: list[str] = []

    def add(self, figure: FigureView) -> str:
        """Take a figure; return an empty text for its place."""
        self._figures.append(figure.json)
        return ""

    @property
    def packed(self) -> str:
        """The figures as a list in JSON, packed."""
        return packed(f"[{','.join(self._figures)}]".encode()).decode()
