"""SeriesSettings: hyperparameters that the single-owner model and the federated method share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.devices import Device
from cotempo.series.nn.parameters import Schedule
from cotempo.settings import Settings
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.federation import Rng
    from cotempo.series.nn.backbone import Backbone
    from cotempo.series.nn.imputer import Imputer, TokenImputer
    from cotempo.series.nn.losses import Denoising


class SeriesSettings(Settings):
    """Sizes of the networks and how they are trained."""

    window: int = Field(default=24, ge=4, description="Rows in a generated window.")
    context: int | None = Field(default=None, ge=4, description="Rows an imputer sees; by default 4 / 3 of the window.")
    width: int = Field(default=64, ge=4, description="Width of the diffusion backbone.")
    encoders: int = Field(default=2, ge=1, description="Its encoder layers.")
    decoders: int = Field(default=2, ge=1, description="Its decoder layers.")
    heads: int = Field(default=4, ge=1, description="Attention heads of all networks.")
    imputer_width: int = Field(default=64, ge=4, description="Width of the imputers.")
    imputer_layers: int = Field(default=3, ge=1, description="Layers of the imputers.")
    imputer_rate: float = Field(default=4e-3, gt=0, description="Largest learning rate of the imputers.")
    diffusion_steps: int = Field(default=500, ge=2, description="Steps of the noise schedule.")
    sampler: Literal["ddpm", "ddim", "dpm"] = Field(default="dpm", description='``"dpm"`` is DPM-Solver++.')
    sampler_steps: int = Field(default=25, ge=2, description="Steps of DDIM and DPM-Solver++; DDPM takes all.")
    loss: Literal["absolute", "squared"] = Field(
        default="absolute", description="Errors that diffusion models learn from; FedTDD's paper prints squares."
    )
    warm_start: float = Field(default=0.5, gt=0, le=1, description="Share of the noise that draws of gaps start from.")
    batch: int = Field(default=128, ge=2, description="Windows in a training step.")
    rate: float = Field(default=4e-3, gt=0, description="Largest learning rate of diffusion models.")
    precision: Literal["float32", "float64"] = Field(default="float32", description="Precision of all networks.")
    device: Device = Field(default="cpu", description='Where networks run: ``"cpu"``, or ``"cuda"`` for a GPU.')

    @property
    def reach(self) -> int:
        """Return how many rows an imputer sees at once."""
        return self.context or 4 * self.window // 3

    def imputer(self) -> Imputer:
        """Make the network that fills cells."""
        from cotempo.series.nn.imputer import Imputer

        return Imputer(self.reach, self.imputer_width, self.imputer_layers, self.heads)

    def token_imputer(self) -> TokenImputer:
        """Make the network that fills cells of any features, half as wide and a layer less."""
        from cotempo.series.nn.imputer import TokenImputer

        width = max(self.heads, self.imputer_width // 2 // self.heads * self.heads)
        return TokenImputer(self.reach, width, max(1, self.imputer_layers - 1), self.heads)

    def backbone(self) -> Backbone:
        """Make the network that denoises windows."""
        from cotempo.series.nn.backbone import Backbone

        return Backbone(self.window, self.width, self.encoders, self.decoders, self.heads)

    def denoising(self) -> Denoising:
        """Make the loss of a diffusion model."""
        from cotempo.series.nn.backbone import NoiseSchedule
        from cotempo.series.nn.losses import Denoising

        return Denoising(self.backbone(), NoiseSchedule(self.diffusion_steps), self.loss == "squared")

    def sample_windows(self, weights: NDArray[Any], features: int, count: int, rng: Rng) -> Floats:
        """Draw new windows from a diffusion model, ``(count, length, features)``, in scaled units."""
        from cotempo.series.nn.samplers import draw_windows

        return draw_windows(self, weights, features, count, rng)

    def impute_windows(
        self, weights: NDArray[Any], windows: Floats, seen: NDArray[np.bool_], draws: int, rng: Rng,
        *, guided: bool = False,
    ) -> Floats:  # fmt: skip
        """Draw the unseen cells of windows, ``(draws, windows, length, features)``, in scaled units."""
        from cotempo.series.nn.samplers import draw_around

        return draw_around(self, weights, windows, seen, draws, rng, guided=guided)

    def decompose_windows(self, weights: NDArray[Any], windows: Floats) -> tuple[Floats, Floats]:
        """Return trend and season of complete windows, as a diffusion model sees them."""
        from cotempo.series.nn.samplers import decompose_windows

        return decompose_windows(self, weights, windows)

    def schedule(self, steps: int, rate: float | None = None) -> Schedule:
        """Make the schedule of training for so many steps in all."""
        warm = min(500, max(1, steps // 10))
        return Schedule(self.batch, rate or self.rate, warm, steps, device=self.device)
