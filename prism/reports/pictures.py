"""The look of every plot, and how it becomes an SVG picture.

The same numbers give the same bytes.
"""

import base64
import io
from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prism.reports.series import COLOURS
from prism.reports.sheet import Picture

BLUE, RED = COLOURS[0], COLOURS[1]
INK, FAINT = "#444444", "#d9d6cf"
STYLE: Any = {
    "svg.hashsalt": "prism",
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#8a8a8a",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": "#8a8a8a",
    "ytick.color": "#8a8a8a",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.5,
}
WIDE, LARGE, SMALL = (7.0, 3.8), (4.5, 3.2), (3.6, 2.9)
"""Width and height in inches."""


def picture(draw: Callable[[Axes], None], words: tuple[str, str], size: tuple[float, float]) -> Picture:
    """What is drawn in one pair of axes.

    Args:
        draw: it draws.
        words: what is told to those who do not see it, and its caption.
        size: width and height in inches.
    """
    return pictured(lambda figure: draw(figure.add_subplot()), words, size)


def pictured(draw: Callable[[Figure], None], words: tuple[str, str], size: tuple[float, float]) -> Picture:
    """`picture`, of a whole figure."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(size, layout="constrained")
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    encoded = base64.b64encode(text.getvalue().encode()).decode()
    width, height = (round(100 * side) for side in size)
    return Picture(f"data:image/svg+xml;base64,{encoded}", *words, width, height)
