"""What a client of OneRound does: cut its table into transitions, sum them up, and judge networks by its own rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError, Problem
from cotempo.networks.gram import Sums, embed, sum_products
from cotempo.networks.transitions import Rows, transition_rows

FloatArray = NDArray[np.float64]


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


def column_sums(prepared: Prepared, names: Sequence[str]) -> dict[str, FloatArray | float]:
    """How many values there are of each of all clients' variables, and their sums."""
    table = prepared.table
    own = [names.index(name) for name in table.features]
    counts, sums = np.zeros(len(names)), np.zeros(len(names))
    counts[own] = (~np.isnan(table.values)).sum(axis=0)
    sums[own] = np.nansum(table.values, axis=0)
    return {"counts": counts, "sums": sums, "incomplete": float(prepared.incomplete or len(own) < len(names))}


def product_sums(
    prepared: Prepared,
    names: Sequence[str],
    centre: FloatArray,
    lags: int,
    half_life: float | None,
    *,
    pairwise: bool,
    split: bool,
) -> dict[str, FloatArray]:
    """Moments among the columns of all clients: `split` into before the held-out fifth and the rest, or whole."""
    rows = transition_rows(prepared.table, lags, half_life, partial=True) if pairwise else prepared.rows
    here = np.array([names.index(name) for name in prepared.table.features])
    columns = np.concatenate([here + lag * len(names) for lag in range(lags + 1)])
    about = np.tile(centre[here], lags + 1)
    cut = max(len(rows.values) - held_out(len(rows.values)) - lags, 0)
    parts = [
        sum_products(Rows(rows.values[part], rows.weights[part]), about, pairwise=pairwise)
        for part in ((slice(None, cut), slice(cut, None)) if split else (slice(None),))
    ]
    if pairwise:
        parts = [embed(part, columns, len(names) * (lags + 1)) for part in parts]
    return {name: np.stack([getattr(part, name) for part in parts]) for name in Sums._fields}


def held_out(rows: int) -> int:
    """The number of rows that are judged: the last fifth."""
    return rows // 5
