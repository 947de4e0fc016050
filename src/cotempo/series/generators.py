"""`register_generator`: another model in the place of FedTDD's diffusion models, at the coordinator and at clients.

What it has learned is one vector of numbers, which travels and is kept as a network's weights are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cotempo.errors import ParameterError, nearest
from cotempo.federation import Rng
from cotempo.series.nn.parameters import NetworkState
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.series.nn.training import TrainingWindows

DIFFUSION = "diffusion"


class Generator(Protocol):
    """A model of windows ``(windows, length, features)`` of any number of features, scaled to about -1 to 1.

    Methods draw random numbers only from the `rng` given, and change nothing they are given.
    """

    def fit(
        self, weights: NDArray[Any], windows: Floats, counts: NDArray[np.bool_], steps: int, rng: Rng
    ) -> tuple[Floats, float]:
        """Learn on from `weights`, empty at first, and return the new ones and a loss; some cells do not count."""
        ...

    def sample(self, weights: NDArray[Any], shape: tuple[int, int, int], rng: Rng) -> Floats:
        """Return new windows of a shape."""
        ...

    def impute(self, weights: NDArray[Any], windows: Floats, seen: NDArray[np.bool_], rng: Rng) -> Floats:
        """Return complete windows: draws of the cells that were not `seen`, where `windows` has a guess."""
        ...


_GENERATORS: dict[str, Generator] = {}


def register_generator(name: str, generator: Generator) -> None:
    """Let ``FedTDD(generator=name)`` use a generator; wherever the run's code runs, sites included, it must be known.

    Examples
    --------
    >>> class Still:
    ...     def fit(self, weights, windows, counts, steps, rng):
    ...         return windows.mean(axis=0).ravel(), 0.0
    ...     def sample(self, weights, shape, rng):
    ...         return np.broadcast_to(weights.reshape(shape[1:]), shape)
    ...     def impute(self, weights, windows, seen, rng):
    ...         return np.where(seen, windows, weights.reshape(windows.shape[1:]))
    >>> register_generator("still", Still())
    """
    if name == DIFFUSION:
        raise ParameterError(f"name must not be {DIFFUSION!r}, which is FedTDD's own generator")
    _GENERATORS[name] = generator


def find_generator(name: str) -> Generator:
    """Return a registered generator."""
    if name not in _GENERATORS:
        known = ", ".join(map(repr, [DIFFUSION, *sorted(_GENERATORS)]))
        hint = "; register it with register_generator" + nearest(name, _GENERATORS)
        raise ParameterError(f"generator must be one of {known}, got {name!r}{hint}")
    return _GENERATORS[name]


def fit_generator(
    generator: Generator, network: NetworkState, dataset: TrainingWindows, steps: int, rng: Rng
) -> tuple[NetworkState, float]:
    """Train a generator in the place of a network; return what it has learned and its loss."""
    found, loss = generator.fit(network.weights, dataset.windows, dataset.mask, steps, rng)
    weights = np.asarray(found, dtype=np.float64).ravel()
    return replace(network, weights=weights, average=weights, steps=network.steps + steps), float(loss)


def no_network() -> NetworkState:
    """Return the state of a generator that has learned nothing."""
    empty = np.zeros(0)
    return NetworkState(empty, empty, empty, empty)
