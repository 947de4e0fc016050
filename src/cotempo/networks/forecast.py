"""`forecast`: the next steps of a network, from histories with gaps or without some of its variables.

The network is a state-space model whose state are the last rows. A Kalman filter gives their mean and covariance given
every cell that was seen; both are then carried forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_discrete_lyapunov
from scipy.stats import norm

from cotempo.data import Series, read_series
from cotempo.data.argument_checks import check_counts
from cotempo.data.clock import Clock
from cotempo.data.faults import say_unlike
from cotempo.data.html import html_table
from cotempo.data.series import gaps
from cotempo.data.tables import Framed, FrameKind, make_frame, pluralize
from cotempo.errors import DataError, ParameterError, warn
from cotempo.networks.levels import LEVELS, fit_powers, powers
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.networks.network import Network

#: Rows before the last ones that are looked at, if cells are missing; earlier ones are as good as forgotten.
MOST_ROWS = 200
#: A line over time is fitted to at least so many rows.
LEAST_ROWS = 3
#: Nine in ten values of a Gaussian lie so many deviations about its mean.
USUALLY = 1.645
LACKS = "only a network that knows its noise, as fitted ones do, fills in what is missing"


@dataclass(frozen=True, eq=False)
class NetworkForecast(Framed):
    """The next steps of each sequence as a network expects them, `(sequences * steps, variables)`.

    `sequence` and `time` are those of the rows; time continues that of the history. `low` and `high` are where the
    noise is known. `lacking` are variables of which the history has no value.
    """

    values: Floats
    time: Floats
    variables: tuple[str, ...]
    sequence: NDArray[np.str_]
    low: Floats | None = None
    high: Floats | None = None
    clock: Clock = field(default_factory=Clock)
    lacking: tuple[str, ...] = ()

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a row per sequence, step and variable: sequence, time, variable, value; low and high where known.

        Where the history lacks variables, `measured` says of which it has values.
        """
        rows, count = self.values.shape
        columns = {
            "sequence": np.repeat(self.sequence, count).tolist(),
            "time": np.repeat(self.time, count),
            "variable": list(self.variables) * rows,
        }
        bounds = {"value": self.values, "low": self.low, "high": self.high}
        columns |= {name: each.ravel() for name, each in bounds.items() if each is not None}
        if self.lacking:
            columns["measured"] = [name not in self.lacking for name in self.variables] * rows
        return make_frame(columns, kind, {"time": self.clock})

    def plot(self) -> Figure:
        """Draw the next steps of each variable, of at most twelve, with their interval where it is known."""
        from cotempo.networks.plots import plot_forecast

        return plot_forecast(self)

    def __repr__(self) -> str:
        names = len(set(self.sequence.tolist()))
        several = f"{names} sequences, " if names > 1 else ""
        steps = pluralize(len(self.values) // names, "step")
        return f"NetworkForecast({several}{steps}, {pluralize(len(self.variables), 'variable')})"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        return html_table(repr(self), [tuple(row) for row in frame.itertuples(index=False)], tuple(frame.columns))


def forecast(network: Network, history: Any, steps: int, level: float) -> NetworkForecast:
    """Continue every sequence of a history; see `Network.forecast`."""
    check_counts(1, steps=steps)
    if not 0.0 < level < 1.0:
        raise ParameterError(f"level must lie between 0 and 1, got {level}")
    sequences, clock = _sequences(network, history)
    model = StateSpace.of(network)
    values, spread, times = [], [], []
    ahead = [
        (time[-1] if len(time) else 0.0) + _step(time, sequences) * np.arange(1.0, steps + 1)
        for _, time, _ in sequences
    ]
    levels = fit_levels(network, sequences, ahead)
    _warn_of_units(network, np.concatenate([one[2] - base.before for one, base in zip(sequences, levels, strict=True)]))
    for (name, time, rows), then, base in zip(sequences, ahead, levels, strict=True):
        expected, deviation = model.ahead(*model.last_rows(_usable(network, name, rows - base.before, time)), steps)
        values.append(expected + base.after)
        spread.append(norm.ppf(0.5 + level / 2.0) * np.sqrt(deviation**2 + base.unsure(model)))
        times.append(then)
    names = np.repeat([name for name, _, _ in sequences], steps)
    found, around = np.concatenate(values), np.concatenate(spread)
    low, high = (None, None) if network.noise is None else (found - around, found + around)
    empty = np.isnan(np.concatenate([rows for _, _, rows in sequences])).all(axis=0)
    lacking = tuple(name for name, none in zip(network.variables, empty.tolist(), strict=True) if none)
    return NetworkForecast(found, np.concatenate(times), network.variables, names, low, high, clock, lacking)


def _sequences(network: Network, history: Any) -> tuple[list[tuple[str, Floats, Floats]], Clock]:
    """Return name, times and values of each sequence, NaN for variables that it lacks, and the clock."""
    count = len(network.variables)
    if isinstance(history, np.ndarray | list | tuple):
        past = np.asarray(history, dtype=np.float64)
        if past.ndim != 2 or past.shape[1] != count:
            must = f"history must have at least {network.lags} rows and {count} columns"
            raise DataError(f"{must}, got shape {past.shape}")
        return [("0", np.arange(len(past), dtype=np.float64), past)], Clock()
    table = history if isinstance(history, Series) else _only(read_series(history))
    lacking = [name for name in network.variables if name not in table.features]
    if lacking and (network.noise is None or len(lacking) == count):
        must = f"history must have the network's {count} variables as columns, it lacks {', '.join(lacking)}"
        raise DataError(f"{must}; {LACKS}" if len(lacking) < count else must)
    held = [place for place, name in enumerate(network.variables) if name in table.features]
    mine = [table.features.index(network.variables[place]) for place in held]
    found = []
    for name, time, values in table.sequences():
        rows = np.full((len(values), count), np.nan)
        rows[:, held] = values[:, mine]
        found.append((name, time, rows))
    return found, table.clock


def _warn_of_units(network: Network, rows: Floats) -> None:
    """Warn of variables that lie otherwise about their level than those learned from, as in another unit."""
    if network.scale is None:
        return
    is_common = network.levels == "common"
    middle = np.asarray(network.mean) if is_common else np.zeros(len(network.variables))
    low, high = middle - USUALLY * network.scale, middle + USUALLY * network.scale
    for name, values, least, most in zip(network.variables, (rows + middle).T, low, high, strict=True):
        if unlike := say_unlike(values, least, most, "" if is_common else ", about its level"):
            warn(f"{name!r} {unlike} The forecast may mean nothing")


def _only(tables: dict[str, Series]) -> Series:
    if len(tables) != 1:
        raise DataError(f"history must be of one client, got {len(tables)}; choose one of them")
    return next(iter(tables.values()))


def _usable(network: Network, name: str, rows: Floats, time: Floats) -> Floats:
    """Return the rows after the last gap; refuse those that cannot be continued."""
    cuts = gaps(time)
    rows = rows[cuts[-1] if len(cuts) else 0 :]
    if network.noise is None:
        if len(rows) < network.lags:
            must = f"history must have at least {network.lags} rows and {rows.shape[1]} columns after the last gap"
            raise DataError(f"{must}, sequence {name!r} has {len(rows)} rows")
        if np.isnan(rows[len(rows) - network.lags :]).any():
            must = f"the last {network.lags} rows of history must have no missing cell, those of {name!r} have"
            raise DataError(f"{must}; {LACKS}")
    return rows


def _step(time: Floats, sequences: list[tuple[str, Floats, Floats]]) -> float:
    """Return the usual time between rows: of this sequence, of all if it has a single row, or 1."""
    steps = np.diff(time) if len(time) > 1 else np.concatenate([np.diff(other) for _, other, _ in sequences])
    return float(np.median(steps)) if len(steps) else 1.0


class LevelAhead(NamedTuple):
    """The level of a sequence at its rows and at the next steps, `(rows, variables)` and `(steps, variables)`.

    `design` are the powers of time at the last rows, newest first, then at the next steps; `error` is the covariance of
    what they were multiplied by, in units of the noise of the long run; it is empty where the level is known.
    """

    before: Floats
    after: Floats
    design: Floats
    error: Floats

    def unsure(self, model: StateSpace) -> Floats:
        """Return by how much an unsure level makes the variance of the next steps larger, `(steps, variables)`."""
        side, count = model.transition.shape
        steps, lags = len(self.after), side // count
        found = np.zeros((steps, count))
        if not self.error.size:
            return found
        noise, effects = model.long_run_noise(), model.effects(steps)
        for step in range(steps):
            # What an error of each power does: it is in the level then, and in the rows that are carried forward.
            moves = [
                now * np.eye(count) - np.kron(last[:, None], np.eye(count)).T @ effects[step]
                for now, last in zip(self.design[lags + step], self.design[:lags].T, strict=True)
            ]
            for (i, one), (j, other) in product(enumerate(moves), repeat=2):
                found[step] += self.error[i, j] * np.einsum("ab,ac,cb->b", one, noise, other)
        return np.maximum(found, 0.0)


def fit_levels(
    network: Network, sequences: Sequence[tuple[str, Floats, Floats]], ahead: Sequence[Floats]
) -> list[LevelAhead]:
    """Return the level of each sequence, which is what the history tells where the network was learned without it."""
    mean = np.asarray(network.mean)
    if network.levels == "common":
        nothing = np.zeros((0, 0))
        return [
            LevelAhead(mean + 0 * rows, np.tile(mean, (len(then), 1)), nothing, nothing)
            for (_, _, rows), then in zip(sequences, ahead, strict=True)
        ]
    level = LEVELS[network.levels]
    since = [time - time[0] if len(time) else time for _, time, _ in sequences]
    groups = [[place] for place in range(len(sequences))] if level.by_sequence else [list(range(len(sequences)))]
    found: list[LevelAhead] = []
    for group in groups:
        told, values = (
            np.concatenate([part[place] for place in group]) for part in (since, [r for _, _, r in sequences])
        )
        degree = min(level.degree, len(told) // LEAST_ROWS)
        design = powers(told, told, degree)
        slopes, _ = fit_powers(design, values - mean, np.ones(len(told)))
        error: Floats = np.asarray(np.linalg.pinv(design.T @ design, hermitian=True), dtype=np.float64)
        for place in group:
            start = sequences[place][1][0] if len(since[place]) else 0.0
            now, then = (powers(time, told, degree) for time in (since[place], ahead[place] - start))
            last = np.zeros((network.lags, degree + 1))
            last[: len(now)] = now[::-1][: network.lags]
            found.append(LevelAhead(now @ slopes + mean, then @ slopes + mean, np.vstack([last, then]), error))
    return found


class StateSpace(NamedTuple):
    """A network about its mean: ``x_t' = s_t' T + e_t'`` with ``s_t = [x_{t-1}, ..., x_{t-p}]`` and ``e_t ~ N(0, Q)``.

    `transition` is T, `(lags * variables, variables)`, `shocks` is Q.
    """

    transition: Floats
    shocks: Floats

    @classmethod
    def of(cls, network: Network) -> StateSpace:
        """Return the model of a network; noise that it does not know is zero."""
        count = len(network.variables)
        mixing = np.linalg.inv(np.eye(count) - network.within)
        noise = np.zeros(count) if network.noise is None else np.asarray(network.noise)
        shocks = np.asarray(mixing.T @ (noise[:, None] * mixing), dtype=np.float64)
        return cls(network.across.reshape(-1, count) @ mixing, shocks)

    def last_rows(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of the last rows, newest first, given the cells that were seen.

        The filter starts behind the newest rows without a gap, whose past says nothing more, else in the long run.
        """
        side, count = self.transition.shape
        lags = side // count
        seen = ~np.isnan(rows)
        begin = next((end for end in range(len(rows), lags - 1, -1) if seen[end - lags : end].all()), None)
        if begin is not None:
            mean, covariance = rows[begin - lags : begin][::-1].ravel(), np.zeros((side, side))
        else:
            begin = max(len(rows) - MOST_ROWS, 0)
            mean, covariance = np.zeros(side), self._long_run()
        for row, known in zip(rows[begin:], seen[begin:], strict=True):
            mean, covariance = condition(*self._next(mean, covariance), row[known], np.flatnonzero(known))
            mean, covariance = mean[:side], covariance[:side, :side]
        return mean, covariance

    def ahead(self, mean: Floats, covariance: Floats, steps: int) -> tuple[Floats, Floats]:
        """Return the expected rows of the next steps and their standard deviations, both `(steps, variables)`."""
        side, count = self.transition.shape
        found = []
        for _ in range(steps):
            mean, covariance = self._next(mean, covariance)
            found.append((mean[:count], np.sqrt(np.maximum(covariance.diagonal()[:count], 0.0))))
            mean, covariance = mean[:side], covariance[:side, :side]
        expected, deviation = (np.array(part) for part in zip(*found, strict=True))
        return expected, deviation

    def effects(self, steps: int) -> list[Floats]:
        """Return what the last rows, newest first, do to each of the next steps, `(lags * variables, variables)`."""
        side = len(self.transition)
        state, found = np.eye(side), list[Floats]()
        for _ in range(steps):
            found.append(state @ self.transition)
            state = np.hstack([found[-1], state])[:, :side]
        return found

    def long_run_noise(self) -> Floats:
        """Return the covariance of the mean of many rows, times their number."""
        side, count = self.transition.shape
        left = np.eye(count) - self.transition.reshape(side // count, count, count).sum(axis=0)
        gain = np.linalg.pinv(left)
        return np.asarray(gain.T @ self.shocks @ gain)

    def _next(self, mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of the next row followed by those before it."""
        across = self.transition.T @ covariance
        own = across @ self.transition + self.shocks
        return np.concatenate([mean @ self.transition, mean]), np.block([[own, across], [across.T, covariance]])

    def _long_run(self) -> Floats:
        """Return the covariance of rows after a long time; without a long run, that of independent shocks."""
        side, count = self.transition.shape
        companion = np.eye(side, k=-count)
        companion[:count] = self.transition.T
        shocks = np.zeros((side, side))
        shocks[:count, :count] = self.shocks
        if np.abs(np.linalg.eigvals(companion)).max(initial=0.0) < 1.0:
            return np.asarray(solve_discrete_lyapunov(companion, shocks))
        return np.asarray(np.kron(np.eye(side // count), self.shocks), dtype=np.float64)


def condition(mean: Floats, covariance: Floats, values: Floats, seen: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return mean and covariance of a Gaussian given the values at the places `seen`."""
    if not len(seen):
        return mean, covariance
    scale = np.sqrt(np.maximum(covariance.diagonal()[seen], 1e-300))
    known = covariance[np.ix_(seen, seen)] / np.outer(scale, scale)
    gain = (covariance[:, seen] / scale) @ np.linalg.pinv(known, hermitian=True) / scale
    given = mean + gain @ (values - mean[seen])
    return given, covariance - gain @ covariance[seen]
