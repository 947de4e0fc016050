"""Teacher: the coordinator's imputers, frozen; and windows filled by trained imputers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cotempo.devices import find_device
from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.nn.first_guess import Guess, first_guess, relate
from cotempo.series.nn.imputer import Imputer, TokenImputer
from cotempo.series.nn.layers import Weights
from cotempo.series.nn.parameters import views
from cotempo.series.nn.training import stack_factor_models
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.series.filling.stages import TeacherWeights
    from cotempo.series.settings import SeriesSettings


@dataclass(frozen=True)
class Teacher:
    """Imputers trained elsewhere: one of the common features, and one of tokens that fills any feature.

    Both have the weights of one network, which serves all clients. `factors` are those of the common features.
    """

    imputer: Imputer
    weights: Weights
    factors: Mapping[str, Tensor]
    tokens: TokenImputer | None = None
    token_weights: Weights | None = None

    @classmethod
    def of(cls, given: TeacherWeights, settings: SeriesSettings) -> Teacher:
        """Load weights, ready to fill."""
        imputer, place, common = settings.imputer(), find_device(settings.device), len(given.factors.centre)
        flat = torch.tensor(given.weights[None], device=place)
        weights = views(flat, imputer.specs(common))
        factors = stack_factor_models([given.factors], common, place, flat.dtype)
        if given.tokens is None:
            return cls(imputer, weights, factors)
        tokens, flat = settings.token_imputer(), torch.tensor(given.tokens[None], device=place)
        return cls(imputer, weights, factors, tokens, views(flat, tokens.specs(common)))

    @torch.no_grad()
    def fillings(self, given: Guess, spread: Tensor) -> tuple[Tensor, Tensor]:
        """Fill a guess twice: the common features, which come first, by name; and all features by tokens."""
        count = self.factors["centre"].shape[-1]
        networks, batch, length, _ = given.guess.shape
        values, seen = (
            part[..., :count].reshape(1, networks * batch, length, count) for part in (given.values, given.seen)
        )
        guess = relate(first_guess(values, seen, self.factors["centre"]), self.factors)
        filled = self.imputer(self.weights, guess, self.factors["spread"])
        named, start = (
            torch.cat([part.reshape(networks, batch, length, count), given.guess[..., count:]], dim=-1)
            for part in (filled, guess.guess)
        )
        if self.tokens is None or self.token_weights is None:
            return named, named
        spread = torch.cat([self.factors["spread"].expand(networks, count), spread[:, count:]], dim=-1)
        weights = {name: weight.expand(networks, *weight.shape[1:]) for name, weight in self.token_weights.items()}
        return named, self.tokens(weights, replace(given, guess=start), spread)

    def join(self, given: Guess, named: Tensor, free: Tensor) -> Guess:
        """Replace the guess of unseen cells: common features by name, the others by tokens."""
        count = self.factors["centre"].shape[-1]
        filled = torch.cat([named[..., :count], free[..., count:]], dim=-1)
        return replace(given, guess=torch.where(given.seen, given.values, filled))


@torch.no_grad()
def fill_windows(
    settings: SeriesSettings, windows: Floats, models: FactorModels, teacher: TeacherWeights | None,
    own: NDArray[Any] | None,
) -> Floats:  # fmt: skip
    """Fill scaled windows by factor models, twice by the teacher, and by the own imputer, those that are given."""
    given, factors = _load(windows, models, settings)
    given = relate(given, factors)
    found: list[Tensor] = [given.guess]
    if teacher is not None:
        loaded = Teacher.of(teacher, settings)
        found += loaded.fillings(given, factors["spread"])
        given = loaded.join(given, *found[1:])
    if own is not None:
        found.append(_impute(own, given, factors["spread"], settings))
    elif teacher is not None:
        found.append(found[-1])
    return np.asarray(torch.stack(found)[:, 0].double().cpu().numpy())


@torch.no_grad()
def correct_windows(
    settings: SeriesSettings, windows: Floats, guess: Floats, models: FactorModels, own: NDArray[Any]
) -> Floats:
    """Correct a guess of scaled windows by an imputer, ``(1, windows, length, features)``."""
    given, factors = _load(windows, models, settings)
    start = torch.tensor(np.nan_to_num(guess), device=given.guess.device, dtype=given.guess.dtype)[None]
    filled = _impute(own, replace(given, guess=start), factors["spread"], settings)
    return np.asarray(filled.double().cpu().numpy())


def _load(windows: Floats, models: FactorModels, settings: SeriesSettings) -> tuple[Guess, dict[str, Tensor]]:
    place, dtype = find_device(settings.device), getattr(torch, settings.precision)
    seen = torch.tensor(~np.isnan(windows), device=place)[None]
    values = torch.tensor(np.nan_to_num(windows), device=place, dtype=dtype)[None]
    factors = stack_factor_models([models], windows.shape[2], place, dtype)
    return first_guess(values, seen, factors["centre"]), factors


def _impute(own: NDArray[Any], given: Guess, spread: Tensor, settings: SeriesSettings) -> Tensor:
    imputer = settings.imputer()
    flat = torch.tensor(own, device=given.guess.device)[None]
    return imputer(views(flat, imputer.specs(given.guess.shape[-1])), given, spread)
