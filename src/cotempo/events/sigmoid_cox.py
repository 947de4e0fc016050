"""SigmoidCox, the local model: one client's intensity over time, with a band."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from cotempo.data import Events
from cotempo.data.clock import Clock
from cotempo.errors import ParameterError
from cotempo.events.curves.piecewise import level
from cotempo.events.curves.shapes import Shape, draws_at, learn_shapes, mean_at
from cotempo.events.intensities.base import DrawnIntensity, log_likelihood
from cotempo.events.records.encoder_inputs import HISTORY
from cotempo.events.records.record import Grid, Record, as_events, read_record
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.events.intensities.fitted import EncoderIntensity, KernelCurve

# Many divisors, so that equal bins hold full cells; the shortest length scale of a smooth curve has six of its cells.
CELLS, SMOOTH_CELLS = 10_080, 1_008
# What the kernels with a network or of history are learned with where nothing is said, by name of the parameter.
LEARNED = {"inducing": 50, "cells": 1000, "steps": 40}
# How many pieces of sequences a step of a history kernel takes.
BATCH = 16
# Tempering: from how many sequences and which dispersion on, and in how many parts of the window it is measured.
SEQUENCES, LEAST_DISPERSION, PARTS = 4, 1.2, 20


@dataclass(frozen=True)
class SigmoidCox:
    r"""A sigmoidal Gaussian Cox process, learned from one client's events alone.

    .. math:: \lambda(t) = m\,\sigma(f(t)), \qquad f \sim GP(\nu, k)

    Over time, the kernel is chosen by the evidence: its length scale and amplitude, m, a period, a clock that runs
    where the function moves. Rates that jump (change points) and histograms take part; all are averaged by their
    evidence, and bands are quantiles of the posterior. Where sequences of a table differ by more than chance,
    counts are tempered as far as held-out sequences want it. Kernels with a network or of history are learned as in
    `FedPP`, by a federation of one.

    Parameters
    ----------
    kernel
        What the function depends on: ``"time"``, ``"deep"`` (a small Bayesian network of time), or the events before,
        by ``"history"`` (time since the last event and decayed counts), ``"lstm"`` or ``"attention"``.
    marks
        With a kernel of history: one intensity for each type of events.
    base
        With a kernel of history: the measure the sigmoid scales, as in `FedPP`.
    inducing, cells, steps
        With any kernel but ``"time"``: the number of inducing points (50), of cells in which events are counted (1000),
        and of steps the kernel takes (40).

    Examples
    --------
    >>> events = Events.from_arrays([np.linspace(0.1, 9.9, 50) ** 2 / 10], windows=(0, 10))
    >>> model = SigmoidCox().fit(events)
    >>> mean, lower, upper = model.intensity([1.0, 9.0])
    >>> bool(mean[0] > mean[1])
    True
    """

    kernel: Literal["time", "deep", "history", "lstm", "attention"] = "time"
    marks: bool = False
    base: str | None = None
    inducing: int | None = None
    cells: int | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        known = ("time", "deep", *HISTORY)
        if self.kernel not in known:
            raise ParameterError(f"kernel must be one of {', '.join(known)}, got {self.kernel!r}")
        for name, least in (("inducing", 2), ("cells", 2), ("steps", 1)):
            given = getattr(self, name)
            if given is not None and given < least:
                raise ParameterError(f"{name} must be at least {least}, got {given}")
            if given is not None and self.kernel == "time":
                raise ParameterError(f"{name} means nothing with kernel='time', got {given}; leave it out")
        for name in ("marks", "base"):
            if getattr(self, name) and self.kernel not in HISTORY:
                raise ParameterError(f"{name} needs a kernel of history, got kernel={self.kernel!r}; leave it out")

    def fit(self, events: Any, window: tuple[Any, Any] | None = None) -> Any:
        """Learn from a table, a dataframe of one client, or plain sorted times, numbers or dates, and their window.

        Returns a `FittedCox`, which can be updated, a `KernelCurve`, or an `EncoderIntensity` given the events before.
        """
        table = as_events(events, window)
        if self.kernel != "time":
            return self._fit_alone(table)
        record = read_record(table, condition=False)
        grid = Grid(float(record.start.min()), float(record.end.max()), CELLS)
        return FittedCox(grid, grid.count(record), grid.expose(record), choose_temper(record, grid), table.clock)

    def _fit_alone(self, table: Events) -> KernelCurve | EncoderIntensity:
        from cotempo.events.fedpp import SharedPrior

        chosen = {name: getattr(self, name) or default for name, default in LEARNED.items()}
        chosen |= {"base": self.base or "auto", "batch": BATCH} if self.kernel in HISTORY else {}
        if self.cells is None and self.base not in (None, "auto", "curve"):
            del chosen["cells"]
        rounds = chosen.pop("steps")
        federation = SharedPrior(kernel=self.kernel, marks=self.marks, rounds=rounds, **chosen)
        fitted: KernelCurve | EncoderIntensity = federation.fit({"self": table}, progress=False)["self"]
        return fitted


def choose_temper(record: Record, grid: Grid) -> float:
    """Return what counts and exposures are divided by: what predicts the other half of the sequences best.

    Bursts look like shape where events come in clusters; then sequences differ by more than Poisson counts do. One, or
    the dispersion of their counts in twenty parts, judged by change points, which follow bursts most.
    """
    number = len(record.start)
    if number < SEQUENCES:
        return 1.0
    parts = Grid(grid.start, grid.end, PARTS)
    row = np.searchsorted(record.window_sequence, record.sequence)
    cells = np.clip(((record.time - parts.start) / parts.width).astype(np.intp), 0, PARTS - 1)
    seen = np.zeros((number, PARTS))
    np.add.at(seen, (row, cells), record.count)
    watched = np.diff(np.clip(parts.edges, record.start[:, None], record.end[:, None]), axis=1)
    expected = watched * (seen.sum(axis=0) / np.maximum(watched.sum(axis=0), 1e-300))
    dispersion = float(((seen - expected) ** 2).sum() / max(float(expected.sum()), 1e-300))
    if dispersion < LEAST_DISPERSION:
        return 1.0
    halves = []
    for side in (0, 1):
        mine, windows = record.sequence % 2 == side, record.window_sequence % 2 == side
        count = np.where(mine, record.count, 0.0)
        half = replace(record, count=count, start=record.start[windows], end=record.end[windows])
        halves.append((grid.count(half), grid.expose(half)))

    def held_out(temper: float) -> float:
        pairs = ((halves[0], halves[1]), (halves[1], halves[0]))
        return sum(float(log_likelihood(*held, level(known[0] / temper, known[1] / temper))) for known, held in pairs)

    return max((1.0, dispersion), key=held_out)


class FittedCox(DrawnIntensity):
    """A learned `SigmoidCox` of time.

    `shapes` are the models the posterior is made of, with their weights: smooth curves, levels that jump and
    histograms. `temper` is what counts and exposures were divided by.
    """

    conditional: ClassVar[bool] = False

    def __init__(self, grid: Grid, count: Floats, exposure: Floats, temper: float, clock: Clock):
        self.grid, self.count, self.exposure, self.temper, self.clock = grid, count, exposure, temper, clock
        self.shapes: list[Shape] = learn_shapes(count / temper, exposure / temper, SMOOTH_CELLS)
        self.seen = (float(count.sum()), float(exposure.sum()))

    @property
    def ceiling(self) -> float:
        """A bound on the posterior mean: the highest mean of each model, weighted."""
        return sum(shape.weight * float(shape.mean.max()) for shape in self.shapes)

    def inside(self, times: Floats) -> Floats:
        """Average the posterior means of the models."""
        return mean_at(self._place(times), self.shapes)

    def update(self, events: Any, window: tuple[Any, Any] | None = None) -> FittedCox:
        """Learn on from new events; the window grows where they lie beyond it."""
        record = Record.of(as_events(events, window, self.clock), condition=False)
        start = min(self.grid.start, float(record.start.min()))
        end = max(self.grid.end, float(record.end.max()))
        grid = Grid(start, end, CELLS)
        before = np.clip(((self.grid.middles - start) / grid.width).astype(np.intp), 0, grid.cells - 1)
        count = np.bincount(before, weights=self.count, minlength=grid.cells) + grid.count(record)
        exposure = np.bincount(before, weights=self.exposure, minlength=grid.cells) + grid.expose(record)
        return FittedCox(grid, count, exposure, self.temper, self.clock)

    def drawn_inside(self, times: Floats) -> Floats:
        """Return the draws of all models."""
        return draws_at(self._place(times), self.shapes)

    def _place(self, times: Floats) -> Floats:
        """Return times as shares of the window."""
        return np.asarray(np.clip((times - self.grid.start) / (self.grid.end - self.grid.start), 0.0, 1 - 1e-12))
