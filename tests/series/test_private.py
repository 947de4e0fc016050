"""Private moments of series: what one time point moves is what the noise is sized for, and gaps are filled well."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import cotempo as ct
from cotempo.data import Series
from cotempo.errors import MessageError, ParameterError
from cotempo.federation import Message, Rng
from cotempo.privacy.accounting import compose, gaussian_epsilon
from cotempo.privacy.noise import Noise
from cotempo.series import interpolate
from cotempo.series.moments.moments import sum_windows
from cotempo.series.moments.private import PrivateMoments, as_windows, covariances, sum_steps
from cotempo.series.windows import SeriesRows
from cotempo.testing import check_method
from cotempo.testing.sensitivity import question_of, sensitivity_used

NAMES = json.dumps(["x0", "x1"])
LIMITS = Message({"features": NAMES, "low": np.full(2, -3.0), "high": np.full(2, 3.0)})
STEP = Message({"features": NAMES, "step": np.array([1.0, 2.0])})


def form(window: int | None = None, **privacy: Any) -> PrivateMoments:
    method = ct.FedMoments(window=window, minimum_rows=1)
    return method.private(ct.Privacy(**{"epsilon": 1, "ranges": (-3, 3), "seeded": True, **privacy}))


def moved(private: PrivateMoments, values: np.ndarray, place: int) -> tuple[float, float]:
    """How much of each phase's claim one missing time point uses."""
    without = values.copy()
    without[place] = np.nan
    tables = Series.from_arrays(values), Series.from_arrays(without)
    return sensitivity_used(private, "ranges", tables, LIMITS), sensitivity_used(private, "moments", tables, STEP)


@settings(max_examples=60, deadline=None)
@given(
    values=arrays(np.float64, (12, 2), elements=st.floats(-1e4, 1e4, width=32) | st.just(np.nan)),
    place=st.integers(0, 11),
    window=st.integers(4, 7),
    clip=st.sampled_from([None, 0.5, 30.0]),
)
def test_a_time_point_moves_no_message_by_more_than_is_claimed(
    values: np.ndarray, place: int, window: int, clip: float | None
) -> None:
    if np.isnan(values).all() or np.isnan(np.delete(values, place, axis=0)).all():
        return
    assert max(moved(form(window, clip=clip), values, place)) <= 1 + 1e-9


def test_the_claim_is_not_far_from_what_happens() -> None:
    values = np.cumsum(np.full((30, 2), 100.0), axis=0)  # steps all alike, and clipped
    assert moved(form(4, clip=0.5), values, 15)[1] > 0.85


def test_the_phases_together_spend_the_budget() -> None:
    private = form(epsilon=2.0, delta=1e-5)
    releases = [private.multiplier(phase) for phase, (_, times) in private.budget.items() for _ in range(times)]
    assert gaussian_epsilon(compose(releases), 1e-5) == pytest.approx(2.0, rel=1e-9)


def test_without_noise_and_clipping_they_are_the_moments_of_windows() -> None:
    """Beside `sum_windows`, which sums windows one by one and fills the beginning of a piece with zeros."""
    steps = np.random.default_rng(0).normal(size=(5000, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    rows = SeriesRows(np.cumsum(steps, axis=0), (5000,))
    known = sum_windows(rows, 4)
    exact = known.products / known.counts[0, 0]
    jumps = np.vstack([[[np.nan, np.nan]], np.diff(rows.values, axis=0)])
    found, count = covariances(Message(sum_steps(jumps, rows.lengths, 2, math.inf)), 0.0)
    table = as_windows(found, np.ones(2))
    place = np.array([0, 2, 3])
    assert np.abs(table[place][:, :, place] - exact[place][:, :, place]).max() < 0.01
    assert count == pytest.approx(4999)


def owners(clients: int = 5) -> tuple[dict[str, Series], np.ndarray]:
    """Rows of three features that move together, split among owners, and rows to fill."""
    rng = np.random.default_rng(0)
    shock = rng.normal(size=(12_000, 1)) @ np.ones((1, 3)) + 0.3 * rng.normal(size=(12_000, 3))
    values = np.zeros_like(shock)
    for row in range(1, len(values)):
        values[row] = 0.98 * values[row - 1] + shock[row]
    parts = np.array_split(values[:10_000], clients)
    return {f"client-{k}": Series.from_arrays(part) for k, part in enumerate(parts)}, values[10_000:]


def test_gaps_are_filled_better_than_by_interpolation() -> None:
    clients, truth = owners()
    gone = np.random.default_rng(1).random(truth.shape) < 0.4
    holes = Series.from_arrays(np.where(gone, np.nan, truth))

    def error(filled: np.ndarray) -> float:
        return float(np.abs(filled - truth)[gone].mean())

    linear = error(interpolate(holes).values)
    privacy = ct.Privacy(epsilon=3, ranges=(-60, 60), secure_sum=True, seeded=True)
    fitted = ct.FedMoments().fit(clients, privacy=privacy)
    plain = ct.FedMoments(window=8).fit(clients)
    assert error(fitted["client-0"].impute(holes).values) < 0.75 * linear
    assert error(fitted["client-0"].impute(holes).values) < 1.2 * error(plain["client-0"].impute(holes).values)
    sure = fitted["client-0"].impute(holes, level=0.9)
    assert 0.8 < ((sure.low <= truth) & (truth <= sure.high))[gone].mean() < 0.98
    assert (fitted.privacy["unit"], fitted.privacy["void"], fitted.benefit) == ("row", True, {})


def test_where_noise_is_all_they_fill_like_interpolation() -> None:
    clients, truth = owners()
    holes = truth.copy()
    holes[1::2] = np.nan
    privacy = ct.Privacy(epsilon=0.01, ranges=(-60, 60), seeded=True)
    filled = ct.FedMoments().fit(clients, privacy=privacy).model.impute(Series.from_arrays(holes)).values
    linear = interpolate(Series.from_arrays(holes)).values
    assert np.abs(filled - truth).mean() < 1.5 * np.abs(linear - truth).mean()


def test_what_cannot_be_kept_is_refused_in_words() -> None:
    with pytest.raises(ParameterError, match="epsilon needs ranges"):
        ct.FedMoments().fit(owners()[0], privacy=ct.Privacy(epsilon=1))


def test_the_private_form_keeps_the_contract() -> None:
    method, clients, _ = ct.FedMoments.example()
    private = method.private(ct.Privacy(epsilon=1, ranges=(-3, 3), seeded=True))
    assert set(private.fit(clients, shields=[Noise(private)]).names) == set(clients)
    check_method(private, clients)


def test_a_question_that_names_few_features_does_not_tell_which_were_measured() -> None:
    """A client failed where a feature was measured that the question left out, and answered where it never was."""
    values = np.random.default_rng(0).normal(size=(30, 2))
    values[:, 1] = np.nan
    never, once = values.copy(), values.copy()
    once[3, 1] = 0.0
    common = Message({"features": json.dumps(["x0"]), "low": np.full(1, -3.0), "high": np.full(1, 3.0)})
    for each in (never, once):
        private = form()
        with pytest.raises(ValueError, match="x1"):
            private.answer(question_of("ranges", common), private.prepare(Series.from_arrays(each)), None, Rng(0))


@pytest.mark.parametrize("method", [ct.FedMoments(), ct.FedTDD(common=["x0", "x1"], alpha=0, window=8)])
def test_no_value_of_a_row_decides_whether_a_series_is_refused(method: Any) -> None:
    """Of twenty measured rows, one less and the table was refused."""
    private = method.private(ct.Privacy(epsilon=1, ranges=(-3, 3), seeded=True))
    values = np.full((60, 2), np.nan)
    values[:20] = np.random.default_rng(0).normal(size=(20, 2))
    without = values.copy()
    without[0] = np.nan
    tables = Series.from_arrays(values), Series.from_arrays(without)
    assert sensitivity_used(private, "ranges", tables, LIMITS) <= 1 + 1e-9
    assert sensitivity_used(private, "moments", tables, STEP) <= 1 + 1e-9


@pytest.mark.parametrize(("name", "shape"), [("step", (60, 2)), ("step", ())])
def test_no_shape_of_the_servers_choice_reaches_the_steps(name: str, shape: tuple[int, ...]) -> None:
    private = form()
    prepared = private.prepare(Series.from_arrays(np.random.default_rng(0).normal(size=(60, 2))))
    with pytest.raises(MessageError, match="one number for each of the 2 columns"):
        private.answer(
            question_of("moments", Message({"features": NAMES, name: np.ones(shape)})), prepared, None, Rng(0)
        )
