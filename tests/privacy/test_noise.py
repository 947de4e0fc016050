"""Noise is of the size that was paid for, exact in fixed point, and stops at the budget."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.errors import MessageError, ParameterError
from cotempo.federation import Message, Question, Rng
from cotempo.privacy.accounting import compose, gaussian_epsilon
from cotempo.privacy.discrete_gaussian import share_deviation
from cotempo.privacy.histograms import histograms
from cotempo.privacy.noise import GRID_BITS, Noise, add_noise, grid_exponent
from cotempo.privacy.private_form import PrivateForm
from cotempo.privacy.secure_sum.shamir import threshold
from cotempo.privacy.settings import Privacy
from cotempo.testing.sensitivity import question_of as question

RNG = Rng(0, "a", 1)


def private(**changes: object) -> PrivateForm:
    values = {"epsilon": 2.0, "ranges": (-5.0, 5.0), "seeded": True, **changes}
    form = ct.OneRound().private(Privacy(**values))
    assert isinstance(form, PrivateForm)
    return form


def ranges_message(value: float = 0.0) -> Message:
    return Message({"histograms": np.full((3, 64), value)})


def test_the_phases_together_spend_the_budget_and_no_more() -> None:
    form = private(epsilon=2.0, delta=1e-5)
    releases = [form.multiplier(phase) for phase, (_, times) in form.budget.items() for _ in range(times)]
    assert gaussian_epsilon(compose(releases), 1e-5) == pytest.approx(2.0, rel=1e-9)


def test_noise_has_the_deviation_of_multiplier_times_scale() -> None:
    uniforms = np.random.default_rng(0).random
    whole = add_noise(np.zeros(20_000), 3.0, 2.0, 1, uniforms)
    share = add_noise(np.zeros(20_000), 3.0, 2.0, 4, uniforms)
    assert whole.std() == pytest.approx(6.0, rel=0.03)
    assert share.std() == pytest.approx(3.0, rel=0.03)


def test_noised_values_lie_on_a_power_of_two_grid_so_that_fixed_point_holds_them_exactly() -> None:
    values = np.random.default_rng(1).normal(size=500) * 1e3
    noised = add_noise(values, 1.7, 0.9, 3, np.random.default_rng(2).random)
    steps = noised / 2.0 ** grid_exponent(1.7, 0.9)
    assert (steps == np.rint(steps)).all()
    assert np.abs(steps).max() < 2**53
    assert 2.0 ** grid_exponent(1.7, 0.9) <= 1.7 * 0.9 * 2.0**-GRID_BITS


def test_noise_comes_from_the_system_unless_it_is_seeded() -> None:
    seeded, free = private(), private(seeded=False)
    message = ranges_message()
    assert Noise(seeded).protect(message, question("ranges"), RNG) == Noise(seeded).protect(
        message, question("ranges"), RNG
    )
    assert Noise(free).protect(message, question("ranges"), RNG) != Noise(free).protect(
        message, question("ranges"), RNG
    )


def test_shares_are_sized_by_the_clients_that_must_stay() -> None:
    form = private()
    alone = Noise(form).protect(ranges_message(), question("ranges"), RNG)["histograms"]
    shared = Noise(form, lambda question: 9).protect(ranges_message(), question("ranges"), RNG)["histograms"]
    expected = form.multiplier("ranges") * math.sqrt(3)
    assert alone.std() == pytest.approx(expected, rel=0.2)
    assert shared.std() == pytest.approx(expected / 3, rel=0.2)


def test_a_phase_is_answered_as_often_as_its_budget_pays_for() -> None:
    noise = Noise(private(seeded=False))
    noise.protect(ranges_message(), question("ranges"), RNG)
    noise.protect(ranges_message(), question("ranges", client="b"), RNG)
    with pytest.raises(MessageError, match="at most 1 times"):
        noise.protect(ranges_message(), question("ranges", step=2), RNG)


def test_a_restarted_site_does_not_noise_a_step_again(tmp_path: Path) -> None:
    """The stored answer may be lost; fresh noise for the same sums would average out."""
    path, form = tmp_path / "noised.json", private(seeded=False)
    Noise(form, path=path).protect(ranges_message(), question("ranges"), RNG)
    for step, words in ((1, "step 1 was noised before"), (2, "at most 1 times")):
        with pytest.raises(MessageError, match=words):
            Noise(form, path=path).protect(ranges_message(), question("ranges", step=step), RNG)


def test_what_no_budget_is_for_does_not_leave() -> None:
    noise = Noise(private())
    assert noise.protect(Message(), question("other"), RNG) == Message()
    with pytest.raises(MessageError, match="must send nothing"):
        noise.protect(Message({"rows": 3}), question("other"), RNG)
    with pytest.raises(MessageError, match="must have a scale"):
        noise.protect(Message({"histograms": np.zeros((3, 64)), "rows": 3}), question("ranges"), RNG)
    with pytest.raises(MessageError, match="weight 1"):
        noise.protect(Message({"histograms": np.zeros((3, 64))}, weight=40), question("ranges", step=1), RNG)


def test_a_method_without_a_private_form_names_those_that_have_one() -> None:
    with pytest.raises(ParameterError, match=r"FedMean.*no differentially private form.*OneRound"):
        ct.FedMean().private(Privacy(epsilon=1))


def test_a_unit_that_cannot_be_protected_is_refused() -> None:
    with pytest.raises(ParameterError, match="unit must be 'row' for OneRound, got 'client'"):
        private(unit="client")


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"epsilon": math.nan}, {"epsilon": math.inf}, {"delta": 1},
                                   {"ranges": (1, 1)}, {"ranges": {"x": (0, math.nan)}}, {"clip": -1},
                                   {"clip": 1e-320}, {"clip": 1e200}, {"clip": math.nan}, {"ranges": (0, 5e-324)},
                                   {"ranges": (-1e308, 1e308)}])  # fmt: skip
def test_settings_that_promise_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        Privacy(**wrong)


@pytest.mark.parametrize(
    "extreme", [{"ranges": (0, 1e-50)}, {"ranges": (-4e49, 4e49)}, {"clip": 1e-50}, {"clip": 1e50}]
)
@pytest.mark.parametrize("method", [ct.OneRound, ct.FDBNL, ct.FedMoments])
def test_what_is_noised_is_a_number_whatever_the_settings_and_the_data(
    method: type[ct.Method], extreme: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is none, it would tell of a value, and noise does not cover that."""
    tables, _ = ct.make_networks(variables=3, clients=3, samples=300, seed=0)
    values = tables["client-0"].values.copy()
    values[5], values[50] = 0.0, 1e300
    tables = {**tables, "client-0": ct.Series.from_arrays(values)}
    protect, seen = Noise.protect, []

    def listen(self: Noise, message: Message, asked: Question, rng: Rng) -> Message:
        seen.append(all(np.isfinite(np.asarray(value)).all() for value in message.values()))
        return protect(self, message, asked, rng)

    monkeypatch.setattr(Noise, "protect", listen)
    method().fit(tables, privacy=Privacy(**{"epsilon": 1, "ranges": (-15, 15), **extreme}), progress=False)
    assert seen
    assert all(seen)


@pytest.mark.parametrize("limits", [(37.5, 37.5), (math.nan, 1.0), (-math.inf, 37.5), (40.0, 30.0), (0.0, 5e-324)])
def test_no_limits_of_the_server_make_an_error_that_tells_of_a_value(limits: tuple[float, float]) -> None:
    low, high = (np.array([limit]) for limit in limits)
    for value in (37.5, 36.0, 1e300):
        assert histograms(np.array([[1.0], [value], [np.nan]]), low, high).sum() == 2


@pytest.mark.parametrize("scale", [0.0, 1e-310, 1e-300, math.nan, math.inf])
def test_no_scale_of_the_server_makes_a_sum_that_is_no_number(scale: float) -> None:
    """Where products overflow, or not, would tell the largest value."""
    form, table = private(), ct.make_networks(variables=3, clients=1, samples=100, seed=0)[0]["client-0"]
    common = Message({"centre": np.full(3, table.values[7]), "scale": np.full(3, scale)})
    asked = Question("run", 2, 1, "moments", "a", 0, 0, common, Message())
    message, _ = form.answer(asked, table, None, RNG)
    assert all(np.isfinite(value).all() for value in message.values())


def test_the_promise_against_peers_holds_while_those_who_collude_or_are_away_are_fewer_than_a_third() -> None:
    """It named colluders alone: with nine of thirty away and nine who subtract their shares, twelve add the noise."""
    method = ct.OneRound().private(Privacy(epsilon=1, ranges=(-1, 1), secure_sum=True))
    assert "fewer than a third of them collude or are away" in method.promise()["protects_from"]
    share = share_deviation(1.0, threshold(30))
    assert share * math.sqrt(30 - 9) >= 1.0 > share * math.sqrt(30 - 9 - 1)
