"""What went wrong on the way to the server, in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from cotempo.errors import EngineError


@contextmanager
def speaking(address: str) -> Iterator[None]:
    """Say in plain words what went wrong on the way to the server."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        why = "the operator's secret is not this server's" if code == 403 else error.response.text[:300]
        raise EngineError(f"the server at {address} refuses ({code}): {why}") from error
    except httpx.HTTPError as error:
        raise EngineError(
            f"the server at {address} must be running and reachable, it is not: {error}; see cotempo server status, "
            "and resume the run once it is back"
        ) from error
