"""`Network`: which variable drives which, now and after some lags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from cotempo.data import numbered
from cotempo.data.argument_checks import check_choice
from cotempo.data.html import html_table
from cotempo.data.problems import list_names
from cotempo.data.tables import FRAME_KINDS, Framed, FrameKind, pluralize
from cotempo.errors import DataError, nearest
from cotempo.networks.admm.acyclicity import edges_on_cycles
from cotempo.networks.forecast import NetworkForecast, forecast
from cotempo.networks.levels import Levels
from cotempo.storage.saved import Saved
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    scale : (variables,), optional
        Standard deviations of the variables, where the method knows them; pictures show weights in these.
    levels : str
        What forecasts take for the mean: ``mean`` ("common"), or what the history tells: its own mean ("own"), that of
        each sequence ("sequence"), one line over time ("drift") or one for each sequence ("trend").

    Examples
    --------
    >>> network = Network([[0.0, 0.5], [0.0, 0.0]], [[[0.9, 0.0], [0.0, 0.0]]], ("rain", "river"))
    >>> network.edges()
      source target  lag  weight
    0   rain  river    0     0.5
    1   rain   rain    1     0.9
    >>> network.is_acyclic
    True
    """

    within: Floats
    across: Floats
    variables: tuple[str, ...] = ()
    mean: Floats | None = None
    noise: Floats | None = None
    scale: Floats | None = None
    levels: Levels = "common"

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
        for name in ("mean", "noise", "scale"):
            given = getattr(self, name)
            if given is not None and np.shape(given) != (count,):
                raise DataError(f"{name} must have one number per variable, ({count},), got {np.shape(given)}")

    def __repr__(self) -> str:
        sizes = (pluralize(len(self.variables), "variable"), pluralize(self.lags, "lag"))
        return f"Network({', '.join(sizes)}, {pluralize(len(self.edge_list()), 'edge')})"

    def _repr_html_(self) -> str:
        edges = sorted(self.edge_list(), key=lambda edge: -abs(edge[3]))
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

    def among(self, variables: Sequence[str]) -> Network:
        """Return the part of the network among some of its variables, in this order.

        Examples
        --------
        >>> chain = Network([[0.0, 0.5, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]], np.zeros((1, 3, 3)), ("a", "b", "c"))
        >>> chain.among(["b", "a"]).edge_list()
        [('a', 'b', 0, 0.5)]
        """
        if tuple(variables) == self.variables:
            return self
        if unknown := [name for name in variables if name not in self.variables]:
            raise DataError(
                f"the network has no variable {unknown[0]!r}{nearest(unknown[0], self.variables)}; it has "
                f"{list_names(self.variables)}"
            )
        places = [self.variables.index(name) for name in variables]
        at = np.ix_(places, places)
        across = self.across[:, places][:, :, places]
        own = {
            name: None if (each := getattr(self, name)) is None else each[places] for name in ("mean", "noise", "scale")
        }
        return Network(self.within[at], across, tuple(variables), **own, levels=self.levels)

    def standardised(self, scale: Floats | None = None) -> Network:
        """Return the network of variables that are divided by their standard deviations, by default `scale`.

        Where these are not known, it is the network as it is.
        """
        scale = self.scale if scale is None else scale
        if scale is None:
            return self
        spread = np.where(scale > 0, scale, 1.0)
        units = spread[:, None] / spread
        return Network(self.within * units, self.across * units, self.variables)

    def strength(self) -> Floats:
        """Return how strong each edge is, ``(1 + lags, variables, variables)``, in standard deviations if known."""
        return np.abs(self.standardised().stacked)

    def edge_list(self) -> list[tuple[str, str, int, float]]:
        """List the edges as (source, target, lag, weight), lag 0 first."""
        stacked, names = self.stacked, self.variables
        return [
            (names[source], names[target], int(lag), float(stacked[lag, source, target]))
            for lag, source, target in np.argwhere(stacked != 0)
        ]

    def edges(self, kind: FrameKind = "pandas") -> Any:
        """Return the edges as a dataframe of the library `kind`, with the columns source, target, lag and weight."""
        return edge_frame(self.edge_list(), {"lag": nw.Int64(), "weight": nw.Float64()}, kind)

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return the same as `edges`."""
        return self.edges(kind)

    @classmethod
    def from_frame(cls, frame: Any, variables: Sequence[str] = (), lags: int = 1) -> Network:
        """Return the network of a dataframe, such as a truth of your own to compare with.

        Parameters
        ----------
        frame : dataframe
            Either a row per edge, with the columns source and target, and lag and weight where they are known; or a
            square one, sources as its index and targets as its columns, not 0 where there is an edge. An edge without
            a lag acts one step later, or within the step if `lags` is 0; without a weight it has weight 1.
        variables : sequence of str, optional
            Names in the order wanted, such as ``fitted.network.variables``; by default as they appear.
        lags : int
            How many lags the network has.

        Examples
        --------
        >>> import pandas
        >>> Network.from_frame(pandas.DataFrame({"source": ["rain"], "target": ["river"]}))
        Network(2 variables, 1 lag, 1 edge)
        """
        square, edges = read_edges(frame, 1 if lags else 0)
        names = tuple(variables) or tuple(square) or tuple(dict.fromkeys(name for edge in edges for name in edge[:2]))
        unknown = [name for edge in edges for name in edge[:2] if name not in names]
        if unknown:
            raise DataError(f"edges must be between the variables, there is none called {unknown[0]!r}")
        stacked = np.zeros((lags + 1, len(names), len(names)))
        for source, target, lag, weight in edges:
            if not 0 <= lag <= lags:
                raise DataError(f"the lag of an edge must lie between 0 and lags={lags}, got {lag}")
            stacked[lag, names.index(source), names.index(target)] = weight
        return cls(stacked[0], stacked[1:], names)

    def plot(self, ax: Axes | None = None, truth: Network | None = None) -> Axes:
        """Draw the network as time slices, edges marked against the truth when it is given.

        `cotempo.networks.plots.plot_networks` draws slices and matrices, found beside true.
        """
        from cotempo.networks.plots import plot_slices

        return plot_slices(self, ax=ax, truth=truth)

    def forecast(self, history: Any, steps: int, level: float = 0.9) -> NetworkForecast:
        """Return the expected next steps of every sequence: ``x_t' = (sum_i x_{t-i}' A_i) (I - W)^-1``, iterated.

        Parameters
        ----------
        history : Series, dataframe or (at least lags, variables)
            What has been seen, oldest row first, with the network's variables as columns. Where the noise is known, as
            it is of fitted networks, missing cells and variables are filled with what the network expects given all
            cells that were seen, and widen the bounds.
        steps : int
        level : float
            How much of what comes should lie between `low` and `high`. They need the noise, and take the weights as
            exact.

        Examples
        --------
        >>> network = Network([[0.0, 0.5], [0.0, 0.0]], [[[0.8, 0.0], [0.0, 0.0]]])
        >>> network.forecast([[1.0, 0.0]], steps=2).values
        array([[0.8 , 0.4 ],
               [0.64, 0.32]])
        """
        return forecast(self, history, steps, level)


def read_edges(frame: Any, lag: int) -> tuple[list[str], list[tuple[str, str, int, float]]]:
    """Return the names of a square dataframe, none for one with a row per edge, and the edges of either.

    See `Network.from_frame`; `lag` is that of edges that name none.
    """
    columns = [str(name) for name in frame.columns]
    index = [str(name) for name in getattr(frame, "index", ())]
    if {"source", "target"} <= set(columns):
        table = nw.from_native(frame, eager_only=True)
        given = {name: table[name].to_list() for name in ("source", "target", "lag", "weight") if name in columns}
        filled = {"lag": [lag] * len(table), "weight": [1.0] * len(table)} | given
        rows = zip(*(filled[name] for name in ("source", "target", "lag", "weight")), strict=True)
        return [], [(str(source), str(target), int(at), float(weight)) for source, target, at, weight in rows]
    if sorted(index) != sorted(columns):
        raise DataError(
            "a dataframe of edges must have the columns source and target, or the same names as index and as columns, "
            f"got the columns {', '.join(columns[:5])} and the index {', '.join(index[:5])}"
        )
    values = np.asarray(frame, dtype=np.float64)
    return index, [(index[i], columns[j], lag, float(values[i, j])) for i, j in np.argwhere(values != 0)]


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
