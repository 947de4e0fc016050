"""`write_report`: one HTML page about a result. It loads nothing and runs nothing."""

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from matplotlib import rc_context
from matplotlib.figure import Figure

from cotempo.federation.fitted import Fitted
from cotempo.figures import PlainFigure
from cotempo.runs.folder import environment
from cotempo.storage.files import write_whole

ROWS_SHOWN, LONGEST_CELL = 20, 120


def write_report(fitted: Fitted, path: Path, truth: Any = None) -> Path:
    """Write a page about a result, with scores against the truth if it is known."""
    return write_pages([describe(fitted, truth)], path)


def write_pages(sections: list[dict[str, Any]], path: Path) -> Path:
    """Write one page with a section per result."""
    templates = jinja2.Environment(loader=jinja2.PackageLoader("cotempo", "report"), autoescape=True)
    templates.filters["number"] = number
    html = templates.get_template("page.html.jinja").render(sections=sections, environment=environment())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, html.encode())
    return path


def describe(fitted: Fitted, truth: Any = None) -> dict[str, Any]:
    """Return everything the page says about a result."""
    history = fitted.history
    figures = {**fitted.figures(truth), **progress_figure(history)}
    phases: dict[str, dict[str, Any]] = {}
    for record in history:
        entry = phases.setdefault(record["phase"], {"steps": 0, "seconds": 0.0, "up": 0, "down": 0})
        entry["steps"] += 1
        entry["seconds"] += record["seconds"]
        entry["up"] += sum(record["received"].values())
        entry["down"] += sum(record["sent"].values())
    return {
        **fitted.summary(truth),
        "about": (type(fitted.method).__doc__ or "").strip().partition("\n")[0],
        "privacy": fitted.privacy,
        "parameters": fitted.method.model_dump(mode="json"),
        "phases": phases,
        "figures": {title: embed(figure) for title, figure in figures.items()},
        "tables": {title: cells(frame) for title, frame in fitted.tables().items() if title != "benefit"},
    }


def cells(frame: Any) -> dict[str, Any]:
    """Return the header and the first rows of a dataframe as text, and how many rows are left out."""
    rows = [[_shorten(value) for value in row] for row in frame.head(ROWS_SHOWN).itertuples(index=False)]
    return {"header": list(frame.columns), "rows": rows, "left_out": max(len(frame) - ROWS_SHOWN, 0)}


def _shorten(value: Any) -> str:
    text = "" if value is None or value != value else number(value)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"


def progress_figure(history: tuple[Mapping[str, Any], ...]) -> dict[str, Figure]:
    """Plot every metric with more than two values, one small panel each."""
    series: dict[str, list[tuple[int, float]]] = {}
    for record in history:
        for name, value in record["metrics"].items():
            series.setdefault(name, []).append((record["step"], value))
    series = {name: points for name, points in series.items() if len(points) > 2}
    if not series:
        return {}
    figure = PlainFigure(figsize=(2.6 * len(series), 2.2), layout="constrained")
    for axes, (name, points) in zip(figure.subplots(1, len(series), squeeze=False)[0], series.items(), strict=True):
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, color="#1f5fa8", linewidth=1.4)
        if min(values) > 0 and max(values) > 100 * min(values):
            axes.set_yscale("log")
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("step", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    return {"Over the steps": figure}


def embed(figure: Figure) -> str:
    """Return a figure as a data URL; scripts inside an image do not run."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "cotempo", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def number(value: Any) -> str:
    """Format a number: integers in full, others with four digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value + 0.0:.4g}"  # no minus before a zero
