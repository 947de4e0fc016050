"""FedPP on a deployment with a site ten times slower: wall time to the same held-out loss, with and without waiting.

Five sites over TLS, the consortium of the tests; a site's work takes .5 s, that of one of them 5 s. The published FedPP
learns on the events of `benchmarks/scale/tasks.py`. The loss is minus the gain in nats per held-out event, after a site
that begins afresh has taken the server's state. The goal is the loss at the end of the loop that waits for everyone,
plus 2 % of its fall; that loop needs to be there once, the one that does not wait to stay for three steps. Then a run
that does not wait is killed by SIGKILL while the slow site is at work, and resumed.

Run: python benchmarks/operations/asynchronous.py --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HERE, FLOWER = Path(__file__).parent, ROOT / "tests" / "engines" / "flower"
sys.path += [str(FLOWER), str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "scale")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])

import consortium  # noqa: E402
from delays import Curve, reached, targets  # noqa: E402
from parts import FOLDER, about, do_part, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from tasks import WINDOW, Intensities  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.engines.flower.processes import wait_until  # noqa: E402
from cotempo.engines.inprocess import InProcess  # noqa: E402
from cotempo.engines.settings import OFF, FlowerSettings  # noqa: E402
from cotempo.federation.late import LateReducer  # noqa: E402
from cotempo.federation.rounds import LoopOptions, initial_checkpoint, rounds  # noqa: E402
from cotempo.federation.wire import question_from_bytes  # noqa: E402
from cotempo.runs.folder import read_lines  # noqa: E402
from cotempo.storage.files import read_hashed  # noqa: E402
from cotempo.storage.tree import decode  # noqa: E402

SITES, ROUNDS, STEADY, LONGER = 5, 20, 3, 4
LEARNING_RATE = 0.02  # so that 20 rounds get somewhere; chosen in simulated time on seed 100
KILLED = 0  # the seed whose run is killed as well
PARTS = FOLDER / "asynchronous"
SLOW = f"client-{SITES - 1:02d}"
LENIENT = {**consortium.LENIENT, '# imports = ["our.methods"]': 'imports = ["slowly"]'}


def task_of(seed: int, times: int = 1) -> Intensities:
    """What is learned; with more rounds, the loop that does not wait decides by itself when it is there."""
    method = ct.FedPP(
        preset="paper", rounds=times * ROUNDS, window=WINDOW, inducing=20, cells=60, learning_rate=LEARNING_RATE
    )
    return Intensities("fedpp-paper", method, SITES, seed)


def deploy(folder: Path, task: Intensities, pace: float) -> consortium.Consortium:
    """Return the sites, one of them ten times slower."""
    os.environ["COTEMPO_PACE"] = json.dumps({name: pace * (10 if name == SLOW else 1) for name in task.clients})
    consortium.LENIENT = LENIENT
    made = consortium.Consortium(folder, task.clients, methods=("FedPP",))
    made.start()
    return made


def watch(made: consortium.Consortium, task: Intensities, seed: int, buffer: Any, goal: float | None = None) -> Curve:
    """Return wall seconds and loss, before learning and after every step of it, until the goal is reached."""
    settings, run = FlowerSettings(server=str(made.server.folder)), uuid.uuid4().hex
    options, judge = LoopOptions(seed=seed, run_id=run, buffer=buffer), InProcess(task.method, task.clients, seed=seed)
    if buffer is not None:
        options = LateReducer(task.method, options).loop_options
    with closing(settings.open(task.method, {}, seed=seed, run=run, shields=(), privacy=OFF)) as engine:
        start = initial_checkpoint(task.method, engine, options)
        curve, began, judged = [(0.0, task.loss(judge, start.state, {}))], time.monotonic(), 0.0
        for step in rounds(task.method, engine, options, start=start):
            now = time.monotonic()
            if task.is_learned(step.state):
                curve.append((now - began - judged, task.loss(judge, step.state, {})))
            judged += time.monotonic() - now  # the loss is for us, not part of the run
            if goal is not None and reached(curve, goal, STEADY) is not None:
                break
    return curve


def compare(seed: int, pace: float) -> dict[str, Any]:
    """Run both loops on a deployment."""
    with tempfile.TemporaryDirectory() as folder:
        made = deploy(Path(folder) / "made", task_of(seed), pace)
        try:
            waited = watch(made, task_of(seed), seed, None)
            goal = targets(waited)["end"]
            print(seed, "waited", waited, flush=True)
            ahead = watch(made, task_of(seed, LONGER), seed, "auto", goal)
            print(seed, "ahead", ahead, flush=True)
            kill = killed_in_flight(made, task_of(seed), Path(folder) / "run", seed) if seed == KILLED else {}
        finally:
            made.stop()
    waits, goes = reached(waited, goal, 1), reached(ahead, goal, STEADY)
    ratio = None if waits is None or goes is None else goes / waits
    return {
        "wait_seconds": waits, "buffer_seconds": goes, "ratio": ratio, "first_loss": waited[0][1], "goal": goal,
        "wait_steps": len(waited) - 1, "buffer_steps": len(ahead) - 1, **kill,
    }  # fmt: skip


def killed_in_flight(made: consortium.Consortium, task: Intensities, run: Path, seed: int) -> dict[str, Any]:
    """Kill a run while the slow site is at work, resume it, and say whether that site's answer counted."""
    forked = multiprocessing.get_context("fork")
    options = {"engine": "flower", "server": made.server.folder, "run": run, "seed": seed, "buffer": "auto"}
    first = forked.Process(target=task.method.fit, kwargs={**options, "privacy": OFF, "progress": False})
    first.start()
    wait_until(lambda: len(records(run)) >= 4 and SLOW in open_in(run, task), 120)
    first.kill()
    first.join()
    before, still_open = records(run), open_in(run, task)
    fitted = ct.resume(run, progress=False)
    steps = records(run)
    return {
        "killed_after": len(before), "open_when_killed": " ".join(still_open), "steps": len(steps),
        "slow_counted_after": sum(SLOW in record["received"] for record in steps[len(before) :]),
        "failures": len(fitted.failures),
        "resumed_loss": task.loss(InProcess(task.method, task.clients, seed=seed), fitted.state, {}),
    }  # fmt: skip


def open_in(run: Path, task: Intensities) -> list[str]:
    """Return whose answers are on their way, by the newest checkpoint."""
    newest = max((run / "checkpoints").glob("step-*.safetensors"))
    tree = decode(read_hashed(newest) or b"", task.method.State, *task.method.memory_types)
    return [question_from_bytes(data.tobytes()).client for data in tree["held"].get("open", ())]


def records(run: Path) -> list[dict[str, Any]]:
    return read_lines(run / "log.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--pace", type=float, default=0.5, help="seconds that a site's work takes")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    for seed in given.seeds:
        do_part(PARTS, {"seed": seed, "pace": given.pace}, lambda seed=seed: compare(seed, given.pace))
    rows = sorted(read_parts(PARTS, pace=given.pace), key=lambda row: row["seed"])
    for row in rows:
        print(row)
    note = f"{SITES} sites, one ten times slower, {ROUNDS} rounds of the loop that waits, buffer auto; {about(rows)}"
    write_results("operations-asynchronous", rows, seed=[row["seed"] for row in rows], note=note)


if __name__ == "__main__":
    main()
