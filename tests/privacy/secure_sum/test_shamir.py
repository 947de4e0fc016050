"""Shamir's shares: enough of them give the secret, fewer fit every secret."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.errors import MessageError
from cotempo.privacy.secure_sum.shamir import PRIME, combine, split, threshold

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "secure_sum.json").read_text())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, PRIME - 1), st.integers(1, 30), st.data())
def test_any_enough_shares_give_the_secret(secret: int, count: int, data: st.DataObject) -> None:
    needed = data.draw(st.integers(1, count))
    shares = split(secret, needed, count, os.urandom)
    places = data.draw(st.permutations(range(1, count + 1)))[: data.draw(st.integers(needed, count))]
    assert combine({place: shares[place - 1] for place in places}) == secret


@settings(max_examples=30, deadline=None)
@given(st.integers(0, PRIME - 1), st.integers(0, PRIME - 1), st.integers(2, 10))
def test_too_few_shares_fit_every_secret(secret: int, other: int, needed: int) -> None:
    """Whatever the secret, a polynomial through the shares that are known exists."""
    shares = split(secret, needed, needed, os.urandom)
    known = {place: shares[place - 1] for place in range(1, needed)}

    def with_last(value: int) -> int:
        return combine({**known, needed: (value % PRIME).to_bytes(32, "big")})

    # The secret depends on the last share linearly and one to one, so that some value of it gives `other`.
    slope = (with_last(1) - with_last(0)) % PRIME
    assert slope
    assert with_last((other - with_last(0)) * pow(slope, -1, PRIME)) == other


def test_thresholds() -> None:
    assert [threshold(count) for count in (3, 4, 5, 6, 30, 101, 1000)] == [3, 3, 4, 5, 21, 68, 667]


@pytest.mark.parametrize("shares", [{1: b"\xff" * 32}, {0: bytes(32), 1: bytes(32)}])
def test_what_is_no_share_is_refused(shares: dict[int, bytes]) -> None:
    with pytest.raises(MessageError, match="element of the field"):
        combine(shares)


def test_vectors() -> None:
    for case in VECTORS["shamir"]:
        pool = bytes.fromhex(case["random"])
        place = 0

        def random(count: int, pool: bytes = pool) -> bytes:
            nonlocal place
            place += count
            return pool[place - count : place]

        shares = split(int(case["secret"], 16), case["needed"], case["count"], random)
        assert [share.hex() for share in shares] == case["shares"]
        chosen = {place: bytes.fromhex(case["shares"][place - 1]) for place in case["chosen"]}
        assert combine(chosen) == int(case["secret"], 16)
