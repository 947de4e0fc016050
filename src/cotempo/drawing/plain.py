"""`PlainFigure`: a figure that shows names as they are; matplotlib reads what stands between dollars as formulas."""

from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, LogFormatterMathtext, NullFormatter


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
        with rc_context({"text.parse_math": False}):  # ticks are made while drawing
            super().draw(renderer)
