"""What a client of OneRound does: cut its table into transitions, sum them up, and judge networks by its own rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError, Problem
from cotempo.networks.gram import Sums, embed, sum_products
from cotempo.networks.transitions import Rows, transition_rows

FloatArray = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Prepared:
    """A client's table, its complete transitions, and whether a cell is missing anywhere."""

    table: Series
    rows: Rows
    incomplete: bool


def prepare(table: Series, lags: int, half_life: float | None, minimum_rows: int) -> Prepared:
    """Cut a table into transitions; too few are refused."""
    partial = len(transition_rows(table, lags, partial=True).values)
    if partial < minimum_rows:
        raise DataError(
            [Problem(f"at least {minimum_rows} rows are needed, {partial} are there: a few tell themselves")]
        )
    rows = transition_rows(table, lags, half_life)
    return Prepared(table, rows, bool(np.isnan(table.values).any()) or not len(rows.values))


class Own(NamedTuple):
    """A client's transitions, its variables in the order of all clients'.

    Attributes
    ----------
    rows : Rows
    held : (own variables,)
        Places of its variables among all clients'.
    seen : int
        So many rows come before the held-out ones. A row shares cells with the `lags` before it: those are in neither.
    judged : (rows, side)
        The held-out rows: the last fifth of those without a missing cell.
    """

    rows: Rows
    held: Indices
    seen: int
    judged: FloatArray

    def columns(self, variables: int) -> Indices:
        """Places of its columns among those of all clients' `variables`."""
        lags = self.rows.values.shape[1] // len(self.held)
        return np.concatenate([self.held + lag * variables for lag in range(lags)])


def own_rows(prepared: Prepared, names: Sequence[str], lags: int, half_life: float | None, *, pairwise: bool) -> Own:
    """Cut out the transitions: `pairwise` also those with missing cells, otherwise complete ones."""
    table = prepared.table
    rows = transition_rows(table, lags, half_life, partial=True) if pairwise else prepared.rows
    held = np.array([place for place, name in enumerate(names) if name in table.features], dtype=np.intp)
    mine = np.array([table.features.index(names[place]) for place in held], dtype=np.intp)
    count = len(table.features)
    values = rows.values[:, np.concatenate([mine + lag * count for lag in range(lags + 1)])]
    complete = np.flatnonzero(~np.isnan(values).any(axis=1))
    judged = complete[len(complete) - len(complete) // 5 :]
    seen = max(int(judged[0]) - lags, 0) if len(judged) else len(values)
    return Own(Rows(values, rows.weights), held, seen, values[judged])


def column_sums(prepared: Prepared, names: Sequence[str]) -> dict[str, FloatArray | float]:
    """How many values there are of each of all clients' variables, and their sums."""
    table = prepared.table
    own = [names.index(name) for name in table.features]
    counts, sums = np.zeros(len(names)), np.zeros(len(names))
    counts[own] = (~np.isnan(table.values)).sum(axis=0)
    sums[own] = np.nansum(table.values, axis=0)
    return {"counts": counts, "sums": sums, "incomplete": float(prepared.incomplete or len(own) < len(names))}


def product_sums(own: Own, centre: FloatArray, *, pairwise: bool, split: bool) -> dict[str, FloatArray]:
    """Moments among the columns of all clients: `split` into before the held-out fifth and the rest, or whole."""
    lags = own.rows.values.shape[1] // len(own.held) - 1
    about = np.tile(centre[own.held], lags + 1)
    parts = [
        sum_products(Rows(own.rows.values[part], own.rows.weights[part]), about, pairwise=pairwise)
        for part in ((slice(None, own.seen), slice(own.seen, None)) if split else (slice(None),))
    ]
    if pairwise:
        parts = [embed(part, own.columns(len(centre)), len(centre) * (lags + 1)) for part in parts]
    return {name: np.stack([getattr(part, name) for part in parts]) for name in Sums._fields}
