"""`WatchedRuns`: the runs of a folder as pages and as fragments of pages, rendered from what the folder says now."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from cotempo.errors import RunError
from cotempo.federation.fitted import load
from cotempo.pages.serving import make_templates
from cotempo.pages.watch.drawing import curves, strip
from cotempo.pages.watch.picture import PictureBook
from cotempo.progress import duration
from cotempo.report.compare import compare
from cotempo.report.content import failure_sentences
from cotempo.report.page import make_page
from cotempo.report.tables import PageTable, number, size
from cotempo.runs.experiment import Experiment, load_truth
from cotempo.runs.lights import Light, lights
from cotempo.runs.state import STATES, RunState, find_runs

MOST_SITES = 60
NO_PRIVACY = {"epsilon": None, "unit": "row", "secure_sum": False}
WORDS = {  # the worst first, as of many sites those are shown
    "gone": "gone", "refused": "refused", "left out": "left out", "late": "late", "computing": "computing",
    "answered": "answered", "idle": "not asked now",
}  # fmt: skip
PANELS = {
    "now": "", "sites": "Sites", "failures": "What went wrong", "picture": "What is learned", "curves": "How it goes",
    "gauges": "What leaves",
}  # fmt: skip

#: What people call the engines.
WHERE = {"inprocess": "on this machine", "simulation": "in Flower's simulation", "flower": "over Flower"}


class WatchedRuns:
    """All runs of a folder; one that appears later is found, too."""

    def __init__(self, folder: Path, root: str = ""):
        self.folder, self.root = folder, root
        self.templates = make_templates()
        self.templates.filters["span"] = duration
        self.templates.globals.update(root=root, states=STATES, words=WORDS, counts=count_words, strip=strip)
        self.pictures = PictureBook()
        self._states: dict[tuple[Path, str], RunState] = {}
        self._lock = threading.RLock()

    def names(self) -> list[str]:
        """Return the names of the runs, the newest first."""
        return list(find_runs(self.folder))

    def state(self, name: str) -> RunState:
        """Return a run as it is now; raise `RunError` for one that is not there."""
        runs = find_runs(self.folder)
        if name not in runs:
            raise RunError(f"the run must be one of {', '.join(runs)}, got {name!r}")
        path = runs[name]
        with self._lock:
            key = path, (path / "id").read_text()  # another run may have taken its place
            if key not in self._states:
                self._states[key] = RunState(path)
            return self._states[key].refresh()

    def link(self, page: str, **query: str) -> str:
        """Return the address of a page."""
        return f"{self.root}/{page}{'?' if query else ''}{urlencode(query)}"

    def _render(self, macro: str, *given: Any) -> Markup:
        parts: Any = self.templates.get_template("watch/fragments.html.jinja").module
        return Markup(str(getattr(parts, macro)(*given)).strip())

    def run_fragments(self, name: str) -> dict[str, Markup]:
        """Return the parts of a run's page; one without content is empty."""
        with self._lock:
            state = self.state(name)
            found = list(lights(state))
            source, drawn = self.pictures.newest(state.path)
            report = self.link("report", run=name) if (state.path / "report.html").is_file() else ""
            shown = found if len(found) <= MOST_SITES else sorted(found, key=_trouble)[:MOST_SITES]
            return {
                "now": self._render("now", state),
                "sites": self._render("sites", state, found, shown) if found else Markup(),
                "failures": self._render("failures", list(failure_sentences(state.failures))),
                "picture": self._render("picture", drawn, source, report),
                "curves": self._render("curves", curves(state)),
                "gauges": self._render("gauges", state, {**NO_PRIVACY, **state.experiment.get("privacy", {})}),
            }

    def run_page(self, name: str) -> str:
        """Return the page of a run."""
        with self._lock:
            fragments, state = self.run_fragments(name), self.state(name)
            engine = state.experiment.get("engine", {}).get("name", "inprocess")
            where = WHERE.get(engine, f"on {engine}")
            return self.templates.get_template("watch/run.html.jinja").render(
                title=state.name,
                about=f"{state.experiment['method']} {where}, folder {state.path}",
                several=len(self.names()) > 1,
                panels=PANELS,
                fragments=fragments,
                live=state.is_going,
                stream=self.link("events", run=name),
            )

    def list_fragments(self) -> dict[str, Markup]:
        """Return the part of the page of all runs that changes."""
        with self._lock:
            rows = [(name, self.link("run", run=name), self.state(name)) for name in self.names()]
            return {"runs": self._render("runs", rows)}

    def list_page(self) -> str:
        """Return the page of all runs."""
        with self._lock:
            return self.templates.get_template("watch/runs.html.jinja").render(
                title="Runs",
                folder=self.folder,
                names=self.names(),
                fragments=self.list_fragments(),
                live=any(self.state(name).is_going for name in self.names()),
                stream=self.link("events"),
            )

    def comparison(self, first: str, second: str) -> tuple[str, bool]:
        """Return a page that compares two runs, and whether it is a report, which brings its own policy."""
        states = {name: self.state(name) for name in (first, second)}
        if len(states) < 2:
            raise RunError(f"runs to compare must be two, got {first!r} twice")
        if all(state.status == "finished" for state in states.values()):
            results = {name: load(state.path) for name, state in states.items()}
            truths = {name: load_truth(Experiment.from_dict(state.experiment)) for name, state in states.items()}
            return make_page("comparison.html.jinja", **compare(results, truths)), True
        open_ones = [name for name, state in states.items() if state.status != "finished"]
        note = f"{' and '.join(open_ones)}: not finished. Once both are, their results are compared site by site."
        page = self.templates.get_template("watch/compare.html.jinja").render(
            title="Comparison", note=note, table=side_by_side(list(states.items())), live=False, stream=""
        )
        return page, False


def _trouble(light: Light) -> int:
    return list(WORDS).index(light.word)


def count_words(found: Sequence[Light]) -> list[tuple[str, int]]:
    """Return how many sites are in each state, for a summary."""
    counts = Counter(light.word for light in found)
    return [(word, counts[word]) for word in WORDS if counts[word]]


def side_by_side(states: Sequence[tuple[str, RunState]]) -> PageTable:
    """Return what runs have come to, a column for each."""
    columns = [
        {
            "method": state.experiment["method"],
            "state": STATES[state.status],
            "sites": number(len(state.clients)),
            "rounds": number(state.round),
            "time": duration(state.seconds),
            "left the sites": size(state.sent.total()),
            "answers left out": number(len(state.failures)),
            **{name.replace("_", " "): number(points[-1][1]) for name, points in state.metrics.items()},
        }
        for _, state in states
    ]
    keys = dict.fromkeys(key for column in columns for key in column)
    return PageTable(
        ("", *(name for name, _ in states)), [(key, *(column.get(key, "–") for column in columns)) for key in keys]
    )
