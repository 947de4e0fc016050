from __future__ import annotations

import numpy as np
import pytest
import torch

from cotempo.data import Series
from cotempo.federation import Rng
from cotempo.series import FedTDD, interpolate
from cotempo.series.nn.first_guess import Guess, first_guess
from cotempo.series.nn.imputer import TokenImputer
from cotempo.series.nn.parameters import draw, views

NET = TokenImputer(length=6, width=8, layers=2, heads=2)


def make_guess(features: int, seed: int = 0) -> Guess:
    stream = torch.Generator().manual_seed(seed)
    values = torch.randn(1, 5, 6, features, generator=stream, dtype=torch.float64)
    seen = torch.rand(values.shape, generator=stream) < 0.6
    return first_guess(values * seen, seen, torch.zeros(1, features, dtype=torch.float64))


def make_weights(gain: float = 1.0) -> dict[str, torch.Tensor]:
    flat = draw(NET.specs(0), Rng(0)("weights"), "float64")
    weights = views(torch.tensor(flat)[None], NET.specs(0))
    return {**weights, "output.weight": gain * torch.arange(8.0, dtype=torch.float64)[None, :, None]}


def take(given: Guess, columns: list[int]) -> Guess:
    return Guess(*(getattr(given, name)[..., columns] for name in ("values", "seen", "guess", "back", "forth")))


def test_no_feature_has_a_name():
    given, spread = make_guess(4), torch.ones(1, 4, dtype=torch.float64)
    order = [2, 0, 3, 1]
    filled = NET(make_weights(), given, spread)
    torch.testing.assert_close(NET(make_weights(), take(given, order), spread), filled[..., order])
    assert not torch.allclose(filled, given.guess)


def test_features_speak_for_each_other_but_padding_does_not():
    given = make_guess(4)
    alone = NET(make_weights(), take(given, [0, 1]), torch.ones(1, 2, dtype=torch.float64))
    padded = NET(make_weights(), given, torch.tensor([[1.0, 1.0, 0.0, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(padded[..., :2], alone)
    torch.testing.assert_close(padded[..., 2:], given.guess[..., 2:])
    together = NET(make_weights(), given, torch.ones(1, 4, dtype=torch.float64))
    assert not torch.allclose(together[..., :2], alone)


def test_untrained_it_is_its_guess():
    given = make_guess(3)
    filled = NET(make_weights(0.0), given, torch.ones(1, 3, dtype=torch.float64))
    torch.testing.assert_close(filled, given.guess)


@pytest.mark.slow
def test_exclusive_features_are_filled_much_better_than_by_interpolation():
    stream = np.random.default_rng(0)
    time = np.arange(3000)

    def waves(count: int) -> np.ndarray:
        """Waves of one length, at any height and place: what one tells of their shape holds for all."""
        return np.sin(2 * np.pi * (time[:, None] / 12 + stream.random(count))) * stream.uniform(1, 9, count)

    public = Series.from_arrays(waves(2), features=("a", "b"))
    values = waves(3)[:1200]  # a fifth is held out, and a gate opens on ten blocks of rows at least
    holes = np.where(stream.random(values.shape) < 0.5, np.nan, values)
    client = Series.from_arrays(holes, features=("a", "b", "mine"))
    size = {"rounds": 1, "pretrain_steps": 300, "corrector_steps": 0, "alpha": 0.0, "width": 8}
    size |= {"start_steps": 0, "first_steps": 1, "last_steps": 0}
    method = FedTDD(common=("a", "b"), token_steps=300, batch=32, imputer_width=32, **size)
    filled = method.fit({"one": client}, public=public, progress=False)["one"].impute(client).values
    errors = [np.abs(way - values)[np.isnan(holes[:, 2]), 2].mean() for way in (filled, interpolate(client).values)]
    assert errors[0] < 0.5 * errors[1]


def test_tokens_cross_only_where_they_are_used(monkeypatch: pytest.MonkeyPatch):
    method, clients, public = FedTDD.example()
    ask = FedTDD.ask
    for steps in (method.token_steps, 0):
        asked: list = []
        monkeypatch.setattr(FedTDD, "ask", lambda *given, asked=asked: asked.append(ask(*given)) or asked[-1])
        method.model_copy(update={"token_steps": steps}).fit(clients, public=public, progress=False)
        told = [message for each in asked if each is not None for message in each.each.values()]
        assert {len(each.each) for each in asked if each is not None} == {0, len(clients)}
        assert all(("tokens" in message) == (steps > 0) for message in told)
