"""`PlainFigure`: a figure that shows names as they are; matplotlib reads what stands between dollars as formulas.

It warns once of letters that no font has.
"""

import warnings
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, LogFormatterMathtext, NullFormatter

from cotempo.errors import warn

MISSING = "missing from font"
ADVICE = (
    "install one that has, such as Noto Sans CJK, and name it before drawing: "
    "matplotlib.rcParams['font.family'] = ['DejaVu Sans', 'Noto Sans CJK JP']"
)


class PlainFigure(Figure):
    """A figure without formulas: a feature named ``$\\badcommand$`` is drawn like any other.

    Examples
    --------
    >>> figure = PlainFigure()
    >>> _ = figure.subplots().set_title(r"$\\badcommand$")
    >>> figure.draw_without_rendering()
    """

    def draw(self, renderer: Any) -> None:
        """Draw, with all text as it is."""
        for axes in self.axes:
            for axis in (axes.xaxis, axes.yaxis):
                if isinstance(axis.get_major_formatter(), LogFormatterMathtext):  # powers of ten as formulas
                    axis.set_major_formatter(LogFormatter())
                    axis.set_minor_formatter(NullFormatter())
        for text in self.findobj(Text):
            assert isinstance(text, Text)
            text.set_parse_math(False)
        with rc_context({"text.parse_math": False}), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            super().draw(renderer)  # ticks are made while drawing
        boxes = [one for one in told if MISSING in str(one.message)]  # one for each letter, each time it is measured
        for one in told:
            if one not in boxes:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        if boxes:
            warn(f"no font has some letters of this picture, drawn as boxes; {ADVICE}")
