"""`discrete_gaussian`: integer noise, from the operating system's generator, that clients add in shares.

Integers add up without rounding, so noise added to fixed-point values before masking survives the secure sum exactly.
The sampler is Algorithm 3 of Canonne, Kamath and Steinke (2020), with chances compared in double precision: a draw is
wrong with a chance below 1e-14, far below any delta in use.
"""

import math
import secrets
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cotempo.errors import ParameterError

Uniforms = Callable[[int], npt.NDArray[np.float64]]


def system_uniforms(count: int) -> npt.NDArray[np.float64]:
    """Return numbers strictly between 0 and 1, of 53 random bits each, from the operating system's generator."""
    bits = np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


def discrete_gaussian(
    deviation: float, shape: tuple[int, ...], uniforms: Uniforms = system_uniforms
) -> npt.NDArray[np.int64]:
    """Draw integers k with chances in proportion to ``exp(-k**2 / (2 deviation**2))``.

    Parameters
    ----------
    deviation
        From 0, which gives no noise, to 2**52.
    uniforms
        Where randomness comes from; anything but the operating system voids the guarantee.
    """
    if not 0 <= deviation <= 2.0**52:
        raise ParameterError(f"the deviation of discrete noise must lie in [0, 2**52], got {deviation}")
    count = math.prod(shape)
    if deviation == 0:
        return np.zeros(shape, dtype=np.int64)
    scale = math.floor(deviation) + 1
    drawn = np.empty(0, dtype=np.int64)
    while drawn.size < count:
        # About three of four candidates from the discrete Laplace distribution are accepted.
        tried = math.ceil((count - drawn.size) * 1.5) + 32
        candidates = _discrete_laplace(scale, tried, uniforms)
        gap = np.abs(candidates).astype(np.float64) - deviation**2 / scale
        accepted = np.log(uniforms(tried)) < -((gap / deviation) ** 2) / 2
        drawn = np.concatenate([drawn, candidates[accepted]])
    return drawn[:count].reshape(shape)


def _discrete_laplace(scale: int, count: int, uniforms: Uniforms) -> npt.NDArray[np.int64]:
    """Draw integers with chances in proportion to ``exp(-abs(k) / scale)``: the difference of two geometric ones."""
    first, second = (np.floor(-scale * np.log(uniforms(count))).astype(np.int64) for _ in range(2))
    return np.asarray(first - second)


def share_deviation(deviation: float, honest: int) -> float:
    """Return the deviation each client adds so that `honest` of them together add `deviation`.

    Those who lie or drop out after the noise was agreed on may add none: size the shares by the clients that must
    remain, which is the threshold of the secure sum.
    """
    if honest < 1:
        raise ParameterError(f"at least one client must add noise, got {honest}")
    return deviation / math.sqrt(honest)
