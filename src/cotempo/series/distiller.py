"""The coordinator's model of the common features: an imputer, or the paper's diffusion model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series, Table
from cotempo.errors import DataError, Problem
from cotempo.series.nn.parameters import Leaves
from cotempo.series.scale import Scale
from cotempo.series.windows import Rows, need_rows, windows_of

if TYPE_CHECKING:
    from cotempo.federation import Rng
    from cotempo.series.fedtdd import FedTDD, FedTDDState
    from cotempo.series.nn.state import Learned, Schedule
    from cotempo.series.nn.training import Material, Task

HELD = 0.1
MOST_JUDGED = 1024


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
    need_rows(taken)
    unseen = np.isnan(taken.values).all(axis=0)
    if unseen.any():
        must = "the public series must measure every common feature, this one is all missing"
        raise DataError([Problem(must, column=method.common[k]) for k in np.flatnonzero(unseen)])
    return taken


def train(
    method: FedTDD, state: FedTDDState, public: Table | None, steps: int, rng: Rng
) -> tuple[FedTDDState, dict[str, float]]:
    """Train the distiller on public windows and on those clients released, and what else stems from public data.

    Small public series are soon learned by heart, so an imputer is judged on public rows it does not learn from, and
    the best so far is what clients are told.
    """
    from cotempo.series.nn.noise import Noise
    from cotempo.series.nn.losses import Denoising, Filling
    from cotempo.series.nn.training import judge
    from cotempo.series.nn.training import train as train_networks

    rows, learned = public_rows(method, public), state.distiller
    paper = method.preset == "paper"
    length = method.window if paper else method.reach
    scaled = Rows(state.scale.apply(rows.values), rows.lengths)
    kept, held = (scaled, None) if paper else _split(scaled, method.window)
    windows = np.concatenate([windows_of(kept, length), _padded(state.bank, length)])
    task: Task = Denoising(method.backbone(), Noise(method.diffusion_steps)) if paper else Filling(method.imputer())
    material = _material(state, windows)
    # Past its horizon a schedule stays at a twentieth of its rate: twice the rate makes the tenth of fine-tuning.
    tuning = learned.steps >= method.pretrain_steps
    schedule = method.schedule(method.pretrain_steps, (2 if tuning else 1) * _rate(method))
    (made,), (loss,) = train_networks(task, [learned], [material], steps, schedule, [rng])
    state, metrics = replace(state, distiller=made), {"distiller loss": float(loss)}
    if held is None or not len(held.values):
        state = replace(state, best=made)
    else:
        unseen = _material(state, windows_of(held, length)[-MOST_JUDGED:])
        before, after = (judge(task, item, unseen, schedule) for item in (state.best, made))
        metrics["held-out loss"] = min(before, after)
        state = replace(state, best=made if after <= before else state.best)
    if method.has_tokens:
        task, total = Filling(method.token_imputer()), min(method.token_steps, method.pretrain_steps)
        schedule = method.schedule(total, method.imputer_rate / 2)
        state = replace(state, tokens=_go_on(task, state.tokens, material, steps, schedule, rng))
    if method.start_steps:
        task = Denoising(method.backbone(), Noise(method.diffusion_steps))
        total = min(method.start_steps, method.pretrain_steps)
        material, schedule = _as_owned(method, state, rows), method.schedule(total)
        state = replace(state, start=_go_on(task, state.start, material, steps, schedule, rng))
    return state, metrics


def _go_on(task: Task, learned: Learned, material: Material, steps: int, schedule: Schedule, rng: Rng) -> Learned:
    """Train a network until it has had all steps of its schedule."""
    from cotempo.series.nn.training import train as train_networks

    steps = min(steps, schedule.horizon - learned.steps)
    return train_networks(task, [learned], [material], steps, schedule, [rng])[0][0] if steps > 0 else learned


def _as_owned(method: FedTDD, state: FedTDDState, rows: Rows) -> Material:
    """Public windows as clients have theirs: dealt out in order of time, each part in a scale of its own."""
    windows = windows_of(rows, method.window)
    usual = float(np.median([count for count in state.windows.values() if count] or [len(windows)]))
    parts = np.array_split(windows, min(max(1, round(len(windows) / usual)), len(windows)))
    scaled = [Scale.of(part.reshape(-1, part.shape[2])).apply(part) for part in parts]
    return _material(state, np.concatenate(scaled))


def _split(rows: Rows, length: int) -> tuple[Rows, Rows]:
    """Set a tenth of the rows apart: the end of a piece, or half of every fifth piece."""
    every = min(5, len(rows.lengths))
    return rows.split(HELD * every, length, every)


def _material(state: FedTDDState, windows: NDArray[np.float64]) -> Material:
    from cotempo.series.nn.training import Material

    seen, whole = ~np.isnan(windows), np.ones(windows.shape[2], dtype=bool)
    return Material(np.where(seen, windows, state.scale.centre), seen, state.ties, whole)


def _rate(method: FedTDD) -> float:
    return method.rate if method.preset == "paper" else method.imputer_rate


def _padded(bank: NDArray[Any], length: int) -> NDArray[np.float64]:
    """Released windows, lengthened by missing rows where the network looks farther."""
    room = ((0, 0), (0, length - bank.shape[1]), (0, 0))
    return np.pad(bank.astype(np.float64), room, constant_values=np.nan)
