"""The figures of a page."""

import json
from dataclasses import dataclass

from lasthop.common.html import style
from lasthop.common.html.packed import pack
from lasthop.common.html.style import Figure

_ONE_PANEL_PX, _PANEL_PX = 420, 260


@dataclass(frozen=True, slots=True)
class FigureView:
    """A figure with its title and caption."""

    title: str
    caption: str
    figure: Figure

    @property
    def width(self) -> int:
        """The minimum readable width in pixels; in narrower windows the figure scrolls."""
        layout = self.figure["layout"]
        axes = [axis for name, axis in layout.items() if name.startswith("xaxis") and isinstance(axis, dict)]
        columns = len({tuple(axis["domain"]) for axis in axes if "domain" in axis})
        margin = layout["margin"]
        assert isinstance(margin, dict)
        right: int = margin["r"]
        return (_PANEL_PX * columns if columns > 1 else _ONE_PANEL_PX) + right

    @property
    def flows(self) -> list[str]:
        """The flows that readers can highlight."""
        meta = self.figure["layout"].get("meta")
        return meta["flows"] if isinstance(meta, dict) else []

    @property
    def json(self) -> str:
        return json.dumps(style.literal(self.figure), separators=(",", ":"), ensure_ascii=False)


class PackedFigures:
    """The figures of a page, in order; compression removes what they have in common."""

    def __init__(self) -> None:
        self._figures: list[str] = []

    def add(self, figure: FigureView) -> str:
        """Add a figure; return an empty text for the template."""
        self._figures.append(figure.json)
        return ""

    @property
    def packed(self) -> str:
        """The figures as a list in JSON, packed."""
        return pack(f"[{','.join(self._figures)}]".encode()).decode()
