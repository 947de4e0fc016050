"""A long run with random kills: does it end in the right bits, do memory and open files stay flat, is nothing left?

Five sites over TLS, the consortium of the tests, one run of many rounds. Every 20 seconds a process drawn at random is
killed by SIGKILL: a site's worker, a site's daemon with its worker (started again at once), the server (started again,
the run resumed) or the coordinator (the run resumed). With `--every 1e9` nobody is killed, so that processes live long
enough to tell a leak from warming up. Every five seconds the resident memory and the open files of the server, of the
coordinator and of all sites are noted. A restarted process begins anew, so slopes are fitted within processes: the mean
over processes that lived for at least a minute, their first 20 seconds left out (five minutes, where nobody is killed),
and what comes after the last round, weighted by the time they lived, with the standard error over processes. Memory
that is enlarged once is told from memory that grows: the largest step between two looks, and the slope without it.

Run: python benchmarks/operations/soak.py --rounds 1500 [--every 1e9]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
import psutil

ROOT = Path(__file__).parents[2]
FLOWER = ROOT / "tests" / "engines" / "flower"
sys.path += [str(FLOWER), str(ROOT / "benchmarks")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(FLOWER), *filter(None, [os.environ.get("PYTHONPATH")])])

from consortium import Consortium, outcome  # noqa: E402
from replaying import replay  # noqa: E402
from results import write_results  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.runs.folder import read_lines  # noqa: E402

SITES = ("ash", "birch", "cedar", "dogwood", "elm")
LOOK_SECONDS, WARM_SECONDS, LEAST_SECONDS, SAY_SECONDS = 5.0, 20.0, 60.0, 60.0
OFTEN = 20.0


class Soak:
    """A consortium, its run, what was killed and what was measured."""

    def __init__(self, folder: Path, rounds: int, seed: int, every: float):
        self.rng = np.random.default_rng(seed)
        self.tables = {name: ct.Series.from_arrays(self.rng.normal(size=(20, 2)).round(3)) for name in SITES}
        self.made = Consortium(folder / "made", self.tables, methods=("Walking",))
        for client in self.made.clients.values():  # sites admit 500 rounds by default
            path = client.kit / "site.toml"
            path.write_text(path.read_text().replace("size = {", f"rounds = {{ most = {rounds} }}\nsize = {{"))
        self.run, self.rounds, self.seed = folder / "run", rounds, seed
        self.every, self.warm = every, WARM_SECONDS if every <= OFTEN else 15 * WARM_SECONDS
        self.coordinator: Popen[str] | None = None
        self.killed: Counter[str] = Counter()
        self.looks: dict[tuple[str, int], list[tuple[float, float, int]]] = defaultdict(list)
        self.ended = float("inf")  # when the last round was over: what the coordinator draws then is not of a long run
        self.seen: dict[int, float] = {}  # all processes of the deployment, and when each was started

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Return the processes there are, by their part."""
        found: dict[str, list[psutil.Process]] = {"server": [], "coordinator": [], "daemon": [], "worker": []}
        with suppress(psutil.NoSuchProcess):
            if self.made.server.pid:
                found["server"].append(psutil.Process(self.made.server.pid))
            if self.coordinator is not None and self.coordinator.poll() is None:
                found["coordinator"].append(psutil.Process(self.coordinator.pid))
        for client in self.made.clients.values():
            with suppress(psutil.NoSuchProcess):
                if client.pid:
                    daemon = psutil.Process(client.pid)
                    found["daemon"].append(daemon)
                    found["worker"] += daemon.children()
        return found

    def look(self, stop: threading.Event) -> None:
        """Note memory and open files until told to stop."""
        while not stop.wait(LOOK_SECONDS):
            if len(read_lines(self.run / "log.jsonl")) >= self.rounds:
                self.ended = min(self.ended, time.monotonic())
            for part, running in self.processes().items():
                for process in running:
                    with suppress(psutil.Error):
                        self.seen[process.pid] = process.create_time()
                        row = (time.monotonic(), process.memory_info().rss / 2**20, process.num_fds())
                        self.looks[part, process.pid].append(row)

    def kill_one(self) -> None:
        """Kill a part drawn at random, and start again what does not do so by itself."""
        part = str(self.rng.choice(["worker", "site", "server", "coordinator"]))
        name = str(self.rng.choice(SITES))
        client = self.made.clients[name]
        running = self.processes()
        self.killed[part] += 1
        if part in ("worker", "site"):
            with suppress(psutil.NoSuchProcess):
                daemon = psutil.Process(client.pid or 0)
                for process in [*daemon.children(), *([daemon] if part == "site" else [])]:
                    process.send_signal(signal.SIGKILL)
                if part == "site":
                    daemon.wait(30)
            if client.pid is None:
                client.start()
        elif part == "server":
            for server in running["server"]:
                server.send_signal(signal.SIGKILL)
                server.wait(30)
            self.made.server.start()
        elif part == "coordinator" and self.coordinator is not None:
            self.coordinator.kill()
            self.coordinator.wait()

    def go(self) -> dict[str, Any]:
        """Run to the end, resumed as often as need be; return the outcome."""
        last = said = time.monotonic()
        self.coordinator = self.made.coordinate(
            "run", self.run, parameters={"rounds": self.rounds}, seed=self.seed, quorum=1.0
        )
        resumed = 0
        while True:
            while self.coordinator.poll() is None:
                if time.monotonic() - last > self.every:
                    self.kill_one()
                    last = time.monotonic()
                if time.monotonic() - said > SAY_SECONDS:
                    said = time.monotonic()
                    print(f"{len(read_lines(self.run / 'log.jsonl'))} rounds; killed {dict(self.killed)}", flush=True)
                time.sleep(0.2)
            with suppress(IndexError):  # a coordinator that was killed said nothing
                ended = outcome(self.coordinator)
                if "digest" in ended:
                    return {**ended, "resumed": resumed}
                print(ended, flush=True)
                if not (self.run / "experiment.toml").exists():
                    raise RuntimeError("the run did not begin")
            resumed += 1
            self.coordinator = self.made.coordinate("resume", self.run)

    def slopes(self) -> list[dict[str, Any]]:
        """Return the slopes of memory (MB an hour) and of open files (an hour) by part."""
        rows = []
        for part in ("server", "coordinator", "daemon", "worker"):
            fits, weights = [], []
            for (of, _), looks in self.looks.items():
                table = np.array([row for row in looks if looks[0][0] + self.warm <= row[0] < self.ended])
                if of == part and len(table) > 2 and table[-1, 0] - looks[0][0] >= LEAST_SECONDS:
                    step, without = largest_step(table[:, 1])
                    columns = np.column_stack([table[:, 1:], without])
                    fits.append([*np.polyfit(table[:, 0] / 3600, columns, 1)[0], step])
                    weights.append(np.ptp(table[:, 0]))
            found, weight = np.array(fits).reshape(-1, 4), np.array(weights)
            mean = np.average(found, axis=0, weights=weight) if len(found) else np.full(4, np.nan)
            spread = found.std(axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.full(4, np.nan)
            every = np.array([row for (of, _), looks in self.looks.items() if of == part for row in looks])
            every = every.reshape(-1, 3)
            rows.append({
                "part": part, "processes": len(found), "minutes": float(weight.sum() / 60),
                "megabytes_largest": float(every[:, 1].max()), "files_largest": int(every[:, 2].max()),
                "megabytes_per_hour": float(mean[0]), "megabytes_per_hour_se": float(spread[0]),
                "megabytes_step": float(mean[3]), "megabytes_per_hour_without": float(mean[2]),
                "files_per_hour": float(mean[1]), "files_per_hour_se": float(spread[1]),
            })  # fmt: skip
        return rows

    def left_behind(self) -> list[int]:
        """Return processes that were seen, or that name the deployment's folder, and are there after it was stopped."""
        seen = {pid for pid, began in self.seen.items() if psutil.pid_exists(pid) and _began(pid) == began}
        folder = str(self.run.parent)
        named = {one.pid for one in psutil.process_iter(["cmdline"]) if folder in " ".join(one.info["cmdline"] or ())}
        return sorted(seen | named)


def largest_step(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the largest rise from one value to the next, and the values without it."""
    rises = np.diff(values)
    step = rises[at := int(rises.argmax())]
    return float(step), values - step * (np.arange(len(values)) > at)


def _began(pid: int) -> float | None:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=OFTEN, help="seconds between kills")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    with tempfile.TemporaryDirectory() as folder:
        soak, stop, began = (
            Soak(Path(folder), given.rounds, given.seed, given.every),
            threading.Event(),
            time.monotonic(),
        )
        watching = threading.Thread(target=soak.look, args=(stop,), daemon=True)
        try:
            soak.made.start()
            watching.start()
            ended = soak.go()
        finally:
            stop.set()
            if soak.coordinator is not None:
                soak.coordinator.kill()
            soak.made.stop()
        minutes = (time.monotonic() - began) / 60
        records = read_lines(soak.run / "log.jsonl")
        missed = sum(len(SITES) - len(record["received"]) for record in records)
        is_right = ended["digest"] == replay(soak.tables, given.seed, soak.run, given.rounds)
        left = soak.left_behind()
    note = (
        f"{len(records)} rounds, {len(SITES)} sites, {minutes:.0f} minutes; killed {dict(soak.killed)}, resumed "
        f"{ended['resumed']} times; {missed} of {len(SITES) * len(records)} answers missed, ended in the bits of a run "
        f"without them: {is_right}; processes left behind: {len(left)}"
    )
    print(note)
    name = "operations-soak" if given.every <= OFTEN else "operations-soak-calm"
    write_results(name, soak.slopes(), seed=given.seed, note=note)


if __name__ == "__main__":
    main()
