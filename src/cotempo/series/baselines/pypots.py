"""Imputers of other people: SAITS and CSDI as PyPOTS ships them (extra ``baselines``).

References
----------
Du et al., "SAITS: self-attention-based imputation for time series", Expert Systems with Applications 2023.
Tashiro et al., "CSDI: conditional score-based diffusion models for probabilistic time series imputation", NeurIPS 2021.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal

import numpy as np

from cotempo.data import Series
from cotempo.errors import ParameterError
from cotempo.series.scale import Scale
from cotempo.series.windows import Cover, SeriesRows

SIZES: dict[str, dict[str, Any]] = {
    "saits": {
        "n_layers": 2, "d_model": 64, "n_heads": 4, "d_k": 16, "d_v": 16, "d_ffn": 128, "dropout": 0.1,
    },
    "csdi": {
        "n_layers": 4, "n_heads": 4, "n_channels": 32, "d_time_embedding": 64, "d_feature_embedding": 16,
        "d_diffusion_embedding": 64,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Peer:
    """A fitted imputer of PyPOTS."""

    name: str
    network: Any
    scale: Scale
    window: int

    def impute(self, series: Series) -> Series:
        """Fill the missing cells; windows overlap by half."""
        rows = SeriesRows.of(series)
        cover = Cover(rows, self.window, max(1, self.window // 2))
        windows = cover.windows(self.scale.apply(rows.values))
        found = np.asarray(self.network.impute({"X": windows.astype(np.float32)}), dtype=np.float64)
        found = found.mean(axis=1) if found.ndim == 4 else found
        filled = self.scale.undo(cover.blend(found))
        return replace(series, values=np.where(np.isnan(series.values), filled, series.values))


def train_peer(
    name: Literal["saits", "csdi"], series: Series, *, epochs: int, window: int = 24, stride: int = 1, batch: int = 128
) -> Peer:
    """Train an imputer of PyPOTS on one owner's series.

    Parameters
    ----------
    epochs
        Passes over the windows.
    stride
        Rows between the windows to train on.

    Raises
    ------
    ParameterError
        Where PyPOTS is not installed.
    """
    if name not in SIZES:
        raise ParameterError(f"name must be 'saits' or 'csdi', got {name!r}")
    try:
        imputation = import_module("pypots.imputation")
    except ImportError:
        raise ParameterError(
            f"{name} must be installed to be compared with, PyPOTS is not; run: pip install 'cotempo[baselines]'"
        ) from None
    scale = Scale.of(series.values)
    windows = scale.apply(SeriesRows.of(series).windows(window, stride)).astype(np.float32)
    kind = {"saits": "SAITS", "csdi": "CSDI"}[name]
    network = getattr(imputation, kind)(
        n_steps=window, n_features=windows.shape[2], batch_size=batch, epochs=epochs, verbose=False, device="cpu",
        **SIZES[name],
    )  # fmt: skip
    network.fit({"X": windows})
    return Peer(name, network, scale, window)
