# SPDX-License-Identifier: Apache-2.0
"""A sheet to draw on by matplotlib, in pixels from the top left corner; text is measured before it is written.

Must not happen: text that is cut off at an edge, or written over other text. `meeting` says where that is so.
"""

import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Affine2D
from PIL import Image

INK, GREY, FAINT, WHITE, GROUND, EDGE = "#24292e", "#6a737d", "#e4e7eb", "#ffffff", "#f4f5f7", "#d8dce2"
_POINTS_PER_INCH = 72
_COLOURS_MAX = 256  # of a picture: letters and lines on white need no more
_SETTINGS: Any = {
    "text.parse_math": False,  # a $ is a $
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
}
_NEAR = 0.5  # pixels; boxes of letters are rounded


class Box(NamedTuple):
    """A place on the sheet: left, top, width and height."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height


class Paper:
    """One sheet."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        with matplotlib.rc_context(_SETTINGS):
            self.figure = Figure(
                figsize=(width / _POINTS_PER_INCH, height / _POINTS_PER_INCH), dpi=_POINTS_PER_INCH, facecolor=GROUND
            )
        canvas: Any = FigureCanvasAgg(self.figure)
        self._renderer = canvas.get_renderer()

    def measured(self, text: str, size: float, *, bold: bool = False) -> float:
        """How wide a line of text is."""
        width, _, _ = self._renderer.get_text_width_height_descent(text, _font(size, bold=bold), ismath=False)
        return float(width)

    def text(
        self, x: float, y: float, text: str, size: float, *, colour: str = INK, bold: bool = False, align: str = "left"
    ) -> None:
        """A line of text on the base line `y`."""
        self.figure.text(
            x / self.width,
            1 - y / self.height,
            text,
            color=colour,
            horizontalalignment=align,
            verticalalignment="baseline",
            fontproperties=_font(size, bold=bold),
            parse_math=False,
        )

    def wrapped(self, text: str, width: float, size: float, *, lines: int, bold: bool = False) -> list[str]:
        """The text in so many lines at most; what finds no room is left out, and dots say so."""
        found = [""]
        for word in text.split():
            longer = f"{found[-1]} {word}".strip()
            if found[-1] and self.measured(longer, size, bold=bold) > width:
                found.append(word)
            else:
                found[-1] = longer
        if len(found) > lines:
            found = [*found[: lines - 1], " ".join(found[lines - 1 :])]
        return [self.cut(line, width, size, bold=bold) for line in found if line]

    def cut(self, text: str, width: float, size: float, *, bold: bool = False) -> str:
        """The text, or as much of it as there is room for."""
        if self.measured(text, size, bold=bold) <= width:
            return text
        while text and self.measured(text + "…", size, bold=bold) > width:
            text = text[:-1]
        return text.rstrip() + "…"

    def rectangle(self, box: Box, *, fill: str, edge: str = "none", round_: float = 0.0) -> None:
        """A filled rectangle."""
        place: dict[str, Any] = {"facecolor": fill, "edgecolor": edge, "linewidth": 0.8, "zorder": -1}
        at = (box.x, self.height - box.bottom)
        shape = (
            FancyBboxPatch(
                (at[0] + round_, at[1] + round_),
                box.width - 2 * round_,
                box.height - 2 * round_,
                boxstyle=f"round,pad={round_},rounding_size={round_}",
                **place,
            )
            if round_
            else Rectangle(at, box.width, box.height, **place)
        )
        shape.set_transform(self._pixels())
        self.figure.add_artist(shape)

    def line(self, points: Sequence[tuple[float, float]], *, colour: str, **style: Any) -> None:
        """A line from point to point."""
        drawn = Line2D(
            [x for x, _ in points], [self.height - y for _, y in points], color=colour, **{"linewidth": 0.8} | style
        )
        drawn.set_transform(self._pixels())
        self.figure.add_artist(drawn)

    def axes(self, box: Box) -> Axes:
        """Axes in this place."""
        place = (box.x / self.width, 1 - box.bottom / self.height, box.width / self.width, box.height / self.height)
        with matplotlib.rc_context(_SETTINGS):
            return self.figure.add_axes(place)

    def _pixels(self) -> Any:
        return Affine2D().scale(1 / _POINTS_PER_INCH) + self.figure.dpi_scale_trans

    def png(self, *, scale: float) -> bytes:
        """As a picture with `scale` times as many pixels, of few colours."""
        drawn = io.BytesIO()
        with matplotlib.rc_context(_SETTINGS):
            self.figure.savefig(drawn, format="png", dpi=_POINTS_PER_INCH * scale, facecolor=GROUND)
        with Image.open(drawn) as picture:
            few = picture.convert("RGB").quantize(_COLOURS_MAX, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        small = io.BytesIO()
        few.save(small, format="png", optimize=True)
        return small.getvalue()

    def texts(self) -> list[str]:
        """All that is written."""
        return [text.get_text() for text in self._written()]

    def meeting(self) -> list[str]:
        """Texts that lie on each other, or beyond an edge."""
        self.figure.draw_without_rendering()
        sheet = self.figure.bbox
        found = []
        boxes = [(text.get_text(), text.get_window_extent(self._renderer)) for text in self._written()]
        for at, (text, box) in enumerate(boxes):
            if box.x0 < sheet.x0 or box.x1 > sheet.x1 or box.y0 < sheet.y0 or box.y1 > sheet.y1:
                found.append(f"{text!r} is cut off")
            found += [
                f"{text!r} lies on {other!r}"
                for other, beside in boxes[:at]
                if min(box.x1, beside.x1) - max(box.x0, beside.x0) > _NEAR
                and min(box.y1, beside.y1) - max(box.y0, beside.y0) > _NEAR
            ]
        return found

    def _written(self) -> Iterator[Text]:
        for text in self.figure.findobj(Text):
            if isinstance(text, Text) and text.get_visible() and text.get_text().strip():
                yield text


def _font(size: float, *, bold: bool) -> FontProperties:
    return FontProperties(family=["DejaVu Sans"], size=size, weight="bold" if bold else "normal")
