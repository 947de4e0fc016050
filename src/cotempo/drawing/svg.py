"""`embed`: a figure as an image for a page, with colours of light and dark pages; `narrow` for phones; `read_data`."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from matplotlib import rc_context
from matplotlib.collections import FillBetweenPolyCollection, PathCollection
from matplotlib.dates import ConciseDateFormatter, num2date
from matplotlib.ticker import FixedLocator

from cotempo.drawing.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

NARROW = 3.7  # inches: the width of a phone
_NAMES = {light: name for name, (light, _) in PALETTE.items()}
_DARK = "".join(f"--{name}:{dark};" for name, (_, dark) in PALETTE.items())
_LIGHT = "".join(f"--{name}:{light};" for name, (light, _) in PALETTE.items())
_STYLE = f"<style>:root{{{_LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}</style>"


def embed(figure: Figure) -> str:
    """Return a figure as the URL of an image that follows light and dark; scripts inside an image do not run."""
    return "data:image/svg+xml," + quote(draw_svg(figure), safe="/:;,=.()+-*!$@?")


def draw_svg(figure: Figure) -> str:
    """Return a figure as a small SVG in which the palette's colours are variables."""
    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "cotempo", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg ") :]
    text = re.sub(r'<!--.*?-->|<metadata>.*?</metadata>|\bid="[A-Za-z0-9]+_\d+"', "", text, flags=re.S)
    # Places to a hundredth of a point; what is below 1 may be a scale, and stays.
    text = re.sub(r"[1-9]\d*\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), text)
    text = re.sub(r' d="([^"]*)"', lambda found: f' d="{_shorten(found[1])}"', text)
    text = re.sub(r"#[0-9a-f]{6}\b", lambda found: _variable(found[0]), text)
    text = re.sub(r">\s+<", "><", re.sub(r"\s+", " ", text)).replace("xlink:href", "href")
    text = re.sub(f"{_MARKER}(?:{_SAME_MARKER})+", _group, text)
    return re.sub(r"(<svg [^>]*>)", lambda found: found[1] + _STYLE, text, count=1)


_MARKER = r'<use href="(#\w+)" x="[^"]*" y="[^"]*" style="([^"]*)" ?/>'
_SAME_MARKER = r'<use href="\1" x="[^"]*" y="[^"]*" style="\2" ?/>'


def _group(markers: re.Match[str]) -> str:
    """Return markers that look alike as a group, which has their style once."""
    bare = markers[0].replace(f' style="{markers[2]}"', "")
    return f'<g style="{markers[2]}">{bare}</g>'


def _shorten(path: str) -> str:
    """Return a path without spaces, which a URL would take three letters for."""
    return re.sub(r",?([A-Za-z]),?", r"\1", ",".join(path.split()))


def _variable(colour: str) -> str:
    return f"var(--{_NAMES[colour]})" if colour in _NAMES else colour


def file_name(title: str) -> str:
    """Return the name of a file for a picture's title.

    Examples
    --------
    >>> file_name("Gaps of client-1, filled")
    'gaps-of-client-1-filled'
    """
    return re.sub(r"\W+", "-", title.lower()).strip("-") or "figure"


def narrow(figure: Figure) -> Figure:
    """Return the figure with its panels below each other, as wide as a phone."""
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    if panels:
        grid: Any = panels[0].get_gridspec()
        height = figure.get_size_inches()[1] / grid.nrows
        heights = [height if axes.get_aspect() == "auto" else min(height, NARROW) for axes in panels]
        new = figure.add_gridspec(len(panels), 1, height_ratios=heights)
        for place, axes in enumerate(panels):
            axes.set_subplotspec(new[place, 0])
        figure.set_size_inches(NARROW, sum(heights))
    for legend in figure.legends:
        legend.set_ncols(2)
    return figure


def read_data(figure: Figure) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Return what a figure draws as header and rows: panel, x, and a column for each thing drawn there.

    There are dates and names where the axes show them.
    """
    found: dict[tuple[str, Any, int], dict[str, Any]] = {}
    for axes in figure.axes:
        title = axes.get_title(loc="left") or axes.get_title()
        repeats: Counter[tuple[str, Any]] = Counter()
        for label, points in _drawn(axes):
            across, up = (_shown(axis, points[:, place]) for place, axis in enumerate((axes.xaxis, axes.yaxis)))
            for x, y in zip(across, up, strict=True):
                found.setdefault((title, x, repeats[label, x]), {})[label] = y
                repeats[label, x] += 1
    labels = list(dict.fromkeys(label for row in found.values() for label in row))
    return ("panel", "x", *labels), [
        [title, x, *(row.get(label, "") for label in labels)] for (title, x, _), row in found.items()
    ]


def _drawn(axes: Any) -> Iterator[tuple[str, Any]]:
    """Yield the label and the points ``(points, 2)`` of lines, scattered points and both ends of bands."""
    for line in axes.lines:
        if line.get_transform().contains_branch(axes.transData):
            yield _label(line), np.column_stack([line.get_xdata(orig=False), line.get_ydata(orig=False)])
    for drawn in axes.collections:
        if isinstance(drawn, FillBetweenPolyCollection):
            corners = np.concatenate([np.asarray(path.vertices)[:-1] for path in drawn.get_paths()])
            half = len(corners) // 2
            yield f"{_label(drawn)}, lower", corners[1:half]
            yield f"{_label(drawn)}, upper", corners[half + 1 :][::-1]
        elif isinstance(drawn, PathCollection):
            yield _label(drawn), np.asarray(drawn.get_offsets())
    for bars in axes.containers:
        if hasattr(bars, "patches"):
            yield _label(bars), np.array([(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in bars])


def _label(artist: Any) -> str:
    label = str(artist.get_label())
    return "y" if label.startswith("_") else label


def _shown(axis: Axis, values: Any) -> list[Any]:
    """Return places on an axis as it shows them: names, dates or numbers."""
    if isinstance(axis.get_major_locator(), FixedLocator):
        texts = [label.get_text() for label in axis.get_ticklabels()]
        names = dict(zip(map(float, axis.get_majorticklocs()), texts, strict=False))
        return [names.get(float(value), float(value)) for value in values]
    if isinstance(axis.get_major_formatter(), ConciseDateFormatter):
        dates: Any = num2date(values)  # type: ignore[no-untyped-call]
        return [date.isoformat(timespec="seconds") for date in dates]
    return [float(value) for value in values]
