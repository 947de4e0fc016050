from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from cotempo.errors import ParameterError
from cotempo.networks.data.generate import Recipe, draw_network
from cotempo.networks.moments import Gram, transitions
from cotempo.networks.network import simulate_svar
from cotempo.networks.search.equivalence import complete_pattern, reversed_member, undirected_edges
from cotempo.networks.search.evidence import Evidence, fit_variances, refit
from cotempo.networks.search.orders import SearchOptions, first_evidence, learn_order, search_orders
from cotempo.networks.search.personal import learn_personal
from cotempo.networks.search.prior_knowledge import PriorKnowledge


def draw(variables, rows, seed, lags=1, spread=None):
    """Return centred transitions and the true network."""
    rng = np.random.default_rng(seed)
    truth = draw_network(Recipe(variables, lags, degree=min(4.0, variables - 2), out_degree=1.0, decay=1.5), rng)
    noise = rng.normal(size=(rows + lags + 100, variables))
    if spread == "unequal":
        noise *= rng.uniform(0.5, 2.0, variables)
    joined = transitions(simulate_svar(truth.within, truth.across, noise)[100:], lags)
    return joined - joined.mean(axis=0), truth


def parents_of(truth):
    count = len(truth.within)
    stacked = np.concatenate([truth.within, truth.across.reshape(-1, count)])
    return [tuple(np.flatnonzero(stacked[:, node]).tolist()) for node in range(count)]


def is_acyclic(within):
    return not np.linalg.matrix_power((within != 0).astype(float), len(within)).any()


def subsets(columns):
    for marks in product([False, True], repeat=len(columns)):
        yield tuple(column for column, marked in zip(columns, marks, strict=True) if marked)


@pytest.mark.parametrize("parents", [(), (2,), (0, 2, 5), (3, 4, 5)])
def test_penalty_score_is_that_of_least_squares(parents):
    joined, _ = draw(3, 80, 0)
    evidence = Evidence(joined.T @ joined, 80, 3, 2.0, 1.5, np.full(6, 4.0))
    left = joined[:, 1] - joined[:, parents] @ np.linalg.lstsq(joined[:, parents], joined[:, 1])[0]
    expected = -(2.0 + 40.0) * np.log(1.5 + left @ left / 2.0) - 4.0 * len(parents)
    assert evidence.profile(1, parents).score == pytest.approx(expected)


def test_bayes_score_is_the_density_of_the_data():
    """Integrating slopes and variance out leaves a multivariate t with scale b/a (I + v X X')."""
    from scipy.stats import multivariate_t

    joined, _ = draw(3, 25, 1)
    parents, a, b, precision = (0, 4), 3.0, 2.0, 5.0
    evidence = Evidence(joined.T @ joined, 25, 3, a, b, np.zeros(6), precision)
    chosen = joined[:, parents]
    covariance = b / a * (np.eye(25) + chosen @ chosen.T / precision)
    expected = multivariate_t(shape=covariance, df=2 * a).logpdf(joined[:, 1])
    empty = multivariate_t(shape=b / a * np.eye(25), df=2 * a).logpdf(joined[:, 1])
    gain = evidence.profile(1, parents).score - evidence.profile(1, ()).score
    assert gain == pytest.approx(expected - empty)


@pytest.mark.parametrize("precision", [0.0, 3.0])
def test_gains_are_differences_of_scores(precision):
    joined, _ = draw(4, 60, 2)
    evidence = Evidence(joined.T @ joined, 60, 4, 1.0, 1.0, np.linspace(1.0, 2.0, 8), precision)
    parents = (1, 3, 6)
    score, adding, dropping = evidence.profile(0, parents)
    for candidate in (2, 4, 5, 7):
        more = evidence.profile(0, tuple(sorted((*parents, candidate)))).score
        assert adding[candidate] == pytest.approx(more - score)
    for place in range(3):
        assert dropping[place] == pytest.approx(
            evidence.profile(0, parents[:place] + parents[place + 1 :]).score - score
        )
    assert np.isneginf(adding[[0, 1, 3, 6]]).all()


def test_variance_prior_tells_equal_from_unequal():
    rng = np.random.default_rng(0)
    rows = np.full(30, 500.0)
    equal, scale = fit_variances(2.0 * rng.chisquare(500, 30), rows, 5000.0)
    unequal, _ = fit_variances(rng.uniform(0.5, 2.0, 30) ** 2 * rng.chisquare(500, 30), rows, 5000.0)
    assert equal > 200
    assert scale / equal == pytest.approx(2.0, rel=0.05)
    assert 0.5 <= unequal < 5


@pytest.mark.parametrize("kind", ["penalty", "bayes"])
@pytest.mark.parametrize("seed", range(4))
def test_search_finds_the_best_of_all_orders(seed, kind):
    joined, _ = draw(4, 60, seed, spread="unequal")
    gram = joined.T @ joined
    evidence = first_evidence(gram, 60, 4, 2.0, kind == "bayes")
    best = {}
    for node in range(4):
        scores = {
            chosen: evidence.profile(node, chosen).score for chosen in subsets([c for c in range(8) if c != node])
        }
        for before in subsets([v for v in range(4) if v != node]):
            fits = [score for chosen, score in scores.items() if all(p >= 4 or p in before for p in chosen)]
            best[node, before] = max(fits)
    optimum = max(
        sum(best[node, tuple(sorted(order[:place]))] for place, node in enumerate(order))
        for order in permutations(range(4))
    )
    rng = np.random.default_rng(seed)
    graph = search_orders(evidence, PriorKnowledge.empty(4, 1).constraints(), [0, 1, 2, 3], rng, 2, 1, thorough=True)
    found = sum(evidence.profile(node, chosen).score for node, chosen in enumerate(graph.parents))
    assert found == pytest.approx(optimum)


@pytest.mark.parametrize("spread", [None, "unequal"])
@pytest.mark.parametrize("seed", range(3))
def test_found_graph_is_consistent_and_never_below_the_truth(seed, spread):
    joined, truth = draw(10, 400, seed, spread=spread)
    found = learn_order(joined.T @ joined, 400, PriorKnowledge.empty(10, 1), np.random.default_rng(seed))
    assert is_acyclic(found.within)
    assert parents_of(found) == found.parents
    assert found.score == pytest.approx(found.evidence.total(found.parents))
    true_parents = parents_of(truth)
    assert found.score >= refit(found.evidence, true_parents).total(true_parents) - 1e-6
    for place, node in enumerate(found.order):
        assert set(np.flatnonzero(found.within[:, node])) <= set(found.order[:place])
        chosen = list(found.parents[node])
        slopes = np.linalg.lstsq(joined[:, chosen], joined[:, node])[0]
        assert np.concatenate([found.within, found.across[0]])[chosen, node] == pytest.approx(slopes)
        assert found.variance[node] == pytest.approx(
            np.var(joined[:, node] - joined[:, chosen] @ slopes) * 400 / (400 - len(chosen))
        )


def test_truth_is_found_with_equal_noise_and_lags():
    for lags in (0, 1, 3):
        joined, truth = draw(8, 3000, 5, lags=lags)
        found = learn_order(joined.T @ joined, 3000, PriorKnowledge.empty(8, lags), np.random.default_rng(0))
        assert ((found.within != 0) == (truth.within != 0)).all()
        assert ((found.across != 0) != (truth.across != 0)).sum() <= 2
        assert not found.undirected.any()


def test_same_seed_same_graph_and_inputs_untouched():
    joined, _ = draw(8, 60, 3)
    gram = joined.T @ joined
    before = gram.copy()
    first, second = (learn_order(gram, 60, PriorKnowledge.empty(8, 1), np.random.default_rng(7)) for _ in range(2))
    assert first.parents == second.parents
    assert first.order == second.order
    assert (gram == before).all()


def test_units_do_not_matter_when_variances_are_free():
    joined, _ = draw(8, 2000, 4, spread="unequal")
    scale = np.tile(np.random.default_rng(1).uniform(0.1, 10.0, 8), 2)
    found, rescaled = (
        learn_order(rows.T @ rows, 2000, PriorKnowledge.empty(8, 1), np.random.default_rng(0))
        for rows in (joined, joined * scale)
    )
    differs = (found.within != 0) != (rescaled.within != 0)
    assert not (differs & ~found.undirected & ~rescaled.undirected).any()


def test_constraints_are_respected():
    joined, truth = draw(8, 500, 6)
    gram = joined.T @ joined
    edges = np.argwhere(truth.within)
    forbidden, required = np.zeros((8, 8), dtype=bool), np.zeros((8, 8), dtype=bool)
    forbidden[tuple(edges[0])] = True
    required[tuple(edges[1][::-1])] = True
    lagged = np.zeros((1, 8, 8), dtype=bool)
    lagged[0, 7, 0] = True
    nothing = np.zeros((1, 8, 8), dtype=bool)
    knowledge = PriorKnowledge(np.concatenate([forbidden[None], nothing]), np.concatenate([required[None], lagged]))
    found = learn_order(gram, 500, knowledge, np.random.default_rng(0))
    assert found.within[tuple(edges[0])] == 0
    assert found.within[tuple(edges[1][::-1])] != 0
    assert found.across[0, 7, 0] != 0
    assert is_acyclic(found.within)
    assert not found.undirected[tuple(edges[1])]
    tiers = [v % 3 for v in range(8)]
    names = tuple(f"x{v}" for v in range(8))
    groups = [[name for name, tier in zip(names, tiers, strict=True) if tier == level] for level in range(3)]
    knowledge = PriorKnowledge.read(names, 1, (), (), groups)
    tiered = learn_order(gram, 500, knowledge, np.random.default_rng(0))
    assert all(tiers[source] <= tiers[target] for source, target in np.argwhere(tiered.within))


def test_wrong_input_is_named():
    gram, rng = np.eye(4), np.random.default_rng(0)
    nothing = PriorKnowledge.empty(2, 1)
    cycle = np.array([[[0, 1], [1, 0]], [[0, 0], [0, 0]]], dtype=bool)
    for message, call in {
        "cycle": lambda: learn_order(gram, 50, replace(nothing, required=cycle), rng),
        "forbidden": lambda: learn_order(gram, 50, PriorKnowledge(cycle, cycle), rng),
        "side": lambda: learn_order(gram, 50, PriorKnowledge.empty(3, 1), rng),
        "symmetric": lambda: learn_order(np.triu(np.ones((4, 4))), 50, PriorKnowledge.empty(2, 1), rng),
        "did you mean 'bayes'": lambda: learn_order(gram, 50, nothing, rng, SearchOptions("baye")),
        "rows": lambda: learn_order(gram, 1, PriorKnowledge.empty(2, 1), rng),
        "tiers": lambda: PriorKnowledge.read(("a", "b"), 1, (), (), (("a",),)),
    }.items():
        with pytest.raises(ParameterError, match=message):
            call()


def test_borrowed_rows_count_like_own():
    joined, _ = draw(6, 80, 8)
    own, others = Gram(joined[:30].T @ joined[:30], 30.0, np.zeros(12)), joined[30:].T @ joined[30:]
    knowledge, options = PriorKnowledge.empty(6, 1), SearchOptions("bayes")
    borrowed = learn_personal(
        own, Gram(others, 50.0, np.zeros(12)), 25 / 30, knowledge, np.random.default_rng(0), options
    )
    direct = learn_order(own.gram + others / 2, 55, knowledge, np.random.default_rng(0), options)
    assert borrowed.parents == direct.parents
    assert borrowed.score == pytest.approx(direct.score)


def test_fewer_rows_than_candidates_still_give_a_graph():
    joined, _ = draw(20, 15, 9)
    found = learn_order(joined.T @ joined, 15, PriorKnowledge.empty(20, 1), np.random.default_rng(0))
    assert is_acyclic(found.within)
    assert np.isfinite(found.score)


def all_dags(count):
    pairs = [(a, b) for a in range(count) for b in range(a)]
    for kinds in product(range(3), repeat=len(pairs)):
        within = np.zeros((count, count), dtype=bool)
        for (a, b), kind in zip(pairs, kinds, strict=True):
            if kind:
                within[(a, b) if kind == 1 else (b, a)] = True
        if is_acyclic(within):
            yield within


def fingerprint(within, across):
    """Neighbours and colliders between unjoined parents; lags are all joined to each other."""
    count = len(within)
    full = np.zeros((2 * count, 2 * count), dtype=bool)
    full[:count, :count], full[count:, :count] = within, across[0]
    joined = full | full.T
    joined[count:, count:] = True
    colliders = frozenset(
        (a, c, b)
        for c in range(count)
        for a in np.flatnonzero(full[:, c])
        for b in np.flatnonzero(full[:, c])
        if a < b and not joined[a, b]
    )
    return joined.tobytes(), colliders


@pytest.mark.parametrize(("count", "seed"), [(3, 0), (3, 1), (4, 0), (4, 1), (4, 2)])
def test_equivalence_class_against_enumeration(count, seed):
    across = np.random.default_rng(seed).random((1, count, count)) < (0.0 if seed == 0 else 0.15)
    classes = {}
    for within in all_dags(count):
        classes.setdefault(fingerprint(within, across), []).append(within)
    for members in classes.values():
        either = np.any(members, axis=0)
        expected = either & either.T
        known = {member.tobytes() for member in members}
        pattern = complete_pattern(members[0], across)
        assert (pattern.undirected[:count, :count] == expected).all()
        for source, target in np.argwhere(members[0] & expected):
            other = reversed_member(pattern, members[0], source, target)
            assert other[target, source]
            assert other.tobytes() in known


def test_equal_variances_tell_what_independences_do_not():
    rng = np.random.default_rng(0)
    first = rng.normal(size=2000)
    rows = np.column_stack([first, 0.8 * first + rng.normal(size=2000)])
    gram = rows.T @ rows
    price = np.full(2, 4.0)
    parents, constraints = [(), (0,)], PriorKnowledge.empty(2, 0).constraints()
    assert not undirected_edges(Evidence(gram, 2000, 2, 1e4, 1e4, price), parents, constraints).any()
    assert undirected_edges(Evidence(gram, 2000, 2, 0.5, 0.5, price), parents, constraints).all(
        where=~np.eye(2, dtype=bool)
    )
