"""SAITS as PyPOTS ships it, to compare with (extra ``baselines``).

References
----------
Du et al., "SAITS: self-attention-based imputation for time series", Expert Systems with Applications 2023.
"""

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from cotempo.data import Series
from cotempo.errors import ParameterError
from cotempo.series.scale import Scale
from cotempo.series.windows import Cover, SeriesRows

SIZES = {"n_layers": 2, "d_model": 64, "n_heads": 4, "d_k": 16, "d_v": 16, "d_ffn": 128, "dropout": 0.1}


@dataclass(frozen=True)
class Saits:
    """A fitted SAITS."""

    network: Any
    scale: Scale
    window: int

    def impute(self, series: Series) -> Series:
        """Fill the missing cells; windows overlap by half."""
        rows = SeriesRows.of(series)
        cover = Cover(rows, self.window, max(1, self.window // 2))
        windows = cover.windows(self.scale.apply(rows.values))
        found = np.asarray(self.network.impute({"X": windows.astype(np.float32)}), dtype=np.float64)
        filled = self.scale.undo(cover.blend(found))
        return replace(series, values=np.where(np.isnan(series.values), filled, series.values))


def train_saits(series: Series, *, epochs: int, window: int = 24) -> Saits:
    """Train SAITS on all windows of one owner's series, `epochs` passes over them.

    Raises
    ------
    ParameterError
        Where PyPOTS is not installed.
    """
    try:
        imputation = import_module("pypots.imputation")
    except ImportError:
        raise ParameterError("PyPOTS must be installed, got none; run: pip install 'cotempo[baselines]'") from None
    scale = Scale.of(series.values)
    windows = scale.apply(SeriesRows.of(series).windows(window)).astype(np.float32)
    network = imputation.SAITS(
        n_steps=window, n_features=windows.shape[2], batch_size=128, epochs=epochs, verbose=False, device="cpu", **SIZES
    )
    network.fit({"X": windows})
    return Saits(network, scale, window)
