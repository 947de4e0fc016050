"""Random streams depend on their key and on nothing else."""

from __future__ import annotations

import itertools
import random

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.federation import Rng

keys = st.lists(st.integers(0, 10**6) | st.text(max_size=4), max_size=4).map(tuple)


@settings(max_examples=100, deadline=None)
@given(keys, keys, st.text(max_size=4), st.text(max_size=4))
def test_streams_are_equal_exactly_when_keys_and_purposes_are(one: tuple, other: tuple, why: str, what: str) -> None:
    first, second = Rng(*one)(why).integers(2**63, size=2), Rng(*other)(what).integers(2**63, size=2)
    assert (first == second).all() == ((one, why) == (other, what))


def test_keys_that_look_alike_are_different() -> None:
    alike = [Rng(1, 2), Rng(12), Rng("1", 2), Rng("1, 2"), Rng(1, "2"), Rng(), Rng("", 1, 2)]
    drawn = [rng("x").integers(2**63) for rng in alike]
    assert len(set(drawn)) == len(alike)


def test_drawing_from_one_stream_does_not_move_another() -> None:
    rng = Rng(0, "a", 1)
    expected = rng("noise").normal(size=5)
    rng("other").normal(size=1000)
    np.random.seed(3)  # noqa: NPY002 - it must not matter
    random.seed(3)
    torch.manual_seed(3)
    assert (rng("noise").normal(size=5) == expected).all()


def test_streams_of_clients_steps_and_purposes_are_uncorrelated() -> None:
    streams = [
        Rng(seed, client, step)(purpose).normal(size=2000)
        for seed, client, step, purpose in itertools.product((0, 1), ("a", "b"), (1, 2), ("noise", "order"))
    ]
    correlations = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlations).max() < 6 / np.sqrt(2000)


def test_torch_streams_follow_the_same_rule() -> None:
    def draw(rng: Rng, purpose: str) -> list[float]:
        return torch.rand(4, generator=rng.torch(purpose)).tolist()

    assert draw(Rng(0, "a", 1), "x") == draw(Rng(0, "a", 1), "x")
    assert draw(Rng(0, "a", 1), "x") != draw(Rng(0, "a", 2), "x")
    assert draw(Rng(0, "a", 1), "x") != draw(Rng(0, "a", 1), "y")
