"""`PictureBook`: the family's picture of what a run has learned so far, drawn in a thread, as seldom as that costs."""

from __future__ import annotations

import json
import threading
import time
import warnings
from pathlib import Path
from typing import Any

from cotempo.data import Schema
from cotempo.federation.fitted import Outcome, load
from cotempo.report.tables import Picture
from cotempo.runs.experiment import Experiment
from cotempo.runs.folder import PREVIEWS, read_experiment, read_lines
from cotempo.storage.files import read_hashed
from cotempo.storage.tree import decode, unstack

PAUSE_SECONDS, PAUSE_TIMES = 10.0, 5.0  # between two drawings: seconds, and times what the last one took


class PictureBook:
    """The newest picture of each run, with the step it shows; what cannot be drawn yet has none."""

    def __init__(self) -> None:
        self._pictures: dict[Path, tuple[str, Picture | None]] = {}
        self._next: dict[Path, float] = {}
        self._drawing = threading.Lock()

    def newest(self, run: Path) -> tuple[str, Picture | None]:
        """Return where the picture is from and the picture; one that is out of date is drawn again meanwhile."""
        source = newest_source(run)
        shown = self._pictures.get(run, ("", None))
        if source and source != shown[0] and time.monotonic() >= self._next.get(run, 0.0):
            self._next[run] = float("inf")
            threading.Thread(target=self._draw, args=(run, source), daemon=True).start()
        return shown

    def _draw(self, run: Path, source: str) -> None:
        with self._drawing:
            began = time.monotonic()
            picture = draw(run, source)
            spent = time.monotonic() - began
        if picture is not None or source == "result":
            self._pictures[run] = source, picture
        self._next[run] = time.monotonic() + max(PAUSE_SECONDS, PAUSE_TIMES * spent)


def newest_source(run: Path) -> str:
    """Return ``result`` for a finished run, else the name of its newest checkpoint; empty if there is neither.

    A preview, while there is one, is newer than any.
    """
    if (run / "result" / "fitted.json").is_file():
        return "result"
    found = [*(run / "checkpoints").glob(PREVIEWS)] or [*(run / "checkpoints").glob("step-*.safetensors")]
    return max((path.name for path in found), default="")


def draw(run: Path, source: str) -> Picture | None:
    """Draw the first picture of what was learned; `None` if there is nothing to draw yet."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = load(run) if source == "result" else _unfinished(run, source)
            for title, figure in fitted.figures().items():
                return Picture.of(title, figure)
    except Exception:  # the method is not known here, or has not come far enough: a page is shown all the same
        return None
    return None


def _unfinished(run: Path, source: str) -> Any:
    """Return a result made of a checkpoint, as if the method ended there."""
    method = Experiment.from_dict(read_experiment(run)).make_method()
    content = read_hashed(run / "checkpoints" / source)
    tree = decode(content or b"", method.State, *method.memory_types)
    known = json.loads((run / "schemas.json").read_bytes())
    schemas = {
        name: Schema(schema["kind"], tuple(schema["columns"]), schema["unit"], schema["zone"])
        for name, schema in known.items()
    }
    memories = unstack(tree["memories"], *method.memory_types)
    return method.result(Outcome(method, tree["state"], schemas, memories, tuple(read_lines(run / "log.jsonl"))))
