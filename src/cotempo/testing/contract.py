"""The contract every method passes, as checks that raise `AssertionError`.

Each check takes a method, clients, a public table or `None`, and an empty folder. `check_method` runs them all.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from cotempo.data import Table
from cotempo.federation.method import Method
from cotempo.testing import crossings, disturbances, sameness
from cotempo.testing.checks import CHECKS, Clients

__all__ = ["CHECKS", "check_method", "crossings", "disturbances", "sameness"]


def check_method(method: Method, clients: Clients, public: Table | None = None) -> None:
    """Raise `AssertionError` unless a method keeps the whole contract.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=3, clients=3, samples=60)
    >>> check_method(ct.FedMean(), clients)
    """
    for function in CHECKS.values():
        with tempfile.TemporaryDirectory() as folder:
            function(method, clients, public, Path(folder))
