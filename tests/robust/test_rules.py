"""Robust rules: equal to byzfl's where weights are equal; weights, liars and what no rule may do."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from cotempo.robust.rules import (
    RULES,
    centred_clipping,
    geometric_median,
    mean,
    median,
    mix_neighbours,
    multi_krum,
    norm_bound,
    trimmed_mean,
)
from cotempo.typing import Floats

ONES = np.ones(9)


def vectors(seed: int, count: int = 9, length: int = 7) -> Floats:
    stream = np.random.default_rng(seed)
    return stream.normal(size=(count, length)) + np.where(np.arange(count) < 2, 5.0, 0.0)[:, None]


@cache
def byzfl() -> Any:
    """The rules of byzfl, without its benchmark, which needs torchvision."""
    found = importlib.util.find_spec("byzfl")
    if found is None or found.submodule_search_locations is None:
        pytest.skip("byzfl is not installed")
    package = types.ModuleType("byzfl")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules.setdefault("byzfl", package)
    rules = importlib.import_module("byzfl.aggregators.aggregators")
    before = importlib.import_module("byzfl.aggregators.preaggregators")
    return types.SimpleNamespace(**{**vars(before), **vars(rules)})


THEIRS: dict[str, tuple[Callable[[Any], Any], Callable[[Floats], Floats]]] = {
    "median": (lambda b: b.Median(), lambda x: median(x, np.ones(len(x)))),
    "trimmed mean": (lambda b: b.TrMean(2), lambda x: trimmed_mean(x, np.ones(len(x)), 2)),
    "multi-Krum": (lambda b: b.MultiKrum(2), lambda x: multi_krum(x, np.ones(len(x)), 2)),
    "geometric median": (
        lambda b: b.GeometricMedian(0.1, 3),
        lambda x: geometric_median(x, np.ones(len(x)), start=np.zeros(x.shape[1]), least=0.1, steps=3),
    ),
    "centred clipping": (
        lambda b: b.CenteredClipping(None, 3, 2.0),
        lambda x: centred_clipping(x, np.ones(len(x)), start=np.zeros(x.shape[1]), radius=2.0, steps=3),
    ),
    "mixing": (lambda b: b.NNM(2), lambda x: mix_neighbours(x, np.ones(len(x)), 2)),
    "norm bound": (
        lambda b: lambda x: b.Average()(b.Clipping(float(np.median(np.linalg.norm(x, axis=1))))(x)),
        lambda x: norm_bound(x, np.ones(len(x))),
    ),
}


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("count", [8, 9])
def test_equal_weights_give_byzfls_rule(name: str, count: int) -> None:
    theirs, ours = THEIRS[name]
    rules = byzfl()
    for seed in range(5):
        given = vectors(seed, count)
        np.testing.assert_allclose(ours(given), theirs(rules)(given.copy()), atol=1e-6)


@pytest.mark.parametrize("rule", [mean, median])
def test_a_weight_of_two_is_two_clients(rule: Callable[..., Floats]) -> None:
    given, weights = vectors(3), np.array([1.0, 2, 1, 1, 3, 1, 1, 2, 1])
    repeated = np.repeat(given, weights.astype(int), axis=0)
    np.testing.assert_allclose(rule(given, weights), rule(repeated, np.ones(len(repeated))))


def test_trimming_takes_the_weight_of_the_heaviest_from_each_side() -> None:
    """Whoever the liar is, all of it goes."""
    given, weights = np.array([[0.0], [1.0], [2.0], [3.0], [1e9]]), np.array([1.0, 1, 1, 1, 1.5])
    # 1.5 off both ends leaves half of the client at 1, and those at 2 and 3.
    np.testing.assert_allclose(trimmed_mean(given, weights, 1), [(0.5 * 1 + 2 + 3) / 2.5])


def test_the_geometric_median_has_the_least_sum_of_distances() -> None:
    given, weights = vectors(1), np.arange(1.0, 10.0)

    def cost(point: Floats) -> float:
        return float(weights @ np.linalg.norm(given - point, axis=1))

    best = minimize(cost, given.mean(axis=0), method="Nelder-Mead", options={"maxiter": 20_000, "xatol": 1e-8})
    assert cost(geometric_median(given, weights)) <= best.fun * (1 + 1e-6)


@pytest.mark.parametrize("name", sorted({*RULES} - {"mean"}))
def test_two_liars_of_nine_move_no_rule_far(name: str) -> None:
    honest = np.random.default_rng(0).normal(size=(9, 20))
    for size in (1e2, 1e6, 1e12):
        lied = honest.copy()
        lied[:2] = size * np.random.default_rng(1).normal(size=(2, 20))
        moved = np.linalg.norm(RULES[name](lied, ONES, 2) - honest[2:].mean(axis=0))
        assert moved < np.linalg.norm(honest - honest.mean(axis=0), axis=1).max()


@pytest.mark.parametrize("name", sorted(RULES))
def test_clients_that_agree_are_right(name: str) -> None:
    same = np.tile(np.arange(4.0), (5, 1))
    np.testing.assert_allclose(RULES[name](same, np.arange(1.0, 6.0), 1), np.arange(4.0), atol=1e-12)
