from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.metrics import average_precision_score, roc_auc_score

import cotempo as ct
from cotempo.errors import CotempoError, DataError, DataWarning, ParameterError
from cotempo.networks import EdgeRanking, Network, Ranking
from cotempo.networks.moments import Sums, transitions
from cotempo.networks.scores.features import JointRows
from cotempo.networks.scores.model_choice import CANDIDATES, predict_ridge, predict_sparse, standard_blocks
from cotempo.networks.scores.pairwise import skewness_direction
from cotempo.networks.scores.parent_sets import evidences, log_odds
from cotempo.testing import CHECKS

SCORES = ("auto", "granger", "lagged", "within", "skewness", "within_skewness", "parent_sets", "fourier")
OFF = ~np.eye(4, dtype=bool)


def small(clients: int = 3, samples: int = 150, **options: Any) -> tuple[dict[str, ct.Series], Network]:
    drawn, truth = ct.make_networks(variables=4, clients=clients, samples=samples, seed=3, **options)
    assert isinstance(truth, Network)
    return drawn, truth


def shifted(clients: dict[str, ct.Series]) -> dict[str, ct.Series]:
    """Other units and levels, which no score may depend on."""
    scale, level = np.array([1.0, 100.0, 0.01, 7.0]), np.array([0.0, 5e3, -2.0, 1e4])
    return {name: ct.Series.from_arrays(one.values * scale + level) for name, one in clients.items()}


def residual(target: np.ndarray, columns: list[np.ndarray]) -> float:
    design = np.column_stack([np.ones(len(target)), *columns])
    fit = np.linalg.lstsq(design, target, rcond=None)[0]
    return float(((target - design @ fit) ** 2).sum())


@pytest.mark.parametrize("lags", [1, 2])
def test_granger_is_the_f_statistic_of_two_regressions(lags: int) -> None:
    clients, _ = small(lags=lags)
    ranking = ct.rank_edges(shifted(clients), score="granger", lags=lags)
    rows = np.vstack([transitions(series.values, lags) for series in clients.values()])
    for source, target in itertools.permutations(range(4), 2):
        own = [rows[:, 4 * lag + target] for lag in range(1, lags + 1)]
        other = [rows[:, 4 * lag + source] for lag in range(1, lags + 1)]
        less, more = residual(rows[:, target], own), residual(rows[:, target], own + other)
        expected = (less - more) / lags / (more / (len(rows) - 2 * lags - 1))
        assert ranking.scores[source, target] == pytest.approx(expected, rel=1e-6)


def test_partial_correlations_are_those_of_residuals() -> None:
    clients, _ = small()
    within, lagged = (ct.rank_edges(shifted(clients), score=score, lags=1).scores for score in ("within", "lagged"))
    now = np.vstack([series.values for series in clients.values()])
    rows = np.vstack([transitions(series.values, 1) for series in clients.values()])

    def partial(first: np.ndarray, second: np.ndarray, given: np.ndarray) -> float:
        design = np.column_stack([np.ones(len(first)), given])
        left = [one - design @ np.linalg.lstsq(design, one, rcond=None)[0] for one in (first, second)]
        return abs(float(np.corrcoef(*left)[0, 1]))

    for source, target in itertools.permutations(range(4), 2):
        others = [index for index in range(4) if index not in (source, target)]
        assert within[source, target] == pytest.approx(
            partial(now[:, source], now[:, target], now[:, others]), rel=1e-7
        )
        past = [4 + index for index in range(4) if index != source]
        expected = partial(rows[:, 4 + source], rows[:, target], rows[:, past])
        assert lagged[source, target] == pytest.approx(expected, rel=1e-7)


def test_skewness_points_from_cause_to_effect_whatever_the_signs() -> None:
    rng = np.random.default_rng(0)
    cause = rng.exponential(size=2000)
    for sign, slope in itertools.product((1.0, -1.0), (0.7, -0.7)):
        values = np.column_stack([sign * cause, slope * cause + rng.normal(size=2000)]) + 50.0
        clients = {"a": ct.Series.from_arrays(values[:800]), "b": ct.Series.from_arrays(values[800:])}
        scores = ct.rank_edges(clients, score="skewness").scores
        assert scores[0, 1] > 3 > -3 > scores[1, 0]
        deviations = values - values.mean(axis=0)
        direct = skewness_direction(deviations.T @ deviations, (deviations**2).T @ deviations, 2000.0)
        np.testing.assert_allclose(scores[~np.eye(2, dtype=bool)], direct[~np.eye(2, dtype=bool)], rtol=1e-6)


def test_parent_sets_agree_with_marginal_likelihoods_worked_out_one_by_one() -> None:
    clients, _ = small(clients=1, samples=60)
    rows = transitions(next(iter(clients.values())).values, 1)
    rows = rows - rows.mean(axis=0)
    found = evidences(rows.T @ rows, len(rows) - 1.0)
    standard = rows / np.sqrt((rows**2).sum(axis=0) / (len(rows) - 1))
    target = 2
    own = standard[:, 4 + target]
    left = standard - np.outer(own, own @ standard) / (own @ own)

    def evidence(parents: tuple[int, ...]) -> float:
        y, z = left[:, target], left[:, [4 + parent for parent in parents]]
        ridged = z.T @ z + np.eye(len(parents))
        rest = y @ y - y @ z @ np.linalg.solve(ridged, z.T @ y)
        return float(-0.5 * np.linalg.slogdet(ridged)[1] - (0.5 + (len(rows) - 2) / 2) * np.log(0.5 + rest / 2))

    sources = [0, 1, 3]
    assert found.none[target] == pytest.approx(evidence(()))
    for source in sources:
        assert found.one[target, source] == pytest.approx(evidence((source,)))
    for pair in itertools.combinations(sources, 2):
        assert found.two[target, pair[0], pair[1]] == pytest.approx(evidence(pair))
    odds = log_odds(found)
    assert np.isfinite(odds[OFF]).all()


def test_the_source_prior_finds_hubs() -> None:
    rng = np.random.default_rng(1)
    values = np.zeros((61, 20))
    for time in range(1, 61):
        values[time] = 0.5 * values[time - 1] + 0.35 * values[time - 1, 0] + rng.normal(size=20)
    rows = transitions(values, 1)
    rows = rows - rows.mean(axis=0)
    odds = log_odds(evidences(rows.T @ rows, 59.0))
    np.fill_diagonal(odds, np.nan)
    assert np.nanmedian(odds[0]) > np.nanmax(np.nanmedian(odds[1:], axis=1)) + 2.0


def test_ridge_prediction_is_that_of_a_student_t_process() -> None:
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.normal(size=(60, 2)), axis=0) * 0.1 + rng.normal(size=(60, 2))
    design = JointRows(2, 1)
    sums = Sums.stack([Sums.of_rows(part) for part in np.array_split(design.rows(values), 5)])
    problem = standard_blocks(sums).select(design.columns, 1, ("lag",))
    rows = design.rows(values)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    parts = np.array_split(rows, 5)

    def marginal(part: np.ndarray, strength: float) -> float:
        total = 0.0
        for target in range(2):
            shape = np.eye(len(part)) + strength * part[:, 2:] @ part[:, 2:].T
            y = part[:, target]
            power = 0.5 + len(part) / 2
            total += (
                -0.5 * np.linalg.slogdet(shape)[1]
                - power * np.log(0.5 + y @ np.linalg.solve(shape, y) / 2)
                + gammaln(power)
                - len(part) / 2 * np.log(2 * np.pi)
            )
        return float(total)

    expected = 0.0
    for index in range(5):
        rest = np.vstack([part for other, part in enumerate(parts) if other != index])
        strength = max(10.0 ** np.arange(-4, 3), key=lambda one: marginal(rest, one))
        expected += marginal(rows, strength) - marginal(rest, strength)
    assert predict_ridge(problem) == pytest.approx(expected, rel=1e-6)
    assert np.isfinite(predict_sparse(problem))


def test_the_rule_takes_more_lags_where_they_matter() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(600, 4))
    for time in range(2, 600):
        values[time, 1] += 0.8 * values[time - 2, 0]
    clients = {"a": ct.Series.from_arrays(values[:300]), "b": ct.Series.from_arrays(values[300:])}
    ranking = ct.rank_edges(clients)
    assert ranking.choice.startswith("linear-2")
    assert set(ranking.likelihoods) == {f"{name}, {kind}" for name in CANDIDATES for kind in ("ridge", "sparse")}
    assert ranking.likelihoods[ranking.choice] == max(ranking.likelihoods.values())
    assert ranking.top(1)[0][:2] == ("x0", "x1")


@pytest.mark.parametrize("score", SCORES)
def test_split_clients_give_what_pooled_rows_give(score: str) -> None:
    lags = 5 if score == "auto" else 1
    whole, truth = small(clients=1, lags=lags)
    parts, _ = small(clients=6, lags=lags)
    if score in ("within", "skewness", "within_skewness"):  # no lag: parts must not overlap
        rows = whole["client-0"].values
        parts = {f"c{index}": ct.Series.from_arrays(part) for index, part in enumerate(np.array_split(rows, 4))}
    if score == "parent_sets":  # a series is centred by itself: give both the same series
        pooled = ct.Series.from_arrays([series.values for series in parts.values()])
        whole = {"client-0": pooled}
    together, alone = (ct.rank_edges(clients, score=score, lags=1) for clients in (parts, whole))
    if score == "auto":
        assert together.choice.split(", ")[0] in CANDIDATES  # blocks are others, so the choice may be
        return
    if score in (
        "granger",
        "lagged",
        "fourier",
    ):  # overlapping rows count twice in the levels, so units differ a little
        assert np.corrcoef(together.scores[OFF], alone.scores[OFF])[0, 1] > 0.999
    else:
        np.testing.assert_allclose(together.scores[OFF], alone.scores[OFF], rtol=1e-6)
    assert np.isnan(together.scores.diagonal()).all()
    assert set(together.compare(truth)) == {"auroc", "aupr"}


@pytest.mark.parametrize("score", ["granger", "lagged"])
def test_linear_scores_do_not_depend_on_how_rows_are_split(score: str) -> None:
    whole, _ = small(clients=1)
    parts, _ = small(clients=8)
    scores = [ct.rank_edges(clients, score=score, lags=1).scores[OFF] for clients in (whole, parts)]
    np.testing.assert_allclose(*scores, rtol=1e-8)


@pytest.mark.parametrize("score", SCORES)
def test_only_sums_are_used_and_nobody_is_named(score: str) -> None:
    clients, _ = small()
    method = EdgeRanking(score=score)
    fitted = method.fit(clients)
    assert fitted.rounds == 1
    for phase in ("levels", "histogram", "moments"):
        assert method.expects(fitted.state, phase).sums


@pytest.mark.parametrize("settings", [{"score": "granger", "copula": True}, {"score": "fourier", "features": 3}])
@pytest.mark.parametrize(
    "check",
    ["same_seed_same_bits", "order_of_clients_is_irrelevant", "nothing_raw_crosses", "state_and_memory_survive_disk",
     "verbs_change_nothing_they_are_given", "bad_messages_are_left_out"],
)  # fmt: skip
def test_contract_for_other_scores(settings: dict[str, Any], check: str, tmp_path: Path) -> None:
    clients, _ = small(clients=4, samples=200)
    CHECKS[check](EdgeRanking(**settings), clients, None, tmp_path)


def test_missing_cells_are_left_out() -> None:
    clients, _ = small(samples=600, missing=0.05)
    assert np.isfinite(ct.rank_edges(clients, score="granger").scores[OFF]).all()
    assert np.isfinite(ct.rank_edges(clients, score="lagged", copula=True).scores[OFF]).all()


def test_a_ranking_compares_as_sklearn_does_and_becomes_a_table() -> None:
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=(4, 4)), rng.random((4, 4)) < 0.4
    ranking = Ranking(scores, ("a", "b", "c", "d"), "any")
    areas = ranking.compare(truth)
    assert areas["auroc"] == pytest.approx(roc_auc_score(truth[OFF], scores[OFF]))
    assert areas["aupr"] == pytest.approx(average_precision_score(truth[OFF], scores[OFF]))
    frame = ranking.to_frame()
    assert list(frame.columns) == ["source", "target", "score"]
    assert len(frame) == 12
    assert frame["score"].is_monotonic_decreasing
    assert ranking.to_frame("polars").shape == (12, 3)
    assert ranking.plot().axes
    with pytest.raises(ParameterError, match="did you mean 'polars'"):
        ranking.to_frame("polar")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="one row and column per variable"):
        ranking.compare(np.eye(3))


def test_a_truth_is_compared_by_the_names_of_its_variables() -> None:
    """A gold standard in another order of genes scored .32 instead of .71, and other names as if right."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    ranking = Ranking(rng.normal(size=(4, 4)), ("a", "b", "c", "d"), "any")
    known = np.where(OFF & (rng.random((4, 4)) < 0.4), 1.0, 0.0)
    wanted, names = ranking.compare(known), list("dbac")
    square = pandas.DataFrame(known, list("abcd"), list("abcd"))
    turned = square.loc[names, names]
    network = ct.Network(np.zeros((4, 4)), turned.to_numpy()[None], names)
    for truth in (square, turned, square.loc[names], network, network.edges(), network.edges("polars")):
        assert ranking.compare(truth) == wanted
    with pytest.raises(DataError, match="it lacks a"):
        ranking.compare(square.rename(index={"a": "e"}, columns={"a": "e"}))
    with pytest.warns(DataWarning, match="left out of the truth, because they were not learned: e"):
        ranking.compare(network.edges().replace("b", "e"))
    with pytest.raises(DataError, match="it lacks d"):
        ranking.compare(square.loc[list("abc"), list("abc")])


def test_variables_of_the_truth_that_no_client_measured_are_left_out() -> None:
    rng = np.random.default_rng(1)
    ranking = Ranking(rng.normal(size=(3, 3)), ("a", "b", "c"), "any")
    across = np.zeros((1, 5, 5))
    across[0, [0, 1, 3, 4], [1, 2, 0, 4]] = 1.0
    truth = ct.Network(np.zeros((5, 5)), across, ("a", "b", "c", "d", "e"))
    with pytest.warns(DataWarning, match="not learned: d, e"):
        assert ranking.compare(truth) == ranking.compare(truth.among("abc"))


def test_a_fit_is_saved_and_read_again(tmp_path: Path) -> None:
    clients, truth = small()
    fitted = EdgeRanking().fit(clients)
    again = ct.load(fitted.save(tmp_path / "ranking"))
    np.testing.assert_array_equal(again.ranking.scores, fitted.ranking.scores)
    assert again.ranking.likelihoods == fitted.ranking.likelihoods
    assert again.scores(truth) == fitted.scores(truth)


def test_wrong_settings_are_answered_with_what_must_hold() -> None:
    with pytest.raises(ParameterError, match="score"):
        EdgeRanking(score="grange")
    with pytest.raises(ParameterError, match="copula needs one of the scores"):
        EdgeRanking(score="auto", copula=True)
    with pytest.raises(ParameterError, match="did you mean 'squares'"):
        EdgeRanking(candidates=("square",))
    with pytest.raises(ParameterError, match="lags"):
        EdgeRanking(lags=0)


def test_candidates_that_are_too_large_are_left_out_and_named() -> None:
    values = np.random.default_rng(0).normal(size=(200, 80))
    values[1:, 3] += values[:-1, 7]
    ranking = ct.rank_edges({"a": ct.Series.from_arrays(values)})
    assert ranking.top(1)[0][:2] == ("x7", "x3")
    (words,) = ranking.left_out
    assert words.startswith("candidate products: of 80 variables it makes 3400 columns")
    assert not any(name.startswith("products") for name in ranking.likelihoods)
    with pytest.raises(ParameterError, match="offer more candidates"):
        ct.rank_edges({"a": ct.Series.from_arrays(values)}, candidates=("products",))


def strange(clients: dict[str, ct.Series]) -> dict[str, ct.Series]:
    """Further columns: two values equally often, constant ones, and ones that move once, halfway or at the end."""

    def widen(values: np.ndarray) -> np.ndarray:
        rows = len(values)
        middle, end, coin = np.zeros(rows), np.zeros(rows), np.arange(rows) // 7 % 2
        middle[rows // 2] = end[-1] = 1.0
        return np.column_stack([values, coin, np.full(rows, 0.1), np.full(rows, 0.1), middle, end])

    names = ["x0", "x1", "x2", "x3", "coin", "still", "quiet", "middle", "end"]
    return {name: ct.Series.from_arrays(widen(series.values), features=names) for name, series in clients.items()}


@pytest.mark.parametrize("score", SCORES)
def test_columns_that_hardly_vary_or_do_not_are_no_obstacle(score: str) -> None:
    clients, _ = small(samples=840)
    ranking = ct.rank_edges(strange(clients), score=score)
    assert ranking.left_out[:2] == ("still: it does not vary at any client", "quiet: it does not vary at any client")
    off = ~np.eye(9, dtype=bool)
    quiet = np.zeros((9, 9), dtype=bool)
    quiet[5:7] = quiet[:, 5:7] = True
    assert (ranking.scores[quiet & off] == -np.inf).all()
    assert not np.isnan(ranking.scores[off]).any()
    assert np.isfinite(ranking.scores[~quiet & off & (np.arange(9) != 8)[:, None]]).all()
    assert len(ranking.to_frame()) == 72


def test_a_square_that_does_not_vary_is_no_feature() -> None:
    """A column with two values is an effect of its sign alone: standardised, its square is one."""
    rng = np.random.default_rng(0)
    coin = np.where(np.arange(400) // 2 % 2 == 0, 1.0, 5.0)
    effect = rng.normal(size=400)
    effect[1:] += 0.5 * (coin[:-1] - 3.0)
    ranking = ct.rank_edges({"a": ct.Series.from_arrays(np.column_stack([coin, effect]))})
    assert ranking.left_out == ("the square of x0 at lag 1: it does not vary",)
    assert ranking.top(1)[0][:2] == ("x0", "x1")


def test_a_duplicated_constant_column_changes_nothing() -> None:
    clients, _ = small()
    still = {
        name: np.column_stack([series.values, np.full(len(series.values), 3.0)]) for name, series in clients.items()
    }
    once = ct.rank_edges({name: ct.Series.from_arrays(values) for name, values in still.items()})
    twice = ct.rank_edges(
        {name: ct.Series.from_arrays(values[:, [0, 1, 2, 3, 4, 4]]) for name, values in still.items()}
    )
    np.testing.assert_array_equal(once.scores[:4, :4], twice.scores[:4, :4])
    np.testing.assert_allclose(once.scores[:4, :4], ct.rank_edges(clients).scores, rtol=1e-9)


def test_lags_are_chosen_where_none_are_given() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(400, 4))
    for time in range(3, 400):
        values[time, 1] += 0.8 * values[time - 3, 0]
    clients = {"a": ct.Series.from_arrays(values[:200]), "b": ct.Series.from_arrays(values[200:])}
    for score in ("granger", "lagged", "fourier"):
        ranking = ct.rank_edges(clients, score=score)
        assert ranking.choice == "linear-3"
        assert ranking.top(1)[0][:2] == ("x0", "x1")
        assert ranking.likelihoods[ranking.choice] == max(ranking.likelihoods.values())
    given, chosen = (ct.rank_edges(clients, score="granger", lags=lags) for lags in (3, "auto"))
    assert np.corrcoef(given.scores[OFF], chosen.scores[OFF])[0, 1] > 0.99
    assert given.choice == ""


def test_lags_that_leave_few_rows_are_left_out() -> None:
    rng = np.random.default_rng(3)
    short = ct.Series.from_arrays([rng.normal(size=(5, 3)) for _ in range(30)])
    ranking = ct.rank_edges({"a": ct.Series.from_arrays(rng.normal(size=(90, 3))), "b": short})
    assert [words.split(":")[0] for words in ranking.left_out] == ["candidate linear-5"]


def test_bad_tables_are_named() -> None:
    clients, _ = small()
    constant = {name: ct.Series.from_arrays(series.values * [1, 0, 0, 0]) for name, series in clients.items()}
    with pytest.raises(DataError, match="at least two variables must vary over all clients"):
        ct.rank_edges(constant, score="granger")
    short = {**clients, "short": ct.Series.from_arrays(clients["client-0"].values[:5])}
    with pytest.raises(CotempoError, match="short"):
        ct.rank_edges(short, score="granger")
    empty = clients["client-0"].values.copy()
    empty[:, 2] = np.nan
    with pytest.raises(CotempoError, match="empty"):
        ct.rank_edges({**clients, "empty": ct.Series.from_arrays(empty)}, score="granger")
    few = {"a": ct.Series.from_arrays(np.random.default_rng(0).normal(size=(12, 10)))}
    with pytest.raises(DataError, match="set shrinkage"):
        ct.rank_edges(few, score="lagged")
    assert np.isfinite(ct.rank_edges(few, score="lagged", shrinkage=0.3).scores[0, 1])
    with pytest.raises(DataError, match="perturbed_until"):
        ct.rank_edges(clients, score="parent_sets", perturbed_until=1e9)


def test_a_ranking_takes_privacy_as_fit_does() -> None:
    clients, _ = ct.make_networks(variables=3, clients=3, samples=120, degree=0, seed=1)
    plain, masked = (ct.rank_edges(clients, "granger", privacy=p) for p in (None, ct.Privacy(secure_sum=True)))
    np.testing.assert_allclose(masked.scores, plain.scores, rtol=1e-5)
