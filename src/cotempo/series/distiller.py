"""The coordinator's model of the common features: an imputer, or the paper's diffusion model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series, Table
from cotempo.errors import DataError, Problem
from cotempo.series.diffusion import windows_of
from cotempo.series.learned import Learned
from cotempo.series.parameters import Leaves
from cotempo.series.scale import Scale
from cotempo.series.ties import Ties
from cotempo.series.windows import Rows, need_window

if TYPE_CHECKING:
    from cotempo.federation.rng import Rng
    from cotempo.series.fedtdd import FedTDD


def leaves(method: FedTDD) -> Leaves:
    """The weights of the distiller."""
    network = method.backbone() if method.preset == "paper" else method.imputer()
    return network.leaves(len(method.common))


def public_rows(method: FedTDD, public: Table | None) -> Rows:
    """The common features of the public series."""
    if not isinstance(public, Series):
        given = "none" if public is None else f"a table of {public.kind}"
        raise DataError(f"public must be a series with the common features, {given} was given; pass public=")
    missing = [name for name in method.common if name not in public.features]
    if missing:
        raise DataError([Problem("the public series must have every common feature", column=name) for name in missing])
    rows = Rows.of(public)
    columns = [public.features.index(name) for name in method.common]
    taken = Rows(rows.values[:, columns], rows.lengths)
    need_window(taken, method.window)
    unseen = np.isnan(taken.values).all(axis=0)
    if unseen.any():
        must = "the public series must measure every common feature, this one is all missing"
        raise DataError([Problem(must, column=method.common[k]) for k in np.flatnonzero(unseen)])
    return taken


def shown_windows(method: FedTDD, rows: Rows, scale: Scale, stream: np.random.Generator) -> NDArray[Any]:
    """Some public windows for clients to learn from, scaled, ``(windows, length, common)``."""
    windows = Rows(scale.apply(rows.values), rows.lengths).windows(method.window)
    chosen = stream.permutation(len(windows))[: method.public_windows]
    return windows[np.sort(chosen)].astype(method.precision)


def train(
    method: FedTDD, scale: Scale, ties: Ties, learned: Learned, bank: NDArray[Any], public: Table | None, steps: int,
    rng: Rng,
) -> tuple[Learned, float]:  # fmt: skip
    """Train the distiller on public windows and on those clients released."""
    from cotempo.series.noise import Noise
    from cotempo.series.tasks import Denoising, Filling
    from cotempo.series.training import Material, Task
    from cotempo.series.training import train as train_networks

    rows = public_rows(method, public)
    scaled = Rows(scale.apply(rows.values), rows.lengths)
    paper = method.preset == "paper"
    length = method.window if paper else method.reach
    windows = np.concatenate([windows_of(scaled, length), _padded(bank, length)])
    task: Task = Denoising(method.backbone(), Noise(method.diffusion_steps)) if paper else Filling(method.imputer())
    seen, whole = ~np.isnan(windows), np.ones(len(method.common), dtype=bool)
    material = Material(np.where(seen, windows, scale.centre), seen, len(windows), ties, whole)
    # Past its horizon a schedule stays at a twentieth of its rate: twice the rate makes the tenth of fine-tuning.
    tuning = learned.steps >= method.pretrain_steps
    schedule = method.schedule(method.pretrain_steps, (2 if tuning else 1) * _rate(method))
    (made,), (loss,) = train_networks(task, [learned], [material], steps, schedule, [rng])
    return made, float(loss)


def _rate(method: FedTDD) -> float:
    return method.rate if method.preset == "paper" else method.imputer_rate


def _padded(bank: NDArray[Any], length: int) -> NDArray[np.float64]:
    """Released windows, lengthened by missing rows where the network looks farther."""
    room = ((0, 0), (0, length - bank.shape[1]), (0, 0))
    return np.pad(bank.astype(np.float64), room, constant_values=np.nan)
