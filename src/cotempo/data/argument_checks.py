"""Argument checks that splits, partitions, masks and generators share."""

from collections.abc import Collection

import numpy as np

from cotempo.errors import ParameterError, nearest

Seed = np.random.Generator | int


def as_generator(rng: Seed) -> np.random.Generator:
    """Return a random generator, given one or a seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise ParameterError(f"a seed must be a whole number of at least 0, or a numpy Generator, got {rng!r}")
    return np.random.default_rng(int(rng))


def check_counts(least: int = 1, **counts: int) -> None:
    """Raise unless parameters are whole numbers of at least `least`."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ParameterError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_number(name: str, value: float, low: float, high: float = np.inf, *, open_low: bool = False) -> None:
    """Raise unless a parameter lies in its range."""
    good = isinstance(value, int | float | np.number) and np.isfinite(value) and low <= value <= high
    if not good or (open_low and value == low):
        bound = f"more than {low:g}" if open_low else f"at least {low:g}"
        most = f" and at most {high:g}" if np.isfinite(high) else ""
        raise ParameterError(f"{name} must be a number, {bound}{most}, got {value!r}")


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raise unless a parameter is one of the choices."""
    if value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {value!r}{nearest(str(value), choices)}")
