from __future__ import annotations

import numpy as np
import pytest
import torch

from cotempo.data import Series, make_series
from cotempo.federation.rng import Rng
from cotempo.series import FedTDD
from cotempo.series.imputer import Guess
from cotempo.series.parameters import draw, views
from cotempo.series.tasks import first_guess
from cotempo.series.tokens import TokenImputer

NET = TokenImputer(length=6, width=8, layers=2, heads=2)


def make_guess(features: int, seed: int = 0) -> Guess:
    stream = torch.Generator().manual_seed(seed)
    values = torch.randn(1, 5, 6, features, generator=stream, dtype=torch.float64)
    seen = torch.rand(values.shape, generator=stream) < 0.6
    return first_guess(values * seen, seen, torch.zeros(1, features, dtype=torch.float64))


def make_weights(gain: float = 1.0) -> dict[str, torch.Tensor]:
    flat = draw(NET.leaves(0), Rng(0)("weights"), "float64")
    weights = views(torch.tensor(flat)[None], NET.leaves(0))
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
def test_what_was_learned_on_common_features_fills_exclusive_ones():
    stream = np.random.default_rng(0)
    time = np.arange(3000)

    def waves(count: int) -> np.ndarray:
        """Waves of one length, at any height and place: what one tells of their shape holds for all."""
        return np.sin(2 * np.pi * (time[:, None] / 12 + stream.random(count))) * stream.uniform(1, 9, count)

    public = Series.from_arrays(waves(2), features=("a", "b"))
    values = waves(3)[:400]
    holes = np.where(stream.random(values.shape) < 0.5, np.nan, values)
    client = Series.from_arrays(holes, features=("a", "b", "mine"))
    size = {"rounds": 1, "pretrain_steps": 300, "imputer_steps": 0, "alpha": 0.0, "width": 8}
    size |= {"start_steps": 0, "first_steps": 1, "last_steps": 0}
    errors = []
    for steps in (0, 300):
        method = FedTDD(common=("a", "b"), token_steps=steps, batch=32, imputer_width=32, **size)
        filled = method.fit({"one": client}, public=public, progress=False)["one"].impute(client).values
        errors.append(np.abs(filled - values)[np.isnan(holes[:, 2]), 2].mean())
    assert errors[1] < 0.8 * errors[0]


def test_tokens_cross_only_where_they_are_used():
    clients, _ = make_series(clients=2, length=40, features=3, missing=0.2)
    method, _, public = FedTDD.example()
    state = method.open(None, public, Rng(0))  # type: ignore[arg-type]
    state = type(state)(**{**state.__dict__, "place": len([1 for line in method.plan() if line.phase == "join"]) + 1})
    asked = method.ask(state, list(clients), Rng(0))
    assert asked is not None
    assert "tokens" in asked.each["client-0"]
    without = method.model_copy(update={"token_steps": 0}).ask(state, list(clients), Rng(0))
    assert without is not None
    assert "tokens" not in without.each["client-0"]
