"""Networks of series with noise: one unit moves a sum by no more than its clip, and nothing else reaches the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cotempo as ct
from cotempo.data import Series
from cotempo.errors import ParameterError
from cotempo.federation import Message, Question, Rng, Shield
from cotempo.privacy import noise as privacy_noise
from cotempo.privacy.accounting import gaussian_multiplier, sampled_epsilon
from cotempo.privacy.noise import Noise
from cotempo.series.nn import private_training
from cotempo.series.nn.parameters import NetworkState, views
from cotempo.series.nn.private_training import GradientNoise, UnitWindows, clipped_sum, gradients, train_privately
from cotempo.series.nn.training import TrainingWindows, load
from cotempo.series.private import diffusion
from cotempo.series.windows import SeriesRows
from cotempo.testing import check_method

SMALL = ct.SeriesDiffusion(
    window=4, width=4, heads=1, encoders=1, decoders=1, diffusion_steps=4, sampler_steps=2, batch=64, steps=2,
    precision="float64",
)  # fmt: skip
PRIVACY = ct.Privacy(epsilon=2, ranges=(-5, 5), seeded=True)


def table(seed: int = 0, rows: int = 40, gaps: float = 0.1, sequences: int = 1, size: float = 1.0) -> Series:
    stream = np.random.default_rng(seed)
    values = stream.normal(0, size, (rows * sequences, 2))
    values[stream.random(values.shape) < gaps] = np.nan
    return Series(
        ("a", "b"),
        np.repeat([str(k) for k in range(sequences)], rows),
        np.tile(np.arange(rows) * 1.0, sequences),
        values,
    )


def trained(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What training with noise is given."""
    given: list[dict[str, Any]] = []

    def train(task: Any, network: Any, dataset: Any, units: Any, steps: int, *rest: Any) -> NetworkState:
        given.append({"dataset": dataset, "units": units, "steps": steps, "noise": rest[1]})
        return network

    monkeypatch.setattr(private_training, "train_privately", train)
    return given


def test_gradients_of_a_stack_are_those_of_single_windows() -> None:
    task, windows = SMALL.denoising(), np.random.default_rng(0).normal(size=(5, 4, 2))
    dataset = TrainingWindows.plain(windows)
    flat = torch.tensor(NetworkState.fresh(task.specs(2), np.random.default_rng(1), "float64").weights[None])
    fixed, chosen = load([dataset], 2, torch.device("cpu"), flat.dtype), torch.tensor([3, 0, 4])
    stacked = gradients(task, flat, fixed, dataset, chosen, torch.Generator().manual_seed(5))
    draws = task.draw(dataset, 2, (3, 1), torch.Generator().manual_seed(5))
    for place, window in enumerate(chosen):
        leaf = flat.clone().requires_grad_()
        batch = {"windows": window.reshape(1, 1), **{name: part[place : place + 1] for name, part in draws.items()}}
        (alone,) = torch.autograd.grad(task.loss(views(leaf, task.specs(2)), fixed, batch).sum(), leaf)
        torch.testing.assert_close(stacked[place], alone[0])


def test_no_gradient_counts_more_than_its_clip() -> None:
    found = torch.tensor([[3.0, 4.0], [0.03, 0.04], [float("nan"), 1.0], [float("inf"), 1.0]])
    np.testing.assert_allclose(clipped_sum(found, 0.5), [0.33, 0.44], rtol=1e-6)


def test_units_are_drawn_by_chance_and_give_one_of_their_windows() -> None:
    units, stream = UnitWindows(np.array([2, 0, 3, 1])), np.random.default_rng(0)
    drawn = [units.draw(0.3, stream.random) for _ in range(4000)]
    assert max(map(len, drawn)) == 3
    often = np.bincount(np.concatenate(drawn), minlength=6) / 4000
    np.testing.assert_allclose(often, [0.15, 0.15, 0.1, 0.1, 0.1, 0.3], atol=0.025)


def test_the_noise_of_a_step_is_as_large_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no unit has a window there is nothing but noise."""
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(private_training, "adam", lambda flats, counts, gradient, schedule: seen.append(gradient))
    task, dataset = SMALL.denoising(), TrainingWindows.plain(np.zeros((1, 4, 2)))
    network = NetworkState.fresh(task.specs(2), np.random.default_rng(1), "float64")
    noise = GradientNoise(2.5, 0.2, 0.1, np.random.default_rng(0).random, torch.Generator())
    units = UnitWindows(np.zeros(50, dtype=np.intp))
    train_privately(task, network, dataset, units, 8, SMALL.schedule(8), noise)
    assert float(torch.cat(seen).std()) == pytest.approx(2.5 * 0.1 / (0.2 * 50), rel=0.03)


@pytest.mark.parametrize("place", [0, 5, 37])
def test_without_a_row_one_window_is_gone_and_no_other_changes(place: int) -> None:
    series = table(gaps=0.0, rows=38)  # two rows are over
    without = series.values.copy()
    without[place] = np.nan
    model = diffusion.learn_moments(series, PRIVACY, 4, Rng(0))
    (windows, counts), (fewer, left) = (
        diffusion.cut_apart(SeriesRows(values, (38,)), 4, model, np.random.default_rng(0))
        for values in (series.values, without)
    )
    gone = counts - left
    assert counts.tolist() == [1] * 9
    assert np.flatnonzero(gone).tolist() == ([place // 4] if place < 36 else [])
    np.testing.assert_array_equal(windows[gone == 0], fewer)


def test_a_window_is_filled_from_its_own_rows_alone() -> None:
    series = table(gaps=0.2)
    model = diffusion.learn_moments(series, PRIVACY, 4, Rng(0))
    other = series.values.copy()
    other[8:] *= 1000  # the gaps stay
    found, changed = (
        diffusion.cut_apart(SeriesRows(values, (40,)), 4, model, np.random.default_rng(0))[0]
        for values in (series.values, other)
    )
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[:2], changed[:2])


def test_short_pieces_have_one_window_each() -> None:
    model = diffusion.learn_moments(table(gaps=0.0), PRIVACY, 4, Rng(0))
    rows = SeriesRows(table(gaps=0.0, rows=12).values, (3, 9))
    windows, counts = diffusion.cut_apart(rows, 4, model, np.random.default_rng(0))
    assert counts.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(windows[0, :3], rows.values[:3])
    assert np.isnan(windows[0, 3]).all()
    np.testing.assert_array_equal(windows[1:].reshape(8, 2), rows.values[3:11])


def test_without_a_sequence_no_other_sequences_windows_change() -> None:
    series = table(sequences=3, rows=7)
    without = series.values.copy()
    without[7:14] = np.nan
    whole, less = (
        diffusion.start_from_ranges(
            SMALL, Series(series.features, series.sequence, series.time, values), PRIVACY, Rng(0), print
        )
        for values in (series.values, without)
    )
    assert whole.counts.tolist() == [4, 4, 4]
    assert less.counts.tolist() == [4, 0, 4]
    np.testing.assert_array_equal(np.delete(whole.windows, range(4, 8), axis=0), less.windows)


@pytest.mark.parametrize("unit", ["row", "sequence"])
def test_the_model_depends_on_nothing_but_noised_sums(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, unit: str
) -> None:
    """With all that is noised replaced by a constant, two tables of the same times give the same model."""
    for module in (privacy_noise, private_training):
        monkeypatch.setattr(module, "add_noise", lambda values, *rest: np.full_like(values, 40.0))
    privacy = PRIVACY.model_copy(update={"unit": unit})
    for name, seed, gaps in (("one", 0, 0.0), ("other", 1, 0.3)):
        series = table(seed, gaps=gaps, sequences=3, size=3.0**seed)
        SMALL.fit(series, privacy=privacy, progress=False).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("unit", ["row", "sequence"])
def test_moments_and_training_together_spend_epsilon(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    given = trained(monkeypatch)
    settings = SMALL.model_copy(update={"batch": 4, "steps": 30})
    privacy = PRIVACY.model_copy(update={"unit": unit, "delta": 1e-5})
    model = settings.fit(table(rows=8, sequences=10), privacy=privacy, progress=False)
    (told,) = given
    assert told["noise"].rate == 4 / {"row": 20, "sequence": 10}[unit]
    beside = {"beside": gaussian_multiplier(0.3 * 2, 1e-5)} if unit == "row" else {}
    spent = sampled_epsilon(told["noise"].multiplier, 1e-5, rate=told["noise"].rate, steps=told["steps"], **beside)
    assert spent == pytest.approx(2, rel=1e-3)
    assert {**model.privacy, "mechanism": ""} == {
        "epsilon": 2, "delta": 1e-5, "unit": unit, "mechanism": "", "void": True,
        "protects_from": "everyone who sees the model or what it draws",
    }  # fmt: skip
    assert f"DP-SGD, {told['steps']} steps" in model.privacy["mechanism"]
    assert f"epsilon 2 for a {unit}, void" in repr(model)
    assert "epsilon 2" in model._repr_html_()


def test_noise_and_draws_come_from_the_system_unless_seeded(tmp_path: Any) -> None:
    found = []
    for seeded in (True, True, False, False):
        privacy = PRIVACY.model_copy(update={"seeded": seeded})
        model = SMALL.fit(table(), privacy=privacy, progress=False)
        assert model.privacy["void"] is seeded
        found.append(model.weights)
    assert (found[0] == found[1]).all()
    assert (found[2] != found[3]).any()
    model.save(tmp_path / "model")
    assert ct.load(tmp_path / "model").privacy == model.privacy


def test_a_private_model_fills_draws_and_has_no_gate() -> None:
    series = table(gaps=0.2)
    model = SMALL.fit(series, privacy=PRIVACY, progress=False)
    filled = model.impute(series)
    assert np.isfinite(filled.values).all()
    assert (filled.low <= filled.high).all()
    assert np.isfinite(model.sample(3).values).all()
    with pytest.raises(ParameterError, match=r"what sample\(\) draws may be shared"):
        model.release(series, 3)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"unit": "client"}, "unit must be 'row' or 'sequence'"),
        ({"ranges": None}, "epsilon needs ranges"),
        ({"ranges": None, "unit": "sequence"}, "epsilon needs ranges"),
        ({"secure_sum": True}, "secure_sum must be left out"),
    ],
)
def test_what_one_owner_cannot_promise_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        SMALL.fit(table(), privacy=PRIVACY.model_copy(update=wrong), progress=False)


class Listener(Shield):
    """Keeps what leaves."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Message]] = []

    def protect(self, message: Message, question: Question, rng: Rng) -> Message:
        self.heard.append((question.phase, message))
        return message


def tdd(**changes: Any) -> tuple[ct.FedTDD, dict[str, Any], Any]:
    method, clients, public = ct.FedTDD.example()
    return method.model_copy(update={"alpha": 0.0, **changes}), clients, public


@pytest.mark.slow
def test_of_fedtdd_nothing_leaves_but_noised_moments(tmp_path: Any) -> None:
    method, clients, public = tdd()
    listener = Listener()
    fitted = method.fit(clients, public=public, privacy=PRIVACY, shields=[listener], progress=False)
    spoken = {phase for phase, message in listener.heard if len(message)}
    silent = {phase for phase, message in listener.heard if not len(message)}
    assert spoken == {"ranges", "moments"}
    assert silent == {"correct", "impute", "train", "score"}
    assert (fitted.privacy["epsilon"], fitted.privacy["unit"], fitted.benefit, fitted.figures()) == (2, "row", {}, {})
    assert "stay with them" in fitted.privacy["mechanism"]
    assert "epsilon 2 and delta 1e-06" in fitted.report(tmp_path / "page.html").read_text()
    assert np.isfinite(fitted["client-0"].impute(clients["client-0"]).values).all()


@pytest.mark.slow
def test_the_server_of_a_private_fedtdd_knows_nothing_but_noised_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that is noised replaced by a constant, other rows leave the same state."""
    monkeypatch.setattr(privacy_noise, "add_noise", lambda values, *rest: np.full_like(values, 40.0))
    method, clients, public = tdd()
    first, second = (
        method.fit(given, public=public, privacy=PRIVACY, progress=False).digest
        for given in (
            clients,
            {name: Series(one.features, one.sequence, one.time, 2 * one.values) for name, one in clients.items()},
        )
    )
    assert first == second


def test_releases_and_the_papers_distiller_are_refused_with_epsilon() -> None:
    for method in (tdd(alpha=0.5)[0], ct.FedTDD(preset="paper", common=("x0",), alpha=0.0)):
        with pytest.raises(ParameterError, match=r"alpha=0 and distiller='conditional'.*SeriesDiffusion"):
            method.private(PRIVACY)


@pytest.mark.slow
def test_the_private_fedtdd_keeps_the_contract() -> None:
    method, clients, public = tdd()
    private = method.private(PRIVACY)
    assert set(private.fit(clients, public=public, shields=[Noise(private)]).names) == set(clients)
    check_method(private, clients, public)
