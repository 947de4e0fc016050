"""Hyperparameters that the single-owner model and the federated method share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from cotempo.devices import Device
from cotempo.series.nn.state import Schedule

if TYPE_CHECKING:
    from cotempo.series.nn.backbone import Backbone
    from cotempo.series.nn.imputer import Imputer
    from cotempo.series.nn.samplers import Walk
    from cotempo.series.nn.token_imputer import TokenImputer


class Sizes(BaseModel):
    """Sizes of the networks and how they are trained.

    Parameters
    ----------
    window
        Rows in a generated window.
    context
        Rows an imputer sees at once; a third more than the window when left out.
    width, encoders, decoders, heads
        Of the diffusion backbone.
    imputer_width, imputer_layers, imputer_rate
        Of the imputers, with their largest learning rate.
    diffusion_steps
        Steps of the noise schedule.
    sampler, sampler_steps
        How windows are drawn, and in how many steps.
    warm_start
        Where draws of missing cells start: this share of the schedule's noise on top of the imputer's filling.
    batch, rate
        Windows in a training step, and the largest learning rate.
    precision
        Of all networks.
    device
        Where networks are computed: ``"cpu"``, or ``"cuda"`` for a GPU.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    window: int = Field(24, ge=4)
    context: int | None = Field(None, ge=4)
    width: int = Field(64, ge=4)
    encoders: int = Field(2, ge=1)
    decoders: int = Field(2, ge=1)
    heads: int = Field(4, ge=1)
    imputer_width: int = Field(64, ge=4)
    imputer_layers: int = Field(3, ge=1)
    imputer_rate: float = Field(4e-3, gt=0)
    diffusion_steps: int = Field(500, ge=2)
    sampler: Literal["ddpm", "ddim", "dpm"] = "dpm"
    sampler_steps: int = Field(25, ge=2)
    warm_start: float = Field(0.5, gt=0, le=1)
    batch: int = Field(128, ge=2)
    rate: float = Field(4e-3, gt=0)
    precision: Literal["float32", "float64"] = "float32"
    device: Device = "cpu"

    @property
    def reach(self) -> int:
        """Rows an imputer sees at once."""
        return self.context or 4 * self.window // 3

    def imputer(self) -> Imputer:
        """The network that fills cells."""
        from cotempo.series.nn.imputer import Imputer

        return Imputer(self.reach, self.imputer_width, self.imputer_layers, self.heads)

    def token_imputer(self) -> TokenImputer:
        """The network that fills cells of any features, half as wide and a layer less."""
        from cotempo.series.nn.token_imputer import TokenImputer

        width = max(self.heads, self.imputer_width // 2 // self.heads * self.heads)
        return TokenImputer(self.reach, width, max(1, self.imputer_layers - 1), self.heads)

    def backbone(self) -> Backbone:
        """The network that denoises windows."""
        from cotempo.series.nn.backbone import Backbone

        return Backbone(self.window, self.width, self.encoders, self.decoders, self.heads)

    def walk(self, guidance: float = 0.0) -> Walk:
        """How windows are drawn."""
        from cotempo.series.nn.noise import Noise
        from cotempo.series.nn.samplers import Walk

        return Walk(Noise(self.diffusion_steps), self.sampler, self.sampler_steps, guidance)

    def schedule(self, steps: int, rate: float | None = None) -> Schedule:
        """How a network is trained for so many steps in all."""
        warm = min(500, max(1, steps // 10))
        return Schedule(self.batch, rate or self.rate, warm, steps, device=self.device)
