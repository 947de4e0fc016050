"""`make_series`: Gaussian series with latent factors and a known distribution."""

from dataclasses import dataclass

import numpy as np

from cotempo.data.argument_checks import as_generator, check_counts, check_number
from cotempo.data.masks import hide, mask_cells
from cotempo.data.series import Series
from cotempo.data.tables import GENERATORS, client_names
from cotempo.errors import ParameterError
from cotempo.typing import Floats

MOST_CELLS = 5000
PERSISTENCE = 0.8


@dataclass(frozen=True)
class SeriesTruth:
    r"""The Gaussian process behind `make_series`, the same at all clients.

    .. math:: x_t = L z_t + \sigma e_t, \qquad z_t = \rho z_{t-1} + \sqrt{1 - \rho^2}\, u_t

    with standard normal :math:`e, u` and stationary factors :math:`z`.

    Attributes
    ----------
    loadings
        :math:`L`, ``(features, factors)``.
    persistence, noise
        :math:`\rho` and :math:`\sigma`.
    complete
        Each client's series before cells were hidden.
    """

    loadings: Floats
    persistence: float
    noise: float
    complete: dict[str, Series]

    def covariance(self, time: Floats) -> Floats:
        """Return the covariance of all cells, row by row, ``(times * features, times * features)``."""
        closeness = self.persistence ** np.abs(np.subtract.outer(time, time))
        shared = np.kron(closeness, self.loadings @ self.loadings.T)
        return np.asarray(shared + self.noise**2 * np.eye(len(shared)))

    def conditional_mean(self, series: Series, window: int | None = None) -> Floats:
        r"""Return the conditional mean of each missing cell, ``(rows, features)``; observed cells are unchanged.

        With :math:`o` the observed and :math:`h` the missing cells of a window of so many rows (by default the
        complete sequence), :math:`\Sigma_{ho} \Sigma_{oo}^{-1} x_o`.
        """
        features = len(self.loadings)
        parts = [np.zeros((0, features))]
        for _, time, values in series.sequences():
            size = len(time) if window is None else window
            check_counts(window=size)
            if size * features > MOST_CELLS:
                raise ParameterError(f"a window must have at most {MOST_CELLS} cells, got {size} rows; pass window=")
            cuts = range(size, len(time), size)
            parts += map(self._fill, np.split(time, cuts), np.split(values, cuts))
        return np.concatenate(parts)

    def _fill(self, time: Floats, values: Floats) -> Floats:
        filled = values.ravel().copy()
        hidden = np.isnan(filled)
        if hidden.any():
            sigma = self.covariance(time)
            across, within = sigma[np.ix_(hidden, ~hidden)], sigma[np.ix_(~hidden, ~hidden)]
            filled[hidden] = across @ np.linalg.solve(within, filled[~hidden])
        return filled.reshape(values.shape)


def make_series(
    clients: int = 5,
    sequences: int = 1,
    length: int = 200,
    features: int = 4,
    *,
    factors: int = 2,
    noise: float = 0.3,
    missing: float = 0.0,
    seed: int = 0,
) -> tuple[dict[str, Series], SeriesTruth]:
    """Generate series at times 0, 1, 2, ... with a known distribution.

    A few latent autoregressive factors load on all features, which are therefore correlated. Returns the table of each
    client, and the truth.

    Parameters
    ----------
    clients, sequences, length, features
        The number of clients, of sequences of each, of rows of each, and of features.
    factors
        The number of latent factors.
    noise
        Standard deviation of the independent noise of each cell.
    missing
        Share of cells to hide.
    seed
        Equal seeds give equal series.

    Examples
    --------
    >>> clients, truth = make_series(clients=2, length=50, missing=0.2, seed=1)
    >>> bool(np.isfinite(truth.conditional_mean(clients["client-0"])).all())
    True
    """
    check_counts(clients=clients, sequences=sequences, length=length, features=features, factors=factors)
    check_number("noise", noise, 0, open_low=True)
    check_number("missing", missing, 0, 0.95)
    rng = as_generator(seed)
    # Unused draws: without them a seed would no longer give the series on which the benchmarks were measured.
    rng.standard_normal((clients, features)), rng.random(3 * features)
    truth = SeriesTruth(rng.standard_normal((features, factors)), PERSISTENCE, float(noise), {})
    found = {}
    for name, stream in zip(client_names(clients), rng.spawn(clients), strict=True):
        truth.complete[name] = Series.from_arrays([_draw(truth, length, stream) for _ in range(sequences)])
        mask = mask_cells((sequences * length, features), missing, stream)
        found[name] = hide(truth.complete[name], mask)[0]
    return found, truth


GENERATORS["series"] = make_series


def _draw(truth: SeriesTruth, length: int, rng: np.random.Generator) -> Floats:
    features, factors = truth.loadings.shape
    state = rng.standard_normal((length, factors))
    state[1:] *= np.sqrt(1 - truth.persistence**2)  # the first row is drawn from the stationary distribution
    for row in range(1, length):
        state[row] += truth.persistence * state[row - 1]
    return np.asarray(state @ truth.loadings.T + truth.noise * rng.standard_normal((length, features)))
