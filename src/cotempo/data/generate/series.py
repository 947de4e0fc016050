"""Series whose missing cells have a known best guess: sines, or shared factors that wander."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cotempo.data.arguments import as_generator, check_choice, check_count, check_number
from cotempo.data.masks import hide, mask_cells
from cotempo.data.series import Series
from cotempo.data.tables import GENERATORS, client_names
from cotempo.errors import ParameterError, nearest

PROCESSES = ("factors", "sines")
MOST_CELLS = 5000


@dataclass(frozen=True)
class SeriesTruth:
    r"""The Gaussian process behind `make_series`.

    .. math:: x_t = m + a \sin(2\pi t / p + \varphi) + L z_t + \sigma e_t, \qquad
              z_t = \rho z_{t-1} + \sqrt{1 - \rho^2}\, u_t

    with standard normal :math:`e, u`, stationary factors :math:`z`, and one entry of :math:`m, a, p, \varphi` and one
    row of :math:`L` per feature. All but the levels :math:`m` are the same at all clients.

    Attributes
    ----------
    levels
        :math:`m` of each client, ``(features,)``.
    amplitudes, periods, phases
        The sines, ``(features,)``; amplitudes are 0 for factors.
    loadings
        :math:`L`, ``(features, factors)``; 0 for sines.
    persistence, noise
        :math:`\rho` and :math:`\sigma`.
    complete
        Each client's series before cells were hidden.
    """

    kind: str
    levels: dict[str, NDArray[np.float64]]
    amplitudes: NDArray[np.float64]
    periods: NDArray[np.float64]
    phases: NDArray[np.float64]
    loadings: NDArray[np.float64]
    persistence: float
    noise: float
    complete: dict[str, Series]

    def mean(self, time: NDArray[np.float64], client: str | None = None) -> NDArray[np.float64]:
        """Return the mean at each time, ``(times, features)``."""
        wave = np.sin(2 * np.pi * np.asarray(time)[:, None] / self.periods + self.phases)
        return np.asarray(self._level(client) + self.amplitudes * wave)

    def covariance(self, time: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the covariance of all cells, row by row, ``(times * features, times * features)``."""
        closeness = self.persistence ** np.abs(np.subtract.outer(time, time))
        shared = np.kron(closeness, self.loadings @ self.loadings.T)
        return np.asarray(shared + self.noise**2 * np.eye(len(shared)))

    def conditional_mean(
        self, series: Series, client: str | None = None, window: int | None = None
    ) -> NDArray[np.float64]:
        r"""Return the conditional mean of each missing cell, ``(rows, features)``; observed cells are unchanged.

        With :math:`o` the observed and :math:`h` the missing cells of a window,
        :math:`\mu_h + \Sigma_{ho} \Sigma_{oo}^{-1} (x_o - \mu_o)`.

        Parameters
        ----------
        series
            A table with the features and the times of this truth.
        client
            Whose levels to use; optional if all clients have the same.
        window
            Condition inside windows of this many rows; by default on the complete sequence.
        """
        self._level(client)
        if window is not None:
            check_count("window", window)
        parts = [np.zeros((0, len(self.amplitudes)))]
        for _, time, values in series.sequences():
            size = window or len(time)
            if size * len(self.amplitudes) > MOST_CELLS:
                raise ParameterError(f"a window must have at most {MOST_CELLS} cells, got {size} rows; pass window=")
            parts += [
                self._fill(time[first : first + size], values[first : first + size], client)
                for first in range(0, len(time), size)
            ]
        return np.concatenate(parts)

    def _fill(self, time: NDArray[np.float64], values: NDArray[np.float64], client: str | None) -> NDArray[np.float64]:
        mean, filled = self.mean(time, client).ravel(), values.ravel().copy()
        hidden = np.isnan(filled)
        if not hidden.any():
            return values
        sigma = self.covariance(time)
        across, within = sigma[np.ix_(hidden, ~hidden)], sigma[np.ix_(~hidden, ~hidden)]
        filled[hidden] = mean[hidden] + across @ np.linalg.solve(within, filled[~hidden] - mean[~hidden])
        return filled.reshape(values.shape)

    def _level(self, client: str | None) -> NDArray[np.float64]:
        if client in self.levels:
            return self.levels[client]
        first = next(iter(self.levels.values()))
        if client is None and all(np.array_equal(first, level) for level in self.levels.values()):
            return first
        hint = "" if client is None else nearest(client, self.levels)
        raise ParameterError(f"client must be a generated client, as their levels differ, got {client!r}{hint}")


def make_series(
    clients: int = 5,
    sequences: int = 1,
    length: int = 200,
    features: int = 4,
    kind: Literal["factors", "sines"] = "factors",
    *,
    factors: int = 2,
    persistence: float = 0.8,
    noise: float = 0.3,
    spread: float = 0.0,
    missing: float = 0.0,
    seed: int = 0,
) -> tuple[dict[str, Series], SeriesTruth]:
    """Generate series at times 0, 1, 2, ... with a known distribution.

    Parameters
    ----------
    clients, sequences, length, features
        The number of clients, of sequences of each, of rows of each, and of features.
    kind
        ``"factors"``: a few latent autoregressive factors load on all features, which are therefore correlated.
        ``"sines"``: every feature is its own sine with noise.
    factors, persistence
        The number of factors, and their correlation from one time to the next.
    noise
        Standard deviation of each cell's own noise.
    spread
        Standard deviation of the clients' levels; 0 makes clients identically distributed.
    missing
        Share of cells to hide.
    seed
        Equal seeds give equal series.

    Returns
    -------
    dict of Series, SeriesTruth

    Examples
    --------
    >>> clients, truth = make_series(clients=2, length=50, missing=0.2, seed=1)
    >>> bool(np.isfinite(truth.conditional_mean(clients["client-0"])).all())
    True
    """
    for name, value in (("clients", clients), ("sequences", sequences), ("length", length), ("features", features)):
        check_count(name, value)
    check_count("factors", factors)
    check_number("persistence", persistence, 0, 0.999, open_low=True)
    check_number("noise", noise, 0, open_low=True)
    check_number("spread", spread, 0)
    check_number("missing", missing, 0, 0.95)
    check_choice("kind", kind, PROCESSES)
    rng = as_generator(seed)
    names = client_names(clients)
    levels = {name: spread * rng.standard_normal(features) for name in names}
    sines = kind == "sines"
    truth = SeriesTruth(
        kind=kind,
        levels=levels,
        amplitudes=rng.uniform(0.5, 1.5, features) * sines,
        periods=rng.uniform(10, 40, features),
        phases=rng.uniform(0, 2 * np.pi, features),
        loadings=rng.standard_normal((features, factors)) * (not sines),
        persistence=float(persistence),
        noise=float(noise),
        complete={},
    )
    found = {}
    for name, stream in zip(names, rng.spawn(clients), strict=True):
        truth.complete[name] = Series.from_arrays([_draw(truth, name, length, stream) for _ in range(sequences)])
        mask = mask_cells((sequences * length, features), missing, stream)
        found[name] = hide(truth.complete[name], mask)[0]
    return found, truth


GENERATORS["series"] = make_series


def _draw(truth: SeriesTruth, client: str, length: int, rng: np.random.Generator) -> NDArray[np.float64]:
    shocks = rng.standard_normal((length, truth.loadings.shape[1]))
    shocks[1:] *= np.sqrt(1 - truth.persistence**2)  # the first row is drawn from the stationary law
    state = np.zeros_like(shocks)
    state[0] = shocks[0]
    for row in range(1, length):
        state[row] = truth.persistence * state[row - 1] + shocks[row]
    own = truth.noise * rng.standard_normal((length, truth.loadings.shape[0]))
    return truth.mean(np.arange(length, dtype=np.float64), client) + state @ truth.loadings.T + own
