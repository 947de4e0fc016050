"""Windows out of a trained diffusion model: new ones, ones around measurements, and the parts of given ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    from cotempo.federation import Rng
    from cotempo.series.nn.samplers import Denoise
    from cotempo.series.settings import Sizes

Floats = NDArray[np.float64]
MOST_WINDOWS = 512


def draw_windows(sizes: Sizes, weights: NDArray[Any], features: int, count: int, rng: Rng) -> Floats:
    """Draw new windows, ``(count, length, features)``, in scaled units."""
    import torch

    walk, found = sizes.walk(), []
    with _denoiser(sizes, weights, features) as (denoise, dtype, place):
        generator = rng.torch("sample", sizes.device)
        for first in range(0, count, MOST_WINDOWS):
            shape = (1, min(MOST_WINDOWS, count - first), sizes.window, features)
            noise = torch.randn(shape, generator=generator, device=place, dtype=dtype)
            found.append(walk.sample(denoise, noise, generator)[0].double().cpu().numpy())
    return np.concatenate(found)


def draw_around(
    sizes: Sizes, weights: NDArray[Any], windows: Floats, seen: NDArray[np.bool_], draws: int, rng: Rng,
    guidance: float = 0.0,
) -> Floats:  # fmt: skip
    """Draw the unseen cells of complete windows anew, ``(draws, windows, length, features)``, in scaled units."""
    import torch

    walk = sizes.walk(guidance)
    repeated, known = np.tile(windows, (draws, 1, 1)), np.tile(seen, (draws, 1, 1))
    found = []
    with _denoiser(sizes, weights, windows.shape[2]) as (denoise, dtype, place):
        generator = rng.torch("infill", sizes.device)
        for first in range(0, len(repeated), MOST_WINDOWS):
            part = slice(first, first + MOST_WINDOWS)
            guess = torch.tensor(repeated[part], device=place, dtype=dtype)[None]
            mask = torch.tensor(known[part], device=place)[None]
            found.append(walk.infill(denoise, guess, mask, generator, sizes.warm_start)[0].double().cpu().numpy())
    return np.concatenate(found).reshape(draws, *windows.shape)


def take_apart(sizes: Sizes, weights: NDArray[Any], windows: Floats) -> tuple[Floats, Floats]:
    """Trend and season of complete windows, as the model sees them where there is no noise."""
    import torch

    with _denoiser(sizes, weights, windows.shape[2], parts=True) as (denoise, dtype, place):
        given = torch.tensor(windows, device=place, dtype=dtype)[None]
        parts: Any = denoise(given, 0)
    return parts.trend[0].double().cpu().numpy(), parts.season[0].double().cpu().numpy()


@contextmanager
def _denoiser(
    sizes: Sizes, weights: NDArray[Any], features: int, *, parts: bool = False
) -> Iterator[tuple[Denoise, torch.dtype, torch.device]]:
    """A function from noisy windows and a step to clean ones, without gradients unless somebody asks for them."""
    import torch

    from cotempo.devices import find_device
    from cotempo.series.nn.parameters import views

    place, backbone = find_device(sizes.device), sizes.backbone()
    flat = torch.tensor(weights[None], device=place)
    named = views(flat, backbone.leaves(features))
    exists = torch.ones(1, 1, 1, features, device=place, dtype=torch.bool)

    def denoise(noisy: torch.Tensor, time: int) -> Any:
        steps = torch.full(noisy.shape[:2], time, device=place)
        made = backbone(named, noisy, steps, exists)
        return made if parts else made.whole

    with torch.no_grad():
        yield denoise, flat.dtype, place
