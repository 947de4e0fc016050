from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas
import pytest

import cotempo as ct
from cotempo.engines.inprocess import InProcess
from cotempo.errors import DataError, ParameterError, SchemaError
from cotempo.federation import Message, Question, Reply, validate
from cotempo.networks.moments import Gram, transitions
from cotempo.networks.search.personal import score_shares
from cotempo.networks.search.prior_knowledge import PriorKnowledge
from cotempo.testing import Faulty, drive

QUICK = ct.OneRound(restarts=0, compare=False)


@pytest.mark.parametrize("seed", [0, 1])
def test_same_graph_however_the_rows_are_split(seed: int) -> None:
    found = []
    for count in (1, 8, 64):
        clients, truth = ct.make_networks(variables=8, clients=count, samples=512, seed=seed)
        fitted = QUICK.model_copy(update={"minimum_rows": 1}).fit(clients)
        found.append(fitted.network)
    for network in found[1:]:
        np.testing.assert_allclose(network.within, found[0].within, atol=1e-9)
        np.testing.assert_allclose(network.across, found[0].across, atol=1e-9)
    assert ct.score_network(found[0], truth)["within_shd_double"] <= 2


def test_large_means_change_nothing() -> None:
    clients, _ = ct.make_networks(variables=5, clients=3, samples=400, seed=2)
    shifted = {name: ct.Series.from_arrays(table.values + 1e5) for name, table in clients.items()}
    np.testing.assert_allclose(
        QUICK.fit(shifted).network.within, QUICK.fit(clients).network.within, rtol=1e-5, atol=1e-7
    )


def test_weights_are_least_squares_on_the_chosen_parents() -> None:
    clients, _ = ct.make_networks(variables=5, clients=1, samples=400, seed=3)
    (table,) = clients.values()
    network = QUICK.fit(clients).network
    now, past = table.values[1:], table.values[:-1]
    columns = np.hstack([now - now.mean(0), past - past.mean(0)])
    stacked = np.vstack([network.within, network.across[0]])
    for target in range(5):
        parents = np.flatnonzero(stacked[:, target])
        slope, *_ = np.linalg.lstsq(columns[:, parents], columns[:, target], rcond=None)
        np.testing.assert_allclose(stacked[parents, target], slope, atol=1e-8)


def test_only_sums_are_needed() -> None:
    clients, _ = ct.make_networks(variables=3, clients=2, samples=60, seed=0)
    state = ct.OneRound(personal=True).fit(clients).state
    assert all(ct.OneRound().expects(state, phase).sums for phase in ct.OneRound.phases)


def test_clients_with_different_variables_share_what_overlaps() -> None:
    clients, truth = ct.make_networks(variables=4, clients=3, samples=3000, seed=5)
    names = list(clients)
    cut = {
        names[0]: ct.Series.from_arrays(clients[names[0]].values[:, :3], features=["x0", "x1", "x2"]),
        names[1]: ct.Series.from_arrays(clients[names[1]].values[:, 1:], features=["x1", "x2", "x3"]),
        names[2]: clients[names[2]],
    }
    fitted = QUICK.fit(cut)
    assert fitted.network.variables == ("x0", "x1", "x2", "x3")
    assert ct.score_network(fitted.network, truth)["within_shd_double"] <= 2


def test_pairs_never_seen_together_are_said_and_get_no_edge() -> None:
    clients, _ = ct.make_networks(variables=3, clients=2, samples=800, seed=6)
    first, second = clients.values()
    cut = {
        "a": ct.Series.from_arrays(first.values[:, :2], features=["x0", "x1"]),
        "b": ct.Series.from_arrays(second.values[:, 1:], features=["x1", "x2"]),
    }
    with pytest.warns(UserWarning, match="never seen together, like x0 and x2"):
        fitted = QUICK.fit(cut)
    assert fitted.network.within[0, 2] == fitted.network.within[2, 0] == 0


def test_missing_cells_cost_little() -> None:
    clients, truth = ct.make_networks(variables=6, clients=3, samples=1500, seed=7, missing=0.05)
    assert any(np.isnan(table.values).any() for table in clients.values())
    with warnings.catch_warnings(action="ignore"):
        fitted = QUICK.fit(clients)
    assert ct.score_network(fitted.network, truth)["within_shd_double"] <= 3


def test_late_client_is_one_addition_and_leaving_undoes_it() -> None:
    clients, _ = ct.make_networks(variables=5, clients=4, samples=400, seed=8)
    late = {name: clients[name] for name in list(clients)[3:]}
    early = {name: clients[name] for name in list(clients)[:3]}
    together = QUICK.fit(clients)
    added = QUICK.fit(early).add(late)
    np.testing.assert_allclose(added.network.within, together.network.within, atol=1e-8)
    assert added.names == together.names
    with pytest.warns(UserWarning, match="difference"):
        left = added.remove(late)
    np.testing.assert_allclose(left.network.within, QUICK.fit(early).network.within, atol=1e-6)
    with pytest.raises(DataError, match="part of the result already"):
        added.add(late)


def test_forgetting_finds_the_newer_structure() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(600, 2)), rng.normal(size=(300, 2))
    old[:, 1] += 0.9 * old[:, 0]
    new[:, 1] -= 0.9 * new[:, 0]
    clients = {"a": ct.Series.from_arrays(np.vstack([old, new]))}
    method = ct.OneRound(lags=0, compare=False)
    kept = method.fit(clients).network.within
    fresh = method.model_copy(update={"half_life": 60.0}).fit(clients).network.within
    assert max(kept[0, 1], kept[1, 0]) > 0.1
    assert min(fresh[0, 1], fresh[1, 0]) < -0.5


def test_prior_knowledge_is_kept() -> None:
    clients, truth = ct.make_networks(variables=5, clients=2, samples=500, seed=9)
    source, target = (f"x{i}" for i in np.argwhere(truth.within)[0])
    there = QUICK.model_copy(update={"forbidden": ((source, target), (target, source))}).fit(clients).network
    i, j = there.variables.index(source), there.variables.index(target)
    assert there.within[i, j] == there.within[j, i] == 0
    backwards = ct.OneRound(required=((target, source, 0),), compare=False).fit(clients).network
    assert backwards.within[j, i] != 0
    assert backwards.within[i, j] == 0
    tiered = ct.OneRound(tiers=(("x3", "x4"), ("x0", "x1", "x2")), compare=False).fit(clients).network
    assert not tiered.within[:3, 3:].any()


def test_without_a_lag_edges_are_forbidden_at_every_lag_and_so_do_tiers() -> None:
    """A forbidden pair came back one step later with probability 1, and so did edges to an earlier tier."""
    clients, truth = ct.make_networks(variables=5, clients=2, samples=500, lags=2, seed=9)
    across = np.argwhere(truth.across * ~np.eye(5, dtype=bool))
    method = ct.OneRound(lags=2, restarts=0, compare=False)
    assert all(method.fit(clients).network.across[tuple(edge)] != 0 for edge in across)
    pairs = tuple((f"x{source}", f"x{target}") for _, source, target in across)
    without = method.model_copy(update={"forbidden": pairs}).fit(clients).network
    assert not any(without.stacked[:, source, target].any() for _, source, target in across)
    last = int(across[0, 2])
    tiers = ((f"x{last}",), tuple(f"x{place}" for place in range(5) if place != last))
    tiered = method.model_copy(update={"tiers": tiers}).fit(clients).network
    assert not np.delete(tiered.stacked[:, :, last], last, axis=1).any()
    one = PriorKnowledge.read(("a", "b"), 2, [("a", "b", 1)], (), ()).forbidden
    assert np.argwhere(one).tolist() == [[1, 0, 1]]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"required": (("x0", "x1", 0), ("x1", "x0", 0))}, "cycle; those among x0, x1 do"),
        ({"required": (("x0", "x1"),)}, r"must say its lag, 0 .* to 1, got \('x0', 'x1'\).*\('x0', 'x1', 1\)"),
        ({"required": (("x0", "x1"), ("x1", "x0")), "lags": 0}, "cycle; those among x0, x1 do"),
        ({"forbidden": (("x0", "x9"),)}, "no variable 'x9'"),
        ({"required": (("x0", "x1", 7),)}, "from 0 to 1"),
        ({"required": (("x0", "x1", 0),), "forbidden": (("x0", "x1"),)}, "x0 -> x1 is forbidden"),
        ({"tiers": (("x0",), ("x1",))}, "every variable"),
        ({"evidence": "magic"}, "evidence"),
        ({"lags": -1}, "lags"),
    ],
)
def test_knowledge_that_cannot_hold_are_refused(parameters: dict, text: str) -> None:
    clients, _ = ct.make_networks(variables=3, clients=2, samples=80, seed=0)
    with pytest.raises(ParameterError, match=text):
        ct.OneRound(compare=False, **parameters).fit(clients)


def test_clients_that_cannot_take_part_are_named() -> None:
    clients, _ = ct.make_networks(variables=3, clients=3, samples=90, seed=0)
    tiny = {**clients, "tiny": ct.Series.from_arrays(np.random.default_rng(0).normal(size=(4, 3)))}
    with pytest.raises(DataError, match=r"client tiny.*at least 5 rows"):
        QUICK.fit(tiny)
    with pytest.raises(DataError, match="client client-1: at least one column must vary"):
        QUICK.fit({**clients, "client-1": ct.Series.from_arrays(np.ones((30, 3)))})
    twice = pandas.DataFrame(np.random.default_rng(2).normal(size=(30, 3)), columns=["x0", "x1", "x1"])
    with pytest.raises(DataError, match="client twice: column names must differ"):
        QUICK.fit({**clients, "twice": twice})
    stranger = {
        **clients,
        "far": ct.Series.from_arrays(np.random.default_rng(1).normal(size=(30, 2)), features=["p", "q"]),
    }
    with pytest.raises(SchemaError, match=r"client far.*shared"):
        QUICK.fit(stranger)


def test_forged_products_are_left_out() -> None:
    clients, _ = ct.make_networks(variables=3, clients=3, samples=300, seed=0)
    honest = QUICK.fit(clients)
    state = honest.state
    expect = QUICK.expects(state, "products")
    good = {"counts": state.counts, "sums": state.sums, "products": state.products, "levels": np.zeros((5, 2, 3))}
    validate(Message(good), expect)
    with pytest.raises(ct.CotempoError, match="'products' must be positive semidefinite"):
        validate(Message({**good, "products": -state.products}), expect)


def test_a_client_that_forges_its_gram_is_named_and_left_out() -> None:
    clients, _ = ct.make_networks(variables=3, clients=3, samples=300, seed=0)

    def forge(question: Question, reply: Reply) -> Reply:
        if (question.client, question.phase) != ("client-1", "products") or reply.message is None:
            return reply
        return replace(reply, message=Message({**reply.message, "products": -reply.message["products"]}))

    steps = list(drive(QUICK, Faulty(InProcess(QUICK, clients, seed=0), tamper=forge), seed=0))
    (failure,) = (failure for step in steps for failure in step.answers.failures)
    assert failure.client == "client-1"
    assert "positive semidefinite" in str(failure)
    honest = QUICK.fit({name: table for name, table in clients.items() if name != "client-1"})
    np.testing.assert_allclose(steps[-1].state.within, honest.network.within, atol=1e-9)


def test_clients_may_hold_their_columns_in_other_orders() -> None:
    clients, _ = ct.make_networks(variables=4, clients=2, samples=400, seed=5)
    first, second = clients.values()
    turned = ct.Series.from_arrays(second.values[:, [2, 0, 3, 1]], features=["x2", "x0", "x3", "x1"])
    plain, other = (QUICK.fit({"a": first, "b": table}) for table in (second, turned))
    np.testing.assert_allclose(other.network.within, plain.network.within, atol=1e-9)


@pytest.mark.parametrize("failing", [slice(120, None), slice(60, 180), slice(0, None, 3)])
def test_judged_rows_are_in_no_sum_where_cells_are_missing(failing: slice) -> None:
    """A sensor that fails: the last complete rows need not be the last rows."""
    values = ct.make_networks(variables=3, clients=1, samples=200, seed=4)[0]["client-0"].values.copy()
    values[failing, 1] = np.nan
    prepared = QUICK.prepare(ct.Series.from_arrays(values))
    own = QUICK.own_rows(prepared, ("x0", "x1", "x2"), gaps=True)
    assert len(own.judged) == len(prepared.transitions.values) // 5 > 0
    np.testing.assert_array_equal(own.judged, prepared.transitions.values[-len(own.judged) :])
    first = int(np.flatnonzero(values[:, 0] == own.judged[0, 0]).item())
    inside = own.sum_products(np.zeros(3), split=True, pairwise=True)
    before = [ct.Series.from_arrays(values[: first - 1])]  # the row before the first judged one is its past
    (only,) = (QUICK.own_rows(QUICK.prepare(one), ("x0", "x1", "x2"), gaps=True) for one in before)
    outside = only.sum_products(np.zeros(3), split=False, pairwise=True)
    np.testing.assert_allclose(inside.products[0], outside.products[0], atol=1e-9)


def test_alone_is_worked_out_from_the_own_rows_before_the_judged_ones() -> None:
    clients, _ = ct.make_networks(variables=3, clients=2, samples=1200, seed=4)
    fitted = ct.OneRound(restarts=0, evidence="penalty").fit(clients)
    values = clients["client-0"].values
    rows = transitions(values, 1)
    judged = len(rows) // 5
    seen = rows[: len(rows) - judged - 1]
    method = QUICK.model_copy(update={"evidence": "penalty"})
    network = method.fit({"a": ct.Series.from_arrays(values[: len(seen) + 1])}).network
    stacked = np.vstack([network.within, network.across[0]])

    def errors(some: np.ndarray) -> np.ndarray:
        centred = some - seen.mean(axis=0)
        return centred[:, :3] - centred @ stacked

    variance = (errors(seen) ** 2).sum(axis=0) / (len(seen) - np.count_nonzero(stacked, axis=0))
    expected = -0.5 * (np.log(2 * np.pi * variance) + errors(rows[-judged:]) ** 2 / variance).sum(axis=1).mean()
    assert fitted.benefit["client-0"].alone == pytest.approx(expected, abs=1e-6)


def test_personal_with_a_client_that_lacks_a_variable() -> None:
    clients, _ = ct.make_networks(variables=4, clients=3, samples=240, shared=0.8, seed=1)
    lacking = ct.Series.from_arrays(clients["client-1"].values[:, :3], features=["x0", "x1", "x2"])
    method = ct.OneRound(personal=True, compare=False, restarts=0)
    with warnings.catch_warnings(action="ignore"):
        steps = list(drive(method, InProcess(method, {**clients, "client-1": lacking}, seed=0), seed=0))
    assert not [failure for step in steps for failure in step.answers.failures]
    (borrow,) = (step for step in steps if step.answers.failures == () and "share" in step.metrics)
    assert borrow.answers.names == ("client-0", "client-1", "client-2")


def test_personal_networks_borrow_and_stay_home() -> None:
    clients, truth = ct.make_networks(variables=5, clients=4, samples=240, shared=0.8, seed=1)
    one_unit = QUICK.model_copy(update={"scaled": False})
    fitted = one_unit.model_copy(update={"personal": True}).fit(clients)
    alone = {name: one_unit.fit({name: table}).network for name, table in clients.items()}
    own = {name: fitted[name].network for name in clients}
    assert fitted.scores(truth)["within_shd_double"] < ct.score_network(alone, truth)["within_shd_double"]
    assert ct.score_network(own, truth) == fitted.scores(truth)
    assert fitted.state.share > 0


def test_knowledge_forbids_what_was_never_seen() -> None:
    unseen = np.zeros((4, 4), np.bool_)
    unseen[0, 1] = unseen[1, 0] = unseen[2, 1] = True
    knowledge = PriorKnowledge.read(("a", "b"), 1, (), (), ()).without(unseen)
    assert knowledge.forbidden[0].tolist() == [[False, True], [True, False]]
    assert knowledge.forbidden[1].tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize("level", [0.0, 1e6 + 0.1])
@pytest.mark.parametrize(("late", "options"), [(39, {"personal": True}), (39, {"scaled": False}), (1, {})])
def test_a_column_that_moves_late_at_every_client_does_no_harm(late: int, options: dict, level: float) -> None:
    """In the held-out fifth only, or in the last row only, where its lag never moves."""
    clients, _ = ct.make_networks(variables=3, clients=2, samples=400, seed=4)
    moved, plain = {}, {}
    for name, table in clients.items():
        values = table.values + level
        values[:-late, 1] = level
        moved[name] = ct.Series.from_arrays(values, features=table.features)
        plain[name] = ct.Series.from_arrays(values[:, [0, 2]], features=["x0", "x2"])
    with warnings.catch_warnings(record=True, action="always") as caught:
        fitted = ct.OneRound(restarts=0, **options).fit(moved)
    words = "x1 at lag 1 does not vary in the rows that were summed: no edge from it was considered"
    said = [str(one.message) for one in caught if "stuck sensor" not in str(one.message)]
    assert said == ([words] if late == 1 else [])
    expected = ct.OneRound(restarts=0, **options).fit(plain)
    np.testing.assert_allclose(fitted.network.within[np.ix_([0, 2], [0, 2])], expected.network.within, atol=1e-4)
    for name, benefit in fitted.benefit.items():
        assert benefit.gain == pytest.approx(expected.benefit[name].gain, abs=0.01)


def test_shares_are_judged_by_columns_that_vary_where_they_are_learned() -> None:
    rows = np.random.default_rng(0).normal(size=(90, 4))
    rows[:60, 1] = 0.0
    others = Gram(90 * np.eye(4), 90.0, np.zeros(4))
    knowledge = PriorKnowledge.read(("a", "b"), 1, (), (), ())
    scores = score_shares(rows, others, knowledge, np.random.default_rng(1))
    assert scores.min() > -10
