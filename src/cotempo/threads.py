"""Explicit thread counts: on a busy machine a second thread can be slower than one, and it changes the bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Give BLAS, OpenMP and torch this many threads inside the block."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    with threadpool_limits(threads):
        if torch:
            torch.set_num_threads(threads)
        try:
            yield
        finally:
            if torch and before:
                torch.set_num_threads(before)
