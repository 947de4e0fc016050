"""Shapes of a rate over time: smooth curves, levels that jump and histograms, averaged by their evidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import logsumexp

from cotempo.events.curves.density import Smooth, smooth, smooth_by
from cotempo.events.curves.piecewise import (
    COARSE,
    Bins,
    Segments,
    find_dead_times,
    find_seam,
    learn_bins,
    make_bins,
    mean_rate,
    segment,
)
from cotempo.events.curves.waves import Wave, learn_waves
from cotempo.typing import Floats, Indices

DRAWS = 1000
# Models with less of the posterior than this are left out.
LEAST = 0.002
# The evidence decides, unless leaving events out one by one speaks this clearly for one kind of models, in nats: about
# three times the noise of that comparison.
CLEARLY = 20.0
# The prior odds of a smooth curve against rates in pieces, in nats.
SMOOTHNESS = 2.0
# What change points of a period pay for the seam, which was searched among coarse cells, in nats.
SEAM_PRICE = float(np.log(COARSE))


@dataclass(frozen=True)
class RateModel:
    """A model of the rate, on cells of its own with `edges` from 0 to 1, ``(cells + 1,)``.

    `kind` is ``"waves"``, ``"level"``, ``"bins"`` or ``"density"``; `evidence` the log likelihood of the data, minus
    infinity for a density, which has no prior. `moments` gives the posterior means of the rate and of one over the
    rate, `draw` rates from the posterior: at the cells, then in the dead times, ``(..., cells + runs)``. `dead` has
    start and end of the dead times cut out, ``(runs, 2)``, and `price` the penalty for having chosen them, in nats.
    Of a `closed` window, one period, the end is the start.
    """

    kind: str
    evidence: float
    edges: Floats
    moments: Callable[[], tuple[Floats, Floats]]
    draw: Callable[[int, np.random.Generator], Floats]
    dead: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    price: float = 0.0
    closed: bool = False

    def at(self, place: Floats, values: Floats) -> Floats:
        """Return values at places from 0 to 1: between the middles of smooth cells, as they are elsewhere."""
        last = len(self.edges) - 2
        if self.kind in ("level", "bins"):
            return np.asarray(values[..., np.clip(np.searchsorted(self.edges, place, side="right") - 1, 0, last)])
        if self.closed:
            position = np.mod(place * (last + 1) - 0.5, last + 1)
            left = np.minimum(position.astype(np.intp), last)
            right = (left + 1) % (last + 1)
        else:
            position = np.clip(place * (last + 1) - 0.5, 0, last)
            left = np.minimum(position.astype(np.intp), last - 1)
            right = left + 1
        found = values[..., left] + (position - left) * (values[..., right] - values[..., left])
        for run, (start, end) in enumerate(self.dead):
            found[..., (place >= start) & (place < end)] = values[..., last + 1 + run, None]
        return np.asarray(found)


@dataclass(frozen=True)
class Shape:
    """A model with its share of the posterior, its mean and draws, and the place that its window begins at."""

    model: RateModel
    weight: float
    mean: Floats
    drawn: Floats
    begin: float = 0.0

    def at(self, place: Floats, values: Floats) -> Floats:
        """Return values at places from 0 to 1."""
        return self.model.at(np.mod(place - self.begin, 1.0) if self.model.closed else place, values)

    def __repr__(self) -> str:
        return f"Shape({self.model.kind}, weight {self.weight:.3g})"


def mean_at(place: Floats, shapes: Sequence[Shape]) -> Floats:
    """Return the posterior mean at places from 0 to 1."""
    return np.asarray(sum(shape.weight * shape.at(place, shape.mean) for shape in shapes))


def draws_at(place: Floats, shapes: Sequence[Shape]) -> Floats:
    """Return the draws of all models at places from 0 to 1, ``(draws, places)``."""
    return np.concatenate([shape.at(place, shape.drawn) for shape in shapes])


def learn_shapes(count: Floats, exposure: Floats, smooth_cells: int, closed: bool = False) -> list[Shape]:
    """Average all models by their evidence, or those of one kind where that predicts events left out clearly better.

    Where the window is `closed`, one period, curves go on at its start where they end, and rates in pieces have their
    seam at the likeliest change.
    """
    seam = find_seam(count, exposure) if closed else 0
    count, exposure = np.roll(count, -seam), np.roll(exposure, -seam)
    bins = learn_bins(count, exposure)
    runs = find_dead_times(count, exposure)
    events, watched, pause = _cut_out(count, exposure, runs, smooth_cells)
    kernel = smooth(events, watched, closed)
    # A dead time may begin and end at any event.
    dead, price = runs / len(count), 2 * len(runs) * float(np.log(min(float(count.sum()) + 1, len(count))))
    kinds = {
        "level": [_piecewise_model("level", segment(count, exposure), len(count), SEAM_PRICE if closed else 0.0)],
        "bins": [_piecewise_model("bins", found, len(count)) for found in bins],
        "waves": [_wave_model(wave, dead, price, pause) for wave in learn_waves(events, watched, kernel.rate, closed)],
    }
    families = {"all": [model for models in kinds.values() for model in models], **kinds}
    families["histogram"] = [_piecewise_model("bins", max(bins, key=Bins.fit), len(count))]
    families["density"] = [_density_model(events, watched, kernel, dead, price, pause)]
    families = {name: [replace(model, closed=closed) for model in models] for name, models in families.items()}
    score = {name: leave_one_out(weigh(models), count, exposure) for name, models in families.items()}
    best = max(score, key=lambda name: score[name] + (CLEARLY if name == "all" else 0.0))
    weights = weigh(families[best])
    numbers = np.diff(np.rint(np.append(0.0, np.cumsum([share for _, share in weights])) * DRAWS)).astype(int)
    rng = np.random.default_rng(0)
    return [
        Shape(model, share, model.moments()[0], model.draw(number, rng), seam / len(count))
        for (model, share), number in zip(weights, numbers.tolist(), strict=True)
    ]


def weigh(models: list[RateModel]) -> list[tuple[RateModel, float]]:
    """Return the models that matter, and their shares of the posterior."""
    if len(models) == 1:
        return [(models[0], 1.0)]
    evidence = np.array([model.evidence for model in models])
    weight = np.exp(evidence - logsumexp(evidence))
    kept = np.flatnonzero(weight > LEAST)
    return [(models[index], float(weight[index] / weight[kept].sum())) for index in kept.tolist()]


def leave_one_out(weights: list[tuple[RateModel, float]], count: Floats, exposure: Floats) -> float:
    r"""Return the leave-one-out log likelihood, :math:`-\log E[1 / \lambda(t_i)]` of each event under the posterior."""
    place = (np.arange(len(count)) + 0.5) / len(count)
    seen = np.flatnonzero(count)
    mass, inverse = 0.0, np.zeros(len(seen))
    for model, share in weights:
        mean, over = model.moments()
        mass += share * (model.price + float((exposure * model.at(place, mean)).sum()))
        inverse += share * model.at(place[seen], over)
    return float(-(count[seen] * np.log(inverse)).sum()) - mass


def _piecewise_model(kind: str, found: Segments | Bins, cells: int, price: float = 0.0) -> RateModel:
    def moments() -> tuple[Floats, Floats]:
        return found.mean(), found.inverse()

    return RateModel(kind, found.evidence - SMOOTHNESS - price, found.cut / cells, moments, found.draw)


def _wave_model(wave: Wave, dead: Floats, price: float, pause: Bins) -> RateModel:
    def moments() -> tuple[Floats, Floats]:
        mean, inverse = wave.moments()
        return np.append(mean, pause.mean()), np.append(inverse, pause.inverse())

    def draw(draws: int, rng: np.random.Generator) -> Floats:
        return np.concatenate([wave.draw(draws, rng), pause.draw(draws, rng)], axis=1)

    edges = np.linspace(0, 1, len(wave.eta) + 1)
    evidence = wave.evidence + pause.evidence - price
    return RateModel("waves", evidence, edges, moments, draw, dead, price)


def _density_model(
    events: Floats, watched: Floats, kernel: Smooth, dead: Floats, price: float, pause: Bins
) -> RateModel:
    """Return a kernel estimate with the Bayesian bootstrap (Rubin, 1981) for its posterior."""

    def moments() -> tuple[Floats, Floats]:
        return np.append(kernel.rate, pause.mean()), np.append(1 / kernel.without, pause.inverse())

    def draw(draws: int, rng: np.random.Generator) -> Floats:
        rows = rng.gamma(np.maximum(events, 1e-9), size=(draws, len(events)))
        return np.concatenate(
            [smooth_by(rows, watched, kernel.width, kernel.closed).rate, pause.draw(draws, rng)], axis=1
        )

    edges = np.linspace(0, 1, len(events) + 1)
    return RateModel("density", -np.inf, edges, moments, draw, dead, price)


def _cut_out(count: Floats, exposure: Floats, runs: Indices, cells: int) -> tuple[Floats, Floats, Bins]:
    """Return counts and exposures of fewer cells outside dead times, and the rates inside."""
    inside = (np.arange(len(count)) >= runs[:, :1]) & (np.arange(len(count)) < runs[:, 1:])
    pause = make_bins(runs.ravel(), np.zeros(len(runs)), inside @ exposure, mean_rate(count, exposure))
    alive = np.where(inside.any(axis=0), 0.0, exposure)
    events, watched = (part.reshape(cells, -1).sum(axis=1) for part in (count, alive))
    return events, watched, pause
