"""The font of SVG pictures, embedded, so that their text has the same shape and width everywhere."""

from __future__ import annotations

import base64
import html
import io
import re

_TEXTS = re.compile(r"<text[^>]*>([^<]*)</text>")


def with_font(svg: str, family: str) -> str:
    """Return an SVG picture with those letters of a font of matplotlib that its texts need."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont
    from matplotlib.font_manager import findfont

    options = Options(layout_features=["kern"])
    options.drop_tables += ["FFTM"]  # the time stamps of an editor
    font = TTFont(findfont(family), recalcTimestamp=False)
    letters = Subsetter(options)
    letters.populate(text=html.unescape("".join(_TEXTS.findall(svg))))
    letters.subset(font)
    font.flavor = "woff"
    file = io.BytesIO()
    font.save(file)
    source = f"data:font/woff;base64,{base64.b64encode(file.getvalue()).decode()}"
    style = f'<style>@font-face {{ font-family: "{family}"; src: url("{source}"); }}</style>'
    return svg.replace("<defs>", f"<defs>\n  {style}", 1)
