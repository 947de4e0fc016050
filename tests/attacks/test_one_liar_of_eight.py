"""One liar of eight, inside of what is checked: how far it can move a result with the defaults, and is it named."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.federation.reducers import PlainReducer

LIAR = "client-3"
CLIENTS, TRUTH = ct.make_networks(variables=6, clients=8, samples=2400, seed=2)


def wrong_edges(fitted: Any) -> float:
    return float(ct.score_network(fitted.network, TRUTH)["shd"])


def fit(method: Any, clients: dict[str, Any], **options: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return method.fit(clients, progress=False, **options)


ONE_ROUND = ct.OneRound(compare=False, restarts=0)
FDBNL = ct.FDBNL(compare=False, rounds=25, scaled=False)


@pytest.mark.parametrize(
    ("method", "kind", "strength"),
    [
        (ONE_ROUND, "forged_edge", 1.0),
        (ONE_ROUND, "inflated_weight", 10.0),
        (ONE_ROUND, "inflated_weight", 1e9),
        (ONE_ROUND, "backdoor", None),
        (ONE_ROUND, "label_flip", None),
        (FDBNL, "lying_duals", 2.0),
        (FDBNL, "lying_duals", 1000.0),
        (FDBNL, "inflated_weight", 100.0),
        (FDBNL, "sign_flip", None),
    ],
)
def test_networks_have_at_most_two_more_wrong_edges_and_the_liar_is_named(
    method: Any, kind: Any, strength: float | None
) -> None:
    attack = ct.Attack(kind, clients=(LIAR,), strength=strength)
    lied = fit(method, CLIENTS, attack=attack)
    assert wrong_edges(lied) <= wrong_edges(fit(method, CLIENTS)) + 2
    assert {failure["client"] for failure in lied.failures} == {LIAR}
    assert lied.suspects in ((LIAR,), ())  # a claim of too many rows is refused, anything else is suspect


def test_a_forged_edge_would_get_through_a_plain_sum() -> None:
    attack = ct.Attack("forged_edge", clients=(LIAR,), strength=3.0)
    lied = fit(ONE_ROUND, CLIENTS, attack=attack, reducer=PlainReducer())
    assert wrong_edges(lied) > 2
    assert fit(ONE_ROUND, CLIENTS, attack=attack).suspects == (LIAR,)


def test_honest_clients_get_the_same_bits_as_by_a_plain_sum() -> None:
    for method in (ONE_ROUND, FDBNL):
        found = fit(method, CLIENTS)
        assert not found.failures
        assert found.digest == fit(method, CLIENTS, reducer=PlainReducer()).digest


FEDPP_LIES = (
    "scaling", "gaussian", "sign_flip", "inflated_weight", "inflated_precision", "inner_product",
    "label_flip", "backdoor",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", FEDPP_LIES)
def test_an_intensity_moves_by_at_most_a_tenth(kind: Any) -> None:
    clients = ct.make_events(clients=8, sequences=6, seed=0)[0]
    method = ct.FedPP(kernel="time", compare=False, window=(0.0, 10.0), cells=48)
    times, honest = np.linspace(0.25, 9.75, 40), sorted({*clients} - {LIAR})
    before, after = (
        np.stack([fitted[name].intensity(times).mean for name in honest])
        for fitted in (fit(method, clients), fit(method, clients, attack=ct.Attack(kind, clients=(LIAR,))))
    )
    assert np.abs(after - before).mean() <= 0.1 * before.mean()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scaling", "inflated_weight", "poisoned_vocabulary", "gaussian"])
def test_a_detector_loses_at_most_three_hundredths(kind: Any) -> None:
    clients, truth = ct.make_posts(clients=8, posts=80, events=10, seed=0)
    method = ct.EventDetector(dimension=20, buckets=1024, compare=False)
    honest = sorted({*clients} - {LIAR})

    def score(fitted: Any) -> float:
        found = [np.mean(np.array(truth.labels[n]) == fitted[n].detect(clients[n]).event) for n in honest]
        return float(np.mean(found))

    assert score(fit(method, clients, attack=ct.Attack(kind, clients=(LIAR,)))) >= score(fit(method, clients)) - 0.03
