"""What a client of FDBNL or PFDBNL does before the rounds: cut its table into transitions and sum them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError, Problem
from cotempo.federation.message import Message
from cotempo.networks.moments import Moments, moments
from cotempo.networks.transitions import check_table, transition_rows

FloatArray = NDArray[np.float64]
STAGES = ("trial", "final")
MINIMUM_TRANSITIONS = 2


@dataclass(frozen=True)
class Prepared:
    """A client's transitions, and their moments for each stage."""

    rows: FloatArray
    held_out: int
    moments: Mapping[str, Moments]


def prepare(table: Series, lags: int) -> Prepared:
    """Cut a table into transitions and sum them up, for both stages; too few are refused."""
    check_table(table)
    rows = transition_rows(table, lags).values
    if len(rows) < MINIMUM_TRANSITIONS:
        must = (
            f"at least {MINIMUM_TRANSITIONS} stretches of {lags + 1} rows in a row without a missing cell are needed, "
            f"there are {len(rows)}; give the client more rows or learn fewer lags"
        )
        raise DataError([Problem(must)])
    # A transition shares cells with the `lags` before it: those are in neither part.
    seen = len(rows) - max(1, len(rows) // 5) - lags
    held_out = max(1, len(rows) // 5) if seen >= 3 else 0
    trial = rows[:seen] if held_out else rows
    return Prepared(rows, held_out, {"trial": moments([trial], 0), "final": moments([rows], 0)})


def send_moments(prepared: Prepared) -> Message:
    """Counts, sums and sums of squares, for both stages."""
    own = [prepared.moments[stage] for stage in STAGES]
    return Message(
        {
            "rows": np.array([float(part.rows) for part in own]),
            "sums": np.stack([part.sums for part in own]),
            "squares": np.stack([part.gram.diagonal() for part in own]),
        }
    )
