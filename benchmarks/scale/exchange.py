"""Seconds an exchange takes in a deployment of two sites, and whose they are.

python benchmarks/scale/exchange.py              10 numbers, 30 exchanges; then an array of 200 MB, 3 exchanges

An exchange lasts from one push of questions to the next. On the way of the answer that came last, `looking` is the time
between two looks (how often to look is ours to choose), `site` and `loop` what cotempo and the method do at the site
and in the loop, and `flower` the rest: requests, TLS, queues, the database, copying.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from deployment import deployment
from loads import Vector, make_load
from marks import FOLDER, Mark, Marks, read_marks

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import write_results

import cotempo as ct

HERE = Path(__file__).parent
LOADS = {"10 numbers": (10, 30), "200 MB": (50_000_000, 3)}  # float32, and exchanges
PARTS = ("seconds", "flower", "looking", "site", "loop")


def asleep(marks: Sequence[Mark], began: float, ended: float) -> float:
    """The seconds of an interval that a process slept."""
    return sum(max(0.0, min(b, ended) - max(a, began)) for what, a, b in marks if what == "sleep")


def next_of(marks: Sequence[Mark], kind: str, since: float) -> tuple[float, float]:
    """The first interval of a kind that ended after a time."""
    return next((began, ended) for what, began, ended in marks if what == kind and ended > since)


def split(ours: Sequence[Mark], sites: Sequence[list[Mark]]) -> Iterator[dict[str, float]]:
    """Whose the seconds between two pushes are; an invitation and the first question, which prepares, do not count."""
    pushes = [(began, ended) for what, began, ended in ours if what == "pushed"]
    for (began, pushed), (follows, _) in list(pairwise(pushes))[2:]:
        ways = []
        for worker in sites:
            fetched = next_of(worker, "fetched", began)
            handled = next_of(worker, "handled", fetched[1])
            brought = next_of(worker, "brought", handled[1])
            ways.append((brought[1], asleep(worker, pushed, fetched[0]), handled[1] - handled[0]))
        last, looking, site = max(ways)
        pulled = max(ended for what, _, ended in ours if what == "pulled" and ended <= follows)
        looking += asleep(ours, last, pulled)
        rest = {"looking": looking, "site": site, "loop": follows - pulled}
        yield {"seconds": follows - began, "flower": follows - began - sum(rest.values()), **rest}


def measure(width: int, exchanges: int) -> list[dict[str, float]]:
    """Deploy, run, and read the marks."""
    _, tables = make_load("vector-10", 2, 1)
    method = Vector(rounds=exchanges + 2, width=width)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text("import marks\n\nmarks.mark()\n")
        path = os.pathsep.join([folder, str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        os.environ |= {FOLDER: folder, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        from cotempo.engines.flower.coordinator.task import ServerTask

        marks = Marks("server")
        marks.watch("pushed", ServerTask, "push")
        marks.watch("pulled", ServerTask, "pull")
        with deployment(method, tables, imports=("loads",)) as server:
            fitted = ct.fit(method, engine="flower", server=server.folder, progress=False)
        assert fitted.digest == ct.fit(method, tables, progress=False).digest
        made = Path(folder)
        return list(split(read_marks(marks.path), [read_marks(made / f"{name}.jsonl") for name in tables]))


def main() -> None:
    rows = []
    for load, (width, exchanges) in LOADS.items():
        found = measure(width, exchanges)
        for part in PARTS:
            values = [row[part] for row in found]
            middle, high = np.quantile(values, [0.5, 0.9]).tolist()
            rows.append({"load": load, "exchanges": len(found), "part": part, "median": middle, "quantile_90": high})
            print(rows[-1], flush=True)
    write_results(
        "scale/exchange",
        rows,
        seed=0,
        note="seconds; a server, two sites and the loop on one machine, TLS and node keys",
    )


if __name__ == "__main__":
    main()
