"""The stacked model equals separate ones; masks, samplers and the schedule do what their formulas say."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from cotempo.federation import Rng
from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.nn.backbone import Backbone, NoiseSchedule, top_frequencies
from cotempo.series.nn.first_guess import first_guess
from cotempo.series.nn.imputer import Imputer
from cotempo.series.nn.layers import _attend
from cotempo.series.nn.losses import Denoising, Filling, draw_masks, hidden
from cotempo.series.nn.parameters import NetworkState, Schedule, resize, views
from cotempo.series.nn.samplers import Sampler
from cotempo.series.nn.training import TrainingWindows, train


def make_material(features: int, count: int, seed: int) -> TrainingWindows:
    stream = np.random.default_rng(seed)
    windows = stream.normal(size=(count, 8, features)).cumsum(axis=1) * 0.2
    mask = stream.random(windows.shape) < 0.8
    return TrainingWindows(windows, mask, FactorModels.none(features), np.arange(features) < 2)


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
@pytest.mark.parametrize("task", [Filling(Imputer(8, 8, 2, 2)), Denoising(Backbone(8, 8, 1, 1, 2), NoiseSchedule(20))])
def test_stacked_equals_separate(task, precision, tolerance):
    """Weights in float64; in float32 losses, as Adam makes whole steps of gradients that are zero but for rounding."""
    datasets = [make_material(3, 12, 0), make_material(5, 20, 1), make_material(2, 9, 2)]
    rngs = [Rng(0, str(k)) for k in range(3)]
    specs = [task.specs(dataset.features) for dataset in datasets]
    fresh = [NetworkState.fresh(own, rng("i"), precision) for own, rng in zip(specs, rngs, strict=True)]
    schedule = Schedule(batch=6, warm=1, horizon=8)
    together, losses = train(task, fresh, datasets, 8, schedule, rngs)
    for k, (learned, dataset, rng) in enumerate(zip(fresh, datasets, rngs, strict=True)):
        (alone,), (loss,) = train(task, [learned], [dataset], 8, schedule, [rng])
        assert losses[k] == pytest.approx(loss, abs=tolerance)
        if precision == "float64":
            np.testing.assert_allclose(together[k].weights, alone.weights, atol=tolerance)
            np.testing.assert_allclose(together[k].average, alone.average, atol=tolerance)
        assert not np.allclose(alone.weights, learned.weights)


def test_padding_is_undone():
    specs, wide = Backbone(8, 8).specs(2), Backbone(8, 8).specs(5)
    flat = NetworkState.fresh(specs, Rng(0)("x"), "float64").weights
    assert np.array_equal(resize(resize(flat, specs, wide), wide, specs), flat)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_written_out_is_the_library_s(masked):
    query, key, value = torch.randn(3, 5, 2, 6, 4, dtype=torch.float64)
    mask = (torch.rand(5, 1, 1, 6) < 0.6) | (torch.arange(6) == 2) if masked else None
    torch.testing.assert_close(_attend(query, key, value, mask), scaled_dot_product_attention(query, key, value, mask))


def test_an_untrained_imputer_is_its_guess():
    imputer = Imputer(6, 8, 1, 2)
    weights = torch.tensor(NetworkState.fresh(imputer.specs(2), Rng(0)("x"), "float64").weights[None])
    values = torch.randn(1, 3, 6, 2, dtype=torch.float64)
    seen = torch.rand(1, 3, 6, 2) < 0.6
    given = first_guess(torch.where(seen, values, 0.0), seen, torch.zeros(1, 2, dtype=torch.float64))
    filled = imputer(views(weights, imputer.specs(2)), given, torch.ones(1, 2, dtype=torch.float64))
    torch.testing.assert_close(filled, given.guess)


def test_levels_beyond_those_learned_from_change_nothing():
    imputer = Imputer(6, 8, 1, 2)
    specs = imputer.specs(2)
    weights = views(torch.randn(1, sum(leaf.size for leaf in specs.values()), dtype=torch.float64), specs)
    values, spread = torch.rand(1, 3, 6, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    seen = torch.rand(1, 3, 6, 2) < 0.6
    corrections = []
    for level in (-9.0, 0.0, 2.0, 7.0):
        moved = torch.where(seen, values + level, 0.0)
        given = first_guess(moved, seen, torch.full((1, 2), level, dtype=torch.float64))
        corrections.append(imputer(weights, given, spread) - given.guess)
    torch.testing.assert_close(corrections[2], corrections[3])
    assert (corrections[0] - corrections[2]).abs().max() > 1e-3
    assert (corrections[1] - corrections[2]).abs().max() > 1e-3


def test_only_seen_cells_are_hidden_and_about_as_many_as_said():
    generator = torch.Generator().manual_seed(0)
    chances = draw_masks(generator, (1, 2000), 24, 3, 4)
    exists = torch.tensor([[True, True, True, False]])
    seen = (torch.rand(1, 2000, 24, 4, generator=generator) < 0.7) & exists[:, None, None]
    found = hidden(chances, seen, exists & torch.tensor([True, False, False, False]), exists)
    assert not (found & ~seen).any()
    assert 0.25 < found.sum() / seen.sum() < 0.6
    whole = (found == seen).all(2)[..., :3]
    assert whole.any()


def test_the_schedule_of_noise():
    noise = NoiseSchedule(100)
    assert noise.kept[0] > 0.99
    assert noise.kept[-1] < 1e-3
    assert (noise.kept.diff() < 0).all()
    step = 40
    expected = math.sqrt((1 - noise.betas[step]) * (1 - noise.kept[step])) / noise.betas[step] / 100
    assert noise.weights[step] == pytest.approx(float(expected))
    assert noise.weights[1] > noise.weights[90]


@pytest.mark.parametrize("kind", ["ddpm", "ddim", "dpm"])
def test_samplers_find_a_normal_law(kind):
    """With the exact denoiser of N(2, 0.5^2) every sampler must return that law."""
    noise, mean, deviation = NoiseSchedule(200), 2.0, 0.5

    def denoise(x, time):
        kept = float(noise.kept[time])
        gain = math.sqrt(kept) * deviation**2 / (kept * deviation**2 + 1 - kept)
        return mean + gain * (x - math.sqrt(kept) * mean)

    generator = torch.Generator().manual_seed(0)
    start = torch.randn(1, 4000, 1, 1, generator=generator, dtype=torch.float64)
    drawn = Sampler(noise, kind, 50).sample(denoise, start, generator)
    assert float(drawn.mean()) == pytest.approx(mean, abs=0.05)
    assert float(drawn.std()) == pytest.approx(deviation, rel=0.1)


def test_infill_keeps_what_was_measured_and_follows_it():
    """Two cells that correlate: given the first, draws of the second follow the conditional law."""
    noise, covariance = NoiseSchedule(200), torch.tensor([[1.0, 0.8], [0.8, 1.0]], dtype=torch.float64)

    def denoise(x, time):
        kept = float(noise.kept[time])
        gain = math.sqrt(kept) * covariance @ torch.linalg.inv(kept * covariance + (1 - kept) * torch.eye(2).double())
        return (x.squeeze(-1) @ gain.T).unsqueeze(-1)

    generator = torch.Generator().manual_seed(0)
    guess = torch.zeros(1, 2000, 2, 1, dtype=torch.float64)
    guess[:, :, 0] = 1.0
    seen = torch.zeros(1, 2000, 2, 1, dtype=torch.bool)
    seen[:, :, 0] = True
    drawn = Sampler(noise, "ddpm").infill(denoise, guess, seen, generator, start=1.0)
    assert (drawn[:, :, 0] == 1.0).all()
    assert 0.5 < float(drawn[0, :, 1].mean()) < 0.9


def test_guided_draws_follow_what_was_measured():
    """Two cells that correlate, as above, in [-1, 1]; and how many steps are taken, as published."""
    noise, covariance, calls = (
        NoiseSchedule(100),
        0.04 * torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64),
        [],
    )

    def denoise(x, time):
        calls.append(time)
        kept = float(noise.kept[time])
        gain = math.sqrt(kept) * covariance @ torch.linalg.inv(kept * covariance + (1 - kept) * torch.eye(2).double())
        return (x.squeeze(-1) @ gain.T).unsqueeze(-1)

    guess, seen = (torch.zeros(1, 2000, 2, 1, dtype=kind) for kind in (torch.float64, torch.bool))
    guess[:, :, 0], seen[:, :, 0] = 0.3, True
    drawn = Sampler(noise, "ddpm", 100, guided=True).infill(
        denoise, guess, seen, torch.Generator().manual_seed(0), start=1.0
    )
    assert (drawn[:, :, 0] == 0.3).all()
    assert 0.2 < float(drawn[0, :, 1].mean()) < 0.35
    assert [calls.count(time) for time in (95, 80, 50, 5, 2, 0)] == [4, 3, 2, 2, 1, 1]


def test_guided_draws_stay_in_the_range_learned_from():
    guess, seen = torch.zeros(1, 4, 3, 1), torch.zeros(1, 4, 3, 1, dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    drawn = Sampler(NoiseSchedule(20), "ddpm", 20, guided=True).infill(
        lambda x, time: x * 0 + 5.0, guess, seen, generator, start=1.0
    )
    assert (drawn == 1.0).all()


def test_the_strongest_season_of_a_wave_is_the_wave():
    wave = torch.sin(2 * math.pi * 3 * torch.arange(24.0) / 24)[None, None, :, None]
    torch.testing.assert_close(top_frequencies(wave + 5), wave, atol=1e-5, rtol=1e-5)


class Silent:
    """A network that predicts zero for every clean window."""

    length = 8

    def __call__(self, weights, noisy, time, exists):
        return SimpleNamespace(whole=torch.zeros_like(noisy))


@pytest.mark.parametrize("squared", [True, False])
def test_the_loss_is_the_printed_one_or_that_of_the_released_code(squared):
    """Equations (1) to (3) of FedTDD by numpy: squares under w = alpha (1 - kept) / (100 beta)^2, or roots of both."""
    values = np.random.default_rng(0).normal(size=(1, 1, 8, 2))
    noise, time = NoiseSchedule(20), 7
    fixed = {
        "windows": torch.tensor(values), "mask": torch.ones(1, 1, 8, 2, dtype=torch.bool),
        "exists": torch.ones(1, 2, dtype=torch.bool), "network": torch.zeros(1, 1, dtype=torch.long),
    }  # fmt: skip
    batch = {"windows": torch.zeros(1, 1, dtype=torch.long), "time": torch.full((1, 1), time)}
    loss = Denoising(Silent(), noise, squared).loss({}, fixed, {**batch, "noise": torch.zeros(1, 1, 8, 2)})
    spectrum = np.fft.fft(values[0, 0], axis=0, norm="forward")
    beta, kept = float(noise.betas[time]), float(noise.kept[time])
    weight = (1 - beta) * (1 - kept) / (100 * beta) ** 2
    if squared:
        expected = weight * (np.mean(values**2) + np.sqrt(8) / 5 * np.mean(np.abs(spectrum) ** 2))
    else:
        apart = np.abs(spectrum.real) + np.abs(spectrum.imag)
        expected = np.sqrt(weight) * (np.mean(np.abs(values)) + np.sqrt(8) / 5 * np.mean(apart))
    assert float(loss) == pytest.approx(expected, rel=1e-6)
