"""Stacked training of many networks: Adam, clipping and averaging on flat vectors, one row a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cotempo.devices import find_device
from cotempo.federation import Rng
from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.nn.layers import Weights
from cotempo.series.nn.parameters import NetworkState, ParameterSpecs, Schedule, resize, views
from cotempo.typing import Floats

Tensors = dict[str, Tensor]
Lead = tuple[int, int]
Tick = Callable[[int], None]
BLOCK = 50
CLIP, BETA_1, BETA_2, AVERAGE = 1.0, 0.9, 0.96, 0.995  # norm of gradients; of Adam; decay of the average of weights
WINDOWED = ("windows", "mask", "guess", "left")


@dataclass(frozen=True)
class TrainingWindows:
    """What a network learns from: finite windows, and the `mask` of cells that count, ``(windows, length, features)``.

    `factors` are models of the features, and `common` says which of them are common, ``(features,)``. For what corrects
    guesses, `guess` has one of every cell and `left` says which cells it knows, both as `mask`.
    """

    windows: Floats
    mask: NDArray[np.bool_]
    factors: FactorModels
    common: NDArray[np.bool_]
    guess: Floats | None = None
    left: NDArray[np.bool_] | None = None

    @classmethod
    def plain(cls, windows: Floats, factors: FactorModels | None = None, common: int | None = None) -> TrainingWindows:
        """Make windows whose first `common` features are common, all by default; cells that are NaN do not count."""
        features = windows.shape[2]
        known = np.arange(features) < (features if common is None else common)
        return cls(np.nan_to_num(windows), ~np.isnan(windows), factors or FactorModels.none(features), known)

    def parts(self) -> dict[str, Any]:
        """Return the arrays with an entry for each window."""
        return {name: part for name in WINDOWED if (part := getattr(self, name)) is not None}

    def thin(self, most: int) -> TrainingWindows:
        """Return evenly spread windows, at most so many."""
        step = max(1, -(-len(self.windows) // most))
        return replace(self, **{name: part[::step] for name, part in self.parts().items()})

    @property
    def features(self) -> int:
        """Return how many features there are."""
        return int(self.windows.shape[2])


class Task(Protocol):
    """A network and its loss."""

    def specs(self, features: int) -> ParameterSpecs:
        """Return the parameters of a network of so many features."""

    def draw(self, dataset: TrainingWindows, wide: int, lead: Lead, generator: torch.Generator) -> Tensors:
        """Draw random numbers for ``(steps, batch)`` windows, padded to `wide` features."""

    def loss(self, weights: Weights, fixed: Tensors, batch: Tensors) -> Tensor:
        """Return the loss of each network, ``[networks]``."""


def train(
    task: Task, learned: Sequence[NetworkState], datasets: Sequence[TrainingWindows], steps: int, schedule: Schedule,
    rngs: Sequence[Rng], tick: Tick | None = None,
) -> tuple[list[NetworkState], Floats]:  # fmt: skip
    """Take `steps` steps with each network on its own dataset, all in one stack; return them and their mean losses.

    A network trained in a stack agrees with the same network trained alone within rounding: each draws from its own
    random stream. `tick` is told now and then how many steps are done.
    """
    place, dtype = find_device(schedule.device), getattr(torch, str(learned[0].weights.dtype))
    wide = max(dataset.features for dataset in datasets)
    specs = [task.specs(dataset.features) for dataset in datasets]
    widest = task.specs(wide)
    flats = []
    for name in ("weights", "average", "first", "second"):
        padded = [resize(getattr(item, name), own, widest) for item, own in zip(learned, specs, strict=True)]
        flats.append(torch.tensor(np.stack(padded), device=place))
    fixed = load(datasets, wide, place, dtype)
    generators = [rng.torch("batches", schedule.device) for rng in rngs]
    counts = torch.tensor([item.steps for item in learned], device=place, dtype=dtype)[:, None]
    step = _step(task, widest, flats, counts, fixed, schedule)
    runner = CudaGraphStep(step) if place.type == "cuda" and steps >= 2 * BLOCK else step
    losses = torch.zeros(len(learned), device=place, dtype=dtype)
    for done in range(0, steps, BLOCK):
        size = min(BLOCK, steps - done)
        draws, lead = [], (size, schedule.batch)
        for dataset, generator in zip(datasets, generators, strict=True):
            picks = torch.rand(*lead, generator=generator, device=place, dtype=torch.float64)
            windows = (picks * len(dataset.windows)).long()
            draws.append({"windows": windows, **task.draw(dataset, wide, lead, generator)})
        block = {name: torch.stack([draw[name] for draw in draws]) for name in draws[0]}
        for index in range(size):
            losses += runner({name: values[:, index] for name, values in block.items()})
        if tick is not None:
            tick(done + size)
    rows = [flat.cpu().numpy() for flat in flats]
    made = []
    for k, item in enumerate(learned):
        weights, average, first, second = (resize(flat[k], widest, specs[k]) for flat in rows)
        made.append(NetworkState(weights, average, first, second, item.steps + steps))
    return made, (losses / max(steps, 1)).double().cpu().numpy()


def train_one(
    task: Task, network: NetworkState, dataset: TrainingWindows, steps: int, schedule: Schedule, rng: Rng,
    tick: Tick | None = None,
) -> tuple[NetworkState, float]:  # fmt: skip
    """Train a single network; return it and its mean loss."""
    (found,), (loss,) = train(task, [network], [dataset], steps, schedule, [rng], tick)
    return found, float(loss)


@torch.no_grad()
def judge(task: Task, learned: NetworkState, dataset: TrainingWindows, schedule: Schedule) -> float:
    """Return the mean loss of averaged weights over all windows, with the same random numbers every time."""
    place, generator = find_device(schedule.device), Rng(0, "judge").torch("batches", schedule.device)
    flat = torch.tensor(learned.average[None], device=place)
    fixed = load([dataset], dataset.features, place, flat.dtype)
    losses = []
    for first in range(0, len(dataset.windows), schedule.batch):
        chosen = torch.arange(first, min(first + schedule.batch, len(dataset.windows)), device=place)
        draws = task.draw(dataset, dataset.features, (1, len(chosen)), generator)
        given = {"windows": chosen[None], **draws}
        losses.append(float(task.loss(views(flat, task.specs(dataset.features)), fixed, given)) * len(chosen))
    return sum(losses) / len(dataset.windows)


def load(datasets: Sequence[TrainingWindows], wide: int, place: torch.device, dtype: torch.dtype) -> Tensors:
    """Stack datasets, padded to the most windows and the most features."""
    shape = (max(len(dataset.windows) for dataset in datasets), datasets[0].windows.shape[1], wide)
    parts = [dataset.parts() for dataset in datasets]
    factors = stack_factor_models([dataset.factors for dataset in datasets], wide, place, dtype)
    return {
        **{name: _stack([each[name] for each in parts], shape, dtype).to(place) for name in parts[0]},
        **factors,
        "common": _stack([dataset.common for dataset in datasets], (wide,), dtype).to(place),
        "exists": factors["spread"] > 0,
        "network": torch.arange(len(datasets), device=place)[:, None],
    }


def stack_factor_models(factors: Sequence[FactorModels], wide: int, place: torch.device, dtype: torch.dtype) -> Tensors:
    """Stack factors, padded to the most features; padding has no spread."""
    found = {}
    for name in ("centre", "spread", "level_factors", "move_factors"):
        parts = [getattr(own, name) for own in factors]
        found[name] = _stack(parts, (wide, *parts[0].shape[1:]), dtype).to(place)
    for k, own in enumerate(factors):
        for name in ("level_factors", "move_factors"):
            found[name][k, len(own.centre) :, -1] = 1.0
    return found


def _stack(parts: Sequence[NDArray[Any]], shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Stack arrays, padded with zeros to a shape."""
    found = torch.zeros((len(parts), *shape), dtype=torch.bool if parts[0].dtype == bool else dtype)
    for room, part in zip(found, parts, strict=True):
        room[tuple(map(slice, part.shape))] = torch.from_numpy(np.require(part, requirements="W"))
    return found


Step = Callable[[Tensors], Tensor]


def _step(
    task: Task, specs: ParameterSpecs, flats: list[Tensor], counts: Tensor, fixed: Tensors, schedule: Schedule
) -> Step:
    """Make a step of Adam on a batch; it changes the vectors in place."""

    def step(batch: Tensors) -> Tensor:
        leaf = flats[0].detach().requires_grad_()
        loss = task.loss(views(leaf, specs), fixed, batch)
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        norm = gradient.norm(dim=1, keepdim=True)
        adam(flats, counts, gradient * (CLIP / norm.clamp(min=CLIP)), schedule)
        return loss.detach()

    return step


def adam(flats: list[Tensor], counts: Tensor, gradient: Tensor, schedule: Schedule) -> None:
    """Take a step of Adam along gradients ``[networks, numbers]``; vectors and counts of steps change in place."""
    weights, average, first, second = flats
    rate = schedule.rate_at(counts)
    counts.add_(1)
    first.lerp_(gradient, 1 - BETA_1)
    second.lerp_(gradient * gradient, 1 - BETA_2)
    size = (second / (1 - BETA_2**counts)).sqrt_().add_(1e-8)
    weights.sub_(rate * (first / (1 - BETA_1**counts)) / size)
    # Early weights are noise: the average forgets them faster than its final pace.
    average.lerp_(weights, (1 / (1 + counts / 10)).clamp(min=1 - AVERAGE).expand_as(average))


class CudaGraphStep:
    """A step recorded once as a CUDA graph and replayed: without it launching kernels takes most of the time."""

    def __init__(self, step: Step):
        self.step = step
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.batch: dict[str, Tensor] = {}
        self.loss = torch.zeros(0)

    def __call__(self, batch: Tensors) -> Tensor:
        """Run the first steps plainly, on a side stream as recording demands, then replay."""
        if self.graph is not None:
            for name, values in batch.items():
                self.batch[name].copy_(values)
            self.graph.replay()
            return self.loss
        self.calls += 1
        if self.calls <= 3:
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                loss = self.step(batch)
            torch.cuda.current_stream().wait_stream(side)
            return loss
        self.batch = {name: values.clone() for name, values in batch.items()}
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.step(self.batch)
        self.graph.replay()
        return self.loss
