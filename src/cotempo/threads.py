"""Explicit thread counts: on a busy machine a second thread can be slower than one, and it changes the bits."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController, threadpool_limits

# What libraries read when they are loaded, as torch is by the first method that needs it.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def set_threads(threads: int) -> threadpool_limits:
    """Give BLAS, OpenMP and torch this many threads, also if they are loaded later; return what can undo it.

    No more than there are cores: torch starts no more by itself, but would if asked to.
    """
    threads = min(threads, len(os.sched_getaffinity(0)))
    os.environ.update(dict.fromkeys(VARIABLES, str(threads)))
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    return threadpool_limits(threads)


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Give BLAS, OpenMP and torch this many threads inside the block, whether they are loaded before or in it.

    After the block, libraries loaded in it have as many threads as if they had been loaded without it.
    """
    environment = {name: os.environ.get(name) for name in VARIABLES}
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else usual_threads()
    known = {library.filepath for library in ThreadpoolController().lib_controllers}
    limits = set_threads(threads)
    try:
        yield
    finally:
        for name, value in environment.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        limits.restore_original_limits()
        for library in ThreadpoolController().lib_controllers:
            if library.filepath not in known:
                library.set_num_threads(usual_threads())
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(before)


def usual_threads() -> int:
    """Return how many threads a library uses by default."""
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(given) if given.isdigit() and int(given) else len(os.sched_getaffinity(0))
