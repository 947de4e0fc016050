"""What commands say, for the tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

EXPERIMENT = """
name = "first"
method = "FedMean"
[data]
source = "data/networks.csv"
"""


class Said(NamedTuple):
    code: Any
    out: str
    err: str

    @property
    def record(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Command = Callable[..., Said]
