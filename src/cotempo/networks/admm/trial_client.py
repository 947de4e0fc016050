"""What a client of FDBNL or PFDBNL does before the rounds: cut its table into transitions and sum them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError, Problem
from cotempo.federation import Message
from cotempo.networks.compare import varying
from cotempo.networks.moments import Moments, moments
from cotempo.networks.transitions import check_table, transition_rows

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Indices = NDArray[np.intp]
STAGES = ("trial", "final")
MINIMUM_TRANSITIONS = 2


@dataclass(frozen=True)
class Prepared:
    """A client's transitions, and their moments for each stage."""

    rows: FloatArray
    held_out: int
    moments: Mapping[str, Moments]
    variables: int

    @property
    def judged(self) -> FloatArray:
        """The held-out transitions."""
        return self.rows[len(self.rows) - self.held_out :]

    @property
    def varying(self) -> BoolArray:
        """Whether each variable varies in the rows before the held-out ones; one that does not is not judged."""
        seen = self.rows[: self.moments["trial"].rows]
        return varying(seen[:, : self.variables])

    def only(self, kept: Indices) -> Prepared:
        """The same of some variables."""
        if len(kept) == self.variables:
            return self
        columns = np.concatenate([kept + start for start in range(0, self.rows.shape[1], self.variables)])
        parts = {
            stage: Moments(part.rows, part.sums[columns], part.scatter[np.ix_(columns, columns)])
            for stage, part in self.moments.items()
        }
        return Prepared(self.rows[:, columns], self.held_out, parts, len(kept))


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
    parts = {"trial": moments([trial], 0), "final": moments([rows], 0)}
    return Prepared(rows, held_out, parts, len(table.features))


def send_sums(prepared: Prepared) -> Message:
    """Counts and sums, for both stages."""
    own = [prepared.moments[stage] for stage in STAGES]
    return Message(
        {"rows": np.array([float(part.rows) for part in own]), "sums": np.stack([part.sums for part in own])}
    )


def send_squares(prepared: Prepared, centre: FloatArray) -> Message:
    """Sums of squares about a centre, `(2, side)`, for both stages: however large the mean, no digit is lost."""
    own = [prepared.moments[stage] for stage in STAGES]
    shifts = [part.sums / part.rows - about for part, about in zip(own, centre, strict=True)]
    squares = [part.scatter.diagonal() + part.rows * shift**2 for part, shift in zip(own, shifts, strict=True)]
    return Message({"squares": np.stack(squares)})
