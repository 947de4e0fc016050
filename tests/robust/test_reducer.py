"""`Robust`: sums row by row, bounds, suspects, lost clients, and groups under the secure sum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.errors import ParameterError
from cotempo.federation import EMPTY, Expect, Message, Question, Reply, Spec
from cotempo.federation.reducers import PlainReducer
from cotempo.privacy.settings import Privacy
from cotempo.robust.groups import GroupedSum
from cotempo.robust.per_row import relations
from cotempo.robust.reducer import SCREEN, Robust

SIDE = 4
PAIRS = np.triu_indices(SIDE)
EXPECT = Expect(
    {
        "count": Spec((1,), low=0),
        "products": Spec((1, 10), packed=True),
        "flag": Spec((), "float", low=0, high=1),
    },
    sums=True,
    rows=lambda message: float(message["count"][0]),
)


def answer(rows: int, seed: int, change: Any = lambda values: values, flag: float = 0.0) -> Message:
    values = change(np.random.default_rng(seed).normal(size=(rows, SIDE)) * np.array([1.0, 1e3, 1.0, 1e-3]))
    return Message({"count": np.array([float(rows)]), "products": (values.T @ values)[PAIRS][None], "flag": flag})


def ask(messages: dict[str, Message | None], reducer: Any, expect: Expect = EXPECT) -> Any:
    questions = [Question("run", 1, 1, "sums", name, 0, 0, EMPTY, EMPTY) for name in sorted(messages)]

    def exchange(asked: Sequence[Question], expect: Expect) -> Iterable[Reply]:
        for question in reversed(asked):
            message = messages[question.client]
            yield question.fail("Lost") if message is None else question.reply(message)

    return reducer.gather(exchange, questions, expect)


def honest(count: int = 8) -> dict[str, Message | None]:
    return {f"c{index}": answer(200 + 300 * (index % 3), index) for index in range(count)}


def forged(values: Any) -> Any:
    values = values.copy()
    values[:, 0] += 2 * values[:, 2]
    return values


def test_screening_changes_no_bit_where_nobody_stands_out() -> None:
    told = honest()
    found, plain = ask(told, SCREEN), ask(told, PlainReducer())
    assert found.sum == plain.sum
    assert not found.failures


def test_a_forged_edge_is_left_out_and_named_whatever_the_size_of_its_sender() -> None:
    for rows in (150, 500, 50_000):
        told = honest()
        told["c3"] = answer(rows, 3, forged)
        found = ask(told, SCREEN)
        (failure,) = found.failures
        assert (failure.client, failure.kind) == ("c3", "Suspect")
        assert "'products'" in failure.detail
        rest = {name: message for name, message in told.items() if name != "c3"}
        assert found.sum == ask(rest, PlainReducer()).sum


def test_a_small_honest_client_is_no_suspect() -> None:
    for seed in range(20):
        told = {**honest(), "small": answer(12, 100 + seed)}
        assert not ask(told, SCREEN).failures


def test_of_few_clients_nobody_is_called_a_liar() -> None:
    told = {name: message for name, message in honest().items() if name < "c4"}
    told["c3"] = answer(500, 3, forged)
    assert not ask(told, SCREEN).failures


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "multi_krum", "geometric_median", "centred_clipping"])
@pytest.mark.parametrize("mixing", [False, True])
def test_rules_give_moments_of_honest_rows_and_count_all(rule: Any, mixing: bool) -> None:
    told = honest(10)
    truth = ask(told, PlainReducer()).sum
    told["c3"], told["c4"] = answer(500, 3, lambda v: 30 * v), answer(500, 4, forged)
    told["c5"] = None
    found = ask(told, Robust(rule, mixing=mixing, cap=None))
    assert found.names == tuple(name for name in sorted(told) if name != "c5")
    rows = sum(float(message["count"][0]) for message in told.values() if message)
    assert float(found.sum["count"][0]) == pytest.approx(rows)
    spread = np.sqrt(truth["products"][0][[0, 4, 7, 9]] / truth["count"][0])
    scale = np.outer(spread, spread)[PAIRS]
    near = found.sum["products"][0] / rows / scale - truth["products"][0] / truth["count"][0] / scale
    assert np.abs(near).max() < 0.25
    matrix = np.zeros((SIDE, SIDE))
    matrix[PAIRS] = matrix.T[PAIRS] = found.sum["products"][0] / scale
    assert np.linalg.eigvalsh(matrix)[0] > -1e-6 * rows


def test_the_mean_is_the_plain_sum() -> None:
    told = {**honest(), "c1": answer(300, 1, flag=1.0)}
    found, plain = ask(told, Robust("mean", cap=None)).sum, ask(told, PlainReducer()).sum
    assert found.weight == pytest.approx(plain.weight)
    for name in plain:
        np.testing.assert_allclose(found[name], plain[name], rtol=1e-9)


def test_the_cap_bounds_rows_and_weights() -> None:
    told = honest()
    told["c0"] = answer(400_000, 0)
    found = ask(told, Robust("screen", cap=3.0))
    assert float(found.sum["count"][0]) < 8 * 3 * 800
    weighted = Expect({"mean": Spec((3,))}, sums=True, weight=(1, 1e12))
    means: dict[str, Message | None] = {f"c{i}": Message({"mean": np.ones(3)}, weight=10) for i in range(6)}
    means["c0"] = Message({"mean": np.full(3, 7.0)}, weight=10_000)
    capped = ask(means, Robust("screen", cap=3.0), weighted)
    np.testing.assert_allclose(capped.mean("mean"), (5 * 1 + 3 * 7) / 8)


def test_a_claim_of_more_rows_than_declared_is_refused() -> None:
    clients = ct.make_series(clients=6, seed=0)[0]
    attack = ct.Attack("inflated_weight", clients=("client-2",))
    fitted = ct.FedMean().fit(clients, attack=attack, progress=False)
    failures = [failure for failure in fitted.failures if failure["phase"] == "mean"]
    assert [failure["client"] for failure in failures] == ["client-2"]
    assert "rows declared" in failures[0]["detail"]


def test_groups_under_the_secure_sum_are_as_in_the_clear() -> None:
    clients = ct.make_series(clients=9, length=60, seed=0)[0]
    secure = Privacy(secure_sum=True)
    masked = ct.FedMean().fit(clients, reducer=ct.Robust("median"), privacy=secure, progress=False)
    groups = [sorted(clients)[first::3] for first in range(3)]
    means = [np.mean([clients[name].values.mean(axis=0) for name in group], axis=0) for group in groups]
    np.testing.assert_allclose(masked.mean, np.median(means, axis=0), atol=1e-6)


def test_a_liar_under_the_secure_sum_spoils_its_group_only() -> None:
    clients = ct.make_series(clients=9, length=60, seed=0)[0]
    attack, secure = ct.Attack("scaling", clients=("client-4",), strength=1e4), Privacy(secure_sum=True)
    lied = ct.FedMean().fit(clients, attack=attack, reducer=ct.Robust("median"), privacy=secure, progress=False)
    plain = ct.FedMean().fit(clients, attack=attack, privacy=secure, progress=False)
    honest_mean = ct.FedMean().fit(clients, progress=False).mean
    assert np.abs(lied.mean - honest_mean).max() < 1.0 < np.abs(plain.mean - honest_mean).max()


def test_groups_need_nine_clients() -> None:
    clients = ct.make_series(clients=8, length=60, seed=0)[0]
    with pytest.raises(ParameterError, match="at least 9 clients"):
        ct.FedMean().fit(clients, reducer=ct.Robust("median"), privacy=Privacy(secure_sum=True), progress=False)
    assert [len(group) for group in GroupedSum(Robust()).groups([f"c{index:02}" for index in range(11)])] == [4, 4, 3]


VOTES = Expect({"likelihood": Spec((3,), votes=True)}, sums=True)


def vote(*values: float) -> Message:
    return Message({"likelihood": np.array(values)})


def test_a_few_cannot_force_their_choice_on_the_others() -> None:
    told: dict[str, Message | None] = {f"c{index}": vote(-10.0 - 0.1 * index, -12.0, -11.5) for index in range(6)}
    told |= {"c6": vote(-900.0, -900.0, 0.0), "c7": vote(-900.0, -900.0, 0.0)}
    assert ask(told, PlainReducer(), VOTES).sum["likelihood"].argmax() == 2
    assert ask(told, SCREEN, VOTES).sum["likelihood"].argmax() != 2


def test_votes_that_cost_the_others_little_count_as_they_are() -> None:
    told: dict[str, Message | None] = {f"c{index}": vote(-10.0, -10.2, -10.1) for index in range(6)}
    told |= {"c6": vote(-30.0, -28.0, -25.0), "c7": vote(0.0, 0.0, 0.0)}
    assert ask(told, SCREEN, VOTES).sum == ask(told, PlainReducer(), VOTES).sum


def test_scale_is_forgiven_where_relations_are_compared_and_a_forged_relation_is_not() -> None:
    expect = replace(EXPECT, alike=lambda message: relations(message["products"] / message["count"]))
    told = {name: answer(400, index, lambda v, s=3.0 ** (index % 3): s * v) for index, name in enumerate("abcdefgh")}
    assert not ask(told, SCREEN, expect).failures
    told["c"] = answer(400, 2, lambda values: forged(9 * values))
    assert [failure.client for failure in ask(told, SCREEN, expect).failures] == ["c"]


def test_sums_of_no_rows_are_left_out() -> None:
    told = honest()
    told["c3"] = Message({**answer(500, 3), "count": np.zeros(1)})
    found = ask(told, SCREEN, replace(EXPECT, alike=lambda message: {"sums": message["count"]}))
    assert [(one.client, one.kind) for one in found.failures] == [("c3", "Suspect")]


def test_single_answers_are_screened_and_the_rest_is_kept() -> None:
    expect = Expect({"model": Spec((20,), "float32")}, rows=lambda message: 1.0)
    models = np.random.default_rng(0).normal(size=(8, 20)).astype(np.float32)
    models[3] *= -30
    found = ask({f"c{index}": Message({"model": model}) for index, model in enumerate(models)}, SCREEN, expect)
    assert [failure.client for failure in found.failures] == ["c3"]
    assert "c3" not in found.names
    assert np.array_equal(found["c2"]["model"], models[2])


def test_an_answer_that_is_not_summed_does_not_hide_behind_a_small_weight() -> None:
    expect = Expect({"weights": Spec((50,))}, rows=lambda message: 1.0)
    told = {f"client-{k}": Message({"weights": np.full(50, 1.0 + k / 10)}, weight=30.0) for k in range(7)}
    told["liar"] = Message({"weights": np.full(50, 9.0)}, weight=1e-3)
    assert [failure.client for failure in ask(told, SCREEN, expect).failures] == ["liar"]
