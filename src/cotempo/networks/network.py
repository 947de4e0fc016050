"""`Network`: which variable drives which, now and after some lags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from scipy.stats import norm

from cotempo.data import Series, numbered, read_series
from cotempo.data.argument_checks import check_choice, check_counts
from cotempo.data.clock import Clock
from cotempo.data.html import html_table
from cotempo.data.tables import FRAME_KINDS, Framed, FrameKind, make_frame, pluralize
from cotempo.errors import DataError, ParameterError
from cotempo.networks.admm.acyclicity import edges_on_cycles
from cotempo.storage.saved import Saved
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Network(Framed, Saved):
    """A dynamic Bayesian network with linear effects.

    The model is ``x_t' = x_t' W + sum_i x_{t-i}' A_i + u_t'``.

    Parameters
    ----------
    within : (variables, variables)
        W, ``[source, target]``: effects inside one time step.
    across : (lags, variables, variables)
        A_1 to A_p, ``[source, target]``: effects of ``lag`` steps ago.
    variables : tuple of str, optional
        Their names, by default ``x0``, ``x1``, ...
    mean : (variables,), optional
        What the data were centred by, by default zeros.
    noise : (variables,), optional
        Variances of the u_t, where the method knows them.

    Examples
    --------
    >>> network = Network([[0.0, 0.5], [0.0, 0.0]], [[[0.9, 0.0], [0.0, 0.0]]], ("rain", "river"))
    >>> network.edges()
    [('rain', 'river', 0, 0.5), ('rain', 'rain', 1, 0.9)]
    >>> network.is_acyclic
    True
    """

    within: Floats
    across: Floats
    variables: tuple[str, ...] = ()
    mean: Floats | None = None
    noise: Floats | None = None

    def __post_init__(self) -> None:
        within, across = (np.array(weights, dtype=np.float64, order="C") for weights in (self.within, self.across))
        count = len(within) if within.ndim else 0
        if within.shape != (count, count) or across.ndim != 3 or across.shape[1:] != (count, count):
            raise DataError(
                "within must be (variables, variables) and across (lags, variables, variables); "
                f"got {within.shape} and {across.shape}"
            )
        names = tuple(self.variables) or variable_names(count)
        if len(names) != count or len(set(names)) != count:
            raise DataError(f"variables must be {count} different names, one per row of within, got {names}")
        within.flags.writeable = across.flags.writeable = False
        object.__setattr__(self, "within", within)
        object.__setattr__(self, "across", across)
        object.__setattr__(self, "variables", names)
        if self.mean is None:
            object.__setattr__(self, "mean", np.zeros(count))

    def __repr__(self) -> str:
        sizes = (pluralize(len(self.variables), "variable"), pluralize(self.lags, "lag"))
        return f"Network({', '.join(sizes)}, {pluralize(len(self.edges()), 'edge')})"

    def _repr_html_(self) -> str:
        edges = sorted(self.edges(), key=lambda edge: -abs(edge[3]))
        return html_table(repr(self), edges, ("source", "target", "lag", "weight"))

    @property
    def lags(self) -> int:
        """The number of lags."""
        return len(self.across)

    @property
    def is_acyclic(self) -> bool:
        """Whether no variable drives itself inside one time step, not even by a detour."""
        return not edges_on_cycles(self.within).any()

    @property
    def is_stable(self) -> bool:
        """Whether the process settles: every eigenvalue of its companion matrix lies inside the unit circle."""
        return spectral_radius(self.within, self.across) < 1.0

    @property
    def stacked(self) -> Floats:
        """All weights as one array, ``(1 + lags, variables, variables)``, lag 0 first."""
        return np.concatenate([self.within[None], self.across])

    def strength(self) -> Floats:
        """Return how strong each edge is, ``(1 + lags, variables, variables)``, in standard deviations of the noise.

        Where the noise is not known it is the size of the weight as it is.
        """
        if self.noise is None:
            return np.abs(self.stacked)
        spread = np.sqrt(np.maximum(self.noise, 1e-300))
        return np.abs(self.stacked) * spread[:, None] / spread

    def edges(self) -> list[tuple[str, str, int, float]]:
        """List the edges as (source, target, lag, weight), lag 0 first."""
        stacked, names = self.stacked, self.variables
        return [
            (names[source], names[target], int(lag), float(stacked[lag, source, target]))
            for lag, source, target in np.argwhere(stacked != 0)
        ]

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return the edges as a dataframe of the library `kind`, with the columns source, target, lag and weight."""
        return edge_frame(self.edges(), {"lag": nw.Int64(), "weight": nw.Float64()}, kind)

    def plot(self, ax: Axes | None = None, truth: Network | None = None) -> Axes:
        """Draw the network as time slices, edges marked against the truth when it is given.

        `cotempo.networks.plots.plot_networks` draws slices and matrices, found beside true.
        """
        from cotempo.networks.plots import plot_slices

        return plot_slices(self, ax=ax, truth=truth)

    def forecast(self, history: Any, steps: int, level: float = 0.9) -> NetworkForecast:
        """Return the expected next steps: ``x_t' = (sum_i x_{t-i}' A_i) (I - W)^-1``, iterated.

        Parameters
        ----------
        history : Series, dataframe or (at least lags, variables)
            What has been seen, oldest row first, with the network's variables as columns.
        steps : int
        level : float
            How much of what comes should lie between `low` and `high`. They need the noise, which `OneRound` knows,
            and take the weights as exact.

        Examples
        --------
        >>> network = Network([[0.0, 0.5], [0.0, 0.0]], [[[0.8, 0.0], [0.0, 0.0]]])
        >>> network.forecast([[1.0, 0.0]], steps=2).values
        array([[0.8 , 0.4 ],
               [0.64, 0.32]])
        """
        past, time, clock = self._history(history)
        check_counts(0, steps=steps)
        if not 0.0 < level < 1.0:
            raise ParameterError(f"level must lie between 0 and 1, got {level}")
        count, mean = len(self.variables), np.asarray(self.mean)
        values = mean + simulate_svar(self.within, self.across, np.zeros((steps, count)), past - mean)
        step = float(np.median(np.diff(time))) if len(time) > 1 else 1.0
        later = np.asarray((time[-1] if len(time) else 0.0) + step * np.arange(1.0, steps + 1))
        if self.noise is None:
            return NetworkForecast(values, later, self.variables, clock=clock)
        # Each shock spreads as an impulse does; shocks of different steps and variables are independent.
        shocks = np.zeros((count, steps, count))
        shocks[:, :1] = np.diag(np.sqrt(self.noise))[:, None]
        impulses = [simulate_svar(self.within, self.across, one) for one in shocks] if steps else [values]
        spread = norm.ppf(0.5 + level / 2.0) * np.sqrt(np.cumsum(np.square(impulses).sum(axis=0), axis=0))
        return NetworkForecast(values, later, self.variables, values - spread, values + spread, clock)

    def _history(self, history: Any) -> tuple[Floats, Floats, Clock]:
        """Return the last rows in the order of the variables, all times and the clock they are counted by."""
        count, clock = len(self.variables), Clock()
        if isinstance(history, np.ndarray | Sequence):
            past = np.asarray(history, dtype=np.float64)
            time = np.arange(len(past), dtype=np.float64)
        else:
            table = history if isinstance(history, Series) else _only(read_series(history))
            missing = [name for name in self.variables if name not in table.features]
            if missing:
                raise DataError(
                    f"history must have the network's {count} variables as columns, it lacks {', '.join(missing)}"
                )
            (time, values), clock = table.pieces()[-1], table.clock
            past = values[:, [table.features.index(name) for name in self.variables]]
        if past.ndim != 2 or past.shape[1] != count or len(past) < self.lags:
            raise DataError(f"history must have at least {self.lags} rows and {count} columns, got shape {past.shape}")
        if np.isnan(past[len(past) - self.lags :]).any():
            raise DataError(f"the last {self.lags} rows of history must have no missing cell; fill them in first")
        return past, time, clock


@dataclass(frozen=True, eq=False)
class NetworkForecast(Framed):
    """The next steps as a network expects them, `(steps, variables)`.

    `low` and `high` are where the noise is known; `time` continues that of the history.
    """

    values: Floats
    time: Floats
    variables: tuple[str, ...]
    low: Floats | None = None
    high: Floats | None = None
    clock: Clock = field(default_factory=Clock)

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a dataframe with a row per step and variable: time, variable, value, and low and high where known."""
        steps, count = self.values.shape
        columns = {"time": np.repeat(self.time, count), "variable": list(self.variables) * steps}
        bounds = {"value": self.values, "low": self.low, "high": self.high}
        columns |= {name: each.ravel() for name, each in bounds.items() if each is not None}
        return make_frame(columns, kind, {"time": self.clock})

    def plot(self) -> Figure:
        """Draw the next steps of each variable, of at most twelve, with their interval where it is known."""
        from cotempo.networks.plots import plot_forecast

        return plot_forecast(self)

    def __repr__(self) -> str:
        return f"NetworkForecast({pluralize(len(self.values), 'step')}, {pluralize(len(self.variables), 'variable')})"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        return html_table(repr(self), [tuple(row) for row in frame.itertuples(index=False)], tuple(frame.columns))


def _only(tables: Mapping[str, Series]) -> Series:
    if len(tables) != 1:
        raise DataError(f"history must be of one client, got {len(tables)}; choose one of them")
    return next(iter(tables.values()))


def edge_frame(edges: Sequence[tuple[Any, ...]], further: Mapping[str, Any], kind: FrameKind) -> Any:
    """Return edges as a dataframe with the columns source, target and `further` ones, typed even if it is empty."""
    check_choice("kind", kind, FRAME_KINDS)
    schema = {"source": nw.String(), "target": nw.String(), **further}
    data = {name: [edge[place] for edge in edges] for place, name in enumerate(schema)}
    return nw.from_dict(data, schema=schema, backend=kind).to_native()


def variable_names(count: int) -> tuple[str, ...]:
    """Return the default names ``x0``, ``x1``, ..., zero padded so that they sort in order."""
    return tuple(f"x{number}" for number in numbered(count))


def simulate_svar(
    within: Floats,
    across: Floats,
    shocks: Floats,
    history: Floats | None = None,
    effect: Callable[[Floats], Floats] | None = None,
) -> Floats:
    """Run ``x_t' = (sum_i effect(x_{t-i})' A_i + u_t') (I - W)^-1`` forward, one row of shocks u_t at a time.

    Shocks of zero give the forecast. The `history` before them, oldest row first, is zero when left out. `effect` is
    what the past acts through, elementwise; by default it acts as it is.
    """
    lags, variables = across.shape[0], within.shape[0]
    mixing = np.linalg.inv(np.eye(variables) - within)
    # Newest lag last, so that a plain slice of the rows before t lines up with the stacked coefficients.
    transition = across[::-1].reshape(lags * variables, variables) @ mixing
    mixed_shocks = shocks @ mixing
    values = np.zeros((lags + len(shocks), variables))
    if history is not None and lags:
        values[:lags] = history[-lags:]
    for step, shock in enumerate(mixed_shocks):
        past = values[step : step + lags].ravel()
        values[lags + step] = (effect(past) if effect else past) @ transition + shock
    return values[lags:]


def spectral_radius(within: Floats, across: Floats) -> float:
    """Return the largest modulus among the eigenvalues of the companion matrix; below 1 the process is stable."""
    lags, variables = across.shape[0], within.shape[0]
    if lags == 0:
        return 0.0
    mixing = np.linalg.inv(np.eye(variables) - within)
    companion = np.eye(lags * variables, k=variables)
    companion[:, :variables] = (across @ mixing).reshape(lags * variables, variables)
    return float(np.abs(np.linalg.eigvals(companion)).max())
