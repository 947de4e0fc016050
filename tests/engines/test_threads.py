"""The number of threads is part of the promise of the same bits: it holds for libraries loaded during a fit, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cotempo.federation.registry import methods

METHODS_HERE = Path(__file__).parent / "flower"
WIDE, CORES = 2, len(os.sched_getaffinity(0))
TORCH = [name for name, cls in methods().items() if "device" in cls.model_fields]
FIRST = ("FedTDD", "FedAvg", "FedNeural")  # one of each way to come by torch, with FedPP as published

METHODS = """
import json, os, sys, warnings
import cotempo as ct
from cotempo.federation.registry import methods
from cotempo.federation.site import Site
from cotempo.testing import example

cases = {name: example(methods()[name]) for name in sys.argv[1:]}
clients, _ = ct.make_events(clients=2, sequences=3)
cases["FedPP, paper"] = ct.FedPP(preset="paper", rounds=1, epochs=1, inducing=5, cells=20), clients, None
assert "torch" not in sys.modules, "torch must be loaded by the fit itself"
for name, (method, clients, public) in cases.items():
    if os.fork():
        os.wait()
        continue
    seen, answer = set(), Site.answer

    def watched(site, question):
        reply = answer(site, question)
        if "torch" in sys.modules:
            seen.add(sys.modules["torch"].get_num_threads())
        return reply

    Site.answer = watched
    rounds = {"rounds": 1} if "rounds" in type(method).model_fields else {}
    method.model_copy(update=rounds).fit(clients, public=public, threads=1, batched=False, progress=False)
    print(json.dumps([name, sorted(seen)]), flush=True)
    os._exit(0)
"""

BLOCK = """
import json
from cotempo.threads import limit_threads
with limit_threads(1):
    import torch, scipy.linalg
    from threadpoolctl import threadpool_info
    inside = [torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())]
with limit_threads(2):
    again = [torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())]
after = [torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())]
print(json.dumps([inside, again, after]))
"""

COUNT = """
import json
import numpy as np
import cotempo as ct
from counting import Counting
clients = {name: ct.Series.from_arrays(np.zeros((3, 1))) for name in "ab"}
counts = [Counting().fit(clients, threads=threads, workers=2).state.threads for threads in (1, 2)]
here = [Counting().fit(clients, threads=threads).state.threads for threads in (1, 2)]
print(json.dumps([counts, here]))
"""


def lines(program: str, *words: str) -> list[Any]:
    """What a fresh process prints, on a machine where every library would take two threads by itself."""
    wide = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(WIDE))
    path = os.pathsep.join([str(METHODS_HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **wide, "PYTHONPATH": path}
    ended = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.slow
def test_methods_compute_on_one_thread_from_the_first_fit_of_a_process_on() -> None:
    assert lines(METHODS, *FIRST) == [[name, [1]] for name in (*FIRST, "FedPP, paper")]


@pytest.mark.slow
def test_so_do_all_others_that_use_torch() -> None:
    others = [name for name in TORCH if name not in (*FIRST, "FedPP")]  # FedPP by default needs no torch
    assert len(others) >= 5
    assert lines(METHODS, *others) == [[name, [1]] for name in (*others, "FedPP, paper")]


def test_a_limit_reaches_libraries_loaded_in_its_block_and_ends_with_it() -> None:
    ((inside, again, after),) = lines(BLOCK)
    assert set(inside) == {1}
    assert set(again) == {min(2, CORES)}
    assert set(after) == {WIDE}


@pytest.mark.slow
def test_direct_calls_and_workers_compute_on_as_many_threads_as_asked() -> None:
    ((counts, here),) = lines(COUNT)
    assert counts == here == [[1, 1], [min(2, CORES)] * 2]


@pytest.mark.slow
@pytest.mark.xdist_group("deployment")
def test_the_simulation_computes_on_as_many_threads_as_asked() -> None:
    pytest.importorskip("flwr", reason="needs cotempo[flower]")
    simulated = COUNT.replace("threads=threads, workers=2", 'threads=threads, workers=1, engine="flower-simulation"')
    ((counts, _),) = lines(simulated)
    assert counts == [[1, 1], [min(2, CORES)] * 2]
