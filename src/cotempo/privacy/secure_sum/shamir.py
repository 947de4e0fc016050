"""Shamir's secret sharing (How to share a secret, CACM 1979) in the field of 2^255 - 19."""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from cotempo.errors import MessageError

PRIME = 2**255 - 19
SHARE_BYTES = 32

Random = Callable[[int], bytes]
"""Returns so many random bytes; the operating system's generator outside of tests."""


def threshold(count: int) -> int:
    """Return how many of `count` holders are needed, just over two thirds: fewer than a third may be away.

    Examples
    --------
    >>> [threshold(count) for count in (3, 4, 5, 30)]
    [3, 3, 4, 21]
    """
    return 2 * count // 3 + 1


def random_secret(random: Random) -> int:
    """Return a uniform element of the field; the bias of the remainder is below 2^-64."""
    return int.from_bytes(random(40), "big") % PRIME


def split(secret: int, needed: int, count: int, random: Random) -> list[bytes]:
    """Return `count` shares, the values of a random polynomial of degree `needed` - 1 at 1, 2, ..., count.

    Any `needed` of them give the secret, fewer say nothing about it.
    """
    coefficients = [random_secret(random) for _ in range(needed - 1)]
    shares = []
    for x in range(1, count + 1):
        value = 0
        for coefficient in coefficients:
            value = value * x + coefficient  # reduced once at the end, x is small
        shares.append(((value * x + secret) % PRIME).to_bytes(SHARE_BYTES, "big"))
    return shares


def combine(shares: Mapping[int, bytes]) -> int:
    """Return the secret from shares by their x, by Lagrange interpolation at zero; all that are given are used."""
    values = {x: int.from_bytes(share, "big") for x, share in shares.items()}
    if any(value >= PRIME for value in values.values()) or any(x < 1 for x in values):
        raise MessageError("a share must be an element of the field")
    weights = _weights(tuple(values))
    return sum(value * weight for value, weight in zip(values.values(), weights, strict=True)) % PRIME


@lru_cache(maxsize=64)
def _weights(places: tuple[int, ...]) -> list[int]:
    """Return Lagrange's weights at zero: the product of all other x over that of their differences to one's own."""
    product = math.prod(places)
    divisors = [x * math.prod([other - x for other in places if other != x]) for x in places]
    return [product * inverse % PRIME for inverse in _invert(divisors)]


def _invert(values: list[int]) -> list[int]:
    """Return the inverses in the field by one inversion and three products each (Montgomery's trick)."""
    products = [1]
    for value in values:
        products.append(products[-1] * value % PRIME)
    running = pow(products[-1], -1, PRIME)
    inverses = []
    for value, before in zip(reversed(values), reversed(products[:-1]), strict=True):
        inverses.append(running * before % PRIME)
        running = running * value % PRIME
    return inverses[::-1]
